package markdown_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"ravenbot/internal/turn/markdown"
)

// Answers of the lengths that models like are cut into pieces that all look meant.
func TestSplit_LongAnswer_HasNoShortPiece(t *testing.T) {
	words := func(n int) string { return strings.Repeat("word ", n/5+1)[:n] }
	paragraphs := func(n int) string { return strings.Repeat(words(300)+"\n\n", n/302+1)[:n] }
	code := "```go\n" + strings.Repeat("fmt.Println(\"line\")\n", 104) + "```\n"
	for name, src := range map[string]string{
		"2,001 in one line":                            words(2001),
		"4,000 in one line":                            words(4000),
		"6,000 in one line":                            words(6000),
		"2,100 in paragraphs":                          paragraphs(2100),
		"4,100 in paragraphs":                          paragraphs(4100),
		"12,100 in paragraphs":                         paragraphs(12100),
		"an introduction":                              "Here is what I found:\n\n" + words(3990),
		"a line that just fits behind an introduction": "Here is what I found:\n\n" + words(1990),
		"code":      code,
		"no spaces": strings.Repeat("字", 4010),
	} {
		t.Run(name, func(t *testing.T) {
			checkSplit(t, src, 2000)
			pieces := markdown.Split(src, 2000)
			var sizes []string
			for _, p := range pieces {
				sizes = append(sizes, fmt.Sprint(markdown.Length(p)))
			}
			for _, p := range pieces {
				if len(pieces) < 2 || markdown.Length(p) < 200 {
					t.Errorf("pieces of %s characters, want none below 200", strings.Join(sizes, "+"))
					break
				}
			}
			if least := (markdown.Length(src) + 1999) / 2000; len(pieces) > least+1 {
				t.Errorf("%d pieces, want about %d", len(pieces), least)
			}
		})
	}
}

func TestSplit_NeverCutsWhatReadersSeeAsOne(t *testing.T) {
	for _, one := range []string{"👨\u200d👩\u200d👧\u200d👦", "🏳️\u200d🌈", "e\u0301\u0323", "🇳🇴", "👍🏽",
		"*\ufe0f\u20e3", "नि"} {
		for _, sep := range []string{"", "a", " "} {
			src := strings.Repeat(one+sep, 700)
			want := clusters(src)
			got := 0
			for _, p := range markdown.Split(src, 500) {
				for _, c := range strings.Fields(strings.ReplaceAll(p, "a", " ")) {
					if sep != "" && c != one {
						t.Errorf("%q holds %q", p, c)
					}
				}
				got += clusters(p)
			}
			if sep != " " && got != want {
				t.Errorf("%q: %d characters became %d", one+sep, want, got)
			}
		}
	}
}

func clusters(s string) int {
	n := 0
	for it := graphemes.FromString(s); it.Next(); {
		n++
	}
	return n
}

func TestSplit_CutsKeepMarksAndContainers(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("some words ", 30))
	cjk := strings.Repeat("これは長い文章です。", 50)
	table := markdown.Discord("| n | a |\n|---|---|\n" + strings.Repeat("| row | cell |\n", 30))
	head := "```\nn   │ a\n────┼─────\nrow"
	cases := []struct {
		name, src   string
		first, last string // what each piece begins and ends with
	}{
		{"bold", "**" + words + "**", "**", "**"},
		{"bold and italic", "***" + words + "***", "***", "***"},
		{"struck", "~~" + words + "~~", "~~", "~~"},
		{"spoiler", "||" + words + "||", "||", "||"},
		{"bold lines", "**" + strings.ReplaceAll(words, "some ", "some\n") + "**", "**", "**"},
		{"quote", "> " + words, "> some", "words"},
		{"bold in a quote", "> **" + words + "**", "> **", "**"},
		{"CJK", cjk, "これは長い文章です。", "。"},
		{"CJK in a quote", "> " + cjk, "> これは長い文章です。", "。"},
		{"bold CJK", "**" + cjk + "**", "**これは長い文章です。", "。**"},
		{"table", table, head, "```"},
		{"info", "```" + strings.Repeat("x", 190) + "\ncode\n```", "```\n", "\n```"},
		{"long info", "```" + strings.Repeat("x", 500) + "\ncode\n```", "```\n", "\n```"},
	}
	for _, c := range cases {
		if !strings.Contains(c.src, "```") { // what is repeated there is text twice
			checkSplit(t, strings.ReplaceAll(c.src, "|", ""), 200)
		}
		pieces := markdown.Split(c.src, 200)
		if len(pieces) < 2 {
			t.Errorf("%s: one piece", c.name)
		}
		for _, p := range pieces {
			if !strings.HasPrefix(p, c.first) || !strings.HasSuffix(p, c.last) || strings.Contains(p, "****") {
				t.Errorf("%s: piece %q, want %q … %q", c.name, p, c.first, c.last)
			}
		}
	}
	for _, src := range []string{"A " + strings.Repeat("x", 500), "> A " + strings.Repeat("字", 500)} {
		if first := markdown.Split(src, 200)[0]; markdown.Length(first) < 150 {
			t.Errorf("the first piece is %q", first)
		}
	}
}

// A heading goes with what is below it into the next message.
func TestSplit_HeadingStaysWithItsList(t *testing.T) {
	for _, heading := range []string{"**Security**", "## Security"} {
		text := strings.Repeat("- a line of a list\n", 7) + "\n" + heading + "\n\n- the first entry of the next list, which is longer"
		pieces := markdown.Split(text, 170)
		if len(pieces) != 2 || !strings.HasPrefix(pieces[1], heading) {
			t.Errorf("the pieces are %q", pieces)
		}
	}
}
