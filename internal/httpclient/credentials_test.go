package httpclient

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"initbox/internal/failure"
)

// TestApply pins that the headers and files of a request are applied again, however often, and what of them is secret.
func TestApply(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	headers := write("headers", "X-Api-Key: k3y\n\nAccept: text/plain\r\n")
	parts := write("parts", "Cookie: id=s3ss10n-of-ann; theme=dark\nAuthorization: Basic YXBwOmh1bnRlcjI=\n")
	password := write("password", "old\n")
	token := write("token", "old\n")
	netrc := write("netrc", "machine api login app password new\n")
	elsewhere := write("elsewhere", "machine api.example login app password new\n")
	for name, tt := range map[string]struct {
		Credentials
		header  http.Header
		host    string
		secrets []string
	}{
		"nothing": {Credentials{}, http.Header{"User-Agent": {"initbox"}}, "api", nil},
		"headers": {
			Credentials{Header: http.Header{"Accept": {"a/b"}, "User-Agent": {"mine"}, "Host": {"other"}}, HeaderFiles: []string{headers}},
			http.Header{"User-Agent": {"mine"}, "Accept": {"a/b", "text/plain"}, "X-Api-Key": {"k3y"}}, "other", []string{"k3y", "text/plain"},
		},
		"parts": {
			Credentials{HeaderFiles: []string{parts}},
			http.Header{"User-Agent": {"initbox"}, "Cookie": {"id=s3ss10n-of-ann; theme=dark"}, "Authorization": {"Basic YXBwOmh1bnRlcjI="}}, "api",
			[]string{"Basic YXBwOmh1bnRlcjI=", "YXBwOmh1bnRlcjI", "hunter2", "id=s3ss10n-of-ann; theme=dark", "s3ss10n-of-ann"},
		},
		"basic": {Credentials{User: "app", PasswordFile: password}, http.Header{"User-Agent": {"initbox"}, "Authorization": {"Basic YXBwOm5ldw=="}}, "api", []string{"YXBwOm5ldw==", "new"}},
		"token": {Credentials{TokenFile: token}, http.Header{"User-Agent": {"initbox"}, "Authorization": {"Bearer t0ken"}}, "api", []string{"t0ken"}},
		"references": {
			Credentials{HeaderRefs: []string{"X-Key: Key ${file:" + token + "}", "X-Other: ${env:OTHER}"}, Getenv: func(string) string { return "0ther" }},
			http.Header{"User-Agent": {"initbox"}, "X-Key": {"Key t0ken"}, "X-Other": {"0ther"}}, "api", []string{"0ther", "0ther", "Key t0ken", "t0ken"},
		},
		"netrc":        {Credentials{Netrc: netrc}, http.Header{"User-Agent": {"initbox"}, "Authorization": {"Basic YXBwOm5ldw=="}}, "api", []string{"YXBwOm5ldw==", "new"}},
		"token wins":   {Credentials{Netrc: netrc, TokenFile: token}, http.Header{"User-Agent": {"initbox"}, "Authorization": {"Bearer t0ken"}}, "api", []string{"t0ken"}},
		"another host": {Credentials{Netrc: elsewhere}, http.Header{"User-Agent": {"initbox"}}, "api", nil},
	} {
		t.Run(name, func(t *testing.T) {
			req, _ := http.NewRequest(http.MethodPost, "http://api/", nil)
			req.Header.Set("User-Agent", "initbox")
			write("password", "old\n")
			write("token", "old\n")
			if _, err := tt.Apply(req); err != nil {
				t.Fatal(err)
			}
			write("password", "new\n")
			write("token", "t0ken\n")
			secrets, err := tt.Apply(req) // of another attempt
			if err != nil {
				t.Fatal(err)
			}
			if slices.Sort(secrets); !slices.Equal(secrets, tt.secrets) {
				t.Errorf("secret are %q, want %q", secrets, tt.secrets)
			}
			if !maps.EqualFunc(req.Header, tt.header, slices.Equal) || req.Host != tt.host {
				t.Errorf("%v to %s, want %v to %s", req.Header, req.Host, tt.header, tt.host)
			}
		})
	}
}

// TestApplyFails pins that what is wrong with a file can heal, is said, and is not quoted.
func TestApplyFails(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("hunter2\nand more"), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	for _, tt := range []struct {
		Credentials
		class failure.Class
		text  string
	}{
		{Credentials{HeaderFiles: []string{bad}}, failure.Local, "header file " + bad + ": want NAME: VALUE"},
		{Credentials{HeaderFiles: []string{absent}}, failure.Missing, "cannot read secret file " + absent + ": no such file or directory"},
		{Credentials{User: "app", PasswordFile: absent}, failure.Missing, "cannot read secret file " + absent + ": no such file or directory"},
		{Credentials{TokenFile: absent}, failure.Missing, "cannot read secret file " + absent + ": no such file or directory"},
		{Credentials{HeaderRefs: []string{"X-Key: ${file:" + bad + "}"}}, failure.Local, "header X-Key: its value has a line break or a control character in it"},
		{Credentials{HeaderRefs: []string{"X-Key: ${file:" + absent + "}"}}, failure.Missing, "cannot read secret file " + absent + ": no such file or directory"},
		{Credentials{TokenFile: bad}, failure.Local, "the password or token in " + bad + " has a line break in it"},
		{Credentials{User: "app", PasswordFile: bad}, failure.Local, "the password or token in " + bad + " has a line break in it"},
	} {
		req, _ := http.NewRequest(http.MethodPost, "http://api/", nil)
		_, err := tt.Apply(req)
		if f := failure.Of(err); err == nil || f.Class != tt.class || f.Text != tt.text {
			t.Errorf("%v, want %s: %s", err, tt.class, tt.text)
		}
		if len(req.Header) > 0 {
			t.Errorf("half a request: %v", req.Header)
		}
	}
}

func TestAddHeader(t *testing.T) {
	for line, fits := range map[string]bool{
		"Accept: text/plain": true, "a:b": true, "A:": true, "A: b\tc: d": true,
		"": false, "hunter2": false, ": hunter2": false, "A b: hunter2": false, "A: hunter2\r\nB: c": false, "A: hunter2\x00": false,
	} {
		err := AddHeader(http.Header{}, line)
		if (err == nil) != fits || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v, want fits %t", line, err, fits)
		}
	}
}

func TestSecretHeader(t *testing.T) {
	for name, secret := range map[string]bool{
		"Authorization": true, "x-api-key": true, "X-Vault-Token": true, "Cookie": true, "Proxy-Authorization": true,
		"Accept": false, "Content-Type": false, "X-Request-Id": false,
	} {
		if SecretHeader(name) != secret {
			t.Errorf("%s: %t, want %t", name, !secret, secret)
		}
	}
}
