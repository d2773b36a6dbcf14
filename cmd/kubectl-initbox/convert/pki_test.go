package convert

import (
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

// stores is a container with volumes for certificates and what is made of them.
const stores = `
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  initContainers:
  - name: init
    image: IMAGE
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: s, key: p}}}
    - {name: CHANGEIT, value: changeit}
    - {name: PLAIN, value: hunter22}
    - {name: JAVA, value: /opt/java/openjdk}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    volumeMounts:
    - {name: out, mountPath: /out}
    - {name: out, mountPath: /mnt/out}
    - {name: ca, mountPath: /mnt/certs}
    - {name: tls, mountPath: /mnt/tls}
    - {name: data, mountPath: /data}
    - {name: ca, mountPath: /certs}
    - {name: tls, mountPath: /tls}
    - {name: ca, mountPath: /usr/local/share/ca-certificates/company.crt, subPath: ca.crt}
    - {name: ca, mountPath: /etc/pki/ca-trust/source/anchors/company.pem, subPath: ca.crt}
    MOUNTS
  containers: [{name: main, image: app}]
  volumes:
  - {name: out, emptyDir: {}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: ca, configMap: {name: ca}}
  - {name: tls, secret: {secretName: tls}}
`

// pkiCase is a script, and its conversion.
type pkiCase struct{ image, mounts, script, want, differs string }

// pkiResult returns the command line and the differences, or the error.
func pkiResult(t *testing.T, c pkiCase) (line, differs string, result *Change) {
	t.Helper()
	image := c.image
	if image == "" {
		image = "registry.example/app:1"
	}
	mounts := ""
	if c.mounts != "" {
		mounts = "- {name: out, mountPath: " + c.mounts + "}"
	}
	objects, err := manifest.Read("a.yaml", strings.NewReader(strings.NewReplacer("IMAGE", image, "MOUNTS", mounts).Replace(stores)))
	if err != nil {
		t.Fatal(err)
	}
	container := objects[0].Pod.Containers[0]
	container.Command = []string{"sh", "-c", strings.ReplaceAll(c.script, "$", "$$")}
	change := Container(container, "initbox:dev", nil)
	if change.Verdict == Kept {
		return "kept: " + change.Why, "", change
	}
	line = strings.TrimPrefix(strings.Join(change.Words, " "), "/initbox-tools/initbox ")
	return line, strings.Join(change.Differs, "\n"), change
}

func checkPKI(t *testing.T, cases []pkiCase) {
	t.Helper()
	for _, c := range cases {
		line, differs, _ := pkiResult(t, c)
		if why, kept := strings.CutPrefix(c.want, "kept: "); kept && (!strings.HasPrefix(line, "kept: ") || !strings.Contains(line, why)) || !kept && line != c.want || !strings.Contains(differs, c.differs) {
			t.Errorf("%s\n   got %s\n  want %s\n%s", c.script, line, c.want, differs)
		}
	}
}

func TestGenerate(t *testing.T) {
	t.Parallel()
	const hour = "it is made again when less than a third"
	checkPKI(t, []pkiCase{
		{script: "openssl rand -hex 32 > /out/secret", want: "generate token /out/secret --bytes 32 --encoding hex --mode 0644", differs: keepsWhatIsThere},
		{script: "openssl rand -hex 32 > /out/secret", want: "generate token /out/secret --bytes 32 --encoding hex --mode 0644", differs: "no line break"},
		{script: "umask 077; openssl rand -base64 48 > /out/secret", want: "generate token /out/secret --bytes 48 --encoding base64"},
		{script: "openssl rand -out /out/secret 32", want: "generate token /out/secret --bytes 32 --encoding raw --mode 0644"},
		{script: "openssl rand 32 | base64 -w0 > /out/secret", want: "generate token /out/secret --bytes 32 --encoding base64 --mode 0644"},
		{script: "head -c 32 /dev/urandom | base64 > /out/secret", want: "generate token /out/secret --bytes 32 --encoding base64 --mode 0644"},
		{script: "dd if=/dev/urandom bs=32 count=1 2>/dev/null | base64 > /out/secret", want: "generate token /out/secret --bytes 32 --encoding base64 --mode 0644"},
		{script: "dd if=/dev/urandom bs=1 count=756 > /out/secret", want: "generate token /out/secret --bytes 756 --encoding raw --mode 0644"},
		{script: "tr -dc A-Za-z0-9 </dev/urandom | head -c 24 > /out/pw", want: "generate password /out/pw --length 24 --alphabet A-Za-z0-9 --mode 0644"},
		{script: "LC_ALL=C tr -dc '[:alnum:]' </dev/urandom | head -c 24 > /out/pw", want: "generate password /out/pw --length 24 --alphabet A-Za-z0-9 --mode 0644"},
		{script: "cat /dev/urandom | tr -dc 'a-zA-Z0-9' | fold -w 32 | head -n 1 > /out/pw", want: "generate password /out/pw --length 32 --alphabet a-zA-Z0-9 --mode 0644", differs: "no line break"},
		{script: "openssl rand -base64 32 | head -c 32 > /out/pw", want: "generate password /out/pw --length 32 --alphabet A-Za-z0-9+/ --mode 0644"},
		{script: "uuidgen > /out/id", want: "generate uuid /out/id --mode 0644", differs: "no line break"},
		{script: "cat /proc/sys/kernel/random/uuid | tr -d '\\n' > /out/id", want: "generate uuid /out/id --mode 0644"},
		{script: "[ -f /data/pw ] || openssl rand -hex 16 > /data/pw", want: "generate token /data/pw --bytes 16 --encoding hex --mode 0644"},
		{script: "if [ ! -f /data/keys/id ]; then mkdir -p /data/keys; ssh-keygen -q -t ed25519 -N '' -f /data/keys/id; fi", want: "prepare /data/keys -- generate key /data/keys/id --algorithm ed25519 --key-format openssh"},
		{script: "rm -f /data/pw; openssl rand -hex 16 > /data/pw", want: "prepare /data/pw#absent=file -- generate token /data/pw --bytes 16 --encoding hex --mode 0644"},
		{script: "ssh-keygen -t rsa -b 4096 -C git -f /out/id_rsa -N ''", want: "generate key /out/id_rsa --algorithm rsa-4096 --key-format openssh --comment git"},
		{script: "ssh-keygen -t rsa -f /out/id_rsa -N ''", want: "generate key /out/id_rsa --algorithm rsa --key-format openssh"},
		{script: "openssl genrsa -out /out/key.pem", want: "generate key /out/key.pem --algorithm rsa-2048", differs: "PKCS#8"},
		{script: "openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:4096 -out /out/key.pem", want: "generate key /out/key.pem --algorithm rsa-4096"},
		{script: "openssl genrsa -out /out/key.pem 2048", want: "generate key /out/key.pem --algorithm rsa-2048", differs: "PKCS#8"},
		{script: "openssl genrsa -traditional 4096 > /out/key.pem", want: "generate key /out/key.pem --algorithm rsa-4096 --key-format pkcs1 --mode 0644"},
		{script: "openssl genpkey -algorithm ed25519 -out /out/key.pem", want: "generate key /out/key.pem --algorithm ed25519"},
		{script: "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out /out/key.pem", want: "generate key /out/key.pem --algorithm ecdsa-p384"},
		{script: "openssl ecparam -name prime256v1 -genkey -noout -out /out/key.pem", want: "generate key /out/key.pem --algorithm ecdsa --key-format pkcs1"},
		{script: "openssl dhparam -out /out/dh.pem 2048", want: "generate dhparam /out/dh.pem --group ffdhe2048 --mode 0644", differs: "RFC 7919"},
		{script: "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout /out/tls.key -out /out/tls.crt -subj /CN=web -addext 'subjectAltName=DNS:web,IP:127.0.0.1'",
			want: "generate certificate /out --subject /CN=web --dns web --ip 127.0.0.1 --algorithm rsa-2048 --valid-for 8760h", differs: hour},

		{script: "openssl rand -base64 64 > /out/secret", want: "kept: not a way"},
		{script: "openssl rand -hex 32 >> /out/secret", want: "kept: it adds to a file"},
		{script: "openssl rand -hex 32 > /tmp/secret", want: "kept: in no volume"},
		{script: "openssl rand -hex 32 | sha256sum > /out/secret", want: "kept: sha256sum: not a way"},
		{script: "openssl rand -hex 32 | tr -d '=+/' > /out/secret", want: "kept: tr: not a way"},
		{script: "echo x > /out/a; openssl rand -hex 32 > /out/a", want: "kept: nothing has made before"},
		{script: "head -c 32 /etc/passwd > /out/a", want: "kept: not a way"},
		{script: "tr -dc 'z-a' < /dev/urandom | head -c 4 > /out/a", want: "kept: not a way"},
		{script: "tr a b < /data/x > /out/a", want: "kept: not a way"},
		{script: "openssl genrsa -out /out/key.pem 1024", want: "kept: openssl genrsa: not called for a key"},
		{script: "openssl genpkey -algorithm EC -pkeyopt ec_param_enc:named_curve -out /out/key.pem", want: "kept: openssl genpkey: not called for a key"},
		{script: "openssl ecparam -name prime256v1 -genkey -out /out/key.pem", want: "kept: openssl ecparam: not called for a key"},
		{script: "openssl req -x509 -newkey rsa -nodes -keyout /out/tls.key -out /out/tls.crt -subj /CN=web", want: "kept: not -x509"},
		{script: "openssl genrsa -aes256 -passout pass:hunter22 -out /out/key.pem 2048", want: "kept: -aes256"},
		{script: "openssl req -x509 -newkey rsa:2048 -nodes -keyout /out/a.key -out /out/a.crt -subj /CN=web", want: "kept: not tls.key and tls.crt"},
		{script: "openssl req -x509 -newkey rsa:2048 -nodes -keyout /out/tls.key -out /out/tls.crt -subj /CN=web -addext keyUsage=x", want: "kept: an extension"},
		{script: "openssl req -new -key /tls/tls.key -subj /CN=web -out /out/a.csr", want: "kept: -key"},
		{script: "openssl x509 -checkend 86400 -in /tls/tls.crt", want: "kept: x509"},
		{script: "ssh-keygen -t ed25519 -N secret -f /out/id", want: "kept: "},
		{script: "ssh-keygen -A", want: "kept: -A"},
		{script: "openssl pkcs8 -topk8 -inform PEM -outform DER -in /tls/tls.key -out /out/key.pk8 -nocrypt", want: "kept: pkcs8: a command of openssl"},
	})
}

func TestTrustBundle(t *testing.T) {
	t.Parallel()
	const (
		local  = " /usr/local/share/ca-certificates#optional"
		system = "trust-bundle /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates#optional"
	)
	checkPKI(t, []pkiCase{
		{script: "cat /etc/ssl/certs/ca-certificates.crt /certs/ca.crt > /out/ca.crt", want: "trust-bundle /etc/ssl/certs/ca-certificates.crt /certs/ca.crt --pem /out/ca.crt", differs: "each certificate is written once"},
		{script: "cat /etc/ssl/certs/ca-certificates.crt /certs/* > /out/ca.crt", want: "trust-bundle /etc/ssl/certs/ca-certificates.crt /certs --pem /out/ca.crt"},
		{script: "cat /certs/*.crt > /out/ca.crt", want: "trust-bundle /certs --pem /out/ca.crt", differs: "and not only *.crt"},
		{script: "cat /tls/ca.crt /certs/ca.crt | tee /out/ca.crt", want: "trust-bundle /tls/ca.crt /certs/ca.crt --pem /out/ca.crt"},
		{script: "cat /tls/a.crt /tls/b.crt > /out/ca.crt", want: "render --inline /out/ca.crt={{ .Files.Get \"a.crt\" }}{{ .Files.Get \"b.crt\" }} --files /tls --mode 0644"},
		{script: "cp /etc/ssl/certs/ca-certificates.crt /out/ca.crt && cat /certs/ca.pem >> /out/ca.crt", want: "trust-bundle /etc/ssl/certs/ca-certificates.crt /certs/ca.pem --pem /out/ca.crt"},
		{script: "cat /etc/ssl/cert.pem > /out/ca.crt; cat /certs/a.pem >> /out/ca.crt; cat /certs/b.pem >> /out/ca.crt", want: "trust-bundle /etc/ssl/cert.pem /certs/a.pem /certs/b.pem --pem /out/ca.crt"},
		{script: "cat /tls/ca.crt > /out/ca.crt; echo >> /out/ca.crt; cat /certs/ca.crt >> /out/ca.crt; echo '' >> /out/ca.crt; cat /certs/b.crt >> /out/ca.crt", want: "trust-bundle /tls/ca.crt /certs/ca.crt /certs/b.crt --pem /out/ca.crt"},
		{script: "cp /etc/ssl/certs/ca-certificates.crt /out/ca.crt; for f in /certs/*.crt; do echo \"adding $f\"; cat \"$f\" >> /out/ca.crt; echo >> /out/ca.crt; done", want: "trust-bundle /etc/ssl/certs/ca-certificates.crt /certs --pem /out/ca.crt", differs: "no error if there is none"},
		{script: "cat /etc/ssl/cert.pem > /out/ca.crt\nfor f in /certs/*.pem; do\n  [ -f \"$f\" ] || continue\n  cat ${f} >> /out/ca.crt\ndone", want: "trust-bundle /etc/ssl/cert.pem /certs --pem /out/ca.crt"},
		{script: "update-ca-certificates && cp /etc/ssl/certs/ca-certificates.crt /out/", want: system + " --pem /out/ca-certificates.crt"},
		{script: "cp /certs/ca.crt /usr/local/share/ca-certificates/ && update-ca-certificates --fresh && cat /etc/ssl/certs/ca-certificates.crt /tls/ca.crt > /out/ca.crt", want: system + " /certs/ca.crt /tls/ca.crt --pem /out/ca.crt"},
		{script: "cp /certs/ca.pem /usr/local/share/ca-certificates/my.crt; update-ca-certificates; cp -L /etc/ssl/certs/* /out", want: system + " /certs/ca.pem --hash-dir /out -- " + system + " /certs/ca.pem --pem /out/ca-certificates.crt", differs: "no hook"},
		{script: "update-ca-certificates; cp -r /etc/ssl/certs /out", want: system + " --hash-dir /out/certs -- " + system + " --pem /out/certs/ca-certificates.crt"},
		{script: "update-ca-certificates; cp -r /etc/ssl/certs/. /out/x", want: system + " --hash-dir /out/x -- " + system + " --pem /out/x/ca-certificates.crt"},
		{script: "update-ca-certificates", mounts: "/etc/ssl/certs", want: "trust-bundle /usr/share/ca-certificates" + local + " --hash-dir /etc/ssl/certs -- trust-bundle /usr/share/ca-certificates" + local + " --pem /etc/ssl/certs/ca-certificates.crt"},
		{script: "update-ca-trust extract", mounts: "/etc/pki/ca-trust/extracted", want: "trust-bundle roots /etc/pki/ca-trust/source/anchors#optional --pem /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem --jks /etc/pki/ca-trust/extracted/java/cacerts", differs: "Mozilla's list"},
		{script: "update-ca-trust && cp /etc/pki/tls/certs/ca-bundle.crt /out/ca.crt", want: "trust-bundle /etc/pki/tls/certs/ca-bundle.crt /etc/pki/ca-trust/source/anchors#optional --pem /out/ca.crt"},

		{image: "alpine:3", script: "apk add --no-cache ca-certificates && cp /certs/ca.crt /usr/local/share/ca-certificates/ && update-ca-certificates && cp /etc/ssl/certs/* /out/",
			want: "trust-bundle roots" + local + " /certs/ca.crt --hash-dir /out -- trust-bundle roots" + local + " /certs/ca.crt --pem /out/ca-certificates.crt", differs: "not that in the package"},
		{image: "ubuntu:24.04", script: "apt-get update && apt-get install -y ca-certificates && cat /etc/ssl/certs/ca-certificates.crt /certs/ca.crt > /out/ca.crt", want: "trust-bundle roots /certs/ca.crt --pem /out/ca.crt"},

		{image: "registry.example/a:1", script: "apk add ca-certificates && update-ca-certificates && cp /etc/ssl/cert.pem /out/", want: "kept: what it installs"},
		{script: "update-ca-certificates && cp /etc/ssl/ca-bundle.pem /out/", want: "kept: /etc/ssl/ca-bundle.pem: "},
		{script: "update-ca-certificates && cp /etc/ssl/cert.pem /out/", mounts: "/etc/pki/trust/anchors", want: "kept: what is mounted at /etc/pki/trust/anchors"},
		{script: "cat /out/ca.crt /certs/ca.crt > /out/ca.crt", want: "kept: the output /out/ca.crt is in the source"},
		{script: "cp /data/a.crt /out/b.crt; cp /certs/ca.crt /data/a.crt; cat /certs/ca.crt >> /out/b.crt", want: "kept: what is in it is not known"},
		{script: "cat /tls/tls.key /tls/tls.crt /certs/ca.crt > /out/all.pem", want: "kept: /tls/tls.key: not a file in the same"},
		{script: "cat /certs/server.pem /tls/ca.crt > /out/all.pem", want: "kept: /certs/server.pem: not a file in the same"},
		{script: "cat /tls/* /certs/ca.crt > /out/all.pem", want: "kept: /tls/*: a pattern"},
		{script: "cat /etc/ssl/cert.pem /data/*.crt > /out/all.pem", want: "kept: /data/*.crt: a pattern"},
		{script: "cat /certs/ca.crt >> /out/ca.crt", want: "kept: /out/ca.crt: what is in it is not known"},
		{script: "cat /tls/tls.crt /certs/ca.crt > /out/all.pem; cat /tls/key.pem >> /out/all.pem", want: "kept: /tls/key.pem: added to a file"},
		{script: "cat /certs/ca.crt >> /data/ca.crt", want: "kept: /data/ca.crt: what is in it is not known"},
		{script: "cp /etc/ssl/cert.pem /out/ca.crt; chmod 600 /out/ca.crt; cat /certs/ca.crt >> /out/ca.crt", want: "kept: has given the file its mode"},
		{script: "cp /etc/ssl/cert.pem /out/ca.crt; echo x > /out/ca.crt; cat /certs/ca.crt >> /out/ca.crt", want: "kept: what is in it is not known"},
		{script: "echo > /out/a; for f in /certs/*; do cat $f >> /out/a; echo >> /out/a; done", want: "kept: /certs/*: added to a file"},
		{script: "for f in /certs/*.crt; do cat $f >> /out/a; done", want: "kept: /out/a: what is in it is not known"},
		{script: "install -m 600 /certs/a.crt /out/a.crt; cat /certs/b.crt >> /out/a.crt", want: "kept: /out/a.crt: what is in it is not known"},
		{script: "cp /certs/a.txt /out/a; echo >> /out/a", want: "kept: /out/a: >> of a file"},
		{script: "cp /etc/ssl/cert.pem /out/ca.crt; echo x >> /out/ca.crt", want: "kept: /out/ca.crt: >> of a file"},
		{script: "umask 077; cat /etc/ssl/cert.pem /certs/ca.crt > /out/ca.crt", want: "kept: umask 077"},
		{script: "cp /certs/ca.pem /usr/local/share/ca-certificates/; update-ca-certificates; cp /etc/ssl/certs/ca-certificates.crt /out/", want: "kept: /certs/ca.pem: a name that does not end in .crt"},
		{script: "update-ca-certificates; cp -r /etc/ssl/* /out/", want: "kept: /etc/ssl/*: more, or something else"},
		{script: "update-ca-certificates; cat /etc/ssl/certs/company.pem > /out/ca.crt", want: "kept: /etc/ssl/certs/company.pem"},
		{script: "update-ca-certificates; tar cf /out/ca.tar /etc/ssl/certs", want: "kept: "},
		{script: "update-ca-certificates; sed s/a/b/ /etc/ssl/certs/ca-certificates.crt > /out/a", want: "kept: what an earlier command has made or changed"},
		{script: "if [ -f /tls/x ]; then cp /tls/ca.crt /usr/local/share/ca-certificates/; fi; update-ca-certificates; cp /etc/ssl/cert.pem /out/a", want: "kept: a condition"},
		{script: "update-ca-certificates --localcertsdir /certs; cp /etc/ssl/cert.pem /out/a", want: "kept: --localcertsdir"},
		{script: "update-ca-trust extract -o /out", want: "kept: -o"},
		{script: "update-ca-certificates", want: "kept: nothing"},
	})
}

func TestKeytool(t *testing.T) {
	t.Parallel()
	const (
		importCert = "keytool -importcert -noprompt -trustcacerts -storepass changeit -alias ca -file /certs/ca.crt -keystore "
		exported   = "openssl pkcs12 -export -in /tls/tls.crt -inkey /tls/tls.key -name web -passout env:PASSWORD -out "
		imported   = "keytool -importkeystore -noprompt -srcstorepass \"$PASSWORD\" -deststorepass \"$PASSWORD\" "
		pair       = "--cert-file /tls/tls.crt --key-file /tls/tls.key "
	)
	checkPKI(t, []pkiCase{
		{script: importCert + "/out/ts", want: "trust-bundle /certs/ca.crt --jks /out/ts", differs: "keytool takes the first"},
		{script: importCert + "/out/ts.p12", want: "trust-bundle /certs/ca.crt --pkcs12 /out/ts.p12", differs: "Java 8"},
		{script: importCert + "/out/ts -storetype PKCS12 -storepass \"$CHANGEIT\"", want: "trust-bundle /certs/ca.crt --pkcs12 /out/ts"},
		{script: importCert + "/out/ts -storepass:env PASSWORD", want: "kept: -storepass: it is missing"},
		{script: "keytool -import -noprompt -file /certs/ca.crt -alias company -keystore /out/ts -storepass \"$PASSWORD\"", want: "trust-bundle /certs/ca.crt --password-env PASSWORD --jks /out/ts", differs: "not that of -alias"},
		{script: "keytool -import -noprompt -alias ca -keystore /out/ts -storepass:file /tls/pw < /certs/ca.crt", want: "trust-bundle /certs/ca.crt --password-file /tls/pw --jks /out/ts"},
		{script: importCert + "/out/ts; " + importCert + "/out/ts -file /tls/ca.crt -alias b", want: "trust-bundle /certs/ca.crt /tls/ca.crt --jks /out/ts"},
		{script: "cp /opt/java/openjdk/lib/security/cacerts /out/ts && " + importCert + "/out/ts", want: "trust-bundle /opt/java/openjdk/lib/security/cacerts /certs/ca.crt --jks /out/ts"},
		{script: "cp \"$JAVA/lib/security/cacerts\" /out/; " + importCert + "/out/cacerts", want: "trust-bundle $(JAVA)/lib/security/cacerts /certs/ca.crt --jks /out/cacerts"},
		{script: "for f in /certs/*.crt; do echo $f; /opt/java/bin/keytool -importcert -noprompt -alias \"$(basename \"$f\" .crt)\" -file \"$f\" -keystore /out/ts -storepass changeit >/dev/null 2>&1; done", want: "trust-bundle /certs --jks /out/ts", differs: "no error if there is none"},
		{script: "cp /opt/java/lib/security/cacerts /out/ts; for crt in /certs/*; do keytool -import -trustcacerts -noprompt -alias service-${crt##*/} -keystore /out/ts -storepass \"$CHANGEIT\" -file $crt; done", want: "trust-bundle /opt/java/lib/security/cacerts /certs --jks /out/ts"},
		{script: "rm -f /data/ts; " + importCert + "/data/ts", want: "prepare /data/ts#absent=file -- trust-bundle /certs/ca.crt --jks /data/ts"},
		{script: "keytool -importkeystore -srckeystore /opt/java/lib/security/cacerts -srcstorepass changeit -destkeystore /out/ts -deststorepass \"$PASSWORD\" && keytool -importcert -noprompt -file /certs/ca.crt -alias ca -keystore /out/ts -storepass \"$PASSWORD\"",
			want: "trust-bundle /opt/java/lib/security/cacerts /certs/ca.crt --password-env PASSWORD --jks /out/ts"},

		{script: exported + "/out/k.p12", want: "keystore " + pair + "--alias web --password-env PASSWORD --pkcs12 /out/k.p12"},
		{script: "openssl pkcs12 -export -in /tls/tls.crt -inkey /tls/tls.key -certfile /certs/ca.crt -password pass:changeit -out /out/k.p12", want: "keystore " + pair + "--ca-file /certs/ca.crt --alias 1 --pkcs12 /out/k.p12", differs: "trusts the certificates of --ca-file"},
		{script: exported + "/out/k.p12 -chain -CAfile /certs/ca.crt", want: "keystore " + pair + "--ca-file /certs/ca.crt --alias web --password-env PASSWORD --pkcs12 /out/k.p12"},
		{script: exported + "/tmp/k.p12 && " + imported + "-srckeystore /tmp/k.p12 -srcstoretype PKCS12 -destkeystore /out/k.jks -deststoretype JKS && rm /tmp/k.p12", want: "keystore " + pair + "--alias web --password-env PASSWORD --mode 0644 --jks /out/k.jks"},
		{script: exported + "/out/k.p12 && " + imported + "-srckeystore /out/k.p12 -srcalias web -destalias app -destkeystore /out/k.jks", want: "keystore " + pair + "--alias web --password-env PASSWORD --pkcs12 /out/k.p12 -- keystore " + pair + "--alias app --password-env PASSWORD --mode 0644 --jks /out/k.jks"},
		{script: exported + "/tmp/k.p12; " + imported + "-srckeystore /tmp/k.p12 -destkeystore /out/k.jks; keytool -import -noprompt -alias ca -file /certs/ca.crt -keystore /out/k.jks -storepass \"$PASSWORD\"", want: "keystore " + pair + "--alias web --ca-file /certs/ca.crt --password-env PASSWORD --mode 0644 --jks /out/k.jks"},
		{script: exported + "/tmp/k.p12; cp /tmp/k.p12 /out", want: "keystore " + pair + "--alias web --password-env PASSWORD --pkcs12 /out/k.p12"},

		{script: importCert + "/data/ts", want: "kept: /data/ts: a store that exists already"},
		{script: "for f in /certs/*.crt; do keytool -importcert -noprompt -alias ca -file $f -keystore /out/ts -storepass changeit; done", want: "kept: /certs/*.crt: a pattern"},
		{script: "for f in /certs/*.crt; do keytool -importcert -noprompt -alias $f -file $f -keystore /out/$f -storepass changeit; done", want: "kept: $f: its value is not known"},
		{script: "for f in /data/*.crt; do keytool -importcert -noprompt -alias $f -file $f -keystore /out/ts -storepass changeit; done", want: "kept: /data/*.crt: a pattern"},
		{script: "for f in /certs/*.crt; do keytool -importcert -noprompt -alias $f -file $f -keystore /out/ts -storepass changeit; rm $f; done", want: "kept: a loop over files"},
		{script: importCert + "/tmp/ts", want: "kept: /tmp/ts: in no volume"},
		{script: importCert + "/out/ts -file /certs/*.crt", want: "kept: /certs/*.crt: a pattern"},
		{script: importCert + "/out/ts -alias importkeystore", want: "trust-bundle /certs/ca.crt --jks /out/ts"},
		{script: importCert + "/out/ts; keytool -importcert -noprompt -storepass \"$PASSWORD\" -alias b -file /tls/ca.crt -keystore /out/ts", want: "kept: /out/ts: made by an earlier command in another format, or with another password"},
		{script: "keytool -importcert -noprompt -storepass hunter22 -alias a -file /certs/ca.crt -keystore /out/ts", want: "kept: -storepass: a password that is in the script"},
		{script: "keytool -importcert -storepass changeit -alias a -file /certs/ca.crt -keystore /out/ts", want: "kept: without -noprompt"},
		{script: "keytool -importcert -noprompt -alias a -file /certs/ca.crt -keystore /out/ts", want: "kept: -storepass: it is missing"},
		{script: "keytool -importcert -noprompt -storepass \"$UNSET\" -alias a -file /certs/ca.crt -keystore /out/ts", want: "kept: "},
		{script: "cp /opt/app/keystore.jks /out/ts; " + importCert + "/out/ts", want: "kept: /out/ts: a copy of a store that is not certainly"},
		{script: "keytool -genkeypair -alias a -keystore /out/k -storepass changeit", want: "kept: neither -importcert"},
		{script: "keytool -importcert -noprompt -cacerts -alias a -file /certs/ca.crt -storepass changeit", want: "kept: -cacerts"},
		{script: importCert + "/out/ts -storetype JCEKS", want: "kept: JCEKS: a type of store"},
		{script: exported + "/tmp/k.p12", want: "kept: nothing"},
		{script: exported + "/out/k.p12 -name ''", want: "kept: an alias without a name"},
		{script: exported + "/tmp/k.p12; openssl pkcs12 -export -in /tmp/k.p12 -passout env:PASSWORD -out /out/k.p12", want: "kept: /tmp/k.p12: not one file that is there"},
		{script: exported + "/tmp/k.p12; tar cf /out/a.tar /tmp/k.p12", want: "kept: "},
		{script: exported + "/tmp/k.p12; cat /tmp/k.p12 > /out/a", want: "kept: /tmp/k.p12"},
		{script: exported + "/out/k.p12 -legacy", want: "kept: -legacy"},
		{script: exported + "/out/k.p12; keytool -import -noprompt -alias web -file /certs/ca.crt -keystore /out/k.p12 -storepass \"$PASSWORD\"", want: "kept: web: the alias of the key"},
		{script: "openssl pkcs12 -export -in /tls/tls.crt -inkey /tls/tls.key -passout pass:hunter22 -out /out/k.p12", want: "kept: -passout: a password that is in the script"},
		{script: "openssl pkcs12 -export -in /tls/tls.crt -inkey /tls/tls.key -out /out/k.p12", want: "kept: -passout: it is missing"},
		{script: exported + "/tmp/k.p12; " + imported + "-srckeystore /tmp/k.p12 -destkeystore /out/k.jks -deststorepass changeit", want: "kept: its password is not that of the source"},
		{script: "keytool -importkeystore -srckeystore /tls/k.p12 -srcstorepass changeit -destkeystore /out/k.jks -deststorepass changeit", want: "kept: /tls/k.p12: a store that the script has not made"},
		{script: "openssl pkcs12 -in /tls/k.p12 -nodes -out /out/k.pem -passout pass:changeit", want: "kept: -nodes"},
	})
}

// TestPKIErrors checks that no password is in a message.
func TestPKIErrors(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"keytool -importcert -noprompt -keystore /out/ts -storepass hunter22 -alias a -file /certs/ca.crt",
		"openssl pkcs12 -export -in /tls/tls.crt -inkey /tls/tls.key -out /out/k.p12 -passout pass:hunter22",
		"ssh-keygen -t ed25519 -N hunter22 -f /out/id",
		"openssl genrsa -passout pass:hunter22 -out /out/key.pem 2048",
		"if keytool -list -storepass hunter22 -keystore /out/ts; then echo; else keytool -genkey -keystore /out/ts; fi",
		"if ! keytool -list -storepass hunter22 -keystore /out/ts; then mkdir /out/a; fi",
		"until keytool -list -storepass hunter22 -keystore /out/ts; do sleep 1; done",
		"keytool -importcert -noprompt hunter22 -keystore /out/ts -storepass changeit -file /certs/ca.crt",
		"keytool -importkeystore -srckeystore /opt/cacerts -srcstorepass hunter22 -destkeystore /out/ts -deststorepass changeit",
		"keytool -importcert -noprompt -keystore /out/ts -storepass changeit -file /certs/ca.crt -alias hunter22 -storetype hunter22 -keypass hunter22",
	} {
		line, _, _ := pkiResult(t, pkiCase{script: script})
		if !strings.HasPrefix(line, "kept: ") || strings.Contains(line, "hunter22") {
			t.Errorf("%s: %s", script, line)
		}
	}
}
