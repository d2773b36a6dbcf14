// Package corpus_test has the init containers of public charts that initbox is for, as data, and runs what replaces
// each of them.
//
// A row of testdata is one init container of a chart: its id in the collection that was read, what it does in our own
// words, and the arguments of the container that replaces it, as its Pod would have them. They are run as the kubelet
// runs them, with the volumes at their paths, before and after a restart: see pod_linux_test.go. Nothing of a chart's
// text is here; the hosts are example hosts.
package corpus_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// Verdicts: how much of what the original does for the application the replacement does.
const (
	full   = "full"
	partly = "partly"
	not    = "not"
)

// A row is an init container of a chart.
type row struct {
	ID      string `json:"id"`
	Does    string `json:"does"`    // in our own words
	Verdict string `json:"verdict"` // full if it is empty
	Why     string `json:"why"`     // the verdict, or what differs although it is full
	run
	Also []run `json:"also"` // the same container in another situation
}

// A run is one situation in which a row is run: what is there before, and what must be there after.
type run struct {
	Args     []string          `json:"args"`  // of the one container; $(VAR) is expanded as the kubelet does
	Fetch    []string          `json:"fetch"` // the same, where the files come out of the image
	Copy     []string          `json:"copy"`  // of a second container in the application's image, after install
	User     string            `json:"user"`  // UID:GID; root without it
	Env      map[string]string `json:"env"`
	Mounts   map[string]string `json:"mounts"` // by path: the kind of volume, and its mode and owner
	Image    map[string]string `json:"image"`  // the files of the application's image
	Before   map[string]string `json:"before"` // see spec
	After    map[string]string `json:"after"`
	Server   map[string]answer `json:"server"`        // what servers answer, by URL, or by that of a server
	Cluster  []map[string]any  `json:"cluster"`       // the objects of the API server
	Becomes  []map[string]any  `json:"becomes"`       // and those that it has once the container waits for them
	Vanishes []string          `json:"vanishes"`      // those, such as pods/web-0, that are deleted then
	Says     []string          `json:"says"`          // what the log must have
	Offline  bool              `json:"offline-again"` // the second run sends no request
	Tries    bool              `json:"tries-again"`   // what is wanted is not there, so the second run tries to get it, too
	Locks    bool              `json:"locks-again"`   // the second run takes a lock, by which the times of directories change
}

// An answer is what a server answers to requests for a URL. One of the first group is set.
type answer struct {
	Text  string            `json:"text"`
	To    string            `json:"to"` // a redirect
	Gz    string            `json:"gz"` // text, compressed
	TarGz map[string]string `json:"tar.gz"`
	TarXz map[string]string `json:"tar.xz"`
	Sums  []string          `json:"sums"` // the SHA-256 of what other URLs answer

	Git map[string]string `json:"git"` // the files of a repository

	Header   string   `json:"header"`   // of the request, without which the answer is 401
	Login    string   `json:"login"`    // USER:PASSWORD, without which a login fails
	Database string   `json:"database"` // the only one
	Records  []string `json:"records"`  // the addresses of a name
	Empty    int      `json:"empty"`    // so many times, the answer is empty first
	Late     int      `json:"late"`     // so many times, the server is not ready first
}

// A way is one of the ways to do what a run does: the arguments of its containers.
type way struct {
	name       string
	install    bool // two containers: install, and then args in the application's image
	volume     bool // the application's image is mounted at /image
	args       []string
	repository string // what of a registry args refer to
}

// ways returns the ways to do what r does.
func (r run) ways() (ways []way) {
	if len(r.Args) > 0 {
		ways = append(ways, way{name: "one container", args: r.Args})
	}
	if len(r.Fetch) > 0 {
		w := way{name: "fetch out of the image", args: r.Fetch}
		for _, arg := range r.Fetch {
			if rest, ok := strings.CutPrefix(arg, "oci://registry.example/"); ok {
				w.repository, _, _ = strings.Cut(rest, "#")
			}
		}
		ways = append(ways, w)
	}
	if len(r.Copy) > 0 {
		ways = append(ways, way{name: "install, and copy in the image", install: true, args: r.Copy})
		if r.Image["/etc/passwd"] == "" { // else the image's names are needed
			ways = append(ways, way{name: "copy out of an image volume", volume: true, args: fromVolume(r.Copy)})
		}
	}
	return ways
}

// fromVolume returns the arguments of copy where the image is mounted at /image.
func fromVolume(args []string) (changed []string) {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	for _, arg := range args[:end] {
		if strings.HasPrefix(arg, "/") {
			arg = "/image" + arg
		}
		changed = append(changed, arg)
	}
	return append(changed, args[end:]...)
}

// A spec describes a file, in words such as "0600 70:70 = content", "dir 0700 26:0", "link:TARGET" and "absent". In
// After, only what is given is compared.
type spec struct {
	dir, absent bool
	link        string
	mode        int64 // -1 if it is not given
	uid, gid    int   // -1 if they are not given
	age         time.Duration
	encodings   []string // of the content: gz, base64
	content     *string
}

func parseSpec(text string) (s spec, err error) {
	s = spec{mode: -1, uid: -1, gid: -1}
	words, content, hasContent := strings.Cut(text, "=")
	if hasContent {
		content = strings.TrimPrefix(content, " ")
		s.content = &content
	}
	for _, word := range strings.Fields(words) {
		kind, value, _ := strings.Cut(word, ":")
		switch {
		case word == "dir":
			s.dir = true
		case word == "absent":
			s.absent = true
		case word == "gz", word == "base64":
			s.encodings = append(s.encodings, word)
		case kind == "link":
			s.link = value
		case kind == "age":
			s.age, err = time.ParseDuration(value)
		case strings.Contains(word, ":"):
			if s.uid, err = strconv.Atoi(kind); err == nil {
				s.gid, err = strconv.Atoi(value)
			}
		default:
			s.mode, err = strconv.ParseInt(word, 8, 32)
		}
		if err != nil {
			return s, fmt.Errorf("%q: %w", text, err)
		}
	}
	return s, nil
}

// readRows reads the rows of testdata, with the architecture in place of ${arch} where a name is expected.
func readRows(t *testing.T) (rows []row) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no data: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var more []row
		if err := yaml.UnmarshalStrict(text, &more); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		rows = append(rows, more...)
	}
	for i := range rows {
		if rows[i].Verdict == "" {
			rows[i].Verdict = full
		}
		for _, r := range rows[i].runs() {
			r.After, r.Server = ofArch(r.After), ofArch(r.Server)
		}
	}
	return rows
}

func ofArch[T any](m map[string]T) map[string]T {
	named := map[string]T{}
	for name, v := range m {
		named[strings.ReplaceAll(name, "${arch}", runtime.GOARCH)] = v
	}
	return named
}

// runs returns all situations of a row.
func (r *row) runs() []*run {
	runs := []*run{&r.run}
	for i := range r.Also {
		runs = append(runs, &r.Also[i])
	}
	return runs
}

// commands returns the subcommands that replace a row, such as "copy + prepare".
func (r *row) commands() string {
	args := slices.Concat(r.Args, r.Fetch, r.Copy)
	names := map[string]bool{}
	for i, arg := range args {
		if i == 0 || i == len(r.Args) || i == len(r.Args)+len(r.Fetch) || args[i-1] == "--" {
			names[arg] = true
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), " + ")
}

// TestCount counts how many rows are replaced: 218 are here, and at least 95 % of them must be replaced in full.
// [TestRows] shows that the verdicts are true.
func TestCount(t *testing.T) {
	t.Parallel()
	counts, of, ids := map[string]int{}, map[string]map[string]int{}, map[string]bool{}
	for _, r := range readRows(t) {
		if ids[r.ID] {
			t.Errorf("duplicate id %s", r.ID)
		}
		ids[r.ID] = true
		if r.Does == "" || r.Verdict != full && r.Why == "" || !slices.Contains([]string{full, partly, not}, r.Verdict) {
			t.Errorf("%s: want what it does, and why its verdict is %s", r.ID, r.Verdict)
		}
		if len(r.ways()) == 0 != (r.Verdict == not) {
			t.Errorf("%s: the verdict is %s, and there are %d ways to replace it", r.ID, r.Verdict, len(r.ways()))
		}
		counts[r.Verdict]++
		if of[r.commands()] == nil {
			of[r.commands()] = map[string]int{}
		}
		of[r.commands()][r.Verdict]++
		if r.Verdict != full {
			t.Logf("%s %s: %s", r.ID, r.Verdict, r.Why)
		}
	}
	for _, commands := range slices.Sorted(maps.Keys(of)) {
		n := of[commands]
		t.Logf("%-36s full %3d, partly %d, not %d", commands, n[full], n[partly], n[not])
	}
	t.Logf("%-36s full %3d, partly %d, not %d", "all", counts[full], counts[partly], counts[not])
	if len(ids) != 218 || counts[full]*100 < len(ids)*95 {
		t.Errorf("%d of %d rows are replaced in full", counts[full], len(ids))
	}
}
