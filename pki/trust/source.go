package trust

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"initbox/internal/certs"
	"initbox/internal/dial"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/poll"
	"initbox/internal/secret"
	"initbox/internal/setting"
	"initbox/internal/tlsconfig"
	"initbox/internal/words"
)

// Settings are those of a source, after # in it.
var Settings = setting.List{
	{Name: "password-file", Value: "FILE", Usage: "file with the password of this Java key store or PKCS#12 file (default: the password changeit)"},
	{Name: "key", Value: "NAME", Usage: "only this key of the ConfigMap or Secret", Multi: true},
	{Name: "optional", Usage: "leave the source out if it is missing"},
}

// Source is where certificates are.
type Source struct {
	name     string // as shown: roots, system, the target or the path
	path     string
	objects  kube.Objects // of a target
	resource kube.Resource
	keys     []string

	passwordFile string
	optional     bool
}

func (s Source) String() string { return s.name }

// Roots and System are the sources of the roots in the program, and of those of the image.
var (
	Roots  = Source{name: "roots"}
	System = Source{name: "system"}
)

// ParseSource reads roots, system, k8s:KIND/NAME or a path, with [Settings].
func ParseSource(text string) (Source, error) {
	switch text {
	case Roots.name:
		return Roots, nil
	case System.name:
		return System, nil
	}
	path, settings, err := Settings.Argument(text, nil)
	if err != nil {
		return Source{}, err
	}
	s := Source{name: path, path: path, keys: settings["key"], optional: settings.On("optional"), passwordFile: settings.Get("password-file")}
	target, isTarget := strings.CutPrefix(path, "k8s:")
	if !isTarget {
		if settings.On("key") {
			return Source{}, errors.New("key: is for ConfigMaps and Secrets of the cluster: name the file in the folder instead")
		}
		return s, nil
	}
	opaque, query, _ := strings.Cut(target, "?")
	if s.objects, err = kube.ParseObjects(opaque, query); err != nil {
		return Source{}, err
	}
	s.path, s.name = "", s.objects.Text(func(s string) string { return s })
	s.resource, _ = kube.Lookup(s.objects.KindName)
	if kind, _, _ := strings.Cut(strings.ToLower(s.objects.KindName), "."); strings.TrimSuffix(kind, "s") == "clustertrustbundle" {
		s.resource = bundles
	}
	switch {
	case !slices.Contains([]string{"configmaps", "secrets", bundles.Name}, s.resource.Name):
		return Source{}, errors.New("certificates are read from k8s:configmap/NAME, k8s:secret/NAME and k8s:clustertrustbundle/NAME")
	case !s.resource.Namespaced && (s.objects.Namespace != "" || settings.On("key")):
		return Source{}, errors.New("a ClusterTrustBundle has neither a namespace nor keys")
	}
	return s, nil
}

// bundles are ClusterTrustBundles (KEP-3257). Clusters differ in the version of their API.
var bundles = kube.Resource{Group: "certificates.k8s.io", Name: "clustertrustbundles"}

// read returns the certificates of the source, and what the log adds to their number.
func (s Source) read(ctx context.Context, c *cluster) (found certs.Found, note string, err error) {
	switch {
	case s.path != "":
		found, err = s.file()
	case s.objects.KindName != "":
		found, err = c.read(ctx, s)
	case s.name == System.name:
		return system(c.Getenv)
	default:
		list, date := tlsconfig.Roots()
		for _, cert := range list {
			found.Entries = append(found.Entries, certs.Entry{Alias: subjectAlias(cert), Cert: cert, Source: s.name})
		}
		if note = " of Mozilla"; date != "" {
			note += " (" + date + ")"
		}
	}
	if errors.Is(err, errMissing) {
		return certs.Found{}, ", as it is missing", nil
	}
	return found, note, err
}

// errMissing is the error of an optional source that is missing.
var errMissing = errors.New("missing")

func (s Source) password() (string, error) {
	if s.passwordFile == "" {
		return certs.DefaultPassword, nil
	}
	return secret.Read(s.passwordFile)
}

func (s Source) file() (certs.Found, error) {
	password, err := s.password()
	if err != nil {
		return certs.Found{}, err
	}
	found, err := certs.Read(s.path, password)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.optional:
		return found, errMissing
	case errors.Is(err, fs.ErrNotExist):
		return found, failure.WithHint(fmt.Errorf("read certificates: %w", err), failure.Beside(err)+"is the volume mounted? #optional leaves out what is missing")
	case errors.Is(err, certs.ErrPassword):
		return found, failure.WithHint(fmt.Errorf("read certificates: %w", err), "give this store its own password with #password-file=FILE after it")
	case err != nil:
		return found, fmt.Errorf("read certificates: %w", err)
	}
	return found, nil
}

// systemFiles are where distributions keep their roots: Debian and Alpine, Fedora, openSUSE, other images from Alpine.
var systemFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// system returns the roots of the image: those of $SSL_CERT_FILE or $SSL_CERT_DIR, or the first of systemFiles.
func system(getenv func(string) string) (certs.Found, string, error) {
	files := systemFiles
	if file := getenv("SSL_CERT_FILE"); file != "" {
		files = []string{file}
	} else if dirs := getenv("SSL_CERT_DIR"); dirs != "" {
		files = filepath.SplitList(dirs)
	}
	for _, file := range files {
		found, err := certs.Read(file, "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		for i := range found.Entries {
			found.Entries[i].Alias = subjectAlias(found.Entries[i].Cert)
		}
		if err != nil {
			err = fmt.Errorf("read the system's certificates: %w", err)
		}
		return found, " in " + failure.Printable(file), err
	}
	return certs.Found{}, "", failure.WithHint(errors.New("this image has no certificates of its own"),
		"roots are those in initbox; for those of the application's image, install initbox into a volume, and run it in that image")
}

// cluster reads objects.
type cluster struct {
	Options
	client    *kube.Client
	namespace string
}

// read waits until the objects of a source are there, and returns their certificates.
func (c *cluster) read(ctx context.Context, s Source) (certs.Found, error) {
	shown := failure.Printable(s.name)
	last := failure.New(failure.Missing, "")
	policy := poll.Policy{AttemptTimeout: 10 * time.Second, Seed: c.Seed, Notify: func(e poll.Event) {
		if e.Err == nil || poll.IsPermanent(e.Err) {
			return
		}
		f := failure.Of(e.Err)
		if f.Error() != last.Error() {
			text := shown + ": " + f.Error()
			if f.Urgent {
				text += "\n" + f.Hint
			}
			c.Log.Warn(text)
		}
		last = f
	}}
	var found certs.Found
	err := poll.Until(ctx, policy, func(ctx context.Context) error {
		now, err := c.attempt(ctx, s)
		if err == nil {
			found = now
		}
		return err
	})
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, errMissing):
		return certs.Found{}, err
	}
	return certs.Found{}, failure.WithHint(fmt.Errorf("read certificates from %s: %w", shown, err), last.Hint)
}

func (c *cluster) attempt(ctx context.Context, s Source) (found certs.Found, err error) {
	objects, err := c.objects(ctx, s)
	var status *kube.StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound || err == nil && len(objects) == 0 {
		if s.optional {
			return found, poll.Permanent(errMissing)
		}
		return found, failure.New(failure.Missing, "not found%s", kube.InNamespace(c.namespaceOf(s)))
	}
	if err != nil {
		return found, kube.Explain(err, func(who kube.Account) string {
			return "these objects grant it, for kubectl apply -f -\n" + kube.RBAC(c.Permissions(), who, "", c.namespace)
		})
	}
	password, err := s.password()
	if err != nil {
		return found, err
	}
	for _, o := range objects {
		if err := s.parse(o, password, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

func (c *cluster) objects(ctx context.Context, s Source) ([]kube.Object, error) {
	if c.client == nil {
		config, err := c.Cluster.Config()
		if err != nil {
			return nil, err
		}
		c.client, c.namespace = kube.New(config, kube.Options{Dial: dial.New(nil).DialContext, Seed: c.Seed}), config.Namespace
	}
	resource, err := c.client.Resource(ctx, s.resource.String())
	if err != nil {
		return nil, err
	}
	if s.objects.Name == "" {
		return c.client.List(ctx, kube.Query{Resource: resource, Namespace: c.namespaceOf(s), LabelSelector: s.objects.Selector, FieldSelector: s.objects.Fields})
	}
	object, err := c.client.Get(ctx, resource, c.namespaceOf(s), s.objects.Name)
	return []kube.Object{object}, err
}

func (c *cluster) namespaceOf(s Source) string {
	switch {
	case !s.resource.Namespaced:
		return ""
	case s.objects.Namespace != "":
		return s.objects.Namespace
	}
	return c.namespace
}

// parse adds the certificates of an object to found.
func (s Source) parse(o kube.Object, password string, found *certs.Found) error {
	name := "k8s:" + s.objects.KindName + "/" + o.Name()
	values := map[string][]byte{}
	for _, field := range []string{"data", "binaryData"} {
		data, _ := o.At(field).(map[string]any)
		for key, value := range data {
			text, _ := value.(string)
			values[name+"/"+key] = []byte(text)
			if s.resource.Name == "secrets" || field == "binaryData" {
				values[name+"/"+key], _ = base64.StdEncoding.DecodeString(text)
			}
		}
	}
	if text, isBundle := o.At("spec", "trustBundle").(string); isBundle {
		values = map[string][]byte{name: []byte(text)}
	}
	sources := slices.Sorted(maps.Keys(values))
	if len(s.keys) > 0 {
		sources = words.Each(s.keys, func(key string) string { return name + "/" + key })
	}
	before := len(found.Entries)
	for _, source := range sources {
		content, there := values[source]
		if !there {
			return failure.New(failure.Missing, "%s is not there", failure.Printable(source))
		}
		more, err := certs.Parse(content, source, password)
		var none *certs.NoneError
		if errors.As(err, &none) && len(s.keys) == 0 {
			continue // a private key, perhaps
		}
		if err != nil {
			return err
		}
		found.Entries = append(found.Entries, more.Entries...)
		found.Ignored = append(found.Ignored, more.Ignored...)
	}
	if len(found.Entries) == before {
		return failure.New(failure.Missing, "no certificate in %s", failure.Printable(name))
	}
	return nil
}
