package convert

import (
	"slices"
	"time"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// The tables of waits. Each has a file for its family.
var (
	probes = map[string]probe{
		"":                             bashTCP,
		":":                            bashTCP,
		"cat":                          bashTCP,
		"echo":                         bashTCP,
		"exec":                         bashTCP,
		"printf":                       bashTCP,
		"true":                         bashTCP,
		"nc":                           netcat,
		"ncat":                         netcat,
		"netcat":                       netcat,
		"curl":                         curl,
		"getent":                       client{"", getent}.probe(),
		"dig":                          never("it also succeeds if there is no such name; compare what dig +short prints"),
		"drill":                        never("it also succeeds if there is no such name"),
		"rabbitmqctl":                  never("it asks a node by Erlang's own protocol, which does not say where AMQP listens"),
		"rabbitmq-diagnostics":         never("it asks a node by Erlang's own protocol, which does not say where AMQP listens"),
		"pgrep":                        never("it looks for a process of its own container"),
		"telnet":                       never("its status depends on how the connection ends"),
		"host":                         client{"4; 6; W=; t=", host}.probe(),
		"nslookup":                     nslookup,
		"wget":                         wget,
		"kubectl":                      kubectl,
		"cqlsh":                        cqlsh,
		"etcdctl":                      etcdctl,
		"kafka-broker-api-versions":    kafkaVersions,
		"kafka-broker-api-versions.sh": kafkaVersions,
		"kafka-topics":                 kafkaTopics,
		"kafka-topics.sh":              kafkaTopics,
		"kafkacat":                     kcat,
		"kcat":                         kcat,
		"mongo":                        mongosh,
		"mongosh":                      mongosh,
		"mariadb":                      mysql,
		"mariadb-admin":                mysqladmin,
		"mysql":                        mysql,
		"mysqladmin":                   mysqladmin,
		"pg_isready":                   client{"h host=; p port=; U username=; d dbname=; t timeout=; q quiet", pgIsReady}.probe(),
		"psql":                         psql,
		"redis-cli":                    redisCLI,
		"valkey-cli":                   redisCLI,
		"test":                         testFile,
		"grpc_health_probe":            client{"addr=; service=; connect-timeout=; rpc-timeout=; tls; tls-no-verify; tls-ca-cert=; tls-server-name=; user-agent=; v", grpcHealth}.goProbe(),
		"grpc-health-probe":            client{"addr=; service=; connect-timeout=; rpc-timeout=; tls; tls-no-verify; tls-ca-cert=; tls-server-name=; user-agent=; v", grpcHealth}.goProbe(),
	}
	comparisons = map[string]comparison{
		"dig":        digMatch,
		"mariadb":    mysqlMatch,
		"mysql":      mysqlMatch,
		"nc":         netcatMatch,
		"ncat":       netcatMatch,
		"telnet":     telnetMatch,
		"echo":       echoMatch,
		"printf":     echoMatch,
		"curl":       curlMatch,
		"kubectl":    kubectlMatch,
		"psql":       psqlMatch,
		"redis-cli":  redisMatch,
		"valkey-cli": redisMatch,
		"wget":       wgetMatch,
	}
	waitCommands = map[string]command{
		"dockerize":      asCommand(dockerize),
		"kubectl":        kubectlCommand,
		"wait-for":       asCommand(waitForIt),
		"wait-for-it":    asCommand(waitForIt),
		"wait-for-it.sh": asCommand(waitForIt),
		"wait4x":         asCommand(wait4x),
	}
	waitTools = map[string]tool{
		"dockerize":             settled(dockerize),
		"k8s-wait-for":          k8sWaitFor,
		"wait_for.sh":           k8sWaitFor,
		"kubernetes-entrypoint": kubernetesEntrypoint,
		"wait-for":              waitForIt,
		"wait-for-it":           waitForIt,
		"wait-for-it.sh":        waitForIt,
		"wait4x":                wait4x,
	}
)

// client is a program whose call depends on its options and arguments alone: it reads no input, and nothing but its
// status counts.
type client struct {
	options string // as for optionsOf
	step    func(g given, call *shell.Call, c *manifest.Container) (Step, error)
}

func (p client) probe() probe {
	return func(call *shell.Call, c *manifest.Container) (Step, error) { return p.run(options.read, call, c) }
}

func (p client) goProbe() probe {
	return func(call *shell.Call, c *manifest.Container) (Step, error) { return p.run(options.readGo, call, c) }
}

func (p client) run(read func(options, []shell.Word) (given, error), call *shell.Call, c *manifest.Container) (Step, error) {
	if err := noPipes(call); err != nil {
		return Step{}, err
	}
	g, err := read(optionsOf(p.options), call.Args)
	if err != nil {
		return Step{}, err
	}
	return p.step(g, call, c)
}

// never returns the probe of a program whose status says something else.
func never(why string) probe {
	return func(call *shell.Call, _ *manifest.Container) (Step, error) {
		return Step{}, &shell.Error{Pos: call.Pos, Word: call.Name, Why: why}
	}
}

// limited returns a step whose attempts end after a time, as those of timeout 5 nc … do; 0 means none.
func limited(s Step, limit time.Duration) Step {
	if limit > 0 && !slices.ContainsFunc(s.Flags, func(f Flag) bool { return f.Name == "attempt-timeout" }) {
		s.Flags = append(slices.Clone(s.Flags), Flag{"attempt-timeout", limit.String()})
		s.Differs = slices.DeleteFunc(slices.Clone(s.Differs), func(d string) bool { return d == attemptEnds })
	}
	return s
}

// wait returns the step that waits for targets.
func wait(why string, targets ...string) Step {
	return Step{Subcommand: "wait-for-service", Args: targets, Why: why}
}
