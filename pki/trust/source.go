package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"initbox/internal/certs"
	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/secret"
	"initbox/internal/setting"
	"initbox/internal/suggest"
	"initbox/internal/tlsconfig"
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

// holds returns whether a file is the source, or in its folder.
func (s Source) holds(file string) bool {
	file, err := filepath.Abs(file)
	folder, errFolder := filepath.Abs(s.path)
	rel, errRel := filepath.Rel(folder, file)
	return s.path != "" && errors.Join(err, errFolder, errRel) == nil && filepath.IsLocal(rel)
}

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
	if err := secret.Unreplaced("the source", text); err != nil {
		return Source{}, err
	}
	path, settings, err := Settings.Argument(text, nil)
	if err != nil {
		return Source{}, err
	}
	s := Source{name: path, path: path, keys: settings["key"], optional: settings.On("optional"), passwordFile: settings.Get("password-file")}
	target, isTarget := strings.CutPrefix(path, "k8s:")
	if !isTarget {
		if strings.Contains(path, "://") {
			return Source{}, failure.WithHint(errors.New("a source is a file, and not a URL"), "initbox fetch downloads, and trust-bundle can follow it after --")
		}
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

// read returns the certificates of a source that is not in the cluster, and what the log adds to their number.
func (s Source) read(getenv func(string) string) (found certs.Found, note string, err error) {
	switch {
	case s.path != "":
		return s.file()
	case s.name == System.name:
		return system(getenv)
	default:
		list, date := tlsconfig.Roots()
		for _, cert := range list {
			found.Entries = append(found.Entries, certs.Entry{Alias: subjectAlias(cert), Cert: cert, Source: s.name})
		}
		if note = " of Mozilla"; date != "" {
			note += " (" + date + ")"
		}
	}
	return found, note, nil
}

// missing is what the log says of an optional source that is missing.
const missing = ": it is missing, which is optional"

func (s Source) password() (string, error) {
	if s.passwordFile == "" {
		return certs.DefaultPassword, nil
	}
	return secret.Read(s.passwordFile)
}

func (s Source) file() (found certs.Found, note string, err error) {
	password, err := s.password()
	if err != nil {
		return found, "", err
	}
	found, err = certs.Read(s.path, password)
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.optional:
		return found, missing, nil
	case errors.Is(err, fs.ErrNotExist):
		err = failure.WithHint(err, suggest.Question(s.path, []string{Roots.name, System.name}, "")+failure.Beside(err)+"is the volume mounted? #optional leaves out what is missing")
	case errors.Is(err, certs.ErrPassword):
		err = failure.WithHint(err, "give this store its own password with #password-file=FILE after it")
	}
	if err != nil {
		err = fmt.Errorf("read certificates: %w", err)
	}
	return found, "", err
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
