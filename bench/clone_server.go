package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"initbox/test/servers"
)

// serveGitCommand is the first argument of the process of a gitServer. It is a process of its own so that the replies
// that it keeps are not in the memory of this one, which hides what is resident in small children.
const serveGitCommand = "serve-git"

// Below these two paths a gitServer has the same repositories.
const (
	livePath   = "/live"
	replayPath = "/replayed"
	freshPath  = "/fresh" // how many answers of replayPath were new, as a number
)

// A gitServer has the repositories of a directory: answered by git http-backend, and
// once more out of memory, where a request has been answered before.
type gitServer struct {
	*proc
	url   string
	input io.Closer       // the process lives as long as that is open
	knows map[string]bool // the tools whose requests it has answered once, and can repeat
}

// startGitServer starts one for the directory root.
func (b *bench) startGitServer(ctx context.Context, root string) (*gitServer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	in, input, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	output, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, input.Close())
	}
	defer output.Close()
	p, err := b.start(ctx, []string{self, serveGitCommand, root}, func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout = in, out })
	out.Close()
	if err != nil {
		return nil, errors.Join(err, input.Close())
	}
	s := &gitServer{proc: p, input: input, knows: map[string]bool{}}
	if s.url, err = bufio.NewReader(output).ReadString('\n'); err != nil {
		s.close()
		return nil, fmt.Errorf("the Git server did not start: %w", errors.Join(p.err, err))
	}
	s.url = strings.TrimSpace(s.url)
	return s, nil
}

func (s *gitServer) close() {
	s.input.Close()
	s.stop()
}

// fresh returns how many requests for a replayed repository had to be asked of git.
func (s *gitServer) fresh(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+freshPath, nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 100))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// serveGit is the process of a gitServer. It says its URL on stdout, and ends with stdin.
func serveGit(root string, stdin io.Reader, stdout, stderr io.Writer) int {
	h, err := gitHandler(root)
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return 1
	}
	defer l.Close()
	go http.Serve(l, h)
	fmt.Fprintf(stdout, "http://%s\n", l.Addr())
	_, _ = io.Copy(io.Discard, stdin) // whatever ends it, that is the end
	return 0
}

func gitHandler(root string) (http.Handler, error) {
	backend, err := servers.GitHandler(root, servers.GitOptions{})
	if err != nil {
		return nil, err
	}
	var fresh atomic.Int64
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fresh.Add(1)
		backend.ServeHTTP(w, r)
	})
	m := http.NewServeMux()
	m.Handle(livePath+"/", http.StripPrefix(livePath, backend))
	m.Handle(replayPath+"/", http.StripPrefix(replayPath, &servers.Replay{Live: counted}))
	m.HandleFunc(freshPath, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, fresh.Load()) })
	return m, nil
}
