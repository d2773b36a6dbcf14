package gotemplate

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"initbox/render/engine"
)

// TestWholeNumbers pins that whole numbers beyond int64 are never rounded: they stay, or are an error.
func TestWholeNumbers(t *testing.T) {
	whole := func(digits string) *big.Int { i, _ := new(big.Int).SetString(digits, 10); return i }
	data := &engine.Data{Values: map[string]any{
		"u": whole("12345678901234567890"), "b": whole("123456789012345678901234567890"), "same": whole("123456789012345678901234567890"),
		"n": whole("-123456789012345678901234567890"), "word": "whole1", "list": []any{whole("18446744073709551615"), whole("18446744073709551616")},
	}}
	run := func(text string) (string, error) {
		tmpl, err := New(data, engine.Options{}).Parse("t", text)
		if err != nil {
			return "", err
		}
		var out strings.Builder
		err = tmpl.Execute(t.Context(), &out)
		return out.String(), err
	}
	for text, want := range map[string]string{
		`{{.Values.u}} {{.Values.b}} {{.Values.n}} {{.Values.list}}`:                               "12345678901234567890 123456789012345678901234567890 -123456789012345678901234567890 [18446744073709551615 18446744073709551616]",
		`{{toString .Values.u}} {{quote .Values.b}} {{print .Values.n}} {{printf "%d" .Values.b}}`: `12345678901234567890 "123456789012345678901234567890" -123456789012345678901234567890 123456789012345678901234567890`,
		`{{toJson .Values.list}} {{.Values.b | toPrettyJson}} {{toRawJson .Values.u}}`:             "[18446744073709551615,18446744073709551616] 123456789012345678901234567890 12345678901234567890",
		`{{toYaml .Values}}`: "b: 123456789012345678901234567890\nlist:\n- 18446744073709551615\n- 18446744073709551616\n\"n\": -123456789012345678901234567890\nsame: 123456789012345678901234567890\nu: 12345678901234567890\nword: whole1",
		`{{dict "b" .Values.b "u" .Values.u | toYamlPretty}}`:                                                     "b: 123456789012345678901234567890\nu: 12345678901234567890",
		`{{chunk 1 .Values.list | toYaml}}`:                                                                       "- - 18446744073709551615\n- - 18446744073709551616",
		`{{dict "b" .Values.b "u" .Values.u | toToml}}`:                                                           "b = 123456789012345678901234567890\nu = 12345678901234567890\n",
		`{{eq .Values.b .Values.same}} {{eq .Values.b .Values.n}} {{gt .Values.u 5}} {{.Values.b | default 1}}`:   "true false true 123456789012345678901234567890",
		`{{$_ := set .Values "x" 1}}{{.Values.b}} {{(deepCopy .Values).n}} {{has .Values.b (list .Values.same)}}`: "123456789012345678901234567890 -123456789012345678901234567890 true",
		`{{round .Values.u 0}}`: "1.2345678901234567e+19", // a float64, as in sprig
	} {
		if got, err := run(text); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`{{int64 .Values.u}}`, `{{int .Values.b}}`, `{{add .Values.u 1}}`, `{{.Values.b | mul 2}}`, `{{max 1 .Values.n}}`, `{{float64 .Values.b}}`, `{{addf .Values.b 1}}`, `{{floor .Values.b}}`} {
		if got, err := run(text); err == nil || !strings.Contains(err.Error(), "the number is too large to calculate with") {
			t.Errorf("%s: got %q, %v, want an error", text, got, err)
		}
	}
}

// TestNarrowInt: where an int has 32 bits, what does not fit into it is an error, and not another number.
func TestNarrowInt(t *testing.T) {
	for text, want := range map[string]string{
		`{{int "5000000000"}}`: "5000000000", `{{atoi "5000000000"}}`: "5000000000", `{{int 5e9}}`: "5000000000",
		`{{int64 "5000000000" | int}}`: "5000000000", `{{int64 "5000000000" | add 1}}`: "5000000001",
		`{{range untilStep 2147483640 2147483647 3}}{{.}} {{end}}`: "2147483640 2147483643 2147483646 ",
	} {
		got, err := render(t, engine.Options{}, text)
		switch narrow := strconv.IntSize == 32 && !strings.Contains(text, "add") && !strings.Contains(text, "untilStep"); {
		case narrow && (err == nil || !strings.Contains(err.Error(), "too large") && !strings.Contains(err.Error(), "overflows int")):
			t.Errorf("%s: got %q, %v, want an error", text, got, err)
		case !narrow && (got != want || err != nil):
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}
