package e2e_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Pods that clone from a server in their namespace, as documented in docs/git-clone.md.

// gitServer is the server of gitclone-server.yaml.
type gitServer struct {
	n   namespace
	ids map[string]string // of the latest commit, by repository and branch
}

// newGitServer starts the server without repositories.
func (n namespace) newGitServer() *gitServer {
	n.Helper()
	n.apply("gitclone-server.yaml")
	n.wait("condition=Ready", "pod/git")
	return &gitServer{n, map[string]string{}}
}

// push adds a commit with the files to a branch, and returns its ID. Files in bin are executable. The repository is
// created if it does not exist.
func (g *gitServer) push(repository, branch string, files map[string]string) string {
	g.n.Helper()
	var stream strings.Builder
	fmt.Fprintf(&stream, "commit refs/heads/%s\ncommitter C O Mitter <committer@example.com> 1700000000 +0000\n%s", branch, data("a change"))
	key := repository + " " + branch
	if before := g.ids[key]; before != "" {
		fmt.Fprintf(&stream, "from %s\n", before)
	}
	stream.WriteString("deleteall\n")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		mode := "100644"
		if strings.HasPrefix(name, "bin/") {
			mode = "100755"
		}
		fmt.Fprintf(&stream, "M %s inline %s\n%s", mode, name, data(files[name]))
	}
	g.ids[key] = g.change(repository, stream.String())["refs/heads/"+branch]
	return g.ids[key]
}

// tag creates an annotated tag.
func (g *gitServer) tag(repository, tag, commit string) {
	g.n.Helper()
	g.change(repository, fmt.Sprintf("tag %s\nfrom %s\ntagger C O Mitter <committer@example.com> 1700000000 +0000\n%s", tag, commit, data("a version")))
}

// data encodes a text for git fast-import.
func data(text string) string { return fmt.Sprintf("data %d\n%s\n", len(text), text) }

// change sends a stream to git fast-import, and returns the IDs of all branches and tags after it.
func (g *gitServer) change(repository, stream string) map[string]string {
	g.n.Helper()
	answer, _ := request(g.n.T, "POST", "/api/v1/namespaces/"+g.n.name+"/pods/git:8080/proxy/import/"+repository, "application/octet-stream", stream)
	ids := map[string]string{}
	for line := range strings.Lines(string(answer)) {
		id, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		ids[name] = id
	}
	return ids
}

// found returns a container's report of the files on a volume.
func (n namespace) found(pod, container string) string {
	n.Helper()
	return n.follow("logs", pod, "--container", container, "--follow").until(`inode`).text
}

// An application with another user can read the clone, and so can git. When the init containers run again, they touch
// nothing, and for a commit's ID they contact no server.
func TestGitClone(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	server := n.newGitServer()
	first := server.push("app.git", "main", map[string]string{"settings.txt": "first\n", "bin/run": "#!/bin/sh\n"})
	server.tag("app.git", "v1.0.0", first)
	server.push("app.git", "main", map[string]string{"settings.txt": "second\n", "bin/run": "#!/bin/sh\n"})
	n.apply("gitclone.yaml", "COMMIT", first)
	for _, pod := range []string{"web", "pinned", "private", "git-sync"} {
		n.wait("condition=Ready", "pod/"+pod)
	}
	contains(t, "the app's log", n.found("web", "app"), `settings.txt: inode \d+, -rw-r--r--, .*"first\\n"`)
	contains(t, "the log of another app", n.found("web", "program"), `run: inode \d+, -rwxr-xr-x, `)
	contains(t, "the clone's log", n.logs("web", "clone"), `/work: refs/tags/v1.0.0 at `+first+`, 2 files`)
	if status := n.logs("web", "status"); status != "## HEAD (no branch)\n" {
		n.Errorf("git status says %q", status)
	}
	contains(t, "the app's log", n.found("pinned", "app"), `"first\\n"`)
	contains(t, "the log of what reads through git-sync's link", n.found("git-sync", "app"), `/git/current/settings.txt: inode \d+, .*"second\\n"`)
	n.requirePrivate()

	if ours == "" {
		return // a test can only kill a Pod's sandbox in test/cluster
	}
	n.requireSame("web", first)
	n.kubectl("delete", "pod", "git")
	n.requireSame("pinned", first)
}

// requirePrivate requires that Pod private has all files of the repository, writable for its group, and the token
// nowhere. The Pod is ready if another user could add a program.
func (n namespace) requirePrivate() {
	n.Helper()
	config := n.found("private", "app")
	contains(n.T, ".git/config", config, `-rw-rw-r--, .*url = http://git/private/app.git`)
	contains(n.T, "the directory of the tree", n.found("private", "subdir"), `/bearer/run: inode \d+, -rwxr-xr-x, `)
	if all := config + n.logs("private", "clone") + n.logs("private", "bearer"); strings.Contains(all, "t0ken") {
		n.Errorf("the token is in .git/config or in a log: %s", all)
	}
}

// requireSame kills a Pod's sandbox, and requires that the clone runs again and touches nothing.
func (n namespace) requireSame(pod, commit string) {
	n.Helper()
	before, container := n.found(pod, "app"), n.pod(pod).containerNamed(n.T, "clone").ContainerID
	n.script("kill-sandbox.sh", n.name, pod)
	const state = `jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[*].ready}{"\n"}`
	n.followPod(pod, "-o", state).until(`^[1-9]\d* true( true)*$`)
	if again := n.pod(pod).containerNamed(n.T, "clone").ContainerID; again == container {
		n.Errorf("the clone of Pod %s did not run again", pod)
	}
	contains(n.T, "the clone's log", n.logs(pod, "clone"), `/work: `+commit+` is already there`)
	if after := n.found(pod, "app"); after != before {
		n.Errorf("the app of Pod %s found\n%s\nand after the restart\n%s", pod, before, after)
	}
}

// A volume with another revision contains the new one afterwards, and no files of the old one. Four Pods that clone
// into it at the same time make one clone.
func TestGitCloneVolume(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	if ours == "" {
		t.Skip("only test/cluster has a directory for a volume, which is removed with it")
	}
	volume := filepath.Join(filepath.Dir(os.Getenv("KUBECONFIG")), "volumes", n.name)
	if err := os.MkdirAll(volume, 0o755); err != nil {
		n.Fatal(err)
	}
	if err := os.Chown(volume, 1234567, 0); err != nil {
		n.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(volume) }) // the Pods that use it have ended
	t.Cleanup(func() { n.delete("{apiVersion: v1, kind: PersistentVolume, metadata: {name: " + n.name + "}}") })

	server := n.newGitServer()
	server.tag("app.git", "v1.0.0", server.push("app.git", "main", map[string]string{"settings.txt": "first\n", "old.txt": "old\n"}))
	main := server.push("app.git", "main", map[string]string{"settings.txt": "second\n"})
	for _, c := range []struct{ job, ref, content, status string }{
		{"tag", "v1.0.0", "first", "## HEAD (no branch)\n"},
		{"branch", "main", "second", "## main...origin/main\n"},
	} {
		n.apply("gitclone-volume.yaml", "UNIQUE", n.name, "HOSTPATH", volume, "NAME", c.job, "REF", c.ref)
		n.wait("condition=Complete", "job/"+c.job)
		var clones, found string
		for _, pod := range strings.Fields(n.kubectl("get", "pods", "--selector", "job-name="+c.job, "-o", "name")) {
			clones += n.logs(pod, "clone")
			found += n.logs(pod, "app")
			if status := n.logs(pod, "status"); status != c.status {
				t.Errorf("git status says %q, want %q", status, c.status)
			}
		}
		if made := regexp.MustCompile(` files?, .* received`).FindAllString(clones, -1); len(made) != 1 || strings.Count(clones, " is already there") != 3 {
			t.Errorf("want one clone, and three that find it there:\n%s", clones)
		}
		lines := slices.DeleteFunc(slices.Sorted(strings.Lines(found)), func(line string) bool { return !strings.Contains(line, "inode") })
		if same := slices.Compact(slices.Clone(lines)); len(lines) != 4 || len(same) != 1 || !strings.Contains(same[0], c.content) {
			t.Errorf("four apps found\n%s", found)
		}
		t.Logf("four Pods with --ref %s: %s", c.ref, trimmed(lines[0]))
	}
	names, err := filepath.Glob(filepath.Join(volume, "app", "*"))
	if err != nil || len(names) != 2 {
		t.Errorf("in the directory are %v, %v; want .git and the one file of %s", names, err, main)
	}
	if beside, err := filepath.Glob(filepath.Join(volume, "*")); err != nil || len(beside) != 1 {
		t.Errorf("in the volume are %v, %v; want the directory and nothing else", beside, err)
	}
}

// A sidecar follows a branch: a reader of the link finds one revision or the next, and the application is notified of
// each. The sidecar recovers after it was killed, or the server was down for a while.
func TestGitCloneWatch(t *testing.T) {
	t.Parallel()
	n := newNamespace(t, "pod-security.kubernetes.io/enforce=restricted")
	server := n.newGitServer()
	push := func(revision string) string {
		t.Helper()
		files := map[string]string{}
		for i := range 20 {
			files[fmt.Sprintf("%d.txt", i)] = revision
		}
		return server.push("config.git", "main", files)
	}
	id := push("0")
	n.apply("gitclone-watch.yaml", "runAsUser: 2345678", "runAsUser: 1234567",
		"--webhook-url", `--signal, "HUP:app", --webhook-url`,
		"automountServiceAccountToken: false", "automountServiceAccountToken: false\n  shareProcessNamespace: true") // so that the app can kill it, and gets its signals
	n.wait("condition=Ready", "pod/synced")
	app := n.follow("logs", "synced", "--container", "app", "--follow")
	app.until(`^found "0"$`)
	app.until(`^told of ` + id + `$`)
	for revision := range 5 {
		id = push(fmt.Sprint(revision + 1))
		app.until(fmt.Sprintf(`^found "%d"$`, revision+1))
		app.until(`^told of ` + id + `$`)
	}
	app.until(`^told by hangup$`)

	id = push("killed")
	n.kubectl("exec", "synced", "--container", "app", "--", "/app", "-kill", "initbox", "-exit", "0")
	const state = `.status.initContainerStatuses[?(@.name=="config")]`
	n.followPod("synced", "-o", `jsonpath={`+state+`.restartCount} {`+state+`.ready}{"\n"}`).until(`^[1-9]\d* true$`)
	app.until(`^found "killed"$`)
	app.until(`^told of ` + id + `$`)

	sidecar := n.follow("logs", "synced", "--container", "config", "--follow")
	n.kubectl("delete", "pod", "git")
	sidecar.until(`cloning http://git/config.git: .*; trying again in 2s`)
	server = n.newGitServer()
	id = push("after")
	app.until(`^found "after"$`)
	app.until(`^told of ` + id + `$`)
	t.Logf("the sidecar said\n%s", sidecar)

	if restarts := n.pod("synced").containerNamed(t, "app").RestartCount; restarts > 0 {
		t.Errorf("the app ended %d times:\n%s", restarts, app)
	}
	deaths, pods := n.watchPods("app=synced"), n.livePods("app=synced")
	n.kubectl("delete", "pod", "synced", "--wait=false")
	n.untilDeleted(deaths, pods)
	n.requireSidecarsEnded("config", deaths.deleted())
}

// For a Pod that cannot clone, kubectl describe shows the reason, and what to do.
func TestGitCloneStuck(t *testing.T) {
	t.Parallel()
	n := newNamespace(t)
	n.newGitServer().push("app.git", "main", map[string]string{"settings.txt": "first\n"})
	cases := []struct {
		pod, url, args string
		status         int
		message        []string // patterns; the first must match the first line
	}{
		{"no-revision", "git/app.git", "--ref, mian", 1, []string{`cloning http://git/app.git: no branch, tag or commit is named mian`, `^hint: .*did you mean main\?`}},
		{"no-repository", "git/ap.git", "--ref, main", 1, []string{`cloning http://git/ap.git: .*no such repository`, `^hint: `}},
		{"no-token", "git/private/app.git", "--ref, main", 1, []string{`cloning http://git/private/app.git: .*401`, `^hint: .*--password-file`}},
		{"old-token", "git/private/app.git", "--user, ci, --password-file, /secrets/token", 1, []string{`cloning http://git/private/app.git: .*401`, `^hint: `}},
		{"no-server", "gti/app.git", "--timeout, 5s", 124, []string{`cloning http://gti/app.git: .*no such name`, `^hint: `}},
	}
	for _, c := range cases { // all at the same time: they wait for the kubelet, and one for its deadline
		n.apply("gitclone-stuck.yaml", "NAME", c.pod, "URL", c.url, "ARGS", c.args)
	}
	for _, c := range cases {
		n.watchPod(c.pod).until(` Init:Error `)
		describe := n.kubectl("describe", "pod", c.pod)
		contains(t, "kubectl describe", describe, fmt.Sprintf(`Exit Code: +%d$`, c.status), `Message: +`+c.message[0])
		contains(t, "kubectl describe", describe, c.message...)
		if strings.Contains(n.logs(c.pod, "clone")+describe, "yesterdays-token") {
			n.Error("the token is in the log, or in what kubectl describe shows")
		}
		t.Logf("kubectl describe says of %s: %s", c.pod, n.pod(c.pod).containerNamed(t, "clone").State.Terminated.Message)
	}
}
