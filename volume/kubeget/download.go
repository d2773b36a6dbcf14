package kubeget

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/internal/stage"
	"initbox/internal/tlsconfig"
)

// Fetcher downloads what values refer to, without credentials: any user who may write a ConfigMap chooses
// the server.
type Fetcher struct {
	Timeout  time.Duration // of one download
	TLS      tlsconfig.Options
	Resolver *resolver.Resolver
}

// maxDownload is the length of the longest file that is downloaded.
const maxDownload = 32 << 20

// get returns what is at a URL.
func (f *Fetcher) get(ctx context.Context, address string) ([]byte, error) {
	if err := fetchable(address); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, failure.New(failure.Unexpected, "not a valid URL") // the error quotes it
	}
	req.Header.Set("User-Agent", "initbox")
	resp, err := httpclient.Do(req, httpclient.Options{Dial: f.dial, TLS: f.TLS})
	if err != nil {
		return nil, failure.HTTP(err, req.URL.Host)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, failure.Status(resp.StatusCode)
	}
	content, err := io.ReadAll(io.LimitReader(resp.Body, maxDownload+1))
	switch {
	case err != nil:
		return nil, failure.HTTP(err, req.URL.Host)
	case len(content) > maxDownload:
		return nil, failure.New(failure.Unexpected, "it is larger than %d MiB", maxDownload>>20)
	}
	return content, nil
}

// fetchable returns why nothing can be at an address, whatever the servers do, or nil.
func fetchable(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return failure.New(failure.Unexpected, "not a URL such as https://HOST/PATH")
	}
	return nil
}

// dial connects to a server, but not to one of the node's own: those at link-local addresses give a cloud's credentials
// to every client, and a file in a folder is no place for them.
func (f *Fetcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dial.New(f.Resolver).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if err := allowed(conn.RemoteAddr()); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// allowed returns why nothing may be fetched from an address, or nil.
func allowed(address net.Addr) error {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLinkLocalUnicast() {
		return failure.New(failure.Unexpected, "%s is a link-local address, such as that of a cloud's metadata service", tcp.IP)
	}
	return nil
}

// toFetch returns the files to be downloaded: those that have not been tried, or with again all that are missing.
func (w *Watcher) toFetch(again bool) (files []watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.tree.urls)) {
		if f := w.tree.urls[name]; f.failed == nil || again {
			files = append(files, f)
		}
	}
	return files
}

// fetch downloads files, and stages them. It returns whether there were any. A file that cannot be fetched stays as it
// is.
func (w *Watcher) fetch(ctx context.Context, files []watched) (any bool) {
	for _, f := range files {
		if ctx.Err() != nil {
			break
		}
		content, err := w.o.Fetch.get(ctx, f.url)
		any = w.fetched(f, content, err) || any
	}
	return any
}

// fetchBeside is fetch while Look goes on. One runs at a time: Look is called again at its end.
func (w *Watcher) fetchBeside(files []watched) {
	if len(files) == 0 || !w.isFetching.CompareAndSwap(false, true) {
		return
	}
	w.fetching.Go(func() {
		w.fetch(w.life, files)
		w.isFetching.Store(false)
		w.notify()
	})
}

var errNotFetched = errors.New("not tried yet")

// unfetched returns why a file is not there that is to be fetched, or nil.
func (w *Watcher) unfetched() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.tree.urls)) {
		f := w.tree.urls[name]
		return fmt.Errorf("fetch %s from %s: %w", failure.Printable(name), secret.Word(f.url), cmp.Or(f.failed, fetchable(f.url), errNotFetched))
	}
	return nil
}

// fetched stages the content of a file, unless the file is another one meanwhile.
func (w *Watcher) fetched(f watched, content []byte, err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tree
	if t.urls[f.Name].url != f.url {
		return false
	}
	owner := t.owner[f.Name]
	if err != nil {
		f.failed = failure.Of(err)
		t.urls[f.Name] = f
		err = fmt.Errorf("fetch %s from %s: %w", failure.Printable(f.Name), secret.Word(f.url), f.failed)
		w.unnoticed = append(w.unnoticed, err)
		if text := err.Error(); !slices.Contains(owner.wrong, text) {
			owner.wrong = append(owner.wrong, text)
		}
		return false
	}
	delete(t.urls, f.Name)
	owner.files[f.Name] = sha256.Sum256(content)
	t.dirty = true
	t.putFile(f, stage.Bytes(content))
	return true
}
