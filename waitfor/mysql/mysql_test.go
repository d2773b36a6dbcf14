package mysql

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"initbox/internal/failure"
	"initbox/internal/tlsconfig"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// kinds has only the package's kind.
var kinds = target.Kinds{&Kind}

// A fakeMySQL implements the logins of MySQL that MariaDB lacks, from MySQL's specification. Go's driver, which is
// tested with MySQL itself, must be able to log in, too.
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html
type fakeMySQL struct {
	greeting string // the plugin of the greeting; "" for plugin
	plugin   string // of the user
	password string
	fast     bool // the server has the password in its cache
	factor   bool // it requires a second factor

	tls *tls.Config
	key *rsa.PrivateKey

	net.Conn
	count  byte
	secure bool
	nonce  []byte
}

func (s *fakeMySQL) send(payload string) {
	io.WriteString(s.Conn, string([]byte{byte(len(payload)), byte(len(payload) >> 8), 0, s.count})+payload)
	s.count++
}

func (s *fakeMySQL) receive() []byte {
	header := make([]byte, 4)
	if _, err := io.ReadFull(s.Conn, header); err != nil {
		return nil
	}
	s.count = header[3] + 1
	payload := make([]byte, int(header[0])|int(header[1])<<8)
	io.ReadFull(s.Conn, payload)
	return payload
}

const fakeOK, fakeDenied = "\x00\x00\x00\x02\x00\x00\x00", "\xff\x15\x04#28000Access denied for user 'app'@'localhost' (using password: YES)"

func (s *fakeMySQL) serve() {
	defer s.Close()
	greeting := s.greeting
	if greeting == "" {
		greeting = s.plugin
	}
	capabilities := uint32(ofEveryLogin | withDatabase)
	if s.tls != nil {
		capabilities |= capabilityTLS
	}
	s.nonce = []byte("abcdefghijklmnopqrst")
	s.send("\x0a8.4.0\x00\x01\x00\x00\x00" + string(s.nonce[:8]) + "\x00" + string([]byte{byte(capabilities), byte(capabilities >> 8), 255, 2, 0, byte(capabilities >> 16), byte(capabilities >> 24), 21}) +
		strings.Repeat("\x00", 10) + string(s.nonce[8:]) + "\x00" + greeting + "\x00")
	hello := s.receive()
	if len(hello) == 32 { // requests TLS
		conn := tls.Server(s.Conn, s.tls)
		if conn.Handshake() != nil {
			return
		}
		s.Conn, s.secure = conn, true
		hello = s.receive()
	}
	if len(hello) < 32 {
		return
	}
	_, rest, _ := bytes.Cut(hello[32:], []byte{0}) // the user
	n, rest, ok := cutLength(rest)
	if !ok || n > uint64(len(rest)) {
		return
	}
	proof := rest[:n]
	if greeting != s.plugin {
		s.nonce = []byte("ABCDEFGHIJKLMNOPQRST")
		s.send("\xfe" + s.plugin + "\x00" + string(s.nonce) + "\x00")
		proof = s.receive()
	}
	if !s.judge(proof) {
		s.send(fakeDenied)
		return
	}
	if s.factor {
		s.send("\x02authentication_webauthn_client\x00challenge")
		s.receive()
		s.send(fakeDenied)
		return
	}
	s.send(fakeOK)
	for p := s.receive(); len(p) > 0 && p[0] == queryCommand; p = s.receive() {
		s.send("\x01")
		s.send("\x03def\x00\x00\x00\x011\x00\x0c\x3f\x00\x01\x00\x00\x00\x08\x81\x00\x00\x00\x00")
		s.send("\xfe\x00\x00\x02\x00")
		s.send("\x011")
		s.send("\xfe\x00\x00\x02\x00")
	}
}

func (s *fakeMySQL) judge(proof []byte) bool {
	want := []byte(s.password)
	clear := append(want, 0)
	switch s.plugin {
	case "mysql_native_password":
		once := sha1.Sum(want)
		twice := sha1.Sum(once[:])
		mask := sha1.Sum(append(s.nonce, twice[:]...))
		return len(proof) == 20 && sha1.Sum(xor(bytes.Clone(proof), mask[:])) == twice
	case "caching_sha2_password":
		once := sha256.Sum256(want)
		twice := sha256.Sum256(once[:])
		mask := sha256.Sum256(append(twice[:], s.nonce...))
		if len(proof) != 32 || sha256.Sum256(xor(bytes.Clone(proof), mask[:])) != twice {
			return false
		}
		if s.fast {
			s.send("\x01\x03")
			return true
		}
		s.send("\x01\x04")
		proof = s.receive()
		if !s.secure {
			return len(proof) == 1 && proof[0] == 2 && s.decrypts()
		}
		return bytes.Equal(proof, clear)
	case "sha256_password":
		if !s.secure {
			return len(proof) == 1 && proof[0] == 1 && s.decrypts()
		}
		return bytes.Equal(proof, clear)
	case "mysql_clear_password":
		return bytes.Equal(proof, clear)
	}
	return false
}

func (s *fakeMySQL) decrypts() bool {
	der, _ := x509.MarshalPKIXPublicKey(&s.key.PublicKey)
	s.send("\x01" + string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	plain, err := rsa.DecryptOAEP(sha1.New(), nil, s.key, s.receive(), nil)
	for i := range plain {
		plain[i] ^= s.nonce[i%len(s.nonce)]
	}
	return err == nil && string(plain) == s.password+"\x00"
}

// listen serves copies of s until the test ends.
func (s fakeMySQL) listen(t *testing.T) string {
	t.Helper()
	return servers.Serve(t, func(c net.Conn) {
		one := s
		one.Conn = c
		one.serve()
	})
}

// TestPlugins tries each authentication plugin.
func TestPlugins(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	certificate := ca.Server(t, "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(certificate.CertFile, certificate.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	conf := &tls.Config{Certificates: []tls.Certificate{pair}}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	const password = "hUnter2tIger9"
	native, sha2, sha256, clear := "mysql_native_password", "caching_sha2_password", "sha256_password", "mysql_clear_password"
	for _, tt := range []struct {
		name   string
		server fakeMySQL
		query  string
		words  string // why not; "" for ready
	}{
		{"native", fakeMySQL{plugin: native}, "", ""},
		{"switched to native", fakeMySQL{greeting: sha2, plugin: native}, "", ""},
		{"cached", fakeMySQL{plugin: sha2, fast: true}, "", ""},
		{"switched, cached", fakeMySQL{greeting: native, plugin: sha2, fast: true}, "", ""},
		{"over TLS", fakeMySQL{plugin: sha2, tls: conf}, "?tls=skip-verify", ""},
		{"over TLS by default", fakeMySQL{greeting: native, plugin: sha2, tls: conf}, "", ""},
		{"encrypted", fakeMySQL{plugin: sha2}, "", ""},
		{"switched, encrypted", fakeMySQL{greeting: native, plugin: sha2}, "", ""},
		{"encryption forbidden", fakeMySQL{plugin: sha2}, "?allowPublicKeyRetrieval=false", "forbids requesting that"},
		{"sha256 over TLS", fakeMySQL{plugin: sha256, tls: conf}, "?tls=skip-verify", ""},
		{"sha256 encrypted", fakeMySQL{greeting: sha2, plugin: sha256}, "", ""},
		{"clear", fakeMySQL{plugin: clear}, "", "in cleartext"},
		{"clear over unverified TLS", fakeMySQL{plugin: clear, tls: conf}, "", "in cleartext"},
		{"clear over TLS", fakeMySQL{plugin: clear, tls: conf}, "?ssl-ca=" + ca.File, ""},
		{"old", fakeMySQL{greeting: native, plugin: "mysql_old_password"}, "", "before MySQL 4.1"},
		{"unknown", fakeMySQL{greeting: native, plugin: "auth_gssapi_client"}, "", "by the plugin auth_gssapi_client, which is not supported"},
		{"unknown greeting", fakeMySQL{greeting: "auth_gssapi_client", plugin: native}, "", ""},
		{"two factors", fakeMySQL{plugin: native, factor: true}, "", "a second factor"},
		{"no TLS", fakeMySQL{plugin: native}, "?ssl-mode=required", "the server does not offer it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.server.password, tt.server.key = password, key
			addr := tt.server.listen(t)
			target := "mysql://app:" + password + "@" + addr + "/app" + tt.query
			class := failure.Authentication
			if strings.HasPrefix(tt.words, "the server does") {
				class = failure.TLS
			}
			kindtest.RequireSays(t, target, kindtest.AttemptWith(t, kinds, target, password, nil), class, tt.words)
			if tt.words != "" {
				return
			}
			kindtest.RequireSays(t, target, kindtest.AttemptWith(t, kinds, strings.Replace(target, "tIger9", "Bear", 1), password, nil), failure.Authentication, "access denied for user app (error 1045)")
			if tt.server.greeting == "auth_gssapi_client" {
				return
			}
			if err := driverConnects(t, addr, password, tt.server.tls != nil, tt.server.plugin == clear); err != nil {
				t.Errorf("Go's driver: %v", err)
			}
		})
	}
}

// driverConnects logs in and runs a query with github.com/go-sql-driver/mysql.
func driverConnects(t *testing.T, addr, password string, encrypted, clear bool) error {
	t.Helper()
	c := mysql.NewConfig()
	c.Net, c.Addr, c.User, c.Passwd, c.Logger, c.AllowCleartextPasswords = "tcp", addr, "app", password, new(mysql.NopLogger), clear
	if encrypted {
		c.TLS = &tls.Config{InsecureSkipVerify: true}
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return err
	}
	conn, err := connector.Connect(t.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	rows, err := conn.(driver.QueryerContext).QueryContext(t.Context(), "SELECT 1", nil)
	if err != nil {
		return err
	}
	row := make([]driver.Value, 1)
	if err := rows.Next(row); err != nil || row[0] != int64(1) {
		return fmt.Errorf("%v, %v", row, err)
	}
	return rows.Close()
}

// TestWithoutTLSTellsNothing requires that a server which does not support the required TLS receives neither the user's
// name nor a response made from the password.
func TestWithoutTLSTellsNothing(t *testing.T) {
	said := new(bytes.Buffer)
	server := string(packets(0, fuzzGreeting(ofEveryLogin), "")) + string(packets(2, fakeDenied))
	m := scriptedMySQL(t, []byte(server), said)
	err := m.login(tlsRequired, tlsconfig.Options{})
	if f := failure.Of(err); f.Class != failure.TLS || !bytes.Contains(said.Bytes(), []byte(noUser)) || bytes.Contains(said.Bytes(), []byte("app")) {
		t.Errorf("%v; said %q", err, said)
	}
}

func scriptedMySQL(t testing.TB, server []byte, said io.Writer) *session {
	t.Helper()
	parsed, err := kinds.Parse("mysql://app@127.0.0.1/app", target.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &session{
		Conversation: wire.Converse(context.Background(), kindtest.ScriptedConn{Server: bytes.NewReader(server), Said: said}, "127.0.0.1:3306"),
		target:       parsed.(check).Target, user: "app", password: "hUnter2tIger9", database: "app",
	}
}

// packets frames payloads; the first has the given sequence number.
func packets(first byte, payloads ...string) []byte {
	var all []byte
	for i, p := range payloads {
		if p == "" {
			continue
		}
		all = append(binary.LittleEndian.AppendUint32(all, uint32(len(p))|uint32(first+byte(i))<<24), p...)
	}
	return all
}

func fuzzGreeting(capabilities uint32) string {
	return "\x0a5.5.5-10.11.6-MariaDB\x00\x08\x00\x00\x00GlaVG#o5\x00" + string([]byte{byte(capabilities), byte(capabilities >> 8), 8, 2, 0, byte(capabilities >> 16), byte(capabilities >> 24), 21}) +
		"\x00\x00\x00\x00\x00\x00\x1d\x00\x00\x00qRk+ayE_'hPw\x00mysql_native_password\x00"
}

// Fuzz reads any answers of a server, to a login and to a query.
func Fuzz(f *testing.F) {
	greeting := fuzzGreeting(ofEveryLogin)
	const column, end = "\x03def\x00\x00\x00\x011\x00\x0c\x3f\x00\x01\x00\x00\x00\x03\x81\x00\x00\x00\x00", "\xfe\x00\x00\x02\x00"
	result := packets(1, "\x01", column, end, "\x011", end)
	in := append(packets(0, greeting, "", fakeOK), result...)
	f.Add(in)
	f.Add(append(in[:len(in):len(in)], result...))
	f.Add(append(packets(0, greeting, "", fakeOK), packets(1, "\x01", column, end, "\xfb", end)...))
	f.Add(append(packets(0, greeting, "", fakeOK), packets(1, "\xff\x7a\x04#42S02Table 'app.t' doesn't exist")...))
	f.Add(append(packets(0, greeting, "", fakeOK), packets(1, "\xfe\x00\x00\x00\x00\x00\x01\x00\x00")...)) // 2^40 columns
	f.Add(append(packets(0, greeting, "", fakeOK), packets(1, "\xfb/etc/passwd")...))
	f.Add(packets(0, greeting, "", fakeDenied))
	f.Add(packets(0, greeting, "", "\xfecaching_sha2_password\x00abcdefghijklmnopqrst\x00", "", "\x01\x04", "", "\x01-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n"))
	f.Add(packets(0, greeting, "", "\xfeclient_ed25519\x00"+strings.Repeat("n", 32), "", fakeOK))
	f.Add(packets(0, "\xff\x10\x04Too many connections"))
	f.Add(packets(1, "\xffi\x04Host '10.0.0.1' is blocked because of many connection errors"))
	f.Add([]byte("220 mail.example ESMTP\r\n"))
	f.Fuzz(func(t *testing.T, server []byte) {
		for _, query := range []string{"", "SELECT 1"} {
			m := scriptedMySQL(t, server, io.Discard)
			err := m.login(tlsPreferred, tlsconfig.Options{Insecure: true})
			if err == nil {
				var answer wire.QueryAnswer
				if answer, err = m.ask(query); err == nil {
					err = answer.Judge()
				}
			}
			if f := failure.Of(err); err != nil && (f.Text == "" || strings.Contains(f.Error(), "hUnter2")) {
				t.Errorf("%q: %q", server, f.Error())
			}
			m.Close()
		}
	})
}

// TestTLS pins the meaning of each client's TLS parameters.
func TestTLS(t *testing.T) {
	plain, preferred, required := tlsconfig.Options{}, tlsconfig.Options{Insecure: true}, tlsconfig.Options{Insecure: true}
	verified, ca := tlsconfig.Options{}, tlsconfig.Options{CAFile: "/ca"}
	anyName := tlsconfig.Options{CAFile: "/ca", AnyName: true}
	store := tlsconfig.Options{CAFile: "/t.jks", CAPassword: "pw", OnlyCA: true}
	for text, want := range map[string]struct {
		mode tlsMode
		tls  tlsconfig.Options
	}{
		"mysql://db":                                 {tlsPreferred, preferred},
		"mysql://db?ssl-mode=DISABLED":               {tlsPlain, plain},
		"mysql://db?ssl-mode=preferred":              {tlsPreferred, preferred},
		"mysql://db?ssl_mode=REQUIRED":               {tlsRequired, required},
		"mysql://db?sslMode=VERIFY_CA&ssl-ca=/ca":    {tlsRequired, anyName},
		"mysql://db?sslMode=VERIFY_CA":               {tlsRequired, verified},
		"mysql://db?ssl-mode=VERIFY_IDENTITY":        {tlsRequired, verified},
		"mysql://db?ssl-ca=/ca":                      {tlsRequired, ca},
		"mysql://db#ca-file=/ca":                     {tlsRequired, ca},
		"mysql://db?ssl-mode=required#ca-file=/ca":   {tlsRequired, anyName},
		"jdbc:mysql://db?useSSL=true#ca-file=/ca":    {tlsRequired, anyName},
		"mysql://db?tls=skip-verify&ssl-ca=/ca":      {tlsRequired, tlsconfig.Options{CAFile: "/ca", Insecure: true}},
		"mysql://db?ssl_verify_cert=0&ssl_ca=/ca":    {tlsRequired, tlsconfig.Options{CAFile: "/ca", Insecure: true}},
		"mysql://db#tls":                             {tlsRequired, verified},
		"mysql://db#tls&insecure":                    {tlsRequired, required},
		"mysql://db?tls=true":                        {tlsRequired, verified},
		"mysql://db?tls=false":                       {tlsPlain, plain},
		"mysql://db?tls=skip-verify":                 {tlsRequired, required},
		"mysql://db?tls=preferred":                   {tlsPreferred, preferred},
		"jdbc:mysql://db/app?useSSL=false":           {tlsPlain, plain},
		"jdbc:mysql://db/app?useSSL=true":            {tlsRequired, required},
		"jdbc:mysql://db/app?requireSSL=true":        {tlsRequired, required},
		"jdbc:mysql://db?verifyServerCertificate=1":  {tlsRequired, verified},
		"jdbc:mariadb://db/app?useSsl=true":          {tlsRequired, verified},
		"jdbc:mariadb://db/app?sslMode=trust":        {tlsRequired, required},
		"jdbc:mariadb://db/app?sslMode=verify-full":  {tlsRequired, verified},
		"jdbc:mariadb://db/app?serverSslCert=/ca":    {tlsRequired, ca},
		"mysql+pymysql://db/app?ssl_ca=/ca":          {tlsRequired, ca},
		"mysql+pymysql://db/app?ssl_verify_cert=1":   {tlsRequired, verified},
		"mysql+mysqldb://db/app?ssl_disabled=true":   {tlsPlain, plain},
		"mysql://db?ssl-cert=/c&ssl-key=/k":          {tlsRequired, tlsconfig.Options{Insecure: true, CertFile: "/c", KeyFile: "/k"}},
		"mysql://db?ssl-mode=required#server-name=n": {tlsRequired, tlsconfig.Options{Insecure: true, ServerName: "n"}},

		"mysql://db?trustCertificateKeyStoreUrl=file:/t.jks#tls&ca-file=/ca":                            {tlsRequired, tlsconfig.Options{CAFile: "/ca"}},
		"jdbc:mysql://db?trustCertificateKeyStoreUrl=file:///t.jks&trustCertificateKeyStorePassword=pw": {tlsRequired, store},
		"jdbc:mariadb://db?trustStore=/t.jks&trustStorePassword=pw&trustStoreType=jks":                  {tlsRequired, store},
	} {
		parsed, err := kinds.Parse(text, target.Options{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if c := parsed.(check); c.mode != want.mode || c.TLS != want.tls {
			t.Errorf("%s: %d, %+v, want %d, %+v", text, c.mode, c.TLS, want.mode, want.tls)
		}
	}
}

// TestErrors pins the class and the hint of each error number.
func TestErrors(t *testing.T) {
	const message = "ohne Belang: hUnter2tIger9 für app"
	for number, want := range map[uint16]struct {
		class failure.Class
		text  string
	}{
		1040:  {failure.Unexpected, "too many connections"},
		1044:  {failure.Authentication, "the server reports: ohne Belang: […] für app"},
		1045:  {failure.Authentication, "access denied for user app"},
		1047:  {failure.Unexpected, "the server reports: ohne Belang: […] für app"},
		1049:  {failure.Unexpected, `unknown database "app"`},
		1053:  {failure.Unexpected, "the server is shutting down"},
		1129:  {failure.Unexpected, "this host is blocked because of many connection errors"},
		1130:  {failure.Authentication, "the server rejects connections from this host"},
		1146:  {failure.Unexpected, "the server reports: ohne Belang: […] für app"},
		1698:  {failure.Authentication, "access denied for user app"},
		1862:  {failure.Authentication, "the password has expired for user app"},
		3118:  {failure.Authentication, "the account is locked for user app"},
		3159:  {failure.Unexpected, "the server reports: ohne Belang: […] für app"},
		65000: {failure.Unexpected, "the server reports: ohne Belang: […] für app"},
	} {
		m := &session{user: "app", database: "app", secrets: []string{"hUnter2tIger9"}}
		f := failure.Of(m.failure(number, message))
		if f.Class != want.class || f.Text != want.text || f.Hint == "" || f.Note != fmt.Sprintf("error %d", number) {
			t.Errorf("%d: %+v", number, f)
		}
	}
	m := &session{user: "token", secrets: []string{"token"}}
	if f := failure.Of(m.failure(1045, "token")); f.Text != "access denied" {
		t.Errorf("%+v", f)
	}
}

func TestUsage(t *testing.T) {
	for text, words := range map[string]string{
		"mysql://db?tls=custom":        "want disabled, preferred",
		"mysql://db?ssl-mode=hUnter2":  "want disabled, preferred",
		"mysql://db?ssl-key=/k":        "ssl-key needs ssl-cert",
		"mysql://db?socket=run/socket": "must be absolute",
		"mysql://db#query=SELECT 1":    "query needs a user",
		"mysql:///app":                 "host missing",
		"mysql://a,,b":                 "a host is missing",
		"mysql://db:0":                 "port must be",
	} {
		_, err := kinds.Parse(text, target.Options{})
		if err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "Unter2") {
			t.Errorf("%s: %v, want %s", text, err, words)
		}
	}
}
