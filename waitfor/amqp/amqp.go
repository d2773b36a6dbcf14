// Package amqp waits for AMQP 0-9-1 brokers, such as RabbitMQ: amqp://[USER:PASSWORD@]HOST[:PORT][,HOST…][/VHOST], and
// amqps:// with TLS.
//
// Without a user, a broker is ready when it starts the handshake; with one, when it accepts the login to the virtual
// host. The settings queue and exchange wait for what applications declare, no-alarm until the broker accepts messages.
package amqp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the schemes amqp and amqps.
var Kind = target.Kind{
	Schemes: []string{"amqp", "amqps"},
	Usage:   "amqp://[USER:PASSWORD@]HOST[:PORT][,HOST…][/VHOST]",
	Ready:   "the broker starts the handshake; with a user, accepts the login to the virtual host",
	Settings: slices.Concat([]target.Setting{
		{Name: "queue", Value: "NAME", Usage: "the queue exists", Multi: true},
		{Name: "exchange", Value: "NAME", Usage: "the exchange exists", Multi: true},
		{Name: "no-alarm", Usage: "no memory or disk alarm blocks publishers"},
	}, wire.ServerSettings),
	Protocol: "AMQP 0-9-1",
	Hosts:    true,
	Port:     "5672",
	TLSPort:  "5671",
	Secure:   "amqps",
	Parse:    parse,
}

// check speaks AMQP 0-9-1, as RabbitMQ and LavinMQ do. The usual library (amqp091-go, 0.5 MB) always logs in, and so
// cannot check a broker's readiness without a password.
//
// https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf
type check struct {
	wire.Server
	external bool // log in with the client certificate
}

func parse(t *target.Target) (target.Check, error) {
	s, err := wire.NewServer(t)
	if err != nil {
		return nil, err
	}
	c := check{Server: s}
	for _, name := range slices.Concat(t.Settings["queue"], t.Settings["exchange"]) {
		if len(name) > maxShort {
			return nil, fmt.Errorf("queue, exchange: a name has at most %d bytes", maxShort)
		}
	}
	err = c.parameters()
	return c, err
}

// parameters reads the parameters of RabbitMQ's URLs that say how to connect
// (https://www.rabbitmq.com/docs/uri-query-parameters).
func (c *check) parameters() error {
	switch mechanism := strings.ToLower(c.URL.Param("auth_mechanism")); mechanism {
	case "external":
		c.external = true
	case "", "plain", "amqplain":
	default:
		return errors.New("auth_mechanism: want plain or external")
	}
	c.TLS.ServerName = cmp.Or(c.TLS.ServerName, c.URL.Param("server_name_indication"))
	c.TLS.Insecure = c.TLS.Insecure || c.URL.Param("verify") == "verify_none"
	return c.Certificates([]string{"cacertfile"}, []string{"certfile"}, []string{"keyfile"})
}

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server, c.ask) }

// credentials are the client's login, and the virtual host that it opens.
type credentials struct {
	mechanism, response string
	vhost               string
	secrets             []string
}

// account returns the credentials at this attempt, or nil if the target has none and needs none.
func (c check) account() (*credentials, error) {
	user, password, err := wire.Login(c.Server, "", "")
	if err != nil {
		return nil, err
	}
	u, err := c.URL.Expand()
	if err != nil {
		return nil, err
	}
	l := &credentials{mechanism: "PLAIN", vhost: cmp.Or(strings.TrimPrefix(u.Path, "/"), "/")}
	if len(l.vhost) > maxShort {
		return nil, failure.New(failure.Unexpected, "a virtual host's name has at most %d bytes", maxShort)
	}
	l.secrets = append(c.URL.Secrets(), password)
	switch {
	case c.external:
		l.mechanism = "EXTERNAL"
		return l, nil
	case user == "" && password == "" && !c.wantsChannel():
		return nil, nil
	case user == "" && password == "": // the default of the protocol's clients
		user, password = "guest", "guest"
	}
	l.response = "\x00" + user + "\x00" + password // RFC 4616
	return l, nil
}

// wantsChannel reports whether a setting needs a channel, and thus a login.
func (c check) wantsChannel() bool {
	return c.Settings.On("queue") || c.Settings.On("exchange") || c.Settings.On("no-alarm")
}

func (c check) ask(ctx context.Context, addr string) error {
	login, err := c.account()
	if err != nil {
		return err
	}
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	return c.talk(ctx, session{Conversation: conn, target: c.Target}, login)
}

// talk makes the checks that the target asks for, and closes the connection.
func (c check) talk(ctx context.Context, a session, login *credentials) error {
	poll.Doing(ctx, "waiting for connection.start")
	mechanisms, err := a.begin()
	if err != nil || login == nil {
		return err
	}
	a.secrets = login.secrets
	if !slices.Contains(strings.Fields(mechanisms), login.mechanism) {
		return failure.New(failure.Authentication, "the broker does not support the login mechanism %s, but %s", login.mechanism, secret.Quote(mechanisms, a.secrets...)).
			WithHint("to log in with a client certificate (--cert-file), set ?auth_mechanism=external")
	}
	poll.Doing(ctx, "logging in")
	if err := a.logIn(login, c.Settings.On("no-alarm")); err != nil {
		return err
	}
	poll.Doing(ctx, "opening the virtual host")
	if _, err := a.call(0, methodOpen, methodOpenOK, shortString(login.vhost), shortString(""), []byte{0}); err != nil {
		return err
	}
	if c.wantsChannel() {
		if err := c.askChannel(ctx, a); err != nil {
			return err
		}
	}
	if c.Settings.On("no-alarm") {
		poll.Doing(ctx, "asking for alarms")
		return a.publishable()
	}
	a.leave()
	return nil
}

// askChannel checks the queues and exchanges.
func (c check) askChannel(ctx context.Context, a session) error {
	poll.Doing(ctx, "opening a channel")
	_, err := a.call(1, methodChannelOpen, methodChannelOpenOK, shortString(""))
	for _, name := range c.Settings["exchange"] {
		if err == nil {
			poll.Doing(ctx, "asking for the exchange "+name)
			_, err = a.call(1, methodExchangeDeclare, methodExchangeDeclareOK, []byte{0, 0}, shortString(name), shortString("direct"), passive)
		}
	}
	for _, name := range c.Settings["queue"] {
		if err == nil {
			poll.Doing(ctx, "asking for the queue "+name)
			_, err = a.call(1, methodQueueDeclare, methodQueueDeclareOK, []byte{0, 0}, shortString(name), passive)
		}
	}
	return err
}

// passive is the end of a declaration that creates nothing, but only checks for existence: the bit for that, and no
// arguments.
var passive = []byte{1, 0, 0, 0, 0}
