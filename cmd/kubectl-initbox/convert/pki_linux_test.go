package convert

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"initbox/internal/certs"
	"initbox/test/soak"
)

// pkiScripts run with real tools. What their replacements leave must be the same but for the lines, which differ.
var pkiScripts = []struct{ script, mounts, differs string }{
	{script: "cat /etc/ssl/certs/ca-certificates.crt /mnt/certs/ca.crt > /mnt/out/ca.crt"},
	{script: "cp /etc/ssl/certs/ca-certificates.crt /mnt/out/ca.crt && cat /mnt/certs/*.crt >> /mnt/out/ca.crt"},
	{script: "cp /etc/ssl/certs/ca-certificates.crt /mnt/out/ca.crt; echo >> /mnt/out/ca.crt; cat /mnt/certs/ca.crt >> /mnt/out/ca.crt"},
	{script: `cp /etc/ssl/certs/ca-certificates.crt /mnt/out/ca.crt; for f in /mnt/certs/*.crt; do cat "$f" >> /mnt/out/ca.crt; echo >> /mnt/out/ca.crt; done`},
	{script: "cat /mnt/certs/ca.crt /mnt/tls/tls.crt | tee /mnt/out/ca.crt"},
	{script: "update-ca-certificates && cp /etc/ssl/certs/ca-certificates.crt /mnt/out/"},
	{script: "cp /mnt/certs/ca.crt /usr/local/share/ca-certificates/ && update-ca-certificates --fresh && cp -L /etc/ssl/certs/* /mnt/out/"},
	{script: "update-ca-certificates && cat /etc/ssl/certs/ca-certificates.crt /mnt/tls/ca.crt > /mnt/out/ca.crt"},
	{script: "update-ca-certificates", mounts: "/etc/ssl/certs"},

	{script: "keytool -importcert -noprompt -alias ca -file /mnt/certs/ca.crt -keystore /mnt/out/ts -storepass changeit"},
	{script: `keytool -import -trustcacerts -noprompt -alias ca -file /mnt/certs/ca.crt -keystore /mnt/out/ts.p12 -storetype PKCS12 -storepass "$PASSWORD"`},
	{script: `keytool -importcert -noprompt -alias a -storepass:env PASSWORD -storetype JKS -keystore /mnt/out/ts < /mnt/certs/ca.crt && keytool -importcert -noprompt -alias tls -file /mnt/tls/chain.crt -keystore /mnt/out/ts -storepass:env PASSWORD`, differs: "+ ts -rw-r--r-- trusts TLS CA\n"},
	{script: "cp /mnt/jdk/lib/security/cacerts /mnt/out/ && keytool -importcert -noprompt -alias ca -file /mnt/certs/ca.crt -keystore /mnt/out/cacerts -storepass changeit"},
	{script: `for f in /mnt/certs/*.crt; do keytool -importcert -noprompt -alias "$(basename "$f" .crt)" -file "$f" -keystore /mnt/out/ts -storepass changeit; done`},
	{script: "keytool -importcert -noprompt -alias two -file /mnt/tls/two.crt -keystore /mnt/out/ts -storepass changeit", differs: "+ ts -rw-r--r-- trusts Other CA\n"},
	{script: `keytool -importkeystore -srckeystore /mnt/jdk/lib/security/cacerts -srcstorepass changeit -destkeystore /mnt/out/ts -deststorepass "$PASSWORD" && keytool -importcert -noprompt -alias ca -file /mnt/certs/ca.crt -keystore /mnt/out/ts -storepass "$PASSWORD"`},

	{script: "openssl pkcs12 -export -in /mnt/tls/tls.crt -inkey /mnt/tls/tls.key -name web -out /mnt/out/k.p12 -passout env:PASSWORD"},
	{script: "openssl pkcs12 -export -in /mnt/tls/chain.crt -inkey /mnt/tls/tls.key -out /mnt/out/k.p12 -passout pass:changeit"},
	{script: "openssl pkcs12 -export -in /mnt/tls/tls.crt -inkey /mnt/tls/tls.key -chain -CAfile /mnt/tls/ca.crt -name Web -out /mnt/out/k.p12 -passout env:PASSWORD", differs: "+ k.p12 -rw------- trusts TLS CA\n"},
	{script: "openssl pkcs12 -export -in /mnt/tls/tls.crt -inkey /mnt/tls/tls.key -certfile /mnt/tls/ca.crt -name web -out /mnt/out/k.p12 -passout file:/mnt/tls/password", differs: "+ k.p12 -rw------- trusts TLS CA\n"},
	{script: `openssl pkcs12 -export -in /mnt/tls/chain.crt -inkey /mnt/tls/tls.key -name web -out /mnt/tmp/k.p12 -passout "pass:$PASSWORD" && keytool -importkeystore -noprompt -srckeystore /mnt/tmp/k.p12 -srcstoretype PKCS12 -srcstorepass "$PASSWORD" -destkeystore /mnt/out/k.jks -deststoretype JKS -deststorepass "$PASSWORD" && rm /mnt/tmp/k.p12`},
	{script: `openssl pkcs12 -export -in /mnt/tls/chain.crt -inkey /mnt/tls/tls.key -name web -out /mnt/out/k.p12 -passout env:PASSWORD && keytool -importkeystore -srckeystore /mnt/out/k.p12 -srcstorepass "$PASSWORD" -srcalias web -destalias app -destkeystore /mnt/out/k.jks -deststorepass "$PASSWORD"`},
	{script: `openssl pkcs12 -export -in /mnt/tls/chain.crt -inkey /mnt/tls/tls.key -name web -out /mnt/tmp/k.p12 -passout env:PASSWORD; keytool -importkeystore -srckeystore /mnt/tmp/k.p12 -srcstorepass "$PASSWORD" -destkeystore /mnt/out/k.jks -deststorepass "$PASSWORD"; keytool -import -noprompt -alias ca -file /mnt/certs/ca.crt -keystore /mnt/out/k.jks -storepass "$PASSWORD"`},

	{script: "openssl genrsa -out /mnt/out/key.pem 2048; openssl genrsa -traditional -out /mnt/out/old.pem 3072"},
	{script: "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out /mnt/out/key.pem; openssl genpkey -algorithm ed25519 > /mnt/out/ed.pem"},
	{script: "openssl ecparam -name prime256v1 -genkey -noout -out /mnt/out/key.pem; openssl genpkey -algorithm RSA -out /mnt/out/rsa.pem"},
	{script: "ssh-keygen -q -t ed25519 -N '' -C me -f /mnt/out/id", differs: "- id.pub -rw-r--r-- ssh-ed25519 of 3 words\n+ id.pub -rw------- ssh-ed25519 of 3 words\n"},
	{script: "ssh-keygen -q -t ecdsa -b 521 -N '' -C me -f /mnt/out/id && chmod 644 /mnt/out/id.pub"},
	{script: "openssl rand -hex 20 > /mnt/out/hex; openssl rand -base64 30 | tr -d '\\n' > /mnt/out/base64; head -c 16 /dev/urandom > /mnt/out/raw", differs: "- hex -rw-r--r-- 40 hex and a line break\n+ hex -rw-r--r-- 40 hex\n"},
	{script: "tr -dc a-f </dev/urandom | head -c 24 > /mnt/out/password; cat /proc/sys/kernel/random/uuid | tr -d '\\n' > /mnt/out/uuid"},
}

// pkiImage is what the image of a container has: two roots, of which Debian has made its bundle. The arguments are the
// directory with what is mounted, that of the image's certificates in it, and the command.
const pkiImage = `mount -t tmpfs none /mnt && cd /mnt && mkdir out certs tls jdk tmp
for dir in out certs tls jdk; do mount --bind "$1/$dir" $dir; done
mount --bind "$1/local" /usr/local/share/ca-certificates
mount --bind "$1/share" /usr/share/ca-certificates
mount --bind "$1/share" /etc/ca-certificates/update.d
mount --bind "$1/conf" /etc/ca-certificates.conf
mount --bind "$1/$2" /etc/ssl/certs
shift 2; exec "$@"`

const pkiFiles = `ca() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=$1" -keyout "$2.key" -out "$2.crt"; }
mkdir -p share local volume out certs tls jdk/lib/security etc && ca "Root 1" share/one && ca "Root 2" share/two && ca "Local CA" local/company && ca "Mounted CA" certs/ca && ca "Other CA" other
ca "TLS CA" tls/ca && openssl req -newkey rsa:2048 -nodes -subj /CN=web -keyout tls/tls.key -out web.csr && openssl x509 -req -in web.csr -CA tls/ca.crt -CAkey tls/ca.key -days 1 -out tls/tls.crt
rm */*ca.key share/*.key local/*.key; cat tls/tls.crt tls/ca.crt > tls/chain.crt; printf hunter22 > tls/password; printf 'one.crt\ntwo.crt\n' > conf
cat certs/ca.crt other.crt > tls/two.crt`

// TestStoresVariety runs scripts with keytool, OpenSSL, ssh-keygen and update-ca-certificates, and what replaces them,
// and compares the certificates, the keys, their aliases, and the modes of the files. Each script runs with one of the
// JDKs; under make soak with all of them.
func TestStoresVariety(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root, and a minute")
	}
	for _, program := range []string{"openssl", "ssh-keygen", "update-ca-certificates"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	if out, err := exec.Command("unshare", "-m", "true").CombinedOutput(); err != nil {
		t.Skipf("no mount namespace: %v: %s", err, out)
	}
	jdks, err := filepath.Glob("/usr/lib/jvm/*/bin/keytool")
	if err != nil || len(jdks) == 0 {
		t.Skip("no JDK")
	}
	jdks = slices.CompactFunc(jdks, func(a, b string) bool {
		first, _ := filepath.EvalSymlinks(a)
		second, _ := filepath.EvalSymlinks(b)
		return first == second
	})
	files := t.TempDir()
	if out, err := exec.Command("sh", "-ec", "cd "+files+"\n"+pkiFiles).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, c := range pkiScripts {
		for n, keytool := range jdks {
			if n != i%len(jdks) && !(soak.Running(t) && strings.Contains(c.script, "keytool")) {
				continue
			}
			t.Run(fmt.Sprintf("%d/%d", i, n), func(t *testing.T) {
				t.Parallel()
				d := realStores{files: files, keytool: keytool, password: "changeit"}
				if strings.Contains(c.script, "PASSWORD") || strings.Contains(c.script, "password") {
					d.password = "hunter22"
				}
				line, _, change := pkiResult(t, pkiCase{script: c.script, mounts: c.mounts})
				if change.Verdict == Kept {
					t.Fatalf("%s: %s", c.script, line)
				}
				want := d.run(t, c.mounts, "sh", "-ec", c.script)
				self, err := os.Executable()
				if err != nil {
					t.Fatal(err)
				}
				program := filepath.Join(t.TempDir(), "initbox")
				if err := os.Symlink(self, program); err != nil {
					t.Fatal(err)
				}
				got := d.run(t, c.mounts, append([]string{program}, strings.Fields(line)...)...)
				if diff := difference(want, got); diff != c.differs {
					t.Errorf("%s\n%s\ngot\n%swant\n%s", c.script, line, diff, c.differs)
				}
			})
		}
	}
}

type realStores struct{ files, keytool, password string }

// run runs a command in the image and describes what it has left.
func (d realStores) run(t *testing.T, mounts string, command ...string) []string {
	t.Helper()
	dir := t.TempDir()
	image := func(certificates string, command ...string) *exec.Cmd {
		return exec.Command("unshare", append([]string{"-m", "sh", "-ec", pkiImage, "sh", dir, certificates}, command...)...)
	}
	cacerts := filepath.Join(filepath.Dir(d.keytool), "../lib/security/cacerts")
	run := []*exec.Cmd{exec.Command("cp", "-a", d.files+"/.", dir), exec.Command("cp", "-L", cacerts, dir+"/jdk/lib/security/"), image("etc", "update-ca-certificates")}
	if mounts == "" {
		run = append(run, image("etc", command...))
	} else { // in the volume are links into the image
		run = append(run, image("volume", command...), image("volume", "sh", "-c", "cp -L "+mounts+"/* /mnt/out/"))
	}
	for _, cmd := range run {
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(d.keytool)+":"+os.Getenv("PATH"), "PASSWORD=hunter22", "JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", command, err, out)
		}
	}
	var lines []string
	err := filepath.WalkDir(filepath.Join(dir, "out"), func(name string, e fs.DirEntry, err error) error {
		hashes, _ := filepath.Glob(filepath.Join(filepath.Dir(name), "????????.?"))
		if err == nil && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && (len(hashes) == 0 || filepath.Ext(name) != ".pem") {
			stat, err := os.Stat(name)
			if err != nil {
				return err
			}
			for _, line := range d.describe(t, name) {
				lines = append(lines, fmt.Sprintf("%s %v %s", e.Name(), stat.Mode(), line))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

var pkiTexts = []struct{ pattern, name string }{
	{`^[a-f]+$`, "of a-f"}, {`^[0-9a-f]+$`, "hex"}, {`^[0-9a-f-]{36}$`, "UUID"}, {`^[A-Za-z0-9+/=]+$`, "base64"},
}

// describe returns what is in a file.
func (d realStores) describe(t *testing.T, name string) (lines []string) {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	found, err := certs.Parse(data, name, d.password)
	key, errKey := certs.ParseKey(data, nil)
	block, _ := pem.Decode(data)
	switch {
	case err == nil && block != nil:
		for _, e := range found.Entries {
			lines = append(lines, e.Cert.Subject.String())
		}
		return lines
	case strings.HasPrefix(string(data), "\xfe\xed") || len(data) > 500 && block == nil:
		return d.store(t, name)
	case errKey == nil:
		switch k := key.(type) {
		case *rsa.PrivateKey:
			return []string{fmt.Sprint(block.Type, " RSA ", k.N.BitLen())}
		case *ecdsa.PrivateKey:
			return []string{block.Type + " " + k.Params().Name}
		case ed25519.PrivateKey:
			return []string{block.Type + " Ed25519"}
		}
	case strings.HasSuffix(name, ".pub"):
		words := strings.Fields(string(data))
		return []string{fmt.Sprint(words[0], " of ", len(words), " words")}
	}
	text, end := strings.CutSuffix(string(data), "\n")
	for _, c := range pkiTexts {
		if regexp.MustCompile(c.pattern).MatchString(text) {
			return []string{fmt.Sprint(len(text), " ", c.name, map[bool]string{true: " and a line break"}[end])}
		}
	}
	return []string{fmt.Sprint(len(data), " bytes")}
}

// store returns the entries of a store as the JDK reads them.
func (d realStores) store(t *testing.T, name string) (lines []string) {
	cmd := exec.Command(d.keytool, "-list", "-rfc", "-keystore", name, "-storepass", d.password)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	for _, entry := range strings.Split(string(out), "Alias name: ")[1:] {
		alias, rest, _ := strings.Cut(entry, "\n")
		var chain []string
		for block, rest := pem.Decode([]byte(rest)); block != nil; block, rest = pem.Decode(rest) {
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				chain = append(chain, strings.TrimPrefix(cert.Subject.String(), "CN="))
			}
		}
		if strings.Contains(rest, "PrivateKeyEntry") {
			lines = append(lines, fmt.Sprintf("%s has the chain %q", alias, chain))
		} else {
			lines = append(lines, "trusts "+strings.Join(chain, ", "))
		}
	}
	return lines
}
