package kube

import (
	"testing"

	"sigs.k8s.io/yaml"
)

func TestYAMLWord(t *testing.T) {
	for _, word := range []string{"", "true", "no", "1e3", "0x1", "a: b", "a\x1b[2J", "- a", "é", "{a}", "null", "~", "web-1.x", "y"} {
		var v map[string]any
		if err := yaml.Unmarshal([]byte("a: "+yamlWord(word)), &v); err != nil || v["a"] != word {
			t.Errorf("%q becomes %s, which is %v: %v", word, yamlWord(word), v["a"], err)
		}
	}
}
