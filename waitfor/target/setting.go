package target

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/suggest"
)

// Setting is what a kind of target can be told: what to expect of it, or how to ask. In a target it stands in the
// fragment, name=value or name alone, joined by &; as a flag of the same name it holds for every target of the kind.
type Setting struct {
	Name  string
	Value string // what the value is, for the help; empty for a switch
	Usage string
	Multi bool   // may be given more than once
	Needs string // the setting without which this one makes no sense; may be empty
}

// Settings are the values given, by setting; a switch that is on has the value "".
type Settings map[string][]string

// common are the settings that every kind of target takes.
var common = []Setting{
	{Name: "gone", Usage: "wait until the target does not answer any more"},
}

func (k *Kind) setting(name string) *Setting {
	for _, list := range [][]Setting{k.Settings, common} {
		if i := slices.IndexFunc(list, func(s Setting) bool { return s.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// parseSettings reads a fragment. "+" is itself: it is no form.
func parseSettings(fragment string, k *Kind) (Settings, error) {
	s := Settings{}
	if fragment == "" {
		return s, nil
	}
	for i, part := range strings.Split(fragment, "&") {
		name, value, valued := strings.Cut(part, "=")
		setting := k.setting(name)
		if setting == nil {
			return nil, fmt.Errorf("setting %d after # is unknown%s possible are %s", i+1, k.suggest(name), strings.Join(k.Names(), ", "))
		}
		value, err := url.PathUnescape(value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("#%s: percent-encoding is wrong", name)
		case setting.Value == "" && valued:
			return nil, fmt.Errorf("#%s takes no value", name)
		case setting.Value != "" && value == "":
			return nil, fmt.Errorf("#%s needs a value: #%s=%s", name, name, setting.Value)
		case len(s[name]) > 0 && !setting.Multi:
			return nil, fmt.Errorf("#%s is given twice", name)
		}
		s[name] = append(s[name], value)
	}
	return s, nil
}

// Names returns the names of the settings that the kind takes.
func (k *Kind) Names() []string {
	var names []string
	for _, s := range slices.Concat(k.Settings, common) {
		names = append(names, s.Name)
	}
	return names
}

// suggest asks for the setting that was probably meant. It does not quote what was written, which may be the end of a
// password.
func (k *Kind) suggest(name string) string {
	if meant := suggest.Closest(name, k.Names()); meant != "" {
		return ": did you mean " + meant + "?"
	}
	return ";"
}

// take adds the defaults that k knows and s does not set.
func (s Settings) take(k *Kind, defaults Settings) {
	for name, values := range defaults {
		if _, set := s[name]; !set && k.setting(name) != nil {
			s[name] = values
		}
	}
}

// On reports whether the setting is given.
func (s Settings) On(name string) bool { _, ok := s[name]; return ok }

// Get returns the last value of the setting, or "".
func (s Settings) Get(name string) string {
	if v := s[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// Duration reads a duration, or a number of seconds, as the flags do.
func (s Settings) Duration(name string, otherwise time.Duration) (time.Duration, error) {
	if !s.On(name) {
		return otherwise, nil
	}
	text := s.Get(name)
	if whole, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(whole) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s: want a duration such as 30s, 1m30s or 500ms", name)
	}
	return d, nil
}

// Count reads a whole number.
func (s Settings) Count(name string, otherwise int64) (int64, error) {
	if !s.On(name) {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(s.Get(name), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: want a whole number", name)
	}
	return n, nil
}
