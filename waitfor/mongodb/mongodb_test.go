package mongodb

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"initbox/internal/failure"
	"initbox/internal/resolver"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/target"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

// bson returns a document or an array of the given names and values, in turn.
func bson(pairs ...any) []byte {
	le := binary.LittleEndian
	doc := make([]byte, 4)
	for i := 0; i+1 < len(pairs); i += 2 {
		name := pairs[i].(string) + "\x00"
		switch v := pairs[i+1].(type) {
		case string:
			doc = append(append(doc, bsonString), name...)
			doc = append(le.AppendUint32(doc, uint32(len(v)+1)), v+"\x00"...)
		case bool:
			doc = append(append(append(doc, bsonBool), name...), map[bool]byte{true: 1}[v])
		case int:
			doc = le.AppendUint32(append(append(doc, bsonInt32), name...), uint32(v))
		case float64:
			doc = append(append(append(doc, bsonDouble), name...), map[float64]string{0: "\x00\x00\x00\x00\x00\x00\x00\x00", 1: "\x00\x00\x00\x00\x00\x00\xf0\x3f"}[v]...)
		case []string:
			var all []any
			for i, s := range v {
				all = append(all, fmt.Sprint(i), s)
			}
			doc = append(append(append(doc, bsonArray), name...), bson(all...)...)
		case data: // bytes
			doc = append(append(doc, bsonBytes), name...)
			doc = append(append(le.AppendUint32(doc, uint32(len(v))), 0), v...)
		case []byte: // a document
			doc = append(append(append(doc, 0x03), name...), v...)
		}
	}
	doc = append(doc, 0)
	le.PutUint32(doc, uint32(len(doc)))
	return doc
}

// data is a value of bytes.
type data string

// answerWith returns a message with a document, in answer to the request with the id.
func answerWith(id uint32, doc []byte) []byte {
	le := binary.LittleEndian
	p := le.AppendUint32(nil, uint32(16+5+len(doc)))
	p = le.AppendUint32(le.AppendUint32(le.AppendUint32(p, 77), id), opMsg)
	return append(append(p, 0, 0, 0, 0, 0), doc...)
}

// member is a server that follows MongoDB's documentation of OP_MSG and hello
// (https://www.mongodb.com/docs/manual/reference/command/hello/): MongoDB itself is not available to the tests.
type member struct {
	addr string

	mu   sync.Mutex
	says []byte // the answer to hello
	old  bool   // only supports isMaster

	users *users // may be nil
}

func startMember(t testing.TB, pairs ...any) *member {
	t.Helper()
	m := new(member)
	m.addr = servers.Serve(t, m.serve)
	m.is(pairs...)
	return m
}

func (m *member) is(pairs ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.says = bson(append(pairs, "maxWireVersion", 21, "topologyVersion", bson("counter", 6), "ok", 1.0)...)
}

func (m *member) serve(c net.Conn) {
	for {
		header := make([]byte, 16)
		if _, err := io.ReadFull(c, header); err != nil {
			return
		}
		size := binary.LittleEndian.Uint32(header)
		if size < 16+10 || size > 1000 { // possibly TLS
			return
		}
		body := make([]byte, size-16)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		m.mu.Lock()
		answer := m.says
		if login := m.users.answer(body[5:]); login != nil {
			answer = login
		}
		if command := string(body[10:]); m.old && strings.HasPrefix(command, "hello\x00") {
			answer = bson("ok", 0.0, "errmsg", "no such command: 'hello'", "code", noSuchCommand, "codeName", "CommandNotFound")
		}
		m.mu.Unlock()
		c.Write(answerWith(binary.LittleEndian.Uint32(header[4:]), answer))
	}
}

func checkMongo(t *testing.T, target string, o target.Options) error {
	t.Helper()
	check, err := kinds.Parse(target, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = check.Check(ctx)
	kindtest.SaysPlainly(t, err, "Unter2")
	return err
}

func wantMongo(t *testing.T, given, text string) {
	t.Helper()
	switch err := checkMongo(t, given, target.Options{}); {
	case err == nil && text != "":
		t.Errorf("%s is ready, want %q", given, text)
	case err != nil && (text == "" || !strings.Contains(failure.Of(err).Text, text)):
		t.Errorf("%s: %v, want %q", given, err, text)
	}
}

// TestReplicaSet goes through the states of a replica set with two members.
func TestReplicaSet(t *testing.T) {
	t.Parallel()
	a := startMember(t, "isWritablePrimary", false, "secondary", false, "isreplicaset", true, "info", "Does not have a valid replica set config")
	b := startMember(t, "isWritablePrimary", false, "secondary", false, "isreplicaset", true)
	hosts := []string{a.addr, b.addr}
	const notYet = "not a member of its replica set yet"
	wantMongo(t, "mongodb://app:hUnter2@"+a.addr+"/app", notYet)
	wantMongo(t, "mongodb://"+a.addr+","+b.addr+"/?replicaSet=rs0", notYet)

	a.is("hosts", hosts, "setName", "rs0", "isWritablePrimary", false, "secondary", false, "me", a.addr)
	wantMongo(t, "mongodb://"+a.addr, "no primary yet: the server is neither primary nor secondary")
	b.is("hosts", hosts, "setName", "rs0", "isWritablePrimary", false, "secondary", true, "me", b.addr)
	wantMongo(t, "mongodb://"+b.addr, "no primary yet: the server is a secondary")
	wantMongo(t, "mongodb://"+b.addr+"/?readPreference=secondary", "")
	wantMongo(t, "mongodb://"+a.addr+"/?readPreference=nearest", "") // b is found
	wantMongo(t, "mongodb://"+a.addr+"/?readPreference=nearest&directConnection=true", "neither primary nor secondary, not readable")

	a.is("hosts", hosts, "setName", "rs0", "isWritablePrimary", true, "secondary", false, "primary", a.addr, "me", a.addr)
	b.is("hosts", hosts, "setName", "rs0", "isWritablePrimary", false, "secondary", true, "primary", a.addr, "me", b.addr)
	for _, target := range []string{"mongodb://" + a.addr, "mongodb://" + b.addr, "mongodb://" + b.addr + "," + a.addr + "/x?replicaSet=rs0", "mongodb://" + a.addr + "#role=secondary",
		"mongodb://" + b.addr + "?readPreference=secondary#role=primary", "mongodb://" + a.addr + "#role=any", "mongodb://" + kindtest.RefusedAddr(t) + "," + b.addr} {
		wantMongo(t, target, "")
	}
	wantMongo(t, "mongodb://"+b.addr+"/?directConnection=true", "the server is a secondary, not the primary")
	wantMongo(t, "mongodb://"+b.addr+"/?replicaSet=rs1", "the server is in another replica set, rs0")

	gone := kindtest.RefusedAddr(t)
	b.is("hosts", []string{gone, b.addr}, "setName", "rs0", "secondary", true, "primary", gone, "me", b.addr)
	wantMongo(t, "mongodb://"+b.addr, gone+", which the replica set names as its primary: connection refused")
	if err := checkMongo(t, "mongodb://"+b.addr, target.Options{Gone: true}); err == nil {
		t.Error("a server counts as gone when the primary that it names is not reachable")
	}
	b.is("hosts", []string{gone, b.addr}, "setName", "rs0", "arbiterOnly", true, "primary", "nonsense::27017")
	wantMongo(t, "mongodb://"+b.addr, "the server is an arbiter, not the primary")
	a.is("hosts", hosts, "setName", "rs0", "secondary", true, "me", a.addr)
	b.is("hosts", hosts, "setName", "rs0", "secondary", true, "primary", a.addr, "me", b.addr)
	wantMongo(t, "mongodb://"+b.addr, "which the replica set names as its primary: no primary yet")
}

// TestOthers pins the results of servers without a replica set, and of old ones.
func TestOthers(t *testing.T) {
	t.Parallel()
	mongos := startMember(t, "isWritablePrimary", true, "msg", "isdbgrid")
	wantMongo(t, "mongodb://"+mongos.addr+"/?readPreference=secondary&loadBalanced=true", "")
	wantMongo(t, "mongodb://"+mongos.addr+"/?replicaSet=rs0", "is not in a replica set")
	old := startMember(t, "ismaster", true)
	old.old = true
	wantMongo(t, "mongodb://"+old.addr, "")
	starting := startMember(t)
	starting.says = bson("ok", 0.0, "errmsg", "Cache Reader No keys found for HMAC that is valid for time", "code", 211, "codeName", "KeyNotFound")
	wantMongo(t, "mongodb://"+starting.addr, "MongoDB reports Cache Reader No keys found")
	starting.says = bson("ok", 0.0, "code", 13)
	wantMongo(t, "mongodb://"+starting.addr, "MongoDB reports error 13")
	starting.says = bson("ok", "1")
	wantMongo(t, "mongodb://"+starting.addr, "MongoDB reports error 0")
	starting.says = []byte("\x08\x00\x00\x00\x63a\x00\x00")
	wantMongo(t, "mongodb://"+starting.addr, "not MongoDB's protocol")
}

// TestReal asks FerretDB, also over TLS.
func TestReal(t *testing.T) {
	t.Parallel()
	addr := servers.StartMongoDB(t, servers.KeyPair{})
	for target, text := range map[string]string{
		"mongodb://" + addr: "",
		"mongodb://app:hUnter2@" + addr + "/x?tls=no&authMechanism=PLAIN": "",
		"mongodb://" + addr + "/?replicaSet=rs0":                          "is not in a replica set",
		"mongodb://" + addr + "/?ssl=true":                                "connection ",
	} {
		wantMongo(t, target, text)
	}
	ca := servers.NewCA(t)
	addr = servers.StartMongoDB(t, ca.Server(t, "other.example"))
	for target, text := range map[string]string{
		"mongodb://" + addr + "/?tls=true":                                                              "TLS",
		"mongodb://" + addr + "/?tls=true&tlsCAFile=" + ca.File:                                         "TLS",
		"mongodb://" + addr + "/?tls=true&tlsAllowInvalidHostnames=true&tlsCAFile=" + ca.File:           "",
		"mongodb://" + addr + "/?tls=true&tlsInsecure=true":                                             "",
		"mongodb://" + addr + "/?tlsCAFile=" + ca.File + "#server-name=other.example&tls":               "",
		"mongodb://" + addr + "/?ssl=true&tlsAllowInvalidCertificates=true&tlsCAFile=" + ca.File + "&x": "",
	} {
		wantMongo(t, target, text)
	}
}

// TestSeeds pins that mongodb+srv:// takes its hosts from the SRV records, and options from a TXT record.
func TestSeeds(t *testing.T) {
	t.Parallel()
	m := startMember(t, "isWritablePrimary", true, "setName", "rs0")
	_, port, _ := net.SplitHostPort(m.addr)
	records := map[string]string{
		"_mongodb._tcp.cluster.test. SRV": "0 0 " + port + " node.cluster.test.",
		"cluster.test. TXT":               `"authSource=admin&replicaSet=rs0"`,
		"_mongodb._tcp.other.test. SRV":   "0 0 " + port + " node.cluster.test.",
		"other.test. TXT":                 `"replicaSet=rs1"`,
		"_custom._tcp.alone.test. SRV":    "0 0 " + port + " node.cluster.test.",
		"node.cluster.test. A":            "127.0.0.1",
	}
	o := target.Options{Resolver: &resolver.Resolver{Servers: []netip.AddrPort{nameServer(t, records)}, ResolvConf: "/dev/null", Hosts: "/dev/null"}}
	for target, want := range map[string]string{
		"mongodb+srv://cluster.test/?tls=false":                          "",
		"mongodb+srv://cluster.test/app?ssl=false":                       "",
		"mongodb+srv://other.test/?tls=false":                            "another replica set, rs0",
		"mongodb+srv://other.test/?tls=false&replicaSet=rs0":             "",
		"mongodb+srv://alone.test/?tls=false&srvServiceName=custom":      "",
		"mongodb+srv://alone.test/?tls=false":                            "_mongodb._tcp.alone.test: no such name",
		"mongodb+srv://cluster.test":                                     "", // over TLS: see below
		"mongodb+srv://cluster.test/?tls=false&replicaSet=${env:NO_SET}": "another replica set, rs0",
	} {
		o.Getenv = func(string) string { return "hUnter2" }
		err := checkMongo(t, target, o)
		switch {
		case target == "mongodb+srv://cluster.test":
			if err == nil {
				t.Error("mongodb+srv:// does not use TLS")
			}
		case err == nil && want != "":
			t.Errorf("%s is ready, want %q", target, want)
		case err != nil && (want == "" || !strings.Contains(failure.Of(err).Text, want)):
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
	for text, want := range map[string]string{
		"mongodb+srv://a.test:27017":                  "without a port",
		"mongodb+srv://a.test,b.test":                 "one name",
		"mongodb+srv://a.test/?srvServiceName=a%20b":  "srvServiceName",
		"mongodb://a#role=master":                     "role: want",
		"mongodb+srv://a.test/?srvServiceName=a%0Ab/": "srvServiceName",
	} {
		if _, err := kinds.Parse(text, target.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// nameServer answers queries for a name and type with the given records.
func nameServer(t testing.TB, records map[string]string) netip.AddrPort {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{PacketConn: c, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, query *dns.Msg) {
		answer := new(dns.Msg).SetReply(query)
		name, kind := query.Question[0].Name, dns.TypeToString[query.Question[0].Qtype]
		if data, ok := records[name+" "+kind]; ok {
			rr, err := dns.NewRR(name + " 1 IN " + kind + " " + data)
			if err != nil {
				t.Error(err)
			}
			answer.Answer = append(answer.Answer, rr)
		} else if !slices.ContainsFunc([]string{"A", "TXT", "SRV"}, func(kind string) bool { return records[name+" "+kind] != "" }) {
			answer.Rcode = dns.RcodeNameError
		}
		w.WriteMsg(answer)
	})}
	go s.ActivateAndServe()
	t.Cleanup(func() { s.Shutdown() })
	return netip.MustParseAddrPort(c.LocalAddr().String())
}

// Fuzz reads any answer of a server.
func Fuzz(f *testing.F) {
	f.Add(answerWith(1, bson("helloOk", true, "ismaster", true, "maxBsonObjectSize", 16777216, "hosts", []string{"a:1", "b:2"}, "setName", "rs0", "primary", "a:1", "me", "b:2", "ok", 1.0)))
	f.Add(append(answerWith(1, bson("ok", 0.0, "code", noSuchCommand)), answerWith(2, bson("ismaster", true, "ok", 1.0))...))
	f.Add(answerWith(1, bson("ok", 0.0, "code", 211, "errmsg", "Cache Reader No keys found")))
	f.Add(answerWith(1, []byte("\x20\x00\x00\x00\x05a\x00\x02\x00\x00\x00\x00xx\x07b\x00aaaaaaaaaaaa\x00")))
	f.Fuzz(func(t *testing.T, answer []byte) {
		parsed, err := kinds.Parse("mongodb://recorded/?replicaSet=rs0", target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := parsed.(check)
		conn := kindtest.Recorded(answer)
		s := &session{check: c, conn: conn, user: "app", password: "hUnter2"}
		state, err := s.talk(t.Context())
		kindtest.SaysPlainly(t, err)
		if err == nil {
			kindtest.SaysPlainly(t, s.logIn(t.Context(), state.mechanisms))
		}
		if err == nil {
			problem, _ := c.judge(state)
			kindtest.SaysPlainly(t, problem)
			c.elsewhere(state, "recorded:27017")
		}
	})
}
