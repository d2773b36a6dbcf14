// Package attributes converts files as .gitattributes demand when git writes them: line endings, $Id$ and encodings
// (gitattributes(5)). It also knows which files may be Git LFS pointers:
//
//	set, err := attributes.Load([]string{".gitattributes"}, read)
//	a := set.For("docs/readme.txt")
//	if a.Converts() {
//		content, warning, err := attributes.Convert(blob, a, id)
//	}
//
// It parses the files and matches the patterns exactly like git's attr.c.
package attributes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"initbox/clone/wildmatch"
)

// FileName is the name of the files with attributes, each for the directory that contains it.
const FileName = ".gitattributes"

// maxTotal limits the size of all .gitattributes of a tree, in bytes: every rule is compared with every path.
const maxTotal = 16 << 20

// The attributes that matter when a file is written.
const (
	attrText = iota
	attrCRLF // the old name of text
	attrEOL
	attrIdent
	attrEncoding
	attrFilter
	firstMacro
)

var names = [firstMacro]string{"text", "crlf", "eol", "ident", "working-tree-encoding", "filter"}

// Set holds all attributes of a tree. The zero value has none. Several goroutines may use it at a time.
type Set struct {
	directories map[string][]rule // by the directory's path; "" is the top
	index       map[string]int    // of the attributes, by name
	macros      map[int][]state   // by the attribute's index
	converts    bool
	lfs         bool
}

// rule is a line of a .gitattributes.
type rule struct {
	pattern pattern
	states  []state
}

// state is what a rule says about one attribute.
type state struct {
	attr  int
	kind  kind
	value string
}

type kind byte

const (
	unknown     kind = iota
	set              // text
	unset            // -text
	unspecified      // !text
	valued           // text=auto
)

// Load parses the .gitattributes at these paths of a tree; read returns their content. They must be regular files: git
// does not follow links here.
func Load(files []string, read func(path string) ([]byte, error)) (*Set, error) {
	s := &Set{directories: map[string][]rule{}, index: map[string]int{}, macros: map[int][]state{}}
	for i, name := range names {
		s.index[name] = i
	}
	builtin, _ := s.parse("[attr]binary -diff -merge -text", true, true) // gitattributes(5), BUILT-IN MACRO ATTRIBUTES
	s.add("", builtin)
	files = slices.Sorted(slices.Values(files)) // the top directory first: the rules of others may use its macros
	total := 0
	if i := slices.Index(files, FileName); i > 0 {
		files[0], files[i] = files[i], files[0]
	}
	for _, name := range files {
		content, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if total += len(content); total > maxTotal {
			return nil, fmt.Errorf("the tree has more than %d MiB of %s", maxTotal>>20, FileName)
		}
		dir := path.Dir(name)
		if dir == "." {
			dir = ""
		}
		s.load(dir, content)
	}
	return s, nil
}

// load parses one file: its macros first; the last definition of a macro counts.
func (s *Set) load(dir string, content []byte) {
	text := string(content)
	if nul := strings.IndexByte(text, 0); nul >= 0 { // where git stops reading
		text = text[:nul]
	}
	if dir == "" {
		s.declare(text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		r, macro := s.parse(line, dir == "", false)
		if r != nil && !macro {
			s.add(dir, r)
		}
	}
}

// declare parses the macros of the file in the top directory.
func (s *Set) declare(text string) {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if name, ok := macroName(line); ok {
			if _, known := s.index[name]; !known {
				s.index[name] = len(s.index)
			}
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		s.parse(line, true, true)
	}
}

// add keeps a rule if it has attributes that matter.
func (s *Set) add(dir string, r *rule) {
	if r == nil || len(r.states) == 0 {
		return
	}
	s.directories[dir] = append(s.directories[dir], *r)
}

// note records whether a rule may demand a conversion.
func (s *Set) note(states []state) {
	for _, st := range states {
		switch st.attr {
		case attrEOL:
			s.converts = s.converts || st.kind == valued && st.value == "crlf"
		case attrIdent:
			s.converts = s.converts || st.kind == set
		case attrEncoding:
			s.converts = s.converts || st.kind == valued && !isUTF8(st.value)
		case attrFilter:
			s.lfs = s.lfs || st.kind == valued && st.value == "lfs"
		}
	}
}

// Converts reports whether [Convert] may change any file. If not, there is no need to call For.
func (s *Set) Converts() bool { return s.converts }

// LFS reports whether any file may be a Git LFS pointer.
func (s *Set) LFS() bool { return s.lfs }

// EOL says how line feeds are converted.
type EOL byte

const (
	Keep     EOL = iota
	CRLF         // to CR LF, unless preceded by a carriage return already
	AutoCRLF     // to CR LF, if the file looks like text and has no carriage return
)

// Attributes are the attributes of one file.
type Attributes struct {
	EOL      EOL
	Ident    bool   // $Id$ is replaced by the ID of the blob
	Encoding string // to which UTF-8 is converted; "" for none
	LFS      bool   // filter=lfs: the blob may be a pointer to an object of Git LFS
}

// Converts reports whether [Convert] may change a file with these attributes.
func (a Attributes) Converts() bool { return a.EOL != Keep || a.Ident || a.Encoding != "" }

// For returns the attributes of the file at a path of the tree.
func (s *Set) For(name string) Attributes {
	if !s.converts && !s.lfs {
		return Attributes{}
	}
	return s.find(name).attributes()
}

// find searches from the directory of the file upwards, and in each .gitattributes from the last line upwards: the
// first state found counts.
func (s *Set) find(name string) *values {
	v := &values{set: s}
	for dir, base := name, path.Base(name); dir != ""; {
		dir = dir[:max(0, strings.LastIndexByte(dir, '/'))]
		rules := s.directories[dir]
		for i := len(rules) - 1; i >= 0; i-- {
			if rules[i].pattern.matches(name, base, dir) {
				v.fill(rules[i].states)
			}
		}
	}
	return v
}

// values are the states of a file's attributes that have been found so far.
type values struct {
	set   *Set
	found [firstMacro]state
	macro map[int]bool // macros that have been seen, in any state
}

// fill adds the states of a rule, from the last to the first, and those of the macros that it sets.
func (v *values) fill(states []state) {
	for i := len(states) - 1; i >= 0; i-- {
		st := states[i]
		if st.attr < firstMacro {
			if v.found[st.attr].kind != unknown {
				continue
			}
			v.found[st.attr] = st
		} else {
			if v.macro[st.attr] {
				continue
			}
			if v.macro == nil {
				v.macro = map[int]bool{}
			}
			v.macro[st.attr] = true
		}
		if st.kind == set {
			v.fill(v.set.macros[st.attr])
		}
	}
}

// attributes implements git's convert_attrs, with the default configuration on Linux.
func (v *values) attributes() (a Attributes) {
	text := v.textual(attrText)
	if text == "" {
		text = v.textual(attrCRLF)
	}
	eol := v.found[attrEOL]
	if text != "binary" && eol.kind == valued && eol.value == "crlf" {
		a.EOL = CRLF
		if text == "auto" {
			a.EOL = AutoCRLF
		}
	}
	a.Ident = v.found[attrIdent].kind == set
	if enc := v.found[attrEncoding]; enc.kind == valued && !isUTF8(enc.value) {
		a.Encoding = enc.value
	}
	filter := v.found[attrFilter]
	a.LFS = filter.kind == valued && filter.value == "lfs"
	return a
}

// textual implements git's git_path_check_crlf.
func (v *values) textual(attr int) string {
	switch st := v.found[attr]; st.kind {
	case set:
		return "text"
	case unset:
		return "binary"
	case valued:
		if st.value == "input" || st.value == "auto" {
			return st.value
		}
	}
	return ""
}

// pattern says to which files a rule applies.
type pattern struct {
	text    string
	literal int  // bytes before the first special one
	name    bool // it has no slash, and matches file names
	suffix  bool // it is * and literal text
}

// matches reports whether the pattern, from the .gitattributes of a directory, matches a path whose last part is base
// (path_matches).
func (p *pattern) matches(name, base, directory string) bool {
	switch {
	case p.name && p.literal == len(p.text):
		return base == p.text
	case p.suffix:
		return strings.HasSuffix(base, p.text[1:])
	case p.name:
		return strings.HasPrefix(base, p.text[:p.literal]) && wildmatch.Match(p.text, base, false)
	}
	if directory != "" {
		name = name[len(directory)+1:]
	}
	rest, ok := strings.CutPrefix(name, p.text[:p.literal])
	if !ok || p.literal == len(p.text) {
		return ok && rest == ""
	}
	return wildmatch.Match(p.text[p.literal:], rest, true) // like git, without the literal part
}
