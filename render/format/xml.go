package format

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"initbox/internal/lazy"
)

// checkXML requires a well-formed document: one root, closed elements, no duplicate
// attributes. It reads no DTD and no other file.
func checkXML(data []byte) error {
	type element struct {
		name xml.Name
		line int
	}
	var open []element
	root := false
	dec := xmlDecoder(data)
	for {
		token, err := dec.RawToken() // Token stops at the end of the file without saying what is not closed
		if err == io.EOF {
			break
		}
		if err != nil {
			return xmlError(err)
		}
		line, column := dec.InputPos()
		wrong := ""
		switch token := token.(type) {
		case xml.StartElement:
			switch {
			case len(open) == 0 && root:
				wrong = "a second root element"
			case len(open) == MaxDepth:
				return tooDeep()
			case hasTwice(token.Attr):
				wrong = "duplicate attribute"
			}
			root = true
			open = append(open, element{token.Name, line})
		case xml.EndElement:
			in := len(open) - 1
			switch {
			case in < 0:
				wrong = "an end tag without a start tag"
			case open[in].name != token.Name:
				wrong = fmt.Sprintf("an end tag that does not match the element that begins on line %d", open[in].line)
			default:
				open = open[:in]
			}
		case xml.CharData:
			if text := bytes.TrimPrefix(token, []byte("\ufeff")); len(open) == 0 && len(bytes.TrimSpace(text)) > 0 {
				wrong = "text outside the root element"
			}
		}
		if wrong != "" {
			return &Error{Line: line, Column: column, Text: wrong}
		}
	}
	if len(open) > 0 {
		return &Error{Line: open[len(open)-1].line, Text: "the element that begins here is not closed"}
	}
	if !root {
		return &Error{Text: "no root element"}
	}
	return nil
}

var xmlEntity = lazy.Regexp(`<!ENTITY\s+([^\s%]+)\s`)

// xmlDecoder reads data. It treats declared entities as empty.
func xmlDecoder(data []byte) *xml.Decoder {
	dec := xml.NewDecoder(bytes.NewReader(data))
	dec.CharsetReader = charset
	dec.Entity = map[string]string{}
	for _, m := range xmlEntity().FindAllSubmatch(data, -1) {
		dec.Entity[string(m[1])] = ""
	}
	return dec
}

func hasTwice(attrs []xml.Attr) bool {
	seen := make(map[xml.Name]bool, len(attrs))
	for _, a := range attrs {
		if seen[a.Name] {
			return true
		}
		seen[a.Name] = true
	}
	return false
}

// charset reads other encodings as if they were ASCII: only markup matters.
func charset(name string, r io.Reader) (io.Reader, error) {
	switch strings.ToLower(name) {
	case "us-ascii", "ascii":
		return r, nil
	case "iso-8859-1", "latin1", "iso-8859-15", "windows-1252":
		data, err := io.ReadAll(r)
		return strings.NewReader(latin1(data)), err
	}
	return nil, errors.New("unknown encoding")
}

// xmlCauses translates the messages of encoding/xml.
var xmlCauses = causes{
	{"unexpected EOF in CDATA", "a CDATA section is not closed"},
	{"unexpected EOF", "the file ends in the middle of an element"},
	{"expected element name", "a < that begins no element: it is written &lt; in text"},
	{"character entity", "an & that begins no entity known here: it is written &amp; in text"},
	{"expected /> in element", "a / in a tag without a > after it"},
	{"attribute name in element", "an attribute's name is expected here"},
	{"without =", "an attribute without a value"},
	{"attribute value", "an attribute's value without quotes"},
	{"]]>", "a ]]> outside a CDATA section"},
	{"unescaped <", "a < in an attribute: it is written &lt; there"},
	{"invalid UTF-8", "not UTF-8"},
	{"illegal character code", "a character that XML does not allow"},
	{"<!-", "a malformed comment"},
	{"in comment", "a -- in a comment"},
	{"<![", "a malformed CDATA section"},
	{"unsupported version", "not XML 1.0"},
	{"charset", "the declared encoding is not supported"},
	{"encoding", "the declared encoding is not supported"},
	{"target name", "a malformed processing instruction"},
	{"invalid characters between", "something follows the name in an end tag"},
	{"invalid XML name", "not a name"},
}

func xmlError(err error) error {
	e, text := &Error{}, err.Error()
	if syntax := (*xml.SyntaxError)(nil); errors.As(err, &syntax) {
		e.Line, text = syntax.Line, syntax.Msg
	}
	e.Text = xmlCauses.text(text, "not XML")
	return e
}
