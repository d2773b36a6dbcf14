package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The manifests of examples/ are installed as they are, in namespaces that enforce the restricted Pod Security
// Standard. Only what the suite cannot have is replaced: images, and the URL of the Git repository.

// images has the images of the examples, and what replaces each.
var images = []struct{ of, by string }{
	{`registry\.example/initbox:\S+`, "initbox:e2e"},
	{`registry\.example/shop:\S+`, "app:e2e"},
	{`nginxinc/nginx-unprivileged:\S+ # .*`, "app:e2e\n        args: [-listen, \":8080\"]"},
	{`postgres:\d\S+`, "postgres:e2e"},
	{`redis:\d\S+`, "redis:e2e"},
	{`registry\.example/etcd:\S+ # .*`, "etcd:e2e"},
	{`grafana/grafana:\S+`, "app:e2e\n        args: [-listen, \":3000\"]"}, // Grafana itself is not tested
}

// applyExample applies files of examples/.
func (n namespace) applyExample(names ...string) {
	n.Helper()
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
		if err != nil {
			n.Fatal(err)
		}
		n.applyText(n.withImages(string(text)))
	}
}

// withImages returns a manifest of an example with the images and the Git server of the suite.
func (n namespace) withImages(manifest string) string {
	n.Helper()
	for _, image := range images {
		manifest = regexp.MustCompile(`(?m)\bimage: "?`+image.of+`"?$`).ReplaceAllString(manifest, "image: "+image.by)
	}
	if left := regexp.MustCompile(`image: .*registry\.example.*`).FindString(manifest); left != "" {
		n.Fatalf("%s: nothing replaces this image", left)
	}
	return strings.NewReplacer("https://git.example/shop/site.git", "http://git/private/site.git").Replace(manifest)
}

// The first Pod that a newcomer applies.
func TestExampleWait(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.applyExample("wait/pod.yaml")
	n.watchPod("myapp").until(` Init:0/1 `)
	log := n.followLog("myapp", "init")
	log.until(`myservice\S*: no such name`)
	log.until(`mydb\S*: no such name`)
	n.applyExample("wait/services.yaml")
	n.wait("condition=Ready", "pod/myapp")
	t.Logf("%s", n.logs("myapp", "init"))
}

// newShop starts what the shop needs besides its own manifests: the Git server, which has the shop's site.
func (n namespace) newShop() {
	n.Helper()
	n.newGitServer().push("site.git", "main", map[string]string{"index.html": "<h1>Our kettles</h1>\n"})
}

// requireShop requires that the shop is up: that the migration is done, and that the application has its configuration
// and serves its site.
func (n namespace) requireShop() {
	n.Helper()
	n.rollout("shop-web")
	if found := n.kubectl("exec", "shop-pg-0", "--", "psql", "-U", "app", "-h", "/var/run/postgresql", "shop", "-Atc", "SELECT name FROM products ORDER BY id"); found != "kettle\nteapot\n" {
		n.Errorf("the products are %q", found)
	}
	web := strings.TrimPrefix(strings.TrimSpace(n.kubectl("get", "pods", "--selector", "app=shop-web", "-o", "name")), "pod/")
	contains(n.T, "the configuration", n.found(web, "web"), `-rw-r-----, .*instance = `+web+`\\ntitle = Our shop\\ncurrency = EUR\\n.*db.password = change-me\\n`)
	site := func() string {
		answer, _ := request(n.T, "GET", "/api/v1/namespaces/"+n.name+"/pods/"+web+":8080/proxy/", "", "")
		return string(answer)
	}
	contains(n.T, "the site", site(), `Our kettles`)
	for _, c := range n.pod(web).Status.InitContainerStatuses {
		log := n.logs(web, c.Name)
		n.Logf("%s: %s", c.Name, log)
		if strings.Contains(log, "change-me") || strings.Contains(log, "t0ken") {
			n.Errorf("a password is in the log of %s:\n%s", c.Name, log)
		}
	}
}

// The web application with its database, as plain YAML.
func TestExampleWebPlain(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.newShop()
	n.applyExample("web/shared/database.yaml", "web/shared/shop.yaml")
	n.useGitToken("shop-git")
	n.kubectl("apply", "--dry-run=server", "-f", "../../examples/web/loops") // the cluster has none of its images
	n.applyExample("web/plain/web.yaml")
	n.requireShop()
}

// The same as a chart, with the library chart as its dependency.
func TestExampleWebChart(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	helm := n.helm("3")
	n.newShop()
	chart := n.copies(map[string]string{"charts/initbox": "charts/initbox", "examples/web/chart": "examples/web/chart"}) + "/examples/web/chart"
	helm("dependency", "build", chart)
	t.Logf("%s", helm("install", "shop", chart, "--set=initbox.image.repository=initbox,initbox.image.tag=e2e,image=app:e2e,postgres.image=postgres:e2e",
		"--set=git.url=http://git/private/site.git,git.token=t0ken-of-the-suite"))
	n.requireShop()
	helm("uninstall", "shop")
}

// useGitToken puts the password of the suite's Git server into the Secret of an example.
func (n namespace) useGitToken(secret string) {
	n.Helper()
	n.kubectl("patch", "secret", secret, "-p", `{"stringData": {"token": "t0ken-of-the-suite"}}`)
}

// Redis replicas that follow the Pod with the ordinal 0.
func TestExampleOrdinal(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.applyExample("ordinal/redis.yaml")
	n.kubectl("rollout", "status", "statefulset/redis", "--timeout="+patience.String())
	for _, replica := range []string{"redis-1", "redis-2"} {
		t.Logf("%s: %s", replica, n.logs(replica, "config"))
		n.follow("logs", replica, "--container", "redis", "--follow").until(`MASTER <-> REPLICA sync: Finished with success`)
	}
	master := n.follow("logs", "redis-0", "--container", "redis", "--follow")
	for _, replica := range []string{"redis-1", "redis-2"} {
		master.until(`Synchronization with replica ` + replica + `\.redis:6379 succeeded`)
	}
}

// Nodes are in the registry, an etcd, as long as they serve.
func TestExampleNodes(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.applyExample("nodes/registry.yaml", "nodes/nodes.yaml")
	n.rollout("node")
	pods := n.livePods("app=node")
	entries := n.etcdEntries()
	for name, p := range pods {
		entry := entries["/services/nodes/"+name+"."+n.name]
		contains(t, "the entry of "+name, entry, regexp.QuoteMeta(p.Status.PodIP))
		t.Logf("%s: %s", name, entry)
	}
	if len(pods) != 3 || len(entries) != 3 {
		t.Errorf("%d Pods, and the entries %v", len(pods), entries)
	}
	deaths := n.watchPods("app=node")
	n.kubectl("scale", "deployment/node", "--replicas=0")
	n.untilDeleted(deaths, pods)
	if entries := n.etcdEntries(); len(entries) > 0 {
		t.Errorf("no Pod is left, and the entries are %v", entries)
	}
	n.requireSidecarsEnded("register", deaths.deleted())
}

// etcdEntries returns the keys of the example's etcd, and their values.
func (n namespace) etcdEntries() map[string]string {
	n.Helper()
	everything := fmt.Sprintf(`{"key": %q, "range_end": %[1]q}`, base64.StdEncoding.EncodeToString([]byte{0}))
	answer, _ := request(n.T, "POST", "/api/v1/namespaces/"+n.name+"/pods/registry:2379/proxy/v3/kv/range", "application/json", everything)
	var found struct{ Kvs []struct{ Key, Value []byte } }
	if err := json.Unmarshal(answer, &found); err != nil {
		n.Fatal(err)
	}
	entries := map[string]string{}
	for _, kv := range found.Kvs {
		entries[string(kv.Key)] = string(kv.Value)
	}
	return entries
}

// Dashboards and data sources by their labels. The suite's app replaces Grafana.
func TestExampleGrafana(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.applyExample("grafana/grafana.yaml")
	n.rollout("grafana")
	grafana := n.follow("logs", "deployment/grafana", "--container", "grafana", "--follow")
	n.applyExample("grafana/dashboard.yaml")
	grafana.until(`^POST /api/admin/provisioning/dashboards/reload: `)
	grafana.until(`^POST /api/admin/provisioning/datasources/reload: `)
	found := n.kubectl("exec", "deployment/grafana", "--container", "grafana", "--", "/app", "-stat", "/dashboards/*/*", "-exit", "0") +
		n.kubectl("exec", "deployment/grafana", "--container", "grafana", "--", "/app", "-stat", "/etc/grafana/provisioning/datasources/*", "-exit", "0")
	contains(t, "what Grafana finds", found, `/dashboards/Cluster/nodes.json: .*A dashboard out of a ConfigMap`,
		`/etc/grafana/provisioning/datasources/prometheus.yaml: .*, -rw-------, .*http://prometheus:9090`)
}
