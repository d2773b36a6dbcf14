package signature

import (
	"bytes"
	"os"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

// FuzzSplit pins that a payload contains no more and no less than the object.
func FuzzSplit(f *testing.F) {
	const pgp = "-----BEGIN PGP SIGNATURE-----"
	f.Add([]byte("tree t\ngpgsig "+pgp+"\n x\ngpgsig-sha256 a\n\nm\n"), true)
	f.Add([]byte("object o\n\nm\n"+pgp+"\nx\n"), false)
	f.Fuzz(func(t *testing.T, raw []byte, commit bool) {
		kind := plumbing.TagObject
		if commit {
			kind = plumbing.CommitObject
		}
		s, err := split(raw, kind)
		if err != nil {
			return
		}
		if len(s.payload)+len(s.signature) > len(raw) {
			t.Fatalf("%d + %d of %d bytes", len(s.payload), len(s.signature), len(raw))
		}
		if !commit {
			return
		}
		again, none := cutHeaders(s.payload, true)
		if len(none) > 0 || !bytes.Equal(again, s.payload) {
			t.Fatalf("a signature is left in %q", s.payload)
		}
	})
}

// FuzzSSH pins that no text breaks the parser of SSH signatures, and that forgeries do not verify.
func FuzzSSH(f *testing.F) {
	armored, err := os.ReadFile("testdata/ssh-signature")
	if err != nil {
		f.Fatal(err)
	}
	line, err := os.ReadFile("testdata/ssh-key.pub")
	if err != nil {
		f.Fatal(err)
	}
	var keys Keys
	if err := keys.add(line); err != nil {
		f.Fatal(err)
	}
	f.Add(armored)
	blob, err := sshBlob(armored)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(blob)
	f.Fuzz(func(t *testing.T, data []byte) {
		parseSSH(data)
		s := &signed{format: formatSSH, payload: []byte("not what was signed"), signature: data}
		if _, err := keys.verifySSH(s); err == nil {
			t.Fatal("verified")
		}
	})
}

// FuzzKeys pins that no text breaks the parsers of keys and OpenPGP signatures.
func FuzzKeys(f *testing.F) {
	line, err := os.ReadFile("testdata/ssh-key.pub")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte(`a@b namespaces="git",valid-after="20200101" `), line...))
	for _, name := range []string{"testdata/pgp-key.asc", "testdata/pgp-signature"} {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	pgp, err := os.ReadFile("testdata/pgp-key.asc")
	if err != nil {
		f.Fatal(err)
	}
	var keys Keys
	if err := keys.add(pgp); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		new(Keys).add(data)
		s := &signed{format: formatPGP, payload: []byte("not what was signed"), signature: data}
		if _, err := keys.verifyPGP(s); err == nil {
			t.Fatal("verified")
		}
	})
}
