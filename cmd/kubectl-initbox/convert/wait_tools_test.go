package convert

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestKubectl(t *testing.T) {
	probed{
		"kubectl get secret tls":                                          "wait-for-service k8s:secret/tls#exists",
		"kubectl get secret/tls -n shop -o name":                          "wait-for-service k8s:secret/tls?namespace=shop#exists",
		"kubectl -n $NS get secret tls other":                             "wait-for-service k8s:secret/tls?namespace=$(NS)#exists k8s:secret/other?namespace=$(NS)#exists",
		"kubectl get pods -l app=x":                                       "!whether or not",
		"kubectl get pods":                                                "!not a call",
		"kubectl get secret tls --ignore-not-found":                       "!--ignore-not-found",
		"kubectl get pod a service/b":                                     "wait-for-service",
		"kubectl wait --for=condition=Ready pod -l app=web":               "wait-for-service k8s:pod?selector=app=web#condition=Ready",
		"kubectl wait --for=condition=complete job/migrate --timeout=60s": "wait-for-service k8s:job/migrate#condition=complete",
		"kubectl wait --for condition=Ready=false node/worker":            "wait-for-service k8s:node/worker#condition=Ready=false",
		"kubectl wait --for=jsonpath='{.status.phase}'=Bound pvc/data":    "wait-for-service k8s:pvc/data#jsonpath={.status.phase}=Bound",
		"kubectl wait --for=delete pod/old":                               "wait-for-service k8s:pod/old#gone",
		"kubectl wait --for=create configmap/x":                           "wait-for-service k8s:configmap/x#exists",
		"kubectl wait --for=jsonpath='{.items[*].x}'=1 pvc/data":          "!JSONPath",
		"kubectl wait pod/x":                                              "!one --for",
		"kubectl rollout status deployment/web":                           "wait-for-service k8s:deployment/web",
		"kubectl rollout status deployment web -n shop":                   "wait-for-service k8s:deployment/web?namespace=shop",
		"kubectl rollout status deployment/web --watch=false":             "!rollout",
		"kubectl rollout restart deployment/web":                          "!does not wait",
		"kubectl apply -f x":                                              "!-f",
		"kubectl --context x get secret tls":                              "!--context",
		"KUBECONFIG=/x kubectl get secret tls":                            "!KUBECONFIG",
		"kubectl get secret $PW":                                          "!Secret",
	}.testBut(t, "kubectl get pod a service/b")
	get := "kubectl get job migrate -o jsonpath='{.status.succeeded}'"
	matched{
		{get, "=", "1"}:   "wait-for-service k8s:job/migrate#jsonpath={.status.succeeded}=1",
		{get, "-ge", "2"}: "wait-for-service k8s:job/migrate#jsonpath={.status.succeeded}>=2",
		{get, "-gt", "2"}: "wait-for-service k8s:job/migrate#jsonpath={.status.succeeded}>=3",
		{get, "-n", ""}:   "wait-for-service k8s:job/migrate#jsonpath={.status.succeeded}",
		{get, "!=", "1"}:  "!!= 1",
		{get, "=", "/a/"}: "!= /a/",
		{"kubectl get pods -l a=b -o jsonpath='{.items[0].x}'", "=", "1"}:   "!not one value",
		{"kubectl get job migrate -o jsonpath='{.items[*].x}'", "=", "1"}:   "!not one value",
		{"kubectl get job migrate -o yaml", "=", "1"}:                       "!not one value",
		{"kubectl get secret db -o jsonpath='{.data.tls\\.crt}'", "-n", ""}: `wait-for-service k8s:secret/db#jsonpath={.data.tls\.crt}`,
	}.test(t)
}

// testBut is test without a case that is refused by the API server in both.
func (table probed) testBut(t *testing.T, skip string) {
	delete(table, skip)
	table.test(t, waitContainer())
}

func TestWaitCommands(t *testing.T) {
	for text, want := range map[string]string{
		"kubectl wait --for=condition=complete job/migrate --timeout=60s":                         "wait-for-service k8s:job/migrate#condition=complete --timeout=60s",
		"kubectl wait --for=condition=complete job/migrate":                                       "wait-for-service k8s:job/migrate#condition=complete --timeout=30s",
		"kubectl rollout status deploy/web":                                                       "wait-for-service k8s:deploy/web",
		"kubectl rollout status deploy/web --timeout=0":                                           "!a timeout",
		"kubectl get secret x":                                                                    "!does not wait",
		"wait-for-it.sh mydb:5432 -t 60":                                                          "wait-for-service tcp://mydb:5432 --timeout=60s",
		"wait-for-it.sh mydb:5432 --timeout=0":                                                    "wait-for-service tcp://mydb:5432 --timeout=0",
		"wait-for-it.sh -h mydb -p 5432 -q":                                                       "wait-for-service tcp://mydb:5432 --timeout=15s",
		"wait-for-it.sh mydb:5432 -s -- echo up":                                                  "wait-for-service tcp://mydb:5432 --timeout=15s",
		"wait-for-it.sh mydb:5432 -- echo up":                                                     "!when the timeout has passed",
		"wait-for-it.sh mydb:5432 -s -- /app/server":                                              "!/app/server",
		"wait-for-it.sh mydb":                                                                     "!no : in it",
		"wait-for $HOST:$PORT -t 30":                                                              "wait-for-service tcp://$(HOST):$(PORT) --timeout=30s",
		"dockerize -wait tcp://mydb:5432 -wait http://api/health -timeout 60s":                    "wait-for-service tcp://mydb:5432 http://api/health#status=200-299 --timeout=60s",
		"dockerize -wait file:///shared/ready":                                                    "wait-for-service file:///shared/ready --timeout=10s",
		"dockerize -wait unix:///shared/api.sock -timeout=1m":                                     "wait-for-service unix:///shared/api.sock --timeout=1m",
		"dockerize -wait file:///etc/ready":                                                       "!one of the image",
		"dockerize -wait tcp://mydb:5432 /app/server":                                             "!/app/server",
		"dockerize -stdout /log":                                                                  "!-stdout",
		"dockerize -timeout 5s":                                                                   "!it does nothing",
		"dockerize -wait amqp://mq:5672":                                                          "!amqp",
		"wait4x tcp mydb:5432 cache:6379":                                                         "wait-for-service tcp://mydb:5432 tcp://cache:6379 --timeout=10s",
		"wait4x tcp $HOST:5432 -t 5m -i 2s --connection-timeout 3s":                               "wait-for-service tcp://$(HOST):5432 --timeout=5m --attempt-timeout=3s",
		"wait4x http http://api/ --expect-status-code 200 --timeout 5m --interval 5s --h2c":       "wait-for-service http://api/#status=200&h2c --timeout=5m",
		"wait4x http https://api/ --insecure-skip-tls-verify --no-redirect":                       "wait-for-service https://api/#status=any&no-redirect&insecure --timeout=10s",
		"wait4x http http://api/ --expect-body-regex 'ok|up'":                                     "wait-for-service http://api/#status=any&body=/ok|up/ --timeout=10s",
		"wait4x http http://api/ --expect-body-json a.b":                                          "!--expect-body-json",
		"wait4x postgresql postgres://app:$PW@mydb:5432/shop?sslmode=disable":                     "wait-for-service postgres://app:${env:PW}@mydb:5432/shop?sslmode=disable --timeout=10s",
		"wait4x postgresql $PW":                                                                   "wait-for-service ${env:PW} --timeout=10s",
		"wait4x postgresql postgres://app:hUnter2@mydb/shop":                                      "!a password",
		"wait4x postgresql postgres://mydb/shop":                                                  "!without a user",
		"wait4x redis redis://cache:6379":                                                         "wait-for-service redis://cache:6379 --timeout=10s",
		"wait4x rabbitmq amqp://app:$PW@mq/shop":                                                  "wait-for-service amqp://app:${env:PW}@mq/shop --timeout=10s",
		"wait4x tcp mydb:5432 -v":                                                                 "!-v",
		"wait4x tcp mydb:5432 -- /app/server":                                                     "!/app/server",
		"wait4x temporal server x:7233":                                                           "wait-for-service temporal://x:7233#tls --timeout=10s",
		"wait4x temporal server x:7233 --insecure-transport":                                      "wait-for-service temporal://x:7233 --timeout=10s",
		"wait4x temporal worker x:7233 --insecure-skip-tls-verify --namespace a --task-queue b/c": "wait-for-service temporal://x:7233#tls&insecure&namespace=a&task-queue=b/c --timeout=10s",
		"wait4x temporal server":                                                                  "!not called with",
		"wait4x temporal worker x:7233 --expect-worker-identity-regex z":                          "!--expect-worker-identity-regex",
		"wait4x mysql app:$PW@tcp(mydb:3306)/shop":                                                "wait-for-service mysql://app:${env:PW}@mydb:3306/shop --timeout=10s",
		"wait4x mysql app:$PW@tcp(mydb)/":                                                         "wait-for-service mysql://app:${env:PW}@mydb --timeout=10s",
		"wait4x mysql app:$PW@tcp(mydb:3306)/shop?tls=true":                                       "!parameters of Go's driver",
		"wait4x mysql app:$PW@unix(/run/mysqld.sock)/shop":                                        "!@tcp(",
		"wait4x mysql app:hUnter2@tcp(mydb:3306)/shop":                                            "!a password",
		"wait4x mysql app:$PW@tcp(mydb:3306)/shop --expect-table t":                               "!--expect-table",
		"wait4x kafka kafka://b1:9092":                                                            "wait-for-service kafka://b1:9092 --timeout=10s",
		"wait4x kafka kafka://app:$PW@b1:9092?authMechanism=scram-sha-512":                        "wait-for-service kafka://app:${env:PW}@b1:9092#mechanism=SCRAM-SHA-512 --timeout=10s",
		"wait4x kafka kafka://app:$PW@b1:9092":                                                    "wait-for-service kafka://b1:9092 --timeout=10s",
		"wait4x kafka kafka://b1:9092?authMechanism=scram-sha-512":                                "!without a login",
		"wait4x kafka kafka://b1:9092?authMechanism=plain":                                        "!plain",
		"wait4x kafka kafka://b1:9092,b2:9092":                                                    "!not a port number",
		"wait4x influxdb http://influx:8086":                                                      "wait-for-service influxdb://influx:8086 --timeout=10s",
		"wait4x influxdb http://influx:8086/path":                                                 "!not a port number",
		"wait4x influxdb https://influx:8086":                                                     "!without TLS",
		"wait4x redis redis://cache:6379 --expect-key a:b":                                        "wait-for-service redis://cache:6379#key=a:b --timeout=10s",
		"wait4x redis redis://cache:6379 redis://other:6379 --expect-key up":                      "wait-for-service redis://cache:6379#key=up redis://other:6379#key=up --timeout=10s",
		"wait4x redis redis://cache:6379 --expect-key a=b":                                        "!a key whose value",
		"wait4x redis $PW":                                                                        "wait-for-service ${env:PW} --timeout=10s",
		"wait4x dns A api.example.com":                                                            "wait-for-dns api.example.com --type=A --timeout=10s",
		"wait4x dns aaaa api --expect-ip fd00::7 -t 1m":                                           "wait-for-dns api --type=AAAA --expect=fd00::7 --timeout=1m",
		"wait4x dns A api --expect-ip 10.0.0.1 --expect-ip 10.0.0.2":                              "!one of several",
		"wait4x dns A api -n 8.8.8.8":                                                             "!name server",
		"wait4x dns MX api":                                                                       "!dns",
		"wait4x exec true":                                                                        "!exec",
	} {
		call := callOf(text)
		f, ok := waitCommands[call.Name]
		if !ok {
			t.Errorf("%s: not in the table", text)
			continue
		}
		steps, err := f(call, waitContainer())
		if err != nil {
			steps = []Step{{}}
		}
		expect(t, text, steps[0], err, want)
	}
	call := callOf("wait-for-it.sh mydb:5432")
	call.Path = "/shared/wait-for-it.sh"
	_, err := waitCommands[call.Name](call, waitContainer())
	expect(t, call.Path, Step{}, err, "!another program")
}

func TestKubernetesTools(t *testing.T) {
	c := waitContainer()
	for text, want := range map[string]string{
		"job migrate":        "wait-for-service k8s:job/migrate",
		"job $HOST -n $NS":   "wait-for-service k8s:job/$(HOST)?namespace=$(NS)",
		"pod -lapp=web,x!=y": "wait-for-service k8s:pod?selector=app=web,x!=y",
		"job-wr migrate":     "wait-for-service k8s:job/migrate#if-failed=some",
		"secret x":           "!not a resource",
		"job $PW":            "!Secret",
	} {
		steps, err := waitTools["k8s-wait-for"](wordsOf(text), c)
		if err != nil {
			steps = []Step{{}}
		}
		expect(t, text, steps[0], err, want)
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: "DEPENDENCY_SERVICE", Value: "mysql:mariadb,keystone-api"}, corev1.EnvVar{Name: "NAMESPACE", ValueFrom: c.Env[4].ValueFrom},
		corev1.EnvVar{Name: "POD_NAME", ValueFrom: c.Env[4].ValueFrom}, corev1.EnvVar{Name: "DEPENDENCY_JOBS", Value: "nova-init"},
		corev1.EnvVar{Name: "DEPENDENCY_DAEMONSET", Value: ""}, corev1.EnvVar{Name: "COMMAND", Value: "echo done"})
	steps, err := waitTools["kubernetes-entrypoint"](nil, c)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(steps[0].Args, " "); got != "k8s:service/mariadb?namespace=mysql k8s:service/keystone-api?namespace=$(NAMESPACE) k8s:job/nova-init?namespace=$(NAMESPACE)#completions=1" {
		t.Error(got)
	}
	c.Env[len(c.Env)-1].Value = "/app/server"
	_, err = waitTools["kubernetes-entrypoint"](nil, c)
	expect(t, "COMMAND", Step{}, err, "!/app/server")
}
