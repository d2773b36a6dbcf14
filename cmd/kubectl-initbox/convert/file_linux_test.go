package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"

	initbox "initbox/cmd/command"
	"initbox/cmd/kubectl-initbox/manifest"
	"initbox/test/soak"
)

// TestMain makes the test binary initbox under that name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "initbox" {
		os.Exit(initbox.Run("devel", os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestFilesVariety runs scripts and what replaces them on the same trees, twice each, and compares what they leave:
// names, kinds, modes, owners, contents and targets of links. A difference must be one that the steps tell. Each script
// runs on one of the trees; under make soak on all of them, and random ones follow one another.
func TestFilesVariety(t *testing.T) {
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("needs root, and a few seconds")
	}
	tools := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := &sameFiles{program: filepath.Join(tools, "initbox"), tools: map[string]string{"debian": os.Getenv("PATH")}, ran: map[string]int{}}
	if err := os.Symlink(self, d.program); err != nil {
		t.Fatal(err)
	}
	trees := [][2]string{{"debian", "empty"}, {"debian", "files"}, {"debian", "links"}, {"debian", "directories"}}
	if busybox, err := exec.LookPath("busybox"); err == nil {
		for name := range strings.FieldsSeq("sh stat mkdir chown chgrp chmod touch rm ln cp mv install find xargs cat echo printf tee true tar gunzip sed") {
			if err := os.Symlink(busybox, filepath.Join(tools, name)); err != nil {
				t.Fatal(err)
			}
		}
		d.tools["busybox"] = tools // where it differs from GNU's, that shows in these
		trees = append(trees, [2]string{"busybox", "empty"}, [2]string{"busybox", "files"})
	}
	random := soak.Rand(t)
	t.Run("scripts", func(t *testing.T) {
		for n, tree := range trees {
			var scripts []string
			for i, script := range sameScripts {
				if soak.Running(t) || i%len(trees) == n {
					scripts = append(scripts, script)
				}
			}
			for range len(scripts) / 2 {
				scripts = append(scripts, sameScripts[random.IntN(len(sameScripts))]+" && "+sameScripts[random.IntN(len(sameScripts))])
			}
			t.Run(tree[0]+" "+tree[1], func(t *testing.T) {
				t.Parallel()
				for _, script := range scripts {
					if tree[1] == "empty" { // only that of a new Pod is
						d.compare(t, tree[0], "empty", tree[1], script)
					} else {
						d.compare(t, tree[0], "claim", tree[1], script)
					}
				}
			})
		}
	})
	t.Logf("%v", d.ran)
	if all := d.ran["same"] + d.ran["different"] + d.ran["refused"] + d.ran["failed"]; d.ran["same"] < all/4 {
		t.Errorf("only %d of %d were the same", d.ran["same"], all)
	}
}

type sameFiles struct {
	program string
	tools   map[string]string

	mu  sync.Mutex
	ran map[string]int
}

func (d *sameFiles) count(what string) {
	d.mu.Lock()
	d.ran[what]++
	d.mu.Unlock()
}

const sameVolumes = `
apiVersion: v1
kind: Pod
metadata: {name: a}
spec:
  initContainers:
  - name: init
    image: IMAGE
    env: [{name: A, value: one}, {name: B, value: 'two  three\n'}]
    securityContext: {runAsUser: 0}
    volumeMounts:
    - {name: v, mountPath: ROOT/v}
    - {name: config, mountPath: ROOT/config}
    - {name: seed, mountPath: ROOT/seed}
  containers: [{name: main, image: app}]
  volumes:
  - {name: v, VOLUME}
  - {name: seed, persistentVolumeClaim: {claimName: seed}}
  - {name: config, configMap: {name: c}}
`

func (d *sameFiles) container(t *testing.T, root, image, volume string) *manifest.Container {
	kind := map[string]string{"empty": "emptyDir: {}", "claim": "persistentVolumeClaim: {claimName: v}"}[volume]
	text := strings.NewReplacer("IMAGE", image, "ROOT", root, "VOLUME", kind).Replace(sameVolumes)
	objects, err := manifest.Read("a.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return objects[0].Pod.Containers[0]
}

// compare runs one script, and what replaces it.
func (d *sameFiles) compare(t *testing.T, image, volume, state, script string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "t")
	script = strings.ReplaceAll(script, "@", root)
	result, err := readScript("sh", strings.ReplaceAll(script, "$", "$$"), []string{"sh"}, d.container(t, root, image, volume))
	if err != nil {
		d.count("refused")
		if os.Getenv("SHOW") != "" {
			t.Logf("REFUSED %s, %s, %s: %s: %v", image, volume, state, strings.ReplaceAll(script, root, "@"), err)
		}
		return
	}
	steps, differs := result.Steps, ""
	for _, s := range steps {
		differs += strings.Join(s.Differs, "; ")
	}
	var trees [2][2][]string
	var logs [2]string
	for i := range trees {
		os.RemoveAll(root)
		startTree(t, root, state)
		for run := range 2 {
			var program *exec.Cmd
			if i == 0 {
				program = exec.Command("/bin/sh", "-c", script)
				if image == "busybox" {
					program.Path = filepath.Join(d.tools[image], "sh")
				}
			} else {
				program = exec.Command(d.program, lineOf(steps)...)
			}
			program.Env = []string{"PATH=" + d.tools[image], "A=one", `B=two  three\n`}
			program.Dir = "/"
			out, err := program.CombinedOutput()
			logs[i] += string(out)
			if err != nil && i == 0 {
				d.count("failed")
				return
			}
			if trees[i][run] = treeOf(t, root); err != nil {
				trees[i][run] = append(trees[i][run], "failed: "+err.Error())
			}
		}
	}
	diff := difference(trees[0][0], trees[1][0])
	// Where the container starts again in a new Pod, it may also leave what the first run did.
	if again := difference(trees[0][1], trees[1][1]); again != "" && (volume != "empty" || difference(trees[0][0], trees[1][1]) != "") {
		diff += again
	}
	switch {
	case diff == "":
		d.count("same")
	case differs != "":
		d.count("different")
		if os.Getenv("SHOW") != "" {
			t.Logf("DIFFERENT %s, %s, %s: %s: %s\n%s", image, volume, state, strings.ReplaceAll(script, root, "@"), differs, diff)
		}
	default:
		t.Errorf("%s, %s, %s: %s: %q\n%s%s", image, volume, state, strings.ReplaceAll(script, root, "@"), lineOf(steps), strings.ReplaceAll(diff, root, "@"), logs[1])
	}
}

func difference(want, got []string) string {
	diff := ""
	for _, l := range want {
		if !contains(got, l) {
			diff += "- " + l + "\n"
		}
	}
	for _, l := range got {
		if !contains(want, l) {
			diff += "+ " + l + "\n"
		}
	}
	return diff
}

func contains(list []string, text string) bool {
	for _, l := range list {
		if l == text {
			return true
		}
	}
	return false
}

// startStates are what the volume v has before.
var startStates = map[string]func(root string) error{
	"empty": func(string) error { return nil },
	"files": func(v string) error {
		return errors.Join(put(v+"/a", "old a", 0o640), put(v+"/dir/a", "old", 0o400), put(v+"/dir/.hidden", "h", 0o644), put(v+"/.dot", "dot", 0o644), os.Mkdir(v+"/lost+found", 0o700),
			os.Lchown(v+"/a", 1000, 1001), os.Lchown(v+"/dir", 999, 999), put(v+"/x.pid", "1", 0o600), put(v+"/.x.pid", "1", 0o600))
	},
	"links": func(v string) error {
		return errors.Join(put(v+"/real/a", "real", 0o644), os.Symlink("real", v+"/dir"), os.Symlink("real/a", v+"/a"), os.Symlink("nowhere", v+"/gone"), os.Symlink("real/a", v+"/x.pid"))
	},
	"directories": func(v string) error {
		return errors.Join(put(v+"/a/inside", "x", 0o644), put(v+"/dir/a/inside", "x", 0o644), put(v+"/x.pid/y", "x", 0o644), os.Mkdir(v+"/sub", 0o700), os.Lchown(v+"/sub", 5, 5), os.Chmod(v, 0o2770), os.Chmod(v+"/dir", 0o2755))
	},
}

func put(name, text string, mode fs.FileMode) error {
	return errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode), os.Chmod(name, mode))
}

// startTree makes the volumes: config as the kubelet does.
func startTree(t *testing.T, root, state string) {
	t.Helper()
	err := errors.Join(
		put(root+"/config/..2026/a", "config a\n", 0o644), put(root+"/config/..2026/b.key", "key", 0o644), os.Symlink("..2026", root+"/config/..data"),
		os.Symlink("..data/a", root+"/config/a"), os.Symlink("..data/b.key", root+"/config/b.key"),
		put(root+"/seed/f", "seed", 0o664), put(root+"/seed/tool", "tool", 0o4775), put(root+"/seed/.dot", "d", 0o600), put(root+"/seed/sub/g", "g", 0o640), put(root+"/seed/sub/.h", "g", 0o640),
		os.Chmod(root+"/seed/sub", 0o2775), os.Symlink("f", root+"/seed/link"), os.Symlink("sub", root+"/seed/dirlink"), os.Lchown(root+"/seed/sub/g", 1000, 1000), os.Lchown(root+"/seed/sub", 1000, 1000),
		os.MkdirAll(root+"/seed/none", 0o755),
		os.MkdirAll(root+"/v", 0o777), startStates[state](root+"/v"))
	if err != nil {
		t.Fatal(err)
	}
}

// treeOf describes the volume v, a line for each entry.
func treeOf(t *testing.T, root string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(root+"/v", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		s := info.Sys().(*syscall.Stat_t)
		text := ""
		switch {
		case info.Mode().IsRegular():
			b, _ := os.ReadFile(name)
			text = fmt.Sprintf("%q", b)
		case info.Mode()&fs.ModeSymlink != 0:
			text, _ = os.Readlink(name)
		}
		mode := info.Mode()
		if mode&fs.ModeSymlink != 0 {
			mode = fs.ModeSymlink
		}
		lines = append(lines, fmt.Sprintf("%s %v %d:%d %s", strings.TrimPrefix(name, root), mode, s.Uid, s.Gid, text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return lines
}

// sameScripts are run on v, which is empty or not, with what is in config and seed.
var sameScripts = []string{
	"sed s/config/$A/g @/config/a > @/v/new",
	"sed -e s/o/0/g -e s/^c/C/ < @/config/a > @/v/a",
	"cp @/config/a @/v/new && sed -i s/a/$A/g @/v/new && sed -i 's/ .*/ b/' @/v/new",
	"sed s/e/E/g @/seed/f | sed s/d$/-/ > @/v/x.pid",
	"cp @/config/a @/v/new && cp @/v/new @/v/new2 && sed -i s/a/$A/g @/v/new",
	"sed s/a/b/g @/config/a > @/v/new && cp @/v/new @/v/new2 && sed -i s/b/c/g @/v/new",
	"echo $A > @/v/new && sed -i s/one/two/g @/v/new",
	"mkdir -p @/v/a",
	"mkdir -p @/v/new/b/c @/v/dir",
	"mkdir @/v/new",
	"mkdir -p -m 700 @/v/new",
	"mkdir -m 2750 @/v/new",
	"chown -R 999:998 @/v",
	"chown 999:998 @/v",
	"chown -R 999 @/v/dir",
	"chown -R 999:998 @/v/*",
	"chmod -R 750 @/v/*",
	"chown -R 999 @/v/*; chmod 700 @/v",
	"cp @/config/* @/v && chmod 600 @/v/*.key && chown 9 @/v",
	"find @/v -mindepth 1 -exec chown -h 9 {} +; chmod 700 @/v",
	"find @/v -type f -exec chmod 640 {} +; chmod -R 700 @/v",
	"[ $(stat -c %u @/v) -eq 9 ] || chown -R 9:8 @/v",
	"[ $(stat -c %u @/v) -eq 0 ] || chown -R 0:8 @/v",
	"cp -r .@/seed/. @/v/",
	"cp -r .@/seed/* @/v/",
	"cp .@/seed/f @/v/new; cp .@/v/new @/v/new2",
	"cd @/seed && cp -r . @/v && cd @/v && rm -rf sub",
	"chgrp -R 998 @/v",
	"chown 999 @/v/dir/",
	"find @/v -type f -delete",
	"find @/v -mindepth 1 -delete",
	"find @/v -mindepth 1 -maxdepth 1 -exec rm -rf {} +",
	"find @/v -mindepth 1 -maxdepth 1 -name '*.pid' -exec rm -rf {} +",
	"find @/v -maxdepth 1 -type f -name '*pid' | xargs rm -f",
	"cp -a @/seed/sub @/v/ && find @/v -type f -mtime +0 -delete",
	"find @/v -type d -exec chmod 750 {} +",
	"find @/v -type f -exec chmod 640 {} +",
	"find @/v -exec chown -h 7:8 {} +",
	"find @/v -exec chown 7:8 {} +",
	"find @/v ! -user 1000 -exec chown -h 1000 {} +",
	"find @/v ! -perm 750 -exec chmod 750 {} +",
	"find @/v -type f -name '*.pid' -exec chmod 600 {} +",
	"find @/v -mindepth 1 -maxdepth 1 ! -name dir -print0 | xargs -0 -r chown -R 4:4",
	"cp -r @/seed/sub @/v/ && mv @/v/sub @/v/moved",
	"mkdir -p @/v/to && mv @/v/a @/v/to/",
	"mkdir -p @/v/to && mv @/v/* @/v/to",
	"mkdir -p @/v/to && mv @/v/dir/* @/v/to/",
	"mkdir -p @/v/from @/v/to && cp -a @/seed/. @/v/from && mv @/v/from/* @/v/to",
	"echo a > @/v/tmp && mv @/v/tmp @/v/a",
	"rsync -a @/seed/ @/v/",
	"rsync -a @/seed @/v/",
	"cp --update=none @/seed/f @/v/a",
	"chown 999 @/v/a",
	"chmod 750 @/v/a",
	"chmod u+x @/v/x.pid && chown 4:4 @/v/x.pid",
	"chown -R 999:998 @/v/a",
	"chmod -R u=rwX,go= @/v/dir @/v/a",
	"chown 999 @/v/none/ || true",
	"chown -R 999:998 @/v/a @/v/dir || true",
	"chmod -R u=rwX,go= @/v/a || true",
	"chmod 700 @/v/dir/ || true",
	"mkdir @/v/a || true",
	"mkdir @/v/dir || true; chown -R 7:7 @/v || true",
	"mkdir -p @/v/gone/x || true",
	"rm @/v/x.pid || true",
	"rm @/v/x.pid @/v/a @/v/none || true",
	"rm @/v/*.pid || true",
	"rm -r @/v/a @/v/x.pid @/v/none || true",
	"touch @/v/a/b || true",
	"ln -sfn @/seed/f @/v/a || true",
	"cp @/seed/nothing @/v/new || true",
	"cp @/seed/* @/v/ || true",
	"cp @/seed/f @/v/a || true",
	"cp -r @/seed/none/. @/v || true",
	"mkdir -p @/v/dir && chown -R 999:998 @/v/dir",
	"mkdir -p @/v/dir && chown 999:998 @/v/dir && chmod 750 @/v/dir",
	"chmod 755 @/v",
	"chmod 1777 @/v",
	"chmod -R 755 @/v",
	"chmod -R 2775 @/v",
	"chmod -R u+rwX,go-rwx @/v",
	"chmod -R g=u @/v",
	"chmod -R a+rX @/v",
	"chmod -R +x @/v",
	"chmod -R ug=rwx,o= @/v",
	"chmod +w @/v",
	"chmod -R o-w @/v",
	"chmod g+s @/v",
	"chmod -R 700 @/v/dir",
	"touch @/v/a",
	"touch @/v/new @/v/new2",
	"touch @/v/new && chmod 600 @/v/new && chown 5:6 @/v/new",
	"rm -f @/v/a",
	"rm -rf @/v/a",
	"rm -rf @/v/dir",
	"rm -rf @/v/dir @/v/a @/v/none",
	"rm -rf @/v/*",
	"rm -f @/v/*",
	"rm -rf @/v/* @/v/.[!.]*",
	"rm -rf @/v/dir/*",
	"rm -f @/v/*.pid",
	"rm -rf @/v/*pid",
	"rm -rf @/v/a*",
	"rm -rf @/v/lost+found",
	"ln -s @/seed/f @/v/new",
	"ln -sf @/seed/f @/v/new",
	"ln -sfn @/seed/f @/v/a",
	"ln -sfn @/seed @/v/dir",
	"ln -sfn ../seed @/v/new",
	"ln -sf @/seed/f @/v/",
	"mkdir -p @/v/links && ln -sf @/seed/f @/v/links && ln -sf @/seed/sub @/v/links/s",
	"cp @/config/a @/v/",
	"cp @/config/a @/v/a",
	"cp @/config/a @/v/new",
	"cp @/config/a @/config/b.key @/v",
	"cp @/config/* @/v",
	"cp -L @/config/* @/v/",
	"cp -f @/config/* @/v/",
	"cp -n @/config/* @/v/",
	"cp -rL @/config/. @/v/",
	"cp -r @/config/. @/v/",
	"cp @/config/* @/v && chown -R 9:9 @/v",
	"cp @/config/* @/v && chmod 600 @/v/*.key",
	"cp @/config/b.key @/v/ && chmod 400 @/v/b.key && chown 9:9 @/v/b.key",
	"mkdir -p @/v/dir && cp @/config/a @/v/dir && chown -R 9:9 @/v",
	"cp @/seed/f @/v/a",
	"cp @/seed/f @/v/",
	"cp @/seed/tool @/v/",
	"cp -p @/seed/tool @/v/",
	"cp -a @/seed/tool @/v/",
	"cp @/seed/link @/v/",
	"cp -P @/seed/link @/v/",
	"cp -d @/seed/link @/v/",
	"cp -r @/seed/link @/v/",
	"cp -rL @/seed/link @/v/",
	"cp -r @/seed/dirlink @/v/",
	"cp -r @/seed/dirlink/. @/v/",
	"cp -r @/seed @/v/",
	"cp -r @/seed/ @/v/",
	"cp -r @/seed/. @/v/",
	"cp -r @/seed/. @/v",
	"cp -R @/seed/sub @/v/",
	"cp -R @/seed/sub/ @/v",
	"cp -R @/seed/sub @/v/new",
	"cp -r @/seed/* @/v/",
	"cp -rn @/seed/* @/v/",
	"cp -rn @/seed/. @/v/",
	"cp -ru @/seed/. @/v/",
	"cp -rL @/seed/. @/v/",
	"cp -a @/seed/. @/v/",
	"cp -a @/seed/* @/v/",
	"cp -a @/seed/sub @/v/",
	"cp -rp @/seed/sub @/v/",
	"cp -r @/seed/none/. @/v/",
	"cp -rT @/seed @/v",
	"cp -rT @/seed/sub @/v/new",
	"cp @/seed/s* @/v/",
	"cp -r @/seed/s* @/v/",
	"cp -r @/seed/.d* @/v/",
	"cp --remove-destination @/seed/f @/v/a",
	"cp -r @/seed/. @/v && chown -R 7:8 @/v && chmod -R u=rwX,go= @/v",
	"mkdir -p @/v/dir && cp -r @/seed/. @/v/dir/ && chown -R 7:8 @/v",
	"install -m 640 @/seed/f @/v/new",
	"install -d -m 750 @/v/new",
	"install @/seed/f @/v/",
	"echo hello > @/v/new",
	"echo hello > @/v/a",
	"echo -n hello > @/v/new",
	"echo \"$A and $B\" > @/v/new",
	"echo '{{ x }} {' > @/v/new && echo \"{$A}\" >> @/v/new",
	"printf '%s=%s\\n' \"$A\" \"$B\" > @/v/new",
	"printf 'a\\tb\\n100%%\\n' > @/v/new",
	"echo '$A # % & \"q\"' > @/v/new",
	"echo a > @/v/new && echo b >> @/v/new && chmod 600 @/v/new",
	"echo hi | tee @/v/new",
	": > @/v/new",
	"cat @/config/a > @/v/new",
	"cat @/seed/tool > @/v/new",
	"cat @/config/b.key @/config/a > @/v/new",
	"echo a > @/v/new && chown -R 3:3 @/v",
	"mkdir -p @/v/x/y && echo \"a b\" > @/v/x/y/z && chown -R 3:4 @/v/x",
}
