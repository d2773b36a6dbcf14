package servers

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// RabbitMQ is one broker. Its data lives as long as the test.
type RabbitMQ struct {
	Addr    string
	TLSAddr string // "" without TLS

	env     []string
	process *process
}

// RabbitMQPassword is the password of all users: app, with all permissions in the virtual host "/", which has a queue
// jobs and an exchange events, and none in the virtual host "closed"; and idle, which can only log in.
const RabbitMQPassword = "hUnter2/tIger9"

// rabbitDir has the programs themselves. Those in /usr/sbin must be run by root or the user rabbitmq, and always use
// Debian's directories.
const rabbitDir = "/usr/lib/rabbitmq/bin/"

// RabbitMQOptions configures [StartRabbitMQ].
type RabbitMQOptions struct {
	// CA enables TLS. A client certificate of the CA is accepted as a login of the user whose name it has.
	CA     *CA
	Config string // more lines of rabbitmq.conf
}

// StartRabbitMQ starts Debian's RabbitMQ, and returns while that boots. For some seconds, connections are refused.
func StartRabbitMQ(t testing.TB, o RabbitMQOptions) *RabbitMQ {
	t.Helper()
	Slow(t)
	Need(t, "rabbitmq-server")
	dir := t.TempDir()
	r := &RabbitMQ{Addr: FreeAddr(t)}
	epmd, dist := FreeAddr(t), FreeAddr(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	config := fmt.Sprintf("load_definitions = %s\nloopback_users = none\nlisteners.tcp.1 = %s\n", path("definitions.json"), r.Addr) + o.Config
	plugins := "[]."
	if ca := o.CA; ca != nil {
		r.TLSAddr = FreeAddr(t)
		pair := ca.Server(t, "127.0.0.1", "localhost")
		plugins = "[rabbitmq_auth_mechanism_ssl]."
		config += fmt.Sprintf("listeners.ssl.1 = %s\nssl_options.cacertfile = %s\nssl_options.certfile = %s\nssl_options.keyfile = %s\n"+
			"ssl_options.verify = verify_peer\nssl_cert_login_from = common_name\nauth_mechanisms.1 = PLAIN\nauth_mechanisms.2 = EXTERNAL\n",
			r.TLSAddr, ca.File, pair.CertFile, pair.KeyFile)
	}
	writeFile(t, path("rabbitmq.conf"), config)
	writeFile(t, path("plugins"), plugins)
	writeFile(t, path("definitions.json"), rabbitDefinitions(t))
	r.env = append(os.Environ(), "HOME="+dir, "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_NODENAME=test@localhost",
		"RABBITMQ_MNESIA_BASE="+path("mnesia"), "RABBITMQ_LOG_BASE="+path("log"), "RABBITMQ_LOGS=-", "RABBITMQ_GENERATED_CONFIG_DIR="+path("generated"),
		"RABBITMQ_CONFIG_FILE="+path("rabbitmq.conf"), "RABBITMQ_ENABLED_PLUGINS_FILE="+path("plugins"), "RABBITMQ_FEATURE_FLAGS_FILE="+path("features"),
		"ERL_EPMD_PORT="+port(epmd), "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_DIST_PORT="+port(dist),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1}",
		"detached=1") // no Erlang shell
	// Erlang's name server: the broker would start one that outlives it.
	names := run(t, Need(t, "epmd"), "-port", port(epmd), "-address", "127.0.0.1")
	names.untilListening(t, epmd)
	r.process = runWith(t, r.env, rabbitDir+"rabbitmq-server")
	return r
}

// rabbitDefinitions are the broker's initial objects (https://www.rabbitmq.com/docs/definitions).
func rabbitDefinitions(t testing.TB) string {
	type object = map[string]any
	user := func(name string) object {
		return object{"name": name, "password": RabbitMQPassword, "tags": []string{}}
	}
	data, err := json.Marshal(object{
		"users":       []object{user("app"), user("idle")},
		"vhosts":      []object{{"name": "/"}, {"name": "closed"}, {"name": "a/b"}},
		"permissions": []object{{"user": "app", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}, {"user": "app", "vhost": "a/b", "configure": "", "write": "", "read": ""}},
		"queues":      []object{{"name": "jobs", "vhost": "/", "durable": true, "auto_delete": false, "arguments": object{}}},
		"exchanges":   []object{{"name": "events", "vhost": "/", "type": "topic", "durable": true, "auto_delete": false, "internal": false, "arguments": object{}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Kill stops the broker as a crash would, by SIGKILL.
func (r *RabbitMQ) Kill(t testing.TB) { t.Helper(); r.process.kill() }

// Control runs rabbitmqctl with the arguments, and returns its output.
func (r *RabbitMQ) Control(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(rabbitDir+"rabbitmqctl", append([]string{"--quiet"}, args...)...)
	cmd.Env, cmd.SysProcAttr = r.env, DieWithParent()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("rabbitmqctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
