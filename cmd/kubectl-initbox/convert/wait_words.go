package convert

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
)

// place is a place in a target, which decides how the characters of a word are written there.
type place struct {
	called  string
	plain   string // the characters, beside letters and digits, that are written as they are
	encoded bool   // the others are written as %XX; else they cannot stand there
	absent  string // stands for a variable of a Secret that is empty; "" where a reference needs none
	any     bool   // a value of a ConfigMap, which is not known, may stand there
	secret  bool   // variables are references, which initbox resolves, so that they are in no command line
}

var (
	hostPlace    = place{called: "host", plain: "._-", absent: "unset.invalid", any: true}
	portPlace    = place{called: "port number", absent: "0", any: true}
	pathPlace    = place{called: "path", plain: "/._-~+=,:", encoded: true}
	namePlace    = place{called: "name", plain: "._-~", encoded: true}
	userPlace    = place{called: "user", plain: "._-~", encoded: true, any: true, secret: true}
	settingPlace = place{called: "value", plain: ` !"'()*+,-./:;<=>?[\]^_{|}~` + "`", encoded: true}
)

// in returns a word as it stands at a place of a target in args of c.
func (p place) in(w shell.Word, c *manifest.Container) (string, error) {
	var b strings.Builder
	for _, part := range w {
		text, err := p.part(w, part, c)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	if b.Len() == 0 {
		return "", stop(w, "an empty "+p.called)
	}
	return b.String(), nil
}

func (p place) part(w shell.Word, part shell.Part, c *manifest.Container) (string, error) {
	if part.Glob {
		return "", stop(w, "a pattern")
	}
	if part.Env == "" {
		if !p.takes(part.Text) {
			return "", stop(w, "not a "+p.called)
		}
		return p.encode(part.Text), nil
	}
	v := lookup(part.Env, c)
	if part.Default != nil && (v.origin == nowhere || v.origin == inManifest && v.value == "") {
		return p.in(part.Default, c)
	}
	if _, err := secretArg(shell.Word{part}, c); err != nil {
		return "", err
	}
	switch {
	case p.secret:
		return "${env:" + part.Env + "}", nil
	case v.origin == inSecret && p.absent != "":
		return "${env:" + part.Env + ":-" + p.absent + "}", nil
	case v.origin == inSecret && (p.called == "path" || p.called == "name"):
		return "${env:" + part.Env + "}", nil
	case v.origin == inSecret:
		return "", stop(w, "the variable "+part.Env+" is from a Secret, which must not be in a command line")
	case v.origin == inConfigMap && !p.any:
		return "", stop(w, "the value of "+part.Env+" is in a ConfigMap: it may have characters that mean something else in a target")
	case v.origin == inManifest && p.encode(v.value) != v.value:
		return "", stop(w, "the value of "+part.Env+" is not a "+p.called+" that can stand in a target")
	}
	return "$(" + part.Env + ")", nil
}

// takes reports whether a text can stand at the place.
func (p place) takes(text string) bool {
	return p.encoded && !strings.ContainsFunc(text, unicode.IsControl) || p.encode(text) == text
}

// encode percent-encodes what is special in a target, among it $, which is special to the kubelet, too.
func (p place) encode(text string) string {
	var b strings.Builder
	for i := range len(text) {
		switch ch := text[i]; {
		case ch >= 0x80 && p.encoded, 'a' <= ch && ch <= 'z', 'A' <= ch && ch <= 'Z', '0' <= ch && ch <= '9', strings.IndexByte(p.plain, ch) >= 0:
			b.WriteByte(ch)
		default:
			fmt.Fprintf(&b, "%%%02X", ch)
		}
	}
	return b.String()
}

// hostIn returns a host as it stands in a target. An address of IPv6 gets its brackets.
func hostIn(w shell.Word, c *manifest.Container) (string, error) {
	if text, ok := w.Literal(); ok {
		if address, err := netip.ParseAddr(text); err == nil && address.Is6() && address.Zone() == "" {
			return "[" + text + "]", nil
		}
	}
	for _, part := range w {
		for _, e := range c.Env {
			if e.Name == part.Env && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && strings.Contains(e.ValueFrom.FieldRef.FieldPath, "IP") {
				return "", stop(w, "an address, which needs brackets in a target if it is one of IPv6")
			}
		}
	}
	return hostPlace.in(w, c)
}

// hostPort returns HOST:PORT as it stands in a target; a port that is nil is left out.
func hostPort(host, port shell.Word, c *manifest.Container) (string, error) {
	h, err := hostIn(host, c)
	if err != nil || port == nil {
		return h, err
	}
	p, err := portIn(port, c)
	return h + ":" + p, err
}

// addressIn returns a word HOST:PORT as it stands in a target.
func addressIn(w shell.Word, c *manifest.Container) (string, error) {
	host, port, err := cutWord(w, ":")
	if err != nil {
		return "", err
	}
	return hostPort(host, port, c)
}

func portIn(w shell.Word, c *manifest.Container) (string, error) {
	if text, ok := known(w, c); ok {
		if n, err := strconv.Atoi(text); err != nil || n < 1 || n > 65535 {
			return "", stop(w, "not a port number")
		}
	}
	return portPlace.in(w, c)
}

// credentials returns USER:PASSWORD@ as it stands in a target, without what is nil.
func credentials(user, password shell.Word, c *manifest.Container) (string, error) {
	if user == nil && password == nil {
		return "", nil
	}
	text := ""
	if user != nil {
		var err error
		if text, err = userPlace.in(user, c); err != nil {
			return "", err
		}
	}
	if password == nil {
		return text + "@", nil
	}
	secret, err := passwordIn(password, c)
	return text + ":" + secret + "@", err
}

// passwordIn returns a password as a reference. The error does not repeat it.
func passwordIn(w shell.Word, c *manifest.Container) (string, error) {
	if len(w) != 1 || w[0].Env == "" || w[0].Default != nil {
		return "", &shell.Error{Word: "a password", Why: "it stands in the script, not in a variable; put it into a Secret, and use that as env"}
	}
	return userPlace.in(w, c)
}

// variableWord returns the word of a variable if the call or env has it, or nil: a client may be told by variables what
// its command line leaves out.
func variableWord(name string, call *shell.Call, c *manifest.Container) shell.Word {
	for _, set := range call.Set {
		if set.Name == name {
			return set.Value
		}
	}
	for _, e := range c.Env {
		if e.Name == name {
			return shell.Word{{Env: name}}
		}
	}
	return nil
}

// noPipes returns an error if the call reads or is read by something, or writes a file, or depends on its directory.
func noPipes(call *shell.Call) error {
	why := ""
	switch {
	case call.Stdin != nil:
		why = "what it reads"
	case call.Pipe != nil:
		return &shell.Error{Pos: call.Pipe.Pos, Word: cmp.Or(call.Pipe.Name, "|"), Why: "a program that reads the output of " + call.Name}
	case call.Stdout != nil && call.Stdout.File != nil, call.Stderr != nil && call.Stderr.File != nil:
		why = "it writes a file"
	default:
		return nil
	}
	return &shell.Error{Pos: call.Pos, Word: call.Name, Why: why}
}

// mounted reports whether a path is certainly on a volume, so that the file is the same in another image.
func mounted(file string, c *manifest.Container) bool {
	if strings.Contains(file, "/../") || strings.HasSuffix(file, "/..") {
		return false
	}
	if strings.HasPrefix(file, "/var/run/secrets/kubernetes.io/serviceaccount/") {
		return true
	}
	for _, m := range c.VolumeMounts {
		if file == m.MountPath || strings.HasPrefix(file, strings.TrimSuffix(m.MountPath, "/")+"/") {
			return true
		}
	}
	return false
}

// file returns the path of a file on a volume as it stands at a place of a target.
func (p place) file(w shell.Word, c *manifest.Container) (string, error) {
	prefix := ""
	if len(w) > 1 { // a variable behind it may be any file below
		prefix = w[0].Text + "x"
	}
	if text, ok := known(w, c); ok {
		prefix = text
	}
	switch {
	case !strings.HasPrefix(prefix, "/"):
		return "", stop(w, "not an absolute path")
	case !mounted(prefix, c):
		return "", stop(w, "no volume is mounted there, so that the file is one of the image")
	}
	return p.in(w, c)
}

// seconds returns a number of seconds of a flag as a duration.
func seconds(w shell.Word) (string, error) {
	text, ok := w.Literal()
	if n, err := strconv.ParseFloat(strings.TrimSuffix(text, "s"), 64); !ok || err != nil || n <= 0 || n > 86400 {
		return "", stop(w, "not a number of seconds")
	}
	return strings.TrimSuffix(text, "s") + "s", nil
}

// attempts returns the flag that bounds each attempt, or none if no such option was given.
func attempts(w shell.Word) ([]Flag, error) {
	if w == nil {
		return nil, nil
	}
	text, err := seconds(w)
	return []Flag{{"attempt-timeout", text}}, err
}
