package waitfor

import "initbox/internal/tlsconfig"

// tlsSettings are shared by every kind that can speak TLS.
var tlsSettings = []Setting{
	{Name: "ca-file", Value: "FILE", Usage: "PEM certificates to trust besides the roots"},
	{Name: "cert-file", Value: "FILE", Usage: "PEM client certificate"},
	{Name: "key-file", Value: "FILE", Usage: "PEM key of the client certificate, if not in the same file", Needs: "cert-file"},
	{Name: "server-name", Value: "NAME", Usage: "name that the certificate must have, if not the host's"},
	{Name: "insecure", Usage: "do not verify the certificate"},
}

func (s Settings) tls() tlsconfig.Options {
	return tlsconfig.Options{
		CAFile:     s.get("ca-file"),
		CertFile:   s.get("cert-file"),
		KeyFile:    s.get("key-file"),
		ServerName: s.get("server-name"),
		Insecure:   s.on("insecure"),
	}
}
