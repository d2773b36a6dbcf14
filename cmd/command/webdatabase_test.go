package command

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"initbox/test/servers"
	"initbox/test/webdatabases"
)

// startWebDatabase starts a server of [webdatabases.Kinds]; its options are NAME=VALUE.
func startWebDatabase(kind string) func(t testing.TB, options []string) map[string]string {
	return func(t testing.TB, options []string) map[string]string {
		o := webdatabases.Options{}
		for _, option := range options {
			name, value, _ := strings.Cut(option, "=")
			o[name] = value
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: webdatabases.Kinds[kind](o), Protocols: webdatabases.Protocols(), ErrorLog: discardLog}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
		return map[string]string{"": l.Addr().String()}
	}
}

// startEtcd starts an etcd. With the option auth it wants to know its users, with tls
// their certificates: $NAME_ca, $NAME_cert and $NAME_key are the files.
func startEtcd(t testing.TB, options []string) map[string]string {
	o := servers.EtcdOptions{Auth: slices.Contains(options, "auth")}
	env := map[string]string{}
	if slices.Contains(options, "tls") {
		o.CA = servers.NewCA(t)
		env["_ca"] = o.CA.File
	}
	e := servers.StartEtcd(t, o)
	_, env[""], _ = strings.Cut(e.URL, "://")
	env["_password"], env["_cert"], env["_key"] = e.Password, e.Client.CertFile, e.Client.KeyFile
	return env
}
