package servers

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Named is BIND as an authoritative server for one zone. It also has two zones that show misconfigurations:
const (
	ZoneServfail = "broken.test."  // configured, but not loaded: SERVFAIL
	ZoneRefused  = "refused.test." // closed to all clients: REFUSED
)

// Named also refuses every name outside its zones, as authoritative servers do.
type Named struct {
	Addr string // host:port, UDP and TCP

	zone zoneFile
	proc *process
}

// StartNamed starts Debian's BIND on a free port.
func StartNamed(t testing.TB, zone Zone) *Named {
	t.Helper()
	return StartNamedAt(t, FreeAddr(t), zone)
}

// StartNamedAt is StartNamed at an address that clients already use.
func StartNamedAt(t testing.TB, addr string, zone Zone) *Named {
	t.Helper()
	program, dir := unconfined(t, Need(t, "named")), t.TempDir()
	n := &Named{Addr: addr, zone: zoneFile{Zone: zone, path: filepath.Join(dir, "zone")}}
	n.zone.write(t, zone.Records)
	conf := filepath.Join(dir, "named.conf")
	writeConfig(t, conf, namedConf, map[string]any{
		"Dir": dir, "Port": port(addr), "Zone": n.zone.Origin, "File": n.zone.path,
		"Servfail": ZoneServfail, "Refused": ZoneRefused,
	})
	n.proc = run(t, program, "-g", "-n", "1", "-c", conf)
	n.untilServed(t)
	return n
}

// SetRecords replaces the zone's records and returns when they are served.
func (n *Named) SetRecords(t testing.TB, records ...string) {
	t.Helper()
	n.zone.write(t, records)
	if err := n.proc.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	n.untilServed(t)
}

func (n *Named) untilServed(t testing.TB) {
	t.Helper()
	n.proc.until(t, "serving its zone on "+n.Addr, func() bool { return n.zone.served(n.Addr) })
}

// unconfined returns a copy of a program. AppArmor, where it is enabled, confines the daemon by its path to /etc and
// /var; it has no profile for the copy.
func unconfined(t testing.TB, program string) string {
	t.Helper()
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), filepath.Base(program))
	WriteProgram(t, file, data)
	return file
}

const namedConf = `
options {
	directory "{{.Dir}}";
	managed-keys-directory "{{.Dir}}";
	pid-file "{{.Dir}}/named.pid";
	session-keyfile "{{.Dir}}/session.key";
	lock-file none;
	listen-on port {{.Port}} { 127.0.0.1; };
	listen-on-v6 port {{.Port}} { ::1; };
	query-source address 127.0.0.1;
	recursion no;
	dnssec-validation no;
	empty-zones-enable no;
	minimal-responses yes;
	notify no;
};
controls { };
zone "{{.Zone}}" { type primary; file "{{.File}}"; };
zone "{{.Servfail}}" { type primary; file "{{.Dir}}/no-such-file"; };
zone "{{.Refused}}" { type primary; file "{{.File}}"; allow-query { none; }; };
`
