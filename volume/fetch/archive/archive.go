// Package archive unpacks archives into an open directory. What it reads is not trusted: nothing is written outside the
// directory, whatever the archive says and whatever other programs do in the directory meanwhile, and what would lead
// out of it, or be lost, is an error.
//
//	dir, err := os.Open(stage)
//	...
//	sum, err := archive.Unpack(ctx, response.Body, dir, archive.Options{Strip: 1, MaxSize: 4 << 30})
//
// An archive is a tar (ustar, pax or GNU, with sparse files) or a zip. It may be compressed by gzip, xz, zstd or bzip2.
// Both are recognised by their bytes. A zip needs its end first, and so it is copied to a file in the directory, which
// has no name.
//
// [Tree] writes the entries, also those of archives that are read elsewhere.
package archive

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"

	"initbox/internal/dirfd"
	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/poll"
)

// Options say what is unpacked, and how. The zero value unpacks everything, without limits.
type Options struct {
	// Strip is how many directories are removed from the beginning of each name, as by tar --strip-components. An entry
	// with no more than that is left out. The same number is removed from the target of a hard link.
	Strip int

	// Include, unless empty, and Exclude select entries by their names in the archive, as tar -t lists them: before
	// Strip. In a pattern, * and ? match anything but a slash, [a-z] a character, and ** any number of directories. A
	// pattern without a slash matches a file or a directory of that name anywhere. One that matches a directory holds
	// for everything in it. Exclude wins.
	Include, Exclude []string

	// MaxSize is how many bytes all files together may have, and MaxFiles how many files, links and directories there
	// may be. 0 is no limit.
	MaxSize  int64
	MaxFiles int

	// Mode changes the modes of the files that it matches, by their names below the directory: the last rule wins.
	// Others, and all directories, have the permissions that they have in the archive, whatever the umask. The setuid,
	// setgid and sticky bits of the archive are always dropped, before the rules.
	Mode []perm.Rule[perm.Mode]

	// Owner, if not nil, owns everything. Otherwise the user of this process does, whatever the archive says.
	Owner *perm.Owner

	// Name is the name of the file that is written if the content is compressed but not an archive, or "" if that is an
	// error.
	Name string

	// To, unless empty, is the name of the only file that is written, with slashes below directories that are made. It
	// is an error if there is more than one, or none, or if it is not a file.
	To string

	// KeepLinks lets symbolic links lead out of the directory, as they do in images. They are never followed.
	KeepLinks bool
}

// Summary is what was unpacked.
type Summary struct {
	Files   int   // files and links
	Bytes   int64 // of the files
	Skipped int   // devices and named pipes, which are never made
	Single  bool  // it was no archive, but one file, compressed
}

// Unpack reads an archive to its end, and writes its entries below dir, which is empty or has entries of other names.
// The error of a read is returned as it is; one that would be the same for the same bytes is permanent. What was
// written before an error stays.
func Unpack(ctx context.Context, r io.Reader, dir dirfd.Dir, o Options) (Summary, error) {
	in := &input{r: r}
	t := NewTree(dir, o)
	if t.err = unpack(ctx, in, t); t.err != nil && ctx.Err() == nil && in.err != nil {
		t.err = in.err
	}
	if t.err == nil && t.passed && len(t.written) == 0 {
		t.err = permanent("there is nothing in it that include, exclude and strip-components select")
	}
	err := t.Close()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return t.sum, err
}

func unpack(ctx context.Context, in *input, t *Tree) error {
	return Decompress(ctx, in, func(compression string, content io.Reader) error {
		in := bufio.NewReaderSize(content, blockSize)
		first, err := in.Peek(blockSize)
		name := cmp.Or(t.o.To, t.o.Name)
		switch kind := kindOf(first); {
		case err != nil && err != io.EOF:
			return err
		case kind == "tar":
			return t.tar(ctx, in)
		case kind == "zip":
			return t.zip(ctx, in)
		case compression == "":
			return notAnArchive(first)
		case name == "":
			return permanent("it is one file, compressed by %s, and not an archive", compression)
		}
		if _, _, err := t.o.nameOf(name); err != nil {
			return err
		}
		t.sum.Single = true
		return t.file(name, &tar.Header{Mode: 0o644, Size: -1}, in)
	})
}

// input remembers why reading failed, because the libraries do not always return that.
type input struct {
	r   io.Reader
	err error
}

func (in *input) Read(p []byte) (int, error) {
	if in.err != nil {
		return 0, in.err
	}
	n, err := in.r.Read(p)
	if err != nil && err != io.EOF {
		in.err = err
	}
	return n, err
}

// permanent returns an error that the same bytes would cause again.
func permanent(format string, args ...any) error {
	return poll.Permanent(fmt.Errorf(format, args...))
}

// printable returns the name of an entry for a message.
func printable(name string) string { return failure.Printable(name) }
