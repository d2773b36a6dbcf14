// Command app is the application in the suite's Pods: a server that becomes ready late, a client, a program that prints
// what it finds on a volume, the server that Pods register with, or a Git server.
package main

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "", "`ADDRESS` to answer HTTP on")
	certificate := flag.String("tls", "", "`DIR` with tls.crt and tls.key, to answer HTTPS instead")
	registry := flag.String("registry", "", "`ADDRESS` to be a server on that Pods register with")
	git := flag.String("git", "", "`ADDRESS` to serve Git on, out of /repositories")
	delay := flag.Duration("delay", 0, "do nothing for so long at first")
	user := flag.String("user", "", "`NAME` without which, and $PASSWORD, requests are denied")
	get := flag.String("get", "", "`URL` to fetch")
	last := flag.String("last", "", "`URL` to fetch when told to end")
	kill := flag.String("kill", "", "`NAME` of the processes to kill, as a node that is out of memory does")
	stat := flag.String("stat", "", "`FILE`, or pattern of files, to print the inode, the mode, the owner, the time and the content of")
	follow := flag.String("follow", "", "`LINK` to a directory whose files say the same, at any time; print that when it changes")
	config := flag.String("config", "", "`FILE` that a web application could not do without; it is read again after SIGHUP")
	site := flag.String("site", "", "`DIR` to serve, where there is no other answer")
	status := flag.Int("exit", -1, "`STATUS` to end with, instead of waiting for SIGTERM")
	flag.Parse()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	fmt.Println("started", strings.Join(flag.Args(), " "))
	select {
	case <-time.After(*delay):
	case <-stop:
		return
	}
	var err error
	if *stat != "" {
		err = describe(*stat)
	}
	if err == nil && *config != "" {
		err = describe(*config)
	}
	if err == nil && *get != "" {
		err = fetch(*get)
	}
	if err == nil && *kill != "" {
		err = killAll(*kill)
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	if *listen != "" {
		go serve(*listen, *certificate, handler(*user, os.Getenv("PASSWORD"), *site))
	}
	if *registry != "" {
		go serve(*registry, "", newRegistry())
	}
	if *git != "" {
		go serve(*git, "", newGit("/repositories", *user, os.Getenv("PASSWORD")))
	}
	if *follow != "" {
		go followLink(*follow)
	}
	if *status >= 0 {
		os.Exit(*status)
	}
	go readAgain(reload, *config)
	fmt.Println("ended by", <-stop)
	if *last != "" {
		if err := fetch(*last); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
}

// readAgain prints each signal, and the configuration then.
func readAgain(reload <-chan os.Signal, config string) {
	for s := range reload {
		fmt.Println("told by", s)
		if err := describe(config); config != "" && err != nil {
			fmt.Println("failed:", err)
		}
	}
}

func serve(address, certificate string, h http.Handler) {
	if certificate == "" {
		fmt.Println("failed:", http.ListenAndServe(address, h))
	} else {
		fmt.Println("failed:", http.ListenAndServeTLS(address, certificate+"/tls.crt", certificate+"/tls.key", h))
	}
	os.Exit(1)
}

func handler(user, password, site string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		if user != "" && (u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="app"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if hash := r.Header.Get("Gitsync-Hash"); hash != "" {
			fmt.Println("told of", hash)
		}
		if r.Method == http.MethodPost || r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			fmt.Printf("%s %s: %q\n", r.Method, r.URL.Path, body)
		}
		if site != "" {
			http.FileServer(http.Dir(site)).ServeHTTP(w, r)
			return
		}
		fmt.Fprintln(w, "hello")
	}
}

func fetch(url string) error {
	client := http.Client{Timeout: 10 * time.Second}
	r, err := client.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	fmt.Printf("%s: %s: %s", url, r.Status, body)
	return err
}

// killAll kills the visible processes with the name: those of the Pod, if it shares its process namespace.
func killAll(name string) error {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return err
	}
	killed := 0
	for _, file := range names {
		comm, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue // another process, or one that has ended by now
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			return err
		}
		killed++
	}
	if killed == 0 {
		return fmt.Errorf("no process %s", name)
	}
	return nil
}

// describe prints what is known of the files that match a pattern.
func describe(pattern string) error {
	names, err := filepath.Glob(pattern)
	if err == nil && len(names) == 0 {
		err = &fs.PathError{Op: "stat", Path: pattern, Err: fs.ErrNotExist}
	}
	for _, name := range names {
		info, statErr := os.Stat(name)
		if statErr != nil {
			return statErr
		}
		var content []byte
		if !info.IsDir() {
			if content, err = os.ReadFile(name); err != nil {
				return err
			}
		}
		stat := info.Sys().(*syscall.Stat_t)
		fmt.Printf("%s: inode %d, %v, owner %d:%d, %v, %.1000q\n", name, stat.Ino, info.Mode(), stat.Uid, stat.Gid, info.ModTime().UTC().Format(time.RFC3339Nano), content)
	}
	return err
}
