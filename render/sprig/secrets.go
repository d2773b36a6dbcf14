package sprig

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

const (
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
	others = " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

func secretFunctions() map[string]any {
	return map[string]any{
		"randAlphaNum": randomOf(upper + lower + digits),
		"randAlpha":    randomOf(upper + lower),
		"randNumeric":  randomOf(digits),
		"randAscii":    randomOf(upper + lower + digits + others),
		"randBytes":    randomBytes,
		"uuidv4":       uuid,

		"bcrypt":         hashed,
		"htpasswd":       htpasswd,
		"derivePassword": derivePassword,
		"encryptAES":     encryptAES,
		"decryptAES":     decryptAES,

		"genPrivateKey":   privateKey,
		"buildCustomCert": customCertificate,
		"genCA":           func(name string, days int) (certificate, error) { return authority(name, days, newKey) },
		"genCAWithKey":    func(name string, days int, key string) (certificate, error) { return authority(name, days, given(key)) },
		"genSelfSignedCert": func(name string, ips, dns []any, days int) (certificate, error) {
			return selfSigned(name, ips, dns, days, newKey)
		},
		"genSelfSignedCertWithKey": func(name string, ips, dns []any, days int, key string) (certificate, error) {
			return selfSigned(name, ips, dns, days, given(key))
		},
		"genSignedCert": func(name string, ips, dns []any, days int, ca certificate) (certificate, error) {
			return signed(name, ips, dns, days, ca, newKey)
		},
		"genSignedCertWithKey": func(name string, ips, dns []any, days int, ca certificate, key string) (certificate, error) {
			return signed(name, ips, dns, days, ca, given(key))
		},
	}
}

// randomOf returns a function that returns n of the characters.
func randomOf(characters string) func(n int) string {
	return func(n int) string {
		text := make([]byte, max(n, 0))
		for i := range text {
			text[i] = characters[random(len(characters))]
		}
		return string(text)
	}
}

func random(n int) int64 {
	i, _ := rand.Int(rand.Reader, big.NewInt(int64(n))) // it never fails
	return i.Int64()
}

func randomBytes(n int) (string, error) {
	if n < 0 {
		return "", fmt.Errorf("randBytes: %d bytes", n)
	}
	text := make([]byte, n)
	rand.Read(text)
	return base64.StdEncoding.EncodeToString(text), nil
}

// uuid returns a UUID of version 4, https://www.rfc-editor.org/rfc/rfc9562#section-5.4.
func uuid() string {
	var id [16]byte
	rand.Read(id[:])
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func hashed(password string) string {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.DefaultCost)
	if err != nil {
		return "failed to encrypt string with bcrypt: " + err.Error()
	}
	return string(hash)
}

func htpasswd(user, password string) string {
	if strings.Contains(user, ":") {
		return "invalid username: " + user
	}
	return user + ":" + hashed(password)
}

// forms are the forms of passwords in Master Password 2.3, https://spectre.app/spectre-algorithm.pdf; each letter
// stands for the characters below.
var forms = map[string]string{
	"maximum": "anoxxxxxxxxxxxxxxxxx axxxxxxxxxxxxxxxxxno",
	"long": "CvcvnoCvcvCvcv CvcvCvcvnoCvcv CvcvCvcvCvcvno CvccnoCvcvCvcv CvccCvcvnoCvcv CvccCvcvCvcvno CvcvnoCvccCvcv " +
		"CvcvCvccnoCvcv CvcvCvccCvcvno CvcvnoCvcvCvcc CvcvCvcvnoCvcc CvcvCvcvCvccno CvccnoCvccCvcv CvccCvccnoCvcv " +
		"CvccCvccCvcvno CvcvnoCvccCvcc CvcvCvccnoCvcc CvcvCvccCvccno CvccnoCvcvCvcc CvccCvcvnoCvcc CvccCvcvCvccno",
	"medium": "CvcnoCvc CvcCvcno",
	"short":  "Cvcn",
	"basic":  "aaanaaan aannaaan aaannaaa",
	"pin":    "nnnn",
}

const (
	bigVowels, vowels         = "AEIOU", "aeiou"
	bigConsonants, consonants = "BCDFGHJKLMNPQRSTVWXYZ", "bcdfghjklmnpqrstvwxyz"
)

var formCharacters = map[rune]string{
	'V': bigVowels,
	'C': bigConsonants,
	'v': vowels,
	'c': consonants,
	'A': bigVowels + bigConsonants,
	'a': bigVowels + vowels + bigConsonants + consonants,
	'n': digits,
	'o': "@&%?,=[]_:-+*$#!'^~;()/.",
	'x': bigVowels + vowels + bigConsonants + consonants + digits + "!@#$%^&*()",
}

// derivePassword is Master Password's algorithm.
func derivePassword(counter uint32, form, password, user, site string) string {
	known := strings.Fields(forms[form])
	if len(known) == 0 {
		return "cannot find password template " + form
	}
	scoped := func(s string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte("com.lyndir.masterpassword"), uint32(len(s))), s...)
	}
	key, err := scrypt.Key([]byte(password), scoped(user), 32768, 8, 2, 64)
	if err != nil {
		return "failed to derive password: " + err.Error()
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(binary.BigEndian.AppendUint32(scoped(site), counter))
	seed := mac.Sum(nil)
	var result strings.Builder
	for i, letter := range known[int(seed[0])%len(known)] {
		from := formCharacters[letter]
		result.WriteByte(from[int(seed[i+1])%len(from)])
	}
	return result.String()
}

// aesKey returns the cipher for a key that is the password itself. That is not a good key, but decryptAES must read
// what sprig has encrypted.
func aesKey(password string) (cipher.Block, error) {
	var key [32]byte
	copy(key[:], password)
	return aes.NewCipher(key[:])
}

func encryptAES(password, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	block, err := aesKey(password)
	if err != nil {
		return "", err
	}
	padding := aes.BlockSize - len(text)%aes.BlockSize
	plain := append([]byte(text), bytes.Repeat([]byte{byte(padding)}, padding)...)
	encrypted := make([]byte, aes.BlockSize+len(plain))
	rand.Read(encrypted[:aes.BlockSize])
	cipher.NewCBCEncrypter(block, encrypted[:aes.BlockSize]).CryptBlocks(encrypted[aes.BlockSize:], plain)
	return base64.StdEncoding.EncodeToString(encrypted), nil
}

func decryptAES(password, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	encrypted, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", err
	}
	block, err := aesKey(password)
	if err != nil {
		return "", err
	}
	if len(encrypted) < 2*aes.BlockSize || len(encrypted)%aes.BlockSize != 0 {
		return "", errors.New("decryptAES: not a text that encryptAES has written")
	}
	plain := make([]byte, len(encrypted)-aes.BlockSize)
	cipher.NewCBCDecrypter(block, encrypted[:aes.BlockSize]).CryptBlocks(plain, encrypted[aes.BlockSize:])
	padding := int(plain[len(plain)-1])
	if padding > len(plain) {
		return "", errors.New("decryptAES: the password is wrong")
	}
	return string(plain[:len(plain)-padding]), nil
}
