// Package sysctl sets parameters of the kernel: files below /proc/sys and /sys.
//
//	s, err := sysctl.Parse("vm.max_map_count=262144")
//	…
//	err = sysctl.Apply(ctx, []sysctl.Setting{s}, sysctl.Options{Log: log})
package sysctl

import (
	"errors"
	"fmt"
	"math/big"
	"path"
	"strings"
)

// Setting is a parameter with the value that it should have.
type Setting struct {
	Key      string // as it was written
	Path     string // of its file
	Value    string
	AtLeast  bool // a greater value is right, too
	IfExists bool // no error if the kernel does not have it
	Lenient  bool // a failure is only logged
}

// Parse reads KEY=VALUE or KEY>=VALUE. KEY is a name such as vm.max_map_count or net/ipv4/ip_forward, or the absolute
// path of a file.
func Parse(text string) (Setting, error) {
	s, err := parse(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", s.Key, err)
	}
	return s, nil
}

// parse is Parse with an error that quotes nothing.
func parse(text string) (s Setting, err error) {
	key, value, found := strings.Cut(text, "=")
	key, atLeast := strings.CutSuffix(strings.TrimSpace(key), ">")
	s = Setting{Key: strings.TrimSpace(key), Value: strings.TrimSpace(value), AtLeast: atLeast}
	switch {
	case !found:
		return s, errors.New("want KEY=VALUE, as in vm.max_map_count=262144")
	case strings.ContainsAny(s.Value, "\n\x00"):
		return s, errors.New("the value has a line break, or a zero byte")
	case atLeast && number(s.Value) == nil:
		return s, errors.New("want a whole number after >=")
	}
	s.Path, err = file(s.Key)
	return s, err
}

// file returns the file of a key. As with sysctl(8), the first dot or slash of a name is the separator, and the other
// one is part of a word: eth0.100 is written net.ipv4.conf.eth0/100 or net/ipv4/conf/eth0.100.
func file(key string) (string, error) {
	name := key
	if !strings.HasPrefix(key, "/") {
		if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
			name = strings.NewReplacer(".", "/", "/", ".").Replace(key)
		}
		name = "/proc/sys/" + name
	}
	switch {
	case strings.ContainsAny(key, "*?["):
		return "", errors.New("patterns are not expanded: name each parameter")
	case key == "" || path.Clean(name) != name || strings.ContainsAny(key, " \t\n\x00"):
		return "", errors.New("not the name of a parameter such as vm.max_map_count, nor the path of its file")
	case strings.HasPrefix(name, "/proc/") && !strings.HasPrefix(name, "/proc/sys/"):
		return "", errors.New("not below /proc/sys or /sys")
	}
	return name, nil
}

// ParseFile reads the format of sysctl.conf: lines KEY = VALUE, with - in front if a failure is to be only logged, and
// comments that begin with # or ;.
func ParseFile(text string) (settings []Setting, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		line, lenient := strings.CutPrefix(line, "-")
		s, err := parse(line)
		if err != nil { // without the key: this may be another file, with secrets
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		s.Lenient = lenient
		settings = append(settings, s)
	}
	return settings, nil
}

// name returns the key as Kubernetes writes it: with dots between the words, or the path of a file elsewhere.
func (s Setting) name() string {
	name, found := strings.CutPrefix(s.Path, "/proc/sys/")
	if !found {
		return s.Path
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

// right returns whether the content of the file is the value.
func (s Setting) right(content string) bool {
	have := current(content)
	if s.AtLeast {
		n := number(have)
		return n != nil && n.Cmp(number(s.Value)) >= 0
	}
	is, want := strings.Fields(have), strings.Fields(s.Value)
	for i := range is {
		if len(is) != len(want) || is[i] != want[i] && !equal(number(is[i]), number(want[i])) {
			return false
		}
	}
	return len(is) == len(want)
}

// current returns the value in the content of a file: of several choices, as in "always [madvise] never", the one in
// brackets.
func current(content string) string {
	for _, word := range choices(content) {
		if inner, found := strings.CutPrefix(word, "["); found {
			return strings.TrimSuffix(inner, "]")
		}
	}
	return strings.Join(strings.Fields(content), " ")
}

// choices returns the words of a file that shows all possible values, with the current one in brackets, or nil.
func choices(content string) []string {
	words, marked := strings.Fields(content), 0
	for _, word := range words {
		if len(word) > 2 && word[0] == '[' && word[len(word)-1] == ']' {
			marked++
		}
	}
	if marked != 1 || len(words) < 2 {
		return nil
	}
	return words
}

// number returns the number that a word is, as the kernel reads it (0x10 and 010 too), or nil.
func number(word string) *big.Int {
	n, ok := new(big.Int).SetString(word, 0)
	if !ok || strings.Contains(word, "_") {
		return nil
	}
	return n
}

func equal(a, b *big.Int) bool { return a != nil && b != nil && a.Cmp(b) == 0 }
