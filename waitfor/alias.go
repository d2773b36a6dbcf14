package waitfor

import (
	"initbox/waitfor/dns"
	"initbox/waitfor/target"
)

// The parts of targets, checks and waits are defined in package target.
type (
	Kind     = target.Kind
	Setting  = target.Setting
	Settings = target.Settings
	Check    = target.Check
	Options  = target.Options
)

// DNSTarget returns the target that waits for name, which may contain any character.
func DNSTarget(name string) string { return dns.Target(name) }

// Answers returns the records that a dns check found in its last attempt, in the form that wait-for-dns prints; nil for
// other kinds.
func Answers(c Check) []string { return dns.Answers(c) }
