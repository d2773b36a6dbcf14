package kube

import (
	"errors"
	"fmt"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/internal/words"
)

// Explain returns why the API server did not answer a request, as a failure with a hint. That says nothing about the
// objects themselves. Where the request is forbidden, grant returns the hint for the account that was refused, and
// the Role to apply, if it is known; see [Grant].
func Explain(err error, grant func(Account) (hint, role string)) error {
	var (
		known   *failure.Failure
		unknown *UnknownResource
		status  *StatusError
	)
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &unknown):
		f := failure.New(failure.Missing, "the API server has no kind of that name")
		f.Hint = "is its CustomResourceDefinition installed? kubectl api-resources lists all kinds"
		if unknown.Suggestion != "" {
			f.Hint = "did you mean " + failure.Printable(unknown.Suggestion) + "? " + f.Hint
		}
		f.Err, f.Elsewhere = err, true
		return f
	case errors.As(err, &status):
		return statusFailure(status, grant)
	case errors.Is(err, ErrNoToken):
		return noToken(err)
	case errors.As(err, new(*CredentialsError)):
		return &failure.Failure{Class: failure.Local, Text: failure.Printable(err.Error()), Err: err, Elsewhere: true}
	}
	f := failure.Of(err)
	f.Elsewhere = true
	f.Text = "API server: " + f.Text
	switch f.Class {
	case failure.Refused:
		f.Hint = "is the API server running, and is its address right?"
	case failure.TLS:
		f.Hint = "does the kubeconfig file, or the CA that the kubelet mounts, belong to this API server?"
	case failure.TimedOut, failure.Unreachable:
		f.Hint = "can this Pod reach the API server? look for a NetworkPolicy; with a service mesh, exclude the API server's address"
	}
	return f
}

func statusFailure(s *StatusError, grant func(Account) (hint, role string)) error {
	f := &failure.Failure{Class: failure.Unexpected, Err: s, Elsewhere: true}
	f.Text = fmt.Sprintf("API server: status %d", s.Code)
	if s.Reason != "" {
		f.Text += " " + failure.Printable(s.Reason)
	}
	f.Note = Short(s.Message)
	switch s.Code {
	case 400:
		f.Hint = "does kubectl accept the selector?"
		if s.Reason != "" { // in a Status, so from the API server itself: retrying cannot help
			return poll.Permanent(f)
		}
	case 401:
		f.Class, f.Text = failure.Authentication, "the API server does not accept the credentials (401 Unauthorized)"
		f.Hint = "has the token expired, or is it for another cluster?"
	case 403:
		forbidden(f, s, grant)
	case 429:
		f.Hint = "the API server is overloaded: kubectl get --raw /metrics | grep apiserver_flowcontrol"
	}
	return f
}

// forbidden completes f: which account may not do what, and which Role would grant it.
func forbidden(f *failure.Failure, s *StatusError, grant func(Account) (hint, role string)) {
	who := accountOf(s.User())
	f.Class = failure.Authentication
	if who != (Account{}) {
		f.Note = "" // it repeats the text
	}
	switch {
	case who.User == "system:anonymous": // a Role for it would let any client in
		f.Text = "the API server refuses requests without credentials (403 Forbidden, system:anonymous)"
		f.Hint = "no credentials were sent: does the context of the kubeconfig file have a user, with a token or a certificate?"
	case s.Verb == "":
		f.Text = fmt.Sprintf("%s may not get %s, which lists the kinds", who, failure.Printable(s.Path))
		f.Hint = "the ClusterRole system:discovery grants it, usually to every account: kubectl describe clusterrolebinding system:discovery"
	default:
		f.Text = fmt.Sprintf("%s may not %s %s%s", who, s.Verb, failure.Printable(s.Resource.String()), InNamespace(failure.Printable(s.Namespace)))
		f.Hint, f.Role = grant(who)
		f.Urgent = true
		if f.Role != "" {
			f.Hint += "\n" + f.Role
		}
	}
}

// Grant returns the hint for an account that lacks the permissions, which are for purpose, and the Role to apply.
func Grant(purpose string, needs []Permission, who Account, namespace string) (hint, role string) {
	return "these objects grant " + purpose + ", for kubectl apply -f -", RBAC(needs, who, "", namespace)
}

// Account is an account that an API server refused.
type Account struct {
	Namespace, Name string // of a service account
	User            string // of another account
}

func (a Account) String() string {
	switch {
	case a.Name != "":
		return "the service account " + a.Namespace + "/" + a.Name
	case a.User != "":
		return "the user " + failure.Printable(a.User)
	}
	return "this account"
}

// accountOf returns the account of a user name, such as system:serviceaccount:default:myapp.
func accountOf(user string) Account {
	if whole, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(whole, ":"); ok && strings.Trim(namespace+name, words.NameCharacters) == "" {
			return Account{Namespace: namespace, Name: name}
		}
	}
	return Account{User: user}
}

// Short shortens a text of the API server to part of a line.
func Short(s string) string {
	const limit = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "…"
	}
	return failure.Printable(s)
}

// InNamespace returns " in namespace " and the name, or "" without one.
func InNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
