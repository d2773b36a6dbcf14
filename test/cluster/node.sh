#!/usr/bin/env bash
# node.sh is the first process of the cluster, in the namespaces that up.sh creates. It prepares what the other programs
# need, starts them, and restarts those that end. Something failed without each of the unusual settings below.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
bin=$(built kube)/bin
PATH=$(built containerd)/bin:$PATH

# Until /proc is mounted in the new namespace, it shows the id that this process has outside. No pipe or subshell: that
# would be another process.
read -r outer _ </proc/self/stat
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ since _ </proc/self/stat

# --- Namespaces ---

# Mounts that only the programs see keep what they write to fixed paths off the machine.
mount --make-rprivate /
mount -t proc proc /proc
mkdir -p /var/lib/kubelet /var/lib/cni "$STATE"/{kubelet,etc/cni,run,opt}
chmod 700 "$STATE" # credentials
mount -t tmpfs tmpfs /run # network namespaces, sockets of containerd's shims, the lock of iptables
mount -t tmpfs tmpfs /var/lib/cni
mount -t tmpfs tmpfs /var/log # where the kubelet links the logs of containers
mount --bind "$STATE/kubelet" /var/lib/kubelet # device plugins have their socket there, even with --root-dir
mount --make-shared /var/lib/kubelet
# The kubelet insists on some settings for the whole machine: it may change these copies.
mkdir /run/sysctl
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	cat "/proc/sys/$setting" >"/run/sysctl/${setting##*/}"
	mount --bind "/run/sysctl/${setting##*/}" "/proc/sys/$setting"
done

# The node has its own cgroups, too: a kubelet kills unknown processes in its cgroups, which would be the Pods of a kubelet
# that already runs on this machine.
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
	[ -e "$hierarchy/cgroup.procs" ] || continue
	mkdir -p "$hierarchy/$NODE"
	for file in cpuset.cpus cpuset.mems; do # version 1: they are empty in a new group, and no process can enter it
		[ ! -s "$hierarchy/$file" ] || [ -e "$hierarchy/cgroup.controllers" ] || cat "$hierarchy/$file" >"$hierarchy/$NODE/$file"
	done
	if [ -e "$hierarchy/cgroup.controllers" ]; then # version 2
		sed 's/[a-z]\+/+&/g' "$hierarchy/cgroup.controllers" >"$hierarchy/cgroup.subtree_control" || true
	fi
	# Otherwise, on a busy machine, all Pods together would get as much processor time as one other process.
	for file in cpu.shares cpu.weight; do
		[ ! -e "$hierarchy/$NODE/$file" ] || echo 8192 >"$hierarchy/$NODE/$file"
	done
done

# The bridge has the node's address and is the Pods' gateway. There is no default route: no packet leaves the machine.
ip link set lo up
# Its hardware address is fixed. Otherwise it is the lowest of the attached Pods' addresses and changes with them, and
# packets to the old one, such as DNS queries, are lost until each Pod has resolved the new one.
ip link add pods address 02:00:0a:58:00:01 type bridge
ip addr add "$NODE_IP/24" dev pods
ip link set pods up
# A packet from the node's own processes, or from enter.sh's, must be routable to a Service's address before kube-proxy's
# rules replace that with an endpoint's, and there is no default route.
ip route add "$SERVICE_NET" dev pods

renice --priority -5 --pid $$ >/dev/null || true # for the same reason as cpu.shares above
echo "$outer $since" >"$STATE/init" # from now on, inside, enter.sh and down.sh find the cluster

# --- Programs ---

# run NAME COMMAND…: keeps a program running.
run() {
	local name=$1
	shift
	while true; do
		"$@" >>"$STATE/logs/$name.log" 2>&1 </dev/null &
		echo $! >"$STATE/run/$name.pid"
		wait $! && status=0 || status=$?
		echo "$name ended with status $status" >>"$STATE/logs/node.log"
		sleep 1
	done &
}

cat >"$STATE/etc/cni/10-pods.conflist" <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false, "hairpinMode": true,
    "ipam": {"type": "host-local", "dataDir": "$STATE/cni",
      "ranges": [[{"subnet": "$POD_NET", "rangeStart": "${NODE_IP%.*}.10", "gateway": "$NODE_IP"}]],
      "routes": [{"dst": "$SERVICE_NET", "gw": "$NODE_IP"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
cat >"$STATE/etc/containerd.toml" <<TOML
version = 3
root = "$STATE/containerd"
state = "/run/containerd"
[grpc]
  address = "$CRI"
[plugins."io.containerd.internal.v1.opt"]
  path = "$STATE/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "$PAUSE"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true # root may lack CAP_SYS_RESOURCE
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = "$STATE/etc/cni"
TOML
run containerd containerd --config "$STATE/etc/containerd.toml"

# Credentials: one administrator, and a key for service accounts.
openssl genrsa -out "$STATE/etc/sa.key" 2048 2>/dev/null
token=$(od -An -tx1 -N16 /dev/urandom | tr -d ' ')
echo "$token,admin,admin,system:masters" >"$STATE/etc/tokens.csv"
cat >"$STATE/kubeconfig" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: $NODE, cluster: {server: "https://$NODE_IP:6443", certificate-authority: $STATE/apiserver/apiserver.crt}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: $NODE, context: {cluster: $NODE, user: admin}}]
current-context: $NODE
YAML
export KUBECONFIG=$STATE/kubeconfig

run etcd etcd --name "$NODE" --data-dir "$STATE/etcd" --unsafe-no-fsync --log-level warn \
	--listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
	--listen-peer-urls http://127.0.0.1:2380
run kube-apiserver "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
	--bind-address "$NODE_IP" --advertise-address "$NODE_IP" --secure-port 6443 --cert-dir "$STATE/apiserver" \
	--service-cluster-ip-range "$SERVICE_NET" --authorization-mode RBAC --token-auth-file "$STATE/etc/tokens.csv" \
	--service-account-issuer https://kubernetes.default.svc.cluster.local \
	--service-account-key-file "$STATE/etc/sa.key" --service-account-signing-key-file "$STATE/etc/sa.key" \
	--kubelet-preferred-address-types InternalIP --profiling=false --feature-gates ImageVolume=true \
	--allow-privileged # for a case that sets parameters of its Pod's network, which /proc/sys otherwise does not allow

# The others end while there is no API server, and would fill their logs.
until "$bin/kubectl" --request-timeout=5s get --raw /readyz >/dev/null 2>&1; do
	sleep 0.2
done
run kube-controller-manager "$bin/kube-controller-manager" --kubeconfig "$KUBECONFIG" --leader-elect=false \
	--bind-address 127.0.0.1 --service-account-private-key-file "$STATE/etc/sa.key" \
	--root-ca-file "$STATE/apiserver/apiserver.crt" --use-service-account-credentials=false --cert-dir "$STATE/controller-manager"
run kube-scheduler "$bin/kube-scheduler" --kubeconfig "$KUBECONFIG" --leader-elect=false \
	--bind-address 127.0.0.1 --cert-dir "$STATE/scheduler"
run kube-proxy "$bin/kube-proxy" --kubeconfig "$KUBECONFIG" --hostname-override "$NODE" \
	--proxy-mode iptables --cluster-cidr "$POD_NET" --bind-address "$NODE_IP" \
	--healthz-bind-address 127.0.0.1 --metrics-bind-address 127.0.0.1 --iptables-localhost-nodeports=false \
	--conntrack-max-per-core 0 --conntrack-tcp-timeout-established 0s --conntrack-tcp-timeout-close-wait 0s

cat >"$STATE/etc/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://$CRI
cgroupDriver: cgroupfs
cgroupRoot: /$NODE
failCgroupV1: false
failSwapOn: false
podLogsDir: $STATE/logs/pods
address: $NODE_IP
healthzBindAddress: 127.0.0.1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}} # no other machine is in this network
authorization: {mode: AlwaysAllow}
clusterDNS: [$NODE_IP]
clusterDomain: cluster.local
resolvConf: "" # otherwise Pods would search the machine's domains
volumePluginDir: $STATE/volume-plugins
makeIPTablesUtilChains: false
featureGates: {ImageVolume: true}
oomScoreAdj: 0 # root may lack CAP_SYS_RESOURCE
maxOpenFiles: $(ulimit -Hn)
imageGCHighThresholdPercent: 100 # on a full disk, the kubelet would remove images that cannot be pulled again
evictionHard: {memory.available: 100Mi, nodefs.available: 500Mi, imagefs.available: 500Mi}
syncFrequency: 10s
YAML
run kubelet "$bin/kubelet" --config "$STATE/etc/kubelet.yaml" --kubeconfig "$KUBECONFIG" \
	--node-ip "$NODE_IP" --hostname-override "$NODE" --cert-dir "$STATE/kubelet-pki"

# Names outside the cluster do not exist. CoreDNS must say so: a resolver takes a refusal for a failing server.
cat >"$STATE/etc/Corefile" <<COREFILE
cluster.local in-addr.arpa {
  bind $NODE_IP
  errors
  ready 127.0.0.1:8181
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $KUBECONFIG $NODE
    ttl 1
  }
}
. {
  bind $NODE_IP
  template ANY ANY {
    rcode NXDOMAIN
  }
}
COREFILE
run coredns "$(built coredns)/bin/coredns" -conf "$STATE/etc/Corefile"

# The first process must also reap orphans, which bash does while it waits.
while true; do
	sleep infinity &
	wait $! || true
done
