package conformance_test

import (
	"strings"
	"testing"
	"time"

	"initbox/test/kindtest"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// TestParse pins how targets are shown, which is how the log names them.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"tcp://mydb:5432":                      "tcp://mydb:5432",
		"TCP://mydb:5432":                      "tcp://mydb:5432",
		"tcp6://[::1]:80#hold=1s":              "tcp6://[::1]:80",
		"tls://mydb:5432#insecure":             "tls://mydb:5432",
		"http://api":                           "http://api",
		"http://api/health?a=b#status=200":     "http://api/health?…",
		"https://user:pw@api:8443/":            "https://api:8443/",
		"http://${env:U}:${file:/p}@api/x":     "http://api/x",
		"http://api/hooks/${file:/p}":          "http://api/hooks/…",
		"http+unix://%2Frun%2Fapi.sock/health": "http+unix://%2Frun%2Fapi.sock/health",
		"http+unix://a:b@%2Fapi.sock":          "http+unix://%2Fapi.sock",
		"grpc://api:9090/shop.Cart":            "grpc://api:9090/shop.Cart",
		"unix:///run/x.sock":                   "unix:///run/x.sock",
		"file:///run/with%20space":             "file:///run/with space",
		"dns:mydb":                             "mydb",
		"dns:_pg._tcp.mydb.svc#type=SRV":       "_pg._tcp.mydb.svc",
	} {
		check, err := waitfor.Parse(text, target.Options{Getenv: func(string) string { return "value" }})
		if err != nil {
			t.Errorf("Parse(%q): %v", text, err)
		} else if check.String() != want {
			t.Errorf("Parse(%q) is shown as %q, want %q", text, check, want)
		}
	}
}

// TestParseMistakes pins that the message for a mistake leads to the fix.
func TestParseMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "a target starts with its kind",
		"mydb:5432":                        "a target starts with its kind: write tcp://HOST:PORT for a port; the kinds are dns, tcp, tls,",
		"mydb":                             "a target starts with its kind",
		"/run/x":                           "a target starts with its kind",
		"oracle://mydb:1521/":              "no such kind of target: oracle://; the kinds are dns, tcp, tls,",
		"postgress://mydb":                 "no such kind of target: postgress://; did you mean postgres://?",
		"postgres://a?sslmode=disable#tls": "sslmode=disable and the setting tls contradict each other",
		"redis://a#ca-file=/ca":            "ca-file has no effect without TLS",
		"amqp://a#insecure":                "insecure has no effect without TLS",
		"mysql://a?tls=false#insecure":     "insecure has no effect without TLS",
		"clickhouse://a#ca-file=/ca":       "ca-file has no effect without TLS",
		"hUnter2\npostgres://a":            "a target starts with its kind",
		"tcp:mydb:5432":                    "host missing",
		"tcp://mydb":                       "port missing",
		"tcp://mydb:http":                  "a target of kind tcp://: port must be a number from 1 to 65535",
		"http://mydb:notaport/x":           "port must be a number from 1 to 65535",
		"http://[::1]:notaport/x":          "port must be a number from 1 to 65535",
		"tcp://mydb:65536":                 "tcp://mydb:65536: port must be a number from 1 to 65535",
		"tcp://mydb:-1":                    "port must be a number from 1 to 65535",
		"tcp://mydb:":                      "port missing",
		"tcp://fd00::10":                   "an IPv6 address stands in brackets",
		"http://fd00::10/":                 "an IPv6 address stands in brackets",
		"tcp://[::1":                       "is not a URL",
		"http://my db/":                    "is not a URL",
		"tcp4://[::1]:80":                  "tcp4://[::1]:80: tcp4:// cannot connect to this address: write tcp://",
		"tcp6://127.0.0.1:80":              "tcp6:// cannot connect to this address: write tcp://",
		"tcp6://[::ffff:127.0.0.1]:80":     "tcp6:// cannot connect to this address",
		"tcp4://[::ffff:127.0.0.1]:80":     "",
		"tcp6://mydb:80":                   "",
		"tcp://mydb:5432?x=1":              "has a query",
		"tcp://u@mydb:5432":                "has a user",
		"tcp://mydb:5432/x":                "has a path",
		"tcp://mydb:5432#hold=-1s":         "hold: want a duration such as 30s, 1m30s or 500ms",
		"tcp://mydb:5432#hold=soon":        "hold: want a duration such as 30s, 1m30s or 500ms",
		"tcp://u:p@h:1/x?y":                "has a user", // the first of several, always
		"https://api/#key-file=k":          "https://api/: key-file needs cert-file",
		"tls://api:443#key-file=k":         "key-file needs cert-file",
		"grpcs://api:443#key-file=k":       "key-file needs cert-file",
		"https://api/#cert-file=c":         "",
		"http:///health":                   "host missing",
		"http://api:0/":                    "port must be a number from 1 to 65535",
		"http://u:p/w@api/":                "percent-encode",
		"http://u:p#w@api/":                "percent-encode",
		"http://u:1/w@api/":                "an @ after its host",
		"http://${file:}@api/":             "neither ${file:/PATH} nor ${env:NAME}",
		"http://${env:X/":                  "neither ${file:/PATH} nor ${env:NAME}",
		"http://${file:/p}/":               "a secret where it must not",
		"http://api/#body=${file:/p}":      "a secret where it must not",
		"http://${env:NOPE}@api/":          "environment variable NOPE is not set, or is empty, but a target refers to it as ${env:NOPE}",
		"http://${env:a=b}@api/":           "an environment variable that is not set",
		"http://api/#statu=200":            "did you mean status?",
		"http://api/#stauts=200":           "setting 1 after # is unknown: stauts; did you mean status? valid settings are status, body,",
		"http://api/#status=200&Jsn=.":     "setting 2 after # is unknown: Jsn; did you mean json?",
		"http://api/#tokenfile=x":          "did you mean token-file?",
		"http://api/#cafile=x":             "did you mean ca-file?",
		"http://api/#pass=x":               "did you mean password-file?",
		"http://api/#hold=1s":              "setting 1 after # is unknown: hold; valid settings are",
		"http://api/#x1=1":                 "setting 1 after # is unknown; valid settings are",
		"file:///x#contain=y":              "did you mean contains?",
		"http://api/#request_header=a":     "did you mean request-header?",
		"http://api/#":                     "", // an empty setting is an error
		"http://api/#&":                    "setting 1 after # is unknown",
		"http://api/#body=%zz":             "percent-encod",
		"http://api/#method=A%20B":         "method: want one such as HEAD",
		"http://api/#header=:x":            "header: want NAME",
		"http://api/#json=.a[":             "want an index",
		"unix:///x?y":                      "has a query",
		"unix://x":                         "three slashes",
		"file:x":                           "not absolute",
		"dns:":                             `"": is not a domain name: it is empty; is a variable not set?`,
		"dns://mydb":                       "want dns:NAME, without a slash",
		"dns:/mydb":                        "want dns:NAME, without a slash",
		"dns:mydb?x":                       "mydb?…: is not a domain name: a name has only letters",
		"dns:app:hunter2@mydb":             "dns:…: is not a domain name: it contains a colon",
		"dns:${file:/p}":                   "…: the name must not be a secret",
		"dns:mydb#family=both&type=A":      "mydb: type and family are mutually exclusive",
	} {
		_, err := waitfor.Parse(text, target.Options{})
		switch {
		case want == "" && err != nil:
			t.Errorf("Parse(%q): %v", text, err)
		case want != "" && err == nil:
			t.Errorf("Parse(%q) succeeds, want %q", text, want)
		case want != "" && !strings.Contains(err.Error(), want):
			t.Errorf("Parse(%q): %v, want %q", text, err, want)
		}
	}
}

// TestParseQuotesNothing pins that no error repeats a value or an unknown name, which may be the part of a password
// after a #.
func TestParseQuotesNothing(t *testing.T) {
	for _, text := range []string{
		"http://api/#hunter2=1", "http://api/#hunter2", "http://app:x#statushunter2=1", "http://api/#statuz=hunter2",
		"tcp://h:1#hold=hunter2", "file:///x#min-size=hunter2", "file:///x#contains=/hunter2(/", "http://api/#body=/hunter2(/",
		"http://api/#header=a:/hunter2(/", "http://api/#json=.a==/hunter2(/", "http://api/#json=.a[hunter2", "http://api/#json=hunter2",
		"dns:a#expect=/hunter2(/", "dns:a#min-records=hunter2", "dns:a#type=hunter2", "dns:a#family=hunter2",
		"tcp://app:hunter2", "http://app:hunter2/x", "tcp://app:hunter2/x@h:1", "http://app:12/hunter2@api", "dns:app hunter2", "hunter2:80",
	} {
		if _, err := waitfor.Parse(text, target.Options{}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Parse(%q): %v", text, err)
		}
	}
}

// TestParseSaysTheSame pins that the error names the same one of several mistakes each time.
func TestParseSaysTheSame(t *testing.T) {
	for _, text := range []string{"tcp://u@h:1/p?q", "unix://u@/p?q", "http://api/#stats=1&json=x"} {
		_, first := waitfor.Parse(text, target.Options{})
		for range 50 {
			if _, again := waitfor.Parse(text, target.Options{}); first == nil || again.Error() != first.Error() {
				t.Fatalf("Parse(%q): %v, then %v", text, first, again)
			}
		}
	}
}

// TestEnvironmentAtParse pins that a reference to an unset variable is an error at once, and that a set one is not read
// before it is needed.
func TestEnvironmentAtParse(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"SET": "x"}[name] }
	for text, ok := range map[string]bool{
		"http://a:${env:SET}@api/":   true,
		"http://a:${env:UNSET}@api/": false,
		"http://api/?t=${env:UNSET}": false,
		"http://${env:}@api/":        false,
	} {
		if _, err := waitfor.Parse(text, target.Options{Getenv: getenv}); (err == nil) != ok {
			t.Errorf("Parse(%q): %v", text, err)
		}
		if _, err := waitfor.Parse(text, target.Options{}); err == nil {
			t.Errorf("Parse(%q) succeeds without an environment", text)
		}
	}
}

func TestSettingsUnused(t *testing.T) {
	s := target.Settings{"status": {"200"}, "min-size": {"1"}, "family": {"4"}}
	getenv := func(string) string { return "http://a/" }
	for _, test := range []struct {
		targets []string
		want    string
	}{
		{nil, "family min-size status"},
		{[]string{"http://a/"}, "family min-size"},
		{[]string{"HTTPS://a/", "file:///x"}, "family"},
		{[]string{"http://a/", "file:///x", "dns:a"}, ""},
		{[]string{"${env:API}#body=x", "file:///x"}, "family"},
		{[]string{"jdbc:postgresql://a/b"}, "family min-size status"},
	} {
		var checks []target.Check
		for _, text := range test.targets {
			check, err := waitfor.Parse(text, target.Options{Getenv: getenv})
			if err != nil {
				t.Fatal(err)
			}
			checks = append(checks, check)
		}
		if got := strings.Join(waitfor.Unused(s, checks...), " "); got != test.want {
			t.Errorf("unused by %q: %q, want %q", test.targets, got, test.want)
		}
	}
}

// FuzzParse requires that no text makes Parse panic, that no error contains a password, and that a target is always
// shown in the same way.
func FuzzParse(f *testing.F) {
	const mark = "hUnter2"
	for _, form := range secretForms(f, "127.0.0.1:80", kindtest.Secret{Text: mark}) {
		f.Add(form)
	}
	for _, k := range waitfor.Kinds() {
		for _, s := range k.Settings {
			f.Add(k.Schemes[0] + "://127.0.0.1:80/#" + s.Name + "=" + s.Value)
		}
	}
	f.Add("tCp://:hUnter2@hUnter20")
	o := target.Options{Getenv: func(string) string { return mark }, AttemptTimeout: time.Minute}
	f.Fuzz(func(t *testing.T, text string) {
		check, err := waitfor.Parse(text, o)
		if err != nil {
			if password := passwordIn(text); password != "" && strings.Contains(err.Error(), password) {
				t.Errorf("Parse(%q) reveals the password: %v", text, err)
			}
			return
		}
		shown := check.String()
		if password := passwordIn(text); password != "" && strings.Contains(shown, password) {
			t.Errorf("Parse(%q) shows the password: %s", text, shown)
		}
		again, err := waitfor.Parse(text, o)
		if err != nil || again.String() != shown {
			t.Errorf("Parse(%q) is %q, then %v, %v", text, shown, again, err)
		}
	})
}

// passwordIn returns the marked password in text, if it is in the user information or a value of the query. It begins
// and ends with a mark, so that no error contains it by chance.
func passwordIn(text string) string {
	const mark = "hUnter2"
	i := strings.Index(text, mark)
	if i < 1 || text[i-1] != ':' && text[i-1] != '=' || strings.Count(strings.ToLower(text), strings.ToLower(mark)) > 1 {
		return "" // otherwise it is also somewhere else, such as in the host's name
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || len(scheme)+3 > i || strings.ContainsAny(scheme, "@=?#:/") {
		return ""
	}
	before := rest[:i-len(scheme)-3]
	userinfo := strings.HasPrefix(rest[len(before)+len(mark):], "@") && !strings.ContainsAny(before, "/?#@")
	query := strings.Contains(before, "?") && !strings.Contains(before, "#")
	if userinfo || query {
		return mark
	}
	return ""
}
