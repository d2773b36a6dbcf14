package main

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	var out bytes.Buffer
	transcript := "The Pod:\n\n    args: [sleep]\n\n  0.0s  kubectl        | STATUS\n 12.1s  init-mydb      | $ initbox <&> \"x\"\n"
	if err := draw(strings.NewReader(transcript), &out); err != nil {
		t.Fatal(err)
	}
	var drawn []string
	for d := xml.NewDecoder(&out); ; {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if data, ok := token.(xml.CharData); ok && strings.TrimSpace(string(data)) != "" {
			drawn = append(drawn, strings.ReplaceAll(string(data), "\u00a0", " "))
		}
	}
	got := strings.Join(drawn[len(drawn)-6:], "|")
	if want := `  0.0s|kubectl|STATUS| 12.1s|init-mydb|$ initbox <&> "x"`; got != want {
		t.Errorf("the picture shows %q, want %q", got, want)
	}
	if strings.Contains(strings.Join(drawn, "|"), "args") {
		t.Errorf("the picture shows the manifest: %q", drawn)
	}
}

func TestDrawNothing(t *testing.T) {
	if err := draw(strings.NewReader("demo: no such binary\n"), io.Discard); err == nil {
		t.Error("no error for a transcript without lines")
	}
}
