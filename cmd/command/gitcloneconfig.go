package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v2" // sigs.k8s.io/yaml has no line numbers

	"initbox/clone"
	"initbox/cmd/help"
	"initbox/internal/failure"
	"initbox/internal/lazy"
	"initbox/internal/readfile"
	"initbox/internal/suggest"
	"initbox/render/format"
)

// several makes the clones that --config lists.
func (g *gitFlags) several(ctx context.Context, c *cli.Context, e *env, after aftermath) error {
	clones, err := g.readConfig(c, e)
	if err != nil {
		return err
	}
	results, err := clone.All(ctx, clones, g.parallel)
	if err != nil {
		return err
	}
	return writeResult(e, after.output, results)
}

// readConfig returns the clones that --config lists: for each, a map of url, dir and names of flags to their values.
func (g *gitFlags) readConfig(c *cli.Context, e *env) ([]clone.Options, error) {
	data, err := readfile.All(g.config)
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("read the --config: %w", err), "is the ConfigMap mounted, and may this user read it?")
	}
	entries, err := parseConfig(data)
	if err != nil {
		return nil, usagef("--config %s%w", g.config, err)
	}
	var clones []clone.Options
	for i, entry := range entries {
		o, err := g.entry(c, e, entry)
		if err != nil {
			return nil, usagef("--config %s%w", g.config, inEntry(i, err))
		}
		clones = append(clones, o)
	}
	if outer, inner := overlapping(clones); outer != "" {
		return nil, usagef("--config %s: %s and %s overlap, and each clone replaces the whole of its directory", g.config, outer, inner)
	}
	return clones, nil
}

// configValue is a value in --config.
type configValue struct {
	line  int // counted from 1
	words []string
	list  bool
}

// UnmarshalYAML reads scalars as they are written, so that 0750 and 1.10 keep their text.
func (v *configValue) UnmarshalYAML(unmarshal func(any) error) error {
	// The library reports the line only of a value that it cannot decode.
	v.line = lineOf(unmarshal(new(chan int)))
	var word string
	if unmarshal(&word) == nil {
		v.words = []string{word}
		return nil
	}
	v.list = true
	if unmarshal(&v.words) != nil {
		return configError{v.line, errors.New("want a string, or a list of strings")}
	}
	return nil
}

var yamlLine = lazy.Regexp(`line (\d+): `)

func lineOf(err error) int {
	var list *yaml.TypeError
	if !errors.As(err, &list) || len(list.Errors) == 0 {
		return 0
	}
	if m := yamlLine().FindStringSubmatch(list.Errors[0]); m != nil {
		line, _ := strconv.Atoi(m[1])
		return line
	}
	return 0
}

// configError is a mistake at a line of --config. Its text follows the file's name.
type configError struct {
	line int // 0 if it is not known
	error
}

func (e configError) Unwrap() error { return e.error }

func (e configError) Error() string {
	if e.line == 0 {
		return ": " + e.error.Error()
	}
	return fmt.Sprintf(":%d: %v", e.line, e.error)
}

// inEntry adds to err which clone it is about, unless it has the line.
func inEntry(i int, err error) error {
	if errors.As(err, new(configError)) {
		return err
	}
	return configError{0, fmt.Errorf("clone %d: %w", i+1, err)}
}

func parseConfig(data []byte) ([]map[string]configValue, error) {
	syntax, err := format.Named("yaml")
	if err != nil {
		return nil, err
	}
	var wrong *format.Error
	if _, err := syntax.Parse(data); errors.As(err, &wrong) {
		return nil, configError{wrong.Line, errors.New(wrong.Text)}
	} else if err != nil {
		return nil, configError{0, err}
	}
	var entries []map[string]configValue
	err = yaml.Unmarshal(data, &entries)
	var inside configError
	switch {
	case errors.As(err, &inside):
		return nil, inside
	case err != nil:
		return nil, configError{lineOf(err), errors.New("want a list of clones, each a map such as {url: …, dir: …}")}
	case len(entries) == 0:
		return nil, configError{0, errors.New("the list of clones is empty")}
	}
	return entries, nil
}

// entry returns one clone of --config. The flags on the command line hold for keys that it does not have.
func (g *gitFlags) entry(c *cli.Context, e *env, entry map[string]configValue) (clone.Options, error) {
	own := &gitFlags{names: g.names, retryStatus: g.retryStatus, o: clone.Options{AttemptTimeout: g.o.AttemptTimeout, RetryAuth: g.o.RetryAuth}}
	flags := own.entryFlags()
	if err := checkKeys(entry, flags); err != nil {
		return clone.Options{}, err
	}
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			return clone.Options{}, err
		}
	}
	for _, f := range flags {
		value, given := entry[f.Names()[0]]
		if !given && !replaced(f, flags, entry) {
			value.words = valuesOf(c, f)
		}
		if err := setFlag(set, f, value, flags); err != nil {
			return clone.Options{}, err
		}
	}
	url, dir := entry["url"], entry["dir"]
	for name, value := range map[string]configValue{"url": url, "dir": dir} {
		if len(value.words) != 1 || value.words[0] == "" {
			return clone.Options{}, fmt.Errorf("%s is missing", name)
		}
	}
	o, err := own.options(cli.NewContext(c.App, set, nil), e, url.words[0], dir.words[0])
	if err != nil {
		return o, configError{url.line, err}
	}
	return o, nil
}

// checkKeys refuses unknown keys.
func checkKeys(entry map[string]configValue, flags []cli.Flag) error {
	known := []string{"url", "dir"}
	for _, f := range flags {
		known = append(known, f.Names()...)
	}
	for _, key := range slices.Sorted(maps.Keys(entry)) {
		if slices.Contains(known, key) {
			continue
		}
		err := fmt.Errorf("no such key: %s", strconv.Quote(key))
		hint := suggest.Question(key, known, "") + "the keys are url, dir, and the flags of a single clone: see initbox git-clone --help"
		return configError{entry[key].line, failure.WithHint(err, hint)}
	}
	return nil
}

// replaced reports whether the clone has its own credentials of the flag's kind. Those on the command line are then not
// meant for its server.
func replaced(f cli.Flag, flags []cli.Flag, entry map[string]configValue) bool {
	category := help.Category(f)
	if category != categoryCredentials && category != categorySSH {
		return false
	}
	return slices.ContainsFunc(flags, func(other cli.Flag) bool {
		_, given := entry[other.Names()[0]]
		return given && help.Category(other) == category
	})
}

// valuesOf returns the values of a flag on the command line, or nil if it is not there.
func valuesOf(c *cli.Context, f cli.Flag) []string {
	name := f.Names()[0]
	if !c.IsSet(name) {
		return nil
	}
	switch f.(type) {
	case *cli.StringSliceFlag:
		return c.StringSlice(name)
	case *cli.GenericFlag:
		return []string{fmt.Sprint(c.Generic(name))}
	}
	return []string{fmt.Sprint(c.Value(name))}
}

func setFlag(set *flag.FlagSet, f cli.Flag, value configValue, flags []cli.Flag) error {
	name := f.Names()[0]
	if _, several := f.(*cli.StringSliceFlag); value.list && !several {
		return configError{value.line, fmt.Errorf("%s: want one value, not a list", name)}
	}
	for _, word := range value.words {
		if err := set.Parse([]string{"--" + name + "=" + word}); err != nil {
			return configError{value.line, help.WrongValue(err, flags)}
		}
	}
	return nil
}

// overlapping returns two of the directories if one is in the other, or they are the same.
func overlapping(clones []clone.Options) (outer, inner string) {
	type place struct{ path, dir string }
	var places []place
	for _, o := range clones {
		p, err := filepath.Abs(o.Path())
		places = append(places, place{p, o.Dir})
		if err != nil {
			return "", ""
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.path, b.path) })
	for i, a := range places {
		for _, b := range places[i+1:] {
			if b.path == a.path || strings.HasPrefix(b.path, a.path+"/") {
				return a.dir, b.dir
			}
		}
	}
	return "", ""
}
