// Command initbox holds the small programs that a Kubernetes init container
// needs, in one static binary.
package main

import "os"

func main() { os.Exit(run(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
