package markdown

import (
	"slices"

	"github.com/yuin/goldmark/ast"
)

// HiddenLinks returns where the links and images of a text lead to whose words do not show it, each address once.
func HiddenLinks(src string) []string {
	var list []string
	_ = ast.Walk(parse([]byte(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		var to string
		switch n := n.(type) {
		case *ast.Link:
			to = string(n.Destination)
		case *ast.Image:
			to = string(n.Destination)
		}
		if entering && to != "" && !slices.Contains(list, to) {
			list = append(list, to)
		}
		return ast.WalkContinue, nil
	})
	return list
}
