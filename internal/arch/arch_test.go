// Package arch_test keeps the shape of the module: who may import whom, and which things are done in one place only.
package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

var libraries = []string{"initbox/waitfor", "initbox/register", "initbox/clone", "initbox/render"}

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
			case imported == cli && in != "cmd/command":
				f.errorf(t, spec, "only cmd imports the CLI library")
			case isLibrary("initbox/"+in) && isLibrary(imported) && libraryOf("initbox/"+in) != libraryOf(imported):
				f.errorf(t, spec, "libraries do not import each other")
			case strings.HasPrefix(in, "internal/") && isLibrary(imported):
				f.errorf(t, spec, "internal packages do not import the libraries")
			case strings.HasPrefix(imported, "initbox/test"):
				f.errorf(t, spec, "the product does not import its tests")
			case isLibrary("initbox/"+in) && imported == "os/exec":
				f.errorf(t, spec, "libraries do not run programs")
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
		{"os", "Exit", []string{"cmd/initbox/main.go"}},
		{"os", "Getenv", []string{"cmd/command/", "internal/podinfo/"}},
		{"os", "LookupEnv", []string{"cmd/command/", "internal/podinfo/"}},
		{"os", "Environ", []string{"cmd/command/"}},
		{"time", "Sleep", []string{"internal/poll/"}},
		{"time", "After", []string{"internal/poll/"}},
		{"time", "AfterFunc", []string{"internal/poll/"}},
		{"time", "NewTimer", []string{"internal/poll/"}},
		{"time", "NewTicker", []string{"internal/poll/"}},
		{"time", "Tick", []string{"internal/poll/"}},
		{"http", "Client", []string{"internal/httpclient/"}},
		{"http", "DefaultClient", nil},
		{"http", "Get", nil},
		{"http", "Post", nil},
		{"os", "Create", []string{"internal/atomicfile/"}},
		{"os", "CreateTemp", []string{"internal/atomicfile/"}},
		{"os", "WriteFile", []string{"internal/atomicfile/"}},
		{"os", "Rename", []string{"internal/atomicfile/"}},
		{"unix", "Openat", []string{"internal/dirfd/"}},
		{"unix", "Fstatat", []string{"internal/dirfd/"}},
		{"unix", "Statx", []string{"internal/dirfd/"}},
		{"unix", "Mkdirat", []string{"internal/dirfd/"}},
		{"unix", "Renameat", []string{"internal/dirfd/"}},
		{"unix", "Renameat2", []string{"internal/dirfd/"}},
		{"unix", "Unlinkat", []string{"internal/dirfd/"}},
		{"unix", "Symlinkat", []string{"internal/dirfd/"}},
		{"unix", "Readlinkat", []string{"internal/dirfd/"}},
		{"unix", "Syncfs", []string{"internal/dirfd/"}},
		{"unix", "EINTR", []string{"internal/dirfd/"}},
		{"log", "Print", nil}, {"log", "Printf", nil}, {"log", "Fatal", nil}, {"log", "Fatalf", nil},
	}
	for _, f := range productFiles(t) {
		ast.Inspect(f.File, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			pkg, ok := sel.X.(*ast.Ident)
			if !ok || pkg.Obj != nil { // a variable, not a package
				return true
			}
			for _, o := range only {
				if pkg.Name == o.pkg && sel.Sel.Name == o.name && !f.in(o.places) && !isPointerType(f, sel) {
					f.errorf(t, sel, "%s.%s belongs in %s", o.pkg, o.name, strings.Join(o.places, " or ")+" only")
				}
			}
			return true
		})
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

// productFiles parses what is linked into the binary: not tests, not bench.
func productFiles(t *testing.T) []file {
	t.Helper()
	var files []file
	for _, top := range []string{"cmd", "internal", "waitfor", "register", "clone", "render"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil && path == filepath.Join(root, top) {
				return nil // not built yet
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
			t.Fatal(err)
		}
	}
	if len(files) == 0 {
		t.Fatal("no files of the product found")
	}
	return files
}
