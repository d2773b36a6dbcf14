package main

// A kind is one kind of thing to wait for, and the ways to do it.
type kind struct {
	name    string
	serve   func(b *bench, n int) (*service, error)
	waiters []waiter
}

// kinds lists them as the report does. The probes come from the Kubernetes
// documentation and from charts in use; {…} is filled in by waiter.argv.
func kinds(names *authority) []kind {
	return []kind{
		{"tcp", tcpService, []waiter{
			initbox(ours, "wait-for-service", "tcp://{addr}"),
			wait4x("tcp", "{addr}"),
			dockerize("tcp://{addr}"),
			loop("nc", "nc", "{tool} -z -w 2 {host} {port}", 1),
			loop("busybox", "busybox nc", "{tool} nc -w 2 {host} {port} </dev/null", 1),
			loop("busybox", "busybox nc", "{tool} nc -w 2 {host} {port} </dev/null", 2),
		}},
		{"http", httpService, []waiter{
			initbox(ours, "wait-for-service", "http://{addr}/"),
			wait4x("http", "http://{addr}/"),
			dockerize("http://{addr}/"),
			loop("curl", "curl", "{tool} -fsS -o /dev/null http://{addr}/", 1),
			loop("busybox", "busybox wget", "{tool} wget -q -O /dev/null http://{addr}/", 1),
			loop("busybox", "busybox wget", "{tool} wget -q -O /dev/null http://{addr}/", 2),
		}},
		{"grpc", grpcService, []waiter{
			initbox(ours, "wait-for-service", "grpc://{addr}"),
			loop("grpc_health_probe", "grpc_health_probe", "{tool} -addr {addr}", 1),
		}},
		{"unix", unixService, []waiter{
			initbox(ours, "wait-for-service", "unix://{path}"),
			dockerize("unix://{path}"),
			loop("busybox", "busybox test -S", "{tool} test -S {path}", 1),
		}},
		{"file", fileService, []waiter{
			initbox(ours, "wait-for-service", "file://{path}"),
			dockerize("file://{path}"),
			loop("busybox", "busybox test -e", "{tool} test -e {path}", 1),
		}},
		{"dns", names.service, []waiter{
			initbox(ours, "wait-for-dns", "{name}.", "--server", "{addr}"),
			wait4x("dns", "A", "{name}.", "-n", "{addr}"),
			loop("dig", "dig", `test -n "$({tool} +short -p {port} @{host} {name})"`, 1),
			loop("busybox", "busybox nslookup", "{tool} nslookup {name} {addr}", 1),
			loop("busybox", "busybox nslookup", "{tool} nslookup {name} {addr}", 2),
		}},
	}
}
