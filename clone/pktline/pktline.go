// Package pktline reads and writes the packets of Git's protocols (gitprotocol-common(5), "pkt-line Format";
// gitprotocol-v2(5), "Packet-Line Framing"):
//
//	message := pktline.AppendFlush(pktline.Append(nil, "command=ls-refs\n"))
//	kind, payload, err := pktline.NewReader(answer).Next()
package pktline

import (
	"errors"
	"fmt"
	"io"
)

// Kind is the kind of a packet.
type Kind uint8

const (
	Data      Kind = iota // has a payload, which may be empty
	Flush                 // 0000: the end of a message
	Delimiter             // 0001: the end of a section of a message
	End                   // 0002: the end of a response over a stateless connection
)

const (
	header = 4

	// MaxPayload is the largest payload that Git sends in a packet, in bytes.
	MaxPayload = 65520 - header

	// maxRead is the largest payload that Git accepts: the size of its buffer.
	maxRead = 65520
)

// ErrMalformed means that the data read is not a packet: the other side speaks another protocol.
var ErrMalformed = errors.New("not a packet of Git's protocol")

// A Reader reads packets.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int // in buf: bytes read from src that have not been returned
}

// NewReader returns a Reader of src, from which it may read ahead.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// bufferSize has room for a packet of any length and the beginning of the next one.
const bufferSize = 128 << 10

// Next returns the next packet. The payload is valid until the next call. At the end of the source it returns io.EOF,
// and io.ErrUnexpectedEOF if that is within a packet.
func (r *Reader) Next() (Kind, []byte, error) {
	if err := r.need(header); err != nil {
		return 0, nil, err
	}
	n, ok := length(r.buf[r.start:])
	switch {
	case !ok, n == 3, n > header+maxRead:
		return 0, nil, ErrMalformed
	case n < header:
		r.start += header
		return map[int]Kind{0: Flush, 1: Delimiter, 2: End}[n], nil, nil
	}
	if err := r.need(n); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	payload := r.buf[r.start+header : r.start+n : r.start+n]
	r.start += n
	return Data, payload, nil
}

// need reads until n bytes are in the buffer. If there is none at all, it returns io.EOF.
func (r *Reader) need(n int) error {
	if r.end-r.start >= n {
		return nil
	}
	if r.buf == nil {
		r.buf = make([]byte, bufferSize)
	}
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	more, err := io.ReadAtLeast(r.src, r.buf[r.end:], n-r.end)
	had := r.end
	r.end += more
	if r.end >= n {
		return nil
	}
	if err == io.EOF && had > 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// length parses four hexadecimal digits.
func length(b []byte) (n int, ok bool) {
	for _, c := range b[:header] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		n = n<<4 | int(c)
	}
	return n, true
}

// Rest returns a reader of the data after the last packet, which does not consist of packets.
func (r *Reader) Rest() io.Reader { return (*rest)(r) }

type rest Reader

func (r *rest) Read(p []byte) (int, error) {
	if r.start == r.end {
		return r.src.Read(p)
	}
	n := copy(p, r.buf[r.start:r.end])
	r.start += n
	return n, nil
}

// Append appends a packet to a message. It panics if the payload is longer than [MaxPayload].
func Append(b []byte, payload string) []byte {
	if len(payload) > MaxPayload {
		panic(fmt.Sprintf("pktline: a payload of %d bytes", len(payload)))
	}
	b = fmt.Appendf(b, "%04x", header+len(payload))
	return append(b, payload...)
}

// AppendFlush appends the packet that ends a message.
func AppendFlush(b []byte) []byte { return append(b, "0000"...) }

// AppendDelimiter appends the packet that ends a section of a message.
func AppendDelimiter(b []byte) []byte { return append(b, "0001"...) }
