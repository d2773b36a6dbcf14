package remote

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"initbox/internal/certs"
	"initbox/internal/failure"
	"initbox/internal/readfile"
	"initbox/internal/secret"
)

// sshKey is a private key, with or without a certificate.
type sshKey struct {
	file string
	ssh.Signer
}

func (k sshKey) String() string {
	key, more := k.PublicKey(), ""
	if cert, ok := key.(*ssh.Certificate); ok {
		key, more = cert.Key, ", with a certificate"
		if before := cert.ValidBefore; before != ssh.CertTimeInfinity && uint64(time.Now().Unix()) >= before {
			more = ", with a certificate that has expired"
		}
	}
	return k.file + " (" + fingerprint(key) + more + ")"
}

// fingerprint returns the type and the fingerprint of a key, as ssh-keygen -l prints them.
func fingerprint(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

func signers(keys []sshKey) []ssh.Signer {
	var s []ssh.Signer
	for _, k := range keys {
		s = append(s, k.Signer)
	}
	return s
}

// keys reads the key files and the certificates beside them. A key with its certificate comes before the key alone. The
// mode of the files is not checked: the files of a Secret belong to root and are readable by the Pod's group.
func (s SSH) keys() ([]sshKey, error) {
	var keys []sshKey
	for _, file := range s.KeyFiles {
		signer, err := readKey(file, s.PassphraseFile)
		if err != nil {
			return nil, err
		}
		certified, err := readCertificate(file+"-cert.pub", signer)
		if err != nil {
			return nil, err
		}
		if certified != nil {
			keys = append(keys, sshKey{file, certified})
		}
		keys = append(keys, sshKey{file, signer})
	}
	return keys, nil
}

func readKey(file, passphraseFile string) (ssh.Signer, error) {
	text, err := secret.Read(file)
	if err != nil {
		return nil, err
	}
	raw, err := parseKey(tidy(text), passphraseFile)
	if err == nil {
		var signer ssh.Signer
		if signer, err = ssh.NewSignerFromKey(raw); err == nil {
			return signer, nil
		}
	}
	var known *failure.Failure
	if errors.As(err, &known) && known.Class == failure.Missing { // the passphrase
		return nil, err
	}
	return nil, badKey(file, text, passphraseFile, err)
}

// tidy removes spaces and carriage returns at the ends of lines, which come from YAML and from Windows, and ends the
// last line, as OpenSSH requires, too.
func tidy(text string) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.Bytes()
}

// parseKey parses a key in the format of OpenSSH (PROTOCOL.key), PKCS #1, PKCS #8 or SEC 1, and reads the passphrase if
// the key is encrypted.
func parseKey(text []byte, passphraseFile string) (any, error) {
	passphrase := func() ([]byte, error) {
		if passphraseFile == "" {
			return nil, &ssh.PassphraseMissingError{}
		}
		s, err := secret.Read(passphraseFile)
		return []byte(s), err
	}
	if block, _ := pem.Decode(text); block != nil && block.Type == "ENCRYPTED PRIVATE KEY" {
		p, err := passphrase()
		if err != nil {
			return nil, err
		}
		return certs.DecryptPKCS8(block.Bytes, p)
	}
	raw, err := ssh.ParseRawPrivateKey(text)
	if !errors.As(err, new(*ssh.PassphraseMissingError)) {
		return raw, err
	}
	p, err := passphrase()
	if err != nil {
		return nil, err
	}
	return ssh.ParseRawPrivateKeyWithPassphrase(text, p)
}

// badKey explains what is wrong with a key file, without quoting it.
func badKey(file, text, passphraseFile string, err error) error {
	f := failure.New(failure.Local, "SSH key file %s: ", file)
	begin, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	_, _, _, _, notPublic := ssh.ParseAuthorizedKey([]byte(begin))
	switch {
	case errors.As(err, new(*ssh.PassphraseMissingError)):
		f.Text += "the key is encrypted, and no passphrase was given"
		f.Hint = "give one with --ssh-passphrase-file"
	case errors.Is(err, x509.IncorrectPasswordError):
		f.Text += "the passphrase is wrong"
		f.Hint = "does " + passphraseFile + " belong to this key?"
	case begin == "":
		f.Class = failure.Missing
		f.Text += "the file is empty"
		f.Hint = "is the Secret filled in?"
	case notPublic == nil && strings.Contains(begin, "-cert-v01@"):
		f.Text += "it is a certificate, not a private key"
		f.Hint = "give the file of the key; its certificate is read from KEY-cert.pub beside it"
	case notPublic == nil || strings.Contains(begin, "PUBLIC KEY"):
		f.Text += "it is a public key, not a private one"
		f.Hint = "give the other file, whose name has no .pub"
	case strings.HasPrefix(begin, "PuTTY-User-Key-File"):
		f.Text += "it is in PuTTY's format"
		f.Hint = "convert it: puttygen KEY -O private-openssh -o NEW"
	case strings.Count(begin, "-----") > 2, strings.Contains(text, `\n`):
		f.Text += "its line breaks are lost"
		f.Hint = "keep the line breaks of the key, as kubectl create secret generic --from-file does"
	case !strings.HasPrefix(begin, "-----BEGIN"):
		f.Text += "it is not a private key"
		f.Hint = "it must begin with -----BEGIN, as ssh-keygen writes it; in a Secret's data it is encoded in base64 once, not twice"
	case !strings.Contains(text, "-----END"):
		f.Text += "it is cut off"
		f.Hint = "the last line must be -----END …-----"
	default:
		f.Text += "it cannot be parsed: " + failure.Printable(strings.TrimPrefix(err.Error(), "ssh: "))
		f.Hint = "does ssh-keygen -y -f FILE print its public key? keys on a hardware token are not supported"
	}
	return f
}

// readCertificate returns the key with its certificate, or nil if it has none.
func readCertificate(file string, signer ssh.Signer) (ssh.Signer, error) {
	text, err := readfile.All(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, failure.Of(err)
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if cert, ok := key.(*ssh.Certificate); ok && err == nil {
		if certified, err := ssh.NewCertSigner(cert, signer); err == nil {
			return certified, nil
		}
	}
	return nil, failure.New(failure.Local, "SSH certificate %s: not a certificate of the key beside it", file).
		WithHint("remove it, or have the key signed again: ssh-keygen -s CA -I ID -n USER KEY.pub")
}
