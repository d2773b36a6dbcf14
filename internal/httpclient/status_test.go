package httpclient

import (
	"slices"
	"testing"
)

func TestParseStatuses(t *testing.T) {
	for list, want := range map[string]Statuses{
		"200":         {{200, 200}},
		"200,401-403": {{200, 200}, {401, 403}},
		" 200 , 500 ": {{200, 200}, {500, 500}},
		"100-999":     {{100, 999}},
	} {
		if got, err := ParseStatuses(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseStatuses(%q) = %v, %v, want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"", ",", "200,", "99", "1000", "403-401", "2xx", "-", "200-", "-200", "200-300-400", "200;300"} {
		if got, err := ParseStatuses(list); err == nil {
			t.Errorf("ParseStatuses(%q) = %v, want an error", list, got)
		}
	}
}
