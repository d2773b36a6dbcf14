package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/lazy"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// maxChecksums limits a file of checksums, in bytes.
const maxChecksums = 1 << 20

// sums are the checksums of a content, in hexadecimal digits; "" if unknown.
type sums struct {
	SHA256 string `json:"sha256,omitempty"`
	SHA512 string `json:"sha512,omitempty"`
}

// known returns whether there is any checksum.
func (s sums) known() bool { return s != sums{} }

// fits returns whether s has the checksums of want that are known.
func (s sums) fits(want sums) bool {
	return (want.SHA256 == "" || want.SHA256 == s.SHA256) && (want.SHA512 == "" || want.SHA512 == s.SHA512)
}

// checksums requests the checksum of a source from its checksum-url.
func (d *download) checksums(ctx context.Context) (sums, error) {
	resp, err := d.get(ctx, d.src.Checksums, plainHeader())
	if err != nil {
		return sums{}, within("checksum-url", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sums{}, within("checksum-url", d.refused(resp))
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxChecksums+1))
	switch {
	case err != nil:
		return sums{}, within("checksum-url", httpclient.Reason(ctx, err, resp.Request.URL.Host))
	case len(text) > maxChecksums:
		return sums{}, poll.Permanent(failure.New(failure.Unexpected, "checksum-url: the answer is longer than 1 MiB, and so not a list of checksums"))
	}
	name := path.Base(d.src.URL.Path)
	found, err := findChecksum(string(text), name)
	if err != nil {
		return sums{}, poll.Permanent(within("checksum-url", err))
	}
	return found, nil
}

// Lines of a list of checksums: that of sha256sum and sha512sum, whose second blank is an asterisk for binary files,
// and that of BSD.
var (
	sumLine = lazy.Regexp(`^\\?([0-9A-Fa-f]+)(?:[ \t]+\*?(.+))?$`)
	bsdLine = lazy.Regexp(`^[A-Za-z0-9/-]+ ?\((.+)\) ?= ?([0-9A-Fa-f]+)$`)
)

// findChecksum returns the checksums of the file called name in a list. A list that is a checksum alone, or has that of
// one file without a name, is for any file.
func findChecksum(text, name string) (found sums, err error) {
	var names []string
	short := false
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimSpace(line)
		digits, file := "", ""
		if m := bsdLine().FindStringSubmatch(line); m != nil {
			digits, file = m[2], m[1]
		} else if m := sumLine().FindStringSubmatch(line); m != nil {
			digits, file = m[1], m[2]
		}
		if digits == "" || len(digits) < 32 {
			continue
		}
		if file != "" && path.Base(file) != name {
			names = append(names, path.Base(file))
			continue
		}
		to := map[int]*string{64: &found.SHA256, 128: &found.SHA512}[len(digits)]
		switch {
		case to == nil:
			short = true
		case *to != "" && !strings.EqualFold(*to, digits):
			return sums{}, fmt.Errorf("it has two different checksums of %s", failure.Printable(name))
		default:
			*to = strings.ToLower(digits)
		}
	}
	switch {
	case found.known():
		return found, nil
	case short:
		return found, failure.New(failure.Unexpected, "the checksum of %s is neither SHA-256 nor SHA-512", failure.Printable(name))
	case len(names) > 0:
		return found, failure.New(failure.Unexpected, "it has no checksum of %s, but of %s", failure.Printable(name), failure.Printable(words.List(names)))
	}
	return found, failure.New(failure.Unexpected, "the answer is not a list of checksums").
		WithHint("want lines as those of sha256sum: 64 hexadecimal digits, two blanks and the name of the file")
}

// within says which part of a download an error is about. It keeps its class, and whether it is permanent.
func within(what string, err error) error {
	f := failure.Of(err)
	f.Text, f.Err = what+": "+f.Text, err
	return f
}
