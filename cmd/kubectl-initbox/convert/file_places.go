package convert

import (
	"cmp"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

// location is a path that a call names.
type location struct {
	word  shell.Word
	text  string // as in args, with what is special in SRC, DST and PATH escaped; without a slash at its end
	value string // clean and absolute; what is not known of it is a null byte
	slash bool   // it ends in a slash or /.
	dot   bool   // it ends in /.
	// pattern is the last part of a path, if that is a pattern; then text and value are the directory.
	pattern string
	// above is the directory of the image that a command names instead of the place of this volume below it.
	above string

	mount  *corev1.VolumeMount // nil if it is in no volume
	volume *corev1.Volume      // nil also for a claim of a StatefulSet
}

// place finds out what a word names, relative to the directory of the call.
func (k *files) place(w shell.Word, call *shell.Call) (location, error) {
	p := location{word: w}
	full, err := k.absolute(splitPatterns(w), call)
	if err != nil {
		return p, err
	}
	if full, p.pattern, err = cutPattern(w, full); err != nil {
		return p, err
	}
	for i, part := range full {
		if part.Env == "" {
			p.value += part.Text
			full[i].Text = escapePath(part.Text)
			continue
		}
		value, err := k.valueIn(w, part)
		if err != nil {
			return p, err
		}
		p.value += value
	}
	if p.text, err = arg(full, k.c); err != nil {
		return p, err
	}
	p.dot = strings.HasSuffix(p.value, "/.")
	p.slash = p.dot || strings.HasSuffix(p.value, "/")
	p.text = strings.TrimSuffix(p.text, "/.")
	if p.text = manySlashes().ReplaceAllString(strings.TrimRight(p.text, "/"), "/"); p.text == "" {
		p.text = "/"
	}
	switch {
	case !strings.HasPrefix(p.value, "/"):
		return p, stop(w, "not an absolute path, and the working directory of the image is not known")
	case slices.Contains(strings.Split(p.value, "/"), ".."):
		return p, stop(w, "a path with .. in it")
	case strings.ContainsAny(p.value, "{}:\n\t\r"), strings.HasPrefix(p.value, "~"):
		return p, stop(w, "a character that would have another meaning in initbox's arguments")
	}
	p.value = path.Clean(p.value)
	for up := path.Dir(p.value); up != "/"; up = path.Dir(up) {
		if k.kinds[up] == link {
			return p, stop(w, "it leads through a link that an earlier command has made")
		}
	}
	p.mount, p.volume, err = k.mounted(w, p.value)
	if err == nil && p.projected() && strings.HasPrefix(strings.TrimPrefix(p.value, path.Clean(p.mount.MountPath)), "/..") {
		return p, stop(w, "a directory of the kubelet, which it replaces by another one; the file is there without it, too")
	}
	d := k.updated
	if p.mount == nil && (k.stores[p.value].key != nil || d != nil && (within(d.dir, p.value) || within(p.value, d.dir) || bundles[p.value])) {
		k.unread = w
	}
	return p, err
}

var manySlashes = lazy.Regexp(`//+`)

// imageDir stands for the working directory of the image, which is not known.
const imageDir = "/the working directory of the image"

// startingAt returns the call with a directory, unless it has one.
func (k *files) startingAt(dir string, call *shell.Call) *shell.Call {
	if call.Dir != nil || k.c.WorkingDir != "" {
		return call
	}
	inner := *call
	inner.Dir = shell.Word{{Text: dir}}
	return &inner
}

// absolute returns a copy of the word with the directory of the call, or the container's, in front.
func (k *files) absolute(w shell.Word, call *shell.Call) (shell.Word, error) {
	start := leading(w)
	switch {
	case len(w) == 0 || len(w) == 1 && w[0].Text == "" && w[0].Env == "":
		return nil, stop(w, "an empty path")
	case strings.HasPrefix(start, "~"):
		return nil, stop(w, "the home directory of a user")
	case strings.HasPrefix(start, "/"):
		return slices.Clone(w), nil
	case w[0].Env != "":
		if value := lookup(w[0].Env, k.c); value.origin == inManifest && strings.HasPrefix(value.value, "/") {
			return slices.Clone(w), nil
		}
	}
	dir := call.Dir
	if dir == nil && k.c.WorkingDir != "" {
		dir = shell.Word{{Text: k.c.WorkingDir}}
	}
	if dir == nil {
		return nil, stop(w, "not an absolute path, and the working directory of the image is not known")
	}
	if start == "." && len(w) == 1 {
		return append(slices.Clone(dir), shell.Part{Text: "/."}), nil
	}
	full := append(slices.Clone(dir), shell.Part{Text: "/"})
	if strings.HasPrefix(start, "./") {
		w = append(shell.Word{{Text: strings.TrimPrefix(w[0].Text, "./"), Glob: w[0].Glob}}, w[1:]...)
	}
	return append(full, w...), nil
}

// cd has no step: what follows has the directory in front of its paths, so that it must be known to be one.
func (k *files) cd(call *shell.Call) ([]Step, error) {
	p, err := k.place(call.Args[0], call)
	what, decided := k.kinds[p.value]
	switch {
	case err != nil:
		return nil, err
	case what == directory, !decided && p.root() && !k.mountedFile(p), !decided && k.above(p):
		return nil, nil
	case !decided && p.mount == nil && (everywhere().MatchString(p.value) || official(k.c.Image) && inBaseImages().MatchString(p.value)), p.value == path.Clean("/"+k.c.WorkingDir):
		return nil, nil
	}
	return nil, stop(p.word, "whether it is a directory is not known, and cd fails if it is not")
}

// Directories that the container runtime makes, and those that all of [baseImages] have.
// https://github.com/opencontainers/runtime-spec/blob/main/config-linux.md#default-filesystems
var (
	everywhere   = lazy.Regexp(`^/((dev|dev/shm|etc|proc|sys)?$)`)
	inBaseImages = lazy.Regexp(`^/(bin|home|lib|root|tmp|usr|usr/bin|usr/sbin|var)$`)
)

// splitPatterns returns the word with the text before a pattern in a part of its own.
func splitPatterns(w shell.Word) shell.Word {
	var split shell.Word
	for _, p := range w {
		if i := strings.IndexAny(p.Text, `*?[\`); p.Glob && i > 0 {
			split = append(split, shell.Part{Text: p.Text[:i]})
			p.Text = p.Text[i:]
		}
		split = append(split, p)
	}
	return split
}

// cutPattern cuts the last part of a path off if it is a pattern. One with a pattern elsewhere is an error.
func cutPattern(w, full shell.Word) (dir shell.Word, pattern string, err error) {
	first := slices.IndexFunc(full, func(p shell.Part) bool { return p.Glob })
	if first < 0 {
		return full, "", nil
	}
	for _, p := range full[first:] {
		if p.Env != "" || strings.Contains(p.Text, "/") {
			return nil, "", stop(w, "a pattern that is not the last part of a path")
		}
		if !p.Glob && strings.ContainsAny(p.Text, `*?[]\`) {
			return nil, "", stop(w, "a pattern with quoted characters")
		}
		pattern += p.Text
	}
	dir = slices.Clone(full[:first])
	if first == 0 || dir[first-1].Env != "" {
		return nil, "", stop(w, "a pattern that begins with a variable")
	}
	before := dir[first-1].Text
	at := strings.LastIndexByte(before, '/')
	if at < 0 || strings.ContainsAny(before[at+1:], `*?[]\`) || strings.ContainsAny(pattern, `\!^{},`) && before[at+1:]+pattern != ".[!.]*" {
		return nil, "", stop(w, "a pattern that is not understood")
	}
	dir[first-1].Text = before[:at+1]
	return dir, before[at+1:] + pattern, nil
}

// valueIn returns the value of a variable in a path, or a null byte for the name of the Pod and the like.
func (k *files) valueIn(w shell.Word, p shell.Part) (string, error) {
	v := lookup(p.Env, k.c)
	switch {
	case p.Default != nil && (v.origin == nowhere || v.origin == inManifest && v.value == ""):
		text, ok := p.Default.Literal()
		if !ok || strings.ContainsAny(text, "#%&") {
			return "", stop(w, "a default that is not a plain text")
		}
		return text, nil
	case v.origin == inManifest && strings.ContainsAny(v.value, "#%&*?[\\"):
		return "", stop(w, "the value of "+p.Env+" has a character that would have another meaning in initbox's arguments")
	case v.origin == inManifest:
		return v.value, nil
	case v.origin == inPod && k.nameOfPod(p.Env):
		return "\x00", nil
	case v.origin == nowhere:
		return "", stop(w, "the variable "+p.Env+" is not set")
	}
	return "", stop(w, "the value of "+p.Env+" is not in the manifest, so that the path is not known")
}

// nameOfPod reports whether a variable is a name: one part of a path, without special characters.
func (k *files) nameOfPod(variable string) bool {
	return slices.ContainsFunc(k.c.Env, func(e corev1.EnvVar) bool {
		return e.Name == variable && e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && nameFields().MatchString(e.ValueFrom.FieldRef.FieldPath)
	})
}

var nameFields = lazy.Regexp(`^(metadata\.(name|namespace|uid)|spec\.(nodeName|serviceAccountName))$`)

// mounted returns in which volume a path lies, if in one.
func (k *files) mounted(w shell.Word, value string) (mount *corev1.VolumeMount, volume *corev1.Volume, err error) {
	knownPart, _, opaque := strings.Cut(value, "\x00")
	for i := range k.c.VolumeMounts {
		m := &k.c.VolumeMounts[i]
		at := path.Clean(m.MountPath)
		if opaque && strings.HasPrefix(at, knownPart) {
			return nil, nil, stop(w, "a path that may be that of the volume at "+at)
		}
		if within(at, value) && (mount == nil || len(at) > len(path.Clean(mount.MountPath))) {
			mount = m
		}
	}
	if mount == nil {
		return nil, nil, nil
	}
	for i := range k.c.Pod.Spec.Volumes {
		if v := &k.c.Pod.Spec.Volumes[i]; v.Name == mount.Name {
			return mount, v, nil
		}
	}
	return mount, nil, nil
}

// within reports whether a path is dir or lies in it.
func within(dir, value string) bool {
	return value == dir || strings.HasPrefix(value, strings.TrimSuffix(dir, "/")+"/")
}

// root reports whether the place is where a volume is mounted.
func (p location) root() bool { return p.mount != nil && path.Clean(p.mount.MountPath) == p.value }

// fresh reports whether the volume is empty when the Pod starts.
func (p location) fresh() bool { return p.volume != nil && p.volume.EmptyDir != nil }

// projected reports whether the volume is one in which the kubelet writes files: a ConfigMap, a Secret and the like.
func (p location) projected() bool {
	v := p.volume
	return v != nil && (v.ConfigMap != nil || v.Secret != nil || v.Projected != nil || v.DownwardAPI != nil)
}

// private reports whether every file of a projected volume has a mode without write permission for group and others,
// which a umask would remove.
func (p location) private() bool {
	if !p.projected() {
		return false
	}
	var modes []*int32
	items := func(mode *int32, list []corev1.KeyToPath) {
		modes = append(modes, mode)
		for _, i := range list {
			modes = append(modes, i.Mode)
		}
	}
	switch v := p.volume; {
	case v.ConfigMap != nil:
		items(v.ConfigMap.DefaultMode, v.ConfigMap.Items)
	case v.Secret != nil:
		items(v.Secret.DefaultMode, v.Secret.Items)
	case v.DownwardAPI != nil:
		items(v.DownwardAPI.DefaultMode, nil)
	default:
		items(v.Projected.DefaultMode, nil)
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				items(nil, s.ConfigMap.Items)
			}
			if s.Secret != nil {
				items(nil, s.Secret.Items)
			}
		}
	}
	return !slices.ContainsFunc(modes, func(mode *int32) bool { return mode != nil && *mode&0o022 != 0 })
}

// flat reports whether a projected volume has only files, and no directories.
func (p location) flat() bool {
	if !p.projected() || p.mount.SubPath != "" || p.mount.SubPathExpr != "" {
		return false
	}
	var list []corev1.KeyToPath
	switch v := p.volume; {
	case v.ConfigMap != nil:
		list = v.ConfigMap.Items
	case v.Secret != nil:
		list = v.Secret.Items
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			switch {
			case s.ConfigMap != nil:
				list = append(list, s.ConfigMap.Items...)
			case s.Secret != nil:
				list = append(list, s.Secret.Items...)
			default:
				return false
			}
		}
	default:
		return false
	}
	return !slices.ContainsFunc(list, func(i corev1.KeyToPath) bool { return strings.Contains(i.Path, "/") })
}

// base returns the last part of the path, as in args.
func (p location) base() string {
	if last := path.Base(p.value); !strings.Contains(last, "\x00") {
		return escapePath(escape(last, false))
	}
	return path.Base(p.text)
}

// escapePath escapes what begins the settings in an argument.
func escapePath(text string) string {
	text = strings.NewReplacer("%23", "%2523", "%25", "%2525").Replace(text)
	return strings.ReplaceAll(text, "#", "%23")
}

// escapeValue escapes what would end the value of a setting.
func escapeValue(text string) string {
	return strings.NewReplacer("%", "%25", "&", "%26", "#", "%23").Replace(text)
}

// writable returns an error unless a call that writes to the place writes to a volume.
func (k *files) writable(p location) error {
	switch {
	case p.mount == nil:
		return stop(p.word, "in no volume: what is written there is lost when the container ends")
	case p.mount.ReadOnly || p.projected():
		return stop(p.word, "in a volume that is mounted read-only")
	case p.kernels():
		return stop(p.word, "a file of the kernel, or a device")
	}
	return nil
}

// target returns an error unless the place can be that of fetch or git-clone, whose arguments have no escapes.
func (k *files) target(p location) error {
	if strings.ContainsAny(p.value, "#%") {
		return stop(p.word, "a character that would have another meaning in initbox's arguments")
	}
	return cmp.Or(k.writable(p), noPattern(p), k.noLink(p))
}

// noLink returns an error for a link that an earlier command has made, through which another one would write.
func (k *files) noLink(p location) error {
	if k.kinds[p.value] == link {
		return stop(p.word, "a link that an earlier command has made, through which it would write")
	}
	return nil
}

// kernels reports whether the volume is the node's /sys, /proc or /dev, in which no file can be renamed, or may be.
func (p location) kernels() bool {
	if v := p.volume; v != nil {
		return v.HostPath != nil && kernelPath().MatchString(path.Clean(v.HostPath.Path))
	}
	return kernelPath().MatchString(p.value)
}

var kernelPath = lazy.Regexp(`^/$|(^|/)(host-?)?(sys|proc|dev)(/|$)`)

// above reports whether a place is a directory of the image in which volumes are mounted.
func (k *files) above(p location) bool { return p.mount == nil && p.pattern == "" && k.mountsIn(p) }

// left returns the places without those in the image where what a command makes, changes or removes is lost when the
// container ends, and is left out. What is changed of a download is not lost.
func (k *files) left(all []location, becomes kind) []location {
	trusted := len(k.stores)+len(k.added) > 0 || k.updated != nil
	return slices.DeleteFunc(all, func(p location) bool {
		lost := p.mount == nil && p.pattern == "" && k.inImage(p) && !p.kernels() && !k.mountsIn(p) && !imageLinks().MatchString(p.value) && k.kinds[p.value] != link
		if !lost || trusted || !official(k.c.Image) && !strings.HasPrefix(p.value, "/tmp/") { // others may have a link to a volume there
			return false
		}
		switch k.lost = &p; becomes {
		case unknown:
			k.changed = true
		case absent:
			for file, d := range k.downloads {
				d.removed = d.removed || within(p.value, file)
			}
			k.made(p, absent)
		default:
			k.made(p, becomes)
		}
		k.omitted.differs("what the script does with " + p.value + " in the image, where it is lost when the container ends, is left out, also if it fails")
		return true
	})
}

// changing returns the places that are changed so that others see it.
func (k *files) changing(all []location, recursive bool) []location {
	if recursive {
		all = k.volumesIn(all)
	}
	return k.left(all, unknown)
}

// volumesIn returns the places, with the volumes below it instead of each one that is in none: what a command changes
// in the image is lost when the container ends. A place stays, which is an error later, if one of them cannot be
// changed.
func (k *files) volumesIn(all []location) (places []location) {
	for _, p := range all {
		below := []location{p}
		all := p
		if all.pattern == "*" {
			all.pattern = ""
		}
		if k.above(all) {
			volumes, ok := k.volumesBelow(all)
			ok = ok && all.value != "/" // where the command fails for /proc
			if p.pattern != "" {        // which matches no hidden name
				volumes = slices.DeleteFunc(volumes, func(v location) bool { return strings.HasPrefix(v.value[len(p.value):], "/.") })
			}
			if ok && len(volumes) > 0 {
				below, k.lost = volumes, &p
			}
		}
		places = append(places, below...)
	}
	return places
}

// volumesBelow returns where volumes are mounted below a place, without those in others, and whether all can be
// changed.
func (k *files) volumesBelow(p location) (volumes []location, ok bool) {
	for _, m := range k.c.VolumeMounts {
		at := path.Clean(m.MountPath)
		inner := slices.ContainsFunc(k.c.VolumeMounts, func(o corev1.VolumeMount) bool {
			other := path.Clean(o.MountPath)
			return other != at && within(p.value, other) && within(other, at)
		})
		if !within(p.value, at) || inner {
			continue
		}
		v, err := k.place(shell.Word{{Text: at}}, &shell.Call{})
		if err != nil || k.mountedFile(v) || k.writable(v) != nil || imageLinks().MatchString(at) {
			return nil, false
		}
		if !official(k.c.Image) { // in which there is nothing else on the way to a volume
			v.above = p.value
		}
		volumes = append(volumes, v)
	}
	return volumes, true
}

// imageLinks matches what lies behind the links of usual images, which chown -R does not follow.
var imageLinks = lazy.Regexp(`^/(bin|sbin|lib\w*|var/(run|lock|mail|spool/mail))(/|$)`)

// mountsIn returns whether a volume is mounted below the place.
func (k *files) mountsIn(p location) bool {
	return slices.ContainsFunc(k.c.VolumeMounts, func(m corev1.VolumeMount) bool {
		at := path.Clean(m.MountPath)
		return at != p.value && within(p.value, at)
	})
}

// mayBeRoot reports whether the container may run as root.
func mayBeRoot(c *manifest.Container) bool {
	uid := user(c)
	return uid == nil || *uid == 0
}

// user returns the user that the manifest gives the container, or nil.
func user(c *manifest.Container) *int64 {
	if s := c.SecurityContext; s != nil && s.RunAsUser != nil {
		return s.RunAsUser
	}
	if s := c.Pod.Spec.SecurityContext; s != nil {
		return s.RunAsUser
	}
	return nil
}

// clearsSetgid reports whether chmod of this image clears the setgid bit of directories, as BusyBox does and GNU does
// not, and there may be one.
func (k *files) clearsSetgid(p location) bool {
	security := k.c.Pod.Spec.SecurityContext
	if p.fresh() && (security == nil || security.FSGroup == nil) {
		return false
	}
	return k.busybox()
}

// busybox reports whether the commands of the image are certainly those of BusyBox.
func (k *files) busybox() bool {
	image, _, _ := strings.Cut(k.c.Image, "@")
	image, _, _ = strings.Cut(path.Base(image), ":")
	return image == "busybox" || image == "alpine" || strings.HasPrefix(image, "alpine-")
}
