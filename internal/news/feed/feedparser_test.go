package feed

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"
)

// expectation is one file of the feedparser corpus. Its Expect is a Python
// expression over that parser's result; those of the form
// "path == literal [and …]" are read here for the fields that exist here.
type expectation struct {
	File    string            `json:"file"`
	Expect  string            `json:"expect"`
	Headers map[string]string `json:"headers"`
}

func (e expectation) hint() Hint {
	if !strings.Contains(e.File, "http") {
		return Hint{}
	}
	h := http.Header{"Content-Type": {"text/xml"}}
	for key, value := range e.Headers {
		h.Set(key, value)
	}
	return newHint("http://127.0.0.1:8097/tests/"+e.File, h)
}

func TestFeedparserCorpus(t *testing.T) {
	folder := corpora(t, "feeds/feedparser")
	files := untar(t, filepath.Join(folder, "feeds.tar.gz"))
	parsed, failed, total := map[string]int{}, map[string][]string{}, map[string]int{}
	agree, asserted := map[string]int{}, map[string]int{}
	var sumAgree, sumAsserted int
	eachLine(t, filepath.Join(folder, "expectations.jsonl"), func(e expectation) {
		set := strings.SplitN(e.File, "/", 2)[0]
		total[set]++
		start := time.Now()
		doc, err := Parse(files[e.File], e.hint())
		if took := time.Since(start); took > Patience*time.Second {
			t.Errorf("%s took %s", e.File, took)
		}
		if err != nil {
			failed[set] = append(failed[set], e.File+": "+err.Error())
		} else {
			parsed[set]++
			checkDocument(t, e.File, doc)
		}
		if strings.Contains(e.File, "/sanitize/") {
			return
		}
		group := filepath.Dir(e.File)
		for _, a := range assertions(e.Expect) {
			got, known := lookup(doc, a.path)
			if !known {
				continue
			}
			asserted[group]++
			sumAsserted++
			if err == nil && same(got, a.want) {
				agree[group]++
				sumAgree++
			} else {
				t.Logf("%s: %s is %q, want %q (%v)", e.File, a.path, got, a.want, err)
			}
		}
	})
	for _, group := range sortedKeys(asserted) {
		t.Logf("fields, %-26s %4d of %4d", group, agree[group], asserted[group])
	}
	t.Logf("fields, all %d of %d", sumAgree, sumAsserted)
	if sumAgree < 696 {
		t.Errorf("%d of %d fields agree, want at least 696", sumAgree, sumAsserted)
	}
	for _, set := range sortedKeys(total) {
		t.Logf("parsed, %-10s %d of %d", set, parsed[set], total[set])
		for _, line := range failed[set] {
			t.Logf("  %.160s", line)
		}
	}
	// Of "wellformed" 15 files are of the Channel Definition Format of 1997, which nobody publishes any more.
	for set, floor := range map[string]int{"wellformed": 1734, "illformed": 18, "encoding": 82, "entities": 256} {
		if parsed[set] < floor {
			t.Errorf("%s: %d of %d parsed, want at least %d", set, parsed[set], total[set], floor)
		}
	}
}

func sortedKeys(m map[string]int) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

type assertion struct{ path, want string }

var (
	clause  = regexp.MustCompile(`(?s)((?:feed|entries)[\w.\[\]']*)\s*==\s*(u?'(?:[^'\\]|\\.)*'|u?"(?:[^"\\]|\\.)*"|\([\d, ]+\))`)
	keyed   = regexp.MustCompile(`\['(\w+)'\]`)
	escaped = regexp.MustCompile(`\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)`)
)

// assertions are the clauses of an expression that compare a path with a string
// or a date; a date comes as RFC 3339.
func assertions(expr string) (list []assertion) {
	for _, m := range clause.FindAllStringSubmatch(expr, -1) {
		list = append(list, assertion{keyed.ReplaceAllString(m[1], ".$1"), literal(m[2])})
	}
	return list
}

func literal(text string) string {
	if strings.HasPrefix(text, "(") {
		var n [9]int
		for i, part := range strings.Split(strings.Trim(text, "()"), ",") {
			n[min(i, 8)], _ = strconv.Atoi(strings.TrimSpace(part))
		}
		return time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], 0, time.UTC).Format(time.RFC3339)
	}
	text = strings.TrimPrefix(text, "u")
	return escaped.ReplaceAllStringFunc(text[1:len(text)-1], func(e string) string {
		switch e[1] {
		case 'x', 'u':
			n, _ := strconv.ParseUint(e[2:], 16, 32)
			return string(rune(n))
		case 'n':
			return "\n"
		case 't':
			return "\t"
		case 'r':
			return "\r"
		}
		return e[1:]
	})
}

// lookup finds what this package has at a path of feedparser's result; false
// where it keeps no such field.
func lookup(doc Document, path string) (string, bool) {
	if name, ok := strings.CutPrefix(path, "feed."); ok {
		f := doc.Feed
		return fieldOf(name, Item{Title: f.Title, Link: f.Link, Summary: f.Description, Author: f.Author,
			Published: f.Published,
			Updated:   f.Updated, Categories: f.Categories}, map[string]string{
			"description": f.Description, "subtitle": f.Description, "tagline": f.Description, "language": f.Language,
			"copyright": f.Copyright, "rights": f.Copyright, "image.href": f.Image})
	}
	rest, ok := strings.CutPrefix(path, "entries[")
	index, name, found := strings.Cut(rest, "].")
	n, err := strconv.Atoi(index)
	if !ok || !found || err != nil || n < 0 {
		return "", false
	}
	item := Item{}
	if n < len(doc.Items) {
		item = doc.Items[n]
	}
	return fieldOf(name, item, map[string]string{"id": item.ID, "guid": item.ID, "description": item.Summary,
		"content[0].value": item.Content})
}

var indexed = regexp.MustCompile(`^(\w+)\[(\d+)\]\.(\w+)$`)

func fieldOf(name string, item Item, more map[string]string) (string, bool) {
	name = strings.TrimSuffix(strings.Replace(name, "_detail.value", "", 1), "_parsed")
	if value, ok := more[name]; ok {
		return value, true
	}
	author, email, _ := strings.Cut(strings.TrimSuffix(item.Author, ")"), " (")
	if email == "" && strings.Contains(author, "@") {
		email = author
	}
	switch name {
	case "title":
		return item.Title, true
	case "link":
		return item.Link, true
	case "summary":
		return item.Summary, true
	case "author":
		return item.Author, true
	case "author_detail.name":
		return author, true
	case "author_detail.email":
		return email, true
	case "category":
		return at(item.Categories, 0), true
	case "published", "issued":
		return stamp(item.Published), true
	case "updated", "modified", "date":
		return stamp(item.Updated), true
	}
	m := indexed.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	n, _ := strconv.Atoi(m[2])
	switch {
	case m[1] == "tags" && m[3] == "term":
		return at(item.Categories, n), true
	case m[1] == "enclosures" && n < len(item.Enclosures):
		e := item.Enclosures[n]
		value, known := map[string]string{"href": e.URL, "url": e.URL, "type": e.Type, "length": fmt.Sprint(e.Length)}[m[3]]
		return value, known
	}
	return "", false
}

func at(list []string, n int) string {
	if n < len(list) {
		return list[n]
	}
	return ""
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// same compares a field with what feedparser has there: dates as instants.
func same(got, want string) bool {
	if got == want || strings.TrimSpace(got) == strings.TrimSpace(want) {
		return true
	}
	a, errA := time.Parse(time.RFC3339, got)
	b := parseDate(want)
	return errA == nil && !b.IsZero() && a.Equal(b)
}
