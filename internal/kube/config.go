package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"initbox/internal/readfile"
	"initbox/internal/tlsconfig"
)

// Config is the address of an API server, and the credentials for it.
type Config struct {
	Server    *url.URL // scheme, host, and a path under which the API is; no user information
	Namespace string   // the one meant where none is named

	// TLS and Authorize are called for each request, since what they read may
	// change: a service account's token lives for an hour.
	TLS       func() (tlsconfig.Options, error)
	Authorize func(http.Header) error

	Proxy   *url.URL // through which to connect, whatever the environment says; may be nil
	NoProxy bool     // ignore HTTP_PROXY and similar variables
}

// DefaultNamespace is used if neither the user nor a file names one.
const DefaultNamespace = "default"

// ErrNoToken is an error of [InCluster].
var ErrNoToken = errors.New("the Pod has no service account token")

// serviceAccountDir is where the kubelet mounts a service account's token.
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// InCluster returns how a Pod reaches the API server of its own cluster, with its service account. It fails outside
// of a Pod, and with [ErrNoToken] if automountServiceAccountToken is false.
//
// It never goes through a proxy: the server is as near as any other Service, and HTTP_PROXY names the way out.
//
// https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
func InCluster(getenv func(string) string) (*Config, error) {
	return inCluster(getenv, serviceAccountDir)
}

func inCluster(getenv func(string) string, dir string) (*Config, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return nil, errors.New("not in a Pod: KUBERNETES_SERVICE_HOST is not set")
	}
	if port == "" {
		port = "443"
	}
	token := filepath.Join(dir, "token")
	if _, err := readSecret(token); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoToken, err)
	}
	c := &Config{
		Server:    &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)},
		Namespace: DefaultNamespace,
		NoProxy:   true,
		Authorize: func(h http.Header) error { return bearerFile(h, token) },
		TLS: func() (tlsconfig.Options, error) {
			ca, err := readfile.All(filepath.Join(dir, "ca.crt"))
			if err != nil {
				return tlsconfig.Options{}, fmt.Errorf("CA of the cluster: %w", err)
			}
			return tlsconfig.Options{CA: string(ca)}, nil
		},
	}
	if ns, err := readSecret(filepath.Join(dir, "namespace")); err == nil && ns != "" {
		c.Namespace = ns
	}
	return c, nil
}

// bearerFile sets the token in the file as the request's.
func bearerFile(h http.Header, file string) error {
	token, err := readSecret(file)
	if err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if token == "" {
		return fmt.Errorf("token: %s is empty", file)
	}
	return bearer(h, token)
}

func bearer(h http.Header, token string) error {
	if strings.ContainsAny(token, " \t\r\n\x00") {
		return errors.New("the token has a space or a line break in it")
	}
	h.Set("Authorization", "Bearer "+token)
	return nil
}

// readSecret returns the file's content without the line break that editors add.
func readSecret(file string) (string, error) {
	data, err := readfile.All(file)
	return strings.TrimSpace(string(data)), err
}

// CredentialsError is the error of a request that was not sent, since its credentials cannot be read.
type CredentialsError struct{ Err error }

func (e *CredentialsError) Error() string { return "credentials: " + e.Err.Error() }
func (e *CredentialsError) Unwrap() error { return e.Err }
