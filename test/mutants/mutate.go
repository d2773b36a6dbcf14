package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
)

// mutant is a file with the bytes from start to end replaced by text.
type mutant struct {
	path, pkg    string
	line, column int
	start, end   int
	text         string
	what         string
}

func (m mutant) String() string {
	path := m.path
	if wd, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(wd, path); err == nil {
			path = relative
		}
	}
	return fmt.Sprintf("%s:%d:%d: %s", path, m.line, m.column, m.what)
}

// flipped has for each operator the one that takes its place.
var flipped = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

// mutantsOf returns what can be changed in a file, in the lines that are wanted: each operator of flipped, each other
// condition of an if, which is negated, and each "if err != nil { return … }", whose return is left out.
func mutantsOf(path, pkg string, wanted func(line int) bool) ([]mutant, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []mutant
	add := func(from, to token.Pos, text, what string) {
		p := fset.Position(from)
		if wanted(p.Line) {
			all = append(all, mutant{path, pkg, p.Line, p.Column, p.Offset, fset.Position(to).Offset, text, what})
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if other, ok := flipped[n.Op]; ok {
				add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), other.String(), fmt.Sprintf("%s becomes %s", n.Op, other))
			}
		case *ast.IfStmt:
			if _, binary := n.Cond.(*ast.BinaryExpr); !binary {
				add(n.Cond.Pos(), n.Cond.Pos(), "!", "the condition is negated")
			}
			if failed(n.Cond) && returns(n.Body) {
				add(n.Body.Lbrace+1, n.Body.Rbrace, "", "the error is not returned")
			}
		}
		return true
	})
	return all, nil
}

// failed reports whether a condition is err != nil.
func failed(cond ast.Expr) bool {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return false
	}
	left, ok := b.X.(*ast.Ident)
	right, isIdent := b.Y.(*ast.Ident)
	return ok && isIdent && left.Name == "err" && right.Name == "nil"
}

// returns reports whether a block is a return statement and nothing else.
func returns(block *ast.BlockStmt) bool {
	if len(block.List) != 1 {
		return false
	}
	_, ok := block.List[0].(*ast.ReturnStmt)
	return ok
}
