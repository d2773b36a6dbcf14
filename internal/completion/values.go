package completion

import (
	"slices"
	"strings"
)

// What the scripts know besides words. A pair's second half is completed after its "=" or ":".
const (
	anyText     = "@any" // text of which nothing is known
	files       = "@files"
	directories = "@directories"
	filesAfter  = "@files-after-equals" // KEY=FILE
	pairs       = "@pairs"              // SRC:DST
	commands    = "@commands"           // the subcommands
	settings    = "@settings"           // SCHEME:…#NAME=VALUE&NAME=VALUE
)

// known has the values of flags whose form in the help does not list them. A test compares them with the help.
var known = map[string][]string{
	"algorithm":   {"ecdsa", "ecdsa-p384", "ecdsa-p521", "ed25519", "rsa", "rsa-2048", "rsa-4096"},
	"encoding":    {"hex", "base64", "base64url", "raw"},
	"engine":      {"gotemplate", "jinja", "envsubst"},
	"git-dir":     {"keep", "remove", directories},
	"group":       {"ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"},
	"keep":        {"mode", "owner", "times", "xattrs", "links"},
	"key-format":  {"pkcs8", "pkcs1", "openssh"},
	"log-level":   {"debug", "info", "warn", "error"},
	"mechanism":   {"SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"},
	"preset":      {"consul", "consul-catalog", "etcd", "eureka", "nacos", "nacos3", "spring-boot-admin"},
	"record-type": {"A", "AAAA", "CNAME", "SRV", "MX", "NS", "TXT", "PTR"},
	"unless":      {files},
	"what":        {"password", "token", "uuid", "key", "certificate", "htpasswd", "bcrypt", "dhparam"},
	"source":      {"roots", "system", "k8s:configmap/", "k8s:secret/", "k8s:clustertrustbundle/"},
}

// methods are those of HTTP that the help does not list, since every server has its own.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}

// valuesOf returns what may be the value of a flag of a subcommand. The form is the one in the help, such as text|json
// or [PATTERN=]FILE.
func valuesOf(command, name, form string) []string {
	switch {
	case name == "type" && form == "LIST":
		return known["record-type"]
	case form == "METHOD":
		return methods
	case known[name] != nil && form != "" && !(name == "group" && command != "generate"):
		return known[name]
	case form == "":
		return nil
	}
	var values []string
	for alternative := range strings.SplitSeq(form, "|") {
		switch key, _, pair := strings.Cut(alternative, "="); {
		case alternative == "FILE":
			values = append(values, files)
		case alternative == "DIR":
			values = append(values, directories)
		case alternative == "[PATTERN=]FILE":
			values = append(values, files, filesAfter)
		case strings.HasSuffix(alternative, "=FILE"):
			values = append(values, filesAfter)
		case pair && isWord(key):
			values = append(values, key+"=")
		case isWord(alternative):
			values = append(values, alternative)
		}
	}
	if slices.Contains(values, files) { // among them are directories
		values = slices.DeleteFunc(values, func(v string) bool { return v == directories })
	}
	if len(values) == 0 {
		return []string{anyText}
	}
	return values
}

// isWord reports whether a part of a form is written as it stands. What one replaces is in capital letters.
func isWord(part string) bool {
	return part != "" && part == strings.ToLower(part) && strings.Trim(part, wordCharacters+":") == ""
}

// argumentsOf returns what an argument of a subcommand may be, by its form in the help.
func argumentsOf(command, form string, targets []string) []string {
	form, _, _ = strings.Cut(form, "[--")
	has := func(part string) bool { return strings.Contains(form, part) }
	var values []string
	switch {
	case has("TARGET") && has("DST"):
		values = []string{"k8s:configmap/", "k8s:secret/", files}
	case has("TARGET"):
		values = slices.Clone(targets)
	case has("WHAT"):
		values = append(slices.Clone(known["what"]), files)
	case has("SRC:DST"):
		values = []string{pairs}
	case has("SRC") && !has("DST"):
		values = append(slices.Clone(known["source"]), files)
	case has("SRC"), has("PATH"), has("DST"):
		values = []string{files}
	case has("DIR"):
		values = []string{directories}
	case form != "" && form == strings.ToLower(form):
		values = strings.Split(form, "|")
	}
	if has("[SUBCOMMAND]") || has("DIR [NAME") {
		values = append(values, commands)
	}
	return values
}

// beginOfTarget returns what every target with the scheme begins with, by the form of the targets of its kind.
func beginOfTarget(scheme, form string) string {
	if strings.Contains(form, "://") {
		return scheme + "://"
	}
	return scheme + ":"
}
