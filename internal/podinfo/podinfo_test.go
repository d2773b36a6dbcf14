package podinfo

import "testing"

func TestOrdinal(t *testing.T) {
	for name, want := range map[string]int{"web-0": 0, "web-12": 12, "a-b-3": 3} {
		if got, err := Ordinal(name); err != nil || got != want {
			t.Errorf("Ordinal(%q) = %d, %v, want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "web", "7", "web-", "web-x", "web-7c9f", "web--", "web-99999999999"} {
		if got, err := Ordinal(name); err == nil {
			t.Errorf("Ordinal(%q) = %d, want an error", name, got)
		}
	}
}

func TestNameAndSeed(t *testing.T) {
	t.Setenv("POD_NAME", "web-1")
	first := Seed()
	if Name() != "web-1" {
		t.Errorf("Name() = %q", Name())
	}
	t.Setenv("POD_NAME", "web-2")
	if Seed() == first {
		t.Error("two Pods have the same seed")
	}
	first = Seed()
	t.Setenv("POD_NAMESPACE", "other")
	if Seed() == first {
		t.Error("two Pods of one name have the same seed")
	}
	t.Setenv("POD_NAME", "")
	if Name() == "" {
		t.Error("no name without POD_NAME, want the host's")
	}
}
