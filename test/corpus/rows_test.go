// Package corpus_test has the init containers of public charts that initbox is for, as data, and runs what replaces
// each of them.
//
// A row of testdata is one init container of a chart: its id in the collection that was read, what it does in our own
// words, and the arguments of the container that replaces it, as its Pod would have them. They are run as the kubelet
// runs them, with the volumes at their paths, before and after a restart: see pod_linux_test.go. Nothing of a chart's
// text is here; the hosts are example hosts.
package corpus_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
	inFull = "full"
	partly = "partly"
	not    = "not"
)

// A row is an init container of a chart.
type row struct {
	ID      string `json:"id"`
	Does    string `json:"does"`    // in our own words
	Verdict string `json:"verdict"` // full if it is empty
	Why     string `json:"why"`     // the verdict, or what differs although it is full
	file    string
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
	SSH      map[string]string `json:"ssh"`           // the files of a repository at $(REPO_PORT) and $(REPO_PATH), for the keys in /keys
	Cluster  []map[string]any  `json:"cluster"`       // the objects of the API server
	Becomes  []map[string]any  `json:"becomes"`       // and those that it has once the container waits for them
	Creates  map[string]string `json:"creates"`       // what objects, such as secrets/db, must match afterwards
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

	Wants    string   `json:"wants"`    // the method, Content-Type and body of the request, without which the answer is 400
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

// A spec describes a file, in words such as "0600 70:70 = content", "dir 0700 26:0", "link:TARGET", "absent", "pem:ca"
// and "0600 ~ REGEX". In After, only what is given is compared.
type spec struct {
	dir, absent bool
	link        string
	mode        int64 // -1 if it is not given
	uid, gid    int   // -1 if they are not given
	age         time.Duration
	encodings   []string // of the content: gz, base64
	content     *string
	matches     *regexp.Regexp
	pem         []string // names of pems, which are the content
	certs       []string // the same, which are the certificates in it
}

func parseSpec(text string) (s spec, err error) {
	s = spec{mode: -1, uid: -1, gid: -1}
	words, content, hasContent := strings.Cut(text, "=")
	if before, _, ok := strings.Cut(words, "~"); ok {
		_, regex, _ := strings.Cut(text, "~ ")
		words, hasContent = before, false
		if s.matches, err = regexp.Compile(regex); err != nil {
			return s, err
		}
	}
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
		case kind == "pem":
			s.pem = strings.Split(value, ",")
		case kind == "certificates":
			s.certs = strings.Split(value, ",")
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
		for i := range more {
			more[i].file = strings.TrimSuffix(filepath.Base(file), ".yaml")
		}
		rows = append(rows, more...)
	}
	for i := range rows {
		if rows[i].Verdict == "" {
			rows[i].Verdict = inFull
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

// commands returns the subcommands that replace a row.
func (r *row) commands() []string {
	args := slices.Concat(r.Args, r.Fetch, r.Copy)
	names := map[string]bool{}
	for i, arg := range args {
		if i == 0 || i == len(r.Args) || i == len(r.Args)+len(r.Fetch) || args[i-1] == "--" {
			names[arg] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// categories are the files of testdata, in the order of the table of the counts, with what their rows do.
var categories = []struct{ file, does string }{
	{"wait", "waits for servers, databases, names or files; sleeps"},
	{"wait-kubernetes", "waits for Kubernetes objects"},
	{"prepare", "makes, removes or empties directories and files, changes owners and modes"},
	{"copy", "copies files from ConfigMaps, Secrets and other volumes"},
	{"image", "copies files out of the application's image"},
	{"fetch", "downloads files"},
	{"render", "writes configuration from templates, variables and Secrets"},
	{"git", "clones a Git repository"},
	{"sysctl", "sets parameters of the kernel"},
	{"certificates", "builds bundles of CA certificates, Java's truststores, keystores"},
	{"generate", "generates keys, passwords and certificates"},
	{"kube-get", "reads Kubernetes objects into files"},
	{"merge", "merges configuration files"},
	{"request", "sends an HTTP request"},
}

// Of the init containers that were read, so many run an application's own code.
const (
	collected = 383
	ownCode   = 141
)

// page has the table of the counts.
const page = "../../docs/moving.md"

var update = flag.Bool("update", false, "write the table of the counts into "+page)

// TestCount counts how many rows are replaced, at least 97 % of all and 95 % in full, and compares that with the page.
// [TestRows] shows that the verdicts are true.
func TestCount(t *testing.T) {
	t.Parallel()
	rows := readRows(t)
	full, without, ids := 0, 0, map[string]bool{}
	for _, r := range rows {
		if ids[r.ID] {
			t.Errorf("duplicate id %s", r.ID)
		}
		ids[r.ID] = true
		if r.Does == "" || r.Verdict != inFull && r.Why == "" || !slices.Contains([]string{inFull, partly, not}, r.Verdict) {
			t.Errorf("%s: want what it does, and why its verdict is %s", r.ID, r.Verdict)
		}
		if len(r.ways()) == 0 != (r.Verdict == not) {
			t.Errorf("%s: the verdict is %s, and there are %d ways to replace it", r.ID, r.Verdict, len(r.ways()))
		}
		if r.Verdict == inFull {
			full++
		}
		if r.Verdict != not {
			without++
		}
	}
	if full*100 < len(rows)*95 || without*100 < len(rows)*97 {
		t.Errorf("of %d rows, %d are replaced in full, and %d need no shell", len(rows), full, without)
	}
	if len(rows) != collected-ownCode {
		t.Errorf("%d rows, want %d", len(rows), collected-ownCode)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)(<!-- counts of test/corpus -->\n).*(<!-- end of the counts -->)`)
	want := block.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(report(t, rows), "$", "$$")+"${2}"))
	switch {
	case !block.Match(text):
		t.Errorf("no counts in %s", page)
	case *update:
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Error(err)
		}
	case !bytes.Equal(text, want):
		t.Errorf("the counts in %s are others now: make docs", page)
	}
}

// report returns the counts in Markdown, and what is not replaced in full.
func report(t *testing.T, rows []row) string {
	table := [][]string{{"what the init container does", "in full", "partly", "not", "instead"}, {"---", "---:", "---:", "---:", "---"}}
	line := func(what string, rows []row) {
		n, commands := map[string]int{}, map[string]bool{}
		for _, r := range rows {
			n[r.Verdict]++
			for _, command := range r.commands() {
				commands["`"+command+"`"] = true
			}
		}
		instead := strings.Join(slices.Sorted(maps.Keys(commands)), ", ")
		if what == "**all**" {
			instead = ""
		}
		table = append(table, []string{what, strconv.Itoa(n[inFull]), strconv.Itoa(n[partly]), strconv.Itoa(n[not]), instead})
	}
	counted := 0
	for _, c := range categories {
		var of []row
		for _, r := range rows {
			if r.file == c.file {
				of = append(of, r)
			}
		}
		if counted += len(of); len(of) > 0 {
			line(c.does, of)
		}
	}
	line("**all**", rows)
	if counted != len(rows) {
		t.Errorf("%d of %d rows are in a category", counted, len(rows))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
Of %d init containers of public charts, %d run an application's own code; the other %d are in test/corpus. "In full"
means that the replacement does all that the original does for the application.

`, collected, ownCode, len(rows))
	for _, cells := range table {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintf(&b, "\nThese are not replaced in full:\n\n| what it does | | why |\n|---|---|---|\n")
	for _, r := range rows {
		if r.Verdict != inFull {
			fmt.Fprintf(&b, "| %s (%s) | %s | %s |\n", r.Does, r.ID, r.Verdict, r.Why)
		}
	}
	return b.String() + "\n"
}
