package lint

import (
	"path"
	"slices"
	"strings"

	"initbox/cmd/command"
	"initbox/internal/setting"
	"initbox/render"
	"initbox/volume/copy"
	"initbox/volume/prepare"
)

// written are the flags, by subcommand, that name files or directories that are written.
var written = map[string][]string{
	"wait-for-dns": {"output"}, "request": {"output"}, "register": {"output"}, "git-clone": {"output", "touch"}, "kube-get": {"env-file", "touch"},
	"render": {"env-file"}, "trust-bundle": {"pem", "jks", "pkcs12", "hash-dir"}, "keystore": {"pem", "jks", "pkcs12", "touch"},
}

// destinations returns the absolute paths that a step writes to.
func destinations(s command.Inspected) (paths []string) {
	add := func(names ...string) {
		for _, name := range names {
			if strings.HasPrefix(name, "/") && !strings.Contains(name, "$(") {
				paths = append(paths, path.Clean(name))
			}
		}
	}
	if s.Flags["help"] != nil || s.Flags["dry-run"] != nil {
		return nil
	}
	for _, flag := range written[s.Name] {
		add(s.Flags[flag]...)
	}
	last := func(at int) {
		if at >= 0 && at < len(s.Args) {
			name, _, _ := strings.Cut(s.Args[at], "#")
			add(name)
		}
	}
	switch s.Name {
	case "merge", "fetch":
		last(len(s.Args) - 1)
	case "kube-get":
		if s.Flags["env-file"] == nil {
			last(len(s.Args) - 1)
		}
	case "git-clone", "generate":
		last(1)
	case "install":
		last(0)
	case "copy":
		for _, arg := range s.Args {
			if pair, err := copy.ParsePair(arg, setting.Settings{}); err == nil {
				add(pair.To)
			}
		}
	case "prepare":
		for _, arg := range s.Args {
			if p, err := prepare.Parse(arg, setting.Settings{}); err == nil && p.Kind != prepare.Absent && !p.IfExists && s.Flags["if-exists"] == nil && s.Flags["absent"] == nil {
				add(p.Paths...)
			}
		}
	case "render":
		for _, arg := range s.Args {
			if source, err := render.ParseSource(arg); err == nil {
				add(source.To)
			}
		}
		for _, text := range s.Flags["inline"] {
			if inline, err := render.ParseInline(text); err == nil {
				add(inline.To)
			}
		}
	}
	return paths
}

// results calls do with each path that is written for another container: one that a later step reads, or the program at
// the end of the chain, may lie anywhere.
func (r *run) results(do func(s command.Inspected, name string)) {
	if r.err != nil || r.foreign() != nil {
		return
	}
	for i, s := range r.steps {
		for _, name := range destinations(s) {
			if !usedBy(r.steps[i+1:], name) && !within(name, "/proc") && !within(name, "/sys") && !within(name, "/dev") {
				do(s, name)
			}
		}
	}
}

// usedBy returns whether later steps name a path, one below it, or one above it.
func usedBy(steps []command.Inspected, name string) bool {
	for _, s := range steps {
		words := slices.Clone(s.Args)
		for _, values := range s.Flags {
			words = append(words, values...)
		}
		for _, word := range words {
			for _, part := range strings.FieldsFunc(word, func(c rune) bool { return strings.ContainsRune(":=#", c) }) {
				part = strings.TrimPrefix(part, "//")
				if strings.HasPrefix(part, "/") && (within(part, name) || within(name, part)) {
					return true
				}
			}
		}
	}
	return false
}

func noVolume(r *run, report report) {
	r.results(func(s command.Inspected, name string) {
		if m, _ := r.mount(name); m == nil && !r.mountsBelow(name) {
			report(r.container, r.node(name), "mount the volume that it is meant for, in volumeMounts", "%s writes %s, which lies in no volume: no other container sees it", s.Name, name)
		}
	})
}

func readOnlyVolume(r *run, report report) {
	if r.err != nil {
		return
	}
	for _, s := range r.steps {
		for _, name := range destinations(s) {
			if m, v := r.mount(name); m != nil && readOnly(m, v) {
				report(r.container, r.node(name), "write to an emptyDir, or remove readOnly", "%s writes %s, and the volume %s is mounted read-only", s.Name, name, m.Name)
			}
		}
	}
}

// unreadVolume reports results in a volume of the Pod that no other container mounts.
func unreadVolume(r *run, report report) {
	r.results(func(s command.Inspected, name string) {
		m, v := r.mount(name)
		if m == nil || v == nil || v.EmptyDir == nil || r.last().Stays != "" {
			return
		}
		for _, c := range r.pod.containers {
			if c != r.container && c.mounts(m.Name) {
				return
			}
		}
		report(r.container, r.node(name), "mount the volume "+m.Name+" in the container that reads it", "%s writes %s to the emptyDir %s, which no other container mounts", s.Name, name, m.Name)
	})
}

// otherVolume reports results where the application has another volume, which hides them.
func otherVolume(r *run, report report) {
	if !r.Init {
		return
	}
	r.results(func(s command.Inspected, name string) {
		mine, _ := r.mount(name)
		if mine == nil {
			return
		}
		for _, c := range r.pod.containers {
			if c.Init || c.mounts(mine.Name) {
				continue
			}
			if m, v := c.mount(name); m != nil && readOnly(m, v) && path.Clean(m.MountPath) == path.Clean(mine.MountPath) {
				report(r.container, r.node(name), "mount the volume "+mine.Name+" there in the container "+c.Name,
					"%s writes %s to the volume %s, and the container %s has the volume %s there, read-only", s.Name, name, mine.Name, c.Name, m.Name)
				return
			}
		}
	})
}

// mountOverProgram reports mounts that hide /bin/initbox, or the program that install has put into a volume.
func mountOverProgram(r *run, report report) {
	program := "/bin/initbox"
	if len(r.Command) > 0 {
		program = r.Command[0]
	}
	if dir := path.Dir(program); !r.own || dir != "/bin" && dir != "/" { // another one is in a volume
		return
	}
	for i, m := range r.VolumeMounts {
		if within(program, m.MountPath) {
			report(r.container, key(r.list("volumeMounts")[i], "mountPath"), "mount the volume elsewhere", "the volume %s, at %s, hides %s, so the container does not start", m.Name, m.MountPath, program)
		}
	}
}

// place is where a file of a container really lies.
type place struct{ volume, path string }

func (c *container) place(name string) (place, bool) {
	m, _ := c.mount(name)
	if m == nil {
		return place{}, false
	}
	return place{m.Name, path.Join("/", m.SubPath, m.SubPathExpr, strings.TrimPrefix(path.Clean(name), path.Clean(m.MountPath)))}, true
}

// stateVolume compares the --state of register with that of the deregister which reads it.
func stateVolume(p *pod, report report) {
	var registered []place
	var paths []string
	states := func(subcommand string, do func(r *run, name string, at place, found bool)) {
		for _, c := range p.containers {
			for _, r := range c.runs {
				for _, s := range r.steps {
					if name := strings.Join(s.Flags["state"], ""); s.Name == subcommand && name != "" {
						at, found := r.place(name)
						do(r, name, at, found)
					}
				}
			}
		}
	}
	states("register", func(r *run, name string, at place, found bool) {
		if !found {
			report(r.container, r.node(name, "--state"), "name a file in an emptyDir", "--state %s lies in no volume: the registration is forgotten when the container restarts, and no hook finds it", name)
		}
		registered, paths = append(registered, at), append(paths, name)
	})
	states("deregister", func(r *run, name string, at place, found bool) {
		if len(registered) > 0 && (!found || !slices.Contains(registered, at)) {
			report(r.container, r.node(name, "--state"), "mount the volume of the --state in this container", "deregister finds nothing at %s: register writes %s, in another volume or directory", name, strings.Join(paths, ", "))
		}
	})
}

// rootPrepare reports root where the kubelet gives the volume to a group.
func rootPrepare(r *run, report report) {
	if r.err != nil || len(r.steps) != 1 || r.steps[0].Name != "prepare" || r.user() != 0 || r.foreign() != nil {
		return
	}
	s := r.steps[0]
	group := -1
	for _, arg := range s.Args {
		m, v := r.mount(strings.SplitN(arg, "#", 2)[0])
		flags := setting.Settings{}
		for name, values := range s.Flags {
			if slices.ContainsFunc(prepare.Settings, func(known setting.Setting) bool { return known.Name == name }) {
				flags[name] = values
			}
		}
		p, err := prepare.Parse(arg, flags)
		if err != nil || m == nil || v == nil || m.SubPath != "" || v.EmptyDir == nil && v.PersistentVolumeClaim == nil && v.Ephemeral == nil ||
			path.Clean(p.Path) != path.Clean(m.MountPath) || !ownerOnly(arg, s) || p.Owner.UID <= 0 && p.Owner.GID <= 0 {
			return
		}
		group = max(p.Owner.GID, group)
		if p.Owner.GID < 0 {
			group = max(group, p.Owner.UID)
		}
	}
	if group > 0 {
		report(r.container, r.node("prepare"), "set fsGroup in the Pod's securityContext, with fsGroupChangePolicy: OnRootMismatch, and remove the container",
			"it runs as root only to give volumes to a group, which fsGroup: %d does for volumes of these kinds", group)
	}
}

// ownerOnly returns whether prepare only sets owners.
func ownerOnly(arg string, s command.Inspected) bool {
	allowed := []string{"owner", "recursive", "timeout", "log-level", "log-format"}
	for name := range s.Flags {
		if !slices.Contains(allowed, name) {
			return false
		}
	}
	_, settings, _ := strings.Cut(arg, "#")
	for part := range strings.SplitSeq(settings, "&") {
		if name, _, _ := strings.Cut(part, "="); name != "" && !slices.Contains(allowed, name) {
			return false
		}
	}
	return true
}

// user returns the user of the container, or -1 for that of the image.
func (c *container) user() int64 {
	switch {
	case c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil:
		return *c.SecurityContext.RunAsUser
	case c.pod.Spec.SecurityContext != nil && c.pod.Spec.SecurityContext.RunAsUser != nil:
		return *c.pod.Spec.SecurityContext.RunAsUser
	}
	return -1
}
