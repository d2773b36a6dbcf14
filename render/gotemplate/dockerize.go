package gotemplate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"initbox/render/engine"
)

// dockerize is the [engine.Options].Compat that selects dockerize's functions where sprig has
// different ones of the same name.
const dockerize = "dockerize"

// dockerizeFuncs returns dockerize's functions, by the source of v0.9.
func dockerizeFuncs(data *engine.Data) map[string]any {
	return map[string]any{
		"contains":  containsKey,
		"exists":    func(name string) (bool, error) { return fileExists(data.Files, name) },
		"split":     splitText,
		"replace":   replaceText,
		"default":   defaultText,
		"parseUrl":  url.Parse,
		"atoi":      strconv.Atoi,
		"parseBool": strconv.ParseBool,
		"add":       func(a, b int) int { return a + b },
		"isTrue":    isTrue,
		"lower":     strings.ToLower,
		"upper":     strings.ToUpper,
		"jsonQuery": jsonQuery,
		"loop":      loop,
	}
}

// containsKey returns whether a map has the key: {{if contains .Env "NAME"}}.
func containsKey(m any, key string) (bool, error) {
	v := reflect.ValueOf(m)
	if v.Kind() != reflect.Map || v.Type().Key().Kind() != reflect.String {
		return false, fmt.Errorf("contains: %s, where a map is needed", kindOf(m))
	}
	return v.MapIndex(reflect.ValueOf(key).Convert(v.Type().Key())).IsValid(), nil
}

// fileExists looks at .Files only: dockerize looks at the machine.
func fileExists(files fs.FS, name string) (bool, error) {
	if files == nil || !fs.ValidPath(name) {
		return false, &engine.Error{Text: "exists looks at .Files, not at the machine", Fix: "give the directory as .Files, and the path within it"}
	}
	_, err := fs.Stat(files, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

const most = 1 << 20 // of the elements of a list

func splitText(s, sep string) ([]string, error) {
	if strings.Count(s, sep) > most {
		return nil, fmt.Errorf("split: more than %d parts", most)
	}
	return strings.Split(s, sep), nil
}

func replaceText(s, old, new string, n int) (string, error) {
	if times := strings.Count(s, old); int64(times)*int64(len(new)) > engine.DefaultLimits.Bytes {
		return "", fmt.Errorf("replace: makes more than %d bytes", engine.DefaultLimits.Bytes)
	}
	return strings.Replace(s, old, new, n), nil
}

// defaultText returns its first argument if it is a string, otherwise the second one.
func defaultText(args ...any) (string, error) {
	if len(args) == 0 {
		return "", errors.New("default: want a value and a fallback")
	}
	if s, ok := args[0].(string); ok {
		return s, nil
	}
	if len(args) > 1 {
		if s, ok := args[1].(string); ok {
			return s, nil
		}
		return "", errors.New("default: the fallback is not a text: put it in quotes")
	}
	return "", errors.New("default: the value is missing, and there is no fallback")
}

func isTrue(s string) bool {
	switch s = strings.ToLower(s); s {
	case "yes", "on":
		return true
	}
	is, _ := strconv.ParseBool(s)
	return is
}

// loop counts from 0, or a start, up to an end that is not included.
func loop(args ...int) ([]int, error) {
	start, stop, step := 0, 0, 1
	switch len(args) {
	case 1:
		stop = args[0]
	case 2:
		start, stop = args[0], args[1]
	case 3:
		start, stop, step = args[0], args[1], args[2]
	default:
		return nil, fmt.Errorf("loop: want one to three numbers, got %d", len(args))
	}
	from, to, by := int64(start), int64(stop), int64(step)
	if by <= 0 || max(abs(from), abs(to), abs(by)) > large || (to-from)/by > most {
		return nil, errors.New("loop: does not end, or not soon")
	}
	list := []int{}
	for i := from; i < to; i += by {
		list = append(list, int(i))
	}
	return list, nil
}

// jsonQuery returns the value in a JSON text at a path such as services.[0].port.
func jsonQuery(text, path string) (any, error) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("jsonQuery: not JSON: %w", err)
	}
	for step := range strings.SplitSeq(path, ".") {
		if step == "" {
			continue
		}
		if number, ok := strings.CutPrefix(step, "["); ok {
			list, isList := value.([]any)
			i, err := strconv.Atoi(strings.TrimSuffix(number, "]"))
			if !isList || err != nil || i < 0 || i >= len(list) {
				return nil, fmt.Errorf("jsonQuery: there is no %s", step)
			}
			value = list[i]
			continue
		}
		m, _ := value.(map[string]any)
		element, ok := m[step]
		if !ok {
			return nil, fmt.Errorf("jsonQuery: there is no %s", step)
		}
		value = element
	}
	return value, nil
}
