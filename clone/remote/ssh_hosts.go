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

// knownHosts are the keys of servers, as in sshd(8), SSH_KNOWN_HOSTS FILE FORMAT.
//
// They are parsed here, line by line, and not by package knownhosts. That requires files, fails at a line of an unknown
// kind, which OpenSSH skips, and takes the key of an authority for the key of a host.
type knownHosts struct {
	lines     []knownHost
	skipped   []string // FILE:LINE of lines that cannot be parsed
	acceptNew bool
	given     bool // a file or a line was given
	log       *slog.Logger
}

type knownHost struct {
	source   string   // FILE:LINE
	marker   string   // "", cert-authority or revoked
	patterns []string // of names; or one hashed name
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
			f := failure.New(failure.Missing, "read known_hosts file %s", file)
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
		before := len(k.skipped)
		if k.add("host key "+strconv.Itoa(i+1), text); len(k.skipped) > before {
			return nil, failure.New(failure.Local, "known host key %d is malformed", i+1).
				WithHint("want HOST TYPE KEY, as ssh-keyscan prints it, for example: example.com ssh-ed25519 AAAA…")
		}
	}
	return k, nil
}

// add parses the lines of a text, and skips those that it cannot parse.
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
			k.skipped = append(k.skipped, source)
			k.log.Debug("skipping a line of known_hosts", "line", source, "reason", failure.Printable(err.Error()))
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
		return knownHost{}, errors.New("no key on the line")
	case err != nil:
		return knownHost{}, err
	case marker != "" && marker != authority && marker != revoked:
		return knownHost{}, fmt.Errorf("unknown marker @%s", marker)
	}
	for i := range patterns {
		if !strings.HasPrefix(patterns[i], "|") {
			patterns[i] = strings.ToLower(patterns[i])
		}
	}
	return knownHost{marker: marker, patterns: patterns, key: key}, nil
}

// names reports whether the line is about the host. name is in lower case; it is [HOST]:PORT unless the port is 22.
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

// hashMatches compares name with |1|SALT|HASH.
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

// wildcardMatches reports whether s matches pattern, in which * stands for any text and ? for any byte.
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
		case star >= 0: // the last * matches one byte more
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// of returns the lines for the server at HOST:PORT. If there are none, it returns those for the host without a port
// (byHost). They may verify a key, but another key is then unknown, not changed: another server may listen on the port.
// OpenSSH does the same.
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

// algorithms returns the accepted algorithms of the host key, in order of preference. The kinds by which the host is
// known come first: otherwise it would present another of its keys, and look like an impostor
// (https://github.com/go-git/go-git/issues/1551). The others follow, so that the error shows the key that a server
// without these has.
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

// preferred returns all algorithms, in the order of OpenSSH: if any key of a server is published, it is the Ed25519
// one.
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

// check returns nil if the key belongs to the server at HOST:PORT.
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

// revoked returns an error if the key is revoked, for any host.
func (k *knownHosts) revoked(address string, key ssh.PublicKey) error {
	for _, h := range k.lines {
		if h.marker == revoked && same(h.key, key) {
			return failure.New(failure.HostKey, "the host key of %s is revoked: %s, in %s", address, fingerprint(key), h.source).
				WithHint("someone else may have that key: ask the operator of the server")
		}
	}
	return nil
}

func checkCertificate(address string, cert *ssh.Certificate, h knownHost) error {
	checker := ssh.CertChecker{IsHostAuthority: func(ssh.PublicKey, string) bool { return true }} // h did
	if err := checker.CheckHostKey(address, nil, cert); err != nil {
		f := failure.New(failure.HostKey, "the host certificate of %s, signed by the authority in %s, is not valid: %s",
			address, h.source, failure.Printable(strings.TrimPrefix(err.Error(), "ssh: ")))
		f.Err, f.Hint = err, "have the server's key signed again, for that name: ssh-keygen -h -s CA -I ID -n HOST KEY.pub"
		return f
	}
	return nil
}

// accepted holds the keys that AcceptNew has accepted in this process, by HOST:PORT, in wire format. An accepted key is
// never replaced.
var accepted sync.Map

// unknown handles the key of a host for which no key is known.
func (k *knownHosts) unknown(address string, key ssh.PublicKey) error {
	if k.acceptNew {
		before, again := accepted.LoadOrStore(address, string(key.Marshal()))
		if !again {
			k.log.Info("trusting the key of the new host "+address+": "+fingerprint(key), "host", address, "key", fingerprint(key))
		}
		if before == string(key.Marshal()) || !again {
			return nil
		}
		return failure.New(failure.HostKey, "the host key of %s has changed since it was accepted: %s", address, fingerprint(key)).
			WithHint("if the change was intended, start again; otherwise the connection may be intercepted. Keys given with --known-hosts are safer than --ssh-accept-new")
	}
	f := failure.New(failure.HostKey, "the host key of %s is not known: %s", address, fingerprint(key))
	if !k.given {
		f.Text = fmt.Sprintf("the host key of %s is not known, as no known_hosts is given: %s", address, fingerprint(key))
	}
	if len(k.skipped) > 0 {
		f.Note = words.Plural(len(k.skipped), "line") + " cannot be parsed, the first is " + k.skipped[0]
	}
	f.Hint = "compare the fingerprint with the one that the server's operator publishes; then add this line to the file of --known-hosts, or give it with --known-hosts-key: " +
		knownhosts.Line([]string{address}, key) + " (or trust the first key seen with --ssh-accept-new)"
	return f
}

// changed returns the failure for a host that is known by other keys.
func changed(address string, key ssh.PublicKey, lines []knownHost) error {
	var known []string
	for _, h := range lines[:min(len(lines), 4)] {
		if h.marker == authority {
			known = append(known, "an authority in "+h.source)
		} else {
			known = append(known, fingerprint(h.key)+" in "+h.source)
		}
	}
	return failure.New(failure.HostKey, "the host key of %s is not the known one: the server has %s, known is %s", address, fingerprint(key), strings.Join(known, ", ")).
		WithHint("THE CONNECTION MAY BE INTERCEPTED. If the server has new keys, which its operator would have announced, replace the old line with this one: " + knownhosts.Line([]string{address}, key))
}
