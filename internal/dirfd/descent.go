package dirfd

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// OpenBelow opens the directory with a clean, slash-separated path below root, "." for root itself, and is not led
// through a link. Of the directories on the way it needs no permission to read them.
func OpenBelow(root Dir, name string) (FD, error) {
	d := Descent{Root: root, Open: func(in Dir, name, _ string) (FD, error) {
		return OpenFD(in, name, PathOnly|unix.O_DIRECTORY, 0)
	}}
	defer d.Close()
	above, base := path.Split(name)
	in, err := d.To(strings.TrimSuffix(above, "/"))
	if err != nil {
		return -1, err
	}
	return OpenFD(in, base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// Descent opens the directories below Root that lead to a file, each by its name in the one above and never through a
// link. It keeps them open for the next file, which mostly is near. It is for one goroutine.
type Descent struct {
	Root Dir

	// Open, if set, opens a directory instead of [OpenFD], for example one that it makes first. The path is that from
	// Root.
	Open func(in Dir, name, path string) (FD, error)

	at []step
}

type step struct {
	name string
	fd   FD
}

// To opens the directory with a clean, slash-separated path below Root; "" is Root. It is open until the next To or
// Close.
func (d *Descent) To(path string) (Dir, error) {
	in, depth := d.Root, 0
	for rest := path; rest != ""; depth++ {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		if depth < len(d.at) && d.at[depth].name == name {
			in = d.at[depth].fd
			continue
		}
		d.up(depth)
		end := len(path)
		if rest != "" {
			end -= len(rest) + 1
		}
		fd, err := d.open(in, name, path[:end])
		if err != nil {
			return nil, err
		}
		d.at = append(d.at, step{name, fd})
		in = fd
	}
	return in, nil
}

// Parent opens the directory of the file with a slash-separated path, and returns the file's name in it.
func (d *Descent) Parent(file string) (in Dir, name string, err error) {
	above, name := path.Split(path.Clean(file))
	in, err = d.To(strings.TrimSuffix(above, "/"))
	return in, name, err
}

func (d *Descent) open(in Dir, name, path string) (FD, error) {
	if d.Open != nil {
		return d.Open(in, name, path)
	}
	return OpenFD(in, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// up closes the directories that are deeper than depth.
func (d *Descent) up(depth int) {
	for i := len(d.at) - 1; i >= depth; i-- {
		d.at[i].fd.Close()
	}
	d.at = d.at[:min(depth, len(d.at))]
}

// Close closes the directories, but not Root. The Descent can be used again.
func (d *Descent) Close() { d.up(0) }
