// Package secret reads secrets, and URLs that refer to secrets as ${file:/PATH} or
// ${env:NAME}. A file is read again for each attempt, since secrets rotate.
//
// A [URL] never holds what it refers to: Expand returns the URL to send, String the one to
// show, and Secrets what must be removed from anything that quotes the request.
//
// A [Redactor] removes secrets from text, and [Quote] makes a server's message safe to show. Nothing else does: a form
// of a secret that it does not know is added to it.
package secret

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/readfile"
)

// Likely is the length, in bytes, from which a text that may be a secret is treated as one: a part of a header, a value
// in a query, a variable. Shorter texts occur in other words by chance.
const Likely = 8

// Read returns the content of a file without line breaks at its end, which editors add.
// Its error is a [failure.Failure] of class Missing: the file may be mounted late.
func Read(name string) (string, error) {
	data, err := readfile.All(name)
	if err != nil {
		f := &failure.Failure{Class: failure.Missing, Text: "cannot read secret file " + name, Err: err, Hint: failure.Beside(err) + "is the Secret mounted, and may this user read it?"}
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			f.Text += ": " + pathErr.Err.Error()
		}
		return "", f
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// Password returns the password that a file has, without line breaks at its end, or an environment variable, as it is.
// It is "" if neither is named. A file or a variable without one is an error.
func Password(file, variable string, getenv func(name string) string) (password string, err error) {
	switch {
	case file != "":
		if password, err = Read(file); err == nil && password == "" {
			err = fmt.Errorf("password file %s: it is empty", failure.Printable(file))
		}
	case variable != "":
		if password = getenv(variable); password == "" {
			err = failure.WithHint(fmt.Errorf("the environment variable %s, for the password, is not set, or is empty", failure.Printable(variable)),
				"set it in the container's env, from a key of a Secret")
		}
	}
	return password, err
}
