// Command consul is Consul's agent, like "consul agent", without the other commands. It is version 1.16.1, under the
// MPL; the license of 1.17 and later is not free.
package main

import (
	"os"

	mcli "github.com/mitchellh/cli"

	"github.com/hashicorp/consul/command/agent"
	"github.com/hashicorp/consul/command/cli"
)

func main() {
	ui := &cli.BasicUI{BasicUi: mcli.BasicUi{Writer: os.Stdout, ErrorWriter: os.Stderr}}
	os.Exit(agent.New(ui).Run(os.Args[1:]))
}
