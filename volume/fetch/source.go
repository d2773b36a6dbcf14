package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/httpclient"
	"initbox/internal/lazy"
	"initbox/internal/perm"
	"initbox/internal/readfile"
	"initbox/internal/secret"
	"initbox/internal/setting"
	"initbox/internal/tlsconfig"
)

// Settings are those of a source, in the fragment of its URL or as flags.
var Settings = slices.Concat(setting.List{
	{Name: "sha256", Value: "HEX", Usage: "SHA-256 of what is downloaded"},
	{Name: "sha512", Value: "HEX", Usage: "SHA-512 of what is downloaded"},
	{Name: "checksum-url", Value: "URL", Usage: "URL of the checksum, in the format of sha256sum or sha512sum, also of many files", Excludes: []string{"sha256", "sha512"}},
	{Name: "unpack", Usage: "unpack the archive (tar, zip) or the file that gzip, xz, zstd or bzip2 compressed, whatever its name"},
	{Name: "strip-components", Value: "N", Usage: "with unpack, remove the first N directories from the names", Needs: "unpack"},
	{Name: "include", Value: "PATTERN", Usage: "unpack only these", Multi: true},
	{Name: "exclude", Value: "PATTERN", Usage: "do not unpack these", Multi: true},
	{Name: "to", Value: "NAME", Usage: "name of the file in DST; with unpack, of the only file in the archive"},
	{Name: "mode", Value: "[PATTERN=]MODE", Usage: "mode of the files, such as 0755 or a+rX (default 0644, or that of the archive)", Multi: true},
	{Name: "owner", Value: "UID[:GID]", Usage: "owner of the files: " + perm.OwnerUsage},
	{Name: "path", Value: "PATH", Usage: "for oci://, the file or directory of the image"},
	{Name: "platform", Value: "OS/ARCH", Usage: "instead of this machine's, for oci://, ${os} and ${arch}"},
	{Name: "no-overwrite", Usage: "keep files that exist; without unpack, they are not even requested"},
	{Name: "unless", Value: "PATH", Usage: "do nothing if PATH exists"},
	{Name: "optional", Usage: "a download that fails, or does not end in time, is only a warning"},
	{Name: "min-size", Value: "BYTES", Usage: "retry while what is downloaded is smaller, as in 1 for not empty"},
	{Name: "retry-status", Value: "LIST", Usage: "statuses, besides 408, 425, 429 and 5xx, to retry after, as in 404"},
	{Name: "header", Value: "NAME:VALUE", Usage: "header of the request, not secret", Multi: true},
	{Name: "header-file", Value: "FILE", Usage: "file with headers of the request, one per line", Multi: true},
	{Name: "user", Value: "NAME", Usage: "name to log in as, with --password-file", Needs: "password-file", Excludes: []string{"token-file"}},
	{Name: "password-file", Value: "FILE", Usage: "file with the password, or with an access token", Needs: "user"},
	{Name: "token-file", Value: "FILE", Usage: "file with a bearer token"},
	{Name: "netrc", Value: "FILE", Usage: "file with logins by host"},
}, setting.TLS)

// A Source is something to download.
type Source struct {
	URL *secret.URL // nil for OCI
	OCI string      // an image or artifact, oci://…, without a fragment

	Name      string // of the file in DST, which may be in a directory; "" if it has none
	To        string // the setting
	Unpack    bool
	Strip     int
	Include   []string
	Exclude   []string
	Mode      []perm.Rule[perm.Mode]
	Owner     *perm.Owner
	Path      string // in the image
	Platform  string
	Unless    string
	MinSize   int64
	Optional  bool
	SHA256    string // lower case; "" if unknown
	SHA512    string
	Checksums *secret.URL // nil for none

	NoOverwrite bool

	Who         httpclient.Credentials
	Netrc       string
	TLS         tlsconfig.Options
	RetryStatus httpclient.Statuses

	settings string // those that decide about what is written, for the record
}

// String returns the URL as it may be shown.
func (s *Source) String() string {
	if s.URL == nil {
		return failure.Printable(s.OCI)
	}
	return failure.Printable(s.URL.String())
}

// origin returns what decides about the content, besides the settings: the checksum, which a presigned URL of each day
// has, or else the URL, with what it refers to, such as a version in a variable; or "" if that is unknown now.
func (s *Source) origin() string {
	switch {
	case s.URL == nil:
		return s.OCI
	case s.SHA256+s.SHA512 != "":
		return s.SHA256 + s.SHA512
	}
	u, err := s.URL.Expand()
	if err != nil {
		return ""
	}
	u.User = nil // the content is the same for every user
	return u.String()
}

// tree returns whether more than one file may come of it.
func (s *Source) tree() bool { return (s.Unpack || s.URL == nil) && s.To == "" }

// Parse reads URL#SETTINGS, with settings given as flags, which those of the fragment override. Variables for ${env:…}
// come from getenv. Errors do not quote the URL, which may have a password.
func Parse(text string, flags setting.Settings, getenv func(string) string) (*Source, error) {
	address, fragment, _ := strings.Cut(text, "#")
	s, err := Settings.Parse(fragment)
	if err != nil {
		return nil, err
	}
	s.Take(Settings, flags)
	if err := s.Consistent(Settings); err != nil {
		return nil, err
	}
	src := &Source{
		Unpack: s.On("unpack"), Include: s["include"], Exclude: s["exclude"], To: s.Get("to"),
		Path: s.Get("path"), Platform: s.Get("platform"), Unless: s.Get("unless"),
		Optional: s.On("optional"), NoOverwrite: s.On("no-overwrite"),
		Who: httpclient.Credentials{
			HeaderFiles: s["header-file"], User: s.Get("user"), PasswordFile: s.Get("password-file"), TokenFile: s.Get("token-file"),
		},
		Netrc: s.Get("netrc"), TLS: s.TLS(),
	}
	if err = src.setAddress(address, getenv); err == nil {
		err = src.setChecksums(s, getenv)
	}
	for _, set := range []func(setting.Settings) error{src.setFiles, src.setRequest, src.setName} {
		if err == nil {
			err = set(s)
		}
	}
	return src, err
}

// setAddress reads the URL.
func (src *Source) setAddress(text string, getenv func(string) string) (err error) {
	if text, err = src.machine(text); err != nil {
		return err
	}
	if strings.HasPrefix(text, "oci://") {
		src.OCI = text
		return secret.Unreplaced("the URL", text)
	}
	if scheme, _, found := strings.Cut(text, "://"); !strings.Contains(text, "$") && (!found || scheme != "http" && scheme != "https") {
		return errors.New("want a URL that begins with https://, http:// or oci://")
	}
	if src.URL, err = secret.ParseURL(text, getenv); err != nil {
		return err
	}
	if src.URL.PasswordShown() {
		return failure.WithHint(errors.New("a password in the URL would show in the Pod's specification"),
			"refer to a file, as in https://user:${file:/secrets/password}@HOST/PATH, or use --user and --password-file")
	}
	return nil
}

// unknown finds ${NAME}.
var unknown = lazy.Regexp(`\$\{[^}:]*\}`)

// machine replaces ${os} and ${arch}.
func (src *Source) machine(text string) (string, error) {
	system, arch := runtime.GOOS, runtime.GOARCH
	if src.Platform != "" {
		var ok bool
		if system, arch, ok = strings.Cut(src.Platform, "/"); !ok || system == "" || arch == "" {
			return "", errors.New("platform: want OS/ARCH, as in linux/arm64")
		}
		arch, _, _ = strings.Cut(arch, "/")
	}
	text = strings.NewReplacer("${os}", system, "${arch}", arch).Replace(text)
	if found := unknown().FindString(text); found != "" {
		return "", fmt.Errorf("the URL has %s, which is unknown: want ${os}, ${arch}, ${env:NAME} or ${file:/PATH}", failure.Printable(found))
	}
	return text, nil
}

// setChecksums reads the settings of checksums.
func (src *Source) setChecksums(s setting.Settings, getenv func(string) string) (err error) {
	for name, c := range map[string]struct {
		to     *string
		digits int
	}{"sha256": {&src.SHA256, 64}, "sha512": {&src.SHA512, 128}} {
		*c.to = strings.ToLower(s.Get(name))
		if s.On(name) && (len(*c.to) != c.digits || strings.Trim(*c.to, "0123456789abcdef") != "") {
			return fmt.Errorf("%s: want %d hexadecimal digits", name, c.digits)
		}
	}
	text := s.Get("checksum-url")
	switch {
	case text+src.SHA256+src.SHA512 == "":
		return nil
	case src.URL == nil:
		return errors.New("sha256, sha512 and checksum-url are not for oci://: pin the digest, as in oci://HOST/NAME@sha256:…")
	case text == "":
		return nil
	}
	if text, err = src.machine(text); err == nil {
		src.Checksums, err = secret.ParseURL(text, getenv)
	}
	if err != nil {
		return fmt.Errorf("checksum-url: %w", err)
	}
	return nil
}

// setFiles reads the settings of the files that are written.
func (src *Source) setFiles(s setting.Settings) (err error) {
	strip, err := s.Count("strip-components", 0)
	if err != nil {
		return err
	}
	src.Strip = int(strip)
	if src.URL != nil && !src.Unpack && len(src.Include)+len(src.Exclude) > 0 {
		return errors.New("include and exclude select what is unpacked: add unpack")
	}
	if src.Mode, err = perm.ParseRules("mode", s["mode"], perm.ParseMode); err != nil {
		return err
	}
	if s.On("owner") {
		owner, err := perm.ParseOwner(s.Get("owner"))
		if err != nil {
			return fmt.Errorf("owner=%s: %w", s.Get("owner"), err)
		}
		src.Owner = &owner
	}
	src.MinSize, err = s.Count("min-size", 0)
	if src.URL != nil && src.Path != "" {
		return errors.New("path is for oci://: to select files of an archive, use include")
	}
	src.settings = fmt.Sprintf("%q", []any{src.To, src.Unpack, src.Strip, src.Include, src.Exclude, s["mode"], s.Get("owner"), src.Path, src.Platform, s["header"]})
	return err
}

// setRequest reads the settings of the request.
func (src *Source) setRequest(s setting.Settings) (err error) {
	src.Who.Header = http.Header{}
	for _, line := range s["header"] {
		if err := httpclient.AddHeader(src.Who.Header, line); err != nil {
			return fmt.Errorf("header: %w", err)
		}
	}
	for name := range src.Who.Header {
		if httpclient.SecretHeader(name) {
			return failure.WithHint(fmt.Errorf("header: %s is secret and would show in the Pod's specification", name), "put the line into a file and give it with header-file")
		}
	}
	if list := s.Get("retry-status"); list != "" {
		if src.RetryStatus, err = httpclient.ParseStatuses(list); err != nil {
			return fmt.Errorf("retry-status=%s: %w", list, err)
		}
	}
	return nil
}

// setName sets the name of the file.
func (src *Source) setName(s setting.Settings) error {
	if s.On("to") {
		clean := path.Clean(src.To)
		if clean != strings.TrimSuffix(src.To, "/") || path.IsAbs(clean) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") {
			return errors.New("to: want the name of a file in DST, such as driver.jar or lib/driver.jar")
		}
		src.Name, src.To = clean, clean
		return nil
	}
	if src.URL == nil || src.URL.Whole {
		return nil
	}
	name, err := url.PathUnescape(path.Base(src.URL.EscapedPath()))
	if err != nil || src.URL.In(name) || strings.HasSuffix(src.URL.Path, "/") || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil
	}
	if src.Name = name; src.Unpack {
		src.Name = decompressed(name)
	}
	return nil
}

// decompressed returns the name of what is compressed in a file.
func decompressed(name string) string {
	for _, ending := range []string{".gz", ".xz", ".zst", ".bz2"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}

// maxList limits a list of sources, in bytes.
const maxList = 1 << 20

// ReadList returns the sources in a file with lines NAME URL[#SETTINGS], where # begins a comment line.
func ReadList(file string, flags setting.Settings, getenv func(string) string) ([]*Source, error) {
	content, err := readfile.Upto(file, maxList)
	if err != nil {
		return nil, err
	}
	var list []*Source
	number := 0
	for line := range strings.Lines(string(content)) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("%s, line %d: want NAME URL", failure.Printable(file), number)
		}
		separator := "#"
		if strings.Contains(fields[1], "#") {
			separator = "&"
		}
		src, err := Parse(fields[1]+separator+"to="+url.QueryEscape(fields[0]), flags, getenv)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", failure.Printable(file), number, err)
		}
		list = append(list, src)
	}
	return list, nil
}
