package local

import "testing"

// deltas of gitformat-pack(5): want is "" for those that are malformed, or make more than 20 bytes.
var deltas = []struct{ name, base, delta, want string }{
	{"copy and insert", "0123456789", "\x0a\x07\x91\x03\x04\x03abc", "3456abc"},
	{"copy all", "0123456789", "\x0a\x0a\x90\x0a", "0123456789"},
	{"20 bytes", "0123456789", "\x0a\x14\x90\x0a\x90\x0a", "01234567890123456789"},
	{"21 bytes", "0123456789", "\x0a\x15\x90\x0a\x90\x0a\x01a", ""},
	{"another base", "012345678", "\x0a\x0a\x90\x0a", ""},
	{"beyond the base", "0123456789", "\x0a\x0a\x91\x01\x0a", ""},
	{"less than it says", "0123456789", "\x0a\x0b\x90\x0a", ""},
	{"more than it says", "0123456789", "\x0a\x09\x90\x0a", ""},
	{"bytes after the end", "0123456789", "\x0a\x0a\x90\x0a\x01", ""},
	{"an insert that ends early", "0123456789", "\x0a\x05\x05abc", ""},
	{"a copy that ends early", "0123456789", "\x0a\x05\x91\x00", ""},
	{"a reserved instruction", "0123456789", "\x0a\x01\x00a", ""},
	{"gigabytes", "0", "\x01\xff\xff\xff\xff\x7f\x80", ""},
	{"a length beyond 64 bits", "0", "\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x80", ""},
	{"an unfinished length", "0", "\x01\x80\x80\x80", ""},
	{"no result length", "0", "\x01", ""},
	{"nothing", "0", "", ""},
}

func TestDelta(t *testing.T) {
	for _, c := range deltas {
		got, err := applyDelta([]byte(c.base), []byte(c.delta), 20)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
