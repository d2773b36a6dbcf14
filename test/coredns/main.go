// Command coredns is CoreDNS with the few plugins that the tests need: a cache, as in every Kubernetes cluster, and
// zone files instead of the API server.
//
// The directives below are in the order of upstream's plugin.cfg: plugins see a query in this order, regardless of the
// Corefile.
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
