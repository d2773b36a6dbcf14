// Package arch_test pins the shape of the module: the directions of imports, and what is done in one place only.
package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

var libraries = []string{"initbox/waitfor", "initbox/register", "initbox/clone", "initbox/render", "initbox/volume/prepare", "initbox/volume/copy", "initbox/volume/fetch", "initbox/pki/keystore", "initbox/pki/trust", "initbox/pki/generate", "initbox/volume/kubeget"}

// TestImports pins the directions of imports.
func TestImports(t *testing.T) {
	cli := "github.com/urfave/cli/v2"
	for _, f := range productFiles(t) {
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			in := f.dir
			switch {
			case strings.HasPrefix(imported, "initbox/cmd") && !strings.HasPrefix(in, "cmd/"):
				f.errorf(t, spec, "only cmd imports cmd")
			case imported == cli && in != "cmd/command" && in != "cmd/help" && in != plugin:
				f.errorf(t, spec, "only cmd imports the CLI library")
			case isLibrary("initbox/"+in) && isLibrary(imported) && libraryOf("initbox/"+in) != libraryOf(imported):
				f.errorf(t, spec, "libraries do not import each other")
			case strings.HasPrefix(in, "internal/") && isLibrary(imported):
				f.errorf(t, spec, "internal packages do not import the libraries")
			case strings.HasPrefix(imported, "k8s.io/client-go/kubernetes"):
				f.errorf(t, spec, "the typed clients weigh 27 MB: the plugin reads JSON with k8s.io/client-go/rest")
			case ofPlugin(imported) && in != plugin && !strings.HasPrefix(in, plugin+"/"):
				f.errorf(t, spec, "only the plugin imports what it needs at a desk: it must not weigh on the image")
			case strings.HasPrefix(imported, "initbox/test"):
				f.errorf(t, spec, "the product does not import its tests")
			case isLibrary("initbox/"+in) && imported == "os/exec":
				f.errorf(t, spec, "libraries do not run programs")
			}
		}
	}
}

// plugin is the second program of the module.
const plugin = "cmd/kubectl-initbox"

// ofPlugin reports whether a package belongs to the plugin alone.
func ofPlugin(imported string) bool {
	for _, prefix := range []string{"initbox/" + plugin, "k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go/tools", "k8s.io/client-go/rest", "mvdan.cc/sh"} {
		if strings.HasPrefix(imported, prefix) {
			return true
		}
	}
	return false
}

// waitforImports says which packages below waitfor each of them may import. What has no row is a kind of target, or
// several: kinds share what is in wire and below it, and import neither each other nor waitfor, which has their table.
var waitforImports = map[string]string{
	"forms":        "",
	"expect":       "",
	"target":       "forms",
	"wire":         "target",
	"wire/httpapi": "forms target wire",
	"wire/rpc":     "wire wire/httpapi",
	"wire/scram":   "wire",
}

const kindImports = "expect forms target wire wire/httpapi wire/rpc wire/scram"

// TestImportsInWaitfor pins the directions of imports below waitfor. waitfor itself may import all of them.
func TestImportsInWaitfor(t *testing.T) {
	for _, f := range productFiles(t) {
		in, below := strings.CutPrefix(f.dir, "waitfor/")
		if !below {
			continue
		}
		allowed, found := waitforImports[in]
		if !found {
			allowed = kindImports
		}
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			name, found := strings.CutPrefix(imported, "initbox/waitfor")
			if found && !slices.Contains(strings.Fields(allowed), strings.TrimPrefix(name, "/")) {
				f.errorf(t, spec, "waitfor/%s may import %q only", in, allowed)
			}
		}
	}
}

// TestOnePlace pins what is done in one place only.
func TestOnePlace(t *testing.T) {
	only := []struct {
		pkg, name string
		places    []string
	}{
		{"os", "Exit", []string{"cmd/initbox/main.go", "cmd/kubectl-initbox/main.go"}},
		{"os", "Getenv", []string{"cmd/command/", "internal/podinfo/"}},
		{"os", "LookupEnv", []string{"cmd/command/", "internal/podinfo/"}},
		{"os", "Environ", []string{"cmd/command/"}},
		{"time", "Sleep", []string{"internal/poll/"}},
		{"time", "After", []string{"internal/poll/"}},
		{"time", "AfterFunc", []string{"internal/poll/"}},
		{"time", "NewTimer", []string{"internal/poll/"}},
		{"time", "NewTicker", []string{"internal/poll/"}},
		{"time", "Tick", []string{"internal/poll/"}},
		{"http", "Client", []string{"internal/httpclient/", "volume/fetch/oci/registry.go"}}, // it follows redirects, over our transport
		{"http", "DefaultClient", nil},
		{"http", "Get", nil},
		{"http", "Post", nil},
		{"os", "Create", []string{"internal/atomicfile/"}},
		{"os", "CreateTemp", []string{"internal/atomicfile/"}},
		{"os", "WriteFile", []string{"internal/atomicfile/"}},
		{"os", "Rename", []string{"internal/atomicfile/"}},
		{"unix", "EINTR", []string{"internal/dirfd/"}},
		{"exec", "Command", []string{"cmd/release/", plugin + "/"}},
		{"exec", "CommandContext", []string{"internal/process/", "cmd/release/", plugin + "/"}}, // which removes the orphans that have ended
		{"os", "Stdin", []string{"cmd/"}},
		{"os", "Stdout", []string{"cmd/"}},
		{"os", "Stderr", []string{"cmd/"}},
		{"fmt", "Print", nil}, {"fmt", "Printf", nil}, {"fmt", "Println", nil},
		{"log", "Print", nil}, {"log", "Printf", nil}, {"log", "Println", nil}, {"log", "Fatal", nil}, {"log", "Fatalf", nil},
	}
	for _, f := range productFiles(t) {
		for pkg, sel := range f.selectors() {
			for _, o := range only {
				if pkg == o.pkg && sel.Sel.Name == o.name && !f.in(o.places) && !isPointerType(f, sel) {
					f.errorf(t, sel, "%s.%s belongs in %s", o.pkg, o.name, strings.Join(o.places, " or ")+" only")
				}
			}
		}
	}
}

// TestRedaction pins that internal/secret is the only package that removes secrets from text: nothing else writes its
// mark, or replaces something by an ellipsis.
func TestRedaction(t *testing.T) {
	allowed := map[string]string{
		"internal/secret/":         "all",
		"internal/failure/http.go": "removes what net/http quotes of a server, whatever it is",
		"render/jinja/readexpr.go": "the path of a variable subscript, values[…]",
	}
	for _, f := range productFiles(t) {
		if f.in(slices.Collect(maps.Keys(allowed))) {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if strings.Contains(n.Value, "[…]") {
					f.errorf(t, n, "a secret is removed by secret.Redactor: use secret.Mark")
				}
			case *ast.CallExpr:
				fun, isMethod := n.Fun.(*ast.SelectorExpr)
				if !isMethod || !strings.HasPrefix(fun.Sel.Name, "Replace") && fun.Sel.Name != "NewReplacer" {
					break
				}
				for _, arg := range n.Args {
					if lit, ok := arg.(*ast.BasicLit); ok && regexp.MustCompile(`…|\*\*\*`).MatchString(lit.Value) {
						f.errorf(t, n, "a secret is removed by secret.Redactor")
					}
				}
			}
			return true
		})
	}
}

// TestSystemCalls pins that files are reached through internal/dirfd or os, which repeat calls that a signal
// interrupts.
func TestSystemCalls(t *testing.T) {
	allowed := []struct{ place, names, reason string }{
		{"internal/dirfd/", "", "all"},
		{"cmd/command/chain.go", "Exec", "runs the command after --, instead of this process"},
		{"internal/process/", "SysProcAttr Kill Wait4", "ends a program together with those that it has started, and removes orphans that have ended"},
		{"clone/local/", "Mmap Munmap Madvise", "maps the index of a pack, from an open file"},
		{"internal/inpod/", "Stat Statfs Access", "asks what a volume is like, and whether it can be written"},
		{"internal/perm/", "CapUserHeader CapUserData Capget", "asks for the capabilities of this process, for a hint"},
		{"register/", "Access", "asks beforehand whether a file can be written"},
		{"volume/prepare/", "Stat", "compares a directory with the root directory"},
		{"internal/inotify/", "InotifyInit1 InotifyAddWatch InotifyRmWatch FcntlInt", "watches directories"},
	}
	// Constants, types that the product uses, and conversions between them.
	noCall := regexp.MustCompile(`^([A-Z0-9_]+|.*_t|Sizeof.*|InotifyEvent|Signal|Timespec(ToNsec)?|TimeToTimespec)$`)
	used := make([]bool, len(allowed))
	for _, f := range productFiles(t) {
		for pkg, sel := range f.selectors() {
			if pkg != "unix" && pkg != "syscall" || noCall.MatchString(sel.Sel.Name) {
				continue
			}
			i := slices.IndexFunc(allowed, func(a struct{ place, names, reason string }) bool {
				return strings.HasPrefix(f.path, a.place) && (a.names == "" || slices.Contains(strings.Fields(a.names), sel.Sel.Name))
			})
			if i < 0 {
				f.errorf(t, sel, "%s.%s belongs in internal/dirfd, or in the table of this test, with a reason", pkg, sel.Sel.Name)
				continue
			}
			used[i] = true
		}
	}
	for i, a := range allowed {
		if !used[i] {
			t.Errorf("%s no longer calls any of %s: remove the row", a.place, a.names)
		}
	}
}

// TestKernelTables pins that each of the kernel's tables is parsed in one place.
func TestKernelTables(t *testing.T) {
	places := map[string]string{"mountinfo": "internal/mounts/"}
	for _, f := range productFiles(t) {
		for n := range ast.Preorder(f.File) {
			text, ok := n.(*ast.BasicLit)
			for table, place := range places {
				if ok && strings.Contains(text.Value, "/proc/self/"+table) && !f.in([]string{place}) {
					f.errorf(t, text, "/proc/self/%s is read in %s only", table, place)
				}
			}
		}
	}
}

// TestNoInit pins that nothing registers itself: lists are literal.
func TestNoInit(t *testing.T) {
	for _, f := range productFiles(t) {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				f.errorf(t, fn, "no func init")
			}
		}
	}
}

// TestNothingAtStart pins that no regular expression is compiled before it is needed.
func TestNothingAtStart(t *testing.T) {
	for _, f := range productFiles(t) {
		for _, d := range f.Decls {
			if vars, ok := d.(*ast.GenDecl); ok && vars.Tok == token.VAR {
				ast.Inspect(vars, func(n ast.Node) bool {
					if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "MustCompile" {
						f.errorf(t, sel, "at each start: see internal/lazy")
					}
					_, later := n.(*ast.FuncLit)
					return !later
				})
			}
		}
	}
}

// file is a Go file of the product.
type file struct {
	*ast.File
	fset      *token.FileSet
	dir, path string // from the module's root
}

func (f file) errorf(t *testing.T, n ast.Node, format string, args ...any) {
	t.Helper()
	pos := f.fset.Position(n.Pos())
	t.Errorf("%s:%d: "+format, append([]any{f.path, pos.Line}, args...)...)
}

// selectors yields each use of a name from a package, such as os.Exit, with the name of the package.
func (f file) selectors() iter.Seq2[string, *ast.SelectorExpr] {
	return func(yield func(string, *ast.SelectorExpr) bool) {
		for n := range ast.Preorder(f.File) {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				continue
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Obj == nil && !yield(pkg.Name, sel) { // with an Obj, it is a variable
				return
			}
		}
	}
}

func (f file) in(places []string) bool {
	for _, p := range places {
		if strings.HasPrefix(f.path, p) {
			return true
		}
	}
	return false
}

// isPointerType reports whether sel is the type in *sel: to hold an http.Client is not to make one.
func isPointerType(f file, sel *ast.SelectorExpr) (found bool) {
	ast.Inspect(f.File, func(n ast.Node) bool {
		if star, ok := n.(*ast.StarExpr); ok && star.X == sel {
			found = true
		}
		return !found
	})
	return found
}

func isLibrary(path string) bool { return libraryOf(path) != "" }

// libraryOf returns the library that a package belongs to, or "".
func libraryOf(path string) string {
	for _, l := range libraries {
		if path == l || strings.HasPrefix(path, l+"/") {
			return l
		}
	}
	return ""
}

// releaseTool is no part of the product: it makes the files of a release.
const releaseTool = "cmd/release"

// productFiles returns what is linked into the binary: not tests, not bench.
func productFiles(t *testing.T) []file {
	t.Helper()
	files, err := parsed()
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files of the product: %v", len(files), err)
	}
	return files
}

var parsed = sync.OnceValues(func() (files []file, err error) {
	for _, top := range []string{"cmd", "internal", "waitfor", "register", "clone", "render", "pki", "volume"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err == nil && path == filepath.Join(root, releaseTool) {
				return filepath.SkipDir
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			files = append(files, file{parsed, fset, filepath.ToSlash(filepath.Dir(rel)), filepath.ToSlash(rel)})
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
})
