package remote

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// connect connects and authenticates.
func (s *sshServer) connect(ctx context.Context) (*sshConn, error) {
	hosts, err := s.o.SSH.knownHosts(s.log)
	if err != nil {
		return nil, err
	}
	keys, err := s.o.SSH.keys()
	if err != nil {
		return nil, err
	}
	conn, err := s.o.reach(ctx, s.dialer.DialContext, s.url.Address())
	if err != nil {
		return nil, err
	}
	raw := &noted{Conn: conn}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	if s.o.Stall > 0 {
		raw.SetDeadline(time.Now().Add(s.o.Stall))
	}
	poll.Doing(ctx, "SSH handshake")
	h := &sshHandshake{server: s, hosts: hosts, keys: keys}
	c, channels, requests, err := ssh.NewClientConn(raw, s.url.Address(), h.config(ctx))
	if err != nil {
		raw.Close()
		return nil, h.failure(ctx, err)
	}
	raw.SetDeadline(time.Time{})
	return &sshConn{ssh.NewClient(c, channels, requests), raw, s.o.Stall, s.log}, nil
}

// sshHandshake is one handshake: first the server authenticates itself (RFC 4253), then the client (RFC 4252).
type sshHandshake struct {
	server *sshServer
	hosts  *knownHosts
	keys   []sshKey

	refused error    // what is wrong with the server's host key
	known   bool     // the host key has been accepted
	methods []string // of authentication, as the server offered them last
	asked   bool     // the server requires authentication
}

func (h *sshHandshake) config(ctx context.Context) *ssh.ClientConfig {
	address := h.server.url.Address()
	return &ssh.ClientConfig{
		User:              h.user(),
		ClientVersion:     "SSH-2.0-initbox",
		HostKeyAlgorithms: h.hosts.algorithms(address),
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			h.refused = h.hosts.check(address, key)
			h.known = h.refused == nil
			poll.Doing(ctx, "SSH authentication")
			return h.refused
		},
		Auth: []ssh.AuthMethod{ssh.PublicKeys(signers(h.keys)...)},
		AuthCallback: func(auth *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
			h.methods, h.asked = auth.AllowedMethods, true
			return nil, nil // with the keys, if they are allowed
		},
		BannerCallback: func(text string) error {
			h.server.log.Debug("message of the server", "text", failure.Printable(strings.TrimSpace(text)))
			return nil
		},
	}
}

func (h *sshHandshake) user() string { return cmp.Or(h.server.url.User, defaultUser) }

// failure explains why the handshake failed.
func (h *sshHandshake) failure(ctx context.Context, err error) error {
	var netErr net.Error
	switch text := err.Error(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case h.refused != nil:
		return h.refused
	case errors.Is(err, os.ErrDeadlineExceeded):
		return dial.Stalled(err, h.server.o.Stall)
	case h.asked && (strings.Contains(text, "unable to authenticate") || strings.Contains(text, "authentication attempts") ||
		strings.Contains(text, "disconnect, reason")):
		return h.unauthenticated(err)
	case h.known && strings.Contains(text, "disconnect, reason"), errors.As(err, &netErr):
	case strings.Contains(text, "reading version string"), strings.Contains(text, "invalid packet length"):
		return failure.New(failure.Unexpected, "the server does not speak SSH on this port").WithHint("is it the right port?")
	}
	f := failure.Of(err)
	f.Text = "SSH handshake: " + strings.TrimPrefix(f.Text, "ssh: handshake failed: ssh: ")
	if f.Class == failure.Reset {
		f.Hint = "does the server limit connections (MaxStartups of sshd), or refuse those from this address?"
	}
	return f
}

// unauthenticated names the keys that the server refused.
func (h *sshHandshake) unauthenticated(err error) error {
	f := failure.New(failure.Authentication, "")
	f.Err = err
	offered := "it offers " + failure.Printable(words.List(h.methods))
	var tried []string
	for _, k := range h.keys {
		tried = append(tried, k.String())
	}
	switch {
	case !slices.Contains(h.methods, "publickey"):
		f.Text = "the server accepts no keys from the user " + h.user() + ": " + offered
		f.Hint = "is the user in the URL right? only keys are supported"
	case len(tried) == 0:
		f.Text = "the server requires a key from the user " + h.user() + ", and none was given"
		f.Hint = "give one with --ssh-key-file"
	default:
		f.Text = "the server refuses the keys of the user " + h.user() + ": " + words.List(tried) + "; " + offered
		f.Hint = "is the public key registered on the server, for example as a deploy key, and is the user in the URL right?"
	}
	if strings.Contains(err.Error(), "Too many") || strings.Contains(err.Error(), "attempts") {
		f.Hint = "the server closed the connection after several keys: give only the right one"
	}
	return f
}
