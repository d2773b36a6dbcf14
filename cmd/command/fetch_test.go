package command

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestFetchPrintsNoSecret pins that no secret of a download is printed, even if the server repeats it: neither of the
// URL, nor of a file with credentials, nor of where it redirects to.
func TestFetchPrintsNoSecret(t *testing.T) {
	const secret = "hUnter2tIger9"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+secret+`"`)
		w.Header().Set("Content-Type", secret)
		switch {
		case strings.HasSuffix(r.URL.Path, "/redirect"):
			http.Redirect(w, r, "http://"+secret+":"+secret+"@127.0.0.1:1/"+secret+"?t="+secret, http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/scheme"):
			http.Redirect(w, r, "ftp://"+secret, http.StatusFound)
		case strings.HasSuffix(r.URL.Path, "/text"):
			w.Write([]byte(secret))
		default:
			w.WriteHeader(http.StatusForbidden)
			w.Write([]byte(secret + r.Header.Get("Authorization")))
		}
	}))
	defer server.Close()
	addr := server.Listener.Addr().String()
	dir := t.TempDir()
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("X-Key: "+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("INITBOX_TEST_VALUE", secret)
	t.Setenv("INITBOX_TEST_URL", "http://app:"+secret+"@"+addr+"/"+secret+"?t="+secret)
	for i, c := range []struct {
		status int
		args   string // without blanks in them
	}{
		{exitFailure, "http://app:${env:INITBOX_TEST_VALUE}@ADDR/file"},
		{exitFailure, "http://ADDR/${env:INITBOX_TEST_VALUE}/file?t=${env:INITBOX_TEST_VALUE}"},
		{exitFailure, "http://ADDR/file?t=" + secret},
		{exitFailure, "${env:INITBOX_TEST_URL}#to=x"},
		{exitFailure, "http://ADDR/file --user app --password-file FILE"},
		{exitFailure, "http://ADDR/file --token-file FILE"},
		{exitFailure, "http://ADDR/file --header-file FILE"},
		{exitFailure, "http://ADDR/file#checksum-url=http://ADDR/sums?t=" + secret},
		{exitFailure, "http://ADDR/file#checksum-url=http://ADDR/text?t=" + secret},
		{exitTimeout, "http://ADDR/redirect --timeout 300ms"},
		{exitFailure, "http://ADDR/scheme"},
		{exitFailure, "http://ADDR/text#sha256=" + strings.Repeat("0", 64)},
		{exitUsage, "http://app:" + secret + "@ADDR/file"},
		{exitUsage, "http://ADDR/?t=" + secret},
		{exitUsage, "http://ADDR/file?t=" + secret + "#sha256=" + secret},
		{exitUsage, "http://ADDR/file --header Authorization:" + secret},
		{exitUsage, "http://ADDR/${" + "file?t=" + secret},
		{exitUsage, "http:/ADDR/file?t=" + secret},
		{exitUsage, "oci://app:" + secret + "@ADDR/file"},
	} {
		words := strings.Fields(strings.NewReplacer("ADDR", addr, "FILE", file).Replace(c.args))
		args := slices.Concat(logVariants[i%len(logVariants)], []string{"fetch"}, words, []string{filepath.Join(dir, "dst") + "/"})
		runWithSecret(t, runProcess, c.status, args)
	}
}
