package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"ravenbot/internal/core/text"
)

// fill joins atoms to parts of at most limit(n) for part n, cutting the atoms that are longer.
func fill(atoms []string, limit func(n int) int) []string {
	var parts []string
	part := ""
	for _, a := range atoms {
		room := limit(len(parts)) - Length(part)
		// What fits into a whole piece is not cut for the sake of a piece that has begun. What fits into none is begun in
		// one that would be too short otherwise.
		if n := Length(a); n > room && (n <= limit(len(parts)+1) || Length(part) >= min(minPiece, limit(1)/4) ||
			room < limit(1)/2) {
			if len(parts) == 0 && part == "" {
				parts = append(parts, "")
			} else if strings.TrimSpace(part) != "" {
				parts = append(parts, strings.TrimRight(part, " "))
			}
			part, a = "", strings.TrimLeft(a, " ")
		}
		for Length(part)+Length(a) > limit(len(parts)) {
			cut := prefix(a, limit(len(parts))-Length(part))
			parts = append(parts, part+cut)
			part, a = "", a[len(cut):]
		}
		part += a
	}
	if part != "" {
		parts = append(parts, part)
	}
	return parts
}

// prefix returns the longest beginning of s of at most limit that ends behind a sentence or a clause of CJK text, if its
// second half has such an end, or else between two grapheme clusters. Where the first cluster is longer, it returns as
// much of that as fits, at least one rune.
func prefix(s string, limit int) string {
	n, end, good, clause := 0, 0, 0, 0
	before := "*"
	for clusters := graphemes.FromString(s); clusters.Next(); {
		next := clusters.Value()
		if !isMark(before) && !isMark(next) { // marks stay with their text
			good = end
			if strings.Contains(clauseEnds, before) && !strings.Contains(clauseEnds, next) {
				clause = end
			}
		}
		if n += Length(next); n > limit {
			break
		}
		end += len(next)
		before = next
	}
	switch {
	case n <= limit:
		return s
	case clause > end/2:
		return s[:clause]
	case good > end/2:
		return s[:good]
	case end > 0:
		return s[:end]
	}
	n = 0
	// Without at least one rune fill would not end.
	for i, c := range s {
		if n += Length(string(c)); n > limit && i > 0 {
			return s[:i]
		}
	}
	return s
}

// clauseEnds are the characters that end a clause of CJK text, or close one that has ended.
const clauseEnds = "。！？；，、：」』）】》〉”’…"

// isMark reports whether a character may be a part of the marks around a text.
func isMark(cluster string) bool { return len(cluster) == 1 && strings.Contains("*_~|", cluster) }

var (
	word = text.Pattern(`\s+|\S+`)
	// atom is what must not be cut: a code span, a link or image, anything in angle brackets, an escape, a word.
	atom = text.Pattern("`[^`]+`|``.+?``|!?\\[(?:[^\\[\\]]|\\[[^\\]]*\\])*\\]\\([^()\\s]*(?:\\([^()\\s]*\\)[^()\\s]*)*(?:\\s+\"[^\"]*\")?\\)|" +
		`<[^<>\s][^<>]*>|\\.|[ \t]+|[^\s` + "`" + `!\[<\\]+|.`)
)

// joins reports whether the end of one text and the beginning of another are one character to
// readers: a combining mark, or what a zero-width joiner holds together.
func joins(before, after string) bool {
	const joiner = '\u200d'
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	return last == joiner || first == joiner || unicode.Is(unicode.M, first)
}

// words returns the words of a text and the white space between them.
func words(s string) []string { return word().FindAllString(s, -1) }

// atoms cuts a line where it may be broken; a word holds together what touches.
func atoms(s string) []string {
	var out []string
	for _, a := range atom().FindAllString(s, -1) {
		n := len(out)
		if n > 0 && (joins(out[n-1], a) ||
			strings.TrimSpace(a) != "" && strings.TrimSpace(out[n-1]) != "" && len(out[n-1])+len(a) < 200) {
			out[n-1] += a
			continue
		}
		out = append(out, a)
	}
	return out
}
