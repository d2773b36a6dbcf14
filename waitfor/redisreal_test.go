package waitfor

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"initbox/internal/failure"
	"initbox/internal/poll"
	"initbox/test/servers"
)

// oneAttempt makes an attempt at a target, and returns why it is not ready, or nil.
func oneAttempt(t testing.TB, target string, env ...string) *failure.Failure {
	t.Helper()
	check, err := Parse(target, Options{Getenv: func(name string) string {
		for i := 0; i+1 < len(env); i += 2 {
			if env[i] == name {
				return env[i+1]
			}
		}
		return ""
	}})
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	if err = poll.Try(t.Context(), 20*time.Second, check.Check); err == nil {
		return nil
	}
	f := failure.Of(err)
	if f.Hint != "" && strings.Contains(f.Hint, "hUnter2") || strings.Contains(f.Error(), "hUnter2") {
		t.Errorf("%s: %v (%s) tells the password", target, f, f.Hint)
	}
	return f
}

// isReady fails the test if the target is not ready.
func isReady(t testing.TB, target string, env ...string) {
	t.Helper()
	if f := oneAttempt(t, target, env...); f != nil {
		t.Errorf("%s: %s: %v", target, f.Class, f)
	}
}

// isNot fails the test if the target is ready, or not for a reason of the class with the
// words.
func isNot(t testing.TB, target string, class failure.Class, words string, env ...string) {
	t.Helper()
	f := oneAttempt(t, target, env...)
	switch {
	case f == nil:
		t.Errorf("%s is ready, want %s: %s", target, class, words)
	case f.Class != class || !strings.Contains(f.Error(), words):
		t.Errorf("%s: %s: %v; want %s: %s", target, f.Class, f, class, words)
	case f.Hint == "":
		t.Errorf("%s: %v has no hint", target, f)
	}
}

// becomesReady waits for a target.
func becomesReady(t testing.TB, target string) {
	t.Helper()
	end := time.Now().Add(60 * time.Second)
	for {
		f := oneAttempt(t, target)
		if f == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: %v", target, f)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestRedisServer(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{})
	at := "redis://" + r.Addr
	r.Call(t, "MSET", "migrated", "42", "in=side", "x", "empty", "")
	r.Call(t, "RPUSH", "list", "a")
	r.Call(t, "-n", "3", "SET", "third", "here")
	for _, target := range []string{
		at, at + "/", at + "/0", at + "/15", "valkey://" + r.Addr, "redis://127.0.0.1:1," + r.Addr,
		"redis+socket://" + r.Socket, "redis+socket://" + r.Socket + "?db=3#key=third", "redis://localhost?socket=" + r.Socket,
		at + "#role=master", at + "#key=migrated", at + "#key=migrated=42", at + "#key=migrated=/^4/&key=list&key=empty=", at + "/3#key=third", at + "?db=3#key=third=here",
		"${env:REDIS_URL}#key=migrated",
	} {
		isReady(t, target, "REDIS_URL", at+"/0")
	}
	isNot(t, at+"/16", failure.Unexpected, "ERR DB index is out of range")
	isNot(t, at+"#role=replica", failure.Unexpected, "is the master, not a replica")
	isNot(t, at+"#cluster", failure.Unexpected, "ERR This instance has cluster support disabled")
	isNot(t, at+"#key=absent", failure.Unexpected, `key "absent" does not exist`)
	isNot(t, at+"#key=absent=1", failure.Unexpected, `key "absent" does not exist`)
	isNot(t, at+"#key=migrated=41", failure.Unexpected, `key "migrated" has another value`)
	isNot(t, at+"#key=list=a", failure.Unexpected, "WRONGTYPE")
	isNot(t, at+"#sentinel=mymaster", failure.Unexpected, "ERR unknown command 'SENTINEL'")
	isNot(t, "redis://:hUnter2@"+r.Addr, failure.Authentication, "without any password configured")
	isNot(t, "memcached://"+r.Addr, failure.Unexpected, "not memcached")
}

func TestRedisLogin(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2é b"}})
	r.Call(t, "-a", "hUnter2é b", "ACL", "SETUSER", "app", "on", ">hUnter2app", "~app:*", "+ping", "+exists")
	r.Call(t, "-a", "hUnter2é b", "ACL", "SETUSER", "off", "off", ">hUnter2off")
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("hUnter2é b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{
		"redis://:hUnter2%C3%A9%20b@" + r.Addr + "#role=master", "redis://default:hUnter2%C3%A9%20b@" + r.Addr,
		"redis://" + r.Addr + "?password=hUnter2%C3%A9+b", "redis://:${file:" + password + "}@" + r.Addr, "redis://" + r.Addr + "#password-file=" + password,
		"redis://app:hUnter2app@" + r.Addr, "redis+socket://app:hUnter2app@" + r.Socket,
	} {
		isReady(t, target)
	}
	isReady(t, "redis://"+r.Addr, "REDISCLI_AUTH", "hUnter2é b")
	isReady(t, "redis://"+r.Addr, "REDISCLI_AUTH_FILE", password)
	isNot(t, "redis://"+r.Addr, failure.Authentication, "NOAUTH Authentication required.")
	isNot(t, "redis://:hUnter2wrong@"+r.Addr, failure.Authentication, "WRONGPASS")
	isNot(t, "redis://app:hUnter2wrong@"+r.Addr, failure.Authentication, "WRONGPASS")
	isNot(t, "redis://off:hUnter2off@"+r.Addr, failure.Authentication, "WRONGPASS")
	isNot(t, "redis://app:hUnter2app@"+r.Addr+"#key=other", failure.Authentication, "NOPERM")
	isNot(t, "redis://app:hUnter2app@"+r.Addr+"#role=master", failure.Authentication, "NOPERM")
	isNot(t, "redis://"+r.Addr+"#password-file="+password+".absent", failure.Missing, "cannot read secret file")
}

// TestRedisRepeatsPasswords pins that what the server repeats of a login is not told: it
// cuts what is long, and replaces what is not printable.
func TestRedisRepeatsPasswords(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--rename-command", "AUTH", ""}})
	for _, password := range []string{"hUnter2", "hUnter2%0AhUnter2", strings.Repeat("hUnter2", 50)} {
		isNotWithout(t, "redis://:"+password+"@"+r.Addr, "ERR unknown command")
		isNotWithout(t, "redis://app:"+password+"@"+r.Addr, "ERR unknown command")
	}
}

func isNotWithout(t *testing.T, target, words string) {
	t.Helper()
	f := oneAttempt(t, target)
	if f == nil || f.Text != words {
		t.Errorf("%s: %v, want %q", target, f, words)
	}
}

func TestRedisTLS(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	r := servers.StartRedis(t, servers.RedisOptions{CA: ca})
	certificates := "ca-file=" + ca.File + "&cert-file=" + r.Client.CertFile + "&key-file=" + r.Client.KeyFile
	isReady(t, "rediss://"+r.Addr+"#"+certificates)
	isReady(t, "redis://"+r.Addr+"#tls&"+certificates)
	isReady(t, "rediss://"+r.Addr+"/0?ssl_cert_reqs=required&ssl_ca_certs="+ca.File+"&ssl_certfile="+r.Client.CertFile+"&ssl_keyfile="+r.Client.KeyFile)
	isReady(t, "rediss://"+r.Addr+"/0?ssl_cert_reqs=none&ssl_certfile="+r.Client.CertFile+"&ssl_keyfile="+r.Client.KeyFile)
	isNot(t, "rediss://"+r.Addr, failure.TLS, "TLS:")
	isNot(t, "rediss://"+r.Addr+"#ca-file="+ca.File, failure.TLS, "TLS: the server refused")
	isNot(t, "rediss://"+r.Addr+"#server-name=other&"+certificates, failure.TLS, "other")
	isNot(t, "redis://"+r.Addr, failure.Reset, "connection ")
}

func TestRedisMaxClients(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--maxclients", "1"}})
	becomesReady(t, "redis://"+r.Addr) // it has forgotten who asked whether it listens
	conn, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	conn.Read(make([]byte, 100)) // it has its place, or there was none
	for {
		f := oneAttempt(t, "redis://"+r.Addr)
		if f != nil {
			break
		}
		if conn, err = net.Dial("tcp", r.Addr); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	isNot(t, "redis://"+r.Addr, failure.Unexpected, "ERR max number of clients reached")
}

// TestRedisLoading pins what is said while a server reads its data, which it does slowly
// here until it is told not to.
func TestRedisLoading(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2"}})
	r.StartLoading(t, "-a", "hUnter2")
	target := "redis://:hUnter2@" + r.Addr
	f := oneAttempt(t, target)
	if f == nil || f.Class != failure.Unexpected || f.Text != "LOADING Redis is loading the dataset in memory" || !strings.HasSuffix(f.Note, " %") {
		t.Errorf("%+v", f)
	}
	isNot(t, "redis://"+r.Addr, failure.Authentication, "NOAUTH") // which does not mean that it is ready
	r.Call(t, "-a", "hUnter2", "CONFIG", "SET", "key-load-delay", "0")
	becomesReady(t, target)
}

func TestRedisReplica(t *testing.T) {
	t.Parallel()
	master := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2", "--repl-diskless-sync-delay", "0"}})
	_, port, _ := net.SplitHostPort(master.Addr)
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--replicaof", "127.0.0.1", port, "--masterauth", "wrong"}})
	r.Call(t, "ACL", "SETUSER", "noroles", "on", "nopass", "+ping", "+info")
	isReady(t, "redis://"+r.Addr)
	isNot(t, "redis://"+r.Addr+"#role=replica", failure.Unexpected, "the replica's link to its master is down (state: ")
	isNot(t, "redis://noroles:any@"+r.Addr+"#role=replica", failure.Unexpected, "the replica's link to its master is down (state: down)")
	isNot(t, "redis://"+r.Addr+"#role=master", failure.Unexpected, "is a replica, not the master")
	r.Call(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
	isNot(t, "redis://"+r.Addr, failure.Unexpected, "MASTERDOWN Link with MASTER is down")
	r.Call(t, "CONFIG", "SET", "masterauth", "hUnter2")
	becomesReady(t, "redis://"+r.Addr+"#role=replica")
	isReady(t, "redis://noroles:any@"+r.Addr+"#role=slave")
	isReady(t, "redis://:hUnter2@"+master.Addr+","+r.Addr+"#role=master")
}

func TestRedisSentinel(t *testing.T) {
	t.Parallel()
	master := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	_, port, _ := net.SplitHostPort(master.Addr)
	replica := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--replicaof", "127.0.0.1", port}})
	becomesReady(t, "redis://"+replica.Addr+"#role=replica")
	nobody := refusedAddr(t)
	_, nobodyPort, _ := net.SplitHostPort(nobody)
	_, replicaPort, _ := net.SplitHostPort(replica.Addr)
	sentinel := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2"}, Sentinel: "sentinel monitor mymaster 127.0.0.1 " + port + " 1\n" +
		"sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n" +
		"sentinel monitor nobody 127.0.0.1 " + nobodyPort + " 1\nsentinel monitor replica 127.0.0.1 " + replicaPort + " 2\n"})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("hUnter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := "sentinel-password-file=" + password
	isNot(t, "redis+sentinel://"+sentinel.Addr+"/mymaster", failure.Authentication, "NOAUTH")
	isReady(t, "redis+sentinel://127.0.0.1:1,"+sentinel.Addr+"/mymaster#"+own)
	isReady(t, "redis://"+sentinel.Addr+"/0#sentinel=mymaster&role=master&"+own)
	isReady(t, "redis://:hUnter2@"+sentinel.Addr) // it is a server as well
	isNot(t, "redis+sentinel://"+sentinel.Addr+"/other/3#"+own, failure.Unexpected, "the sentinel knows no master other")
	isNot(t, "redis+sentinel://"+sentinel.Addr+"/nobody#"+own, failure.Refused, "master nobody at "+nobody+": connection refused")
	isNot(t, "redis+sentinel://"+sentinel.Addr+"/replica#"+own, failure.Unexpected, "master ")
	isNot(t, "redis+sentinel://"+master.Addr+"/mymaster", failure.Unexpected, "ERR unknown command 'SENTINEL'")
	sentinel.Until(t, replicaPort, "-a", "hUnter2", "SENTINEL", "REPLICAS", "mymaster")
	master.Stop(t)
	becomesReady(t, "redis+sentinel://"+sentinel.Addr+"/mymaster#"+own)
	if role := replica.Call(t, "ROLE"); !strings.HasPrefix(role, "master") {
		t.Errorf("ready, and the replica is still %s", role)
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	var nodes []*servers.Redis
	for range 2 {
		nodes = append(nodes, servers.StartRedis(t, servers.RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-port", strings.TrimPrefix(servers.FreeAddr(t), "127.0.0.1:")}}))
	}
	target := "redis://" + nodes[0].Addr + "," + nodes[1].Addr + "#cluster"
	isReady(t, "redis://"+nodes[0].Addr)
	isNot(t, target, failure.Unexpected, "the cluster's state is fail (0 of 16384 slots are served)")
	isNot(t, "redis://"+nodes[0].Addr+"#key=a", failure.Unexpected, "CLUSTERDOWN")
	nodes[0].Call(t, "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	nodes[1].Call(t, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	nodes[1].Call(t, "CLUSTER", "SET-CONFIG-EPOCH", "2")
	_, port, _ := net.SplitHostPort(nodes[1].Addr)
	busPort := strings.TrimPrefix(nodes[1].Call(t, "CONFIG", "GET", "cluster-port"), "cluster-port\n")
	nodes[0].Call(t, "CLUSTER", "MEET", "127.0.0.1", port, busPort)
	becomesReady(t, target)
	for _, node := range nodes { // of which the other may hear later
		becomesReady(t, "redis://"+node.Addr+"#cluster")
	}
	nodes[0].Call(t, "-c", "SET", "a", "1") // of slot 15495
	isReady(t, "redis://"+nodes[0].Addr+"#cluster&key=a=1")
	isReady(t, "redis://"+nodes[1].Addr+"#key=a")
	isNot(t, "redis://"+nodes[0].Addr+"#key=a=2", failure.Unexpected, "another value")
}
