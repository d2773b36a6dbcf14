package waitfor

import (
	"net/netip"
	"strings"
)

// domainCharacters are those of a domain name. What has others may be anything,
// such as a connection string with a password.
const domainCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

// harmless reports whether name looks like a domain name or an address, and so
// may be shown.
func harmless(name string) bool {
	addr, err := netip.ParseAddr(name)
	return strings.Trim(name, domainCharacters) == "" || err == nil && addr.Zone() == ""
}

// yes and no read the ways in which the URLs of drivers say that.
func yes(s string) bool { return isOneOf(s, "1", "true", "yes", "on") }
func no(s string) bool  { return isOneOf(s, "0", "false", "no", "off") }

func isOneOf(s string, words ...string) bool {
	for _, word := range words {
		if strings.EqualFold(s, word) {
			return true
		}
	}
	return false
}
