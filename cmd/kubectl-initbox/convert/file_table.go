package convert

// The tables of what writes files.
var (
	fileCommands = map[string]command{}
	fileTools    = map[string]tool{}
)
