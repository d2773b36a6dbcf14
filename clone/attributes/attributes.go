// Package attributes does to files what .gitattributes ask for when git writes
// them: line ends, $Id$, encodings (gitattributes(5)). It reads the files and
// matches the patterns as git's attr.c does, and knows which files are Git LFS's.
package attributes

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"initbox/clone/wildmatch"
)

// FileName is that of files of attributes, which hold for the folder they are in.
const FileName = ".gitattributes"

// maxTotal bounds all files of attributes of a tree, in bytes: a rule is compared
// with every path.
const maxTotal = 16 << 20

// The attributes that count when a file is written.
const (
	attrText = iota
	attrCRLF // what text was called before
	attrEOL
	attrIdent
	attrEncoding
	attrFilter
	firstMacro
)

var names = [firstMacro]string{"text", "crlf", "eol", "ident", "working-tree-encoding", "filter"}

// Set is all attributes of a tree. The zero value has none. It may be used from
// several goroutines at once.
type Set struct {
	folders  map[string][]rule // by the folder's path; "" is the top
	index    map[string]int    // of attributes' names
	macros   map[int][]state   // by the attribute's index
	converts bool
	lfs      bool
}

// rule is a line.
type rule struct {
	pattern pattern
	states  []state
}

// state is what a rule says of one attribute.
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

// Load reads the .gitattributes at these paths of a tree (those that are regular
// files; git follows no links), with read for their content.
func Load(files []string, read func(path string) ([]byte, error)) (*Set, error) {
	s := &Set{folders: map[string][]rule{}, index: map[string]int{}, macros: map[int][]state{}}
	for i, name := range names {
		s.index[name] = i
	}
	builtin, _ := s.parse("[attr]binary -diff -merge -text", true, true) // gitattributes(5), BUILT-IN MACRO ATTRIBUTES
	s.add("", builtin)
	files = slices.Sorted(slices.Values(files)) // the top comes before the folders, whose rules may use its macros
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

// load takes one file: first its macros, of which the last of a name counts.
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

// declare takes the macros of the top folder's file.
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

// add keeps a rule that says something of what counts.
func (s *Set) add(dir string, r *rule) {
	if r == nil || len(r.states) == 0 {
		return
	}
	s.folders[dir] = append(s.folders[dir], *r)
}

// note remembers whether anything asks for a conversion at all.
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

// Converts reports whether there may be a file that [Convert] changes. If not, For
// need not be asked.
func (s *Set) Converts() bool { return s.converts }

// LFS reports whether there may be a file that is Git LFS's.
func (s *Set) LFS() bool { return s.lfs }

// EOL is what becomes of line feeds.
type EOL byte

const (
	Keep     EOL = iota
	CRLF         // carriage returns are put before those that have none
	AutoCRLF     // in what looks like text without any carriage return
)

// Attributes are those of one file.
type Attributes struct {
	EOL      EOL
	Ident    bool   // $Id$ is followed by the blob's id
	Encoding string // what UTF-8 becomes; "" for nothing else
	LFS      bool   // filter=lfs: if the blob is a pointer, it stands for what it points to
}

// Converts reports whether [Convert] may change a file with these attributes.
func (a Attributes) Converts() bool { return a.EOL != Keep || a.Ident || a.Encoding != "" }

// For returns the attributes of a file, by its path in the tree.
func (s *Set) For(name string) Attributes {
	if !s.converts && !s.lfs {
		return Attributes{}
	}
	return s.find(name).attributes()
}

// find looks from the file's own folder up, in each from the last line up: what is
// found first counts.
func (s *Set) find(name string) *values {
	v := &values{set: s}
	for dir, base := name, path.Base(name); dir != ""; {
		dir = dir[:max(0, strings.LastIndexByte(dir, '/'))]
		rules := s.folders[dir]
		for i := len(rules) - 1; i >= 0; i-- {
			if rules[i].pattern.matches(name, base, dir) {
				v.fill(rules[i].states)
			}
		}
	}
	return v
}

// values are what was found of a file's attributes so far.
type values struct {
	set   *Set
	found [firstMacro]state
	macro map[int]bool // those that were seen, whatever was said of them
}

// fill takes the states of a rule, the last first; a macro that is set brings its
// own.
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

// attributes is git's convert_attrs, with its configuration's defaults on Linux.
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

// textual is git's git_path_check_crlf.
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

// pattern is where a rule holds.
type pattern struct {
	text    string
	literal int  // bytes before the first that is special
	name    bool // it has no slash, and is of names
	suffix  bool // * and what is literal
}

// matches reports whether the pattern, of the file in a folder, matches a path,
// the last part of which is base (path_matches).
func (p *pattern) matches(name, base, folder string) bool {
	switch {
	case p.name && p.literal == len(p.text):
		return base == p.text
	case p.suffix:
		return strings.HasSuffix(base, p.text[1:])
	case p.name:
		return strings.HasPrefix(base, p.text[:p.literal]) && wildmatch.Match(p.text, base, false)
	}
	if folder != "" {
		name = name[len(folder)+1:]
	}
	rest, ok := strings.CutPrefix(name, p.text[:p.literal])
	if !ok || p.literal == len(p.text) {
		return ok && rest == ""
	}
	return wildmatch.Match(p.text[p.literal:], rest, true) // without what was literal, as git does
}
