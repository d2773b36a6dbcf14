package shell

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// notation returns a script in a short form: calls in parentheses, ? after what is unchecked, ~ after what is ignored.
func notation(list []Statement) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString("; ")
		}
		switch {
		case s.Call != nil:
			b.WriteString(callText(s.Call))
		case s.Loop != nil:
			b.WriteString(loopText(s.Loop))
		case s.If != nil:
			fmt.Fprintf(&b, "if %s {%s} else {%s}", condText(s.If.Cond), notation(s.If.Then), notation(s.If.Else))
		}
		b.WriteString(map[bool]string{true: "?"}[s.Unchecked] + map[bool]string{true: "~"}[s.MayFail])
	}
	return b.String()
}

func callText(c *Call) string {
	var words []string
	for _, a := range c.Set {
		words = append(words, a.Name+"="+wordText(a.Value))
	}
	words = append(words, c.Path)
	for _, a := range c.Args {
		words = append(words, wordText(a))
	}
	if in := c.Stdin; in != nil && in.File != nil {
		words = append(words, "<"+wordText(in.File))
	} else if in != nil {
		words = append(words, fmt.Sprintf("<<%q", wordText(in.Text)))
	}
	for _, stream := range []struct {
		sign string
		*Output
	}{{">", c.Stdout}, {"2>", c.Stderr}} {
		sign, out := stream.sign, stream.Output
		if out != nil && !out.Discard {
			words = append(words, sign+map[bool]string{true: ">"}[out.Append]+wordText(out.File))
		}
	}
	if c.Dir != nil {
		words = append(words, "@"+wordText(c.Dir))
	}
	if c.Umask != "" {
		words = append(words, "umask="+c.Umask)
	}
	if c.Limit != 0 {
		words = append(words, "within="+c.Limit.String())
	}
	text := "(" + strings.Join(words, " ") + ")"
	if c.Pipe != nil {
		text += "|" + callText(c.Pipe)
	}
	return text
}

func wordText(w Word) string {
	text := ""
	for _, p := range w {
		switch {
		case p.Glob:
			text += "«" + p.Text + "»"
		case p.Env == "":
			text += p.Text
		default:
			text += "$" + p.Env + map[bool]string{true: "…"}[p.Split]
			if p.Default != nil {
				text += ":-" + wordText(p.Default)
			}
		}
	}
	if text == "" || strings.ContainsAny(text, " \n") {
		return fmt.Sprintf("%q", text)
	}
	return text
}

func condText(c Cond) string {
	text := ""
	for i, inner := range append(append([]Cond{}, c.All...), c.Any...) {
		if i > 0 {
			text += map[bool]string{true: " and ", false: " or "}[c.All != nil]
		}
		text += condText(inner)
	}
	if c.Call != nil {
		text = callText(c.Call)
	}
	if m := c.Match; m != nil {
		text = callText(m.Call) + " " + m.Op + " " + wordText(m.Pattern)
	}
	if c.Not {
		text = "not " + text
	}
	return text
}

func loopText(l *Loop) string {
	text := "until " + condText(l.Until)
	if l.Pause > 0 {
		text += " every " + l.Pause.String()
	}
	if l.Attempts > 0 {
		text += fmt.Sprintf(" %d times", l.Attempts)
	}
	if l.Timeout > 0 {
		text += " within " + l.Timeout.String()
	}
	if l.Fails {
		text += " or fail"
	}
	if l.Aborts {
		text += " aborts"
	}
	return text
}

func lookup(name string) (string, State) {
	switch name {
	case "HOST":
		return "db", Literal
	case "LIST":
		return "a b", Literal
	case "EMPTY":
		return "", Literal
	case "IP":
		return "", Opaque
	case "UNSET":
		return "", Unset
	}
	return "", Uncertain
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ script, want string }{
		// Statements, and what their failures mean.
		{"a; b", "(a)?; (b)"},
		{"set -e; a; b", "(a); (b)"},
		{"set -ex\na\nset +e\nb\nc", "(a); (b)?; (c)"},
		{"a && b", "(a); (b)"},
		{"a && b; c", "(a)?; (b)?; (c)"},
		{"set -e; a && b; c", "(a)?; (b); (c)"},
		{"a || true; b", "(a)~; (b)"},
		{"set -e; a || echo failed; b", "(a)~; (b)"},
		{"a || exit 1; b", "(a); (b)"},
		{"a || { echo failed; exit 1; }; b", "(a); (b)"},
		{"a || { echo failed; exit; }; b", "error: it ends|status 0"},
		{"a || exit 0; b", "error: status 0"},
		{"[ -f /x ] || exit 1; b", "until ([ -f /x) 1 times or fail; (b)"},
		{"[ -f /x ] && { echo no; sleep 2; exit 1; }; b", "until not ([ -f /x) 1 times or fail; (b)"},
		{"if [ ! -f /x ]; then echo no; exit 1; else echo yes; fi; b", "until ([ -f /x) 1 times or fail; (b)"},
		{"if [ -f /x ]; then echo yes; else exit 1; fi; b", "until ([ -f /x) 1 times or fail; (b)"},
		{"if [ -f /x ]; then a; else exit 1; fi; b", "error: ends the script with a failure"},
		{"if [ -f /x ]; then a; exit 1; fi; b", "error: ends the script with a failure"},
		{"if [ \"$PORT\" = 1 ]; then exit 1; fi; b", "error: ends the script with a failure"},
		{"([ -f /x ] || exit 1) || true; b", "error: ends the script with a failure"},
		{"[ -f /x ] && { sleep 2; } || exit 1; b", "error: "},
		{"a || sleep 5; b", "error: only after a failure"},
		{"[ -f /x ] && a || true; b", "if ([ -f /x) {(a)~} else {}; (b)"},
		{"[ -f /x ] && a || echo no; b", "if ([ -f /x) {(a)~} else {}; (b)"},
		{"set -e; [ -f /x ] && a || exit 1; b", "error: "},
		{"x=$(kubectl a); [ -z \"$x\" ] && { echo no; sleep 2; exit 1; } || echo found $x; b", "until not (kubectl a) -z \"\" 1 times or fail; (b)"},
		{"x=$(kubectl a); if [ \"$x\" != y ]; then exit 1; fi", "until not (kubectl a) != y 1 times or fail"},
		{"x=$(kubectl a); b", "error: the output of a command"},
		{"x=$(kubectl a); b $x", "error: the output of a command, kubectl"},
		{"x=$(ls /a); b; [ -z \"$x\" ] && exit 1", "error: the output of a command"},
		{"a || b", "error: only after a failure"},
		{"a; exit $?", "(a)"},
		{"a; exit 0", "(a)?"},
		{"a; exit 0; b", "(a)?"},
		{"a; exit 1", "error: ends the script with a failure"},
		{"(set -e; a; b); c", "(a)?; (b)?; (c)"},
		{"set -e; (a; b) || true; c", "(a)~; (b)~; (c)"},
		{"{ a; b; } && c", "(a)?; (b); (c)"},
		{"a && b || true; c", "error: && in a list whose failure is ignored"},
		{"a & b", "error: background"},
		{"! a", "error: negation"},
		{"echo one; date; printf 'x\n' >&2; true; : ${X:-y}", ""},
		{"echo $(date) $(hostname)", ""},
		{"echo $(rm x)", "error: output of a command"},
		{"echo x > /f; printf y >> /g", "(echo x >/f)?; (printf y >>/g)"},
		{"a >/dev/null 2>&1; b 2>&1 | c; d < /in", "(a)?; (b 2>\"\")|(c)?; (d </in)"},
		{"cat <<EOF > /f\nx $HOST\nEOF", `(cat <<"\"x $HOST\\n\"" >/f)`},
		{"cat <<'EOF' > /f\nx $HOST\nEOF", `(cat <<"\"x $HOST\\n\"" >/f)`},
		{"exec a b; c", "(a b)"},
		{"exec > /log", "error: changes the shell"},
		{"cd /x && a; cd y; b", "(cd /x)?; (a @/x)?; (cd /x/y)?; (b @/x/y)"},
		{"cd /x || exit 1; a", "(cd /x); (a @/x)"},
		{"cd /x > /log; a", "error: redirections of a command of the shell"},
		{"cd y; a", "error: directory that is not known"},
		{"umask 077; a", "(a umask=077)"},
		{"trap 'exit 0' TERM; a", "error: at a signal"},
		{"f() { shift; a $1; }; f x y", "error: other parameters"},
		{"X=1; unset X; a", "error: removes variables"},
		{"a $(expr 1 + 2)", "error: output of a command"},
		{"trap a EXIT; b", "error: at a signal"},
		{"timeout 5 a b; timeout -t 5 c", "(a b within=5s)?; (c within=5s)"},
		{"eval a", "error: eval …: text that becomes a command"},
		{". /lib.sh", "error: a file of commands"},
		{"sh -c 'a; b'; c", "(a)?; (b)?; (c)"},
		{"set -e; sh -ec 'a; b' ; c", "(a); (b); (c)"},
		{"f() { a $1; }; f x; f y", "(a x)?; (a y)"},
		{"f() { a; return 0; b; }; f; c", "(a)?; (c)"},
		{"f() { f; }; f", "error: nested too deeply"},
		// Words.
		{`a "$HOST:80" '$HOST' \$HOST $HOST "$IP" $IP`, "(a $HOST:80 $HOST $HOST $HOST $IP $IP…)"},
		{`a $LIST "$LIST" $EMPTY "$EMPTY"`, `(a a b $LIST $EMPTY)`},
		{`X=1; Y="$X $HOST"; a $Y "$Y" $X`, `(a 1 $HOST "1 $HOST" 1)`},
		{`X=${X:-5}; a $X`, "(a $X…:-5)"},
		{`a ${UNSET:-5} ${HOST:-6} ${EMPTY:-7} ${IP:-8}`, "(a 5 $HOST 7 $IP…:-8)"},
		{`X=5; a ${X:-6} $((X*2))`, "(a 5 10)"},
		{`a *.pem "*.pem" http://x/?a=b`, "(a «*.pem» *.pem http://x/?a=b)"},
		{`a /x/y*/z "$HOST"/*`, "(a /x/«y*/z» $HOST/«*»)"},
		{"> /f; : > /g", "(: >/f)?; (: >/g)"},
		{"a {x,y}", "error: braces"},
		{"a ~/x", "error: home directory"},
		{"a $$", "error: only the running shell knows"},
		{"a $(b)", "error: output of a command"},
		{`X=$(cat /a/b); c "$X" $(cat /a/c)`, `(c "$cat /a/b" "$cat /a/c…")`},
		{`a "$(cat $EMPTY/b)"; b $(cat "$HOST")`, "error: output of a command"},
		{`e() { sed ':a;N;$!ba;s/\n/\\n/g' "$1"; }; a "$(e /x)"`, `(a "$cat /x \\n")`},
		{`e() { sed ':a;N;$!ba;s/\n/,/g' "$1"; }; a "$(e /x)"`, "error: output of a command"},
		{`e() { echo "$1-$2"; }; a "$(e x y)" $(e z)`, "error: a parameter that is not given"},
		{`e() { echo "$1"; }; a "$(e x)"`, "(a x)"},
		{`e() { b; echo "$1"; }; a "$(e x)"`, "error: output of a command"},
		{`e() { echo "$(e)"; }; a "$(e)"`, "error: output of a command"},
		{"a $(cat /x /y)", "error: output of a command"},
		{"a $(cat '/x y')", "error: output of a command"},
		{"a $(cat /x*)", "error: output of a command"},
		{"cat() { b; }; a $(cat /x)", "error: output of a command"},
		{"if [ \"$(cat /x)\" = y ]; then a; fi", "if (cat /x) = y {(a)} else {}"},
		{"cd $(cat /x); a", "error: directory that is not known"},
		{"until a $(cat /x); do sleep 1; done", `until (a "$cat /x…") every 1s`},
		{"while true; do x=$(cat /x); a && break; sleep 1; done", "error: output of a command"},
		{"export HOME=/x; cat $HOME/y; mkdir ~", "error: home directory"},
		{"export HOME=/x; cat $HOME/y", "(cat /x/y)"},
		{"HOME=/x; a", "error: HOME is set"},
		{"HOME=/x; cd; cat y", "error: directory that is not known"},
		{"X=a:b:c; a ${X%:*} ${X%%:*} ${X#*:} ${X##*:} ${X%:c} ${X#b} ${HOST%b}", "(a a:b a b:c c a:b a:b:c d)"},
		{"a ${HOST%?} ", "(a d)"},
		{"a ${IP%x}", "error: its value is not known"},
		{"IFS=,; a", "error: changes what the shell does"},
		{"export A=1; B=2; a; C=3 b", "(A=1 a)?; (C=3 A=1 b)"},
		{"HOST=x; a $HOST", "(HOST=x a x)"},
		{"a <<< x", "error: not the same in every shell"},
		{"a \\\n  b # c\n", "(a b)"},
		// Conditions.
		{"if [ -f /x ]; then a; else b; fi", "if ([ -f /x) {(a)} else {(b)}"},
		{"[ -d /x ] || a", "if not ([ -d /x) {(a)} else {}"},
		{"[ -d /x ] && a; b", "if ([ -d /x) {(a)?} else {}; (b)"},
		{"{ [ -d /x ] && a; } && b; c", "error: the script fails if the condition does not hold"},
		{"{ [ 1 = 2 ]; } && b; c", "error: the script fails if the condition does not hold"},
		{"(a; [ -d /x ]) || exit 1; c", "error: the script fails if the condition does not hold"},
		{"sh -ec 'while true; do a; if [ $? = 0 ]; then break; fi; done'; b", "error: a loop that set -e ends, after which the script goes on"},
		{"sh -ec 'while true; do a; if [ $? = 0 ]; then break; fi; done'", "until (a) aborts"},
		{"sh -ec 'a; b' || true; c", "error: set -e in a shell whose failure is ignored"},
		{"[ -d /x ] && a", "error: the script fails if the condition does not hold"},
		{`if [ "$HOST" = db ]; then a; else b; fi; c`, "(a)?; (c)"},
		{`if [ -z "$UNSET" ]; then a; fi`, "(a)"},
		{`set -u; if [ -z "$UNSET" ]; then a; fi`, "error: with which set -u ends the script"},
		{`set -u; if [ -z "${UNSET:-}" ]; then a $HOST; fi`, "(a $HOST)"},
		{`case $HOST in x) a ;; db|y) b ;; *) c ;; esac`, "(b)"},
		{`case $HOST in x) a ;; [!x]?) d ;; esac; e`, "(d)?; (e)"},
		{`case $HOST in x) a ;; "d*") d ;; esac; e`, "(e)"},
		{`case $PORT in x) a ;; esac`, "error: its value is not known"},
		{`case $HOST in db) a ;& x) b ;; esac`, "error: goes on with the next"},
		{`X=/a/b.tar.gz; a ${X##*/} ${X%%.*} ${X%.*} "${X#/a}" ${X#?} ${X%"*"}`, "(a b.tar.gz /a/b /a/b.tar /b.tar.gz a/b.tar.gz /a/b.tar.gz)"},
		{`: ${UNSET:=y}; a $UNSET ${UNSET:+z} ${EMPTY:+z}`, "(: y)?; (a y z)"},
		{`: ${HOST:=y}; a $HOST`, "(: $HOST)?; (a $HOST)"},
		{`a ${UNSET:?no}`, "error: it ends the script"},
		{`a ${HOST:?no}`, "(a $HOST)"},
		{`a ${PORT#5}`, "error: its value is not known"},
		{`a $(basename /x/y.sh .sh) $(dirname /x/y.sh) "$(dirname x)" $(basename x/)`, "(a y /x . x)"},
		{`X=$(echo "$HOST:1" | cut -d: -f1); a $X $(echo a b c | awk '{print $2}') $(echo Ab | tr A-Z a-z)`, "(a db b ab)"},
		{`a $(printf '/x/%s\n' a b) "$(echo a,b | tr , '\n' | head -n1)"`, "(a /x/a /x/b a)"},
		{`a $(echo *)`, "error: the output of a command"},
		{`a $(echo "$PORT" | cut -c1)`, "error: the output of a command"},
		{`cut() { b; }; a $(echo x | cut -c1)`, "error: the output of a command"},
		{"if [ -f /done ]; then echo done; exit 0; fi; a; b", "if ([ -f /done) {} else {(a)?; (b)}"},
		{"if a; then echo ok; else echo failed; exit 1; fi; b", "(a); (b)"},
		{"if ! a; then exit 1; fi; b", "(a); (b)"},
		{"if a; then b; fi", "if (a) {(b)} else {}"},
		{"if [ -f /x ]; then X=1; else X=2; fi; a $X", "error: depends on a condition"},
		{"if [[ -f x ]]; then a; fi", "error: not in every shell"},
		// Loops.
		{"until a b; do echo waiting; sleep 2; done", "until (a b) every 2s"},
		{"while ! a b; do sleep 2; done; c", "until (a b) every 2s; (c)"},
		{"while a; do sleep 1; done", "until not (a) every 1s"},
		{"while true; do if a; then break; fi; sleep 1; done; b", "until (a) every 1s; (b)"},
		{"while true; do a && break; sleep 1; done", "until (a) every 1s"},
		{"while :; do a && exit 0; sleep 1; done; b", "until (a) every 1s"},
		{"while true; do if ! a; then sleep 1; else echo ok; break; fi; done", "until (a) every 1s"},
		{"while true; do a; if [ $? -eq 0 ]; then break; fi; sleep 1; done", "until (a) every 1s"},
		{"set -e; while true; do a; if [ $? = 0 ]; then break; fi; sleep 1; done", "until (a) every 1s aborts"},
		{`until [ "$(a)" = 200 ]; do sleep 1; done`, "until (a) = 200 every 1s"},
		{`until a | grep -q ok; do sleep 1; done`, "until (a) grep ok every 1s"},
		{`while true; do s=$(a); if [ "$s" = 200 ]; then break; fi; sleep 1; done`, "until (a) = 200 every 1s"},
		{`s=; while [ "$s" != 200 ]; do s=$(a); sleep 1; done`, "until not (a) != 200 every 1s"},
		{`while true; do s=$(a); b && break; done`, "error: output of a command"},
		{"for i in $(seq 1 30); do a && break; sleep 2; done", "until (a) every 2s 30 times"},
		{"for i in $(seq 1 30); do a && exit 0; sleep 2; done; echo no; exit 1", "until (a) every 2s 30 times or fail"},
		{"for i in 1 2 3; do if a; then exit 0; fi; done; exit 1", "until (a) 3 times or fail"},
		{"for i in 1 2 3; do if a; then exit 0; fi; done; b", "error: only done if the loop before does not succeed"},
		{"i=0; until a; do i=$((i+1)); if [ $i -ge 10 ]; then echo no; exit 1; fi; sleep 1; done", "until (a) every 1s 10 times or fail"},
		{"i=0; until a; do [ $i -gt 10 ] && exit 1; i=$(expr $i + 1); sleep 1; done", "until (a) every 1s 12 times or fail"},
		{"i=0; while [ $i -lt 5 ]; do a && break; i=$((i+1)); sleep 1; done; if [ $i -eq 5 ]; then exit 1; fi; b", "until (a) every 1s 5 times or fail; (b)"},
		{"i=0; while ! a && [ $i -lt 5 ]; do i=$((i+1)); sleep 1; done; [ $i -lt 5 ] || exit 1; b", "until (a) every 1s 6 times or fail; (b)"},
		{"i=0; until a || [ $i -eq 3 ]; do sleep 1; i=$(( $i + 1 )); done", "until (a) every 1s 4 times"},
		{"ok=0; for i in 1 2; do if a; then ok=1; break; fi; done; [ $ok = 1 ] || exit 1; b", "until (a) 2 times or fail; (b)"},
		{"timeout 60 sh -c 'until a; do sleep 2; done'", "until (a) every 2s within 1m0s or fail"},
		{"timeout 60 sh -c 'until a; do sleep 2; done' || exit 1; b", "until (a) every 2s within 1m0s or fail; (b)"},
		{"timeout 60 sh -c 'until a; do sleep 2; done'; b", "until (a) every 2s within 1m0s?; (b)"},
		{`timeout 60 sh -c "until a $HOST $IP; do sleep 2; done"`, "until (a db $IP…) every 2s within 1m0s or fail"},
		{"for h in x y; do until a $h; do sleep 1; done; done", "until (a x) every 1s; until (a y) every 1s"},
		{"for h in $LIST; do until a $h; do sleep 1; done; done", "until (a a) every 1s; until (a b) every 1s"},
		{"for h in $HOST x; do until a $h; do sleep 1; done; done", "until (a $HOST) every 1s; until (a x) every 1s"},
		{"for h in $IP; do until a $h; do sleep 1; done; done", "error: a list in a variable whose value is not known"},
		{"for h in x $IP; do a && break; sleep 1; done", "error: a list in a variable whose value is not known"},
		{"for h in \"$IP\"; do until a $h; do sleep 1; done; done", "until (a $IP…) every 1s"},
		{"w() { until a $1 $2; do sleep 1; done; }; w x 1; w y 2", "until (a x 1) every 1s; until (a y 2) every 1s"},
		{"until a && b; do sleep 1; done", "until (a) and (b) every 1s"},
		{"until a; do b; sleep 1; done", "error: b: it runs at each attempt"},
		{"until a; do nslookup $HOST && echo there; ls -l /x | cut -c1; sleep 1; done", "error: it runs at each attempt"},
		{"until a; do nslookup $HOST && echo there || ls /x; sleep 1; done", "until (a) every 1s"},
		{"until a; do nslookup x && b; sleep 1; done", "error: in a loop"},
		{"until a; do nslookup $(b); sleep 1; done", "error: it runs at each attempt"},
		{"until a; do ls > /x; sleep 1; done", "error: a redirection of several commands"},
		{"set -e; until a; do nslookup x; sleep 1; done", "error: it runs at each attempt"},
		{"while true; do nslookup x; if [ $? = 0 ]; then break; fi; sleep 1; done", "until (nslookup x) every 1s"},
		{"while true; do nslookup x; sleep 1; done", "error: does not wait for anything"},
		{"while true; do sleep 1; done", "error: does not wait for anything"},
		{"while a; do b && break; done", "error: a second condition"},
		{"until a; do sleep $IP; done", "error: a pause that is not known"},
		{"until timeout 2 a; do sleep 1; done", "until (a within=2s) every 1s"},
		{"until a >/dev/null 2>&1; do sleep 1; done >/dev/null", "until (a) every 1s"},
		{"for f in *.x; do a $f; done", "error: a loop over files"},
		{"for f in /c/*.crt; do cat \"$f\" > /o/$f; done", "error: a loop over files"},
		{"for f in /c/*.crt; do cat \"$f\" >> \"/o/$f\"; done", "error: $f: its value is not known: a file of a loop"},
		{"for f in /c/*.crt; do cat \"$f\" >> /o/a; rm \"$f\"; done", "error: a loop over files"},
		{"for f in /c/*.crt; do cat \"$f\" >> /o/a; echo >> /o/b; done", "error: a loop over files"},
		{"for f in /c/*.crt; do echo \"$(rm $f)\"; cat \"$f\" >> /o/a; done", "error: a loop over files"},
		{"for f in /c/*.crt /d/*; do cat \"$f\" >> /o/a; done", "error: a loop over files"},
		{"while read x; do a; done", "error: reads a variable"},
		{"until a; do sleep 1; done &", "error: background"},
		{"until a; do sleep 1 && echo -n .; done", "until (a) every 1s"},
		{"ok=false; while ! $ok; do if a; then ok=true; echo yes; fi; sleep 1; done; b", "until (a) every 1s; (b)"},
		{`i=0; until a || [ "$((i+=1))" -ge 3 ]; do sleep 1; done`, "until (a) every 1s 3 times"},
		{`i=0; until [ $((i+=1)) -ge 3 ] || a; do sleep 1; done`, "until (a) every 1s 2 times"},
		{`i=9; while ! a && [ $((i-=2)) -gt 0 ]; do sleep 1; done`, "until (a) every 1s 5 times"},
		{`i=0; until a; do [ $((i=i+1)) -lt 4 ] || exit 1; sleep 1; done`, "until (a) every 1s 4 times or fail"},
		{`i=0; until a; do if test $((i+=1)) -gt 4; then exit 1; fi; sleep 1; done`, "until (a) every 1s 5 times or fail"},
		{`i=0; until a || [ $((i+=1)) -ge 3 ]; do i=$((i+1)); done`, "error: a second change of the counter"},
		{`i=0; until a || [ $((i+=1)) -ge 3 ] || [ $((i+=1)) -ge 9 ]; do sleep 1; done`, "error: arithmetic with +="},
		{`until a || [ $((i+=1)) -ge 3 ]; do sleep 1; done`, "error: i: its value is not known"},
		{`i=0; until a || [ -n "$X" ] && [ $((i+=1)) -ge 3 ]; do sleep 1; done`, "error: "},
		{`i=0; until a || b $((i+=1)); do sleep 1; done`, "error: "},
		{`i=0; until a; do echo $((i+=1)); [ $i -gt 3 ] && exit 1; done`, "error: "},
		{"a && ulimit -c unlimited", "(a); (ulimit -c unlimited)"},
		{"ulimit -c unlimited; a", "error: limits of what follows"},
		{"ulimit -n 9 || true; a", "error: limits of what follows"},
		{"set -a; LIST=x; a", "(LIST=x a)"},
		{"set -a; for PGHOST in x y; do a; done", "error: a loop variable that is exported"},
		{`z=no; i=1; while [ "$z" != ok ]; do if [ "$i" -le 4 ]; then z=$(a); if [ "$z" != ok ]; then i=$(expr "$i" + 1); sleep 5; fi; else echo no; exit 1; break; fi; done`,
			"until not (a) != ok every 5s 4 times or fail"},
		{`z=no; i=1; while [ "$z" != ok ]; do if [ "$i" -le 4 ]; then z=$(a); if [ "$z" != ok ]; then i=$(expr "$i" + 1); fi; sleep 5; else exit 1; fi; done`,
			"error: a condition that does not end the loop"},
		{`z=no; i=1; while [ "$z" != ok ]; do if [ "$i" -le 4 ]; then z=$(a); if [ "$z" != x ]; then i=$(expr "$i" + 1); fi; else exit 1; fi; done`,
			"error: a condition that does not end the loop"},
		{"i=0; until a; do if [ $i -lt 3 ]; then i=$((i+1)); sleep 1; else break; fi; done; b", "until (a) every 1s 4 times; (b)"},
		{"i=0; until a; do if [ $i -lt 3 ]; then i=$((i+1)); else exit 0; fi; done; b", "error: what is done after some attempts"},
		{"i=0; until a; do if [ $i -lt 3 ]; then i=$((i+1)); else b; exit 1; fi; done", "error: what is done after some attempts"},
		{`until [ "$(a)" != "" ]; do sleep 1; done`, "until (a) -n \"\" every 1s"},
		{`i=5; until a || [ $((i--)) -le 3 ]; do sleep 1; done`, "error: arithmetic of this form"},
		{"i=0; until a; do ((i++)); [ $i -gt 3 ] && exit 1; done", "error: "},
		{"i=0; until a; do let i++; [ $i -gt 3 ] && exit 1; done", "error: "},
		{"for ((i=0; i<30; i++)); do a && break; done", "error: a loop of this form"},
		{"i=0; until a; do : $((i=i+1)); [ $i -gt 3 ] && exit 1; done", "error: "},
		{"a $[1+2]", "error: not the same in every shell"},
		{"type a", "error: a command of the shell"},
		{`i=0; until a; do [ $((i++)) -lt 3 ] || exit 1; done`, "error: arithmetic of this form"},
		{"until $(a); do sleep 1; done", "until (a) every 1s"},
		{"until a; do if [ -n \"$X\" ]; then echo y; fi; [ -n \"$X\" ] && echo y; sleep 1; done", "until (a) every 1s"},
		{"until a; do [ \"$(touch /x)\" ] && echo y; sleep 1; done", "error: in a loop"},
		{"until a; do [ x ] >/x && echo y; sleep 1; done", "error: in a loop"},
		{"until a; do if [ \"$(touch /x)\" ]; then echo y; fi; sleep 1; done", "error: "},
		{"ok=0; until [ $ok -eq 1 ]; do a && ok=1; sleep 1; done", "error: in a loop"},
		{"while true; do ok=true; for h in x y; do if ! a $h; then echo no $h; ok=false; fi; done; if [ \"$ok\" = true ]; then echo all; exit 0; fi; sleep 1; done",
			"until (a x) and (a y) every 1s"},
		{"while true; do ok=1; n=0; for h in x y z; do if a $h; then n=$((n+1)); else ok=0; fi; done; [ $ok -eq 1 ] && break; sleep 1; done; b",
			"until (a x) and (a y) and (a z) every 1s; (b)"},
		{"while true; do ok=0; for h in x y; do if a $h; then ok=1; fi; done; [ $ok = 1 ] && break; sleep 1; done", "until (a x) or (a y) every 1s"},
		{"while true; do if a; then s=up; else s=down; fi; [ $s = down ] || break; sleep 1; done", "until (a) every 1s"},
		{"f() { local u=$1; local s=$(a $u); if [ \"$s\" = 200 ]; then echo yes; return 0; else return 1; fi; }; i=1; while [ $i -le 9 ]; do ok=true; for h in x y; do if f $h; then echo yes; else ok=false; fi; done; if [ $ok = true ]; then exit 0; fi; sleep 5; i=$((i+1)); done; exit 1",
			"until (a x) = 200 and (a y) = 200 every 5s 9 times or fail"},
		{"ok=true; while true; do for h in x y; do if ! a $h; then ok=false; fi; done; if [ $ok = true ]; then break; fi; sleep 1; done", "error: its value is not known: it depends"},
		{"while true; do n=0; for h in x y; do if a $h; then n=$((n+1)); fi; done; [ $n -ge 1 ] && break; sleep 1; done", "error: its value is not known: it depends"},
		{"while true; do ok=true; for h in x y; do if a $h; then b; ok=false; fi; done; [ $ok = true ] && break; done", "error: a condition that does not end the loop"},
		{"while true; do ok=true; for h in x y; do if a $h; then ok=$(b); fi; done; [ $ok = true ] && break; done", "error: a condition that does not end the loop"},
		{"while true; do ok=true; for h in x y; do if a $h; then HOST=z; fi; done; b $HOST && break; done", "error: a condition that does not end the loop"},
		{"while true; do ok=true; for h in x y; do if a $h; then ok=false; fi; done; b $ok && break; done", "error: its value is not known: it depends"},
		{"until b; do if a; then x=1; fi; sleep 1; done", "error: a condition that does not end the loop"},
		{"until b; do if [ -f /x ]; then x=1; fi; sleep 1; done", "until (b) every 1s"},
		{"while true; do ok=true; if a; then ok=1; else ok=1; fi; if b; then ok=2; fi; [ $ok = 2 ] && break; done", "error: a condition that does not end the loop"},
		{"while true; do if a; then x=1; fi; if b; then break; fi; sleep 1; done", "error: a condition that does not end the loop"},
		{"while true; do ok=true; for h in *; do a $h || ok=false; done; [ $ok = true ] && break; done", "error: a list that is not known"},
		{"while true; do ok=true; for h in x y; do a $h && break; done; [ $ok = true ] && break; done", "error: a loop of this form"},
		{"while true; do ok=true; if a; then ok=true; fi; [ $ok = true ] && break; done", "error: "},
		{"f() { if a; then return 0; else b; return 1; fi; }; until f; do sleep 1; done", "error: a condition of this form"},
		{"f() { if a; then return 0; fi; }; until f; do sleep 1; done", "error: a condition of this form"},
		{"f() { if a; then return 1; else return 0; fi; }; until f; do sleep 1; done", "until not (a) every 1s"},
		{"until if a; then true; else false; fi; do sleep 1; done", "error: a condition of this form"},
		{"ok=false; while ! $ok; do if a; then ok=maybe; fi; sleep 1; done", "error: a condition that does not end the loop"},
		{"ok=true; while ! $ok; do if a; then ok=true; fi; done", "error: whether the loop begins"},
		{"echo x | a", "(echo x)|(a)"},
		{"X=$(date); echo $X; a", "(a)"},
		{"X=$(b); a", "error: output of a command"},
		{"a 'unfinished", "error: not understood"},
		{"a > /x > /y", "error: a redirection after one to a file"},
		{"a > /x >&2", "error: a redirection after one to a file"},
		{"a 2> /x 2>&1", "error: a redirection after one to a file"},
		{"a > /x 2>&1 < /y", `(a </y >/x 2>"")`},
		{"a x\r\nb\r\n", "error: a carriage return"},
		{"if a", "error: not understood"},
	} {
		script, err := Parse(test.script, Options{Program: "sh", Lookup: lookup})
		got := ""
		if err == nil {
			got = notation(script.Body)
		} else if !errors.As(err, new(*Error)) {
			t.Errorf("%s: an error without a place: %v", test.script, err)
		}
		want, wantError := strings.CutPrefix(test.want, "error: ")
		if wantError {
			found := false
			for _, w := range strings.Split(want, "|") {
				found = found || err != nil && strings.Contains(err.Error(), w)
			}
			if !found {
				t.Errorf("%s\n   got %s %v\n  want %s", test.script, got, err, test.want)
			}
		} else if got != want || err != nil {
			t.Errorf("%s\n   got %s %v\n  want %s", test.script, got, err, want)
		}
	}
}

// TestBash reads what only bash knows.
func TestBash(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"a /x/{b,c}/d{,e} \"{f,g}\" {h} {,i}": "(a /x/b/d /x/b/de /x/c/d /x/c/de {f,g} {h} i)",
		"X=y; a $X/{b,$X}":                    "(a y/b y/y)",
		"a {b,{c,d}}":                         "error: a word of this form",
		"a {b,c}*":                            "error: braces",
		"a x{1..3}":                           "error: braces",
		"X={a,b}; c $X":                       "(c {a,b})",
		"for i in {1..30}; do a && break; sleep 1; done":                         "until (a) every 1s 30 times",
		"until (echo > /dev/tcp/db/5432); do sleep 1; done":                      "until (echo >/dev/tcp/db/5432) every 1s",
		"until </dev/tcp/db/5432; do sleep 1; done":                              "until (: </dev/tcp/db/5432) every 1s",
		"until (exec 3<>/dev/tcp/db/5432) &>/dev/null; do sleep 1; done":         "until (: </dev/tcp/db/5432) every 1s",
		"until timeout 1 bash -c '</dev/tcp/db/5432'; do sleep 1; done":          "until (: </dev/tcp/db/5432 within=1s) every 1s",
		`while [[ "$(a)" != "ok" ]]; do sleep 1; done`:                           "until not (a) != ok every 1s",
		"i=0; until a; do ((i++)); [[ $i -gt 5 ]] && exit 1; done":               "until (a) 6 times or fail",
		`l=(x "y z"); for h in "${l[@]}"; do until a $h; do sleep 1; done; done`: "until (a x) every 1s; until (a y z) every 1s",
		`l=(x "y z"); a ${l[@]} "${l[@]}" "-${l[@]}-"`:                           `(a x y z x "y z" -x "y z-")`,
		`l=(x); a $l`:              "error: $l: an array as one word",
		`l=(x); a ${l:-y}`:         "error: an array as one word",
		`l=(x); a "${l[0]}"`:       "error: an expansion of this form",
		`l=(x); a "${l[*]}"`:       "error: an expansion of this form",
		`l=(x); a ${#l[@]}`:        "error: an expansion of this form",
		`l=([1]=x); a ${l[@]}`:     "error: an array with indices",
		`l=(*); a ${l[@]}`:         "error: an array whose elements are not known",
		`l=(x); l+=(y); a ${l[@]}`: "error: a variable of this form",
		`IP=(x); a ${IP[@]}`:       "error: the value of the variable IP",
	} {
		script_, err := Parse(script, Options{Program: "bash", Lookup: lookup})
		if why, refused := strings.CutPrefix(want, "error: "); refused {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v, want %s", script, err, why)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", script, err)
		} else if got := notation(script_.Body); got != want {
			t.Errorf("%s\n   got %s\n  want %s", script, got, want)
		}
	}
}

// TestParseHostile checks that no script takes long.
func TestParseHostile(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"parentheses": strings.Repeat("(", 30000),
		"braces":      strings.Repeat("{ ", 30000),
		"ifs":         strings.Repeat("if ", 20000),
		"nots":        strings.Repeat("! ", 30000),
		"quotes":      strings.Repeat("$(", 30000),
		"backquotes":  strings.Repeat("`\\", 30000),
		"loops":       strings.Repeat("for a in 1 2 3 4 5 6 7 8 9; do ", 30) + "x" + strings.Repeat("; done", 30),
		"doubling":    "a='x x'; " + strings.Repeat(`a="$a$a"; `, 60) + "b $a",
		"seq":         "for i in $(seq 1 99999999999); do a; done",
		"functions": "f0() { a; }; " + func() (s string) {
			for i := range 60 {
				s += fmt.Sprintf("f%d() { f%d; f%d; }; ", i+1, i, i)
			}
			return s
		}() + "f60",
		"long":    strings.Repeat("x", 1<<20),
		"nul":     "a\x00b",
		"counter": "i=0; until a; do i=$((i+1)); [ $i -eq -1 ] && exit 1; done",
	} {
		start := time.Now()
		if _, err := Parse(script, Options{Program: "bash", Lookup: lookup}); err == nil {
			t.Errorf("%s: accepted", name)
		} else if !errors.As(err, new(*Error)) {
			t.Errorf("%s: %v", name, err)
		} else if len(err.Error()) > 400 {
			t.Errorf("%s: a long message: %.100s…", name, err)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("set -e; until nc -z $HOST 80; do sleep 1; done; X=${Y:-$(a)}; for i in 1 2; do a && break; done")
	f.Add("i=0; while [ $i -lt 5 ]; do a && break; i=$((i+1)); done; if [ $i -eq 5 ]; then exit 1; fi; case x in x) b;; esac")
	f.Add("f() { local x=$1; a | b; }; f 1 2>&1; timeout 5 sh -c 'c <<EOF\nx\nEOF'")
	f.Fuzz(func(t *testing.T, script string) {
		for _, program := range []string{"sh", "bash"} {
			if _, err := Parse(script, Options{Program: program, Lookup: lookup}); err != nil && !errors.As(err, new(*Error)) {
				t.Errorf("an error without a place: %v", err)
			}
		}
	})
}

// TestNoPassword pins that no refusal repeats what may be a password in a script.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	for _, script := range []string{
		"X=$(curl -u me:hunter2 http://x)", "a $(curl -H 'Token: hunter2' http://x | head -n1)", "a & b -p hunter2",
		"export PW=hunter2$(x)", "a ${PW:-hunter2} ${X%%y}", "until b -p hunter2; do c hunter2; done &", "eval b hunter2",
		`if [ "$(b -p hunter2)" -gt 3 ]; then c; fi`, "http://me:hunter2@host/$(x)", "[[ $X == *hunter2* ]] && a", "a -p hunter2 'unclosed",
		"for ((;;)); do a -p hunter2; done", "case $X in hunter2) a;; esac", "f() { a hunter2 $1; }; f x", "a <<< \"hunter2$(x)\"", "{ a hunter2; } | b | c -p hunter2",
	} {
		_, err := Parse(script, Options{Program: "bash", Lookup: lookup})
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", script, err)
		}
	}
}
