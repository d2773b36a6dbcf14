package perm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mode is a file mode as chmod(1) reads it: an octal number, or a list of changes such as u+rwX,go-rwx.
type Mode struct {
	changes []change
}

// change is one part of a symbolic mode, or all of an octal one, which is as =.
type change struct {
	who  uint32 // the bits of u, g and o that it is about
	op   byte   // '+', '-' or '='
	bits uint32
	x    bool // X: execute, for directories and for files that someone may execute
	from byte // u, g or o, whose permissions are copied; or 0

	explicit bool // octal with five digits, which also say what a directory's setuid and setgid bits are
}

const (
	special = unix.S_ISUID | unix.S_ISGID
	allBits = 0o7777
)

// ParseMode reads an octal mode such as 0750, 2770 or 1777, or a symbolic one such as u+rwX,go-rwx, with the letters of
// chmod(1): u, g, o, a; +, -, =; r, w, x, X, s, t, or one of u, g, o to copy from. Without u, g, o or a, a change is
// for all, whatever the umask.
func ParseMode(text string) (Mode, error) {
	if text == "" {
		return Mode{}, errMode
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil || n > allBits || len(text) > 5 {
			return Mode{}, errors.New("want an octal mode, up to 7777")
		}
		return Mode{[]change{{who: allBits, op: '=', bits: uint32(n), explicit: len(text) == 5}}}, nil
	}
	m := Mode{}
	for _, part := range strings.Split(text, ",") {
		changes, err := parseChanges(part)
		if err != nil {
			return Mode{}, err
		}
		m.changes = append(m.changes, changes...)
	}
	return m, nil
}

var errMode = errors.New("want a mode such as 0750 or u+rwX,go-rwx")

// parseChanges reads a part between commas, such as go-rwx or u=rwx+s.
func parseChanges(part string) (changes []change, err error) {
	i, who := 0, uint32(0)
	for ; i < len(part) && strings.IndexByte("ugoa", part[i]) >= 0; i++ {
		who |= map[byte]uint32{'u': unix.S_ISUID | 0o700, 'g': unix.S_ISGID | 0o070, 'o': unix.S_ISVTX | 0o007, 'a': allBits}[part[i]]
	}
	if i == 0 {
		who = allBits
	}
	if i == len(part) {
		return nil, errMode
	}
	for i < len(part) {
		c := change{who: who, op: part[i]}
		if strings.IndexByte("+-=", c.op) < 0 {
			return nil, fmt.Errorf("%w: no +, - or = in %q", errMode, part)
		}
		for i++; i < len(part) && strings.IndexByte("+-=", part[i]) < 0; i++ {
			if err := c.add(part[i]); err != nil {
				return nil, fmt.Errorf("%w: %w in %q", errMode, err, part)
			}
		}
		changes = append(changes, c)
	}
	return changes, nil
}

// add adds a letter after +, - or =.
func (c *change) add(letter byte) error {
	isCopy := strings.IndexByte("ugo", letter) >= 0
	if c.from != 0 || isCopy && (c.bits != 0 || c.x) {
		return errors.New("u, g and o copy permissions, and stand alone; a comma is missing")
	}
	switch letter {
	case 'r':
		c.bits |= 0o444
	case 'w':
		c.bits |= 0o222
	case 'x':
		c.bits |= 0o111
	case 'X':
		c.x = true
	case 's':
		c.bits |= special
	case 't':
		c.bits |= unix.S_ISVTX
	case 'u', 'g', 'o':
		c.from = letter
	default:
		return fmt.Errorf("no permission is called %q", letter)
	}
	return nil
}

// IsZero returns whether m is no mode at all.
func (m Mode) IsZero() bool { return m.changes == nil }

// Of returns the mode bits (07777) of a file that has the bits old. As with chmod(1), an octal mode of up to four
// digits does not clear the setuid and setgid bits of a directory; five digits do, as in 00755.
func (m Mode) Of(old uint32, dir bool) uint32 {
	mode := old & allBits
	for _, c := range m.changes {
		bits := c.bits
		if c.x && (dir || mode&0o111 != 0) {
			bits |= 0o111
		}
		switch c.from {
		case 'u':
			bits |= mode >> 6 & 7 * 0o111
		case 'g':
			bits |= mode >> 3 & 7 * 0o111
		case 'o':
			bits |= mode & 7 * 0o111
		}
		bits &= c.who
		switch c.op {
		case '+':
			mode |= bits
		case '-':
			mode &^= bits
		case '=':
			clear := c.who
			if dir && !c.explicit {
				clear &^= special
			}
			mode = mode&^clear | bits
		}
	}
	return mode
}
