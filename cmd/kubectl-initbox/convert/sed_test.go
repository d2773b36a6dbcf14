package convert

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/render/engine"
	"initbox/render/gotemplate"
	"initbox/test/soak"
)

const sedEnv = `env: [{name: HOST, value: db.shop}, {name: URL, value: http://a/b}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}},
    {name: PW, valueFrom: {secretKeyRef: {name: s, key: p}}}, {name: KEY, valueFrom: {configMapKeyRef: {name: c, key: k}}}]`

// sedChange is the conversion of a script with a template in /tpl, a Secret in /secret and an emptyDir at /conf.
func sedChange(t *testing.T, script string) *Change {
	t.Helper()
	c := containerOf(t, "image: busybox, volumeMounts: [{name: tpl, mountPath: /tpl}, {name: conf, mountPath: /conf}, {name: secret, mountPath: /secret}, {name: one, mountPath: /one.ini, subPath: one.ini}], "+sedEnv,
		"  volumes: [{name: tpl, configMap: {name: tpl}}, {name: one, configMap: {name: tpl}}, {name: conf, emptyDir: {}}, {name: secret, secret: {secretName: s, defaultMode: 0400}}]\n")
	c.Command = []string{"sh", "-c", strings.ReplaceAll(script, "$", "$$")}
	return Container(c, "initbox", []*manifest.Object{c.Pod.Object})
}

// TestSed pins what sed becomes. A result that begins with a dash is what stops the conversion.
func TestSed(t *testing.T) {
	t.Parallel()
	const render, flags = "render --inline /conf/a=", " --files /tpl --mode 0644"
	for _, tt := range []struct{ script, want string }{
		{`sed "s|__IP__|$IP|g" /tpl/a > /conf/a`, render + `{{ .Files.Get "a" | replace "__IP__" .Env.IP }}` + flags},
		{`cat /tpl/a | sed -e 's/@H@/'"$HOST"'/g' -e "s/x/y/g" | tee /conf/a`, render + `{{ .Files.Get "a" | replace "@H@" "db.shop" | replace "x" "y" }}` + flags},
		{`sed "s/PW/$PW/g; s/K/<$KEY>/g" < /tpl/a > /conf/a`, render + `{{ .Files.Get "a" | replace "PW" .Env.PW | replace "K" (print "<" .Env.KEY ">") }} --secret-env PW` + flags},
		{`cp /tpl/a /conf/a && sed -i "s/IP/$IP/g" /conf/a`, render + `{{ .Files.Get "a" | replace "IP" .Env.IP }}` + flags},
		{`cp /tpl/a /conf/; sed -i "s/IP/$IP/g" /conf/a; sed -i 's/A/B/g' /conf/a`, render + `{{ .Files.Get "a" | replace "IP" .Env.IP | replace "A" "B" }}` + flags},
		{`sed "s/^id=.*/id=$IP/" /tpl/a > /conf/a`, render + `{{ regexReplaceAllLiteral "(?m)^id=.*" (.Files.Get "a") (print "id=" .Env.IP) }}` + flags},
		{`sed 's/\$(A)/x/g' /tpl/a | sed s/b/c/g > /conf/a`, render + `{{ .Files.Get "a" | replace "$$(A)" "x" | replace "b" "c" }}` + flags},
		{`sed 's/A/B/' /tpl/a > /conf/a`, render + `{{ regexReplaceAll "(?m)^(.*?)A" (.Files.Get "a") "${1}B" }}` + flags},
		{`sed "s/A/$IP/" /tpl/a > /conf/a`, render + `{{ regexReplaceAll "(?m)^(.*?)A" (.Files.Get "a") (print "${1}" (.Env.IP | replace "$" "$$$")) }}` + flags},
		{`echo a=IP > /conf/a; sed -i "s/IP/$IP/g" /conf/a`, render + `a=IP` + "\n" + ` -- render --inline /conf/a={{ .Files.Get "a" | replace "IP" .Env.IP }} --files /conf --mode 0644`},
		{`sed s/a/b/g /tpl/a > /conf/a; sed s/c/d/g /conf/a > /conf/b`, render + `{{ .Files.Get "a" | replace "a" "b" }}` + flags + ` -- render --inline /conf/b={{ .Files.Get "a" | replace "c" "d" }} --files /conf --mode 0644`},
		{`cp /tpl/a /conf/a; cp /conf/a /conf/b; sed -i s/a/b/g /conf/a`, "copy /tpl/a:/conf/a -- copy /conf/a:/conf/b#mode=go-w -- " + render + `{{ .Files.Get "a" | replace "a" "b" }}` + flags},
		{`sed s/a/b/g /tpl/a > /conf/a; cp /conf/a /conf/b; sed -i s/b/c/g /conf/a`, render + `{{ .Files.Get "a" | replace "a" "b" }}` + flags + " -- copy /conf/a:/conf/b#mode=go-w -- " + render + `{{ .Files.Get "a" | replace "a" "b" | replace "b" "c" }}` + flags},

		{`sed "s/URL/$URL/g" /tpl/a > /conf/a`, "-a flag of s"}, // which sed does not understand, either
		{`sed "s/$KEY/x/g" /tpl/a > /conf/a`, "-in a pattern"},
		{`sed 's/a.b/x/g' /tpl/a > /conf/a`, "-a pattern"},
		{`sed 's/[ab]/x/g' /tpl/a > /conf/a`, "-a pattern"},
		{`sed 's/a/&&/g' /tpl/a > /conf/a`, "-&"},
		{`sed 's/\(a\)/\1/g' /tpl/a > /conf/a`, "-a pattern"},
		{`sed 's/a/b/2' /tpl/a > /conf/a`, "-a flag of s"},
		{`sed 's/a/b/w /x' /tpl/a > /conf/a`, "-a flag of s"},
		{`sed '/a/d' /tpl/a > /conf/a`, "-other than s"},
		{`sed -n 's/a/b/p' /tpl/a > /conf/a`, "-n"},
		{`cp /tpl/a /conf/a; sed -i.bak s/a/b/g /conf/a`, "-suffix"},
		{`cp /tpl/a /conf/a; sed -ie s/a/b/g /conf/a`, "-suffix"},
		{`cp /tpl/a /conf/a; chmod 600 /conf/a; sed -i s/a/b/g /conf/a`, "-has given the file its mode"},
		{`cp /secret/a /conf/a; sed -i s/a/b/g /conf/a`, "-its mode is not known"},
		{`sed -i s/a/b/g /conf/a`, "-its mode is not known"},
		{`sed s/a/b/g /conf/a > /conf/a`, "-the shell empties first"},
		{`sed s/a/b/g /tpl/a >> /conf/a`, "->>"},
		{`sed s/a/b/g /one.ini > /conf/a`, "-all of /"},
		{`sed s/a/b/g /tpl/a /tpl/b > /conf/a`, "-second file"},
		{`sed s/a/b/g > /conf/a`, "-not a file"},
		{`sed -f /tpl/p /tpl/a > /conf/a`, "--f"},
		{`cp /tpl/a /conf/a; sed -i s/a/b/g /conf/*`, "-/conf/*"},
	} {
		change := sedChange(t, tt.script)
		switch stop, stops := strings.CutPrefix(tt.want, "-"); {
		case stops && (change.Verdict != Kept || !strings.Contains(change.Why, stop)):
			t.Errorf("%s: %s, %q, %s; want it kept because of %s", tt.script, change.Verdict, change.Words, change.Why, stop)
		case !stops && strings.Join(change.Words, " ") != tt.want:
			t.Errorf("%s: %s, %s, %s; want\n%s", tt.script, change.Verdict, strings.Join(change.Words, " "), change.Why, tt.want)
		}
	}
}

// TestSedVariety compares what random programs print in real seds with what the templates print that replace them.
func TestSedVariety(t *testing.T) {
	var seds [][]string
	for _, line := range []string{"sed", "busybox sed"} {
		if words := strings.Fields(line); exec.Command(words[0], "--help").Run() == nil {
			if file, err := exec.LookPath(words[0]); err == nil {
				seds = append(seds, append([]string{file}, words[1:]...))
			}
		}
	}
	if len(seds) == 0 {
		t.Skip("no sed")
	}
	g := sedGenerator{soak.Rand(t)}
	read, all := 0, 150
	for range all {
		program, text := g.program(), g.text()
		change := sedChange(t, "sed '"+program+"' /tpl/a > /conf/a")
		if change.Verdict == Kept {
			continue
		}
		read++
		_, inline, _ := strings.Cut(change.Steps[0].Flags[0].Value, "=")
		e := gotemplate.New(&engine.Data{Files: fstest.MapFS{"a": &fstest.MapFile{Data: []byte(text)}}}, engine.Options{Limits: engine.DefaultLimits})
		template, err := e.Parse("a", strings.NewReplacer("$$", "$").Replace(inline))
		if err != nil {
			t.Fatalf("%s: %s: %v", program, inline, err)
		}
		var got bytes.Buffer
		if err := template.Execute(t.Context(), &got); err != nil {
			t.Fatalf("%s: %s: %v", program, inline, err)
		}
		for _, sed := range seds {
			cmd := exec.Command(sed[0], append(sed[1:], program)...)
			cmd.Stdin = strings.NewReader(text)
			want, err := cmd.Output()
			if err != nil || string(want) != got.String() {
				t.Fatalf("%s of %q\nread as %s\nprints %q; %s: %q, %v", program, text, inline, got.String(), filepath.Base(sed[0]), want, err)
			}
		}
	}
	t.Logf("%d of %d programs were read", read, all)
	if read < all/4 {
		t.Errorf("only %d of %d programs were read", read, all)
	}
}

type sedGenerator struct{ *rand.Rand }

func (g sedGenerator) some(n int, pieces ...string) (text string) {
	for range 1 + g.IntN(n) {
		text += pieces[g.IntN(len(pieces))]
	}
	return text
}

func (g sedGenerator) program() (text string) {
	for i := range 1 + g.IntN(3) {
		if i > 0 {
			text += g.some(1, ";", "; ", "\n")
		}
		d := g.some(1, "/", "/", "|", ",", "#")
		text += "s" + d + g.some(1, "", "", "", "^") + g.some(3, "a", "b", "ab", "x=", ".*", `\.`, `\/`, `\*`, "$", `\$`, "{", "(", "+", "?", " ", `\`+d, `\[`, "]", "^", "a*", ".", `"`, "`", "~", "%") + g.some(1, "", "", "", "$") +
			d + g.some(3, "", "y", "a", "é", "&", `\&`, `\\`, "$", "${1}", "$1", " ", `\`+d, "\t", "{{", "}}", `"`, "`", "%s", ".", "*") + d + g.some(1, "g", "g", "g", "")
	}
	return text
}

func (g sedGenerator) text() string {
	return g.some(30, "a", "a", "b", "b", "ab", "x=", ".", "/", "*", "$", "{", "(", "+", "?", " ", "\n", "\n", "[", "]", "^", "é", `\`, `"`, "|", ",", "#", "\r", "\t") + g.some(1, "", "\n")
}
