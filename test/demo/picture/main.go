// Command picture draws the transcript of test/demo as the SVG of a terminal: it reads the transcript from stdin, and
// writes the picture to stdout.
//
//	go run ./test/demo -initbox bin/initbox | go run ./test/demo/picture >docs/demo.svg
//
// Nothing is added to the transcript or left out, except for the manifest before its first line.
package main

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels: of a character, a line, and what is around the text.
const (
	charWidth, lineHeight = 7.8, 20
	left, top, bottom     = 20, 58, 18
)

// colours has a colour for each speaker; others have the colour of the text.
var colours = map[string]string{
	"kubectl": "#82b1ff", "cluster": "#f0b27a", "init-myservice": "#8fd6a4", "init-mydb": "#8fd6a4", "myapp": "#d5a6f0",
}

// spoken is a line of the transcript: the time, the speaker and the text.
var spoken = regexp.MustCompile(`^( *\d+\.\ds)  ([\w-]+) *\| (.*)$`)

// A line is one line of the picture.
type line struct{ time, speaker, text string }

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// draw reads a transcript and writes its picture. It is an error if the transcript has no lines.
func draw(r io.Reader, w io.Writer) error {
	lines, columns, err := read(r)
	if err != nil {
		return err
	}
	width, height := int(left*2+float64(columns)*charWidth), top+len(lines)*lineHeight+bottom
	out := &bytes.Buffer{}
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`+"\n", width, height)
	fmt.Fprintln(out, "<title>A Pod starts: its init containers log what is missing, until it is there</title>")
	fmt.Fprintln(out, `<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#dfe6ee;white-space:pre}.t{fill:#93a1b1}</style>`)
	fmt.Fprintf(out, `<rect width="%d" height="%d" rx="12" fill="#10151c"/>`+"\n", width, height)
	fmt.Fprintln(out, `<circle cx="24" cy="22" r="6" fill="#ec6a5e"/><circle cx="44" cy="22" r="6" fill="#f4bf4f"/><circle cx="64" cy="22" r="6" fill="#61c554"/>`)
	text(out, width/2-36, 26, ` class="t"`, "make demo")
	for i, l := range lines {
		y := top + i*lineHeight
		text(out, left, y, ` class="t"`, l.time)
		text(out, left+column(8), y, fmt.Sprintf(` fill="%[1]s" style="fill:%[1]s"`, colourOf(l.speaker)), l.speaker)
		text(out, left+column(24), y, "", l.text)
	}
	fmt.Fprintln(out, "</svg>")
	_, err = w.Write(out.Bytes())
	return err
}

// read returns the lines of a transcript, and the number of columns that they take.
func read(r io.Reader) (lines []line, columns int, err error) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		found := spoken.FindStringSubmatch(scanner.Text())
		if found == nil {
			continue
		}
		lines = append(lines, line{found[1], found[2], found[3]})
		columns = max(columns, 24+utf8.RuneCountInString(found[3]))
	}
	if err := scanner.Err(); err != nil {
		return nil, 0, fmt.Errorf("reading the transcript: %w", err)
	}
	if len(lines) == 0 {
		return nil, 0, fmt.Errorf("reading the transcript: no line of it is like %q", "  0.0s  kubectl | …")
	}
	return lines, columns, nil
}

// column returns the distance of a column from the first one.
func column(n int) int { return int(float64(n) * charWidth) }

func colourOf(speaker string) string {
	if c := colours[speaker]; c != "" {
		return c
	}
	return "#dfe6ee"
}

// text writes a piece of text that is as wide as its characters are in a terminal, whatever the font.
func text(w *bytes.Buffer, x, y int, attributes, s string) {
	fmt.Fprintf(w, `<text x="%d" y="%d"%s textLength="%.1f" lengthAdjust="spacingAndGlyphs">`, x, y, attributes, float64(utf8.RuneCountInString(s))*charWidth)
	xml.EscapeText(w, []byte(strings.ReplaceAll(s, " ", "\u00a0")))
	fmt.Fprintln(w, "</text>")
}
