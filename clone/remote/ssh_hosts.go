package remote

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/words"
)

// knownHosts are the keys of servers, as of sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
//
// It is read here, line by line, and not by package knownhosts: that wants files,
// fails at a line of a kind that it does not know, where OpenSSH skips it, and takes
// the key of an authority for one of a host.
type knownHosts struct {
	lines     []knownHost
	leftOut   []string // FILE:LINE of those that cannot be read
	acceptNew bool
	given     bool // there is a file, or a line
	log       *slog.Logger
}

type knownHost struct {
	source   string   // FILE:LINE
	marker   string   // "", cert-authority or revoked
	patterns []string // of names; or one that is hashed
	key      ssh.PublicKey
}

const (
	authority = "cert-authority"
	revoked   = "revoked"
)

// knownHosts reads the files and lines of s.
func (s SSH) knownHosts(log *slog.Logger) (*knownHosts, error) {
	k := &knownHosts{acceptNew: s.AcceptNew, given: len(s.KnownHosts)+len(s.KnownHostKeys) > 0, log: log}
	for _, file := range s.KnownHosts {
		text, err := readfile.All(file)
		if err != nil {
			f := failure.New(failure.Missing, "cannot read known_hosts file %s", file)
			var pathErr *os.PathError
			if errors.As(err, &pathErr) {
				f.Text += ": " + pathErr.Err.Error()
			}
			f.Err, f.Hint = err, "is the Secret or ConfigMap mounted, and may this user read it?"
			return nil, f
		}
		k.add(file, string(text))
	}
	for i, text := range s.KnownHostKeys {
		before := len(k.leftOut)
		if k.add("host key "+strconv.Itoa(i+1), text); len(k.leftOut) > before {
			f := failure.New(failure.Local, "known host key %d is not one", i+1)
			f.Hint = "want HOST TYPE KEY, as ssh-keyscan prints it, for example: example.com ssh-ed25519 AAAA…"
			return nil, f
		}
	}
	return k, nil
}

// add reads the lines of a text, without those that it cannot read.
func (k *knownHosts) add(file, text string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		source := file + ":" + strconv.Itoa(number)
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		h, err := parseKnownHost(line)
		if err != nil {
			k.leftOut = append(k.leftOut, source)
			k.log.Debug("a line of known_hosts is left out", "line", source, "reason", failure.Printable(err.Error()))
			continue
		}
		h.source = source
		k.lines = append(k.lines, h)
	}
}

func parseKnownHost(line string) (knownHost, error) {
	marker, patterns, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
	switch {
	case err == io.EOF:
		return knownHost{}, errors.New("there is no key in it")
	case err != nil:
		return knownHost{}, err
	case marker != "" && marker != authority && marker != revoked:
		return knownHost{}, fmt.Errorf("no such marker: @%s", marker)
	}
	for i := range patterns {
		if !strings.HasPrefix(patterns[i], "|") {
			patterns[i] = strings.ToLower(patterns[i])
		}
	}
	return knownHost{marker: marker, patterns: patterns, key: key}, nil
}

// names reports whether the line is one of the host: name is in lower case, and
// [HOST]:PORT unless the port is 22.
func (h knownHost) names(name string) bool {
	found := false
	for _, p := range h.patterns {
		negated := strings.HasPrefix(p, "!")
		if p = strings.TrimPrefix(p, "!"); !hashMatches(p, name) && !wildcardMatches(p, name) {
			continue
		}
		if negated {
			return false
		}
		found = true
	}
	return found
}

// hashMatches compares with |1|SALT|HASH.
func hashMatches(pattern, name string) bool {
	parts := strings.Split(pattern, "|")
	if len(parts) != 4 || parts[0] != "" || parts[1] != "1" {
		return false
	}
	salt, err1 := base64.StdEncoding.DecodeString(parts[2])
	hash, err2 := base64.StdEncoding.DecodeString(parts[3])
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return err1 == nil && err2 == nil && hmac.Equal(mac.Sum(nil), hash)
}

// wildcardMatches reports whether * (any text) and ? (any byte) in pattern can stand
// for what is in s.
func wildcardMatches(pattern, s string) bool {
	p, i, star, from := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0: // the last * takes one byte more
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// of returns the lines for the host at HOST:PORT. Where there is none, those for
// the host without a port count as well (byHost), but do not make it known: another
// server may be behind the port. OpenSSH does the same.
func (k *knownHosts) of(address string) (lines []knownHost, byHost bool) {
	find := func(name string) (found []knownHost) {
		for _, h := range k.lines {
			if h.marker != revoked && h.names(name) {
				found = append(found, h)
			}
		}
		return found
	}
	name := strings.ToLower(knownhosts.Normalize(address))
	if lines = find(name); len(lines) > 0 {
		return lines, false
	}
	host, _, _ := net.SplitHostPort(address)
	return find(strings.ToLower(host)), true
}

// algorithms returns what is asked of the server's key, in the order of preference:
// first the kinds that the host is known by, or else it would show another of its
// keys, and pass for an impostor (https://github.com/go-git/go-git/issues/1551). The
// others follow, so that a server that has none of these can be told from one
// that is not there.
func (k *knownHosts) algorithms(address string) []string {
	lines, _ := k.of(address)
	certified := false
	kinds := map[string]bool{}
	for _, h := range lines {
		certified = certified || h.marker == authority
		kinds[h.key.Type()] = h.marker == ""
	}
	var certificates, known, others []string
	for _, algorithm := range preferred() {
		kind := algorithm
		if algorithm == ssh.KeyAlgoRSASHA256 || algorithm == ssh.KeyAlgoRSASHA512 {
			kind = ssh.KeyAlgoRSA
		}
		switch {
		case strings.Contains(algorithm, "-cert-v01@"):
			if certified {
				certificates = append(certificates, algorithm)
			}
		case kinds[kind]:
			known = append(known, algorithm)
		default:
			others = append(others, algorithm)
		}
	}
	return slices.Concat(certificates, known, others)
}

// preferred returns all algorithms, in the order of OpenSSH: Ed25519 is what is
// published of a server, if anything is.
func preferred() []string {
	rank := func(algorithm string) int {
		for i, kind := range []string{"ssh-ed25519", "ecdsa-", "rsa-sha2-512", "rsa-sha2-256"} {
			if strings.HasPrefix(algorithm, kind) {
				return i
			}
		}
		return 4
	}
	all := ssh.SupportedAlgorithms().HostKeys
	slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	return all
}

// check returns nil if the key is that of the host at HOST:PORT.
func (k *knownHosts) check(address string, key ssh.PublicKey) error {
	lines, byHost := k.of(address)
	cert, isCert := key.(*ssh.Certificate)
	if isCert {
		key = cert.Key
		if err := k.revoked(address, cert.SignatureKey); err != nil {
			return err
		}
	}
	if err := k.revoked(address, key); err != nil {
		return err
	}
	for _, h := range lines {
		switch {
		case h.marker == authority && isCert && same(h.key, cert.SignatureKey):
			return checkCertificate(address, cert, h)
		case h.marker == "" && same(h.key, key):
			return nil
		}
	}
	if len(lines) == 0 || byHost {
		return k.unknown(address, key)
	}
	return changed(address, key, lines)
}

func same(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// revoked refuses a key that is revoked, for whichever host.
func (k *knownHosts) revoked(address string, key ssh.PublicKey) error {
	for _, h := range k.lines {
		if h.marker == revoked && same(h.key, key) {
			f := failure.New(failure.HostKey, "the host key of %s is revoked: %s, in %s", address, fingerprint(key), h.source)
			f.Hint = "whoever has that key may be somebody else: ask who runs the server"
			return f
		}
	}
	return nil
}

func checkCertificate(address string, cert *ssh.Certificate, h knownHost) error {
	checker := ssh.CertChecker{IsHostAuthority: func(ssh.PublicKey, string) bool { return true }} // which h says
	if err := checker.CheckHostKey(address, nil, cert); err != nil {
		f := failure.New(failure.HostKey, "the host certificate of %s, of the authority in %s, does not count: %s",
			address, h.source, failure.Printable(strings.TrimPrefix(err.Error(), "ssh: ")))
		f.Err, f.Hint = err, "have the server's key signed again, for that name: ssh-keygen -h -s CA -I ID -n HOST KEY.pub"
		return f
	}
	return nil
}

// accepted are the keys of hosts that were new to this process: by HOST:PORT, as on
// the wire. What is accepted once does not change after that.
var accepted sync.Map

// unknown is about a host of which no key is known.
func (k *knownHosts) unknown(address string, key ssh.PublicKey) error {
	if k.acceptNew {
		before, again := accepted.LoadOrStore(address, string(key.Marshal()))
		if !again {
			k.log.Info("the host "+address+" is new, and its key is trusted: "+fingerprint(key), "host", address, "key", fingerprint(key))
		}
		if before == string(key.Marshal()) || !again {
			return nil
		}
		f := failure.New(failure.HostKey, "the host key of %s is another one than before: %s", address, fingerprint(key))
		f.Hint = "if that was intended, start again; else somebody is between here and the server. Keys given with --known-hosts are safer than --ssh-accept-new"
		return f
	}
	f := failure.New(failure.HostKey, "the host key of %s is not known: %s", address, fingerprint(key))
	if !k.given {
		f.Text = fmt.Sprintf("the host key of %s is not known, for no known_hosts is given: %s", address, fingerprint(key))
	}
	if len(k.leftOut) > 0 {
		f.Note = words.Plural(len(k.leftOut), "line") + " cannot be read, the first is " + k.leftOut[0]
	}
	f.Hint = "compare that fingerprint with the one that the server's owner publishes; then put this line into the file of --known-hosts, or give it with --known-hosts-key: " +
		knownhosts.Line([]string{address}, key) + " (or trust whichever key comes first with --ssh-accept-new)"
	return f
}

// changed is about a host that is known by other keys.
func changed(address string, key ssh.PublicKey, lines []knownHost) error {
	var known []string
	for _, h := range lines[:min(len(lines), 4)] {
		if h.marker == authority {
			known = append(known, "an authority in "+h.source)
		} else {
			known = append(known, fingerprint(h.key)+" in "+h.source)
		}
	}
	f := failure.New(failure.HostKey, "the host key of %s is not the one that is known: it shows %s, known is %s", address, fingerprint(key), strings.Join(known, ", "))
	f.Hint = "SOMEBODY MAY BE IN BETWEEN. If the server has new keys, which its owner would have announced, put this line in the place of the old one: " + knownhosts.Line([]string{address}, key)
	return f
}
