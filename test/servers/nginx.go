package servers

import (
	"os"
	"path/filepath"
	"testing"
)

// The credentials for /basic and /bearer.
const (
	NGINXUser     = "probe"
	NGINXPassword = "s3cr3t-pa55"
	NGINXToken    = "s3cr3t-t0k3n"
)

// NGINX is a web server. The same pages are on all four listeners:
//
//	/ready        503, and 200 "ready" once [NGINX.SetReady] was called
//	/health.json  200 {"status":"UP","checks":[{"name":"db","ok":true}]}
//	/basic        200 with the right user and password, else 401
//	/bearer       200 with the right bearer token, else 401
//	/post         200 for POST, else 405
//	/header       200 if the request has "X-Probe: initbox", else 400
//	/client-cert  200 if the client's certificate is of the CA, else 403
//	/moved        302 to /ready
//	/loop         302 to itself
//	/private      403
//	/files/       what is in the directory Files, with ETag and ranges
type NGINX struct {
	HTTP   string // host:port
	HTTPS  string // host:port; HTTP/2 or HTTP/1.1, as the client prefers
	H2C    string // host:port; only HTTP/2 with prior knowledge, which is what nginx before 1.25.1 supports
	Socket string // path of a Unix socket; HTTP/1.1
	Files  string // directory

	ready string
}

// NGINXOptions configures [StartNGINX]; without a CA there is no HTTPS.
type NGINXOptions struct {
	CA       *CA     // whose client certificates are accepted
	Htpasswd string  // more lines of the file for /basic
	Cert     KeyPair // presented on HTTPS; if empty, the CA issues one for 127.0.0.1 and localhost
}

// StartNGINX starts Debian's nginx.
func StartNGINX(t testing.TB, o NGINXOptions) *NGINX {
	t.Helper()
	program, dir := Need(t, "nginx"), t.TempDir()
	n := &NGINX{
		HTTP:   FreeAddr(t),
		H2C:    FreeAddr(t),
		Socket: filepath.Join(dir, "http.sock"),
		Files:  filepath.Join(dir, "files"),
		ready:  filepath.Join(dir, "ready"),
	}
	if err := os.Mkdir(n.Files, 0o755); err != nil {
		t.Fatal(err)
	}
	if o.CA != nil {
		n.HTTPS = FreeAddr(t)
		if o.Cert == (KeyPair{}) {
			o.Cert = o.CA.Server(t, "127.0.0.1", "localhost")
		}
	}
	writeFile(t, filepath.Join(dir, "page"), "let in\n")
	writeFile(t, filepath.Join(dir, "htpasswd"), NGINXUser+":{PLAIN}"+NGINXPassword+"\n"+o.Htpasswd)
	conf := filepath.Join(dir, "nginx.conf")
	writeConfig(t, conf, nginxConf, struct {
		*NGINX
		NGINXOptions
		Dir, Token string
	}{n, o, dir, NGINXToken})
	p := run(t, program, "-p", dir, "-e", "stderr", "-c", conf)
	for _, addr := range []string{n.HTTP, n.H2C, n.HTTPS} {
		if addr != "" {
			p.untilListening(t, addr)
		}
	}
	return n
}

// SetReady makes /ready answer 200.
func (n *NGINX) SetReady(t testing.TB) { t.Helper(); writeFile(t, n.ready, "") }

// SetUnready makes /ready answer 503 again.
func (n *NGINX) SetUnready(t testing.TB) {
	t.Helper()
	if err := os.Remove(n.ready); err != nil {
		t.Fatal(err)
	}
}

// One process, because the workers of a master that runs as root run as another user, who cannot enter the test's
// directory. "return" answers before authentication, so the page with a password is a file.
const nginxConf = `
daemon off;
master_process off;
pid {{.Dir}}/nginx.pid;
error_log stderr notice;
events { worker_connections 1024; }
http {
	access_log off;
	default_type text/plain;
	client_body_temp_path {{.Dir}}/body;
	proxy_temp_path {{.Dir}}/proxy;
	fastcgi_temp_path {{.Dir}}/fastcgi;
	uwsgi_temp_path {{.Dir}}/uwsgi;
	scgi_temp_path {{.Dir}}/scgi;
	server {
		listen {{.HTTP}};
		listen {{.H2C}} http2;
		listen unix:{{.Socket}};
{{- with .CA}}
		listen {{$.HTTPS}} ssl http2;
		ssl_certificate {{$.Cert.CertFile}};
		ssl_certificate_key {{$.Cert.KeyFile}};
		ssl_client_certificate {{.File}};
		ssl_verify_client optional;
{{- end}}
		location = /ready {
			if (!-f {{.Dir}}/ready) { return 503 "starting\n"; }
			return 200 "ready\n";
		}
		location = /health.json {
			default_type application/json;
			return 200 '{"status":"UP","checks":[{"name":"db","ok":true}]}';
		}
		location = /basic {
			auth_basic "test";
			auth_basic_user_file {{.Dir}}/htpasswd;
			alias {{.Dir}}/page;
		}
		location = /bearer {
			if ($http_authorization != "Bearer {{.Token}}") { return 401; }
			return 200;
		}
		location = /post {
			if ($request_method != POST) { return 405; }
			return 200;
		}
		location = /header {
			if ($http_x_probe != initbox) { return 400; }
			return 200;
		}
		location = /client-cert {
			if ($ssl_client_verify != SUCCESS) { return 403; }
			return 200;
		}
		location = /moved { return 302 /ready; }
		location = /loop { return 302 /loop; }
		location = /private { return 403; }
		location /files/ { alias {{.Dir}}/files/; }
	}
}
`
