package clickhouse

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// The native protocol is tested against a server that follows https://clickhouse.com/docs/native-protocol/server.

func text(s string) string { return string(binary.AppendUvarint(nil, uint64(len(s)))) + s }

// exceptionWith returns the packet of an exception.
func exceptionWith(code uint32, message string) string {
	return "\x02" + string(binary.LittleEndian.AppendUint32(nil, code)) + text("DB::Exception") + text(message) + text("0. stack trace") + "\x00"
}

var hello = "\x00" + text("ClickHouse") + "\x18\x08" + string(binary.AppendUvarint(nil, 54470))

// readNativeGreeting returns the texts of a client's hello: its name, the database, the user and the password.
func readNativeGreeting(r io.ByteReader) (texts [4]string) {
	packet, _ := binary.ReadUvarint(r)
	text := func() string {
		n, _ := binary.ReadUvarint(r)
		p := make([]byte, n)
		for i := range p {
			p[i], _ = r.ReadByte()
		}
		return string(p)
	}
	if packet != 0 {
		return texts
	}
	texts[0] = text()
	for range 3 {
		binary.ReadUvarint(r)
	}
	texts[1], texts[2], texts[3] = text(), text(), text()
	return texts
}

func TestNative(t *testing.T) {
	serve := func(c net.Conn) {
		p := make([]byte, 1024)
		n, _ := c.Read(p)
		switch asked := readNativeGreeting(bytes.NewReader(p[:n])); {
		case asked[0] != "initbox":
			io.WriteString(c, "HTTP/1.0 400 Bad Request\r\n\r\nPort 9000 is for clickhouse-client program\r\nYou must use port 8123 for HTTP.\r\n")
			return // as the server does
		case asked[2] != "default" && (asked[2] != "app" || asked[3] != "hUnter2"):
			io.WriteString(c, exceptionWith(516, "DB::Exception: "+asked[2]+": Authentication failed: password "+asked[3]+" is incorrect, or there is no user with such name"))
		case asked[1] != "" && asked[1] != "shop":
			io.WriteString(c, exceptionWith(81, "DB::Exception: Database "+asked[1]+" doesn't exist"))
		default:
			io.WriteString(c, hello)
		}
		kindtest.Hang(c)
	}
	addr := servers.Serve(t, serve)
	for _, tt := range []struct {
		target, text string
		class        failure.Class
	}{
		{"clickhouse://ADDR?protocol=native", "", ""},
		{"clickhouse://ADDR", "", ""}, // HTTP is answered with where to ask
		{"clickhouse://app:hUnter2@ADDR/shop?protocol=native", "", ""},
		{"clickhouse://app:hUnter3@ADDR/shop", "app: Authentication failed: password […] is incorrect", failure.Authentication},
		{"clickhouse://app:hUnter2@ADDR/other", "Database other doesn't exist", failure.Unexpected},
		{"clickhouse://ADDR#query=SELECT%201", "the port is for the native protocol", failure.Unexpected},
	} {
		err := kindtest.Check(t, kinds, strings.Replace(tt.target, "ADDR", addr, 1), target.Options{})
		f := new(failure.Failure)
		if err != nil {
			f = failure.Of(err)
		}
		if f.Class != tt.class || !strings.Contains(f.Text, tt.text) || (err == nil) != (tt.text == "") {
			t.Errorf("%s: %v, want %s, %q", tt.target, err, tt.class, tt.text)
		}
	}
	for text, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n":                 "the answer is not that of ClickHouse",
		"\x05":                                             "the answer is not that of ClickHouse",
		"\x00\xff\xff\xff\xff\x07":                         "announces a message that is too long",
		"\x02\x00\x00\x00\x00\xff\xff\xff\xff\x07":         "announces a message that is too long",
		"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff": "a number that is too long",
		"\x00\x00\x00\x00\x00":                             "the answer is not that of ClickHouse",
		"\x00\x0aClick":                                    "connection closed by the server",
	} {
		addr := servers.Serve(t, func(c net.Conn) { c.Read(make([]byte, 1024)); io.WriteString(c, text) })
		if err := kindtest.Check(t, kinds, "clickhouse://"+addr+"?protocol=native", target.Options{}); err == nil || !strings.Contains(failure.Of(err).Text, want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// readConn is a connection on which all answers have already arrived.
type readConn struct{ io.Reader }

func (readConn) Write(p []byte) (int, error)      { return len(p), nil }
func (readConn) Close() error                     { return nil }
func (readConn) LocalAddr() net.Addr              { return nil }
func (readConn) RemoteAddr() net.Addr             { return nil }
func (readConn) SetDeadline(time.Time) error      { return nil }
func (readConn) SetReadDeadline(time.Time) error  { return nil }
func (readConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzClickHouseNative checks that only a greeting is accepted as one.
func FuzzNative(f *testing.F) {
	f.Add([]byte(hello))
	f.Add([]byte(hello + text("UTC") + text("host") + "\x04"))
	f.Add([]byte(exceptionWith(516, "DB::Exception: app: Authentication failed")))
	f.Add([]byte("\x00\xff\xff\xff\xff\x07"))
	parsed, err := kinds.Parse("clickhouse://h:9000", target.Options{})
	if err != nil {
		f.Fatal(err)
	}
	c := parsed.(check)
	f.Fuzz(func(t *testing.T, said []byte) {
		conn := wire.Converse(t.Context(), readConn{bytes.NewReader(said)}, "h:9000")
		defer conn.Close()
		err := c.greeted(conn, []string{"hUnter2"})
		if err == nil && (len(said) == 0 || said[0]&0x7f != helloPacket) { // a varint may be longer than necessary
			t.Errorf("%x is taken for a greeting", said)
		}
		if err != nil && strings.Contains(err.Error(), "hUnter2") {
			t.Errorf("%v tells the password", err)
		}
	})
}
