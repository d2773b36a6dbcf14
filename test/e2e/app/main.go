// Command app is what the suite's Pods run beside initbox: a server that becomes ready late, a client, or a program that
// says what it finds on a volume.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "", "`ADDRESS` to answer HTTP on")
	delay := flag.Duration("delay", 0, "do nothing for so long at first")
	user := flag.String("user", "", "`NAME` without which, and $PASSWORD, requests are denied")
	get := flag.String("get", "", "`URL` to fetch")
	stat := flag.String("stat", "", "`FILE` to print the inode, the mode, the time and the content of")
	status := flag.Int("exit", -1, "`STATUS` to end with, instead of waiting for SIGTERM")
	flag.Parse()

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
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
	if err == nil && *get != "" {
		err = fetch(*get)
	}
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	if *listen != "" {
		go func() {
			fmt.Println("failed:", http.ListenAndServe(*listen, handler(*user, os.Getenv("PASSWORD"))))
			os.Exit(1)
		}()
	}
	if *status >= 0 {
		os.Exit(*status)
	}
	fmt.Println("ended by", <-stop)
}

func handler(user, password string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		if user != "" && (u != user || p != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="app"`)
			w.WriteHeader(http.StatusUnauthorized)
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

func describe(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	fmt.Printf("%s: inode %d, %v, %v, %q\n", name, info.Sys().(*syscall.Stat_t).Ino, info.Mode(), info.ModTime().UTC().Format(time.RFC3339Nano), content)
	return nil
}
