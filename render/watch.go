package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"

	"initbox/render/values"
)

// Sum identifies the results of a run, in hex: their names, and the contents of those without a secret, which might be
// guessed from it.
type Sum struct {
	mu    sync.Mutex
	files map[string]string // sums of contents, by path; "" of one with a secret
}

// String returns the sum.
func (s *Sum) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := sha256.New()
	for _, path := range inOrder(s.files) {
		fmt.Fprintf(h, "%s\x00%x\n", path, s.files[path])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// add adds a result.
func (s *Sum) add(path string, res result) error {
	h := sha256.New()
	if !res.secret {
		content, _, err := res.source()()
		if err != nil {
			return err
		}
		defer content.Close()
		if _, err := io.Copy(h, content); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[path] = ""; !res.secret {
		s.files[path] = string(h.Sum(nil))
	}
	return nil
}

// clear forgets all results.
func (s *Sum) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = map[string]string{}
}

// Paths returns the files and directories that a run reads, as far as the options show them.
func (o Options) Paths() []string {
	paths := append([]string{o.ValuesSchema, o.Files}, o.Partials...)
	for _, s := range o.Sources {
		paths = append(paths, s.From)
	}
	for _, v := range o.Values {
		switch {
		case v.Kind == values.File && !v.Remote():
			paths = append(paths, v.Text)
		case v.Kind == values.SetFile:
			for pair := range strings.SplitSeq(v.Text, ",") {
				_, file, _ := strings.Cut(pair, "=")
				paths = append(paths, file)
			}
		}
	}
	for _, s := range o.Schemas {
		paths = append(paths, s.Value)
	}
	for _, pair := range o.Environ {
		if name, file, _ := strings.Cut(pair, "="); strings.HasSuffix(name, fileSuffix) && filepath.IsAbs(file) {
			paths = append(paths, file)
		}
	}
	var real []string
	for _, path := range paths {
		if cmp.Or(path, "-") != "-" {
			real = append(real, path)
		}
	}
	return real
}
