package oci

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/secret"
)

// credential returns the login for an endpoint. The files are read again for each token, because they rotate.
func (e *endpoint) credential() (found credential, err error) {
	who := e.o.Who
	switch {
	case who.PasswordFile != "" && !e.mirror:
		found.user = who.User
		found.password, err = secret.Read(who.PasswordFile)
	case who.TokenFile != "" && !e.mirror:
		found.accessToken, err = secret.Read(who.TokenFile)
	case e.o.DockerConfig != "":
		found, e.helper, err = configured(e.o.DockerConfig, e.name, e.repository)
	}
	e.hide(found.password, found.refreshToken, found.accessToken)
	e.login = found != (credential{})
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
func configured(name, registry, repository string) (found credential, helper string, err error) {
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
	if found == (credential{}) {
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

func (d dockerLogin) credential() credential {
	c := credential{user: d.Username, password: d.Password, refreshToken: d.IdentityToken, accessToken: d.RegistryToken}
	if text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(d.Auth)); err == nil && c.user == "" {
		c.user, c.password, _ = strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
	}
	if c.user == "<token>" { // as docker login stores an identity token
		c.refreshToken = cmp.Or(c.refreshToken, c.password)
		c.user, c.password = "", ""
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
