// Package zookeeper waits for ZooKeeper: zookeeper://HOST[:PORT][,HOST…][/ZNODE].
//
// An ensemble is ready when one of its servers is serving requests: as the command srvr reports, or, where that is
// forbidden, when it grants a session. With a path, the znode must exist. None of these needs a login. The settings are
// those of TLS.
package zookeeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// Kind is the kind of targets with the scheme zookeeper.
var Kind = target.Kind{
	Schemes:  []string{"zookeeper"},
	Usage:    "zookeeper://HOST[:PORT][,HOST…][/ZNODE]",
	Ready:    "one of the servers is serving requests, and the ZNODE exists",
	Settings: wire.EncryptionSettings,
	Protocol: "ZooKeeper",
	Hosts:    true,
	Port:     "2181",
	Without:  "user query",
	Parse:    wire.Parse(func(s wire.Server) target.Check { return check{s} }),
}

// check asks for the server's mode by srvr, the only four-letter command allowed by default since 3.5. Where it is
// forbidden, it asks for a session instead. Neither needs a login.
//
// https://zookeeper.apache.org/doc/current/zookeeperAdmin.html#sc_4lw
type check struct{ wire.Server }

func (c check) Check(ctx context.Context) error { return wire.Any(ctx, c.Server, c.ask) }

func (c check) ask(ctx context.Context, addr string) error {
	answer, err := c.command(ctx, addr, "srvr")
	if err != nil {
		return err
	}
	znode, err := c.URL.Value(strings.TrimRight(c.URL.Path, "/"))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(answer, forbids) {
		if err := c.judge(answer); err != nil || znode == "" {
			return err
		}
	}
	return c.session(ctx, addr, znode)
}

// command returns the answer to a four-letter command, after which the server closes the connection.
func (c check) command(ctx context.Context, addr, word string) (string, error) {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	poll.Doing(ctx, "asking for its mode")
	if _, err := conn.Write([]byte(word)); err != nil {
		return "", err
	}
	answer := make([]byte, 0, answerLimit)
	for {
		n, err := conn.Read(answer[len(answer):cap(answer)])
		answer = answer[:len(answer)+n]
		switch {
		case err == io.EOF && len(answer) == 0:
			return "", err
		case err == io.EOF || err == nil && (len(answer) == cap(answer) || !begins(string(answer))):
			return string(answer), nil // either complete, or not an answer of ZooKeeper
		case err != nil:
			return "", err
		}
	}
}

// answerLimit is many times the length of an answer to srvr.
const answerLimit = 16 << 10

// The first words of an answer to srvr.
const (
	serves    = "Zookeeper version: "
	servesNot = "This ZooKeeper instance is not currently serving requests"
	forbids   = "srvr is not executed because it is not in the whitelist."
)

// begins reports whether an incomplete answer may still be one of ZooKeeper.
func begins(answer string) bool {
	for _, s := range []string{serves, servesNot, forbids} {
		if n := min(len(s), len(answer)); s[:n] == answer[:n] {
			return true
		}
	}
	return false
}

func (c check) judge(answer string) error {
	if strings.HasPrefix(answer, servesNot) {
		return notServing()
	}
	if !strings.HasPrefix(answer, serves) {
		return c.Kind.OtherProtocol()
	}
	_, mode, _ := strings.Cut(answer, "\nMode: ")
	mode, _, ended := strings.Cut(mode, "\n")
	switch mode {
	case "leader", "follower", "observer", "standalone":
		return nil
	}
	if !ended {
		return c.Kind.OtherProtocol()
	}
	// The mode is read-only.
	return failure.New(failure.Unexpected, "the server's mode is %s", secret.Quote(mode)).
		WithHint("does the ensemble have a quorum? more than half of its servers must be running, and reach each other")
}

func notServing() error {
	return failure.New(failure.Unexpected, "this ZooKeeper instance is not currently serving requests").
		WithHint("it is starting, or has no quorum: more than half of the ensemble's servers must be running, and reach each other")
}

// session opens a client session, asks for the znode unless that is "", and closes the session.
func (c check) session(ctx context.Context, addr, znode string) error {
	conn, err := wire.Connect(ctx, c.Server, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	poll.Doing(ctx, "asking for a session")
	if _, err := conn.Write(wire.Long(string(connectRequest()))); err != nil {
		return err
	}
	granted, err := c.granted(conn)
	switch {
	case errors.Is(err, io.EOF): // as from a server without a quorum
		return notServing()
	case err != nil:
		return err
	case !granted:
		return failure.New(failure.Unexpected, "the server does not grant a session").WithHint("look at its log")
	}
	if znode != "" {
		poll.Doing(ctx, "asking for the znode")
		err = c.exists(conn, znode)
	}
	if _, err := conn.Write(wire.Long(string(requestOf(closeSession)))); err == nil {
		c.frame(conn) // wait for the answer, so that the server does not log a lost client
	}
	return err
}

// exists returns nil if the znode exists. Permissions do not matter: everyone may ask.
func (c check) exists(conn *wire.Conversation, znode string) error {
	request := append(append(requestOf(existsNode), wire.Long(znode)...), 0) // without a watch
	if _, err := conn.Write(wire.Long(string(request))); err != nil {
		return err
	}
	reply, err := c.frame(conn)
	switch {
	case err != nil:
		return err
	case len(reply) < 4+8+4 || binary.BigEndian.Uint32(reply) != xid:
		return c.Kind.OtherProtocol()
	}
	switch code := int32(binary.BigEndian.Uint32(reply[12:])); code {
	case 0:
		return nil
	case noNode:
		return &failure.Failure{Class: failure.Missing, Text: "no such znode", Err: target.ErrNotThere, Hint: "which program creates it, and has it run? zkCli.sh ls / shows what exists"}
	default:
		return failure.New(failure.Unexpected, "the server reports error %d for the znode", code).WithHint("is the path valid? look at the server's log")
	}
}

// connectRequest is a ConnectRequest: version, last transaction seen, timeout in ms, session, password, and whether a
// read-only server is accepted
// (https://github.com/apache/zookeeper/blob/master/zookeeper-jute/src/main/resources/zookeeper.jute).
func connectRequest() []byte {
	p := make([]byte, 4+8)
	p = binary.BigEndian.AppendUint32(p, 4000)
	p = append(p, make([]byte, 8)...)
	p = binary.BigEndian.AppendUint32(p, 16)
	return append(p, make([]byte, 16+1)...)
}

// Types of requests, and the error for a znode that does not exist
// (https://github.com/apache/zookeeper/blob/master/zookeeper-server/src/main/java/org/apache/zookeeper/ZooDefs.java,
// KeeperException.java).
const (
	existsNode   int32 = 3
	closeSession int32 = -11
	noNode       int32 = -101
)

// xid is the number of every request, each of which is sent after the answer to the one before.
const xid = 1

// requestOf returns the header of a request of a type: its number, and the type.
func requestOf(kind int32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, xid), uint32(kind))
}

// frame reads a message after its length.
func (c check) frame(conn *wire.Conversation) ([]byte, error) {
	header, err := conn.Next(4)
	if err != nil {
		return nil, err
	}
	return conn.Next(uint64(binary.BigEndian.Uint32(header)))
}

// granted reads a ConnectResponse: version, timeout, session, password, and, since 3.4, whether the server is
// read-only. They are 0 if the session is not granted.
func (c check) granted(conn *wire.Conversation) (bool, error) {
	p, err := c.frame(conn)
	if err != nil {
		return false, err
	}
	if len(p) < 4+4+8+4+16 || binary.BigEndian.Uint32(p) != 0 || binary.BigEndian.Uint32(p[16:]) != 16 {
		return false, c.Kind.OtherProtocol()
	}
	return binary.BigEndian.Uint32(p[4:]) > 0 && !bytes.Equal(p[8:16], make([]byte, 8)), nil
}
