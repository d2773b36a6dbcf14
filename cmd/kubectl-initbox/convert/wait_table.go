package convert

// The tables of waits.
var (
	probes       = map[string]probe{}
	comparisons  = map[string]comparison{}
	waitCommands = map[string]command{}
	waitTools    = map[string]tool{}
)
