package dirfd

import "golang.org/x/sys/unix"

// Entry is an entry of a directory that a [Lister] has listed: its name, and its type as in dirent(3), which may be
// DT_UNKNOWN.
type Entry struct {
	Name string
	Kind byte
}

// Lister lists one directory after another, with one allocation for each, and not for each entry. Its zero value is
// ready for use.
type Lister struct {
	dirents []byte
	names   []byte
	ends    []int // of the names
	entries []Entry
}

// List returns the entries of dir, from where it was read before, in the order of the directory. They are valid until
// the next List; their names remain.
func (l *Lister) List(dir Dir) ([]Entry, error) {
	if l.dirents == nil {
		l.dirents = make([]byte, 32<<10)
	}
	l.names, l.ends, l.entries = l.names[:0], l.ends[:0], l.entries[:0]
	for {
		n, err := ReadSome(dir, l.dirents)
		if err == nil && n > 0 {
			err = entries(l.dirents[:n], l.add)
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			break
		}
	}
	names, from := string(l.names), 0
	for i, end := range l.ends {
		l.entries[i].Name, from = names[from:end], end
	}
	return l.entries, nil
}

func (l *Lister) add(name []byte, kind byte) {
	l.names = append(l.names, name...)
	l.ends = append(l.ends, len(l.names))
	l.entries = append(l.entries, Entry{Kind: kind})
}

// Lstat is [Lstat] for an entry of dir, into s.
func (e *Entry) Lstat(dir FD, s *unix.Stat_t) error {
	return retry(func() error { return unix.Fstatat(int(dir), e.Name, s, unix.AT_SYMLINK_NOFOLLOW) })
}
