package lfs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strconv"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/poll"
)

// mediaType is the media type of the API (docs/api/README.md of git-lfs).
const mediaType = "application/vnd.git-lfs+json"

// batchRequest and batchAnswer are documented in docs/api/batch.md.
type batchRequest struct {
	Operation string        `json:"operation"`
	Transfers []string      `json:"transfers"`
	Ref       *batchRef     `json:"ref,omitempty"`
	Objects   []batchObject `json:"objects"`
	HashAlgo  string        `json:"hash_algo"`
}

type batchRef struct {
	Name string `json:"name"`
}

type batchObject struct {
	OID           string `json:"oid"`
	Size          int64  `json:"size"`
	Authenticated bool   `json:"authenticated,omitempty"`
	Actions       struct {
		Download *action `json:"download,omitempty"`
	} `json:"actions,omitzero"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error,omitempty"`
}

type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

type batchAnswer struct {
	Transfer string        `json:"transfer"`
	Objects  []batchObject `json:"objects"`
	HashAlgo string        `json:"hash_algo"`
}

// batch asks the server where some objects are, and downloads them.
func (f *fetch) batch(ctx context.Context, targets []*target) error {
	answer, err := f.ask(ctx, targets)
	if err != nil {
		return err
	}
	found := map[string]*batchObject{}
	for i, o := range answer.Objects {
		found[o.OID] = &answer.Objects[i]
	}
	for _, t := range targets { // before any download, which would be in vain
		if err := available(t, found[t.oid]); err != nil {
			return err
		}
	}
	return f.each(ctx, targets, func(ctx context.Context, t *target) error { return f.fetch(ctx, t, found[t.oid]) })
}

// available returns an error if the server's answer does not offer an object. It does not quote the server's messages,
// which may contain what was sent.
func available(t *target, o *batchObject) error {
	switch {
	case o == nil:
		return permanent(failure.New(failure.Unexpected, "%v: missing from the server's answer", t), "")
	case o.Error != nil && (o.Error.Code == http.StatusNotFound || o.Error.Code == http.StatusGone):
		return missing(t)
	case o.Error != nil:
		s := failure.Status(o.Error.Code)
		s.Text = fmt.Sprintf("%v: refused by the server: %s", t, s.Text)
		return poll.Permanent(s)
	case o.Actions.Download == nil:
		return missing(t)
	}
	return nil
}

// ask sends a request of the batch API.
func (f *fetch) ask(ctx context.Context, targets []*target) (*batchAnswer, error) {
	request := batchRequest{Operation: "download", Transfers: []string{"basic"}, HashAlgo: "sha256"}
	if f.Ref != "" {
		request.Ref = &batchRef{f.Ref}
	}
	for _, t := range targets {
		request.Objects = append(request.Objects, batchObject{OID: t.oid, Size: t.size})
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	retry := &httpclient.Retry{
		Options: f.HTTP, AttemptTimeout: f.AttemptTimeout, Seed: f.Seed,
		Prepare: func(req *http.Request) error { return f.prepare(req, f.endpoint.header) },
		Notify:  func(_ int, _ *httpclient.Answer, err error, _ time.Duration) { f.report(err) },
	}
	header := http.Header{"Accept": {mediaType}, "Content-Type": {mediaType}, "User-Agent": {"initbox"}}
	address := *f.endpoint.url
	address.Path += "/objects/batch"
	answer, err := retry.Do(ctx, http.MethodPost, address.String(), header, body)
	if err != nil {
		return nil, f.refused(err)
	}
	return decode(answer)
}

// refused adds to an error of the batch API what was requested.
func (f *fetch) refused(err error) error {
	const doing = "request the Git LFS objects"
	var status *httpclient.StatusError
	if !errors.As(err, &status) || errors.As(err, new(*poll.Error)) {
		return fmt.Errorf("%s at %s: %w", doing, f.endpoint.url.Host, err)
	}
	s := failure.Status(status.Status)
	s.Text = doing + " at " + f.endpoint.url.Host + ": " + s.Text
	switch {
	case status.Status == http.StatusNotFound:
		s.Hint = "does the server support Git LFS, and have this repository? if the objects are elsewhere, " + ConfigFile + " must say so (lfs.url)"
	case s.Class == failure.Authentication && !f.endpoint.ours && f.endpoint.header == nil:
		s.Hint = "the server is not that of the repository, but one that " + ConfigFile + " names, to which no credentials are sent"
	}
	return poll.Permanent(s)
}

func decode(a *httpclient.Answer) (*batchAnswer, error) {
	answer := new(batchAnswer)
	switch err := json.Unmarshal(a.Body, answer); {
	case a.Cut || err != nil:
		return nil, permanent(failure.New(failure.Unexpected, "request the Git LFS objects: the answer is not one of the batch API"), "is it the right server?")
	case answer.Transfer != "" && answer.Transfer != "basic":
		return nil, permanent(failure.New(failure.Unexpected, "request the Git LFS objects: the server requires a transfer other than basic"), "")
	case answer.HashAlgo != "" && answer.HashAlgo != "sha256":
		return nil, permanent(failure.New(failure.Unexpected, "request the Git LFS objects: the server uses a hash other than sha256"), "")
	}
	return answer, nil
}

// prepare adds credentials to a request: those given by the server, or else, only for the origin of the repository,
// those of the repository.
func (f *fetch) prepare(req *http.Request, given http.Header) error {
	if given.Get("Authorization") == "" && f.Authorize != nil && f.Remote != nil && httpclient.SameOrigin(req.URL, f.Remote) {
		if _, err := f.Authorize(req.Context(), req); err != nil {
			return err
		}
	}
	maps.Copy(req.Header, given)
	return nil
}

func (f *fetch) report(err error) {
	if f.Log != nil {
		f.Log.Warn(fmt.Sprintf("Git LFS: %v; trying again", failure.Of(err)), failure.Fields("", 0, err))
	}
}

// fetch downloads an object to a temporary file, and passes it to place.
func (f *fetch) fetch(ctx context.Context, t *target, o *batchObject) error {
	file, err := f.Temp()
	if err != nil {
		return err
	}
	defer file.Close()
	policy := poll.Policy{Seed: f.Seed, Notify: func(e poll.Event) {
		if e.Err != nil && !poll.IsPermanent(e.Err) {
			f.report(e.Err)
		}
	}}
	if err := poll.Until(ctx, policy, func(ctx context.Context) error { return f.download(ctx, t, o, file) }); err != nil {
		if errors.As(err, new(*poll.Error)) {
			return fmt.Errorf("download %v: %w", t, err)
		}
		return err
	}
	return f.put(t, file)
}

// download makes one attempt.
func (f *fetch) download(ctx context.Context, t *target, o *batchObject, file *os.File) error {
	href, err := parseWeb(o.Actions.Download.Href)
	if err != nil {
		return permanent(failure.New(failure.Unexpected, "%v: the server names no http or https URL for it", t), "")
	}
	given, err := headers(o.Actions.Download.Header)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, href.String(), nil)
	if err != nil {
		return permanent(failure.New(failure.Unexpected, "%v: the server names no http or https URL for it", t), "")
	}
	req.Header.Set("User-Agent", "initbox")
	req.Header.Set("Accept-Encoding", "identity") // so that Content-Length is the length of the object
	if o.Authenticated {
		maps.Copy(req.Header, given)
	} else if err := f.prepare(req, given); err != nil {
		return err
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return failure.HTTP(err, href.Host)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return turned(t, resp)
	}
	if resp.ContentLength >= 0 && resp.ContentLength != t.size {
		return wrong(t, "the server has %d bytes, but the pointer says %d", resp.ContentLength, t.size)
	}
	if err := restart(file); err != nil {
		return poll.Permanent(err)
	}
	disk := &diskWriter{w: file}
	if err := f.verified(t, disk, resp.Body); err != nil {
		if disk.err != nil {
			return poll.Permanent(disk.err)
		}
		return failure.HTTP(err, href.Host)
	}
	return nil
}

// diskWriter records errors of the disk, to distinguish them from those of the network.
type diskWriter struct {
	w   io.Writer
	err error
}

func (d *diskWriter) Write(p []byte) (n int, err error) {
	n, d.err = d.w.Write(p)
	return n, d.err
}

// restart empties the file for the next attempt.
func restart(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.Seek(0, io.SeekStart)
	return err
}

// turned returns the failure for a download with an unexpected status.
func turned(t *target, resp *http.Response) error {
	s := failure.Status(resp.StatusCode)
	s.Text = fmt.Sprintf("%v: %s", t, s.Text)
	switch {
	case httpclient.ByStatus(&httpclient.Answer{Status: resp.StatusCode}) == httpclient.Again:
		return poll.After(pause(resp.Header.Get("Retry-After")), s)
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return missing(t)
	}
	return poll.Permanent(s)
}

// pause returns how long to wait after a server was busy: as long as it says, but at most a minute.
func pause(retryAfter string) time.Duration {
	const least, most = time.Second, time.Minute
	seconds, err := strconv.Atoi(retryAfter)
	if err != nil || seconds < 0 {
		return least
	}
	return min(max(time.Duration(min(seconds, 60))*time.Second, least), most)
}
