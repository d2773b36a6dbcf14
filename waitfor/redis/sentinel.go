package redis

import (
	"context"
	"fmt"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/wire"
)

// askSentinel asks the sentinel at addr for the master, and then the master, which must confirm its role: a sentinel
// names the old master until it has noticed a failover.
//
// https://redis.io/docs/latest/develop/reference/sentinel-clients/
func (c check) askSentinel(ctx context.Context, addr string) error {
	password := ""
	if c.Settings.On("sentinel-password-file") {
		var err error
		if password, err = secret.Read(c.Settings.Get("sentinel-password-file")); err != nil {
			return err
		}
	}
	master, err := c.masterAt(ctx, addr, password)
	if err != nil {
		return err
	}
	err = c.ask(ctx, master)
	if err == nil || poll.Ended(ctx) {
		return err
	}
	f := *failure.Of(err)
	f.Text = secret.Quote(fmt.Sprintf("master %s at %s: %s", c.sentinel, master, f.Text), password)
	f.Elsewhere = true
	switch f.Class {
	case failure.Refused, failure.TimedOut, failure.Unreachable, failure.NoSuchName:
		f.Hint = "the sentinel at " + addr + " names this address: is the master down and no other elected yet, or is the address not reachable from this Pod (replica-announce-ip, sentinel announce-ip)?"
	}
	if f.Note == "" {
		f.Note = "named by " + addr
	}
	return &f
}

// masterAt returns the address of the master that the sentinel at addr names.
func (c check) masterAt(ctx context.Context, addr, password string) (string, error) {
	r, err := c.open(ctx, addr, c.Settings.Get("sentinel-user"), password)
	if err != nil {
		return "", err
	}
	defer r.Close()
	reply, err := r.do("SENTINEL", "get-master-addr-by-name", c.sentinel)
	switch {
	case err != nil:
		return "", err
	case reply.kind == '-':
		f := failure.Of(r.failed(reply.text))
		switch {
		case f.Class == failure.Authentication:
			f.Hint = "the sentinels have their own password: --sentinel-password-file"
		case f.Hint == "":
			f.Hint = "is it a sentinel? their default port is 26379"
		}
		return "", f
	case reply.null || len(reply.items) == 0:
		return "", failure.New(failure.Unexpected, "the sentinel does not know a master %s", secret.Quote(c.sentinel)).
			WithHint("is it the name in sentinel monitor? redis-cli -p 26379 SENTINEL MASTERS lists all masters")
	case len(reply.items) != 2:
		return "", c.Kind.OtherProtocol()
	}
	master, err := wire.ToldAddr(reply.items[0].text, reply.items[1].text)
	if err != nil {
		return "", c.Kind.OtherProtocol()
	}
	return master, nil
}
