// Package sprig has the functions that authors of Helm charts know from Masterminds/sprig, with the same results byte
// for byte, which the tests compare. That library compiles regular expressions and computes tables at each start of a
// program, which takes longer than the rest of a short one. What package gotemplate bounds or sorts itself, such as
// repeat and keys, is there and not here; so is what reads from the machine.
//
//	template.New("t").Funcs(sprig.Functions())
package sprig

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"initbox/internal/semver"
)

// Functions returns the functions by name. Where sprig has two, one that panics and one with the prefix must that
// fails, both names are the latter: text/template reports a panic as an error, too.
func Functions() map[string]any {
	all := map[string]any{}
	for _, some := range []map[string]any{textFunctions(), numberFunctions(), dateFunctions(), dictFunctions(), listFunctions(), secretFunctions(), otherFunctions()} {
		maps.Copy(all, some)
	}
	return all
}

func otherFunctions() map[string]any {
	return map[string]any{
		"default":  otherwise,
		"empty":    empty,
		"coalesce": coalesce,
		"all":      func(values ...any) bool { return !slices.ContainsFunc(values, empty) },
		"any":      func(values ...any) bool { return slices.ContainsFunc(values, full) },
		"ternary":  ternary,

		"mustFromJson":     fromJSON,
		"mustToJson":       toJSON,
		"toPrettyJson":     func(v any) string { text, _ := toPrettyJSON(v); return text },
		"mustToPrettyJson": toPrettyJSON,
		"toRawJson":        toRawJSON,
		"mustToRawJson":    toRawJSON,

		"typeOf":     typeOf,
		"typeIs":     func(name string, v any) bool { return typeOf(v) == name },
		"typeIsLike": func(name string, v any) bool { return typeOf(v) == name || typeOf(v) == "*"+name },
		"kindOf":     kindOf,
		"kindIs":     func(name string, v any) bool { return kindOf(v) == name },
		"deepEqual":  reflect.DeepEqual,

		"base":    path.Base,
		"dir":     path.Dir,
		"clean":   path.Clean,
		"ext":     path.Ext,
		"isAbs":   path.IsAbs,
		"osBase":  filepath.Base,
		"osDir":   filepath.Dir,
		"osClean": filepath.Clean,
		"osExt":   filepath.Ext,
		"osIsAbs": filepath.IsAbs,

		"urlParse": urlParse,
		"urlJoin":  urlJoin,

		"regexMatch":     func(expression, s string) bool { found, _ := regexp.MatchString(expression, s); return found },
		"mustRegexMatch": regexp.MatchString,
		"regexFind":      func(expression, s string) string { return regexp.MustCompile(expression).FindString(s) },
		"mustRegexFind":  find,
		"regexQuoteMeta": regexp.QuoteMeta,

		"semver":        semver.NewVersion,
		"semverCompare": inRange,
	}
}

func otherwise(value any, given ...any) any {
	if len(given) == 0 || empty(given[0]) {
		return value
	}
	return given[0]
}

// empty returns whether v is null, zero, false or without elements. A struct never is.
func empty(v any) bool {
	value := reflect.ValueOf(v)
	switch value.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Struct:
		return false
	case reflect.Array, reflect.Slice, reflect.Map, reflect.String:
		return value.Len() == 0
	case reflect.Float32, reflect.Float64:
		return value.Float() == 0 // also -0
	case reflect.Complex64, reflect.Complex128:
		return value.Complex() == 0
	}
	return value.IsZero()
}

func full(v any) bool { return !empty(v) }

func coalesce(values ...any) any {
	if i := slices.IndexFunc(values, full); i >= 0 {
		return values[i]
	}
	return nil
}

func ternary(yes, no any, is bool) any {
	if is {
		return yes
	}
	return no
}

func fromJSON(text string) (v any, err error) {
	err = json.Unmarshal([]byte(text), &v)
	return v, err
}

func toJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

func toPrettyJSON(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text), err
}

// toRawJSON does not escape <, > and &.
func toRawJSON(v any) (string, error) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return strings.TrimSuffix(text.String(), "\n"), err
}

func typeOf(v any) string { return fmt.Sprintf("%T", v) }
func kindOf(v any) string { return reflect.ValueOf(v).Kind().String() }

func find(expression, s string) (string, error) {
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return "", err
	}
	return compiled.FindString(s), nil
}

func inRange(text, version string) (bool, error) {
	constraints, err := semver.NewConstraint(text)
	if err != nil {
		return false, err
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return false, err
	}
	return constraints.Check(v), nil
}

func urlParse(text string) map[string]any {
	u, err := url.Parse(text)
	if err != nil {
		panic(fmt.Errorf("unable to parse url: %w", err))
	}
	return map[string]any{
		"scheme": u.Scheme, "host": u.Host, "hostname": u.Hostname(), "path": u.Path, "query": u.RawQuery,
		"opaque": u.Opaque, "fragment": u.Fragment, "userinfo": u.User.String(),
	}
}

// urlJoin returns the URL of the parts that urlParse returns, but for the hostname.
func urlJoin(parts map[string]any) (string, error) {
	var err error
	part := func(key string) string {
		value, has := parts[key]
		if is := reflect.ValueOf(value); has && is.Kind() != reflect.String {
			err = cmp.Or(err, fmt.Errorf("unable to parse %s key, must be of type string, but %s found", key, is.Kind()))
			return ""
		} else if has {
			return is.String()
		}
		return ""
	}
	u := url.URL{Scheme: part("scheme"), Host: part("host"), Path: part("path"), RawQuery: part("query"), Opaque: part("opaque"), Fragment: part("fragment")}
	if who := part("userinfo"); who != "" {
		of, parseErr := url.Parse("proto://" + who + "@host")
		if parseErr != nil {
			return "", errors.New("unable to parse userinfo in dict") // the library's error quotes it
		}
		u.User = of.User
	}
	return u.String(), err
}
