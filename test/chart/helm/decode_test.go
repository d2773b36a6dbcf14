// Package helm_test has the tests of the chart that need the types of Kubernetes, in the module of the real helm, which
// compiles them anyway.
package helm_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestGoldenDecodes pins that what the chart yields is objects of Kubernetes, without a field that they do not have,
// and that the parts of a Pod fit: each volume is declared once and each mount has its volume.
func TestGoldenDecodes(t *testing.T) {
	files, err := filepath.Glob("../testdata/golden/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files: ", err)
	}
	for _, file := range files {
		pods := 0
		for _, object := range decode(t, file) {
			if pod, is := object.(*corev1.Pod); is {
				pods++
				checkPod(t, file, pod)
			}
		}
		if pods != 1 {
			t.Errorf("%s: %d Pods", file, pods)
		}
	}
}

// decode decodes the documents of a file. Unknown and duplicate fields are errors.
func decode(t *testing.T, file string) (objects []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	for documents := yaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, len(text))
		n, err := documents.Read(document)
		if errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		object, _, err := strict.Decode(document[:n], nil, nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", file, err, document[:n])
			continue
		}
		objects = append(objects, object)
	}
}

// ownVolumes are those that the chart's author declares: volume: data names one.
var ownVolumes = map[string]bool{"data": true}

func checkPod(t *testing.T, file string, pod *corev1.Pod) {
	t.Helper()
	volumes, used := map[string]bool{}, map[string]bool{}
	for _, v := range pod.Spec.Volumes {
		if volumes[v.Name] {
			t.Errorf("%s: the volume %s is declared twice", file, v.Name)
		}
		volumes[v.Name] = true
	}
	names, ports := map[string]bool{}, map[int32]bool{}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if names[c.Name] {
			t.Errorf("%s: two containers are named %s", file, c.Name)
		}
		names[c.Name] = true
		paths := map[string]bool{}
		for _, m := range c.VolumeMounts {
			used[m.Name] = true
			if !volumes[m.Name] && !ownVolumes[m.Name] || paths[m.MountPath] {
				t.Errorf("%s: container %s: the mount %s of %s has no volume, or a path that another one has", file, c.Name, m.MountPath, m.Name)
			}
			paths[m.MountPath] = true
		}
		if c.StartupProbe != nil && c.StartupProbe.HTTPGet != nil {
			port := c.StartupProbe.HTTPGet.Port.IntVal
			if ports[port] {
				t.Errorf("%s: two startup probes ask port %d", file, port)
			}
			ports[port] = true
		}
		checkSecurity(t, file, c)
	}
	for name := range volumes {
		if !used[name] {
			t.Errorf("%s: nothing mounts the volume %s", file, name)
		}
	}
}

// checkSecurity pins what the Pod Security Standard restricted asks for of a container, except of those that change
// owners or parameters of the kernel.
func checkSecurity(t *testing.T, file string, c corev1.Container) {
	t.Helper()
	if c.Name == "app" || strings.HasPrefix(c.Name, "sysctl-") || strings.Contains(strings.Join(c.Args, " "), "owner=") {
		return
	}
	s := c.SecurityContext
	if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil || len(s.Capabilities.Add) > 0 ||
		len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" || s.RunAsNonRoot == nil || !*s.RunAsNonRoot ||
		s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: container %s is not restricted: %+v", file, c.Name, s)
	}
}
