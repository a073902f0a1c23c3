package web

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"html"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	xhtml "golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/store"
)

// hostile are texts that try to become active markup.
func hostile(t *testing.T) []string {
	t.Helper()
	list := []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `[x](javascript:alert(1))`, `[x](JaVaScRiPt:alert(1))`,
		`[x](data:text/html;base64,PHNjcmlwdD4=)`, `![x](https://spy.example/pixel.png)`, `<https://ok.example/?"onclick="x>`,
		`[x](/logout)`, `[x](//evil.example)`, `<javascript:alert(1)>`,
		"</pre></details><form action=//evil.example><button>", `{{.}}`, "a\r\ndata: b\n\nevent: evil\ndata: <b>",
		`<div hx-get="/logout" hx-trigger="load">`, `<div hx-swap-oob="innerHTML:#log">gone</div>`,
	}
	root := os.Getenv("RAVENBOT_CORPORA")
	if root == "" {
		t.Log("RAVENBOT_CORPORA is not set: only the few strings of this file are tried")
		return list
	}
	var naughty []string
	raw, err := os.ReadFile(filepath.Join(root, "text", "naughty-strings", "blns.json"))
	if err == nil {
		err = json.Unmarshal(raw, &naughty)
	}
	if err != nil {
		t.Fatal(err)
	}
	cases := sanitizing(t, filepath.Join(root, "feeds", "feedparser", "feeds.tar.gz"))
	if len(naughty) < 500 || len(cases) < 700 {
		t.Fatalf("only %d strings and %d cases were found", len(naughty), len(cases))
	}
	return slices.Concat(list, naughty, cases)
}

// sanitizing reads the feedparser cases that are about sanitizing.
func sanitizing(t *testing.T, path string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(h.Name, "sanitize/") || h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, html.UnescapeString(string(b)))
	}
}

// everywhere puts a text wherever foreign text can stand in a room.
func everywhere(s string) roomView {
	run := chat.ToolRun{ID: s, Name: s, State: chat.RunState(s), Args: json.RawMessage(s), Result: s, Took: time.Second}
	from := origin.Foreign(s)
	d := chat.Draft{Key: s, Origin: &from, Text: s, Footer: s, Tools: []chat.ToolRun{run}, Reply: chat.Reply{MessageID: s},
		Cards: []chat.Card{{Title: s, URL: s, Text: s, Source: s,
			Also: []chat.Link{{Title: s, URL: s}, {URL: "https://ok.example/" + s}}}}}
	return roomView{Room: "general", Rooms: []roomLink{{Room: "general", Title: s, IsCurrent: true}, {Room: "x", Title: s, IsArchived: true}}, Newest: 2, Before: 1, Query: s,
		Entries: []store.Entry{{Seq: 1, ID: s, User: &chat.User{ID: s, Name: s}, Text: s}, {Seq: 2, ID: s, Draft: &d}},
		Working: []workView{{ID: s, Text: s, Note: s, Tools: []chat.ToolRun{run}}}}
}

// elements and attributes that may stand in what is shown of foreign text.
var (
	inert = strings.Fields(`article header mark span time div details summary code pre h1 h2 h3 h4 h5 h6 p a ol ul li em strong del blockquote hr br
		table thead tbody tr th td input`)
	plain = strings.Fields(`class id datetime aria-hidden role tabindex rel target title hx-disable hx-swap-oob type ` +
		`checked disabled start open data-text value`) // data-text is what the arrow keys bring back into the field
)

// active returns what in a fragment could do more than be read.
func active(t *testing.T, fragment []byte) []string {
	t.Helper()
	context := &xhtml.Node{Type: xhtml.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := xhtml.ParseFragment(strings.NewReader(string(fragment)), context)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	var walk func(n *xhtml.Node, disabled bool)
	walk = func(n *xhtml.Node, disabled bool) {
		if n.Type == xhtml.ElementNode {
			if !slices.Contains(inert, n.Data) {
				found = append(found, "<"+n.Data+">")
			}
			for _, a := range n.Attr {
				disabled = disabled || a.Key == "hx-disable"
				switch {
				case a.Key == "href" && isWebAddress(a.Val):
				case a.Key == "hx-swap-oob" && (disabled || n.Parent != nil && n.Parent.Type == xhtml.ElementNode):
					found = append(found, "nested "+a.Key)
				case !slices.Contains(plain, a.Key):
					found = append(found, n.Data+" "+a.Key+"="+a.Val)
				}
			}
		}
		for c := range n.ChildNodes() {
			walk(c, disabled)
		}
	}
	for _, n := range nodes {
		walk(n, false)
	}
	return found
}

func TestNothingForeignBecomesActive(t *testing.T) {
	p := newPage((&Web{}).isCommand)
	// The page has active parts of its own: as many as with harmless text.
	want := active(t, render(t, p, everywhere("harmless")))
	lines := len(active(t, personLines(t, p, "harmless")))
	for _, s := range hostile(t) {
		v := everywhere(s)
		if got := active(t, render(t, p, v)); len(got) != len(want) {
			t.Errorf("the page with %q holds %q, with harmless text %q", s, got, want)
		}
		var fragments []byte
		for name, value := range map[string]any{"new-entry": v.Entries[1],
			"end-work": endingEntry{v.Entries[1], []string{"x"}}, "text": v.Working[0],
			"same-tool": placedRun{v.Working[0].Tools[0], s, 0}, "problem": s} {
			b, err := p.fragment(name, value)
			if err != nil {
				t.Fatalf("%s of %q: %v", name, s, err)
			}
			fragments = append(fragments, b...)
		}
		if found := active(t, fragments); found != nil {
			t.Errorf("fragments of %q hold %q", s, found)
		}
		// Without words there are fewer parts: nothing was said that could be shown or looked for.
		if found := active(t, personLines(t, p, s)); len(found) != lines && strings.TrimSpace(s) != "" {
			t.Errorf("what a person said, %q, holds %q", s, found)
		}
	}
}

// personLines returns what shows words of a person and may have parts that do something: their line, the forms about it
// and what a search finds of it.
func personLines(t *testing.T, p *page, s string) []byte {
	t.Helper()
	e := everywhere(s).Entries[0]
	e.Room, e.Revision, e.Files = "general", 1, []chat.File{{Name: s}}
	gone := e
	gone.Deleted = true
	var all []byte
	for _, c := range []struct {
		name string
		v    any
	}{
		{"new-entry", e}, {"same-entry", endingEntry{Entry: e}}, {"same-entry", gone},
		{"show-form", shownForm{Form: editForm(e), Action: "/chat/general/lines/1/edit", Room: "general"}},
		{"show-form", shownForm{Form: deleteForm(e), Action: "/chat/general/lines/1/delete", Room: "general"}},
		{"search-page", searchView{Query: s, Rooms: []roomLink{{Room: s, Title: s}}, Named: []roomLink{{Room: s, Title: s}}, Found: []foundLine{{Room: "general", Who: s,
			Passage: []passagePart{{s, true}, {s, false}}}}}},
	} {
		b, err := p.fragment(c.name, c.v)
		if err != nil {
			t.Fatalf("%s of %q: %v", c.name, s, err)
		}
		all = append(all, b...)
	}
	return all
}

func render(t *testing.T, p *page, v roomView) []byte {
	t.Helper()
	b, err := p.fragment("page", v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheCheckForActiveMarkupFindsIt(t *testing.T) {
	for _, s := range []string{`<script>x</script>`, `<a href="javascript:x">`, `<p onclick=x>`, `<img src=x>`,
		`<p style=x>`, `<div><p hx-swap-oob="true">`, `<p hx-get=/>`} {
		if active(t, []byte(s)) == nil {
			t.Errorf("%s passes", s)
		}
	}
}

func TestLinks(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"[a](https://a.example/?x=1&y=2 \"t\")", `<p><a href="https://a.example/?x=1&amp;y=2" target="_blank" rel="noopener noreferrer nofollow" title="t">a</a></p>`},
		{"https://a.example", `<p><a href="https://a.example" target="_blank" rel="noopener noreferrer nofollow">https://a.example</a></p>`},
		{"![b](https://a.example/b.png)", `<p><a href="https://a.example/b.png" target="_blank" rel="noopener noreferrer nofollow">b</a></p>`},
		{"[m](mailto:a@a.example)", `<p><a href="mailto:a@a.example" target="_blank" rel="noopener noreferrer nofollow">m</a></p>`},
		{"[f](ftp://a.example) [r](/logout) [j](javascript:x)", `<p><a>f</a> <a>r</a> <a>j</a></p>`},
		{"`<a href=\"ftp://x\">`", `<p><code>&lt;a href=&quot;ftp://x&quot;&gt;</code></p>`},
	} {
		if got := strings.TrimSpace(string(renderMarkdown(c.src))); got != c.want {
			t.Errorf("%s\nbecame %s\nwant   %s", c.src, got, c.want)
		}
	}
}

func TestPretty(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, c := range []struct{ src, want string }{
		{` {"a":[1]} `, "{\n  \"a\": [\n    1\n  ]\n}"},
		{"plain text", "plain text"},
		{`{"a":`, `{"a":`},
		{deep, deep},
	} {
		if got := prettyJSON(c.src); got != c.want {
			t.Errorf("pretty(%.20q) has %d bytes: %.40q", c.src, len(got), got)
		}
	}
}

func FuzzProse(f *testing.F) {
	for _, s := range []string{"[a](b)", "<a href=\"x\">", "| a |\n|:-:|\n| b |", "![x](data:image/png;base64,AA)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if found := active(t, []byte(renderMarkdown(s))); found != nil {
			t.Errorf("%q holds %q", s, found)
		}
	})
}

func TestRenderMarkdown_ShowsOnlyFilesOfRoomsAsImages(t *testing.T) {
	want := `<p><img class="own-image" src="/chat/general/files/3" alt="a &quot;chart&quot;" loading="lazy"></p>`
	if got := strings.TrimSpace(string(renderMarkdown(`![a "chart"](/chat/general/files/3)`))); got != want {
		t.Errorf("a file of a room became %s", got)
	}
	for _, address := range []string{"/chat/general/files/3/../../logout", "https://spy.example/chat/general/files/3",
		"//spy.example/chat/general/files/3", "/logout"} {
		if got := string(renderMarkdown("![x](" + address + ")")); strings.Contains(got, "<img") {
			t.Errorf("%s became %s", address, got)
		}
	}
}
