// Package perm reads the owners and modes that users give files, for every subcommand, and explains why the kernel
// refuses them.
//
//	owner, err := perm.ParseOwner("999:999")
//	mode, err := perm.ParseMode("u+rwX,go-rwx")
//	bits := mode.Of(0o644, false) // 0600
package perm

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/readfile"
)

// Owner of a file. -1 leaves the user or the group as it is.
type Owner struct{ UID, GID int }

// String returns UID:GID, without what stays as it is.
func (o Owner) String() string {
	text := ""
	if o.UID >= 0 {
		text = strconv.Itoa(o.UID)
	}
	if o.GID >= 0 {
		text += ":" + strconv.Itoa(o.GID)
	}
	return text
}

// Has reports whether a file of this user and group needs no change.
func (o Owner) Has(uid, gid uint32) bool {
	return (o.UID < 0 || o.UID == int(uid)) && (o.GID < 0 || o.GID == int(gid))
}

// OwnerUsage is how an owner is written, for the help.
const OwnerUsage = "numbers, or names in /etc/passwd and /etc/group of this container; or auto, the user that runs this, with the first supplementary group"

// ParseOwner reads UID, UID:GID or :GID; the name of a user or a group in the container's /etc/passwd and /etc/group
// instead of a number, where a user and a colon stand for the user's own group; or auto, the user that runs this with
// the first supplementary group, which is where fsGroup is.
func ParseOwner(text string) (Owner, error) {
	if text == "auto" {
		return automatic()
	}
	user, group, colon := strings.Cut(text, ":")
	if text == "" || text == ":" {
		return Owner{}, errors.New("want UID, UID:GID or :GID, as in 1000:1000, or auto")
	}
	o := Owner{-1, -1}
	var err error
	if user != "" {
		own := -1
		if o.UID, own, err = lookup(user, "/etc/passwd", "user"); err != nil {
			return Owner{}, err
		}
		if colon && group == "" {
			if own < 0 {
				return Owner{}, fmt.Errorf("%s: no group after the colon: only a name in /etc/passwd has a group of its own", failure.Printable(text))
			}
			o.GID = own
		}
	}
	if group != "" {
		o.GID, _, err = lookup(group, "/etc/group", "group")
	}
	return o, err
}

// automatic is auto: as charts with `chown $(id -u):$(id -G | cut -d " " -f2)` mean it.
func automatic() (Owner, error) {
	groups, err := os.Getgroups()
	if err != nil {
		return Owner{}, fmt.Errorf("read the supplementary groups: %w", err)
	}
	for _, g := range groups {
		if g != os.Getegid() {
			return Owner{os.Geteuid(), g}, nil
		}
	}
	return Owner{os.Geteuid(), os.Getegid()}, nil
}

// maxID is the largest user or group: the next one, 4294967295, means "leave it" to chown(2). Where an int has 32
// bits, it is the largest int.
const maxID = min(1<<32-2, math.MaxInt)

// NameError is the error of the name of a user or group that this container does not know. Another one may.
type NameError struct{ error }

// Unwrap returns the reason.
func (e NameError) Unwrap() error { return e.error }

// lookup returns the number of a user or group, and the group of a user that a name stands for, or -1.
func lookup(text, file, what string) (id, group int, err error) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		if n > maxID {
			return 0, 0, fmt.Errorf("%s %s: the largest is %d", what, text, maxID)
		}
		return int(n), -1, nil
	}
	content, err := readfile.All(file)
	if err != nil {
		return 0, 0, NameError{failure.WithHint(fmt.Errorf("find the %s %s: %w", what, failure.Printable(text), err), "give its number, or mount "+file+" of the image that has the name")}
	}
	lines := bufio.NewScanner(strings.NewReader(string(content)))
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if fields[0] != text || len(fields) < 4 {
			continue
		}
		n, err := strconv.ParseUint(fields[2], 10, 32)
		if err != nil || n > maxID {
			return 0, 0, NameError{fmt.Errorf("%s: the %s %s has no valid number", file, what, failure.Printable(text))}
		}
		group = -1
		if what == "user" {
			if g, err := strconv.ParseUint(fields[3], 10, 32); err == nil && g <= maxID {
				group = int(g)
			}
		}
		return int(n), group, nil
	}
	return 0, 0, NameError{failure.WithHint(fmt.Errorf("no %s %s in %s", what, failure.Printable(text), file), "give its number, or mount "+file+" of the image that has the name")}
}
