package convert

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/internal/lazy"
)

const keepsWhatIsThere = "what is there stays, where the command makes another at each start"

// generate returns the step that makes what in the file or directory p, which all of made are in. They get the mode
// that the command gives them.
func (k *files) generate(p location, what, mode string, flags []Flag, made ...location) ([]Step, error) {
	s := Step{Subcommand: "generate", Writes: true, Args: []string{what, p.text}, Why: "generate makes a " + what + " of the same kind"}
	s.Flags = flags
	if mode != "0600" {
		s.Flags = append(s.Flags, Flag{"mode", mode})
	}
	for _, f := range made {
		switch err := k.target(f); {
		case err != nil:
			return nil, err
		case f.slash || k.kind(f) == directory || k.kinds[f.value] == file:
			return nil, stop(f.word, "not the name of a file that nothing has made before")
		case k.kinds[f.value] != absent && k.guarded != f.value:
			s.differs(keepsWhatIsThere)
		}
		s.differs(k.linkNote(f)...)
		s.differs(k.parentNote(f)...)
	}
	for _, f := range made {
		if k.made(f, file); mode != "0644" {
			k.gives(f, false)
		}
		k.generated[f.value] = true
	}
	return []Step{s}, nil
}

// outFile returns where a command writes, the value of an option or where its output goes, and the mode of the file.
func (k *files) outFile(call *shell.Call, w shell.Word) (p location, mode string, err error) {
	if w != nil {
		if err := plain(call); err != nil {
			return p, "", err
		}
		p, err = k.place(w, call)
		return p, "0600", err
	}
	p, appended, err := k.output(call)
	switch {
	case err != nil:
		return p, "", err
	case appended:
		return p, "", stop(p.word, "it adds to a file")
	}
	if umask(call) == "77" {
		return p, "0600", nil
	}
	return p, "0644", usualMask(call)
}

// keyAlgorithms are those of generate, by the kind of a key with its size or its curve.
var keyAlgorithms = map[string]string{
	"rsa": "rsa-2048", "rsa 2048": "rsa-2048", "rsa 3072": "rsa", "rsa 4096": "rsa-4096", "ed25519": "ed25519",
	"ec prime256v1": "ecdsa", "ec p-256": "ecdsa", "ec secp384r1": "ecdsa-p384", "ec p-384": "ecdsa-p384", "ec secp521r1": "ecdsa-p521", "ec p-521": "ecdsa-p521",
	"ecdsa": "ecdsa", "ecdsa 256": "ecdsa", "ecdsa 384": "ecdsa-p384", "ecdsa 521": "ecdsa-p521",
}

// keyWords makes the key of keyAlgorithms of what a command of OpenSSL is called with.
var keyWords = strings.NewReplacer("genrsa", "rsa", "genpkey rsa rsa_keygen_bits:", "rsa ", "genpkey ec ec_paramgen_curve:", "ec ", "genpkey ", "", "ecparam", "ec")

// privateKey is openssl genrsa, genpkey or ecparam.
func (k *files) privateKey(call *shell.Call, g given) ([]Step, error) {
	command, _ := call.Args[0].Literal()
	words, err := literals(slices.Concat(g.options["algorithm"], g.options["pkeyopt"], g.options["name"], g.args))
	if err != nil {
		return nil, err
	}
	words = strings.Fields(strings.ToLower(strings.Join(words, " ")))
	algorithm := keyAlgorithms[keyWords.Replace(strings.Join(append([]string{command}, words...), " "))]
	if algorithm == "" || command == "ecparam" && !(g.has("genkey") && g.has("noout") && g.has("out")) {
		return nil, &shell.Error{Word: "openssl " + command, Why: "not called for a key of a kind and size that generate has"}
	}
	p, mode, err := k.outFile(call, g.get("out"))
	if err != nil {
		return nil, err
	}
	flags := []Flag{{"algorithm", algorithm}}
	if command == "ecparam" || g.has("traditional") {
		flags = append(flags, Flag{"key-format", "pkcs1"})
	}
	steps, err := k.generate(p, "key", mode, flags, p)
	if err == nil && command == "genrsa" && !g.has("traditional") {
		steps[0].differs("the key is in PKCS#8 (BEGIN PRIVATE KEY), as OpenSSL 3 writes it; OpenSSL 1 writes BEGIN RSA PRIVATE KEY")
	}
	return steps, err
}

func (k *files) dhparam(call *shell.Call, g given) ([]Step, error) {
	bits, err := oneArgument(g)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{"2048", "3072", "4096"}, bits) || !g.has("out") {
		return nil, &shell.Error{Word: "openssl dhparam", Why: "not 2048, 3072 or 4096 bits, with -out"}
	}
	p, _, err := k.outFile(call, g.get("out"))
	if err != nil {
		return nil, err
	}
	steps, err := k.generate(p, "dhparam", "0644", []Flag{{"group", "ffdhe" + bits}}, p)
	if err == nil {
		steps[0].differs("the parameters are those of RFC 7919 for " + bits + " bits, and not random")
	}
	return steps, err
}

// selfSigned is openssl req -x509: https://docs.openssl.org/3.0/man1/openssl-req/
func (k *files) selfSigned(call *shell.Call, g given) ([]Step, error) {
	refused := func(why string) error { return &shell.Error{Word: "openssl req", Why: why} }
	newkey, _ := g.get("newkey").Literal()
	days, _ := g.get("days").Literal()
	number, err := strconv.Atoi(days)
	bits, rsa := strings.CutPrefix(newkey, "rsa:")
	algorithm := keyAlgorithms["rsa "+bits]
	switch {
	case !g.has("x509") || !rsa || algorithm == "" || !g.has("nodes") || len(g.args) > 0:
		return nil, refused("not -x509 -newkey rsa:2048, rsa:3072 or rsa:4096 with -nodes")
	case !g.has("keyout") || !g.has("out") || !g.has("subj"):
		return nil, refused("without -keyout, -out or -subj")
	case days == "":
		number = 30
	case err != nil || number < 1 || number > 36500:
		return nil, stop(g.get("days"), "not a number of days")
	}
	key, err := k.place(g.get("keyout"), call)
	if err != nil {
		return nil, err
	}
	cert, err := k.place(g.get("out"), call)
	if err != nil {
		return nil, err
	}
	dir := path.Dir(cert.value)
	if path.Base(key.value) != "tls.key" || path.Base(cert.value) != "tls.crt" || path.Dir(key.value) != dir {
		return nil, refused("not tls.key and tls.crt in one directory, whose names generate gives them")
	}
	subject, err := arg(g.get("subj"), k.c)
	if err != nil {
		return nil, err
	}
	if !plainSubject().MatchString(subject) {
		return nil, stop(g.get("subj"), "a subject that may mean something else here")
	}
	flags := []Flag{{"subject", subject}}
	for _, w := range g.options["addext"] {
		text, err := arg(w, k.c)
		if err != nil {
			return nil, err
		}
		names, ok := strings.CutPrefix(strings.ReplaceAll(text, " ", ""), "subjectAltName=")
		if !ok {
			return nil, stop(w, "an extension that generate does not have")
		}
		for name := range strings.SplitSeq(names, ",") {
			kind, value, _ := strings.Cut(name, ":")
			flag := map[string]string{"DNS": "dns", "IP": "ip"}[kind]
			if flag == "" || value == "" {
				return nil, stop(w, "a name that generate does not have")
			}
			flags = append(flags, Flag{flag, value})
		}
	}
	flags = append(flags, Flag{"algorithm", algorithm}, Flag{"valid-for", strconv.Itoa(24*number) + "h"})
	p := cert
	p.text = strings.TrimSuffix(cert.text, "/tls.crt")
	steps, err := k.generate(p, "certificate", "0600", flags, cert, key)
	if err != nil {
		return nil, err
	}
	steps[0].differs("it is made again when less than a third of its time is left, or its names are others",
		"tls.crt has the mode 0600, as tls.key has, and the directory also gets ca.crt, which is the same certificate",
		"it is the certificate of a server and not of a CA, which it is by OpenSSL's default configuration")
	return steps, nil
}

var plainSubject = lazy.Regexp(`^(/[A-Za-z]+=([A-Za-z0-9 ._*@-]|\$\([A-Za-z0-9_]+\))+)+$`)

// sshKeygen makes a pair of keys. https://man.openbsd.org/ssh-keygen
func (k *files) sshKeygen(call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	words := slices.Clone(call.Args)
	for i := 1; i < len(words); i++ { // an empty value
		if text, _ := words[i-1].Literal(); text == "-N" && len(words[i].String()) == 0 {
			words = slices.Delete(words, i-1, i+1)
			words = append(words, shell.Word{{Text: "-Z"}})
			break
		}
	}
	g, err := optionsOf("t=; b=; f=; C=; q; Z").read(words)
	if err != nil {
		return nil, err
	}
	kind, _ := g.get("t").Literal()
	bits, _ := g.get("b").Literal()
	if kind == "rsa" && bits == "" {
		bits = "3072"
	}
	algorithm := keyAlgorithms[strings.TrimSpace(kind+" "+bits)]
	if algorithm == "" || !g.has("f") || !g.has("Z") || len(g.args) > 0 {
		return nil, &shell.Error{Word: "ssh-keygen", Why: "not called with -t, -f and an empty -N for a kind of key that generate has"}
	}
	p, err := k.place(g.get("f"), call)
	if err != nil {
		return nil, err
	}
	flags := []Flag{{"algorithm", algorithm}, {"key-format", "openssh"}}
	if g.has("C") {
		comment, err := arg(g.get("C"), k.c)
		if err != nil {
			return nil, err
		}
		if comment != "" {
			flags = append(flags, Flag{"comment", comment})
		}
	}
	public := p
	public.value += ".pub"
	steps, err := k.generate(p, "key", "0600", flags, p, public)
	if err != nil {
		return nil, err
	}
	if !g.has("C") {
		steps[0].differs("the public key has no comment, where ssh-keygen writes the user and the name of the Pod")
	}
	steps[0].differs("the public key has the mode 0600, too")
	return steps, nil
}

// randomText is what the commands of a pipeline print so far.
type randomText struct {
	bytes    int    // how many random bytes; -1 for an endless stream, 0 for a text
	alphabet string // of a text of random characters
	length   int    // of it; -1 if it is endless
	encoding string // of bytes as a text: hex or base64
	uuid     bool
	newline  bool // it ends in a line break
}

// printsRandom are the files of the kernel that are random.
var printsRandom = set("/dev/urandom /dev/random /proc/sys/kernel/random/uuid")

// random recognizes commands that print random bytes, a password or a UUID into a file.
func (k *files) random(call *shell.Call) ([]Step, error) {
	var t randomText
	last := call
	for ; ; last = last.Pipe {
		if !t.filter(last, last == call) {
			return nil, &shell.Error{Word: last.Name, Why: "not a way to make something random that generate has"}
		}
		if last.Pipe == nil {
			break
		}
	}
	var out shell.Word
	if call.Name == "openssl" && call.Pipe == nil {
		if g, err := optionsOf(randOptions).readGo(call.Args[1:]); err == nil {
			out = g.get("out")
		}
	}
	p, mode, err := k.outFile(last, out)
	if err != nil {
		return nil, err
	}
	if out != nil {
		mode = "0644" // not only for keys
	}
	what, flags := t.flags()
	if what == "" {
		return nil, &shell.Error{Word: call.Name, Why: "not a way to make something random that generate has"}
	}
	steps, err := k.generate(p, what, mode, flags, p)
	if err == nil && t.newline {
		steps[0].differs("the file has no line break at its end")
	}
	return steps, err
}

func (t randomText) flags() (what string, flags []Flag) {
	switch {
	case t.uuid:
		return "uuid", nil
	case t.alphabet != "" && t.length > 0 && t.length <= 4096:
		return "password", []Flag{{"length", strconv.Itoa(t.length)}, {"alphabet", t.alphabet}}
	case t.bytes <= 0 || t.bytes > 64<<10:
		return "", nil
	case t.encoding == "":
		return "token", []Flag{{"bytes", strconv.Itoa(t.bytes)}, {"encoding", "raw"}}
	}
	return "token", []Flag{{"bytes", strconv.Itoa(t.bytes)}, {"encoding", t.encoding}}
}

const randOptions = "out=; hex; base64"

// filter adds a command of the pipeline, and returns whether it is understood.
func (t *randomText) filter(call *shell.Call, first bool) bool {
	words, err := literals(call.Args)
	for _, set := range call.Set {
		if set.Name != "LC_ALL" && set.Name != "LC_CTYPE" && set.Name != "LANG" {
			return false
		}
	}
	if err != nil || !first && call.Stdin != nil || call.Pipe != nil && call.Stdout != nil {
		return false
	}
	line := strings.Join(append([]string{call.Name}, words...), " ")
	stdin := ""
	if call.Stdin != nil {
		stdin = call.Stdin.File.String()
	}
	source := stdin == "" && first
	urandom := stdin == "/dev/urandom" || stdin == "/dev/random"
	match := func(pattern string) []string { return regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(line) }
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	switch m := []string(nil); {
	case source && call.Name == "openssl":
		return t.opensslRand(call)
	case source && line == "cat /dev/urandom":
		t.bytes = -1
	case source && (line == "uuidgen" || line == "uuidgen -r" || line == "cat /proc/sys/kernel/random/uuid"):
		t.uuid, t.newline = true, true
	case first && match(`head -c ?(\d+)( /dev/u?random)?`) != nil:
		m = match(`head -c ?(\d+)( /dev/u?random)?`)
		t.bytes = number(m[1])
		return urandom != (m[2] != "")
	case source && match(`dd if=/dev/u?random bs=(\d+) count=(\d+)( status=none)?`) != nil:
		m = match(`dd if=/dev/u?random bs=(\d+) count=(\d+).*`)
		t.bytes = min(number(m[1]), 64<<10) * min(number(m[2]), 64<<10)
	case (urandom && first || t.bytes == -1) && match(`tr -d?c?d? (.+)`) != nil && (words[0] == "-dc" || words[0] == "-cd") && len(words) == 2:
		*t = randomText{alphabet: alphabetOf(words[1]), length: -1}
		return t.alphabet != ""
	case first:
		return false
	case match(`head -c ?(\d+)`) != nil:
		return t.cut(number(match(`head -c ?(\d+)`)[1]))
	case match(`dd bs=1 count=(\d+)( status=none)?`) != nil:
		return t.cut(number(match(`dd bs=1 count=(\d+).*`)[1]))
	case match(`fold -w ?(\d+)`) != nil && t.length == -1:
		t.length = -number(match(`fold -w ?(\d+)`)[1]) - 1
	case (line == "head -n 1" || line == "head -n1" || line == "head -1") && t.length < -1:
		t.length, t.newline = -t.length-1, true
	case line == "base64" && t.bytes > 0 && t.bytes <= 57 && t.encoding == "", (line == "base64 -w 0" || line == "base64 -w0") && t.bytes > 0 && t.encoding == "":
		t.encoding, t.newline = "base64", line == "base64"
	case line == `tr -d \n` && (t.encoding != "" || t.uuid || t.alphabet != "" && t.length > 0):
		t.newline = false
	default:
		return false
	}
	return true
}

func (t *randomText) opensslRand(call *shell.Call) bool {
	if first, _ := call.Args[0].Literal(); first != "rand" {
		return false
	}
	g, err := optionsOf(randOptions).readGo(call.Args[1:])
	if err != nil || g.has("hex") && g.has("base64") {
		return false
	}
	text, err := oneArgument(g)
	if t.bytes, _ = strconv.Atoi(text); err != nil || t.bytes < 1 || g.has("out") && call.Pipe != nil {
		return false
	}
	switch {
	case g.has("hex"):
		t.encoding, t.newline = "hex", true
	case g.has("base64"):
		t.encoding, t.newline = "base64", true
		return t.bytes <= 48 // a line has 64 characters
	}
	return true
}

// cut takes the first n characters.
func (t *randomText) cut(n int) bool {
	switch digits := map[string]int{"hex": 2 * t.bytes, "base64": t.bytes / 3 * 4}[t.encoding]; {
	case n < 1:
		return false
	case t.length == -1:
		t.length = n
	case t.encoding == "" && t.bytes == -1:
		t.bytes = n
	case t.encoding != "" && n <= digits:
		*t = randomText{alphabet: map[string]string{"hex": "0-9a-f", "base64": "A-Za-z0-9+/"}[t.encoding], length: n}
	default:
		return false
	}
	return true
}

// alphabetOf returns the alphabet of generate for a set of tr, or "" if it may mean something else.
func alphabetOf(set string) string {
	set = strings.NewReplacer("[:alnum:]", "A-Za-z0-9", "[:alpha:]", "A-Za-z", "[:digit:]", "0-9", "[:upper:]", "A-Z", "[:lower:]", "a-z", "[:xdigit:]", "0-9A-Fa-f").Replace(set)
	if regexp.MustCompile(`^(A-Z|a-z|0-9|[A-Fa-f]-[A-Fa-f]|[1-9]-9|[A-Za-z0-9_@#%+=:.,!^*?~])+$`).MatchString(set) {
		return set
	}
	return ""
}
