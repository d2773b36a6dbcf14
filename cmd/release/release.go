package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"initbox/internal/completion"
)

// allPlatforms are what the images have, too. There are no others: the program reaches files by system calls that only
// Linux has (O_PATH, AT_EMPTY_PATH, /proc/self/fd), so that links which other programs make cannot lead it astray.
// Where those are missing, nothing runs init containers.
var allPlatforms = []string{"linux/amd64", "linux/arm64", "linux/arm/v7", "linux/ppc64le", "linux/s390x", "linux/riscv64"}

// checksums is the file with the digests of all others, for sha256sum -c.
const checksums = "SHA256SUMS"

// release is one run.
type release struct {
	version       string
	root          string    // of the repository
	dist          string    // in which the directory VERSION is made
	platforms     []string  // OS/ARCH[/VARIANT]
	source        string    // the URL of the repository, from which the files are downloaded
	build         []string  // the command that compiles, to which -o FILE PACKAGE is added
	log, messages io.Writer // what was done; what the tools report

	commit commit
	dir    string // where the files are made, before they appear in dist
}

// run makes the release, or finds that dist has it already.
func (r *release) run() error {
	began := time.Now()
	if err := r.check(); err != nil {
		return err
	}
	dist, err := filepath.Abs(r.dist)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	if r.dir, err = os.MkdirTemp(dist, "."+r.version+"-*"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // it ends the compiler, and thereby this run
	for _, part := range []func() error{r.archives, r.plugin, r.images, r.chart, r.clean, r.sums} {
		if err := part(); err != nil {
			return fmt.Errorf("release %s: %w", r.version, err)
		}
	}
	outcome, err := publish(r.dir, filepath.Join(dist, r.version))
	if err != nil {
		return fmt.Errorf("release %s: %w", r.version, err)
	}
	fmt.Fprintf(r.log, "release: %s: %s, from commit %s, in %s\n", filepath.Join(r.dist, r.version), outcome,
		r.commit.id, time.Since(began).Round(time.Second))
	return nil
}

// semantic is a version by https://semver.org without build metadata, which tags of images cannot have.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// check refuses what must not be released, before anything is written.
func (r *release) check() (err error) {
	switch {
	case !semantic.MatchString(r.version):
		return fmt.Errorf("%w: not a version: %q\nhint: make release VERSION=1.2.3, without a leading v", errUsage, r.version)
	case len(r.build) == 0:
		return fmt.Errorf("%w: the command that compiles is missing\nhint: use make release VERSION=%s", errUsage, r.version)
	}
	if r.commit, err = head(r.root); err != nil {
		return err
	}
	if err := isClean(r.root, r.version); err != nil {
		return err
	}
	if err := r.commit.isTagged(r.root, "v"+r.version); err != nil {
		return err
	}
	_, err = r.notes()
	return err
}

// archives makes an archive for each platform, and its bill of materials beside it.
func (r *release) archives() error {
	if err := r.writeCompletions(r.completions()); err != nil {
		return err
	}
	binaries := r.binaries()
	if err := os.Mkdir(binaries, 0o755); err != nil {
		return err
	}
	for _, platform := range r.linux() {
		binary, err := r.compile(binaries, "initbox", platform)
		if err != nil {
			return err
		}
		top := r.nameFor("initbox", platform)
		files := []member{{path: "initbox", from: binary, mode: 0o755}}
		for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md"} {
			files = append(files, member{path: name, from: filepath.Join(r.root, name), mode: 0o644})
		}
		for _, shell := range completion.Shells() {
			name := shell.File("initbox")
			files = append(files, member{path: "completions/" + name, from: filepath.Join(r.completions(), name), mode: 0o644})
		}
		if err := writeArchive(filepath.Join(r.dir, top+".tar.gz"), top, files, r.commit.time); err != nil {
			return err
		}
		if err := r.inImages("sbom", "-o", filepath.Join(r.dir, top+".cdx.json"), binary); err != nil {
			return err
		}
	}
	return nil
}

// linux returns the platforms of the program and of its images.
func (r *release) linux() []string {
	return slices.DeleteFunc(slices.Clone(r.platforms), func(p string) bool { return strings.HasPrefix(p, "darwin/") })
}

// completions is the directory of the completions, which are in the archives.
func (r *release) completions() string { return filepath.Join(r.dir, "completions") }

// clean removes what is in the archives and images.
func (r *release) clean() error {
	return errors.Join(os.RemoveAll(r.completions()), os.RemoveAll(r.binaries()))
}

// nameFor returns the name of an archive, without its ending: linux/arm/v7 gives initbox-1.2.3-linux-armv7.
func (r *release) nameFor(program, platform string) string {
	system, arch, _ := strings.Cut(platform, "/")
	return strings.Join([]string{program, r.version, system, strings.ReplaceAll(arch, "/", "")}, "-")
}

// binaries is the directory of the programs, which are in the archives and images.
func (r *release) binaries() string { return filepath.Join(r.dir, "binaries") }

// compile compiles a program for a platform, under the name by which images/ finds it.
func (r *release) compile(dir, program, platform string) (path string, err error) {
	parts := strings.Split(platform, "/")
	if len(parts) < 2 {
		return "", fmt.Errorf("%w: not a platform: %q", errUsage, platform)
	}
	path = filepath.Join(dir, program+"-"+parts[0]+"-"+parts[1])
	args := slices.Concat(r.build[1:], []string{"-o", path, "./cmd/" + program})
	cmd := r.command(r.build[0], args...)
	// The variables that change what the compiler makes of the same sources have fixed values.
	cmd.Env = append(cmd.Env, "GOOS="+parts[0], "GOARCH="+parts[1], "GOAMD64=v1", "GOARM64=v8.0", "GOARM=7", "GOPPC64=power8",
		"GORISCV64=rva20u64", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("compile for %s: %w", platform, err)
	}
	return path, nil
}

// images makes the images from the programs, as one tar.
func (r *release) images() error {
	return r.inImages("build", "-version", r.version, "-revision", r.commit.id, "-binaries", r.binaries(),
		"-platforms", strings.Join(r.linux(), ","), "-o", filepath.Join(r.dir, "initbox-"+r.version+"-images.tar"))
}

// inImages runs the program that makes images, which is a module of its own.
func (r *release) inImages(args ...string) error {
	if err := r.command("go", append([]string{"run", "-C", filepath.Join(r.root, "images"), "."}, args...)...).Run(); err != nil {
		return fmt.Errorf("run images %s: %w", args[0], err)
	}
	return nil
}

// chart packs the library chart.
func (r *release) chart() error {
	return packChart(filepath.Join(r.root, "charts/initbox"), r.dir, r.version, r.commit.time)
}

// command returns a command that runs in the repository, and reports to the user what it writes.
func (r *release) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = r.root
	cmd.Stdout, cmd.Stderr = r.messages, r.messages
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(r.commit.time.Unix(), 10))
	return cmd
}

// sums writes the digests of all files.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, e := range entries {
		sum, err := digest(filepath.Join(r.dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.dir, checksums), lines.Bytes(), 0o644)
}

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// publish renames dir to its final name. If a release is there, it must be the same, byte for byte.
func publish(dir, final string) (outcome string, err error) {
	made, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil {
		return "", err
	}
	there, err := os.ReadFile(filepath.Join(final, checksums))
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := os.Chmod(dir, 0o755); err != nil {
			return "", err
		}
		return fmt.Sprintf("%d files made", bytes.Count(made, []byte("\n"))+1), os.Rename(dir, final)
	case err != nil:
		return "", err
	case !bytes.Equal(made, there):
		return "", fmt.Errorf("%s has other files, from another commit or version of Go:\n%s\nhint: remove that directory", final, differing(made, there))
	}
	return "nothing to change: the same bytes are there already", nil
}

// differing returns the lines of made that are not in there.
func differing(made, there []byte) string {
	var lines []string
	for line := range strings.Lines(string(made)) {
		if !strings.Contains(string(there), line) {
			lines = append(lines, "  "+strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}

// writeCompletions writes the completions of this commit's programs to a directory. The kubectl plugin prints both.
func (r *release) writeCompletions(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	plugin := filepath.Join(dir, "plugin")
	defer os.Remove(plugin)
	if err := r.command("go", "build", "-o", plugin, "./cmd/"+pluginName).Run(); err != nil {
		return fmt.Errorf("compile what prints the completions: %w", err)
	}
	for _, shell := range completion.Shells() {
		for _, program := range []string{"initbox", pluginName} {
			cmd := r.command(plugin, "completion", shell.Name, "--for", program)
			cmd.Stdout = nil
			script, err := cmd.Output()
			if err != nil {
				return fmt.Errorf("completions of %s for %s: %w", program, shell.Name, err)
			}
			if err := os.WriteFile(filepath.Join(dir, shell.File(program)), script, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
