package generate

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"initbox/internal/certs"
	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/words"
)

// CertificateOptions say what a certificate is for.
type CertificateOptions struct {
	Key      Key // of new keys; a key that is there stays
	Subject  string
	DNS      []string // subject alternative names
	IPs      []netip.Addr
	ValidFor time.Duration
	IsCA     bool // it may sign others
	OneFile  bool // a PEM with the certificates and the key; else a directory with the files of a TLS Secret

	// The CA that signs the certificate; both are empty for a certificate that signs itself.
	CACertFile, CAKeyFile string
	CAKeyPassword         func() ([]byte, error) // nil without one
}

// Certificate makes a certificate and its key.
//
// The key stays when the certificate is made again, so that no reader finds two that do not belong together, and a run
// that was killed between them is completed by the next one. A certificate of initbox has a subject key identifier by
// which it is recognised, see mark. Only those are made again without being asked.
type Certificate struct {
	CertificateOptions
	subject pkix.Name
	now     func() time.Time
}

// The files of a Secret of the type kubernetes.io/tls, and of cert-manager.
const (
	certFile = "tls.crt"
	keyFile  = "tls.key"
	caFile   = "ca.crt"
)

// NewCertificate returns a maker of certificates.
func NewCertificate(o CertificateOptions) (*Certificate, error) {
	c := &Certificate{CertificateOptions: o, now: time.Now}
	c.DNS = slices.Clone(c.DNS)
	for i, name := range c.DNS {
		c.DNS[i] = strings.ToLower(strings.TrimSuffix(name, "."))
		if c.DNS[i] == "" || len(name) > 253 || strings.Trim(name, words.NameCharacters+"*") != "" || strings.Contains(c.DNS[i], "..") {
			return nil, fmt.Errorf("dns: %s is not a DNS name", failure.Printable(name))
		}
	}
	slices.Sort(c.DNS)
	c.DNS = slices.Compact(c.DNS)
	c.IPs = apply(c.IPs, netip.Addr.Unmap)
	slices.SortFunc(c.IPs, netip.Addr.Compare)
	c.IPs = slices.Compact(c.IPs)
	if (o.CACertFile == "") != (o.CAKeyFile == "") {
		return nil, errors.New("ca-cert-file and ca-key-file are given together")
	}
	if o.ValidFor < time.Minute {
		return nil, errors.New("valid-for: want at least a minute")
	}
	if o.Key.format == "openssh" {
		return nil, errors.New("key-format: the key of a certificate is in pkcs8 or pkcs1")
	}
	var err error
	c.subject, err = parseSubject(c.Subject)
	if c.Subject == "" {
		c.subject.CommonName = c.commonName()
	}
	return c, err
}

// commonName returns the first name that fits into the field, which is for people: programs look at the SANs.
func (c *Certificate) commonName() string {
	const longest = 64
	for _, name := range append(slices.Clone(c.DNS), words.Each(c.IPs, netip.Addr.String)...) {
		if len(name) <= longest {
			return name
		}
	}
	return "initbox"
}

// parseSubject reads CN=web,O=Company (RFC 4514), /CN=web/O=Company (openssl), or a common name alone.
func parseSubject(text string) (name pkix.Name, err error) {
	if text != "" && !strings.Contains(text, "=") {
		return pkix.Name{CommonName: text}, nil
	}
	separator := ","
	if strings.HasPrefix(text, "/") {
		separator, text = "/", text[1:]
	}
	const escaped = "\x00" // stands for a separator with a backslash in front
	text = strings.ReplaceAll(text, `\`+separator, escaped)
	fields := map[string]*[]string{
		"O": &name.Organization, "OU": &name.OrganizationalUnit, "C": &name.Country, "L": &name.Locality, "ST": &name.Province,
	}
	for part := range strings.SplitSeq(text, separator) {
		if text == "" {
			break
		}
		key, value, _ := strings.Cut(part, "=")
		key, value = strings.ToUpper(strings.TrimSpace(key)), strings.ReplaceAll(strings.TrimSpace(value), escaped, separator)
		switch list := fields[key]; {
		case value == "":
			return name, errors.New("subject: want NAME=VALUE joined by commas, as in CN=web,O=Company")
		case key == "CN" && name.CommonName == "":
			name.CommonName = value
		case list != nil:
			*list = append(*list, value)
		default:
			return name, fmt.Errorf("subject: %s is unknown or given twice; want CN, O, OU, C, L and ST", failure.Printable(key))
		}
	}
	return name, nil
}

func (c *Certificate) String() string { return "certificate" }

func (c *Certificate) layout() layout {
	if c.OneFile {
		return oneFile
	}
	return layout{dir: true, names: []string{keyFile, caFile, certFile}}
}

// describe returns whom the certificate is for, and how long, for the log.
func (c *Certificate) describe(files Files) string {
	p, err := c.read(files)
	if err != nil || len(p.chain) == 0 {
		return ""
	}
	names := append(slices.Clone(c.DNS), words.Each(c.IPs, netip.Addr.String)...)
	if len(names) == 0 {
		names = []string{failure.Printable(c.subject.String())}
	}
	return "for " + words.List(names) + ", until " + p.chain[0].NotAfter.Format(time.RFC3339)
}

// pair is what is there: the key and the certificate with its chain, either of which may be missing.
type pair struct {
	keyPEM []byte // as it is in the file
	key    crypto.Signer
	chain  []*x509.Certificate // the first one is the certificate
}

func (c *Certificate) read(old Files) (p pair, err error) {
	keyIn, certIn := old[keyFile], old[certFile]
	if c.OneFile {
		keyIn, certIn = old[""], old[""]
	}
	found, err := certs.Parse(certIn, certFile, "")
	if err != nil && !c.OneFile && len(bytes.TrimSpace(certIn)) > 0 {
		return p, failure.WithHint(err, "is it another program's? remove it, or name another directory")
	}
	p.chain = apply(found.Entries, func(e certs.Entry) *x509.Certificate { return e.Cert })
	p.key, err = certs.ParseKey(keyIn, nil)
	if errors.Is(err, certs.ErrNoKey) && len(bytes.TrimSpace(keyIn)) == 0 {
		return p, nil // missing, or what a killed program has left
	}
	if err != nil {
		return p, failure.WithHint(fmt.Errorf("its private key: %w", err), "the certificate is for the key that is there: remove that to have a new one")
	}
	for block, rest := pem.Decode(keyIn); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			p.keyPEM = pem.EncodeToMemory(block)
			break
		}
	}
	if !c.OneFile {
		p.keyPEM = keyIn
	}
	return p, nil
}

// mark returns the subject key identifier of our certificates. It may be any unique value (RFC 5280, section 4.2.1.2);
// other programs hash the key alone.
func mark(publicKey []byte) []byte {
	sum := sha256.Sum256(append([]byte("initbox generate certificate\x00"), publicKey...))
	return sum[:20]
}

func isOurs(cert *x509.Certificate) bool {
	return bytes.Equal(cert.SubjectKeyId, mark(cert.RawSubjectPublicKeyInfo))
}

// fits returns whether the key and the certificate belong together.
func fits(cert *x509.Certificate, key crypto.Signer) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

func (c *Certificate) check(old Files) (verdict, error) {
	authority, err := c.authority()
	if err != nil {
		return verdict{}, err
	}
	p, err := c.read(old)
	if err != nil {
		return verdict{}, err
	}
	if authority != nil && p.key != nil && fits(authority.cert, p.key) {
		return verdict{}, failure.WithHint(errors.New("it has the private key of the CA, which stays as it is"), "name another directory or file for what the CA signs")
	}
	if len(p.chain) == 0 {
		return verdict{Reason: "it is missing", Missing: true}, nil
	}
	v := verdict{Foreign: !isOurs(p.chain[0])}
	v.Reason = c.wrong(p, authority)
	if v.Reason == "" {
		v.Usable = true
		v.Reason = c.due(p.chain[0])
	}
	sameCA := c.OneFile || bytes.Equal(old[caFile], authority.trusted(p.chain[0]))
	if v.Reason == "" && !v.Foreign && (!sameCA || !bytes.Equal(encode(p.chain[1:]), encode(authority.above()))) {
		v.Reason = "ca.crt is missing, or the CA's chain is another"
	}
	return v, nil
}

// wrong returns why the certificate cannot be used, or "".
func (c *Certificate) wrong(p pair, a *authority) string {
	cert := p.chain[0]
	ips := apply(cert.IPAddresses, func(ip net.IP) netip.Addr {
		addr, _ := netip.AddrFromSlice(ip)
		return addr.Unmap()
	})
	slices.SortFunc(ips, netip.Addr.Compare)
	signer := cert
	if a != nil {
		signer = a.cert
	}
	switch now := c.now(); {
	case p.key == nil:
		return "its key is missing"
	case !fits(cert, p.key):
		return "its key belongs to another certificate"
	case now.After(cert.NotAfter):
		return "it expired at " + cert.NotAfter.Format(time.RFC3339)
	case !slices.Equal(slices.Sorted(slices.Values(cert.DNSNames)), c.DNS) || !slices.Equal(ips, c.IPs):
		return "it is for other names"
	case c.Subject != "" && cert.Subject.ToRDNSequence().String() != c.subject.ToRDNSequence().String():
		return "its subject is another"
	case cert.IsCA != c.IsCA:
		return "it is for another use"
	case !bytes.Equal(cert.RawIssuer, signer.RawSubject) || signer.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) != nil:
		return "its CA is another"
	}
	return ""
}

// due returns why the certificate is to be renewed, or "".
func (c *Certificate) due(cert *x509.Certificate) string {
	if left := cert.NotAfter.Sub(c.now()); left < cert.NotAfter.Sub(cert.NotBefore)/3 {
		return "less than a third of its time is left, until " + cert.NotAfter.Format(time.RFC3339)
	}
	return ""
}

func (c *Certificate) make(old Files) (Files, error) {
	authority, err := c.authority()
	if err != nil {
		return nil, err
	}
	p, err := c.read(old)
	if err != nil {
		return nil, err
	}
	if p.key == nil {
		if p.key, err = algorithms[c.Key.algorithm](); err == nil {
			p.keyPEM, err = c.Key.private(p.key)
		}
	}
	if err != nil {
		return nil, err
	}
	// A certificate that is right stays: only its chain and ca.crt are made again.
	if len(p.chain) == 0 || c.wrong(p, authority) != "" || c.due(p.chain[0]) != "" {
		cert, err := c.sign(p.key, authority)
		if err != nil {
			return nil, err
		}
		p.chain = []*x509.Certificate{cert}
	}
	chain := encode(append(p.chain[:1:1], authority.above()...))
	if c.OneFile {
		return Files{"": append(chain, p.keyPEM...)}, nil
	}
	return Files{keyFile: p.keyPEM, certFile: chain, caFile: authority.trusted(p.chain[0])}, nil
}

// sign returns a new certificate for the key.
func (c *Certificate) sign(key crypto.Signer, a *authority) (*x509.Certificate, error) {
	now, skew := c.now(), min(5*time.Minute, c.ValidFor/10) // of clocks
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               c.subject,
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(c.ValidFor),
		DNSNames:              c.DNS,
		IPAddresses:           apply(c.IPs, func(a netip.Addr) net.IP { return a.AsSlice() }),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          mark(public),
	}
	if _, isRSA := key.(*rsa.PrivateKey); isRSA {
		template.KeyUsage |= x509.KeyUsageKeyEncipherment // of TLS 1.2 without Diffie-Hellman
	}
	if c.IsCA {
		template.IsCA, template.ExtKeyUsage = true, nil
		template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	parent, signer := template, key
	if a != nil {
		parent, signer = a.cert, a.key
		if now.After(a.cert.NotAfter) {
			return nil, fmt.Errorf("the CA in %s expired at %s", c.CACertFile, a.cert.NotAfter.Format(time.RFC3339))
		}
		if template.NotAfter.After(a.cert.NotAfter) {
			template.NotAfter = a.cert.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encode(chain []*x509.Certificate) []byte {
	return certs.PEM(apply(chain, func(cert *x509.Certificate) certs.Entry { return certs.Entry{Cert: cert} }))
}

// authority is the CA that signs.
type authority struct {
	cert  *x509.Certificate
	key   crypto.Signer
	chain []*x509.Certificate // sent by servers: the CA, and those above it that are not roots
	roots []*x509.Certificate // that clients trust
}

// above returns the chain of certificates that the CA signs; it is empty without a CA.
func (a *authority) above() []*x509.Certificate {
	if a == nil {
		return nil
	}
	return a.chain
}

// trusted returns ca.crt: what clients have to trust to accept cert. Without a CA it is cert itself.
func (a *authority) trusted(cert *x509.Certificate) []byte {
	if a == nil {
		return encode([]*x509.Certificate{cert})
	}
	return encode(a.roots)
}

// authority reads the CA, or returns nil without one.
func (c *Certificate) authority() (*authority, error) {
	if c.CACertFile == "" {
		return nil, nil
	}
	found, err := certs.Read(c.CACertFile, "")
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("read the certificate of the CA: %w", err), "is the Secret mounted, and may this user read it?")
	}
	a := &authority{}
	if a.key, err = c.authorityKey(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.CAKeyFile, err)
	}
	for _, entry := range found.Entries {
		cert := entry.Cert
		if a.cert == nil && fits(cert, a.key) {
			a.cert = cert
		}
		if bytes.Equal(cert.RawSubject, cert.RawIssuer) {
			a.roots = append(a.roots, cert)
		} else {
			a.chain = append(a.chain, cert)
		}
	}
	switch {
	case a.cert == nil:
		return nil, fmt.Errorf("the key in %s belongs to no certificate in %s", c.CAKeyFile, c.CACertFile)
	case !a.cert.IsCA:
		return nil, failure.WithHint(fmt.Errorf("the certificate in %s does not belong to a CA, and no client would accept what it signs", c.CACertFile), "generate certificate --is-ca makes one")
	}
	if len(a.roots) == 0 {
		a.roots = []*x509.Certificate{a.cert}
	}
	return a, nil
}

func (c *Certificate) authorityKey() (crypto.Signer, error) {
	data, err := readfile.All(c.CAKeyFile)
	var password []byte
	if err == nil && c.CAKeyPassword != nil {
		password, err = c.CAKeyPassword()
	}
	if err != nil {
		return nil, err
	}
	return certs.ParseKey(data, password)
}

// apply returns the results of f for each item of a list.
func apply[A, B any](list []A, f func(A) B) []B {
	results := make([]B, len(list))
	for i, item := range list {
		results[i] = f(item)
	}
	return results
}
