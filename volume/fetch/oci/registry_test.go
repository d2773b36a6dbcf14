package oci

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"initbox/internal/httpclient"
	"initbox/internal/poll"
	"initbox/internal/tlsconfig"
	"initbox/test/servers"
)

// TestRealRegistry fetches from distribution's registry, with each kind of login.
func TestRealRegistry(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	image := servers.NewIndex(t, map[string]servers.Image{
		"linux/amd64":  servers.NewImage(t, "amd64", servers.Gzip(t, layer(t, "opt/", "opt/a old", "opt/b amd64")), servers.Gzip(t, layer(t, "opt/", "opt/a new"))),
		"linux/arm/v7": servers.NewImage(t, "arm", layer(t, "opt/", "opt/a arm")),
	})
	const want = ". dir 755\na 755 new\nb 755 amd64"
	for name, tt := range map[string]struct {
		server     servers.RegistryOptions
		repository string
		login      func(t *testing.T, r *servers.Registry, o *Options)
		err, hint  string
	}{
		"open":             {},
		"TLS":              {server: servers.RegistryOptions{CA: ca}, login: func(_ *testing.T, _ *servers.Registry, o *Options) { o.HTTP.TLS = tlsconfig.Options{CAFile: ca.File} }},
		"docker config":    {server: servers.RegistryOptions{Login: true}, login: dockerConfigured},
		"password":         {server: servers.RegistryOptions{Login: true}, login: withPassword},
		"no login":         {server: servers.RegistryOptions{Login: true}, err: "status 401 Unauthorized", hint: "--docker-config"},
		"wrong password":   {server: servers.RegistryOptions{Login: true}, login: withWrongPassword, err: "status 401 Unauthorized", hint: "are the credentials right"},
		"anonymous token":  {server: servers.RegistryOptions{Token: true}},
		"token":            {server: servers.RegistryOptions{Token: true}, repository: "private/app", login: dockerConfigured},
		"token, password":  {server: servers.RegistryOptions{Token: true}, repository: "private/app", login: withPassword},
		"token, no login":  {server: servers.RegistryOptions{Token: true}, repository: "private/app", err: "status 401 Unauthorized", hint: "--docker-config"},
		"token, wrong one": {server: servers.RegistryOptions{Token: true}, repository: "private/app", login: withWrongPassword, err: "incorrect username or password", hint: "are the credentials right"},
		"no such image":    {server: servers.RegistryOptions{}, repository: "other", err: "manifest unknown", hint: "are the name and the tag right?"},
		"TLS expected":     {login: func(_ *testing.T, _ *servers.Registry, o *Options) { o.PlainHTTP = nil }, err: "does not speak TLS", hint: "--plain-http 127.0.0.1:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := servers.StartRegistry(t, tt.server)
			repository := tt.repository
			if repository == "" {
				repository = "team/app"
			}
			if repository != "other" {
				r.Push(t, repository, "1", image)
			}
			got, err := fetch(t, r.Addr+"/"+repository+":1", "/opt", onPlatform("linux/amd64"), func(o *Options) {
				if tt.server.CA != nil {
					o.PlainHTTP = nil
				}
				if tt.login != nil {
					tt.login(t, r, o)
				}
			})
			if tt.err == "" && (err != nil || got.String() != want) {
				t.Errorf("got:\n%v\nerror: %v", got, err)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(hintOf(err), tt.hint)) {
				t.Errorf("error: %v\nhint: %s", err, hintOf(err))
			}
			if tt.err != "" && name != "TLS expected" && !poll.IsPermanent(err) {
				t.Errorf("not permanent: %v", err)
			}
			if r.Password != "" && err != nil && strings.Contains(err.Error()+hintOf(err), r.Password) {
				t.Errorf("the password is in %v", err)
			}
		})
	}
}

func dockerConfigured(t *testing.T, r *servers.Registry, o *Options) {
	o.DockerConfig = r.DockerConfig(t)
}

func withPassword(t *testing.T, r *servers.Registry, o *Options) {
	o.Who = httpclient.Credentials{User: r.User, PasswordFile: file(t, r.Password+"\n")}
}

func withWrongPassword(t *testing.T, r *servers.Registry, o *Options) {
	o.Who = httpclient.Credentials{User: r.User, PasswordFile: file(t, "wrong"+r.Password)}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestResolve pins that the digest of a tag takes one request for no content, and one that is given none.
func TestResolve(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	image := servers.NewImage(t, "amd64", layer(t, "a 1"))
	f.push("app", "1", image)
	digest := servers.DigestOf(image.Manifest)
	for _, reference := range []string{"app:1", "app@" + digest, "app:2@" + digest} {
		o := options(t)
		o.PlainHTTP = []string{f.host}
		i, err := Open("oci://"+f.host+"/"+reference, o)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := i.Resolve(context.Background()); got != digest || err != nil {
			t.Errorf("%s: %s, %v", reference, got, err)
		}
		i.Close()
	}
	if head, get := f.count("HEAD", "/v2/app/manifests/1"), f.count("GET", "/"); head != 1 || get != 0 {
		t.Errorf("%d HEAD and %d GET, want one HEAD", head, get)
	}
}

// TestHostile pins what is not accepted from a registry, or from another server in its place.
func TestHostile(t *testing.T) {
	t.Parallel()
	image := servers.NewImage(t, "amd64", layer(t, "a 1"))
	manifest, blob := servers.DigestOf(image.Manifest), servers.DigestOf(image.Blobs[1])
	reply := func(part string, answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, part) {
				return false
			}
			answer(w, r)
			return true
		}
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, s) }
	}
	challenge := func(realm string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=x", realm))
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	with := func(change func(*servers.Image, *document)) string {
		d := new(document)
		json.Unmarshal(image.Manifest, d)
		change(&image, d)
		out, _ := json.Marshal(d)
		return string(out)
	}
	for name, tt := range map[string]struct {
		before  func(http.ResponseWriter, *http.Request) bool
		pinned  bool
		err     string
		unknown bool // not permanent
	}{
		"an endless manifest": {before: reply("/manifests/", func(w http.ResponseWriter, r *http.Request) {
			for r.Method == http.MethodGet {
				if _, err := w.Write(make([]byte, 1<<20)); err != nil {
					return
				}
			}
		}), err: "the manifest has more than 4 MiB"},
		"a manifest that is not the pinned one": {before: reply("/manifests/", text(`{"schemaVersion":2}`)), pinned: true, err: "the manifest that "},
		"a blob with another content":           {before: reply(blob, text(strings.Repeat("x", len(image.Blobs[1])))), err: "does not have the size and the digest"},
		"a blob that is longer":                 {before: reply(blob, text(strings.Repeat("x", len(image.Blobs[1])+1))), err: "does not have the size and the digest"},
		"an endless blob": {before: reply(blob, func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		}), err: "does not have the size and the digest"},
		"a blob that is shorter": {before: reply(blob, func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); io.WriteString(w, "x") }), err: "ended after 1 of", unknown: true},
		"redirects in a loop": {before: reply(blob, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		}), err: "redirected more than 10 times"},
		"a redirect to a file": {before: reply(blob, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		}), err: "not http or https"},
		"a realm that is a file":      {before: reply("/manifests/", challenge("file:///etc/passwd")), err: `unsupported scheme "file"`},
		"a realm that is not a URL":   {before: reply("/manifests/", challenge("::")), err: "realm"},
		"not JSON":                    {before: reply("/manifests/", text("<html>")), err: "the manifest is not JSON"},
		"schema 1":                    {before: reply("/manifests/", text(`{"schemaVersion":1,"fsLayers":[]}`)), err: "schema 1, which Docker replaced"},
		"an image that is an index":   {before: reply("/manifests/", text(with(func(_ *servers.Image, d *document) { d.Manifests = d.Layers }))), err: "both that of an image and an index"},
		"an encrypted layer":          {before: reply("/manifests/", text(with(func(_ *servers.Image, d *document) { d.Layers[0].MediaType += "+encrypted" }))), err: "layer 1 of 1: it is encrypted"},
		"a layer that is not a tar":   {before: reply("/manifests/", text(with(func(_ *servers.Image, d *document) { d.Layers[0].MediaType = "image/png" }))), err: "its type is image/png"},
		"an invalid digest":           {before: reply("/manifests/", text(with(func(_ *servers.Image, d *document) { d.Layers[0].Digest = "sha256:../../x" }))), err: "invalid digest or size"},
		"a digest of an unknown kind": {before: reply("/manifests/", text(with(func(_ *servers.Image, d *document) { d.Layers[0].Digest = "md5:d41d8cd98f00b204e9800998ecf8427e" }))), err: "invalid digest or size"},
		"a layer that is too large":   {before: reply("/manifests/", text(with(func(_ *servers.Image, d *document) { d.Layers[0].Size = 1 << 40 }))), err: "more than the limit"},
		"a realm that is gone":        {before: reply("/manifests/", challenge("http://127.0.0.1:1/token")), err: "127.0.0.1:1, to which it leads: connection refused", unknown: true},
		"a realm that fails": {before: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			challenge("http://localhost:"+strings.TrimPrefix(r.Host, "127.0.0.1:")+"/token")(w, r)
			return true
		}, err: "to which it leads: status 503 Service Unavailable", unknown: true},
		"a server that fails": {before: reply("/manifests/", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusServiceUnavailable)
		}), err: "status 503 Service Unavailable", unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.push("app", "1", image)
			f.before = tt.before
			reference := f.host + "/app:1"
			if tt.pinned {
				reference += "@" + manifest
			}
			got, err := fetch(t, reference, "/", func(o *Options) { o.MaxSize = 1 << 30 })
			if err == nil || !strings.Contains(err.Error(), tt.err) || poll.IsPermanent(err) == tt.unknown {
				t.Errorf("error: %v (permanent: %t)\ngot: %v", err, poll.IsPermanent(err), got)
			}
			if status := new(httpclient.StatusError); strings.HasSuffix(name, " that fails") && (!errors.As(err, &status) || status.Header.Get("Retry-After") != "7") {
				t.Errorf("the error does not have the answer's header: %v", err)
			}
		})
	}
}

// TestCredentialsStayHome pins who gets a token and a password, and that a server which repeats them cannot bring them
// into a message.
func TestCredentialsStayHome(t *testing.T) {
	t.Parallel()
	const password, token = "correct horse battery", "eyJhbGciOiJub25lIn0.e30."
	image := servers.NewImage(t, "amd64", layer(t, "a 1"))
	var blobHeader http.Header
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		blobHeader = r.Header.Clone()
		w.Write(image.Blobs[1])
	}))
	t.Cleanup(store.Close)
	var realmHeader http.Header
	realm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		realmHeader = r.Header.Clone()
		fmt.Fprintf(w, `{"token":%q}`, token)
	}))
	t.Cleanup(realm.Close)
	f := newFake(t)
	f.push("team/app", "1", image)
	refuse := false
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Header.Get("Authorization") != "Bearer "+token:
			w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm.URL+`",service="x",scope="repository:team/app:pull"`)
			w.WriteHeader(http.StatusUnauthorized)
		case refuse:
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"no, %s of %s: %s %s"}]}`, r.Header.Get("Authorization"), r.Header.Get("X-Key"), password, base64.StdEncoding.EncodeToString([]byte("me:"+password)))
		case strings.Contains(r.URL.Path, servers.DigestOf(image.Blobs[1])):
			http.Redirect(w, r, store.URL+"/blob?signature=x", http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	}
	who := func(o *Options) {
		o.Who = httpclient.Credentials{User: "me", PasswordFile: file(t, password), HeaderFiles: []string{file(t, "X-Key: header-secret-1")}}
	}
	if got, err := fetch(t, f.host+"/team/app:1", "/a", who); err != nil || got.String() != "a 755 1" {
		t.Errorf("%v, %v", got, err)
	}
	if blobHeader == nil || blobHeader.Get("Authorization")+blobHeader.Get("X-Key")+blobHeader.Get("Referer") != "" {
		t.Errorf("the server of the blob received %v", blobHeader)
	}
	if !strings.HasPrefix(realmHeader.Get("Authorization"), "Basic ") || realmHeader.Get("X-Key") != "" {
		t.Errorf("the server of the token received %v", realmHeader)
	}
	refuse = true
	_, err := fetch(t, f.host+"/team/app:1", "/a", who)
	if err == nil || !strings.Contains(err.Error(), "403 Forbidden: no, ") {
		t.Fatalf("error: %v", err)
	}
	for _, secret := range []string{password, token, "header-secret-1", base64.StdEncoding.EncodeToString([]byte("me:" + password))} {
		if strings.Contains(err.Error()+hintOf(err), secret) {
			t.Errorf("%q is in %v", secret, err)
		}
	}
}

// TestTokenExpires pins that a token that the registry no longer accepts is replaced in the middle.
func TestTokenExpires(t *testing.T) {
	t.Parallel()
	tokens := 0
	realm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tokens++
		fmt.Fprintf(w, `{"access_token":"token-%d"}`, tokens)
	}))
	t.Cleanup(realm.Close)
	f := newFake(t)
	f.push("app", "1", servers.NewImage(t, "amd64", layer(t, "d/", "d/a 1"), layer(t, "d/", "d/b 1"), layer(t, "d/", "d/c 1")))
	requests := 0
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if requests++; r.Header.Get("Authorization") == fmt.Sprintf("Bearer token-%d", 1+requests/4) {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm.URL+`",service="x",error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	got, err := fetch(t, f.host+"/app:1", "/d")
	if err != nil || len(got) != 4 || tokens < 2 {
		t.Errorf("%v, %v, %d tokens", got, err, tokens)
	}
}

// TestResume pins that a layer that broke off goes on where it did, and starts again if the server cannot do that.
func TestResume(t *testing.T) {
	t.Parallel()
	for _, ranges := range []bool{true, false} {
		t.Run(fmt.Sprint("ranges=", ranges), func(t *testing.T) {
			t.Parallel()
			content := layer(t, "big "+strings.Repeat("0123456789", 10000))
			f := newFake(t)
			f.push("app", "1", servers.NewImage(t, "amd64", content))
			var asked []string
			f.before = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, servers.DigestOf(content)) {
					return false
				}
				asked = append(asked, r.Header.Get("Range"))
				if len(asked) <= 2 {
					if r.Header.Get("Range") != "" {
						return false
					}
					w.Header().Set("Content-Length", fmt.Sprint(len(content)))
					w.Write(content[:50000])
					panic(http.ErrAbortHandler)
				}
				if !ranges {
					r.Header.Del("Range")
				}
				return false
			}
			attempts := 0
			got, err := fetch(t, f.host+"/app:1", "/big", func(o *Options) {
				o.Try = func(ctx context.Context, attempt func(context.Context) error) (err error) {
					for range 5 {
						attempts++
						if err = attempt(ctx); err == nil || poll.IsPermanent(err) {
							break
						}
					}
					return err
				}
			})
			if err != nil || len(got["big"]) != 100004 {
				t.Errorf("%d bytes, %v", len(got["big"]), err)
			}
			if len(asked) != 2 || asked[0] != "" || asked[1] != "bytes=50000-" {
				t.Errorf("requests for %q", asked)
			}
		})
	}
}

// TestMirror pins that mirrors are asked first, and the registry where they cannot help.
func TestMirror(t *testing.T) {
	t.Parallel()
	image := servers.NewImage(t, "amd64", layer(t, "a 1"))
	for name, tt := range map[string]struct {
		mirror             func(*fake)
		atMirror, atOrigin int // GET requests
	}{
		"has it":        {func(m *fake) { m.push("cache/team/app", "1", image) }, 2, 0},
		"does not":      {func(*fake) {}, 3, 2},
		"has no layers": {func(m *fake) { m.push("cache/team/app", "1", image); clear(m.blobs) }, 2, 1},
		"has others": {func(m *fake) {
			m.push("cache/team/app", "1", image)
			for digest := range m.blobs {
				m.blobs[digest] = []byte("other")
			}
		}, 2, 1},
		"is gone": {func(m *fake) { m.Close() }, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mirror, origin := newFake(t), newFake(t)
			origin.push("team/app", "1", image)
			tt.mirror(mirror)
			got, err := fetch(t, origin.host+"/team/app:1", "/a", onPlatform("linux/amd64"), func(o *Options) {
				o.Platform = ""
				o.Mirrors = map[string][]string{origin.host: {mirror.URL + "/cache/"}}
			})
			if err != nil || got["a"] != "755 1" {
				t.Errorf("%v, %v", got, err)
			}
			blobs := func(f *fake) int {
				return f.count("GET", servers.DigestOf(image.Blobs[1])) + f.count("GET", "/manifests/")
			}
			if m, o := blobs(mirror), blobs(origin); m != tt.atMirror || o != tt.atOrigin {
				t.Errorf("%d requests to the mirror, %d to the registry; want %d and %d", m, o, tt.atMirror, tt.atOrigin)
			}
		})
	}
}

// TestPlatform pins which image of an index is chosen.
func TestPlatform(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	images := map[string]servers.Image{}
	for _, p := range []string{"linux/amd64", "linux/amd64/v3", "linux/arm/v6", "linux/arm/v7", "linux/arm64/v8", "windows/amd64", "unknown/unknown"} {
		images[p] = servers.NewImage(t, strings.Split(p, "/")[1], layer(t, "p "+p))
	}
	f.push("app", "1", servers.NewIndex(t, images))
	f.push("single", "1", servers.NewImage(t, "s390x", layer(t, "p single")))
	f.push("nested", "1", servers.NewIndex(t, map[string]servers.Image{"linux/amd64": servers.NewIndex(t, images)}))
	for _, tt := range []struct{ image, platform, want string }{
		{"app", "linux/amd64", "linux/amd64"}, {"app", "linux/amd64/v2", "linux/amd64"}, {"app", "linux/amd64/v4", "linux/amd64/v3"},
		{"app", "linux/arm", "linux/arm/v7"}, {"app", "linux/arm/v6", "linux/arm/v6"}, {"app", "linux/arm64", "linux/arm64/v8"},
		{"app", "windows/amd64", "windows/amd64"}, {"single", "linux/s390x", "single"}, {"single", "", "single"}, {"nested", "linux/amd64", "linux/amd64"},
	} {
		if got, err := fetch(t, f.host+"/"+tt.image+":1", "/p", onPlatform(tt.platform)); err != nil || got["p"] != "755 "+tt.want {
			t.Errorf("%s for %s: %v, %v", tt.image, tt.platform, got, err)
		}
	}
	deep := images["linux/amd64"]
	for range maxNested + 1 {
		deep = servers.NewIndex(t, map[string]servers.Image{"linux/amd64": deep})
	}
	f.push("deep", "1", deep)
	if _, err := fetch(t, f.host+"/deep:1", "/p", onPlatform("linux/amd64")); err == nil || !strings.Contains(err.Error(), "more than 4 indexes") {
		t.Errorf("%v", err)
	}
	_, err := fetch(t, f.host+"/app:1", "/p", onPlatform("linux/ppc64le"))
	if err == nil || !strings.Contains(err.Error(), "there is no image for linux/ppc64le") || !strings.Contains(hintOf(err), "linux/amd64, linux/amd64/v3, linux/arm/v6, linux/arm/v7, linux/arm64/v8") {
		t.Errorf("%v\nhint: %s", err, hintOf(err))
	}
	_, err = fetch(t, f.host+"/single:1", "/p", onPlatform("linux/arm64"))
	if err == nil || !strings.Contains(err.Error(), "an image for linux/s390x only") {
		t.Errorf("%v", err)
	}
}

// TestOtherTypes pins that images with Docker's types are read, with zstd, and with layers that the registry may not
// distribute but has.
func TestOtherTypes(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(layer(t, "d/", "d/a zstd"))
	z.Close()
	content := [][]byte{servers.Gzip(t, layer(t, "d/", "d/b docker")), packed.Bytes(), layer(t, "d/", "d/c foreign"), []byte("{}")}
	f := newFake(t)
	f.push("app", "1", servers.Manifest{MediaType: dockerManifest, Config: servers.Describe(dockerConfig, content[3]), Layers: []servers.Descriptor{
		servers.Describe("application/vnd.docker.image.rootfs.diff.tar.gzip", content[0]), servers.Describe("application/vnd.oci.image.layer.v1.tar+zstd", content[1]),
		servers.Describe("application/vnd.oci.image.layer.nondistributable.v1.tar", content[2]),
	}}.Image(t, content...))
	got, err := fetch(t, f.host+"/app:1", "/d")
	if err != nil || got.String() != ". dir 755\na 755 zstd\nb 755 docker\nc 755 foreign" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestArtifact pins the files of artifacts.
func TestArtifact(t *testing.T) {
	t.Parallel()
	titled := func(title string, content []byte, more ...string) servers.Descriptor {
		d := servers.Describe("application/octet-stream", content)
		d.Annotations = map[string]string{"org.opencontainers.image.title": title}
		for _, m := range more {
			d.Annotations[m] = "true"
		}
		return d
	}
	packed := servers.Gzip(t, layer(t, "themes/", "themes/dark/", "themes/dark/a.css css", "themes/b.css == themes/dark/a.css"))
	plugin, chart, empty := []byte("plugin"), []byte("chart"), []byte("{}")
	helm := []byte(`{"name":"web","version":"1.2.3"}`)
	f := newFake(t)
	f.push("files", "1", servers.Manifest{ArtifactType: "application/vnd.example", Config: servers.Describe("application/vnd.oci.empty.v1+json", empty),
		Layers: []servers.Descriptor{titled("plugin.jar", plugin), titled("themes", packed, unpackAnnotation)}}.Image(t, empty, plugin, packed))
	f.push("chart", "1", servers.Manifest{Config: servers.Describe(helmConfig, helm), Layers: []servers.Descriptor{servers.Describe(helmChart, chart)}}.Image(t, helm, chart))
	f.push("image", "1", servers.NewImage(t, "amd64", layer(t, "a 1")))
	for _, tt := range []struct{ image, path, want, err, hint string }{
		{"files", "", "plugin.jar 644 plugin\nthemes dir 755\nthemes/b.css 755 css\nthemes/dark dir 755\nthemes/dark/a.css 755 css", "", ""},
		{"files", "/plugin.jar", "plugin.jar 644 plugin", "", ""},
		{"files", "plugin.jra", "", "has no file plugin.jra", "did you mean plugin.jar? it has plugin.jar, themes"},
		{"chart", "", "web-1.2.3.tgz 644 chart", "", ""},
		{"image", "", "", "no #path= says what to take out of it", "#path=/opt/plugin"},
	} {
		got, err := fetch(t, f.host+"/"+tt.image+":1", tt.path)
		if got.String() != tt.want || (err == nil) != (tt.err == "") {
			t.Errorf("%s %s: %v\n%v", tt.image, tt.path, err, got)
		}
		if err != nil && (!strings.Contains(err.Error(), tt.err) || !strings.Contains(hintOf(err), tt.hint)) {
			t.Errorf("%s %s: %v\nhint: %s", tt.image, tt.path, err, hintOf(err))
		}
	}
}

// TestReference pins the syntax.
func TestReference(t *testing.T) {
	t.Parallel()
	const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for text, want := range map[string]string{
		"oci://docker.io/grafana/grafana:11":       "docker.io/grafana/grafana:11 at registry-1.docker.io",
		"oci://docker.io/nginx":                    "docker.io/library/nginx:latest at registry-1.docker.io",
		"oci://index.docker.io/library/nginx":      "index.docker.io/library/nginx:latest at registry-1.docker.io",
		"oci://r:5000/a/b:1@" + digest:             "r:5000/a/b:1@" + digest + " at r:5000",
		"oci://[::1]:5000/a@" + digest:             "[::1]:5000/a@" + digest + " at [::1]:5000",
		"oci://r/a:":                               "want oci://REGISTRY/NAME",
		"oci://nginx":                              "want oci://REGISTRY/NAME",
		"oci://me:secret@r/a":                      "has no user and password",
		"oci://r/Team/app":                         "has no capital letters",
		"oci://r/a?b":                              "invalid repository",
		"oci://r/a:b/c":                            "invalid tag",
		"oci://r/a:" + digest:                      "invalid tag",
		"oci://r/a@sha256:12":                      "invalid digest",
		"oci://r/a@md5:d41d8cd98f00b204e9800998ec": "invalid digest",
		"oci://r/../a":                             "invalid repository",
	} {
		r, err := parse(text)
		got := r.String() + " at " + r.host()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, o := range []Options{{Platform: "arm64"}, {Platform: "linux//v8"}, {Mirrors: map[string][]string{"r": {"mirror:5000"}}}, {Mirrors: map[string][]string{"r": {"https://me:secret@m"}}}} {
		if _, err := Open("oci://r/a", o); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestDockerConfig pins which login of a configuration file is used.
func TestDockerConfig(t *testing.T) {
	t.Parallel()
	entry := func(user string) string { return base64.StdEncoding.EncodeToString([]byte(user + ":pw:" + user)) }
	config := file(t, fmt.Sprintf(`{"auths":{
		"https://index.docker.io/v1/":{"auth":%q}, "r.example.com":{"auth":%q}, "r.example.com/team":{"auth":%q}, "*.example.com":{"auth":%q},
		"http://plain:5000/v2/":{"username":"plain","password":"pw:plain"}, "identity":{"auth":%q,"identitytoken":"refresh"}, "token":{"registrytoken":"access"}},
		"credHelpers":{"123.ecr.aws":"ecr-login"},"credsStore":"desktop"}`, entry("hub"), entry("host"), entry("team"), entry("star"), base64.StdEncoding.EncodeToString([]byte("<token>:x"))))
	for _, tt := range []struct{ registry, repository, user, helper string }{
		{"docker.io", "library/nginx", "hub", ""}, {"index.docker.io", "a/b", "hub", ""},
		{"r.example.com", "other", "host", ""}, {"r.example.com", "team/a", "team", ""}, {"r.example.com", "teams/a", "host", ""},
		{"s.example.com", "a", "star", ""}, {"s.t.example.com", "a", "", "desktop"}, {"example.com", "a", "", "desktop"},
		{"plain:5000", "a", "plain", ""}, {"plain", "a", "", "desktop"}, {"123.ecr.aws", "a", "", "ecr-login"},
	} {
		got, helper, err := configured(config, tt.registry, tt.repository)
		want := ""
		if tt.user != "" {
			want = "pw:" + tt.user
		}
		if err != nil || got.user != tt.user || got.password != want || helper != tt.helper {
			t.Errorf("%s/%s: %+v, helper %q, %v", tt.registry, tt.repository, got, helper, err)
		}
	}
	if got, _, _ := configured(config, "identity", "a"); got.refreshToken != "refresh" || got.password != "" {
		t.Errorf("identity token: %+v", got)
	}
	if got, _, _ := configured(config, "token", "a"); got.accessToken != "access" {
		t.Errorf("registry token: %+v", got)
	}
	old := file(t, `{"r.example.com":{"username":"old","password":"pw"}}`)
	if got, _, err := configured(old, "r.example.com", "a"); got.user != "old" || err != nil {
		t.Errorf("kubernetes.io/dockercfg: %+v, %v", got, err)
	}
	for _, name := range []string{t.TempDir(), file(t, "[]"), "/nowhere"} {
		if _, _, err := configured(name, "r", "a"); err == nil {
			t.Errorf("no error for %s", name)
		}
	}
}

// TestDiskFull pins that an error of this side does not count as one of the mirror.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	mirror, f := newFake(t), newFake(t)
	image := servers.NewImage(t, "amd64", layer(t, "a 1"))
	f.push("app", "1", image)
	mirror.push("app", "1", image)
	_, err := fetch(t, f.host+"/app:1", "/a", func(o *Options) {
		o.Mirrors = map[string][]string{f.host: {mirror.URL}}
		o.Temp = func() (*os.File, error) { return os.OpenFile("/dev/full", os.O_RDWR, 0) }
	})
	if err == nil || !poll.IsPermanent(err) || f.count("GET", "/blobs/") != 0 {
		t.Errorf("%v, %d requests to the registry", err, f.count("GET", "/blobs/"))
	}
}

// TestIdentityToken pins that an identity token goes to the token server, and a registry token to the registry.
func TestIdentityToken(t *testing.T) {
	t.Parallel()
	var form url.Values
	realm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.ParseForm()
		form = r.PostForm
		io.WriteString(w, `{"access_token":"access-1"}`)
	}))
	t.Cleanup(realm.Close)
	f := newFake(t)
	f.push("app", "1", servers.NewImage(t, "amd64", layer(t, "a 1")))
	f.before = func(w http.ResponseWriter, r *http.Request) bool {
		if got := r.Header.Get("Authorization"); got == "Bearer access-1" || got == "Bearer registry-1" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm.URL+`",service="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	for login, want := range map[string]string{`"identitytoken":"refresh-1"`: "refresh-1", `"registrytoken":"registry-1"`: ""} {
		form = nil
		config := file(t, fmt.Sprintf(`{"auths":{%q:{%s}}}`, f.host, login))
		got, err := fetch(t, f.host+"/app:1", "/a", func(o *Options) { o.DockerConfig = config })
		if err != nil || got["a"] != "755 1" || form.Get("refresh_token") != want {
			t.Errorf("%s: %v, %v; the realm received %v", login, got, err, form)
		}
	}
}
