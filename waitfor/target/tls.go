package target

import "initbox/internal/tlsconfig"

// TLSSettings are the TLS settings of every kind that supports TLS.
var TLSSettings = []Setting{
	{Name: "ca-file", Value: "FILE", Usage: tlsconfig.Usage["ca-file"]},
	{Name: "cert-file", Value: "FILE", Usage: tlsconfig.Usage["cert-file"]},
	{Name: "key-file", Value: "FILE", Usage: tlsconfig.Usage["key-file"], Needs: "cert-file"},
	{Name: "server-name", Value: "NAME", Usage: tlsconfig.Usage["server-name"]},
	{Name: "insecure", Usage: tlsconfig.Usage["insecure"]},
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
