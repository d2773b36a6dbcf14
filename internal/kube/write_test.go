package kube_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"initbox/internal/kube"
	"initbox/test/fakeapi"
)

// client returns a client of a fake API server.
func client(t *testing.T) (*fakeapi.Server, *kube.Client) {
	t.Helper()
	api := fakeapi.New()
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return api, kube.New(&kube.Config{Server: address, NoProxy: true}, kube.Options{})
}

func secretObject(name, value string) kube.Object {
	return kube.Object{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name},
		"data": map[string]any{"key": base64.StdEncoding.EncodeToString([]byte(value))}}
}

var secrets, _ = kube.Lookup("secrets")

func statusOf(err error) int {
	var status *kube.StatusError
	if errors.As(err, &status) {
		return status.Code
	}
	return 0
}

// TestCreateOnce creates one object from several clients at once: one succeeds, and the others can read its value.
func TestCreateOnce(t *testing.T) {
	t.Parallel()
	_, c := client(t)
	ctx := context.Background()
	var won sync.Map
	var all sync.WaitGroup
	for _, value := range strings.Split("abcdefgh", "") {
		all.Go(func() {
			switch _, err := c.Create(ctx, secrets, "default", secretObject("db", value)); {
			case err == nil:
				won.Store(value, true)
			case statusOf(err) != http.StatusConflict:
				t.Errorf("Create: %v, want success or a conflict", err)
			}
		})
	}
	all.Wait()
	stored, err := c.Get(ctx, secrets, "default", "db")
	if err != nil {
		t.Fatal(err)
	}
	winners := 0
	won.Range(func(value, _ any) bool {
		winners++
		if got := string(stored.Data()["key"]); got != value {
			t.Errorf("the server has %q, but the client of %q succeeded", got, value)
		}
		return true
	})
	if winners != 1 {
		t.Errorf("%d clients created the object, want 1", winners)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	api, c := client(t)
	ctx := context.Background()
	first, err := c.Create(ctx, secrets, "default", secretObject("db", "one"))
	if err != nil {
		t.Fatal(err)
	}
	first["data"] = map[string]any{"key": base64.StdEncoding.EncodeToString([]byte("two"))}
	if _, err := c.Replace(ctx, secrets, "default", first); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Replace(ctx, secrets, "default", first); statusOf(err) != http.StatusConflict {
		t.Errorf("Replace of an old version: %v, want a conflict", err)
	}
	requests := len(api.Requests())
	if _, err := c.Replace(ctx, secrets, "default", secretObject("db", "three")); err == nil || len(api.Requests()) != requests {
		t.Errorf("Replace without a version: %v, want an error and no request", err)
	}
	if stored, err := c.Get(ctx, secrets, "default", "db"); err != nil || string(stored.Data()["key"]) != "two" {
		t.Errorf("the server has %v, %v, want two", stored, err)
	}
}

// TestWriteKeepsSecrets has the server repeat what it was sent: no error quotes that, neither plain nor in base64.
func TestWriteKeepsSecrets(t *testing.T) {
	t.Parallel()
	_, c := client(t)
	o := secretObject("db", "Tr0ub4dor&3 of the database")
	o["metadata"].(map[string]any)["annotations"] = map[string]any{"refuse": "yes"}
	_, err := c.Create(context.Background(), secrets, "default", o)
	if statusOf(err) != http.StatusUnprocessableEntity {
		t.Fatalf("Create: %v, want status 422", err)
	}
	if text := err.Error(); strings.Contains(text, "Tr0ub4dor") || strings.Contains(text, "VHIwdWI0") {
		t.Errorf("the error quotes the Secret: %s", text)
	}
	if !strings.Contains(err.Error(), "create secrets db in namespace default: status 422") || !strings.Contains(err.Error(), "a webhook does not like") {
		t.Errorf("the error does not say what failed and why: %v", err)
	}
}
