package mongodb

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"strings"
	"testing"
	"time"

	"initbox/waitfor/target"
)

// users is the side of the server in logins with SCRAM (RFC 5802), as MongoDB's specification describes them. It knows
// app, whose password is hUnter2, in the database shop.
type users struct {
	mechanism string // the only one that is offered
	polite    bool   // ends a login only after an empty message

	first, serverFirst string
}

func (u *users) hash() func() hash.Hash {
	if u.mechanism == scramSHA1 {
		return sha1.New
	}
	return sha256.New
}

// keys returns the password's stored key and the server's key (RFC 5802, section 3).
func (u *users) keys() (stored, server []byte) {
	password := "hUnter2"
	if u.mechanism == scramSHA1 {
		password = "79f5597292ef9f8533ea0bc6a986ac29" // printf app:mongo:hUnter2 | md5sum
	}
	salted, err := pbkdf2.Key(u.hash(), password, []byte("salt"), 10, u.hash()().Size())
	if err != nil {
		panic(err)
	}
	h := u.hash()()
	h.Write(u.mac(salted, "Client Key"))
	return h.Sum(nil), u.mac(salted, "Server Key")
}

func (u *users) mac(key []byte, text string) []byte {
	m := hmac.New(u.hash(), key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

// answer returns the answer to a step of a login, or nil for another command.
func (u *users) answer(doc []byte) []byte {
	if u == nil {
		return nil
	}
	asked := map[string]string{}
	first := ""
	eachBSON(doc, func(kind byte, name string, value []byte) {
		if first == "" {
			first = name
		}
		asked[name] = bsonText(kind, value)
		if kind == bsonBytes {
			asked[name] = string(value[5:])
		}
	})
	failed := bson("ok", 0.0, "errmsg", "Authentication failed for "+asked["payload"], "code", 18)
	step := func(done bool, payload string) []byte {
		return bson("conversationId", 7, "done", done, "payload", data(payload), "ok", 1.0)
	}
	payload := asked["payload"]
	switch {
	case first == "saslStart" && (asked["mechanism"] != u.mechanism || asked["$db"] != "shop" || !strings.HasPrefix(payload, "n,,n=app,")):
		return failed
	case first == "saslStart":
		u.first = strings.TrimPrefix(payload, "n,,")
		_, nonce, _ := strings.Cut(u.first, "r=")
		u.serverFirst = "r=" + nonce + "server,s=" + base64.StdEncoding.EncodeToString([]byte("salt")) + ",i=10"
		return step(false, u.serverFirst)
	case first == "saslContinue" && payload == "":
		return step(true, "")
	case first == "saslContinue":
		bare, encoded, _ := strings.Cut(payload, ",p=")
		stored, server := u.keys()
		message := u.first + "," + u.serverFirst + "," + bare
		proof, _ := base64.StdEncoding.DecodeString(encoded)
		signature := u.mac(stored, message)
		for i := range proof {
			proof[i] ^= signature[i]
		}
		h := u.hash()()
		h.Write(proof)
		if !hmac.Equal(h.Sum(nil), stored) {
			return failed
		}
		return step(!u.polite, "v="+base64.StdEncoding.EncodeToString(u.mac(server, message)))
	}
	return nil
}

// TestLogin pins how a user logs in, and that the primary is where.
func TestLogin(t *testing.T) {
	t.Parallel()
	for _, u := range []users{{mechanism: scramSHA256}, {mechanism: scramSHA256, polite: true}, {mechanism: scramSHA1}} {
		a := startMember(t, "isWritablePrimary", true, "saslSupportedMechs", []string{scramSHA1, u.mechanism})
		a.mu.Lock()
		a.users = &u
		a.mu.Unlock()
		wantMongo(t, "mongodb://app:hUnter2@"+a.addr+"/shop", "")
		wantMongo(t, "mongodb://app:hUnter2@"+a.addr+"/other?authSource=shop&authMechanism="+u.mechanism, "")
		wantMongo(t, "mongodb://app:hUnter2@"+a.addr+"/other", "login failed: Authentication failed for n,,n=app")
		wantMongo(t, "mongodb://app:other@"+a.addr+"/shop", "login failed: Authentication failed for c=")
		wantMongo(t, "mongodb://a%2Cb:hUnter2@"+a.addr+"/shop", "login failed")
		wantMongo(t, "mongodb://"+a.addr+"/shop", "")
		wantMongo(t, "mongodb://app@"+a.addr+"/shop?authMechanism=mongodb-x509", "")

		// A secondary is not logged in to, the primary that it names is.
		b := startMember(t, "isWritablePrimary", false, "secondary", true, "setName", "rs0", "primary", a.addr)
		a.is("isWritablePrimary", true, "setName", "rs0", "saslSupportedMechs", []string{u.mechanism})
		wantMongo(t, "mongodb://app:hUnter2@"+b.addr+"/shop", "")
		wantMongo(t, "mongodb://app:wrong@"+b.addr+"/shop", a.addr+", which the replica set names as its primary: login failed")
	}
}

func TestParseLogin(t *testing.T) {
	for text, want := range map[string]string{
		"mongodb://app@db":                           "the user has no password",
		"mongodb://app:@db":                          "",
		"mongodb://app@db#password-file=/p":          "",
		"mongodb://db#user=app&password-file=/p":     "",
		"mongodb://db#user=app":                      "the user has no password",
		"mongodb://db#password-file=/p":              "password-file needs a user",
		"mongodb://app:x@db/?authMechanism=CRAM-MD5": "authMechanism: want SCRAM-SHA-256",
		"mongodb://app@db/?authMechanism=GSSAPI":     "",
	} {
		_, err := kinds.Parse(text, target.Options{AttemptTimeout: time.Second})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
