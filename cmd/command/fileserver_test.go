package command

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// serveFiles is the server of kind files. It serves the directory of the option dir with entity tags and ranges, except
// for
//
//	/private/FILE  401 without the user ann and the password pa55word
//	/to?URL        as serveHTTP
//	/login/FILE    a web page with status 200
//
// With the option breaks, it closes so many connections in the middle of an answer.
func serveFiles(s *server, l net.Listener) {
	breaks, _ := strconv.ParseInt(s.options["breaks"], 10, 64)
	var answers atomic.Int64
	httpServer(negotiating(s, l), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.record("%s", requestLine(r, nil))
		name := r.URL.Path
		switch first, _ := filepath.Split(name); {
		case name == "/to":
			httpHandlers["to"](w, r, "", "", 0)
			return
		case first == "/login/":
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<title>Log in</title>")
			return
		case first == "/private/":
			if user, password, _ := r.BasicAuth(); user != "ann" || password != "pa55word" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			name = filepath.Base(name)
		}
		content, err := os.ReadFile(filepath.Join(s.options["dir"], filepath.Clean("/"+name)))
		if err != nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(content)))
		if answers.Add(1) <= breaks {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			w.Write(content[:len(content)/2])
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
}
