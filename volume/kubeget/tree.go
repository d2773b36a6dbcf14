package kubeget

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"initbox/internal/failure"
	"initbox/internal/kube"
	"initbox/internal/stage"
)

// key identifies an object, as a target means it.
type key struct {
	target          *Target
	namespace, name string
}

// entry is what is known of an object: not its contents.
type entry struct {
	from    string              // for messages
	age     string              // older objects have lesser ones
	files   map[string][32]byte // the files that it has, and the sums of their contents
	blocked map[string]string   // the files that it would have, and the objects that have them
	wrong   []string            // what else is not written, and why
}

// tree is what the directory is to hold, and the stage with what is not there yet.
type tree struct {
	o       *WatchOptions
	objects map[key]*entry
	owner   map[string]*entry  // by file
	within  map[string]int     // by directory: how many files are below it
	urls    map[string]watched // by file: to be fetched
	orphans map[string]bool    // files whose object is gone, and which another one will have that is to be listed again

	stage  *stage.Stage // nil if nothing is staged
	staged map[string]bool
	dirty  bool  // something has changed since the last commit, or there was none: an earlier run may have left files
	again  bool  // everything is to be listed again
	err    error // why the stage is lost; until everything is listed again

	complained map[string]bool // by message
}

// watched is a file of an object.
type watched struct {
	File
	url    string // where its content is; "" for Content
	unzip  bool   // Content is the result of gzip
	failed error  // why the last download failed; nil before the first one
}

func newTree(o *WatchOptions) *tree {
	return &tree{o: o, dirty: true, objects: map[key]*entry{}, owner: map[string]*entry{}, within: map[string]int{}, urls: map[string]watched{}, orphans: map[string]bool{},
		staged: map[string]bool{}, complained: map[string]bool{}}
}

// put makes an object's files what the object says.
func (t *tree) put(k key, o kube.Object) {
	created, _ := o.At("metadata", "creationTimestamp").(string)
	from := kindOf(k.target, o) + " " + failure.Printable(strings.TrimPrefix(k.namespace+"/"+k.name, "/"))
	now := t.objects[k]
	if now == nil {
		now = &entry{from: from, age: created + " " + from, files: map[string][32]byte{}}
		t.objects[k] = now
	}
	now.blocked, now.wrong = map[string]string{}, nil
	t.dirty = true
	wanted := map[string]bool{}
	for _, f := range t.filesOf(k, o, now) {
		if wanted[f.Name] {
			now.wrong = append(now.wrong, fmt.Sprintf("two of its keys are the file %s", failure.Printable(f.Name)))
			continue
		}
		wanted[f.Name] = true
		if t.own(now, f.Name) {
			if f.url == "" {
				now.files[f.Name] = sha256.Sum256(f.Content)
			}
			t.write(f)
		}
	}
	for name := range now.files {
		if !wanted[name] {
			t.release(now, name)
		}
	}
}

// remove removes an object's files.
func (t *tree) remove(k key) {
	o := t.objects[k]
	if o == nil {
		return
	}
	delete(t.objects, k)
	t.dirty = true
	for name := range o.files {
		t.release(o, name)
	}
}

// own makes a file the object's, unless an older object has it, or a file where its directories are to be.
func (t *tree) own(o *entry, name string) bool {
	if t.owner[name] == o {
		return true
	}
	rivals := map[string]*entry{}
	for at := name; at != "."; at = path.Dir(at) {
		if rival := t.owner[at]; rival != nil && rival != o {
			rivals[at] = rival
		}
	}
	if t.within[name] > 0 {
		for other, rival := range t.owner {
			if strings.HasPrefix(other, name+"/") && rival != o {
				rivals[other] = rival
			}
		}
	}
	for _, rival := range rivals {
		if rival.age <= o.age { // equal: it is the same object, which another target means, too
			o.blocked[name] = rival.from
			return false
		}
	}
	for at, rival := range rivals {
		t.release(rival, at)
		rival.blocked[at] = o.from
	}
	t.owner[name], o.files[name] = o, [32]byte{}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		t.within[dir]++
	}
	return true
}

// release takes a file from its object. If an object may have waited for it, everything is listed again.
func (t *tree) release(o *entry, name string) {
	delete(o.files, name)
	delete(t.owner, name)
	delete(t.urls, name)
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		t.within[dir]--
	}
	if t.staged[name] {
		t.stage.Forget(name)
		delete(t.staged, name)
	}
	for _, other := range t.objects {
		t.again = t.again || len(other.blocked) > 0
		if _, waits := other.blocked[name]; waits {
			t.orphans[name] = true
		}
	}
}

// adopted ends the wait for objects that have the orphans.
func (t *tree) adopted() {
	t.dirty = t.dirty || len(t.orphans) > 0
	clear(t.orphans)
}

// write stages a file, or notes where it is to be fetched from.
func (t *tree) write(f watched) {
	delete(t.urls, f.Name)
	if f.url != "" {
		t.urls[f.Name] = f
		return
	}
	content := stage.Bytes(f.Content)
	if f.unzip {
		content = func() (io.ReadCloser, int64, error) {
			r, err := gzip.NewReader(bytes.NewReader(f.Content))
			return r, 0, err
		}
	}
	t.putFile(f, content)
}

// putFile stages a file.
func (t *tree) putFile(f watched, content stage.Content) {
	if t.err != nil {
		return
	}
	err := t.open()
	if err == nil {
		if t.staged[f.Name] {
			t.stage.Forget(f.Name)
		}
		t.staged[f.Name] = true
		_, err = t.stage.PutFrom(f.Name, content, f.attr())
	}
	if err != nil {
		t.lose(err)
	}
}

// open opens the stage.
func (t *tree) open() (err error) {
	if t.stage == nil {
		t.stage, err = stage.Open(t.o.Dst, stage.Options{Prune: true, Follow: t.o.Follow})
	}
	return err
}

// lose discards what is staged, after an error.
func (t *tree) lose(err error) {
	t.discard()
	t.err, t.again, t.dirty = err, true, true
}

func (t *tree) discard() {
	if t.stage != nil {
		t.stage.Close()
	}
	t.stage = nil
	clear(t.staged)
}

// commit puts in place what is staged, and removes what no object has now. After an error of the stage, it only
// removes: that may make room, or remove the directory that is in the way of a file. It returns the error if it does
// not help.
func (t *tree) commit() (done []stage.Change, err error) {
	if !t.dirty {
		return nil, nil
	}
	failed := t.err
	if err := t.open(); err != nil {
		t.lose(err)
		return nil, err
	}
	for name := range t.owner {
		if !t.staged[name] {
			err = errors.Join(err, t.stage.Keep(name))
		}
	}
	for name := range t.orphans {
		if t.owner[name] == nil && failed == nil { // else it may be in the way
			_ = t.stage.Keep(name)
		}
	}
	if failed == nil && err != nil {
		t.lose(err)
		return nil, err
	}
	done, err = t.stage.Commit()
	t.discard()
	switch {
	case failed != nil && len(done) == 0:
		return nil, failed
	case failed != nil:
		return done, nil // and everything is listed again
	case err != nil:
		t.lose(err)
	default:
		t.dirty = false
	}
	return done, err
}

// revision identifies the files and their contents.
func (t *tree) revision() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(t.owner)) {
		sum := t.owner[name].files[name]
		fmt.Fprintf(h, "%s\x00%x", name, sum)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// complain logs what is not written, once.
func (t *tree) complain() {
	now := map[string]bool{}
	for _, o := range t.objects {
		for name, owner := range o.blocked {
			if owner == o.from {
				continue
			}
			now[fmt.Sprintf("%s: %s is not written: %s is older and has the file; a unique name for each is --unique-names", o.from, failure.Printable(name), owner)] = true
		}
		for _, text := range o.wrong {
			now[o.from+": "+text] = true
		}
	}
	for _, text := range slices.Sorted(maps.Keys(now)) {
		if !t.complained[text] {
			t.o.Log.Warn(text)
		}
	}
	t.complained = now
}

// filesOf returns the files of an object. What is wrong with one of them is noted, and does not concern the others.
func (t *tree) filesOf(k key, o kube.Object, now *entry) (good []watched) {
	folder := ""
	if t.o.FolderIn != "" {
		annotations, _ := o.At("metadata", "annotations").(map[string]any)
		text, _ := annotations[t.o.FolderIn].(string)
		var err error
		if folder, err = below(t.o.Dst, text); err != nil {
			now.wrong = append(now.wrong, fmt.Sprintf("its annotation %s: %v, so it is not written", t.o.FolderIn, err))
			return nil
		}
	}
	files, wrong := k.target.each(o)
	now.wrong = append(now.wrong, wrong...)
	for _, file := range files {
		f := watched{File: file}
		if name, isURL := strings.CutSuffix(f.Name, ".url"); t.o.Fetch != nil && isURL && name != "" {
			f.Name, f.url = name, strings.TrimSpace(string(f.Content))
		}
		if name, zipped := strings.CutSuffix(f.Name, ".gz"); t.o.Unzip && zipped && name != "" {
			f.Name, f.unzip = name, true
		}
		if t.o.Unique {
			f.Name = fmt.Sprintf("namespace_%s.%s_%s.%s", k.namespace, strings.ToLower(kindOf(k.target, o)), k.name, f.Name)
		}
		f.Name = path.Join(folder, f.Name)
		if err := f.check(); err != nil {
			now.wrong = append(now.wrong, fmt.Sprintf("%s is not written: %v", failure.Printable(f.Name), err))
			continue
		}
		good = append(good, f)
	}
	return good
}

const maxURL = 4096

// maxUnzipped is the length of the longest file that is unpacked.
const maxUnzipped = 256 << 20

// check returns why a file cannot be written, wherever it is to be.
func (f watched) check() error {
	if err := stage.CheckName(f.Name); err != nil {
		return err
	}
	if len(f.url) > maxURL {
		return fmt.Errorf("the URL in it is longer than %d bytes", maxURL)
	}
	if !f.unzip {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(f.Content))
	if err != nil {
		return errors.New("it is not a gzip file")
	}
	n, err := io.Copy(io.Discard, io.LimitReader(r, maxUnzipped+1))
	switch {
	case err != nil:
		return errors.New("it is a damaged gzip file")
	case n > maxUnzipped:
		return fmt.Errorf("unpacked, it is larger than %d MiB", maxUnzipped>>20)
	}
	return nil
}

// each returns the files of one object, and what is wrong with those that it cannot have.
func (t *Target) each(o kube.Object) (files []File, wrong []string) {
	if len(t.Keys) > 0 || t.Format != "" || !t.data() {
		files, err := t.Files([]kube.Object{o})
		if err != nil {
			wrong = append(wrong, err.Error())
		}
		return files, wrong
	}
	data, err := contents(o, t.secret())
	if err != nil {
		return nil, append(wrong, err.Error())
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if !keyName().MatchString(key) || key == "." || strings.HasPrefix(key, "..") {
			wrong = append(wrong, "key "+failure.Printable(key)+" cannot be the name of a file")
			continue
		}
		files = append(files, File{Name: key, Content: data[key], Secret: t.secret(), target: t})
	}
	return files, wrong
}

// below returns a folder that an annotation names, relative to dst; an absolute one must be below it.
func below(dst, text string) (string, error) {
	if path.IsAbs(text) {
		inside, ok := strings.CutPrefix(path.Clean(text)+"/", strings.TrimSuffix(path.Clean(dst), "/")+"/")
		if !ok {
			return "", fmt.Errorf("%s is not below %s", failure.Printable(text), failure.Printable(dst))
		}
		text = inside
	}
	text = path.Clean(text)
	if text != "." && !fs.ValidPath(text) {
		return "", fmt.Errorf("%s leads out of %s", failure.Printable(text), failure.Printable(dst))
	}
	return text, nil
}
