package mysql

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
	"initbox/waitfor/wire"
)

// greeting is the content of a server's greeting.
type greeting struct {
	capabilities uint32
	nonce        []byte
	plugin       string // the server's default
}

func (m *session) greeting() (greeting, error) {
	var g greeting
	p, err := m.packet()
	switch {
	case err != nil:
		return g, err
	case p[0] == errorPacket:
		return g, m.failed(p)
	case p[0] != protocolVersion:
		return g, m.target.Kind.OtherProtocol()
	}
	_, p, ok := bytes.Cut(p[1:], []byte{0}) // the version
	// thread id, nonce, 0, capabilities, character set, status, capabilities, length of the nonce, reserved
	if !ok || len(p) < 4+8+1+2+1+2+2+1+10 {
		return g, m.target.Kind.OtherProtocol()
	}
	g.nonce = append(g.nonce, p[4:12]...)
	g.capabilities = uint32(binary.LittleEndian.Uint16(p[13:])) | uint32(binary.LittleEndian.Uint16(p[18:]))<<16
	rest := max(13, int(p[20])-8)
	if p = p[31:]; len(p) < rest || g.capabilities&protocol41 == 0 {
		return g, m.target.Kind.OtherProtocol()
	}
	g.nonce = append(g.nonce, bytes.TrimSuffix(p[:rest], []byte{0})...)
	plugin, _, _ := bytes.Cut(p[rest:], []byte{0})
	g.plugin = string(plugin)
	return g, nil
}

// login reads the greeting, starts TLS if the mode demands it, and logs in. If the client has to refuse, it still reads
// the server's answer: a connection that ends early counts as an error of this host.
func (m *session) login(mode tlsMode, o tlsconfig.Options) error {
	poll.Doing(m.Ctx, "waiting for the greeting")
	g, err := m.greeting()
	if err != nil {
		return err
	}
	var refused error
	offered := g.capabilities&capabilityTLS != 0
	switch {
	case mode == tlsRequired && !offered:
		refused = failure.New(failure.TLS, "TLS: the server does not offer it").WithHint("is TLS enabled in the server? see SHOW VARIABLES LIKE 'have_ssl'")
		m.user, m.password, m.database = noUser, "", ""
	case mode != tlsPlain && offered:
		if err := m.send(m.hello(g, capabilityTLS)); err != nil {
			return err
		}
		if err := m.Encrypt(o); err != nil {
			return err
		}
		m.encrypted, m.verified = true, !o.Insecure
	}
	poll.Doing(m.Ctx, "logging in")
	answer, err := m.answerTo(g.plugin, g.nonce)
	if errors.Is(err, errPlugin) { // the user may have another plugin
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

// hello returns the start of a login packet, which is also the complete request for TLS.
func (m *session) hello(g greeting, more uint32) []byte {
	capabilities := uint32(ofEveryLogin) | more
	if m.encrypted {
		capabilities |= capabilityTLS
	}
	if m.database != "" {
		capabilities |= withDatabase
	}
	capabilities &= g.capabilities | longPassword // MariaDB does not announce it, but reads it
	p := binary.LittleEndian.AppendUint32(nil, capabilities)
	p = binary.LittleEndian.AppendUint32(p, wire.ConversationLimit)
	p = append(p, utf8)
	return append(p, make([]byte, 23)...)
}

// appendLength appends a length-encoded integer.
func appendLength(p []byte, n int) []byte {
	switch {
	case n < 0xfb:
		return append(p, byte(n))
	case n < 1<<16:
		return append(p, 0xfc, byte(n), byte(n>>8))
	}
	return append(p, 0xfd, byte(n), byte(n>>8), byte(n>>16))
}

// admitted continues the login until the server accepts or rejects it. Once the client has refused, it only sends empty
// answers, so that the server ends the login.
func (m *session) admitted(g greeting, refused error) error {
	plugin, nonce := g.plugin, g.nonce
	for range maxLoginPackets {
		p, err := m.packet()
		if err != nil {
			return cmp.Or(refused, err)
		}
		var answer []byte
		switch p[0] {
		case okPacket:
			if refused != nil {
				m.quit()
			}
			return refused
		case errorPacket:
			if err := m.failed(p); refused == nil {
				return err
			}
			m.number = 0
			return refused
		case switchPlugin:
			name, data, _ := bytes.Cut(p[1:], []byte{0})
			plugin, nonce = string(name), bytes.TrimSuffix(data, []byte{0})
			if len(name) == 0 {
				plugin = "mysql_old_password"
			}
			answer, err = m.answerTo(plugin, nonce)
		case moreData:
			var wanted bool
			if answer, wanted, err = m.more(plugin, nonce, p[1:]); !wanted && err == nil {
				continue
			}
		case nextFactor:
			err = refusedLogin("the server requires a second factor")
		default:
			return cmp.Or(refused, error(m.target.Kind.OtherProtocol()))
		}
		if err != nil {
			refused, answer, m.password = cmp.Or(refused, err), nil, ""
		}
		if err := m.send(answer); err != nil {
			return cmp.Or(refused, err)
		}
	}
	return cmp.Or(refused, error(m.target.Kind.OtherProtocol()))
}
