package fetch

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/words"
	"initbox/volume/fetch/ahead"
)

// version is what is remembered of a content, to find out whether the server still has the same.
type version struct {
	sums
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"lastModified,omitempty"`
	Digest       string `json:"digest,omitempty"` // of oci://
}

// download is the download of one source, over as many connections as it takes.
type download struct {
	o     *Options
	src   *Source
	prev  *version                                     // of what is in DST; nil if unknown
	write func(ctx context.Context, r io.Reader) error // the content, from its beginning
	undo  func() error                                 // what write has written
	site  *httpclient.Site

	mu     sync.Mutex // of an attempt
	ctx    context.Context
	expect sums        // once known
	asked  bool        // for the checksums
	pipe   *ahead.Pipe // to write; nil if there is nothing to continue
	sha256 hash.Hash
	sha512 hash.Hash // nil if there is nothing to compare it with

	now       version      // that is received
	validator string       // for If-Range; "" if the content cannot be resumed
	total     int64        // bytes of the content; -1 if unknown
	restarts  int          // how often the content was begun again
	broken    bool         // the server cannot resume
	received  atomic.Int64 // bytes of the content so far
	same      bool         // as prev
	html      bool         // the answer is a web page
}

// errAborted is what the reader of a content gets that will not be complete.
var errAborted = errors.New("the download was interrupted")

// run downloads the source until that succeeds, cannot succeed, or ctx ends.
func (d *download) run(ctx context.Context) (*version, error) {
	var err error
	if d.site, err = httpclient.NewSite(connections(d.o, d.src)); err != nil {
		return nil, err
	}
	defer d.site.Close()
	d.ctx, d.expect = ctx, sums{d.src.SHA256, d.src.SHA512}
	report := newReport(d.o, d.src, d.progress)
	defer report.end()
	err = d.o.until(ctx, report, d.attempt)
	d.mu.Lock() // an attempt may still end
	defer d.mu.Unlock()
	progress := ""
	if d.received.Load() > 0 {
		progress = d.progress()
	}
	d.drop()
	if err != nil {
		return nil, explain(d.src, progress, err)
	}
	return &d.now, nil
}

// attempt makes one request, and receives the content or the rest of it.
func (d *download) attempt(ctx context.Context) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if d.src.Checksums != nil && !d.asked {
		if d.expect, err = d.checksums(ctx); err != nil {
			return err
		}
		d.asked = true
	}
	if d.prev != nil && d.expect.known() && d.prev.fits(d.expect) {
		d.same, d.now = true, *d.prev
		return nil
	}
	resp, err := d.get(ctx, d.src.URL, d.header())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if d.same, err = d.answer(resp); err != nil || d.same || d.o.DryRun {
		return err
	}
	return d.receive(ctx, resp)
}

// plainHeader is that of each request: a content that the server compresses again would not have the checksum.
func plainHeader() http.Header {
	return http.Header{"User-Agent": {"initbox"}, "Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
}

// header returns the header of the next request.
func (d *download) header() http.Header {
	h := plainHeader()
	switch {
	case d.pipe != nil:
		h.Set("Range", fmt.Sprintf("bytes=%d-", d.received.Load()))
		h.Set("If-Range", d.validator)
	case d.prev == nil || d.expect.known(): // content without that checksum is of no use
	case d.prev.ETag != "":
		h.Set("If-None-Match", d.prev.ETag)
	case d.prev.LastModified != "":
		h.Set("If-Modified-Since", d.prev.LastModified)
	}
	return h
}

// answer judges the header of an answer, and prepares for its content. same says that DST has it already.
func (d *download) answer(resp *http.Response) (same bool, err error) {
	switch status := resp.StatusCode; {
	case status == http.StatusNotModified && d.prev != nil && d.pipe == nil:
		d.now = *d.prev
		return true, nil
	case status == http.StatusPartialContent && d.pipe != nil && d.continues(resp):
		return false, nil
	case d.pipe != nil && (status == http.StatusPartialContent || status == http.StatusRequestedRangeNotSatisfiable):
		d.broken = true
		d.drop()
		return false, failure.New(failure.Unexpected, "the server cannot send the rest")
	case status == http.StatusOK:
		d.drop() // the content has changed, or the server cannot resume
		return false, d.begin(resp)
	case status < 400:
		return false, poll.Permanent(failure.New(failure.Unexpected, "status %d %s, without a file", status, http.StatusText(status)))
	}
	return false, d.refused(resp)
}

// begin starts with the content of an answer from its beginning.
func (d *download) begin(resp *http.Response) error {
	encoding := resp.Header.Get("Content-Encoding")
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	compressed := !d.src.Unpack && encoding != "" && encoding != "identity"
	switch name := path.Base(d.src.URL.Path); {
	case compressed && !strings.HasSuffix(name, ".gz") && !strings.HasSuffix(name, ".tgz"):
		return poll.Permanent(failure.New(failure.Unexpected, "the server compresses the answer (%s), which it was asked not to do", failure.Printable(encoding)).
			WithHint("unpack it: add #unpack"))
	case resp.ContentLength > d.o.MaxSize:
		return poll.Permanent(d.tooLong())
	}
	d.html = media == "text/html"
	d.total = resp.ContentLength
	d.now = version{ETag: resp.Header.Get("ETag"), LastModified: resp.Header.Get("Last-Modified")}
	d.validator = validatorOf(resp.Header)
	if d.o.DryRun {
		return nil
	}
	d.sha256, d.sha512 = sha256.New(), nil
	if d.expect.SHA512 != "" {
		d.sha512 = sha512.New()
	}
	d.pipe = ahead.Start(func(r io.Reader) error { return d.write(d.ctx, r) })
	return nil
}

// validatorOf returns what makes sure that the rest of a content is of the same content: a strong entity tag, or a date
// that is older than the answer by a minute (RFC 9110, sections 8.8.2.2 and 13.1.5). Without, it returns "".
func validatorOf(h http.Header) string {
	if strings.EqualFold(h.Get("Accept-Ranges"), "none") {
		return ""
	}
	if tag := h.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	modified, err1 := http.ParseTime(h.Get("Last-Modified"))
	date, err2 := http.ParseTime(h.Get("Date"))
	if err1 != nil || err2 != nil || date.Sub(modified) < time.Minute {
		return ""
	}
	return h.Get("Last-Modified")
}

// continues returns whether an answer is the rest of the content.
func (d *download) continues(resp *http.Response) bool {
	tag := resp.Header.Get("ETag")
	return httpclient.IsPart(resp.Header, d.received.Load(), d.total) && (tag == "" || d.now.ETag == "" || tag == d.now.ETag)
}

// costlyPause is the pause after a second attempt that received something in vain, as the next one probably will.
const costlyPause = 5 * time.Second

// receive passes the content on. If it breaks off, the next attempt resumes, or begins again.
func (d *download) receive(ctx context.Context, resp *http.Response) error {
	poll.Doing(ctx, "receiving")
	err := d.pipe.Fill(&counted{resp.Body, d})
	switch {
	case err == nil:
		return d.finish()
	case errors.Is(err, errTooLong):
		return poll.Permanent(d.tooLong())
	case errors.Is(err, ahead.ErrUnused):
		return d.unwritable(d.pipe.End(errAborted))
	case ctx.Err() != nil:
		return ctx.Err()
	}
	f := failure.Of(httpclient.Reason(ctx, err, resp.Request.URL.Host))
	broken := failure.New(f.Class, "%s, after %s", f.Text, d.progress()).WithHint(f.Hint)
	broken.Err = err
	if d.validator != "" && !d.broken && d.received.Load() > 0 {
		return broken
	}
	if d.drop(); d.restarts > 1 {
		return poll.After(costlyPause, broken)
	}
	return broken
}

func (d *download) tooLong() error {
	return failure.New(failure.Unexpected, "longer than %s", words.Bytes(d.o.MaxSize)).WithHint("is it the right file? allow more with --max-size")
}

// errTooLong is the error of content that is longer than the limit.
var errTooLong = errors.New("longer than the limit")

// counted counts what is read, and adds it to the checksums.
type counted struct {
	io.Reader
	*download
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.received.Add(int64(n)) > r.o.MaxSize {
		return 0, errTooLong
	}
	r.sha256.Write(p[:n])
	if r.sha512 != nil {
		r.sha512.Write(p[:n])
	}
	return n, err
}

// finish waits until all is written, and compares the checksums.
func (d *download) finish() error {
	size := d.received.Load()
	if size < d.src.MinSize {
		d.drop()
		return failure.New(failure.Unexpected, "the answer has %s, want %d at least", words.Plural(int(size), "byte"), d.src.MinSize)
	}
	if err := d.pipe.End(nil); err != nil {
		return d.unwritable(err)
	}
	d.pipe = nil
	d.now.SHA256 = hex.EncodeToString(d.sha256.Sum(nil))
	if d.sha512 != nil {
		d.now.SHA512 = hex.EncodeToString(d.sha512.Sum(nil))
	}
	if !d.now.fits(d.expect) {
		if err := d.undo(); err != nil {
			return poll.Permanent(err)
		}
		return poll.Permanent(d.mismatch(size))
	}
	return nil
}

func (d *download) mismatch(size int64) error {
	name, want, got := "sha256", d.expect.SHA256, d.now.SHA256
	if want == "" || want == got {
		name, want, got = "sha512", d.expect.SHA512, d.now.SHA512
	}
	f := failure.New(failure.Unexpected, "the checksum does not match: %s of the %s is %s, want %s", name, words.Plural(int(size), "byte"), got, want)
	f.Hint = "the file on the server was replaced, or is not the one that the checksum is of; nothing was written"
	if d.html {
		f.Hint = "the answer is a web page (text/html), such as a login or an error: is it the URL of the file itself? nothing was written"
	}
	return f
}

// unwritable returns the permanent error of a content that could not be written or unpacked.
func (d *download) unwritable(err error) error {
	d.pipe = nil
	if undo := d.undo(); undo != nil {
		d.o.Log.Debug(undo.Error())
	}
	if d.ctx.Err() != nil {
		return d.ctx.Err()
	}
	if d.html && !failure.NoSpace(err) {
		err = failure.WithHint(err, "the answer is a web page (text/html), such as a login or an error: is it the URL of the file itself?")
	}
	return poll.Permanent(err)
}

// drop gives up a content that is not complete.
func (d *download) drop() {
	if d.pipe == nil {
		return
	}
	d.pipe.End(errAborted)
	d.pipe = nil
	d.restarts++
	d.received.Store(0)
	if err := d.undo(); err != nil {
		d.o.Log.Debug(err.Error())
	}
}

// progress returns how much has arrived.
func (d *download) progress() string {
	return words.Bytes(d.received.Load())
}
