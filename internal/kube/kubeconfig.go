package kube

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"initbox/internal/lazy"
	"initbox/internal/readfile"
	"initbox/internal/suggest"
	"initbox/internal/tlsconfig"
)

// kubeconfig has the parts in use of a kubeconfig file.
//
// https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
type kubeconfig struct {
	CurrentContext string         `json:"current-context"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
}

type namedCluster struct {
	Name    string  `json:"name"`
	Cluster cluster `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User user   `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster   string `json:"cluster"`
		User      string `json:"user"`
		Namespace string `json:"namespace"`
	} `json:"context"`
}

type cluster struct {
	Server        string `json:"server"`
	CAFile        string `json:"certificate-authority"`
	CAData        []byte `json:"certificate-authority-data"`
	TLSServerName string `json:"tls-server-name"`
	Insecure      bool   `json:"insecure-skip-tls-verify"`
	ProxyURL      string `json:"proxy-url"`

	dir string // of the file it is from
}

type user struct {
	CertFile  string              `json:"client-certificate"`
	CertData  []byte              `json:"client-certificate-data"`
	KeyFile   string              `json:"client-key"`
	KeyData   []byte              `json:"client-key-data"`
	Token     string              `json:"token"`
	TokenFile string              `json:"tokenFile"`
	As        string              `json:"as"`
	AsUID     string              `json:"as-uid"`
	AsGroups  []string            `json:"as-groups"`
	AsExtra   map[string][]string `json:"as-user-extra"`

	// Not supported.
	Username string    `json:"username"`
	Exec     *struct{} `json:"exec"`
	Provider *struct {
		Name string `json:"name"`
	} `json:"auth-provider"`

	dir string
}

// Kubeconfig returns what a kubeconfig says of the context, or of its current context if that is empty. The file may be
// a list, as in KUBECONFIG: the first file that has a name wins, and missing files are skipped as long as one exists.
func Kubeconfig(file, context string) (*Config, error) {
	merged, err := mergeFiles(file)
	if err != nil {
		return nil, err
	}
	c, err := merged.config(context)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
	}
	return c, nil
}

func mergeFiles(list string) (*kubeconfig, error) {
	var merged *kubeconfig
	var missing error
	for _, file := range filepath.SplitList(list) {
		if file == "" {
			continue
		}
		data, err := readfile.All(file)
		if errors.Is(err, fs.ErrNotExist) {
			missing = errors.Join(missing, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
		k, err := parseKubeconfig(data, filepath.Dir(file))
		if err != nil {
			return nil, fmt.Errorf("kubeconfig %s: %w", file, err)
		}
		if merged == nil {
			merged = new(kubeconfig)
		}
		merged.add(k)
	}
	switch {
	case merged != nil:
		return merged, nil
	case missing != nil:
		return nil, fmt.Errorf("kubeconfig: %w", missing)
	}
	return nil, errors.New("kubeconfig: no file named")
}

// parseKubeconfig reads one file; dir is what its paths are relative to. Its
// errors do not quote the file, which is full of secrets.
func parseKubeconfig(data []byte, dir string) (*kubeconfig, error) {
	k := new(kubeconfig)
	if err := yaml.Unmarshal(data, k); err != nil {
		line := atLine().FindString(err.Error())
		return nil, fmt.Errorf("not the YAML of a kubeconfig%s", line)
	}
	for i := range k.Clusters {
		k.Clusters[i].Cluster.dir = dir
	}
	for i := range k.Users {
		k.Users[i].User.dir = dir
	}
	return k, nil
}

// atLine matches the position in a YAML error.
var atLine = lazy.Regexp(` line \d+`)

// add appends; of two with the same name, the first is found.
func (k *kubeconfig) add(other *kubeconfig) {
	if k.CurrentContext == "" {
		k.CurrentContext = other.CurrentContext
	}
	k.Clusters = append(k.Clusters, other.Clusters...)
	k.Users = append(k.Users, other.Users...)
	k.Contexts = append(k.Contexts, other.Contexts...)
}

// config puts together what the context refers to.
func (k *kubeconfig) config(name string) (*Config, error) {
	if name == "" {
		name = k.CurrentContext
	}
	if name == "" {
		return nil, errors.New("it has no current context: name one")
	}
	i := slices.IndexFunc(k.Contexts, func(c namedContext) bool { return c.Name == name })
	if i < 0 {
		return nil, unknown("context", name, k.Contexts, func(c namedContext) string { return c.Name })
	}
	context := k.Contexts[i].Context
	i = slices.IndexFunc(k.Clusters, func(c namedCluster) bool { return c.Name == context.Cluster })
	if i < 0 {
		return nil, unknown("cluster", context.Cluster, k.Clusters, func(c namedCluster) string { return c.Name })
	}
	cluster, user := k.Clusters[i].Cluster, user{}
	if context.User != "" {
		i = slices.IndexFunc(k.Users, func(u namedUser) bool { return u.Name == context.User })
		if i < 0 {
			return nil, unknown("user", context.User, k.Users, func(u namedUser) string { return u.Name })
		}
		user = k.Users[i].User
		if err := user.unsupported(); err != nil {
			return nil, fmt.Errorf("user %s: %w", context.User, err)
		}
	}
	c, err := cluster.config()
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", context.Cluster, err)
	}
	if context.Namespace != "" {
		c.Namespace = context.Namespace
	}
	c.Authorize = user.authorize
	c.TLS = func() (tlsconfig.Options, error) { return tlsOptions(cluster, user) }
	return c, nil
}

func unknown[T any](what, name string, list []T, nameOf func(T) string) error {
	var names []string
	for _, e := range list {
		names = append(names, nameOf(e))
	}
	if s := suggest.Closest(name, names); s != "" {
		return fmt.Errorf("it has no %s %q, did you mean %q?", what, name, s)
	}
	return fmt.Errorf("it has no %s %q", what, name)
}

// config returns the configuration for a cluster, without the namespace and the user.
func (c cluster) config() (*Config, error) {
	server := c.Server
	if server != "" && !strings.Contains(server, "://") {
		server = "https://" + server
	}
	u, err := url.Parse(server)
	switch {
	case server == "":
		return nil, errors.New("it has no server")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("its server is not an https URL")
	case u.User != nil:
		return nil, errors.New("its server has a user in it: credentials belong to the users of the kubeconfig")
	}
	config := &Config{Server: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}, Namespace: DefaultNamespace}
	if c.ProxyURL != "" {
		config.Proxy, err = url.Parse(c.ProxyURL)
		if err != nil || config.Proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, config.Proxy.Scheme) {
			return nil, errors.New("its proxy-url is not an http, https or socks5 URL")
		}
	}
	return config, nil
}

// unsupported returns an error for credentials that are not supported. It says what to use instead.
func (u user) unsupported() error {
	own := u.Token != "" || u.TokenFile != "" || u.CertFile != "" || len(u.CertData) > 0
	switch {
	case u.Exec != nil:
		return errors.New("its credentials come from a program (exec), which is not run here: " + otherCredentials)
	case u.Provider != nil:
		return errors.New("its credentials come from an auth-provider, which Kubernetes 1.26 has removed: " + otherCredentials)
	case u.Username != "" && !own:
		return errors.New("it has a password, which Kubernetes no longer accepts since 1.19: " + otherCredentials)
	}
	return nil
}

const otherCredentials = "use a client certificate or a token in its place (kubectl create token), or in a Pod the service account, without a kubeconfig"

func (u user) authorize(h http.Header) error {
	switch {
	case u.TokenFile != "":
		if err := bearerFile(h, inDir(u.dir, u.TokenFile)); err != nil {
			return err
		}
	case u.Token != "":
		if err := bearer(h, u.Token); err != nil {
			return err
		}
	}
	u.impersonate(h)
	return nil
}

// impersonate sets the headers for the user to be.
//
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
func (u user) impersonate(h http.Header) {
	if u.As != "" {
		h.Set("Impersonate-User", u.As)
	}
	if u.AsUID != "" {
		h.Set("Impersonate-Uid", u.AsUID)
	}
	for _, group := range u.AsGroups {
		h.Add("Impersonate-Group", group)
	}
	for _, key := range slices.Sorted(maps.Keys(u.AsExtra)) {
		for _, value := range u.AsExtra[key] {
			h.Add("Impersonate-Extra-"+url.PathEscape(key), value)
		}
	}
}

// tlsOptions reads the files that there are.
func tlsOptions(c cluster, u user) (o tlsconfig.Options, err error) {
	o.ServerName, o.Insecure = c.TLSServerName, c.Insecure
	if !c.Insecure {
		if o.CA, err = dataOrFile(c.CAData, c.dir, c.CAFile); err != nil {
			return o, fmt.Errorf("certificate-authority: %w", err)
		}
	}
	if o.Cert, err = dataOrFile(u.CertData, u.dir, u.CertFile); err != nil {
		return o, fmt.Errorf("client-certificate: %w", err)
	}
	if o.Key, err = dataOrFile(u.KeyData, u.dir, u.KeyFile); err != nil {
		return o, fmt.Errorf("client-key: %w", err)
	}
	return o, nil
}

func dataOrFile(data []byte, dir, file string) (string, error) {
	if len(data) > 0 || file == "" {
		return string(data), nil
	}
	read, err := readfile.All(inDir(dir, file))
	return string(read), err
}

func inDir(dir, file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}
