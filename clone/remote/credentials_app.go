package remote

import (
	"cmp"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// appTokens caches the tokens of this process: a token is valid for an hour, and GitHub limits how many are made.
var appTokens = struct {
	sync.Mutex
	of map[GitHubApp]appToken
}{of: map[GitHubApp]appToken{}}

type appToken struct {
	Token   string    `json:"token"`
	Expires time.Time `json:"expires_at"`
}

// renewBefore is how long a token must still be valid: a clone takes several requests.
const renewBefore = 5 * time.Minute

// appToken returns a token of the installation of the GitHub App.
func (o Options) appToken(ctx context.Context) (string, error) {
	app := *o.HTTP.App
	appTokens.Lock()
	t, ok := appTokens.of[app]
	appTokens.Unlock()
	if ok && time.Until(t.Expires) > renewBefore {
		return t.Token, nil
	}
	t, err := o.newAppToken(ctx, app)
	if err != nil {
		return "", err
	}
	appTokens.Lock()
	defer appTokens.Unlock()
	appTokens.of[app] = t
	return t.Token, nil
}

// newAppToken requests a token, see
// https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-an-installation-access-token-for-a-github-app.
func (o Options) newAppToken(ctx context.Context, app GitHubApp) (appToken, error) {
	const what = "the API of the GitHub App"
	var t appToken
	jwt, err := app.jwt(time.Now())
	if err != nil {
		return t, err
	}
	address, err := secret.ParseURL(cmp.Or(app.BaseURL, "https://api.github.com"), o.Getenv)
	if err != nil {
		return t, failure.New(failure.Local, "%s: its URL is invalid: %v", what, err)
	}
	base, err := address.Expand()
	if err != nil {
		return t, err
	}
	if app.Installation == "" || strings.Trim(app.Installation, "0123456789") != "" {
		return t, failure.New(failure.Local, "the installation of the GitHub App is not a number")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base.JoinPath("app", "installations", app.Installation, "access_tokens").String(), nil)
	if err != nil {
		return t, failure.New(failure.Local, "%s: its URL is invalid", what)
	}
	req.Header.Set("Authorization", "Bearer "+jwt)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	req.Header.Set("User-Agent", "initbox") // required by GitHub
	status, body, err := o.ask(req, what, o.Proxy)
	if err != nil {
		return t, err
	}
	if status != http.StatusCreated {
		return t, refusedApp(what, status, body)
	}
	if err := json.Unmarshal(body, &t); err != nil || t.Token == "" || !valid(t.Token) {
		f := failure.New(failure.Unexpected, "%s answered without a token", what)
		f.Elsewhere = true
		return t, f
	}
	return t, nil
}

// refusedApp explains an answer that is not a token. GitHub's message is for people.
func refusedApp(what string, status int, body []byte) error {
	var answer struct{ Message string }
	json.Unmarshal(body, &answer)
	f := failure.Status(status)
	f.Text, f.Elsewhere = what+" answered "+f.Text, true
	if answer.Message != "" {
		f.Text += ": " + failure.Printable(answer.Message)
	}
	switch status {
	case http.StatusUnauthorized:
		f.Hint = "does the key belong to the App with that id, and is the node's clock right?"
	case http.StatusNotFound:
		f.Class = failure.Authentication
		f.Hint = "is the App still installed, and is the number the id of the installation, not of the App?"
	case http.StatusForbidden:
		f.Hint = "is the installation suspended, or were too many tokens requested?"
	}
	return f
}

// jwt returns the token by which the App itself authenticates (RFC 7519). As clocks differ, it is valid from a minute
// ago, and for less than the ten minutes that GitHub allows.
func (a GitHubApp) jwt(now time.Time) (string, error) {
	text, err := secret.Read(a.KeyFile)
	if err != nil {
		return "", err
	}
	key, err := rsaKey(text)
	if err != nil {
		return "", failure.New(failure.Local, "the key file of the GitHub App %s: %v", a.KeyFile, err).
			WithHint("want the file downloaded from GitHub, which begins with -----BEGIN RSA PRIVATE KEY-----")
	}
	claims, err := json.Marshal(map[string]any{"iss": a.ID, "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(9 * time.Minute).Unix()})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", err
	}
	return signed + "." + encode(signature), nil
}

// rsaKey parses a key in PKCS #1, the format of GitHub, or PKCS #8. Its errors quote nothing.
func rsaKey(text string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(tidy(text))
	if block == nil {
		return nil, errors.New("it is not in PEM")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is not a private key")
	}
	if key, ok := key.(*rsa.PrivateKey); ok {
		return key, nil
	}
	return nil, errors.New("it is not an RSA key")
}
