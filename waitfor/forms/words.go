package forms

import (
	"net/netip"
	"strings"

	"initbox/internal/words"
)

// Harmless reports whether name looks like a domain name or an address, and so may be shown.
func Harmless(name string) bool {
	addr, err := netip.ParseAddr(name)
	return strings.Trim(name, words.NameCharacters) == "" || err == nil && addr.Zone() == ""
}

// Yes reports whether s is one of the words for yes in the URLs of drivers.
func Yes(s string) bool { return IsOneOf(s, "1", "true", "yes", "on") }

// No reports whether s is one of the words for no in the URLs of drivers.
func No(s string) bool { return IsOneOf(s, "0", "false", "no", "off") }

// IsOneOf reports whether s is one of the words, in upper or lower case.
func IsOneOf(s string, words ...string) bool {
	for _, word := range words {
		if strings.EqualFold(s, word) {
			return true
		}
	}
	return false
}
