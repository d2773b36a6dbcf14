package signature

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"

	"initbox/clone/object"
)

// TestRevision pins that a signed tag does not vouch for a commit that it does not point to, whatever the server says,
// nor under another name.
func TestRevision(t *testing.T) {
	r := newRepo(t)
	file, public := sshKeygen(t, r, "-t", "ed25519")
	keys := mustRead(t, writeFile(t, "keys", []byte(public)))
	objects := map[plumbing.Hash][]byte{}
	keep := func(kind plumbing.ObjectType, raw []byte) plumbing.Hash {
		id, err := object.NewHasher().Of(kind, raw)
		if err != nil {
			t.Fatal(err)
		}
		objects[id] = raw
		return id
	}
	plain := keep(commitKind, r.commit())
	signedTag := keep(tagKind, r.tag("v1", sshWith(file)...))
	r.git("tag", "-a", "-m", "of a tag", "outer", "v1")
	outer := keep(tagKind, r.git("cat-file", "tag", "outer"))
	r.git("tag", "-a", "-m", "plain", "unsigned")
	unsignedTag := keep(tagKind, r.git("cat-file", "tag", "unsigned"))
	signedCommit := keep(commitKind, r.commit(sshWith(file)...))
	r.git("tag", "-a", "-m", "plain", "v2")
	tagOfSigned := keep(tagKind, r.git("cat-file", "tag", "v2"))
	gone := plumbing.NewHash("0123456789012345678901234567890123456789")

	for name, tt := range map[string]struct {
		start, commit plumbing.Hash
		tag           string
		kind          plumbing.ObjectType
		want          string
	}{
		"a signed commit":            {signedCommit, signedCommit, "", commitKind, ""},
		"an unsigned commit":         {plain, plain, "", 0, "the commit is not signed"},
		"a signed tag":               {signedTag, plain, "v1", tagKind, ""},
		"its name was not asked":     {signedTag, plain, "", tagKind, ""},
		"a tag of a signed tag":      {outer, plain, "outer", tagKind, ""},
		"a tag of a signed commit":   {tagOfSigned, signedCommit, "v2", commitKind, ""},
		"an unsigned tag":            {unsignedTag, plain, "unsigned", 0, "the tag is not signed"},
		"under another name":         {signedTag, plain, "v9", 0, "the tag was made as v1, not as v9"},
		"another commit":             {signedTag, signedCommit, "v1", commitKind, ""}, // which is signed itself
		"another, unsigned commit":   {signedTag, keep(commitKind, append(r.commit(), "x"...)), "v1", 0, "the tag points to a commit other than the one that the server reported"},
		"a commit that did not come": {signedTag, gone, "v1", 0, "was not received"},
	} {
		s, kind, err := VerifyRevision(Revision{Start: tt.start, Commit: tt.commit, Tag: tt.tag, Objects: objects}, keys)
		if tt.want == "" && (err != nil || kind != tt.kind || s.Name != "alice@laptop") || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %s, %v, %v; want %q", name, s, kind, err, tt.want)
		}
	}
}
