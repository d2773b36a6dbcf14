package rpc

import (
	"bytes"
	"strings"
	"testing"
)

// TestHealthRequest pins the bytes, which a real server also reads (test/real).
func TestHealthRequest(t *testing.T) {
	for service, want := range map[string][]byte{
		"":                       {0, 0, 0, 0, 0},
		"a":                      {0, 0, 0, 0, 3, 0x0a, 1, 'a'},
		strings.Repeat("b", 128): append([]byte{0, 0, 0, 0, 131, 0x0a, 0x80, 1}, strings.Repeat("b", 128)...),
	} {
		if got := Frame(HealthRequest(service)); !bytes.Equal(got, want) {
			t.Errorf("the request for %q is %x, want %x", service, got, want)
		}
	}
}

func TestHealthStatus(t *testing.T) {
	for _, test := range []struct {
		frame string
		want  int // -1: malformed
	}{
		{"\x00\x00\x00\x00\x02\x08\x01", 1},
		{"\x00\x00\x00\x00\x02\x08\x02", 2},
		{"\x00\x00\x00\x00\x00", 0},                     // a default is omitted
		{"\x00\x00\x00\x00\x04\x08\x02\x08\x01", 1},     // the last one counts
		{"\x00\x00\x00\x00\x03\x08\x81\x00", 1},         // a varint may be longer than necessary
		{"\x00\x00\x00\x00\x06\x12\x02hi\x08\x01", 1},   // an unknown field
		{"\x00\x00\x00\x00\x0b\x11aaaaaaaa\x08\x01", 1}, // of eight bytes
		{"\x00\x00\x00\x00\x07\x15aaaa\x08\x01", 1},     // of four bytes
		{"\x00\x00\x00\x00\x04\x20\x7f\x08\x01", 1},     // a number
		{"", -1},                             // nothing
		{"\x00\x00\x00\x00", -1},             // an incomplete frame
		{"\x01\x00\x00\x00\x02\x08\x01", -1}, // compressed, which was not asked for
		{"\x00\x00\x00\x00\x03\x08\x01", -1}, // shorter than it says
		{"\x00\x00\x00\x00\x01\x08\x01", -1}, // longer
		{"\x00\xff\xff\xff\xff\x08\x01", -1}, // much shorter
		{"\x00\x00\x00\x00\x01\x08", -1},     // a field without a value
		{"\x00\x00\x00\x00\x02\x12\x7f", -1}, // a length beyond the end
		{"\x00\x00\x00\x00\x01\x11", -1},     // eight bytes that are not there
		{"\x00\x00\x00\x00\x02\x0b\x01", -1}, // a group
		{"\x00\x00\x00\x00\x02\x00\x01", -1}, // field 0 does not exist
		{"\x00\x00\x00\x00\x0c\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -1}, // too long a varint
	} {
		got, err := healthStatus([]byte(test.frame))
		if test.want < 0 && err == nil || test.want >= 0 && (err != nil || got != uint64(test.want)) {
			t.Errorf("healthStatus(%x) = %d, %v, want %d", test.frame, got, err, test.want)
		}
	}
}

func TestGRPCFailure(t *testing.T) {
	if err := Failure("0"); err != nil {
		t.Errorf("OK is %v", err)
	}
	for status, want := range map[string]string{
		"5": "NOT_FOUND", "7": "refuses", "12": "UNIMPLEMENTED", "14": "UNAVAILABLE", "16": "refuses", "": "no gRPC status", "2": "gRPC status 2", "very long text": "gRPC status unknown",
	} {
		if err := Failure(status); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("status %q is %v, want %q", status, err, want)
		}
	}
}

// FuzzHealthStatus requires that no answer makes the reader panic, and that an unknown field in front of a valid answer
// changes nothing.
func FuzzHealthStatus(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x08\x01"))
	f.Add([]byte("\x00\x00\x00\x00\x06\x12\x02hi\x08\x01"))
	f.Add([]byte("\x00\x00\x00\x00\x07\x15aaaa\x08\x01"))
	f.Add([]byte("\x00\x00\x00\x00\x02\x12\x7f"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		status, err := healthStatus(frame)
		if err != nil || len(frame) > 1<<20 {
			return
		}
		longer := append([]byte("\x00\x00\x00\x00\x00\x12\x02hi"), frame[5:]...)
		n := len(longer) - 5
		longer[2], longer[3], longer[4] = byte(n>>16), byte(n>>8), byte(n)
		if again, err := healthStatus(longer); err != nil || again != status {
			t.Errorf("%x: %d, with a field more %d, %v", frame, status, again, err)
		}
	})
}
