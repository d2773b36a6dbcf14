package lfs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
)

const (
	batchSize      = 100 // objects per request, as in git-lfs
	defaultWorkers = 4
)

// Client fetches the objects of one repository.
type Client struct {
	// Remote is the repository's URL, with http or https. For a repository reached over ssh or git:// it is a guess
	// (https://HOST/PATH). It may be nil.
	Remote *url.URL

	// Authorize adds credentials to a request, and returns the secrets among them. It is called only for requests to
	// the origin of Remote, at each attempt. It may be nil.
	Authorize func(ctx context.Context, req *http.Request) (secrets []string, err error)

	// Authenticate runs git-lfs-authenticate PATH download over ssh, and returns href and header of its answer. href is
	// "" if the server does not have the command. Authenticate is nil for repositories not reached over ssh.
	Authenticate func(ctx context.Context) (href string, header map[string]string, err error)

	Directory string // .git of a repository on this machine, or the bare repository; "" for one on a server
	Config    []byte // the content of .lfsconfig; nil for none
	Ref       string // full name, for servers whose permissions depend on it; "" for none

	HTTP           httpclient.Options
	AttemptTimeout time.Duration // of a request of the batch API; 0 for none. HTTP.Dial has to end a stalled download
	Workers        int           // parallel downloads; 0 for 4
	Seed           uint64        // of the jitter
	Temp           func() (*os.File, error)
	Received       *atomic.Int64 // counts bytes; may be nil
	Log            *slog.Logger  // nil to discard
}

// Fetch downloads the objects of the pointers. It calls place for each pointer, one at a time, after verifying length
// and SHA-256. content is an *os.File at its beginning, which Fetch closes afterwards.
func (c *Client) Fetch(ctx context.Context, pointers []Pointer, place func(p Pointer, content io.Reader) error) error {
	wanted, err := group(pointers)
	if err != nil {
		return err
	}
	f := &fetch{Client: c, place: place}
	if wanted, err = f.empty(wanted); err != nil || len(wanted) == 0 {
		return err
	}
	if c.Directory != "" {
		return f.local(ctx, wanted)
	}
	if f.endpoint, err = c.endpoint(ctx); err != nil {
		return err
	}
	if f.client, err = httpclient.New(c.HTTP); err != nil {
		return err
	}
	defer f.client.Close()
	for len(wanted) > 0 {
		n := min(batchSize, len(wanted))
		if err := f.batch(ctx, wanted[:n]); err != nil {
			return err
		}
		wanted = wanted[n:]
	}
	return nil
}

// target is an object, with its pointers.
type target struct {
	oid      string
	size     int64
	pointers []Pointer
}

func (t *target) String() string {
	return "the Git LFS object of " + failure.Printable(t.pointers[0].Path) + " (" + t.oid[:12] + "…)"
}

// group returns the objects, in the order of their first pointers.
func group(pointers []Pointer) ([]*target, error) {
	byOID := map[string]*target{}
	var targets []*target
	for _, p := range pointers {
		if !validOID(p.OID) || p.Size < 0 {
			return nil, fmt.Errorf("%q is not a Git LFS pointer", p.Path)
		}
		if p.Extended {
			f := failure.New(failure.Unexpected, "%s is a Git LFS pointer with extensions, which are not supported", failure.Printable(p.Path))
			return nil, permanent(f, "omit --lfs")
		}
		t := byOID[p.OID]
		if t == nil {
			t = &target{oid: p.OID, size: p.Size}
			byOID[p.OID] = t
			targets = append(targets, t)
		}
		if t.size != p.Size {
			f := failure.New(failure.Unexpected, "%s and %s point to the same Git LFS object, with different lengths",
				failure.Printable(t.pointers[0].Path), failure.Printable(p.Path))
			return nil, permanent(f, "fix the pointers in the repository")
		}
		t.pointers = append(t.pointers, p)
	}
	return targets, nil
}

// fetch is a call of [Client.Fetch].
type fetch struct {
	*Client
	client   *httpclient.Client
	endpoint *endpoint
	mu       sync.Mutex // of place
	place    func(Pointer, io.Reader) error
}

// empty places the empty object, which servers do not store.
func (f *fetch) empty(targets []*target) (rest []*target, err error) {
	nothing := sha256.Sum256(nil)
	for _, t := range targets {
		if t.size != 0 || t.oid != hex.EncodeToString(nothing[:]) {
			rest = append(rest, t)
			continue
		}
		file, err := f.Temp()
		if err != nil {
			return nil, err
		}
		err = f.put(t, file)
		file.Close()
		if err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// put passes a verified file to place, for each pointer.
func (f *fetch) put(t *target, file *os.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range t.pointers {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := f.place(p, file); err != nil {
			return err
		}
	}
	return nil
}

// each calls do for all targets, several at a time, until one fails.
func (f *fetch) each(ctx context.Context, targets []*target, do func(context.Context, *target) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *target, len(targets))
	for _, t := range targets {
		queue <- t
	}
	close(queue)
	var (
		workers sync.WaitGroup
		once    sync.Once
		first   error
	)
	for range min(cmp.Or(f.Workers, defaultWorkers), len(targets)) {
		workers.Go(func() {
			for t := range queue {
				if ctx.Err() != nil {
					return
				}
				if err := do(ctx, t); err != nil {
					once.Do(func() { first = err }) // the others fail because of it
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	if first == nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return first
}

// verified copies as many bytes as the object has, and compares length and SHA-256.
func (f *fetch) verified(t *target, dst io.Writer, src io.Reader) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(dst, sum), io.LimitReader(src, t.size))
	if f.Received != nil {
		f.Received.Add(n)
	}
	if err != nil {
		return err
	}
	longer, err := more(src)
	switch {
	case err != nil:
		return err
	case longer:
		return wrong(t, "it has more than the %d bytes in the pointer", t.size)
	case n < t.size:
		return wrong(t, "it has %d bytes, but the pointer says %d", n, t.size)
	case hex.EncodeToString(sum.Sum(nil)) != t.oid:
		return wrong(t, "the SHA-256 of its content differs from the pointer")
	}
	return nil
}

// more reports whether another byte follows.
func more(src io.Reader) (bool, error) {
	n, err := io.ReadFull(src, make([]byte, 1))
	if err == io.EOF {
		err = nil
	}
	return n > 0, err
}

func wrong(t *target, format string, args ...any) error {
	f := failure.New(failure.Unexpected, "%v: "+format, append([]any{t}, args...)...)
	return permanent(f, "the object on the server is damaged: push it again (git lfs push --all)")
}

// missing returns the failure for an object that is not on the server.
func missing(t *target) error {
	return permanent(failure.New(failure.Missing, "%v is not on the server", t), "push it (git lfs push --all), or omit --lfs")
}
