package convert

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/internal/lazy"
)

const copyFlags = "r R recursive; a archive; p; f force; n no-clobber; u update; L dereference; P no-dereference; d; H; v verbose; T no-target-directory; remove-destination"

// copying is what the flags of cp mean.
type copying struct {
	recursive, follow, asLink, exactTarget bool
	noOverwrite, update, removed, moves    bool
	keep                                   string // the setting, or ""
	mode                                   string // likewise, of install
}

func copyingOf(o given) copying {
	c := copying{
		recursive: (o.has("r") || o.has("a")), follow: o.has("L"), asLink: (o.has("P") || o.has("d") || o.has("a") || o.has("r")) && !o.has("L") && !o.has("H"), exactTarget: o.has("T"),
		noOverwrite: o.has("n"), update: o.has("u"), removed: o.has("remove-destination"),
	}
	switch {
	case o.has("a"):
		c.keep = "keep"
	case o.has("p"):
		c.keep = "keep=mode,owner,times"
	}
	return c
}

func (k *files) cp(call *shell.Call) ([]Step, error) {
	for i, w := range call.Args { // of GNU's, --update=none is -n
		if flag, found := map[string]string{"--update=none": "-n", "--update=older": "-u", "--update=all": "-f"}[w.String()]; found {
			inner := *call
			inner.Args = slices.Clone(call.Args)
			inner.Args[i] = shell.Word{{Text: flag}}
			return k.cp(&inner)
		}
	}
	o, all, err := k.places(k.startingAt(imageDir, call), copyFlags, 2)
	if err != nil {
		return nil, err
	}
	for i, p := range all { // the step runs where the image begins, too
		if rest, relative := strings.CutPrefix(p.text, imageDir); relative && i < len(all)-1 {
			all[i].text = "." + rest
		} else if relative {
			return nil, stop(p.word, "not an absolute path, and the working directory of the image is not known")
		}
	}
	c := copyingOf(o)
	if from, to := &all[0], &all[len(all)-1]; len(all) == 2 && c.recursive && !c.exactTarget && k.above(*to) && from.pattern == "" && !from.dot {
		// to a directory of the same name, which is there if a volume is mounted there, like SRC/. to that
		into, err := k.place(append(slices.Clone(to.word), shell.Part{Text: "/" + path.Base(from.value)}), call)
		if err == nil && into.root() && !k.mountedFile(into) {
			into.word, *to = to.word, into
			from.dot = true
		}
	}
	return k.copyAll(c, all[:len(all)-1], all[len(all)-1])
}

// rsync copies directories within the container. With a slash at its end, SRC is what is in it.
func (k *files) rsync(call *shell.Call) ([]Step, error) {
	o, all, err := k.places(call, "a archive; v verbose; h human-readable; q quiet; stats; progress; P; z compress; ignore-existing; u update", 2)
	if err != nil {
		return nil, err
	}
	to := all[len(all)-1]
	to.slash = true // which it makes if it is missing
	c := copying{recursive: true, asLink: true, keep: "keep=mode,owner,times", removed: true, noOverwrite: o.has("ignore-existing"), update: o.has("u")}
	for i, from := range all[:len(all)-1] {
		switch {
		case !o.has("a"):
			return nil, &shell.Error{Word: "rsync", Why: "without -a"}
		case from.pattern == "" && k.kind(from) != directory:
			return nil, stop(from.word, "whether it is a directory is not known")
		}
		all[i].dot = from.slash
	}
	return k.copyAll(c, all[:len(all)-1], to)
}

// install copies files with a mode, or makes directories.
func (k *files) install(call *shell.Call) ([]Step, error) {
	o, all, err := k.places(call, "d directory; D; m mode=; v verbose; T no-target-directory", 1)
	if err != nil {
		return nil, err
	}
	mode := "mode=0755"
	if o.has("m") {
		if mode, err = modeSetting(o.get("m")); err != nil {
			return nil, err
		}
	}
	if o.has("d") {
		return k.each(all, func(p location, s *Step) (string, error) {
			s.Why = "prepare makes the directory and those above it"
			k.made(p, directory)
			return p.text + "#" + mode, noPattern(p)
		})
	}
	if len(all) < 2 || o.has("D") && len(all) > 2 {
		return nil, &shell.Error{Word: "install", Why: "want sources and a destination"}
	}
	c := copying{exactTarget: o.has("T") || o.has("D"), removed: true, mode: mode}
	return k.copyAll(c, all[:len(all)-1], all[len(all)-1])
}

func (k *files) copyAll(c copying, sources []location, to location) ([]Step, error) {
	if added, err := k.addsAnchors(sources, to); added {
		return nil, err
	}
	if err := k.writable(to); err != nil {
		return nil, err
	}
	if err := noPattern(to); err != nil {
		return nil, err
	}
	switch st, found := k.storeAt(sources[0]); {
	case k.unread == nil || len(sources) > 1:
	case found && !c.recursive && !c.noOverwrite && !c.update && c.mode == "":
		if k.kind(to) == directory && !c.exactTarget {
			to.text, to.value, to.slash = strings.TrimSuffix(to.text, "/")+"/"+sources[0].base(), path.Join(to.value, path.Base(sources[0].value)), false
		}
		return k.keyStore(st, nil, to)
	case k.updated != nil:
		return k.copyUpdated(c, sources[0], to)
	}
	var steps []Step
	for _, from := range sources {
		if d := k.downloads[from.value]; d != nil && d.at.mount == nil && len(sources) == 1 && !c.recursive && !d.removed {
			return k.placeDownload(d, to)
		}
		s, err := k.copyOne(c, from, to, len(sources) > 1)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func (k *files) copyOne(c copying, from, to location, several bool) (Step, error) {
	s := Step{Subcommand: "copy", Writes: true, Inside: k.inImage(from), Why: "copy copies the same files"}
	into := (k.kind(to) == directory || several) && !c.exactTarget
	if err := k.refuseCopy(c, from, to, into); err != nil {
		return s, err
	}
	destination, err := k.destination(c, from, to, into, &s)
	if err != nil {
		return s, err
	}
	source := from.text
	if from.pattern != "" {
		source = strings.TrimSuffix(source, "/") + "/" + escapePath(from.pattern)
	}
	settings := k.copySettings(c, from, to, &s)
	s.Args = []string{source + ":" + destination}
	if len(settings) > 0 {
		s.Args[0] += "#" + strings.Join(settings, "&")
	}
	if k.perhapsLink(c, from) && !official(k.c.Image) {
		s.differs("if " + from.value + " is a symbolic link, what it leads to is copied, where the cp of BusyBox copies the link")
	}
	s.differs(k.linkNote(to)...)
	s.differs(k.parentNote(to)...)
	if c.exactTarget && !c.recursive {
		s.differs(k.intoNote(to)...)
	}
	if !c.recursive && from.pattern == "" && k.kind(from) == unknown && !inBin().MatchString(from.value) {
		s.differs("if " + from.value + " is a directory, what is in it is copied, where cp without -r fails")
	}
	if c.recursive && from.mount != nil && !from.projected() {
		s.differs("it is an error if there is a socket, a pipe or a device in " + from.value)
	}
	target := to
	if into && from.pattern == "" && !from.dot {
		target.value = path.Join(to.value, path.Base(from.value))
	}
	if err := k.replaces(c, target, &s); err != nil {
		return s, err
	}
	if into && (from.flat() && (from.pattern != "" || from.dot) || from.pattern != "" && !c.recursive && k.first(to)) && to.fresh() {
		k.flat[to.value] = true
	} else {
		delete(k.flat, to.value)
	}
	if c.recursive || from.pattern != "" && !from.flat() {
		k.filled = append(k.filled, target.value)
	}
	k.copied(c, from, to, into)
	k.copiedFile(c, from, to, into, s)
	if c.mode != "" {
		target.pattern = from.pattern
		k.setsID(target, c.mode, false)
	}
	if mode, known := from.keyMode(); c.mode != "mode=0644" && (c.mode != "" || from.mount != nil && !known || known && mode&^0o022 != 0o644) && !c.recursive && from.pattern == "" {
		k.gives(target, false)
	}
	return s, nil
}

// inBin matches the path of a program.
var inBin = lazy.Regexp(`/s?bin/[^/]+$`)

// refuseCopy refuses what depends on what is there.
func (k *files) refuseCopy(c copying, from, to location, into bool) error {
	if err := k.writable(to); err != nil {
		return err
	}
	inside := to
	inside.value = path.Join(to.value, path.Base(from.value))
	directoryOnly := from.dot || k.kind(from) == directory && from.pattern == ""
	switch {
	case from.mount == nil && within("/dev", from.value):
		return stop(from.word, "a device, which copy does not read")
	case into && k.perhapsMountedFile(to) && !directoryOnly && from.pattern == "":
		return stop(to.word, "a subPath of a volume, of which it is not known whether it is a file")
	case from.value == to.value, from.pattern == "" && within(from.value, to.value) && c.recursive:
		return stop(to.word, "the destination is the source, or lies in it")
	case from.pattern != "" && c.removed && c.recursive && within(from.value, to.value):
		return stop(to.word, "a directory that is moved into itself, if the pattern matches it")
	case from.pattern == "" && k.kinds[from.value] == absent:
		return stop(from.word, "what an earlier command has removed")
	case directoryOnly && !c.recursive:
		return stop(from.word, "a directory, which cp without -r does not copy")
	case from.pattern != "" && !into:
		return stop(to.word, "whether it is a directory is not known, so that a single match might become it")
	case from.pattern == "" && strings.ContainsAny(from.value, `*?[]\`):
		return stop(from.word, "a character in quotes that copy would read as a pattern")
	case from.pattern != "" && strings.ContainsAny(from.pattern, "[]"):
		return stop(from.word, "a pattern that is not understood")
	case k.mayFail && from.pattern != "" && !c.recursive && !from.flat():
		return stop(from.word, "directories that match, which cp without -r leaves out with a failure that the script ignores")
	case k.kinds[to.value] == link:
		return k.noLink(to)
	case k.perhapsLink(c, from) && k.busybox():
		return stop(from.word, "cp -r of a path with a slash at its end, of which BusyBox copies a link as a link")
	case c.noOverwrite && c.recursive && k.busybox():
		return stop(from.word, "cp -rn, which copies nothing into a directory that exists, or what is missing there, by the version of BusyBox")
	case from.pattern != "" && strings.HasPrefix(from.pattern, ".*"):
		return stop(from.word, "a pattern that some shells match with . and ..")
	case c.keep != "" && c.asLink && into && !c.moves && from.pattern == "" && !from.dot && k.kind(from) != file && !k.untouched(inside):
		return stop(to.word, "cp gives a directory in it the owner and mode of the source, which copy does not change in a directory that exists")
	case c.keep != "" && c.recursive && from.projected() && from.root() && from.pattern == "" && !(from.dot && k.kind(to) == directory):
		return stop(from.word, "the directory where the volume is mounted, whose mode the copy would not have")
	case c.keep != "" && from.dot && k.kind(to) == directory && !to.fresh():
		return stop(to.word, "cp gives it the owner and mode of the source, which copy does not change in a directory that exists")
	}
	return nil
}

// perhapsMountedFile reports whether a volume that lasts is mounted at the place with a subPath, so that it may be a
// file.
func (k *files) perhapsMountedFile(p location) bool {
	return p.root() && !p.slash && !p.fresh() && (p.mount.SubPath != "" || p.mount.SubPathExpr != "")
}

// perhapsLink reports whether cp -r names what may be a link with a slash at its end.
func (k *files) perhapsLink(c copying, from location) bool {
	return from.slash && !from.dot && c.recursive && !c.follow && !from.root() && k.kinds[from.value] != directory && from.pattern == ""
}

// destination returns DST.
func (k *files) destination(c copying, from, to location, into bool, s *Step) (string, error) {
	isFile := !c.recursive || k.kind(from) == file
	switch {
	case into && from.pattern != "", into && isFile && !from.dot:
		return strings.TrimSuffix(to.text, "/") + "/", nil
	case into && from.dot, c.exactTarget, !into && isFile, from.dot:
		return to.text, nil
	case into:
		return to.text + "/" + from.base(), nil
	case k.untouched(to) || k.kinds[to.value] == absent:
		s.differs("a second run copies to " + to.value + " again, where " + map[bool]string{false: "cp -r copies", true: "mv moves"}[c.moves] + " into it if it is a directory")
		return to.text, nil
	}
	if c.moves {
		return "", stop(to.word, "mv moves into it if it is a directory, and whether it is, is not known")
	}
	return "", stop(to.word, "cp -r copies into it if it is there, and whether it is, is not known")
}

// untouched reports whether nothing but this container, which has not made it, can have made a place: it lies in an
// emptyDir that no container before this one mounts.
func (k *files) untouched(p location) bool {
	return p.fresh() && k.kinds[p.value] == unknown && !p.root() && k.first(p)
}

// first reports whether no container before this one mounts the volume.
func (k *files) first(p location) bool {
	for _, other := range k.c.Pod.Containers {
		if other.Init && other.Index < k.c.Index && slices.ContainsFunc(other.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == p.mount.Name }) {
			return false
		}
	}
	return k.c.Init
}

func (k *files) copySettings(c copying, from, to location, s *Step) []string {
	var settings []string
	add := func(condition bool, setting ...string) {
		if condition {
			settings = append(settings, setting...)
		}
	}
	add(c.keep != "", c.keep)
	add(c.keep == "" && c.mode == "" && !from.private(), "mode=go-w")
	add(c.keep == "" && c.mode == "" && !from.private() && c.recursive, "dir-mode=go-w")
	add(c.mode != "", c.mode)
	switch kubelets := from.projected() && from.mount.SubPath == "" && from.mount.SubPathExpr == ""; {
	case kubelets && c.asLink:
		s.differs("the files of the mounted volume are copied, where cp copies the kubelet's links to them")
	case kubelets && c.recursive && from.pattern == "":
		s.differs("the directories in which the kubelet keeps the files, ..data and that behind it, are not copied")
	case kubelets:
	case c.follow && c.recursive, !c.asLink && from.pattern != "":
		add(true, "links=follow")
	case c.asLink && from.pattern == "" && !from.slash && !from.root():
		add(true, "links=keep")
	}
	if c.keep == "" && c.mode == "" && !from.projected() && (c.recursive || k.busybox() && k.kinds[from.value] != file) {
		s.differs("setuid, setgid and sticky bits are not copied")
	}
	if c.keep != "" && c.recursive && k.clearsSetgid(to) {
		s.differs("a directory that is made keeps the setgid bit of the one above it")
	}
	add(c.noOverwrite, "no-overwrite")
	add(c.update, "update")
	switch whole := c.recursive && from.pattern == "" && k.kind(from) != file; {
	case whole && from.root() && !from.projected() && k.kind(from) == directory:
		add(true, "optional")
	case whole:
		s.differs("it is an error if " + from.value + " is empty")
	case from.pattern != "" && !c.recursive && !from.flat():
		s.differs("directories that match " + from.pattern + " are copied, too, where cp without -r fails")
	}
	if c.keep != "" && from.dot && k.kind(to) == directory {
		s.differs("the owner and mode of " + to.value + " itself stay as they are")
	}
	return settings
}

// replaces says what happens to files that exist in a volume from before. It returns an error if an earlier step has
// given one its mode or owner, which the command keeps, and the new file would not have.
func (k *files) replaces(c copying, to location, s *Step) error {
	if !c.noOverwrite && c.keep == "" && !(c.removed && !k.busybox()) {
		for name := range k.given {
			if name == to.value || name == path.Dir(to.value)+"/*" || c.recursive && within(to.value, name) {
				return stop(to.word, "an earlier command has given the file its mode or owner, which it keeps, and a new file would not have")
			}
		}
	}
	if !to.fresh() && c.recursive && c.keep == "" {
		s.differs("directories that exist get the modes of those that are copied, which cp -r does not change")
	}
	if !to.fresh() && c.noOverwrite {
		s.differs("it is an error if there is a directory where a file is to be, or the other way round")
	}
	if !to.fresh() && c.keep == "keep" && !c.removed {
		s.differs("files that exist do not keep their setuid and setgid bits")
	}
	mixed := slices.ContainsFunc(k.filled, func(dir string) bool { return within(dir, to.value) })
	if to.fresh() && !mixed || c.noOverwrite || c.removed && !k.busybox() || c.keep == "keep" {
		return nil
	}
	s.differs("a file or a link that exists is replaced by a new file, with its own mode and owner, where the command would keep them")
	if mayBeRoot(k.c) && k.othersIn(to) {
		s.ownerless = &ownerless{to.value, stop(to.word, "a file that exists there may belong to the user of another container, and would be root's")}
	}
	return nil
}

// othersIn reports whether another container of the Pod that runs as another user has the volume.
func (k *files) othersIn(p location) bool {
	return slices.ContainsFunc(k.c.Pod.Containers, func(c *manifest.Container) bool {
		return !mayBeRoot(c) && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == p.mount.Name && !m.ReadOnly })
	})
}

// copied records what is there now.
func (k *files) copied(c copying, from, to location, into bool) {
	what := unknown
	switch {
	case !c.recursive:
		what = file
	case from.pattern == "" && k.kind(from) != unknown:
		what = k.kind(from)
	}
	switch {
	case into && from.pattern == "" && !from.dot:
		if to.value += "/" + path.Base(from.value); what != unknown {
			k.made(to, what)
			return
		}
		k.made(location{value: path.Dir(to.value)}, directory)
		delete(k.kinds, to.value)
	case into || from.dot:
		k.made(to, directory)
	case what == file && !c.exactTarget && k.kind(to) == unknown && !k.untouched(to): // which may be a directory
		k.made(location{value: path.Dir(to.value)}, directory)
	case what != unknown:
		k.made(to, what)
	}
}

// inImage reports whether a place is in the image, and not in a volume or in what every container has.
func (k *files) inImage(p location) bool {
	for _, each := range []string{"/var/run/secrets/kubernetes.io/serviceaccount", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname", "/dev/termination-log"} {
		if within(each, p.value) && p.pattern == "" {
			return false
		}
	}
	return p.mount == nil
}
