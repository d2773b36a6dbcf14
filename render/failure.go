package render

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"initbox/internal/failure"
	"initbox/internal/mounts"
	"initbox/internal/podinfo"
	"initbox/internal/suggest"
	"initbox/render/engine"
	"initbox/render/format"
)

// failures collects the errors of all templates, so that users can fix them together.
type failures struct {
	mu      sync.Mutex
	missing []engine.Input
	others  []error
}

// maxOthers is how many errors other than missing inputs are reported; the first one may be the cause of all.
const maxOthers = 10

func (f *failures) add(err error) {
	if err == nil {
		return
	}
	var missing *engine.MissingError
	found := errors.As(err, &missing)
	if joined, ok := err.(interface{ Unwrap() []error }); ok && found { // such as envsubst, which continues after ${X:?text}
		for _, part := range joined.Unwrap() {
			f.add(part)
		}
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if found {
		f.missing = append(f.missing, missing.Missing...)
	} else {
		f.others = append(f.others, err)
	}
}

// enough returns whether to stop rendering.
func (f *failures) enough() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.others) >= maxOthers
}

// err returns all as one error, or nil.
func (f *failures) err(in *inputs) error {
	slices.SortFunc(f.others, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	f.others = slices.CompactFunc(f.others, func(a, b error) bool { return a.Error() == b.Error() })
	switch {
	case len(f.missing) == 0 && len(f.others) == 0:
		return nil
	case len(f.missing) == 0 && len(f.others) == 1:
		return f.others[0]
	case len(f.missing) == 0:
		return &severalError{f.others}
	}
	slices.SortFunc(f.missing, func(a, b engine.Input) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Name, b.Name))
	})
	return &missingError{slices.Compact(f.missing), f.others, in}
}

// severalError is an error for several files.
type severalError struct{ errs []error }

func (e *severalError) Error() string {
	return fmt.Sprintf("%d files cannot be rendered:\n%s", len(e.errs), indented(e.errs))
}

func (e *severalError) Unwrap() []error { return e.errs }

func indented(errs []error) string {
	var b strings.Builder
	for i, err := range errs {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString("  " + strings.ReplaceAll(err.Error(), "\n", "\n  "))
	}
	return b.String()
}

// missingError names the missing inputs, and other errors.
type missingError struct {
	missing []engine.Input
	others  []error
	in      *inputs
}

func (e *missingError) Unwrap() []error { return e.others }

func (e *missingError) Error() string {
	if len(e.missing) == 1 && len(e.others) == 0 {
		return fmt.Sprintf("%s: %s is missing%s", e.missing[0].Position, e.missing[0].Name, because(e.missing[0]))
	}
	var b strings.Builder
	if len(e.missing) == 1 {
		b.WriteString("1 input is missing:")
	} else {
		fmt.Fprintf(&b, "%d inputs are missing:", len(e.missing))
	}
	for i, m := range e.missing {
		if i == maxListed { // the termination message has no more room, and needs the hint
			fmt.Fprintf(&b, "\n  and %d more", len(e.missing)-maxListed)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s%s", m.Position, m.Name, because(m))
	}
	if len(e.others) > 0 {
		fmt.Fprintf(&b, "\nand there are other errors:\n%s", indented(e.others))
	}
	return b.String()
}

// maxListed is how many missing inputs are named.
const maxListed = 40

func because(m engine.Input) string {
	if m.Why == "" {
		return ""
	}
	return ": " + m.Why
}

// Hint returns how to give each kind of missing input.
func (e *missingError) Hint() string {
	var hints []string
	done := map[string]bool{} // kinds whose inputs are all given in the same way
	for _, m := range e.missing {
		_, extension := e.in.options.cut(m.File)
		hint, kind := e.in.hint(m, e.in.options.languageOf(extension))
		if hint == "" || done[kind] || slices.Contains(hints, hint) {
			continue
		}
		hints = append(hints, hint)
		done[kind] = kind != ""
	}
	return strings.Join(hints, "; ")
}

// hint returns how to give a missing input. If others of its kind are given in the same way, it also returns the kind.
func (in *inputs) hint(m engine.Input, language string) (hint, kind string) {
	name := m.Name
	path := strings.ReplaceAll(name, "(index ", "")
	root, rest, _ := strings.Cut(strings.TrimPrefix(path, "."), ".")
	root, _, quoted := strings.Cut(root, " ") // (index .Values "a.b")
	switch {
	case root == "Env" && in.envFailed[rest] != "":
		return in.envFailed[rest], ""
	case root == "Env":
		return "set the variables in the container's env", root
	case root == "Pod":
		return podHint(rest), ""
	case root == "Values" && !quoted:
		return in.valueHint(name, rest, language)
	case root == "Values":
		return giveValue + "{{ " + name + ` | default "x" }}`, root
	case root == "Files" && in.files == nil:
		return "name the directory of .Files with --files", root
	case root == "Files":
		return "put the files into the directory of --files", root
	case strings.HasPrefix(name, "$") && !strings.Contains(name, "."): // a Go template's variable has a field that is missing
		return "set the variables in the container's env, or write a default in the template, as in ${" + name[1:] + ":-x}", "$"
	case strings.HasPrefix(name, ".") && m.Why == "":
		if field := (&engine.Data{Values: in.values.Map(), Env: in.env}).Field(root); field != "" {
			return "did you mean " + field + strings.TrimPrefix(name, "."+root) + "?", ""
		}
		return "templates see .Values, .Env, .Pod and .Files", "."
	}
	return "", ""
}

// boolean returns the part of a missing key for which YAML has made the key true or false, or "".
func (in *inputs) boolean(key string) string {
	at := in.values.Map()
	for part := range strings.SplitSeq(key, ".") {
		next, found := at[part]
		if !found {
			value, is := format.IsBoolean(part)
			if _, there := at[strconv.FormatBool(value)]; is && there {
				return part
			}
			return ""
		}
		at, _ = next.(map[string]any)
	}
	return ""
}

const giveValue = "give values with --values FILE or --set KEY=VALUE, or write a default in the template, as in "

// valueHint returns how to give the value of a key.
func (in *inputs) valueHint(name, key, language string) (hint, kind string) {
	near := in.near(key)
	_, isVariable := in.env[key]
	switch word := in.boolean(key); {
	case word != "":
		return fmt.Sprintf("in YAML, %s without quotes is a boolean, also as a key: quote it", word), ""
	case near != "":
		return fmt.Sprintf("did you mean .Values.%s in place of %s?", near, name), ""
	case isVariable && language == Jinja:
		return "did you mean Env." + key + "?", ""
	case isVariable:
		return "did you mean .Env." + key + "?", ""
	case language == Jinja:
		return giveValue + "{{ " + key + " | default('x') }}", "Values"
	case strings.Contains(key, "-"):
		name = `index .Values "` + strings.ReplaceAll(key, ".", `" "`) + `"`
	}
	return giveValue + "{{ " + name + ` | default "x" }}`, "Values"
}

// podHint returns how to provide a field of .Pod.
func podHint(field string) string {
	known := []string{"IP", "IPv4", "IPv6", "HostIP", "HostIPv4", "HostIPv6", "Ordinal"}
	of := field
	switch {
	case field == "Ordinal":
		return "only the names of a StatefulSet's Pods end in a number"
	case slices.Contains(known, field): // the first of a list
		of, _, _ = strings.Cut(field, "v")
		of += "s"
	}
	for _, f := range podinfo.Fields {
		if f.Name == of || strings.HasPrefix(of+".", f.Name+".") {
			return f.HowToTell()
		}
		known = append(known, f.Name)
	}
	return "the fields of .Pod are " + strings.Join(known, ", ")
}

// near returns the existing key that is most similar to a missing one. It returns "" for an
// item of a list, and for a key that templates can only read with index.
func (in *inputs) near(key string) string {
	at := in.values.Map()
	if _, there := at[key]; there || strings.ContainsAny(key, "[]") {
		return ""
	}
	parts := strings.Split(key, ".")
	for i, part := range parts {
		next, found := at[part]
		if !found {
			var known []string
			for k := range at {
				known = append(known, k)
			}
			slices.Sort(known)
			if near := suggest.Closest(part, known); near != "" {
				return strings.Join(append(slices.Clone(parts[:i]), near), ".")
			}
			return ""
		}
		at, _ = next.(map[string]any)
	}
	return ""
}

// withHint adds a hint to the error of a destination that cannot be written.
func withHint(err error) error {
	var source *sourceError
	if errors.As(err, &source) {
		return source
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		if hint := mounts.WriteHint(err, path.Path, ""); hint != "" {
			return failure.WithHint(err, hint)
		}
	}
	switch {
	case leadsOut(err):
		return failure.WithHint(err, "a symbolic link there leads out of the directory, and not even --follow follows it: remove it, or write to where it leads")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return failure.WithHint(err, "raise the sizeLimit of the volume: during rendering, changed files exist twice")
	case errors.Is(err, syscall.EROFS):
		return failure.WithHint(err, "is a volume mounted there, and without readOnly?")
	case errors.Is(err, fs.ErrPermission):
		return failure.WithHint(err, "set fsGroup in the Pod's securityContext, so that this user may write to the volume")
	}
	return err
}
