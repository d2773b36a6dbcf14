package secret

import (
	"strings"

	"initbox/internal/lazy"
)

// Word returns a word of a command line, such as a URL or --flag=URL, as it may be logged before it has been parsed,
// and even if it is refused: without the user information, the query and the fragment of a URL. User information that
// only refers to the password, as in me:${env:PW}@, and the user of ssh, stay. Other words are returned as they are.
func Word(text string) string {
	scheme, rest, isURL := strings.Cut(text, "://")
	switch {
	case strings.HasSuffix(scheme, "file"):
		return text // has neither
	case !isURL:
		if at := bareLogin().FindString(text); at != "" {
			return hidden + "@" + text[len(at):]
		}
		return text
	}
	user := ""
	// The last @: a password may have any unencoded character, also those that would end the host.
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, rest = rest[:at], rest[at+1:]
		if !harmless().MatchString(user) && (!strings.HasSuffix(scheme, "ssh") || strings.ContainsAny(user, ":/?#")) {
			user = hidden
		}
		user += "@"
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end+1] + hidden
	}
	return scheme + "://" + user + rest
}

const hidden = "…"

// harmless matches user information whose password is a reference.
var harmless = lazy.Regexp(`^[^:/?#@]*:\$\{(env|file):[^{}]*\}$`)

// bareLogin matches what looks like a login at the beginning of a URL whose scheme was forgotten, as in me:PW@host.
var bareLogin = lazy.Regexp(`^[^@/:]+:[^@/]+@`)
