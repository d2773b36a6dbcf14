package oci

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// credential returns the login for an endpoint. The files are read again for each token, because they rotate.
func (e *endpoint) credential(context.Context, string) (found auth.Credential, err error) {
	who := e.o.Who
	switch {
	case who.PasswordFile != "" && !e.mirror:
		found.Username = who.User
		found.Password, err = secret.Read(who.PasswordFile)
	case who.TokenFile != "" && !e.mirror:
		found.AccessToken, err = secret.Read(who.TokenFile)
	case e.o.DockerConfig != "":
		found, e.helper, err = configured(e.o.DockerConfig, e.name, e.repository)
	}
	e.hide(found.Password, found.RefreshToken, found.AccessToken)
	e.login = found != auth.EmptyCredential
	return found, err
}

// dockerLogin is an entry of Docker's configuration file.
type dockerLogin struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

// configured returns the login of a configuration file of Docker for a repository of a registry, and the credential
// helper that would know it if the file does not.
func configured(name, registry, repository string) (found auth.Credential, helper string, err error) {
	text, err := readConfig(name)
	if err != nil {
		return found, "", err
	}
	var config struct {
		Auths       map[string]dockerLogin `json:"auths"`
		CredHelpers map[string]string      `json:"credHelpers"`
		CredsStore  string                 `json:"credsStore"`
	}
	err = json.Unmarshal([]byte(text), &config)
	if err == nil && config.Auths == nil && config.CredHelpers == nil && config.CredsStore == "" {
		err = json.Unmarshal([]byte(text), &config.Auths) // kubernetes.io/dockercfg
	}
	if err != nil {
		return found, "", failure.New(failure.Local, "%s is not a configuration file of Docker", name).WithHint("want the content of a Secret of type kubernetes.io/dockerconfigjson")
	}
	longest := -1
	for key, login := range config.Auths {
		if n := matches(key, registry, repository); n > longest {
			longest = n
			found = login.credential()
		}
	}
	if found == auth.EmptyCredential {
		helper = cmp.Or(config.CredHelpers[registry], config.CredsStore)
	}
	return found, helper, nil
}

// readConfig returns the content of a file, or of the file in a directory where a Secret is mounted.
func readConfig(name string) (string, error) {
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return secret.Read(name)
	}
	for _, file := range []string{".dockerconfigjson", ".dockercfg", "config.json"} {
		text, err := secret.Read(filepath.Join(name, file))
		if !errors.Is(err, fs.ErrNotExist) {
			return text, err
		}
	}
	return "", failure.New(failure.Missing, "%s has no .dockerconfigjson, .dockercfg or config.json", name).WithHint("is it where a Secret of type kubernetes.io/dockerconfigjson is mounted?")
}

func (d dockerLogin) credential() auth.Credential {
	c := auth.Credential{Username: d.Username, Password: d.Password, RefreshToken: d.IdentityToken, AccessToken: d.RegistryToken}
	if text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(d.Auth)); err == nil && c.Username == "" {
		c.Username, c.Password, _ = strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
	}
	if c.Username == "<token>" { // as docker login stores an identity token
		c.RefreshToken = cmp.Or(c.RefreshToken, c.Password)
		c.Username, c.Password = "", ""
	}
	return c
}

// matches returns how well the key of a login fits a repository of a registry, or -1 if it does not. A key is a host,
// perhaps as a URL, perhaps with * in a part of its name, and perhaps with the beginning of the repository's path
// (https://kubernetes.io/docs/concepts/containers/images/#config-json).
func matches(key, registry, repository string) int {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	host, prefix, _ := strings.Cut(key, "/")
	if host == "index.docker.io" || host == dockerHub {
		host = "docker.io"
	}
	if registry == "index.docker.io" {
		registry = "docker.io"
	}
	if prefix = strings.Trim(prefix, "/"); prefix == "v1" || prefix == "v2" {
		prefix = ""
	}
	// A * does not match a dot.
	dots := strings.NewReplacer(".", "/")
	if fits, _ := path.Match(dots.Replace(host), dots.Replace(registry)); !fits {
		return -1
	}
	if prefix != "" && repository != prefix && !strings.HasPrefix(repository, prefix+"/") {
		return -1
	}
	if host == registry {
		return 2*len(prefix) + 1
	}
	return 2 * len(prefix)
}
