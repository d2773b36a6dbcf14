package kafka_test

import (
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor"
	"initbox/waitfor/target"
)

// kinds is the table of all kinds.
var kinds = waitfor.Kinds()

// TestReal asks kfake, which its author's client accepts as Kafka.
func TestReal(t *testing.T) {
	t.Parallel()
	k := servers.StartKafka(t, servers.KafkaOptions{Brokers: 3, Topics: []string{"orders:6", "payments:1"}})
	all := strings.Join(k.Addrs, ",")
	refused := kindtest.RefusedAddr(t)
	for _, step := range []struct {
		before func()
		target string
		want   string
	}{
		{nil, "kafka://" + k.Addrs[0], ""},
		{nil, "kafka://" + all + "/orders#topic=payments&brokers=3&advertised", ""},
		{nil, "kafka://" + refused + "," + k.Addrs[2], ""},
		{nil, "kafka://PLAINTEXT://" + strings.Join(k.Addrs, ",PLAINTEXT://"), ""},
		{nil, "kafka://" + all + "#brokers=4", "3 of 4 brokers"},
		{nil, "kafka://" + all + "/late", "topic late does not exist"},
		{nil, "kafka://" + all + "/late", "topic late does not exist"}, // nor did the request create it
		{func() { k.CreateTopic(t, "late", 2) }, "kafka://" + all + "/late", ""},
		{func() { k.Leaderless(t, "orders", 2) }, "kafka://" + all + "/orders", "topic orders: 2 of 6 partitions have no leader"},
		{nil, "kafka://" + all + "/payments", ""},
		{func() { k.NoController(t) }, "kafka://" + all, "no controller yet"},
		{func() { k.Heal(t) }, "kafka://" + all + "/orders", ""},
		{func() { k.Advertise(t, 2, refused) }, "kafka://" + k.Addrs[0], ""},
	} {
		if step.before != nil {
			step.before()
		}
		kindtest.RequireFailure(t, kindtest.Failure(t, kinds, step.target, target.Options{}), failure.Unexpected, step.want)
	}
	f := kindtest.Failure(t, kinds, "kafka://"+k.Addrs[0]+"#advertised", target.Options{})
	kindtest.RequireFailure(t, f, failure.Refused, "broker 2, advertised as "+refused+": connection refused")
	if f := kindtest.Failure(t, kinds, "kafka://"+k.Addrs[0]+"#advertised&gone", target.Options{}); f == nil {
		t.Error("a refused advertised address is reported as a missing cluster")
	}
}

// TestRealWait waits for a cluster that becomes ready step by step.
func TestRealWait(t *testing.T) {
	t.Parallel()
	k := servers.StartKafka(t, servers.KafkaOptions{})
	k.NoController(t)
	var logs servers.Output
	o := target.Options{Log: slog.New(slog.NewTextHandler(&logs, nil)), AttemptTimeout: 30 * time.Second}
	check, err := waitfor.Parse("kafka://"+k.Addrs[0]+"/orders", o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- waitfor.All(t.Context(), o, check) }()
	until := func(text string) {
		t.Helper()
		for give := time.Now().Add(30 * time.Second); !strings.Contains(logs.String(), text); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(give) {
				t.Fatalf("no %q in the log:\n%s", text, &logs)
			}
		}
	}
	until("no controller yet")
	k.Heal(t)
	until("topic orders does not exist")
	k.Leaderless(t, "orders", 1)
	k.CreateTopic(t, "orders", 6)
	until("topic orders: 1 of 6 partitions has no leader")
	k.Heal(t)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRealSASL logs in with each mechanism.
func TestRealSASL(t *testing.T) {
	t.Parallel()
	k := servers.StartKafka(t, servers.KafkaOptions{Topics: []string{"orders:6", "secrets:1"}, ACLs: true, Users: []servers.KafkaUser{
		{Mechanism: "PLAIN", Name: "plain", Password: "plain-hUnter2"},
		{Mechanism: "SCRAM-SHA-256", Name: "s256", Password: "256-hUnter2"},
		{Mechanism: "SCRAM-SHA-512", Name: "s512", Password: "512-hUnter2"},
		{Mechanism: "SCRAM-SHA-512", Name: "reader", Password: "r=,%hUnter2", Topic: "orders"},
	}})
	addr := k.Addrs[0]
	password := kindtest.File(t, "512-hUnter2\n")
	getenv := func(name string) string { return map[string]string{"PASSWORD": "256-hUnter2"}[name] }
	for text, want := range map[string]string{
		"ADDR": "closes the connection of a client without a login",
		"plain:plain-hUnter2@ADDR/orders#mechanism=PLAIN":                    "",
		"s256:${env:PASSWORD}@ADDR/orders#mechanism=SCRAM-SHA-256":           "",
		"s256:256-hUnter2@ADDR?sasl.mechanism=scram-sha-256":                 "",
		"s512:512-hUnter2@ADDR/secrets":                                      "",
		"s512:${file:" + password + "}@ADDR":                                 "",
		"ADDR#user=s512&password-file=" + password:                           "",
		"reader:r%3D%2C%25hUnter2@ADDR/orders":                               "",
		"reader:r%3D%2C%25hUnter2@ADDR/secrets":                              "topic secrets: not authorized",
		"plain:wrong-hUnter2@ADDR/orders#mechanism=PLAIN":                    "SASL: Authentication failed: Invalid username or password",
		"s512:wrong-hUnter2@ADDR":                                            "SASL: the broker closes the connection during the login",
		"s256:256-hUnter2@ADDR#mechanism=OAUTHBEARER&token-file=" + password: "the broker offers SASL with PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 only, not with OAUTHBEARER",
	} {
		f := kindtest.Failure(t, kinds, "kafka://"+strings.Replace(text, "ADDR", addr, 1), target.Options{Getenv: getenv})
		kindtest.RequireFailure(t, f, failure.Authentication, want)
		if f != nil && strings.Contains(f.Error()+f.Hint, "Unter2") {
			t.Errorf("%s: %v", text, f)
		}
	}
	open := servers.StartKafka(t, servers.KafkaOptions{})
	kindtest.RequireFailure(t, kindtest.Failure(t, kinds, "kafka://app:hUnter2@"+open.Addrs[0], target.Options{}), failure.Authentication, "the broker does not accept a login on this port")
}

// TestRealTLS uses TLS with a client certificate, and with the password by PLAIN, which is chosen over TLS.
func TestRealTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := servers.NewCA(t), servers.NewCA(t)
	client := ca.Client(t, "app")
	cert := ca.Server(t, "127.0.0.1")
	mutual := servers.StartKafka(t, servers.KafkaOptions{Cert: cert, ClientCA: ca.File, Topics: []string{"orders:1"}})
	login := servers.StartKafka(t, servers.KafkaOptions{Cert: cert, Users: []servers.KafkaUser{{Mechanism: "PLAIN", Name: "app", Password: "hUnter2"}}})
	_, port, _ := net.SplitHostPort(mutual.Addrs[0])
	keys := "&cert-file=" + client.CertFile + "&key-file=" + client.KeyFile
	for text, want := range map[string]string{
		mutual.Addrs[0] + "/orders#tls&advertised&ca-file=" + ca.File + keys:                                                                                           "",
		"SSL://" + mutual.Addrs[0] + "/orders#ca-file=" + ca.File + keys:                                                                                               "",
		mutual.Addrs[0] + "?security.protocol=SSL&ssl.ca.location=" + ca.File + "&ssl.certificate.location=" + client.CertFile + "&ssl.key.location=" + client.KeyFile: "",
		mutual.Addrs[0] + "#tls&ca-file=" + ca.File:                                                                                                                    "TLS: the server refused the handshake",
		mutual.Addrs[0] + "#tls&ca-file=" + stranger.File + keys:                                                                                                       "TLS: the certificate is signed by an unknown authority",
		"localhost:" + port + "#tls&ca-file=" + ca.File + keys:                                                                                                         "TLS: the certificate is not for localhost",
		"app:hUnter2@SASL_SSL://" + login.Addrs[0] + "#ca-file=" + ca.File:                                                                                             "",
	} {
		f := kindtest.Failure(t, kinds, "kafka://"+text, target.Options{})
		if want == "" && f != nil || want != "" && (f == nil || f.Class != failure.TLS || !strings.HasPrefix(f.Text, want)) {
			t.Errorf("%s: %v, want %q", text, f, want)
		}
	}
	plain := kindtest.Failure(t, kinds, "kafka://"+mutual.Addrs[0], target.Options{})
	if plain == nil || plain.Class != failure.TLS && plain.Class != failure.Reset {
		t.Errorf("without TLS: %v", plain)
	}
}
