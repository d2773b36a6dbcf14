package corpus_test

import (
	"bufio"
	"crypto/md5"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
)

// speaks has the servers that do not speak HTTP, as far as a wait goes: they accept the login of the row, if there is
// one, and answer each query with the row's text, or 1. What real servers answer is tested with them, in waitfor.
var speaks = map[string]func(c net.Conn, a answer){
	"tcp":       func(c net.Conn, _ answer) { io.Copy(io.Discard, c) },
	"postgres":  speakPostgres,
	"mysql":     speakMySQL,
	"redis":     speakRedis,
	"zookeeper": speakZooKeeper,
	"cassandra": speakCassandra,
}

// speakRedis answers PING (https://redis.io/docs/latest/develop/reference/protocol-spec/).
func speakRedis(c net.Conn, _ answer) {
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if strings.EqualFold(strings.TrimSpace(lines.Text()), "PING") {
			io.WriteString(c, "+PONG\r\n")
		}
	}
}

// speakZooKeeper answers srvr (https://zookeeper.apache.org/doc/current/zookeeperAdmin.html).
func speakZooKeeper(c net.Conn, _ answer) {
	word := make([]byte, 4)
	if _, err := io.ReadFull(c, word); err == nil && string(word) == "srvr" {
		io.WriteString(c, "Zookeeper version: 3.8.4\nLatency min/avg/max: 0/0.0/0\nMode: leader\nNode count: 5\n")
	}
}

// speakPostgres follows https://www.postgresql.org/docs/current/protocol-flow.html, with a login by MD5.
func speakPostgres(c net.Conn, a answer) {
	say := func(kind byte, body string) {
		c.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(body)+4)), body...))
	}
	receive := func(header int) []byte {
		head := make([]byte, header)
		if _, err := io.ReadFull(c, head); err != nil {
			return nil
		}
		body := make([]byte, min(binary.BigEndian.Uint32(head[header-4:]), 1<<16)-4)
		if _, err := io.ReadFull(c, body); err != nil {
			return nil
		}
		return body
	}
	startup := receive(4)
	for len(startup) == 4 { // asks for TLS
		io.WriteString(c, "N")
		startup = receive(4)
	}
	if startup == nil {
		return
	}
	user, password, _ := strings.Cut(a.Login, ":")
	say('R', "\x00\x00\x00\x05salt")
	hashed := fmt.Sprintf("%x", md5.Sum([]byte(password+user)))
	if string(receive(5)) != fmt.Sprintf("md5%x\x00", md5.Sum([]byte(hashed+"salt"))) {
		say('E', "SFATAL\x00C28P01\x00Mpassword authentication failed\x00\x00")
		return
	}
	if !strings.Contains(string(startup), "\x00database\x00"+a.Database+"\x00") {
		say('E', "SFATAL\x00C3D000\x00Mdatabase does not exist\x00\x00")
		return
	}
	say('R', "\x00\x00\x00\x00")
	say('Z', "I")
	for receive(5) != nil {
		value := orOne(a.Text)
		say('T', "\x00\x01x\x00"+strings.Repeat("\x00", 6)+"\x00\x00\x00\x19\xff\xff\xff\xff\xff\xff\x00\x00")
		say('D', "\x00\x01"+string(binary.BigEndian.AppendUint32(nil, uint32(len(value))))+value)
		say('C', "SELECT 1\x00")
		say('Z', "I")
	}
}

func orOne(text string) string {
	if text == "" {
		return "1"
	}
	return text
}

// speakMySQL follows https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html, with mysql_native_password.
func speakMySQL(c net.Conn, a answer) {
	const nonce = "abcdefghijklmnopqrst"
	sequence := byte(0)
	say := func(payload string) {
		io.WriteString(c, string([]byte{byte(len(payload)), byte(len(payload) >> 8), 0, sequence})+payload)
		sequence++
	}
	receive := func() []byte {
		header := make([]byte, 4)
		if _, err := io.ReadFull(c, header); err != nil {
			return nil
		}
		sequence = header[3] + 1
		payload := make([]byte, int(header[0])|int(header[1])<<8)
		io.ReadFull(c, payload)
		return payload
	}
	say("\x0a8.4.0\x00\x01\x00\x00\x00" + nonce[:8] + "\x00\x08\x82\xff\x02\x00\x08\x00\x15" + strings.Repeat("\x00", 10) + nonce[8:] + "\x00mysql_native_password\x00")
	hello := receive()
	if len(hello) < 32 {
		return
	}
	user, rest, _ := strings.Cut(string(hello[32:]), "\x00")
	name, password, _ := strings.Cut(a.Login, ":")
	once := sha1.Sum([]byte(password))
	twice := sha1.Sum(once[:])
	proof := sha1.Sum(append([]byte(nonce), twice[:]...))
	for i := range proof {
		proof[i] ^= once[i]
	}
	if user != name || !strings.HasPrefix(rest, "\x14"+string(proof[:])) || !strings.Contains(rest, a.Database+"\x00") {
		say("\xff\x15\x04#28000Access denied")
		return
	}
	say("\x00\x00\x00\x02\x00\x00\x00")
	for p := receive(); len(p) > 0 && p[0] == 3; p = receive() {
		say("\x01")
		say("\x03def\x00\x00\x00\x01x\x00\x0c\x3f\x00\x01\x00\x00\x00\xfd\x81\x00\x00\x00\x00")
		say("\xfe\x00\x00\x02\x00")
		value := orOne(a.Text)
		say(string([]byte{byte(len(value))}) + value)
		say("\xfe\x00\x00\x02\x00")
	}
}

// speakCassandra follows https://cassandra.apache.org/doc/latest/cassandra/reference/native-protocol.html, version 4,
// with a login.
func speakCassandra(c net.Conn, a answer) {
	text := func(s string) string { return string(binary.BigEndian.AppendUint16(nil, uint16(len(s)))) + s }
	for {
		header := make([]byte, 9)
		if _, err := io.ReadFull(c, header); err != nil {
			return
		}
		body := make([]byte, min(binary.BigEndian.Uint32(header[5:]), 1000))
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		say := func(opcode byte, body string) {
			c.Write(append(binary.BigEndian.AppendUint32([]byte{0x80 | header[0], 0, header[2], header[3], opcode}, uint32(len(body))), body...))
		}
		switch opcode := header[4]; {
		case opcode == 5: // OPTIONS
			say(6, "\x00\x01"+text("CQL_VERSION")+"\x00\x01"+text("3.4.5"))
		case opcode == 1: // STARTUP
			say(3, text("org.apache.cassandra.auth.PasswordAuthenticator"))
		case opcode == 15 && string(body[4:]) == "\x00"+strings.Replace(a.Login, ":", "\x00", 1): // AUTH_RESPONSE
			say(16, "\xff\xff\xff\xff")
		default:
			say(0, "\x00\x00\x01\x00"+text("bad credentials"))
			return
		}
	}
}
