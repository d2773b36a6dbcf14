package mysql

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// A session is a conversation in MySQL's protocol, in which both sides send packets: a length of three bytes,
// little-endian, a sequence number of one byte, then the payload.
//
// The usual driver is not used: a dozen bytes in a server's answer make it allocate memory for 2^40 columns, which ends
// the process.
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html
// https://mariadb.com/kb/en/clientserver-protocol/
type session struct {
	*wire.Conversation
	target   *target.Target
	user     string
	password string
	database string // none if empty
	secrets  []string
	local    bool // over a Unix socket, where cleartext is safe
	noKey    bool // see [check]

	encrypted bool
	verified  bool   // the server's certificate is verified
	keyAsked  bool   // the next packet is a public key
	count     byte   // of the next packet
	number    uint16 // of the last error from the server
}

// Capabilities of client and server.
const (
	longPassword    = 1 << 0 // a MariaDB server takes a client without it for one of MariaDB
	withDatabase    = 1 << 3
	protocol41      = 1 << 9
	capabilityTLS   = 1 << 11
	transactions    = 1 << 13
	securePasswords = 1 << 15 // passwords since MySQL 4.1
	multiResults    = 1 << 17 // of procedures
	pluginAuth      = 1 << 19
	longPluginData  = 1 << 21

	ofEveryLogin = longPassword | protocol41 | transactions | securePasswords |
		multiResults | pluginAuth | longPluginData
)

const (
	utf8            = 45   // utf8mb4_general_ci, in every server since 5.5.3
	maxColumns      = 4096 // MySQL's limit for a table
	maxError        = 1024 // bytes of an error packet
	maxLoginPackets = 8    // from a server: twice what any login takes
)

// First bytes of payloads.
const (
	okPacket        = 0x00
	moreData        = 0x01 // of a login
	nextFactor      = 0x02 // requires a second factor
	localInfile     = 0xfb // requests a file; in a row, NULL
	eofPacket       = 0xfe
	switchPlugin    = 0xfe // requests another plugin
	errorPacket     = 0xff
	protocolVersion = 10 // of a greeting

	quitCommand  = 0x01
	queryCommand = 0x03
)

// packet returns the next payload, which has at least one byte.
func (m *session) packet() ([]byte, error) {
	header, err := m.Next(4)
	if err != nil {
		return nil, err
	}
	n := uint64(header[0]) | uint64(header[1])<<8 | uint64(header[2])<<16
	if n == 0 {
		return nil, m.target.Kind.OtherProtocol()
	}
	if header[3] == m.count {
		m.count++
		return m.Next(n)
	}
	// Either another protocol, or an error: servers start again at 0 for those.
	if n <= maxError {
		if p, err := m.Next(n); err != nil || p[0] == errorPacket {
			return p, err
		}
	}
	return nil, m.target.Kind.OtherProtocol()
}

func (m *session) send(payload []byte) error {
	n := len(payload)
	packet := append([]byte{byte(n), byte(n >> 8), byte(n >> 16), m.count}, payload...)
	m.count++
	_, err := m.Write(packet)
	return err
}

// failed reads an error packet.
func (m *session) failed(p []byte) error {
	if len(p) < 3 {
		return m.target.Kind.OtherProtocol()
	}
	m.number = binary.LittleEndian.Uint16(p[1:])
	message := p[3:]
	if len(message) >= 6 && message[0] == '#' { // the SQLSTATE
		message = message[6:]
	}
	return m.failure(m.number, string(message))
}

// ask runs the query, or SELECT 1 if it is "", and reads the complete answer.
func (m *session) ask(query string) (wire.QueryAnswer, error) {
	if query == "" {
		poll.Doing(m.Ctx, "asking for an answer")
		return m.run("SELECT 1")
	}
	poll.Doing(m.Ctx, "running the query")
	if limits := limitHints(m.Ctx); limits != "" {
		m.number = 0
		if _, err := m.run(limits); err != nil && m.number == 0 { // a server may not know them
			return wire.QueryAnswer{}, err
		}
	}
	if _, err := m.run("SET sql_select_limit=1"); err != nil { // only the first row counts
		return wire.QueryAnswer{}, err
	}
	return m.run(query)
}

// limitHints returns a statement that makes the server end a query soon after its attempt has ended. The server does
// not notice that the client has gone: if the query of each attempt waited for the same lock, they would soon use up
// its connections. MariaDB and MySQL name the limit differently, and each reads comments that the other skips.
//
// https://mariadb.com/kb/en/comment-syntax/
func limitHints(ctx context.Context) string {
	end, ok := ctx.Deadline()
	if !ok {
		return ""
	}
	seconds := max(0, int(time.Until(end).Seconds())) + 1
	return fmt.Sprintf("SET lock_wait_timeout=%d /*M!100101 , max_statement_time=%[1]d */ /*!50708 , max_execution_time=%[1]d000 */", seconds)
}

func (m *session) run(query string) (wire.QueryAnswer, error) {
	var answer wire.QueryAnswer
	m.count = 0
	if err := m.send(append([]byte{queryCommand}, query...)); err != nil {
		return answer, err
	}
	p, err := m.packet()
	if err != nil {
		return answer, err
	}
	switch p[0] {
	case okPacket:
		return answer, nil
	case errorPacket:
		return answer, m.failed(p)
	case localInfile:
		return answer, failure.New(failure.Unexpected, "the server requests a file of this host, which is refused")
	}
	columns, _, ok := cutLength(p)
	if !ok || columns == 0 || columns > maxColumns {
		return answer, m.target.Kind.OtherProtocol()
	}
	for range columns + 1 { // and the end marker
		if p, err = m.packet(); err != nil {
			return answer, err
		}
	}
	if p[0] != eofPacket {
		return answer, m.target.Kind.OtherProtocol()
	}
	for {
		if p, err = m.packet(); err != nil && answer.Row {
			return answer, nil // the first row is enough
		} else if err != nil {
			return answer, err
		}
		switch {
		case p[0] == errorPacket:
			return answer, m.failed(p)
		case p[0] == eofPacket && len(p) < 9:
			return answer, nil
		case answer.Row:
			continue
		}
		answer.Row = true
		if answer.Null = p[0] == localInfile; answer.Null {
			continue
		}
		n, rest, ok := cutLength(p)
		if !ok || n > uint64(len(rest)) {
			return wire.QueryAnswer{}, m.target.Kind.OtherProtocol()
		}
		answer.Value = string(rest[:n])
	}
}

// cutLength reads a length-encoded integer.
func cutLength(p []byte) (n uint64, rest []byte, ok bool) {
	size := 0
	switch {
	case len(p) == 0:
		return 0, nil, false
	case p[0] < 0xfb:
		return uint64(p[0]), p[1:], true
	case p[0] == 0xfc:
		size = 2
	case p[0] == 0xfd:
		size = 3
	case p[0] == 0xfe:
		size = 8
	}
	if size == 0 || len(p) < 1+size {
		return 0, nil, false
	}
	for i := size; i > 0; i-- {
		n = n<<8 | uint64(p[i])
	}
	return n, p[1+size:], true
}

// quit ends the session, so that the server does not count an aborted connection.
func (m *session) quit() {
	m.count = 0
	m.send([]byte{quitCommand})
}

// refusedLogin is the failure of a login that the client refuses to continue.
func refusedLogin(text string) *failure.Failure {
	return failure.New(failure.Authentication, "%s", text).WithHint("use another user, or a target without a user, which needs no login")
}
