// Command coredns is CoreDNS with the handful of plugins that the tests want: a
// cache as every Kubernetes cluster has one, and zone files in the place of the
// API server.
//
// The directives below are in the order of upstream's plugin.cfg: it is the order
// in which plugins see a query, whatever the order in the Corefile.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/template"
)

func init() {
	dnsserver.Directives = []string{
		"bind", "errors", "log", "cache", "template", "file", "forward",
	}
}

func main() { coremain.Run() }
