package sprig

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	library "github.com/Masterminds/sprig/v3"

	"initbox/test/soak"
)

// elsewhere are the functions of sprig that are not here, since package gotemplate has its own.
var elsewhere = strings.Fields("env expandenv getHostByName keys values dig uniq mustUniq fromJson toJson fail repeat indent nindent replace " +
	"until untilStep concat deepCopy mustDeepCopy chunk without regexFindAll mustRegexFindAll regexSplit mustRegexSplit " +
	"regexReplaceAll mustRegexReplaceAll regexReplaceAllLiteral mustRegexReplaceAllLiteral")

// varying are those whose results differ from call to call; other tests are for them.
var varying = strings.Fields("now ago shuffle randInt randAlphaNum randAlpha randAscii randNumeric randBytes uuidv4 bcrypt htpasswd genPrivateKey " +
	"genCA genCAWithKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert genSignedCertWithKey buildCustomCert encryptAES decryptAES derivePassword")

func TestNames(t *testing.T) {
	own, theirs := Functions(), library.GenericFuncMap()
	for name, f := range theirs {
		if slices.Contains(elsewhere, name) == (own[name] != nil) {
			t.Errorf("%s: want it here or in the list of those elsewhere", name)
		}
		if own[name] == nil {
			continue
		}
		is, want := reflect.TypeOf(own[name]), reflect.TypeOf(f)
		if !slices.Equal(slices.Collect(is.Ins()), slices.Collect(want.Ins())) && !strings.HasPrefix(name, "gen") && name != "buildCustomCert" || is.IsVariadic() != want.IsVariadic() {
			t.Errorf("%s is %v, want %v", name, is, want)
		}
		if strings.ReplaceAll(is.Out(0).String(), "initbox/", "") != want.Out(0).String() {
			t.Errorf("%s returns %v, want %v", name, is.Out(0), want.Out(0))
		}
	}
	for name := range own {
		if theirs[name] == nil {
			t.Errorf("sprig has no %s", name)
		}
	}
}

var (
	someTexts = []string{"", "a", "abc", "foo bar baz", "  Foo\tBar  ", "ÄÖ ü ß ǆ", "a,b,,c", "\x85\xa0x\xff", "FooBarBaz-qux_quux", "HTTPServer2Go", "1", "-7", "0x1f",
		"010", "1.50", "1.00", "1.00.", "100.", "..", "1e3", "NaN", "1_000", "99999999999999999999", "true", "1.2.3", "^1.2", ">= 1 < 2", "v1.2.3-rc.1+x", "1h30m",
		"2020-02-03T04:05:06Z", "2006-01-02T15:04:05Z07:00", "2006-01-02", "UTC", "Local", "Europe/Berlin", "Nowhere", "aGVsbG8=", "NBSWY3DP", "%%%", "a+", "(", "[a-c]+",
		"https://u:p@h.example:8080/p/a?q=1&r=<2>#f", "mailto:a@b", ":", "/a/../b//c.tar.gz", "int", "string", "slice", "*int", "[]interface {}", `{"a":[1,2.5,"<x>"]}`, "host", "é́",
		"The quick brown fox, averyveryverylongword indeed jumps", strings.Repeat("wörd ", 9)}
	integers = []int{0, 1, 2, 3, 4, 5, 7, 10, 17, -1, -2, -3, 100}
	when     = time.Date(2021, 3, 4, 5, 6, 7, 8, time.UTC)
	one      = 1
	letter   = "p"
	errOne   = errors.New("e")
)

// anything returns a value of any type that templates have, newly made for each call since some functions change them.
func anything(r *rand.Rand) any {
	all := []any{nil, true, false, 0, 1, -3, int64(1 << 60), int64(math.MinInt64), int8(3), int32(86400), uint(7), uint8(8), uint64(math.MaxUint64), 0.0, 1.5, -2.5, 0.1, 1e300,
		math.Copysign(0, -1), math.NaN(), math.Inf(1), float32(0.1), json.Number("12"), json.Number("1.5"), json.Number("x"), time.Monday, time.March, time.Second,
		&one, &letter, (*int)(nil), when, &when, errOne, []byte("bytes"), complex(0, 0), struct{ A int }{1}, 'x',
		[]any{}, []any{1, "a", nil, 2.5, "", "a"}, []any{[]any{1}, map[string]any{"k": 1}}, []string{"c", "a", "b", ""}, []int{3, 1, 2}, [2]string{"x", "y"}, []any(nil), []bool{true, false},
		map[string]any{}, map[string]any{"a": 1, "b": nil}, map[string]string{"x": "<y>"}, map[string]any(nil)}
	if i := r.IntN(len(all) + len(someTexts)); i >= len(all) {
		return someTexts[i-len(all)]
	} else {
		return all[i]
	}
}

func dictionary(r *rand.Rand) map[string]any {
	return [...]map[string]any{
		{}, {"a": 1, "b": "x", "": nil}, {"a": map[string]any{"x": 1, "y": ""}, "b": []any{1}}, {"a": map[string]any{"y": 2, "z": 3}, "b": []any{2, 3}, "c": false}, {"a": 0, "c": true},
		{"scheme": "https", "host": "h:1", "path": "/a b", "query": "q=1", "userinfo": "u:p", "fragment": "f"}, {"opaque": "x@y", "scheme": "mailto"}, {"host": 1}, {"userinfo": "%zz"},
	}[r.IntN(9)]
}

// argument returns an argument of a type.
func argument(r *rand.Rand, of reflect.Type) any {
	switch of {
	case reflect.TypeFor[string]():
		return someTexts[r.IntN(len(someTexts))]
	case reflect.TypeFor[int]():
		return integers[r.IntN(len(integers))]
	case reflect.TypeFor[float64]():
		return r.Float64()
	case reflect.TypeFor[bool]():
		return r.IntN(2) == 0
	case reflect.TypeFor[time.Time]():
		return when.Add(time.Duration(r.IntN(1e9)) * time.Millisecond)
	case reflect.TypeFor[map[string]any]():
		return dictionary(r)
	}
	return anything(r)
}

func arguments(r *rand.Rand, of reflect.Type) (args []reflect.Value) {
	add := func(t reflect.Type) {
		v := reflect.New(t).Elem()
		if a := argument(r, t); a != nil {
			v.Set(reflect.ValueOf(a))
		}
		args = append(args, v)
	}
	for in := range of.Ins() {
		if len(args) < of.NumIn()-1 || !of.IsVariadic() {
			add(in)
			continue
		}
		for range r.IntN(4) {
			add(in.Elem())
		}
	}
	return args
}

// outcome returns the result of a call as a text, and the arguments as they are after it.
func outcome(f any, args []reflect.Value) (result string, failed bool) {
	defer func() {
		if p := recover(); p != nil {
			result, failed = "", true
		}
	}()
	results := reflect.ValueOf(f).Call(args)
	if len(results) == 2 && !results[1].IsNil() {
		return "", true
	}
	for _, v := range append(args, results[0]) {
		result += described(v.Interface()) + "; "
	}
	return result, false
}

func described(v any) string {
	if text, is := v.(fmt.Stringer); is {
		return fmt.Sprintf("%T %v", v, text)
	}
	return fmt.Sprintf("%#v", v)
}

// TestVariety calls each function with random arguments, and compares with sprig the result, whether there is one, and
// what the arguments are after it.
func TestVariety(t *testing.T) {
	r := soak.Rand(t)
	theirs := library.GenericFuncMap()
	for name, f := range Functions() {
		if slices.Contains(varying, name) {
			continue
		}
		done := 0
		for range 700 {
			a, b := r.Uint64(), r.Uint64()
			args := func() []reflect.Value { return arguments(rand.New(rand.NewPCG(a, b)), reflect.TypeOf(f)) }
			if skipped(name, args()) {
				continue
			}
			got, failed := outcome(f, args())
			want, wantFailed := outcome(theirs[name], args())
			if got != want || failed != wantFailed {
				t.Errorf("%s %v: got %s (failed: %v), want %s (%v)", name, args(), got, failed, want, wantFailed)
				break
			}
			if !failed {
				done++
			}
		}
		if done < 5 {
			t.Errorf("%s: only %d calls without an error", name, done)
		}
	}
}

// skipped returns whether a call is not compared, because it depends on the time or package gotemplate refuses it.
func skipped(name string, args []reflect.Value) bool {
	switch name {
	case "date", "dateInZone", "date_in_zone", "htmlDate", "htmlDateInZone", "durationRound": // of what is no time, it is now
		v := args[0].Interface()
		if strings.HasPrefix(name, "date") {
			v = args[1].Interface()
		}
		switch v := v.(type) {
		case int, int32, int64, string:
			return v == "" && name != "durationRound" || strings.HasPrefix(fmt.Sprintf("%T", v), "string") && name != "durationRound"
		case time.Time, *time.Time:
			return name == "durationRound"
		}
		return name != "durationRound"
	case "mustChunk":
		return args[0].Int() <= 0
	case "seq":
		for _, arg := range args {
			if arg.Int() > 1000 {
				return true
			}
		}
	}
	return false
}

func TestRandom(t *testing.T) {
	for _, test := range []struct{ name, is string }{
		{"randAlphaNum", `^[A-Za-z0-9]{500}$`}, {"randAlpha", `^[A-Za-z]{500}$`}, {"randNumeric", `^[0-9]{500}$`}, {"randAscii", `^[ -~]{500}$`},
	} {
		f := Functions()[test.name].(func(int) string)
		got := f(500)
		if !regexp.MustCompile(test.is).MatchString(got) || got == f(500) {
			t.Errorf("%s: got %q", test.name, got)
		}
		seen := map[rune]bool{}
		for _, r := range f(20_000) {
			seen[r] = true
		}
		theirs := map[rune]bool{}
		for _, r := range library.GenericFuncMap()[test.name].(func(int) string)(20_000) {
			theirs[r] = true
		}
		if !reflect.DeepEqual(seen, theirs) || f(0) != "" || f(-1) != "" {
			t.Errorf("%s: got %d characters, and %d of sprig", test.name, len(seen), len(theirs))
		}
	}
	if got := uuid(); !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(got) || got == uuid() {
		t.Errorf("uuidv4: got %s", got)
	}
	if got, err := randomBytes(7); len(got) != 12 || err != nil {
		t.Errorf("randBytes: got %q, %v", got, err)
	}
	if n := Functions()["randInt"].(func(int, int) int)(5, 7); n < 5 || n > 6 {
		t.Errorf("randInt: got %d", n)
	}
	if got := htpasswd("a:b", ""); got != "invalid username: a:b" {
		t.Errorf("htpasswd: got %q", got)
	}
	if got := htpasswd("a", "secret"); !strings.HasPrefix(got, "a:$2a$10$") {
		t.Errorf("htpasswd: got %q", got)
	}
}

func TestDerivePassword(t *testing.T) {
	if got, want := derivePassword(1, "none", "pass", "user", "site"), "cannot find password template none"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if testing.Short() {
		t.Skip("the algorithm is slow on purpose")
	}
	theirs := library.GenericFuncMap()["derivePassword"].(func(uint32, string, string, string, string) string)
	for i, form := range strings.Fields("maximum long medium short basic pin") {
		counter, site := uint32(i), fmt.Sprint("site", i)
		if got, want := derivePassword(counter, form, "pass", "user", site), theirs(counter, form, "pass", "user", site); got != want {
			t.Errorf("%s: got %s, want %s", form, got, want)
		}
	}
}

func TestAES(t *testing.T) {
	type function = func(string, string) (string, error)
	theirs := library.GenericFuncMap()
	for _, text := range []string{"", "a", strings.Repeat("b", 15), strings.Repeat("c", 16), strings.Repeat("d", 33)} {
		for _, pair := range [][2]function{{encryptAES, decryptAES}, {encryptAES, theirs["decryptAES"].(function)}, {theirs["encryptAES"].(function), decryptAES}} {
			encrypted, err := pair[0]("key", text)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := pair[1]("key", encrypted); got != text || err != nil {
				t.Errorf("%q: got %q, %v", text, got, err)
			}
		}
	}
	for _, text := range []string{"%", "QQ==", strings.Repeat("A", 24), strings.Repeat("A", 40)} {
		if got, err := decryptAES("key", text); err == nil {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

func TestKeys(t *testing.T) {
	for kind, want := range map[string]string{"ecdsa": "EC PRIVATE KEY", "ed25519": "BEGIN PRIVATE KEY", "x": "Unknown type x"} {
		got := privateKey(kind)
		if !strings.Contains(got, want) {
			t.Errorf("%s: got a key of %d bytes", kind, len(got))
		}
		if key, err := parseKey(got); kind != "x" && (err != nil || encodedKey(key) != got) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestCertificates compares the certificates with sprig's, except for their numbers and keys.
func TestCertificates(t *testing.T) {
	own, theirs := Functions(), library.GenericFuncMap()
	ips, dns := []any{"10.0.0.1", "::1"}, []any{"a.example", "b"}
	key := privateKey("ecdsa")
	var cas [2]reflect.Value
	for i, all := range []map[string]any{own, theirs} {
		cas[i] = reflect.ValueOf(all["genCA"]).Call([]reflect.Value{reflect.ValueOf("ca"), reflect.ValueOf(30)})[0]
	}
	for _, test := range []struct {
		name  string
		args  []any
		byOwn bool // signed by the CA
	}{
		{"genCA", []any{"ca", 30}, false},
		{"genCAWithKey", []any{"ca", 30, key}, false},
		{"genSelfSignedCert", []any{"self", ips, dns, 30}, false},
		{"genSelfSignedCert", []any{"self", []any(nil), []any(nil), 30}, false},
		{"genSelfSignedCertWithKey", []any{"self", ips, dns, 30, key}, false},
		{"genSignedCert", []any{"leaf", ips, dns, 30, nil}, true},
		{"genSignedCertWithKey", []any{"leaf", ips, dns, 30, nil, key}, true},
	} {
		var parsed [2]*x509.Certificate
		for i, all := range []map[string]any{own, theirs} {
			var args []reflect.Value
			for _, arg := range test.args {
				if v := reflect.ValueOf(arg); arg != nil {
					args = append(args, v)
				} else {
					args = append(args, cas[i])
				}
			}
			results := reflect.ValueOf(all[test.name]).Call(args)
			if !results[1].IsNil() {
				t.Fatalf("%s: %v", test.name, results[1])
			}
			c := certificate{results[0].FieldByName("Cert").String(), results[0].FieldByName("Key").String()}
			if len(args) > 2 && test.args[len(test.args)-1] == any(key) && c.Key != key {
				t.Errorf("%s: another key than the given one", test.name)
			}
			var err error
			if parsed[i], err = parseCertificate(c.Cert); err != nil {
				t.Fatal(err)
			}
			signer := parsed[i]
			if test.byOwn {
				if signer, err = parseCertificate(cas[i].FieldByName("Cert").String()); err != nil {
					t.Fatal(err)
				}
			}
			if err := signer.CheckSignature(parsed[i].SignatureAlgorithm, parsed[i].RawTBSCertificate, parsed[i].Signature); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		}
		if got, want := facts(parsed[0]), facts(parsed[1]); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, want)
		}
	}
	for _, bad := range [][]any{{"not an address"}, {1}} {
		if c, err := selfSigned("x", bad, nil, 1, given(key)); err == nil {
			t.Errorf("%v: got %v", bad, c)
		}
	}
	if _, err := selfSigned("x", nil, []any{1}, 1, given(key)); err == nil {
		t.Error("a DNS name that is a number is accepted")
	}
	if _, err := selfSigned("x", nil, nil, 1, given("none")); err == nil {
		t.Error("a word is accepted as a key")
	}
}

func facts(c *x509.Certificate) string {
	var extensions []string
	for _, e := range c.Extensions {
		if id := e.Id.String(); id != "2.5.29.14" && id != "2.5.29.35" { // key identifiers
			extensions = append(extensions, fmt.Sprintf("%s %v %x", id, e.Critical, e.Value))
		}
	}
	return fmt.Sprint(c.Subject, c.Issuer, c.NotAfter.Sub(c.NotBefore).Round(time.Minute), c.KeyUsage, c.ExtKeyUsage, c.IsCA, c.PublicKeyAlgorithm, c.SignatureAlgorithm, extensions)
}

func TestCustomCertificate(t *testing.T) {
	c, err := authority("ca", 1, given(privateKey("ecdsa")))
	if err != nil {
		t.Fatal(err)
	}
	encode := Functions()["b64enc"].(func(string) string)
	if got, err := customCertificate(encode(c.Cert), encode(c.Key)); err != nil || got != c {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range [][2]string{{"%", encode(c.Key)}, {encode(c.Cert), "%"}, {encode("x"), encode(c.Key)}, {encode(c.Cert), encode("x")}} {
		if got, err := customCertificate(bad[0], bad[1]); err == nil {
			t.Errorf("got %v", got)
		}
	}
}
