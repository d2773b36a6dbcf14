package redis

import (
	"bytes"
	"cmp"
	"math"
	"net"
	"strconv"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// A session is a conversation in RESP2, the default protocol of every server.
type session struct {
	*wire.Conversation
	target  *target.Target
	secrets []string // that the server may repeat
	replies int      // number read, with those in arrays
}

// An answer is a reply of a server: a simple string '+', an error '-', a number ':', a string '$' or an array '*'.
type answer struct {
	kind  byte
	text  string
	null  bool
	items []answer
}

// Limits of one reply: the commands sent here return few items, and arrays within an array.
const (
	maxReplies = 1000
	maxDepth   = 4
)

// do sends a command, and returns the answer, which may be an error of the server.
func (r *session) do(args ...string) (answer, error) {
	poll.Doing(r.Ctx, "waiting for the answer to "+args[0])
	var b bytes.Buffer
	b.WriteString("*" + strconv.Itoa(len(args)) + "\r\n")
	for _, arg := range args {
		b.WriteString("$" + strconv.Itoa(len(arg)) + "\r\n" + arg + "\r\n")
	}
	_, sent := r.Write(b.Bytes())
	reply, err := r.reply(0) // a server with too many clients reports that at once, and reads nothing
	if sent != nil && err != nil && failure.Of(err).Class == failure.Reset {
		return reply, sent
	}
	return reply, err
}

// want sends a command with one valid answer.
func (r *session) want(answer string, args ...string) error {
	reply, err := r.do(args...)
	switch {
	case err != nil:
		return err
	case reply.kind == '-' && args[0] == "AUTH":
		return r.failed(unrepeated(reply.text))
	case reply.kind == '-':
		return r.failed(reply.text)
	case reply.kind != '+' || reply.text != answer:
		return r.target.Kind.OtherProtocol()
	}
	return nil
}

// reply reads an answer.
func (r *session) reply(depth int) (answer, error) {
	if r.replies++; r.replies > maxReplies || depth > maxDepth {
		return answer{}, r.target.Kind.OtherProtocol()
	}
	line, err := r.Line()
	if err != nil {
		return answer{}, err
	}
	if line == "" {
		return answer{}, r.target.Kind.OtherProtocol()
	}
	reply := answer{kind: line[0], text: line[1:]}
	switch reply.kind {
	case '+', '-', ':':
		return reply, nil
	case '$', '*':
	default:
		return reply, r.target.Kind.OtherProtocol()
	}
	n, err := strconv.ParseInt(reply.text, 10, 64)
	switch {
	case err != nil || n < -1 || n > math.MaxInt64-2:
		return reply, r.target.Kind.OtherProtocol()
	case n < 0:
		reply.text, reply.null = "", true
		return reply, nil
	case reply.kind == '$':
		text, err := r.Next(uint64(n) + 2)
		if err == nil && string(text[n:]) != "\r\n" {
			err = r.target.Kind.OtherProtocol()
		}
		if err != nil {
			return reply, err
		}
		reply.text = string(text[:n])
		return reply, nil
	}
	reply.text = ""
	for range n {
		item, err := r.reply(depth + 1)
		if err != nil {
			return reply, err
		}
		reply.items = append(reply.items, item)
	}
	return reply, nil
}

// unrepeated cuts off what a server repeats of a command with a password, which may be a part of the password, or the
// password with some characters replaced: ERR unknown command 'AUTH', with args beginning with: 'hunter2'.
func unrepeated(text string) string {
	if i := strings.IndexAny(text, "'`\""); i >= 0 {
		return text[:i]
	}
	return text
}

// hints say what to do about an error of the server, by its first word.
var hints = map[string]string{
	"LOADING":     "the server is reading its data from disk, and will be ready after that",
	"MASTERDOWN":  "the replica has lost its master, and is configured not to answer with stale data (replica-serve-stale-data): is the master running?",
	"BUSY":        "a script or function exceeds its time limit: wait until it ends, or use SCRIPT KILL or FUNCTION KILL",
	"NOAUTH":      "without a login, the server does not even report whether it is loading its data: set redis://:${file:/secrets/password}@HOST, --password-file or REDISCLI_AUTH",
	"WRONGPASS":   "is the password current, and is the user in the server's ACL, and enabled?",
	"NOPERM":      "the user needs permission for these commands: ACL SETUSER NAME +ping +role +exists +get ~KEY",
	"DENIED":      "the server has no password and accepts connections from its own host only: set a password (requirepass), or protected-mode no",
	"MISCONF":     "the server cannot save its data: check its log and its volume",
	"CLUSTERDOWN": "are all masters of the cluster running, and are all slots assigned?",
	"MOVED":       "the cluster is being changed",
	"WRONGTYPE":   "only strings can be compared with a value: for other types, #key=KEY checks that the key exists",
}

// failed converts an error of the server, and keeps its text.
func (r *session) failed(text string) error {
	text, _, _ = strings.Cut(text, ", with args beginning with")
	code, _, _ := strings.Cut(text, " ")
	if code == "DENIED" { // and five sentences of advice
		text, _, _ = strings.Cut(text, ". ")
	}
	f := failure.New(failure.Unexpected, "%s", cmp.Or(secret.Quote(text, r.secrets...), wire.Wordless))
	f.Hint = hints[code]
	switch {
	case code == "LOADING":
		f.Note = r.loaded()
	case code == "NOAUTH", code == "WRONGPASS", code == "NOPERM", strings.HasPrefix(text, "ERR invalid password"):
		f.Class = failure.Authentication
	case strings.Contains(text, "without any password configured"), strings.HasPrefix(text, "ERR Client sent AUTH"):
		f.Class = failure.Authentication
		f.Hint = "the target has a password, but the server needs none: remove it, or set one in the server"
	case f.Text == wire.Wordless:
		f.Hint = "the server reported this error: look at its log"
	case strings.HasPrefix(text, "ERR max number of clients"):
		f.Hint = "too many clients are connected: look for one that leaks connections, or raise maxclients"
	case strings.HasPrefix(text, "ERR DB index"):
		f.Hint = "the server has fewer databases: see its setting databases, and the end of the URL, redis://HOST/DATABASE"
	case strings.HasPrefix(text, "ERR This instance has cluster support disabled"):
		f.Hint = "the server is not part of a cluster: leave out #cluster, or set cluster-enabled yes"
	}
	return f
}

// loaded returns the share of its data that the server has loaded, or "" if it does not report that.
func (r *session) loaded() string {
	reply, err := r.do("INFO", "persistence")
	if err != nil || reply.kind != '$' {
		return ""
	}
	part, err := strconv.ParseFloat(infoField(reply.text, "loading_loaded_perc"), 64)
	if err != nil || !(part >= 0 && part <= 100) {
		return ""
	}
	return strconv.Itoa(int(part)) + " %"
}

// infoField returns the value of a field in the answer to INFO or CLUSTER INFO.
func infoField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// role returns "master", or "replica" and the state of its link to the master: "connect", "connecting", "sync" or
// "connected", or "up" or "down" from INFO.
func (r *session) role() (role, link string, err error) {
	reply, err := r.do("ROLE")
	if err != nil {
		return "", "", err
	}
	if reply.kind == '-' { // before Redis 2.8.12, or not for this user
		info, err := r.do("INFO", "replication")
		switch {
		case err != nil:
			return "", "", err
		case info.kind == '-':
			return "", "", r.failed(reply.text)
		}
		role, link = infoField(info.text, "role"), infoField(info.text, "master_link_status")
	} else {
		if len(reply.items) > 0 {
			role = reply.items[0].text
		}
		if len(reply.items) > 3 {
			link = reply.items[3].text
		}
	}
	if role == "slave" {
		role = "replica"
	}
	return role, secret.Quote(link, r.secrets...), nil
}

func (r *session) clusterState() error {
	reply, err := r.do("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if reply.kind == '-' {
		return r.failed(reply.text)
	}
	state := infoField(reply.text, "cluster_state")
	switch state {
	case "ok":
		return nil
	case "":
		return r.target.Kind.OtherProtocol()
	}
	f := failure.New(failure.Unexpected, "the cluster's state is %s", secret.Quote(state, r.secrets...))
	f.Hint = hints["CLUSTERDOWN"]
	if slots, err := strconv.Atoi(infoField(reply.text, "cluster_slots_ok")); err == nil && slots >= 0 {
		f.Note = strconv.Itoa(slots) + " of 16384 slots are served"
	}
	return f
}

// movedTo returns the address in a redirection to the server of the cluster that has the key: MOVED 3999 10.0.0.7:6379,
// or :6379 for another port of the same host.
func (r *session) movedTo(reply answer) (addr string, moved bool) {
	words := strings.Fields(reply.text)
	if reply.kind != '-' || len(words) != 3 || words[0] != "MOVED" {
		return "", false
	}
	colon := strings.LastIndexByte(words[2], ':')
	if colon < 0 {
		return "", false
	}
	host, port := strings.Trim(words[2][:colon], "[]"), words[2][colon+1:]
	if host == "" {
		host, _, _ = net.SplitHostPort(r.Addr)
	}
	addr, err := wire.ToldAddr(host, port)
	return addr, err == nil
}
