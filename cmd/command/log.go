package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"initbox/internal/failure"
)

// textHandler writes log lines for people: the time, the level unless it is info, and the message, with a Role to apply
// on the lines below. The other attributes, which the message already has in words, follow only if the handler's level
// is debug.
type textHandler struct {
	w      io.Writer
	level  slog.Level
	prefix string // of each message
	attrs  []slog.Attr
	mu     *sync.Mutex // of w, shared with the handlers made from this one
}

func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	b.WriteString(r.Time.UTC().Format("2006-01-02T15:04:05.000Z "))
	if r.Level != slog.LevelInfo {
		fmt.Fprintf(&b, "%s ", r.Level)
	}
	message, fields := r.Message, h.attrs[:len(h.attrs):len(h.attrs)]
	r.Attrs(func(a slog.Attr) bool { fields = append(fields, flat(a)...); return true })
	for _, a := range fields {
		if a.Key == failure.RoleField {
			message += "\n" + strings.TrimSuffix(a.Value.String(), "\n")
		}
	}
	b.WriteString(h.prefix + failure.Lines(message))
	for _, a := range fields {
		if h.level <= slog.LevelDebug && a.Key != failure.RoleField && text(a.Value) != "" {
			fmt.Fprintf(&b, " %s=%q", a.Key, text(a.Value))
		}
	}
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := h.w.Write(b.Bytes())
	return err
}

// flat returns the attributes, and those in groups.
func flat(attrs ...slog.Attr) (all []slog.Attr) {
	for _, a := range attrs {
		if a.Value.Kind() == slog.KindGroup {
			all = append(all, flat(a.Value.Group()...)...)
		} else {
			all = append(all, a)
		}
	}
	return all
}

func text(v slog.Value) string {
	if v.Kind() == slog.KindDuration {
		return v.Duration().Round(time.Millisecond).String()
	}
	return v.String()
}

func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &textHandler{w: h.w, level: h.level, prefix: h.prefix, mu: h.mu, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], flat(attrs...)...)}
}

// newJSONHandler returns a handler that writes log lines for programs, without empty fields. encoding/json escapes
// control characters, but not those that reorder or hide others when the line is printed.
func newJSONHandler(w io.Writer, level slog.Level) slog.Handler {
	return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if _, isError := a.Value.Any().(error); isError || a.Value.Kind() == slog.KindString {
			a.Value = slog.StringValue(failure.Lines(a.Value.String()))
		}
		if a.Value.Kind() == slog.KindString && a.Value.String() == "" && a.Key != slog.MessageKey {
			return slog.Attr{}
		}
		return a
	}})
}

// WithGroup is not used in this program.
func (h *textHandler) WithGroup(string) slog.Handler { return h }
