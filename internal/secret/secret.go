// Package secret reads secrets, and URLs that refer to some. Secrets come from
// files, which are read anew for each attempt since they rotate, and from
// environment variables.
package secret

import (
	"errors"
	"os"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/readfile"
)

// Likely is the length, in bytes, from which a text of which nobody says whether it
// is a secret is taken for one: a part of a header, a value in a query, a variable.
// Shorter ones are in other words by chance.
const Likely = 8

// Read returns the content of a file without the line breaks that editors put at
// its end. Its error is a [failure.Failure], for the file may be mounted late.
func Read(name string) (string, error) {
	data, err := readfile.All(name)
	if err != nil {
		f := &failure.Failure{Class: failure.Missing, Text: "cannot read secret file " + name, Err: err, Hint: "is the Secret mounted, and may this user read it?"}
		var pathErr *os.PathError
		if errors.As(err, &pathErr) {
			f.Text += ": " + pathErr.Err.Error()
		}
		return "", f
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}
