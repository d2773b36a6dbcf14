package convert

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	initbox "initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// storage is a container with a volume of each kind, and a variable from each origin. Its image is that of BusyBox.
const storage = `
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  initContainers:
  - name: init
    image: busybox:1.36
    env:
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: SUB, value: logs}
    - {name: SPACES, value: a b}
    - {name: EMPTY, value: ""}
    - {name: HASH, value: "a#b"}
    - {name: KEY, valueFrom: {configMapKeyRef: {name: c, key: k}}}
    - {name: MAYBE, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: s, key: p}}}
    volumeMounts:
    - {name: empty, mountPath: /empty}
    - {name: data, mountPath: /data}
    - {name: claim, mountPath: /claim/}
    - {name: node, mountPath: /node}
    - {name: node, mountPath: /part, subPath: part}
    - {name: config, mountPath: /config}
    - {name: config, mountPath: /one.conf, subPath: one.conf}
    - {name: secret, mountPath: /secret}
    - {name: loose, mountPath: /loose}
    - {name: shared, mountPath: /data/shared}
    - {name: config, mountPath: /part/config}
    - {name: sys, mountPath: /host-sys}
    - {name: empty, mountPath: /srv/app/a, subPath: a}
    - {name: data, mountPath: /srv/app/b}
    - {name: data, mountPath: /srv/app/b/c}
    - {name: config, mountPath: /srv/config}
    - {name: empty, mountPath: /var/run/app}
  containers: [{name: main, image: app, securityContext: {runAsUser: 999}, volumeMounts: [{name: data, mountPath: /d}]}]
  volumes:
  - {name: empty, emptyDir: {}}
  - {name: shared, emptyDir: {}}
  - {name: sys, hostPath: {path: /sys}}
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: node, hostPath: {path: /var/lib/x}}
  - {name: config, configMap: {name: c}}
  - {name: secret, secret: {secretName: s, defaultMode: 0440}}
  - {name: loose, configMap: {name: l, defaultMode: 0777, items: [{key: a, path: b/c}]}}
`

func storageContainer(t *testing.T) *manifest.Container {
	t.Helper()
	objects, err := manifest.Read("a.yaml", strings.NewReader(storage))
	if err != nil {
		t.Fatal(err)
	}
	return objects[0].Pod.Containers[0]
}

// calls are those of a script of simple commands, one a line or separated by semicolons, with quotes, $NAME, patterns,
// | and redirections to files. A line that ends in <<EOF is followed by the lines of its input.
func calls(t *testing.T, script string) (list []*shell.Call) {
	t.Helper()
	lines := strings.Split(script, "\n")
	for i := 0; i < len(lines); i++ {
		line, document := strings.CutSuffix(lines[i], "<<EOF")
		for part := range strings.SplitSeq(line, ";") {
			c := parseCall(t, part)
			if c == nil {
				continue
			}
			if document {
				text := ""
				for i++; lines[i] != "EOF"; i++ {
					text += lines[i] + "\n"
				}
				c.Stdin = &shell.Input{Text: parseWord(`"` + text + `"`)}
			}
			list = append(list, c)
		}
	}
	return list
}

var testWord = regexp.MustCompile(`(?s)(?:'[^']*'|"[^"]*"|[^\s'"])+`)

func parseCall(t *testing.T, text string) *shell.Call {
	t.Helper()
	texts := testWord.FindAllString(text, -1)
	if len(texts) == 0 {
		return nil
	}
	c := &shell.Call{Pos: shell.Pos{Line: 1, Column: 1}}
	for i := 0; i < len(texts); i++ {
		next := func() shell.Word { i++; return parseWord(texts[i]) }
		switch texts[i] {
		case ">":
			c.Stdout = &shell.Output{File: next()}
		case ">>":
			c.Stdout = &shell.Output{File: next(), Append: true}
		case "<":
			c.Stdin = &shell.Input{File: next()}
		case "|":
			c.Pipe = parseCall(t, strings.Join(texts[i+1:], " "))
			i = len(texts)
		default:
			if c.Name == "" {
				c.Name = texts[i]
			} else {
				c.Args = append(c.Args, parseWord(texts[i]))
			}
		}
	}
	return c
}

var testPart = regexp.MustCompile(`(?s)'[^']*'|\$\w+|\$\{\w+(?::-[^}]*)?\}|"|[^$'"]+|\$`)

func parseWord(text string) (w shell.Word) {
	quoted := false
	for _, part := range testPart.FindAllString(text, -1) {
		switch {
		case part == `"`:
			quoted = !quoted
		case part[0] == '\'' && !quoted:
			w = append(w, shell.Part{Text: strings.Trim(part, "'")})
		case part[0] == '$' && len(part) > 1:
			name, value, ok := strings.Cut(strings.Trim(part, "${}"), ":-")
			p := shell.Part{Env: name, Split: !quoted}
			if ok {
				p.Default = shell.Word{{Text: value}}
			}
			w = append(w, p)
		default:
			for piece := range testPieces(part, quoted) {
				w = append(w, piece)
			}
		}
	}
	if w == nil {
		w = shell.Word{{}}
	}
	return w
}

func testPieces(text string, quoted bool) func(func(shell.Part) bool) {
	return func(yield func(shell.Part) bool) {
		for text != "" {
			i := strings.IndexAny(text, "*?[")
			if quoted || i < 0 {
				yield(shell.Part{Text: text})
				return
			}
			if i > 0 && !yield(shell.Part{Text: text[:i]}) {
				return
			}
			end := i + 1
			if text[i] == '[' {
				end = strings.IndexByte(text, ']') + 1
			}
			if !yield(shell.Part{Text: text[i:end], Glob: true}) {
				return
			}
			text = text[end:]
		}
	}
}

// fileSteps returns the steps of a script in the container.
func fileSteps(t *testing.T, script string, c *manifest.Container) ([]Step, error) {
	t.Helper()
	var steps []Step
	for _, call := range calls(t, script) {
		f, ok := commandOf(call.Name)
		if !ok {
			t.Fatalf("no command %s", call.Name)
		}
		more, err := f(call, c)
		if err != nil {
			return nil, err
		}
		steps = append(steps, more...)
	}
	return settle(steps, c)
}

// lineOf is the command line of the steps.
func lineOf(steps []Step) (words []string) {
	for i, s := range steps {
		if i > 0 {
			words = append(words, "--")
		}
		words = append(append(words, s.Subcommand), s.Args...)
		for _, f := range s.Flags {
			words = append(words, "--"+f.Name)
			if f.Value != "" {
				words[len(words)-1] += "=" + f.Value
			}
		}
	}
	return words
}

func TestFileCommands(t *testing.T) {
	t.Parallel()
	for _, c := range fileCases {
		name, _, _ := strings.Cut(c.script, "\n")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			container := storageContainer(t)
			user := int64(1000)
			container.Image = cmp.Or(c.image, container.Image)
			if c.user != 0 {
				container.SecurityContext = &corev1.SecurityContext{RunAsUser: &user}
			}
			steps, err := fileSteps(t, c.script, container)
			if c.stops != "" {
				if err == nil || !strings.Contains(err.Error(), c.stops) || !errors.As(err, new(*shell.Error)) {
					t.Fatalf("want an error with %q, got %v: %q", c.stops, err, lineOf(steps))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(lineOf(steps), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			differs := ""
			for _, s := range steps {
				differs += strings.Join(s.Differs, "\n")
			}
			if c.differs == "" && differs != "" || !strings.Contains(differs, c.differs) {
				t.Errorf("differs: %q, want %q", differs, cmp.Or(c.differs, "nothing"))
			}
			inspected(t, lineOf(steps))
			if c.inside != slices.ContainsFunc(steps, func(s Step) bool { return s.Inside }) {
				t.Errorf("inside: %v", !c.inside)
			}
		})
	}
}

// inspected fails the test unless initbox accepts the command line.
func inspected(t *testing.T, words []string) {
	t.Helper()
	if len(words) == 0 {
		return
	}
	kubelet := strings.NewReplacer("$(SUB)", "logs", "$(NAME)", "a-0", "$$", "$")
	for i, w := range words {
		words[i] = kubelet.Replace(w)
	}
	if _, err := initbox.Inspect(words, map[string]string{"SUB": "logs", "NAME": "a-0", "PASSWORD": "x", "KEY": "x"}); err != nil {
		t.Errorf("initbox does not accept %q: %v", words, err)
	}
}

func TestFileTools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool, args string
		env        []corev1.EnvVar
		want       string
		stops      string
	}{
		{tool: "git", args: "clone --depth 1 https://git.example/a /empty/a", want: "git-clone https://git.example/a /empty/a --depth=1"},
		{tool: "curl", args: "-fLo /empty/a https://repo.example/a", want: "fetch https://repo.example/a /empty/a"},
		{tool: "curl", args: "-fLo a https://repo.example/a", stops: "not an absolute path"},
		{tool: "git-sync", args: "--repo=https://git.example/a --root=/empty --one-time", want: "git-clone --compat=git-sync --repo=https://git.example/a --root=/empty --one-time"},
		{tool: "git-sync", args: "--repo=https://git.example/a --root=/empty", stops: "it keeps running"},
		{tool: "git-sync", args: "--repo=https://git.example/a --root=/git --one-time", stops: "in no volume"},
		{tool: "git-sync", env: []corev1.EnvVar{{Name: "GIT_SYNC_REPO", Value: "https://git.example/a"}, {Name: "GIT_SYNC_ONE_TIME", Value: "true"}, {Name: "GIT_SYNC_ROOT", Value: "/empty"}}, want: "git-clone --compat=git-sync"},
		{tool: "git-sync", args: "--repo=https://git.example/a --root=/empty --one-time --exechook-command=/x", stops: "exechook-command"},
		{tool: "k8s-sidecar", env: []corev1.EnvVar{{Name: "LABEL", Value: "dashboard"}, {Name: "FOLDER", Value: "/empty/d"}, {Name: "METHOD", Value: "LIST"}}, want: "kube-get --compat=k8s-sidecar"},
		{tool: "k8s-sidecar", env: []corev1.EnvVar{{Name: "LABEL", Value: "dashboard"}, {Name: "FOLDER", Value: "/empty/d"}}, stops: "it keeps running"},
		{tool: "k8s-sidecar", env: []corev1.EnvVar{{Name: "LABEL", Value: "d"}, {Name: "FOLDER", Value: "/empty"}, {Name: "METHOD", Value: "LIST"}, {Name: "SCRIPT", Value: "/x"}}, stops: "SCRIPT"},
	} {
		t.Run(c.tool+" "+c.args, func(t *testing.T) {
			t.Parallel()
			container := storageContainer(t)
			container.Env = c.env
			var list []shell.Word
			for text := range strings.FieldsSeq(c.args) {
				list = append(list, parseWord(text))
			}
			steps, err := fileTools[c.tool](list, container)
			if c.stops != "" {
				if err == nil || !strings.Contains(err.Error(), c.stops) {
					t.Fatalf("want an error with %q, got %v: %q", c.stops, err, lineOf(steps))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(lineOf(steps), " "); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			words, env := lineOf(steps), map[string]string{}
			for _, e := range c.env {
				env[e.Name] = e.Value
			}
			if _, err := initbox.Inspect(words, env); err != nil {
				t.Errorf("initbox does not accept %q: %v", words, err)
			}
		})
	}
}

func TestFileConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		condition, then, want, stops string
	}{
		{condition: "test ! -d /data/db", then: "mkdir /data/db", want: "prepare /data/db"},
		{condition: "test ! -f /empty/a", then: "touch /empty/a", want: "prepare /empty/a#file"},
		{condition: "test ! -f /data/a", then: "cp /config/a /data/a", want: "copy /config/a:/data/a#unless=/data/a"},
		{condition: "test ! -e /empty/done", then: "cp -rT /app /empty", want: "copy /app:/empty#mode=go-w&dir-mode=go-w&links=keep&unless=/empty/done"},
		{condition: "test ! -f /data/a.jar", then: "curl -fLo /data/a.jar https://repo.example/a", want: "fetch https://repo.example/a#unless=/data/a.jar /data/a.jar"},
		{condition: "test ! -e /claim/a.jar", then: "wget -P /claim https://repo.example/a.jar", want: "fetch https://repo.example/a.jar#unless=/claim/a.jar /claim/a.jar"},
		{condition: "test ! -d /empty/db", then: "mkdir -p /empty/x; curl -fL https://repo.example/a.tgz | tar xz --no-same-owner -C /empty", want: "prepare /empty/x -- fetch https://repo.example/a.tgz#unpack&unless=/empty/db /empty/"},
		{condition: "test ! -d /empty/db", then: "curl -fLo /tmp/a https://repo.example/a.tgz; tar xzf /tmp/a --no-same-owner -C /empty; rm -f /tmp/a", want: "fetch https://repo.example/a.tgz#unpack&unless=/empty/db /empty/"},
		{condition: "test ! -f /empty/a", then: "curl -fLo /empty/a https://repo.example/a; curl -fLo /empty/b https://repo.example/b", want: "fetch https://repo.example/b#unless=/empty/a /empty/b -- fetch https://repo.example/a#unless=/empty/a /empty/a"},
		{condition: "test ! -d /empty/db", then: "curl -fL https://repo.example/a.tgz | tar xz --no-same-owner -C /empty; curl -fLo /empty/b https://repo.example/b", stops: "/empty/db: a condition"},
		{condition: "test ! -d /data/d", then: "curl -fLo /data/d/a https://repo.example/a; curl -fLo /data/d/b https://repo.example/b", stops: "/data/d: a condition"},
		{condition: "test ! -f /data/a", then: "echo x > /data/a", want: "render --inline=/data/a=x\n --no-overwrite"},
		{condition: "test -f /data/a", then: "rm /data/a", want: "prepare /data/a#absent=file"},
		{condition: "test -f /data/a", then: "rm -rf /data/a", want: "prepare /data/a#absent=file"},
		{condition: "test -f /data/b/a", then: "rm -rf /data/b/a", want: "prepare /data/b/a#absent=file"},
		{condition: "test -f '/data/b/a*'", then: "rm -f '/data/b/a*'", want: "prepare /data/b/a*#absent=file"},
		{condition: "test -d /data/a", then: "rm -rf /data/a", stops: "/data/a: a condition"},
		{condition: "test -d /data/a", then: "rm /data/a", stops: "rm without -r"},
		{condition: "test -e /data/a", then: "rm -rf /data/a", want: "prepare /data/a#absent"},
		{condition: "test -e /data/a", then: "rm -rf /data/a; touch /data/a", stops: "/data/a: a condition"},
		{condition: "test -f /data/a", then: "mv /data/a /empty/", stops: "/data/a: a condition"},
		{condition: "test -d /data/a", then: "mv /data/a /empty/", stops: "/data/a: a condition"},
		{condition: "test -e /claim/a", then: "mv /claim/a /empty/", want: "copy /claim/a:/empty/a#keep&links=keep&optional -- prepare /claim/a#absent"},
		{condition: "test -d /data/db", then: "rm -rf /data/db/*", want: "prepare /data/db#empty&name=[^.]*&if-exists"},
		{condition: "test -d /data/db", then: "cp -r /data/db/. /empty", stops: "/data/db: a condition"},
		{condition: "test -f /data/db", then: "cp -r /data/db /empty/", stops: "/data/db: a condition"},
		{condition: "test -f /config/a", then: "cp /config/a /empty/b", want: "copy /config/a:/empty/b#optional"},
		{condition: "test -f /opt/a", then: "cp /opt/a /empty/b", want: "copy /opt/a:/empty/b#mode=go-w&optional"},
		{condition: "test -d /claim", then: "cp -r /claim/. /empty", want: "copy /claim:/empty#mode=go-w&dir-mode=go-w&optional"},
		{condition: "test -d /data/db", then: "chown -R 999 /data/db", want: "prepare /data/db#owner=999&recursive&if-exists"},
		{condition: "test -f /data/a", then: "cp /data/a /empty/b", stops: "/data/a: a condition"},
		{condition: "test -e /data/a", then: "cp /data/a /empty/b", want: "copy /data/a:/empty/b#mode=go-w&optional"},
		{condition: "test -f /data/a", then: "chmod 600 /data/a", want: "prepare /data/a#file&mode=0600&if-exists"},
		{condition: "test -d /opt/certs", then: "cp -r /opt/certs/. /empty", want: "copy /opt/certs:/empty#mode=go-w&dir-mode=go-w&optional"},
		{condition: "test ! -d /empty/db", then: "mkdir -p /empty/db; cp /config/a /empty/db/", stops: "/empty/db: a condition"},
		{condition: "test ! -f /empty/a", then: "touch /empty/a; chown 9 /empty/a", stops: "/empty/a: a condition"},
		{condition: "test ! -f /empty/a", then: "mkdir -p /empty/b", stops: "/empty/a: a condition"},
		{condition: "test ! -f /empty/a", then: "rm -rf /empty/b", stops: "/empty/a: a condition"},
		{condition: "test ! -d /empty/.git", then: "git clone https://git.example/a /empty", stops: "/empty/.git: a condition"},
		{condition: "test -f /data/a", then: "rm -rf /empty/b", stops: "/data/a: a condition"},
		{condition: "test -e /proc/sys/net/a", then: "echo 1 > /proc/sys/net/a", want: "sysctl net.a=1#if-exists"},
		{condition: "test -e /proc/sys/net/a", then: "echo 1 > /proc/sys/net/b", stops: "/proc/sys/net/a: a condition"},
		{condition: "test -d /proc/sys/net", then: "echo 1 > /proc/sys/net/b", stops: "/proc/sys/net: a condition"},
		{condition: "test ! -e /proc/sys/net/a", then: "echo 1 > /proc/sys/net/a", stops: "depends on the image"},
		{condition: "test -d /opt/app", then: "mkdir -p /empty/a", stops: "depends on the image"},
		{condition: "test -n /opt", then: "mkdir -p /empty/a", stops: "not on a file"},
		{condition: "test ! -f /tmp/$KEY", then: "mkdir -p /empty/a", stops: "KEY"},
	} {
		t.Run(c.condition+" "+c.then, func(t *testing.T) {
			t.Parallel()
			container := storageContainer(t)
			var then []Step
			for _, call := range calls(t, c.then) {
				more, err := fileCommands[call.Name](call, container)
				if err != nil {
					t.Fatal(err)
				}
				then = append(then, more...)
			}
			steps, err := conditional(shell.Cond{Call: parseCall(t, c.condition)}, then, container)
			if err == nil {
				steps, err = settle(steps, container)
			}
			switch got := strings.Join(lineOf(steps), " "); {
			case c.stops != "" && (err == nil || !strings.Contains(err.Error(), c.stops)):
				t.Errorf("want an error with %q, got %v: %s", c.stops, err, got)
			case c.stops == "" && (err != nil || got != c.want):
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			case c.stops == "":
				inspected(t, lineOf(steps))
			}
		})
	}
}

// fileCase is a script and the command line that replaces it, or what stops the conversion.
type fileCase struct {
	script string
	want   string
	stops  string

	differs string
	inside  bool
	user    int64
	image   string
}

const linkDiffers = "a symbolic link to a directory in the volume"

var fileCases = []fileCase{
	{script: "mkdir -p /empty/a /empty/b/c", want: "prepare /empty/a /empty/b/c"},
	{script: "mkdir -p /data/a", want: "prepare /data/a", differs: linkDiffers},
	{script: "mkdir -p /empty/$SUB/$NAME", want: "prepare /empty/$(SUB)/$(NAME)"},
	{script: "mkdir -p '/empty/a#b%23'", want: "prepare /empty/a%23b%2523"},
	{script: "mkdir -p '/empty/$(NAME)'", want: "prepare /empty/$$(NAME)"},
	{script: "mkdir /empty/a", want: "prepare /empty/a", differs: "it is no failure if the directory /empty/a exists"},
	{script: "mkdir -m 700 -p /empty/a", want: "prepare /empty/a#mode=0700", differs: "is set at each run"},
	{script: "mkdir /data/a", stops: "/data/a: mkdir without -p"},
	{script: "mkdir -p -m 700 /data/a", stops: "/data/a: mkdir -m only"},
	{script: "mkdir -p /tmp/a", want: ""},
	{script: "mkdir -p /tmp/a /opt/b /empty/c", want: "prepare /empty/c", differs: "/opt/b in the image, where it is lost"},
	{script: "mkdir -p /tmp/a /empty/c", image: "app", want: "prepare /empty/c", differs: "/tmp/a in the image, where it is lost"},
	{script: "mkdir -p /opt/b /empty/c", image: "app", stops: "/opt/b: in no volume"}, // which may be a link to a volume
	{script: "mkdir -p /var/run/b /empty/c", stops: "/var/run/b: in no volume"},
	{script: "mkdir -p /dev/shm/b /empty/c", stops: "/dev/shm/b: in no volume"},
	{script: "mkdir -p -m 700 /tmp/b; mkdir -p /empty/c", stops: "/tmp/b: in no volume"},
	{script: "mkdir /tmp/b; mkdir -p /empty/c", stops: "/tmp/b: in no volume"},
	{script: "mkdir -p /tmp/b; cp -r /usr/a/. /empty", stops: "may matter to what else runs in the image"},
	{script: "mkdir -p /tmp/b; cp -r /tmp/b /empty/", stops: "may matter to what else runs in the image"},
	{script: "mkdir -p /tmp/b; touch /tmp/b/c", stops: "/tmp/b/c: in no volume"},
	{script: "mkdir -p /tmp/b; curl -fLo /tmp/b/c https://repo.example/a; chmod 755 /tmp/b/c; mv /tmp/b/c /empty/c; rm -rf /tmp/b", want: "fetch https://repo.example/a#mode=0755 /empty/c", differs: "/tmp/b in the image"},
	{script: "curl -fLo /tmp/a https://repo.example/a; curl -fLo /tmp/b https://repo.example/b; chmod 755 /tmp/a /tmp/b; mv /tmp/a /tmp/b /empty/", stops: "/tmp/a: in no volume"},
	{script: "chown -R 9 /tmp/b; curl -fLo /tmp/b/c https://repo.example/a; mv /tmp/b/c /empty/c", stops: "may matter"},
	{script: "chown 9 /empty /opt/b; rm -rf /opt/c", want: "prepare /empty#owner=9", differs: "/opt/c in the image"},
	{script: "mkdir -p /tmp/b; find /tmp/b -exec chown 9 {} +; touch /empty/a", want: "prepare /empty/a#file", differs: "/tmp/b in the image"},
	{script: "rm -rf /tmp/*; touch /empty/a", stops: "/tmp/*: in no volume"},
	{script: "mkdir -p /config/a", stops: "/config/a: in a volume that is mounted read-only"},
	{script: "mkdir -p a", stops: "a: not an absolute path"},
	{script: "mkdir -p ~/a", stops: "the home directory"},
	{script: "mkdir -p /empty/../a", stops: "a path with .. in it"},
	{script: "mkdir -p '/empty/{1..3}'", stops: "another meaning"},
	{script: "mkdir -p /empty/$MAYBE", stops: "MAYBE"},
	{script: "mkdir -p /empty/$PASSWORD", stops: "PASSWORD"},
	{script: "mkdir -p /empty/$KEY", stops: "KEY"},
	{script: "mkdir -p /empty/$HASH", stops: "HASH"},
	{script: "mkdir -p /empty/$SPACES", stops: "not one word"},
	{script: "mkdir -p /$NAME", stops: "a path that may be that of the volume"},
	{script: "mkdir -p /empty/*", stops: "a pattern"},
	{script: "mkdir -pZ /empty/a", stops: "-Z: an option"},
	{script: "mkdir -p /empty/a > /data/log", stops: "/data/log: what mkdir prints"},

	{script: "chown -R 999:998 /data", want: "prepare /data#owner=999:998&recursive"},
	{script: "chown -R root:root /data", want: "prepare /data#owner=0:0&recursive"},
	{script: "chown 999 /data", want: "prepare /data#owner=999"},
	{script: "chown :998 /data", want: "prepare /data#owner=:998"},
	{script: "chgrp -R 998 /data/", want: "prepare /data#owner=:998&recursive"},
	{script: "chown -R 999:998 /data/db", want: "prepare /data/db#any-kind&owner=999:998&recursive", differs: "is not followed"},
	{script: "mkdir -p /empty/db; chown 999 /empty/db; chmod 700 /empty/db", want: "prepare /empty/db#owner=999&mode=0700"},
	{script: "mkdir -p /empty/db; chown -R 999 /empty", want: "prepare /empty/db /empty#owner=999&recursive"},
	{script: "touch /empty/f; chown 999 /empty/f", want: "prepare /empty/f#file&owner=999", differs: "the time of /empty/f"},
	{script: "chown 999 /data/db", want: "prepare /data/db#any-kind&owner=999", differs: "is not followed"},
	{script: "chown -R mysql:mysql /data", want: "prepare /data#owner=mysql:mysql&recursive", inside: true},
	{script: "chown -R mysql:root /data; chgrp www-data /data", want: "prepare /data#owner=mysql:0&recursive /data#owner=:www-data", inside: true},
	{script: "chown -R root:999 /data", want: "prepare /data#owner=0:999&recursive"},
	{script: "chown auto /data", stops: "auto: neither the number nor the name"},
	{script: "chown mysql.mysql /data", stops: "mysql.mysql: neither the number nor the name"},
	{script: "chown -R 999: /data", stops: "neither the number nor the name"},
	{script: "chown -R $KEY /data", stops: "not in the manifest"},
	{script: "chown -R 999:998 /data/*", want: "prepare /data#children&owner=999:998", differs: "begins with a dot in /data is changed, too"},
	{script: "chmod -R 750 /empty/*", want: "prepare /empty#children&mode=0750", differs: "what a symbolic link in /empty leads to"},
	{script: "chown 999 /data/*", stops: "/data/*: a pattern"},
	{script: "chown -R 999 /data/a*", stops: "/data/a*: a pattern"},
	{script: "chown -R 999 /data/a/*", stops: "/data/a/*: a pattern"}, // which may be no directory
	{script: "chown -R 999 /srv/app/*", want: "prepare /srv/app/a#owner=999&recursive /srv/app/b#owner=999&recursive"},
	{script: "chown 999 /srv/app/*", stops: "/srv/app/*: in no volume"},
	{script: "chown -R 999 /data/*; chmod 700 /data", want: "prepare /data#children&owner=999 /data#mode=00700", differs: "begins with a dot"},
	{script: "cp /config/* /empty; chmod 600 /empty/*.key; chown 9 /empty", want: "copy /config/*:/empty/ -- prepare /empty#children&mode=0600&name=[^.]*.key /empty#owner=9", differs: "files below"},
	{script: "find /data -mindepth 1 -exec chown -h 9 {} +; chmod 700 /data", want: "prepare /data#owner=9&children /data#mode=00700"},
	{script: "find /empty -type f -exec chmod 640 {} +; chmod -R 700 /empty", want: "prepare /empty#file-mode=0640&recursive /empty#mode=0700&recursive", differs: "sockets"},
	{script: "find /data ! -name lost+found -exec chown -h 9 {} +; chmod -R 700 /data", want: "prepare /data#owner=9&recursive&exclude=lost+found /data#mode=00700&recursive", differs: "at any depth"},
	{script: "cp -r public /empty/", want: "copy ./public:/empty/public#mode=go-w&dir-mode=go-w&links=keep", differs: "if public is empty", inside: true},
	{script: "cp -r . /empty", want: "copy .:/empty#mode=go-w&dir-mode=go-w", differs: "is empty", inside: true},
	{script: "cp -r ./dist/* /empty/", want: "copy ./dist/*:/empty/#mode=go-w&dir-mode=go-w", differs: "setuid, setgid and sticky bits are not copied", inside: true},
	{script: "cp a $SUB/b /empty/", want: "copy ./a:/empty/#mode=go-w -- copy ./$(SUB)/b:/empty/#mode=go-w", differs: "setuid, setgid and sticky bits are not copied", inside: true}, // which may read what the first has written
	{script: "cp /config/a b", stops: "b: not an absolute path"},
	{script: "cp -r ../a /empty/", stops: "a path with .. in it"},
	{script: "mv a /empty/", stops: "a: not an absolute path"},
	{script: "chown -RL 999 /data", stops: "-L: an option"},
	{script: "chown --reference /a /data", stops: "--reference: an option"},
	{script: "chown -R 999 /opt/app", image: "app", stops: "/opt/app: in no volume"},
	{script: "chown -R 999:998 /srv/app/", want: "prepare /srv/app/a#owner=999:998&recursive /srv/app/b#owner=999:998&recursive"},
	{script: "mkdir -p /srv/app /srv; chmod -R 0770 /srv/app", want: "prepare /srv/app/a#mode=0770&recursive /srv/app/b#mode=00770&recursive"},
	{script: "chown -R 999 /srv/app", image: "app", want: "prepare /srv/app/a#owner=999&recursive /srv/app/b#owner=999&recursive", differs: "a symbolic link in the image between /srv/app and the volume /srv/app/a"},
	{script: "chown -R 999 /var", stops: "/var: in no volume"}, // whose /var/run is a link
	{script: "cp -r /usr/a/ /empty/", image: "app", want: "copy /usr/a:/empty/a#mode=go-w&dir-mode=go-w", differs: "where the cp of BusyBox copies the link", inside: true},
	{script: "cp -r /usr/a/ /empty/", stops: "of which BusyBox copies a link as a link"},
	{script: "cp -r /usr/a/ /empty/", image: "debian", want: "copy /usr/a:/empty/a#mode=go-w&dir-mode=go-w", differs: "if /usr/a is empty", inside: true},
	{script: "chown -R 999 /srv", stops: "/srv: in no volume"},
	{script: "chown 999 /srv/app", stops: "/srv/app: in no volume"},
	{script: "mkdir /srv/app", stops: "/srv/app: in no volume"},
	{script: "chown -R 999 /srv/app; cp -a /srv/app/tool /empty/", stops: "may matter to what else runs in the image"},
	{script: "cp -r /usr/a /srv/app", want: "copy /usr/a:/srv/app/a#mode=go-w&dir-mode=go-w&links=keep", differs: "if /usr/a is empty", inside: true},
	{script: "cp -r /usr/c /srv/app", stops: "/srv/app: in no volume"},
	{script: "cp -r /usr/a/. /srv/app", stops: "/srv/app: in no volume"},
	{script: "chmod 0777 /empty", want: "prepare /empty#mode=0777"},
	{script: "chmod -R 755 /data", want: "prepare /data#mode=00755&recursive"},
	{script: "chown -R 999 /part/.", want: "prepare /part#owner=999&recursive", differs: "it is no failure if the volume /part/config is mounted read-only"},
	{script: "echo a > /empty/b/c", want: "render --inline=/empty/b/c=a\n", differs: "the directory of /empty/b/c is made, too"},
	{script: "curl -sfLo /claim/a/b http://repo.example/b", want: "fetch http://repo.example/b /claim/a/b", differs: "if /claim/a/b is a directory, a file is made in it"},
	{script: "curl -sfLo /empty/a/b --create-dirs http://repo.example/b", want: "fetch http://repo.example/b /empty/a/b", differs: "a directory that is missing gets the mode 0755"},
	{script: "cp -a /claim/a/ /empty/", image: "debian:12", want: "copy /claim/a:/empty/a#keep", differs: "a device in /claim/a"},
	{script: "mkdir /empty/a; cp -a /claim/a/ /empty/", image: "debian:12", stops: "gives a directory in it the owner and mode of the source"},
	{script: "chmod -R u=rwx,g=rx /data", want: "prepare /data#mode=u=rwx,g=rx,g-s&recursive"},
	{script: "chmod -R a=rX /data", stops: "BusyBox reads in its own way"},
	{script: "chmod u=rwx,g=rwxs /data", stops: "BusyBox reads in its own way"},
	{script: "chmod -R go=r /data", want: "prepare /data#mode=go=r,g-s&recursive", differs: "a sticky bit is cleared"},
	{script: "chmod -R 755 /data/*", want: "prepare /data#children&mode=00755", differs: "begins with a dot"},
	{script: "chmod -R g=rx /data/*", want: "prepare /data#children&mode=g=rx,g-s", differs: "begins with a dot"},
	{script: "chmod -R 00755 /data", image: "debian:12", want: "prepare /data#mode=00755&recursive"},
	{script: "chmod -R a=rX /data", image: "debian:12", want: "prepare /data#mode=a=rX&recursive"},
	{script: "chmod -R u+rwX,go-rwx /data", want: "prepare /data#mode=u+rwX,go-rwx&recursive"},
	{script: "chmod +x /one.conf", stops: "mounted read-only"},
	{script: "chmod 4755 /empty/f; chown 5:5 /empty/f", stops: "/empty/f: chown clears the setuid"},
	{script: "chmod u+s /empty/f; chown 5:5 /empty/f", stops: "/empty/f: chown clears the setuid"},
	{script: "chmod 2755 /empty/f; chgrp 5 /empty/f", stops: "/empty/f: chown clears the setuid"},
	{script: "chmod 4755 /empty/f; chown -R 5:5 /empty", stops: "/empty: chown clears the setuid"},
	{script: "chmod -R g+s /data; chown 5:5 /data/f", stops: "/data/f: chown clears the setuid"},
	{script: "chmod -R u+s /data; chown -R 5:5 /data", stops: "/data: chown clears the setuid"},
	{script: "find /data -type f -exec chmod 4755 {} +; chown -R 5:5 /data", stops: "/data: chown clears the setuid"},
	{script: "install -m 4755 /config/a /empty/f; chown 5 /empty/f", stops: "/empty/f: chown clears the setuid"},
	{script: "curl -fLo /empty/f http://repo.example/a; chmod 4755 /empty/f; chown 5 /empty/f", stops: "/empty/f: chown clears the setuid"},
	{script: "touch /empty/f; chown 5:5 /empty/f; chmod 4755 /empty/f", want: "prepare /empty/f#file&owner=5:5&mode=4755", differs: "the time"},
	{script: "mkdir -p /empty/d; chmod 2775 /empty/d; chown 5:6 /empty/d", want: "prepare /empty/d#mode=2775&owner=5:6"},
	{script: "chmod 4755 /empty/f; chown 5:5 /empty/g", want: "prepare /empty/f#any-kind&mode=4755 /empty/g#any-kind&owner=5:5"},
	{script: "touch /empty/a; chmod +x /empty/a", want: "prepare /empty/a#file&mode=a+x", differs: "the time"},
	{script: "touch /empty/a; chmod +rw /empty/a", want: "prepare /empty/a#file&mode=a+r,u+w", differs: "the time"},
	{script: "chmod -R g=u /empty", want: "prepare /empty#mode=g=u&recursive"},
	{script: "chmod -x /empty", want: "prepare /empty#mode=a-x"},
	{script: "chmod -w /empty", stops: "depends on the umask"},
	{script: "chmod 7x7 /empty", stops: "7x7: a mode"},
	{script: "chmod $SUB /empty", stops: "not a plain text"},

	{script: "touch /empty/a", want: "prepare /empty/a#file", differs: "the time of /empty/a"},
	{script: "touch -d yesterday /empty/a", stops: "-d: an option"},
	{script: "touch /empty", stops: "a directory"},
	{script: "rm -rf /data/lost+found", want: "prepare /data/lost+found#absent", differs: linkDiffers},
	{script: "rm -f /empty/a", want: "prepare /empty/a#absent=file", differs: "it is no failure if /empty/a is a directory, which stays"},
	{script: "rm -rf /empty/*", want: "prepare /empty#empty&name=[^.]* --force", differs: "lost+found and .snapshot stay"},
	{script: "rm -rf /empty/* /empty/.[!.]* /empty/..?*", want: "prepare /empty#empty&name=[^.]* /empty#empty&name=.[^.]* /empty#empty&name=..?* --force", differs: "stay"},
	{script: "rm -f /data/run/*.pid", want: "prepare /data/run#empty&if-exists&name=[^.]*.pid&older-than=0", differs: "stay"},
	{script: "rm -f /data/run/*pid", want: "prepare /data/run#empty&if-exists&name=pid&name=[^.]*pid&older-than=0", differs: "stay"},
	{script: "rm -rf /data/*", stops: "volumes are mounted below it"},
	{script: "rm -rf /empty/.*", stops: "a pattern that is not understood"},
	{script: "rm -rf /data", stops: "a volume is mounted there"},
	{script: "rm -rf /empty/a/", stops: "a slash at its end"},
	{script: "rm /empty/a", stops: "rm without -f fails"},
	{script: "touch /empty/a; rm /empty/a", want: "prepare /empty/a#file /empty/a#absent", differs: "the time"},
	{script: "mkdir -p /empty/a; rm -f /empty/a", stops: "a directory, which rm without -r"},
	{script: "rm -rf /var/cache/*", stops: "in no volume"},

	{script: "ln -s /secret/a /empty/a", want: "prepare /empty/a#link=/secret/a", differs: "is not replaced, but an error"},
	{script: "ln -sf /secret/a /empty/", want: "prepare /empty/a#link=/secret/a", differs: "is not replaced, but an error"},
	{script: "mkdir -p /data/x; ln -sf /secret/a /data/x", want: "prepare /data/x /data/x/a#link=/secret/a", differs: "is not replaced, but an error"},
	{script: "ln -sfn /data/v2 /data/current", want: "prepare /data/current#link=/data/v2", differs: "is not replaced, but an error"},
	{script: "ln -sfn '../a&b%' /empty/c", want: "prepare /empty/c#link=../a%26b%25", differs: "is not replaced, but an error"},
	{script: "ln -sf /data/v2 /data/current", stops: "-n or -T"},
	{script: "ln -s /data/v2 /data/current", stops: "ln without -f"},
	{script: "ln /empty/a /empty/b", stops: "a hard link"},

	{script: "cp /config/a /empty/", want: "copy /config/a:/empty/"},
	{script: "cp /config/a /config/b /empty", want: "copy /config/a:/empty/ /config/b:/empty/"},
	{script: "cp /config/a /empty/b", want: "copy /config/a:/empty/b"},
	{script: "cp /config/* /empty", want: "copy /config/*:/empty/"},
	{script: "cp -rL /config/. /empty", want: "copy /config:/empty", differs: "..data and that behind it, are not copied"},
	{script: "cp '/data/*' /empty/a", stops: "a character in quotes that copy would read as a pattern"},
	{script: "cp -r /config/. /empty", want: "copy /config:/empty", differs: "where cp copies the kubelet's links"},
	{script: "cp -rL /config /empty", want: "copy /config:/empty/config", differs: "if /config is empty"},
	{script: "cp /loose/b/* /empty", want: "copy /loose/b/*:/empty/#mode=go-w", differs: "directories that match"},
	{script: "cp -r /app/. /empty/", want: "copy /app:/empty#mode=go-w&dir-mode=go-w", differs: "if /app is empty", inside: true},
	{script: "cp -a /app/static /empty/", want: "copy /app/static:/empty/static#keep&links=keep", differs: "if /app/static is empty", inside: true},
	{script: "cp -a /app/. /empty/", want: "copy /app:/empty#keep", differs: "the owner and mode of /empty itself", inside: true},
	{script: "cp -a /app/. /data/", stops: "the owner and mode of the source"},
	{script: "cp -rn /app/. /data/", image: "debian:12", want: "copy /app:/data#mode=go-w&dir-mode=go-w&no-overwrite", differs: "if /app is empty", inside: true},
	{script: "cp -r /app/ /empty/", stops: "BusyBox copies a link as a link"},
	{script: "cp -r /app/ /empty/", image: "debian:12", want: "copy /app:/empty/app#mode=go-w&dir-mode=go-w", differs: "if /app is empty", inside: true},
	{script: "cp -r /data/shared/ /empty/", want: "copy /data/shared:/empty/shared#mode=go-w&dir-mode=go-w&optional", differs: "a socket, a pipe or a device in /data/shared"},
	{script: "ln -sfn /data/x /empty/b; cp /config/a /empty/b", stops: "a link that an earlier command has made"},
	{script: "ln -sfn /data/x /empty/b; cp /config/a /empty/b/", stops: "a link that an earlier command has made"},
	{script: "ln -sfn /data/x /empty/b; cp /config/a /empty/b/c", stops: "leads through a link"},
	{script: "ln -sfn /data/x /empty/b; echo a > /empty/b", stops: "a link"},
	{script: "ln -sfn /data/x /empty/b; echo a > /empty/b/c", stops: "leads through a link"},
	{script: "ln -sfn /data/x /empty/b; mkdir -p /empty/b", stops: "a link"},
	{script: "ln -sfn /data/x /empty/b; touch /empty/b", stops: "a link"},
	{script: "cp -rn /app/. /data/", stops: "by the version of BusyBox"},
	{script: "cp -u /secret/a /empty/a", want: "copy /secret/a:/empty/a#update"},
	{script: "cp -p /bin/tool /empty/", want: "copy /bin/tool:/empty/#keep=mode,owner,times", inside: true},
	{script: "cp -r /data/shared/. /empty", want: "copy /data/shared:/empty#mode=go-w&dir-mode=go-w&optional", differs: "a socket, a pipe or a device in /data/shared"},
	{script: "cp -r /app /empty/app", want: "copy /app:/empty/app#mode=go-w&dir-mode=go-w&links=keep", differs: "a second run copies", inside: true},
	{script: "cp -rT /app /empty", want: "copy /app:/empty#mode=go-w&dir-mode=go-w&links=keep", differs: "if /app is empty", inside: true},
	{script: "mkdir -p /data/a; cp /config/x /data/a; chown -R 999:999 /data", want: "prepare /data/a -- copy /config/x:/data/a/ -- prepare /data#owner=999:999&recursive", differs: "a file or a link that exists is replaced"},
	{script: "cp /config/x /data/", user: 1000, want: "copy /config/x:/data/", differs: "a file or a link that exists is replaced"},
	{script: "cp /config/x /node/", want: "copy /config/x:/node/", differs: "a file or a link that exists is replaced"},
	{script: "cp --update=none /config/x /data/", want: "copy /config/x:/data/#no-overwrite", differs: "it is an error if there is a directory"},
	{script: "cp -n /config/x /data/", want: "copy /config/x:/data/#no-overwrite", differs: "it is an error if there is a directory"},
	{script: "cp /config/x /data/", stops: "may belong to the user of another container"},
	{script: "cp -r /app /data/app", stops: "cp -r copies into it if it is there"},
	{script: "cp /config/* /empty/dir", stops: "whether it is a directory is not known"},
	{script: "cp /config /empty", stops: "/config: a directory, which cp without -r"},
	{script: "cp -r /empty/. /empty/x", stops: "the destination is the source"},
	{script: "cp /config/a /tmp/a", stops: "in no volume"},
	{script: "cp -r --reflink /a /empty", stops: "--reflink: an option"},
	{script: "cp /config/[a-z] /empty", stops: "a pattern that is not understood"},
	{script: "cp /conf*/a /empty", stops: "not the last part"},
	{script: "cp '/config/a:b' /empty", stops: "another meaning"},
	{script: "cp /secret/* /empty/; chmod 600 /empty/*.key", want: "copy /secret/*:/empty/ -- prepare /empty#children&mode=0600&name=[^.]*.key", differs: "no failure if no file matches"},
	{script: "cp /secret/tls.key /empty/; chmod 600 /empty/tls.key", want: "copy /secret/tls.key:/empty/ -- prepare /empty/tls.key#file&mode=0600&if-exists"},
	{script: "cp /config/a /empty/a; cp /empty/a /empty/b", want: "copy /config/a:/empty/a -- copy /empty/a:/empty/b#mode=go-w"},
	{script: "touch /empty/f; chmod 600 /empty/f; echo \"$PASSWORD\" > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "touch /empty/f; chmod 600 /empty/f; cat /config/a > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "touch /empty/f; chmod 600 /empty/f; cp /config/a /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "touch /empty/a; chown 5 /empty/a; cp /config/a /empty", stops: "an earlier command has given the file its mode"},
	{script: "touch /empty/f; chmod 600 /empty/f; sed s/a/b/g /config/a > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "touch /empty/f; chmod 600 /empty/f; curl -fLo /empty/f http://repo.example/a", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "curl -fLo /empty/f http://repo.example/a; chmod 600 /empty/f; echo a > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "touch /empty/f; chmod 600 /empty/f; envsubst < /config/a > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "touch /empty/f; chmod 600 /empty/f; kubectl get cm a -o jsonpath='{.data.b}' > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "echo a > /empty/f; chown 5:5 /empty/f; chmod 400 /empty/f; echo b > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "echo a > /empty/f; chown -R 5:5 /empty; echo b > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "cp /config/a /empty/f; chmod 755 /empty/f; cp /config/b /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "cp /config/* /empty; chmod 600 /empty/*.key; echo a > /empty/a.key", stops: "/empty/a.key: an earlier command has given the file its mode"},
	{script: "install -m 600 /config/a /empty/f; echo b > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "cp /secret/a /empty/f; echo b > /empty/f", stops: "/empty/f: an earlier command has given the file its mode"},
	{script: "touch /empty/f; chmod 600 /empty/f; rm -f /empty/f; echo b > /empty/f", want: "prepare /empty/f#file&mode=0600 /empty/f#absent -- render --inline=/empty/f=b\n", differs: "the time of"},
	{script: "mkdir -p /empty/d; chmod 700 /empty/d; cp -r /config/. /empty/d", want: "prepare /empty/d#mode=0700 -- copy /config:/empty/d", differs: "the kubelet's links"},
	{script: "chmod 700 /empty; echo a > /empty/f; chmod 400 /empty/f; cp -p /config/a /empty/f", want: "prepare /empty#mode=0700 -- render --inline=/empty/f=a\n -- prepare /empty/f#file&mode=0400&if-exists -- copy /config/a:/empty/f#keep=mode,owner,times"},
	{script: "chown -R 5:5 /empty; cp /config/a /empty/; echo b > /empty/f", want: "prepare /empty#owner=5:5&recursive -- copy /config/a:/empty/ -- render --inline=/empty/f=b\n"},
	{script: "chmod 777 /empty; cp /config/* /empty/", want: "prepare /empty#mode=0777 -- copy /config/*:/empty/"},
	{script: "chown -R 5:5 /empty; cp -r /app/. /empty/", want: "prepare /empty#owner=5:5&recursive -- copy /app:/empty#mode=go-w&dir-mode=go-w", differs: "is empty", inside: true},
	{script: "cp -r /app/. /empty/; echo a > /empty/f", want: "copy /app:/empty#mode=go-w&dir-mode=go-w -- render --inline=/empty/f=a\n", differs: "a file or a link that exists is replaced", inside: true},
	{script: "cp /dev/null /empty/f", stops: "/dev/null: a device"},
	{script: "install -m 600 /dev/null /empty/f", stops: "/dev/null: a device"},
	{script: "cp /config/..data/a /empty/", stops: "/config/..data/a: a directory of the kubelet"},
	{script: "cat /config/..data/a > /empty/a", stops: "/config/..data/a: a directory of the kubelet"},
	{script: "cp /config/a /part", stops: "/part: a subPath of a volume"},
	{script: "cp /config/a /part/", want: "copy /config/a:/part/", differs: "a file or a link that exists is replaced"},
	{script: "cp -r /config/. /part", want: "copy /config:/part", differs: "the kubelet's links"},
	{script: "chown -R 5:5 /part", want: "prepare /part#owner=5:5&recursive", differs: "the volume /part/config is mounted read-only"},
	{script: "install -d -m 700 /empty/a", want: "prepare /empty/a#mode=0700"},
	{script: "install -m 600 /secret/a /empty/b", want: "copy /secret/a:/empty/b#mode=0600"},

	{script: "echo hello", want: ""},
	{script: "ls -la /data; id; df -h", want: ""},
	{script: "cp /config/a /empty/; cat /empty/a; ls -l /empty", want: "copy /config/a:/empty/"},
	{script: "ls /data/db", stops: "ls fails if it does not exist"},
	{script: "rm -rf /empty/a; cat /empty/a", stops: "cat fails if it does not exist"},
	{script: "curl -fL -o '/empty/a#b' http://repo.example/a", stops: "another meaning"},
	{script: "curl -fL http://repo.example/a.tgz | tar xz -C /empty; chown -R 1 /empty", stops: "keep their owners"},
	{script: "ls | cat", stops: "ls |: what it prints is used"},
	{script: "env > /empty/env", stops: "what env prints, in a file"},
	{script: `echo "a $SUB" > /empty/a`, want: "render --inline=/empty/a=a {{ .Env.SUB }}\n"},
	{script: `echo -n "$PASSWORD" > /empty/a`, want: "render --inline=/empty/a={{ .Env.PASSWORD }} --secret-env=PASSWORD --mode=0644", differs: "a backslash in the value"},
	{script: `printf '%s:%s\n' "$SUB" "$PASSWORD" > /empty/a`, want: "render --inline=/empty/a={{ .Env.SUB }}:{{ .Env.PASSWORD }}\n --secret-env=PASSWORD --mode=0644"},
	{script: `echo '{{ x }} {{{' > /empty/a`, want: "render --inline=/empty/a={{ \"{{\" }} x }} {{ \"{{\" }}{\n"},
	{script: `echo "{$SUB}" > /empty/a`, want: "render --inline=/empty/a={{ \"{\" }}{{ .Env.SUB }}}\n"},
	{script: `echo "${EMPTY:-x}" > /empty/a`, want: "render --inline=/empty/a=x\n"},
	{script: `echo "${KEY:-x}" > /empty/a`, want: "render --inline=/empty/a={{ .Env.KEY | default \"x\" }}\n", differs: "a backslash"},
	{script: "echo a > /empty/f; echo b >> /empty/f", want: "render --inline=/empty/f=a\nb\n"},
	{script: "echo a > /empty/f; echo b > /empty/f", want: "render --inline=/empty/f=a\n -- render --inline=/empty/f=b\n"},
	{script: "echo a > /empty/f; echo b > /empty/g", want: "render --inline=/empty/f=a\n --inline=/empty/g=b\n"},
	{script: "cat > /empty/f <<EOF\na=$SUB\nb=$NAME\nEOF\necho c >> /empty/f", want: "render --inline=/empty/f=a={{ .Env.SUB }}\nb={{ .Env.NAME }}\nc\n"},
	{script: `echo "$PASSWORD" | tee /empty/a`, want: "render --inline=/empty/a={{ .Env.PASSWORD }}\n --secret-env=PASSWORD --mode=0644", differs: "a backslash"},
	{script: ": > /empty/a", want: "render --inline=/empty/a="},
	{script: "cat /dev/null > /empty/a", want: "render --inline=/empty/a="},
	{script: "cat /config/a > /empty/b", want: "copy /config/a:/empty/b#mode=0644"},
	{script: "cat /secret/key /secret/crt > /empty/b", want: "render --inline=/empty/b={{ .Files.Get \"key\" }}{{ .Files.Get \"crt\" }} --files=/secret --mode=0644"},
	{script: "cat /config/* > /empty/b", stops: "a pattern"},
	{script: "cat /config/a /secret/b > /empty/b", stops: "not a file in the same"},
	{script: "echo b >> /empty/f", stops: "a second run would add the text again"},
	{script: "echo a > /empty/f; cp /empty/f /empty/g; echo b >> /empty/f", stops: "may read it"},
	{script: "echo $PASSWORD > /empty/a", want: "render --inline=/empty/a={{ .Env.PASSWORD }}\n --secret-env=PASSWORD --mode=0644", differs: "a backslash"},
	{script: "echo never > /host-sys/kernel/mm/transparent_hugepage/enabled", want: "sysctl /host-sys/kernel/mm/transparent_hugepage/enabled=never"},
	{script: "touch /host-sys/a", stops: "a file of the kernel"},
	{script: "cp /config/a /host-sys/a", stops: "a file of the kernel"},
	{script: "cp /config/x /claim/", want: "copy /config/x:/claim/", differs: "a file or a link that exists is replaced"},
	{script: "cp /config/* /empty/; chmod 600 /empty/client.key", want: "copy /config/*:/empty/ -- prepare /empty/client.key#any-kind&mode=0600"},
	{script: "echo $SPACES > /empty/a", stops: "not known to be one word"},
	{script: `echo "$MAYBE" > /empty/a`, stops: "MAYBE"},
	{script: `echo 'a\nb' > /empty/a`, stops: "a backslash"},
	{script: "echo -e a > /empty/a", stops: "-e: a flag that shells"},
	{script: `printf '%d' 1 > /empty/a`, stops: "a format"},
	{script: `printf "$SUB" > /empty/a`, stops: "a format that is not a plain text"},
	{script: "echo a > /data/a", stops: "may belong to the user of another container"},
	{script: "echo a > /tmp/a", stops: "in no volume"},
	{script: "echo a > '/empty/a=b'", stops: "another meaning"},
	{script: "envsubst < /config/a > /empty/a", want: "render /config/a:/empty/a --engine=envsubst --secret-env=PASSWORD --mode=0644", differs: "that is not set is an error"},
	{script: "envsubst '$SUB $PASSWORD' < /config/a > /empty/a", want: "render /config/a:/empty/a --engine=envsubst --vars=$SUB $PASSWORD --missing-key=zero --secret-env=PASSWORD --mode=0644"},
	{script: "envsubst '$MAYBE' < /config/a > /empty/a", stops: "MAYBE"},
	{script: "envsubst > /empty/a", stops: "what it reads is not a file"},
	{script: "dockerize -template /config/a.tmpl:/empty/a", want: "render /config/a.tmpl:/empty/a --compat=dockerize --secret-env=PASSWORD --mode=0644", differs: "that is not set is an error"},
	{script: "dockerize -template /config/a:/empty/a -delims '<%:%>' -no-overwrite -wait tcp://db:5432 -timeout 1m", want: "render /config/a:/empty/a --compat=dockerize --delims=<%:%> --no-overwrite --secret-env=PASSWORD --mode=0644 -- wait-for-service tcp://db:5432 --timeout=1m", differs: "exists"},
	{script: "dockerize -template /config/a:/empty/a -delims '<%'", stops: "not two delimiters"},
	{script: "dockerize -template /config/a", stops: "goes to the log"},
	{script: "dockerize -template a:/empty/a", stops: "relative to the working directory"},
	{script: "dockerize -template /data/a:/empty/a", stops: "perhaps a directory"},
	{script: "dockerize -template /config:/empty", stops: "perhaps a directory"},
	{script: "dockerize -template /config/a:/opt/a", stops: "in no volume"},

	{script: "sysctl -w vm.max_map_count=262144", want: "sysctl vm.max_map_count=262144"},
	{script: "sysctl -w a.b=1; sysctl -w c.d='1 2'", want: "sysctl a.b=1 c.d=1 2"},
	{script: "sysctl -e -w a.b=1", want: "sysctl a.b=1 --if-exists"},
	{script: "sysctl vm.max_map_count", want: ""},
	{script: "sysctl -p /config/sysctl.conf", want: "sysctl --file=/config/sysctl.conf"},
	{script: `kubectl get node $NAME -o jsonpath='{.metadata.labels.zone}' > /empty/zone`, want: "kube-get k8s:node/$(NAME)#jsonpath={.metadata.labels.zone}&default&mode=0644 /empty/zone", differs: waitsFirst},
	{script: `kubectl get node a -ojsonpath='{.status.addresses[0].address}' > /empty/a`, want: "kube-get k8s:node/a#jsonpath={.status.addresses[0].address}&mode=0644 /empty/a", differs: waitsFirst},
	{script: `kubectl -n b get secret a -o jsonpath='{.data.tls\.crt}' | base64 -d > /empty/a`, want: "kube-get k8s:secret/a?namespace=b#key=tls.crt&mode=0644 /empty/a", differs: "missing or empty"},
	{script: `kubectl get cm a -o jsonpath='{.data.b}' | base64 -d > /empty/a`, stops: "base64: not of one key of a Secret"},
	{script: `kubectl get secret a -o jsonpath='{.data.b}' | base64 > /empty/a`, stops: "base64: what reads the output"},
	{script: `kubectl get secret a -o jsonpath='{.data.b}' >> /empty/a`, stops: "kubectl: what it prints does not become a file"},
	{script: `kubectl get secret a -o jsonpath='{.data.b}' > /tmp/a`, stops: "/tmp/a: in no volume"},
	{script: `kubectl get secret a -o jsonpath='{.data.b}' > /empty`, stops: "/empty: not the name of a file"},
	{script: `kubectl get nodes -l a=b -o jsonpath='{.items[*].metadata.name}' > /empty/a`, stops: "not one value of one object"},
	{script: `kubectl get secret a -o yaml > /empty/a`, stops: "not one value of one object"},
	{script: `kubectl delete pod a > /empty/a`, stops: "not one value of one object"},
	{script: "echo 1 > /proc/sys/net/ipv4/ip_forward", want: "sysctl net.ipv4.ip_forward=1"},
	{script: "echo never > /sys/kernel/mm/transparent_hugepage/enabled", want: "sysctl /sys/kernel/mm/transparent_hugepage/enabled=never"},
	{script: "sysctl -p", stops: "/etc/sysctl.conf of the image"},
	{script: "sysctl -a", stops: "-a: an option"},
	{script: "sysctl -w vm.x", stops: "not KEY=VALUE"},
	{script: "sysctl -w 'net.ipv4.conf.*.x=1'", stops: "not KEY=VALUE"},

	{script: "curl -fsSL https://repo.example/a.jar -o /empty/a.jar", want: "fetch https://repo.example/a.jar /empty/a.jar", differs: "hidden file"},
	{script: "curl -sL https://repo.example/a.jar > /empty/a.jar", want: "fetch https://repo.example/a.jar /empty/a.jar", differs: "an error of the server"},
	{script: "curl -fLk -H 'Accept: x&y' -o /empty/a https://repo.example/a", want: "fetch https://repo.example/a#insecure&header=Accept:x%26y /empty/a", differs: "hidden file"},
	{script: "wget -q -O /empty/a http://repo.example/a", want: "fetch http://repo.example/a /empty/a", differs: "hidden file"},
	{script: "wget -nv -P /empty http://repo.example/a.jar", want: "fetch http://repo.example/a.jar /empty/a.jar", differs: "a file /empty/a.jar that is there is replaced"},
	{script: "wget -P /node http://repo.example/a.jar", stops: "wget without -O does not write over a file"},
	{script: "rm -f /node/a.jar; wget -P /node http://repo.example/a.jar", want: "prepare /node/a.jar#absent=file -- fetch http://repo.example/a.jar /node/a.jar", differs: "hidden file"},
	{script: "wget -O /node/a.jar http://repo.example/a.jar", want: "fetch http://repo.example/a.jar /node/a.jar", differs: "hidden file"},
	{script: "touch /empty/a.jar; wget -P /empty http://repo.example/a.jar", stops: "wget without -O does not write over a file"},
	{script: "wget -P /tmp http://repo.example/t; mv /tmp/t /empty/t", want: "fetch http://repo.example/t /empty/t", differs: "hidden file"},
	{script: "curl -fLo /empty/t http://repo.example/t; chmod +x /empty/t", want: "fetch http://repo.example/t#mode=a+x /empty/t", differs: "hidden file"},
	{script: "curl -fL -u \"$SUB:$PASSWORD\" -o /empty/a http://repo.example/a", want: "fetch http://${env:SUB}:${env:PASSWORD}@repo.example/a /empty/a", differs: "hidden file"},
	{script: "curl -fL http://repo.example/a.tgz | tar xz -C /empty --strip-components=1 --no-same-owner", want: "fetch http://repo.example/a.tgz#unpack&strip-components=1 /empty/", differs: "leads out"},
	{script: "curl -fL http://repo.example/a.tgz | tar -xzf - -C /empty", user: 1000, want: "fetch http://repo.example/a.tgz#unpack /empty/", differs: "without the umask"},
	{script: "wget -O- http://repo.example/a.tgz | tar xz -C /empty; chown -R 1:1 /empty", want: "fetch http://repo.example/a.tgz#unpack /empty/ -- prepare /empty#owner=1:1&recursive", differs: "leads out"},
	{script: "wget -O /tmp/a.tgz http://repo.example/a.tgz; tar xzf /tmp/a.tgz -C /empty; rm /tmp/a.tgz", user: 1000, want: "fetch http://repo.example/a.tgz#unpack /empty/", differs: "leads out"},
	{script: "wget -O /tmp/a.zip http://repo.example/a.zip; unzip -o -q /tmp/a.zip -d /empty", want: "fetch http://repo.example/a.zip#unpack /empty/", differs: "leads out"},
	{script: "curl -fLo /tmp/t http://repo.example/t; chmod 755 /tmp/t; mv /tmp/t /empty/tool", want: "fetch http://repo.example/t#mode=0755 /empty/tool", differs: "hidden file"},
	{script: "curl -fLo /tmp/t http://repo.example/t; echo 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  /tmp/t' | sha256sum -c -; cp /tmp/t /empty/", want: "fetch http://repo.example/t#sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 /empty/t", differs: "hidden file"},
	{script: "curl -fL http://repo.example/a.log.gz | gunzip -c > /empty/a.log", want: "fetch http://repo.example/a.log.gz#unpack /empty/a.log", differs: "hidden file"},
	{script: "curl -fLo /empty/a.tgz http://repo.example/a.tgz; tar xzf /empty/a.tgz -C /empty --no-same-owner", stops: "an archive that is unpacked and stays"},
	{script: "curl -fLo /tmp/a http://repo.example/a", stops: "in no volume"},
	{script: "curl -fL http://repo.example/a.tgz | tar xz -C /empty", stops: "keep their owners"},
	{script: "curl -fL http://repo.example/a.tgz | tar xz -C /empty bin/tool", stops: "only a part of the archive"},
	{script: "curl -fL http://repo.example/a.tar.gz | gunzip > /empty/a", stops: "not the one compressed file"},
	{script: "curl -fL http://repo.example/a.sh | sh", stops: "curl | sh: "},
	{script: "curl -fL http://repo.example/a", stops: "the name of the file"},
	{script: "curl -d x -o /empty/a http://repo.example/a", stops: "-d: an option"},
	{script: "curl -H \"Authorization: Bearer $PASSWORD\" -o /empty/a http://repo.example/a", stops: "a header that is not a plain text"},
	{script: "curl -o /data/a http://repo.example/a", stops: "may belong to the user of another container"},
	{script: "tar xzf /config/a.tgz -C /empty", stops: "not a file that an earlier command has downloaded"},
	{script: "mv /claim/a /empty/", want: "copy /claim/a:/empty/a#keep&links=keep&optional -- prepare /claim/a#absent", differs: "nothing to move"},
	{script: "echo x > /empty/a; mv -f /empty/a /empty/b", want: "render --inline=/empty/a=x\n -- copy /empty/a:/empty/b#keep&links=keep&optional -- prepare /empty/a#absent", differs: "both need space"},
	{script: "mkdir -p /empty/b; mv /claim/x/* /empty/b", want: "prepare /empty/b -- copy /claim/x/*:/empty/b/#keep&optional -- prepare /claim/x#empty&if-exists&name=[^.]*", differs: "nothing to move"},
	{script: "mv /app/a /empty/", want: "copy /app/a:/empty/a#keep&links=keep", differs: "nothing to move", inside: true},
	{script: "mv /claim/a /claim/b", stops: "mv moves into it if it is a directory"},
	{script: "cp -a /app/static /data/", stops: "the owner and mode of the source"},
	{script: "cp -a /config/a /data/", user: 1000, want: "copy /config/a:/data/#keep", differs: "where cp copies the kubelet's links"},
	{script: "mv /claim /empty/", stops: "a volume is mounted there"},
	{script: "mv /config/a /empty/", stops: "mounted read-only"},
	{script: "mv /claim/* /claim/b/", stops: "moved into itself"},
	{script: "cp --update=none /config/a /empty/a", want: "copy /config/a:/empty/a#no-overwrite"},
	{script: "cp --update=none-fail /config/a /empty/a", stops: "--update=none-fail"},
	{script: "rsync -a /claim/ /empty/", want: "copy /claim:/empty#keep=mode,owner,times&optional", differs: "the owner and mode of /empty itself"},
	{script: "rsync -av /claim /empty/x", want: "copy /claim:/empty/x/claim#keep=mode,owner,times&optional", differs: "a socket, a pipe or a device in /claim"},
	{script: "rsync -a --delete /claim/ /empty/", stops: "--delete: an option"},
	{script: "rsync -a /claim/a /empty/", stops: "whether it is a directory"},
	{script: "rsync -a host:/claim/ /empty/", stops: "host:"},
	{script: "cp /claim/* /empty/; chmod 600 /empty/a; chown 5 /empty/*", want: "copy /claim/*:/empty/#mode=go-w&links=follow -- prepare /empty/a#any-kind&mode=0600 /empty#children&owner=5&name=[^.]*", differs: "directories that match"},

	{script: "git clone https://git.example/a/b.git /empty", want: "git-clone https://git.example/a/b.git /empty --depth=0", differs: "a second run brings"},
	{script: "git clone -q --depth 1 -b v1.2 https://git.example/a/b.git /empty/b", want: "git-clone https://git.example/a/b.git /empty/b --ref=v1.2 --depth=1", differs: "Mozilla"},
	{script: "git clone --recurse-submodules \"https://u:$PASSWORD@git.example/b\" /empty/b; git -C /empty/b checkout -q v2", want: "git-clone https://u:${env:PASSWORD}@git.example/b /empty/b --ref=v2 --depth=0 --submodules=recursive", differs: "a second run"},
	{script: "git clone https://git.example/b /empty/b; rm -rf /empty/b/.git", stops: "/empty/b/.git: the repository of a clone"},
	{script: "git clone https://git.example/b /empty/b; rm -rf /empty/b/.git*", stops: "/empty/b/.git*: the repository of a clone"},
	{script: "git config --global --add safe.directory '*'", want: ""},
	{script: "git config --global http.sslVerify false", stops: "may change what git does"},
	{script: "git clone git@git.example:a/b.git /empty", stops: "git@"},
	{script: "git clone https://git.example/b /tmp/b", stops: "in no volume"},
	{script: "git clone --mirror https://git.example/b /empty", stops: "--mirror: an option"},
	{script: "git pull", stops: "pull: not git clone"},
	{script: "git -C /empty checkout v2", stops: "git /empty"},
	{script: "find /data -mindepth 1 -maxdepth 1 -not -name .snapshot -not -name lost+found | xargs -r chown -R 1001:1001", want: "prepare /data#owner=1001:1001&children&exclude=.snapshot&exclude=lost+found", differs: "at any depth"},
	{script: "find /data -exec chown 1001:1001 {} +", want: "prepare /data#owner=1001:1001&recursive", differs: "what a symbolic link leads to"},
	{script: "find /data -exec chown -R 1001:1001 {} +", want: "prepare /data#owner=1001:1001&recursive"},
	{script: "find /data ! -user 1001 -exec chown -h 1001 {} +", want: "prepare /data#owner=1001&recursive"},
	{script: "find /data -not -user 1001 -exec chown -h 1001:5 {} +", want: "prepare /data#owner=1001:5&recursive", differs: "only one of user and group"},
	{script: "find /data -not -user 1002 -exec chown -h 1001:5 {} +", stops: "1002: a test"},
	{script: "find /data -type f -exec chmod 600 {} +; find /data -type d -exec chmod 2700 {} +", want: "prepare /data#file-mode=0600&recursive /data#dir-mode=2700&recursive", differs: "sockets"},
	{script: "find /data -not -perm 0770 -exec chmod 770 {} +", want: "prepare /data#mode=00770&recursive", differs: "what a symbolic link"},
	{script: "find /data -type f -name '*.key' -exec chmod 600 {} +", want: "prepare /data#file-mode=0600&recursive&name=*.key", differs: "sockets"},
	{script: "find /data -name 'd*' -exec chmod 600 {} +", stops: "the directory itself may match"},
	{script: "find /data -type f -exec chown 5 {} +", stops: "-type: a test"},
	{script: "find /data ! -name keep -exec chown 5 {} +", stops: "goes on below"},
	{script: "find /data ! -name lost+found -exec chown 5 {} +", want: "prepare /data#owner=5&recursive&exclude=lost+found", differs: "at any depth"},
	{script: "find /empty -type f -delete", stops: "-type f: prepare would remove links"},
	{script: "find /data -type f -name '*.tmp' -delete", stops: "volumes are mounted below it"},
	{script: "find /claim -mindepth 1 -delete", want: "prepare /claim#empty --force", differs: "lost+found"},
	{script: "find /claim -mindepth 1 -maxdepth 1 ! -name lost+found -exec rm -rf {} +", want: "prepare /claim#empty&exclude=lost+found --force", differs: "at any depth"},
	{script: "find /claim -type f | xargs rm -f", stops: "-type f: prepare would remove links"},
	{script: "find /claim -delete", stops: "the directory itself"},
	{script: "find /claim -delete -name a", stops: "-name: a test or an action of find behind"},
	{script: "find /claim -mindepth 1 -maxdepth 1 -delete", stops: "only directories that are empty"},
	{script: "find /claim -name '*.tmp' -delete", stops: "only directories that are empty"},
	{script: "find /claim -mtime +1 -delete", stops: "-mtime"},
	{script: "find /claim -type d -name x -exec rm -rf {} +", stops: "-name: a test"},
	{script: "find /claim -type f -exec mv -t /empty {} +", stops: "mv"},
}
