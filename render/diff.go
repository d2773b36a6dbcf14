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

// hidden stands for a line with a secret in it.
const hidden = "[a line with a secret]"

// diff notes the difference that a result makes.
func (out *output) diff(name string, res result) error {
	old, attr, err := out.stage.Old(name)
	existed := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("compare with %s: %w", out.path(name), err)
	}
	if existed && bytes.Equal(old, res.content) {
		return nil
	}
	text := unified(out.path(name), existed, old, res, existed && values.Private(attr.Mode))
	out.mu.Lock()
	out.diffs[name] = text
	out.mu.Unlock()
	return nil
}

// unified returns the difference in the unified format. Of a file with secrets
// the lines that hold one are hidden: of the old content, whose secrets nobody
// knows any more, all that are gone.
func unified(name string, existed bool, old []byte, res result, oldSecret bool) string {
	if bytes.IndexByte(old, 0) >= 0 || bytes.IndexByte(res.content, 0) >= 0 {
		return fmt.Sprintf("Binary files %s differ\n", name)
	}
	before := name
	if !existed {
		before = "/dev/null"
	}
	text := string(diff.Diff(before, old, name, res.content))
	_, text, _ = strings.Cut(text, "\n") // "diff old new", which is no part of the format
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

// secretLines returns a function that tells which lines of a result hold a
// secret: those that are others with other secrets, or all if it cannot tell.
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

// writeDiff writes the noted differences in the order of the names.
func (out *output) writeDiff(w io.Writer, redact func(string) string) error {
	for _, name := range inOrder(out.diffs) {
		if _, err := io.WriteString(w, redactOld(out.diffs[name], redact)); err != nil {
			return fmt.Errorf("print the differences: %w", err)
		}
	}
	return nil
}

// redactOld takes the secrets out of the lines that go: a template may have had
// one in it, in a file for all to read, and has it no longer.
func redactOld(diff string, redact func(string) string) string {
	header, rest, _ := strings.Cut(diff, "@@") // which has a line with --- itself
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
