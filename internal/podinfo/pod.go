package podinfo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"initbox/internal/readfile"
)

// DefaultDir is where the Kubernetes documentation mounts a downward API volume.
const DefaultDir = "/etc/podinfo"

// namespaceFile is mounted beside every service account's token.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Pod is what the downward API provides about a Pod. Fields that it does not provide are empty.
type Pod struct {
	Name, Namespace, UID string
	Node, ServiceAccount string
	IPs, HostIPs         []netip.Addr // the first is the primary one
	Labels, Annotations  map[string]string
	Limits, Requests     Resources
}

// Resources are those of a container; 0 means unknown.
type Resources struct {
	CPU    float64 // cores
	Memory int64   // bytes
}

// A Field is a property of a Pod, and where the downward API provides it.
type Field struct {
	Name     string // as in .Pod.Name
	Variable string // of the environment, or ""
	File     string // in the directory of the downward API volume, or ""
	Path     string // of the fieldRef or resourceFieldRef
}

// Fields lists them all. The files are named as in the Kubernetes documentation.
var Fields = []Field{
	{"Name", "POD_NAME", "name", "metadata.name"},
	{"Namespace", "POD_NAMESPACE", "namespace", "metadata.namespace"},
	{"UID", "POD_UID", "uid", "metadata.uid"},
	{"Node", "NODE_NAME", "", "spec.nodeName"},
	{"ServiceAccount", "POD_SERVICE_ACCOUNT", "", "spec.serviceAccountName"},
	{"IPs", "POD_IPS", "", "status.podIPs"},
	{"HostIPs", "HOST_IPS", "", "status.hostIPs"},
	{"Labels", "", "labels", "metadata.labels"},
	{"Annotations", "", "annotations", "metadata.annotations"},
	{"Limits.cpu", "CPU_LIMIT", "cpu_limit", "limits.cpu"},
	{"Limits.memory", "MEMORY_LIMIT", "mem_limit", "limits.memory"},
	{"Requests.cpu", "CPU_REQUEST", "cpu_request", "requests.cpu"},
	{"Requests.memory", "MEMORY_REQUEST", "mem_request", "requests.memory"},
}

// HowToTell returns what to change in the Pod's manifest to provide the field.
func (f Field) HowToTell() string {
	if f.Variable != "" {
		return fmt.Sprintf("set $%s in the container's env from the %s %s", f.Variable, f.ref(), f.Path)
	}
	return fmt.Sprintf("mount a downward API volume with %s as the file %s", f.Path, f.File)
}

// ref is the member of a manifest that refers to the field.
func (f Field) ref() string {
	if strings.Contains(f.Name, ".") {
		return "resourceFieldRef"
	}
	return "fieldRef"
}

// singular are the variables that have one address of several.
var singular = map[string]string{"IPs": "POD_IP", "HostIPs": "HOST_IP"}

// Source says where the downward API provides its data.
type Source struct {
	Dir       string            // where its volume is mounted; it may be missing
	Variables map[string]string // by a field's name as in [Fields], the variable that replaces its default one
}

// Stanza returns the lines of a container's manifest that provide the field called name, as
// in [Fields], where s reads it, for users to copy.
func (s Source) Stanza(name string) string {
	i := slices.IndexFunc(Fields, func(f Field) bool { return f.Name == name })
	f := Fields[i]
	key := "fieldPath"
	if f.ref() == "resourceFieldRef" {
		key = "resource"
	}
	variable, path := f.Variable, f.Path
	if one, found := singular[f.Name]; found {
		variable, path = one, strings.TrimSuffix(path, "s")
	}
	if own, found := s.Variables[name]; found {
		variable = own
	}
	if variable == "" {
		return fmt.Sprintf("volumeMounts:\n- {name: podinfo, mountPath: %s}\nand, in the Pod:\nvolumes:\n- name: podinfo\n  downwardAPI:\n    items:\n    - path: %s\n      %s: {%s: %s}", cmp.Or(s.Dir, DefaultDir), f.File, f.ref(), key, f.Path)
	}
	return fmt.Sprintf("env:\n- name: %s\n  valueFrom:\n    %s: {%s: %s}", variable, f.ref(), key, path)
}

// ParseVariable reads NAME=VARIABLE, for [Source]. The name is a field's in any
// case and with or without dashes, as in host-ip.
func ParseVariable(text string) (field, variable string, err error) {
	name, variable, _ := strings.Cut(text, "=")
	plain := strings.ToLower(strings.ReplaceAll(name, "-", ""))
	var known []string
	for _, f := range Fields {
		field := strings.ToLower(f.Name)
		if variable != "" && (plain == field || singular[f.Name] != "" && plain == strings.TrimSuffix(field, "s")) {
			return f.Name, variable, nil
		}
		if singular[f.Name] != "" {
			known = append(known, strings.TrimSuffix(field, "s"))
		}
		known = append(known, field)
	}
	return "", "", fmt.Errorf("want NAME=VARIABLE, the name one of %s", strings.Join(known, ", "))
}

// Read returns what environment variables and the downward API volume provide; a variable wins. Without them the name
// is the host's, the namespace that of the service account, and the limits those that cgroups set for this container:
// an init container's, not the application's.
func (s Source) Read() (Pod, error) {
	p := Pod{Name: Name()}
	// All files are of one moment: the kubelet writes a new directory when anything
	// changes, and then changes the link to it.
	if data, err := filepath.EvalSymlinks(filepath.Join(s.Dir, "..data")); s.Dir != "" && err == nil {
		s.Dir = data
	}
	for _, f := range Fields {
		text, from, err := s.read(f)
		if err != nil {
			return p, err
		}
		if text == "" {
			continue
		}
		if err := p.set(f.Name, text); err != nil {
			return p, fmt.Errorf("%s: %w", from, err)
		}
	}
	if p.Namespace == "" {
		p.Namespace = namespace()
	}
	if p.Limits.CPU == 0 {
		p.Limits.CPU = cgroupCPU(cgroupRoot)
	}
	if p.Limits.Memory == 0 {
		p.Limits.Memory = cgroupMemory(cgroupRoot)
	}
	return p, nil
}

// read returns the text of the field, and its source.
func (s Source) read(f Field) (text, from string, err error) {
	variables := []string{f.Variable, singular[f.Name]}
	if own, found := s.Variables[f.Name]; found {
		variables = []string{own}
	}
	for _, variable := range variables {
		if variable == "" {
			continue
		}
		if text := os.Getenv(variable); text != "" {
			return text, "$" + variable, nil
		}
	}
	if f.File == "" || s.Dir == "" {
		return "", "", nil
	}
	name := filepath.Join(s.Dir, f.File)
	data, err := readfile.All(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	return string(data), name, err
}

func (p *Pod) set(field, text string) (err error) {
	line := strings.TrimSpace(text)
	switch field {
	case "Name":
		p.Name = line
	case "Namespace":
		p.Namespace = line
	case "UID":
		p.UID = line
	case "Node":
		p.Node = line
	case "ServiceAccount":
		p.ServiceAccount = line
	case "IPs":
		p.IPs, err = parseAddrs(line)
	case "HostIPs":
		p.HostIPs, err = parseAddrs(line)
	case "Labels":
		p.Labels, err = parsePairs(text)
	case "Annotations":
		p.Annotations, err = parsePairs(text)
	case "Limits.cpu":
		p.Limits.CPU, err = parseQuantity(line)
	case "Limits.memory":
		p.Limits.Memory, err = parseBytes(line)
	case "Requests.cpu":
		p.Requests.CPU, err = parseQuantity(line)
	case "Requests.memory":
		p.Requests.Memory, err = parseBytes(line)
	}
	return err
}

// parseAddrs reads status.podIPs, which the kubelet joins with commas.
func parseAddrs(text string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, word := range strings.Split(text, ",") {
		addr, err := netip.ParseAddr(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("want addresses, separated by commas, got %q", word)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}

// parsePairs reads metadata.labels and metadata.annotations as the kubelet
// writes them into a file: key="value" in lines, the value quoted as in Go.
func parsePairs(text string) (map[string]string, error) {
	pairs := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		key, quoted, found := strings.Cut(line, "=")
		value, err := strconv.Unquote(quoted)
		if !found || err != nil {
			return nil, fmt.Errorf(`line %d is not in the form of the downward API, key="value"`, number)
		}
		pairs[key] = value
	}
	return pairs, nil
}

func parseBytes(text string) (int64, error) {
	n, err := parseQuantity(text)
	if err == nil && n > math.MaxInt64/2 {
		err = fmt.Errorf("%s is more than any memory", text)
	}
	return int64(n), err
}

// suffixes of Kubernetes' quantities.
var suffixes = map[string]float64{
	"": 1, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60,
}

// parseQuantity returns the value of a Kubernetes quantity: 500m is 0.5, 1Gi is 1073741824.
func parseQuantity(text string) (float64, error) {
	number := strings.TrimRight(text, "numkKMGTPEi")
	n, err := strconv.ParseFloat(number, 64)
	factor, known := suffixes[text[len(number):]]
	if err != nil || !known || n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, fmt.Errorf("want a quantity such as 500m or 1Gi, got %q", text)
	}
	return n * factor, nil
}
