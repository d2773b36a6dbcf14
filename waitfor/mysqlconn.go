package waitfor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
)

// A mysqlConn is a conversation in MySQL's protocol, in which each side sends packets:
// three bytes of length, the lowest first, one that counts them, then the payload.
//
// It is our own, though there is a driver: in answer to a query, a dozen bytes of a
// server make that one ask for 2^40 columns' memory, which ends the process.
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html
// https://mariadb.com/kb/en/clientserver-protocol/
type mysqlConn struct {
	*conversation
	kind     *target
	user     string
	password string
	database string // none if empty
	secrets  []string
	local    bool // over a socket, which nobody listens to
	noKey    bool // see [mysqlCheck]

	encrypted bool
	verified  bool   // the server is who it should be
	keyAsked  bool   // the next packet is a public key
	count     byte   // of the next packet
	number    uint16 // of the error that the server ended the login with
}

// Capabilities of client and server.
const (
	mysqlLongPassword   = 1 << 0 // from which a MariaDB tells clients of MySQL's
	mysqlWithDatabase   = 1 << 3
	mysqlProtocol41     = 1 << 9
	mysqlSSL            = 1 << 11
	mysqlTransactions   = 1 << 13
	mysqlSecure         = 1 << 15 // passwords since MySQL 4.1
	mysqlMultiResults   = 1 << 17 // of procedures
	mysqlPluginAuth     = 1 << 19
	mysqlLongPluginData = 1 << 21

	mysqlOfEveryLogin = mysqlLongPassword | mysqlProtocol41 | mysqlTransactions | mysqlSecure |
		mysqlMultiResults | mysqlPluginAuth | mysqlLongPluginData
)

const (
	mysqlUTF8            = 45   // utf8mb4_general_ci, which every server knows since 5.5.3
	mysqlMaxColumns      = 4096 // of a table, and so many are enough
	mysqlMaxError        = 1024 // bytes of an error
	mysqlMaxLoginPackets = 8    // of a server, twice as many as any login takes
)

// First bytes of payloads.
const (
	mysqlOK       = 0x00
	mysqlMore     = 0x01 // of a login
	mysqlFactor   = 0x02 // wants another login beside
	mysqlLocal    = 0xfb // wants a file; in a row, NULL
	mysqlEOF      = 0xfe
	mysqlSwitch   = 0xfe // wants a login of another kind
	mysqlError    = 0xff
	mysqlProtocol = 10 // of a greeting

	mysqlQuit  = 0x01
	mysqlQuery = 0x03
)

// packet returns the next payload, of one byte at least.
func (m *mysqlConn) packet() ([]byte, error) {
	header, err := m.read(4)
	if err != nil {
		return nil, err
	}
	n := uint64(header[0]) | uint64(header[1])<<8 | uint64(header[2])<<16
	if n == 0 {
		return nil, m.kind.otherProtocol()
	}
	if header[3] == m.count {
		m.count++
		return m.read(n)
	}
	// What another protocol begins with; or an error, for which servers begin to count anew.
	if n <= mysqlMaxError {
		if p, err := m.read(n); err != nil || p[0] == mysqlError {
			return p, err
		}
	}
	return nil, m.kind.otherProtocol()
}

func (m *mysqlConn) send(payload []byte) error {
	n := len(payload)
	packet := append([]byte{byte(n), byte(n >> 8), byte(n >> 16), m.count}, payload...)
	m.count++
	_, err := m.Write(packet)
	return err
}

// failed reads an error packet.
func (m *mysqlConn) failed(p []byte) error {
	if len(p) < 3 {
		return m.kind.otherProtocol()
	}
	m.number = binary.LittleEndian.Uint16(p[1:])
	message := p[3:]
	if len(message) >= 6 && message[0] == '#' { // the SQLSTATE
		message = message[6:]
	}
	return m.failure(m.number, string(message))
}

// mysqlHandshake is what a server says first.
type mysqlHandshake struct {
	capabilities uint32
	nonce        []byte
	plugin       string // how it would have a user log in
}

func (m *mysqlConn) greeting() (mysqlHandshake, error) {
	var g mysqlHandshake
	p, err := m.packet()
	switch {
	case err != nil:
		return g, err
	case p[0] == mysqlError:
		return g, m.failed(p)
	case p[0] != mysqlProtocol:
		return g, m.kind.otherProtocol()
	}
	_, p, ok := bytes.Cut(p[1:], []byte{0}) // the version
	// thread id, nonce, 0, capabilities, character set, status, capabilities, length of the nonce, reserved
	if !ok || len(p) < 4+8+1+2+1+2+2+1+10 {
		return g, m.kind.otherProtocol()
	}
	g.nonce = append(g.nonce, p[4:12]...)
	g.capabilities = uint32(binary.LittleEndian.Uint16(p[13:])) | uint32(binary.LittleEndian.Uint16(p[18:]))<<16
	rest := max(13, int(p[20])-8)
	if p = p[31:]; len(p) < rest || g.capabilities&mysqlProtocol41 == 0 {
		return g, m.kind.otherProtocol()
	}
	g.nonce = append(g.nonce, bytes.TrimSuffix(p[:rest], []byte{0})...)
	plugin, _, _ := bytes.Cut(p[rest:], []byte{0})
	g.plugin = string(plugin)
	return g, nil
}

// login lets the server greet, speaks TLS if that is wanted, and logs in. Whatever
// stands against it, the server is given the time to say its last word.
func (m *mysqlConn) login(mode mysqlTLS, o tlsconfig.Options) error {
	poll.Doing(m.ctx, "waiting for the greeting")
	g, err := m.greeting()
	if err != nil {
		return err
	}
	var refused error
	offered := g.capabilities&mysqlSSL != 0
	switch {
	case mode == mysqlRequired && !offered:
		f := failure.New(failure.TLS, "TLS: the server does not offer it")
		f.Hint = "is TLS set up in the server? see SHOW VARIABLES LIKE 'have_ssl'"
		refused = f
		m.user, m.password, m.database = mysqlNobody, "", ""
	case mode != mysqlPlain && offered:
		if err := m.send(m.hello(g, mysqlSSL)); err != nil {
			return err
		}
		if err := m.encrypt(o); err != nil {
			return err
		}
		m.encrypted, m.verified = true, !o.Insecure
	}
	poll.Doing(m.ctx, "logging in")
	answer, err := m.answerTo(g.plugin, g.nonce)
	if errors.Is(err, errMySQLPlugin) { // the user's may be another
		g.plugin = "mysql_native_password"
		answer, err = m.answerTo(g.plugin, g.nonce)
	}
	if err != nil && refused == nil {
		refused = err
	}
	p := m.hello(g, 0)
	p = append(append(p, m.user...), 0)
	p = append(appendLength(p, len(answer)), answer...)
	if m.database != "" {
		p = append(append(p, m.database...), 0)
	}
	if err := m.send(append(append(p, g.plugin...), 0)); err != nil {
		return err
	}
	return m.admitted(g, refused)
}

// hello is the beginning of a login, which is all of it before TLS.
func (m *mysqlConn) hello(g mysqlHandshake, more uint32) []byte {
	capabilities := uint32(mysqlOfEveryLogin) | more
	if m.encrypted {
		capabilities |= mysqlSSL
	}
	if m.database != "" {
		capabilities |= mysqlWithDatabase
	}
	capabilities &= g.capabilities | mysqlLongPassword // which a MariaDB does not have, and wants to hear
	p := binary.LittleEndian.AppendUint32(nil, capabilities)
	p = binary.LittleEndian.AppendUint32(p, conversationLimit)
	p = append(p, mysqlUTF8)
	return append(p, make([]byte, 23)...)
}

// appendLength appends a length in as many bytes as it needs.
func appendLength(p []byte, n int) []byte {
	switch {
	case n < 0xfb:
		return append(p, byte(n))
	case n < 1<<16:
		return append(p, 0xfc, byte(n), byte(n>>8))
	}
	return append(p, 0xfd, byte(n), byte(n>>8), byte(n>>16))
}

// admitted goes on until the server lets the user in or does not. Once this side has
// refused to go on, it only says nothing to the purpose, for the server to end it.
func (m *mysqlConn) admitted(g mysqlHandshake, refused error) error {
	plugin, nonce := g.plugin, g.nonce
	for range mysqlMaxLoginPackets {
		p, err := m.packet()
		if err != nil {
			return cmp.Or(refused, err)
		}
		var answer []byte
		switch p[0] {
		case mysqlOK:
			if refused != nil {
				m.quit()
			}
			return refused
		case mysqlError:
			if err := m.failed(p); refused == nil {
				return err
			}
			m.number = 0
			return refused
		case mysqlSwitch:
			name, data, _ := bytes.Cut(p[1:], []byte{0})
			plugin, nonce = string(name), bytes.TrimSuffix(data, []byte{0})
			if len(name) == 0 {
				plugin = "mysql_old_password"
			}
			answer, err = m.answerTo(plugin, nonce)
		case mysqlMore:
			var wanted bool
			if answer, wanted, err = m.more(plugin, nonce, p[1:]); !wanted && err == nil {
				continue
			}
		case mysqlFactor:
			err = refusedLogin("the server wants a second password, or a device")
		default:
			return cmp.Or(refused, error(m.kind.otherProtocol()))
		}
		if err != nil {
			refused, answer, m.password = cmp.Or(refused, err), nil, ""
		}
		if err := m.send(answer); err != nil {
			return cmp.Or(refused, err)
		}
	}
	return cmp.Or(refused, error(m.kind.otherProtocol()))
}

// ask runs the query, or one that is true if it is "", and reads the answer to its end.
func (m *mysqlConn) ask(query string) (queryAnswer, error) {
	if query == "" {
		poll.Doing(m.ctx, "asking for an answer")
		return m.run("SELECT 1")
	}
	poll.Doing(m.ctx, "running the query")
	if limits := mysqlLimits(m.ctx); limits != "" {
		m.number = 0
		if _, err := m.run(limits); err != nil && m.number == 0 { // a server that does not know them has none
			return queryAnswer{}, err
		}
	}
	if _, err := m.run("SET sql_select_limit=1"); err != nil { // the first row is all that counts
		return queryAnswer{}, err
	}
	return m.run(query)
}

// mysqlLimits has the server end a query soon after its attempt has ended. It would not
// notice that nobody waits for the answer, and soon have no place for others, were the
// query of each attempt to wait for the same lock. MariaDB and MySQL have names of their
// own for the time that a query takes, and comments for what only one of them reads.
//
// https://mariadb.com/kb/en/comment-syntax/
func mysqlLimits(ctx context.Context) string {
	end, ok := ctx.Deadline()
	if !ok {
		return ""
	}
	seconds := max(0, int(time.Until(end).Seconds())) + 1
	return fmt.Sprintf("SET lock_wait_timeout=%d /*M!100101 , max_statement_time=%[1]d */ /*!50708 , max_execution_time=%[1]d000 */", seconds)
}

func (m *mysqlConn) run(query string) (queryAnswer, error) {
	var answer queryAnswer
	m.count = 0
	if err := m.send(append([]byte{mysqlQuery}, query...)); err != nil {
		return answer, err
	}
	p, err := m.packet()
	if err != nil {
		return answer, err
	}
	switch p[0] {
	case mysqlOK:
		return answer, nil
	case mysqlError:
		return answer, m.failed(p)
	case mysqlLocal:
		return answer, failure.New(failure.Unexpected, "the server asks for a file of this host, which it does not get")
	}
	columns, _, ok := cutLength(p)
	if !ok || columns == 0 || columns > mysqlMaxColumns {
		return answer, m.kind.otherProtocol()
	}
	for range columns + 1 { // and the end of them
		if p, err = m.packet(); err != nil {
			return answer, err
		}
	}
	if p[0] != mysqlEOF {
		return answer, m.kind.otherProtocol()
	}
	for {
		if p, err = m.packet(); err != nil && answer.row {
			return answer, nil // there was more than is read
		} else if err != nil {
			return answer, err
		}
		switch {
		case p[0] == mysqlError:
			return answer, m.failed(p)
		case p[0] == mysqlEOF && len(p) < 9:
			return answer, nil
		case answer.row:
			continue
		}
		answer.row = true
		if answer.null = p[0] == mysqlLocal; answer.null {
			continue
		}
		n, rest, ok := cutLength(p)
		if !ok || n > uint64(len(rest)) {
			return queryAnswer{}, m.kind.otherProtocol()
		}
		answer.value = string(rest[:n])
	}
}

// cutLength reads what appendLength writes.
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

// quit says good-bye, without which the server counts an aborted connection.
func (m *mysqlConn) quit() {
	m.count = 0
	m.send([]byte{mysqlQuit})
}

// refusedLogin is a login that this side does not go on with.
func refusedLogin(text string) *failure.Failure {
	f := failure.New(failure.Authentication, "%s", text)
	f.Hint = "wait as another user, or without one, which needs no login"
	return f
}
