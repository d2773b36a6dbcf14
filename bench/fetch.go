package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A fetcher is one way to have an archive's files. {url} is the archive, {sum} its SHA-256, and {dir} an empty
// directory.
type fetcher struct {
	name, tool string
	args       []string
	disk       bool // only on the disk: elsewhere there is nothing to be synced
}

const (
	curlTar     = "curl \\| tar xz"
	curlTarSync = "curl \\| tar xz, sync"
)

var fetchers = []fetcher{
	{name: ours, tool: ours, args: command([]string{"fetch", "{url}#unpack&sha256={sum}", "{dir}"})},
	{name: curlTar, tool: "curl", args: []string{"/bin/sh", "-c", "{tool} -fsS {url} | tar xz -C {dir}"}},
	{name: curlTarSync, tool: "curl", args: []string{"/bin/sh", "-c", "{tool} -fsS {url} | tar xz -C {dir} && sync -f {dir}"}, disk: true},
	{name: "wget \\| tar xz", tool: "wget", args: []string{"/bin/sh", "-c", "{tool} -qO- {url} | tar xz -C {dir}"}},
	{name: "BusyBox wget \\| tar xz", tool: "busybox", args: []string{"/bin/sh", "-c", "{tool} wget -qO- {url} | {tool} tar xz -C {dir}"}},
}

// fetched is an archive that is served.
type fetched struct {
	path, sum          string
	files              int
	bytes, transferred int64
}

// oneFetch bounds a run, in case a tool waits for something.
const oneFetch = 2 * time.Minute

// fetchAll measures the download of an archive that becomes a directory.
func fetchAll(ctx context.Context, b *bench) (*section, error) {
	archive, err := b.archive()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, archive.path) })}
	go server.Serve(listener)
	defer server.Close()
	url := "http://" + listener.Addr().String() + "/archive.tar.gz"
	busy := load()
	rounds := max(3, b.trials/12)
	s := &section{
		title: "Archives to directories",
		about: fmt.Sprintf("A tar.gz of %s with %d files (Go's own tree, twice; %s unpacked), over HTTP from loopback, into an empty directory; medians of %d interleaved runs. ",
			megabytes(archive.transferred), archive.files, megabytes(archive.bytes), rounds) +
			"initbox also computes the checksum, and writes to the disk what it has unpacked before it publishes that; *sync* does so for the others. cpu is user and system time, with all children; " +
			"resident is the peak of the largest process.",
	}
	for _, where := range []setting{replayed, replayedOnDisk} {
		place := b.place(where)
		if place == "" || room(place) < 4*archive.bytes {
			continue
		}
		costs, err := b.fetchIn(ctx, where.disk, place, url, archive, rounds)
		if err != nil {
			return nil, err
		}
		s.tables = append(s.tables, b.fetchTable(where.disk, costs))
		s.targets = append(s.targets, fetchTargets(where.disk, costs)...)
	}
	s.notes = append(s.notes, busy())
	return s, nil
}

// archive makes a tar.gz of the files of Go's own tree, twice.
func (b *bench) archive() (a fetched, err error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return a, fmt.Errorf("%w: go is not installed", errSkipped)
	}
	copies := 2
	if b.quick {
		copies = 1
	}
	a.path = filepath.Join(b.dir, "archive.tar.gz")
	f, err := os.Create(a.path)
	if err != nil {
		return a, err
	}
	defer f.Close()
	sum := sha256.New()
	z := gzip.NewWriter(io.MultiWriter(f, sum))
	w := tar.NewWriter(z)
	for i := range copies {
		if err := a.add(w, filepath.Join(strings.TrimSpace(string(root)), "src"), strconv.Itoa(i)); err != nil {
			return a, err
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		return a, err
	}
	a.sum = hex.EncodeToString(sum.Sum(nil))
	a.transferred, err = f.Seek(0, io.SeekCurrent)
	return a, err
}

// add adds the files and directories below root.
func (a *fetched) add(w *tar.Writer, root, prefix string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() && !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		h.Name = filepath.Join(prefix, rel)
		if err != nil || e.IsDir() {
			h.Name += "/"
			return errors.Join(err, w.WriteHeader(h))
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, err := io.Copy(w, f)
		a.files, a.bytes = a.files+1, a.bytes+n
		return err
	})
}

// fetchIn runs all fetchers, one at a time and in another order in each round, each time into a new directory.
func (b *bench) fetchIn(ctx context.Context, disk bool, place, url string, a fetched, rounds int) (map[string]*renderCost, error) {
	top, err := os.MkdirTemp(place, "initbox-bench-fetch-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(top)
	costs := map[string]*renderCost{}
	random := rand.New(rand.NewPCG(15, 16))
	for round := range rounds {
		for _, i := range random.Perm(len(fetchers)) {
			f := fetchers[i]
			if _, found := b.tools[f.tool]; !found || f.disk && !disk {
				continue
			}
			if costs[f.name] == nil {
				costs[f.name] = new(renderCost)
			}
			dir := filepath.Join(top, fmt.Sprintf("%d-%d", round, i))
			if err := b.fetchOnce(ctx, f, dir, url, a, costs[f.name]); err != nil {
				return nil, fmt.Errorf("%s: %w", f.name, err)
			}
			if !disk { // ext4 looks long for a free inode where many files were removed a moment ago
				os.RemoveAll(dir)
			}
		}
	}
	return costs, nil
}

// fetchOnce adds what a run took, unless one before has failed. Only what fails of initbox is an error.
func (b *bench) fetchOnce(ctx context.Context, f fetcher, dir, url string, a fetched, sum *renderCost) error {
	if sum.err != nil {
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	syscall.Sync() // what others have left to the kernel is not this one's work
	shrink()
	ctx, cancel := context.WithTimeoutCause(ctx, oneFetch, errors.New("still not done"))
	defer cancel()
	p, err := b.start(ctx, waiter{args: f.args}.argv(b.tools[f.tool].path, map[string]string{"url": url, "dir": dir, "sum": a.sum}))
	if err != nil {
		return err
	}
	<-p.done
	if err = p.err; err == nil {
		sum.add(p)
		err = a.check(dir)
	}
	if err != nil && (f.tool == ours || ctx.Err() != nil) {
		return err
	}
	sum.err = err
	return nil
}

// check counts what a run has left.
func (a fetched) check(dir string) error {
	files, bytes := 0, int64(0)
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			info, err := e.Info()
			if err != nil {
				return err
			}
			files, bytes = files+1, bytes+info.Size()
		}
		return err
	})
	if err == nil && (files != a.files || bytes != a.bytes) {
		err = fmt.Errorf("it has %d files of %d bytes, and not %d of %d", files, bytes, a.files, a.bytes)
	}
	return err
}

func (b *bench) fetchTable(disk bool, costs map[string]*renderCost) table {
	where := "in memory"
	if disk {
		where = "on the disk"
	}
	t := table{{where, "wall", "× curl \\| tar", "cpu", "× curl \\| tar", "resident"}}
	for _, f := range fetchers {
		c, reference := costs[f.name], costs[curlTar]
		if c == nil || c.err != nil || reference == nil || reference.err != nil {
			continue
		}
		resident := mebibytes(c.peak)
		if c.bound {
			resident = "≤ " + resident
		}
		t = append(t, []string{f.name, human(c.wall.median()), ratio(float64(c.wall.median()), float64(reference.wall.median())),
			human(c.cpu.median()), ratio(float64(c.cpu.median()), float64(reference.cpu.median())), resident})
	}
	return t
}

// fetchTargets are 0.85 of the time of curl and tar, and 32 MiB. On the disk, the comparison is with what is synced
// too.
func fetchTargets(disk bool, costs map[string]*renderCost) (targets []target) {
	what, of := "in memory", curlTar
	if disk {
		what, of = "on the disk", curlTarSync
	}
	mine, theirs := costs[ours], costs[of]
	if mine == nil || theirs == nil || theirs.err != nil {
		return nil
	}
	limit := theirs.wall.median() * 85 / 100
	got := mine.wall.median()
	const most = 32 << 10
	return []target{
		{"fetch, an archive, " + what + ", wall", "0.85 × " + of + " (" + human(limit) + ")", human(got), got <= limit},
		{"fetch, an archive, " + what + ", resident", mebibytes(most), mebibytes(mine.peak), mine.peak <= most},
	}
}
