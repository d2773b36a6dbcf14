package command

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"initbox/internal/kube"
	"initbox/test/fakeapi"
)

// serveK8s is the server of kind k8s, whose objects the script command k8s gives it.
func serveK8s(s *server, l net.Listener) { httpServer(l, s.k8s) }

// cmdK8s is for a server of kind k8s:
//
//	k8s NAME kubeconfig FILE      writes a kubeconfig for it
//	k8s NAME apply FILE…          creates or replaces the objects, JSON
//	k8s NAME delete KIND OBJECT   of the namespace default
//	k8s NAME define GROUP/VERSION PLURAL KIND  adds a kind without namespaces
//	k8s NAME deny RESOURCE        forbids to get, list, watch, create and update it
//	k8s NAME allow RESOURCE
//	k8s NAME grant RULES         sets what a SelfSubjectRulesReview answers, JSON
//	k8s NAME answer STATUS        to everything; 0 ends it
//	k8s NAME requests VERB        prints those with the verb
func cmdK8s(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: k8s NAME kubeconfig|apply|delete|deny|allow|answer|requests ARG…")
	}
	s := scriptOf(ts).server(ts, args[0])
	args = args[1:]
	switch args[0] {
	case "kubeconfig":
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(fakeapi.Kubeconfig("http://"+s.addr)), 0o600))
	case "apply":
		for _, name := range args[1:] {
			ts.Check(s.k8s.Apply(ts.ReadFile(name)))
		}
	case "delete":
		ts.Check(s.k8s.Delete(args[1], "default", args[2]))
	case "define":
		group, version, _ := strings.Cut(args[1], "/")
		s.k8s.Define(kube.Resource{Group: group, Version: version, Name: args[2], Kind: args[3]})
	case "deny", "allow":
		for verb := range strings.FieldsSeq("get list watch create update") {
			s.k8s.Deny(verb, args[1], args[0] == "deny")
		}
	case "grant":
		ts.Check(s.k8s.Grant(args[1]))
	case "answer":
		status, err := strconv.Atoi(args[1])
		ts.Check(err)
		s.k8s.Answer(status)
	case "requests":
		for _, line := range s.k8s.Requests() {
			if strings.HasPrefix(line, args[1]+" ") {
				fmt.Fprintln(ts.Stdout(), line)
			}
		}
	default:
		ts.Fatalf("k8s: no such thing to do: %s", args[0])
	}
}
