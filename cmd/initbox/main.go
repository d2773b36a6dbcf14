// Command initbox holds the small programs that a Kubernetes init container needs, in one static binary.
package main

import (
	"os"

	"initbox/cmd/command"
)

// version is set by the linker.
var version = "devel"

func main() { os.Exit(command.Run(version, os.Args, os.Stdin, os.Stdout, os.Stderr)) }
