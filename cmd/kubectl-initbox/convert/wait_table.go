package convert

import (
	"slices"
	"time"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// The tables of waits. Each has a file for its family.
var (
	probes = withClients(map[string]probe{
		"":                     bashTCP,
		":":                    bashTCP,
		"cat":                  bashTCP,
		"echo":                 bashTCP,
		"exec":                 bashTCP,
		"printf":               bashTCP,
		"true":                 bashTCP,
		"curl":                 curl,
		"dig":                  never("it also succeeds if there is no such name; compare what dig +short prints"),
		"drill":                never("it also succeeds if there is no such name"),
		"rabbitmqctl":          never("it asks a node by Erlang's own protocol, which does not say where AMQP listens"),
		"rabbitmq-diagnostics": never("it asks a node by Erlang's own protocol, which does not say where AMQP listens"),
		"pgrep":                never("it looks for a process of its own container"),
		"telnet":               never("its status depends on how the connection ends"),
		"wget":                 wget,
		"kubectl":              kubectl,
		"test":                 testFile,
	}, func(p client) (probe, bool) { return p.probe, true })
	comparisons = withClients(map[string]comparison{
		"dig":      digMatch,
		"nc":       netcatMatch,
		"ncat":     netcatMatch,
		"telnet":   telnetMatch,
		"echo":     echoMatch,
		"printf":   echoMatch,
		"curl":     curlMatch,
		"kubectl":  kubectlMatch,
		"nslookup": nslookupMatch,
		"wget":     wgetMatch,
	}, func(p client) (comparison, bool) { return p.compare, p.output != nil })
	waitCommands = map[string]command{
		"dockerize":      asCommand(dockerize),
		"kubectl":        kubectlCommand,
		"wait-for":       asCommand(waitFor),
		"wait-for-it":    asCommand(waitForIt),
		"wait-for-it.sh": asCommand(waitForIt),
		"wait4x":         asCommand(wait4x),
	}
	waitTools = map[string]tool{
		"dockerize":             settled(dockerize),
		"k8s-wait-for":          k8sWaitFor,
		"wait_for.sh":           k8sWaitFor,
		"kubernetes-entrypoint": kubernetesEntrypoint,
		"wait-for":              waitFor,
		"wait-for-it":           waitForIt,
		"wait-for-it.sh":        waitForIt,
		"wait4x":                wait4x,
	}
)

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
