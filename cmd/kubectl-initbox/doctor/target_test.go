package doctor

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"initbox/internal/words"
)

// TestMentions pins which addresses are found in scripts that are not understood, and that passwords do not count as
// addresses.
func TestMentions(t *testing.T) {
	for script, want := range map[string]string{
		"nc -z -w 2 pg 5432":                                   "pg:5432",
		"nc -zv redis.data 6379 && telnet mq 5672":             "redis.data:6379 mq:5672",
		"nslookup api.shop.svc.cluster.local":                  "api.shop.svc.cluster.local:",
		"curl -fsS http://api:8080/health http://api:8080":     "api:8080",
		"pg_isready -d postgres://me:12345@pg:5432/x":          "pg:5432",
		"wait-for-it.sh --host=$DB_HOST:5432":                  "db:5432",
		"mysql --password 12345; redis-cli -a 54321; sleep 30": "",
	} {
		p := &Pod{container: &corev1.Container{Command: []string{"sh", "-c", script}, Env: []corev1.EnvVar{{Name: "DB_HOST", Value: "db"}}}}
		if got := strings.Join(words.Each(p.mentions(), func(a address) string { return a.host + ":" + a.port }), " "); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
}

// FuzzMessage pins that what a container left for Kubernetes is one short line, whatever it is.
func FuzzMessage(f *testing.F) {
	f.Add("error\nhint: do\r\n\x1b[2J\u202e" + strings.Repeat("é", 500))
	f.Fuzz(func(t *testing.T, text string) {
		got := message(text)
		if strings.ContainsAny(got, "\n\r\x1b\u202e\u2028") || len(got) > messageLimit+len("…") {
			t.Errorf("%q", got)
		}
	})
}
