package mongodb

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/resolver"
	"initbox/internal/secret"
	"initbox/waitfor/wire"
)

// status is a server's answer to hello.
type status struct {
	writable, secondary, arbiter, uninitialised bool

	set         string // the replica set; "" for a mongos or a standalone server
	me, primary string
	hosts       []string
	mechanisms  []string // with which the user may log in

	ok   bool
	code int64
	says string // why not ok
}

// word describes the member's role.
func (s status) word() string {
	switch {
	case s.writable:
		return "the primary"
	case s.secondary:
		return "a secondary"
	case s.arbiter:
		return "an arbiter"
	}
	return "neither primary nor secondary" // starting, recovering, rolling back, removed
}

// noSuchCommand is CommandNotFound: servers before 4.4 only support isMaster.
const noSuchCommand = 59

// hello sends hello to the server at addr. If the server is the one that is waited for, it also logs in.
func (c check) hello(ctx context.Context, addr string) (status, error) {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return status{}, err
	}
	defer conn.Close()
	user, password := "", ""
	if c.login != noLogin {
		if user, password, err = wire.Login(c.Server, "", ""); err != nil {
			return status{}, err
		}
	}
	s := &session{check: c, conn: conn, user: user, password: password}
	state, err := s.talk(ctx)
	if err != nil || user == "" {
		return state, err
	}
	if problem, _ := c.judge(state); problem != nil {
		return state, nil
	}
	return state, s.logIn(ctx, state.mechanisms)
}

// A session is a conversation with one server.
type session struct {
	check
	conn           *wire.Conversation
	user, password string
	requests       uint32 // sent so far
}

// talk sends hello, or isMaster if the server does not support that.
func (s *session) talk(ctx context.Context) (state status, err error) {
	for _, name := range []string{"hello", "isMaster"} {
		poll.Doing(ctx, "asking for "+name)
		hello := command(name)
		if s.balanced {
			hello = hello.flag("loadBalanced")
		}
		if s.user != "" {
			hello = hello.text("saslSupportedMechs", s.database()+"."+s.user)
		}
		reply, err := s.send(hello, "admin")
		if err == nil {
			state, err = readMongoState(reply)
		}
		switch {
		case errors.Is(err, errNotMongo):
			return state, s.Kind.OtherProtocol()
		case err != nil:
			return state, err
		case state.ok:
			return state, nil
		case state.code != noSuchCommand:
			return state, s.refusal(state)
		}
	}
	return state, s.refusal(state)
}

// send sends a command to a database, and returns the answer.
func (s *session) send(command document, database string) ([]byte, error) {
	s.requests++
	if _, err := s.conn.Write(request(s.requests, command.text("$db", database))); err != nil {
		return nil, err
	}
	return readReply(s.conn, s.requests)
}

// refusal converts an error that the server answers with.
func (c check) refusal(state status) error {
	f := failure.New(failure.Unexpected, "MongoDB reports %s", secret.Quote(state.says, c.URL.Secrets()...))
	if state.says == "" {
		f.Text = "MongoDB reports error " + strconv.FormatInt(state.code, 10)
	}
	f.Hint = "the server is running, but does not answer the request: look at its log"
	if state.code == 13 || state.code == 18 { // Unauthorized, AuthenticationFailed
		f.Class = failure.Authentication
		f.Hint = "MongoDB answers hello without a login: does a proxy in front of the server require one?"
	}
	return f
}

// opMsg is the type of requests and replies
// (https://github.com/mongodb/specifications/blob/master/source/message/OP_MSG.md).
const opMsg = 2013

// request returns the message with a document.
func request(id uint32, doc document) []byte {
	le := binary.LittleEndian
	message := le.AppendUint32(nil, uint32(16+4+1+4+len(doc)+1))
	message = le.AppendUint32(message, id)
	message = le.AppendUint32(message, 0) // not a response
	message = le.AppendUint32(message, opMsg)
	message = append(message, 0, 0, 0, 0, 0) // no flags; a section with one document
	message = le.AppendUint32(message, uint32(4+len(doc)+1))
	return append(append(message, doc...), 0)
}

// A document holds the elements of a document of BSON.
type document []byte

// command returns the document {name: 1}.
func command(name string) document { return document(nil).number(name, 1) }

func (d document) element(kind byte, name string) document {
	return append(append(append(d, kind), name...), 0)
}

func (d document) number(name string, n int32) document {
	return binary.LittleEndian.AppendUint32(d.element(bsonInt32, name), uint32(n))
}

func (d document) text(name, text string) document {
	d = binary.LittleEndian.AppendUint32(d.element(bsonString, name), uint32(len(text)+1))
	return append(append(d, text...), 0)
}

func (d document) bytes(name, data string) document {
	d = binary.LittleEndian.AppendUint32(d.element(bsonBytes, name), uint32(len(data)))
	return append(append(d, 0), data...)
}

// flag adds the value true.
func (d document) flag(name string) document { return append(d.element(bsonBool, name), 1) }

// errNotMongo is the error of an answer that does not follow MongoDB's protocol.
var errNotMongo = errors.New("not MongoDB's protocol")

// readReply reads the document that answers the request with the id.
func readReply(c *wire.Conversation, id uint32) ([]byte, error) {
	le := binary.LittleEndian
	header, err := c.Next(16)
	if err != nil {
		return nil, err
	}
	size := le.Uint32(header)
	if size < 16+5+5 || le.Uint32(header[8:]) != id || le.Uint32(header[12:]) != opMsg {
		return nil, errNotMongo
	}
	body, err := c.Next(uint64(size) - 16)
	if err != nil {
		return nil, err
	}
	if body[4] != 0 { // kind of the first section
		return nil, errNotMongo
	}
	return body[5:], nil
}

// Types of values in BSON (https://bsonspec.org/spec.html).
const (
	bsonDouble = 0x01
	bsonString = 0x02
	bsonArray  = 0x04
	bsonBytes  = 0x05
	bsonBool   = 0x08
	bsonInt32  = 0x10
	bsonInt64  = 0x12
)

// readMongoState reads the answer to hello or isMaster.
func readMongoState(doc []byte) (status, error) {
	var s status
	err := eachBSON(doc, func(kind byte, name string, value []byte) {
		switch name {
		case "ok":
			s.ok = bsonNumber(kind, value) == 1
		case "code":
			s.code = bsonNumber(kind, value)
		case "errmsg":
			s.says = bsonText(kind, value)
		case "isWritablePrimary", "ismaster":
			s.writable = s.writable || bsonNumber(kind, value) == 1
		case "secondary":
			s.secondary = bsonNumber(kind, value) == 1
		case "arbiterOnly":
			s.arbiter = bsonNumber(kind, value) == 1
		case "isreplicaset":
			s.uninitialised = bsonNumber(kind, value) == 1
		case "setName":
			s.set = bsonText(kind, value)
		case "primary":
			s.primary = bsonText(kind, value)
		case "me":
			s.me = bsonText(kind, value)
		case "hosts", "passives":
			s.hosts = append(s.hosts, bsonTexts(kind, value)...)
		case "saslSupportedMechs":
			s.mechanisms = bsonTexts(kind, value)
		}
	})
	return s, err
}

// eachBSON calls f with each element of a document or an array, but not with nested ones. It ignores bytes after the
// document.
func eachBSON(doc []byte, f func(kind byte, name string, value []byte)) error {
	le := binary.LittleEndian
	if len(doc) < 5 || le.Uint32(doc) < 5 || uint64(le.Uint32(doc)) > uint64(len(doc)) {
		return errNotMongo
	}
	for rest := doc[4:le.Uint32(doc)]; len(rest) > 0; {
		kind := rest[0]
		if kind == 0 { // the end of the document
			return nil
		}
		end := bytes.IndexByte(rest[1:min(len(rest), 1+bsonName)], 0)
		if end < 0 {
			return errNotMongo
		}
		name := string(rest[1 : 1+end])
		rest = rest[1+end+1:]
		size, ok := bsonSize(kind, rest)
		if !ok || size > uint64(len(rest)) {
			return errNotMongo
		}
		f(kind, name, rest[:size])
		rest = rest[size:]
	}
	return errNotMongo
}

// bsonName limits the length of an element's name.
const bsonName = 256

// bsonSize returns the number of bytes of the value at the front of p.
func bsonSize(kind byte, p []byte) (size uint64, ok bool) {
	length := uint64(math.MaxUint32)
	if len(p) >= 4 {
		length = uint64(binary.LittleEndian.Uint32(p))
	}
	switch kind {
	case 0x06, 0x0A, 0x7F, 0xFF: // undefined, null, MaxKey and MinKey
		return 0, true
	case bsonBool:
		return 1, true
	case bsonInt32:
		return 4, true
	case bsonDouble, 0x09, 0x11, bsonInt64: // a date, a timestamp
		return 8, true
	case 0x07: // an ObjectId
		return 12, true
	case 0x13: // a decimal number
		return 16, true
	case bsonString, 0x0D, 0x0E: // code, a symbol
		return 4 + length, true
	case bsonBytes:
		return 5 + length, true
	case 0x03, bsonArray, 0x0F: // a document, code with scope: their length includes itself
		return length, length >= 5
	}
	return 0, false
}

// bsonNumber returns a number or a boolean (true is 1) as an integer.
func bsonNumber(kind byte, value []byte) int64 {
	switch kind {
	case bsonBool:
		return int64(value[0])
	case bsonInt32:
		return int64(int32(binary.LittleEndian.Uint32(value)))
	case bsonInt64:
		return int64(binary.LittleEndian.Uint64(value))
	case bsonDouble:
		return int64(math.Float64frombits(binary.LittleEndian.Uint64(value)))
	}
	return 0
}

// bsonText returns a string, or "".
func bsonText(kind byte, value []byte) string {
	if kind != bsonString {
		return ""
	}
	return strings.TrimSuffix(string(value[4:]), "\x00")
}

// bsonTexts returns the strings of an array, or nil.
func bsonTexts(kind byte, value []byte) (texts []string) {
	if kind == bsonArray {
		eachBSON(value, func(kind byte, _ string, value []byte) { texts = append(texts, bsonText(kind, value)) })
	}
	return texts
}

// discover reads the hosts of mongodb+srv:// from the name's SRV records, and options from its TXT record.
func (c *check) discover(ctx context.Context) error {
	if c.seeds == nil {
		return nil
	}
	query := *c.seeds
	query.Types = []uint16{dns.TypeSRV}
	answer, err := c.Resolver.Lookup(ctx, query)
	if err != nil {
		return err
	}
	c.Addrs = nil
	for _, rr := range answer.Records {
		if srv, ok := rr.(*dns.SRV); ok && len(c.Addrs) < members {
			c.Addrs = append(c.Addrs, net.JoinHostPort(strings.TrimSuffix(srv.Target, "."), strconv.Itoa(int(srv.Port))))
		}
	}
	if len(c.Addrs) == 0 {
		return failure.New(failure.NoData, "no SRV record for %s", c.seeds.Name)
	}
	answer, err = c.Resolver.Lookup(ctx, resolver.Query{Name: c.URL.Hostname(), Types: []uint16{dns.TypeTXT}})
	var none *resolver.Failure
	switch {
	case errors.As(err, &none) && none.Gone():
	case err != nil:
		return err
	default:
		for _, rr := range answer.Records {
			if txt, ok := rr.(*dns.TXT); ok {
				c.take(strings.Join(txt.Txt, ""))
			}
		}
	}
	return nil
}
