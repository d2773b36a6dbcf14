package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	metadatafake "k8s.io/client-go/metadata/fake"
	sigyaml "sigs.k8s.io/yaml"
)

// now is the time of all tests.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// ago returns a time before now, for manifests.
func ago(d time.Duration) string { return now.Add(-d).Format(time.RFC3339) }

// state is a cluster with the objects of manifests.
type state struct {
	*Clients
	kube    *fake.Clientset
	dynamic *dynamicfake.FakeDynamicClient
}

func clusterOf(t *testing.T, manifests string) *state {
	t.Helper()
	var objects, metas []runtime.Object
	for _, document := range strings.Split(manifests, "\n---\n") {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		objects = append(objects, o)
		var meta metav1.PartialObjectMetadata
		if err := sigyaml.Unmarshal([]byte(document), &meta); err != nil {
			t.Fatal(err)
		}
		metas = append(metas, &meta)
	}
	names := metadatafake.NewTestScheme()
	metav1.AddMetaToScheme(names)
	kube := fake.NewClientset(objects...)
	dynamic := dynamicfake.NewSimpleDynamicClient(scheme.Scheme, objects...)
	return &state{kube: kube, dynamic: dynamic, Clients: &Clients{Kube: kube, Dynamic: dynamic, Metadata: metadatafake.NewSimpleMetadataClient(names, metas...)}}
}

// diagnose returns the text for the namespace shop.
func (s *state) diagnose(t *testing.T, names ...string) string {
	t.Helper()
	r, err := Diagnose(context.Background(), s.Clients, Options{Namespace: "shop", Names: names, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWaiting(t *testing.T) {
	c := clusterOf(t, `
apiVersion: v1
kind: Pod
metadata: {name: web-7d-x, namespace: shop, creationTimestamp: "`+ago(3*time.Minute)+`"}
spec:
  nodeName: a
  initContainers:
  - {name: wait, image: "initbox:1.0.0", args: [wait-for-service, "postgres://pgg/shop"]}
  containers: [{name: web, image: web}]
status:
  phase: Pending
  startTime: "`+ago(133*time.Second)+`"
  initContainerStatuses:
  - name: wait
    restartCount: 2
    state: {waiting: {reason: CrashLoopBackOff, message: "back-off 2m0s restarting failed container=wait"}}
    lastState: {terminated: {exitCode: 124, startedAt: "`+ago(90*time.Second)+`", finishedAt: "`+ago(50*time.Second)+`", message: "postgres://pgg/shop: no such name\n"}}
---
apiVersion: v1
kind: Service
metadata: {name: pg, namespace: shop}
spec: {selector: {app: pg}, ports: [{port: 5432}]}
`)
	want := `Pod shop/web-7d-x: Init:0/1 for 2m13s, held by "wait" (wait-for-service), started 3 times, last status 124 (its time ran out) after 40s
  message: postgres://pgg/shop: no such name
  postgres://pgg/shop  no Service pgg in shop; near: pg (0 ready endpoints) → pg instead of pgg in spec.initContainers[0].args[1] (in its manifest: delete the Pod and create it again)
next start in about 1m10s (CrashLoopBackOff)
`
	if got := c.diagnose(t); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}
