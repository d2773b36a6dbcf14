// Package docs_test keeps the pages true: the help in them is the program's, their examples are command lines that
// the program takes, the flags they name exist, and their links lead somewhere.
package docs_test

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode"

	"initbox/test/servers"
)

const root = ".."

var update = flag.Bool("update", false, "write the help of the program into the pages")

var binary string // the program, built for the tests

func TestMain(m *testing.M) { os.Exit(servers.WithInitbox(&binary, m.Run)) }

// plugin returns the kubectl plugin, built for the tests beside the program.
var plugin = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(filepath.Dir(binary), "kubectl-initbox")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/kubectl-initbox").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// helpBlock is a place for the help of a command in a page.
var helpBlock = regexp.MustCompile("(?s)(<!-- help: ([a-z -]+) -->\n```text\n)(.*?)(```\n<!-- help: end -->)")

// TestHelp pins that each subcommand has a page, and that the help in the pages is what the program prints.
func TestHelp(t *testing.T) {
	shown := map[string]bool{} // by command, those with their help in a page
	for _, page := range pages(t) {
		now := helpBlock.ReplaceAllFunc(page.text, func(block []byte) []byte {
			parts := helpBlock.FindSubmatch(block)
			command := string(parts[2])
			shown[strings.TrimSuffix(command, " all")] = true
			if topic, found := strings.CutPrefix(command, "kubectl initbox"); found {
				return slices.Concat(parts[1], pluginHelp(t, strings.Fields(topic)...), parts[4])
			}
			return slices.Concat(parts[1], help(t, strings.Fields(command)[1:]...), parts[4])
		})
		switch {
		case bytes.Equal(now, page.text):
		case *update:
			if err := os.WriteFile(filepath.Join(root, page.path), now, 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s: the help in it is not the program's: run make docs", page.path)
		}
	}
	for _, name := range subcommands(t) {
		if !shown["initbox "+name] {
			t.Errorf("no page has a block for the help of initbox %s, as docs/sleep.md has", name)
		}
	}
}

// TestFlagsAreExplained pins that a subcommand's page says something of each of its flags, beside their help.
func TestFlagsAreExplained(t *testing.T) {
	flags := regexp.MustCompile(`(?m)^  --([a-z0-9-]+)`)
	for _, name := range subcommands(t) {
		page := read(t, "docs/"+name+".md")
		prose := helpBlock.ReplaceAll(page.text, nil)
		for _, match := range flags.FindAllSubmatch(wholeHelp(t, name), -1) {
			if string(match[1]) == "help" {
				continue
			}
			if !regexp.MustCompile("`(--)?" + string(match[1]) + "\\b").Match(prose) {
				t.Errorf("%s says nothing of --%s", page.path, match[1])
			}
		}
	}
}

// TestFlagsExist pins that a flag that stands for itself in a page is one of initbox's.
func TestFlagsExist(t *testing.T) {
	known := slices.Concat(help(t), pluginHelp(t))
	for _, cmd := range regexp.MustCompile(`(?m)^  ([a-z]+)  `).FindAllSubmatch(pluginHelp(t), -1) {
		if string(cmd[1]) != "version" {
			known = append(known, pluginHelp(t, string(cmd[1]))...)
		}
	}
	for _, name := range subcommands(t) {
		known = append(known, wholeHelp(t, name)...)
	}
	mention := regexp.MustCompile("`--([a-z0-9-]+)")
	for _, page := range pages(t) {
		if dir := filepath.Dir(page.path); dir != "." && dir != "docs" || page.path == "docs/benchmarks.md" {
			continue // the flags there are those of other programs
		}
		for _, match := range mention.FindAllSubmatch(page.text, -1) {
			if !regexp.MustCompile(`(?m)^  (-., )?--` + string(match[1]) + `\b`).Match(known) {
				t.Errorf("%s: there is no flag --%s", page.path, match[1])
			}
		}
	}
}

// TestExamples pins that every example in a page is a command line that the program takes. Nothing is waited for:
// the deadline passes before anything is tried.
func TestExamples(t *testing.T) {
	tried := 0
	for _, page := range pages(t) {
		for _, args := range slices.Concat(shellExamples(t, page), podExamples(t, page)) {
			tried++
			if out, status := runFor1ns(withState(t, args)); status != 0 && status != 124 {
				t.Errorf("%s: initbox %q: status %d\n%s", page.path, args, status, out)
			}
		}
	}
	if tried == 0 {
		t.Error("no examples found")
	}
}

// withState returns args with an existing directory instead of /state. The directory holds the state of a registration,
// which initbox deregister needs.
func withState(t *testing.T, args []string) []string {
	t.Helper()
	if !strings.Contains(strings.Join(args, " "), "/state/") {
		return args
	}
	dir := t.TempDir() + "/"
	if out, status := runFor1ns([]string{"register", "--url=http://127.0.0.1/", "--deregister-url=/", "--state=" + dir + "registered"}); status != 124 {
		t.Fatalf("status %d\n%s", status, out)
	}
	replaced := make([]string, len(args))
	for i, arg := range args {
		replaced[i] = strings.Replace(arg, "/state/", dir, 1)
	}
	return replaced
}

// runFor1ns runs the program in an environment that has what the examples refer to.
func runFor1ns(args []string) (out []byte, status int) {
	cmd := exec.Command(binary, withTimeout(args, "1ns")...)
	cmd.Env = append(referredTo(args), "INITBOX_TIMEOUT=1ns", "INITBOX_TERMINATION_LOG="+os.DevNull, "POD_NAME=web-2", "POD_IP=10.1.2.3", "API_TOKEN=t0ken", "DEPENDENCY_SERVICE=mydb", "INITBOX_TARGETS=tcp://mydb:5432", "LABEL=dashboard", "FOLDER=/nowhere")
	out, _ = cmd.CombinedOutput()
	return out, cmd.ProcessState.ExitCode()
}

// reference is a variable that a target refers to. What is nothing else is a whole target.
var reference = regexp.MustCompile(`\$\{env:([A-Z_]+)\}`)

// referredTo returns an environment with the variables that args refer to.
func referredTo(args []string) (env []string) {
	for _, arg := range args {
		for _, match := range reference.FindAllStringSubmatchIndex(arg, -1) {
			value := "s3cret"
			if match[0] == 0 {
				value = "postgres://app:s3cret@mydb/app"
			}
			env = append(env, arg[match[2]:match[3]]+"="+value)
		}
	}
	return env
}

// withTimeout returns args with another timeout, before what ends the flags.
func withTimeout(args []string, timeout string) []string {
	end := slices.IndexFunc(args, func(arg string) bool {
		return arg == "--" || arg == "--from-k8s-wait-for" || arg == "--compat=git-sync" || arg == "--compat=k8s-sidecar"
	})
	if end < 0 {
		end = len(args)
	}
	return slices.Concat(args[:end], []string{"--timeout", timeout}, args[end:])
}

var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// shellExamples returns the arguments of the lines that run initbox in a page's blocks of shell.
func shellExamples(t *testing.T, p page) [][]string {
	t.Helper()
	var examples [][]string
	for _, block := range shellBlock.FindAllSubmatch(p.text, -1) {
		joined := strings.ReplaceAll(string(block[1]), "\\\n", " ")
		for line := range strings.Lines(joined) {
			if !strings.HasPrefix(line, "initbox ") {
				continue
			}
			out, err := exec.Command("sh", "-c", `initbox() { printf '%s\0' "$@"; }; `+line).Output()
			if err != nil {
				t.Errorf("%s: %s: the shell does not take it: %v", p.path, line, err)
				continue
			}
			examples = append(examples, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"))
		}
	}
	return examples
}

var (
	podArgs  = regexp.MustCompile(`(?m)^[ -]*args: \[(.*)\]$`)
	podArg   = regexp.MustCompile(`"(?:\\.|[^"\\])*"|'[^']*'|[^,\[\]{} ]+`)
	template = regexp.MustCompile(`{{.*?}}`)
	variable = regexp.MustCompile(`\$\([A-Z_]+\)`) // which the kubelet replaces
)

// podExamples returns the arguments of the containers in a page, as far as they stand in one line.
func podExamples(t *testing.T, p page) [][]string {
	t.Helper()
	var examples [][]string
	for _, match := range podArgs.FindAllSubmatch(p.text, -1) {
		var args []string
		for _, arg := range podArg.FindAllString(template.ReplaceAllString(string(match[1]), "x"), -1) {
			switch arg[0] {
			case '"':
				unquoted, err := strconv.Unquote(arg)
				if err != nil {
					t.Errorf("%s: %s: %v", p.path, arg, err)
				}
				arg = unquoted
			case '\'':
				arg = strings.Trim(arg, "'")
			}
			args = append(args, variable.ReplaceAllString(arg, "80"))
		}
		examples = append(examples, args)
	}
	return examples
}

// TestLinks pins that a link to a file or to a heading of this repository leads there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for _, p := range pages(t) {
		for _, match := range link.FindAllSubmatch(p.text, -1) {
			target := string(match[1])
			if strings.Contains(target, "://") {
				continue
			}
			path, anchor, anchored := strings.Cut(target, "#")
			linked := p.path
			if path != "" {
				linked = filepath.Join(filepath.Dir(p.path), path)
			}
			if _, err := os.Stat(filepath.Join(root, linked)); err != nil {
				t.Errorf("%s: link to %s: %v", p.path, target, err)
			} else if anchored && !slices.Contains(anchors(read(t, linked)), anchor) {
				t.Errorf("%s: link to %s: no such heading", p.path, target)
			}
		}
	}
}

// anchors returns the names by which a page's headings can be linked to.
func anchors(p page) []string {
	var names []string
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	for _, match := range heading.FindAllSubmatch(p.text, -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, string(match[1])))
	}
	return names
}

// TestImagesHaveTags pins that the image in a manifest has a tag: without one, the kubelet always pulls it, and does
// not find one that was loaded into the node.
func TestImagesHaveTags(t *testing.T) {
	untagged := regexp.MustCompile(`(?m)image: *"?initbox("|\s|,|}|$)`)
	all := pages(t)
	manifests, err := filepath.Glob(root + "/test/*/testdata/*.yaml")
	if err != nil || len(manifests) == 0 {
		t.Fatalf("%d manifests, %v", len(manifests), err)
	}
	for _, name := range manifests {
		all = append(all, read(t, strings.TrimPrefix(name, root+"/")))
	}
	for _, p := range all {
		for _, match := range untagged.FindAll(p.text, -1) {
			t.Errorf("%s: no tag: %s", p.path, match)
		}
	}
}

// TestReadme pins that the README names every subcommand.
func TestReadme(t *testing.T) {
	readme := read(t, "README.md")
	for _, name := range subcommands(t) {
		if row := fmt.Sprintf("| [`%s`](docs/%[1]s.md) |", name); !bytes.Contains(readme.text, []byte(row)) {
			t.Errorf("the table of subcommands in README.md has no row %q", row)
		}
	}
}

// page is a Markdown file.
type page struct {
	path string // from the top of the repository
	text []byte
}

func read(t *testing.T, path string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return page{path, text}
}

// pages returns every Markdown file of the repository.
func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".md":
			return nil
		}
		path, err = filepath.Rel(root, path)
		all = append(all, read(t, path))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func subcommands(t *testing.T) []string {
	t.Helper()
	return strings.Fields(string(output(t, "--list")))
}

func help(t *testing.T, command ...string) []byte {
	t.Helper()
	return output(t, append([]string{"help"}, command...)...)
}

// pluginHelp returns the help of the kubectl plugin, or of a subcommand of it.
func pluginHelp(t *testing.T, command ...string) []byte {
	t.Helper()
	program, err := plugin()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, append([]string{"help"}, command...)...).Output()
	if err != nil {
		t.Fatalf("kubectl initbox help %q: %v", command, err)
	}
	return out
}

// wholeHelp returns the help on a subcommand with the flags of all kinds of target.
func wholeHelp(t *testing.T, name string) []byte {
	if name == "wait-for-service" {
		return help(t, name, "all")
	}
	return help(t, name)
}

func output(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(binary, args...).Output()
	if err != nil {
		t.Fatalf("initbox %q: %v", args, err)
	}
	return out
}
