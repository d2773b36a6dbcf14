package forms

import (
	"net/netip"
	"strings"
)

// NameCharacters are those of a domain name. What has others may be anything,
// such as a connection string with a password.
const NameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// Harmless reports whether name looks like a domain name or an address, and so
// may be shown.
func Harmless(name string) bool {
	addr, err := netip.ParseAddr(name)
	return strings.Trim(name, NameCharacters) == "" || err == nil && addr.Zone() == ""
}

// Yes and no read the ways in which the URLs of drivers say that.
func Yes(s string) bool { return IsOneOf(s, "1", "true", "yes", "on") }
func No(s string) bool  { return IsOneOf(s, "0", "false", "no", "off") }

func IsOneOf(s string, words ...string) bool {
	for _, word := range words {
		if strings.EqualFold(s, word) {
			return true
		}
	}
	return false
}
