package servers

import (
	"os"
	"path/filepath"
	"testing"
)

// StartMemcached starts Debian's memcached, with more arguments if there are any, and returns its address.
func StartMemcached(t testing.TB, args ...string) string {
	t.Helper()
	addr := FreeAddr(t)
	p := run(t, Need(t, "memcached"), append([]string{"-u", "root", "-l", "127.0.0.1", "-p", port(addr), "-U", "0"}, args...)...)
	p.untilListening(t, addr)
	return addr
}

// MemcachedTLS returns the arguments for a memcached that speaks TLS.
func MemcachedTLS(pair KeyPair) []string {
	return []string{"-Z", "-o", "ssl_chain_cert=" + pair.CertFile + ",ssl_key=" + pair.KeyFile}
}

// StartMemcachedSASL starts a memcached that requires a login, and so supports only the binary protocol. No client can
// log in.
func StartMemcachedSASL(t testing.TB) string {
	t.Helper()
	program := Need(t, "memcached")
	addr, dir := FreeAddr(t), t.TempDir()
	writeFile(t, filepath.Join(dir, "memcached.conf"), "mech_list: plain\n")
	p := runWith(t, append(os.Environ(), "SASL_CONF_PATH="+dir), program, "-S", "-u", "root", "-l", "127.0.0.1", "-p", port(addr), "-U", "0")
	p.untilListening(t, addr)
	return addr
}
