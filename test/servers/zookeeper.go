package servers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// ZooKeeper is one ZooKeeper server of an ensemble.
type ZooKeeper struct {
	Addr string

	owner   testing.TB // the server ends with this test, even if another test restarts it
	args    []string
	process *process
}

// ZooKeeperOptions configures [NewZooKeepers].
type ZooKeeperOptions struct {
	Servers  int      // of the ensemble; 1 means standalone
	Commands []string // the four-letter commands that each server allows; "" for the default
	CA       *CA      // issues a certificate for 127.0.0.1; nil for plaintext
}

// zooKeeperJar is Debian's. It names all other jars that it needs, except one of Netty's, for TLS.
const (
	zooKeeperJar = "/usr/share/java/zookeeper.jar"
	nettyJar     = "/usr/share/java/netty-codec.jar"
)

// NewZooKeepers prepares the servers of an ensemble, for [ZooKeeper.Start].
func NewZooKeepers(t testing.TB, o ZooKeeperOptions) []*ZooKeeper {
	t.Helper()
	Slow(t)
	Need(t, "java")
	if _, err := os.Stat(zooKeeperJar); err != nil {
		Absent(t, "ZooKeeper is not installed: run test/install-servers.sh, or apt-get install zookeeper")
	}
	members := ""
	if o.Servers > 1 {
		members = "initLimit=20\nsyncLimit=10\n"
		for i := range o.Servers {
			members += fmt.Sprintf("server.%d=127.0.0.1:%s:%s\n", i+1, port(FreeAddr(t)), port(FreeAddr(t)))
		}
	}
	var all []*ZooKeeper
	for i := range max(1, o.Servers) {
		z := &ZooKeeper{Addr: FreeAddr(t), owner: t}
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "myid"), fmt.Sprintln(i+1))
		config := filepath.Join(dir, "zoo.cfg")
		text := fmt.Sprintf("tickTime=500\ndataDir=%s\nadmin.enableServer=false\nforceSync=no\n%s", dir, members)
		if i < len(o.Commands) && o.Commands[i] != "" {
			text += "4lw.commands.whitelist=" + o.Commands[i] + "\n"
		}
		if o.CA == nil {
			text += "clientPortAddress=127.0.0.1\nclientPort=" + port(z.Addr) + "\n"
		} else {
			text += "secureClientPortAddress=127.0.0.1\nsecureClientPort=" + port(z.Addr) + "\n" + zooKeeperTLS(t, o.CA, dir)
		}
		writeFile(t, config, text)
		z.args = []string{"-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-cp", zooKeeperJar + ":" + nettyJar,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", config}
		all = append(all, z)
	}
	return all
}

// zooKeeperTLS returns the settings of TLS, which only Netty supports.
func zooKeeperTLS(t testing.TB, ca *CA, dir string) string {
	t.Helper()
	both := ""
	pair := ca.Server(t, "127.0.0.1")
	for _, name := range []string{pair.CertFile, pair.KeyFile} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		both += string(text)
	}
	store := filepath.Join(dir, "store.pem")
	writeFile(t, store, both)
	return "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\nssl.clientAuth=none\n" +
		"ssl.keyStore.location=" + store + "\nssl.keyStore.type=PEM\nssl.trustStore.location=" + ca.File + "\nssl.trustStore.type=PEM\n"
}

// Start starts the server, and returns when it is listening, even if it is not serving yet.
func (z *ZooKeeper) Start(t testing.TB) {
	t.Helper()
	z.process = run(z.owner, Need(t, "java"), z.args...)
	z.process.untilListening(t, z.Addr)
}

// Kill stops the server as a crash would, by SIGKILL.
func (z *ZooKeeper) Kill(t testing.TB) { t.Helper(); z.process.kill() }
