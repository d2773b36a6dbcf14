package dns

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"initbox/internal/failure"
	"initbox/internal/resolver"
	"initbox/internal/words"
	"initbox/test/kindtest"
	"initbox/waitfor/target"
)

// kinds has only the kind of the package.
var kinds = target.Kinds{&Kind}

// TestNames pins what counts as a name, and is shown, and the errors for the rest, which is not shown.
func TestNames(t *testing.T) {
	const letters = "a name has only letters from a to z, digits, -, _ and dots"
	for name, want := range map[string]string{ // "" for a name
		"mydb": "", "MyDB": "", "mydb.": "", ".": "", "_pg._tcp.mydb": "", "xn--bcher-kva.example": "", "3com": "",
		strings.Repeat("a", 63) + ".b": "",
		"":                             `"": is not a domain name: it is empty; is a variable not set?`,
		"my db":                        "dns:…: is not a domain name: it contains a space; give each name as a separate argument",
		"mydb,other":                   "dns:…: is not a domain name: it contains a comma; give each name as a separate argument",
		"mydb/":                        "it contains a slash; give the host's name alone",
		"http://mydb/":                 "it contains a slash; give the host's name alone",
		"mydb:5432":                    "it contains a colon; give the host's name alone; wait-for-service takes ports",
		"*.mydb":                       "it contains a *",
		"mydb?x":                       letters,
		"mydb#x":                       letters,
		"app@mydb":                     letters,
		"${env:NAME}":                  "it contains a colon",
		"bücher":                       letters,
		"mydb\n":                       letters,
		`my\.db`:                       letters,
		"a..b":                         "a..b: is not a domain name: a name has 1 to 63 characters between dots, and at most 253 in all",
		".mydb":                        "1 to 63 characters between dots",
		strings.Repeat("a", 64):        "1 to 63 characters between dots",
		strings.Repeat("a.", 128):      "at most 253 in all",
		"10.0.0.1":                     "",
		"fd00::10":                     "",
	} {
		check, err := kinds.Parse(Target(name), target.Options{})
		switch {
		case want == "" && (err != nil || check.String() != name):
			t.Errorf("%q is shown as %v, %v", name, check, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{ // "" for no error
		"dns:a#min-records=0":             "min-records: want a whole number from 1",
		"dns:a#min-records=-1":            "min-records: want a whole number",
		"dns:a#min-records=3":             "",
		"dns:a#gone&min-records=1":        "gone means that there is no record at all",
		"dns:a#gone&expect=10.0.0.1":      "gone means that there is no record at all",
		"dns:a#gone&type=TXT":             "",
		"dns:a#type=AXFR":                 "type: want one or more of A,AAAA,CNAME,SRV,MX,NS,TXT,PTR",
		"dns:a#type=ANY":                  "type: want one or more of",
		"dns:a#type=":                     "#type needs a value",
		"dns:a#type=srv,%20MX,SRV":        "",
		"dns:10.0.0.1#type=PTR":           "",
		"dns:10.0.0.1#type=PTR,A":         "",
		"dns:10.0.0.1#type=SRV":           "an address is not a name: it has no record of another type or family",
		"dns:10.0.0.1#family=6":           "an address is not a name",
		"dns:fd00::10#family=4":           "an address is not a name",
		"dns:fd00::10#family=both":        "an address is not a name",
		"dns:10.0.0.1#gone":               "an address is never gone, and has no other record than itself",
		"dns:10.0.0.1#min-records=2":      "an address is never gone, and has no other record than itself",
		"dns:10.0.0.1#expect=10.0.0.0/8":  "",
		"dns:10.0.0.1#expect=10.1.0.0/16": "an address is never gone, and has no other record than itself",
		"dns:a#expect=/a(/":               "a: expect: not a regular expression: missing closing )",
		"dns:a#expect=/a(/&min-records=1": "expect: not a regular expression",
	} {
		_, err := kinds.Parse(text, target.Options{})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := kinds.Parse("dns:a#expect=x", target.Options{Gone: true}); err == nil {
		t.Error("expect is accepted with --gone")
	}
}

func TestTypes(t *testing.T) {
	for _, name := range typeNames {
		parsed, err := kinds.Parse("dns:a#type="+strings.ToLower(name), target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.(*check).query.Types; !slices.Equal(got, []uint16{dns.StringToType[name]}) || got[0] == 0 {
			t.Errorf("type %s asks for %d", name, got)
		}
	}
}

// answer returns the answer with records in the format of zone files.
func answer(t *testing.T, records ...string) *resolver.Answer {
	t.Helper()
	a := &resolver.Answer{Name: "a.test."}
	for _, record := range records {
		rr, err := dns.NewRR("a.test. " + record)
		if err != nil {
			t.Fatal(err)
		}
		a.Records = append(a.Records, rr)
	}
	return a
}

// judged returns the judgement of the target's check on an answer.
func judged(t *testing.T, text string, a *resolver.Answer) error {
	t.Helper()
	parsed, err := kinds.Parse(text, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return parsed.(*check).judge(a)
}

func TestExpectations(t *testing.T) {
	srv := answer(t, "SRV 0 50 5432 DB-0.test.", "SRV 0 50 5432 db-1.test.")
	mx := answer(t, "MX 10 mx.test.")
	txt := answer(t, `TXT "say \"hi\""`)
	a := answer(t, "A 10.0.0.1", "A 10.0.0.2")
	for _, test := range []struct {
		expect string
		a      *resolver.Answer
		want   bool
	}{
		{"0 50 5432 db-0.test", srv, true},
		{"db-0.test", srv, true},
		{"DB-1.test.", srv, true},
		{"/^db-0/", srv, true},
		{"/^0 50 /", srv, true},
		{"5432", srv, false},
		{"db-2.test", srv, false},
		{"mx.test", mx, true},
		{"10 mx.test.", mx, true},
		{"10", mx, false},
		{`say "hi"`, txt, true},
		{"hi", txt, false},
		{"10.0.0.2", a, true},
		{"10.0.0.0/30", a, true},
		{"10.0.0.3", a, false},
	} {
		err := judged(t, "dns:a#type=A,SRV,MX,TXT&expect="+strings.ReplaceAll(test.expect, " ", "%20"), test.a)
		if (err == nil) != test.want {
			t.Errorf("%s: %v, want met %t", test.expect, err, test.want)
		}
	}
}

// TestTooFew pins that too few records do not mean that a name has none.
func TestTooFew(t *testing.T) {
	dual := answer(t, "A 10.0.0.1", "A 10.0.0.2", "AAAA fd00::1")
	for target, want := range map[string]string{ // "" for enough
		"dns:a#min-records=2":                      "",
		"dns:a#min-records=3":                      "a.test: 2 of 3 records",
		"dns:a#min-records=2&family=both":          "a.test: 1 of 2 records",
		"dns:a#min-records=1&family=both":          "",
		"dns:a#min-records=2&family=6":             "a.test: 1 of 2 records",
		"dns:a#min-records=2&expect=10.0.0.1":      "a.test: 1 of 2 records",
		"dns:a#min-records=2&expect=/^10/":         "",
		"dns:a#expect=10.0.0.9":                    "a.test: no record is 10.0.0.9",
		"dns:a#expect=10.0.0.1&expect=10.0.0.0/24": "",
	} {
		err := judged(t, target, dual)
		if want == "" && err == nil {
			continue
		}
		var f *failure.Failure
		if !errors.As(err, &f) || f.Text != want || f.Class != failure.Unexpected {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}

// TestMissingFamily pins that the resolver reports a missing family, and that a name with an address of the other
// family is not gone.
func TestMissingFamily(t *testing.T) {
	a := answer(t, "A 10.0.0.1")
	a.Missing = []*resolver.Error{{Kind: resolver.NoData, Name: "a.test.", Type: dns.TypeAAAA}}
	err := judged(t, "dns:a#family=both", a)
	var lookup *resolver.Failure
	if !errors.As(err, &lookup) || len(lookup.Tried) != 1 {
		t.Fatalf("%v, want a failure of the resolver", err)
	}
	if f := failure.Of(err); f.Class != failure.NoData || f.Text != "a.test: no data of type AAAA" || f.Hint == "" {
		t.Errorf("%s: %s; hint: %s", f.Class, f.Text, f.Hint)
	}

	hosts := kindtest.File(t, "10.0.0.1 a\n")
	check, err := kinds.Parse("dns:a#family=both&gone", target.Options{Resolver: &resolver.Resolver{Hosts: hosts}})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "still there") {
		t.Errorf("%v, want that it is still there", err)
	}
}

// TestRecordValue packs and unpacks each record, since package dns changes texts in between.
func TestRecordValue(t *testing.T) {
	for _, test := range []struct {
		rr   dns.RR
		want string
	}{
		{&dns.TXT{Txt: []string{"v=1 ", "two parts"}}, "v=1 two parts"},
		{&dns.TXT{Txt: []string{`say \"hi\" \\ to a;b`}}, `say "hi" \ to a;b`},
		{&dns.TXT{Txt: []string{"gr\u00fc\u00dfe"}}, "grüße"},
		{&dns.TXT{Txt: []string{`a\010b\009c\027[1m\127`}}, `a\nb\tc\x1b[1m\x7f`},
		{&dns.TXT{Txt: []string{`\\010`}}, `\010`},
		{&dns.TXT{Txt: []string{`\255\194\133`}}, `\xff\u0085`},
		{&dns.TXT{Txt: []string{"\ufffd"}}, "\ufffd"},
		{&dns.TXT{Txt: []string{"'"}}, "'"},
		{&dns.TXT{Txt: []string{""}}, ""},
		{&dns.SRV{Priority: 1, Weight: 2, Port: 3, Target: "db-0.test."}, "1 2 3 db-0.test"},
		{&dns.MX{Preference: 10, Mx: "mx.test."}, "10 mx.test"},
		{&dns.CNAME{Target: "db.test."}, "db.test"},
		{&dns.PTR{Ptr: `a\010b.test.`}, `a\010b.test`},
	} {
		*test.rr.Header() = dns.RR_Header{Name: "a.test.", Rrtype: typeOf(test.rr), Class: dns.ClassINET}
		wire := make([]byte, 512)
		end, err := dns.PackRR(test.rr, wire, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		rr, _, err := dns.UnpackRR(wire[:end], 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := recordValue(rr); got != test.want {
			t.Errorf("%v: %q, want %q", rr, got, test.want)
		}
	}
}

func typeOf(rr dns.RR) uint16 {
	for code, create := range dns.TypeToRR {
		if reflect.TypeOf(create()) == reflect.TypeOf(rr) {
			return code
		}
	}
	return 0
}

// FuzzRecordValue requires that any text record is shown on one line, and a plain one unchanged.
func FuzzRecordValue(f *testing.F) {
	for _, s := range []string{"", `\`, `\1`, `\12`, `\123`, `\999`, `\"`, "\x00\xff", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		value := recordValue(&dns.TXT{Txt: []string{s}})
		if strings.ContainsAny(value, "\r\n\x00\x1b") {
			t.Errorf("%q is shown as %q", s, value)
		}
		if strings.Trim(s, words.NameCharacters+` "'=;`) == "" && value != s {
			t.Errorf("%q is shown as %q", s, value)
		}
	})
}
