package keystore

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"initbox/internal/certs"
	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/secret"
	"initbox/internal/words"
)

var errMismatch = errors.New("the key does not belong to the certificate")

// load reads the key with its chain, and the certificates to trust. It adds warnings to the result.
func (o Options) load(r *Result) (*certs.Key, []certs.Entry, error) {
	given, err := r.read("certificate", o.CertFile)
	if err != nil {
		return nil, nil, err
	}
	private, err := o.key()
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(given, func(e certs.Entry) bool { return belongs(private, e.Cert) })
	if i < 0 {
		err := fmt.Errorf("key file %s: %w in %s (%s)", failure.Printable(cmp.Or(o.KeyFile, o.CertFile)), errMismatch, failure.Printable(o.CertFile), name(given[0].Cert))
		return nil, nil, failure.WithHint(err, "are both files of the same Secret, and was the certificate requested with this key?")
	}
	var trusted []certs.Entry
	if o.CAFile != "" {
		if trusted, err = r.read("CA", o.CAFile); err != nil {
			return nil, nil, err
		}
	}
	if slices.ContainsFunc(trusted, func(e certs.Entry) bool { return strings.EqualFold(e.Alias, o.Alias) }) {
		err := fmt.Errorf("%s: a certificate in it has the alias %s, too", failure.Printable(o.CAFile), failure.Printable(o.Alias))
		return nil, nil, failure.WithHint(err, "choose another --alias for the key")
	}
	chain, left := chainOf(given[i].Cert, given, trusted)
	if text := expiry(chain[0]); text != "" {
		r.Warnings = append(r.Warnings, failure.Printable(o.CertFile)+": "+text)
	}
	if len(left) > 0 {
		text := fmt.Sprintf("%s: left out what did not issue the certificate: %s", failure.Printable(o.CertFile), words.List(words.Each(left, name)))
		r.Warnings = append(r.Warnings, text)
	}
	return &certs.Key{Alias: o.Alias, Private: private, Chain: chain}, trusted, nil
}

// read returns the certificates of a file or a folder. It warns of what is not one.
func (r *Result) read(what, path string) ([]certs.Entry, error) {
	found, err := certs.Read(path, certs.DefaultPassword)
	if err != nil {
		return nil, unreadable(what, path, err)
	}
	r.Warnings = append(r.Warnings, found.Ignored...)
	return certs.Distinct(found.Entries), nil
}

// unreadable returns the error of a file that is not there, or does not hold what it should.
func unreadable(what, path string, err error) error {
	text := fmt.Errorf("%s file: %w", what, err)
	switch {
	case errors.As(err, new(*fs.PathError)):
		f := &failure.Failure{Class: failure.Of(err).Class, Text: text.Error(), Err: err, Hint: failure.Beside(err) + "is the Secret mounted, and may this user read it?"}
		return failure.About(failure.Printable(path), f, f)
	case what == "CA" && errors.As(err, new(*certs.NoneError)):
		return failure.WithHint(text, "leave out --ca-file for a certificate of a public authority, whose Secret has none")
	}
	return text
}

// key reads the private key.
func (o Options) key() (crypto.Signer, error) {
	path := cmp.Or(o.KeyFile, o.CertFile)
	data, err := readfile.All(path)
	if err != nil {
		return nil, unreadable("key", path, err)
	}
	var password []byte
	if o.KeyPasswordFile != "" {
		text, err := secret.Read(o.KeyPasswordFile)
		if err != nil {
			return nil, err
		}
		password = []byte(text)
	}
	key, err := certs.ParseKey(data, password)
	if err == nil {
		return key, nil
	}
	hint := "want a key in PEM or DER, such as tls.key of a Secret of type kubernetes.io/tls"
	switch {
	case errors.Is(err, certs.ErrEncrypted):
		hint = "give the password with --key-password-file"
	case errors.Is(err, certs.ErrWrongPassword):
		hint = "is the password in " + failure.Printable(o.KeyPasswordFile) + " that of this key?"
	case errors.Is(err, certs.ErrNoKey) && o.KeyFile == "":
		hint = "give the file of the key with --key-file"
	}
	return nil, failure.WithHint(fmt.Errorf("key file %s: %w", failure.Printable(path), err), hint)
}

// belongs returns whether the certificate is for the key.
func belongs(key crypto.Signer, cert *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

// chainOf returns the certificates from leaf to the last issuer that is known, which is the root if that is among them.
// left are those beside leaf that are not in the chain.
func chainOf(leaf *x509.Certificate, given, trusted []certs.Entry) (chain, left []*x509.Certificate) {
	chain, known := []*x509.Certificate{leaf}, slices.Concat(given, trusted)
	for {
		last := chain[len(chain)-1]
		i := slices.IndexFunc(known, func(e certs.Entry) bool { return issued(e.Cert, last) })
		if i < 0 || slices.ContainsFunc(chain, known[i].Cert.Equal) {
			break
		}
		chain = append(chain, known[i].Cert)
	}
	for _, e := range given {
		if !slices.ContainsFunc(chain, e.Cert.Equal) {
			left = append(left, e.Cert)
		}
	}
	return chain, left
}

// issued returns whether parent issued cert: by its name and, where several have it, the id of its key. The signature
// is for those who verify the chain; a store may well hold one that is too weak for this program.
func issued(parent, cert *x509.Certificate) bool {
	return bytes.Equal(parent.RawSubject, cert.RawIssuer) &&
		(len(parent.SubjectKeyId) == 0 || len(cert.AuthorityKeyId) == 0 || bytes.Equal(parent.SubjectKeyId, cert.AuthorityKeyId))
}

// name returns a certificate's subject, or a name that it is for.
func name(cert *x509.Certificate) string {
	subject := cert.Subject.String()
	if subject == "" && len(cert.DNSNames) > 0 {
		subject = cert.DNSNames[0]
	}
	return failure.Printable(cmp.Or(subject, "without a name"))
}
