package envsubst_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"initbox/render/engine"
	"initbox/render/envsubst"
	"initbox/test/servers"
	"initbox/test/soak"
)

// operands are values that have what the operators look at.
var operands = []string{
	"/usr/local/bin/ab.tar.gz", "", "a", "*.", `a"b'c`, "a b  c ", `x\*y`, "äöÜ €", "ABCabc", "two\nlines", "[a]-z", "$A ${A}", "aaa", "}", "a&b", "0123456789",
}

// forms are references to $V that bash takes, each with another operator or another kind of word.
var forms = []string{
	"${#V}", "${V^}", "${V^^}", "${V,}", "${V,,}", "${V^^[a-c]}", "${V^[b-z]}", "${V,,[!A]}", "${V^^ab}", "${V^^?}", "${V^^$O}",
	"${V:0}", "${V:0:3}", "${V:2}", "${V: 1 : 2 }", "${V::2}", "${V:2:}", "${V:100}", "${V: -2}", "${V:(-3)}", "${V: -3:2}", "${V:(-1):1}", "${V:$ONE:${ONE}}", "${V:0:0}",
	"${V#a}", "${V##a}", "${V#*}", "${V##*}", "${V#*a}", "${V##*a}", "${V#/*/}", "${V##*/}", "${V#?}", "${V#??}", "${V#[a-z]}", "${V#[!a-z]}", "${V##*[a-z]}", "${V#}", "${V##*[[:punct:]]}",
	"${V%z}", "${V%%z}", "${V%*}", "${V%%*}", "${V%.*}", "${V%%.*}", "${V%?}", "${V%%[a-z]*}", "${V%%[[:upper:]]*}", "${V%[}", "${V%[]}", "${V%[]a]}", "${V%}", `${V%\*y}`, `${V#x\\}`, `${V#'x\'}`, `${V%"}"}`, `${V%\}}`, "${V%'}'}",
	`${V#"*"}`, "${V#'*'}", `${V#\*}`, "${V#$O}", `${V#"$O"}`, "${V##*$O}", "${V%${NO:-z}}", `${V%"${NO:-z}"}`, "${V#'$O'}", `${V#\$A}`,
	"${V/a/b}", "${V//a/b}", "${V/#a/b}", "${V/%a/b}", "${V/a}", "${V//a}", "${V/a/}", "${V/#/x}", "${V/%/x}", "${V/#}", "${V/}", "${V//}", "${V///_}", `${V//\//_}`, `${V//"/"/_}`, "${V//'/'/_}",
	"${V/*/x}", "${V//*/x}", "${V//?/x}", "${V//[ab]/[&]}", "${V/a/b/c}", `${V/a/"y"}`, `${V/a/'y z'}`, `${V/a/\/}`, `${V/a/\\}`, `${V/a/\q}`, `${V/a/\}}`, `${V/a/x\$y}`, "${V/a/${NO:-b}}", "${V//${NO:-a}/$V}", "${V/a/$V}", `${V/a/"$V"}`,
	"${V// /_}", "${V//  /_}", "${V//[[:space:]]/_}", "${V//[![:alnum:]]/_}", "${V//[$O]/x}", `${V/[a\/b]/c}`, "${V/[/]/c}", `${V//\"/x}`, `${V//\'/x}`, "${V//$O/x}", `${V//"$O"/x}`, "${V//[z-a]/x}", "${V//[^a-z]/x}", "${V//a*b/x}", "${V//b?/x}", "${V/%?/x}", "${V/#?/x}", "${V/%a*/x}", `${V//[\]]/x}`, `${V//"[a]"/x}`, "${V//€/E}", "${V//ä/ae}", "${V//&/and}", "${V//a/&&}",
	"${V:-x}", "${V-x}", "${V:+x}", "${V+x}", "${V:+${V/a/b}}", "${NO:-${V##*/}}", "$V", "${V}",
}

// TestBash compares with what bash makes of the same text in a here-document, for all operators and many random
// patterns.
func TestBash(t *testing.T) {
	bash := servers.Need(t, "bash")
	texts := append([]string{}, forms...)
	random := soak.Rand(t)
	pieces := []string{"a", "b", "*", "?", "[a-c]", "[!a]", "[[:alpha:]]", ".", `\*`, `"*"`, "'?'", "${O}", `"$O"`, "-", "]", "ä", " "}
	for range 2000 {
		word := ""
		for range 1 + random.IntN(4) {
			word += pieces[random.IntN(len(pieces))]
		}
		op := []string{"#", "##", "%", "%%", "^^", ",", "/", "//", "/#", "/%"}[random.IntN(10)]
		if op[0] == '/' {
			if word[0] == '*' && (strings.HasSuffix(word, `\*`) || strings.HasSuffix(word, `"*"`)) {
				word += "a" // bash 5.2 finds no match of *\*
			}
			word += "/" + []string{"", "x", "$O", "\\/"}[random.IntN(4)]
		}
		texts = append(texts, "${V"+op+word+"}")
	}
	const line = "\n=====\n"
	script := "shopt -u patsub_replacement 2>/dev/null; cat <<_END_\n" + strings.Join(texts, line) + "\n_END_\n"
	for _, value := range operands {
		environment := map[string]any{"V": value, "O": "*a", "ONE": "1"}
		cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", script)
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		for name, v := range environment {
			cmd.Env = append(cmd.Env, fmt.Sprint(name, "=", v))
		}
		out, err := cmd.Output()
		want := strings.Split(strings.TrimSuffix(string(out), "\n"), line)
		if err != nil || len(want) != len(texts) {
			t.Fatalf("bash's output has %d parts, want %d (%v)", len(want), len(texts), err)
		}
		e := envsubst.New(&engine.Data{Env: environment}, engine.Options{Limits: engine.DefaultLimits, Vars: []string{"V", "O", "ONE", "NO"}})
		for i, text := range texts {
			if got, err := execute(t, e, text); got != want[i] || err != nil {
				t.Errorf("%s of %q is %q, bash's is %q (%v)", text, value, got, want[i], err)
			}
		}
	}
}

func execute(t *testing.T, e engine.Engine, text string) (string, error) {
	tm, err := e.Parse("t", text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = tm.Execute(t.Context(), &b)
	return b.String(), err
}

// TestNamedOnly pins that operators work for the variables that the user names, and that all else stays.
func TestNamedOnly(t *testing.T) {
	o := engine.Options{Vars: []string{"A", "NO"}, MissingZero: true}
	const text = "${BOTH^^} ${#BOTH} ${BOTH:0:1} ${BOTH/a/b} ${BOTH#a} ${BOTH%a} ${BOTH:-open ${#} ${#-} ${A ${A[0]} ${A@Q} ${!A} ${A.b} $$BOTH ${x%%.*}"
	for _, o := range []engine.Options{o, {}} {
		others := strings.ReplaceAll(text, "BOTH", "host")
		if o.Vars == nil { // without names, those of all variables stay
			others = strings.ReplaceAll(text, "$$BOTH", "")
		}
		if got, err := render(others, o); got != others || err != nil {
			t.Errorf("got  %q, %v\nwant %q", got, err, others)
		}
	}
	for text, want := range map[string]string{
		"$$A \\$A": "$a \\a", "${A^}$A": "Aa", "[${NO^^}${NO:0:1}${NO#x}${NO//x/y}]${#NO}": "[]0", "${A/a/$BOTH${A^}}": "$BOTHA", "${A/$/x}": "a",
		"${A#${x'}}": "a", `${A#"${x"'}y"}`: "a", // of what stays, a quote may have no partner
	} {
		if got, err := render(text, o); got != want || err != nil {
			t.Errorf("%q is %q, want %q (%v)", text, got, want, err)
		}
	}
}

// TestOperatorErrors pins what is refused, and where.
func TestOperatorErrors(t *testing.T) {
	o := engine.Options{Vars: []string{"A", "NO", "REF"}}
	for text, want := range map[string]string{
		"x\nä ${A:-open":       "t:2:3: ${A:- is not closed",
		"${A:-${NO:-x}":        "t:1:1: ${A:- is not closed",
		"${A#'}":               "t:1:1: ${A# is not closed",
		"${A:x}":               `t:1:1: ${A:…}: offset and length are whole numbers, not "x"`,
		"${A:}":                `t:1:1: ${A:…}: offset and length are whole numbers, not ""`,
		"${A:0:1+1}":           `t:1:1: ${A:…}: offset and length are whole numbers, not "1+1"`,
		"${A:0:-2}":            "t:1:1: ${A:…}: its end is before its beginning",
		"${A#[[:no:]]}":        "t:1:1: ${A#…}: there is no class [:no:]",
		"${A/\xff/x}":          "t:1:1: ${A/…}: the pattern is not UTF-8",
		"${NO^^} ${A#${NO}}":   "t:1:1: $NO is missing; t:1:13: $NO is missing",
		"${NO:0:1} ${#NO}":     "t:1:1: $NO is missing; t:1:11: $NO is missing",
		"${A:?${NO:?inner}} $": "",
		"${NO:?${NO:?inner}}":  "t:1:7: $NO: inner\nt:1:1: $NO is not set, or empty",
	} {
		_, err := render(text, o)
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// TestOperatorLimits pins that no result is longer than allowed, and that a pattern over a long text ends.
func TestOperatorLimits(t *testing.T) {
	long := strings.Repeat("ab", 1<<15)
	e := envsubst.New(&engine.Data{Env: map[string]any{"L": long}}, engine.Options{Limits: engine.Limits{Bytes: 1 << 20, Depth: 10}, Vars: []string{"L"}})
	for _, text := range []string{"${L//a/$L}", "${L//${L//a/$L}/x}"} {
		if got, err := execute(t, e, text); err == nil || len(got) > 1<<20 {
			t.Errorf("%s makes %d bytes, %v", text, len(got), err)
		}
	}
	for text, want := range map[string]string{"${L##*a*b*a*c}": long, "${L//*a*b*c/x}": long, "${L%%*a*b*a*}": "", "${L%a*b*a*b}": long[:len(long)-4]} {
		if got, err := execute(t, e, text); got != want || err != nil {
			t.Errorf("%s makes %d bytes, want %d (%v)", text, len(got), len(want), err)
		}
	}
}
