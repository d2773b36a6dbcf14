package fetch

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestParse pins the names of files, and where ${os} and ${arch} stand.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://h/a/driver.jar":                       "driver.jar",
		"https://h/a/driver.jar?token=x":               "driver.jar",
		"https://h/a/driver%20x.jar":                   "driver x.jar",
		"https://h/":                                   "",
		"https://h":                                    "",
		"https://h/a/..":                               "",
		"https://h/hist%2Fv1/x":                        "x",
		"https://h/x%2Fy":                              "",
		"https://h/x.json.gz#unpack":                   "x.json",
		"https://h/x.jar#to=lib/y.jar":                 "lib/y.jar",
		"https://h/x.${os}.${arch}":                    "x." + runtime.GOOS + "." + runtime.GOARCH,
		"https://h/x.${arch}#platform=linux/arm64":     "x.arm64",
		"https://h/x.${arch}#platform=linux/arm/v7":    "x.arm",
		"oci://registry/x:1#path=/opt/plugin&to=p.jar": "p.jar",
	} {
		src, err := Parse(text, nil, nil)
		if err != nil || src.Name != want {
			t.Errorf("%s: %+v, %v, want %q", text, src, err, want)
		}
	}
}

// TestParseErrors pins what is wrong with a source, without its URL.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://h/${host}":               "has ${host}, which is unknown",
		"ftp://h/x":                       "want a URL",
		"https://u:hunter2@h/x":           "a password in the URL",
		"https://h/x#sha256=12":           "sha256: want 64 hexadecimal digits",
		"https://h/x#sha265=12":           "sha256",
		"https://h/x#to=../x":             "to: want the name",
		"https://h/x#to=/etc/passwd":      "to: want the name",
		"https://h/x#mode=u*x":            "mode",
		"https://h/x#include=a":           "add unpack",
		"https://h/x#path=/a":             "path is for oci://",
		"https://h/x#header=Cookie:a=b":   "Cookie is secret",
		"https://h/x#user=ann":            "password-file",
		"https://h/x#retry-status=teapot": "retry-status",
		"oci://h/x#checksum-url=http://h": "pin the digest",
	} {
		_, err := Parse(text, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestReadList pins the format of lists.
func TestReadList(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "list")
	writeFile(t, file, "# dashboards\n\na+b&c.json https://h/a#mode=0600\nb.json\thttps://h/b\n")
	list, err := ReadList(file, nil, nil)
	if err != nil || len(list) != 2 || list[0].Name != "a+b&c.json" || len(list[0].Mode) != 1 || list[1].Name != "b.json" {
		t.Errorf("%+v, %v", list, err)
	}
	writeFile(t, file, "https://u:hunter2@h/x\n")
	if _, err := ReadList(file, nil, nil); err == nil || !strings.Contains(err.Error(), "line 1: want NAME URL") || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

// TestFindChecksum pins the formats of sha256sum, of BSD, and of a checksum alone.
func TestFindChecksum(t *testing.T) {
	t.Parallel()
	a, b, long := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 128)
	for text, want := range map[string]string{
		a + "  x.tar\n" + b + "  y.tar\n": a,
		b + " *y.tar\n" + a + " *x.tar\n": a,
		a + "  ./dist/x.tar\n":            a,
		"SHA256 (x.tar) = " + a + "\n":    a,
		"SHA2-256(x.tar)= " + a + "\n":    a,
		strings.ToUpper(a) + "\n":         a,
		"\ufeff" + a:                      a,
		long + "  x.tar\n":                long,
		"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n" + a + "  x.tar\r\n": a,
		b + "  y.tar\n":                       "error: it has no checksum of x.tar, but of y.tar",
		a + "  x.tar\n" + b + "  x.tar\n":     "error: it has two different checksums",
		strings.Repeat("a", 32) + "  x.tar":   "error: the checksum of x.tar is neither SHA-256 nor SHA-512",
		"<!DOCTYPE html><title>Login</title>": "error: the answer is not a list of checksums",
		strings.Repeat(a+"  x.tar\n", 2):      a,
	} {
		s, err := findChecksum(text, "x.tar")
		got := s.SHA256 + s.SHA512
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzFindChecksum pins that no list makes a checksum of something else.
func FuzzFindChecksum(f *testing.F) {
	f.Add(strings.Repeat("a", 64) + "  x.tar")
	f.Add("SHA256 (x.tar) = " + strings.Repeat("a", 64))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := findChecksum(text, "x.tar")
		if err == nil && len(s.SHA256) != 64 && len(s.SHA512) != 128 {
			t.Errorf("%q: %+v", text, s)
		}
		if s.SHA256 != "" && !strings.Contains(strings.ToLower(text), s.SHA256) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}
