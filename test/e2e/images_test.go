package e2e_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The images of make images, pushed to a registry, from which the node pulls them, and run without any privilege.
func TestImagesFromRegistry(t *testing.T) {
	t.Parallel()
	needCluster(t)
	if ours == "" {
		t.Skip("only in test/cluster is the node's loopback address known to be free")
	}
	r := newNamespace(t)
	r.apply("images-registry.yaml")
	r.wait("condition=Ready", "pod/node-registry")
	const registry = "127.0.0.1:5055/team"
	// Set by run.sh: the program of images/, and the archive that it made of bin/initbox with the tag e2e.
	push := exec.Command(os.Getenv("E2E_IMAGES"), "push", "-registry", registry, os.Getenv("E2E_IMAGES_ARCHIVE"))
	push.Stderr = os.Stderr
	out, err := push.Output()
	if err != nil {
		t.Fatalf("push: %v", err)
	}
	image, digest, _ := strings.Cut(strings.Fields(string(out))[0], "@")
	if image != registry+"/initbox" {
		t.Fatalf("the first image is not initbox:\n%s", out)
	}
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	n.apply("images-pull.yaml", "registry.example", registry, "DIGEST", digest)
	n.wait("jsonpath={.status.phase}=Succeeded", "pod/pulled")
	contains(t, "the log of the image by digest", n.logs("pulled", "by-digest"), `kubernetes\.default`)
	contains(t, "the log of the link", n.logs("pulled", "by-link"), `kubernetes\.default`)
	contains(t, "the log of the image by tag", n.logs("pulled", "by-tag"), `kubernetes\.default`)
	contains(t, "the log of install", n.logs("pulled", "installed"), `installed initbox .* as /initbox/tools/initbox`)
	ids := n.kubectl("get", "pod", "pulled", "-o", "jsonpath={.status.initContainerStatuses[*].imageID}")
	contains(t, "the images that ran", ids, digest)
	t.Logf("pulled from a registry: %s\n%s", ids, n.logs("pulled", "by-tag"))
}
