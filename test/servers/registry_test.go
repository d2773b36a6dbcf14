package servers

import (
	"archive/tar"
	"fmt"
	"net/http"
	"testing"
)

func TestRegistry(t *testing.T) {
	t.Parallel()
	for _, o := range []RegistryOptions{{}, {CA: NewCA(t)}, {Login: true}, {Token: true}} {
		t.Run(fmt.Sprintf("TLS=%t login=%t token=%t", o.CA != nil, o.Login, o.Token), func(t *testing.T) {
			t.Parallel()
			r := StartRegistry(t, o)
			layer := Gzip(t, Tar(t, map[string]string{"opt/a": "hello"}, tar.Header{Name: "opt/"}, tar.Header{Name: "opt/a"}))
			digest := r.Push(t, "team/app", "1", NewIndex(t, map[string]Image{"linux/amd64": NewImage(t, "amd64", layer)}))
			got := r.send(t, "team/app", http.MethodHead, "/v2/team/app/manifests/1", "", nil, http.StatusOK)
			if got.Get("Docker-Content-Digest") != digest {
				t.Errorf("the tag is %s, want %s", got.Get("Docker-Content-Digest"), digest)
			}
			resp, err := r.client.Get(r.URL + "/v2/team/app/manifests/1")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if refused := resp.StatusCode == http.StatusUnauthorized; refused != (o.Login || o.Token) {
				t.Errorf("without a login: status %d", resp.StatusCode)
			}
		})
	}
}
