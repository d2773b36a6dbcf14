package certs

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// encryptedKeys are one key of ECDSA in ENCRYPTED PRIVATE KEY of several kinds, as
// openssl pkcs8 -topk8 makes them; the passphrase is sesame.
var encryptedKeys = map[string]string{
	"AES-256, SHA-256": "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAi+ZL7qQt4jcAICA+gwDAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEFcdp2WmY/i9OInJdWiTFqMEgZDHnVRpla8b51l8ci+JpSgs/sryNjmsvgqMtT6oAtpsCpTlXNBvP9zSa5N2NINEaj9gCsFhLOWMsBDmXOdWH5nwBvfENruYFGyyOwD3OFygyoT+L4uskMt6XxHRO16jUX5uSUadKd1GhwplfwCBEsDWIf9DOqoufCL31LaAPKa4wA9JzSKNMxn6ZxhVl6KmGVI=",
	"AES-128, SHA-512": "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgPoku3YZ+LtQICA+gwDAYIKoZIhvcNAgsFADAdBglghkgBZQMEAQIEEKXR1gj9rT25JffaIDRyuUAEgZD7NtPAe56g25ZwhkaLbYyI5E9he7P73lNrFI4mOgDJUO28r5IfS7C848+lNKXXVeiD3Ev3Kt9odRrWJNFLmckrnCX63Z2aJwbnU0+xLoTybGKo/pmyt6HC8jGK6AZHD8Rcn3m85+M+fZc+N0GJvyvgKWElhwvvVYeDxvbNYRcrvZ71dfGhVC+0BnlL4QfM3i4=",
	"3DES, SHA-1":      "MIHVMEAGCSqGSIb3DQEFDTAzMBsGCSqGSIb3DQEFDDAOBAi5/d4ZSnltjAICA+gwFAYIKoZIhvcNAwcECCEOTHLlY3s+BIGQvosaXlMH8u5p3GbeDxYQFBLlAEn7Fi7wxcsfVQ82J/AoeAFl+2TDei92n1/EMPJ4fbF5Zr3N1PoryYd5o9zZLnBLEyGgrUakM3NDWtImBNzV9eSRTJIFsqmqRsbuc8FOb/oolNKLE5SjS2Bvp+hbdwHyVP/lsl6y961y8xHi7MMMbNQwBbq+1PdWPB8BOzs0",
	"AES-192, scrypt":  "MIHkME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAjkwrWUQnyDwwICBAACAQgCAQEwHQYJYIZIAWUDBAEWBBCl7CZU//lD0YND5B7ClMdmBIGQTj9avYJMZ2eBkdycQcXE1bYdXwicIpKtI1/eOiETRdM4PJWFRDS6BlSmM/zxvUSbu+uYhxLJGkcpnc4LlNCc9mqRbzC91Uf+nWbLsUxsMyajBcl7pczMlGfLrmJfCEzXv8+RzkYgWLwQ6sO4kEilwvx/0+p6qS56a8F/rxr8C0Pstvlyceun9Fuwkbjx7hU1",
}

// withoutPBES2 is the same key in an older, unsupported encryption.
const withoutPBES2 = "MIGxMBwGCiqGSIb3DQEMAQMwDgQIm9k9N6kZTtQCAggABIGQF1tb8wgNpS1GTFOM/MH3GLH6eSuriVCOkH7S5BrRbR8GGVn6dVPYgvO/9A5JE2VhvaFK+G0xEiThZ6H8V8ogKHJNcof4Sb32jZs7UYT2jCydRIjmIAZd036RsADswfo420nqB4r0lGmJFh/klotV4tbsHQbSthDOxd2YHBahw2n65liNOSt261EgFx9SVeD5"

func unbase64(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestDecryptPKCS8(t *testing.T) {
	var first *ecdsa.PrivateKey
	for name, text := range encryptedKeys {
		key, err := DecryptPKCS8(unbase64(text), []byte("sesame"))
		private, ok := key.(*ecdsa.PrivateKey)
		if err != nil || !ok {
			t.Errorf("%s: %T, %v", name, key, err)
			continue
		}
		if first == nil {
			first = private
		}
		if !private.Equal(first) {
			t.Errorf("%s: another key", name)
		}
		if _, err := DecryptPKCS8(unbase64(text), []byte("open")); !errors.Is(err, x509.IncorrectPasswordError) {
			t.Errorf("%s: %v, want that the passphrase is wrong", name, err)
		}
	}
	if _, err := DecryptPKCS8(unbase64(withoutPBES2), []byte("sesame")); err == nil || !strings.Contains(err.Error(), "openssl pkcs8 -topk8") {
		t.Errorf("%v, want what to do", err)
	}
}

// FuzzDecryptPKCS8 pins that no key file breaks the parser.
func FuzzDecryptPKCS8(f *testing.F) {
	f.Add(unbase64(withoutPBES2))
	for _, text := range encryptedKeys {
		f.Add(unbase64(text))
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		if !cheap(der) {
			return // slow, legitimately
		}
		DecryptPKCS8(der, []byte("x"))
	})
}

// cheap reports whether deriving the decryption key is fast.
func cheap(der []byte) bool {
	var k encryptedKey
	var params pbes2Params
	if unmarshal(der, &k) != nil || unmarshal(k.Algorithm.Parameters.FullBytes, &params) != nil {
		return true
	}
	var slow pbkdf2Params
	var hard scryptParams
	if unmarshal(params.KDF.Parameters.FullBytes, &slow) == nil {
		return slow.Iterations <= 2000
	}
	return unmarshal(params.KDF.Parameters.FullBytes, &hard) != nil || max(hard.N, hard.R, hard.P) <= 1024
}
