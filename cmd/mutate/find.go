package main

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// findChanges returns every change of the files of a package that are built on this system.
func findChanges(folder string) ([]change, error) {
	pkg, err := build.ImportDir(folder, 0)
	if err != nil {
		return nil, err
	}
	var all []change
	for _, name := range pkg.GoFiles {
		path := filepath.Join(folder, name)
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files := token.NewFileSet()
		tree, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		f := finder{files: files, file: path, source: source}
		ast.Inspect(tree, f.visit)
		all = append(all, f.found...)
	}
	return all, nil
}

// finder collects the changes of a file.
type finder struct {
	files  *token.FileSet
	file   string
	source []byte
	found  []change
}

// operators are what an operator is replaced by.
var operators = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ,
	token.GEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND, token.ADD: token.SUB, token.SUB: token.ADD,
	token.MUL: token.QUO, token.QUO: token.MUL,
}

// visit notes the changes of one node of a file, and reports whether the nodes in it are looked at.
// Each is one that a test should notice: another operator, a number one higher, a condition turned
// round, a statement left out.
func (f *finder) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GenDecl:
		return n.Tok == token.CONST // types have no behaviour, and few variables of packages have
	case *ast.BinaryExpr:
		if by, ok := operators[n.Op]; ok {
			f.add(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), by.String())
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			f.add(n.Pos(), n.X.Pos(), "")
		}
	case *ast.IfStmt:
		f.add(n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
	case *ast.BasicLit:
		if v, err := strconv.Atoi(n.Value); n.Kind == token.INT && err == nil {
			f.add(n.Pos(), n.End(), strconv.Itoa(v+1))
		}
	case *ast.ReturnStmt:
		// An error that is not returned.
		if len(n.Results) > 0 {
			if last, ok := n.Results[len(n.Results)-1].(*ast.Ident); ok && last.Name == "err" {
				f.add(last.Pos(), last.End(), "nil")
			}
		}
	case *ast.ExprStmt:
		if f.isLog(n.X) || f.isFailpoint(n.X) {
			return false
		}
		f.add(n.Pos(), n.End(), "")
	case *ast.DeferStmt:
		f.add(n.Pos(), n.End(), "")
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			f.add(n.Pos(), n.End(), "")
		}
	case *ast.IncDecStmt:
		f.add(n.Pos(), n.End(), "")
	case *ast.BranchStmt:
		if n.Tok == token.BREAK || n.Tok == token.CONTINUE {
			f.add(n.Pos(), n.End(), "")
		}
	}
	return true
}

// text returns the source of a node.
func (f *finder) text(n ast.Node) string {
	return string(f.source[f.files.Position(n.Pos()).Offset:f.files.Position(n.End()).Offset])
}

// isLog reports whether an expression is a call that writes to a log: what it says is for people.
func (f *finder) isLog(n ast.Expr) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	log := f.text(method.X)
	return log == "log" || strings.HasSuffix(log, ".log") || strings.HasSuffix(log, "Log")
}

// isFailpoint reports whether an expression names a place at which tests of a build of their own kill
// the process: it does nothing in the others.
func (f *finder) isFailpoint(n ast.Expr) bool { return strings.HasPrefix(f.text(n), "failpoint.Here(") }

// add notes a change: what stands between two positions, and by what it is replaced.
func (f *finder) add(begin, end token.Pos, by string) {
	f.found = append(f.found, change{
		file:   f.file,
		source: f.source,
		begin:  f.files.Position(begin).Offset,
		end:    f.files.Position(end).Offset,
		by:     by,
	})
}
