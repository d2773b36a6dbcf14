package gotemplate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"

	"initbox/render/engine"
)

// boundedFuncs returns the functions of sprig and text/template whose results may be much
// longer than their arguments. They check the size first. Those that are not wanted may be missing.
func (w *worker) boundedFuncs(library map[string]any, wanted func(name string) bool) template.FuncMap {
	funcs := template.FuncMap{
		"repeat": func(n int, s string) (string, error) {
			if n < 0 {
				return "", fmt.Errorf("repeat: %d times", n)
			}
			if err := w.product(n, len(s)); err != nil {
				return "", err
			}
			return w.text1(strings.Repeat(s, n))
		},
		"indent":  w.indent,
		"nindent": func(n int, s string) (string, error) { s, err := w.indent(n, s); return "\n" + s, err },
		"replace": func(old, new, s string) (string, error) {
			if err := w.product(strings.Count(s, old), len(new)); err != nil {
				return "", err
			}
			return w.text1(strings.ReplaceAll(s, old, new))
		},
		"print":    func(a ...any) (string, error) { return w.sprint("print", fmt.Sprint, a) },
		"println":  func(a ...any) (string, error) { return w.sprint("println", fmt.Sprintln, a) },
		"html":     func(a ...any) (string, error) { return w.sprint("html", template.HTMLEscaper, a) },
		"js":       func(a ...any) (string, error) { return w.sprint("js", template.JSEscaper, a) },
		"urlquery": func(a ...any) (string, error) { return w.sprint("urlquery", template.URLQueryEscaper, a) },
		"toString": func(a any) (string, error) {
			return w.sprint("toString", func(a ...any) string { return library["toString"].(func(any) string)(a[0]) }, []any{a})
		},
		"printf":      w.printf,
		"until":       func(n int) ([]int, error) { return w.untilStep(0, n, cmp.Compare(n, 0)) },
		"untilStep":   w.untilStep,
		"seq":         w.seq(library["seq"].(func(...int) string)),
		"concat":      w.concat,
		"dict":        w.dict(library["dict"].(func(...any) map[string]any)),
		"deepCopy":    func(v any) (any, error) { return w.copyOf(v) },
		"chunk":       w.chunk(library["mustChunk"].(func(int, any) ([][]any, error))),
		"without":     w.without(library["mustWithout"].(func(any, ...any) ([]any, error))),
		"mustWithout": w.without(library["mustWithout"].(func(any, ...any) ([]any, error))),
		"set":         w.set1(library["set"].(func(map[string]any, string, any) map[string]any)),
	}
	funcs["mustDeepCopy"], funcs["mustChunk"] = funcs["deepCopy"], funcs["chunk"]
	for names, check := range map[string]func(args []reflect.Value) error{
		"split splitn splitList": func(args []reflect.Value) error { return w.parts(args[len(args)-1].String(), args[0].String()) },
		"uniq mustUniq":          w.measureArguments, // they compare
		"wrap wrapWith":          w.wrapped,
		"join":                   w.joined,
		"randAlphaNum randAlpha randAscii randNumeric": func(args []reflect.Value) error { return w.allow(args[0].Int()) },
		"randBytes": func(args []reflect.Value) error { return w.allow(2 * args[0].Int()) }, // in base64
		"merge mergeOverwrite mustMerge mustMergeOverwrite":                   w.merged,
		"fromYaml fromYamlArray fromJson fromJsonArray fromToml mustFromJson": w.decoded,
	} {
		for name := range strings.FieldsSeq(names) {
			if wanted(name) {
				funcs[name] = w.limited(library[name], 0, check)
			}
		}
	}
	w.regexps(funcs)
	return funcs
}

// product checks a size that is a product.
func (w *worker) product(n, size int) error {
	if size > 0 && n > 0 && int64(n) > w.e.options.Bytes/int64(size) {
		return w.allow(-1)
	}
	return nil
}

func (w *worker) indent(n int, s string) (string, error) {
	if n < 0 {
		return "", fmt.Errorf("indent: %d spaces", n)
	}
	if err := w.product(strings.Count(s, "\n")+1, n); err != nil {
		return "", err
	}
	pad := strings.Repeat(" ", n)
	return w.text1(pad + strings.ReplaceAll(s, "\n", "\n"+pad))
}

// wrapped checks the arguments of functions that break lines: a width, perhaps a line break, and a text.
func (w *worker) wrapped(args []reflect.Value) error {
	text, between := args[len(args)-1].Len(), 1
	if len(args) == 3 {
		between = args[1].Len()
	}
	return w.product(text/max(int(args[0].Int()), 1)+1, between)
}

// joined checks the arguments of join: a separator and a list.
func (w *worker) joined(args []reflect.Value) error {
	size, err := w.measure(args[1].Interface())
	if err != nil {
		return err
	}
	if list := args[1].Elem(); list.Kind() == reflect.Slice {
		if err := w.product(list.Len(), args[0].Len()); err != nil {
			return err
		}
		size += int64(list.Len()) * int64(args[0].Len())
	}
	return w.allow(size / 4) // of numbers, it is an estimate
}

// sprint bounds the functions that print their arguments. When strict, null is an error.
func (w *worker) sprint(name string, f func(...any) string, args []any) (string, error) {
	if err := w.arguments(name, args); err != nil {
		return "", err
	}
	return w.text1(f(args...))
}

func (w *worker) arguments(name string, args []any) error {
	if w.e.strict && slices.Contains(args, nil) {
		return &engine.Error{Text: name + ": null is printed"}
	}
	_, err := w.measure(args...)
	return err
}

func (w *worker) printf(format string, args ...any) (string, error) {
	if err := w.arguments("printf", args); err != nil {
		return "", err
	}
	var width int64 // all numbers, as if all were one
	for i := 0; i < len(format); i++ {
		j := i
		for j < len(format) && format[j] >= '0' && format[j] <= '9' {
			j++
		}
		if n, err := strconv.Atoi(format[i:j]); err == nil {
			width += int64(min(n, 1e7))
		}
		if j > i {
			i = j
		}
		if i < len(format) && format[i] == '*' {
			width += 1e6 // fmt's largest
		}
	}
	if err := w.allow(width); err != nil {
		return "", err
	}
	return w.text1(fmt.Sprintf(format, args...))
}

// large is where sums of integers may overflow. They are calculated with int64, even where an int has 32 bits.
const large = 1 << 53

func (w *worker) untilStep(first, end, by int) ([]int, error) {
	start, stop, step := int64(first), int64(end), int64(by)
	if max(abs(start), abs(stop), abs(step)) > large {
		return nil, w.elements(-1)
	}
	list := []int{}
	if step == 0 || (stop-start > 0) != (step > 0) || start == stop {
		return list, nil
	}
	n := (abs(stop-start) + abs(step) - 1) / abs(step)
	if err := w.madeElements(n); err != nil {
		return nil, err
	}
	list = slices.Grow(list, int(n))
	for i := range n {
		list = append(list, int(start+i*step))
	}
	return list, nil
}

func abs(n int64) int64 {
	if n == math.MinInt64 {
		return math.MaxInt64
	}
	return max(n, -n)
}

func (w *worker) seq(f func(...int) string) any {
	return func(numbers ...int) (string, error) {
		start, step, stop := int64(1), int64(1), int64(0)
		switch len(numbers) {
		case 1:
			stop = int64(numbers[0])
		case 2:
			start, stop = int64(numbers[0]), int64(numbers[1])
		case 3:
			start, step, stop = int64(numbers[0]), int64(numbers[1]), int64(numbers[2])
		default:
			return "", nil
		}
		if max(abs(start), abs(stop), abs(step)) > large {
			return "", w.elements(-1)
		}
		if err := w.madeElements(abs(stop-start) / max(1, abs(step))); err != nil {
			return "", err
		}
		return w.text1(f(numbers...))
	}
}

// parts checks how many parts a text has.
func (w *worker) parts(s, sep string) error {
	n := utf8.RuneCountInString(s)
	if sep != "" {
		n = strings.Count(s, sep) + 1
	}
	return w.madeList(n)
}

func (w *worker) concat(lists ...any) (any, error) {
	var result []any
	for _, list := range lists {
		v := reflect.ValueOf(list)
		if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
			return nil, fmt.Errorf("concat: %s, where a list is needed", kindOf(list))
		}
		if err := w.madeList(len(result) + v.Len()); err != nil {
			return nil, err
		}
		for i := range v.Len() {
			result = append(result, v.Index(i).Interface())
		}
	}
	return result, nil
}

// dict prints keys that are not strings.
func (w *worker) dict(f func(...any) map[string]any) any {
	return func(args ...any) (map[string]any, error) {
		for i := 0; i < len(args); i += 2 {
			if _, ok := args[i].(string); !ok {
				if _, err := w.measure(args[i]); err != nil {
					return nil, err
				}
			}
		}
		return f(args...), w.madeList(len(args))
	}
}

func (w *worker) set1(f func(map[string]any, string, any) map[string]any) any {
	return func(m map[string]any, key string, value any) (map[string]any, error) {
		if m == nil {
			return nil, fmt.Errorf("set: there is no map")
		}
		return f(m, key, value), w.grow(32)
	}
}

func (w *worker) copyOf(v any) (any, error) {
	size, err := w.measure(v)
	if err != nil {
		return nil, err
	}
	return copyValue(v), w.grow(int(size))
}

func (w *worker) chunk(f func(int, any) ([][]any, error)) any {
	return func(size int, list any) ([][]any, error) {
		if size <= 0 {
			return nil, fmt.Errorf("chunk: of %d elements", size)
		}
		if list == nil {
			return nil, fmt.Errorf("chunk: null, where a list is needed")
		}
		if err := w.madeList(reflect.Indirect(reflect.ValueOf(list)).Len()); err != nil {
			return nil, err
		}
		return f(size, list)
	}
}

// without compares each element with each other argument.
func (w *worker) without(f func(any, ...any) ([]any, error)) any {
	return func(list any, omit ...any) ([]any, error) {
		if v := reflect.ValueOf(list); v.Kind() == reflect.Slice {
			if err := w.charge(int64(v.Len()) * int64(len(omit)) / 16); err != nil {
				return nil, err
			}
		}
		if _, err := w.measure(append(omit, list)...); err != nil {
			return nil, err
		}
		return w.list2(f(list, omit...))
	}
}

// merged checks the arguments of mergo's functions, which walk all of them.
func (w *worker) merged(args []reflect.Value) error {
	size, err := w.measure(interfaces(args)...)
	if err != nil {
		return err
	}
	return w.grow(int(size))
}

// decoded checks the text that a function parses: the results take about ten times the memory of the text.
func (w *worker) decoded(args []reflect.Value) error {
	if err := w.allow(int64(args[0].Len()) * 2); err != nil {
		return err
	}
	return w.grow(args[0].Len())
}

// regexps adds the functions of regular expressions that return text: matches and
// replacements may be many times as long as the text.
func (w *worker) regexps(funcs template.FuncMap) {
	findAll := func(regex, s string, n int) ([]string, error) {
		return matching(w, regex, s, func(re *regexp.Regexp) ([]string, error) {
			found := re.FindAllString(s, w.many(n))
			return found, w.elements(int64(len(found)))
		})
	}
	split := func(regex, s string, n int) ([]string, error) {
		return matching(w, regex, s, func(re *regexp.Regexp) ([]string, error) {
			parts := re.Split(s, w.many(n))
			return parts, w.elements(int64(len(parts)))
		})
	}
	replace := func(regex, s, by string) (string, error) {
		return matching(w, regex, s, func(re *regexp.Regexp) (string, error) {
			if err := w.replaces(re, s, by, 1+strings.Count(by, "$")); err != nil {
				return "", err
			}
			return re.ReplaceAllString(s, by), nil
		})
	}
	literally := func(regex, s, by string) (string, error) {
		return matching(w, regex, s, func(re *regexp.Regexp) (string, error) {
			if err := w.replaces(re, s, by, 1); err != nil {
				return "", err
			}
			return re.ReplaceAllLiteralString(s, by), nil
		})
	}
	maps.Copy(funcs, template.FuncMap{
		"regexFindAll": findAll, "mustRegexFindAll": findAll,
		"regexSplit": split, "mustRegexSplit": split,
		"regexReplaceAll": replace, "mustRegexReplaceAll": replace,
		"regexReplaceAllLiteral": literally, "mustRegexReplaceAllLiteral": literally,
	})
}

// many bounds the number of matches to one more than elements allows, which is then an error.
func (w *worker) many(n int) int {
	if most := int(w.e.options.Bytes / 16); n < 0 || n > most {
		return most + 1
	}
	return n
}

// matching calls f with the regular expression, until the context ends.
func matching[T string | []string](w *worker, regex, s string, f func(*regexp.Regexp) (T, error)) (T, error) {
	var none T
	re, err := regexp.Compile(regex)
	if err != nil {
		return none, err
	}
	const short = 4 << 10
	if len(s) <= short { // another goroutine costs more
		result, err := f(re)
		if err != nil {
			return none, err
		}
		return result, w.grow(len(result))
	}
	v, err := w.await(1+int64(len(s))>>10, func() (reflect.Value, error) {
		result, err := f(re)
		return reflect.ValueOf(result), err
	})
	if err != nil {
		return none, err
	}
	result := v.Interface().(T)
	return result, w.grow(len(result))
}

// replaces checks how long a text may be after all matches are replaced. Each byte of a match may appear copies times.
func (w *worker) replaces(re *regexp.Regexp, s, by string, copies int) error {
	if int64(len(s)+1)*int64(len(by)+copies) <= w.e.options.Bytes {
		return nil
	}
	matches := len(re.FindAllStringIndex(s, w.many(-1)))
	if err := w.elements(int64(matches)); err != nil {
		return err
	}
	if err := w.product(matches, len(by)); err != nil {
		return err
	}
	return w.product(copies, len(s))
}

// await calls f, and stops waiting for it when the context ends.
func (w *worker) await(cost int64, f func() (reflect.Value, error)) (reflect.Value, error) {
	type outcome struct {
		value reflect.Value
		err   error
	}
	if err := w.charge(cost); err != nil {
		return reflect.Value{}, err
	}
	ctx, done := w.ctx, make(chan outcome, 1)
	go func() {
		value, err := guarded(f)
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return reflect.Value{}, &stopError{context.Cause(ctx)}
	}
}
