package podinfo

import (
	"fmt"
	"testing"
)

func TestHosts(t *testing.T) {
	const managed = `# Kubernetes-managed hosts file.
127.0.0.1	localhost
::1	localhost ip6-localhost ip6-loopback
`
	for _, test := range []struct{ lines, host, want string }{
		{"10.244.0.7\tweb-0.web.shop.svc.cluster.local\tweb-0\nfd00::7\tweb-0.web.shop.svc.cluster.local\tweb-0\n", "web-0",
			"[web-0 web-0.web web-0.web.shop web-0.web.shop.svc web-0.web.shop.svc.cluster.local] [10.244.0.7 fd00::7]"},
		{"10.244.0.8\tapi-7c9f\n", "api-7c9f", "[api-7c9f] [10.244.0.8]"},
		{"10.244.0.9\tdb-0.db.shop.svc.corp.example\tdb-0\n", "db-0.db.shop.svc.corp.example",
			"[db-0 db-0.db db-0.db.shop db-0.db.shop.svc db-0.db.shop.svc.corp.example] [10.244.0.9]"},
		// An entry of hostAliases that is about the Pod's name adds no other name.
		{"10.0.0.1\tother.example api # api\n127.0.1.1 api\nnonsense api\n", "api", "[api] [10.0.0.1]"},
		{"10.0.0.1\tother.example\n", "api", "[] []"},
	} {
		names, addrs := parseHosts(managed+test.lines, test.host)
		if got := fmt.Sprint(names, addrs); got != test.want {
			t.Errorf("%s in %q: %s, want %s", test.host, test.lines, got, test.want)
		}
	}
}
