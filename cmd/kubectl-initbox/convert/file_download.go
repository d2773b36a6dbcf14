package convert

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"initbox/cmd/kubectl-initbox/convert/shell"
	"initbox/internal/lazy"
)

// download is a file that curl or wget writes. If a later command unpacks or moves it, and it does not stay, that
// command becomes a fetch to where it is wanted, instead of this one.
type download struct {
	call     *shell.Call
	at       location
	url      string   // as in args, without settings
	settings []string // of the URL
	differs  []string
	name     string // at the end of the URL, or ""
	named    bool   // by the URL: wget does not write over a file that exists
	parents  bool   // the directory of the file is made if it is missing
	// used says that a later command has unpacked or moved it, and removed that it was removed then.
	used, removed bool
}

const (
	curlDownload = "o output=; O remote-name; L location; s silent; S show-error; f fail; fail-with-body; k insecure; H header=; " +
		"u user=; retry=; retry-delay=; retry-connrefused; retry-max-time=; retry-all-errors; connect-timeout=; m max-time=; " +
		"create-dirs; v verbose; progress-bar; cacert=; A user-agent=; C continue-at=; no-progress-meter; X request="
	wgetDownload = "O output-document=; P directory-prefix=; q quiet; no-verbose; no-check-certificate; T timeout=; t tries=; c continue; " +
		"header=; S server-response; progress=; show-progress; retry-connrefused; waitretry=; no-clobber; v verbose; U user-agent=; " +
		"ca-certificate="
	recordDiffers = "a hidden file beside it records what was downloaded, so that a second run only downloads what has changed"
)

func (k *files) curl(call *shell.Call) ([]Step, error) {
	g, err := optionsOf(curlDownload).read(call.Args)
	if err != nil {
		return nil, err
	}
	d := &download{call: call}
	if x := g.get("X"); x != nil {
		if text, ok := x.Literal(); !ok || text != "GET" {
			return nil, stop(x, "a request that is not GET")
		}
	}
	if !g.has("f") && !g.has("fail-with-body") {
		d.differs = append(d.differs, "an error of the server is a failure, where curl writes the error's page to the file")
	}
	if d.parents = g.has("create-dirs"); d.parents {
		d.differs = append(d.differs, "a directory that is missing gets the mode 0755, where curl gives it 0750")
	}
	if !g.has("L") {
		d.differs = append(d.differs, "redirects are followed, which curl does only with -L")
	}
	err = k.request(d, g, g.get("u"), g.has("k"), g.options["H"], g.get("cacert"))
	if err != nil {
		return nil, err
	}
	to := g.get("o")
	if g.has("O") {
		to = shell.Word{{Text: d.name}}
	}
	return k.download(d, to, false)
}

func (k *files) wget(call *shell.Call) ([]Step, error) {
	words := slices.Clone(call.Args)
	for i, w := range words {
		if text, ok := w.Literal(); ok && (text == "-nv" || text == "-nc") {
			words[i] = shell.Word{{Text: map[string]string{"-nv": "--no-verbose", "-nc": "--no-clobber"}[text]}}
		}
	}
	g, err := optionsOf(wgetDownload).read(words)
	if err != nil {
		return nil, err
	}
	d := &download{call: call}
	if err = k.request(d, g, nil, g.has("no-check-certificate"), g.options["header"], g.get("ca-certificate")); err != nil {
		return nil, err
	}
	if g.has("no-clobber") || g.has("c") {
		return nil, &shell.Error{Word: "wget -c", Why: "a file that exists may be complete or not"}
	}
	to := g.get("O")
	if text, ok := to.Literal(); ok && text == "-" {
		return k.download(d, nil, true)
	}
	if to == nil {
		to, d.named = shell.Word{{Text: d.name}}, true
		if dir := g.get("P"); dir != nil {
			to, d.parents = append(append(slices.Clone(dir), shell.Part{Text: "/"}), to...), true
		}
	}
	return k.download(d, to, false)
}

// request fills what is requested.
func (k *files) request(d *download, g given, login shell.Word, insecure bool, headers []shell.Word, ca shell.Word) error {
	if len(g.args) != 1 {
		return &shell.Error{Word: d.call.Name, Why: "not one URL"}
	}
	if err := noProxies(d.call, k.c); err != nil {
		return err
	}
	text, scheme, err := httpURL(g.args[0], login, k.c)
	switch {
	case err != nil:
		return err
	case strings.Contains(text, "#"):
		return stop(g.args[0], "a # in it")
	}
	d.url = text
	if last := path.Base(text); !strings.ContainsAny(last, "?%$&=") && strings.Count(text, "/") > 2 {
		d.name = last
	}
	if scheme == "https" && insecure {
		d.settings = append(d.settings, "insecure")
	} else if scheme == "https" {
		d.differs = append(d.differs, mozillaRoots)
	}
	if ca != nil {
		p, err := k.place(ca, d.call)
		if err != nil || p.mount == nil {
			return stop(ca, "a certificate that is in no volume")
		}
		d.settings = append(d.settings, "ca-file="+escapeValue(p.text))
	}
	for _, h := range headers {
		text, ok := known(h, k.c)
		name, value, found := strings.Cut(text, ":")
		if !ok || !found || strings.ContainsAny(text, "\n$") {
			return stop(h, "a header that is not a plain text; one with a secret belongs in a file")
		}
		d.settings = append(d.settings, "header="+escapeValue(name+":"+strings.TrimSpace(value)))
	}
	return nil
}

// download returns the step for a download to a file, or what a pipe makes of it. Without a file, it is printed.
func (k *files) download(d *download, to shell.Word, printed bool) ([]Step, error) {
	pipe := d.call.Pipe
	switch {
	case pipe != nil && (printed || to == nil) && pipe.Name == "tar":
		return k.untar(d, pipe)
	case pipe != nil && (printed || to == nil) && pipe.Stdout != nil && pipe.Stdout.File != nil && !pipe.Stdout.Append && pipe.Pipe == nil &&
		(pipe.Name == "gunzip" || pipe.Name == "gzip" || pipe.Name == "zcat"):
		return k.gunzip(d, pipe)
	case pipe != nil:
		return nil, &shell.Error{Word: d.call.Name + " | " + pipe.Name, Why: "what it downloads is used in a way that is not understood"}
	}
	if out := d.call.Stdout; to == nil && out != nil && out.File != nil && !out.Append {
		to = out.File
	}
	if text, ok := to.Literal(); to == nil || ok && (text == "" || text == "-" || strings.HasPrefix(text, "/dev/")) {
		return nil, &shell.Error{Word: d.call.Name, Why: "the name of the file that it writes is not known"}
	}
	p, err := k.place(to, d.call)
	if err != nil {
		return nil, err
	}
	if err := noPattern(p); err != nil || p.slash || k.kind(p) == directory {
		return nil, stop(to, "not the name of a file")
	}
	if d.named {
		if err := k.namedByURL(d, p); err != nil {
			return nil, err
		}
	}
	d.at = p
	k.downloads[p.value] = d
	s := d.step(p.text)
	s.download = d
	if p.mount != nil {
		if err := k.target(p); err != nil {
			return nil, err
		}
		s.differs(k.linkNote(p)...)
		s.differs(k.intoNote(p)...)
		if !d.parents {
			s.differs(k.parentNote(p)...)
		}
		if err := k.replaces(copying{}, p, &s); err != nil {
			return nil, err
		}
	}
	k.made(p, file)
	return []Step{s}, nil
}

// namedByURL returns an error if the file that wget names after the URL may exist: then the wget of BusyBox fails, and
// GNU's writes another file beside it.
func (k *files) namedByURL(d *download, p location) error {
	switch what, certain := k.kinds[p.value]; {
	case what == absent && certain, k.guarded == p.value && !certain:
		return nil
	case certain, p.mount != nil && !p.fresh():
		return stop(p.word, "wget without -O does not write over a file that is there, and whether one is, is not known")
	case p.mount != nil:
		d.differs = append(d.differs, "a file "+p.value+" that is there is replaced, where wget without -O fails, or writes another file beside it")
	}
	return nil
}

// step returns the step that downloads to a place.
func (d *download) step(to string, settings ...string) Step {
	url := d.url
	if all := append(slices.Clone(d.settings), settings...); len(all) > 0 {
		url += "#" + strings.Join(all, "&")
	}
	s := Step{Subcommand: "fetch", Writes: true, Args: []string{url, to}, Why: "fetch downloads the same file"}
	s.differs(d.differs...)
	s.differs(recordDiffers)
	return s
}

const tarUnpack = "x extract; z gzip; j bzip2; J xz; f file=; C directory=; v verbose; strip-components= strip=; no-same-owner o; m touch; " +
	"p preserve-permissions; no-same-permissions; overwrite; a auto-compress; gunzip; ungzip"

// tar unpacks what an earlier command has downloaded.
func (k *files) tar(call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	g, err := readTar(call)
	if err != nil {
		return nil, err
	}
	if g.get("f") == nil {
		return nil, &shell.Error{Word: "tar", Why: "no archive that a command before has downloaded"}
	}
	d, err := k.downloaded(g.get("f"), call)
	if err != nil {
		return nil, err
	}
	return k.unpack(d, call, g)
}

// untar unpacks what is downloaded by the command before it in the pipe.
func (k *files) untar(d *download, call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	g, err := readTar(call)
	if err != nil {
		return nil, err
	}
	if f := g.get("f"); f != nil {
		if text, ok := f.Literal(); !ok || text != "-" {
			return nil, stop(f, "another file than its input")
		}
	}
	return k.unpack(d, call, g)
}

// readTar reads the options of tar, also without a dash, as in tar xzf FILE.
func readTar(call *shell.Call) (given, error) {
	words := slices.Clone(call.Args)
	if len(words) > 0 {
		if text, ok := words[0].Literal(); ok && oldTar().MatchString(text) {
			words[0] = shell.Word{{Text: "-" + text}}
		}
	}
	g, err := optionsOf(tarUnpack).read(words)
	if err == nil && !g.has("x") {
		err = &shell.Error{Word: call.Name, Why: "without x, it does not unpack"}
	}
	return g, err
}

// unpack returns the fetch that unpacks the archive of a tar.
func (k *files) unpack(d *download, call *shell.Call, g given) ([]Step, error) {
	if len(g.args) > 0 {
		return nil, stop(g.args[0], "only a part of the archive")
	}
	to := g.get("C")
	if to == nil {
		to = shell.Word{{Text: "."}}
	}
	settings := []string{"unpack"}
	if n := g.get("strip-components"); n != nil {
		text, ok := n.Literal()
		if !ok || strings.Trim(text, "0123456789") != "" {
			return nil, stop(n, "not a number")
		}
		settings = append(settings, "strip-components="+text)
	}
	p, err := k.place(to, call)
	missing := err == nil && k.kind(p) != directory
	steps, err := k.unpackTo(d, call, to, settings, g.has("no-same-owner"))
	if missing && err == nil {
		steps[0].differs(noFailure + p.value + " does not exist")
	}
	return steps, err
}

func (k *files) unpackTo(d *download, call *shell.Call, to shell.Word, settings []string, own bool) ([]Step, error) {
	p, err := k.place(to, call)
	if err != nil {
		return nil, err
	}
	if err := k.target(p); err != nil {
		return nil, err
	}
	s := d.step(strings.TrimSuffix(p.text, "/")+"/", settings...)
	s.Why = "fetch downloads and unpacks the same archive"
	s.differs("an archive that leads out of the directory is refused")
	s.differs(k.linkNote(p)...)
	switch {
	case !mayBeRoot(k.c):
		s.differs("files and directories have the permissions of the archive, without the umask")
	case !own:
		s.ownerless = &ownerless{p.value, stop(p.word, "files of the archive keep their owners if this runs as root, and fetch does not give them; --no-same-owner, or chown afterwards, makes sure")}
	}
	d.used = true
	k.filled = append(k.filled, p.value)
	k.made(p, directory)
	return []Step{s}, nil
}

var oldTar = lazy.Regexp(`^[xzjJvpmo]+f?$`)

// downloaded returns what an earlier command has downloaded to a file.
func (k *files) downloaded(w shell.Word, call *shell.Call) (*download, error) {
	p, err := k.place(w, call)
	if err != nil {
		return nil, err
	}
	if d := k.downloads[p.value]; d != nil && p.pattern == "" && !d.removed {
		return d, nil
	}
	return nil, stop(w, "not a file that an earlier command has downloaded")
}

// gunzip decompresses what is downloaded by the command before it in the pipe.
func (k *files) gunzip(d *download, call *shell.Call) ([]Step, error) {
	g, err := optionsOf("c stdout to-stdout; d decompress; f force; k keep; q quiet").read(call.Args)
	if err != nil {
		return nil, err
	}
	if len(g.args) > 0 || call.Name == "gzip" && !g.has("d") || strings.Contains(path.Base(d.url), ".tar") || strings.Contains(path.Base(d.url), ".tgz") {
		return nil, &shell.Error{Word: call.Name, Why: "not the one compressed file that is downloaded"}
	}
	p, err := k.place(call.Stdout.File, call)
	if err != nil {
		return nil, err
	}
	if err := k.target(p); err != nil || p.slash || k.kind(p) == directory {
		return nil, cmp.Or(err, stop(p.word, "not the name of a file"))
	}
	s := d.step(p.text, "unpack")
	s.differs(k.linkNote(p)...)
	s.differs(k.parentNote(p)...)
	s.differs(k.intoNote(p)...)
	if err := k.replaces(copying{}, p, &s); err != nil {
		return nil, err
	}
	k.made(p, file)
	return []Step{s}, nil
}

// unzip unpacks what an earlier command has downloaded.
func (k *files) unzip(call *shell.Call) ([]Step, error) {
	if err := plain(call); err != nil {
		return nil, err
	}
	g, err := optionsOf("o; q; d=").read(call.Args)
	if err != nil {
		return nil, err
	}
	if len(g.args) != 1 || !g.has("o") {
		return nil, &shell.Error{Word: "unzip", Why: "want -o and one archive: without -o, it asks before it writes over a file"}
	}
	d, err := k.downloaded(g.args[0], call)
	if err != nil {
		return nil, err
	}
	to := g.get("d")
	if to == nil {
		to = shell.Word{{Text: "."}}
	}
	return k.unpackTo(d, call, to, []string{"unpack"}, true)
}

// mv moves what an earlier command has downloaded, or copies and removes.
func (k *files) mv(call *shell.Call) ([]Step, error) {
	o, all, err := k.places(call, "f force; v verbose; T no-target-directory", 2)
	if err != nil {
		return nil, err
	}
	if d := k.downloads[all[0].value]; len(all) == 2 && d != nil && !d.removed {
		d.removed = true
		if d.at.mount == nil && len(k.left(all[1:], directory)) == 0 { // a program that is installed in the image
			d.used = true
			return nil, nil
		}
		return k.placeDownload(d, all[1])
	}
	c := copying{recursive: true, keep: "keep", asLink: true, exactTarget: o.has("T"), removed: true, moves: true}
	var steps []Step
	for _, from := range all[:len(all)-1] {
		copied, err := k.copyAll(c, []location{from}, all[len(all)-1])
		if err != nil {
			return nil, err
		}
		s := &copied[0]
		s.Why = "copy and prepare move the same files"
		s.Differs = slices.DeleteFunc(s.Differs, func(d string) bool { return strings.HasSuffix(d, " is empty") })
		s.differs(noFailure+"there is nothing to move, as at a second run", "directories that exist are merged, and what has the name of a directory is moved into it, where mv fails", "files of initbox's own, .initbox-…, are not moved")
		if !mayBeRoot(k.c) {
			s.differs("what is moved belongs to this user then, and must be readable")
		}
		if from.mount == nil { // the image is as it was at the next start
			k.made(from, absent)
			steps = append(steps, *s)
			continue
		}
		s.Args[0] = setting(s.Args[0], "optional")
		s.differs("while it copies, both need space")
		steps = append(steps, *s)
		removed, err := k.remove(from, true, true)
		if err != nil {
			return nil, err
		}
		steps = append(steps, removed)
	}
	return steps, nil
}

// placeDownload returns the step that downloads to where the file is wanted.
func (k *files) placeDownload(d *download, to location) ([]Step, error) {
	if err := k.target(to); err != nil {
		return nil, err
	}
	d.used = true
	text := to.text
	if k.kind(to) == directory {
		text += "/" + d.at.base()
		to.value += "/" + path.Base(d.at.value)
	}
	s := d.step(text)
	s.differs(k.linkNote(to)...)
	if err := k.replaces(copying{}, to, &s); err != nil {
		return nil, err
	}
	k.made(to, file)
	return []Step{s}, nil
}

// sha256sum checks what an earlier command has downloaded: echo "HEX  FILE" | sha256sum -c.
func (k *files) checksum(call *shell.Call) ([]Step, error) {
	t, err := k.printed(call)
	if err != nil {
		return nil, err
	}
	g, err := optionsOf("c check; s status quiet; w").read(call.Pipe.Args)
	m := checksumLine().FindStringSubmatch(t.text)
	for _, w := range g.args {
		if text, ok := w.Literal(); !ok || text != "-" {
			return nil, stop(w, "a list of checksums in a file")
		}
	}
	if err != nil || m == nil || !g.has("c") || strings.Contains(t.text, "{{") {
		return nil, &shell.Error{Word: call.Pipe.Name, Why: "not the checksum of one file"}
	}
	d, err := k.downloaded(shell.Word{{Text: m[2]}}, call)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(call.Pipe.Name, "sum")
	if want := map[string]int{"sha256": 64, "sha512": 128}[name]; want != len(m[1]) {
		return nil, &shell.Error{Word: call.Pipe.Name, Why: "not the length of its checksums"}
	}
	if d.used {
		return nil, &shell.Error{Word: call.Pipe.Name, Why: "after what it checks was used"}
	}
	d.settings = append(d.settings, name+"="+strings.ToLower(m[1]))
	return nil, nil
}

var checksumLine = lazy.Regexp(`^([0-9a-fA-F]{64,128}) [ *](/\S+)\n?$`)

// withoutUsed returns the steps without the downloads that later ones have unpacked or moved and that do not stay.
func withoutUsed(steps []Step) ([]Step, error) {
	var rest []Step
	for _, s := range steps {
		d := s.download
		switch {
		case d == nil:
			rest = append(rest, s)
		case !d.used && d.at.mount == nil:
			return nil, at(d.call, stop(d.at.word, "in no volume: what is written there is lost when the container ends"))
		case !d.used && !d.removed:
			final := d.step(d.at.text)
			s.Args = final.Args
			rest = append(rest, s)
		case d.used && !d.removed && d.at.mount != nil:
			return nil, at(d.call, stop(d.at.word, "an archive that is unpacked and stays"))
		}
	}
	return rest, nil
}
