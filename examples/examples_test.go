// Package examples_test keeps the pages of the examples true, and the manifests restricted.
package examples_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"initbox/test/servers"
)

var update = flag.Bool("update", false, "write the table of web/README.md")

// table is the table of lines in web/README.md.
var table = regexp.MustCompile(`(?s)(<!-- lines: begin -->\n)(.*)(\n<!-- lines: end -->)`)

// TestLines pins the table of web/README.md: how many lines of YAML, images and containers the init containers of the
// Deployment take.
func TestLines(t *testing.T) {
	const heading = "| | lines | images | containers |\n|---|---|---|---|\n"
	rows := fmt.Sprintf("%s| [loops](loops/web.yaml) | %s |\n| [plain initbox](plain/web.yaml) | %s |\n| [the library chart](chart/templates/_init.tpl) | %s |",
		heading, ofManifest(t, "web/loops/web.yaml"), ofManifest(t, "web/plain/web.yaml"), ofChart(t))
	page := read(t, "web/README.md")
	now := table.ReplaceAllString(page, "${1}\n"+rows+"\n${3}")
	switch {
	case now == page:
	case *update:
		if err := os.WriteFile("web/README.md", []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("web/README.md has another table than\n%s\nhint: go test ./examples -update", rows)
	}
}

// ofManifest returns the cells of a manifest's row.
func ofManifest(t *testing.T, name string) string {
	t.Helper()
	counted := map[int]bool{} // lines, from 1
	images := map[string]bool{}
	containers := 0
	for _, doc := range documents(t, name) {
		kind := text(doc, "kind")
		if slices.Contains([]string{"ServiceAccount", "Role", "RoleBinding"}, kind) {
			count(doc, counted)
		}
		if kind != "Deployment" {
			continue
		}
		pod := at(doc, "spec", "template", "spec")
		for _, key := range []string{"serviceAccountName", "volumes", "initContainers"} {
			countKey(pod, key, counted)
		}
		for _, c := range at(pod, "containers").Content {
			countKey(c, "volumeMounts", counted)
		}
		for _, c := range at(pod, "initContainers").Content {
			containers++
			images[text(c, "image")] = true
		}
	}
	lines := strings.Split(read(t, name), "\n")
	number := 0
	for line := range counted {
		if trimmed := strings.TrimSpace(lines[line-1]); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			number++
		}
	}
	return fmt.Sprintf("%d | %d | %d", number, len(images), containers)
}

// ofChart returns the cells of the chart's row: the list of steps, with the lines around it, and the lines of the
// Deployment that include what follows from it.
func ofChart(t *testing.T) string {
	t.Helper()
	list := regexp.MustCompile(`(?s)\{\{- define "shop\.web\.init" \}\}.*?\{\{- end \}\}`).FindString(read(t, "web/chart/templates/_init.tpl"))
	if list == "" {
		t.Fatal("the chart has no list shop.web.init")
	}
	number := len(strings.Split(list, "\n"))
	for _, doc := range strings.Split(read(t, "web/chart/templates/web.yaml"), "\n---\n") {
		for line := range strings.Lines(doc) {
			switch {
			case strings.Contains(line, "podSecurityContext"): // there without init containers, too
			case strings.Contains(line, `include "initbox.`), strings.Contains(line, "serviceAccountName"), strings.Contains(doc, "kind: ServiceAccount"):
				number++
			}
		}
	}
	return fmt.Sprintf("%d | 1 | %d", number, strings.Count(list, "\n- "))
}

// TestRestricted pins that every Pod of the examples satisfies the restricted Pod Security Standard, has a read-only
// root file system, and pins its images.
func TestRestricted(t *testing.T) {
	pods := 0
	for _, name := range manifests(t) {
		for _, doc := range documents(t, name) {
			pod := at(doc, "spec", "template", "spec")
			if text(doc, "kind") == "Pod" {
				pod = at(doc, "spec")
			}
			if pod == nil || at(pod, "containers") == nil {
				continue
			}
			pods++
			where := name + ": " + text(doc, "kind") + " " + text(doc, "metadata", "name")
			if text(pod, "securityContext", "runAsNonRoot") != "true" || text(pod, "securityContext", "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s is not restricted: runAsNonRoot and seccompProfile", where)
			}
			for _, key := range []string{"initContainers", "containers"} {
				list := at(pod, key)
				if list == nil {
					continue
				}
				for _, c := range list.Content {
					if at(c, "image") != nil || !strings.Contains(name, "kustomize") { // a Component completes it
						requireRestricted(t, where, c)
					}
				}
			}
		}
	}
	if pods < 9 {
		t.Errorf("%d Pods found", pods)
	}
}

func requireRestricted(t *testing.T, where string, c *yaml.Node) {
	t.Helper()
	where += ", container " + text(c, "name")
	if text(c, "securityContext", "allowPrivilegeEscalation") != "false" || text(c, "securityContext", "readOnlyRootFilesystem") != "true" {
		t.Errorf("%s: allowPrivilegeEscalation or readOnlyRootFilesystem is wrong", where)
	}
	if drop := at(c, "securityContext", "capabilities", "drop"); drop == nil || len(drop.Content) != 1 || drop.Content[0].Value != "ALL" {
		t.Errorf("%s keeps capabilities", where)
	}
	if image := text(c, "image"); !regexp.MustCompile(`:v?\d[\w.-]*$`).MatchString(image) {
		t.Errorf("%s: the image %s has no version", where, image)
	}
}

// TestRoles pins that the Roles in the manifests grant what initbox rbac prints for their init containers, and nothing
// else.
func TestRoles(t *testing.T) {
	program, err := servers.Initbox(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web/plain/web.yaml", "grafana/grafana.yaml"} {
		granted, needed := map[string]bool{}, map[string]bool{}
		for _, doc := range documents(t, name) {
			if text(doc, "kind") == "Role" {
				addRights(doc, granted)
			}
			list := at(doc, "spec", "template", "spec", "initContainers")
			if list == nil {
				continue
			}
			for _, c := range list.Content {
				args := []string{"rbac"}
				for _, arg := range at(c, "args").Content {
					args = append(args, arg.Value)
				}
				out, err := exec.Command(program, args...).CombinedOutput()
				if err != nil && !strings.Contains(string(out), "no Role is needed") {
					t.Fatalf("%s: initbox %q: %v\n%s", name, args, err, out)
				}
				if err == nil {
					for _, doc := range decode(t, name, bytes.NewReader(out)) {
						addRights(doc, needed)
					}
				}
			}
		}
		if len(needed) == 0 || !maps.Equal(granted, needed) {
			t.Errorf("%s grants %v, and initbox rbac prints %v", name, slices.Sorted(maps.Keys(granted)), slices.Sorted(maps.Keys(needed)))
		}
	}
}

// addRights adds what a Role grants: a right for each verb, resource and name.
func addRights(role *yaml.Node, rights map[string]bool) {
	if at(role, "rules") == nil {
		return
	}
	for _, rule := range at(role, "rules").Content {
		names := []string{""}
		if list := at(rule, "resourceNames"); list != nil {
			names = words(list)
		}
		for _, resource := range words(at(rule, "resources")) {
			for _, verb := range words(at(rule, "verbs")) {
				for _, name := range names {
					rights[fmt.Sprint(words(at(rule, "apiGroups")), verb, " ", resource, "/", name)] = true
				}
			}
		}
	}
}

// words returns the elements of a list of texts.
func words(list *yaml.Node) (all []string) {
	for _, n := range list.Content {
		all = append(all, n.Value)
	}
	return all
}

// TestListed pins that README.md has a row for each example, and each example a page.
func TestListed(t *testing.T) {
	dirs, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	index := read(t, "README.md")
	for _, dir := range dirs {
		if dir.IsDir() && !strings.Contains(index, "]("+dir.Name()+"/README.md)") {
			t.Errorf("README.md has no row for %s, with a link to its README.md", dir.Name())
		}
	}
}

// manifests returns the manifests of Kubernetes objects: not those of Helm, Kustomize or Docker.
func manifests(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"chart", "compose", "docker"}, d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) == ".yaml" && strings.Contains(read(t, path), "\nkind: "):
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func documents(t *testing.T, name string) []*yaml.Node {
	t.Helper()
	return decode(t, name, strings.NewReader(read(t, name)))
}

func decode(t *testing.T, name string, r io.Reader) (docs []*yaml.Node) {
	t.Helper()
	for d := yaml.NewDecoder(r); ; {
		var doc yaml.Node
		if err := d.Decode(&doc); err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatalf("%s: %v", name, err)
			}
			return docs
		}
		docs = append(docs, doc.Content[0])
	}
}

// at returns the node at a path of keys, or nil.
func at(n *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		i := slices.IndexFunc(n.Content, func(c *yaml.Node) bool { return c.Value == key })
		if i < 0 || i%2 != 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	if n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func text(n *yaml.Node, path ...string) string {
	if n = at(n, path...); n != nil {
		return n.Value
	}
	return ""
}

// countKey adds the lines of a key and its value.
func countKey(n *yaml.Node, key string, lines map[int]bool) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			lines[n.Content[i].Line] = true
			count(n.Content[i+1], lines)
		}
	}
}

// count adds the lines of a node. A text in block style has its indicator in the first one.
func count(n *yaml.Node, lines map[int]bool) {
	lines[n.Line] = true
	if n.Style&yaml.LiteralStyle != 0 {
		for i := range strings.Count(n.Value, "\n") {
			lines[n.Line+1+i] = true
		}
	}
	for _, c := range n.Content {
		count(c, lines)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
