package waitfor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

var amqpKind = Kind{
	Schemes: []string{"amqp", "amqps"},
	Usage:   "amqp://[USER:PASSWORD@]HOST[:PORT][,HOST…][/VHOST]",
	Ready:   "the broker begins the conversation; with a user, lets it into the virtual host",
	Settings: slices.Concat([]Setting{
		{Name: "queue", Value: "NAME", Usage: "the queue exists", Multi: true},
		{Name: "exchange", Value: "NAME", Usage: "the exchange exists", Multi: true},
		{Name: "no-alarm", Usage: "no memory or disk alarm blocks who publishes"},
	}, serverSettings),
	Protocol: "AMQP 0-9-1",
	Hosts:    true,
	parse:    parseAMQP,
}

// amqpCheck speaks AMQP 0-9-1, as RabbitMQ and LavinMQ do. A library for it
// (amqp091-go, 0.5 MB) always logs in, and so cannot ask a broker for its readiness
// without a password.
//
// https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf
type amqpCheck struct {
	server
	external bool // log in with the client certificate
}

func parseAMQP(t *target) (Check, error) {
	if err := t.only("user path query"); err != nil {
		return nil, err
	}
	port, encrypted := "5672", t.scheme == "amqps" || t.settings.on("tls")
	if encrypted {
		port = "5671"
	}
	s, err := newServer(t, port)
	if err != nil {
		return nil, err
	}
	c := amqpCheck{server: s}
	c.encrypted = encrypted
	for _, name := range slices.Concat(t.settings["queue"], t.settings["exchange"]) {
		if len(name) > amqpShort {
			return nil, fmt.Errorf("queue, exchange: a name has at most %d bytes", amqpShort)
		}
	}
	return c, c.parameters()
}

// parameters reads those of RabbitMQ's URLs that say how to connect
// (https://www.rabbitmq.com/docs/uri-query-parameters).
func (c *amqpCheck) parameters() error {
	switch mechanism := strings.ToLower(c.param("auth_mechanism")); mechanism {
	case "external":
		c.external = true
	case "", "plain", "amqplain":
	default:
		return errors.New("auth_mechanism: want plain or external")
	}
	c.tls.ServerName = cmp.Or(c.tls.ServerName, c.param("server_name_indication"))
	c.tls.Insecure = c.tls.Insecure || c.param("verify") == "verify_none"
	return c.certificates([]string{"cacertfile"}, []string{"certfile"}, []string{"keyfile"})
}

func (c amqpCheck) Check(ctx context.Context) error { return c.any(ctx, c.ask) }

// amqpLogin is what a broker is told of who asks.
type amqpLogin struct {
	mechanism, response string
	vhost               string
	secrets             []string
}

// account returns the login as it is now, or nil if there is none and none is needed.
func (c amqpCheck) account() (*amqpLogin, error) {
	user, password, err := c.login("", "")
	if err != nil {
		return nil, err
	}
	u, err := c.url.Expand()
	if err != nil {
		return nil, err
	}
	l := &amqpLogin{mechanism: "PLAIN", vhost: cmp.Or(strings.TrimPrefix(u.Path, "/"), "/")}
	if len(l.vhost) > amqpShort {
		return nil, failure.New(failure.Unexpected, "a virtual host's name has at most %d bytes", amqpShort)
	}
	l.secrets = append(c.url.Secrets(), password)
	switch {
	case c.external:
		l.mechanism = "EXTERNAL"
		return l, nil
	case user == "" && password == "" && !c.wantsChannel():
		return nil, nil
	case user == "" && password == "": // as the protocol's clients have it
		user, password = "guest", "guest"
	}
	l.response = "\x00" + user + "\x00" + password // RFC 4616
	return l, nil
}

// wantsChannel reports whether something is asked that only a user may ask.
func (c amqpCheck) wantsChannel() bool {
	return c.settings.on("queue") || c.settings.on("exchange") || c.settings.on("no-alarm")
}

func (c amqpCheck) ask(ctx context.Context, addr string) error {
	login, err := c.account()
	if err != nil {
		return err
	}
	conn, err := c.connect(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	return c.talk(ctx, amqpConn{conversation: conn, target: c.target}, login)
}

// talk asks a broker for what is to be known, and takes its leave.
func (c amqpCheck) talk(ctx context.Context, a amqpConn, login *amqpLogin) error {
	poll.Doing(ctx, "waiting for connection.start")
	mechanisms, err := a.begin()
	if err != nil || login == nil {
		return err
	}
	a.secrets = login.secrets
	if !slices.Contains(strings.Fields(mechanisms), login.mechanism) {
		f := failure.New(failure.Authentication, "the broker has no login of kind %s, but %s", login.mechanism, quote(mechanisms, a.secrets...))
		f.Hint = "with a client certificate (--cert-file), ?auth_mechanism=external logs in with that"
		return f
	}
	poll.Doing(ctx, "logging in")
	if err := a.logIn(login, c.settings.on("no-alarm")); err != nil {
		return err
	}
	poll.Doing(ctx, "opening the virtual host")
	if _, err := a.call(0, amqpOpen, amqpOpenOK, shortString(login.vhost), shortString(""), []byte{0}); err != nil {
		return err
	}
	if c.wantsChannel() {
		if err := c.askChannel(ctx, a); err != nil {
			return err
		}
	}
	if c.settings.on("no-alarm") {
		poll.Doing(ctx, "asking for alarms")
		return a.publishable()
	}
	a.leave()
	return nil
}

// askChannel asks for queues and exchanges.
func (c amqpCheck) askChannel(ctx context.Context, a amqpConn) error {
	poll.Doing(ctx, "opening a channel")
	_, err := a.call(1, amqpChannelOpen, amqpChannelOpenOK, shortString(""))
	for _, name := range c.settings["exchange"] {
		if err == nil {
			poll.Doing(ctx, "asking for the exchange "+name)
			_, err = a.call(1, amqpExchangeDeclare, amqpExchangeDeclareOK, []byte{0, 0}, shortString(name), shortString("direct"), passive)
		}
	}
	for _, name := range c.settings["queue"] {
		if err == nil {
			poll.Doing(ctx, "asking for the queue "+name)
			_, err = a.call(1, amqpQueueDeclare, amqpQueueDeclareOK, []byte{0, 0}, shortString(name), passive)
		}
	}
	return err
}

// passive is the end of a declaration that declares nothing, but only asks whether it
// is there: the bit for that, and no arguments.
var passive = []byte{1, 0, 0, 0, 0}
