package page_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"ravenbot/internal/recall/page"
)

// savedPage is a page of the collection, with what a reader is meant to see of it.
type savedPage struct {
	source, expected []byte
	metadata         struct{ Title, Byline, PublishedTime string }
}

// corpusAddress is the address of every page of the collection.
const corpusAddress = "http://fakehost/test/page.html"

// savedPages returns Mozilla's collection of pages by name.
func savedPages(t *testing.T) map[string]*savedPage {
	t.Helper()
	root := os.Getenv("RAVENBOT_CORPORA")
	if root == "" {
		t.Skip("needs the collection of pages; set RAVENBOT_CORPORA")
	}
	f, err := os.Open(filepath.Join(root, "html", "readability", "pages.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]*savedPage{}
	for files := tar.NewReader(unzipped); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(head.Name))
		p := pages[name]
		if p == nil {
			p = &savedPage{}
			pages[name] = p
		}
		switch filepath.Base(head.Name) {
		case "source.html":
			p.source = data
		case "expected.html":
			p.expected = data
		case "expected-metadata.json":
			if err := json.Unmarshal(data, &p.metadata); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	maps.DeleteFunc(pages, func(_ string, p *savedPage) bool { return p.source == nil })
	if len(pages) < 100 {
		t.Fatalf("the collection has %d pages", len(pages))
	}
	return pages
}

// wordsOf counts the words of a text.
func wordsOf(s string) map[string]int {
	counts := map[string]int{}
	for _, w := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		counts[w]++
	}
	return counts
}

// shownText returns what people see of Markdown or HTML: no addresses, no markup.
func shownText(t *testing.T, body []byte) string {
	t.Helper()
	doc, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return b.String()
}

// score compares two texts by their words.
func score(got, want map[string]int) (precision, recall, f1 float64) {
	both, gotAll, wantAll := 0, 0, 0
	for w, n := range got {
		both += min(n, want[w])
		gotAll += n
	}
	for _, n := range want {
		wantAll += n
	}
	if both == 0 {
		return 0, 0, 0
	}
	precision, recall = float64(both)/float64(gotAll), float64(both)/float64(wantAll)
	return precision, recall, 2 * precision * recall / (precision + recall)
}

// The collection's own extractor has .962 by this measure, the longest <article> .891.
func TestRead_OfCollectedPages_FindsTheMainContent(t *testing.T) {
	const (
		minF1    = 0.95
		minWords = 20 // pages that show less are about something else
	)
	type result struct {
		name                  string
		precision, recall, f1 float64
	}
	var results []result
	var sum, precision, recall float64
	var half, inHalf [2]float64 // F1 and number of the pages whose names have an even, and an odd, checksum
	titles, bylines, bylinesKnown, dates, datesKnown := 0, 0, 0, 0, 0
	began := time.Now()
	for name, p := range savedPages(t) {
		want := wordsOf(shownText(t, p.expected))
		if len(want) < minWords {
			continue
		}
		got := page.Read(p.source, "text/html; charset=utf-8", corpusAddress)
		r := result{name: name}
		r.precision, r.recall, r.f1 = score(wordsOf(plainOf(got.Text)), want)
		results = append(results, r)
		h := crc32.ChecksumIEEE([]byte(name)) % 2
		half[h], inHalf[h] = half[h]+r.f1, inHalf[h]+1
		sum, precision, recall = sum+r.f1, precision+r.precision, recall+r.recall
		if got.Title == strings.Join(strings.Fields(p.metadata.Title), " ") {
			titles++
		}
		if p.metadata.Byline != "" {
			bylinesKnown++
			if strings.Contains(got.Byline, strings.Join(strings.Fields(p.metadata.Byline), " ")) {
				bylines++
			}
		}
		if p.metadata.PublishedTime != "" {
			datesKnown++
			if got.Published != "" {
				dates++
			}
		}
	}
	slices.SortFunc(results, func(a, b result) int { return cmp.Compare(a.f1, b.f1) })
	n := float64(len(results))
	table := fmt.Sprintf("%d pages in %v\nF1 %.3f  precision %.3f  recall %.3f  halves %.3f and %.3f\ntitles %d  authors %d of %d  dates %d "+
		"of %d\nworst:\n",
		len(results), time.Since(began).Round(time.Millisecond), sum/n, precision/n, recall/n, half[0]/inHalf[0], half[1]/inHalf[1],
		titles, bylines, bylinesKnown, dates, datesKnown)
	for _, r := range results[:10] {
		table += fmt.Sprintf("  %-28s F1 %.2f  precision %.2f  recall %.2f\n", r.name, r.f1, r.precision, r.recall)
	}
	t.Log("\n" + table)
	if sum/n < minF1 {
		t.Errorf("word F1 is %.3f, want %.2f", sum/n, minF1)
	}
}
