package command

// otherPrograms are the programs that people know, and the subcommands, separated by spaces, that do the same.
var otherPrograms = map[string]string{
	"mkdir": "prepare", "chown": "prepare", "chgrp": "prepare", "chmod": "prepare", "chcon": "prepare",
	"ln": "prepare", "rm": "prepare", "touch": "prepare",
	"cp": "copy", "rsync": "copy",
	"curl": "fetch request", "wget": "fetch", "tar": "fetch", "unzip": "fetch", "oras": "fetch",
	"nslookup": "wait-for-dns", "dig": "wait-for-dns", "host": "wait-for-dns",
	"nc": "wait-for-service", "kubectl": "wait-for-service kube-get", "pg_isready": "wait-for-service",
	"keytool": "trust-bundle keystore", "update-ca-certificates": "trust-bundle", "update-ca-trust": "trust-bundle", "c_rehash": "trust-bundle",
	"openssl": "generate keystore", "ssh-keygen": "generate", "htpasswd": "generate", "uuidgen": "generate", "pwgen": "generate",
	"yq": "merge", "jq": "merge", "crudini": "merge", "cat": "merge",
	"k8s-sidecar": "kube-get", "git": "git-clone", "git-sync": "git-clone", "envsubst": "render",
}

// otherNames are flags of those programs, by subcommand: the names that they have here, or "" for one that is not
// needed.
var otherNames = map[string]map[string]string{
	"prepare": {"p": "", "parents": "", "f": "", "R": "recursive", "r": "recursive", "optional": "if-exists"},
	"copy": {
		"r": "", "R": "", "f": "", "a": "keep", "archive": "keep", "p": "keep", "preserve": "keep", "n": "no-overwrite",
		"no-clobber": "no-overwrite", "u": "update", "L": "links", "dereference": "links", "if-exists": "optional",
	},
	"kube-get": {"n": "namespace", "o": "format", "output": "format"},
	"fetch": {
		"f": "", "fail": "", "L": "", "location": "", "s": "", "fsSL": "", "k": "insecure", "no-check-certificate": "insecure",
		"H": "header", "u": "user", "cacert": "ca-file", "strip": "strip-components", "if-exists": "optional",
	},
	"generate": {
		"subj": "subject", "addext": "dns", "hostname": "dns", "days": "valid-for", "newkey": "algorithm", "t": "algorithm", "C": "comment",
		"CA": "ca-cert-file", "CAkey": "ca-key-file", "nodes": "", "x509": "", "B": "",
	},
	"keystore": {
		"in": "cert-file", "inkey": "key-file", "CAfile": "ca-file", "certfile": "ca-file", "name": "alias", "out": "pkcs12", "destkeystore": "jks",
		"passin": "key-password-file", "passout": "password-file", "storepass": "password-file", "deststorepass": "password-file", "noprompt": "",
	},
	"trust-bundle": {
		"keystore": "jks", "destkeystore": "jks", "storepass": "password-file", "deststorepass": "password-file", "noprompt": "",
		"out": "pem", "CApath": "hash-dir",
	},
	"request": {
		"X": "method", "request": "method", "d": "request-body", "data": "request-body", "body": "request-body", "data-binary": "request-body-file",
		"data-raw": "request-body", "F": "field", "form": "field", "H": "header", "u": "user", "cacert": "ca-file", "k": "insecure", "o": "output",
		"f": "", "fail": "", "s": "", "L": "", "location": "", "retry": "", "fsS": "",
	},
	"merge":  {"i": "", "inplace": "", "del": "delete", "o": "format", "existing": ""},
	"sysctl": {"w": "", "write": "", "p": "file", "load": "file", "e": "if-exists", "ignore": "if-exists", "optional": "if-exists"},
}
