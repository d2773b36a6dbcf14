package servers

import (
	"crypto/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// MariaDB is one MariaDB server. Its user root needs no password over its socket; the user app has all privileges on
// the database app, which has no tables.
type MariaDB struct {
	Addr     string
	Socket   string
	Password string // of app

	owner   testing.TB // the server ends with this test, even if another test restarts it
	args    []string
	process *process
}

// MariaDBOptions configures [StartMariaDB].
type MariaDBOptions struct {
	CA   *CA      // issues a certificate for 127.0.0.1 and localhost; nil for no TLS
	SQL  []string // run before the server accepts connections, one statement each
	Args []string // of mariadbd
}

// StartMariaDB creates the tables that Debian's mariadbd needs, and starts it.
func StartMariaDB(t testing.TB, o MariaDBOptions) *MariaDB {
	t.Helper()
	m := NewMariaDB(t, o)
	m.Start(t)
	return m
}

// NewMariaDB prepares a server for [MariaDB.Start].
func NewMariaDB(t testing.TB, o MariaDBOptions) *MariaDB {
	t.Helper()
	Slow(t)
	Need(t, "mariadbd")
	Need(t, "mariadb")
	install := Need(t, "mariadb-install-db")
	dir, err := os.MkdirTemp("", "initbox-mariadb") // a socket's path may have at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	m := &MariaDB{Addr: FreeAddr(t), Socket: filepath.Join(dir, "socket"), Password: rand.Text(), owner: t}
	small := []string{"--tmpdir=" + dir, // at its start, a server removes the files of all others in a shared directory
		"--innodb-data-file-path=ibdata1:5M:autoextend", "--innodb-log-file-size=4M",
		"--innodb-buffer-pool-size=8M", "--innodb-flush-log-at-trx-commit=0", "--innodb-fast-shutdown=2"}
	if os.Getuid() == 0 {
		small = append(small, "--user=root")
	}
	data := filepath.Join(dir, "data")
	args := append([]string{"--no-defaults", "--datadir=" + data, "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"}, small...)
	if out, err := exec.Command(install, args...).CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, out)
	}
	init := filepath.Join(dir, "init.sql")
	writeFile(t, init, strings.Join(append([]string{
		"CREATE DATABASE IF NOT EXISTS app;",
		"GRANT ALL ON app.* TO app@'%' IDENTIFIED BY '" + m.Password + "';",
		"DELETE FROM mysql.global_priv WHERE User='';", // accounts without a name
		"FLUSH PRIVILEGES;",
	}, o.SQL...), "\n")+"\n")
	m.args = append([]string{"--no-defaults", "--datadir=" + data, "--socket=" + m.Socket, "--pid-file=" + filepath.Join(dir, "pid"),
		"--bind-address=127.0.0.1", "--port=" + port(m.Addr), "--init-file=" + init}, small...)
	if o.CA != nil {
		pair := o.CA.Server(t, "127.0.0.1", "localhost")
		m.args = append(m.args, "--ssl-cert="+pair.CertFile, "--ssl-key="+pair.KeyFile, "--ssl-ca="+o.CA.File)
	}
	m.args = append(m.args, o.Args...)
	return m
}

// Start starts the server, for the first time or after [MariaDB.Kill], and returns when it accepts clients.
func (m *MariaDB) Start(t testing.TB) {
	t.Helper()
	m.process = run(m.owner, Need(t, "mariadbd"), m.args...)
	m.process.until(t, "listening", func() bool {
		c, err := net.DialTimeout("unix", m.Socket, time.Second)
		if err != nil {
			return false
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Second))
		n, _ := c.Read(make([]byte, 1)) // the greeting
		return n == 1
	})
}

// Kill stops the server as a crash would, by SIGKILL. The data is kept.
func (m *MariaDB) Kill(t testing.TB) { t.Helper(); m.process.kill() }

// SQL runs statements as root, and returns the result, a line for each row.
func (m *MariaDB) SQL(t testing.TB, statements string) string {
	t.Helper()
	out, err := exec.Command(Need(t, "mariadb"), "--no-defaults", "--socket="+m.Socket, "--user=root", "--batch", "--skip-column-names", "--execute="+statements).CombinedOutput()
	if err != nil {
		t.Fatalf("mariadb: %v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// Said returns the server's log.
func (m *MariaDB) Said() string { return m.process.out.String() }
