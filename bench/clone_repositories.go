package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"initbox/test/servers"
)

// A repository is one that is cloned.
type repository struct {
	name   string // in the tables
	path   string // below the URL of a gitServer
	commit string // that HEAD names
	tree   census // as git clone leaves it
}

// largeTree is the number of files from which the targets of large repositories count.
const largeTree = 10_000

func (r *repository) large() bool { return r.tree.files > largeTree }

// A census describes a tree, without its .git.
type census struct {
	files, directories, links, programs int
	bytes                               int64 // of the files
}

// count takes the census of a directory.
func count(dir string) (c census, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if d.Name() == ".git" && filepath.Dir(path) == dir {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch mode := info.Mode(); {
		case mode.IsDir():
			c.directories++
		case mode&fs.ModeSymlink != 0:
			c.links++
		case mode&0o111 != 0:
			c.programs++
			fallthrough
		default:
			c.files++
			c.bytes += info.Size()
		}
		return nil
	})
	return c, err
}

// repositoriesIn puts into root what is to be cloned: the directories that the user named, or some that are made.
func (b *bench) repositoriesIn(ctx context.Context, root string) ([]*repository, error) {
	if b.clones != "" {
		return linkRepositories(ctx, root, b.clones)
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	sources := strings.TrimSpace(string(goroot))
	small := recipe{"Go's package net", func(ctx context.Context, dir string) error {
		return commitDirs(ctx, dir, filepath.Join(sources, "src"), "net")
	}}
	whole := recipe{"Go's sources", func(ctx context.Context, dir string) error {
		return commitDirs(ctx, dir, sources, "api", "doc", "lib", "misc", "src", "test")
	}}
	recipes := []recipe{small, whole, charts(300)}
	if b.quick {
		recipes = []recipe{small, charts(30)}
	}
	var made []*repository
	for i, m := range recipes {
		fmt.Fprintf(b.log, "bench: making the repository of %s …\n", m.name)
		r := &repository{name: m.name, path: strconv.Itoa(i)}
		if err := m.make(ctx, filepath.Join(root, r.path)); err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		made = append(made, r)
	}
	return made, headsOf(ctx, root, made)
}

// A recipe is how a repository is made.
type recipe struct {
	name string
	make func(ctx context.Context, dir string) error
}

func charts(n int) recipe {
	return recipe{fmt.Sprintf("%d charts", n), func(ctx context.Context, dir string) error { return importFiles(ctx, dir, writeCharts(n)) }}
}

// linkRepositories makes links to bare repositories: DIR,NAME=DIR,…
func linkRepositories(ctx context.Context, root, list string) ([]*repository, error) {
	var all []*repository
	for i, dir := range strings.Split(list, ",") {
		name, named, ok := strings.Cut(dir, "=")
		if ok {
			dir = named
		} else {
			name = strings.TrimSuffix(filepath.Base(dir), ".git")
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		r := &repository{name: name, path: strconv.Itoa(i)}
		if err := os.Symlink(dir, filepath.Join(root, r.path)); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, headsOf(ctx, root, all)
}

func headsOf(ctx context.Context, root string, all []*repository) (err error) {
	for _, r := range all {
		if r.commit, err = head(ctx, filepath.Join(root, r.path)); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// head returns the commit that HEAD names in a repository or a clone.
func head(ctx context.Context, dir string) (string, error) {
	out, err := gitIn(ctx, dir, nil, "rev-parse", "--verify", "HEAD^{commit}")
	return strings.TrimSpace(out), err
}

// gitIn runs git in the directory dir.
func gitIn(ctx context.Context, dir string, input io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env, cmd.Stdin = dir, servers.GitEnv(), input
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return string(out), nil
}

// steps runs one git after the other in a bare repository that is made first.
func steps(ctx context.Context, dir string, commands ...[]string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for _, args := range append([][]string{{"init", "-q", "--bare", "-b", "main"}}, commands...) {
		if _, err := gitIn(ctx, dir, nil, args...); err != nil {
			return err
		}
	}
	return nil
}

// repack has deltas of everything that is like another thing, as a server's repositories have them.
var repack = []string{"repack", "-qadf"}

// commitDirs makes dir a repository with one commit of those of the directories of tree that there are.
func commitDirs(ctx context.Context, dir, tree string, directories ...string) error {
	with := []string{"--git-dir=.", "--work-tree=" + tree}
	add := append(with[:2:2], "add", "--force", "--")
	for _, f := range directories {
		if _, err := os.Stat(filepath.Join(tree, f)); err == nil {
			add = append(add, ":(top)"+f)
		}
	}
	commit := append(with[:2:2], "commit", "-q", "-m", "All of it")
	return steps(ctx, dir, add, commit, repack)
}

// importFiles makes dir a repository with one commit of what write gives to git fast-import.
func importFiles(ctx context.Context, dir string, write func(io.Writer) error) error {
	if err := steps(ctx, dir); err != nil {
		return err
	}
	stream, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	_, err := gitIn(ctx, dir, stream, "fast-import", "--quiet")
	stream.Close()
	if err != nil {
		return err
	}
	_, err = gitIn(ctx, dir, nil, repack...)
	return err
}

const (
	chartVersions = 11
	chartFiles    = 10 // of a version, each in a directory by kind
)

// writeCharts writes a tree like those of Helm chart repositories: many versions of the same small files, each of which
// differs little from the one before. There are 110 files of each chart.
func writeCharts(charts int) func(io.Writer) error {
	return func(to io.Writer) error {
		w := bufio.NewWriterSize(to, 1<<20)
		random := rand.New(rand.NewPCG(11, 12))
		fmt.Fprint(w, "commit refs/heads/main\ncommitter C O Mitter <committer@example.com> 1700000000 +0000\ndata 9\nAll of it\n")
		for c := range charts {
			files := make([][]string, chartFiles)
			for f := range files {
				files[f] = chartLines(random, 10+random.IntN(80))
			}
			for v := range chartVersions {
				for f, lines := range files {
					for range 1 + random.IntN(3) { // what the next version changes
						lines[random.IntN(len(lines))] = chartLine(random)
					}
					text := strings.Join(lines, "")
					fmt.Fprintf(w, "M 100644 inline charts/chart-%03d/1.%d.0/%s/file-%d.yaml\ndata %d\n%s\n",
						c, v, chartDirs[f%len(chartDirs)], f, len(text), text)
				}
			}
		}
		return w.Flush()
	}
}

var chartDirs = []string{"templates", "templates/tests", "crds"}

func chartLines(random *rand.Rand, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = chartLine(random)
	}
	return lines
}

func chartLine(random *rand.Rand) string {
	return fmt.Sprintf("%*s%s: %s-%d\n", 2*random.IntN(5), "", chartWords[random.IntN(len(chartWords))],
		chartWords[random.IntN(len(chartWords))], random.IntN(10_000))
}

var chartWords = strings.Fields("apiVersion kind metadata name namespace labels annotations spec replicas selector template containers image " +
	"ports protocol env value resources limits requests volumeMounts mountPath readOnly serviceAccountName nodeSelector tolerations affinity")
