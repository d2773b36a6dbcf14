package redis

import (
	"net"
	"strings"
	"testing"

	"initbox/internal/failure"
	"initbox/test/kindtest"
	"initbox/test/servers"
)

func TestServer(t *testing.T) {
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
		kindtest.Ready(t, kinds, target, "REDIS_URL", at+"/0")
	}
	kindtest.NotReady(t, kinds, at+"/16", failure.Unexpected, "ERR DB index is out of range")
	kindtest.NotReady(t, kinds, at+"#role=replica", failure.Unexpected, "is the master, not a replica")
	kindtest.NotReady(t, kinds, at+"#cluster", failure.Unexpected, "ERR This instance has cluster support disabled")
	kindtest.NotReady(t, kinds, at+"#key=absent", failure.Unexpected, `key "absent" does not exist`)
	kindtest.NotReady(t, kinds, at+"#key=absent=1", failure.Unexpected, `key "absent" does not exist`)
	kindtest.NotReady(t, kinds, at+"#key=migrated=41", failure.Unexpected, `key "migrated" has another value`)
	kindtest.NotReady(t, kinds, at+"#key=list=a", failure.Unexpected, "WRONGTYPE")
	kindtest.NotReady(t, kinds, at+"#sentinel=mymaster", failure.Unexpected, "ERR unknown command 'SENTINEL'")
	kindtest.NotReady(t, kinds, "redis://:hUnter2@"+r.Addr, failure.Authentication, "without any password configured")
	kindtest.NotReady(t, kinds, "memcached://"+r.Addr, failure.Unexpected, "not memcached")
}

func TestLogin(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2é b"}})
	r.Call(t, "-a", "hUnter2é b", "ACL", "SETUSER", "app", "on", ">hUnter2app", "~app:*", "+ping", "+exists")
	r.Call(t, "-a", "hUnter2é b", "ACL", "SETUSER", "off", "off", ">hUnter2off")
	password := kindtest.File(t, "hUnter2é b\n")
	for _, target := range []string{
		"redis://:hUnter2%C3%A9%20b@" + r.Addr + "#role=master", "redis://default:hUnter2%C3%A9%20b@" + r.Addr,
		"redis://" + r.Addr + "?password=hUnter2%C3%A9+b", "redis://:${file:" + password + "}@" + r.Addr, "redis://" + r.Addr + "#password-file=" + password,
		"redis://app:hUnter2app@" + r.Addr, "redis+socket://app:hUnter2app@" + r.Socket,
	} {
		kindtest.Ready(t, kinds, target)
	}
	kindtest.Ready(t, kinds, "redis://"+r.Addr, "REDISCLI_AUTH", "hUnter2é b")
	kindtest.Ready(t, kinds, "redis://"+r.Addr, "REDISCLI_AUTH_FILE", password)
	kindtest.NotReady(t, kinds, "redis://"+r.Addr, failure.Authentication, "NOAUTH Authentication required.")
	kindtest.NotReady(t, kinds, "redis://:hUnter2wrong@"+r.Addr, failure.Authentication, "WRONGPASS")
	kindtest.NotReady(t, kinds, "redis://app:hUnter2wrong@"+r.Addr, failure.Authentication, "WRONGPASS")
	kindtest.NotReady(t, kinds, "redis://off:hUnter2off@"+r.Addr, failure.Authentication, "WRONGPASS")
	kindtest.NotReady(t, kinds, "redis://app:hUnter2app@"+r.Addr+"#key=other", failure.Authentication, "NOPERM")
	kindtest.NotReady(t, kinds, "redis://app:hUnter2app@"+r.Addr+"#role=master", failure.Authentication, "NOPERM")
	kindtest.NotReady(t, kinds, "redis://"+r.Addr+"#password-file="+password+".absent", failure.Missing, "cannot read secret file")
}

// TestRepeatsPasswords pins that what the server repeats of a login is not shown: it truncates long passwords, and
// replaces characters that are not printable.
func TestRepeatsPasswords(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--rename-command", "AUTH", ""}})
	for _, password := range []string{"hUnter2", "hUnter2%0AhUnter2", strings.Repeat("hUnter2", 50)} {
		isNotWithout(t, "redis://:"+password+"@"+r.Addr, "ERR unknown command")
		isNotWithout(t, "redis://app:"+password+"@"+r.Addr, "ERR unknown command")
	}
}

func isNotWithout(t *testing.T, target, words string) {
	t.Helper()
	f := kindtest.Attempt(t, kinds, target)
	if f == nil || f.Text != words {
		t.Errorf("%s: %v, want %q", target, f, words)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca := servers.NewCA(t)
	r := servers.StartRedis(t, servers.RedisOptions{CA: ca})
	certificates := "ca-file=" + ca.File + "&cert-file=" + r.Client.CertFile + "&key-file=" + r.Client.KeyFile
	kindtest.Ready(t, kinds, "rediss://"+r.Addr+"#"+certificates)
	kindtest.Ready(t, kinds, "redis://"+r.Addr+"#tls&"+certificates)
	kindtest.Ready(t, kinds, "rediss://"+r.Addr+"/0?ssl_cert_reqs=required&ssl_ca_certs="+ca.File+"&ssl_certfile="+r.Client.CertFile+"&ssl_keyfile="+r.Client.KeyFile)
	kindtest.Ready(t, kinds, "rediss://"+r.Addr+"/0?ssl_cert_reqs=none&ssl_certfile="+r.Client.CertFile+"&ssl_keyfile="+r.Client.KeyFile)
	kindtest.NotReady(t, kinds, "rediss://"+r.Addr, failure.TLS, "TLS:")
	kindtest.NotReady(t, kinds, "rediss://"+r.Addr+"#ca-file="+ca.File, failure.TLS, "TLS: the server refused")
	kindtest.NotReady(t, kinds, "rediss://"+r.Addr+"#server-name=other&"+certificates, failure.TLS, "other")
	kindtest.NotReady(t, kinds, "redis://"+r.Addr, failure.Reset, "connection ")
}

func TestMaxClients(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--maxclients", "1"}})
	kindtest.BecomesReady(t, kinds, "redis://"+r.Addr) // it has forgotten who asked whether it listens
	conn, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	conn.Read(make([]byte, 100)) // either the server serves the connection, or there are too many
	for {
		f := kindtest.Attempt(t, kinds, "redis://"+r.Addr)
		if f != nil {
			break
		}
		if conn, err = net.Dial("tcp", r.Addr); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	kindtest.NotReady(t, kinds, "redis://"+r.Addr, failure.Unexpected, "ERR max number of clients reached")
}

// TestLoading pins the failure while a server reads its data, which is slowed down here until a command ends that.
func TestLoading(t *testing.T) {
	t.Parallel()
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2"}})
	r.StartLoading(t, "-a", "hUnter2")
	target := "redis://:hUnter2@" + r.Addr
	f := kindtest.Attempt(t, kinds, target)
	if f == nil || f.Class != failure.Unexpected || f.Text != "LOADING Redis is loading the dataset in memory" || !strings.HasSuffix(f.Note, " %") {
		t.Errorf("%+v", f)
	}
	kindtest.NotReady(t, kinds, "redis://"+r.Addr, failure.Authentication, "NOAUTH") // which does not mean that it is ready
	r.Call(t, "-a", "hUnter2", "CONFIG", "SET", "key-load-delay", "0")
	kindtest.BecomesReady(t, kinds, target)
}

func TestReplica(t *testing.T) {
	t.Parallel()
	master := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2", "--repl-diskless-sync-delay", "0"}})
	_, port, _ := net.SplitHostPort(master.Addr)
	r := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--replicaof", "127.0.0.1", port, "--masterauth", "wrong"}})
	r.Call(t, "ACL", "SETUSER", "noroles", "on", "nopass", "+ping", "+info")
	kindtest.Ready(t, kinds, "redis://"+r.Addr)
	kindtest.NotReady(t, kinds, "redis://"+r.Addr+"#role=replica", failure.Unexpected, "the replica's link to its master is down (state: ")
	kindtest.NotReady(t, kinds, "redis://noroles:any@"+r.Addr+"#role=replica", failure.Unexpected, "the replica's link to its master is down (state: down)")
	kindtest.NotReady(t, kinds, "redis://"+r.Addr+"#role=master", failure.Unexpected, "is a replica, not the master")
	r.Call(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
	kindtest.NotReady(t, kinds, "redis://"+r.Addr, failure.Unexpected, "MASTERDOWN Link with MASTER is down")
	r.Call(t, "CONFIG", "SET", "masterauth", "hUnter2")
	kindtest.BecomesReady(t, kinds, "redis://"+r.Addr+"#role=replica")
	kindtest.Ready(t, kinds, "redis://noroles:any@"+r.Addr+"#role=slave")
	kindtest.Ready(t, kinds, "redis://:hUnter2@"+master.Addr+","+r.Addr+"#role=master")
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	master := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--repl-diskless-sync-delay", "0"}})
	_, port, _ := net.SplitHostPort(master.Addr)
	replica := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--replicaof", "127.0.0.1", port}})
	kindtest.BecomesReady(t, kinds, "redis://"+replica.Addr+"#role=replica")
	gone := kindtest.RefusedAddr(t)
	_, gonePort, _ := net.SplitHostPort(gone)
	_, replicaPort, _ := net.SplitHostPort(replica.Addr)
	sentinel := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--requirepass", "hUnter2"}, Sentinel: "sentinel monitor mymaster 127.0.0.1 " + port + " 1\n" +
		"sentinel down-after-milliseconds mymaster 500\nsentinel failover-timeout mymaster 5000\n" +
		"sentinel monitor gone 127.0.0.1 " + gonePort + " 1\nsentinel monitor replica 127.0.0.1 " + replicaPort + " 2\n"})
	password := kindtest.File(t, "hUnter2\n")
	own := "sentinel-password-file=" + password
	kindtest.NotReady(t, kinds, "redis+sentinel://"+sentinel.Addr+"/mymaster", failure.Authentication, "NOAUTH")
	kindtest.Ready(t, kinds, "redis+sentinel://127.0.0.1:1,"+sentinel.Addr+"/mymaster#"+own)
	kindtest.Ready(t, kinds, "redis://"+sentinel.Addr+"/0#sentinel=mymaster&role=master&"+own)
	kindtest.Ready(t, kinds, "redis://:hUnter2@"+sentinel.Addr) // it is a server as well
	kindtest.NotReady(t, kinds, "redis+sentinel://"+sentinel.Addr+"/other/3#"+own, failure.Unexpected, "the sentinel does not know a master other")
	kindtest.NotReady(t, kinds, "redis+sentinel://"+sentinel.Addr+"/gone#"+own, failure.Refused, "master gone at "+gone+": connection refused")
	kindtest.NotReady(t, kinds, "redis+sentinel://"+sentinel.Addr+"/replica#"+own, failure.Unexpected, "master ")
	kindtest.NotReady(t, kinds, "redis+sentinel://"+master.Addr+"/mymaster", failure.Unexpected, "ERR unknown command 'SENTINEL'")
	sentinel.Until(t, replicaPort, "-a", "hUnter2", "SENTINEL", "REPLICAS", "mymaster")
	master.Stop(t)
	kindtest.BecomesReady(t, kinds, "redis+sentinel://"+sentinel.Addr+"/mymaster#"+own)
	if role := replica.Call(t, "ROLE"); !strings.HasPrefix(role, "master") {
		t.Errorf("ready, and the replica is still %s", role)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	var nodes []*servers.Redis
	for range 2 {
		nodes = append(nodes, servers.StartRedis(t, servers.RedisOptions{Args: []string{"--cluster-enabled", "yes", "--cluster-port", strings.TrimPrefix(servers.FreeAddr(t), "127.0.0.1:")}}))
	}
	target := "redis://" + nodes[0].Addr + "," + nodes[1].Addr + "#cluster"
	kindtest.Ready(t, kinds, "redis://"+nodes[0].Addr)
	kindtest.NotReady(t, kinds, target, failure.Unexpected, "the cluster's state is fail (0 of 16384 slots are served)")
	kindtest.NotReady(t, kinds, "redis://"+nodes[0].Addr+"#key=a", failure.Unexpected, "CLUSTERDOWN")
	nodes[0].Call(t, "CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	nodes[1].Call(t, "CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	nodes[1].Call(t, "CLUSTER", "SET-CONFIG-EPOCH", "2")
	_, port, _ := net.SplitHostPort(nodes[1].Addr)
	busPort := strings.TrimPrefix(nodes[1].Call(t, "CONFIG", "GET", "cluster-port"), "cluster-port\n")
	nodes[0].Call(t, "CLUSTER", "MEET", "127.0.0.1", port, busPort)
	kindtest.BecomesReady(t, kinds, target)
	for _, node := range nodes { // the other may learn of it later
		kindtest.BecomesReady(t, kinds, "redis://"+node.Addr+"#cluster")
	}
	nodes[0].Call(t, "-c", "SET", "a", "1") // slot 15495
	kindtest.Ready(t, kinds, "redis://"+nodes[0].Addr+"#cluster&key=a=1")
	kindtest.Ready(t, kinds, "redis://"+nodes[1].Addr+"#key=a")
	kindtest.NotReady(t, kinds, "redis://"+nodes[0].Addr+"#key=a=2", failure.Unexpected, "another value")
}
