package target

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/suggest"
	"initbox/internal/words"
)

// Setting is an option of a kind of target: what to expect of the server, or how to ask it. A target has its settings
// in the fragment, name=value or name alone, joined by &; a flag of the same name applies to every target of the kind.
type Setting struct {
	Name  string
	Value string // placeholder of the value, for the help; empty for a switch
	Usage string
	Multi bool // may be given more than once

	Needs    string   // the setting that this one requires; may be empty
	Excludes []string // the settings that contradict this one
}

// Settings are the values by name of setting; a switch that is on has the value "".
type Settings map[string][]string

// Common are the settings that every kind of target takes.
var Common = []Setting{
	{Name: "gone", Usage: "wait until the target no longer answers"},
}

func (k *Kind) setting(name string) *Setting {
	for _, list := range [][]Setting{k.Settings, Common} {
		if i := slices.IndexFunc(list, func(s Setting) bool { return s.Name == name }); i >= 0 {
			return &list[i]
		}
	}
	return nil
}

// parseSettings reads a fragment. "+" stands for itself: this is not a form.
func parseSettings(fragment string, k *Kind) (Settings, error) {
	s := Settings{}
	if fragment == "" {
		return s, nil
	}
	for i, part := range strings.Split(fragment, "&") {
		name, value, valued := strings.Cut(part, "=")
		setting := k.setting(name)
		if setting == nil {
			return nil, fmt.Errorf("setting %d after # is unknown%svalid settings are %s", i+1, k.suggest(name), strings.Join(k.Names(), ", "))
		}
		value, err := url.PathUnescape(value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("#%s: invalid percent-encoding", name)
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
	return words.Each(slices.Concat(k.Settings, Common), func(s Setting) string { return s.Name })
}

// suggest returns the question for the setting that was probably meant. It quotes a name of letters and hyphens: any
// other may be the end of a password.
func (k *Kind) suggest(name string) string {
	shown := ""
	if name != "" && strings.Trim(name, settingCharacters) == "" {
		shown = ": " + name
	}
	return shown + "; " + suggest.Question(name, k.Names(), "")
}

// settingCharacters are the characters of a setting's name.
const settingCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"

// take adds the defaults that k takes and s does not set.
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

// OneOf returns the value of the setting, which must be one of those allowed, or "" without the setting.
func (s Settings) OneOf(name string, allowed ...string) (string, error) {
	value := s.Get(name)
	if !s.On(name) || slices.Contains(allowed, value) {
		return value, nil
	}
	return "", fmt.Errorf("%s: want one of %s", name, strings.Join(allowed, ", "))
}

// Duration returns the value of the setting, a whole number of seconds or a duration as in Go (1m30s), or otherwise.
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

// Count returns the value of the setting, a whole number, or otherwise.
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
