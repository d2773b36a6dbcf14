package corpus_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"initbox/test/servers"
)

// inside is set in the process that runs the tests in namespaces of their own.
const inside = "INITBOX_CORPUS_INSIDE"

// program is the initbox that TestMain built; skip is why there is none, and absent what this machine lacks for it.
var program, skip, absent string

// TestMain runs the tests in a mount namespace, so that their volumes are not seen elsewhere, and in a network
// namespace, in which they have the ports 80 and 443 and their own sysctls.
func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case testing.Short():
		skip = "runs the program more than 250 times"
	case os.Getuid() != 0:
		skip = "the rows change owners and mount volumes: needs root"
	case os.Getenv(inside) == "":
		if status, err := enter(); err == nil {
			os.Exit(status)
		} else {
			absent = fmt.Sprintf("no namespaces here: %v", err)
		}
	default:
		dir, err := os.MkdirTemp("", "initbox-corpus-")
		if err == nil {
			err = prepareInside(dir)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.RemoveAll(dir)
			os.Exit(1)
		}
		status := servers.Main(m)
		os.RemoveAll(dir)
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// enter runs this process again in new namespaces, and returns its exit status.
func enter() (int, error) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}

// prepareInside makes the namespaces usable, and builds the program.
func prepareInside(dir string) (err error) {
	unix.Umask(0o022)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping mounts to this process: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	program, err = servers.Initbox(dir)
	return err
}

// loopbackUp brings lo up.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// TestRows runs what replaces each row, twice: afterwards, what must be there is there, and the second run, as after a
// restart of the node, has changed nothing.
func TestRows(t *testing.T) {
	if skip != "" {
		t.Skip(skip)
	}
	if absent != "" {
		servers.Absent(t, "%s", absent)
	}
	rows := readRows(t)
	w := startWeb(t, rows)
	for _, r := range rows {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			for i, situation := range r.runs() {
				for _, way := range situation.ways() {
					name := way.name
					if i > 0 {
						name += " " + strconv.Itoa(i+1)
					}
					t.Run(name, func(t *testing.T) { runTwice(t, w, *situation, way) })
				}
			}
		})
	}
}

func runTwice(t *testing.T, w *web, r run, way way) {
	if way.repository != "" {
		w.push(t, way.repository, r.Image)
	}
	if way.volume {
		r.Mounts = maps.Clone(r.Mounts)
		r.Mounts["/image"] = "image"
	}
	h := startHosts(t, w, r)
	if r.SSH != nil {
		r = h.withSSH(r)
	}
	p := newPod(t, r, h)
	first := p.container(nil)
	root, said := first, ""
	all := func() { said += p.exec(root, "/bin/initbox", way.args) }
	if way.install {
		root = p.container(r.Image)
		all = func() {
			said += p.exec(first, "/bin/initbox", []string{"install", "/tools"})
			said += p.exec(root, "/tools/initbox", way.args)
		}
	}
	all()
	p.root = root
	p.check(said)
	before, requests := p.state(), p.hosts.requests()
	all()
	after := p.state()
	for _, path := range slices.Sorted(maps.Keys(before)) {
		if before[path] != after[path] && !r.Tries {
			t.Errorf("the second run has changed %s: %s, then %s", path, before[path], after[path])
		}
		delete(after, path)
	}
	for path := range after {
		t.Errorf("the second run has made %s", path)
	}
	if n := p.hosts.requests() - requests; r.Offline && n > 0 {
		t.Errorf("the second run has sent %d requests", n)
	}
	if t.Failed() {
		t.Log(said)
	}
}

// check reports what is not as the row wants it after the first run.
func (p *pod) check(said string) {
	t, r := p.t, p.run
	for _, path := range slices.Sorted(maps.Keys(r.After)) {
		if err := compare(p.root+path, r.After[path]); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, text := range r.Says {
		if !strings.Contains(said, text) {
			t.Errorf("%q is not in the log", text)
		}
	}
	if strings.Contains(said, "no volume is mounted there") {
		t.Error("what is written is in no volume")
	}
	for _, u := range p.hosts.unasked() {
		t.Errorf("nothing waited for %s", u)
	}
	for object, pattern := range r.Creates { // such as secrets/db
		kind, name, _ := strings.Cut(object, "/")
		if text := p.hosts.api.Object(kind, "default", name); !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("%s is %q, want a match of %s", object, text, pattern)
		}
	}
}

// A pod has the volumes of a row, and containers with them.
type pod struct {
	t     *testing.T
	run   run
	dir   string
	root  string // of the last container
	hosts *hosts
	made  map[string]string // the directory or file of each volume, by where it is mounted
}

func newPod(t *testing.T, r run, h *hosts) *pod {
	p := &pod{t: t, run: r, dir: t.TempDir(), hosts: h, made: map[string]string{}}
	mounts := maps.Clone(r.Mounts)
	if mounts == nil {
		mounts = map[string]string{}
	}
	mounts["/tools"] = "emptyDir"
	if h.api != nil {
		mounts["/var/run/secrets/kubernetes.io/serviceaccount"] = "serviceAccount"
	}
	p.run.Mounts = mounts
	for i, path := range slices.Sorted(maps.Keys(mounts)) {
		p.made[path] = filepath.Join(p.dir, "volumes", strconv.Itoa(i))
		p.volume(p.made[path], path, mounts[path])
	}
	return p
}

// volume makes a volume of a kind, with what is in it before.
func (p *pod) volume(dir, path, kind string) {
	kind, attributes, _ := strings.Cut(kind, " ")
	if kind == "subPath" {
		p.must(write(dir, p.run.Before[path]))
		return
	}
	root := spec{dir: true, mode: 0o755}
	if attributes != "" {
		var err error
		root, err = parseSpec("dir " + attributes)
		p.must(err)
	}
	files := dir
	switch kind {
	case "emptyDir":
		root.mode = 0o777
	case "image":
		for _, file := range slices.Sorted(maps.Keys(p.run.Image)) {
			p.must(write(dir+file, p.run.Image[file]))
		}
	case "secret", "configMap":
		files = dir + "/..2026_11_23_06_00_00.1"
	case "ca":
		text, err := os.ReadFile(p.hosts.web.ca.File)
		p.must(err)
		p.must(write(dir+"/ca.crt", "= "+string(text)))
	case "serviceAccount":
		p.must(p.hosts.serviceAccount(dir))
	case "pvc", "hostPath":
	default:
		p.t.Fatalf("%s: no kind of volume", kind)
	}
	p.must(os.MkdirAll(files, 0o755))
	p.must(root.apply(dir))
	for _, file := range slices.Sorted(maps.Keys(p.run.Before)) {
		if below, ok := strings.CutPrefix(file, path+"/"); ok && p.mountOf(file) == path {
			p.must(write(files+"/"+below, p.run.Before[file]))
		}
	}
	if files == dir {
		return
	}
	entries, err := os.ReadDir(files)
	p.must(errors.Join(err, os.Symlink(filepath.Base(files), dir+"/..data")))
	for _, e := range entries {
		p.must(os.Symlink("..data/"+e.Name(), dir+"/"+e.Name()))
	}
}

// mountOf returns where the volume is mounted that a path lies in, or "".
func (p *pod) mountOf(path string) (mount string) {
	for at := range p.run.Mounts {
		if (path == at || strings.HasPrefix(path, at+"/")) && len(at) > len(mount) {
			mount = at
		}
	}
	return mount
}

// container makes the root of a container, with the files of an image and the Pod's volumes, and returns its path.
func (p *pod) container(image map[string]string) string {
	root, err := os.MkdirTemp(p.dir, "root-")
	p.must(err)
	p.must(os.Chmod(root, 0o755))
	if image == nil {
		p.must(errors.Join(os.Mkdir(root+"/bin", 0o755), os.Link(program, root+"/bin/initbox")))
	}
	p.mount(root, root, 0)
	for _, path := range slices.Sorted(maps.Keys(image)) {
		p.must(write(root+path, image[path]))
	}
	ca, err := os.ReadFile(p.hosts.web.ca.File)
	p.must(errors.Join(err, os.WriteFile(root+"/ca.pem", ca, 0o644)))
	hosts, resolv := p.hosts.files()
	p.must(errors.Join(os.WriteFile(p.dir+"/hosts", []byte(hosts), 0o644), os.WriteFile(p.dir+"/resolv.conf", []byte(resolv), 0o644)))
	p.bindFile(p.dir+"/hosts", root+"/etc/hosts")
	p.bindFile(p.dir+"/resolv.conf", root+"/etc/resolv.conf")
	p.must(write(root+"/dev/termination-log", "="))
	p.must(write(p.dir+"/termination-log", "0666 ="))
	p.mount(p.dir+"/termination-log", root+"/dev/termination-log", 0)
	p.proc(root)
	for _, path := range slices.Sorted(maps.Keys(p.made)) { // what is mounted below comes later
		kind, _, _ := strings.Cut(p.run.Mounts[path], " ")
		if path == "/proc/sys" {
			continue // mounted already
		}
		flags := uintptr(0)
		if slices.Contains([]string{"secret", "configMap", "ca", "subPath", "image", "serviceAccount"}, kind) {
			flags = unix.MS_RDONLY
		}
		if kind == "subPath" {
			p.must(write(root+path, "="))
		} else {
			p.must(os.MkdirAll(root+path, 0o755))
		}
		p.mount(p.made[path], root+path, flags)
	}
	if image == nil { // readOnlyRootFilesystem: true
		p.must(readOnly(root))
	}
	return root
}

// readOnly makes a mount read-only. That fails while a file in it is open for writing, as it is in a process that
// another test has just forked, until that becomes the program.
func readOnly(mount string) (err error) {
	for range 1000 {
		if err = unix.Mount("", mount, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != unix.EBUSY {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// proc mounts /proc as a runtime does, with /proc/sys read-only. A row that begins with sysctls has a fixture there;
// one that only ends with some has those of the network namespace.
func (p *pod) proc(root string) {
	p.must(os.Mkdir(root+"/proc", 0o755))
	p.mount("/proc", root+"/proc", 0)
	p.mount("/proc/sys", root+"/proc/sys", unix.MS_RDONLY)
	has := func(files map[string]string) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(files)), func(f string) bool { return strings.HasPrefix(f, "/proc/sys/") })
	}
	switch {
	case has(p.run.Before):
		fixture := filepath.Join(p.dir, "sys")
		for path, text := range p.run.Before {
			if below, ok := strings.CutPrefix(path, "/proc/sys/"); ok {
				p.must(write(fixture+"/"+below, text))
			}
		}
		p.made["/proc/sys"] = fixture
		p.mount(fixture, root+"/proc/sys", 0)
	case has(p.run.After):
		p.mount("/proc/sys/net", root+"/proc/sys/net", 0)
	}
}

func (p *pod) bindFile(source, target string) {
	p.must(write(target, "="))
	p.mount(source, target, unix.MS_RDONLY)
}

// mount binds source to target for the duration of the test.
func (p *pod) mount(source, target string, flags uintptr) {
	p.t.Helper()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		servers.Absent(p.t, "cannot mount here: %v", err)
	}
	p.t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil { // else it would be removed with the test's directory
			panic(err)
		}
	})
	if flags&unix.MS_RDONLY != 0 {
		p.must(readOnly(target))
	}
}

// exec runs the program in a container, and returns what it says. Its status must be 0.
func (p *pod) exec(root, program string, args []string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program)
	cmd.Dir, cmd.Env = "/", []string{"PATH=/bin", "SSL_CERT_FILE=/ca.pem"}
	if p.hosts.api != nil {
		cmd.Env = append(cmd.Env, "KUBERNETES_SERVICE_HOST="+p.hosts.addr, "KUBERNETES_SERVICE_PORT=6443")
	}
	expand := []string{}
	for name, value := range p.run.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
		expand = append(expand, "$("+name+")", value)
	}
	for _, arg := range args {
		cmd.Args = append(cmd.Args, strings.NewReplacer(expand...).Replace(arg))
	}
	user := spec{}
	if p.run.User != "" {
		var err error
		user, err = parseSpec(p.run.User)
		p.must(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Credential: &syscall.Credential{Uid: uint32(user.uid), Gid: uint32(user.gid)}, Pdeathsig: syscall.SIGKILL,
	}
	var said bytes.Buffer
	out := io.MultiWriter(&said, p.hosts)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		p.t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args[1:], " "), err, &said)
	}
	return said.String()
}

// state returns what would change if a file of the volumes was written or touched.
func (p *pod) state() map[string]string {
	files := map[string]string{}
	for at, dir := range p.made {
		p.must(filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			var s unix.Stat_t
			if err = errors.Join(err, unix.Lstat(path, &s)); err != nil {
				return err
			}
			if p.run.Locks && s.Mode&unix.S_IFMT == unix.S_IFDIR {
				s.Ctim = unix.Timespec{}
			}
			files["volume "+at+", file ."+strings.TrimPrefix(path, dir)] = fmt.Sprintf("inode %d, mode %o, owner %d:%d, changed at %v", s.Ino, s.Mode, s.Uid, s.Gid, s.Ctim)
			return nil
		}))
	}
	return files
}

func (p *pod) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// write makes a file as a spec describes it, with its directories.
func write(path, text string) error {
	s, err := parseSpec(text)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	switch {
	case err != nil:
		return err
	case s.link != "":
		return os.Symlink(s.link, path)
	case s.dir:
		err = os.MkdirAll(path, 0o755)
	default:
		err = os.WriteFile(path, s.bytes(), 0o644)
	}
	return errors.Join(err, s.apply(path))
}

// kind returns the type of the file, or 0 if it is not given.
func (s spec) kind() uint32 {
	switch {
	case s.link != "":
		return unix.S_IFLNK
	case s.dir:
		return unix.S_IFDIR
	case s.content != nil, s.matches != nil:
		return unix.S_IFREG
	}
	return 0
}

// bytes returns the content as it is stored.
func (s spec) bytes() []byte {
	if s.pem != nil {
		var all []byte
		for _, name := range s.pem {
			all = append(all, pems[name]...)
		}
		return all
	}
	if s.content == nil {
		return nil
	}
	content := []byte(*s.content)
	for _, encoding := range s.encodings {
		switch encoding {
		case "gz":
			content = gzipped(content)
		case "base64":
			content = []byte(base64.StdEncoding.EncodeToString(content))
		}
	}
	return content
}

func gzipped(content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(content)
	w.Close()
	return b.Bytes()
}

// apply gives a file the owner, mode and time of s.
func (s spec) apply(path string) error {
	var errs []error
	if s.uid >= 0 {
		errs = append(errs, os.Chown(path, s.uid, s.gid))
	}
	if s.mode >= 0 {
		errs = append(errs, unix.Chmod(path, uint32(s.mode)))
	}
	if s.age > 0 {
		at := time.Now().Add(-s.age)
		errs = append(errs, os.Chtimes(path, at, at))
	}
	return errors.Join(errs...)
}

// compare returns how a file differs from its description.
func compare(path, text string) error {
	want, err := parseSpec(text)
	if err != nil {
		return err
	}
	var got unix.Stat_t
	switch err := unix.Lstat(path, &got); {
	case want.absent && errors.Is(err, fs.ErrNotExist):
		return nil
	case want.absent:
		return fmt.Errorf("is there, %v", err)
	case err != nil:
		return err
	}
	var errs []error
	differs := func(what string, got, want any) {
		if got != want {
			errs = append(errs, fmt.Errorf("%s %v, want %v", what, got, want))
		}
	}
	if kind := want.kind(); kind != 0 {
		differs("kind", fmt.Sprintf("%o", got.Mode&unix.S_IFMT), fmt.Sprintf("%o", kind))
	}
	content, _ := os.ReadFile(path)
	switch {
	case want.link != "":
		target, _ := os.Readlink(path)
		differs("target", target, want.link)
	case want.content != nil:
		differs("content", string(content), *want.content)
	case want.matches != nil && !want.matches.Match(content):
		errs = append(errs, fmt.Errorf("content %q, want a match of %s", content, want.matches))
	case want.certs != nil:
		errs = append(errs, compareCertificates(path, want.certs))
	}
	if want.mode >= 0 {
		differs("mode", fmt.Sprintf("%04o", got.Mode&0o7777), fmt.Sprintf("%04o", want.mode))
	}
	if want.uid >= 0 {
		differs("owner", fmt.Sprintf("%d:%d", got.Uid, got.Gid), fmt.Sprintf("%d:%d", want.uid, want.gid))
	}
	return errors.Join(errs...)
}
