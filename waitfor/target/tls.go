package target

import "initbox/internal/tlsconfig"

// TLSSettings are the TLS settings of every kind that supports TLS.
var TLSSettings = []Setting{
	{Name: "ca-file", Value: "FILE", Usage: "PEM certificates to trust besides the roots"},
	{Name: "cert-file", Value: "FILE", Usage: "PEM client certificate"},
	{Name: "key-file", Value: "FILE", Usage: "PEM key of the client certificate, if not in the same file", Needs: "cert-file"},
	{Name: "server-name", Value: "NAME", Usage: "name that the certificate must have, if not the host's"},
	{Name: "insecure", Usage: "do not verify the certificate"},
}

// TLS returns the TLS options in the settings.
func (s Settings) TLS() tlsconfig.Options {
	return tlsconfig.Options{
		CAFile:     s.Get("ca-file"),
		CertFile:   s.Get("cert-file"),
		KeyFile:    s.Get("key-file"),
		ServerName: s.Get("server-name"),
		Insecure:   s.On("insecure"),
	}
}
