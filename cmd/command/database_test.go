package command

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"initbox/test/servers"
)

// databases are the real servers that a script can start, by their names. Each returns what goes into the script's
// environment, with the name that the script gave before it: "" is its HOST:PORT, "_password" its password.
var databases = map[string]func(t testing.TB, options []string) map[string]string{
	"postgres": func(t testing.TB, options []string) map[string]string {
		p := servers.StartPostgres(t, servers.PostgresOptions{})
		if slices.Contains(options, "recovering") { // until there is a file $NAME_go
			p.Stop()
			p.StartRecovering(t)
		}
		_, port, _ := net.SplitHostPort(p.Addr)
		return map[string]string{"": p.Addr, "_port": port, "_password": p.Password, "_socket": p.Socket, "_go": p.GoOn()}
	},
	"kafka":     startKafka,
	"mysql":     startMySQL,
	"zookeeper": startZooKeeper,
	"memcached": func(t testing.TB, _ []string) map[string]string {
		return map[string]string{"": servers.StartMemcached(t)}
	},
	"redis": startRedis,
	"nats": func(t testing.TB, options []string) map[string]string { // lines of nats.conf
		return map[string]string{"": servers.StartNats(t, servers.NatsOptions{Config: strings.Join(options, "\n")}).Addr}
	},
	"rabbitmq": func(t testing.TB, options []string) map[string]string { // lines of rabbitmq.conf
		b := servers.StartRabbitMQ(t, servers.RabbitMQOptions{Config: strings.Join(options, "\n")})
		return map[string]string{"": b.Addr, "_password": servers.RabbitMQPassword}
	},
	"mongodb": func(t testing.TB, _ []string) map[string]string {
		return map[string]string{"": servers.StartMongoDB(t, servers.KeyPair{})}
	},
	"etcd":          startEtcd,
	"elasticsearch": startWebDatabase("elasticsearch"),
	"clickhouse":    startWebDatabase("clickhouse"),
	"influxdb":      startWebDatabase("influxdb"),
	"temporal":      startWebDatabase("temporal"),
}

// database NAME KIND [OPTION…] starts a server of [databases], and puts its address into $NAME and what else there is
// to know into $NAME_…. It ends with the script, or with the last one if scripts share it.
func cmdDatabase(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || databases[args[1]] == nil {
		ts.Fatalf("usage: database NAME KIND [OPTION…]")
	}
	env := scriptOf(ts).shared.start(&scriptTB{ts: ts}, args[1], args[2:])
	for suffix, value := range env {
		ts.Setenv(args[0]+suffix, value)
	}
}

// sharedDatabases are the databases that the scripts only read, so that one of a kind with the same options serves all.
type sharedDatabases struct {
	t *testing.T // ends after the scripts

	mu      sync.Mutex
	started map[string]func() map[string]string
}

// start starts a database for a script, or returns one that was started before.
func (s *sharedDatabases) start(script *scriptTB, kind string, options []string) map[string]string {
	name := strings.Join(append([]string{kind}, options...), " ")
	if !slices.Contains([]string{"postgres", "mysql tls", "redis", "redis password"}, name) {
		return databases[kind](script, options)
	}
	s.mu.Lock()
	if s.started == nil {
		s.started = map[string]func() map[string]string{}
	}
	if s.started[name] == nil {
		s.started[name] = sync.OnceValue(func() map[string]string { return databases[kind](sharedTB{script, s.t}, options) })
	}
	start := s.started[name]
	s.mu.Unlock()
	env := start()
	if env == nil {
		script.Fatalf("%s did not start for another script", name)
	}
	return env
}

// sharedTB starts a server for a script that others use after it.
type sharedTB struct {
	*scriptTB
	t *testing.T
}

func (s sharedTB) Cleanup(f func()) { s.t.Cleanup(f) }
func (s sharedTB) TempDir() string  { return s.t.TempDir() }

// startMySQL starts a MariaDB, with the option tls one that offers TLS by the certificate of $NAME_ca.
func startMySQL(t testing.TB, options []string) map[string]string {
	var o servers.MariaDBOptions
	env := map[string]string{}
	if len(options) > 0 {
		o.CA = servers.NewCA(t)
		env["_ca"] = o.CA.File
	}
	m := servers.StartMariaDB(t, o)
	env[""], env["_password"], env["_socket"] = m.Addr, m.Password, m.Socket
	return env
}

func startZooKeeper(t testing.TB, _ []string) map[string]string {
	z := servers.NewZooKeepers(t, servers.ZooKeeperOptions{})[0]
	z.Start(t)
	return map[string]string{"": z.Addr}
}

// startRedis starts a Redis; with the option password one that needs a password, with loading one that needs a long
// time for its data, and with sentinel HOST:PORT a sentinel that calls the server there mymaster.
func startRedis(t testing.TB, options []string) map[string]string {
	const password = "hUnter2-of-redis"
	switch kind := strings.Join(options[:min(len(options), 1)], ""); kind {
	case "password":
		return map[string]string{"": servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", password}}).Addr, "_password": password}
	case "sentinel":
		host, port, _ := net.SplitHostPort(options[1])
		return map[string]string{"": servers.StartRedis(t, servers.RedisOptions{Sentinel: "sentinel monitor mymaster " + host + " " + port + " 1\n"}).Addr}
	case "loading":
		r := servers.StartRedis(t, servers.RedisOptions{})
		r.StartLoading(t)
		return map[string]string{"": r.Addr}
	}
	return map[string]string{"": servers.StartRedis(t, servers.RedisOptions{}).Addr}
}
