package expect

import (
	"strings"
	"testing"
)

const jsonDocument = `{
	"status": "UP", "n": 12, "big": 10000000000000001, "exp": 1e21, "f": 1.50, "yes": true, "no": false, "null": null, "empty": "",
	"list": [{"name": "a"}, {"name": "b"}], "none": [], "a.b": {"c d": 1}, "é": "ü", "=": 2
}`

func TestJSON(t *testing.T) {
	for expectation, want := range map[string]string{ // "" means met
		".":                       "",
		".status":                 "",
		".status==UP":             "",
		".status==DOWN":           `JSON .status is "UP"`,
		".status!=DOWN":           "",
		".status!=UP":             `JSON .status is "UP"`,
		".status==/^U/":           "",
		".status==/^D/":           `JSON .status is "UP"`,
		".status=='UP'":           `JSON .status is "UP"`,
		".n==12":                  "",
		".n==12.0":                `JSON .n is "12"`,
		".big==10000000000000001": "",
		".exp==1e21":              "",
		".f==1.50":                "",
		".yes":                    "",
		".yes==true":              "",
		".no":                     "JSON .no is false",
		".no==false":              "",
		".null":                   "JSON .null is null",
		".null==null":             "",
		".empty":                  "",
		".empty==":                "",
		".list":                   "",
		".list[0].name==a":        "",
		".list[1].name==b":        "",
		".list[-1].name==b":       "",
		".list[-2].name==a":       "",
		".list[2].name":           "JSON has no .list[2].name",
		".list[-3].name":          "JSON has no .list[-3].name",
		".list.name":              "JSON has no .list.name",
		".none":                   "",
		".none==[]":               "",
		".status.x":               "JSON has no .status.x",
		".status[0]":              "JSON has no .status[0]",
		".absent":                 "JSON has no .absent",
		".absent!=x":              "JSON has no .absent",
		`["a.b"]["c d"]==1`:       "",
		`.["a.b"]["c d"]==1`:      "",
		".é==ü":                   "",
		`["="]==2`:                "",
		// the forms of other tools
		".status == UP":          "",
		".status  !=  UP":        `JSON .status is "UP"`,
		".list[1].name == b":     "",
		". == 1":                 `JSON . is `,
		"$.status==UP":           "",
		"$.status == DOWN":       `JSON .status is "UP"`,
		"$":                      "",
		"$==1":                   `JSON . is `,
		"$['a.b']['c d']==1":     "",
		"{.status}":              "",
		"{.status}==UP":          "",
		"{ $.status } == DOWN":   `JSON .status is "UP"`,
		`.status=="UP"`:          "",
		`.status!="UP"`:          `JSON .status is "UP"`,
		`.status=="DOWN"`:        `JSON .status is "UP"`,
		`.n=="12"`:               `JSON .n is "12"`,
		`.empty==""`:             "",
		`.list[0]=={"name":"a"}`: "",
	} {
		j, err := ParseJSON(expectation)
		if err != nil {
			t.Errorf("%s: %v", expectation, err)
			continue
		}
		err = j.Check([]byte(jsonDocument))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", expectation, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v, want %s", expectation, err, want)
		}
	}
	for _, expectation := range []string{"", "status", "==UP", "..a", ".a.", ".a[", ".a[]", ".a[x]", `.a["x]`, ".a[0", "[0]x", ".a==/(/", ".a=b", ".a!b", "$a", "{.a", "{}", "$..a"} {
		if j, err := ParseJSON(expectation); err == nil {
			t.Errorf("%q is read as the path %q, want an error", expectation, j.steps)
		}
	}
}

// TestJSONMistakes pins that the syntax of another tool is refused with the form to write instead.
func TestJSONMistakes(t *testing.T) {
	for expectation, want := range map[string]string{
		"":                    "a path starts with a dot, as in .status",
		"status":              "a path starts with a dot, as in .status",
		"status==UP":          "a path starts with a dot, as in .status",
		".status=UP":          "use == to compare",
		".status = UP":        "use == to compare",
		"{.status.phase}=UP":  "use == to compare",
		".status!UP":          "use != to compare",
		".list[0]name":        "followed only by == or !=",
		".list[*].name":       "cannot have [*] or a filter",
		`.list[?(@.a=="b")]`:  "cannot have [*] or a filter",
		"$..name":             "a name is missing after a dot",
		".status==/hUnter2(/": "not a regular expression: missing closing )",
	} {
		_, err := ParseJSON(expectation)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hUnter2") {
			t.Errorf("%q: %v, want %q", expectation, err, want)
		}
	}
}

// TestJSONDocuments pins what counts as JSON.
func TestJSONDocuments(t *testing.T) {
	for document, want := range map[string]string{
		`1`:                  "",
		` {"a":1} `:          "",
		``:                   "the body is not JSON",
		`up`:                 "the body is not JSON",
		`{"a":`:              "the body is not JSON",
		"<html></html>":      "the body is not JSON",
		`{"a":1}{"a":2}`:     "", // the first document of a stream counts
		"\xff\xfe{\x00}\x00": "the body is not JSON",
	} {
		j, err := ParseJSON(".")
		if err != nil {
			t.Fatal(err)
		}
		err = j.Check([]byte(document))
		if got := want == "" && err == nil || want != "" && err != nil && err.Error() == want; !got {
			t.Errorf("%q: %v, want %q", document, err, want)
		}
	}
}

// FuzzJSON requires that no path and no document makes the check panic, and that messages stay short.
func FuzzJSON(f *testing.F) {
	for _, expectation := range []string{".", ".status==UP", ".list[-1].name!=a", `["a.b"]["c d"]`, ".a[0]==/x/", ".a[9223372036854775807]", ".a[-9223372036854775808]"} {
		f.Add(expectation, jsonDocument)
	}
	f.Add(".", strings.Repeat("[", 20000))
	f.Fuzz(func(t *testing.T, expectation, document string) {
		j, err := ParseJSON(expectation)
		if err != nil {
			return
		}
		if err := j.Check([]byte(document)); err != nil && len(err.Error()) > len(expectation)+400 {
			t.Errorf("%d bytes of message: %v", len(err.Error()), err)
		}
	})
}
