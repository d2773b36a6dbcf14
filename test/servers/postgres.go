package servers

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Postgres is a PostgreSQL server with a database app, and the users app and postgres. The latter has all privileges,
// and needs no password over the socket.
type Postgres struct {
	Addr     string // HOST:PORT
	Socket   string // the directory of its socket
	Password string // of app

	owner   testing.TB // the server ends with this test, even if another test restarts it
	who     *syscall.Credential
	dir     string
	process *process
}

// PostgresOptions configures [StartPostgres].
type PostgresOptions struct {
	CA       *CA      // issues a certificate for localhost; nil for no TLS
	HBA      []string // lines of pg_hba.conf, before those for app with SCRAM
	Settings []string // of postgresql.conf: name=value
}

// StartPostgres starts Debian's PostgreSQL, as another user if the test runs as root, which PostgreSQL refuses.
func StartPostgres(t testing.TB, o PostgresOptions) *Postgres {
	t.Helper()
	Slow(t)
	initdb := Need(t, "initdb")
	p := newPostgres(t)
	p.Password = rand.Text()
	p.do(t, initdb, "-D", p.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "--no-instructions")
	hba := append([]string{"local all,replication postgres trust"}, o.HBA...)
	hba = append(hba, "local all app scram-sha-256", "host all app all scram-sha-256")
	p.put(t, "pg_hba.conf", []byte(strings.Join(hba, "\n")+"\n"))
	settings := append([]string{"max_wal_senders=8"}, o.Settings...)
	if o.CA != nil {
		pair := o.CA.Server(t, "localhost")
		for name, file := range map[string]string{"server.crt": pair.CertFile, "server.key": pair.KeyFile, "ca.crt": o.CA.File} {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p.put(t, name, content)
		}
		settings = append(settings, "ssl=on", "ssl_ca_file='ca.crt'")
	}
	p.configure(t, settings...)
	p.Start(t)
	p.AwaitUp(t)
	p.SQL(t, "CREATE USER app PASSWORD '"+p.Password+"'")
	p.SQL(t, "CREATE DATABASE app OWNER app")
	return p
}

// newPostgres creates a directory that the server's user can reach: only the test's user can enter those of t.TempDir.
func newPostgres(t testing.TB) *Postgres {
	t.Helper()
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &Postgres{owner: t, dir: dir, Socket: dir, Addr: FreeAddr(t)}
	if os.Getuid() == 0 {
		p.who = &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: false}
		if u, err := user.Lookup("postgres"); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			p.who.Uid, p.who.Gid = uint32(uid), uint32(gid)
		}
		p.chown(t, dir)
	}
	return p
}

func (p *Postgres) data() string { return filepath.Join(p.dir, "data") }

func (p *Postgres) chown(t testing.TB, name string) {
	t.Helper()
	if p.who == nil {
		return
	}
	if err := os.Chown(name, int(p.who.Uid), int(p.who.Gid)); err != nil {
		t.Fatal(err)
	}
}

// put writes a file in the server's directory.
func (p *Postgres) put(t testing.TB, name string, content []byte) {
	t.Helper()
	file := filepath.Join(p.data(), name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	p.chown(t, file)
}

func (p *Postgres) configure(t testing.TB, settings ...string) {
	t.Helper()
	settings = append(settings, "listen_addresses='127.0.0.1'", "port="+port(p.Addr), "unix_socket_directories='"+p.dir+"'",
		"fsync=off", "shared_buffers=16MB", "autovacuum=off", "lc_messages=C")
	p.put(t, "postgresql.conf", []byte(strings.Join(settings, "\n")+"\n"))
}

// do runs one of PostgreSQL's programs to its end, and returns its output.
func (p *Postgres) do(t testing.TB, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = DieWithParent()
	cmd.SysProcAttr.Credential = p.who
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(program), err, out)
	}
	return string(out)
}

// Start starts the server, also after [Postgres.Stop], and does not wait until it is ready.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	p.process = runAs(p.owner, p.who, nil, Need(t, "postgres"), "-D", p.data())
	process := p.process
	p.owner.Cleanup(func() { p.quit(process) })
}

// Stop stops the server at once, like pg_ctl -m immediate: it has to recover at its next start.
func (p *Postgres) Stop() { p.quit(p.process) }

func (p *Postgres) quit(process *process) {
	process.cmd.Process.Signal(syscall.SIGQUIT)
	<-process.exited
}

// AwaitUp waits until the server accepts clients.
func (p *Postgres) AwaitUp(t testing.TB) {
	t.Helper()
	ready := Need(t, "pg_isready")
	p.process.until(t, "ready", func() bool {
		return exec.Command(ready, "-q", "-h", p.Socket, "-p", port(p.Addr)).Run() == nil
	})
}

// SQL runs a statement in the database postgres and returns its result, unaligned.
func (p *Postgres) SQL(t testing.TB, statement string) string {
	t.Helper()
	return strings.TrimSpace(p.do(t, Need(t, "psql"), "-X", "-q", "-t", "-A", "-h", p.Socket, "-p", port(p.Addr), "-U", "postgres", "-d", "postgres", "-c", statement))
}

// Standby starts a standby of the server. Settings can make it reject queries.
func (p *Postgres) Standby(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	s := newPostgres(t)
	s.Password = p.Password
	s.do(t, Need(t, "pg_basebackup"), "-h", p.Socket, "-p", port(p.Addr), "-U", "postgres", "-D", s.data(), "-c", "fast", "-R", "-N")
	s.configure(t, settings...)
	s.Start(t)
	return s
}

// GoOn is the file that ends the recovery of [Postgres.StartRecovering].
func (p *Postgres) GoOn() string { return filepath.Join(p.dir, "go") }

// StartRecovering starts the server again after [Postgres.Stop]. It is starting up, waiting for an archive, until the
// file [Postgres.GoOn] exists.
func (p *Postgres) StartRecovering(t testing.TB) {
	t.Helper()
	conf, err := os.ReadFile(filepath.Join(p.data(), "postgresql.conf"))
	if err != nil {
		t.Fatal(err)
	}
	command := fmt.Sprintf("\nrestore_command='while ! test -e %s; do sleep 0.05; done; false'\n", p.GoOn())
	p.put(t, "postgresql.conf", append(conf, command...))
	p.put(t, "recovery.signal", nil)
	p.Start(t)
}
