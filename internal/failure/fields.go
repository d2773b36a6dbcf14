package failure

import (
	"errors"
	"log/slog"
	"math"
	"strings"
	"time"

	"initbox/internal/poll"
)

// Fields returns the fields of a line of the log, by which programs search it: the target that the line is about, how
// long something took, and the class of err. What is empty, zero or not known is left out. Errors of [About], of waits
// and of [poll.Until] say themselves what they are about, how long it took, and after how many attempts.
func Fields(target string, took time.Duration, err error) slog.Attr {
	if own, ok := errors.AsType[interface {
		error
		Fields() slog.Attr
	}](err); ok {
		return own.Fields()
	}
	why, attempts := err, 0
	if ended, ok := errors.AsType[*poll.Error](err); ok && ended.Last != nil {
		why, attempts = ended.Last, ended.Attempts
		if took == 0 {
			took = ended.Waited
		}
	}
	if about := aboutOf(err); about != nil {
		why = about.why
		if target == "" {
			target = about.target
		}
	}
	var attrs []slog.Attr
	if target != "" {
		attrs = append(attrs, slog.String("target", target))
	}
	if f := known(why); f != nil {
		attrs = append(attrs, slog.String("class", string(f.Class)))
	}
	if took > 0 {
		attrs = append(attrs, Seconds(took))
	}
	if attempts > 0 {
		attrs = append(attrs, slog.Int("attempt", attempts))
	}
	return slog.GroupAttrs("", attrs...)
}

// Seconds returns the field with how long something took.
func Seconds(took time.Duration) slog.Attr {
	return slog.Float64("seconds", math.Round(took.Seconds()*1000)/1000)
}

// About returns err with the target that it is about, and what failed there, for [Fields]. The text is that of err.
func About(target string, why, err error) error { return &aboutError{err, target, why} }

type aboutError struct {
	error
	target string
	why    error
}

func (e *aboutError) Unwrap() error { return e.error }

// aboutOf returns the [About] error in err, or in the error of the last attempt. It returns nil if neither has one.
func aboutOf(err error) *aboutError {
	about, ok := errors.AsType[*aboutError](err)
	if ended, repeated := errors.AsType[*poll.Error](err); !ok && repeated {
		about, _ = errors.AsType[*aboutError](ended.Last)
	}
	return about
}

// Target returns what an error of [About] is about, or "".
func Target(err error) string {
	if about := aboutOf(err); about != nil {
		return about.target
	}
	return ""
}

// Advice returns what to do about err: a hint, and apart from it the Role to apply, a manifest. Both are in [Hint].
func Advice(err error) (hint, role string) {
	hint = Hint(err)
	if own, ok := errors.AsType[interface {
		error
		Advice() (hint, role string)
	}](err); ok {
		if own, role := own.Advice(); role != "" {
			return own, role
		}
	}
	return hint, ""
}

// Advice returns the hint, and apart from it the Role.
func (f *Failure) Advice() (hint, role string) {
	return strings.TrimSuffix(f.Hint, "\n"+f.Role), f.Role
}

// Advised returns the fields with what to do about a failure; see [Advice].
func Advised(hint, role string) slog.Attr {
	var attrs []slog.Attr
	if hint != "" {
		attrs = append(attrs, slog.String("hint", hint))
	}
	if role != "" {
		attrs = append(attrs, slog.String(RoleField, role))
	}
	return slog.GroupAttrs("", attrs...)
}

// RoleField is the field with a Role to apply. A log for people has it below the line's text.
const RoleField = "role"
