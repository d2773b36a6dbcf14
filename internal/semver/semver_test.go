package semver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	library "github.com/Masterminds/semver/v3"

	"initbox/test/soak"
)

// versions are texts at the borders of the grammar.
var versions = strings.Split("1.2.3|v1.2.3|1.2|1|v1|0|0.0.0|0.0.1|0.1.0|1.0.0-0|1.0.0-rc.1|1.0.0-rc.2|1.0.0-rc.10|1.0.0-rc|1.0.0-rc1.x|1.0.0-1a"+
	"|1.0.0-01|1.0.0-0a|1.0.0-a..b|1.0.0-|1.0.0+|1.0.0+a.b|1.0.0+a..b|1.0.0-a+b|1.0.0-a+01|1.2-a|1-a|1.02.3|01.2.3||v|vv1|1.|1.2.|1.2.3.|1.2.3.4"+
	"| 1.2.3|1.2.3 |1.x|18446744073709551615.0.0|18446744073709551616.0.0|1.0.0--|1.0.0-a_b|2.0.0|1.9.9|1.3.0|0.2.3|0.2.4|0.3.0|0.0.3|0.0.4|10.0.0"+
	"|1.0.0-99999999999999999999|1.0.0-99999999999999999999a|V1.2.3|1,2,3|1.2.3\n", "|")

// TestVersions compares every method with the library's.
func TestVersions(t *testing.T) {
	for _, text := range append(versions, strings.Repeat("1", 256), "1.2.3-"+strings.Repeat("a", 250), "1.2.3-"+strings.Repeat("a", 251)) {
		v, err := NewVersion(text)
		want, wantErr := library.NewVersion(text)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Errorf("%q: got error %v, want %v", text, err, wantErr)
		}
		if err != nil || wantErr != nil {
			continue
		}
		if got, want := described(t, *v, v.IncPatch(), v.SetPrerelease, v.SetMetadata), described(t, *want, want.IncPatch(), want.SetPrerelease, want.SetMetadata); got != want {
			t.Errorf("%q: got\n%s\nwant\n%s", text, got, want)
		}
		if v.major < 1<<63 && (v.IncMajor().String() != want.IncMajor().String() || at(v.IncMinor()).Original() != at(want.IncMinor()).Original()) {
			t.Errorf("%q: got %v and %v after it, want %v and %v", text, v.IncMajor(), v.IncMinor(), want.IncMajor(), want.IncMinor())
		}
		for _, other := range versions {
			o, err := NewVersion(other)
			if err != nil {
				continue
			}
			wantOther := library.MustParse(other)
			got := fmt.Sprint(v.Compare(o), v.LessThan(o), v.LessThanEqual(o), v.GreaterThan(o), v.GreaterThanEqual(o), v.Equal(o))
			if want := fmt.Sprint(want.Compare(wantOther), want.LessThan(wantOther), want.LessThanEqual(wantOther), want.GreaterThan(wantOther),
				want.GreaterThanEqual(wantOther), want.Equal(wantOther)); got != want {
				t.Errorf("%q and %q: got %s, want %s", text, other, got, want)
			}
		}
	}
}

func at[T any](v T) *T { return &v }

type either interface {
	fmt.Stringer
	json.Marshaler
	Major() uint64
	Minor() uint64
	Patch() uint64
	Prerelease() string
	Metadata() string
}

func described[T either](t *testing.T, v, next T, setPrerelease, setMetadata func(string) (T, error)) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprintln(v, v.Major(), v.Minor(), v.Patch(), v.Prerelease(), v.Metadata(), string(text), any(&v).(interface{ Original() string }).Original())
	all += fmt.Sprintln(next, any(&next).(interface{ Original() string }).Original())
	for _, word := range []string{"", "rc.1", "rc..1", "01", "a_b", "-"} {
		pre, err := setPrerelease(word)
		all += fmt.Sprintln(word, pre, err, any(&pre).(interface{ Original() string }).Original())
		meta, err := setMetadata(word)
		all += fmt.Sprintln(word, meta, err, any(&meta).(interface{ Original() string }).Original())
	}
	return all
}

// checkRange compares a range with the library's, for all versions.
func checkRange(t *testing.T, text string) {
	t.Helper()
	c, err := NewConstraint(text)
	want, wantErr := library.NewConstraint(text)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%q: got error %v, want %v", text, err, wantErr)
	}
	if err != nil || wantErr != nil {
		return
	}
	for _, version := range versions {
		v, err := NewVersion(version)
		if err != nil {
			continue
		}
		if got, want := c.Check(v), want.Check(library.MustParse(version)); got != want {
			t.Errorf("%q has %q: got %v, want %v", text, version, got, want)
		}
	}
}

func TestRanges(t *testing.T) {
	for _, operator := range []string{"", "=", "!=", ">", "<", ">=", "=>", "<=", "=<", "~", "~>", "^", "==", "!"} {
		for _, version := range append(versions, "*", "x", "1.x", "1.2.x", "1.X.3", "1.2.*-rc", "x.2", "0.x", "0.0", "0.0.x", "0.2.x", "1|2", "1x", "vx", "x-rc", "1.2.x+a") {
			checkRange(t, operator+version)
			checkRange(t, operator+" "+version+", <2")
		}
	}
	for _, text := range []string{"", "||", "1 || 2", "1||", ">=1 <2", ">=1,<2", ">=1<2", "1.2 - 1.4", "1 - 2 || 3 - 4", "1.2.3 -1.4", "1-2", " ^1 ", "^1\n", ">=1  ,  <2", ">=1 ,, <2",
		strings.Repeat("1 ", 256), strings.Repeat("1 ", 257), strings.Repeat("1||", 31) + "1", strings.Repeat("1||", 32) + "1"} {
		checkRange(t, text)
	}
}

// TestRangesVariety compares random ranges and versions with the library's.
func TestRangesVariety(t *testing.T) {
	random := soak.Rand(t)
	words := strings.Split("= != > < >= => <= =< ~ ~> ^ || , - . 0 1 2 3 01 10 1.2 1.2.3 v1 x X * rc rc.1 -rc -rc.2 +a | v", " ")
	words = append(words, " ", " ", " ", " - ")
	for range 20_000 {
		var text strings.Builder
		for range 1 + random.IntN(8) {
			text.WriteString(words[random.IntN(len(words))])
		}
		checkRange(t, text.String())
		v, err := NewVersion(text.String())
		want, wantErr := library.NewVersion(text.String())
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && v.String() != want.String() {
			t.Errorf("%q: got %v, %v, want %v, %v", text.String(), v, err, want, wantErr)
		}
	}
}
