// Command consul is Consul's agent, what "consul agent" is, without the other commands.
// Of 1.16.1, because its license is the MPL; that of 1.17 and later is not free.
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
