package servers

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Kafka is a cluster of franz-go's kfake, which speaks Kafka's protocol and keeps its records in memory. Addrs are the
// brokers' addresses, starting with broker 0.
type Kafka struct {
	Addrs   []string
	control string
}

// KafkaOptions configures [StartKafka].
type KafkaOptions struct {
	Brokers  int         // 1 if zero
	Topics   []string    // "name:partitions"
	Users    []KafkaUser // the users who can log in; without any, no login is needed
	ACLs     bool        // deny by default
	Cert     KeyPair     // plaintext if empty
	ClientCA string      // a file with the CA of the required client certificates
}

// A KafkaUser logs in with a mechanism, PLAIN or one of SCRAM. If it has a topic, it can see only that one.
type KafkaUser struct{ Mechanism, Name, Password, Topic string }

// StartKafka starts a cluster.
func StartKafka(t testing.TB, o KafkaOptions) *Kafka {
	t.Helper()
	program := buildServer(t, "kafka")
	k := &Kafka{control: FreeAddr(t)}
	for range max(o.Brokers, 1) {
		k.Addrs = append(k.Addrs, FreeAddr(t))
	}
	args := []string{"--listen", strings.Join(k.Addrs, ","), "--control", k.control,
		"--cert", o.Cert.CertFile, "--key", o.Cert.KeyFile, "--client-ca", o.ClientCA,
		fmt.Sprintf("--acls=%t", o.ACLs)}
	for _, topic := range o.Topics {
		args = append(args, "--topic", topic)
	}
	for _, u := range o.Users {
		user := u.Mechanism + ":" + u.Name + ":" + u.Password
		if u.Topic != "" {
			user += ":" + u.Topic
		}
		args = append(args, "--user", user)
	}
	p := run(t, program, args...)
	p.untilListening(t, k.control) // the control port is opened last
	return k
}

// NoController removes the controller, as before the first election.
func (k *Kafka) NoController(t testing.TB) { t.Helper(); k.do(t, "no-controller", nil) }

// Advertise sets a broker's advertised address.
func (k *Kafka) Advertise(t testing.TB, node int, addr string) {
	t.Helper()
	k.do(t, "advertise", url.Values{"node": {fmt.Sprint(node)}, "addr": {addr}})
}

// CreateTopic creates a topic.
func (k *Kafka) CreateTopic(t testing.TB, topic string, partitions int) {
	t.Helper()
	k.do(t, "create", url.Values{"topic": {topic}, "n": {fmt.Sprint(partitions)}})
}

// Leaderless removes the leaders of the first n partitions of a topic.
func (k *Kafka) Leaderless(t testing.TB, topic string, n int) {
	t.Helper()
	k.do(t, "leaderless", url.Values{"topic": {topic}, "n": {fmt.Sprint(n)}})
}

// Heal reverts all faults.
func (k *Kafka) Heal(t testing.TB) { t.Helper(); k.do(t, "heal", nil) }

func (k *Kafka) do(t testing.TB, what string, query url.Values) {
	t.Helper()
	client := http.Client{Timeout: requestWithin, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + k.control + "/" + what + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("kafka: %s: status %d", what, resp.StatusCode)
	}
}
