package sidecar

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"initbox/internal/atomicfile"
	"initbox/internal/failure"
)

// ErrAddress is the error of an invalid address, which follows "want".
var ErrAddress = errors.New("a port from 1 to 65535, or ADDRESS:PORT")

// Address returns the address at which the value of --http or --startup-probe says to listen, as in [net.Listen], or ""
// if it names a file. Its errors wrap [ErrAddress].
func Address(text string) (string, error) {
	port, numeric := text, strings.Trim(text, "0123456789") == ""
	if !numeric {
		colon := strings.LastIndexByte(text, ':')
		if port = text[colon+1:]; colon < 0 || strings.Contains(text, "/") || strings.Trim(port, "0123456789") != "" {
			return "", nil
		}
		if _, _, err := net.SplitHostPort(text); err != nil {
			return "", failure.WithHint(ErrAddress, "an IPv6 address stands in brackets, as in [::1]:9000")
		}
	}
	n, err := strconv.Atoi(port)
	switch {
	case text == "":
		return "", nil
	case err != nil || n < 1 || n > 65535:
		return "", ErrAddress
	case numeric:
		return ":" + port, nil
	}
	return text, nil
}

// readyFile is the file of --startup-probe, which exists while the sidecar is ready; "" without the flag.
type readyFile string

// clear removes the file that a killed run has left, since it would be wrong until create is called. Anything but an
// empty file is not one of these, and an error.
func (f readyFile) clear() error {
	name := string(f)
	if name == "" {
		return nil
	}
	if _, err := os.Lstat(name); err == nil && !f.isOurs() {
		return failure.WithHint(fmt.Errorf("the --startup-probe file %s exists and is not an empty file, as one for probes is: it is not replaced", failure.Printable(name)),
			"name a file that only the probe uses")
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the --startup-probe file of an earlier run: %w", err)
	}
	return nil
}

func (f readyFile) create() error {
	if f == "" {
		return nil
	}
	if err := atomicfile.Write(string(f), nil, 0o644); err != nil {
		return failure.WithHint(fmt.Errorf("create the --startup-probe file: %w", err), "is the volume mounted, and writable by this user?")
	}
	return nil
}

func (f readyFile) remove() {
	if f.isOurs() {
		os.Remove(string(f))
	}
}

// isOurs returns whether the file exists and is as create makes it. A directory, a link or a file with content is not.
func (f readyFile) isOurs() bool {
	stat, err := os.Lstat(string(f))
	return f != "" && err == nil && stat.Mode().IsRegular() && stat.Size() == 0
}
