package real_test

import (
	"testing"

	"initbox/test/servers"
)

func TestGRPCBecomesServing(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	for name, c := range map[string]struct {
		cert   servers.KeyPair
		scheme string
		args   []string
	}{
		"plaintext": {scheme: "grpc://"},
		"TLS":       {ca.Server(t, "127.0.0.1"), "grpcs://", []string{"--ca-file=" + ca.File}},
	} {
		for _, service := range []string{"", "/shop.Orders"} {
			t.Run(name+service, func(t *testing.T) {
				t.Parallel()
				h := servers.StartGRPCHealth(t, servers.GRPCHealthOptions{Cert: c.cert, Service: "shop.Orders", NotServing: true})
				args := append([]string{"wait-for-service", c.scheme + h.Addr + service, "--timeout=60s"}, c.args...)
				w := start(t, args...)
				w.untilLogged(`(?i)not.serving`)
				h.SetServing(t)
				w.wantWithin(soon, ready)
			})
		}
	}
}

func TestGRPCNeverServing(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	plaintext := servers.StartGRPCHealth(t, servers.GRPCHealthOptions{Service: "shop.Orders"}).Addr
	secure := servers.StartGRPCHealth(t, servers.GRPCHealthOptions{Cert: ca.Server(t, "127.0.0.1")}).Addr
	web := servers.StartNGINX(t, servers.NGINXOptions{}).H2C
	for name, c := range map[string]struct {
		target string
		args   []string
		log    string
	}{
		"unknown service":         {"grpc://" + plaintext + "/shop.Payments", nil, `(?i)unknown|not.?found|no such service`},
		"TLS asked of plaintext":  {"grpcs://" + plaintext, []string{"--insecure"}, `(?i)tls`},
		"plaintext asked of TLS":  {"grpc://" + secure, nil, `grpc://` + secure},
		"certificate not trusted": {"grpcs://" + secure, nil, `(?i)unknown authority|not trusted`},
		"HTTP/2 but not gRPC":     {"grpc://" + web, nil, `404`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"wait-for-service", c.target, "--timeout=60s"}, c.args...)
			start(t, args...).stuck(c.log)
		})
	}
}
