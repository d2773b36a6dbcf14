package waitfor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
)

// check makes one attempt at target.
func check(t *testing.T, target string, o Options) error {
	t.Helper()
	c, err := Parse(target, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return c.Check(ctx)
}

// A failure of a proxy, or of where a redirect leads, is not the target's.
func TestFailuresElsewhere(t *testing.T) {
	nobody := refusedAddr(t)
	redirecting := httptest.NewServer(http.RedirectHandler("http://"+nobody+"/", http.StatusFound))
	defer redirecting.Close()
	err := check(t, redirecting.URL, Options{})
	if f := failure.Of(err); f.Class != failure.Refused || !strings.HasPrefix(f.Text, "redirected to another server: ") {
		t.Errorf("%v", err)
	}
	if err := check(t, redirecting.URL, Options{Gone: true}); err == nil {
		t.Error("a server that redirects is taken for gone")
	}
}

// A redirect with a body must not take it to another server.
func TestBodyStaysHere(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	redirecting := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer redirecting.Close()
	err := check(t, redirecting.URL+"#request-body=hunter2", Options{})
	if err == nil || reached {
		t.Errorf("error %v, other server reached: %v", err, reached)
	}
}
