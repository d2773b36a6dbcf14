package signature

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/internal/failure"
	"initbox/internal/poll"
)

const (
	commitKind = plumbing.CommitObject
	tagKind    = plumbing.TagObject
)

func mustRead(t testing.TB, files ...string) Keys {
	t.Helper()
	k, err := ReadKeys(files)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// refusedWith checks that an object is refused permanently, for that reason.
func refusedWith(t *testing.T, k Keys, raw []byte, kind plumbing.ObjectType, want string) {
	t.Helper()
	_, err := Verify(raw, kind, k)
	var f *failure.Failure
	switch {
	case err == nil || !strings.Contains(err.Error(), want):
		t.Errorf("error %v, want %q", err, want)
	case !poll.IsPermanent(err) || !errors.As(err, &f) || f.Class != Class:
		t.Errorf("%v: not a permanent failure of the class", err)
	}
}

func accepted(t *testing.T, k Keys, raw []byte, kind plumbing.ObjectType, fingerprint, name string) {
	t.Helper()
	s, err := Verify(raw, kind, k)
	if err != nil || s.Fingerprint != fingerprint || s.Name != name || s.Time.IsZero() {
		t.Errorf("%+v, %v; want %s, %s", s, err, fingerprint, name)
	}
}

func TestPGP(t *testing.T) {
	r := newRepo(t)
	g := newGPG(t, r)
	const alice, bob = "Alice <alice@example.org>", "Bob <bob@example.org>"
	a, b := g.key(alice, "ed25519", "never"), g.key(bob, "rsa2048", "never")
	both := mustRead(t, writeFile(t, "both.asc", g.do("--armor", "--export")))
	onlyBob := mustRead(t, g.export("bob.gpg", bob)) // binary
	concatenated := mustRead(t, writeFile(t, "keys.asc", bytes.Join([][]byte{
		[]byte("# Bob\n"), g.do("--armor", "--export", bob), []byte("\nAlice:\n"), g.do("--armor", "--export", alice)}, nil)))

	byAlice := r.commit(g.signWith(a)...)
	tagged := r.tag("v1", g.signWith(a)...)
	accepted(t, both, byAlice, commitKind, a, alice)
	accepted(t, both, tagged, tagKind, a, alice)
	accepted(t, concatenated, byAlice, commitKind, a, alice)
	accepted(t, onlyBob, r.commit(g.signWith(b)...), commitKind, b, bob)
	refusedWith(t, onlyBob, byAlice, commitKind, "the commit is signed by the OpenPGP key "+a[len(a)-16:]+", which is not among the given keys")
	refusedWith(t, both, r.commit(append(g.signWith(b, "--digest-algo", "SHA1"), "-c", "x.y=z")...), commitKind, "SHA-1")
	refusedWith(t, both, r.commit(), commitKind, "is not signed")
	r.git("tag", "-a", "-m", "unsigned", "plain")
	refusedWith(t, both, r.git("cat-file", "tag", "plain"), tagKind, "the tag is not signed")

	for name, raw := range tampered(byAlice) {
		if _, err := Verify(raw, commitKind, both); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, raw := range tampered(tagged) {
		if _, err := Verify(raw, tagKind, both); err == nil {
			t.Errorf("tag, %s: accepted", name)
		}
	}
	refusedWith(t, both, bytes.Replace(byAlice, []byte("subject"), []byte("Subject"), 1), commitKind, "has a bad signature: it does not match the content")
}

// tampered returns changes of an object that must not verify.
func tampered(raw []byte) map[string][]byte {
	first, rest, _ := bytes.Cut(raw, []byte("\n"))
	flipped := bytes.Clone(raw)
	flipped[len("tree ")+3] ^= 1
	armor := bytes.Index(raw, []byte("-----BEGIN PGP"))
	if at := bytes.Index(raw, []byte("\ngpgsig ")); at >= 0 {
		armor = at + 1
	}
	broken := bytes.Clone(raw)
	broken[armor+100] ^= 3
	return map[string][]byte{
		"a digit":                  flipped,
		"a header more":            append(append(bytes.Clone(first), "\nparent 0123456789012345678901234567890123456789\n"...), rest...),
		"more at the end":          append(bytes.Clone(raw), "more\n"...),
		"the signature":            broken,
		"without the last line":    raw[:bytes.LastIndexByte(bytes.TrimRight(raw, "\n"), '\n')],
		"a carriage return":        bytes.Replace(raw, []byte("\n"), []byte("\r\n"), 1),
		"an empty object":          nil,
		"the signature over again": append(append(bytes.Clone(raw[:armor]), raw[armor:]...), raw[armor:]...),
	}
}

// TestPGPExpired pins that expired keys are refused, as git refuses them.
func TestPGPExpired(t *testing.T) {
	r := newRepo(t)
	g := newGPG(t, r)
	then := []string{"--faked-system-time", "20200101T000000!"}
	expired := g.key("Expired <e@example.org>", "ed25519", "seconds=86400", then...)
	expiring := g.key("Expiring <x@example.org>", "ed25519", "never")
	revoked := g.key("Revoked <r@example.org>", "ed25519", "never")
	byExpired := r.commit(g.signWith(expired, then...)...)
	if out, err := gitVerify(r, g.signWith(expired)); err == nil {
		t.Errorf("git accepts: %s", out)
	}
	byRevoked := r.commit(g.signWith(revoked)...)
	shortLived := r.commit(g.signWith(expiring, "--default-sig-expire", "seconds=86400", "--faked-system-time", "20400101T000000!")...)

	certificate, err := os.ReadFile(g.home + "/openpgp-revocs.d/" + revoked + ".rev")
	if err != nil {
		t.Fatal(err)
	}
	g.do("--import", writeFile(t, "revoke.asc", bytes.Replace(certificate, []byte(":-----BEGIN"), []byte("-----BEGIN"), 1)))
	keys := mustRead(t, writeFile(t, "keys.asc", g.do("--armor", "--export")))

	refusedWith(t, keys, byExpired, commitKind, expired+", which expired on 2020-01-02T00:00:00Z")
	refusedWith(t, keys, byRevoked, commitKind, revoked+", which was revoked on 20")
	refusedWith(t, keys, shortLived, commitKind, "has a signature from the future, 2040-01-01T00:00:00Z")
}

func TestSSH(t *testing.T) {
	r := newRepo(t)
	file, public := sshKeygen(t, r, "-t", "ed25519")
	other, otherPublic := sshKeygen(t, r, "-t", "rsa", "-b", "2048")
	ecdsa, ecdsaPublic := sshKeygen(t, r, "-t", "ecdsa")
	print := strings.Fields(string(r.run("ssh-keygen", "-lf", file)))[1]
	otherPrint := strings.Fields(string(r.run("ssh-keygen", "-lf", other)))[1]
	commit := r.commit(sshWith(file)...)
	tagged := r.tag("v1", sshWith(file)...)
	keys := mustRead(t, writeFile(t, "keys", []byte("# team\n\n"+public+"\n"+ecdsaPublic+"\n")))

	accepted(t, keys, commit, commitKind, print, "alice@laptop")
	accepted(t, keys, tagged, tagKind, print, "alice@laptop")
	accepted(t, mustRead(t, writeFile(t, "rsa", []byte(otherPublic))), r.commit(sshWith(other)...), commitKind, otherPrint, "alice@laptop")
	if _, err := Verify(r.commit(sshWith(ecdsa)...), commitKind, keys); err != nil {
		t.Error(err)
	}
	refusedWith(t, keys, r.commit(sshWith(other)...), commitKind, "is signed by the SSH key "+otherPrint+", which is not among the given")
	refusedWith(t, keys, bytes.Replace(commit, []byte("subject"), []byte("Subject"), 1), commitKind, "does not match the content")
	for name, raw := range tampered(commit) {
		if _, err := Verify(raw, commitKind, keys); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}

	// A signature that the same key has made for something else.
	payload, _ := cutHeaders(commit, true)
	made := writeFile(t, "payload", payload)
	r.run("ssh-keygen", "-q", "-Y", "sign", "-n", "file", "-f", file, made)
	armored, err := os.ReadFile(made + ".sig")
	if err != nil {
		t.Fatal(err)
	}
	refusedWith(t, keys, withSignature(payload, armored), commitKind, `it was made for "file", not for git`)
}

// withSignature puts a signature into the header of a commit.
func withSignature(payload, armored []byte) []byte {
	header, message, _ := bytes.Cut(payload, []byte("\n\n"))
	lines := strings.ReplaceAll(strings.TrimSpace(string(armored)), "\n", "\n ")
	return []byte(string(header) + "\ngpgsig " + lines + "\n\n" + string(message))
}

// TestAllowedSigners pins what a line permits, and compares with ssh-keygen, through git, where it accepts the same
// line.
func TestAllowedSigners(t *testing.T) {
	r := newRepo(t)
	file, public := sshKeygen(t, r, "-t", "ed25519")
	commit := r.commit(sshWith(file)...) // of 2023-11-14T22:13:20Z
	for _, tt := range []struct{ line, want string }{
		{"alice@example.org,bob@example.org " + public, ""},
		{`"alice@example.org" ` + public, ""},
		{`a namespaces="git" ` + public, ""},
		{`a namespaces="file,git" ` + public, ""},
		{`a namespaces="file" ` + public, "is not permitted for git"},
		{`a valid-after="20231114Z",valid-before="20231115Z" ` + public, ""},
		{`a valid-after="20231115Z" ` + public, "is valid only after 2023-11-15"},
		{`a valid-before="20231114Z" ` + public, "was valid only before 2023-11-14"},
		{"a cert-authority " + public, "certificates (cert-authority) is not supported"},
	} {
		keysFile := writeFile(t, "allowed", []byte(tt.line+"\n"))
		keys, err := ReadKeys([]string{keysFile})
		if err == nil {
			_, err = Verify(commit, commitKind, keys)
		}
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%.40s: %v, want %q", tt.line, err, tt.want)
		}
		out, gitErr := gitVerify(r, []string{"-c", "gpg.format=ssh", "-c", "gpg.ssh.allowedSignersFile=" + keysFile})
		if (gitErr == nil) != (tt.want == "") {
			t.Errorf("%.40s: git: %v %s", tt.line, gitErr, out)
		}
	}
	for line, want := range map[string]string{
		"restrict,command=\"a b\",no-pty " + public:     "", // authorized_keys
		"from=\"10.0.0.0/8\" " + public:                 "",
		"cert-authority " + public:                      "cert-authority",
		"expiry-time=\"20200101\" " + public:            "was valid only before 20",
		"a valid-after=\"soon\" " + public:              `line 1: "soon" is not a time`,
		"hello world":                                   "line 1: no public key",
		"a b c " + public:                               "line 1: no public key",
		"# nothing":                                     "it contains no key",
		"":                                              "it contains no key",
		"-----BEGIN OPENSSH PRIVATE KEY-----\nAAA":      "private key",
		"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!!!":   "damaged",
		"-----BEGIN PGP MESSAGE-----\n\nAAAA\n-----END": "not public keys",
		"\x99\x01":                                      "not OpenPGP keys: unexpected EOF",
	} {
		keys, err := ReadKeys([]string{writeFile(t, "keys", []byte(line))})
		if err == nil {
			_, err = Verify(commit, commitKind, keys)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.40q: %v, want %q", line, err, want)
		}
	}
	if _, err := ReadKeys([]string{t.TempDir() + "/missing"}); err == nil || poll.IsPermanent(err) || failure.Of(err).Class != failure.Missing {
		t.Errorf("a missing file: %v", err)
	}
}

func gitVerify(r *gitRepo, config []string) (out []byte, err error) {
	return command(r, append(config, "verify-commit", "HEAD")...).CombinedOutput()
}

// TestSplit pins which bytes a signature covers, as in git.
func TestSplit(t *testing.T) {
	const pgp = "-----BEGIN PGP SIGNATURE-----"
	for _, tt := range []struct {
		name, raw, payload, signature string
		kind                          plumbing.ObjectType
	}{
		{"commit", "tree t\ngpgsig " + pgp + "\n \n x\nencoding e\n\nm\ngpgsig y\n", "tree t\nencoding e\n\nm\ngpgsig y\n", pgp + "\n\nx\n", commitKind},
		{"the other hash", "tree t\ngpgsig-sha256 " + pgp + "\n x\n\nm", "tree t\n\nm", "", commitKind},
		{"both", "tree t\ngpgsig-sha256 a\n x\ngpgsig " + pgp + "\n y\n\nm", "tree t\n\nm", pgp + "\ny\n", commitKind},
		{"like it", "tree t\ngpgsigx a\n x\nmergetag b\n c\n\nm", "tree t\nmergetag b\n c\n\nm", "", commitKind},
		{"no message", "tree t\ngpgsig " + pgp, "tree t\n", pgp, commitKind},
		{"tag", "object o\n\nm\n" + pgp + "\nx\n", "object o\n\nm\n", pgp + "\nx\n", tagKind},
		{"the last", "object o\n\n" + pgp + "\nx\n" + pgp + "\ny\n", "object o\n\n" + pgp + "\nx\n", pgp + "\ny\n", tagKind},
		{"not at the line's start", "object o\n\nm " + pgp + "\nx\n", "object o\n\nm " + pgp + "\nx\n", "", tagKind},
		{"tag, the other hash", "object o\ngpgsig-sha256 a\n b\n\nm\n" + pgp, "object o\n\nm\n", pgp, tagKind},
	} {
		s, err := split([]byte(tt.raw), tt.kind)
		if err != nil || string(s.payload) != tt.payload || string(s.signature) != tt.signature {
			t.Errorf("%s: %q, %q, %v; want %q, %q", tt.name, s.payload, s.signature, err, tt.payload, tt.signature)
		}
	}
	for raw, want := range map[string]string{
		"tree t\ngpgsig " + pgp + "\n x\ngpgsig " + pgp + "\n y\n\nm":                  "has 2 signatures",
		"tree t\ngpgsig -----BEGIN SIGNED MESSAGE-----\n x\n\nm":                       "X.509 certificate, which is not supported",
		"tree t\ngpgsig hello\n\nm":                                                    "an unknown kind of signature",
		"tree t\ngpgsig " + pgp + strings.Repeat("\n "+strings.Repeat("A", 1000), 300): "more than",
	} {
		refusedWith(t, Keys{}, []byte(raw), commitKind, want)
	}
	refusedWith(t, Keys{}, []byte("x"), plumbing.BlobObject, "neither a commit nor a tag")
}
