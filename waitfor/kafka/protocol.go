package kafka

import (
	"encoding/binary"
	"fmt"
	"math"

	"initbox/internal/failure"
	"initbox/waitfor/wire"
)

// Keys of the requests that are sent.
const (
	keyMetadata         = 3
	keySASLHandshake    = 17
	keyAPIVersions      = 18
	keySASLAuthenticate = 36
)

// Error codes with their own handling (https://kafka.apache.org/protocol.html#protocol_error_codes).
const (
	unknownTopic         = 3
	leaderNotAvailable   = 5
	topicAuthorization   = 29
	unsupportedMechanism = 33
	illegalSASLState     = 34
	saslFailed           = 58
	listenerNotFound     = 72 // the leader lacks a listener with the name of the one that was asked
)

func errorText(code int16) string {
	switch code {
	case -1:
		return "the broker has an unexpected error (UNKNOWN_SERVER_ERROR)"
	case 17:
		return "the broker rejects its name as invalid (INVALID_TOPIC_EXCEPTION)"
	case 35:
		return "the broker does not support the version of the request (UNSUPPORTED_VERSION)"
	case 41:
		return "NOT_CONTROLLER"
	}
	return fmt.Sprintf("the broker reports error %d", code)
}

// A session is a conversation of requests and answers, each after its length, and with a number that matches an answer
// to its request.
type session struct {
	*wire.Conversation
	check    check
	last     int32                           // number of the last request
	versions struct{ lowest, highest int16 } // of Metadata
	loggedIn bool
}

// maxFrame is the default limit of a broker's frames, socket.request.max.bytes. A longer one is not Kafka's
// protocol.
const maxFrame = 100 << 20

// call sends a request and returns its answer without the header. No flexible versions are used, so all headers have
// the same version: 1 for requests, 0 for answers.
func (c *session) call(key, version int16, request []byte) (*reader, error) {
	c.last++
	const client = "initbox"
	header := binary.BigEndian.AppendUint32(nil, uint32(8+2+len(client)+len(request)))
	header = binary.BigEndian.AppendUint16(header, uint16(key))
	header = binary.BigEndian.AppendUint16(header, uint16(version))
	header = binary.BigEndian.AppendUint32(header, uint32(c.last))
	header = appendString(header, client)
	if _, err := c.Write(append(header, request...)); err != nil {
		return nil, err
	}
	length, err := c.Next(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length)
	if n < 4 || n > maxFrame {
		return nil, c.check.Kind.OtherProtocol()
	}
	answer, err := c.Next(uint64(n))
	if err != nil {
		return nil, err
	}
	r := &reader{rest: answer}
	if r.int32() != c.last {
		return nil, c.check.Kind.OtherProtocol()
	}
	return r, nil
}

// askVersions asks for the supported versions of Metadata, in a version of ApiVersions that every broker since 0.10
// supports. Brokers answer it before a login.
func (c *session) askVersions() error {
	r, err := c.call(keyAPIVersions, 0, nil)
	if err != nil {
		return err
	}
	code := r.int16()
	r.each(func() {
		key, lowest, highest := r.int16(), r.int16(), r.int16()
		if key == keyMetadata {
			c.versions.lowest, c.versions.highest = lowest, highest
		}
	})
	switch {
	case r.short:
		return c.check.Kind.OtherProtocol()
	case code != 0:
		return failure.New(failure.Unexpected, "%s", errorText(code))
	}
	return nil
}

// metadata asks for the brokers and the topics. Version 4 is the first that can be sent without creating the topics, 8
// the last that is not flexible.
func (c *session) metadata(topics []topicName) (*clusterState, error) {
	version := min(c.versions.highest, 8)
	if version < max(c.versions.lowest, 4) {
		return nil, failure.New(failure.Unexpected, "the broker supports versions %d to %d of Metadata, and none of them is supported here", c.versions.lowest, c.versions.highest).
			WithHint("Kafka 0.11 and later are supported")
	}
	request := binary.BigEndian.AppendUint32(nil, uint32(len(topics))) // 0 means no topics, not all
	for _, topic := range topics {
		request = appendString(request, topic.name)
	}
	request = append(request, 0) // allow_auto_topic_creation
	if version >= 8 {
		request = append(request, 0, 0) // include_…_authorized_operations
	}
	r, err := c.call(keyMetadata, version, request)
	if err != nil {
		return nil, err
	}
	k := &clusterState{topics: map[string]*topic{}}
	for _, topic := range topics {
		k.topics[topic.name] = nil
	}
	k.read(r, version)
	if r.short {
		return nil, c.check.Kind.OtherProtocol()
	}
	return k, nil
}

// read reads an answer to Metadata. It keeps only the topics whose names k has already: those that were requested.
func (k *clusterState) read(r *reader, version int16) {
	r.int32() // throttle_time_ms
	r.each(func() {
		b := broker{id: r.int32(), host: r.text(), port: r.int32()}
		r.text() // rack
		k.brokers = append(k.brokers, b)
	})
	r.text() // cluster_id
	k.controller = r.int32()
	r.each(func() {
		t := &topic{code: r.int16()}
		name := r.text()
		r.take(1) // is_internal
		r.each(func() { t.readPartition(r, version) })
		if version >= 8 {
			r.int32() // topic_authorized_operations
		}
		if _, asked := k.topics[name]; asked {
			k.topics[name] = t
		}
	})
}

func (t *topic) readPartition(r *reader, version int16) {
	code := r.int16()
	r.int32() // partition_index
	leader := r.int32()
	if version >= 7 {
		r.int32() // leader_epoch
	}
	ids := func() { r.int32() }
	r.each(ids) // replica_nodes
	r.each(ids) // isr_nodes
	if version >= 5 {
		r.each(ids) // offline_replicas
	}
	t.partitions++
	if leader < 0 || code == leaderNotAvailable || code == listenerNotFound {
		t.leaderless++
	}
}

// A reader reads the fields of an answer. If that is too short, the remaining fields are zero.
type reader struct {
	rest  []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, nil
		return make([]byte, 8)[:min(max(n, 0), 8)]
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }

// text reads a nullable string.
func (r *reader) text() string {
	n := r.int16()
	if n == -1 {
		return ""
	}
	return string(r.take(int(n)))
}

// bytes reads nullable bytes.
func (r *reader) bytes() []byte {
	n := r.int32()
	if n == -1 {
		return nil
	}
	return r.take(int(n))
}

// each reads the elements of an array. A large number of them is harmless: it stops at the end of the answer.
func (r *reader) each(element func()) {
	for n := r.int32(); n > 0 && !r.short; n-- {
		element()
	}
}

func appendString(p []byte, s string) []byte {
	s = s[:min(len(s), math.MaxInt16)]
	return append(binary.BigEndian.AppendUint16(p, uint16(len(s))), s...)
}
