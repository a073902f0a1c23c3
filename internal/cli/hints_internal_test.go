package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// ofRequest matches what only a program that makes requests can do something with.
var ofRequest = regexp.MustCompile(
	`/api/|\b(GET|POST|PUT|DELETE|PATCH)\b|^send [{"]|[?&]\w*=|percent-encod|\bETag\b|\bAuthorization\b`)

// What the API tells people who typed a command names no request, and names commands that there are. The hints are read
// from the sources of the API: the last argument of writeError, which is for everybody, and of writeHints.
func TestHintsOfTheAPI_ForCommands_NameCommands(t *testing.T) {
	files, err := filepath.Glob("../ops/admin/*.go")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(&invocation{})
	hints, commands := 0, 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, _ := call.Fun.(*ast.Ident)
			if name == nil || name.Name != "writeError" && name.Name != "writeHints" {
				return true
			}
			hint := call.Args[len(call.Args)-1]
			at := set.Position(hint.Pos())
			hints++
			texts := literals(hint)
			// A name would hide what it stands for.
			if _, isName := hint.(*ast.Ident); isName && at.Filename != "../ops/admin/api.go" {
				t.Errorf("%s: write the hint here, so that this test sees it", at)
			}
			for _, text := range texts {
				if ofRequest.MatchString(text) {
					t.Errorf("%s: the command line would show %q: name a command with writeHints, or nothing", at, text)
				}
				if words := strings.Fields(text); strings.HasPrefix(text, "ravenbot ") {
					commands++
					if cmd, _, err := root.Find(words[1:]); err != nil || cmd == root || cmd.HasSubCommands() {
						t.Errorf("%s: there is no command such as %q", at, text)
					}
				}
			}
			return true
		})
	}
	// Else the sources are elsewhere, or look different.
	if hints < 50 || commands < 8 {
		t.Errorf("%d hints were found, and %d that name commands", hints, commands)
	}
}

// literals returns the texts that stand in an expression.
func literals(e ast.Expr) []string {
	var list []string
	ast.Inspect(e, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				list = append(list, text)
			}
		}
		return true
	})
	return list
}
