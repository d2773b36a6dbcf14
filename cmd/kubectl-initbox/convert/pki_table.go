package convert

import (
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
)

// pkiCommands are the commands that make certificates, keys and passwords, and stores of them.
var pkiCommands = map[string]command{
	"update-ca-certificates": deferred((*files).updateCertificates),
	"update-ca-trust":        deferred((*files).updateCertificates),

	"keytool":    deferred((*files).keytool),
	"openssl":    deferred((*files).openssl),
	"ssh-keygen": deferred((*files).sshKeygen),
	"head":       deferred((*files).random),
	"tr":         deferred((*files).random),
	"dd":         deferred((*files).random),
	"uuidgen":    deferred((*files).random),
}

// opensslCommands are the commands of openssl, with the options that they may have.
var opensslCommands = map[string]struct {
	options string
	run     func(k *files, call *shell.Call, g given) ([]Step, error)
}{
	"rand":    {"", nil}, // a part of a pipeline
	"genrsa":  {"out=; traditional", (*files).privateKey},
	"genpkey": {"algorithm=; pkeyopt=; out=; quiet", (*files).privateKey},
	"ecparam": {"name=; genkey; noout; out=", (*files).privateKey},
	"dhparam": {"out=; dsaparam; quiet", (*files).dhparam},
	"pkcs12":  {"export; in=; inkey=; certfile=; CAfile=; chain; name=; out=; passout password=", (*files).exportPKCS12},
	"req":     {"x509; new; newkey=; nodes noenc; keyout=; out=; days=; subj=; addext=; sha256; sha384; sha512; batch; quiet", (*files).selfSigned},
}

func (k *files) openssl(call *shell.Call) ([]Step, error) {
	if len(call.Args) == 0 {
		return nil, &shell.Error{Word: "openssl", Why: "without a command"}
	}
	name, _ := call.Args[0].Literal()
	known, found := opensslCommands[name]
	switch {
	case !found:
		return nil, stop(call.Args[0], "a command of openssl that initbox has no replacement for")
	case known.run == nil:
		return k.random(call)
	}
	for _, set := range call.Set {
		return nil, &shell.Error{Word: set.Name, Why: "a variable that may change what openssl does"}
	}
	if lookup("OPENSSL_CONF", k.c).origin != nowhere && variableWord("OPENSSL_CONF", call, k.c) != nil {
		return nil, &shell.Error{Word: "OPENSSL_CONF", Why: "a variable that changes what openssl does"}
	}
	if err := plain(call); name != "genrsa" && name != "genpkey" && err != nil {
		return nil, err
	}
	g, err := optionsOf(known.options).readGo(call.Args[1:])
	if err != nil {
		return nil, err
	}
	return known.run(k, call, g)
}

// oneArgument returns the only argument of a call, or "" without one.
func oneArgument(g given) (string, error) {
	if len(g.args) > 1 {
		return "", stop(g.args[1], "a second argument")
	}
	if len(g.args) == 0 {
		return "", nil
	}
	text, ok := g.args[0].Literal()
	if !ok {
		return "", stop(g.args[0], "not a plain text")
	}
	return strings.TrimSpace(text), nil
}
