package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"initbox/test/servers"
)

// newGit serves the repositories in the directory root by git http-backend, and imports their contents from requests.
// The image contains the machine's git.
//
//	POST /import/NAME.git   a stream of git fast-import, for a repository that is created if necessary; the answer is
//	                        a line for each branch and tag, with its ID and its name
//	GET  /NAME.git/…        for all clients
//	GET  /private/NAME.git/…  the same repositories, for the user with the password, or with the password as a token
func newGit(root, user, password string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /import/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := gitImport(w, filepath.Join(root, r.PathValue("name")), r); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	for prefix, o := range map[string]servers.GitOptions{"/": {}, "/private/": {User: user, Password: password, Token: password}} {
		h, err := servers.GitHandler(root, o)
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		mux.Handle(prefix, http.StripPrefix(strings.TrimSuffix(prefix, "/"), h))
	}
	return mux
}

// gitImport adds the content of the request to the repository.
func gitImport(w http.ResponseWriter, repository string, r *http.Request) error {
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main"},
		{"fast-import", "--quiet"},
		{"for-each-ref", "--format=%(objectname) %(refname)"},
	} {
		cmd := exec.CommandContext(r.Context(), "git", append([]string{"--git-dir", repository}, args...)...)
		cmd.Env = servers.GitEnv()
		if args[0] == "fast-import" {
			cmd.Stdin = r.Body
		}
		out, err := cmd.Output()
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			return fmt.Errorf("git %s: %w: %s", args[0], err, ended.Stderr)
		}
		if err != nil {
			return err
		}
		w.Write(out)
	}
	return nil
}

// followLink repeatedly reads the files in the directory that a link leads to, prints their content when it has
// changed, and ends the program when the files differ. It resolves the link once for all of them, as a reader does that
// needs a consistent set.
func followLink(link string) {
	for last := ""; ; time.Sleep(time.Millisecond) {
		dir, err := filepath.EvalSymlinks(link)
		var says string
		if err == nil {
			says, err = unanimous(dir)
		}
		if now, _ := filepath.EvalSymlinks(link); errors.Is(err, fs.ErrNotExist) && now != "" && now != dir {
			continue // this reader was so slow that the directory is gone by now
		}
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		if says != last {
			fmt.Printf("found %q\n", says)
			last = says
		}
	}
}

// unanimous returns the content of a directory's text files, which must all be equal.
func unanimous(dir string) (string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err == nil && len(names) == 0 {
		err = fs.ErrNotExist
	}
	says := ""
	for i, name := range names {
		content, readErr := os.ReadFile(name)
		if readErr != nil {
			return "", readErr
		}
		if i > 0 && string(content) != says {
			return "", fmt.Errorf("%s says %q, and %s %q", names[0], says, name, content)
		}
		says = string(content)
	}
	return says, err
}
