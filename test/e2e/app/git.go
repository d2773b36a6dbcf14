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

// newGit serves the repositories in the folder root by git http-backend, and takes what is to be in them. The image has
// the machine's git.
//
//	POST /import/NAME.git   a stream of git fast-import, for a repository that is made if it is not there; the answer is
//	                        a line for each branch and tag, with its id and its name
//	GET  /NAME.git/…        for anybody
//	GET  /private/NAME.git/…  the same repositories, for the user with the password, or for whom it is the token
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

// gitImport adds what the request brings to the repository.
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

// followLink looks at the folder that a link leads to again and again, prints what its files say when that has changed, and
// ends the program when they differ. It finds the folder once for all of them, as a reader does that wants what belongs together.
func followLink(link string) {
	for last := ""; ; time.Sleep(time.Millisecond) {
		dir, err := filepath.EvalSymlinks(link)
		var says string
		if err == nil {
			says, err = unanimous(dir)
		}
		if now, _ := filepath.EvalSymlinks(link); errors.Is(err, fs.ErrNotExist) && now != "" && now != dir {
			continue // so slow a reader that the folder is gone by now
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

// unanimous returns what all text files of a folder say.
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
