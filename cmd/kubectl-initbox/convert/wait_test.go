package convert

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	initbox "initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// wordOf matches the pieces of a command line in these tests: blanks end a word, quotes group, $NAME is a variable.
var wordOf = regexp.MustCompile(`\s+|'[^']*'|"[^"]*"|\$\{?\w+\}?|[^\s'"$]+`)

// wordsOf reads a command line as simply as these tests need it.
func wordsOf(line string) (list []shell.Word) {
	open := false
	for _, piece := range wordOf.FindAllString(line, -1) {
		if strings.TrimSpace(piece) == "" {
			open = false
			continue
		}
		if !open {
			list = append(list, nil)
			open = true
		}
		last := &list[len(list)-1]
		if piece[0] == '\'' {
			*last = append(*last, shell.Part{Text: piece[1 : len(piece)-1]})
			continue
		}
		for _, p := range regexp.MustCompile(`\$\{?\w+\}?|[^$]+`).FindAllString(strings.Trim(piece, `"`), -1) {
			if p[0] == '$' {
				*last = append(*last, shell.Part{Env: strings.Trim(p, "${}")})
			} else {
				*last = append(*last, shell.Part{Text: p})
			}
		}
	}
	return list
}

func callOf(line string) *shell.Call {
	list := wordsOf(line)
	call := &shell.Call{Pos: shell.Pos{Line: 1, Column: 1}}
	for len(list) > 0 && len(list[0]) > 0 {
		name, rest, ok := strings.Cut(list[0][0].Text, "=")
		if !ok || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") != "" || name == "" {
			break
		}
		value := append(shell.Word{}, list[0][1:]...)
		if rest != "" {
			value = append(shell.Word{{Text: rest}}, value...)
		}
		call.Set = append(call.Set, shell.Assignment{Name: name, Value: value})
		list = list[1:]
	}
	call.Name, _ = list[0].Literal()
	if call.Name == "[" {
		call.Name, list = "test", list[:len(list)-1]
	}
	call.Args = list[1:]
	return call
}

// waitContainer is a container with variables of each kind, and a volume.
func waitContainer() *manifest.Container {
	from := func(kind string) *corev1.EnvVarSource {
		switch kind {
		case "field":
			return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}
		case "config":
			return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: "k"}}
		}
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}
	}
	c := &manifest.Container{Pod: &manifest.Pod{}}
	c.Image = "example/app:1"
	c.Command = []string{"bash", "-c"}
	c.Env = []corev1.EnvVar{
		{Name: "HOST", Value: "mydb"}, {Name: "PORT", Value: "5432"}, {Name: "URL", Value: "http://api:8080/health"},
		{Name: "ODD", Value: "a b#c"}, {Name: "NS", ValueFrom: from("field")}, {Name: "CHOST", ValueFrom: from("config")},
		{Name: "PW", ValueFrom: from("secret")}, {Name: "SHOST", ValueFrom: from("secret")},
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
	return c
}

// line returns a step as the command line that it becomes.
func line(s Step) string {
	text := []string{s.Subcommand}
	for _, a := range s.Args {
		if strings.ContainsAny(a, " ") {
			a = `"` + a + `"`
		}
		text = append(text, a)
	}
	for _, f := range s.Flags {
		text = append(text, strings.TrimSuffix("--"+f.Name+"="+f.Value, "="))
	}
	return strings.Join(text, " ")
}

// probed are calls in loops, and what waits for the same; "!" and a word of the refusal otherwise.
type probed map[string]string

func (table probed) test(t *testing.T, c *manifest.Container) {
	t.Helper()
	for text, want := range table {
		call := callOf(text)
		f := probes[call.Name]
		if f == nil {
			t.Errorf("%s: not in the table", text)
			continue
		}
		step, err := f(call, c)
		expect(t, text, step, err, want)
	}
}

func expect(t *testing.T, text string, step Step, err error, want string) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), "hUnter2") {
		t.Errorf("%s: the refusal has the password: %v", text, err)
	}
	if why, refused := strings.CutPrefix(want, "!"); refused {
		if err == nil {
			t.Errorf("%s: converted to %s, want the refusal %s", text, line(step), why)
		} else if !strings.Contains(err.Error(), why) || !errors.As(err, new(*shell.Error)) {
			t.Errorf("%s: refused with %v, want %s", text, err, why)
		}
		return
	}
	if err != nil || line(step) != want {
		t.Errorf("%s:\n got %s (%v)\nwant %s", text, line(step), err, want)
	}
	if err == nil {
		inspect(t, text, step)
	}
	if err == nil && step.Why == "" {
		t.Errorf("%s: does not say why it is the same", text)
	}
}

func TestConnections(t *testing.T) {
	probed{
		"nc -z mydb 5432":                  "wait-for-service tcp://mydb:5432",
		"nc -zv mydb 5432":                 "wait-for-service tcp://mydb:5432",
		"nc -vz -w 2 mydb 5432":            "wait-for-service tcp://mydb:5432 --attempt-timeout=2s",
		"nc -zvw3 mydb 5432":               "wait-for-service tcp://mydb:5432 --attempt-timeout=3s",
		"nc mydb 5432 -z":                  "wait-for-service tcp://mydb:5432",
		`nc -z "$HOST" $PORT`:              "wait-for-service tcp://$(HOST):$(PORT)",
		"nc -z db.$NS.svc 5432":            "wait-for-service tcp://db.$(NS).svc:5432",
		"nc -z $CHOST 5432":                "wait-for-service tcp://$(CHOST):5432",
		"nc -z $SHOST 5432":                "wait-for-service tcp://${env:SHOST:-unset.invalid}:5432",
		"nc -z fd00::1 5432":               "wait-for-service tcp://[fd00::1]:5432",
		"nc -4 -z mydb 5432":               "wait-for-service tcp4://mydb:5432",
		"nc mydb 5432":                     "!without -z",
		"nc -uz mydb 53":                   "!-u",
		"nc -z -q 1 mydb 53":               "!-q",
		"nc -z mydb":                       "!one port",
		"nc -z mydb 1 2":                   "!one port",
		"nc -z mydb 5000-5010":             "!not a port number",
		"nc -z mydb postgresql":            "!not a port number",
		"nc -z $ODD 1":                     "!ODD",
		"nc -z $UNSET 1":                   "!UNSET",
		"nc -z 'my db' 1":                  "!not a host",
		"nc -z -w $PORT mydb 1":            "!not a number of seconds",
		"nc -z db 0":                       "!not a port number",
		"nc -z db":                         "!one port",
		"ncat -z mydb 5432":                "wait-for-service tcp://mydb:5432",
		"grpc_health_probe -addr=api:9090": "wait-for-service grpc://api:9090",
		"grpc_health_probe -addr api:9090 -service=shop.Orders -tls -tls-no-verify": "wait-for-service grpcs://api:9090/shop.Orders#insecure",
		"grpc_health_probe --addr=api:9090 -tls -tls-ca-cert /shared/ca.crt":        "wait-for-service grpcs://api:9090#ca-file=/shared/ca.crt",
		"grpc_health_probe -addr=api:9090 -tls -tls-ca-cert=/etc/ca.crt":            "!/etc/ca.crt",
		"grpc_health_probe -addr=api:9090 -spiffe":                                  "!-spiffe",
	}.test(t, waitContainer())
}

func TestBashTCP(t *testing.T) {
	to := func(name, file string) *shell.Call {
		return &shell.Call{Name: name, Stdout: &shell.Output{File: wordsOf(file)[0]}}
	}
	for _, test := range []struct {
		call *shell.Call
		want string
	}{
		{to("echo", "/dev/tcp/mydb/5432"), "wait-for-service tcp://mydb:5432"},
		{to("", "/dev/tcp/$HOST/$PORT"), "wait-for-service tcp://$(HOST):$(PORT)"},
		{to("exec", "/dev/tcp/$HOST/5432"), "wait-for-service tcp://$(HOST):5432"},
		{to("echo", "/dev/udp/mydb/53"), "!no wait"},
		{to("echo", "/shared/x"), "!no wait"},
		{to("cat", "/dev/tcp/mydb/5432"), "!no wait"},
		{&shell.Call{Name: "cat", Stdin: &shell.Input{File: wordsOf("/dev/tcp/mydb/1")[0]}}, "!no wait"},
		{&shell.Call{Stdin: &shell.Input{File: wordsOf("/dev/tcp/mydb/1")[0]}}, "wait-for-service tcp://mydb:1"},
		{to("echo", "/dev/tcp/mydb"), "!no / in it"},
	} {
		step, err := bashTCP(test.call, waitContainer())
		expect(t, test.call.Name, step, err, test.want)
	}
	c := waitContainer()
	c.Command = []string{"sh", "-c"}
	step, err := bashTCP(to("echo", "/dev/tcp/mydb/5432"), c)
	expect(t, "sh", step, err, "!only bash")
}

func TestNames(t *testing.T) {
	probed{
		"nslookup mydb":                    "wait-for-dns mydb",
		"nslookup mydb.shop.svc":           "wait-for-dns mydb.shop.svc",
		"nslookup $HOST":                   "wait-for-dns $(HOST)",
		"nslookup $HOST.$NS":               "wait-for-dns $(HOST).$(NS) --hosts=/dev/null",
		"nslookup mydb 10.0.0.10":          "wait-for-dns mydb --server=10.0.0.10",
		"nslookup mydb dns.example":        "!dns.example",
		"nslookup -type=SRV _pg._tcp.mydb": "wait-for-dns _pg._tcp.mydb --type=SRV",
		"nslookup -type=any mydb":          "!not a record type",
		"nslookup -port=53 mydb":           "!-port",
		"nslookup 10.0.0.1":                "!an address",
		"nslookup $CHOST":                  "!may be an address",
		"nslookup":                         "!not called with a name",
		"nslookup $SHOST":                  "!Secret",
		"getent hosts mydb":                "wait-for-dns mydb",
		"getent ahosts $HOST":              "wait-for-dns $(HOST)",
		"getent ahostsv4 mydb":             "wait-for-dns mydb --family=4",
		"getent ahostsv6 mydb":             "!ahostsv6",
		"getent passwd root":               "!passwd",
		"getent hosts":                     "!not called with",
		"host mydb":                        "wait-for-dns mydb",
		"host -t A mydb":                   "wait-for-dns mydb --type=A",
		"host -W 2 mydb":                   "wait-for-dns mydb --attempt-timeout=2s",
		"host mydb 10.0.0.10":              "!one name",
		"host -a mydb":                     "!-a",
	}.test(t, waitContainer())
}

func TestFiles(t *testing.T) {
	probed{
		"[ -f /shared/ready ]":       "wait-for-service file:///shared/ready",
		"test -e /shared/ready":      "wait-for-service file:///shared/ready",
		"[ -s /shared/x/y ]":         "wait-for-service file:///shared/x/y#min-size=1",
		"[ -d /shared/dir ]":         "wait-for-service file:///shared/dir",
		"[ -S /shared/api.sock ]":    "wait-for-service file:///shared/api.sock",
		"[ -f '/shared/a b#c%d?e' ]": "wait-for-service file:///shared/a%20b%23c%25d%3Fe",
		"[ -f /shared/$NS ]":         "wait-for-service file:///shared/$(NS)",
		"[ -f /shared$NS/x ]":        "!one of the image",
		"[ -f /etc/passwd ]":         "!one of the image",
		"[ -f /shared/../etc/x ]":    "!one of the image",
		"[ -f ready ]":               "!not an absolute path",
		"[ -x /shared/ready ]":       "!-x",
		"[ -n x ]":                   "!-n",
		"[ a = b ]":                  "!not the test of one file",
		"[ -f /shared/$PW ]":         "wait-for-service file:///shared/${env:PW}",
		"[ -f /shared/$CHOST ]":      "!ConfigMap",
	}.test(t, waitContainer())
	call := callOf("[ -e /shared/lock ]")
	step, _ := testFile(call, waitContainer())
	step, err := gone(step, call)
	expect(t, "gone", step, err, "wait-for-service file:///shared/lock#gone")
	call = callOf("nc -z mydb 1")
	step, _ = probes["nc"](call, waitContainer())
	step, err = gone(step, call)
	expect(t, "gone", step, err, "!!")
}

// inspect requires that initbox accepts a step.
func inspect(t *testing.T, text string, step Step) {
	t.Helper()
	environment := map[string]string{"HOST": "mydb", "PORT": "5432", "URL": "http://api:8080/health", "NS": "shop"}
	for _, name := range []string{"CHOST", "SHOST", "PW", "DSN"} {
		environment[name] = initbox.Opaque("")
	}
	line := append([]string{step.Subcommand}, step.Args...)
	for _, f := range step.Flags {
		line = append(line, strings.TrimSuffix("--"+f.Name+"="+f.Value, "="))
	}
	for i := range line {
		for name, value := range environment {
			line[i] = strings.ReplaceAll(line[i], "$("+name+")", value)
		}
	}
	if _, err := initbox.Inspect(line, environment); err != nil {
		t.Errorf("%s: initbox does not take %q: %v", text, line, err)
	}
}

func TestAnswers(t *testing.T) {
	matched{
		{"dig +short mydb.shop.svc.cluster.local", "-n", ""}:                         "wait-for-dns mydb.shop.svc.cluster.local. --type=A",
		{"dig +short SRV _pg._tcp.mydb.", "grep", "."}:                               "wait-for-dns _pg._tcp.mydb. --type=SRV",
		{"dig +short +search mydb", "-n", ""}:                                        "wait-for-dns mydb --type=A",
		{"dig +short $HOST", "-n", ""}:                                               "wait-for-dns $(HOST). --type=A",
		{"dig +short mydb", "=", "10.0.0.1"}:                                         "!dig +short",
		{"dig mydb", "-n", ""}:                                                       "!dig +short",
		{"dig +short mydb. | wc -l", "-ge", "3"}:                                     "wait-for-dns mydb. --type=A --min-records=3",
		{"dig +short mydb | wc -l", "-gt", "0"}:                                      "wait-for-dns mydb. --type=A --min-records=1",
		{"dig +short mydb | wc -l", "-lt", "3"}:                                      "!wc",
		{"dig +short mydb | wc -c", "-ge", "3"}:                                      "!wc",
		{"dig mydb | wc -l", "-ge", "3"}:                                             "!dig +short",
		{"nslookup mydb | grep Name", "-n", ""}:                                      "!nslookup prints Name",
		{"dig @10.0.0.10 +short mydb", "-n", ""}:                                     "!@10.0.0.10",
		{"dig +short x y", "-n", ""}:                                                 "!a second name",
		{"telnet mydb 5432", "grep", "Connected"}:                                    "wait-for-service tcp://mydb:5432",
		{"telnet mydb 5432", "grep", "Connected to"}:                                 "wait-for-service tcp://mydb:5432",
		{"telnet mydb 5432", "grep", "refused"}:                                      "!not the line",
		{"echo ruok | nc zoo 2181", "=", "imok"}:                                     "wait-for-service zookeeper://zoo:2181",
		{"echo ruok | nc -w 2 $HOST.$NS 2181", "grep", "imok"}:                       "wait-for-service zookeeper://$(HOST).$(NS):2181 --attempt-timeout=2s",
		{"echo srvr | nc zoo 2181", "grep", "Mode"}:                                  "wait-for-service zookeeper://zoo:2181",
		{"echo srvr | nc zoo 2181", "grep", "leader"}:                                "!not ZooKeeper's",
		{"echo PING | nc cache 6379", "grep", "PONG"}:                                "!not ZooKeeper's",
		{"echo quit | telnet mydb 5432", "grep", "Connected"}:                        "wait-for-service tcp://mydb:5432",
		{"echo x | sed s/x/y/", "=", "y"}:                                            "!not the answer",
		{"nc -z mydb 1", "grep", "open"}:                                             "!-z",
		{"mysql -h mydb -u app -p$PW -N -B -e 'select count(*) from x'", "-gt", "0"}: `wait-for-service "mysql://app:${env:PW}@mydb#query=SELECT (select count(*) from x) > 0"`,
		{"mysql -h mydb -u app -p$PW -N -e 'select count(*) from x' shop", "=", "3"}: `wait-for-service "mysql://app:${env:PW}@mydb/shop#query=SELECT (select count(*) from x) = 3"`,
		{"mysql -h mydb -u app -p$PW -e 'select count(*) from x'", "=", "3"}:         "!mysql -N",
		{"mysql -h mydb -u app -p$PW -N -e 'drop table x'", "=", "3"}:                "!single SELECT",
	}.test(t)
	probed{
		"dig mydb":                "!compare what dig",
		"drill mydb":              "!no such name",
		"telnet mydb 1":           "!how the connection ends",
		"rabbitmqctl status":      "!Erlang",
		"pgrep x":                 "!its own container",
		"curl http://mydb:3306":   "!not the port of an HTTP server",
		"curl telnet://mydb:3306": "wait-for-service tcp://mydb:3306",
	}.test(t, waitContainer())
	step, err := curl(callOf("curl -f http://api/"), waitContainer())
	expect(t, "timeout 2 curl", limited(step, 2e9), err, "wait-for-service http://api/#no-redirect --attempt-timeout=2s")
	c := waitContainer()
	c.VolumeMounts = nil
	probed{"wget -q http://api/": "wait-for-service http://api/#status=200-299"}.test(t, c)
}
