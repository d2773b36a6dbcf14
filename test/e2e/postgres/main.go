// Command postgres is the entrypoint of the suite's PostgreSQL image: this machine's PostgreSQL, configured by the same
// variables as the image that Docker Hub calls official. With arguments, it runs them.
//
//	POSTGRES_USER, POSTGRES_PASSWORD  a user who may do everything, from any address
//	POSTGRES_DB                       a database to create
//	PGDATA                            the directory of the data, which is initialized if it is empty
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

var programs string // the directory of PostgreSQL's programs; set when this is built

func main() {
	err := run(os.Args[1:])
	fmt.Fprintln(os.Stderr, "entrypoint:", err)
	os.Exit(1)
}

func run(args []string) error {
	if len(args) > 0 {
		path, err := exec.LookPath(args[0])
		if err != nil {
			return err
		}
		return syscall.Exec(path, args, os.Environ())
	}
	data := os.Getenv("PGDATA")
	if _, err := os.Stat(filepath.Join(data, "PG_VERSION")); errors.Is(err, fs.ErrNotExist) {
		if err := initialize(data); err != nil {
			return err
		}
	}
	path := filepath.Join(programs, "postgres")
	return syscall.Exec(path, []string{path, "-D", data, "-c", "listen_addresses=*", "-c", "fsync=off", "-c", "shared_buffers=16MB"}, os.Environ())
}

// initialize creates the cluster of databases, with the user and the database.
func initialize(data string) error {
	secret, err := os.CreateTemp("", "password")
	if err != nil {
		return err
	}
	defer os.Remove(secret.Name())
	_, err = secret.WriteString(os.Getenv("POSTGRES_PASSWORD"))
	if err := errors.Join(err, secret.Close()); err != nil {
		return err
	}
	if err := command("", "initdb", "--pgdata", data, "--username", os.Getenv("POSTGRES_USER"), "--pwfile", secret.Name(),
		"--auth", "trust", "--encoding", "UTF8", "--no-sync"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("local all all trust\nhost all all all scram-sha-256\n"), 0o600); err != nil {
		return err
	}
	return command("CREATE DATABASE "+os.Getenv("POSTGRES_DB")+"\n", "postgres", "--single", "-F", "-D", data, "postgres")
}

func command(input, name string, args ...string) error {
	cmd := exec.Command(filepath.Join(programs, name), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
