package remote

import (
	"strings"
	"testing"
)

func TestParseURL(t *testing.T) {
	getenv := func(name string) string { return map[string]string{"TOKEN": "hunter2hunter2"}[name] }
	for text, want := range map[string]URL{
		"https://example.com/org/repo.git":       {Scheme: "https", Host: "example.com", Path: "/org/repo.git"},
		"http://example.com:8080/r":              {Scheme: "http", Host: "example.com", Port: "8080", Path: "/r"},
		"https://app:${env:TOKEN}@example.com/r": {Scheme: "https", Host: "example.com", Path: "/r"},
		"HTTPS://example.com/r":                  {Scheme: "https", Host: "example.com", Path: "/r"},
		"ssh://git@example.com/org/repo.git":     {Scheme: "ssh", User: "git", Host: "example.com", Path: "/org/repo.git"},
		"ssh://example.com:2222/~a/repo":         {Scheme: "ssh", Host: "example.com", Port: "2222", Path: "~a/repo"},
		"git+ssh://git@[::1]:22/a%20b":           {Scheme: "ssh", User: "git", Host: "::1", Port: "22", Path: "/a b"},
		"git@example.com:org/repo.git":           {Scheme: "ssh", User: "git", Host: "example.com", Path: "org/repo.git"},
		"example.com:/srv/repo%20.git":           {Scheme: "ssh", Host: "example.com", Path: "/srv/repo%20.git"},
		"git@[example.com:2222]:repo":            {Scheme: "ssh", User: "git", Host: "example.com", Port: "2222", Path: "repo"},
		"git@[fd00::1]:repo":                     {Scheme: "ssh", User: "git", Host: "fd00::1", Path: "repo"},
		"git://example.com/a/b":                  {Scheme: "git", Host: "example.com", Path: "/a/b"},
		"file:///srv/a%20b.git":                  {Scheme: "file", Path: "/srv/a b.git"},
		"file://localhost/srv/a":                 {Scheme: "file", Path: "/srv/a"},
		"/srv/repo.git/":                         {Scheme: "file", Path: "/srv/repo.git"},
		"/srv/what?#%20":                         {Scheme: "file", Path: "/srv/what?#%20"},
	} {
		u, err := ParseURL(text, getenv)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := *u
		got.web, got.scp = nil, false
		if got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
		if s := u.String(); strings.Contains(s, "hunter2") {
			t.Errorf("%s: %s tells the secret", text, s)
		}
		if again, err := ParseURL(u.Plain(), nil); err != nil || again.Plain() != u.Plain() || again.Path != u.Path {
			t.Errorf("%s: written as %s, which is not the same: %v", text, u.Plain(), err)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "empty",
		"repo":                            "absolute path",
		"./repo":                          "absolute path",
		"../repo":                         "absolute path",
		"github.com/org/repo":             "want https://github.com/",
		"-oProxyCommand=x":                "option",
		"--upload-pack=x":                 "option",
		"ssh://-oProxyCommand=x/repo":     "option",
		"-oProxyCommand=x:repo":           "option",
		"git@-oProxyCommand=x:repo":       "option",
		"-l@example.com:repo":             "option",
		"ssh://-l@example.com/repo":       "option",
		"example.com:-x":                  "option",
		"https://-x/repo":                 "option",
		"ext::sh -c touch% /tmp/x":        "remote helper",
		"git::https://example.com/r":      "remote helper",
		"ftp://example.com/r":             `scheme "ftp"`,
		"https:///r":                      "want a URL",
		"ssh:///r":                        "no host",
		"git:///r":                        "no host",
		"git@:repo":                       "no host",
		"ssh://example.com":               "path is missing",
		"ssh://example.com/":              "path is missing",
		"example.com:":                    "path is missing",
		"https://example.com/r#main":      "%23",
		"git://example.com/r#main":        "--ref",
		"ssh://example.com/r?ref=main":    "--ref",
		"file://host/r":                   "file:///PATH",
		"file://relative":                 "file:///PATH",
		"git@example.com:a\nb":            "control character",
		"ssh://example.com/a%0ab":         "control character",
		"git://example.com/a%00b":         "control character",
		"file:///a%0d":                    "control character",
		"git://me@example.com/r":          "does not support",
		"ssh://me:hunter2@example.com/r":  "needs a key",
		"me:hunter2@example.com/r":        "no scheme",
		"ssh://example.com:99999/r":       "port",
		"ssh://example.com:x/r":           "port",
		"ssh://fd00::1/r":                 "brackets",
		"git@host:${env:TOKEN}":           "HTTP server",
		"https://${env:UNSET}@host/r":     "not set",
		"/" + strings.Repeat("x", maxURL): "longer",
	} {
		u, err := ParseURL(text, func(string) string { return "" })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %+v, %v, want an error with %q", text, u, err, want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error tells the password: %v", text, err)
		}
	}
}

// TestResolve has the cases of git's own tests for relative URLs (t0060-path-utils.sh, "submodule relative url"), and
// URLs that must be refused.
func TestResolve(t *testing.T) {
	for _, tt := range []struct{ base, relative, want string }{
		{"https://host/a/b", "../c", "https://host/a/c"},
		{"https://host/a/b/", "../c/", "https://host/a/c"},
		{"https://host/a/b", "./c", "https://host/a/b/c"},
		{"https://host/a/b", "../../c", "https://host/c"},
		{"https://host/a/b.git", "../b%20c.git", "https://host/a/b%20c.git"},
		{"https://user:hunter2@host/a%2Fb/c", "../d", "https://host/a%2Fb/d"},
		{"https://host/a", "../../c", "root of the server"},
		{"https://host/a", "../../../evil.example/c", "root of the server"},
		{"https://host/a", "../c?x", "one of ?"},
		{"https://host/a", "../..", "root of the server"},
		{"ssh://git@host:2222/a/b", "../c", "ssh://git@host:2222/a/c"},
		{"ssh://host/~me/b", "../c", "ssh://host/~me/c"},
		{"ssh://host/~me/b", "../../c", "ssh://host/c"},
		{"git@host:a/b", "../c", "git@host:a/c"},
		{"git@host:a/b", "../../c", "git@host:c"},
		{"git@host:b", "../c/d", "git@host:c/d"},
		{"git@host:b", ".././c", "git@host:c"},
		{"git@host:b", "../.c", "git@host:.c"},
		{"git@host:b", "../-c", "option"},
		{"git@host:b", "../../c", "root of the server"},
		{"git@host:/srv/b", "../c", "git@host:/srv/c"},
		{"git@host:/b", "../../c", "root of the server"},
		{"git://host/a/b", "../c", "git://host/a/c"},
		{"/srv/a", "../b", "file:///srv/b"},
		{"file:///srv/a", "./b", "file:///srv/a/b"},
		{"/srv/a", "/srv/c", "file:///srv/c"},
		{"https://host/a", "https://other/b", "https://other/b"},
		{"https://host/a", "git@other:b", "git@other:b"},
		{"https://host/a", "/etc", "directory on this machine"},
		{"git@host:a", "file:///etc", "directory on this machine"},
		{"https://host/a", "https://other/${file:/etc/passwd}", "cannot refer to secrets"},
		{"https://host/a", "ext::sh", "remote helper"},
		{"https://host/a", "../b\nc", "control"},
		{"https://host/a", "b", "absolute path"},
		{"https://u:${env:X}@host/a", "../initbox-secret-0-", "control"},
		{"https://u:${env:X}@host/a", "../initbox%2Dsecret-0-", "control"},
	} {
		base, err := ParseURL(tt.base, func(string) string { return "hunter2" })
		if err != nil {
			t.Fatal(err)
		}
		u, err := base.Resolve(tt.relative)
		switch {
		case err != nil && (strings.Contains(tt.want, "://") || strings.HasPrefix(tt.want, "git@") || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s + %s: %v, want %s", tt.base, tt.relative, err, tt.want)
		case err == nil && u.Plain() != tt.want:
			t.Errorf("%s + %s: %s, want %s", tt.base, tt.relative, u.Plain(), tt.want)
		case err == nil && u.Host == base.Host && u.web != nil && u.web.User.String() != base.web.User.String():
			t.Errorf("%s + %s: the user is lost", tt.base, tt.relative)
		}
	}
}

func TestSameOrigin(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"https://host/a", "https://host/b", true},
		{"https://host/a", "http://host/a", false},
		{"https://host/a", "https://host:8443/a", false},
		{"git@host:a", "ssh://host:22/b", true},
		{"git@host:a", "ssh://host:2222/b", false},
		{"git@host:a", "git://host/b", false},
	} {
		a, _ := ParseURL(tt.a, nil)
		b, _ := ParseURL(tt.b, nil)
		if a.SameOrigin(b) != tt.want {
			t.Errorf("%s and %s: %t", tt.a, tt.b, !tt.want)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"https://u:p@h:1/p?q", "git@h:p", "[h:1]:p", "ssh://[::1]:1/~p", "file:///%2e%2e", "/a", "../a", "a::b", "${env:X}"} {
		f.Add(seed, "../x")
	}
	f.Fuzz(func(t *testing.T, text, relative string) {
		u, err := ParseURL(text, func(string) string { return "secret" })
		if err != nil {
			return
		}
		for _, u := range []*URL{u, resolved(u, relative)} {
			if u == nil {
				continue
			}
			if strings.HasPrefix(u.Host, "-") || strings.HasPrefix(u.User, "-") || u.Scheme != "file" && u.Host == "" || hasControl(u.String()) {
				t.Fatalf("%q, %q: %+v", text, relative, u)
			}
			if u.Scheme == "file" && !strings.HasPrefix(u.Path, "/") {
				t.Fatalf("%q, %q: relative path %q", text, relative, u.Path)
			}
		}
	})
}

func resolved(u *URL, relative string) *URL {
	v, err := u.Resolve(relative)
	if err != nil {
		return nil
	}
	return v
}
