package shell

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"initbox/test/soak"
)

// TestParseVariety compares what random scripts are read as with what real shells do with them. The commands that they
// call write down that they were called, and fail when the test wants it.
func TestParseVariety(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many shells")
	}
	var shells []string
	for _, name := range []string{"dash", "bash"} {
		if file, err := exec.LookPath(name); err == nil {
			shells = append(shells, file)
		}
	}
	if len(shells) == 0 {
		t.Skip("no shell")
	}
	dir := t.TempDir()
	fake := `#!` + shells[0] + `
n=1 # a loop that is endless after a failure that the test does not follow is ended
while read -r line; do n=$((n+1)); done < ` + dir + `/log
echo "${0##*/}${*:+ $*}" >> ` + dir + `/log
[ $n -gt 90 ] && kill $PPID
while read -r k; do [ "$k" = $n ] && exit 3; done < ` + dir + `/fail
exit 0
`
	for _, name := range []string{"a", "b", "c", "d"} {
		write(t, filepath.Join(dir, name), fake)
	}
	write(t, filepath.Join(dir, "sleep"), "#!"+shells[0]+"\n")
	random := soak.Rand(t)
	read, all := 0, 12
	if soak.Running(t) {
		all = 300
	}
	for range all {
		g := &generator{Rand: random}
		text := g.script()
		script, err := Parse(text, Options{Program: "sh", Lookup: func(string) (string, State) { return "", Unset }})
		if err != nil {
			continue
		}
		read++
		for _, failing := range plans(random) {
			want := &run{failing: failing}
			if want.list(script.Body); want.endless {
				continue
			}
			got, status := real(t, shells[random.IntN(len(shells))], dir, text, failing)
			prefix := len(got) >= len(want.calls) && slices.Equal(got[:len(want.calls)], want.calls)
			if !prefix || want.end != unknown && len(got) != len(want.calls) || want.end == failed && status == 0 || want.end == done && status != 0 {
				t.Fatalf("%s\nread as %s\nif the calls %v fail: calls %v, end %d; the shell: calls %v, status %d", text, notation(script.Body), failing, want.calls, want.end, got, status)
			}
		}
	}
	t.Logf("%d of %d scripts were read", read, all)
	if read < all/4 {
		t.Errorf("only %d of %d scripts were read", read, all)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// plans returns which calls fail: none, the first ones, and random ones.
func plans(r *rand.Rand) [][]int {
	list := [][]int{nil, {1}, {2}, {1, 2}, {1, 2, 3, 4, 5, 6, 7}}
	var some []int
	for n := range 12 {
		if r.IntN(3) == 0 {
			some = append(some, n+1)
		}
	}
	return append(list, some)
}

// real runs a script, and returns which commands it called, and its status.
func real(t *testing.T, shell, dir, text string, failing []int) ([]string, int) {
	t.Helper()
	write(t, filepath.Join(dir, "log"), "")
	fails := ""
	for _, n := range failing {
		fails += fmt.Sprintln(n)
	}
	write(t, filepath.Join(dir, "fail"), fails)
	cmd := exec.Command("timeout", "20", shell, "-c", text)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	_ = cmd.Run()
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(log), func(r rune) bool { return r == '\n' }), cmd.ProcessState.ExitCode()
}

// run does what a script was read as.
type run struct {
	failing []int
	calls   []string
	end     outcome
	endless bool
}

type outcome int

const (
	done    outcome = iota
	failed          // the script failed
	unknown         // it goes on in a way that convert says is different
)

func (r *run) call(c *Call) bool {
	r.calls = append(r.calls, strings.Trim(callText(c), "()"))
	return !slices.Contains(r.failing, len(r.calls))
}

func (r *run) cond(c Cond) bool {
	holds := true
	switch {
	case c.Call != nil:
		holds = r.call(c.Call)
	case c.All != nil:
		for _, inner := range c.All {
			if holds = r.cond(inner); !holds {
				break
			}
		}
	case c.Any != nil:
		for _, inner := range c.Any {
			if holds = r.cond(inner); holds {
				break
			}
		}
	}
	return holds != c.Not
}

func (r *run) list(list []Statement) {
	for _, s := range list {
		switch {
		case s.Call != nil:
			if ok := r.call(s.Call); !ok && !s.MayFail {
				r.end = failed
				if s.Unchecked {
					r.end = unknown
				}
			}
		case s.If != nil && r.cond(s.If.Cond):
			r.list(s.If.Then)
		case s.If != nil:
			r.list(s.If.Else)
		default:
			r.loop(s.Loop)
		}
		if r.end != done {
			return
		}
	}
}

func (r *run) loop(l *Loop) {
	for n := 1; ; n++ {
		ok := r.cond(l.Until)
		if len(r.calls) > 40 {
			r.end, r.endless = failed, true
			return
		}
		switch last := n == l.Attempts; {
		case ok && last, !ok && last && !l.Fails:
			r.end = unknown
			return
		case ok:
			return
		case last, l.Aborts:
			r.end = failed
			return
		}
	}
}

// generator writes random scripts.
type generator struct {
	*rand.Rand
	depth, loops int
}

func (g *generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) name() string { return g.pick("a", "b", "c", "d") }

func (g *generator) script() string {
	text := g.pick("", "set -e\n", "set -eu\n", "f() { b 1; c 2; }\n", "set -e\nf() { a; b && c; d; }\n", "f() { a || return 0; b; }\n")
	hasFunction := strings.Contains(text, "f()")
	for range 1 + g.IntN(4) {
		if hasFunction && g.IntN(4) == 0 {
			text += g.pick("f", "f && a", "f || true", "f || exit 1", "(f)", "if f; then a; fi") + "\n"
		}
		text += g.statement() + g.pick("\n", "; ", "\n")
	}
	return text
}

func (g *generator) statement() string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 3 {
		return g.name()
	}
	switch g.IntN(24) {
	case 0:
		return g.name() + " && " + g.statement()
	case 1:
		return g.name() + " " + g.pick("|| true", "|| exit 1", "|| { echo x; exit 1; }", "|| echo x", "|| :", "|| exit 2", "|| { echo; exit; }", "|| exit", "|| exit 0")
	case 2:
		return "{ " + g.statement() + "; " + g.statement() + "; } " + g.pick("", "|| exit 1", "|| true", "&& a")
	case 3:
		return "( " + g.pick("", "set -e; ") + g.statement() + "; " + g.statement() + g.pick("", "; exit 0") + " ) " + g.pick("", "|| exit 1", "|| true", "&& b")
	case 4:
		return g.pick("echo x", "set +e", "set -e", ": x", "X=1", "date >/dev/null", "true")
	case 5:
		return "if " + g.pick("", "! ") + g.name() + "; then " + g.statement() + g.pick("", "; else "+g.statement(), "; else echo x; exit 1") + "; fi"
	case 6:
		return g.name() + g.pick("; exit $?", "; exit", "; exit 0", "; exit 1", "; echo; exit $?")
	case 7:
		return "for x in 1 2; do " + g.statement() + "; done"
	case 8:
		return g.name() + " && " + g.name() + " " + g.pick("|| true", "|| exit 1", "|| echo x")
	case 9:
		return "sh -" + g.pick("", "e") + "c '" + strings.ReplaceAll(g.statement(), "'", `'\''`) + "' " + g.pick("", "|| true")
	case 10:
		return "X=" + g.pick("1", "2") + `; if [ "$X" = 1 ]; then ` + g.statement() + g.pick("", "; exit 0") + "; fi"
	case 11:
		return g.pick(`[ "${X:-1}" = 1 ]`, "[ 1 = 2 ]", "test -n x", "false", "true") + g.pick(g.pick(" && ", " || ")+g.statement(), " && "+g.name()+g.pick(" || true", " || echo x", " || exit 1", " || { echo; sleep 1; exit 1; }"))
	case 12, 13, 14, 15, 16, 17, 18:
		return g.loop()
	}
	return g.name() + g.pick("", " x", " >/dev/null", " 2>&1", ` "y"`)
}

func (g *generator) loop() string {
	g.loops++
	i := fmt.Sprintf("i%d", g.loops)
	count := i + "=" + g.pick("$(("+i+"+1))", "$(($"+i+" + 1))", "$(expr $"+i+" + 1)")
	cond := g.pick("a", "b", "a && b", "a || b", "{ a; }", "(a)", "a && echo x")
	leave := g.pick("break", "exit 0", "{ echo; break; }", "echo x && break", "{ c; break; }")
	body := g.pick("echo; ", "") + g.pick("sleep 1", "sleep 2; echo", "echo; sleep 1; continue")
	over := g.pick("exit 1", "break", "{ echo; exit 1; }")
	test := fmt.Sprintf("[ $%s %s %d ]", i, g.pick("-ge", "-gt", "-eq"), 1+g.IntN(4))
	after := g.pick("", "; exit 1", fmt.Sprintf("; if [ $%s -eq 3 ]; then exit 1; fi", i), fmt.Sprintf("; [ $%s -lt 3 ] || exit 1", i), "; echo no; exit 1", "; c")
	switch g.IntN(13) {
	case 0:
		return "until " + cond + "; do " + body + "; done"
	case 1:
		return "while ! " + g.name() + "; do " + body + "; done"
	case 2:
		return "while " + g.pick("true", ":") + "; do " + cond + " && " + leave + "; " + body + "; done"
	case 3:
		return "while true; do if " + g.pick("", "! ") + g.name() + "; then " + strings.Trim(leave, "{}; ") + "; " + g.pick("", "else "+body+"; ") + "fi; " + body + "; done"
	case 4:
		return "for " + i + " in " + g.pick("1 2 3", "$(seq 1 3)", "$(seq 3)") + "; do " + cond + " && " + leave + "; " + body + "; done" + after
	case 5:
		return i + "=0; until " + cond + "; do " + count + "; " + test + " && " + over + "; " + body + "; done" + after
	case 6:
		return i + "=0; until " + cond + "; do " + test + " && " + over + "; sleep 1; " + count + "; done"
	case 7:
		return i + "=0; while [ $" + i + " -lt 3 ]; do " + cond + " && " + leave + "; " + count + "; " + body + "; done" + after
	case 8:
		return i + "=0; while ! " + g.name() + " && [ $" + i + " -lt 3 ]; do sleep 1; " + count + "; done" + after
	case 10:
		return i + "=0; until " + cond + "; do if [ $" + i + " -lt 3 ]; then " + count + "; sleep 1; else " + strings.Trim(over, "{}; ") + g.pick("", "; echo") + "; fi; " + g.pick("", body+"; ") + "done" + after
	case 11:
		return i + "=0; while true; do if [ $" + i + " -lt 3 ]; then " + count + "; " + cond + " && " + leave + "; " + g.pick("ls /; ", "") + "sleep 1; else " + strings.Trim(over, "{}; ") + "; fi; done" + after
	case 9:
		return "while true; do a; if [ $? -eq 0 ]; then " + strings.Trim(leave, "{}; ") + "; fi; " + body + "; done"
	}
	return "ok=0; for " + i + " in 1 2 3; do if " + g.name() + "; then ok=1; break; fi; sleep 1; done; " + g.pick("[ $ok = 1 ] || exit 1", `if [ "$ok" -ne 1 ]; then echo; exit 1; fi`, `[ "$ok" = 0 ] && exit 1`)
}

// TestEitherVariety compares what a loop waits for that looks at a variable which several conditions set with what a
// real shell does: whether it ends at its first attempt.
func TestEitherVariety(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many shells")
	}
	random := soak.Rand(t)
	g := &generator{Rand: random}
	read, all := 0, 120
	if soak.Running(t) {
		all = 2000
	}
	for range all {
		set := func() string { return g.pick("ok=1", "ok=0", "echo x", "n=$((n+1))", "ok=1; n=$((n+1))", "echo; ok=2") }
		when := func() string {
			return "if " + g.pick("", "! ") + g.pick("a $h", "f $h", "b") + "; then " + set() + g.pick("", "; else "+set()) + "; fi; "
		}
		body := "ok=" + g.pick("0", "1") + "; n=0; " + g.pick("", "h=x; "+when()) + "for h in x y" + g.pick("", " z") + "; do " + when() + g.pick("", when()) + "done; "
		end := g.pick("[ $ok = 1 ]", "[ $ok -ne 0 ]", `[ "$ok" != 0 ]`, "[ $ok -ge 1 ]", "[ 1 = $ok ]", "[ $ok -eq $n ]", "! [ $ok = 0 ]")
		script := "f() { local u=$1; if " + g.pick("", "! ") + "a $u; then return " + g.pick("0", "1") + "; else echo; return " + g.pick("0", "1") + "; fi; }\n" +
			g.pick("", "set -e\n") + "while true; do " + body + g.pick(end+" && break", "if "+end+"; then echo; exit 0; fi", "if ! "+end+"; then sleep 1; else break; fi") + "; sleep 1; done"
		parsed, err := Parse(script, Options{Program: "bash", Lookup: func(string) (string, State) { return "", Unset }})
		if err != nil {
			continue
		}
		read++
		for bits := range 16 {
			truth := func(name string) bool { return bits>>strings.Index("xyzb", name)&1 == 1 }
			var holds func(c Cond) bool
			holds = func(c Cond) bool {
				result := false
				switch {
				case c.Call != nil && c.Call.Name == "b":
					result = truth("b")
				case c.Call != nil:
					result = truth(c.Call.Args[0].String())
				case c.All != nil:
					result = !slices.ContainsFunc(c.All, func(c Cond) bool { return !holds(c) })
				default:
					result = slices.ContainsFunc(c.Any, holds)
				}
				return result != c.Not
			}
			var status strings.Builder
			for _, name := range []string{"x", "y", "z", "b"} {
				fmt.Fprintf(&status, "%s=%d; ", strings.ToUpper(name), map[bool]int{true: 0, false: 1}[truth(name)])
			}
			shell := status.String() + "a() { case $1 in x) return $X;; y) return $Y;; *) return $Z;; esac; }; b() { return $B; }; sleep() { exit 9; }\n" + script
			err := exec.Command("bash", "-c", shell).Run()
			if want := holds(parsed.Body[0].Loop.Until); want != (err == nil) {
				t.Fatalf("%s\nread as %s\nwith %s it holds: %v; the shell: %v", script, notation(parsed.Body), status.String(), want, err)
			}
		}
	}
	t.Logf("%d of %d scripts were read", read, all)
	if read < all/20 {
		t.Errorf("only %d of %d scripts were read", read, all)
	}
}

// TestWordVariety compares the arguments that random words become with those that real shells make of them.
func TestWordVariety(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many shells")
	}
	random := soak.Rand(t)
	g := &generator{Rand: random}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "#!/bin/sh\nprintf '<%s>' \"$@\"; [ -p /dev/stdin ] || exit 0; printf '['; cat; printf ']'")
	set := map[string]string{"HOST": "db", "LIST": " x  y ", "EMPTY": "", "DOLLAR": "$HOST \\ 'q'"}
	known := func(name string) (string, State) {
		if text, found := set[name]; found {
			return text, Literal
		}
		return "", Unset
	}
	read, all := 0, 60
	if soak.Running(t) {
		all = 1000
	}
	for range all {
		script := g.words()
		parsed, err := Parse(script, Options{Program: "sh", Parameters: []Word{{{Text: "sh"}}, {{Text: "p"}}, {{Text: "q r"}}}, Lookup: known})
		if err != nil {
			continue
		}
		read++
		call := parsed.Body[len(parsed.Body)-1].Call
		p := &parser{o: Options{Lookup: known}}
		want := ""
		for _, w := range call.Args {
			text, ok := p.known(w)
			if !ok {
				t.Fatalf("%s: %s is not known", script, w)
			}
			want += "<" + text + ">"
		}
		if len(call.Args) == 0 {
			want = "<>" // as printf prints it
		}
		for _, shell := range []string{"dash", "bash"} {
			file, err := exec.LookPath(shell)
			if err != nil {
				continue
			}
			cmd := exec.Command(file, "-c", script, "sh", "p", "q r")
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			for name, text := range set {
				cmd.Env = append(cmd.Env, name+"="+text)
			}
			got, err := cmd.CombinedOutput()
			if string(got) != want {
				t.Fatalf("%s\nread as %s\n%s: %s, %v", script, want, shell, got, err)
			}
		}
	}
	t.Logf("%d of %d scripts were read", read, all)
	if read < all/3 {
		t.Errorf("only %d of %d scripts were read", read, all)
	}
}

// words writes a script whose last command has random words.
func (g *generator) words() string {
	word := func() (text string) {
		for range 1 + g.IntN(4) {
			text += g.pick("x", "y/z", "'a b'", `"c  d"`, `\ `, `\"`, `\$HOST`, "$HOST", `"$HOST"`, "$LIST", `"$LIST"`, "$EMPTY", `"$EMPTY"`, "${HOST}", "${UNSET:-u v}", `${UNSET:-"u v"}`, `"${UNSET:-"u v"}"`, "${UNSET:-$LIST}", `${UNSET:-"$LIST"}`,
				`"${UNSET:-u v}"`, "${EMPTY:-e}", "${EMPTY-e}", "${HOST:-h}", `"$@"`, "$@", "$1", "$2", `"$2"`, "$#", "$V", `"$V"`, "$W", `"$W"`, "$((1+2*3))", "$((N-1))", "$((10/3))",
				"${HOST#d}", `"${LIST##* }"`, "${LIST%% *}", `"${LIST%[a-z]}"`, "${V#?}", "${W%?}", `${HOST:+"x y"}`, "${EMPTY:+x}", "${EMPTY:=z}", "${UNSET:=q r}",
				"$(basename /a/$HOST.x .x)", "$(dirname a/b/)", "$(echo $HOST$LIST | cut -c2-)", `"$(echo $LIST | cut -d' ' -f2-)"`, "$(echo $LIST | tr a-z A-Z)", "$(printf '%s-%s\n' $LIST)",
				"$(echo $LIST | awk '{print $2}')", "$(seq 3)", `"$(seq 2)"`, "$(expr 2 + 3)", `"\$V \\ \x \""`, "$DOLLAR", `"$DOLLAR"`, "''", `""`, "-", "x#", "=", "%", "!", "]", "\\\n", `"'"`, "'\"'")
		}
		return text
	}
	text := "N=4\nV=" + word() + "\nW=" + word() + "$V\n"
	if g.IntN(4) == 0 {
		text += "set -- " + word() + " " + word() + "\n"
	}
	if g.IntN(3) == 0 {
		text += "for V in " + word() + " " + word() + "; do a $V " + word() + "; done >/dev/null; "
	}
	return text + "a " + word() + " " + word() + " " + word() + "\n"
}
