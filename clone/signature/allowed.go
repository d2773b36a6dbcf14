package signature

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// sshKey is a line in a file of SSH keys.
type sshKey struct {
	key           ssh.PublicKey
	name          string   // principals, or the comment
	namespaces    []string // patterns; nil for all
	after, before time.Time
}

// allowed returns an error unless the key may sign for git at that time.
func (k Keys) allowed(key ssh.PublicKey, when time.Time) (*sshKey, error) {
	blob := key.Marshal()
	problem := k.unknown("the SSH key " + ssh.FingerprintSHA256(key))
	for i := range k.ssh {
		a := &k.ssh[i]
		if !bytes.Equal(a.key.Marshal(), blob) {
			continue
		}
		switch named := "is signed by the SSH key " + ssh.FingerprintSHA256(key); {
		case !a.mayGit():
			problem = hinted(named+", which is not permitted for git", "its line names other namespaces")
		case !a.after.IsZero() && when.Before(a.after):
			problem = hinted(named+" on "+day(when)+", which is valid only after "+day(a.after), "")
		case !a.before.IsZero() && !when.Before(a.before):
			problem = hinted(named+" on "+day(when)+", which was valid only before "+day(a.before), "")
		default:
			return a, nil
		}
	}
	return nil, problem
}

func (a *sshKey) mayGit() bool {
	may := a.namespaces == nil
	for _, pattern := range a.namespaces {
		pattern, not := strings.CutPrefix(pattern, "!")
		if ok, _ := path.Match(pattern, namespace); ok {
			if not {
				return false
			}
			may = true
		}
	}
	return may
}

// addSSH adds the keys of a text, one per line.
func (k *Keys) addSSH(content []byte) error {
	before := len(k.ssh)
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := parseAllowed(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		k.ssh = append(k.ssh, *key)
	}
	if len(k.ssh) == before {
		return errNoKey
	}
	return nil
}

// parseAllowed reads a line of authorized_keys, [OPTIONS] TYPE KEY [COMMENT] (sshd(8)), or of allowed signers,
// PRINCIPALS [OPTIONS] TYPE KEY [COMMENT] (ssh-keygen(1)).
func parseAllowed(line string) (*sshKey, error) {
	a := new(sshKey)
	rest := line
	for fields := 0; ; fields++ {
		word, after := cutField(rest)
		if after == "" {
			return nil, errors.New("no public key on the line")
		}
		blob, comment := cutField(after)
		if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(word + " " + blob)); err == nil && key.Type() == word {
			if _, isCert := key.(*ssh.Certificate); isCert {
				return nil, errors.New("an SSH certificate is not supported: give the key itself")
			}
			a.key = key
			if a.name == "" {
				a.name = strings.TrimSpace(comment)
			}
			return a, nil
		}
		if err := a.prefix(word, fields); err != nil {
			return nil, err
		}
		rest = after
	}
}

// prefix parses a field before the type of the key. The first of two fields, or a single one without options, holds the
// principals.
func (a *sshKey) prefix(word string, field int) error {
	options := splitOptions(word)
	isOptions := true
	for _, o := range options {
		name, _, _ := strings.Cut(o, "=")
		isOptions = isOptions && knownOption[strings.ToLower(name)]
	}
	switch {
	case field == 0 && !isOptions:
		a.name = strings.Trim(word, `"`)
		return nil
	case field > 1 || !isOptions:
		return errors.New("no public key on the line")
	}
	for _, o := range options {
		if err := a.option(o); err != nil {
			return err
		}
	}
	return nil
}

// knownOption holds the options of sshd(8) and ssh-keygen(1).
var knownOption = map[string]bool{
	"agent-forwarding": true, "cert-authority": true, "command": true, "environment": true, "expiry-time": true, "from": true,
	"no-agent-forwarding": true, "no-port-forwarding": true, "no-pty": true, "no-user-rc": true, "no-x11-forwarding": true,
	"permitlisten": true, "permitopen": true, "port-forwarding": true, "principals": true, "pty": true, "no-touch-required": true,
	"verify-required": true, "restrict": true, "tunnel": true, "user-rc": true, "x11-forwarding": true,
	"namespaces": true, "valid-after": true, "valid-before": true,
}

// option parses an option. Those that restrict logins have no meaning here.
func (a *sshKey) option(o string) (err error) {
	name, value, _ := strings.Cut(o, "=")
	value = strings.Trim(value, `"`)
	switch strings.ToLower(name) {
	case "cert-authority":
		return errors.New("an authority of SSH certificates (cert-authority) is not supported: give the keys themselves")
	case "namespaces":
		a.namespaces = append([]string{}, strings.Split(value, ",")...)
	case "valid-after":
		a.after, err = sshTime(value)
	case "valid-before", "expiry-time":
		a.before, err = sshTime(value)
	}
	return err
}

// sshTime parses YYYYMMDD[HHMM[SS]][Z]; without Z it is in the time zone of this machine.
func sshTime(text string) (time.Time, error) {
	digits, utc := strings.CutSuffix(strings.ToUpper(text), "Z")
	zone := time.Local
	if utc {
		zone = time.UTC
	}
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(digits) == len(layout) {
			if t, err := time.ParseInLocation(layout, digits, zone); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: want YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS, with Z for UTC", text)
}

// cutField cuts a line after its first field, in which quotes may enclose blanks.
func cutField(line string) (field, rest string) {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\\' && i+1 < len(line) && line[i+1] == '"':
			i++
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			return line[:i], strings.TrimLeft(line[i:], " \t")
		}
	}
	return line, ""
}

// splitOptions splits at commas outside quotes.
func splitOptions(word string) (options []string) {
	quoted, start := false, 0
	for i := 0; i < len(word); i++ {
		switch {
		case word[i] == '"':
			quoted = !quoted
		case word[i] == ',' && !quoted:
			options = append(options, word[start:i])
			start = i + 1
		}
	}
	return append(options, word[start:])
}
