package translate

import (
	"errors"
	"strconv"
	"strings"
)

// gitSettings are the settings of git that have a meaning here, by the patterns of their names in lower case: the first
// that matches counts. What is not listed is refused, since it may change what is fetched or how.
//
// https://git-scm.com/docs/git-config
var gitSettings = []struct {
	names   string // separated by spaces
	to      string // the flag of git-clone with the same values; "" for a setting without effect
	only    string // the value without effect; "" for any
	instead string // what to give, if it is refused
}{
	{names: "http.proxy", to: "proxy"},
	{names: "http.sslcainfo", to: "ca-file"},
	{names: "http.sslcert", to: "cert-file"},
	{names: "http.sslkey", to: "key-file"},
	{names: "http.cookiefile", to: "cookie-file"},
	{names: "http.sslverify", only: "true", instead: "--ca-file or --insecure before --compat"},
	{names: "http.extraheader http.*.extraheader", instead: "--header-file before --compat: a header in it would show in the Pod's specification"},
	{names: "credential.*", instead: "--netrc before --compat: no program runs to ask for credentials"},
	{names: "protocol.*.allow", only: "always", instead: "a network policy"},
	{names: "safe.* http.postbuffer http.version http.maxrequests http.minsessions gc.* pack.* maintenance.* advice.* fetch.parallel submodule.fetchjobs checkout.workers index.threads user.* init.defaultbranch"},
}

// gitConfig translates git's settings.
func (s *gitSync) gitConfig() {
	for _, text := range append(s.all("git-config"), s.all("git-config-add")...) {
		for text != "" && s.err == nil {
			name, value, rest, err := nextSetting(text)
			if err != nil {
				s.failHint("want NAME:VALUE,NAME:VALUE as git-sync does, each perhaps in double quotes", "--git-config: %w", err)
				return
			}
			s.gitSetting(name, value)
			text = rest
		}
	}
}

// gitSetting translates one setting. Its messages do not quote the value, which may be secret.
func (s *gitSync) gitSetting(name, value string) {
	for _, known := range gitSettings {
		for _, pattern := range strings.Fields(known.names) {
			before, after, open := strings.Cut(pattern, "*")
			lower := strings.ToLower(name)
			if lower != pattern && !(open && strings.HasPrefix(lower, before) && strings.HasSuffix(lower, after)) {
				continue
			}
			switch {
			case known.to != "":
				s.add(known.to, value)
			case known.instead != "" && (known.only == "" || value != known.only):
				s.failHint("give "+known.instead, "--git-config: %s has no meaning here", name)
			}
			return
		}
	}
	s.failHint("git-clone has flags for the usual settings, which stand before --compat", "--git-config: %s: no git program runs that could read it", name)
}

// nextSetting reads the first of the settings in a text: NAME:VALUE, separated by commas, each of which may be in
// double quotes with git's escapes.
func nextSetting(text string) (name, value, rest string, err error) {
	name, rest, err = settingWord(text, ":")
	if err != nil || name == "" || !strings.HasPrefix(rest, ":") {
		return "", "", "", errors.Join(err, errors.New("a setting without a colon, or without a name"))
	}
	value, rest, err = settingWord(rest[1:], ",")
	if err != nil {
		return "", "", "", err
	}
	if rest != "" && !strings.HasPrefix(rest, ",") {
		return "", "", "", errors.New("text after a quoted value of " + strconv.Quote(name))
	}
	return name, value, strings.TrimLeft(strings.TrimPrefix(rest, ","), " "), nil
}

// settingWord reads a word that ends before the separator, or with its closing quote.
func settingWord(text, separator string) (word, rest string, err error) {
	quoted := strings.HasPrefix(text, `"`)
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' && quoted && i > 0:
			return b.String(), text[i+1:], nil
		case c == '"' && quoted:
		case c == '\\':
			if i++; i == len(text) {
				return "", "", errors.New("a backslash at the end")
			}
			escaped, ok := map[byte]byte{'n': '\n', 't': '\t', '"': '"', '\\': '\\', ',': ','}[text[i]]
			if !ok {
				return "", "", errors.New("an unknown escape")
			}
			b.WriteByte(escaped)
		case !quoted && string(c) == separator:
			return b.String(), text[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	if quoted {
		return "", "", errors.New("a quote that does not end")
	}
	return b.String(), "", nil
}
