package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"initbox/render/values"
)

// hidden replaces a line that contains a secret.
const hidden = "[a line with a secret]"

// diff records how a result differs from the existing file.
func (out *output) diff(name string, res result) error {
	same, err := out.stage.Holds(name, res.source())
	if err != nil || same {
		return err
	}
	text, err := out.difference(name, res)
	out.mu.Lock()
	out.diffs[name] = text
	out.mu.Unlock()
	return err
}

// maxCompared bounds the files whose lines are compared, in bytes: that takes several times their size.
const maxCompared = 8 << 20

// difference returns how a result differs from the existing file, if there is one.
func (out *output) difference(name string, res result) (string, error) {
	var old []byte
	f, attr, err := out.stage.Old(name)
	existed := err == nil
	if existed {
		old, err = upTo(maxCompared+1, f)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if res.from != nil {
		r, _, err := res.from()
		if err != nil {
			return "", err
		}
		if res.content, err = upTo(maxCompared+1, r); err != nil {
			return "", err
		}
	}
	if max(len(old), len(res.content)) > maxCompared {
		return fmt.Sprintf("Files %s differ, and are longer than %d MiB\n", out.path(name), maxCompared>>20), nil
	}
	return unified(out.path(name), existed, old, res, existed && values.Private(attr.Mode)), nil
}

// upTo reads and closes a file, and returns no more than n bytes of it.
func upTo(n int64, r io.ReadCloser) ([]byte, error) {
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, n))
}

// unified returns the difference in the unified format. In a file with secrets it hides the lines that contain one.
// Which lines of the old content did is unknown, so it hides all removed lines.
func unified(name string, existed bool, old []byte, res result, oldSecret bool) string {
	if bytes.IndexByte(old, 0) >= 0 || bytes.IndexByte(res.content, 0) >= 0 {
		return fmt.Sprintf("Binary files %s differ\n", name)
	}
	before := name
	if !existed {
		before = "/dev/null"
	}
	text := string(diff.Diff(before, old, name, res.content))
	_, text, _ = strings.Cut(text, "\n") // "diff old new", which is not part of the format
	secret := secretLines(res)
	var b strings.Builder
	header := true
	for line := range strings.Lines(text) {
		header = header && !strings.HasPrefix(line, "@@")
		content := strings.TrimSuffix(line, "\n")
		switch {
		case header, content == "", content[0] == '@', content[0] == '\\':
			b.WriteString(line)
		case content[0] == '-' && (res.secret || oldSecret), secret(content[1:]):
			b.WriteString(content[:1] + hidden + "\n")
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

// secretLines returns a function that returns whether a line of a result contains a secret:
// a line that differs when the secrets differ, or every line if that is unknown.
func secretLines(res result) func(line string) bool {
	if !res.secret {
		return func(string) bool { return false }
	}
	real, shadow := strings.Split(string(res.content), "\n"), strings.Split(string(res.shadow), "\n")
	if len(real) != len(shadow) || res.shadow == nil {
		return func(string) bool { return true }
	}
	secret := map[string]bool{}
	for i := range real {
		if real[i] != shadow[i] {
			secret[real[i]] = true
		}
	}
	return func(line string) bool { return secret[line] }
}

// writeDiff writes the recorded differences in the order of the names.
func (out *output) writeDiff(w io.Writer, redact func(string) string) error {
	for _, name := range inOrder(out.diffs) {
		if _, err := io.WriteString(w, redactOld(out.diffs[name], redact)); err != nil {
			return fmt.Errorf("print the differences: %w", err)
		}
	}
	return nil
}

// redactOld removes the secrets from removed lines: an earlier template may have written one
// to a file that everyone can read.
func redactOld(diff string, redact func(string) string) string {
	header, rest, _ := strings.Cut(diff, "@@") // the header has a line with --- too
	var b strings.Builder
	b.WriteString(header)
	if rest != "" {
		b.WriteString("@@")
	}
	for line := range strings.Lines(rest) {
		if line[0] == '-' {
			line = "-" + redact(line[1:])
		}
		b.WriteString(line)
	}
	return b.String()
}
