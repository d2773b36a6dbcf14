package servers

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
)

// SSHD is OpenSSH's server. It accepts only the user that the test runs as, the only possible one unless that is root.
// The user's shell runs the requested commands, such as git-upload-pack.
type SSHD struct {
	Addr     string // host:port, a port that is not 22
	User     string
	HostKeys []string // the private key files; .pub has the public parts
	Log      *Output
}

// SSHDOptions configures [StartSSHD].
type SSHDOptions struct {
	HostKeys   []string // types, as in ssh-keygen -t; nil for ed25519
	HostCA     string   // private key file of the CA that signs the host keys, for 127.0.0.1; "" for none
	Authorized []string // public key files of accepted clients
	UserCA     string   // public key file of the CA for users' keys; "" for none
	NoEnv      bool     // accepts no variables: git-upload-pack speaks version 0
	Config     string   // lines before all others
}

// StartSSHD starts Debian's sshd.
func StartSSHD(t testing.TB, o SSHDOptions) *SSHD {
	t.Helper()
	Slow(t)
	program, dir := Need(t, "sshd"), t.TempDir()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 { // the path is compiled in; the service's unit creates the directory
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &SSHD{Addr: FreeAddr(t), User: me.Username}
	if o.HostKeys == nil {
		o.HostKeys = []string{"ed25519"}
	}
	for _, kind := range o.HostKeys {
		var more []string
		if kind == "rsa" {
			more = []string{"-b", "2048"} // faster than the default
		}
		key := SSHKey(t, filepath.Join(dir, "host_"+kind), kind, "", more...)
		if o.HostCA != "" {
			SSHKeygen(t, "-q", "-s", o.HostCA, "-I", "host", "-h", "-n", "127.0.0.1", key+".pub")
		}
		s.HostKeys = append(s.HostKeys, key)
	}
	var authorized strings.Builder
	for _, file := range o.Authorized {
		authorized.WriteString(readFile(t, file) + "\n")
	}
	writeFile(t, filepath.Join(dir, "authorized_keys"), authorized.String())
	host, port, _ := net.SplitHostPort(s.Addr)
	conf := filepath.Join(dir, "sshd_config")
	writeConfig(t, conf, sshdConf, struct {
		*SSHD
		SSHDOptions
		Dir, Host, Port string
	}{s, o, dir, host, port})
	args := []string{"-D", "-e", "-f", conf}
	// Since OpenSSH 9.8, a client that often fails has to wait, and tests fail often; earlier versions do not know the
	// option.
	lenient := []string{"-o", "PerSourcePenalties=no"}
	if exec.Command(program, append([]string{"-t", "-f", conf}, lenient...)...).Run() == nil {
		args = append(args, lenient...)
	}
	p := run(t, program, args...)
	p.untilListening(t, s.Addr)
	s.Log = p.out
	return s
}

// KnownHosts returns the line of a known_hosts file for one of the host keys.
func (s *SSHD) KnownHosts(t testing.TB, key int) string {
	t.Helper()
	host, port, _ := net.SplitHostPort(s.Addr)
	return "[" + host + "]:" + port + " " + readFile(t, s.HostKeys[key]+".pub")
}

// SSHKey creates a key, with its public part in FILE.pub, and returns the file. Further arguments are passed to
// ssh-keygen.
func SSHKey(t testing.TB, file, kind, passphrase string, more ...string) string {
	t.Helper()
	SSHKeygen(t, append([]string{"-q", "-t", kind, "-f", file, "-N", passphrase, "-C", "test"}, more...)...)
	return file
}

// SSHKeygen runs ssh-keygen.
func SSHKeygen(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command(Need(t, "ssh-keygen"), args...).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func readFile(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The modes of the directories above the test's directory, and PAM, do not matter to the test. No configuration of git
// is read.
const sshdConf = `{{.Config}}
ListenAddress {{.Host}}:{{.Port}}
PidFile none
UsePAM no
StrictModes no
LogLevel VERBOSE
MaxStartups 1000
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile {{.Dir}}/authorized_keys
{{range .SSHD.HostKeys}}HostKey {{.}}
{{if $.HostCA}}HostCertificate {{.}}-cert.pub
{{end}}{{end}}
{{- with .UserCA}}TrustedUserCAKeys {{.}}
{{end}}
{{- if not .NoEnv}}AcceptEnv GIT_PROTOCOL
{{end}}SetEnv GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
`
