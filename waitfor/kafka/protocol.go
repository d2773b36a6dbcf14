package kafka

import (
	"encoding/binary"
	"fmt"
	"math"

	"initbox/internal/failure"
	"initbox/waitfor/wire"
)

// The requests that are made, by their keys.
const (
	keyMetadata         = 3
	keySASLHandshake    = 17
	keyAPIVersions      = 18
	keySASLAuthenticate = 36
)

// The error codes that mean something here (https://kafka.apache.org/protocol.html#protocol_error_codes).
const (
	unknownTopic         = 3
	leaderNotAvailable   = 5
	topicAuthorization   = 29
	unsupportedMechanism = 33
	illegalSASLState     = 34
	saslFailed           = 58
	listenerNotFound     = 72 // where the leader has none of the name by which it was asked
)

func errorText(code int16) string {
	switch code {
	case -1:
		return "the broker fails (UNKNOWN_SERVER_ERROR)"
	case 17:
		return "the broker calls its name invalid (INVALID_TOPIC_EXCEPTION)"
	case 35:
		return "the broker does not know the version of the request (UNSUPPORTED_VERSION)"
	case 41:
		return "NOT_CONTROLLER"
	}
	return fmt.Sprintf("the broker reports error %d", code)
}

// A session is a conversation of requests and answers, each with its length before
// it and a number that says which belong together.
type session struct {
	*wire.Conversation
	check    check
	last     int32                           // number of the last request
	versions struct{ lowest, highest int16 } // of Metadata
	loggedIn bool
}

// maxKafkaFrame is as long as a broker's frames may be if nobody has changed
// socket.request.max.bytes. What announces more speaks something else.
const maxKafkaFrame = 100 << 20

// call makes a request and returns what comes after the header of its answer. None is
// of a flexible version, so that all headers are alike: 1 of requests, 0 of answers.
func (c *session) call(key, version int16, request []byte) (*reader, error) {
	c.last++
	const client = "initbox"
	header := binary.BigEndian.AppendUint32(nil, uint32(8+2+len(client)+len(request)))
	header = binary.BigEndian.AppendUint16(header, uint16(key))
	header = binary.BigEndian.AppendUint16(header, uint16(version))
	header = binary.BigEndian.AppendUint32(header, uint32(c.last))
	header = appendKafkaString(header, client)
	if _, err := c.Write(append(header, request...)); err != nil {
		return nil, err
	}
	length, err := c.Next(4)
	if err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length)
	if n < 4 || n > maxKafkaFrame {
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

// askVersions asks in which versions the broker answers to Metadata, in the one version
// that every broker since 0.10 knows. It is answered before a login.
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

// metadata asks for the brokers and the topics. Version 4 is the first that does not
// create what is asked for, 8 the last that is not flexible.
func (c *session) metadata(topics []topicName) (*clusterState, error) {
	version := min(c.versions.highest, 8)
	if version < max(c.versions.lowest, 4) {
		f := failure.New(failure.Unexpected, "the broker answers to Metadata in versions %d to %d, of which none is known here", c.versions.lowest, c.versions.highest)
		f.Hint = "Kafka 0.11 and all later versions are known"
		return nil, f
	}
	request := binary.BigEndian.AppendUint32(nil, uint32(len(topics))) // none is none, not all
	for _, topic := range topics {
		request = appendKafkaString(request, topic.name)
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

// read keeps of the topics only those that were asked for, which k has the names of.
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

// A reader takes the fields off an answer. Once it ends too early, all that is
// left is zero.
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

// text reads a string, which may be null.
func (r *reader) text() string {
	n := r.int16()
	if n == -1 {
		return ""
	}
	return string(r.take(int(n)))
}

// bytes reads bytes, which may be null.
func (r *reader) bytes() []byte {
	n := r.int32()
	if n == -1 {
		return nil
	}
	return r.take(int(n))
}

// each reads the elements of an array, however many are announced: each takes bytes, so
// it ends with the answer.
func (r *reader) each(element func()) {
	for n := r.int32(); n > 0 && !r.short; n-- {
		element()
	}
}

func appendKafkaString(p []byte, s string) []byte {
	s = s[:min(len(s), math.MaxInt16)]
	return append(binary.BigEndian.AppendUint16(p, uint16(len(s))), s...)
}
