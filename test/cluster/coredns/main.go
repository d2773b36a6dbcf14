// Command coredns is the test cluster's DNS server: CoreDNS with the plugins in the cluster's Corefile. All plugins
// would bring the libraries of three clouds along.
//
// The directives below are in the order of upstream's plugin.cfg: plugins see a query in this order, regardless of the
// Corefile.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	dnsserver.Directives = []string{"bind", "ready", "errors", "template", "kubernetes"}
}

func main() { coremain.Run() }
