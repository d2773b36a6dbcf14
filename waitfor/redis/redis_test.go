package redis

import (
	"bufio"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/internal/tlsconfig"
	"initbox/test/kindtest"
	"initbox/test/servers"
	"initbox/waitfor/memcached"
	"initbox/waitfor/target"
	"initbox/waitfor/wire"
)

// kinds has the package's kind, and others that are tried on its servers.
var kinds = target.Kinds{&Kind, &memcached.Kind}

// saysAndWaits answers the first request with a text, and does not hang up.
func saysAndWaits(text string) func(net.Conn) {
	return func(c net.Conn) {
		c.Read(make([]byte, 1000))
		io.WriteString(c, text)
		kindtest.Hang(c)
	}
}

// TestFaults tries invalid answers that the conformance test of all kinds does not.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"2 GB":            "$2147483648\r\n",
		"too long":        "$9223372036854775807\r\n",
		"minus":           "$-2\r\n",
		"not a number":    "$x\r\n",
		"many items":      "*2147483648\r\n" + strings.Repeat(":1\r\n", 2000),
		"deep":            strings.Repeat("*1\r\n", 2000),
		"no end":          "$4\r\nPONGxx",
		"another answer":  "+OK\r\n",
		"PONG as a bulk":  "$4\r\nPONG\r\n",
		"another version": "_\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if f := kindtest.Attempt(t, kinds, "redis://"+servers.Serve(t, saysAndWaits(answer))); f == nil || f.Class != failure.Unexpected {
				t.Errorf("%+v", f)
			}
		})
	}
}

// says answers each command with the entry for its name.
func says(answers map[string]string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewScanner(c)
		for in.Scan() {
			if answer, ok := answers[in.Text()]; ok {
				io.WriteString(c, answer)
			}
		}
	}
}

// TestWords pins the failures of answers, quoted from Redis's source, that a real server does not give in a test.
func TestWords(t *testing.T) {
	t.Parallel()
	const pong = "+PONG\r\n"
	for name, test := range map[string]struct {
		settings string
		handle   func(net.Conn)
		class    failure.Class
		want     string
	}{
		"protected mode": {"", func(c net.Conn) {
			io.WriteString(c, "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this mode connections are only accepted from the loopback interface.\r\n")
		}, failure.Unexpected, "DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user"},
		"busy":    {"", says(map[string]string{"PING": "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"}), failure.Unexpected, "BUSY Redis is busy"},
		"no disk": {"", says(map[string]string{"PING": "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.\r\n"}), failure.Unexpected, "MISCONF Redis is"},
		"loading, and INFO is not permitted": {"", says(map[string]string{
			"PING": "-LOADING Redis is loading the dataset in memory\r\n", "INFO": "-NOPERM no\r\n"}), failure.Unexpected, "LOADING Redis is loading the dataset in memory"},
		"loading nonsense": {"", says(map[string]string{
			"PING": "-LOADING it\r\n", "INFO": "$24\r\nloading_loaded_perc:NaN\n\r\n"}), failure.Unexpected, "LOADING it"},
		"no role":                  {"#role=master", says(map[string]string{"PING": pong, "ROLE": "*0\r\n"}), failure.Unexpected, "the answer is not Redis"},
		"moved in circles":         {"#key=a", says(map[string]string{"PING": pong, "EXISTS": "-MOVED 1 :1\r\n"}), failure.Refused, "the key is at 127.0.0.1:1: connection refused"},
		"moved to a socket":        {"#key=a", says(map[string]string{"PING": pong, "EXISTS": "-MOVED 1 /run/app:1\r\n"}), failure.Unexpected, "MOVED 1 /run/app:1"},
		"moved, and not gone":      {"#key=a&gone", says(map[string]string{"PING": pong, "EXISTS": "-MOVED 1 :1\r\n"}), failure.Refused, "the key is at 127.0.0.1:1: connection refused"},
		"no text":                  {"", says(map[string]string{"PING": "-\r\n"}), failure.Unexpected, wire.Wordless},
		"moved nowhere":            {"#key=a", says(map[string]string{"PING": pong, "EXISTS": "-MOVED 1 10.0.0.1:x\r\n"}), failure.Unexpected, "MOVED 1 10.0.0.1:x"},
		"one word from a sentinel": {"#sentinel=m", says(map[string]string{"SENTINEL": "*1\r\n$1\r\na\r\n"}), failure.Unexpected, "the answer is not Redis"},
		"no address":               {"#sentinel=m", says(map[string]string{"SENTINEL": "*2\r\n$1\r\na\r\n$1\r\n0\r\n"}), failure.Unexpected, "the answer is not Redis"},
		"no cluster":               {"#cluster", says(map[string]string{"PING": pong, "CLUSTER": "$1\r\na\r\n"}), failure.Unexpected, "the answer is not Redis"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := kindtest.Attempt(t, kinds, "redis://"+servers.Serve(t, test.handle)+test.settings)
			if f == nil || f.Class != test.class || !strings.HasPrefix(f.Error(), test.want) || f.Hint == "" {
				t.Errorf("%s: %v (%s), want %s: %s", f.Class, f, f.Hint, test.class, test.want)
			}
		})
	}
}

func TestParseRedis(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redis://a":                                 "a:6379",
		"redis://a/2?db=3":                          "a:6379 database 2",
		"redis://a?db=3&client_name=x":              "a:6379 database 3",
		"rediss://a":                                "a:6379 TLS",
		"valkeys://a:1,b":                           "a:1 b:6379 TLS",
		"redis://a?ssl=true":                        "a:6379 TLS",
		"redis+sentinel://a,b:1/m/2":                "a:26379 b:1 sentinel m database 2",
		"redis+sentinel://a,b:1/2#sentinel=m":       "a:26379 b:1 sentinel m database 2",
		"rediss+sentinel://a?sentinelMasterId=m":    "a:26379 TLS sentinel m",
		"redis+sentinel://a/2?master_name=m":        "a:26379 sentinel m database 2",
		"redis://a:1/2?master_name=m":               "a:1 sentinel m database 2",
		"redis://:pw@a/2#sentinel=m":                "a:26379 sentinel m database 2",
		"redis+socket:///run/redis.sock?db=1":       "/run/redis.sock database 1",
		"redis://":                                  "host missing",
		"redis://a/x":                               "the database is a number",
		"redis://a?db=hUnter2":                      "the database is a number",
		"redis://a/-1":                              "the database is a number",
		"redis://a#role=boss":                       "role: want master or replica",
		"redis://a#key==x":                          "key: want KEY",
		"redis://a#key=a=/(/":                       "key: not a regular expression",
		"redis+sentinel://a":                        "the name of the master is missing",
		"redis+sentinel://a/m#role=replica":         "sentinels name the master",
		"redis+sentinel://a/m#cluster":              "a cluster has no sentinels",
		"redis://a#sentinel-password-file=/f":       "need sentinels",
		"redis+sentinel://a/m#sentinel-user=u":      "sentinel-user needs sentinel-password-file",
		"redis+socket://run/redis.sock":             "the path of the socket must be absolute",
		"redis+socket:///run/redis.sock#sentinel=m": "sentinels need hosts",
	} {
		parsed, err := kinds.Parse(text, target.Options{Getenv: func(string) string { return "hUnter2" }})
		if err != nil {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hUnter2") {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			continue
		}
		c := parsed.(check)
		got := strings.Join(c.Addrs, " ")
		for _, part := range []struct {
			name, value string
			on          bool
		}{{"TLS", "", c.Encrypted}, {"sentinel ", c.sentinel, c.sentinel != ""}, {"database ", c.database, c.database != ""}} {
			if part.on {
				got += " " + part.name + part.value
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestTLSParameters pins the TLS parameters in the URLs of redis-py and go-redis.
func TestTLSParameters(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]tlsconfig.Options{
		"":                         {},
		"ssl_cert_reqs=required":   {},
		"ssl_cert_reqs=CERT_NONE":  {Insecure: true},
		"skip_verify=true":         {Insecure: true},
		"ssl_check_hostname=false": {AnyName: true},
		"ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k": {CAFile: "/ca", CertFile: "/c", KeyFile: "/k"},
	} {
		parsed, err := kinds.Parse("rediss://a/0?"+query, target.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.(check).TLS; got != want {
			t.Errorf("%s: %+v, want %+v", query, got, want)
		}
	}
}

// Fuzz checks that no answer makes the reader panic or read without limit, and that a valid reply is read as the same
// again after it has been written out.
func Fuzz(f *testing.F) {
	for _, said := range []string{
		"+PONG\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n$40\r\ncluster_state:ok\r\ncluster_slots_ok:16384\r\n:1\r\n",
		"-LOADING Redis is loading the dataset in memory\r\n$25\r\nloading_loaded_perc:1.85\r\n\r\n",
		"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:14\r\n",
		"*2\r\n$9\r\n127.0.0.1\r\n$4\r\n6379\r\n", "*-1\r\n", "$-1\r\n", "-MOVED 3999 127.0.0.1:6381\r\n",
		"-ERR unknown command 'AUTH', with args beginning with: 'pw' \r\n", "$2147483648\r\n", "*2147483648\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
	} {
		f.Add([]byte(said))
	}
	parsed := kindtest.Target(f, kinds, "redis://127.0.0.1")
	f.Fuzz(func(t *testing.T, said []byte) {
		r := &session{Conversation: kindtest.Replayed(t.Context(), said), target: parsed, secrets: []string{"hUnter2"}}
		for _, ask := range []func() error{
			func() error { return r.want("PONG", "PING") },
			func() error { _, _, err := r.role(); return err },
			r.clusterState,
		} {
			ask()
		}
		if r.replies > maxReplies+10 {
			t.Errorf("%d replies were read", r.replies)
		}
		r = &session{Conversation: kindtest.Replayed(t.Context(), said), target: parsed}
		reply, err := r.reply(0)
		if err != nil {
			return
		}
		r.movedTo(reply)
		again, err := (&session{Conversation: kindtest.Replayed(t.Context(), written(nil, reply)), target: parsed}).reply(0)
		if err != nil || !sameReply(reply, again) {
			t.Errorf("%+v is written and read as %+v, %v", reply, again, err)
		}
	})
}

func written(to []byte, r answer) []byte {
	switch {
	case r.null:
		return append(to, string(r.kind)+"-1\r\n"...)
	case r.kind == '$':
		return append(to, "$"+strconv.Itoa(len(r.text))+"\r\n"+r.text+"\r\n"...)
	case r.kind == '*':
		to = append(to, "*"+strconv.Itoa(len(r.items))+"\r\n"...)
		for _, item := range r.items {
			to = written(to, item)
		}
		return to
	}
	return append(to, string(r.kind)+r.text+"\r\n"...)
}

func sameReply(a, b answer) bool {
	return a.kind == b.kind && a.text == b.text && a.null == b.null && slices.EqualFunc(a.items, b.items, sameReply)
}
