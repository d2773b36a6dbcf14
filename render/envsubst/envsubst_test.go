package envsubst_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"initbox/render/engine"
	"initbox/render/envsubst"
	"initbox/test/servers"
	"initbox/test/soak"
)

var data = &engine.Data{
	Values: map[string]any{"PORT": int64(8080), "RATIO": 0.5, "BIG": 1e7, "ON": true, "NULL": nil, "MAP": map[string]any{}, "BOTH": "value"},
	Env:    map[string]any{"A": "a", "B_2": "two words", "EMPTY": "", "BOTH": "env", "REF": "$A ${A}", "MAP": "of the environment"},
}

func render(text string, o engine.Options) (string, error) {
	if o.Limits == (engine.Limits{}) {
		o.Limits = engine.DefaultLimits
	}
	t, err := envsubst.New(data, o).Parse("t", text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(context.Background(), &b)
	return b.String(), err
}

// TestForms pins every form, and text that is not a form.
func TestForms(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"$A ${A}", "a a"},
		{"$PORT $RATIO $BIG $ON $BOTH $MAP", "8080 0.5 10000000 true value of the environment"},
		{"$REF", "$A ${A}"}, // what is substituted is not looked at again
		{"[$EMPTY]", "[]"},
		{"${A:-x} ${NO:-x} ${EMPTY:-x} ${NULL:-x}", "a x x x"},
		{"${A-x} ${NO-x} [${EMPTY-x}]", "a x []"},
		{"${NO:=x} ${NO=x}", "x x"},
		{"[${A:+x}] [${NO:+x}] [${EMPTY:+x}] [${EMPTY+x}]", "[x] [] [] [x]"},
		{"${A:?needed} [${EMPTY?needed}]", "a []"},
		{"${NO:-${A}}${NO:-${NO:-$B_2}}", "atwo words"},
		{`${NO:-{"a": 1\}} ${NO:-a\b} \}`, `{"a": 1} a\b \}`},
		{"${NO:-a\nb}", "a\nb"},
		{"${NO:-}", ""},
		{"$ $$ $1 ${} ${1} ${A ${A[0]} ${A#x} ${!A} $", "$ $$ $1 ${} ${1} ${A ${A[0]} ${A#x} ${!A} $"},
		{"$$A \\$A $A$A", "$a \\a aa"},
		{"${A:-open $A", "${A:-open a"},
		{"${A$A}", "${Aa}"},
	} {
		got, err := render(c.text, engine.Options{})
		if got != c.want || err != nil {
			t.Errorf("%q is %q, want %q (%v)", c.text, got, c.want, err)
		}
	}
}

// TestVars pins that only the named ones are substituted.
func TestVars(t *testing.T) {
	got, err := render("proxy_set_header Host $host; $A ${NO:-x} ${host:-$A} ${A:-${host}}$EMPTY", engine.Options{Vars: []string{"A", "EMPTY"}})
	if want := "proxy_set_header Host $host; a ${NO:-x} ${host:-a} a"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := render("$A", engine.Options{Vars: []string{}}); got != "$A" || err != nil {
		t.Errorf("without any variable: %q, %v", got, err)
	}
	for list, want := range map[string]string{
		"$A ${B}": "[A B]", "A,B": "[A B]", "A B, C": "[A B C]", "": "[]", "x$A-${B}y$1$": "[A B]", "${A$B": "[B]",
	} {
		if got, err := envsubst.ParseVars(list); fmt.Sprint(got) != want || err != nil || got == nil {
			t.Errorf("ParseVars(%q) = %v, %v, want %s", list, got, err, want)
		}
	}
	if _, err := envsubst.ParseVars("A,B-C"); err == nil {
		t.Error("B-C passes for a name")
	}
}

// TestMissing pins that all of what is missing is told, with its place, and that nothing is written after the first.
func TestMissing(t *testing.T) {
	got, err := render("$A\n $NO1 $A\nx ${NO2}${NO3:-$NO4} ${NO5:?say $B_2}\n", engine.Options{})
	want := "t:2:2: $NO1 is missing; t:3:3: $NO2 is missing; t:3:16: $NO4 is missing\nt:3:22: $NO5: say two words"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	var m *engine.MissingError
	if !errors.As(err, &m) || len(m.Missing) != 3 || strings.Contains(got, "x") {
		t.Errorf("got %q, %#v", got, m)
	}
	if _, err := render("${NO:?}", engine.Options{}); err == nil || err.Error() != "t:1:1: $NO is not set, or empty" {
		t.Errorf("without a message: %v", err)
	}
	if got, err := render("[$NO]", engine.Options{MissingZero: true}); got != "[]" || err != nil {
		t.Errorf("empty where it is wished: %q, %v", got, err)
	}
}

func TestInputs(t *testing.T) {
	tm, err := envsubst.New(data, engine.Options{Limits: engine.DefaultLimits}).Parse("t", "$A\n${B:-$C} ${D:?}${E+$F} $1")
	if err != nil {
		t.Fatal(err)
	}
	want := "[t:1:1 $A false t:2:1 $B true t:2:6 $C false t:2:10 $D false t:2:16 $E true t:2:20 $F false]"
	var got []string
	for _, in := range tm.Inputs() {
		got = append(got, fmt.Sprint(in.Position, " ", in.Name, " ", in.Optional))
	}
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
}

func TestLimits(t *testing.T) {
	limits := engine.Limits{Bytes: 10, Depth: 5, Steps: 100}
	if got, err := render("12345678$A$A", engine.Options{Limits: limits}); len(got) > 10 || err != nil {
		t.Errorf("10 bytes: %q, %v", got, err)
	}
	if _, err := render("12345678$A$A$A", engine.Options{Limits: limits}); err == nil {
		t.Error("11 bytes are written")
	}
	nested := func(n int) string { return strings.Repeat("${NO:-", n) + strings.Repeat("}", n) }
	if _, err := render(nested(4), engine.Options{Limits: limits}); err != nil {
		t.Error(err)
	}
	for _, text := range []string{nested(6), strings.Repeat("${A:-", 1_000_000)} {
		if _, err := render(text, engine.Options{Limits: limits}); err == nil {
			t.Error("deep nesting passes")
		}
	}
	ctx, stop := context.WithCancelCause(context.Background())
	stop(errors.New("it is late"))
	tm, _ := envsubst.New(data, engine.Options{Limits: engine.DefaultLimits}).Parse("t", "$A")
	if err := tm.Execute(ctx, io.Discard); err == nil || !strings.Contains(err.Error(), "it is late") {
		t.Errorf("after the end: %v", err)
	}
}

// gnu runs GNU's envsubst on text, with data's environment.
func gnu(t *testing.T, text string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), servers.Need(t, "envsubst"), args...)
	cmd.Stdin = strings.NewReader(text)
	for k, v := range data.Env {
		if v := v.(string); k != "BOTH" && k != "MAP" {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestGNU compares with GNU's envsubst, byte for byte, on texts that hold none of
// the forms that GNU lacks: many at random, separated by lines that both keep.
func TestGNU(t *testing.T) {
	parts := []string{"$", "${", "}", "A", "B_2", "EMPTY", "NO", "REF", "_", "1", "$A", "${A}", "$B_2", "${NO}", "$EMPTY", " ", "\n", "\\", "'", `"`, "#", "[0]", "ä", "\xff", "$$", "{", "%", "é$A", "$ä", "${A"}
	texts := []string{"", "$", "$$", "${", "${A", "${A}", "$A$B_2", "${A}}", "${1x}", "$1", "${}", "$A\n", "${A ", "${A$A}", "$\n", "\\$A", "${ A}", "$A_", "$_A", "${A\n}"}
	random := soak.Rand(t)
	for range 5000 {
		var b strings.Builder
		for range 1 + random.IntN(12) {
			b.WriteString(parts[random.IntN(len(parts))])
		}
		texts = append(texts, b.String())
	}
	const line = "\n=====\n"
	for _, formats := range []string{"-", "$A", "${A} $EMPTY", "x$B_2y", "$NO"} {
		o, args := engine.Options{MissingZero: true}, []string{}
		if formats != "-" {
			vars, err := envsubst.ParseVars(formats)
			if err != nil {
				t.Fatal(err)
			}
			o.Vars, args = vars, []string{formats}
		}
		lacks := func(string) bool { return false }
		if o.Vars != nil { // for these variables there are bash's operators
			lacks = regexp.MustCompile(`\$\{(#|\w+[#%])`).MatchString
		}
		want := strings.Split(gnu(t, strings.Join(texts, line), args...), line)
		if len(want) != len(texts) {
			t.Fatalf("GNU's output has %d parts, want %d", len(want), len(texts))
		}
		for i, text := range texts {
			if got, err := render(text, o); !lacks(text) && (got != want[i] || err != nil) {
				t.Errorf("%q with %s is %q, GNU's is %q (%v)", text, formats, got, want[i], err)
			}
		}
	}
}

func FuzzEnvsubst(f *testing.F) {
	for _, s := range []string{"$A ${A} ${NO:-${A}}", `${NO:-\}}`, "${A:?$NO}", "${", "${A:-", "$$", "${NO=$NO}", "ä${A/[!'a'-c]*/\"$NO\"}", "${B_2: -3:${#A}}", "${B_2%%$A*}${A^^}"} {
		f.Add(s, int64(100), true)
	}
	f.Fuzz(func(t *testing.T, text string, limit int64, zero bool) {
		for _, vars := range [][]string{nil, {"A", "B_2", "NO"}} {
			o := engine.Options{Limits: engine.Limits{Bytes: limit, Depth: 10, Steps: 1000}, MissingZero: zero, Vars: vars}
			e := envsubst.New(data, o)
			tm, err := e.Parse("t", text)
			if err != nil {
				continue
			}
			var b bytes.Buffer
			err = tm.Execute(context.Background(), &b)
			if int64(b.Len()) > max(0, limit) {
				t.Errorf("%d bytes where %d may be", b.Len(), limit)
			}
			var m *engine.MissingError
			if errors.As(err, &m) {
				for _, in := range m.Missing {
					line := []rune(strings.Split(text, "\n")[in.Line-1])
					if line[in.Column-1] != '$' {
						t.Errorf("%v is not where a variable begins", in.Position)
					}
				}
			}
			tm.Inputs()
		}
	})
}

func BenchmarkEnvsubst(b *testing.B) {
	for name, size := range map[string]int{"1kB": 1 << 10, "50MB": 50 << 20} {
		b.Run(name, func(b *testing.B) {
			text := strings.Repeat("listen $PORT; server_name ${A}; # some more text of a line\n", size/58)
			e := envsubst.New(data, engine.Options{Limits: engine.DefaultLimits})
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				t, err := e.Parse("t", text)
				if err == nil {
					err = t.Execute(context.Background(), io.Discard)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
