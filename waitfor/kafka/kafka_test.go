package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/target"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

// fakeKafka follows the protocol's specification (https://kafka.apache.org/protocol.html), where kfake does not. A
// request for which answer returns nothing ends the connection.
type fakeKafka struct {
	lowest, highest int16 // of Metadata
	answer          func(key, version int16, body []byte) []byte

	mu       sync.Mutex
	requests []request
}

type request struct {
	key, version int16
	body         string
}

func (k *fakeKafka) start(t testing.TB) (addr string) {
	t.Helper()
	return servers.Serve(t, k.serve)
}

func (k *fakeKafka) serve(c net.Conn) {
	defer c.Close()
	for {
		var size uint32
		if binary.Read(c, binary.BigEndian, &size) != nil || size > 1<<16 {
			return
		}
		p := make([]byte, size)
		if _, err := io.ReadFull(c, p); err != nil {
			return
		}
		r := &reader{rest: p}
		key, version, id := r.int16(), r.int16(), r.int32()
		if r.text() != "initbox" || r.short {
			return
		}
		k.mu.Lock()
		k.requests = append(k.requests, request{key, version, string(r.rest)})
		k.mu.Unlock()
		var answer []byte
		if key == keyAPIVersions {
			answer = fields(int16(0), int32(2), int16(0), int16(0), int16(9), int16(keyMetadata), k.lowest, k.highest)
		} else if answer = k.answer(key, version, r.rest); answer == nil {
			return
		}
		c.Write(append(fields(int32(4+len(answer)), id), answer...))
	}
}

// said returns the contents of the requests with the key.
func (k *fakeKafka) said(key int16) (bodies []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.requests {
		if r.key == key {
			bodies = append(bodies, r.body)
		}
	}
	return bodies
}

// fields encodes numbers, and strings and bytes after their length.
func fields(fields ...any) (p []byte) {
	for _, f := range fields {
		switch f := f.(type) {
		case bool:
			p = append(p, map[bool]byte{true: 1}[f])
		case int16:
			p = binary.BigEndian.AppendUint16(p, uint16(f))
		case int32:
			p = binary.BigEndian.AppendUint32(p, uint32(f))
		case string:
			p = appendString(p, f)
		case []byte:
			p = append(binary.BigEndian.AppendUint32(p, uint32(len(f))), f...)
		case []string:
			p = binary.BigEndian.AppendUint32(p, uint32(len(f)))
			for _, s := range f {
				p = appendString(p, s)
			}
		}
	}
	return p
}

// metadataAnswer is a broker's answer to Metadata: brokers 1 to n, and topics.
func metadataAnswer(version int16, brokers, controller int32, topics ...fakeTopic) []byte {
	p := fields(int32(0), brokers)
	for id := range brokers {
		p = append(p, fields(id+1, "broker.example", int32(9092), "rack")...)
	}
	p = append(p, fields(int16(-1), controller, int32(len(topics)))...) // cluster_id is null
	for _, t := range topics {
		p = append(p, fields(t.code, t.name, false, int32(len(t.leaders)))...)
		for i, leader := range t.leaders {
			code := int16(0)
			if leader < 0 {
				code = leaderNotAvailable
			}
			p = append(p, fields(code, int32(i), leader)...)
			if version >= 7 {
				p = append(p, fields(int32(3))...)
			}
			p = append(p, fields(int32(2), int32(1), int32(2), int32(1), int32(1))...)
			if version >= 5 {
				p = append(p, fields(int32(0))...)
			}
		}
		if version >= 8 {
			p = append(p, fields(int32(-2147483648))...)
		}
	}
	if version >= 8 {
		p = append(p, fields(int32(-2147483648))...)
	}
	return p
}

type fakeTopic struct {
	name    string
	code    int16
	leaders []int32 // -1: none
}

// TestMetadata pins when a cluster and its topics are ready, in each supported version of the request, and that no
// request creates a topic.
func TestMetadata(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		target  string // the part after the address
		brokers int32
		control int32
		topics  []fakeTopic
		want    string
	}{
		{"", 1, 1, nil, ""},
		{"", 3, 2, nil, ""},
		{"", 0, -1, nil, "no controller yet"}, // a broker that does not know the cluster yet
		{"", 3, -1, nil, "no controller yet"},
		{"", 2, 3, nil, "the controller, broker 3, is not in the cluster"},
		{"#brokers=3", 3, 1, nil, ""},
		{"#brokers=3", 2, 1, nil, "2 of 3 brokers"},
		{"#topic=a", 1, 1, []fakeTopic{{"a", 0, []int32{1, 1}}}, ""},
		{"/a#topic=b", 1, 1, []fakeTopic{{"a", 0, []int32{1}}, {"b", 3, nil}}, "topic b does not exist"},
		{"/a", 1, 1, []fakeTopic{{"other", 0, []int32{1}}}, "topic a does not exist"},
		{"/a", 1, 1, []fakeTopic{{"a", 0, []int32{1, -1, -1, 1, 1, 1}}}, "topic a: 2 of 6 partitions have no leader"},
		{"/a", 1, 1, []fakeTopic{{"a", 0, []int32{-1}}}, "topic a: 1 of 1 partition has no leader"},
		{"/a", 1, 1, []fakeTopic{{"a", 0, nil}}, "topic a has no partitions yet"},
		{"/a", 1, 1, []fakeTopic{{"a", 5, nil}}, "topic a has no leaders yet"},
		{"/a", 1, 1, []fakeTopic{{"a", 99, nil}}, "topic a: the broker reports error 99"},
	} {
		for version := int16(4); version <= 8; version++ {
			k := &fakeKafka{highest: version}
			k.answer = func(_, v int16, _ []byte) []byte {
				return metadataAnswer(v, test.brokers, test.control, test.topics...)
			}
			kindtest.RequireFailure(t, kindtest.Failure(t, kinds, "kafka://"+k.start(t)+test.target, target.Options{}), failure.Unexpected, test.want)
			if version != 8 && version != 4 {
				continue
			}
			var want []string
			if path, settings, _ := strings.Cut(test.target, "#"); strings.Contains(settings, "topic=") {
				want = append(want, strings.TrimPrefix(settings, "topic="))
				if path != "" {
					want = append(want, path[1:])
				}
			} else if path != "" {
				want = append(want, path[1:])
			}
			said := fields(want, false)
			if version == 8 {
				said = append(said, 0, 0)
			}
			if got := k.said(keyMetadata); len(got) != 1 || got[0] != string(said) {
				t.Errorf("%s: the broker is asked %q, want %q", test.target, got, said)
			}
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	answer := func(_, v int16, _ []byte) []byte { return metadataAnswer(v, 1, 1) }
	for _, test := range []struct {
		lowest, highest int16
		want            string
	}{
		{0, 13, ""}, // Kafka 3
		{4, 13, ""}, // Kafka 4
		{8, 20, ""},
		{0, 3, "versions 0 to 3 of Metadata, and none"},
		{9, 20, "versions 9 to 20 of Metadata, and none"},
		{0, 0, "versions 0 to 0 of Metadata, and none"},
		{0, -1, "versions 0 to -1 of Metadata, and none"},
	} {
		k := &fakeKafka{lowest: test.lowest, highest: test.highest, answer: answer}
		kindtest.RequireFailure(t, kindtest.Failure(t, kinds, "kafka://"+k.start(t), target.Options{}), failure.Unexpected, test.want)
	}
}

// TestNotAuthorized pins the class of a topic that the user may not see.
func TestNotAuthorized(t *testing.T) {
	t.Parallel()
	k := &fakeKafka{highest: 8, answer: func(_, v int16, _ []byte) []byte { return metadataAnswer(v, 1, 1, fakeTopic{"a", 29, nil}) }}
	kindtest.RequireFailure(t, kindtest.Failure(t, kinds, "kafka://"+k.start(t)+"/a", target.Options{}), failure.Authentication, "topic a: not authorized")
}

// saslKafka offers mechanisms, and answers the messages of a login. Like Kafka, it closes a connection on which it has
// rejected a mechanism or a login.
func saslKafka(offers []string, login func(said string) []byte) *fakeKafka {
	return &fakeKafka{highest: 8, answer: func(key, version int16, body []byte) []byte {
		switch key {
		case keySASLHandshake:
			if r := (&reader{rest: body}); version != 1 || !slices.Contains(offers, r.text()) {
				return fields(int16(unsupportedMechanism), offers)
			}
			return fields(int16(0), offers)
		case keySASLAuthenticate:
			r := &reader{rest: body}
			return login(string(r.bytes()))
		}
		return metadataAnswer(version, 1, 1)
	}}
}

const nullString = int16(-1)

// TestLogin pins the messages to a broker, and how its answer is reported.
func TestLogin(t *testing.T) {
	t.Parallel()
	token := kindtest.File(t, "t0ken.of.app\n")
	ok := func(string) []byte { return fields(int16(0), nullString, []byte{}) }
	refuse := func(text string) func(string) []byte {
		return func(string) []byte { return fields(int16(58), text, []byte{}) }
	}
	const plain = "#mechanism=PLAIN"
	for _, test := range []struct {
		target string // the parts before and after the address
		offers []string
		login  func(string) []byte
		said   []string
		class  failure.Class
		want   string
	}{
		{"app:hUnter2@ADDR" + plain, []string{"PLAIN"}, ok, []string{"\x00app\x00hUnter2"}, "", ""},
		{"ADDR?user=app&password=hUnter2&sasl.mechanism=plain", []string{"PLAIN"}, ok, []string{"\x00app\x00hUnter2"}, "", ""},
		{"app:hUnter2@ADDR" + plain, []string{"PLAIN"}, refuse("Authentication failed: Invalid username or password"), nil,
			failure.Authentication, "SASL: Authentication failed: Invalid username or password"},
		{"app:hUnter2@ADDR" + plain, []string{"PLAIN"}, refuse("no, hUnter2 is not\nit"), nil, failure.Authentication, "SASL: no, […] is not it"},
		{"app:hUnter2@ADDR" + plain, []string{"PLAIN"}, refuse(""), nil, failure.Authentication, "SASL: authentication failed"},
		{"app:hUnter2@ADDR" + plain, []string{"PLAIN"}, func(string) []byte { return nil }, nil,
			failure.Authentication, "SASL: the broker closes the connection during the login"},
		{"app:hUnter2@ADDR" + plain, []string{"GSSAPI"}, ok, []string{}, failure.Authentication, "SASL with GSSAPI only, not with PLAIN"},
		// An impostor could offer only PLAIN.
		{"app:hUnter2@ADDR", []string{"GSSAPI", "PLAIN"}, ok, []string{}, failure.Authentication, "GSSAPI, PLAIN only, and without TLS"},
		{"app:hUnter2@ADDR", []string{"GSSAPI"}, ok, []string{}, failure.Authentication, "SASL with GSSAPI only"},
		{"app:hUnter2@ADDR", []string{"OAUTHBEARER", "PLAIN"}, ok, []string{}, failure.Authentication, "without TLS"},
		{"ADDR#mechanism=oauthbearer&token-file=" + token, []string{"OAUTHBEARER"}, ok, []string{"n,,\x01auth=Bearer t0ken.of.app\x01\x01"}, "", ""},
		{"ADDR#mechanism=oauthbearer&token-file=" + token, []string{"OAUTHBEARER"}, func(said string) []byte {
			if said == "\x01" {
				return fields(int16(58), "{\"status\":\"invalid_token\"} t0ken.of.app", []byte{})
			}
			return fields(int16(0), nullString, []byte(`{"status":"invalid_token"}`))
		}, nil, failure.Authentication, `SASL: {"status":"invalid_token"} […]`},
	} {
		k := saslKafka(test.offers, test.login)
		got := kindtest.Failure(t, kinds, "kafka://"+strings.ReplaceAll(test.target, "ADDR", k.start(t)), target.Options{})
		kindtest.RequireFailure(t, got, test.class, test.want)
		if test.said == nil {
			continue
		}
		var said []string
		for _, body := range k.said(keySASLAuthenticate) {
			said = append(said, body[4:])
		}
		if strings.Join(said, "|") != strings.Join(test.said, "|") {
			t.Errorf("%s: the broker is told %q, want %q", test.target, said, test.said)
		}
	}
}

// TestMechanismRemembered pins that only the first attempt requests a mechanism that the broker does not support: it
// logs each such request.
func TestMechanismRemembered(t *testing.T) {
	t.Parallel()
	k := saslKafka([]string{"PLAIN", "SCRAM-SHA-256"}, func(string) []byte {
		return fields(int16(58), "Authentication failed", []byte{})
	})
	check, err := kinds.Parse("kafka://app:hUnter2@"+k.start(t), target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		kindtest.RequireFailure(t, failure.Of(check.Check(t.Context())), failure.Authentication, "SASL: Authentication failed")
	}
	want := []string{"\x00\x0dSCRAM-SHA-512", "\x00\x0dSCRAM-SHA-256", "\x00\x0dSCRAM-SHA-256"}
	if got := k.said(keySASLHandshake); !slices.Equal(got, want) {
		t.Errorf("mechanisms %q, want %q", got, want)
	}
}

// TestSomethingElse pins that an impossible number or length is not accepted as an answer.
func TestSomethingElse(t *testing.T) {
	t.Parallel()
	for name, metadata := range map[string][]byte{
		"nothing":                    {},
		"2 billion brokers":          fields(int32(0), int32(1<<31-1)),
		"2 billion topics":           append(fields(int32(0), int32(0), nullString, int32(1)), 0x7f, 0xff, 0xff, 0xff),
		"a string of negative bytes": fields(int32(0), int32(1), int32(1), int16(-2)),
		"a string that is too long":  fields(int32(0), int32(1), int32(1), int16(1<<15-1)),
		"half of an answer":          metadataAnswer(8, 3, 1)[:40],
	} {
		k := &fakeKafka{highest: 8, answer: func(int16, int16, []byte) []byte { return metadata }}
		got := kindtest.Failure(t, kinds, "kafka://"+k.start(t), target.Options{})
		if got == nil || got.Class != failure.Unexpected || got.Text != "the answer is not Kafka's" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"kafka://":               "host missing",
		"kafka://b1,,b2":         "a host is missing",
		"kafka://b1:99999":       "port must be",
		"kafka://b1/a/b":         "a topic's name consists of",
		"kafka://b1#topic=a%20b": "a topic's name consists of",
		"kafka://b1#topic=..":    "a topic's name consists of",
		"kafka://b1#topic=" + strings.Repeat("x", 250):         "a topic's name consists of",
		"kafka://b1#brokers=many":                              "brokers: want a whole number",
		"kafka://b1?security.protocol=TLS":                     "security.protocol: want",
		"kafka://app@b1#mechanism=GSSAPI":                      "mechanism: want SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER",
		"kafka://b1#mechanism=PLAIN":                           "needs a user",
		"kafka://b1#mechanism=OAUTHBEARER":                     "needs token-file",
		"kafka://b1#token-file=/token":                         "token-file needs tls",
		"kafka://app:SSL://hUnter2@b1:9092":                    "an @ after its host",
		"SASL_SSL://app:hUnter2@b1:9092,PLAINTEXT://b2:9092":   "a topic's name consists of",
		"kafka://b1,b2:9093,[::1]:9094/orders?client.id=x#tls": "",
		"kafka://app@b1#mechanism=scram-sha-256":               "",
		"kafka://${env:USER}:${env:USER}@b1/${env:USER}":       "",

		"kafka://b1?ssl.truststore.location=/hUnter2.jks":               "",
		"kafka://b1?ssl.keystore.location=/k.jks#tls":                   "ssl.keystore.location is a Java key store, which is not supported: add #cert-file=FILE",
		"kafka://b1?ssl.truststore.location=/t.jks#tls&ca-file=/ca":     "",
		"kafka://b1?ssl.truststore.location=/t&ssl.truststore.type=PEM": "",
	} {
		_, err := kinds.Parse(text, target.Options{Getenv: func(string) string { return "x" }})
		switch {
		case err == nil && want != "", err != nil && want == "":
			t.Errorf("%s: %v, want %q", text, err, want)
		case err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Unter2")):
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Fuzz reads any bytes instead of a broker's answers: to the request for versions, the login, if there is one, and the
// request for the cluster.
func Fuzz(f *testing.F) {
	framed := func(answers ...[]byte) (p []byte) {
		for i, answer := range answers {
			p = append(p, append(fields(int32(4+len(answer)), int32(i+1)), answer...)...)
		}
		return p
	}
	versions := func(highest int16) []byte {
		return fields(int16(0), int32(1), int16(keyMetadata), int16(0), highest)
	}
	topic := fakeTopic{"orders", 0, []int32{1, -1, 1}}
	for version := int16(4); version <= 8; version++ {
		f.Add(framed(versions(version), metadataAnswer(version, 3, 1, topic)), byte(0))
	}
	handshake, accepted := fields(int16(0), []string{"PLAIN", "SCRAM-SHA-256"}), fields(int16(0), nullString, []byte{})
	f.Add(framed(versions(8), handshake, accepted, metadataAnswer(8, 3, 1, topic)), byte(1))
	f.Add(framed(versions(8), fields(int16(33), []string{"PLAIN", "SCRAM-SHA-256"})), byte(1))
	f.Add(framed(versions(8), handshake, fields(int16(58), "Authentication failed: hUnter2", []byte{})), byte(1))
	f.Add(framed(versions(8), handshake, fields(int16(0), nullString, []byte("r=x,s=QSXCR+Q6sek8bf92,i=4096"))), byte(2))
	f.Add(framed(versions(8), handshake, fields(int16(0), nullString, []byte(`{"status":"invalid_token"}`)), accepted), byte(3))
	f.Add([]byte("\x15\x03\x03\x00\x02\x02\x50"), byte(0))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), byte(0))
	f.Add([]byte("\x7f\xff\xff\xff\x00\x00\x00\x01"), byte(0))

	logins := []struct {
		login
		mechanism string
	}{
		{},
		{login{"app", "hUnter2", ""}, "PLAIN"},
		{login{"app", "hUnter2", ""}, "SCRAM-SHA-256"},
		{login{"", "", "hUnter2"}, oauthBearer},
	}
	parsed, err := kinds.Parse("kafka://b1#topic=orders&brokers=1", target.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, says []byte, as byte) {
		c := &session{Conversation: kindtest.Recorded(says), check: parsed.(check)}
		defer c.Close()
		err := c.askVersions()
		if l := logins[int(as)%len(logins)]; err == nil && !l.none() {
			var offered []string
			if offered, err = c.handshake(l.mechanism); err == nil && offered != nil {
				_, err = c.check.choose(offered, l.login)
			}
			if err == nil {
				err = c.authenticate(l.login, l.mechanism)
			}
		}
		var cluster *clusterState
		if err == nil {
			if cluster, err = c.metadata([]topicName{{"orders", "orders"}}); err == nil && cluster == nil {
				t.Fatal("neither a cluster nor an error")
			}
		}
		if err == nil {
			if err = cluster.ready(1); err == nil {
				err = cluster.topics["orders"].ready("orders")
			}
		}
		if err != nil && strings.Contains(failure.Of(err).Error(), "hUnter2") {
			t.Errorf("%v tells the password", err)
		}
	})
}

// TestOneHangs pins that a broker that hangs hides neither another's failure nor its readiness.
func TestOneHangs(t *testing.T) {
	t.Parallel()
	var controller atomic.Int32
	controller.Store(-1)
	k := &fakeKafka{highest: 8, answer: func(_, v int16, _ []byte) []byte { return metadataAnswer(v, 1, controller.Load()) }}
	addr := k.start(t)
	check, err := kinds.Parse("kafka://"+servers.Serve(t, kindtest.Hang)+","+addr, target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	first := ""
	err = poll.Until(t.Context(), poll.Policy{AttemptTimeout: time.Minute, Patience: time.Second, Notify: func(e poll.Event) {
		if e.Err != nil && first == "" {
			first = failure.Of(e.Err).Error()
			controller.Store(1)
		}
	}}, check.Check)
	if want := "no controller yet (at " + addr + ")"; err != nil || !strings.Contains(first, want) {
		t.Errorf("%q, then %v, want %q, then ready", first, err, want)
	}
}
