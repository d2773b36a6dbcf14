package convert

import (
	"strings"
	"testing"

	"initbox/cmd/kubectl-initbox/convert/shell"
)

func TestCurl(t *testing.T) {
	probed{
		"curl http://api:8080/health":                              "wait-for-service http://api:8080/health#status=any&no-redirect",
		"curl -s -o /dev/null http://api/":                         "wait-for-service http://api/#status=any&no-redirect",
		"curl -sf http://api:8080/health":                          "wait-for-service http://api:8080/health#no-redirect",
		"curl --fail --silent --show-error http://api/":            "wait-for-service http://api/#no-redirect",
		"curl -fsSL http://api/":                                   "wait-for-service http://api/",
		"curl -fsS -m 3 http://api/":                               "wait-for-service http://api/#no-redirect --attempt-timeout=3s",
		"curl -f --max-time=5 http://api/":                         "wait-for-service http://api/#no-redirect --attempt-timeout=5s",
		"curl -kfs https://api/":                                   "wait-for-service https://api/#no-redirect&insecure",
		"curl -kfs http://api/":                                    "wait-for-service http://api/#no-redirect",
		"curl -fs --cacert /shared/ca.crt https://api/":            "wait-for-service https://api/#no-redirect&ca-file=/shared/ca.crt",
		"curl -fs --cacert /etc/ca.crt https://api/":               "!/etc/ca.crt",
		"curl -fs --cert /shared/c --key /shared/k https://api/":   "wait-for-service https://api/#no-redirect&cert-file=/shared/c&key-file=/shared/k",
		"curl -fs api:8080/health":                                 "wait-for-service http://api:8080/health#no-redirect",
		"curl -fs $HOST:8080/health":                               "wait-for-service http://$(HOST):8080/health#no-redirect",
		"curl -fs http://$HOST:$PORT/":                             "!not the port of an HTTP server",
		"curl -fs $URL":                                            "wait-for-service $(URL)#no-redirect",
		"curl -fs $URL/x":                                          "wait-for-service $(URL)/x#no-redirect",
		"curl -fs http://$CHOST/":                                  "wait-for-service http://$(CHOST)/#no-redirect",
		"curl -fs http://api.$NS/$NS":                              "wait-for-service http://api.$(NS)/$(NS)#no-redirect",
		"curl -fs http://api/$CHOST":                               "!ConfigMap",
		"curl -fs $CHOST":                                          "!any URL",
		"curl -fs http://$SHOST:80/":                               "wait-for-service http://${env:SHOST:-unset.invalid}:80/#no-redirect",
		"curl -fs http://api/?token=$PW":                           "wait-for-service http://api/?token=${env:PW}#no-redirect",
		"curl -fs -u app:$PW http://api/":                          "wait-for-service http://app:${env:PW}@api/#no-redirect",
		"curl -fs http://app:$PW@api/":                             "wait-for-service http://app:${env:PW}@api/#no-redirect",
		"curl -fs -u app:hUnter2 http://api/":                      "!a password",
		"curl -fs http://app:hUnter2@api/":                         "!a password",
		"curl -fs -H 'Accept: text/plain' http://api/":             `wait-for-service "http://api/#no-redirect&request-header=Accept: text/plain"`,
		"curl -fs -H 'Authorization: Bearer x' http://api/":        "!secret",
		"curl -fs -H 'Host: other' http://api/":                    "!Host",
		"curl -fs -H @file http://api/":                            "!does not send",
		"curl -kfsL http://api/":                                   "!without verification",
		"curl -fsI http://api/":                                    "wait-for-service http://api/#no-redirect&method=HEAD",
		"curl -fs -X GET http://api/":                              "wait-for-service http://api/#no-redirect",
		"curl -fs -X POST http://api/":                             "!POST",
		"curl -fs -d a=b http://api/":                              "!-d",
		"curl -fs --data a=b http://api/":                          "!--data",
		"curl -fs http://api/ http://b/":                           "!one URL",
		"curl -fs -O http://api/x":                                 "!-O",
		"curl -fs -o x http://api/x":                               "!a file that it writes",
		"curl -fs ftp://api/x":                                     "!not a URL",
		"curl -fs 'http://api/{a,b}'":                              "!a character",
		"curl -fs 'http://api/#x'":                                 "!a character",
		"curl -fs http://api/a/../b":                               "!different ways",
		"curl -fs --retry 3 --retry-connrefused http://api/":       "wait-for-service http://api/#no-redirect",
		"curl -fs --noproxy '*' http://api/":                       "wait-for-service http://api/#no-redirect&no-proxy",
		"curl -fs -x proxy:80 http://api/":                         "!-x",
		"https_proxy=http://p curl -fs https://api/":               "!https_proxy",
		"curl -s telnet://mydb:5432":                               "wait-for-service tcp://mydb:5432",
		"curl -fs --unix-socket /shared/s http://api/":             "!a socket",
		"curl -fs $ODD":                                            "!ODD",
		"curl -fs $UNSET":                                          "!UNSET",
		"wget -q -O- http://api/":                                  "wait-for-service http://api/#status=200-299",
		"wget -qO- http://api/":                                    "wait-for-service http://api/#status=200-299",
		"wget -q -O /dev/null http://api/":                         "wait-for-service http://api/#status=200-299",
		"wget --spider -q http://api/":                             "wait-for-service http://api/#status=200-299",
		"wget -nv --spider -T 5 -t 1 http://api/":                  "wait-for-service http://api/#status=200-299 --attempt-timeout=5s",
		"wget --spider --no-check-certificate https://api/":        "wait-for-service https://api/#status=200-299&insecure",
		"wget --spider https://api/":                               "!which one it is",
		"wget --spider --no-check-certificate https://a:$PW@api/x": "wait-for-service https://a:${env:PW}@api/x#status=200-299&insecure",
		"wget --spider --user=a --password=$PW http://api/":        "wait-for-service http://a:${env:PW}@api/#status=200-299",
		"wget --header 'Accept: x' -qO- http://api/":               `wait-for-service "http://api/#status=200-299&request-header=Accept: x"`,
		"wget http://api/":                                         "!it writes a file",
		"wget -O x http://api/":                                    "!it writes a file",
		"wget --post-data x -O- http://api/":                       "!--post-data",
	}.test(t, waitContainer())
	busybox := waitContainer()
	busybox.Image = "busybox:1.36"
	probed{"wget --spider https://api/": "wait-for-service https://api/#status=200-299&insecure"}.test(t, busybox)
	probed{"wget -q --spider http://api/": "wait-for-service http://api/#status=200-299"}.test(t, busybox)
	busybox.Image = "debian:12"
	probed{"wget --spider https://api/": "wait-for-service https://api/#status=200-299"}.test(t, busybox)
}

// matched are comparisons in loops: the command, the operator and the text.
type matched map[[3]string]string

func (table matched) test(t *testing.T) {
	t.Helper()
	for key, want := range table {
		list := strings.Split(key[0], " | ")
		call := callOf(list[0])
		if len(list) > 1 {
			call.Pipe = callOf(list[1])
		}
		if before, ok := strings.CutSuffix(list[0], " 2>&1"); ok {
			call = callOf(before)
			call.Stderr = &shell.Output{}
		}
		f := comparisons[call.Name]
		if f == nil {
			t.Errorf("%s: not in the table", key)
			continue
		}
		step, err := f(&shell.Match{Call: call, Op: key[1], Pattern: shell.Word{{Text: key[2]}}}, waitContainer())
		expect(t, strings.Join(key[:], " "), step, err, want)
	}
}

func TestCompareHTTP(t *testing.T) {
	const status = "curl -s -o /dev/null -w '%{http_code}' http://api/"
	const body = "curl -s http://api/"
	any := func(rest string) string { return `wait-for-service http://api/#status=any&no-redirect&` + rest }
	matched{
		{status, "=", "200"}:                                  "wait-for-service http://api/#status=200&no-redirect",
		{status, "-eq", "200"}:                                "wait-for-service http://api/#status=200&no-redirect",
		{status, "!=", "000"}:                                 "wait-for-service http://api/#status=any&no-redirect",
		{status, "!=", "503"}:                                 "!!= 503",
		{status, "-lt", "500"}:                                "!-lt 500",
		{status, "=", "20"}:                                   "!= 20",
		{status, "grep", "200"}:                               "wait-for-service http://api/#status=200&no-redirect",
		{status, "grep -E", "200|401"}:                        "wait-for-service http://api/#status=200,401&no-redirect",
		{status, "grep -E", "^(200|401)$"}:                    "wait-for-service http://api/#status=200,401&no-redirect",
		{status, "grep", "200|401"}:                           "!grep 200|401",
		{status, "grep", "^2"}:                                "wait-for-service http://api/#status=200-299&no-redirect",
		{status, "grep", "2.."}:                               "wait-for-service http://api/#status=200-299&no-redirect",
		{status, "grep", "2"}:                                 "!grep 2",
		{"curl -s -w '%{http_code}' http://api/", "=", "200"}: "!the body",
		{"curl -s -o /dev/null -w '%{http_code} %{size}' http://api/", "=", "200"}: "!more than the status",
		{"curl -skL -o /dev/null -w '%{http_code}' https://api/", "=", "200"}:      "wait-for-service https://api/#status=200&insecure",
		{body, "grep", "UP"}:                                          any("body=UP"),
		{body, "grep", `"status":"UP"`}:                               any(`body="status":"UP"`),
		{body, "grep -F", "a.b#c&d"}:                                  any("body=a.b%23c%26d"),
		{body, "grep", "a.*b"}:                                        any("body=/a.*b/"),
		{body, "grep -E", "ok|ready"}:                                 any("body=/ok|ready/"),
		{body, "grep", `ok\|ready`}:                                   `!grep ok\|ready`,
		{body, "grep", "[^x]"}:                                        "!grep [^x]",
		{body, "grep", "{}"}:                                          any("body={}"),
		{body, "=", "OK"}:                                             any(`body=/\AOK\n*\z/`),
		{body, "-n", ""}:                                              any(`body=/[^\n]/`),
		{body, "-z", ""}:                                              "!-z",
		{body, "!=", "x"}:                                             "!!= x",
		{"curl -sf http://api/", "grep", "UP"}:                        "wait-for-service http://api/#no-redirect&body=UP",
		{body + " | jq -r .status", "=", "UP"}:                        any("json=.status==UP"),
		{body + " | jq .status", "=", `"UP"`}:                         any(`json=.status=="UP"`),
		{body + " | jq .status", "=", "UP"}:                           "!quotes",
		{body + " | jq -r .status", "=", `"UP"`}:                      "!quotes",
		{body + " | jq -r .n", "-eq", "3"}:                            any("json=.n==3"),
		{body + " | jq -r .n", "-ge", "3"}:                            "!-ge 3",
		{body + " | jq -r .status", "=", "null"}:                      "!something else",
		{body + " | jq -r .a.b[0].c", "=", "x"}:                       any("json=.a.b[0].c==x"),
		{body + " | jq -r .status", "grep", "UP"}:                     any("json=.status==/UP/"),
		{body + " | jq -r .status", "grep", "u"}:                      "!null",
		{body + " | jq -r '.items[]|.x'", "=", "x"}:                   "!a filter",
		{body + " | sed s/a/b/", "=", "x"}:                            "!sed",
		{"wget -qO- http://api/", "grep", "UP"}:                       "wait-for-service http://api/#status=200-299&body=UP",
		{"wget -qO- http://api/ | jq -r .status", "=", "UP"}:          "wait-for-service http://api/#status=200-299&json=.status==UP",
		{"wget --spider -S http://api/ 2>&1", "grep", "200 OK"}:       "wait-for-service http://api/#status=200",
		{"wget --spider -S http://api/ 2>&1", "grep", "HTTP/1.1 200"}: "wait-for-service http://api/#status=200",
		{"wget --spider -S http://api/ 2>&1", "grep", "200"}:          "wait-for-service http://api/#status=200",
		{"wget --spider -S http://api/ 2>&1", "grep", "OK"}:           "!grep OK",
		{"wget --spider http://api/ 2>&1", "grep", "200 OK"}:          "!wget -S",
	}.test(t)
	jq := callOf(body)
	for filter, want := range map[string]string{
		"jq -e .ready":            any("json=.ready"),
		`jq -e '.status == "UP"'`: any(`json=.status=="UP"`),
		"jq .ready":               "!without -e",
		`jq -e '.a and .b'`:       "!a filter",
		"grep -v x":               "!grep",
	} {
		jq.Pipe = callOf(filter)
		step, err := curl(jq, waitContainer())
		expect(t, filter, step, err, want)
	}
}
