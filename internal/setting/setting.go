// Package setting parses settings: options that hold for one argument of a command line when they stand in its
// fragment, and for all arguments when they are given as flags of the same names.
//
//	list := setting.List{{Name: "owner", Value: "UID[:GID]"}, {Name: "recursive"}}
//	path, s, err := list.Argument("/data#owner=999&recursive", setting.Settings{"owner": {"1000"}})
//	s.Get("owner") // "999"
package setting

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/suggest"
	"initbox/internal/tlsconfig"
	"initbox/internal/words"
)

// Setting is an option of an argument, such as what to expect of a server, or whose a directory is. An argument has
// its settings in the fragment, name=value or name alone, joined by &.
type Setting struct {
	Name     string
	Value    string // placeholder of the value, for the help; empty for a switch
	Usage    string
	Multi    bool // may be given more than once
	Optional bool // may be given without its value

	Needs    string   // the setting that this one requires; may be empty
	Excludes []string // the settings that contradict this one
}

// List are the settings that an argument takes.
type List []Setting

// Settings are the values by name of setting; a switch that is on has the value "".
type Settings map[string][]string

// Of returns the setting with that name, or nil.
func (l List) Of(name string) *Setting {
	if i := slices.IndexFunc(l, func(s Setting) bool { return s.Name == name }); i >= 0 {
		return &l[i]
	}
	return nil
}

// Names returns the names of the settings.
func (l List) Names() []string { return words.Each(l, func(s Setting) string { return s.Name }) }

// Argument reads PATH, or PATH#SETTINGS, and adds the settings given as flags, which those of the argument override.
// In the path, %23 stands for # and %25 for %.
func (l List) Argument(text string, flags Settings) (path string, s Settings, err error) {
	path, fragment, _ := strings.Cut(text, "#")
	path = strings.NewReplacer("%23", "#", "%25", "%").Replace(path)
	if path == "" {
		return "", nil, errors.New("an argument is a path, as in /data#mode=0750")
	}
	if s, err = l.Parse(fragment); err != nil {
		return "", nil, err
	}
	s.Take(l, flags)
	return path, s, s.Consistent(l)
}

// Parse reads a fragment. "+" stands for itself: this is not a form.
func (l List) Parse(fragment string) (Settings, error) {
	s := Settings{}
	if fragment == "" {
		return s, nil
	}
	for i, part := range strings.Split(fragment, "&") {
		name, value, valued := strings.Cut(part, "=")
		setting := l.Of(name)
		if setting == nil {
			return nil, fmt.Errorf("setting %d after # is unknown%svalid settings are %s", i+1, l.suggest(name), strings.Join(l.Names(), ", "))
		}
		value, err := url.PathUnescape(value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("#%s: invalid percent-encoding", name)
		case setting.Value == "" && valued:
			return nil, fmt.Errorf("#%s takes no value", name)
		case setting.Value != "" && value == "" && (valued || !setting.Optional):
			return nil, fmt.Errorf("#%s needs a value: #%s=%s", name, name, setting.Value)
		case len(s[name]) > 0 && !setting.Multi:
			return nil, fmt.Errorf("#%s is given twice", name)
		}
		s[name] = append(s[name], value)
	}
	return s, nil
}

// suggest returns the question for the setting that was probably meant. It quotes a name of letters and hyphens: any
// other may be the end of a password.
func (l List) suggest(name string) string {
	shown := ""
	if name != "" && strings.Trim(name, characters) == "" {
		shown = ": " + name
	}
	return shown + "; " + suggest.Question(name, l.Names(), "")
}

// characters are the characters of a setting's name.
const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"

// Take adds the defaults that l has, unless s sets or contradicts them.
func (s Settings) Take(l List, defaults Settings) {
	own := maps.Clone(s)
	for name, values := range defaults {
		if setting := l.Of(name); setting != nil && !own.On(name) && !own.contradict(l, *setting) {
			s[name] = values
		}
	}
}

// contradict returns whether one of the settings excludes another, or that excludes it.
func (s Settings) contradict(l List, other Setting) bool {
	return slices.ContainsFunc(other.Excludes, s.On) || slices.ContainsFunc(l, func(setting Setting) bool {
		return s.On(setting.Name) && slices.Contains(setting.Excludes, other.Name)
	})
}

// Consistent refuses a setting without the one that it requires, or with one that contradicts it.
func (s Settings) Consistent(l List) error {
	for _, setting := range l {
		if !s.On(setting.Name) {
			continue
		}
		if setting.Needs != "" && !s.On(setting.Needs) {
			return fmt.Errorf("%s needs %s", setting.Name, setting.Needs)
		}
		if i := slices.IndexFunc(setting.Excludes, s.On); i >= 0 {
			return fmt.Errorf("%s and %s are mutually exclusive", setting.Name, setting.Excludes[i])
		}
	}
	return nil
}

// TLS are the settings of a TLS client.
var TLS = List{
	{Name: "ca-file", Value: "FILE", Usage: tlsconfig.Usage["ca-file"]},
	{Name: "cert-file", Value: "FILE", Usage: tlsconfig.Usage["cert-file"]},
	{Name: "key-file", Value: "FILE", Usage: tlsconfig.Usage["key-file"], Needs: "cert-file"},
	{Name: "server-name", Value: "NAME", Usage: tlsconfig.Usage["server-name"]},
	{Name: "insecure", Usage: tlsconfig.Usage["insecure"]},
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
	allowed = slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
	if len(allowed) == 1 {
		return "", fmt.Errorf("%s: want %s or no value", name, allowed[0])
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

// TLS returns the TLS options in the settings.
func (s Settings) TLS() tlsconfig.Options {
	return tlsconfig.Options{
		CAFile:     s.Get("ca-file"),
		CertFile:   s.Get("cert-file"),
		KeyFile:    s.Get("key-file"),
		ServerName: s.Get("server-name"),
		Insecure:   s.On("insecure"),
	}
}
