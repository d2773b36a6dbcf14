package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/failure"
)

// Edited returns the text of a file with the changes of its objects made: only what changes is edited; comments, order
// and style of the rest stay. The result is read again: if it is not exactly what was meant, such as where an anchor is
// shared with another container, it is an error.
func Edited(file *manifest.File, objects []*manifest.Object, changes []*Change) ([]byte, error) {
	edited, err := editText(file.Text, objects, changes)
	if err == nil && !intended(file, edited, objects, changes) {
		err = errEdit
	}
	if err != nil {
		return nil, failure.WithHint(fmt.Errorf("edit %s: %w", file.Name, err), "-o patch and -o kustomize need no edit")
	}
	return edited, nil
}

// intended reports whether the edited text has the objects as they are with the changes, and nothing else.
func intended(file *manifest.File, edited []byte, objects []*manifest.Object, changes []*Change) bool {
	again, err := manifest.Read(file.Name, bytes.NewReader(edited))
	if err != nil || len(again) != len(objects) {
		return false
	}
	for i, o := range objects {
		want, err := changed(o, of(o, changes))
		if err != nil {
			return false
		}
		var got any
		if err := again[i].Node.Decode(&got); err != nil || !reflect.DeepEqual(want, got) {
			return false
		}
	}
	before, err1 := beside(file.Text)
	after, err2 := beside(edited)
	return err1 == nil && err2 == nil && reflect.DeepEqual(before, after)
}

// beside returns what the documents of a text have beside objects: Lists without their items, and other documents.
func beside(text []byte) (all []any, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if m, ok := document.(map[string]any); ok && m["kind"] != nil && m["apiVersion"] != nil {
			if _, ok := m["items"]; ok {
				delete(m, "items")
			} else {
				m = nil
			}
			document = m
		}
		all = append(all, document)
	}
}

// changed returns the object as plain data, with the changes made.
func changed(o *manifest.Object, changes []*Change) (any, error) {
	var object any
	if err := o.Node.Decode(&object); err != nil || len(changes) == 0 {
		return object, err
	}
	spec, ok := object.(map[string]any)
	for _, key := range strings.Split(o.Pod.Path, ".") {
		if !ok {
			return nil, errEdit
		}
		spec, ok = spec[key].(map[string]any)
	}
	containers, ok := spec["initContainers"].([]any)
	if !ok {
		return nil, errEdit
	}
	for _, c := range changes {
		container, ok := containers[c.Container.Index].(map[string]any)
		if !ok {
			return nil, errEdit
		}
		container = maps.Clone(container) // aliases share it
		containers[c.Container.Index] = container
		if err := c.change(container); err != nil {
			return nil, err
		}
	}
	if c := toolsOf(changes); c != nil {
		install, err1 := data(installContainerOf(c))
		volume, err2 := data(toolsVolumeOf(c))
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		at := c.Container.Index
		spec["initContainers"] = append(containers[:at:at], append([]any{install}, containers[at:]...)...)
		volumes, _ := spec["volumes"].([]any)
		spec["volumes"] = append(volumes[:len(volumes):len(volumes)], volume)
	}
	return object, nil
}

// change makes the change of a container in its plain data.
func (c *Change) change(container map[string]any) error {
	delete(container, "command")
	delete(container, "args")
	line, err := data(list(c.Words...))
	if err != nil {
		return err
	}
	container[c.key()] = line
	if !c.Inside {
		container["image"] = c.Initbox
	}
	if c.User != nil {
		context, _ := container["securityContext"].(map[string]any)
		if context = maps.Clone(context); context == nil {
			context = map[string]any{}
		}
		context["runAsUser"] = int(*c.User)
		container["securityContext"] = context
	}
	add := func(key string, item *yaml.Node) error {
		added, err := data(item)
		items, _ := container[key].([]any)
		container[key] = append(items[:len(items):len(items)], added)
		return err
	}
	if c.Hostname {
		if err := add("env", hostnameOf()); err != nil {
			return err
		}
	}
	if c.Inside {
		return add("volumeMounts", toolsMountOf(c))
	}
	return nil
}

// key returns the key that has the command line.
func (c *Change) key() string {
	if c.Inside {
		return "command"
	}
	return "args"
}

// data returns a node as plain data.
func data(n *yaml.Node) (value any, err error) {
	err = n.Decode(&value)
	return value, err
}

// installContainerOf returns the container that copies the program for c.
func installContainerOf(c *Change) *yaml.Node {
	node := mapping("name", c.installer(), "image", c.Initbox, "args", list("install", "/"+c.Tools),
		"securityContext", mapping("allowPrivilegeEscalation", false, "readOnlyRootFilesystem", true,
			"capabilities", mapping("drop", list("ALL"))),
		"volumeMounts", sequence(toolsMountOf(c)))
	if resources := manifest.Get(c.Container.Node, "resources"); resources != nil && len(resources.Content) > 0 { // a quota may ask for them
		node.Content = append(node.Content, scalar("resources"), resources)
	}
	return node
}

// hostnameOf returns the variable with the name of the Pod.
func hostnameOf() *yaml.Node {
	return mapping("name", hostname, "valueFrom", mapping("fieldRef", mapping("fieldPath", "metadata.name")))
}

func toolsMountOf(c *Change) *yaml.Node { return mapping("name", c.Tools, "mountPath", "/"+c.Tools) }

func toolsVolumeOf(c *Change) *yaml.Node {
	return mapping("name", c.Tools, "emptyDir", mapping())
}
