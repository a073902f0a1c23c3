package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// render returns a tool as text for people to compare; hidden characters are written as
// their code.
func (t toolSpec) render() string {
	var b strings.Builder
	for _, part := range []struct{ what, text string }{
		{"name", t.Name},
		{"title", t.Title},
		{"description", t.Description},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, "%s: %s\n", part.what, part.text)
		}
	}
	for _, part := range []struct {
		what string
		raw  json.RawMessage
	}{{"annotations", t.Notes}, {"inputSchema", t.Schema}, {"outputSchema", t.Output}} {
		if len(part.raw) == 0 {
			continue
		}
		indented := []byte(part.raw)
		if value := decodeJSON(part.raw); value != nil {
			if readable, err := json.MarshalIndent(value, "", "  "); err == nil {
				indented = readable
			}
		}
		fmt.Fprintf(&b, "%s: %s\n", part.what, indented)
	}
	return showHidden(b.String())
}

// showHidden returns a text with hidden characters written as their code.
func showHidden(s string) string {
	var b strings.Builder
	before := rune(0)
	// Whether a character is hidden may depend on the one before it.
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		if isHidden(before, c) || c == '\r' {
			fmt.Fprintf(&b, "{U+%04X}", c)
		} else {
			b.WriteRune(c)
		}
		before = c
	}
	return b.String()
}

const (
	maxDiffLines = 2000 // of one side; longer texts are shown one after the other
	diffContext  = 2    // unchanged lines shown around a change
)

// diffLines returns what changed from before to after: removed lines begin with -, added
// lines with +, and a few unchanged lines around them with a blank.
func diffLines(before, after string) string {
	a, b := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	if before == "" {
		a = nil
	}
	marked := mergeLines(a, b)
	var out strings.Builder
	skipped := false
	for i, line := range marked {
		around := marked[max(0, i-diffContext):min(len(marked), i+diffContext+1)]
		near := slices.ContainsFunc(around, func(l string) bool { return l[0] != ' ' })
		switch {
		case near:
			out.WriteString(line + "\n")
			skipped = false
		case !skipped:
			out.WriteString(" …\n")
			skipped = true
		}
	}
	return out.String()
}

// mergeLines merges both texts into one, along their longest common subsequence of lines.
func mergeLines(a, b []string) []string {
	var list []string
	if len(a) > maxDiffLines || len(b) > maxDiffLines {
		return append(prefixLines("-", a), prefixLines("+", b)...)
	}
	// length[i][j] is the length of the longest common subsequence of a[i:] and b[j:]. It
	// fits an int16 because of maxDiffLines, which also bounds the table to 8 MB.
	length := make([][]int16, len(a)+1)
	for i := range length {
		length[i] = make([]int16, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	// Walk the table from the beginning: a common line stays, else the side is taken from
	// which more can still be matched.
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			list, i, j = append(list, " "+a[i]), i+1, j+1
		case length[i+1][j] >= length[i][j+1]:
			list, i = append(list, "-"+a[i]), i+1
		default:
			list, j = append(list, "+"+b[j]), j+1
		}
	}
	return append(append(list, prefixLines("-", a[i:])...), prefixLines("+", b[j:])...)
}

// prefixLines returns the lines with a mark before each.
func prefixLines(mark string, lines []string) []string {
	list := make([]string, len(lines))
	for i, l := range lines {
		list[i] = mark + l
	}
	return list
}
