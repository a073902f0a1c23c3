package markdown_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"ravenbot/internal/turn/markdown"
)

func TestSplitKeepsFencesTablesAndLinksWhole(t *testing.T) {
	code := "Before.\n\n```go\n" + strings.Repeat("fmt.Println(\"line\")\n", 30) + "```\n\nAfter."
	for i, piece := range markdown.Split(code, 200) {
		if n := strings.Count(piece, "```"); n%2 != 0 {
			t.Errorf("piece %d has %d fences:\n%s", i, n, piece)
		}
		if strings.Contains(piece, "Println") && !strings.Contains(piece, "```go\n") {
			t.Errorf("piece %d lost its language:\n%s", i, piece)
		}
	}
	table := "| name | value |\n|---|---|\n" + strings.Repeat("| some name | some value |\n", 30)
	for i, piece := range markdown.Split(table, 200) {
		if !strings.HasPrefix(piece, "| name | value |\n|---|---|\n| some name") {
			t.Errorf("piece %d is no table:\n%s", i, piece)
		}
	}
	link := "[a text of some words](https://example.org/with/a/long/path/to/a/page)"
	for i, piece := range markdown.Split(strings.Repeat(link+" and more text ", 20), 100) {
		if strings.Count(piece, "[") != strings.Count(piece, link) {
			t.Errorf("piece %d holds half a link:\n%s", i, piece)
		}
	}
	mention := "<@123456789012345678>"
	for i, piece := range markdown.Split(strings.Repeat(mention+" ", 30), 50) {
		if strings.Count(piece, "<") != strings.Count(piece, mention) {
			t.Errorf("piece %d holds half a mention:\n%s", i, piece)
		}
	}
}

// letters is what must survive any cut.
func letters(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return c
		}
		return -1
	}, s)
}

// repeated is what Split adds to a piece that goes on in code or in a table.
var repeated = regexp.MustCompile("(?m)^[ >]*(`{3,}|~{3,}).*$")

func checkSplit(t *testing.T, src string, limit int) {
	t.Helper()
	pieces := markdown.Split(src, limit)
	for _, p := range pieces {
		if n := markdown.Length(p); n > limit || n == 0 {
			t.Errorf("a piece of %d characters, limit %d, of %q", n, limit, src)
		}
	}
	if !strings.Contains(src, "|") { // a repeated head is text twice
		want := letters(repeated.ReplaceAllString(src, ""))
		if got := letters(repeated.ReplaceAllString(strings.Join(pieces, "\n"), "")); got != want {
			t.Errorf("text changed by splitting at %d\nsource %q\npieces %q", limit, src, pieces)
		}
	}
}

func corpora(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		t.Skip("RAVENBOT_CORPORA is not set")
	}
	return dir
}

// examples are the Markdown halves of the CommonMark specification's examples.
func examples(t testing.TB) []string {
	t.Helper()
	spec, err := os.ReadFile(filepath.Join(corpora(t), "text/commonmark/spec.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range regexp.MustCompile("(?s)`{32} example[^\n]*\n(.*?)\n?\\.\n.*?`{32}").FindAllStringSubmatch(string(spec), -1) {
		list = append(list, strings.ReplaceAll(m[1], "→", "\t"))
	}
	if len(list) < 600 {
		t.Fatalf("found %d examples, want some 650", len(list))
	}
	return list
}

func TestCommonMarkExamplesSurviveSplitting(t *testing.T) {
	for _, src := range examples(t) {
		checkSplit(t, src, 20)
	}
	whole := strings.Join(examples(t), "\n\n")
	checkSplit(t, strings.ReplaceAll(whole, "|", ""), 2000)
}

func TestCommonMarkExamplesKeepTheirTextOnDiscord(t *testing.T) {
	for _, src := range examples(t) {
		if strings.Contains(src, "&") || strings.Contains(src, "]:") {
			continue // entities become characters, link definitions are no text
		}
		want := letters(markdown.Plain(src))
		got := letters(markdown.Discord(src))
		for _, c := range want {
			i := strings.IndexRune(got, c)
			if i < 0 {
				t.Errorf("%q became %q, which lacks text of %q", src, markdown.Discord(src), markdown.Plain(src))
				break
			}
			got = got[i+len(string(c)):]
		}
	}
}

func TestNaughtyStringsStayInert(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(corpora(t), "text/naughty-strings/blns.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	active := regexp.MustCompile(`(?i)<(script|img|iframe|svg|object|embed|style)|<[^>]*\son\w+=|href="\s*(javascript|data|vbscript):`)
	for _, s := range list {
		if page := markdown.HTML(s); active.MatchString(page) {
			t.Errorf("%q became active HTML %q", s, page)
		}
		checkSplit(t, s, 30)
	}
}

// wide is a cell that no table in a code block has room for.
var wide = strings.Repeat("words ", 12) + "end"

func TestDiscordShowsWhatItCannot(t *testing.T) {
	cases := []struct{ src, want string }{
		{"| a | bb |\n|---|---|\n| 1 | [x](https://e.org) |", "```\na │ bb               \n──┼──────────────────\n1 │ x (https://e.org)\n```"},
		{"#### small", "**small**"},
		{"![alt](https://e.org/i.png)", "[alt](https://e.org/i.png)"},
		{"- a\n  - b\n    1. c", "- a\n  - b\n    1. c"},
		{"> quote\n> more", "> quote\n> more"},
		{"<https://e.org>", "https://e.org"},
		{"    code", "```\ncode\n```"},
		{"`` a`b ``", "`` a`b ``"},
		{"``` a``b ```", "`` a`\u200b`b ``"},
		{"```` a```b ````", "`` a`\u200b`\u200b`b ``"},
		{"~~~\n````\n~~~", "```\n`\u200b`\u200b``\n```"},
		{"a ||b|| \\*c\\*", "a ||b|| \\*c\\*"},
		{"a || b ||c **d** `||` e|| || f", "a \\|\\| b ||c **d** `||` e|| \\|\\| f"},
		{"9~10, 14~15 (~$20) ~~x~~", "9~10, 14~15 (~$20) ~~x~~"},
		{"2**3 is 8, *args and **kwargs, 5 * 3 * 2", "2\\*\\*3 is 8, \\*args and \\*\\*kwargs, 5 * 3 * 2"},
		{"_a *b* c_ **a __b__ c**", "*a b c* **a b c**"},
		{"#### a **b**", "**a b**"},
		{"my__dunder__name\n-# small\n&lt;@123&gt;", "my\\_\\_dunder\\_\\_name\n\\-# small\n\\<@123\\>"},
		{"[![b](https://e.org/b.svg)](https://e.org)", "[b](https://e.org)"},
		{"> a<br>b <kbd>Ctrl</kbd> 10<sup>6</sup> H<sub>2</sub>O x<sup>2n y</sup>",
			"> a\n> b Ctrl 10⁶ H₂O x^(2n y)"},
		{"List<String> <u>open Hi<!-- no -->there <b>x</b> <code>a*b*</code>",
			"List<String> <u>open Hithere **x** `a*b*`"},
		{"<details>\n<summary>More</summary>\n\nText\n\n</details>", "**More**\n\nText"},
		{"<div>\n    <p>a</p><p>b</p>\n</div>", "a\nb"},
		{"<table>\n<tr><td><b>a</b>\n</table>", "<table>\n<tr><td><b>a</b>\n</table>"},
		{"见https://e.org/路径。谢谢（https://e.org/a_b）和 https://e.org/c了 https://e.org/d.",
			"见<https://e.org/路径>。谢谢（<https://e.org/a_b>）和 <https://e.org/c>了 https://e.org/d."},
		{"a\u202eb `c\u202e`", "ab `c\u202e`"},
		{"| n | c |\n|:-:|---:|\n| `\\d\\.` `&lt;` | 製品 |\n| \\* &lt; | a<br>b🎉 |",
			"```\n    n     │       c\n──────────┼────────\n\\d\\. &lt; │    製品\n   * <    │ a / b🎉\n```"},
		{"| Name | Notes | |\n|---|---|---|\n| `a` | " + wide + " | x |\n| | b | |",
			"*Name*\n**`a`** – Notes: " + wide + "; x\n\nNotes: b"},
	}
	for _, c := range cases {
		if got := markdown.Discord(c.src); got != strings.ReplaceAll(c.want, "bb               \n", "bb\n") {
			t.Errorf("Discord(%q)\n got %q\nwant %q", c.src, got, c.want)
		}
	}
}

func TestSlackPingsNobody(t *testing.T) {
	got := markdown.Slack("<!channel> <@U123> <!subteam^S1> @here and me@hereford.org `<!everyone>`")
	for _, form := range []string{"<!", "<@", "@here "} {
		if strings.Contains(got, form) {
			t.Errorf("%q still holds %q", got, form)
		}
	}
	for _, src := range []string{"<!DOCTYPE html> <!-- a", "<#list items as x>", "<@macro.name/>", `"@channel/pkg"`,
		"bob@here.example", "ops@everyone.example", "&x=@here", "<@user>", "<#C>"} {
		if got := markdown.Slack("`" + src + "`"); got != "`"+src+"`" {
			t.Errorf("%q became %q", src, got)
		}
	}
	if got, want := markdown.Slack("@here @everyone, <!date^1^{date}|x> <#C12>"),
		"@\u200bhere @\u200beveryone, <\u200b!date^1^{date}|x> <\u200b#C12>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if letters(got) != letters("<!channel> <@U123> <!subteam^S1> @here and me@hereford.org `<!everyone>`") {
		t.Errorf("text was lost: %q", got)
	}
}

func FuzzSplit(f *testing.F) {
	f.Add("a ```\ncode\n``` | b |\n|-|\n| c |", 20)
	f.Fuzz(func(t *testing.T, src string, limit int) {
		if limit < 10 || limit > 4000 || len(src) > 1<<16 {
			t.Skip()
		}
		for _, p := range markdown.Split(src, limit) {
			if n := markdown.Length(p); n > limit {
				t.Errorf("a piece of %d characters, limit %d", n, limit)
			}
		}
	})
}

// CommonMark shows the marks, or makes the words between two bold ones bold.
func TestBoldAtCJKPunctuation(t *testing.T) {
	cases := []struct{ src, page, slack string }{
		{"**注意：**本文です。これは**「重要」**…",
			"<p><strong>注意：</strong>本文です。これは<strong>「重要」</strong>…</p>\n",
			"**注意：\u200b**本文です。これは**\u200b「重要」**…"},
		{"**`config`**を編集", "<p><strong><code>config</code></strong>を編集</p>\n", "**`config`\u200b**を編集"},
		{"~~중요(important)~~는", "<p><del>중요(important)</del>는</p>\n", "~~중요(important)\u200b~~는"},
		{"a * b * c ** d **, 2 * 3", "<p>a * b * c ** d **, 2 * 3</p>\n", "a * b * c ** d **, 2 * 3"},
	}
	for _, c := range cases {
		if got := markdown.HTML(c.src); got != c.page {
			t.Errorf("page of %q\n got %q\nwant %q", c.src, got, c.page)
		}
		if got := markdown.Slack(c.src); got != c.slack {
			t.Errorf("Slack's text of %q\n got %q\nwant %q", c.src, got, c.slack)
		}
	}
}

func TestHTMLShowsWhatModelsWrite(t *testing.T) {
	cases := []struct{ src, want string }{
		{"9~10, 14~15 ~~x~~", "<p>9~10, 14~15 <del>x</del></p>\n"},
		{"[![b](https://e.org/b.svg)](https://e.org)", "<p><a href=\"https://e.org\">b</a></p>\n"},
		{"a<br>b <u>c</u> <String>", "<p>a<br>b c &lt;String&gt;</p>\n"},
		{"| a |\n|---|\n| b<br/>c |", "<table>\n<thead>\n<tr>\n<th>a</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n" +
			"<td>b<br>c</td>\n</tr>\n</tbody>\n</table>\n"},
	}
	for _, c := range cases {
		if got := markdown.HTML(c.src); got != c.want {
			t.Errorf("HTML(%q)\n got %q\nwant %q", c.src, got, c.want)
		}
	}
	if got, want := markdown.Plain("9~10 &lt; a<br>b `\\*`"), "9~10 < a b `\\*`"; got != strings.ReplaceAll(want, "`", "") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSlackText_IsReadableWithoutBlocks(t *testing.T) {
	for src, want := range map[string]string{
		"# News\n\n**Bold** and ***both***, ~~gone~~":    "News\n\n*Bold* and *both*, ~gone~",
		"see [the page](https://a.example/x_y?a=1&b=2).": "see the page (https://a.example/x_y?a=1&b=2).",
		"[https://a.example](https://a.example)":         "https://a.example",
		"![chart](https://a.example/c.png)":              "chart (https://a.example/c.png)",
		"`**kwargs` and ```\n# [x](y) **z**\n```":        "`**kwargs` and ```\n# [x](y) **z**\n```",
		"1986\\. A \\*\\*great\\*\\* year":               "1986. A **great** year",
		"2 ** 3 is 8":                                    "2 ** 3 is 8",
	} {
		if got := markdown.SlackText(markdown.Slack(src)); got != want {
			t.Errorf("%q: %q, want %q", src, got, want)
		}
	}
}
