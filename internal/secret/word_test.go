package secret

import "testing"

func TestWord(t *testing.T) {
	for text, want := range map[string]string{
		"https://git.example/app.git":               "https://git.example/app.git",
		"http://u:hunter2@git.example/app":          "http://…@git.example/app",
		"https://ghp_hunter2@git.example/app":       "https://…@git.example/app",
		"https://u:hun/te@r2@git.example/app":       "https://…@git.example/app",
		"https://u:hun?te#r2@git.example/app":       "https://…@git.example/app",
		"https://me:${env:PW}@git.example/app":      "https://me:${env:PW}@git.example/app",
		"https://me:${file:/a@b/c}@git.example/app": "https://me:${file:/a@b/c}@git.example/app",
		"https://me:hunter2${env:PW}@git.example/a": "https://…@git.example/a",
		"http://hook/x?token=hunter2":               "http://hook/x?…",
		"http://hook/x#hunter2":                     "http://hook/x#…",
		"--webhook-url=http://u:hunter2@hook/":      "--webhook-url=http://…@hook/",
		"ssh://git@git.example:22/app":              "ssh://git@git.example:22/app",
		"ssh://u:hunter2@git.example/app":           "ssh://…@git.example/app",
		"u:hunter2@git.example/app":                 "…@git.example/app",
		"git@git.example:team/app":                  "git@git.example:team/app",
		"file:///run/a@b?c":                         "file:///run/a@b?c",
		`k8s:pod/p#jsonpath={.x[?(@.name=="a")].y}`: `k8s:pod/p#jsonpath={.x[?(@.name=="a")].y}`,
		"!*.png": "!*.png",
		"":       "",
	} {
		if got := Word(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
