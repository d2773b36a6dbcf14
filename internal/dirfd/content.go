package dirfd

import (
	"bytes"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// Same returns whether two files hold the same from their positions to their ends. It reads pieces of half of buf.
func Same(a, b io.Reader, buf []byte) (bool, error) {
	x, y := buf[:len(buf)/2], buf[len(buf)/2:][:len(buf)/2]
	for {
		n, err := io.ReadFull(a, x)
		m, other := io.ReadFull(b, y)
		for _, err := range []error{err, other} {
			if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
				return false, err
			}
		}
		if same := bytes.Equal(x[:n], y[:m]); !same || n < len(x) {
			return same, nil
		}
	}
}

// Overwrite makes a file that cannot be replaced hold content, of that size or, if it is 0, of one that is not known,
// and syncs it. It truncates it last: a reader in between sees the beginning of the new content, not an empty file. If
// there is no room for it, the file stays as it is.
func Overwrite(f FD, content io.Reader, size int64) error {
	old, err := Stat(f)
	if err != nil {
		return err
	}
	if err := Reserve(f, size); err != nil {
		f.Truncate(old.Size) // part of the room may have been reserved
		return err
	}
	n, err := io.CopyBuffer(f, content, make([]byte, 128<<10))
	if err == nil {
		err = f.Truncate(n)
	}
	if err == nil {
		err = Fsync(f)
	}
	return err
}

// Touch makes now the time when the file called name was read and written, see [SetTimes].
func Touch(f Dir, name string) error {
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return SetTimes(f, name, now, now)
}
