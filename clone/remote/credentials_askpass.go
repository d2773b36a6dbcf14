package remote

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// asked is the answer of the askpass URL in one run.
type asked struct {
	mu    sync.Mutex // held while it is being asked
	login *login
}

// askpass returns user and password from the askpass URL, which is asked at most once in a run.
func (o Options) askpass(ctx context.Context) (*login, error) {
	if o.asked == nil {
		return o.askForLogin(ctx)
	}
	o.asked.mu.Lock()
	defer o.asked.mu.Unlock()
	if o.asked.login != nil {
		return o.asked.login, nil
	}
	var err error
	o.asked.login, err = o.askForLogin(ctx)
	return o.asked.login, err
}

// askForLogin asks a URL for user and password. The answer has the format of git-sync: lines username=USER and
// password=PASSWORD. No proxy is used: the server is usually in the Pod.
func (o Options) askForLogin(ctx context.Context) (*login, error) {
	const what = "the askpass URL"
	u, err := secret.ParseURL(o.HTTP.AskpassURL, o.Getenv)
	if err != nil {
		return nil, failure.New(failure.Local, "%s: %v", what, err)
	}
	expanded, err := u.Expand()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, expanded.String(), nil)
	if err != nil {
		return nil, failure.New(failure.Local, "%s is invalid", what)
	}
	status, body, err := o.ask(req, what, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		f := failure.Status(status)
		f.Text, f.Elsewhere = what+" answered "+f.Text, true
		f.Hint = "look at the log of that server"
		return nil, f
	}
	if l := parseAskpass(string(body)); l != nil {
		return l, nil
	}
	f := failure.New(failure.Unexpected, "%s answered without a password", what) // and the answer is not quoted
	f.Hint, f.Elsewhere = "want the lines username=USER and password=PASSWORD", true
	return nil, f
}

// parseAskpass parses an answer; it returns nil if there is no password.
func parseAskpass(text string) *login {
	var l login
	found := false
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
		switch {
		case ok && name == "username":
			l.user = value
		case ok && name == "password":
			l.password, found = value, true
		}
	}
	if !found {
		return nil
	}
	return &l
}
