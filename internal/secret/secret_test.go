package secret

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"initbox/internal/failure"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRead(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "password"), " s3cret\r\n\n")
	if got, err := Read(name); got != " s3cret" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_, err := Read(name + ".absent")
	if f := failure.Of(err); f.Class != failure.Missing || !strings.Contains(f.Text, name+".absent: no such file") || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// env is the environment of the tests.
func env(name string) string {
	return map[string]string{"USER": "app", "TOKEN": "t0k&n"}[name]
}

// TestURL pins what is sent and what is shown of a URL, and that a file is read again each time.
func TestURL(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	for text, want := range map[string]struct{ sent, shown string }{
		"http://api/a%2Fb?c=d": {"http://api/a%2Fb?c=d", "http://api/a/b?…"},
		"https://${env:USER}:${file:" + password + "}@api:8443/":    {"https://app:p%2Fw@api:8443/", "https://api:8443/"},
		"http://app:literal@api":                                    {"http://app:literal@api", "http://api"},
		"http://api/a%2Fb/${file:" + password + "}":                 {"http://api/a%2Fb/p/w", "http://api/a/b/…"},
		"http://api/v1/${file:" + password + "}?t=${env:TOKEN}&x=y": {"http://api/v1/p/w?t=t0k%26n&x=y", "http://api/v1/…?…"},
		"http://initbox-secret-0-/initbox-secret-0-":                {"http://initbox-secret-0-/initbox-secret-0-", "http://initbox-secret-0-/initbox-secret-0-"},
		"http://api:1/":        {"http://api:1/", "http://api:1/"},
		"http://api:65535/":    {"http://api:65535/", "http://api:65535/"},
		"http://[fd00::1]:80/": {"http://[fd00::1]:80/", "http://[fd00::1]:80/"},
	} {
		write(t, password, "old\n")
		u, err := ParseURL(text, env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		write(t, password, "p/w\n")
		if sent, err := u.Expand(); err != nil || sent.String() != want.sent {
			t.Errorf("%s is sent as %v, %v, want %s", text, sent, err, want.sent)
		}
		if u.String() != want.shown {
			t.Errorf("%s is shown as %s, want %s", text, u, want.shown)
		}
	}
}

// TestURLSecrets pins what an answer is searched for before it is quoted.
func TestURLSecrets(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	empty := write(t, filepath.Join(t.TempDir(), "empty"), "")
	for text, want := range map[string][]string{
		"http://api/?c=d":                           nil,
		"http://api/${file:" + empty + "}":          nil,
		"http://app:literal@api/":                   {"literal", "YXBwOmxpdGVyYWw="},
		"http://a:${env:TOKEN}@api/${env:USER}":     {"t0k&n", "app", "t0k&n", "YTp0MGsmbg=="},
		"http://api/${file:" + absent + "}?t=fixed": nil,
	} {
		u, err := ParseURL(text, env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := u.Secrets(); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestURLFileAbsent pins that a file which is mounted late can heal, wherever the URL refers to it.
func TestURLFileAbsent(t *testing.T) {
	ref := "${file:" + filepath.Join(t.TempDir(), "absent") + "}"
	for _, text := range []string{"http://" + ref + ":x@api/", "http://x:" + ref + "@api/", "http://api/" + ref, "http://api/?t=" + ref} {
		u, err := ParseURL(text, env)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Expand(); failure.Of(err).Class != failure.Missing {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestURLMistakes pins that a mistake is said, and nothing of the URL.
func TestURLMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "want a URL such as",
		"api/hUnter2":                     "want a URL such as",
		"ftp://api/hUnter2":               "want a URL such as",
		"http:///hUnter2":                 "want a URL such as",
		"http://:80/hUnter2":              "want a URL such as",
		"http://a:hUnter2/b@api/":         "percent-encode",
		"http://a:1/hUnter2@api/":         "an @ after its host",
		"http://api/?hUnter2@b":           "an @ after its host",
		"http://api:0/hUnter2":            "port must be a number",
		"http://api:65536/hUnter2":        "port must be a number",
		"http://api:hUnter2/":             "port must be a number",
		"http://fd00::10:80/hUnter2":      "in brackets",
		"http://api/#hUnter2":             "never sent",
		"http://${env:USER}/":             "refers to a secret where it must not",
		"http://api/${env:NOPE}":          "variable NOPE is not set, or is empty, but the URL refers to it as ${env:NOPE}",
		"http://api/${env:hUnter2/}":      "an environment variable",
		"http://api/${env:USER":           "neither ${file:/PATH} nor ${env:NAME}",
		"http://api/${file:}":             "neither ${file:/PATH} nor ${env:NAME}",
		":8080/hUnter2":                   "want a URL such as",
		"http://api/${hUnter2}":           "neither ${file:/PATH} nor ${env:NAME}",
		"http://$(API_SERVICE_HOST)/x":    "$(API_SERVICE_HOST), which Kubernetes did not replace",
		"http://api:$(API_SERVICE_PORT)/": "$(API_SERVICE_PORT), which Kubernetes did not replace",
		"http://$(hUnter2/":               "$(…)",
		"http:///$(hUnter2/":              "want a URL such as",
		"http://$(<hUnter2)/":             "$(…)",
		"http://$(USER):$(PW)@api/$(X)":   "the URL contains $(USER), $(PW), $(X), which Kubernetes did not replace",
	} {
		_, err := ParseURL(text, env)
		switch {
		case err == nil && want != "":
			t.Errorf("%s: no error, want %q", text, want)
		case err != nil && want == "":
			t.Errorf("%s: %v", text, err)
		case err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Unter2")):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestAddressProblem pins what is wrong with the address of what is not a URL, if it is the address.
func TestAddressProblem(t *testing.T) {
	for text, want := range map[string]error{
		"tcp://mydb:5432":       nil,
		"tcp://mydb":            nil,
		"tcp:///var/run:socket": nil,
		"tcp://[fd00::1:80":     nil,
		"tcp://a:b@mydb":        nil, // b may be the beginning of a password
		"tcp://mydb:postgres":   ErrPort,
		"tcp://:postgres/":      ErrPort,
		"tcp://[fd00::1]:pg":    ErrPort,
		"tcp://fd00::1:80":      ErrBrackets,
	} {
		if err := AddressProblem(text); err != want {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// TestReference pins where the value of ${env:NAME} comes from: the variable, the file of NAME_FILE, the default.
func TestReference(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "password"), "of a file\n")
	for _, test := range []struct {
		text, variable, file, want string
	}{
		{"${env:PW}", "of a variable", file, "of a variable"},
		{"${env:PW}", "", file, "of a file"},
		{"${env:PW:-5432}", "", file, "of a file"},
		{"${env:PW:-5432}", "1", "", "1"},
		{"${env:PW:-5432}", "", "", "5432"},
		{"${env:PW:-}", "", "", ""},
		{"${env:PW:-a:-b}", "", "", "a:-b"},
		{"a${env:PW:-1}b${env:PW:-2}", "", "", "a1b2"},
	} {
		getenv := func(name string) string { return map[string]string{"PW": test.variable, "PW_FILE": test.file}[name] }
		text, refs, err := Extract(test.text, "a text", getenv)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		if got, err := refs.Value(text); got != test.want || err != nil {
			t.Errorf("%s is %q, %v; want %q", test.text, got, err, test.want)
		}
	}
	for text, want := range map[string]string{
		"${env:PW}":                   "environment variable PW is not set, or is empty, but a text refers to it as ${env:PW}",
		"${file:/a}${env:PW}":         "as ${env:PW} (reference 2)",
		"${file:/a}${file:/b}${b:/c}": "neither ${file:/PATH} nor ${env:NAME} (reference 3)",
		"${env:NOPE:-${env:OTHER}}":   "a text has a ${…} inside another one, where it is not replaced (reference 1)",
		"${env::-x}":                  "neither ${file:/PATH} nor ${env:NAME}; write",
	} {
		if _, _, err := Extract(text, "a text", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestValueLikePlaceholder pins that a value is not searched for what stands for another value.
func TestValueLikePlaceholder(t *testing.T) {
	vars := map[string]string{"PATH": placeholder + "1-", "PW": "hUnter2"}
	text, refs, err := Extract("${env:PATH}?${env:PW}", "a text", func(name string) string { return vars[name] })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := refs.Value(text); got != placeholder+"1-?hUnter2" || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

// TestAddressByVariable pins that host and port may be variables with a default, which are shown.
func TestAddressByVariable(t *testing.T) {
	vars := map[string]string{"HOST": "mydb", "REDIS_PORT": "tcp://10.0.0.1:6379"}
	getenv := func(name string) string { return vars[name] }
	u, err := ParseURL("http://${env:HOST:-x}:${env:PORT:-8080}/a", getenv)
	if err != nil || u.String() != "http://mydb:8080/a" || len(u.Secrets()) > 0 {
		t.Errorf("%v, %v", u, err)
	}
	for text, want := range map[string]string{
		"http://${env:HOST}/":                     "refers to a secret where it must not",
		"http://redis:${env:REDIS_PORT:-6379}/":   "the URL has a ${env:NAME:-DEFAULT} as its host or port whose value is neither",
		"http://a/#${env:HOST:-x}":                "refers to a secret where it must not",
		"http://${env:NOPE:-}/":                   "want a URL such as",
		"http://a@b:${env:PORT:-80}/${env:NOPE}/": "NOPE is not set",
	} {
		if _, err := ParseURL(text, getenv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestURLInVariable pins that a URL may itself be in a variable or a file, and that nothing but its host is shown then.
func TestURLInVariable(t *testing.T) {
	vars := map[string]string{"URL": " https://app:hUnter2@hooks:8443/hUnter2/services?token=hUnter2xyz\n", "REF": "http://${env:URL}",
		"LATE": "http://$(HOST)/hUnter2", "NONE": "hUnter2"}
	getenv := func(name string) string { return vars[name] }
	u, err := ParseURL("${env:URL}", getenv)
	if err != nil {
		t.Fatal(err)
	}
	if got := u.String(); got != "https://hooks:8443/…?…" {
		t.Error(got)
	}
	if x, err := u.Expand(); err != nil || x.String() != strings.TrimSpace(vars["URL"]) {
		t.Errorf("%v, %v", x, err)
	}
	if u.PasswordShown() {
		t.Error("the password is not on the command line")
	}
	for _, hidden := range []string{"hUnter2", "hUnter2xyz", "/hUnter2/services"} {
		if !slices.Contains(u.Secrets(), hidden) {
			t.Errorf("%q does not have %s", u.Secrets(), hidden)
		}
	}
	for text, want := range map[string]string{
		"${env:REF}":       "contains a ${…}, which is not replaced there",
		"${env:LATE}":      "has a $(NAME) that was not replaced",
		"${env:NONE}":      "want a URL such as",
		"${env:URL}/x":     "want a URL such as",
		"${file:/no/such}": "cannot read secret file /no/such",
	} {
		if _, err := ParseURL(text, getenv); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hUnter2") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestPasswordShown pins that a password of which a part is literal counts as visible.
func TestPasswordShown(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"A": "a", "B": "b"}[name] }
	for text, want := range map[string]bool{
		"http://host/": false, "http://user@host/": false, "http://user:pw@host/": true, "http://user:@host/": true,
		"http://user:${env:A}@host/": false, "http://user:${env:A}${file:/b}@host/": false, "http://${env:A}:${file:/b}@host/": false,
		"http://user:abc${env:A}@host/": true, "http://user:${env:A}-1@host/": true, "http://${env:A}:pw@host/": true,
	} {
		if u, err := ParseURL(text, getenv); err != nil || u.PasswordShown() != want {
			t.Errorf("%s: %v, want %t", text, err, want)
		}
	}
}
