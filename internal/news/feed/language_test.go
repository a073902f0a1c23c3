package feed

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Real feeds of different publishers, as if all had been published today, tell no event in two languages.
func TestGroup_RealFeeds_NoEventIsFoundWhereThereIsNone(t *testing.T) {
	corpora := os.Getenv("RAVENBOT_CORPORA")
	if corpora == "" {
		t.Skip("RAVENBOT_CORPORA is not set")
	}
	files, err := filepath.Glob(filepath.Join(corpora, "feeds/real/*"))
	if err != nil {
		t.Fatal(err)
	}
	var entries []Entry
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := Parse(data, Hint{})
		if err != nil { // not all are feeds
			continue
		}
		for _, i := range doc.Items {
			i.Published, i.Updated = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), time.Time{}
			entries = append(entries, Entry{Item: i, Feed: doc.Feed.Title}) // some files are of one feed
		}
	}
	if len(entries) < 1000 {
		t.Fatalf("there are %d items", len(entries))
	}
	for pair, reason := range together(Group(entries)) {
		if reason == SameEvent {
			t.Errorf("%q and %q are put together", entries[pair[0]].Title, entries[pair[1]].Title)
		}
	}
}

// Names and numbers tell of an event only where the texts are in different languages, of the same days, and of
// different feeds.
func TestGroup_SameEvent(t *testing.T) {
	pairs := labelledPairs(t, "languages.txt")
	change := func(alter func(b *Entry)) Reason {
		a, b := pairs[0].a, pairs[0].b
		alter(&b)
		return together(Group([]Entry{a, b}))[[2]int{0, 1}]
	}
	for _, tc := range []struct {
		name  string
		want  Reason
		alter func(b *Entry)
	}{
		{"another language", SameEvent, func(*Entry) {}},
		{"the day after", SameEvent, func(b *Entry) { b.Published = b.Published.Add(35 * time.Hour) }},
		{"days later", "", func(b *Entry) { b.Published = b.Published.Add(48 * time.Hour) }},
		{"without a date", "", func(b *Entry) { b.Published = time.Time{} }},
		{"of the same feed", "", func(b *Entry) { b.Feed = "a" }},
		{"of a feed that is never merged", "", func(b *Entry) { b.Alone = true }},
		{"other numbers", "", func(b *Entry) {
			b.Title, b.Summary = "Sturm Ida: 7.000 Haushalte ohne Strom", "Nach dem Sturm Ida sind laut Enedis in Nantes "+
				"7.000 Haushalte ohne Strom."
		}},
		{"the same language", "", func(b *Entry) {
			b.Title = "Enedis hires 142 people for Brest"
			b.Summary = "Storm season has cut off electricity to many homes in winter, said Enedis in Brest on Monday. It " +
				"will hire 142 people in Brittany, 80 of them at sea."
		}},
	} {
		if got := change(tc.alter); got != tc.want {
			t.Errorf("%s: put together for the reason %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestPlainNumber(t *testing.T) {
	for word, want := range map[string]string{
		"80,000": "80000", "80.000": "80000", "1.234.567": "1234567", "3.2": "3.2", "3,2": "3.2", "9.8": "9.8",
		"2:03:17": "2:03:17",
		"142":     "142", "5G": "5g", "12,4": "12.4", "7.4.1": "7.4.1",
	} {
		if got := plainNumber(word); got != want {
			t.Errorf("%s is read as %s, want %s", word, got, want)
		}
	}
}
