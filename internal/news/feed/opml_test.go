package feed

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReadOPML(t *testing.T) {
	const list = "\n<?xml version='1.0' encoding='ISO-8859-1'?>" + `<!DOCTYPE opml [<!ENTITY x "y">]>
		<OPML version="1.0"><head><title>Mine</title></head><body>
		<outline text="News"><outline TEXT="Caf` + "\xe9" +
		` &amp; Bar" xmlURL=" https://a.example/feed " HTMLURL="https://a.example/"/>
			<outline title="Deep"><outline type="rss" xmlUrl="http://b.example/atom.xml/"></outline></outline>
			<outline text="&lt;b&gt;Bold&lt;/b&gt; &x;" url="https://c.example/rss" htmlUrl="javascript:alert(1)"/></outline>
		<outline text="no address"/><outline text="bad" xmlUrl="javascript:alert(1)"/>
		<outline text="Last" xmlUrl="https://d.example/f"/>`
	want := []Outline{
		{Title: "Café & Bar", URL: "https://a.example/feed", Page: "https://a.example/", Folder: []string{"News"}},
		{Title: "b.example/atom.xml", URL: "http://b.example/atom.xml/", Folder: []string{"News", "Deep"}},
		{Title: "Bold &x;", URL: "https://c.example/rss", Folder: []string{"News"}},
		{Title: "Last", URL: "https://d.example/f"},
	}
	for _, end := range []string{"</body></OPML>", ""} { // a file that was cut off is read as far as it goes
		got, err := ReadOPML(strings.NewReader(list + end))
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("outlines (-want +got):\n%s%v", diff, err)
		}
	}
}

func TestReadOPMLRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "no element",
		"nonsense":                              "no element",
		"<rss><channel/>":                       "its root element is <rss>",
		"<html><body></p>":                      "its root element is <html>",
		"{\"items\": []}":                       "no element",
		"<opml" + strings.Repeat(" ", maxBytes): "larger than",
		"<opml>" + strings.Repeat("<outline xmlUrl='http://a'/>", maxOutlines+1): "more than 50000 feeds",
	} {
		if _, err := ReadOPML(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: error %v, want %q", text, err, want)
		}
	}
	if _, err := ReadOPML(iotest.ErrReader(fmt.Errorf("disk on fire"))); err == nil ||
		!strings.Contains(err.Error(), "disk on fire") {
		t.Errorf("a reader that fails: %v", err)
	}
}

func TestOPMLIsHarmless(t *testing.T) {
	laughs := `<!DOCTYPE lolz [<!ENTITY lol "lol">`
	for i := 1; i < 10; i++ {
		laughs += fmt.Sprintf(`<!ENTITY lol%d "%s">`, i, strings.Repeat(fmt.Sprintf("&lol%d;", i-1), 10))
	}
	for name, text := range map[string]string{
		"entities": laughs + `]><opml><body><outline text="&lol9;" xmlUrl="https://a.example/"/></body></opml>`,
		"depth":    "<opml>" + strings.Repeat("<outline text='x'>", 400_000) + "<outline xmlUrl='https://a.example/'/>",
	} {
		start := time.Now()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list, err := ReadOPML(strings.NewReader(text))
		runtime.ReadMemStats(&after)
		if err != nil || len(list) != 1 || len(list[0].Title) > 100 || len(list[0].Folder) > maxFolders {
			t.Errorf("%s: %d outlines, %v", name, len(list), err)
		}
		if took := time.Since(start); took > 3*Patience*time.Second || after.TotalAlloc-before.TotalAlloc > 1<<30 {
			t.Errorf("%s: took %s and %d MB", name, took, (after.TotalAlloc-before.TotalAlloc)>>20)
		}
	}
}

func TestOPMLRoundTrip(t *testing.T) {
	var list []Outline
	for n := range 10_000 {
		o := Outline{Title: fmt.Sprintf("Feed %d <&\"'> ñ", n), URL: fmt.Sprintf("https://%d.example/?a=1&b=%d", n, n)}
		if n%3 > 0 {
			o.Folder = []string{"Folder & " + fmt.Sprint(n/100)}
		}
		if n%3 > 1 {
			o.Folder, o.Page = append(o.Folder, "inner"), "https://page.example/"
		}
		list = append(list, o)
	}
	var b strings.Builder
	if err := WriteOPML(&b, "Mine & yours", list); err != nil {
		t.Fatal(err)
	}
	got, err := ReadOPML(strings.NewReader(b.String()))
	if diff := cmp.Diff(list, got); err != nil || diff != "" {
		t.Errorf("after a round (-want +got):\n%s%v", diff, err)
	}
}

func FuzzReadOPML(f *testing.F) {
	f.Add([]byte(`<opml><body><outline text="a" xmlUrl="https://a.example/"><outline/></outline></body></opml>`))
	f.Add([]byte("<?xml?><OPML><outline xmlurl=HTTP://x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := ReadOPML(strings.NewReader(string(data)))
		if err != nil {
			return
		}
		var b strings.Builder
		if err := WriteOPML(&b, "", list); err != nil {
			t.Fatal(err)
		}
		again, err := ReadOPML(strings.NewReader(b.String()))
		if err != nil || len(again) != len(list) {
			t.Fatalf("%d outlines became %d: %v", len(list), len(again), err)
		}
	})
}
