package etcd

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/target"
)

func TestReal(t *testing.T) {
	t.Parallel()
	e := servers.StartEtcd(t, servers.EtcdOptions{Auth: true})
	addr := strings.TrimPrefix(e.URL, "http://")
	if status, answer := e.Call(t, "kv/put", `{"key": "Y29uZmln", "value": "eA=="}`); status != http.StatusOK { // config
		t.Fatal(status, answer)
	}
	password := kindtest.File(t, e.Password+"\n")
	root := "etcd://" + servers.EtcdUser + ":${file:" + password + "}@" + addr
	for _, tt := range []struct {
		target, text string
		class        failure.Class
	}{
		{"etcd://" + addr, "", ""},
		{root, "", ""},
		{root + "#key=config", "", ""},
		{root + "#key=config&key=absent", "no key absent", failure.Unexpected},
		{"etcd://" + addr + "#key=config&user=root&password-file=" + password, "", ""},
		{"etcd://" + addr + "#key=config", "etcdserver: user name is empty", failure.Authentication},
		{"etcd://root:hUnter2@" + addr, "authentication failed, invalid user ID or password", failure.Authentication},
		{"etcd://" + addr + "#tls", "by the server", failure.Reset}, // closed or reset
	} {
		err := kindtest.Check(t, kinds, tt.target, target.Options{})
		if tt.text == "" || err == nil {
			if (err == nil) != (tt.text == "") {
				t.Errorf("%s: %v, want %q", tt.target, err, tt.text)
			}
			continue
		}
		if f := failure.Of(err); f.Class != tt.class || !strings.Contains(f.Text, tt.text) || f.Hint == "" {
			t.Errorf("%s: %s, %q, %q, want %s, %q", tt.target, f.Class, f.Text, f.Hint, tt.class, tt.text)
		}
	}
	status, answer := e.Call(t, "maintenance/alarm", `{"action": "ACTIVATE", "alarm": "NOSPACE"}`)
	if status != http.StatusOK {
		t.Fatal(status, answer)
	}
	if err := kindtest.Check(t, kinds, "etcd://"+addr, target.Options{}); err == nil || !strings.Contains(err.Error(), "NOSPACE") {
		t.Errorf("with an alarm: %v", err)
	}
}

func TestRealTLS(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	e := servers.StartEtcd(t, servers.EtcdOptions{CA: ca})
	text := "etcd://" + strings.TrimPrefix(e.URL, "https://") + "#tls"
	if err := kindtest.Check(t, kinds, text+"&ca-file="+ca.File+"&cert-file="+e.Client.CertFile+"&key-file="+e.Client.KeyFile, target.Options{}); err != nil {
		t.Error(err)
	}
	for suffix, want := range map[string]string{
		"":                       "signed by an unknown authority",
		"&ca-file=" + ca.File:    "", // the message depends on the version of TLS
		"&insecure&ca-file=/no":  "CA file",
		"&insecure&cert-file=/x": "client certificate",
	} {
		if err := kindtest.Check(t, kinds, text+suffix, target.Options{}); err == nil || !strings.Contains(failure.Of(err).Text, want) {
			t.Errorf("%s: %v, want %q", suffix, err, want)
		}
	}
}

// A member without the other one has no leader, and says so.
func TestRealNoLeader(t *testing.T) {
	t.Parallel()
	pair := servers.StartEtcdPair(t)
	first, second := strings.TrimPrefix(pair[0].URL, "http://"), strings.TrimPrefix(pair[1].URL, "http://")
	if err := kindtest.Check(t, kinds, "etcd://"+first+","+second, target.Options{}); err != nil {
		t.Error(err)
	}
	pair[1].Kill(t)
	var err error
	for end := time.Now().Add(servers.Patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = kindtest.Check(t, kinds, "etcd://"+second+","+first, target.Options{}); err != nil && strings.Contains(err.Error(), "no leader") {
			break
		}
	}
	if f := failure.Of(err); f.Class != failure.Unexpected || !strings.Contains(f.Text, "no leader") || f.Hint == "" {
		t.Errorf("%+v", f)
	}
}
