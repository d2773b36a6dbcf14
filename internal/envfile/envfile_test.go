package envfile

import (
	"bufio"
	"bytes"
	"errors"
	"maps"
	"math/big"
	"strings"
	"testing"

	"initbox/render/format"
)

// readAsKubelet reads a file by the rules of the parser of the kubelet (pkg/kubelet/util/env): it reads lines with a
// bufio.Scanner, and so no line of more than 64 KiB, and without the carriage return before a line feed.
func readAsKubelet(data []byte) (map[string]string, error) {
	values := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		line := strings.TrimLeft(lines.Text(), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, rest, ok := strings.Cut(line, "=")
		switch {
		case !ok || name == "" || strings.TrimRight(name, " \t") != name:
			return nil, errors.New("no name")
		case strings.TrimLeft(rest, " \t") != rest:
			values[name] = ""
			continue
		case !strings.HasPrefix(rest, "'"):
			return nil, errors.New("no quote")
		}
		value, rest, closed := strings.Cut(rest[1:], "'")
		for !closed {
			if !lines.Scan() {
				return nil, errors.New("not closed")
			}
			var more string
			more, rest, closed = strings.Cut(lines.Text(), "'")
			value += "\n" + more
		}
		if rest = strings.TrimLeft(rest, " \t"); rest != "" && rest[0] != '#' {
			return nil, errors.New("something follows")
		}
		if _, ok := values[name]; !ok { // the kubelet stops at the first
			values[name] = value
		}
	}
	return values, lines.Err()
}

func TestWrite(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, map[string]any{"B": int64(1000000), "A": "it is \"$x\" \\n #", "C_1": true, "d.e-f": 0.25, "E": "a\nb\n", "F": " x ", "G": "a\rb\r", "H": new(big.Int).Lsh(big.NewInt(1), 64)})
	want := "A='it is \"$x\" \\n #'\nB='1000000'\nC_1='true'\nE='a\nb\n'\nF=' x '\nG='a\rb\r'\nH='18446744073709551616'\nd.e-f='0.25'\n"
	if err != nil || b.String() != want {
		t.Errorf("%q, %v", b.String(), err)
	}
	if got, err := readAsKubelet(b.Bytes()); err != nil || got["E"] != "a\nb\n" || got["G"] != "a\rb\r" || len(got) != 8 {
		t.Errorf("the kubelet reads %q, %v", got, err)
	}
	if err := Write(&b, nil); err != nil {
		t.Error(err)
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		value any
		want  string
	}{
		{"PASS", "it's hunter2", "env file: PASS: the value contains a single quote"},
		{"PASS", "hunter2\x00", "NUL byte"},
		{"PASS", "hunter2\r\nx", "carriage return"},
		{"PASS", "hunter2\xff", "not UTF-8"},
		{"PASS", "", "the value is empty, which the kubelet takes for missing"},
		{"PASS", strings.Repeat("hunter2", 5000), "longer than the 32768 bytes"},
		{"PASS", map[string]any{"hunter2": 1}, "a map cannot be the value"},
		{"PASS", []any{"hunter2"}, "a list cannot be the value"},
		{"PASS", nil, "there is no value"},
		{"1PASS", "hunter2", `"1PASS": not the name`},
		{"PA SS", "hunter2", "not the name"},
		{"PA=SS", "hunter2", "not the name"},
		{"#PASS", "hunter2", "not the name"},
		{"", "hunter2", "not the name"},
		{"..", "hunter2", "not the name"},
		{strings.Repeat("A", 129), "hunter2", "longer than the 128 bytes"},
	} {
		var b bytes.Buffer
		err := Write(&b, map[string]any{test.name: test.value, "A": "b"})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") || b.Len() > 0 {
			t.Errorf("%.20q=%.20q: error %v, want %q; wrote %q", test.name, test.value, err, test.want, b.String())
		}
	}
	large := map[string]any{"A": strings.Repeat("x", 32<<10), "B": strings.Repeat("x", 32<<10)}
	if err := Write(&bytes.Buffer{}, large); err == nil || !strings.Contains(err.Error(), "65536") {
		t.Errorf("a large file: %v", err)
	}
}

// FuzzEnvFile reads back, as the kubelet does and as any reader of .env files, what could be written.
func FuzzEnvFile(f *testing.F) {
	f.Add("A", "b", "C", "d\ne")
	f.Add("A.b-c", "# '", "_", "\r")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		want := map[string]string{name1: value1, name2: value2}
		values := map[string]any{}
		for k, v := range want {
			values[k] = v
		}
		var b bytes.Buffer
		if err := Write(&b, values); err != nil {
			return
		}
		got, err := readAsKubelet(b.Bytes())
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%q: read %q, %v", b.String(), got, err)
		}
		if name1[0] == '_' || 'A' <= name1[0] && name1[0] <= 'Z' {
			if doc, err := format.For(".env").Parse(b.Bytes()); err == nil && doc.(map[string]any)[name1] != want[name1] {
				t.Errorf("%q: a reader of .env has %q", b.String(), doc)
			}
		}
	})
}
