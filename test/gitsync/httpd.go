// Command httpd serves the repositories in /git over HTTP, to those who have a password in /etc/htpasswd, as the server
// of git-sync's tests does.
package main

import (
	"log"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"strings"
)

func main() {
	git := &cgi.Handler{Path: "/usr/lib/git-core/git-http-backend", Env: []string{"GIT_HTTP_EXPORT_ALL=", "GIT_PROJECT_ROOT=/git", "HOME=/tmp"}}
	log.Fatal(http.ListenAndServe(":80", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if !allowed(user, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="Git Login"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		git.ServeHTTP(w, r)
	})))
}

// allowed returns whether /etc/htpasswd has the user with the password, as USER:$apr1$SALT$SUM.
func allowed(user, password string) bool {
	lines, err := os.ReadFile("/etc/htpasswd")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(lines)) {
		name, sum, _ := strings.Cut(strings.TrimSpace(line), ":")
		part := strings.Split(sum, "$")
		if name != user || len(part) != 4 {
			continue
		}
		again := exec.Command("openssl", "passwd", "-"+part[1], "-salt", part[2], "-stdin")
		again.Stdin = strings.NewReader(password)
		out, err := again.Output()
		return err == nil && strings.TrimSpace(string(out)) == sum
	}
	return false
}
