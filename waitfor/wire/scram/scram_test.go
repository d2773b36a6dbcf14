package scram

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
	"testing"

	"initbox/internal/failure"
)

// TestSCRAMVectors pins the example of RFC 7677, section 3. No RFC has one for SHA-512: that was made with Python's
// hashlib.
func TestSCRAMVectors(t *testing.T) {
	for name, v := range map[string]struct {
		hash                                                func() hash.Hash
		nonce, serverFirst, wantFirst, wantFinal, serverEnd string
	}{
		"SHA-256": {
			sha256.New, "rOprNGfwEbeRWgbNEkqO",
			"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
			"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
			"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
			"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
		},
		"SHA-512": {
			sha512.New, "rOprNGfwEbeRWgbNEkqO",
			"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
			"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
			"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
			"v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
		},
	} {
		s := New(v.hash, "user", "pencil")
		s.nonce = v.nonce
		if first := s.First(); first != v.wantFirst {
			t.Errorf("%s: begins with %s, want %s", name, first, v.wantFirst)
		}
		if final, err := s.Final(v.serverFirst); final != v.wantFinal || err != nil {
			t.Errorf("%s: answers %s, %v, want %s", name, final, err, v.wantFinal)
		}
		if err := s.Verify(v.serverEnd); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSCRAMHostile pins which answers of a server are refused.
func TestSCRAMHostile(t *testing.T) {
	for serverFirst, want := range map[string]string{
		"":                             "is not SCRAM",
		"r=NONCE,s=AAAA,i=4096":        "is not SCRAM", // its own part of the nonce is missing
		"r=other,s=AAAA,i=4096":        "is not SCRAM",
		"r=NONCEx,s=,i=4096":           "is not SCRAM",
		"r=NONCEx,s=@,i=4096":          "is not SCRAM",
		"r=NONCEx,s=AAAA,i=0":          "is not SCRAM",
		"r=NONCEx,s=AAAA,i=-1":         "is not SCRAM",
		"r=NONCEx,s=AAAA,i=1e9":        "is not SCRAM",
		"r=NONCEx,s=AAAA":              "is not SCRAM",
		"m=x,r=NONCEx,s=AAAA,i=1":      "extension",
		"r=NONCEx,s=AAAA,i=1":          "",
		"r=NONCEx,s=AA==,i=4096,x":     "",
		"r=NONCEx,s=AAAA,i=2000000000": "2000000000 iterations of the hash, more than 1000000",
	} {
		s := New(sha512.New, "a=b,c", "hUnter2")
		s.nonce = "NONCE"
		if !strings.HasPrefix(s.First(), "n,,n=a=3Db=2Cc,r=") {
			t.Fatal(s.First())
		}
		_, err := s.Final(serverFirst)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", serverFirst, err)
		case want != "" && (err == nil || failure.Of(err).Class != failure.Unexpected || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %s", serverFirst, err, want)
		}
	}
	s := New(sha256.New, "", "hUnter2")
	if err := s.Verify("v="); err == nil {
		t.Error("a server is verified before it has sent anything")
	}
	if _, err := s.Final("r=" + s.nonce + "x,s=AAAA,i=4096"); err != nil {
		t.Fatal(err)
	}
	for _, final := range []string{"", "v", "v=", "v=AAAA", "v=" + base64.StdEncoding.EncodeToString(make([]byte, 32)), "e=other-error hUnter2", "x=y"} {
		err := s.Verify(final)
		if failure.Of(err).Class != failure.Authentication || strings.Contains(fmt.Sprint(err), "hUnter2") {
			t.Errorf("%s: %v", final, err)
		}
	}
}

func FuzzSCRAM(f *testing.F) {
	f.Add("r=NONCE%hvYDpWUa2RaTCAfuxFIlj,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=2", "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
	f.Add("r=NONCEx,s=AAAA,i=1", "e=invalid-proof")
	f.Fuzz(func(t *testing.T, serverFirst, serverFinal string) {
		if _, count, ok := strings.Cut(serverFirst, "i="); ok && len(count) > 3 {
			t.Skip() // takes as long as it should
		}
		s := New(sha256.New, "user", "pencil")
		s.nonce = "NONCE"
		final, err := s.Final(serverFirst)
		if err == nil && !strings.HasPrefix(final, "c=biws,r=NONCE") {
			t.Errorf("%q: %q", serverFirst, final)
		}
		if s.Verify(serverFinal) == nil {
			t.Errorf("%q: %q proves the server", serverFirst, serverFinal)
		}
	})
}
