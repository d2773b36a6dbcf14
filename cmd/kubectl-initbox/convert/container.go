package convert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	initbox "initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/cmd/kubectl-initbox/program"
	"initbox/internal/failure"
	"initbox/internal/lazy"
)

// Change is the result for a container.
type Change struct {
	*Result
	Initbox string   // the image of initbox
	Inside  bool     // the container keeps its image, and runs the program that an install container has copied
	Words   []string // its command line: command if Inside, else args
	// User is the runAsUser that the container gets: that of the image it had. Nil if it stays as it is.
	User  *int64
	Needs bool // it needs permissions at the API server
	// Hostname says that the container gets the variable HOSTNAME, with the name of the Pod, which was its host name.
	Hostname bool
	// Tools is the volume with the program, mounted at the directory of this name, if Inside.
	Tools string
}

// installer returns the name of the container that copies the program.
func (c *Change) installer() string {
	return strings.Replace(c.Tools, toolsVolume, installContainer, 1)
}

// toolsVolume is the volume that install copies the program to, and the name of the container that does.
const (
	toolsVolume      = "initbox-tools"
	installContainer = "initbox-install"
)

// Candidates returns the init containers of the Pod that convert looks at: those that end and do not run initbox.
func Candidates(p *manifest.Pod) (candidates []*manifest.Container) {
	if p == nil {
		return nil
	}
	for _, c := range p.Containers {
		if c.Init && !c.Sidecar() && !program.Runs(c, nil) {
			candidates = append(candidates, c)
		}
	}
	return candidates
}

// Container returns the conversion of an init container into one that runs image. Among the objects are the ConfigMaps
// that may have its script.
func Container(c *manifest.Container, image string, objects []*manifest.Object) *Change {
	known := withDirectory(withHostname(withEnvFrom(c, objects)))
	result, err := read(known, objects)
	change := &Change{Result: &result}
	if err == nil {
		result.Container = known
		err = change.fill(image)
		change.Hostname = len(known.Env) > 0 && known.Env[len(known.Env)-1].Name == hostname && !hasVariable(c, hostname) && change.reads(hostname)
	}
	result.Container = c
	if err != nil {
		return &Change{Result: &Result{Container: c, Verdict: Kept, Why: err.Error()}}
	}
	result.Verdict = Replaced
	for _, s := range result.Steps {
		for _, d := range s.Differs {
			if !slices.Contains(result.Differs, d) {
				result.Differs = append(result.Differs, d)
			}
		}
	}
	if len(result.Differs) > 0 {
		result.Verdict = Different
	}
	if result.Why == "" {
		result.Why = reasons(result.Steps)
	}
	return change
}

// reasons joins why each step does what was done before.
func reasons(steps []Step) string {
	var all []string
	for _, s := range steps {
		if s.Why != "" && !slices.Contains(all, s.Why) {
			all = append(all, s.Why)
		}
	}
	return strings.Join(all, "; ")
}

// read finds out what the container does.
func read(c *manifest.Container, objects []*manifest.Object) (Result, error) {
	if c.Err != nil {
		return Result{}, fmt.Errorf("the API server would refuse it: %w", c.Err)
	}
	if pod := c.Pod.Spec.OS; pod != nil && pod.Name != corev1.Linux {
		return Result{}, fmt.Errorf("it runs on %s", failure.Printable(string(pod.Name)))
	}
	line := slices.Concat(c.Command, c.Args)
	named := len(c.Command) > 0 || len(line) > 0 && official(c.Image) // an image without an entrypoint runs its arguments
	if named && slices.Contains(shells, path.Base(line[0])) {
		return readShell(path.Base(line[0]), line[1:], c, objects)
	}
	if named && path.IsAbs(line[0]) {
		if text, where := mountedScript(line[0], c, objects); where != "" {
			first, _, _ := strings.Cut(text, "\n")
			words := strings.Fields(strings.TrimPrefix(first, "#!"))
			if len(words) > 0 && path.Base(words[0]) == "env" {
				words = words[1:]
			}
			if !strings.HasPrefix(first, "#!") || len(words) == 0 || !slices.Contains(shells, path.Base(words[0])) {
				return Result{}, fmt.Errorf("it runs the script %s of %s, which is not one of a shell", failure.Printable(line[0]), where)
			}
			return readShell(path.Base(words[0]), slices.Concat(words[1:], line), c, objects)
		}
	}
	all, err := words(line, c)
	if err != nil {
		return Result{}, err
	}
	if !named {
		known, found := toolOf(repository(c.Image))
		if !found {
			return Result{}, fmt.Errorf("it runs the program of its image, %s", failure.Printable(c.Image))
		}
		steps, err := known(all, c)
		return Result{Steps: steps}, err
	}
	if known, found := toolOf(path.Base(line[0])); found {
		steps, err := known(all[1:], c)
		return Result{Steps: steps}, err
	}
	result, err := readCommand(all, c)
	if err == nil && len(result.Steps) == 1 && result.Steps[0].Subcommand == "" {
		err = fmt.Errorf("it runs its own program, %s", failure.Printable(line[0]))
	}
	return result, err
}

// shells are the shells whose scripts are read. csh, fish and rc have other grammars.
var shells = []string{"sh", "bash", "ash", "dash"}

// readShell reads the command line of a shell. Its options become the command set in front of the script.
func readShell(program string, line []string, c *manifest.Container, objects []*manifest.Object) (Result, error) {
	options, script := "", false
	for len(line) > 0 && len(line[0]) > 1 && strings.ContainsAny(line[0][:1], "-+") && line[0] != "--" {
		flag := line[0]
		line = line[1:]
		switch {
		case slices.Contains(ignoredOptions, flag):
			continue
		case strings.HasPrefix(flag, "--"):
			return Result{}, fmt.Errorf("%s: an option of %s that convert does not know", failure.Printable(flag), program)
		case flag[0] == '-' && strings.Contains(flag, "c"):
			script = true
		}
		flag = flag[:1] + strings.NewReplacer("c", "", "l", "").Replace(flag[1:]) // -l reads /etc/profile
		if strings.HasSuffix(flag, "o") && len(line) > 0 {                        // set -o pipefail
			flag += " " + line[0]
			line = line[1:]
		}
		if len(flag) > 1 {
			options += "set " + flag + "; "
		}
	}
	if len(line) > 0 && line[0] == "--" {
		line = line[1:]
	}
	switch {
	case len(line) == 0:
		return Result{}, fmt.Errorf("%s reads its script from its input", program)
	case script:
		return readScript(program, options+line[0], line[1:], c)
	}
	text, where := mountedScript(line[0], c, objects)
	if where == "" {
		return Result{}, fmt.Errorf("it runs the script %s, which is not in the manifest", failure.Printable(line[0]))
	}
	// The kubelet replaces no variables in it, as it does in args: $$ is $ there.
	result, err := readScript(program, options+strings.ReplaceAll(text, "$", "$$"), line[1:], c)
	result.Differs = append(result.Differs, "the script of "+where+" is no longer read: a change of it changes nothing")
	return result, err
}

// mountedScript returns the text of a file that is mounted from a ConfigMap among the objects, and the name of that; ""
// if there is none.
func mountedScript(file string, c *manifest.Container, objects []*manifest.Object) (text, where string) {
	file = path.Clean(file)
	mounts := slices.SortedFunc(slices.Values(c.VolumeMounts), func(a, b corev1.VolumeMount) int { return len(b.MountPath) - len(a.MountPath) })
	i := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool {
		return strings.HasPrefix(file+"/", path.Clean(m.MountPath)+"/")
	})
	if i < 0 || mounts[i].SubPathExpr != "" {
		return "", ""
	}
	key := strings.TrimPrefix(strings.TrimPrefix(file, path.Clean(mounts[i].MountPath)), "/")
	key = strings.TrimSuffix(mounts[i].SubPath+"/"+key, "/")
	key = strings.TrimPrefix(key, "/")
	for _, v := range c.Pod.Spec.Volumes {
		if v.Name != mounts[i].Name || v.ConfigMap == nil {
			continue
		}
		if len(v.ConfigMap.Items) > 0 {
			n := slices.IndexFunc(v.ConfigMap.Items, func(item corev1.KeyToPath) bool { return item.Path == key })
			if n < 0 {
				return "", ""
			}
			key = v.ConfigMap.Items[n].Key
		}
		for _, o := range objects {
			if o.Kind == "ConfigMap" && o.APIVersion == "v1" && o.Name == v.ConfigMap.Name && o.Namespace == c.Pod.Object.Namespace {
				if data := manifest.Get(o.Node, "data", key); data != nil {
					return data.Value, o.String()
				}
			}
		}
	}
	return "", ""
}

// withEnvFrom returns a copy of the container whose envFrom is written as env, if every ConfigMap and Secret of it is
// among the objects, so that it is known which variables are set. The kubelet reads envFrom first, and leaves out what
// is not the name of a variable:
// https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables
func withEnvFrom(c *manifest.Container, objects []*manifest.Object) *manifest.Container {
	var env []corev1.EnvVar
	for _, source := range c.EnvFrom {
		kind, name := "Secret", ""
		if source.ConfigMapRef != nil {
			kind, name = "ConfigMap", source.ConfigMapRef.Name
		} else if source.SecretRef != nil {
			name = source.SecretRef.Name
		}
		i := slices.IndexFunc(objects, func(o *manifest.Object) bool {
			return o.Kind == kind && o.APIVersion == "v1" && o.Name == name && o.Namespace == c.Pod.Object.Namespace
		})
		if i < 0 {
			return c
		}
		var data struct {
			Data       map[string]any `yaml:"data"`
			StringData map[string]any `yaml:"stringData"`
		}
		if err := objects[i].Node.Decode(&data); err != nil {
			return c
		}
		if data.Data == nil {
			data.Data = map[string]any{}
		}
		if kind == "Secret" {
			maps.Copy(data.Data, data.StringData)
		}
		for _, key := range slices.Sorted(maps.Keys(data.Data)) {
			variable := corev1.EnvVar{Name: source.Prefix + key, ValueFrom: &corev1.EnvVarSource{}}
			if !identifier().MatchString(variable.Name) {
				continue
			}
			reference := corev1.LocalObjectReference{Name: name}
			if kind == "Secret" {
				variable.ValueFrom.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: reference, Key: key}
			} else {
				variable.ValueFrom.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: reference, Key: key}
			}
			env = append(env, variable)
		}
	}
	known := *c
	known.Env, known.EnvFrom = append(env, c.Env...), nil
	return &known
}

// hostname is the variable that the container runtime sets to the host name, but that args cannot name.
const hostname = "HOSTNAME"

// withHostname returns a copy of the container with the variable HOSTNAME, which the container runtime sets to the name
// of the Pod, unless the Pod has another host name.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-hostname-and-subdomain-fields
func withHostname(c *manifest.Container) *manifest.Container {
	spec := &c.Pod.Spec
	fqdn := spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN
	uses := func(text string) bool { return strings.Contains(text, "$("+hostname+")") } // which the kubelet leaves alone
	if spec.HostNetwork || spec.Hostname != "" || fqdn || len(c.Pod.Object.Name) > 63 || len(c.EnvFrom) > 0 || hasVariable(c, hostname) ||
		slices.ContainsFunc(slices.Concat(c.Command, c.Args), uses) {
		return c
	}
	known := *c
	known.Env = append(slices.Clone(c.Env), corev1.EnvVar{Name: hostname, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	return &known
}

// withDirectory returns a copy of the container with the working directory of its image, if that is known.
func withDirectory(c *manifest.Container) *manifest.Container {
	known := *c
	if c.WorkingDir == "" && official(c.Image) { // none of which has a WORKDIR
		known.WorkingDir = "/"
	}
	return &known
}

// hasVariable reports whether the container sets a variable.
func hasVariable(c *manifest.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == name })
}

// reads reports whether the new command line names a variable.
func (c *Change) reads(name string) bool {
	return slices.ContainsFunc(c.Words, func(w string) bool {
		return strings.Contains(w, "$("+name+")") || strings.Contains(w, "${env:"+name+"}") || strings.Contains(w, ".Env."+name)
	})
}

var identifier = lazy.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ignoredOptions are options of shells that change nothing for a script of sh -c.
var ignoredOptions = []string{"--norc", "--noprofile", "--login", "--posix"}

// fill sets what the container becomes, and checks it with the program's own parser.
func (c *Change) fill(image string) (err error) {
	if c.Words, err = chain(c.Steps); err != nil {
		return err
	}
	if err := c.accepted(c.Words); err != nil {
		return err
	}
	c.place(image)
	if c.User != nil && nonRoot(c.Container) {
		return fmt.Errorf("its image %s runs as root, which runAsNonRoot forbids", failure.Printable(c.Container.Image))
	}
	return nil
}

// nonRoot reports whether the kubelet would refuse a container that runs as root.
func nonRoot(c *manifest.Container) bool {
	if own := c.SecurityContext; own != nil && own.RunAsNonRoot != nil {
		return *own.RunAsNonRoot
	}
	all := c.Pod.Spec.SecurityContext
	return all != nil && all.RunAsNonRoot != nil && *all.RunAsNonRoot
}

// place decides in which image the steps run, and as which user.
func (c *Change) place(image string) {
	c.Initbox = image
	c.Inside = hides(c.Container) || slices.ContainsFunc(c.Steps, func(s Step) bool { return s.Inside })
	if !c.Inside && slices.ContainsFunc(c.Steps, touchesFiles) {
		c.Inside, c.User = keepUser(c.Container)
	}
	if c.Inside {
		c.Tools = freeName(c.Container.Pod)
		c.Words = append([]string{"/" + c.Tools + "/initbox"}, c.Words...)
	}
}

// accepted returns the error of the program, if it refuses the command line.
func (c *Change) accepted(line []string) error {
	container := *c.Container
	container.Command, container.Args = []string{"/bin/initbox"}, line
	steps, err := initbox.Inspect(program.Words(&container), program.Environment(&container))
	if err != nil {
		return fmt.Errorf("initbox would refuse what it becomes: %w", err)
	}
	need, name := program.Memory(steps)
	if limit, found := c.Container.Resources.Limits[corev1.ResourceMemory]; found && limit.Value() < need<<20 {
		return fmt.Errorf("its memory limit of %s is less than the %d MiB that %s needs", limit.String(), need, name)
	}
	for _, s := range steps {
		if len(s.Needs) > 0 {
			c.Needs = true
		}
	}
	return nil
}

// chain returns the command line of the steps.
func chain(steps []Step) (line []string, err error) {
	for i, s := range steps {
		if i > 0 {
			line = append(line, "--")
		}
		if s.Subcommand == "" {
			if i < len(steps)-1 || !s.Inside || len(s.Args) == 0 || !slices.ContainsFunc(steps, waits) {
				return nil, fmt.Errorf("it runs its own program, %s", failure.Printable(strings.Join(s.Args[:min(1, len(s.Args))], "")))
			}
			line = append(line, s.Args...)
			continue
		}
		line = append(line, s.words()...)
	}
	if len(line) == 0 {
		return nil, errors.New("there is nothing in it for initbox to do")
	}
	return line, nil
}

// waits reports whether the step waits for a service. That is worth an install container in front of a program that
// stays; a mkdir is not.
func waits(s Step) bool { return s.Subcommand == "wait-for-service" || s.Subcommand == "wait-for-dns" }

// words returns the step as it is typed.
func (s Step) words() []string {
	line := append([]string{s.Subcommand}, s.Args...)
	for _, f := range s.Flags {
		switch {
		case f.Value == "":
			line = append(line, "--"+f.Name)
		case f.Value[0] == '-':
			line = append(line, "--"+f.Name+"="+f.Value)
		default:
			line = append(line, "--"+f.Name, f.Value)
		}
	}
	return line
}

// touchesFiles reports whether the user of the container matters to the step.
func touchesFiles(s Step) bool {
	switch s.Subcommand {
	case "sleep", "wait-for-dns":
		return false
	case "wait-for-service":
		local := func(text string) bool {
			return strings.HasPrefix(text, "file:") || strings.Contains(text, "unix") || strings.Contains(text, "-file") || strings.Contains(text, "${file:")
		}
		return s.Writes || slices.ContainsFunc(s.Args, local) || slices.ContainsFunc(s.Flags, func(f Flag) bool { return local("-" + f.Name) })
	}
	return true
}

// baseImages are official images whose user is root and which have no entrypoint, so that their arguments are a command
// (https://github.com/docker-library/official-images: neither USER nor ENTRYPOINT in their Dockerfiles).
var baseImages = map[string]bool{
	"busybox": true, "alpine": true, "debian": true, "ubuntu": true, "fedora": true, "centos": true,
	"rockylinux": true, "almalinux": true, "amazonlinux": true, "buildpack-deps": true,
}

// official reports whether the image is one of Docker's official images, or a mirror's copy of it.
func official(image string) bool {
	name, _, _ := strings.Cut(image, "@")
	dir, last := path.Split(name)
	last, _, _ = strings.Cut(last, ":")
	dir = strings.TrimSuffix(dir, "/")
	return baseImages[last] && (dir == "" || dir == "docker.io" || dir == "library" || strings.HasSuffix(dir, "/library"))
}

// repository returns the last part of the path of an image, without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}

// keepUser returns how the files that the container writes keep their owner: with runAsUser, or inside of the image it
// has. With a user that the manifest sets, the image decides on the group, by its /etc/passwd.
func keepUser(c *manifest.Container) (inside bool, user *int64) {
	var uid, gid *int64
	if all := c.Pod.Spec.SecurityContext; all != nil {
		uid, gid = all.RunAsUser, all.RunAsGroup
	}
	if own := c.SecurityContext; own != nil {
		uid, gid = cmp.Or(own.RunAsUser, uid), cmp.Or(own.RunAsGroup, gid)
	}
	switch root := int64(0); {
	case uid != nil && (*uid == 0 || gid != nil):
		return false, nil
	case uid != nil:
		return !official(c.Image) || !unknownUser(c.Image, *uid), nil
	case official(c.Image):
		return false, &root
	}
	return true, nil
}

// unknownUser reports whether an official image does not have the user in its /etc/passwd, so that its group is 0: they
// have system users, a user 65534, guest (405, alpine) and a first user (1000, ubuntu).
func unknownUser(image string, uid int64) bool {
	switch base := repository(image); {
	case uid > 1000:
		return uid != 65534
	case uid == 1000:
		return base != "ubuntu"
	case uid >= 200:
		return uid != 405 && slices.Contains([]string{"busybox", "alpine", "debian"}, base)
	}
	return false
}

// hides reports whether something is mounted where the program is, or one of its links.
func hides(c *manifest.Container) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		dir := path.Clean(m.MountPath)
		return dir == "/bin" || dir == "/bin/initbox" || slices.Contains(initbox.Subcommands(), strings.TrimPrefix(dir, "/"))
	})
}

// freeName returns a name for the volume, and the directory, that the Pod does not have yet.
func freeName(p *manifest.Pod) string {
	name := toolsVolume
	for n := 2; ; n++ {
		taken := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		for _, c := range p.Containers {
			taken = taken || c.Name == (&Change{Tools: name}).installer() || slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return m.Name == name || strings.HasPrefix(path.Clean(m.MountPath)+"/", "/"+name+"/")
			})
		}
		if !taken {
			return name
		}
		name = fmt.Sprintf("%s-%d", toolsVolume, n)
	}
}
