// Package manifest reads Kubernetes manifests and keeps the place of everything in them, for messages that name a line
// and for edits that leave the rest of a file as it is.
//
//	objects, err := manifest.Read("web.yaml", file)
//	for _, o := range objects {
//		if o.Pod != nil {
//			fmt.Println(o, len(o.Pod.Containers))
//		}
//	}
package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

// File is the text that objects were read from.
type File struct {
	Name string // as given to [Read]
	Text []byte
}

// Object is an object of a manifest. The objects of a List are objects of their own.
type Object struct {
	File       *File
	Node       *yaml.Node // its mapping; lines and columns count from the start of the file, from 1
	APIVersion string
	Kind       string
	Namespace  string // "" if the manifest leaves it to kubectl
	Name       string // metadata.generateName if there is no name
	Pod        *Pod   // nil if the object runs none
}

// String names the object as kubectl does, with its kind as the manifest writes it: Deployment/web, shop/Job/migrate.
func (o *Object) String() string {
	name := o.Kind + "/" + o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return name
}

// Pod is the Pod that an object is, or the template of its Pods.
type Pod struct {
	Object     *Object
	Path       string     // of the specification in the object: spec, spec.template.spec, …
	Meta       *yaml.Node // the metadata of the Pod; nil without it
	Node       *yaml.Node // the mapping of the specification
	Spec       corev1.PodSpec
	Containers []*Container // the init containers first, each in the order of the manifest
}

// Container is a container of a Pod.
type Container struct {
	Pod  *Pod
	Node *yaml.Node // its mapping
	Init bool       // in initContainers
	// Index is its place in initContainers or containers, from 0.
	Index int
	corev1.Container
	// Err says what in Node Kubernetes would refuse, such as a text where a list is wanted; what could be read is in
	// Container all the same.
	Err error
}

// Path returns where the container stands in the object, in the form of a JSONPath without braces:
// spec.template.spec.initContainers[0].
func (c *Container) Path() string {
	list := "containers"
	if c.Init {
		list = "initContainers"
	}
	return fmt.Sprintf("%s.%s[%d]", c.Pod.Path, list, c.Index)
}

// Place returns the file and the line of the container's arguments, or of its command or the container itself if it has
// none, as in web.yaml:12.
func (c *Container) Place() string {
	node := cmp.Or(Get(c.Node, "args"), Get(c.Node, "command"), c.Node)
	return fmt.Sprintf("%s:%d", c.Pod.Object.File.Name, node.Line)
}

// Sidecar reports whether the container is an init container that keeps running (KEP-753).
func (c *Container) Sidecar() bool {
	return c.Init && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// Read reads the YAML or JSON of any number of objects. Documents that are empty, or no Kubernetes objects, such as a
// values file, are left out. An error names the file and the line.
func Read(name string, r io.Reader) ([]*Object, error) {
	text, err := readAll(name, r)
	if err != nil {
		return nil, err
	}
	file := &File{Name: name, Text: text}
	var objects []*Object
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, syntaxError(name, text, err)
		}
		if len(document.Content) == 1 {
			if objects, err = file.add(objects, document.Content[0], 0); err != nil {
				return nil, err
			}
		}
	}
}

// Limits on what a manifest may be: one that aliases make endless, or as long as it likes, is refused.
const (
	maxObjects = 100_000
	maxLists   = 10 // in one another
)

// add appends the object of the node, or those of a List. Depth counts the Lists around the node.
func (f *File) add(objects []*Object, node *yaml.Node, depth int) ([]*Object, error) {
	switch {
	case depth > maxLists:
		return nil, fmt.Errorf("%s:%d: more than %d Lists in one another", f.Name, node.Line, maxLists)
	case len(objects) >= maxObjects:
		return nil, fmt.Errorf("%s:%d: more than %d objects", f.Name, node.Line, maxObjects)
	}
	o := &Object{File: f, Node: node, APIVersion: text(Get(node, "apiVersion")), Kind: text(Get(node, "kind"))}
	if o.Kind == "" || o.APIVersion == "" {
		return objects, nil
	}
	if items := Get(node, "items"); items != nil && items.Kind == yaml.SequenceNode && strings.HasSuffix(o.Kind, "List") {
		var err error
		for _, item := range items.Content {
			if objects, err = f.add(objects, resolved(item), depth+1); err != nil {
				return nil, err
			}
		}
		return objects, nil
	}
	o.Namespace, o.Name = text(Get(node, "metadata", "namespace")), text(Get(node, "metadata", "name"))
	if o.Name == "" {
		o.Name = text(Get(node, "metadata", "generateName"))
	}
	o.Pod = o.readPod()
	return append(objects, o), nil
}

// podPaths are where an object may have the specification of a Pod. Custom resources, such as Argo's Rollout, have the
// same paths, or those of the operator for Elasticsearch: of Kibana and Logstash, and of Beats
// (https://www.elastic.co/docs/reference/cloud-on-k8s/main).
var podPaths = [][]string{
	{"spec"},
	{"spec", "template", "spec"},
	{"spec", "jobTemplate", "spec", "template", "spec"},
	{"template", "spec"}, // PodTemplate
	{"spec", "podTemplate", "spec"},
	{"spec", "deployment", "podTemplate", "spec"},
	{"spec", "daemonSet", "podTemplate", "spec"},
}

func (o *Object) readPod() *Pod {
	for _, path := range podPaths {
		spec := Get(o.Node, path...)
		if Get(spec, "containers") == nil && Get(spec, "initContainers") == nil {
			continue
		}
		meta := Get(o.Node, append(path[:len(path)-1:len(path)-1], "metadata")...)
		p := &Pod{Object: o, Path: strings.Join(path, "."), Meta: meta, Node: spec}
		p.read()
		return p
	}
	return nil
}

func (p *Pod) read() {
	rest := *p.Node // without the containers, which are decoded one by one, for an error in each
	rest.Content = nil
	for i := 0; i+1 < len(p.Node.Content); i += 2 {
		if key := p.Node.Content[i].Value; key != "initContainers" && key != "containers" {
			rest.Content = append(rest.Content, p.Node.Content[i:i+2]...)
		}
	}
	_ = decode(&rest, &p.Spec)
	p.Spec.InitContainers = p.readContainers("initContainers")
	p.Spec.Containers = p.readContainers("containers")
}

func (p *Pod) readContainers(list string) (all []corev1.Container) {
	nodes := Get(p.Node, list)
	if nodes == nil || nodes.Kind != yaml.SequenceNode {
		return nil
	}
	for i, node := range nodes.Content {
		c := &Container{Pod: p, Node: resolved(node), Init: list == "initContainers", Index: i}
		c.Err = decode(c.Node, &c.Container)
		p.Containers, all = append(p.Containers, c), append(all, c.Container)
	}
	return all
}

// ServiceAccount returns the name of the service account with which the Pod logs in at the API server.
func (p *Pod) ServiceAccount() string {
	return cmp.Or(p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount, "default")
}

// Annotations returns the annotations of the Pod, or of the object if onObject.
func (p *Pod) Annotations(onObject bool) map[string]string {
	var annotations map[string]string
	if onObject {
		_ = decode(Get(p.Object.Node, "metadata", "annotations"), &annotations)
	} else {
		_ = decode(Get(p.Meta, "annotations"), &annotations)
	}
	return annotations
}

// Decode reads the object into v, by the names of v's JSON.
func (o *Object) Decode(v any) error { return decode(o.Node, v) }

// decode reads a node into v, by the names of v's JSON.
func decode(node *yaml.Node, v any) error {
	if node == nil {
		return nil
	}
	var value any
	if err := node.Decode(&value); err != nil {
		return err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(encoded, v)
}

// Get returns the value at a path of keys below a mapping, or nil. Aliases are followed.
func Get(node *yaml.Node, path ...string) *yaml.Node {
	for _, key := range path {
		if node = resolved(node); node == nil || node.Kind != yaml.MappingNode {
			return nil
		}
		node = merged(node, key, map[*yaml.Node]bool{})
	}
	return resolved(node)
}

// merged returns the value of a key in a mapping, or in those that it merges with <<. seen are the ones looked at.
func merged(mapping *yaml.Node, key string, seen map[*yaml.Node]bool) *yaml.Node {
	mapping = resolved(mapping)
	if mapping == nil || seen[mapping] {
		return nil
	}
	seen[mapping] = true
	if _, value := Pair(mapping, key); value != nil {
		return value
	}
	_, from := Pair(mapping, "<<")
	all := []*yaml.Node{from}
	if from = resolved(from); from != nil && from.Kind == yaml.SequenceNode {
		all = from.Content
	}
	for _, each := range all {
		if value := merged(each, key, seen); value != nil {
			return value
		}
	}
	return nil
}

// Pair returns the nodes of a key and its value in a mapping, or nil.
func Pair(mapping *yaml.Node, key string) (k, v *yaml.Node) {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

func resolved(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func text(node *yaml.Node) string {
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}
