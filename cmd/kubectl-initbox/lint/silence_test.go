package lint

import (
	"fmt"
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/manifest"
)

func check(t *testing.T, text string) []Finding {
	t.Helper()
	objects, err := manifest.Read("a.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return Check(objects, Options{})
}

func TestSilence(t *testing.T) {
	const pod = `apiVersion: v1
kind: Pod
metadata:
  name: a
  annotations: {other: "1"%s}
spec:
  containers:
  - name: main %s
    image: registry.example/initbox %s
    args: [wait-for-dns, a]
`
	for _, test := range []struct{ annotation, container, image, want string }{
		{"", "", "", "9 image-tag"},
		{", initbox.dev/ignore-image-tag: it is pinned elsewhere", "", "", ""},
		{"", "", "# initbox:ignore image-tag it is pinned elsewhere", ""},
		{"", "# initbox:ignore image-tag it is pinned elsewhere", "", ""},
		{"", "\n    # initbox:ignore image-tag it is pinned elsewhere\n    # more of the reason", "", ""},
		{"", "", "# initbox:ignore image-tag", "9 image-tag 9 ignore: image-tag is not silenced: the reason is missing"},
		{`, initbox.dev/ignore-image-tag: " "`, "", "", "5 ignore: image-tag is not silenced: the reason is missing 9 image-tag"},
		{"", "", "# initbox:ignore image-tga because", "9 image-tag 9 ignore: no such rule: image-tga"},
		{"", "", "# initbox:ignore", "9 image-tag 9 ignore: no rule is named"},
		{", initbox.dev/ignore-ignore: because", "", "", "5 ignore: no such rule: ignore 9 image-tag"},
		{", initbox.dev/ignore-no-shell: because", "", "", "5 ignore: there is nothing to silence: no-shell finds nothing here 9 image-tag"},
		{", initbox.dev/ignore-image-tag: both", "# initbox:ignore image-tag both", "", ""},
	} {
		var got []string
		for _, f := range check(t, fmt.Sprintf(pod, test.annotation, test.container, test.image)) {
			text := fmt.Sprintf("%d %s", f.Line, f.Rule)
			if f.Rule == "ignore" {
				text += ": " + f.Message
			}
			got = append(got, text)
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%+v:\n got %s\nwant %s", test, got, test.want)
		}
	}
	findings := check(t, fmt.Sprintf(pod, "", "", "# initbox:ignore image-tga because"))
	if !strings.Contains(findings[1].Fix, "did you mean image-tag?") {
		t.Errorf("the near rule is not named: %s", findings[1].Fix)
	}
}
