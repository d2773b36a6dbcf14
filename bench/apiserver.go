package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// An apiServer is a Kubernetes API server with an etcd behind it, both on loopback, and nothing else: no controller and
// no kubelet competes for the processors, and this program plays their part.
type apiServer struct {
	url        string
	token      string
	kubeconfig string // a file
	client     *http.Client
	procs      []*proc
}

const apiServerUp = time.Minute // at most, on a machine that is busy

func (b *bench) startAPIServer(ctx context.Context) (s *apiServer, err error) {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, ok := b.tools[name]; !ok {
			return nil, fmt.Errorf("%w: %s is not installed (test/cluster/build.sh builds Kubernetes, and make bench finds it)", errSkipped, name)
		}
	}
	dir, err := os.MkdirTemp(b.dir, "apiserver-")
	if err != nil {
		return nil, err
	}
	host := loopback(serviceNet, claimHost+1)
	etcd, peer := "http://"+net.JoinHostPort(host, strconv.Itoa(b.port)), "http://"+net.JoinHostPort(host, strconv.Itoa(b.port+200))
	s = &apiServer{
		url:        "https://" + net.JoinHostPort(host, strconv.Itoa(b.port+100)),
		token:      "of-this-benchmark-only",
		kubeconfig: filepath.Join(dir, "kubeconfig"),
		client:     &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}},
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte(s.token+",admin,admin,system:masters\n"), 0o600); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "bench",
  "clusters": [{"name": "bench", "cluster": {"server": %q, "insecure-skip-tls-verify": true}}],
  "users": [{"name": "bench", "user": {"token": %q}}],
  "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}]}`, s.url, s.token)
	if err := os.WriteFile(s.kubeconfig, []byte(config), 0o600); err != nil {
		return nil, err
	}
	key := filepath.Join(dir, "apiserver.key") // made by the server, with its certificate
	for _, argv := range [][]string{
		{b.tools["etcd"].path, "--data-dir", filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level", "error",
			"--listen-client-urls", etcd, "--advertise-client-urls", etcd,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer},
		{b.tools["kube-apiserver"].path, "--etcd-servers", etcd, "--bind-address", host, "--advertise-address", host,
			"--secure-port", strconv.Itoa(b.port + 100), "--cert-dir", dir, "--service-cluster-ip-range", "127.79.0.0/24",
			"--token-auth-file", tokens, "--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount",
			"--service-account-issuer", s.url, "--service-account-key-file", key, "--service-account-signing-key-file", key},
	} {
		p, err := b.start(ctx, argv)
		if err != nil {
			return nil, err
		}
		s.procs = append(s.procs, p)
	}
	return s, s.awaitReady(ctx)
}

func (s *apiServer) awaitReady(ctx context.Context) error {
	giveUp := time.Now().Add(apiServerUp)
	for {
		err := s.do(http.MethodGet, "/readyz", nil)
		if err == nil {
			err = s.do(http.MethodGet, "/api/v1/namespaces/default", nil)
		}
		if err == nil || time.Now().After(giveUp) {
			return err
		}
		for _, p := range s.procs {
			if err := p.pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
		}
	}
}

func (s *apiServer) close() {
	for i := len(s.procs) - 1; i >= 0; i-- {
		s.procs[i].stop()
	}
}

// do sends a request that is to succeed.
func (s *apiServer) do(method, path string, body any) error {
	_, err := s.send(method, path, body)
	return err
}

// send sends a request with a JSON body, if one is given, and returns the answer to it if that is a success.
func (s *apiServer) send(method, path string, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequest(method, s.url+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if data, err = io.ReadAll(resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(data))
	}
	return data, nil
}

// requests returns how many requests for a resource the server has answered, or is answering, by verb.
func (s *apiServer) requests(resource string) (map[string]int, error) {
	text, err := s.send(http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for line := range strings.Lines(string(text)) {
		labels, value, ok := strings.Cut(strings.TrimPrefix(line, "apiserver_request_total{"), "} ")
		if !ok || !strings.HasPrefix(line, "apiserver_request_total{") || !strings.Contains(labels, `resource="`+resource+`"`) {
			continue
		}
		_, rest, _ := strings.Cut(labels, `verb="`)
		verb, _, _ := strings.Cut(rest, `"`)
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics: %w", err)
		}
		counts[verb] += int(n)
	}
	return counts, nil
}
