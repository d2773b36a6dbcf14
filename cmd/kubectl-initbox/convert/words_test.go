package convert

import (
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// container returns the container of a YAML mapping.
func container(t testing.TB, yaml string) *manifest.Container {
	t.Helper()
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  initContainers:\n  - name: c\n" + strings.ReplaceAll("\n"+yaml, "\n", "\n    ")
	objects, err := manifest.Read("test.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := objects[0].Pod.Containers[0]
	if c.Err != nil {
		t.Fatal(c.Err)
	}
	return c
}

const someEnv = `image: busybox
env:
- {name: HOST, value: db}
- {name: EMPTY, value: ""}
- {name: LIST, value: a b}
- {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['x']"}}}
- {name: PORT, valueFrom: {configMapKeyRef: {name: c, key: port}}}
- {name: MAYBE, valueFrom: {configMapKeyRef: {name: c, key: maybe, optional: true}}}
- {name: PASSWORD, valueFrom: {secretKeyRef: {name: s, key: password}}}
- {name: ADDRESS, value: "$(HOST):$(PORT)"}
- {name: URL, value: "postgres://u:$(PASSWORD)@$(HOST)"}
- {name: LATER, value: "$(LATEST)"}
- {name: LATEST, value: x}
`

func TestArg(t *testing.T) {
	t.Parallel()
	c := container(t, someEnv)
	split := func(name string) shell.Word { return shell.Word{{Env: name, Split: true}} }
	or := func(name, otherwise string) shell.Word {
		return shell.Word{{Env: name, Default: shell.Word{{Text: otherwise}}}}
	}
	for _, test := range []struct {
		word         shell.Word
		want, secret string
	}{
		{word: shell.Word{{Text: "tcp://"}, {Env: "HOST"}, {Text: ":5432"}}, want: "tcp://$(HOST):5432"},
		{word: shell.Word{{Text: "$(HOST) $$ $x $"}}, want: "$$(HOST) $$$ $x $"},
		{word: shell.Word{{Text: "cost$"}, {Env: "HOST"}}, want: "cost$$$(HOST)"},
		{word: shell.Word{{Env: "IP"}}, want: "$(IP)"},
		{word: shell.Word{{Env: "PORT"}}, want: "$(PORT)"},
		{word: shell.Word{{Env: "ADDRESS"}}, want: "$(ADDRESS)"},
		{word: split("HOST"), want: "$(HOST)"},
		{word: or("HOST", "other"), want: "$(HOST)"},
		{word: or("IP", "other"), want: "$(IP)"},
		{word: or("EMPTY", "other"), want: "other"},
		{word: or("UNSET", "other"), want: "other"},
		{word: or("PORT", "other"), want: "error: the value of PORT may be empty"},
		{word: or("MAYBE", "other"), want: "error: its key is optional"},
		{word: or("PG_PORT", "other"), want: "error: if there is such a Service"},
		{word: split("LIST"), want: "error: is not one word"},
		{word: split("EMPTY"), want: "error: is not one word"},
		{word: shell.Word{{Env: "LIST"}}, want: "$(LIST)"},
		{word: shell.Word{{Env: "NOTE"}}, want: "error: an annotation may be missing"},
		{word: shell.Word{{Env: "UNSET"}}, want: "error: UNSET is not set"},
		{word: shell.Word{{Env: "HOME"}}, want: "error: set by the container runtime"},
		{word: shell.Word{{Text: "*.pem", Glob: true}}, want: "error: *.pem: a pattern"},
		{word: shell.Word{{Env: "PASSWORD"}}, want: "error: from a Secret", secret: "${env:PASSWORD}"},
		{word: shell.Word{{Env: "URL"}}, want: "error: from a Secret", secret: "${env:URL}"},
		{word: shell.Word{{Text: "${env:X}"}}, want: "${env:X}", secret: "error: would read as a reference"},
	} {
		if test.secret == "" {
			test.secret = test.want
		}
		for want, f := range map[string]func(shell.Word, *manifest.Container) (string, error){test.want: arg, test.secret: secretArg} {
			got, err := f(test.word, c)
			reason, wantError := strings.CutPrefix(want, "error: ")
			if wantError != (err != nil) || err != nil && !strings.Contains(err.Error(), reason) || err == nil && got != want {
				t.Errorf("%s: %q, %v; want %q", test.word, got, err, want)
			}
		}
	}
	c.Image = "example/app"
	if _, err := arg(or("UNSET", "other"), c); err == nil || !strings.Contains(err.Error(), "the image may set it") {
		t.Errorf("a variable that the image may set: %v", err)
	}
}

func TestKubeletWord(t *testing.T) {
	t.Parallel()
	c := container(t, someEnv)
	got, err := words([]string{"a$(HOST)b$$(HOST)$(date)$", "$(", "", "$(IP)"}, c)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"a$HOSTb$(HOST)$(date)$", "$(", "", "$IP"} {
		if got[i].String() != want {
			t.Errorf("%s, want %s", got[i], want)
		}
	}
	if got[0][1].Env != "HOST" || len(got[0]) != 3 {
		t.Errorf("%+v", got[0])
	}
	if text, ok := known(shell.Word{{Env: "LATER"}}, c); text != "$(LATEST)" || !ok {
		t.Errorf("a variable that is set later: %q, %v", text, ok)
	}
	if _, err := words([]string{"$(PG_SERVICE_HOST)"}, c); err == nil {
		t.Error("a variable of a Service is taken for a text")
	}
}

// TestNestedVariable pins that the value of a variable has those that it names: a script may decide on it.
func TestNestedVariable(t *testing.T) {
	c := container(t, "image: alpine\nenv: [{name: A, value: prod}, {name: B, value: $(A)}, {name: C, value: x-$(B)-$$(A)}, {name: D, value: $(E)}, {name: E, value: later}]")
	for name, want := range map[string]string{"B": "prod", "C": "x-prod-$(A)", "D": "$(E)"} {
		if v := lookup(name, c); v.origin != inManifest || v.value != want {
			t.Errorf("%s: %+v, want %s", name, v, want)
		}
	}
}
