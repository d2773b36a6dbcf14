package http

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/waitfor/target"
)

// kinds has only the kind of the package.
var kinds = target.Kinds{&Kind}

// TestFailuresElsewhere pins that a failure of a proxy, or of the server that a redirect leads to, does not show that
// the target is gone.
func TestFailuresElsewhere(t *testing.T) {
	nobody := kindtest.RefusedAddr(t)
	redirecting := httptest.NewServer(http.RedirectHandler("http://"+nobody+"/", http.StatusFound))
	defer redirecting.Close()
	err := kindtest.Check(t, kinds, redirecting.URL, target.Options{})
	if f := failure.Of(err); f.Class != failure.Refused || !strings.HasPrefix(f.Text, "redirected to another server: ") {
		t.Errorf("%v", err)
	}
	if err := kindtest.Check(t, kinds, redirecting.URL, target.Options{Gone: true}); err == nil {
		t.Error("a server that redirects counts as gone")
	}
}

// TestBodyStaysHere pins that a redirect does not send a request's body to another server.
func TestBodyStaysHere(t *testing.T) {
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	redirecting := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer redirecting.Close()
	err := kindtest.Check(t, kinds, redirecting.URL+"#request-body=hunter2", target.Options{})
	if err == nil || reached {
		t.Errorf("error %v, other server reached: %v", err, reached)
	}
}
