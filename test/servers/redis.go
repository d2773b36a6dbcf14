package servers

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Redis is a server, a sentinel or a member of a cluster, whose data lives as long as the test.
type Redis struct {
	Addr   string
	Socket string
	Client KeyPair // a certificate that it accepts over TLS; empty without TLS

	owner   testing.TB // the server ends with this test, even if another test restarts it
	dir     string
	ca      *CA
	args    []string
	process *process
}

// RedisOptions configures [StartRedis].
type RedisOptions struct {
	CA   *CA      // for TLS, with certificates of it for the server and its clients; nil for plaintext
	Args []string // as in redis.conf: "--requirepass", "secret"

	Sentinel string // configuration of a sentinel: "sentinel monitor mymaster 127.0.0.1 6379 1\n"
}

// StartRedis starts Debian's Redis, and returns when it is listening. It may still be loading its data.
func StartRedis(t testing.TB, o RedisOptions) *Redis {
	t.Helper()
	r := &Redis{Addr: FreeAddr(t), owner: t, dir: t.TempDir(), ca: o.CA}
	Need(t, "redis-server")
	r.Socket = filepath.Join(r.dir, "redis.sock")
	config := filepath.Join(r.dir, "redis.conf")
	writeFile(t, config, o.Sentinel)
	r.args = []string{config, "--bind", "127.0.0.1", "--dir", r.dir, "--daemonize", "no"}
	if o.Sentinel == "" {
		r.args = append(r.args, "--save", "", "--enable-debug-command", "local", "--unixsocket", r.Socket)
	}
	if o.CA == nil {
		r.args = append(r.args, "--port", port(r.Addr))
	} else {
		pair := o.CA.Server(t, "127.0.0.1", "localhost")
		r.Client = o.CA.Client(t, "initbox")
		r.args = append(r.args, "--port", "0", "--tls-port", port(r.Addr), "--tls-ca-cert-file", o.CA.File,
			"--tls-cert-file", pair.CertFile, "--tls-key-file", pair.KeyFile)
	}
	r.args = append(r.args, o.Args...)
	if o.Sentinel != "" {
		r.args = append(r.args, "--sentinel")
	}
	r.Start(t)
	return r
}

// Start starts the server again after [Redis.Stop], with the data that it has saved, and additional arguments for this
// start.
func (r *Redis) Start(t testing.TB, more ...string) {
	t.Helper()
	args := append(r.args[:len(r.args):len(r.args)], more...)
	r.process = run(r.owner, Need(t, "redis-server"), args...)
	r.process.untilListening(t, r.Addr)
}

// StartLoading starts the server again with data that it reads slowly, until CONFIG SET key-load-delay 0. The arguments
// are redis-cli's for the login.
func (r *Redis) StartLoading(t testing.TB, login ...string) {
	t.Helper()
	r.Call(t, append(login[:len(login):len(login)], "DEBUG", "POPULATE", "20000")...)
	r.Call(t, append(login[:len(login):len(login)], "SAVE")...)
	r.Stop(t)
	r.Start(t, "--key-load-delay", "5000", "--loading-process-events-interval-bytes", "1024")
}

// Stop stops the server.
func (r *Redis) Stop(t testing.TB) { t.Helper(); r.process.stop() }

// Call runs redis-cli, and returns the server's answer, which may be an error.
func (r *Redis) Call(t testing.TB, args ...string) string {
	t.Helper()
	all := []string{"-h", "127.0.0.1", "-p", port(r.Addr), "--no-auth-warning"}
	if r.ca != nil {
		all = append(all, "--tls", "--cacert", r.ca.File, "--cert", r.Client.CertFile, "--key", r.Client.KeyFile)
	}
	out, err := exec.Command(Need(t, "redis-cli"), append(all, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Until repeats a call until the answer contains the text.
func (r *Redis) Until(t testing.TB, text string, args ...string) {
	t.Helper()
	r.process.until(t, "saying "+text, func() bool { return strings.Contains(r.Call(t, args...), text) })
}
