package command

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// TestJSONLines pins that neither the message nor an attribute can reorder or hide characters of a line.
func TestJSONLines(t *testing.T) {
	var b strings.Builder
	slog.New(newJSONHandler(&b, slog.LevelInfo)).Info("a\u202eb", "error", errors.New("c\u202ed"), "name", "e\u202ef")
	if strings.Contains(b.String(), "\u202e") || strings.Count(b.String(), `\\u202e`) != 3 {
		t.Errorf("%s", b.String())
	}
}
