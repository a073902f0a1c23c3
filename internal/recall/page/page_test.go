package page_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/recall/page"
)

var linkTarget = regexp.MustCompile(`\]\([^)]*\)`)

// plainOf returns Markdown without the addresses of its links.
func plainOf(md string) string { return linkTarget.ReplaceAllString(md, "] ") }

func TestRead_Links_AreResolvedAsInBrowsers(t *testing.T) {
	const at = "https://example.org/docs/guide/page.html"
	for name, c := range map[string]struct{ base, href, want string }{
		"beside the page":              {href: "install.html", want: "https://example.org/docs/guide/install.html"},
		"above it":                     {href: "../api/index.html", want: "https://example.org/docs/api/index.html"},
		"a place on the page":          {href: "#faq", want: "https://example.org/docs/guide/page.html#faq"},
		"another part of the page":     {href: "?page=2", want: "https://example.org/docs/guide/page.html?page=2"},
		"from the root":                {href: "/about", want: "https://example.org/about"},
		"without scheme":               {href: "//cdn.example.net/a b", want: "https://cdn.example.net/a%20b"},
		"absolute":                     {href: "http://other.example/x", want: "http://other.example/x"},
		"an absolute base":             {base: "https://base.example/v2/", href: "x.html", want: "https://base.example/v2/x.html"},
		"a relative base":              {base: "../v3/", href: "x.html", want: "https://example.org/docs/v3/x.html"},
		"a base that is no address":    {base: "javascript:alert(1)", href: "x.html", want: "https://example.org/docs/guide/x.html"},
		"a script":                     {href: "JavaScript:alert(1)", want: ""},
		"a page of data":               {href: "data:text/html,x", want: ""},
		"what cannot be an address":    {href: "http://[::1", want: ""},
		"white space around a link":    {href: "\n next.html ", want: "https://example.org/docs/guide/next.html"},
		"a mail address stays as such": {href: "mailto:a@example.org", want: "mailto:a@example.org"},
	} {
		t.Run(name, func(t *testing.T) {
			src := fmt.Sprintf(`<html><head><base href="%s"></head><body><p>See <a href="%s">this</a>.</p></body></html>`,
				c.base, c.href)
			if c.base == "" {
				src = strings.Replace(src, `<base href="">`, "", 1)
			}
			got := page.Read([]byte(src), "text/html", at)
			want, links := "See [this]("+c.want+").", []string{c.want}
			if c.want == "" {
				want, links = "See this.", []string{}
			}
			plain := strings.NewReplacer("[this]()", "this").Replace(got.Text)
			if plain != want || !slices.Equal(got.Links, links) {
				t.Errorf("the text is %q with links %q, want %q", got.Text, got.Links, want)
			}
		})
	}
}

func TestRead_ABaseWithoutAddress_ResolvesLinks(t *testing.T) {
	got := page.Read([]byte(`<base href="https://example.org/a/"><p>See <a href="b">b</a> and <a href="c">c</a>.`),
		"text/html", "")
	if got.Text != "See [b](https://example.org/a/b) and [c](https://example.org/a/c)." {
		t.Errorf("the text is %q", got.Text)
	}
	if got := page.Read([]byte(`<p>See <a href="b">b</a>.`), "text/html", ""); got.Text != "See [b](b)." {
		t.Errorf("without any address the text is %q", got.Text)
	}
}

// lorem returns n sentences that differ.
func lorem(about string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "Sentence %d on %s says what it is good for, and when one should rather do without it. ", i, about)
	}
	return b.String()
}

func TestRead_KeepsStructure(t *testing.T) {
	src := `<html lang="en-GB"><head><title>Install - Docs</title><meta name="author" content="Ada L.">
<meta property="article:published_time" content="2026-03-04T05:06:07Z"></head><body><nav><a href="/">Home</a></nav><main><article>
<h1>Install</h1><p>` + lorem("installing", 6) + `</p>
<ul><li>first</li><li>second<ul><li>inner</li></ul></li></ul><ol><li>one</li><li>two</li></ol>
<table><tr><th>key</th><th>value</th></tr><tr><td>port</td><td>8080</td></tr><tr><td>path</td><td>a<br>b</td></tr></table>
<pre><code class="hljs language-go">func main() {
	x := a[0] * b_c
}</code></pre>
<div class="highlight-python notranslate"><div class="highlight"><pre><span></span>print("x")</pre></div></div>
<pre class="brush: js">let y</pre>
<p>` + lorem("removing", 6) + `</p></article></main><footer>Imprint</footer></body></html>`
	got := page.Read([]byte(src), "text/html", "https://example.org/install")
	for _, want := range []string{"- first\n", "  - inner", "1. one\n2. two", "| key | value |\n", "| port | 8080 |",
		"| path | a  <br />b |",
		"```go\nfunc main() {\n\tx := a[0] * b_c\n}\n```", "```python\nprint(\"x\")\n```", "```js\nlet y\n```",
		"Sentence 5 on removing"} {
		if !strings.Contains(got.Text, want) {
			t.Errorf("the text lacks %q:\n%s", want, got.Text)
		}
	}
	if strings.Contains(got.Text, "Imprint") || strings.Contains(got.Text, "Home") {
		t.Errorf("the text holds menus:\n%s", got.Text)
	}
	if got.Language != "en-GB" || got.Byline != "Ada L." || got.Published != "2026-03-04T05:06:07Z" ||
		!strings.HasPrefix(got.Title, "Install") {
		t.Errorf("the page is said to be %+v", got)
	}
}

// Of pages that are no articles, a search for the article finds one part or nothing.
func TestRead_PagesThatAreNoArticles_AreReadAsAWhole(t *testing.T) {
	var listing, forum, reference, index strings.Builder
	for i := range 40 {
		fmt.Fprintf(&listing, `<tr><td>%d.</td><td><a href="/item/%d">Story number %d of the day</a> `+
			`<span>(site%d.example)</span></td></tr>`+
			`<tr><td></td><td>%d points by user%d</td></tr>`, i, i, i, i, 100-i, i)
		fmt.Fprintf(&index, `<li><a href="/p/%d">Package p%d</a></li>`, i, i)
	}
	for i := range 12 {
		fmt.Fprintf(&forum, `<div class="post" id="p%d"><div class="meta">user%d wrote</div><div class="body">%s</div></div>`,
			i, i, lorem(fmt.Sprint("reply ", i), 3))
		fmt.Fprintf(&reference, `<section id="f%d"><h3>func F%d(a, b int) error</h3><div class="doc">%s</div><pre>F%d(1, `+
			`2)</pre></section>`,
			i, i, lorem(fmt.Sprint("function ", i), 1), i)
	}
	for name, c := range map[string]struct {
		src   string
		wants []string
	}{
		"a listing in a table of layout": {"<table><tr><td><table>" + listing.String() + "</table></td></tr></table>",
			[]string{"[Story number 0 of the day](https://example.org/item/0)", "Story number 39", "61 points by user39"}},
		"an index of links": {"<h1>Packages</h1><ul>" + index.String() + "</ul>", []string{"[Package p0](https://example.org/p/0)", "p39"}},
		"a forum":           {"<nav>Menu</nav>" + forum.String(), []string{"user0 wrote", "on reply 0", "user11 wrote", "on reply 11"}},
		"a reference":       {"<main>" + reference.String() + "</main>", []string{"func F0(a, b int)", "F11(1, 2)", "on function 11"}},
		"one sentence":      {"<p>Come back tomorrow.</p>", []string{"Come back tomorrow."}},
		"one sentence and an empty article": {"<article><p></p></article><div>Come back tomorrow.</div>",
			[]string{"Come back tomorrow."}},
	} {
		t.Run(name, func(t *testing.T) {
			got := page.Read([]byte("<html><head><title>T</title></head><body>"+c.src+"</body></html>"), "text/html",
				"https://example.org/")
			for _, want := range c.wants {
				if !strings.Contains(got.Text, want) {
					t.Errorf("the text lacks %q:\n%s", want, got.Text)
				}
			}
			if got.Title != "T" {
				t.Errorf("the title is %q", got.Title)
			}
		})
	}
}

// Hidden text is how pages talk to models behind the back of their readers.
func TestRead_HiddenText_IsLeftOut(t *testing.T) {
	for _, hidden := range []string{`<p style="display: none">EVIL</p>`, `<p style="visibility : hidden">EVIL</p>`,
		`<p hidden>EVIL</p>`,
		`<div aria-hidden="true">EVIL</div>`, `<!-- EVIL -->`, `<template>EVIL</template>`, `<noscript>EVIL</noscript>`,
		`<script>EVIL</script>`, `<style>EVIL</style>`, `<dialog>EVIL</dialog>`,
		`<img src="x" style="display:none" alt="EVIL">`,
		strings.Repeat("<div>", 420) + "EVIL"} {
		for kind, around := range map[string]string{"article": "<article>" + lorem("ravens", 10) + "%s</article>",
			"short": "<p>Short.</p>%s"} {
			got := page.Read([]byte("<body>"+fmt.Sprintf(around, hidden)+"</body>"), "text/html", "https://example.org/")
			if strings.Contains(got.Text, "EVIL") || !strings.Contains(got.Text, "Short.") &&
				!strings.Contains(got.Text, "ravens") {
				t.Errorf("%s in a page that is %s: %.200q", hidden[:min(len(hidden), 60)], kind, got.Text)
			}
		}
	}
}

// Tables and lists that consist of links are what such a page is read for, and no menu.
func TestRead_TablesOfLinks_AreKept(t *testing.T) {
	const menu = `<nav><table><tr><td><a href="/m1">Menu</a></td></tr><tr><td><a href="/m2">More</a></td></tr></table></nav>`
	row := func(cells ...string) string {
		return "<tr><td>" + strings.Join(cells, "</td><td>") + "</td></tr>"
	}
	links := row(`<a href="/a">Alpha</a>`, `<a href="/b">Beta</a>`) + row(`<a href="/c">Gamma</a>`, `<a href="/d">Delta</a>`)
	const sources = "| [Alpha](https://example.org/a) | [Beta](https://example.org/b) |"
	for name, c := range map[string]struct{ body, want string }{
		"an appendix": {"<article>" + lorem("ravens", 10) + "<h2>Sources</h2><div class=wrap><table>" + links + "</table></div>" +
			lorem("crows", 3) + "</article>", sources},
		"a list of releases": {"<main><p>Download the archive that fits your system, and unpack it.</p><div><div><table class=downloadtable>" +
			"<thead><tr><th>File</th><th>Kind</th></tr></thead>" + row(`<a href="/1.tar.gz">1.tar.gz</a>`, "Archive") +
			row(`<a href="/2.tar.gz">2.tar.gz</a>`, "Archive") + "</table></div></div></main>",
			"| File | Kind |\n|---|---|\n| [1.tar.gz](https://example.org/1.tar.gz) | Archive |"},
		"an index of headlines": {"<center><table><tr><td><a href=/new>new</a></td></tr><tr><td><table>" +
			strings.Repeat(row("1.", `<a href="/vote"><div></div></a>`, `<a href="/story">A raven was seen at the harbour</a>`)+
				row("", "", `7 points, <a href="/item">3 comments</a>`), 20) + "</table></td></tr></table></center>",
			"| 1. |  | [A raven was seen at the harbour](https://example.org/story) |"},
		"a folder": {"<h1>Index of /</h1><hr><pre><a href='../'>../</a>\n<a href='1.0/'>1.0/</a>    1-Oct-2026\n<a href='1.1/'>1.1/</a>" +
			"    2-Nov-2026\n</pre>", "[1.1/](https://example.org/1.1/) 2-Nov-2026"},
		"code with links": {"<article>" + lorem("ravens", 10) + "<pre>x := <a href='/f'>f</a>()\ny := <a href='/g'>g</a>()</pre></article>",
			"x := f()\ny := g()"},
	} {
		got := page.Read([]byte("<body>"+menu+c.body+"</body>"), "text/html", "https://example.org/").Text
		if !strings.Contains(got, c.want) || strings.Contains(got, "stands for") || name != "an index of headlines" && strings.Contains(got, "Menu") {
			t.Errorf("%s lacks %q: %s", name, c.want, got)
		}
	}
	// A page that has the words which stand for its table while it is read gets it once.
	marks := strings.Repeat("<p>This paragraph stands for a table, which is table 0.</p>", 1000)
	got := page.Read([]byte("<article>"+lorem("ravens", 10)+"<table>"+links+"</table>"+marks+"</article>"), "text/html", "https://example.org/")
	if n := strings.Count(got.Text, sources); n != 1 {
		t.Errorf("the table is there %d times", n)
	}
}

// Each of these took minutes or all memory in one of the libraries, or is of the kind that might.
func TestRead_HostilePages_EndInTime(t *testing.T) {
	// On an idle machine each takes a second at most. Where the time was the square of the size it was 8 minutes.
	const limit = time.Minute
	repeat := strings.Repeat
	for name, src := range map[string]string{
		"brackets":         "<p>" + repeat("*_[", 1<<20),
		"deep blocks":      repeat("<div>", 1<<19),
		"deep tables":      repeat("<table><tr><td>some words, and more of them", 100),
		"wide spans":       "<table><tr>" + repeat("<td colspan=1000 rowspan=1000>x", 20_000) + "</table>",
		"a span too large": "<table><tr><td colspan=99999999999999999999>x</table>",
		"many paragraphs":  repeat("<p>words, words and words.", 50_000),
		"deep and wide":    repeat(repeat("<div><p>some text, with commas, and words</p>", 150)+repeat("</div>", 150), 30),
		"unclosed links":   repeat("<a href=x>y ", 20_000),
		"data":             `<script type="application/ld+json">` + repeat("[", 1<<20) + "</script><p>x",
	} {
		began := time.Now()
		page.Read([]byte(src), "text/html; charset=utf-8", "https://example.org/")
		if took := time.Since(began); took > limit {
			t.Errorf("%s: %d bytes took %v", name, len(src), took)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("<article><article><p hidden>"), "", "https://example.org/")
	f.Add([]byte("<base href=x><table><td colspan=9><table><pre class='brush: '>"), "text/html", "")
	f.Fuzz(func(t *testing.T, body []byte, kind, address string) {
		if len(body) > 1<<16 {
			t.Skip()
		}
		page.Read(body, kind, address)
	})
}
