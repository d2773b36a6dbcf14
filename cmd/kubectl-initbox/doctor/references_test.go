package doctor

import (
	"regexp"
	"strings"
	"testing"
)

// TestReferences pins what is said about the Secrets, ConfigMaps, claims and nodes that a Pod needs.
func TestReferences(t *testing.T) {
	const objects = `apiVersion: v1
kind: Secret
metadata: {name: login, namespace: shop}
data: {user: eA==, password: aHVudGVyMg==}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: fast}
status: {phase: Pending}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: web-scratch, namespace: shop}
status: {phase: Pending}
---
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {unschedulable: true}
status: {conditions: [{type: Ready, status: "False", message: gone}, {type: DiskPressure, status: "True"}]}
---
apiVersion: v1
kind: Node
metadata: {name: b}
`
	pod := waiting("web", "sleep, 1h", `volumes:
  - {name: pvc, persistentVolumeClaim: {claimName: data}}
  - {name: lost, persistentVolumeClaim: {claimName: dat}}
  - {name: scratch, ephemeral: {volumeClaimTemplate: {spec: {}}}}
  - {name: s, secret: {secretName: logn}}
  - {name: maybe, secret: {secretName: none, optional: true}}
  - {name: k, secret: {secretName: login, items: [{key: usr, path: u}, {key: user, path: v}]}}
  - {name: c, configMap: {name: setings}}
  - {name: p, projected: {sources: [{secret: {name: other}}, {configMap: {name: settings, items: [{key: x, path: x}]}}, {configMap: {name: none, optional: true}}]}}`,
		"imagePullSecrets: [{name: pull}]")
	pod = strings.Replace(pod, "state: {running: {startedAt: \""+ago(60e9)+"\"}}", "state: {waiting: {reason: ErrImagePull, message: no such image}}", 1)
	pod = strings.Replace(pod, `args: [`, `envFrom: [{secretRef: {name: all}}, {configMapRef: {name: settings}}, {configMapRef: {name: sets}}, {secretRef: {name: none, optional: true}}],
    env: [{name: A, valueFrom: {secretKeyRef: {name: login, key: pass}}}, {name: B, valueFrom: {configMapKeyRef: {name: settings, key: lang}}},
      {name: C, valueFrom: {secretKeyRef: {name: none, key: x, optional: true}}}, {name: D, valueFrom: {configMapKeyRef: {name: none, key: x, optional: true}}}], args: [`, 1)
	const volumes = `volume pvc        PersistentVolumeClaim data is pending; there is no storage class fast → kubectl get storageclasses
volume lost       no PersistentVolumeClaim dat in shop; near: data
volume scratch    PersistentVolumeClaim web-scratch is pending; it names no storage class, and the cluster has no default, or had none when the claim was created
volume s          no Secret logn in shop; near: login
volume k          Secret login has no key usr; it has password, user
volume c          no ConfigMap setings in shop; near: settings
volume p          no Secret other in shop
volume p          ConfigMap settings has no key x, and no other
`
	for name, test := range map[string]struct{ pod, want string }{
		"not started": {pod, `Pod shop/web: Init:0/1 for 1m0s, held by "wait" (sleep), not started (ErrImagePull)
image             no such image → spec.initContainers[0].image (kubectl edit pod web -n shop)
imagePullSecrets  no Secret pull in shop
variable A        Secret login has no key pass; it has password, user
variable B        ConfigMap settings has no key lang, and no other
envFrom           no Secret all in shop
envFrom           no ConfigMap sets in shop
` + volumes + `node a            not ready: gone, DiskPressure, cordoned
`},
		"not scheduled": {strings.Replace(pod, "nodeName: a", "schedulerName: mine", 1), `Pod shop/web: Pending for 1m0s
scheduling      the scheduler mine has not considered it yet
` + volumes + `node a          not ready: gone, DiskPressure, cordoned
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.ReplaceAll(clusterOf(t, test.pod+"\n---\n"+objects).diagnose(t), "\n  ", "\n")
			squeeze := regexp.MustCompile(` {2,}`)
			if got, want := squeeze.ReplaceAllString(got, "  "), squeeze.ReplaceAllString(test.want, "  "); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}
