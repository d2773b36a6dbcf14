// Package keystore puts a private key and its certificates, as they are mounted from a Secret, into the stores of
// programs that do not read them from there, such as Kafka, Elasticsearch, Keycloak and WebLogic: PKCS#12, Java's own
// JKS, and one PEM file with both.
//
//	result, err := keystore.Run(keystore.Options{
//		CertFile: "/tls/tls.crt", KeyFile: "/tls/tls.key", CAFile: "/tls/ca.crt",
//		PKCS12: "/stores/keystore.p12", Alias: keystore.DefaultAlias, Attr: stage.Attr{Mode: 0o600, UID: -1, GID: -1},
//	})
//
// The same content and password give the same bytes, and a file that is right already is not touched.
package keystore

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"initbox/internal/certs"
	"initbox/internal/failure"
	"initbox/internal/perm"
	"initbox/internal/secret"
	"initbox/internal/stage"
	"initbox/internal/words"
)

// DefaultAlias is the alias of the key. It is that of cert-manager's stores.
const DefaultAlias = "certificate"

// Options say what is put where. At least one of PKCS12, JKS and PEM is given.
type Options struct {
	CertFile        string // the certificate and, in any order, those that issued it; PEM or DER
	KeyFile         string // its key; "" if CertFile holds both
	KeyPasswordFile string // the password of an encrypted key
	CAFile          string // certificates that complete the chain and that the stores trust, or a folder of them; may be ""

	PKCS12, JKS, PEM string // the files to write
	Alias            string // of the key
	PasswordFile     string // the password of the stores, and of the key in PEM; "" is [certs.DefaultPassword], and none for PEM
	PasswordEnv      string // the variable that has it
	Getenv           func(name string) string

	Attr   stage.Attr
	Follow bool // follow symbolic links to the directories of the stores
	DryRun bool // only compare
}

// Result is what a run did.
type Result struct {
	Files    []File
	Revision string   // identifies the certificates in the stores, in hex
	Content  string   // the key and its chain, for messages
	Warnings []string // what a peer may refuse
}

// File is one store.
type File struct {
	Path string
	stage.Change
}

// Size returns how many bytes the run wrote.
func (r Result) Size() (size int64) {
	for _, f := range r.Files {
		size += f.Size
	}
	return size
}

// Changed returns whether the run changed a file, or would have.
func (r Result) Changed() bool {
	return slices.ContainsFunc(r.Files, func(f File) bool { return f.Kind != stage.Unchanged })
}

// outputs returns the stores to write, by what makes their content.
func (o Options) outputs() (list []output) {
	for _, out := range []output{{o.PKCS12, certs.PKCS12}, {o.JKS, certs.JKS}, {o.PEM, o.keyPEM}} {
		if out.path != "" {
			list = append(list, out)
		}
	}
	return list
}

type output struct {
	path   string
	encode func(key *certs.Key, trusted []certs.Entry, password string) ([]byte, error)
}

// keyPEM is the file in PEM. Only a password that was chosen encrypts it.
func (o Options) keyPEM(key *certs.Key, _ []certs.Entry, password string) ([]byte, error) {
	if o.PasswordFile+o.PasswordEnv == "" {
		password = ""
	}
	return certs.KeyPEM(key, password)
}

// Check returns what is wrong with the options, before anything is read.
func (o Options) Check() error {
	seen := map[string]bool{}
	for _, out := range o.outputs() {
		path, err := filepath.Abs(out.path)
		if err != nil {
			return err
		}
		if seen[path] {
			return fmt.Errorf("%s is given for two stores", failure.Printable(out.path))
		}
		seen[path] = true
		for _, source := range []string{o.CertFile, o.KeyFile, o.KeyPasswordFile, o.CAFile, o.PasswordFile} {
			folder, err := filepath.Abs(source)
			rel, errRel := filepath.Rel(folder, path)
			if source != "" && errors.Join(err, errRel) == nil && filepath.IsLocal(rel) {
				return fmt.Errorf("%s would replace what it is made of, or be in its folder", failure.Printable(out.path))
			}
		}
	}
	switch {
	case o.CertFile == "":
		return failure.WithHint(errors.New("no certificate given"), "give one with --cert-file, as in --cert-file /tls/tls.crt --key-file /tls/tls.key")
	case o.PasswordFile != "" && o.PasswordEnv != "":
		return errors.New("--password-file and --password-env are mutually exclusive")
	case len(seen) == 0:
		return failure.WithHint(errors.New("no store given"), "give one with --pkcs12, --jks or --pem")
	}
	return nil
}

// Run writes the stores that are not right yet. All are made before the first one is written. Its errors have no
// secrets, and hints that name the flags of the subcommand.
func Run(o Options) (Result, error) {
	password, err := o.password()
	if err != nil {
		return Result{}, err
	}
	var r Result
	key, trusted, err := o.load(&r)
	if errors.Is(err, errMismatch) {
		r = Result{}
		key, trusted, err = o.load(&r) // the Secret may have been renewed between the two files
	}
	if err != nil {
		return Result{}, err
	}
	r.Revision, r.Content = revision(key.Chain, trusted), describe(key.Chain)
	var contents [][]byte
	for _, out := range o.outputs() {
		content, err := out.encode(key, trusted, password)
		if err != nil {
			return Result{}, fmt.Errorf("make %s: %w", failure.Printable(out.path), err)
		}
		contents = append(contents, content)
	}
	for i, out := range o.outputs() {
		change, err := o.write(out.path, contents[i])
		if err != nil {
			return r, perm.Failed("write", perm.Write, out.path, err)
		}
		r.Files = append(r.Files, File{out.path, change})
	}
	return r, nil
}

// password returns that of the stores.
func (o Options) password() (string, error) {
	password, err := secret.Password(o.PasswordFile, o.PasswordEnv, o.Getenv)
	return cmp.Or(password, certs.DefaultPassword), err
}

// write puts one store in place.
func (o Options) write(path string, content []byte) (change stage.Change, err error) {
	s, err := stage.Open(filepath.Dir(path), stage.Options{DryRun: o.DryRun, Follow: o.Follow})
	if err != nil {
		return change, err
	}
	defer s.Close()
	if change, err = s.Put(filepath.Base(path), content, o.Attr); err != nil || o.DryRun {
		return change, err
	}
	_, err = s.Commit()
	return change, err
}

// expiry returns why no peer accepts the certificate now, or "". The store is written all the same: a later run
// replaces it, when the certificate is renewed.
func expiry(leaf *x509.Certificate) string {
	const minute = "2006-01-02 15:04 MST"
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		return fmt.Sprintf("the certificate of %s expired on %s", name(leaf), leaf.NotAfter.UTC().Format(minute))
	case now.Before(leaf.NotBefore):
		return fmt.Sprintf("the certificate of %s is not valid before %s", name(leaf), leaf.NotBefore.UTC().Format(minute))
	}
	return ""
}

// describe returns what the stores hold.
func describe(chain []*x509.Certificate) string {
	return fmt.Sprintf("the key of %s with %s, valid until %s", name(chain[0]), words.Plural(len(chain), "certificate"), chain[0].NotAfter.UTC().Format(time.DateOnly))
}

// revision returns a hash of all certificates.
func revision(chain []*x509.Certificate, trusted []certs.Entry) string {
	h := sha256.New()
	for _, cert := range chain {
		h.Write(cert.Raw)
	}
	h.Write(certs.PEM(trusted))
	return hex.EncodeToString(h.Sum(nil))
}
