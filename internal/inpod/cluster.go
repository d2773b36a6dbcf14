package inpod

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/kube"
	"initbox/internal/words"
)

// answerLimit is how long one answer of the API server may take.
const answerLimit = 5 * time.Second

// clockLimit is how far clocks may differ. Tokens and certificates allow for less than that at the edges of their time.
const clockLimit = 10 * time.Second

// apiServer tells whether the API server answers, who this Pod is there, and what it may do.
func apiServer(ctx context.Context, o *Options, s *section) {
	config, err := kube.Place{Getenv: o.Getenv}.Config()
	if err != nil {
		f := failure.Of(err)
		s.add("account", "%s", f.Text) // not a problem: most Pods need none
		if host := o.Getenv("KUBERNETES_SERVICE_HOST"); host != "" {
			reach(ctx, net.JoinHostPort(host, cmp.Or(o.Getenv("KUBERNETES_SERVICE_PORT"), "443")), s)
		}
		return
	}
	dialer := dial.New(nil).DialContext
	s.add("address", "%s", failure.Printable(config.Server.Host))
	header := http.Header{}
	if config.Authorize != nil {
		if err := config.Authorize(header); err != nil {
			s.add("token", "%s", failure.Printable(err.Error()))
			s.problem("does the volume of the service account's token belong to this Pod, and may this user read it (fsGroup)?", "the credentials cannot be read")
		}
	}
	if !version(ctx, config, header, httpclient.Options{Dial: dialer, Proxy: config.Proxy, NoProxy: config.NoProxy, NoRedirect: true}, s) {
		return
	}
	token(header, time.Now(), s)
	client := kube.New(config, kube.Options{Dial: dialer})
	account(ctx, client, s)
	rights(ctx, client, cmp.Or(config.Namespace, kube.DefaultNamespace), s)
}

// reach tells whether the server accepts connections, for a Pod without credentials and without the cluster's CA.
func reach(ctx context.Context, address string, s *section) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s.add("address", "%s", failure.Printable(address))
	begin := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		s.add("answer", "%s", failure.Of(err).Text) // not a problem, either
		return
	}
	conn.Close()
	s.add("answer", "TCP in %s", took(time.Since(begin)))
}

// version asks for the server's version, and times each step. It returns whether it answered.
func version(ctx context.Context, config *kube.Config, header http.Header, o httpclient.Options, s *section) bool {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var begin, connected, encrypted atomic.Int64
	now := func(at *atomic.Int64) { at.Store(time.Now().UnixNano()) }
	now(&begin)
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:           func(httptrace.GotConnInfo) { now(&encrypted) },
		TLSHandshakeStart: func() { now(&connected) },
		TLSHandshakeDone:  func(tls.ConnectionState, error) { now(&encrypted) },
	}), http.MethodGet, strings.TrimSuffix(config.Server.String(), "/")+"/version", nil)
	if err != nil {
		s.add("answer", "the server's address is not a URL")
		return false
	}
	req.Header = header.Clone()
	if config.TLS != nil {
		if o.TLS, err = config.TLS(); err != nil {
			return s.refuse(&kube.CredentialsError{Err: err})
		}
	}
	resp, err := httpclient.Do(req, o)
	if err != nil {
		return s.refuse(err)
	}
	defer resp.Body.Close()
	received := time.Now()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var about struct{ GitVersion string }
	_ = json.Unmarshal(body, &about) // the version is not what this is about
	since := func(from, to int64) string { return took(time.Duration(to - from)) }
	steps := "connected in " + since(begin.Load(), encrypted.Load())
	if connected.Load() > 0 {
		steps = fmt.Sprintf("TCP in %s, TLS in %s", since(begin.Load(), connected.Load()), since(connected.Load(), encrypted.Load()))
	}
	s.add("answer", "%s, %s in %s", steps, failure.Printable(cmp.Or(about.GitVersion, resp.Status)), since(encrypted.Load(), received.UnixNano()))
	if resp.StatusCode == http.StatusUnauthorized {
		s.problem("is the token of this cluster? a Pod that exists for longer than the cluster's keys must be deleted", "the API server does not accept the credentials")
	}
	clock(resp.Header.Get("Date"), time.Unix(0, begin.Load()), received, s)
	return true
}

// refuse adds why the API server did not answer, and returns false.
func (s *section) refuse(err error) bool {
	f := failure.Of(kube.Explain(err, func(kube.Account) (hint, role string) { return "", "" }))
	s.add("answer", "%s", f.Text)
	s.problem(cmp.Or(f.Hint, "see kubectl get --raw /readyz"), "%s", f.Text)
	return false
}

// clock compares the server's clock with ours. Its header has whole seconds, and was written between two moments.
func clock(date string, asked, received time.Time, s *section) {
	theirs, err := http.ParseTime(date)
	if err != nil {
		return
	}
	ahead := asked.Sub(theirs.Add(time.Second))
	behind := theirs.Sub(received)
	switch {
	case ahead <= 0 && behind <= 0:
		s.add("clock", "as ours")
	case ahead > 0:
		s.add("clock", "ours is %s ahead", words.Seconds(ahead.Round(time.Second)))
	default:
		s.add("clock", "ours is %s behind", words.Seconds(behind.Round(time.Second)))
	}
	if max(ahead, behind) > clockLimit {
		s.problem("synchronize the clock of the node, or of the one that runs the API server, with NTP", "the clocks differ: tokens and certificates may be refused")
	}
}

// token tells what the token says of itself, if it is a JSON Web Token (RFC 7519), and nothing else of it.
func token(header http.Header, now time.Time, s *section) {
	bearer, found := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	parts := strings.Split(bearer, ".")
	if !found || len(parts) != 3 {
		return
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Subject string `json:"sub"`
		Expires int64  `json:"exp"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return
	}
	text := "of " + failure.Printable(claims.Subject)
	left := time.Unix(claims.Expires, 0).Sub(now).Round(time.Second)
	switch {
	case claims.Expires == 0:
		s.add("token", "%s, without expiry", text)
	case left <= 0:
		s.add("token", "%s, expired %s ago", text, words.Seconds(-left))
		s.problem("the kubelet renews it: mount it without subPath, and see the kubelet's log", "the token has expired")
	default:
		s.add("token", "%s, expires in %s", text, words.Seconds(left))
	}
}

// review asks the API server about the account. If it does not say, that is what the item is.
func review(ctx context.Context, client *kube.Client, s *section, item, group, kind string, spec map[string]any) kube.Object {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	status, err := client.Review(ctx, kube.Resource{Group: group, Version: "v1", Name: strings.ToLower(kind) + "s", Kind: kind}, spec)
	var refused *kube.StatusError
	switch {
	case errors.As(err, &refused):
		s.add(item, "unknown: %s", kube.Short(fmt.Sprintf("status %d %s", refused.Code, refused.Reason)))
	case err != nil:
		s.add(item, "unknown: %s", failure.Of(err).Text)
	case status == nil:
		s.add(item, "unknown: the answer has no status")
	}
	return status
}

// account tells who the API server says this Pod is.
func account(ctx context.Context, client *kube.Client, s *section) {
	if status := review(ctx, client, s, "account", "authentication.k8s.io", "SelfSubjectReview", nil); status != nil {
		name, _ := status.At("userInfo", "username").(string)
		s.add("account", "%s", failure.Printable(cmp.Or(name, "unknown")))
	}
}

// rights tells what the account may do in a namespace, without what every account may do.
func rights(ctx context.Context, client *kube.Client, namespace string, s *section) {
	name := "rights in " + failure.Printable(namespace)
	status := review(ctx, client, s, name, "authorization.k8s.io", "SelfSubjectRulesReview", map[string]any{"namespace": namespace})
	if status == nil {
		return
	}
	rules, _ := status.At("resourceRules").([]any)
	var shown []string
	for _, r := range rules {
		rule, _ := r.(map[string]any)
		verbs, resources := texts(rule["verbs"]), texts(rule["resources"])
		if len(verbs) == 0 || len(resources) == 0 || strings.HasPrefix(resources[0], "selfsubject") { // of system:basic-user
			continue
		}
		text := strings.Join(verbs, " ") + " " + strings.Join(resources, " ")
		if names := texts(rule["resourceNames"]); len(names) > 0 {
			text += " (" + words.List(names) + ")"
		}
		shown = append(shown, text)
	}
	slices.Sort(shown)
	more := yes(status.At("incomplete") == true, "; the server does not know all", "")
	if extra := len(shown) - maxRights; extra > 0 {
		more, shown = fmt.Sprintf(" and %d more%s", extra, more), shown[:maxRights]
	}
	s.add(name, "%s%s", printable(slices.Compact(shown)), more)
}

// maxRights is how many rules are shown.
const maxRights = 12

// texts returns the texts in a list of JSON.
func texts(v any) (list []string) {
	all, _ := v.([]any)
	for _, one := range all {
		if text, ok := one.(string); ok {
			list = append(list, text)
		}
	}
	return list
}
