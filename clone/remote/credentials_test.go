package remote

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/secret"
	"initbox/test/servers"
)

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// authorized returns a request for the URL with its credentials, and what of it is secret.
func authorized(t *testing.T, target string, o Options) (*http.Request, []string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t, time.Minute), http.MethodGet, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := o.authorize(req.Context(), req)
	return req, secrets, err
}

// TestAuthorize pins which credentials are sent, where there are several.
func TestAuthorize(t *testing.T) {
	askpass := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "username=asked\npassword=pass=word\n")
	}))
	defer askpass.Close()
	password, token := writeTemp(t, "hunter2\n"), writeTemp(t, "t0ken\n")
	header := writeTemp(t, "Authorization: Custom abc\nX-Extra: yes\n")
	netrc := writeTemp(t, "machine git.example.com login ann password netpass\nmachine git.example.com login bob password bobpass\n")
	cookies := writeTemp(t, "#HttpOnly_.example.com\tTRUE\t/\tTRUE\t0\tsession\ts3ss10n-id\n")
	const plain, withUser, withPassword = "https://git.example.com/r.git", "https://bob@git.example.com/r.git", "https://eve:url%2Fpass@git.example.com/r.git"
	for name, tt := range map[string]struct {
		url string
		HTTP
		authorization string
		secret        string
	}{
		"nothing":                {plain, HTTP{}, "", ""},
		"password file":          {plain, HTTP{Who: httpclient.Credentials{User: "app", PasswordFile: password}, Netrc: netrc}, basic("app", "hunter2"), "hunter2"},
		"password file, URL":     {withUser, HTTP{Who: httpclient.Credentials{PasswordFile: password}}, basic("bob", "hunter2"), "hunter2"},
		"token":                  {withPassword, HTTP{Who: httpclient.Credentials{TokenFile: token}}, "Bearer t0ken", "t0ken"},
		"header":                 {withPassword, HTTP{Who: httpclient.Credentials{HeaderFiles: []string{header}}}, "Custom abc", "Custom abc"},
		"URL":                    {withPassword, HTTP{Netrc: netrc, AskpassURL: askpass.URL}, basic("eve", "url/pass"), "url/pass"},
		"askpass":                {plain, HTTP{Netrc: netrc, AskpassURL: askpass.URL}, basic("asked", "pass=word"), "pass=word"},
		"netrc":                  {plain, HTTP{Netrc: netrc}, basic("ann", "netpass"), "netpass"},
		"netrc, user":            {withUser, HTTP{Netrc: netrc}, basic("bob", "bobpass"), "bobpass"},
		"netrc, another host":    {"https://example.com/", HTTP{Netrc: netrc}, "", ""},
		"netrc, another user":    {"https://longtoken@git.example.com/", HTTP{Netrc: netrc}, basic("longtoken", ""), "longtoken"},
		"user alone is a token":  {"https://ghp_abcdefgh@git.example.com/", HTTP{}, basic("ghp_abcdefgh", ""), "ghp_abcdefgh"},
		"cookies beside a token": {plain, HTTP{Who: httpclient.Credentials{TokenFile: token}, CookieFile: cookies}, "Bearer t0ken", "s3ss10n-id"},
	} {
		t.Run(name, func(t *testing.T) {
			req, secrets, err := authorized(t, tt.url, Options{HTTP: tt.HTTP})
			if err != nil {
				t.Fatal(err)
			}
			if got := req.Header.Get("Authorization"); got != tt.authorization {
				t.Errorf("%q, want %q", got, tt.authorization)
			}
			if tt.secret != "" && !slices.Contains(secrets, tt.secret) {
				t.Errorf("secrets are %q, want %q among them", secrets, tt.secret)
			}
			if req.URL.User != nil {
				t.Error("the URL still has the user")
			}
			if got := req.Header.Get("Cookie"); tt.CookieFile != "" && got != "session=s3ss10n-id" {
				t.Errorf("Cookie: %s", got)
			}
		})
	}
	req, _, err := authorized(t, "https://example.org/", Options{HTTP: HTTP{CookieFile: cookies}})
	if _, sent := req.Header["Cookie"]; sent || err != nil {
		t.Errorf("another host: Cookie %q, %v", req.Header["Cookie"], err)
	}
	absent := filepath.Join(t.TempDir(), "absent")
	for _, h := range []HTTP{{Netrc: absent}, {CookieFile: absent}, {Who: httpclient.Credentials{TokenFile: absent}}, {AskpassURL: "http://example.invalid/?t=${file:" + absent + "}"}} {
		_, _, err = authorized(t, plain, Options{HTTP: h})
		mustFail(t, err, failure.Missing, "no such file")
	}
	_, _, err = authorized(t, plain, Options{HTTP: HTTP{AskpassURL: "ftp://example.invalid/"}})
	mustFail(t, err, failure.Local, "the askpass URL: ")
}

// TestShortestSecret pins the length from which a user without a password, and a cookie, are treated as secrets.
func TestShortestSecret(t *testing.T) {
	for text, is := range map[string]bool{strings.Repeat("s", secret.Likely): true, strings.Repeat("s", secret.Likely-1): false} {
		cookies := writeTemp(t, "example.com\tFALSE\t/\tFALSE\t0\tname\t"+text+"\n")
		for target, o := range map[string]Options{"https://" + text + "@example.com/": {}, "https://example.com/": {HTTP: HTTP{CookieFile: cookies}}} {
			if _, secrets, err := authorized(t, target, o); err != nil || slices.Contains(secrets, text) != is {
				t.Errorf("%s with %d bytes: secret are %q, %v", target, len(text), secrets, err)
			}
		}
	}
}

// TestAskpassFails pins that an answer is not quoted.
func TestAskpassFails(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		class  failure.Class
		text   string
	}{
		"no password": {200, "hunter2", failure.Unexpected, "answered without a password"},
		"no value":    {200, "username=ann\npassword\n", failure.Unexpected, "answered without a password"},
		"refused":     {403, "hunter2", failure.Authentication, "the askpass URL answered status 403"},
		"redirect":    {302, "hunter2", failure.Unexpected, "the askpass URL answered status 302"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "/")
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
			}))
			defer s.Close()
			_, _, err := authorized(t, "https://x/", Options{HTTP: HTTP{AskpassURL: s.URL + "/?token=hunter2"}})
			mustFail(t, err, tt.class, tt.text)
			if strings.Contains(err.Error(), "hunter2") {
				t.Error(err)
			}
		})
	}
	_, _, err := authorized(t, "https://x/", Options{HTTP: HTTP{AskpassURL: "http://" + servers.FreeAddr(t) + "/?token=hunter2"}})
	mustFail(t, err, failure.Refused, "the askpass URL: connection refused")
}

// TestGitHubApp pins what is requested from GitHub's API, and that a token is used as long as it is valid.
func TestGitHubApp(t *testing.T) {
	t.Parallel()
	file := servers.SSHKey(t, filepath.Join(t.TempDir(), "key"), "rsa", "", "-b", "2048", "-m", "PEM")
	key, err := rsaKey(readAll(t, file))
	if err != nil {
		t.Fatal(err)
	}
	good, asked := time.Hour, 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		claims, err := verify(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), &key.PublicKey)
		now := time.Now().Unix()
		switch {
		case err != nil, claims.Iss != "Iv1.abc", claims.Iat > now-50, claims.Exp < now+500, claims.Exp-claims.Iat > 600:
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"message":"A JSON web token could not be decoded\u001b[31m"}`)
		case r.Method != "POST", r.URL.Path != "/api/v3/app/installations/42/access_tokens", r.Header.Get("Accept") != "application/vnd.github+json":
			w.WriteHeader(404)
			io.WriteString(w, `{"message":"Not Found"}`)
		default:
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"token":"ghs_%d","expires_at":%q,"permissions":{}}`, asked, time.Now().Add(good).UTC().Format(time.RFC3339))
		}
	}))
	defer api.Close()
	const target = "https://github.example.com/r.git"
	app := GitHubApp{ID: "Iv1.abc", Installation: "42", KeyFile: file, BaseURL: api.URL + "/api/v3/"}
	get := func(app GitHubApp) (string, error) {
		req, _, err := authorized(t, target, Options{HTTP: HTTP{App: &app}})
		return req.Header.Get("Authorization"), err
	}
	for range 3 {
		if got, err := get(app); got != basic("x-access-token", "ghs_1") || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	short := app
	short.BaseURL = api.URL + "/api/v3" // another to the memory
	good = time.Minute
	for i := range 2 {
		if got, err := get(short); got != basic("x-access-token", fmt.Sprintf("ghs_%d", i+2)) || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	for name, tt := range map[string]struct {
		change func(*GitHubApp)
		class  failure.Class
		text   string
	}{
		"id":           {func(a *GitHubApp) { a.ID = "7" }, failure.Authentication, "status 401 Unauthorized: A JSON web token could not be decoded"},
		"installation": {func(a *GitHubApp) { a.Installation = "43" }, failure.Authentication, "is the App still installed"},
		"no number":    {func(a *GitHubApp) { a.Installation = "../x" }, failure.Local, "not a number"},
		"no URL":       {func(a *GitHubApp) { a.BaseURL = "api.github.com" }, failure.Local, "its URL is invalid"},
		"malformed":    {func(a *GitHubApp) { a.BaseURL = "https://[" }, failure.Local, "its URL is invalid"},
		"no host":      {func(a *GitHubApp) { a.BaseURL = "https:///api" }, failure.Local, "its URL is invalid"},
		"scheme":       {func(a *GitHubApp) { a.BaseURL = "ftp://example.org" }, failure.Local, "its URL is invalid"},
		"no server":    {func(a *GitHubApp) { a.BaseURL = "https://" + servers.FreeAddr(t) }, failure.Refused, "the API of the GitHub App: connection refused"},
		"no token":     {func(a *GitHubApp) { a.BaseURL = answering(t, `{"token":""}`) }, failure.Unexpected, "answered without a token"},
		"odd token":    {func(a *GitHubApp) { a.BaseURL = answering(t, `{"token":"a\r\nX: y"}`) }, failure.Unexpected, "answered without a token"},
		"no key":       {func(a *GitHubApp) { a.KeyFile = writeTemp(t, "hunter2") }, failure.Local, "not in PEM"},
		"absent":       {func(a *GitHubApp) { a.KeyFile = filepath.Join(t.TempDir(), "key.pem") }, failure.Missing, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			app := app
			tt.change(&app)
			_, err := get(app)
			mustFail(t, err, tt.class, tt.text)
			if strings.ContainsAny(err.Error(), "\x1b") || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q", err)
			}
		})
	}
}

// TestRSAKey pins which keys are accepted besides those that GitHub makes.
func TestRSAKey(t *testing.T) {
	of := func(key any, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	if _, err := rsaKey(of(rsa.GenerateKey(rand.Reader, 2048))); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		of(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)):                "it is not an RSA key",
		"-----BEGIN PRIVATE KEY-----\naGVsbG8=\n-----END PRIVATE KEY-----": "it is not a private key",
	} {
		if _, err := rsaKey(text); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// answering starts a server that answers any request with status 201 and this body.
func answering(t *testing.T, body string) (url string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

type jwtClaims struct {
	Iss      string
	Iat, Exp int64
}

func verify(jwt string, key *rsa.PublicKey) (c jwtClaims, err error) {
	signed, encoded, _ := strings.Cut(jwt, ".")
	payload, encoded, _ := strings.Cut(encoded, ".")
	signed += "." + payload
	signature, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return c, err
	}
	sum := sha256.Sum256([]byte(signed))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature); err != nil {
		return c, err
	}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

func TestCookies(t *testing.T) {
	const text = "# Netscape HTTP Cookie File\n" +
		"example.com\tFALSE\t/\tFALSE\t0\thost\t1\n" +
		".example.com\tTRUE\t/\tFALSE\t0\tdomain\t2\r\n" +
		"#HttpOnly_git.example.com\tFALSE\t/repos\tTRUE\t4102444800\tonly\t3\n" +
		"git.example.com\tFALSE\t/\tFALSE\t946684800\texpired\t4\n" +
		"git.example.com\tFALSE\t/\tFALSE\t0\tempty\n" +
		"git.example.com\tFALSE\t/\tFALSE\tsoon\tbad\t5\n" +
		"git.example.com\tFALSE\t/\tFALSE\t0\tsplit\ta; b=c\n" +
		"Set-Cookie: header=6; Domain=.example.com; Path=/; Secure\n" +
		"Set-Cookie: ;\n" +
		"odd.example.org\tFALSE\t/\tFALSE\t0\todd\ta b:c\n" +
		"nonsense\n"
	cookies := parseCookies(text)
	for target, want := range map[string]string{
		"https://git.example.com/repos/a.git": "only=3 domain=2 empty= header=6",
		"http://git.example.com/repos/a.git":  "domain=2 empty=",
		"https://git.example.com/repository":  "domain=2 empty= header=6",
		"https://EXAMPLE.com":                 "host=1 domain=2 header=6",
		"https://odd.example.org/":            "odd=a b:c",
		"https://notexample.com/":             "",
		"https://example.com.evil.org/":       "",
	} {
		u, err := url.Parse(target)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range cookiesFor(cookies, u, time.Now()) {
			got = append(got, c.name+"="+c.value)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s gets %q, want %q", target, s, want)
		}
	}
}

// FuzzCookies pins that no text breaks the parser, and that every cookie can be part of a header.
func FuzzCookies(f *testing.F) {
	for _, s := range []string{"a\tTRUE\t/\tFALSE\t0\tb\tc", "#HttpOnly_a\tTRUE\t/\tFALSE\t0\tb", "Set-Cookie: a=b; Expires=Wed, 21 Oct 2095 07:28:00 GMT", "\t\t\t\t\t\t"} {
		f.Add(s, "/a")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		cookies := parseCookies(text)
		for _, c := range cookiesFor(cookies, &url.URL{Scheme: "https", Host: "a", Path: path}, time.Unix(1e9, 0)) {
			if c.name == "" || strings.ContainsAny(c.name+c.value, "\r\n;\x00") || len(c.name)+len(c.value) > 2*len(text) {
				t.Errorf("%+v of %q", c, text)
			}
		}
	})
}

// FuzzAskpass pins that a password is found only in a line password=.
func FuzzAskpass(f *testing.F) {
	f.Add("username=a\npassword=b")
	f.Add("password")
	f.Fuzz(func(t *testing.T, text string) {
		if l := parseAskpass(text); l != nil && !strings.Contains(text, "password=") {
			t.Errorf("%+v of %q", l, text)
		}
	})
}

// TestAskedOnce pins that the requests of a run share one answer of the askpass URL, and that the next run asks again.
func TestAskedOnce(t *testing.T) {
	var asked atomic.Int32
	askpass := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "username=u\npassword=hunter%d\n", asked.Add(1))
	}))
	defer askpass.Close()
	o := Options{HTTP: HTTP{AskpassURL: askpass.URL}}
	for _, want := range []string{"hunter1", "hunter2"} {
		run := o.ForRun()
		var requests sync.WaitGroup
		for range 4 {
			requests.Go(func() {
				if l, err := run.askpass(t.Context()); err != nil || l.password != want {
					t.Errorf("%+v, %v, want %s", l, err, want)
				}
			})
		}
		requests.Wait()
	}
}
