package render

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"initbox/internal/podinfo"
	"initbox/internal/readfile"
	"initbox/internal/secret"
	"initbox/render/engine"
	"initbox/render/values"
)

// inputs is the data that templates see, and the same data with other secrets: a result that
// is the same for both contains no secret.
type inputs struct {
	values    *values.Values
	env       map[string]any
	envFiles  map[string]string // by variable that is not set, the file that may hold its value
	wanted    sync.Map          // those that a template may read
	late      atomic.Bool       // one is wanted by a template that was executed without it
	envSecret []string          // the secret values of env
	envFailed map[string]string // by variable, why its file cannot be read
	pod       map[string]any
	files     *files // nil for none
	options   Options
}

func readInputs(ctx context.Context, o Options) (*inputs, error) {
	v, err := values.Load(ctx, o.Values, values.Options{Stdin: o.Stdin, Fetch: o.Fetch})
	if err != nil {
		return nil, err
	}
	pod, err := o.Pod.Read()
	if err != nil {
		return nil, fmt.Errorf("read the downward API: %w", err)
	}
	in := &inputs{options: o, values: v, pod: podMap(pod), env: map[string]any{}, envFiles: map[string]string{}, envFailed: map[string]string{}}
	in.readEnv(o)
	if o.Files != "" {
		if in.files, err = openFiles(o.Files); err != nil {
			return nil, err
		}
	}
	return in, nil
}

// fileSuffix ends the name of a variable that names a file with the value of
// another variable, as in the images of databases: DB_PASSWORD_FILE.
const fileSuffix = "_FILE"

// readEnv fills in.env with the variables that templates may see, and in.envFiles with
// variables that are not set, but whose name with _FILE is.
func (in *inputs) readEnv(o Options) {
	one := func(patterns []string, name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok })
	}
	allowed := func(name string) bool { return o.EnvAllow == nil || one(o.EnvAllow, name) }
	for _, pair := range o.Environ {
		name, value, _ := strings.Cut(pair, "=")
		if allowed(name) {
			in.env[name] = value
			if one(o.SecretEnv, name) && value != "" {
				in.envSecret = append(in.envSecret, value)
			}
		}
		if short, found := strings.CutSuffix(name, fileSuffix); found && short != "" && value != "" && allowed(short) {
			in.envFiles[short] = value
		}
	}
	for name := range in.env {
		delete(in.envFiles, name)
	}
}

// mayWant returns whether text contains the name of a variable whose value may be in a file. Names such as
// SSL_CERT_FILE end in _FILE too, and no template reads SSL_CERT, so a file is read only if a template may need it.
func (in *inputs) mayWant(text []byte) bool {
	wants := false
	for name := range in.envFiles {
		if bytes.Contains(text, []byte(name)) {
			in.wanted.Store(name, true)
			wants = true
		}
	}
	return wants
}

// wantLate finds the variables that show only while a template is executed: in a text that is given to tpl, or under a
// name that the template computes.
func (in *inputs) wantLate(text string) {
	if in.mayWant([]byte(text)) {
		in.late.Store(true)
	}
}

// readEnvFiles reads the files that are needed. Their content, without the last line break,
// is the value of the variable, and secret.
func (in *inputs) readEnvFiles() {
	in.wanted.Range(func(key, _ any) bool {
		name := key.(string)
		file, found := in.envFiles[name]
		if !found {
			return true
		}
		delete(in.envFiles, name)
		data, err := readfile.All(file)
		if err != nil {
			in.envFailed[name] = fmt.Sprintf("$%s%s: %v", name, fileSuffix, err)
			return true
		}
		value := strings.TrimRight(string(data), "\r\n")
		in.env[name] = value
		in.envSecret = append(in.envSecret, value)
		return true
	})
}

// redactor removes the secrets from text.
func (in *inputs) redactor() *secret.Redactor {
	return secret.NewRedactor(slices.Concat(in.values.Secrets(), in.envSecret, in.files.secrets())...)
}

// secret returns whether any input is secret.
func (in *inputs) secret() bool {
	return len(in.envSecret) > 0 || in.files != nil && in.files.secret || len(in.values.Secrets()) > 0
}

// data returns the data that templates see.
func (in *inputs) data(o Options) *engine.Data {
	data := &engine.Data{
		Values: in.values.Map(), Tree: in.values.Tree(false), Env: in.env, Pod: in.pod,
		Resolve: o.Resolve, ResolveSRV: o.ResolveSRV, Text: in.wantLate,
	}
	if in.files != nil {
		data.Files = view{files: in.files}
	}
	return data
}

// shadow returns the data that templates see, with other secrets.
func (in *inputs) shadow(o Options) *engine.Data {
	data := in.data(o)
	data.Values, data.Tree = in.values.Shadow(), in.values.Tree(true)
	if in.files != nil {
		data.Files = view{files: in.files, shaded: true}
	}
	data.Env = maps.Clone(in.env)
	for name, value := range data.Env {
		if slices.Contains(in.envSecret, value.(string)) {
			data.Env[name] = values.Shade(value.(string))
		}
	}
	return data
}

// podMap is .Pod. What the downward API does not provide is missing in it.
func podMap(p podinfo.Pod) map[string]any {
	m := map[string]any{}
	for name, value := range map[string]string{"Name": p.Name, "Namespace": p.Namespace, "UID": p.UID, "Node": p.Node, "ServiceAccount": p.ServiceAccount} {
		if value != "" {
			m[name] = value
		}
	}
	addresses(m, "IP", p.IPs)
	addresses(m, "HostIP", p.HostIPs)
	if p.Labels != nil {
		m["Labels"] = stringMap(p.Labels)
	}
	if p.Annotations != nil {
		m["Annotations"] = stringMap(p.Annotations)
	}
	resources(m, "Limits", p.Limits)
	resources(m, "Requests", p.Requests)
	if n, err := podinfo.Ordinal(p.Name); err == nil {
		m["Ordinal"] = n
	}
	return m
}

// addresses sets IP to the primary address, IPs to all, and IPv4 and IPv6 to the first of each family.
func addresses(m map[string]any, key string, addrs []netip.Addr) {
	var all []any
	for _, addr := range addrs {
		family := "v6"
		if addr.Is4() {
			family = "v4"
		}
		for _, k := range []string{key, key + family} {
			if m[k] == nil {
				m[k] = addr.String()
			}
		}
		all = append(all, addr.String())
	}
	if all != nil {
		m[key+"s"] = all
	}
}

func resources(m map[string]any, key string, r podinfo.Resources) {
	of := map[string]any{}
	if r.CPU > 0 {
		of["cpu"] = r.CPU
	}
	if r.Memory > 0 {
		of["memory"] = r.Memory
	}
	m[key] = of
}

func stringMap(from map[string]string) map[string]any {
	to := make(map[string]any, len(from))
	for k, v := range from {
		to[k] = v
	}
	return to
}
