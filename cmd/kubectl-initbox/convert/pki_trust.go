package convert

import (
	"path"
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
)

// store is a file of certificates that the script has made so far: a copy, what a trust-bundle with these flags writes,
// or a store with a key, which may be in the image, where only a later command makes something of it.
type store struct {
	from  *location
	step  string // that copied it, as [Step.instead] names it
	flags []Flag
	roots bool // those of an image are in it, so that it is no chain of a server, which its key may follow

	key, password         []Flag // of keystore: what it is made of, and its password
	format, mode, differs string
	inside                bool
}

// distribution is where one keeps its certificates, and what the program does that collects those it trusts.
type distribution struct {
	anchors, suffix string     // where users add theirs, and how their names end
	dir, bundle     string     // what the program writes, and the file in it with all certificates
	java            string     // likewise, a trust store
	reads           string     // where else the program looks, of any distribution that has it
	bundles         string     // the names of all certificates in the image, of which that file is one
	shipped         string     // the source of the other certificates, where a volume hides dir
	added           []location // what the script has copied to anchors
	differs         string
}

// distributions have the program as their key.
// https://manpages.debian.org/bookworm/ca-certificates/update-ca-certificates.8.en.html
// https://www.mankier.com/8/update-ca-trust
var distributions = map[string]*distribution{
	"update-ca-certificates": {
		anchors: "/usr/local/share/ca-certificates", suffix: ".crt", dir: "/etc/ssl/certs", bundle: "/ca-certificates.crt", shipped: "/usr/share/ca-certificates",
		reads:   "/etc/ca-certificates /etc/ca-certificates.conf /etc/pki/trust /usr/share/ca-certificates /usr/share/pki",
		bundles: "/etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem",
		differs: "each certificate is a file, with a name by which no program looks for it, and not a link into the image; /etc/ca-certificates.conf switches none off, and no hook of /etc/ca-certificates runs",
	},
	"update-ca-trust": {
		anchors: "/etc/pki/ca-trust/source/anchors", dir: "/etc/pki/ca-trust/extracted", bundle: "/pem/tls-ca-bundle.pem", java: "/java/cacerts", shipped: "roots",
		reads:   "/etc/ca-certificates /etc/pki/ca-trust/source /usr/share/pki /usr/share/ca-certificates",
		bundles: "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem /etc/pki/tls/certs/ca-bundle.crt /etc/pki/tls/cert.pem /etc/ssl/certs/ca-bundle.crt",
		differs: "the roots are Mozilla's list in initbox, and not the image's; only pem/tls-ca-bundle.pem and java/cacerts are written, and not the stores for e-mail, for signed code, for EDK II and in OpenSSL's own format",
	},
}

// bundles are the files in which images have all certificates that they trust.
var bundles = set("/etc/ssl/ca-bundle.pem " + distributions["update-ca-certificates"].bundles + " " + distributions["update-ca-trust"].bundles)

// isBundle reports whether a place is one of bundles, in the image.
func (p location) isBundle() bool { return bundles[p.value] && p.mount == nil && p.pattern == "" }

// storeAt returns what the script has made at a place, if that is still there.
func (k *files) storeAt(p location) (store, bool) {
	s, found := k.stores[p.value]
	return s, found && k.kinds[p.value] == file
}

// read adds what a command reads certificates from to the arguments of trust-bundle.
func (k *files) read(s *Step, from location) error {
	folder := from.flat() && slices.Contains([]string{"*", "*.crt", "*.cer", "*.pem"}, from.pattern)
	switch {
	case k.updated != nil && from.mount == nil && set(k.updated.bundles)[from.value]:
		return k.collected(s, from.text)
	case k.updated != nil && from.mount == nil && (bundles[from.value] || within(k.updated.dir, from.value)):
		return stop(from.word, "not what was updated in the image as a whole")
	case k.installed && from.isBundle():
		s.Args = append(s.Args, "roots")
		s.differs(installedRoots)
		return nil
	case from.pattern != "" && !folder:
		return stop(from.word, "a pattern other than *.crt and the like in a ConfigMap or Secret")
	case from.pattern == "" && (from.slash || k.kind(from) == directory || k.kinds[from.value] == absent || k.downloads[from.value] != nil):
		return stop(from.word, "not a file that is there when trust-bundle runs")
	case folder && from.pattern != "*":
		s.differs("all files in " + from.value + " are read that have certificates, and not only " + from.pattern + "; it is no error if there is none")
	}
	s.Args, s.Inside = append(s.Args, from.text), s.Inside || k.inImage(from)
	return nil
}

const installedRoots = "the roots are Mozilla's list in initbox, and not that in the package of the distribution"

// trust returns the step that writes certificates to a file, or adds them to the one that the script has made. The last
// flag names the file.
func (k *files) trust(to location, sources []location, adds bool, flags ...Flag) ([]Step, error) {
	s := Step{Subcommand: "trust-bundle", Writes: true, writes: to.value, Flags: flags, Why: "trust-bundle writes the same certificates"}
	before, found := k.storeAt(to)
	switch err := k.target(to); {
	case err != nil:
		return nil, err
	case to.slash || k.kind(to) == directory:
		return nil, stop(to.word, "not the name of a file")
	case !adds:
	case !found:
		return nil, stop(to.word, "what is in it is not known: the same script has not made it")
	case before.from != nil:
		s.instead = before.step
		s.differs("the file has the mode 0644, whatever " + before.from.value + " has")
		sources = append([]location{*before.from}, sources...)
	case !slices.Equal(before.flags, flags):
		return nil, stop(to.word, "made by an earlier command in another format, or with another password")
	default:
		s.appends = func(t Step) Step {
			t.Args, t.Inside = slices.Concat(t.Args, s.Args), t.Inside || s.Inside
			t.differs(s.Differs...)
			return t
		}
	}
	for _, from := range sources {
		if err := k.read(&s, from); err != nil {
			return nil, err
		}
	}
	s.differs(k.linkNote(to)...)
	if err := k.replaces(copying{}, to, &s); err != nil {
		return nil, err
	}
	k.made(to, file)
	delete(k.texts, to.value)
	delete(k.contents, to.value)
	k.stores[to.value] = store{flags: flags}
	return []Step{s}, nil
}

// bundle is cat of files of certificates. Of a name that ends in .pem, or a pattern, it is only known beside the roots
// of the image that no private key is meant.
func (k *files) bundle(call *shell.Call, sources []location, to location, appended bool) ([]Step, error) {
	before, _ := k.storeAt(to)
	roots := appended && (before.roots || before.from != nil && before.from.isBundle()) || slices.ContainsFunc(sources, location.isBundle)
	for _, from := range sources {
		switch ext := path.Ext(path.Base(from.value) + from.pattern); {
		case ext == ".crt" || ext == ".cer", roots && (ext == ".pem" || from.pattern == "*"):
		case appended:
			return nil, stop(from.word, "added to a file, and by its name it may be something else than certificates")
		case from.pattern != "":
			return nil, stop(from.word, "a pattern, and by its name it may match something else than certificates")
		default:
			return nil, stop(from.word, "not a file in the same ConfigMap or Secret as the others, and by its name it may be something else than certificates")
		}
	}
	if err := usualMask(call); err != nil {
		return nil, err
	}
	steps, err := k.trust(to, sources, appended, Flag{"pem", to.text})
	if err == nil {
		k.stores[to.value] = store{flags: steps[0].Flags, roots: roots}
		steps[0].differs("each certificate is written once, and nothing else that is in the files; one without certificates is an error")
	}
	return steps, err
}

// joinsCertificates reports whether the script joins certificates in a file, so that a line break more changes nothing.
func (k *files) joinsCertificates(p location) bool {
	s, found := k.storeAt(p)
	return found && (s.from != nil && (s.from.isBundle() || path.Ext(s.from.value) == ".crt") || len(s.flags) > 0 && s.flags[0].Name == "pem")
}

// updateCertificates collects the certificates that the image and its user trust: in the image, from where a later
// command copies them, or in a volume.
func (k *files) updateCertificates(call *shell.Call) ([]Step, error) {
	g, err := optionsOf("f fresh; v verbose").read(call.Args)
	if err == nil {
		err = plain(call)
	}
	action, errAction := oneArgument(g)
	switch {
	case err != nil:
		return nil, err
	case errAction != nil || action != "" && (call.Name != "update-ca-trust" || action != "extract"):
		return nil, stop(g.args[0], "an argument that is not understood")
	case call.Name == "update-ca-trust" && len(g.options) > 0 || len(call.Set) > 0:
		return nil, &shell.Error{Word: call.Name, Why: "with options or variables that are not understood"}
	}
	d := *distributions[call.Name]
	d.added = slices.Clone(k.added[d.anchors])
	dir, err := k.place(shell.Word{{Text: d.dir}}, call)
	switch {
	case err != nil:
		return nil, err
	case k.mountsIn(dir):
		return nil, stop(dir.word, "volumes are mounted below it")
	}
	for _, m := range k.c.VolumeMounts {
		at := path.Clean(m.MountPath)
		if !within(d.anchors, at) && slices.ContainsFunc(strings.Fields(d.reads), func(dir string) bool { return within(dir, at) }) {
			return nil, &shell.Error{Word: call.Name, Why: "what is mounted at " + at + " may be part of what it collects"}
		}
	}
	k.updated = &d
	if dir.mount == nil {
		return nil, nil
	}
	defer func() { k.updated = nil }()
	return k.trustDirectory(dir, d.shipped)
}

// collected adds the sources of what the program collects: those that it ships, and those of the user.
func (k *files) collected(s *Step, shipped string) error {
	k.unread = nil
	d := *k.updated
	anchors, err := k.place(shell.Word{{Text: d.anchors}}, &shell.Call{})
	if err != nil {
		return err
	}
	text := anchors.text
	if anchors.mount == nil {
		text += "#optional"
	}
	if d.suffix != "" {
		s.differs("files in " + d.anchors + " that do not end in " + d.suffix + " are read, too")
	}
	if s.Inside = !k.installed; k.installed {
		shipped = "roots"
		s.differs(installedRoots)
	}
	s.Args, k.updated = append(s.Args, shipped, text), nil
	defer func() { k.updated = &d }()
	for _, from := range d.added {
		if err := k.read(s, from); err != nil {
			return err
		}
	}
	return nil
}

// trustDirectory returns the steps that write the certificates to a directory as the program does.
func (k *files) trustDirectory(to location, shipped string) ([]Step, error) {
	d := *k.updated
	s := Step{Subcommand: "trust-bundle", Writes: true, Why: "trust-bundle writes the same certificates"}
	if err := k.target(to); err != nil {
		return nil, err
	}
	if err := k.collected(&s, shipped); err != nil {
		return nil, err
	}
	s.differs(d.differs)
	s.differs(k.linkNote(to)...)
	k.made(to, directory)
	s.Flags = []Flag{{"pem", to.text + d.bundle}}
	if d.java != "" {
		s.Flags = append(s.Flags, Flag{"jks", to.text + d.java})
		return []Step{s}, nil
	}
	hashes := s
	hashes.Flags = []Flag{{"hash-dir", to.text}}
	return []Step{hashes, s}, nil
}

// copyUpdated is cp of what the program has written in the image.
func (k *files) copyUpdated(c copying, from, to location) ([]Step, error) {
	d := k.updated
	into := k.kind(to) == directory && !c.exactTarget
	if from.pattern == "" && !from.dot && into {
		to.text, to.value = strings.TrimSuffix(to.text, "/")+"/"+from.base(), path.Join(to.value, path.Base(from.value))
		to.slash = false
	}
	switch whole := from.value == d.dir && d.java == "" && (from.pattern == "*" && into || from.pattern == "" && c.recursive); {
	case c.noOverwrite || c.update:
		return nil, stop(from.word, "what was updated, copied only where it is missing or older")
	case from.isBundle():
		return k.trust(to, []location{from}, false, Flag{"pem", to.text})
	case whole && (into || from.dot || k.untouched(to)):
		return k.trustDirectory(to, d.dir+d.bundle)
	}
	return nil, stop(from.word, "more, or something else, than the certificates that were updated")
}

// addsAnchors records what cp adds to the certificates of the user in the image, and returns whether it does.
func (k *files) addsAnchors(sources []location, to location) (bool, error) {
	for _, d := range distributions {
		if to.mount != nil || !within(d.anchors, to.value) {
			continue
		}
		for _, from := range sources {
			name := path.Base(from.value) + from.pattern
			if to.value != d.anchors && !to.slash {
				name = to.value
			}
			if !strings.HasSuffix(name, d.suffix) && from.pattern != "*" {
				return true, stop(from.word, "a name that does not end in "+d.suffix+", which the image would ignore")
			}
		}
		k.added[d.anchors] = append(k.added[d.anchors], sources...)
		return true, nil
	}
	return false, nil
}
