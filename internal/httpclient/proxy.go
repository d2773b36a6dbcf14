package httpclient

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// proxy returns the proxy for req, or nil to connect directly. HTTP_PROXY and its kin name the way out of the cluster.
// What is inside is not behind it, but few who set them for a whole namespace think of NO_PROXY, or know that a
// Service's address has to be in it.
func proxy(req *http.Request) (*url.URL, error) {
	if inCluster(req.URL.Hostname()) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(req)
}

// inCluster reports whether host should be reached without a proxy: a name without a dot or with svc in the place that
// it has in a Service's (mydb, mydb.ns.svc, mydb.ns.svc.cluster.local), one that ends in .local (RFC 6762), and an
// address of a private network (RFC 1918, RFC 4193), of this host or of its link, such as a Service's in
// $(MYDB_SERVICE_HOST). A Service's mydb.ns cannot be distinguished from a name of the internet.
func inCluster(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		addr = addr.Unmap()
		return addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".svc") ||
		strings.HasSuffix(host, ".local") || strings.Contains(host, ".svc.")
}
