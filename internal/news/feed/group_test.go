package feed

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// labelled is a pair of items of two feeds.
type labelled struct {
	same bool
	a, b Entry
}

func labelledPairs(t testing.TB, file string) (pairs []labelled) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	for n, three := range slices.Collect(slices.Chunk(lines, 3)) {
		entry := func(feed, line string) Entry {
			title, text, ok := strings.Cut(line, " | ")
			if !ok {
				t.Fatalf("pair %d: no text in %q", n, line)
			}
			link := fmt.Sprintf("https://%s.example/%d", feed, n)
			return Entry{Feed: feed, Item: Item{ID: link, Link: link, Title: title, Summary: text,
				Published: time.Date(2026, 3, 2, n%24, 0, 0, 0, time.UTC)}}
		}
		pairs = append(pairs, labelled{three[0] == "+", entry("a", three[1]), entry("b", three[2])})
	}
	return pairs
}

// TestGroupQuality has all items of the labelled pairs in one heap: every two that
// come together must be a pair of one story. The thresholds were chosen by pairs.txt;
// unseen.txt was written afterwards.
func TestGroupQuality(t *testing.T) {
	for file, floor := range map[string][2]float64{"pairs.txt": {0.96, 0.95}, "unseen.txt": {0.9, 0.8},
		"languages.txt": {1, 0.9}, "languages-unseen.txt": {1, 0.7}} {
		pairs := labelledPairs(t, file)
		var entries []Entry
		right, wrong, positive := 0, 0, 0
		for _, p := range pairs {
			entries = append(entries, p.a, p.b)
			if p.same {
				positive++
			}
		}
		for pair, reason := range together(Group(entries)) {
			if a, b := pair[0], pair[1]; a/2 == b/2 && pairs[a/2].same {
				right++
			} else {
				wrong++
				t.Logf("%s: put together (%s): %q and %q", file, reason, entries[a].Title, entries[b].Title)
			}
		}
		precision, recall := float64(right)/float64(right+wrong), float64(right)/float64(positive)
		t.Logf("%s: %d pairs, %d of one story: precision %.3f, recall %.3f", file, len(pairs), positive, precision, recall)
		if len(pairs) < 16 || precision < floor[0] || recall < floor[1] {
			t.Errorf("%s: precision %.3f and recall %.3f over %d pairs", file, precision, recall, len(pairs))
		}
	}
}

// together is every two entries that are in one group.
func together(groups [][]Member) map[[2]int]Reason {
	pairs := map[[2]int]Reason{}
	for _, group := range groups {
		for i, a := range group {
			for _, b := range group[i+1:] {
				pairs[[2]int{a.Index, b.Index}] = b.Reason
			}
		}
	}
	return pairs
}

// day returns the morning of a day.
func day(n int) time.Time { return time.Date(2026, 3, n, 8, 0, 0, 0, time.UTC) }

// item returns an entry of a feed.
func item(feed, link, title, text string, at time.Time) Entry {
	return Entry{Feed: feed, Item: Item{ID: feed + link + title, Link: link, Title: title, Summary: text, Published: at}}
}

const bridgeText = "The city council voted on Tuesday to close the old harbour bridge for two years of repairs. " +
	"Traffic across the harbour will be led over the northern ring road from the first of March, and ferries will run " +
	"every ten minutes."

func TestGroupReasons(t *testing.T) {
	alone := item("c", "https://a.example/bridge", "Old harbour bridge closes for two years", bridgeText, day(2))
	alone.Alone = true
	for _, tc := range []struct {
		name string
		a, b Entry
		want Reason
	}{
		{"one page under two addresses", item("a", "https://a.example/bridge?utm_source=rss", "Bridge", "", day(2)), item("b", "http://a.example/bridge/", "Brücke", "", day(20)), SameLink},
		{"the front page", item("a", "https://a.example/", "Bridge", "", day(2)), item("a", "https://a.example", "Ferry", "", day(2)), ""},
		{"two places on one page", item("a", "https://a.example/log#2", "Version two", "", day(2)), item("a", "https://a.example/log#1", "Version one", "", day(2)), ""},
		{"one title", item("a", "https://a.example/1", "Old harbour bridge closes for two years", "", day(2)), item("b", "https://b.example/1", "OLD harbour bridge closes for two years!", "", day(3)), SameTitle},
		{"one title, weeks apart", item("a", "https://a.example/1", "Old harbour bridge closes for two years", "", day(2)), item("b", "https://b.example/1", "Old harbour bridge closes for two years", "", day(12)), ""},
		{"one title of a row", item("a", "https://a.example/1", "Weekly update", "", day(2)), item("b", "https://b.example/1", "Weekly update", "", day(2)), ""},
		{"one title in one feed", item("a", "https://a.example/1", "The most important links of the day", "Ships", day(2)), item("a", "https://a.example/2", "The most important links of the day", "Trains", day(3)), ""},
		{"the words of a title turned round", item("a", "https://a.example/1", "Old harbour bridge closes for two years",
			bridgeText, day(2)),
			item("b", "https://b.example/1", "For two years, old harbour bridge closes",
				"Detours are long. "+bridgeText[:len(bridgeText)/2]+
					" Nobody likes it, says our reporter, who walked there and asked.", day(2)), SameStory},
		{"turned round, of another text", item("a", "https://a.example/1", "Dog bites the man in the old harbour",
			"The animal was caught by the police an hour later near the station.", day(2)),
			item("b", "https://b.example/1", "Man bites the dog in the old harbour",
				"He said in court that hunger had driven him to it, and was sorry.", day(2)), ""},
		{"a reprint", item("a", "https://a.example/1", "Bridge closes", bridgeText, day(2)), item("b", "https://b.example/1", "Detours ahead", "<p>"+strings.ToUpper(bridgeText)+"</p> (agency)", day(2)), Reprint},
		{"a reprint without a date", item("a", "https://a.example/1", "Bridge closes", bridgeText, day(2)), item("b", "https://b.example/1", "Detours ahead", bridgeText, time.Time{}), Reprint},
		{"one text for each version", item("a", "https://a.example/1", "Bridge 1.2.3", bridgeText, day(2)), item("b", "https://b.example/1", "Bridge 1.2.4", bridgeText, day(2)), ""},
		{"a feed that is left alone", item("a", "https://a.example/bridge", "Old harbour bridge closes for two years", bridgeText, day(2)), alone, ""},
		{"nothing to compare", item("a", "", "", "", time.Time{}), item("b", "", "", "", time.Time{}), ""},
	} {
		if got := together(Group([]Entry{tc.a, tc.b}))[[2]int{0, 1}]; got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestGroupForgetsHomePages(t *testing.T) {
	var entries []Entry
	for _, title := range []string{"Monday", "A storm", "The second storm", "Calm"} {
		entries = append(entries, Entry{Feed: "a", Item: Item{ID: title, Link: "https://a.example/status", Title: title}})
	}
	if groups := Group(entries); len(groups) != len(entries) {
		t.Errorf("%d posts with one link became %v", len(entries), groups)
	}
}

// TestGroupDoesNotChain drifts from one story to another in steps that are each
// small: neighbours may come together, the ends may not.
func TestGroupDoesNotChain(t *testing.T) {
	words := strings.Fields("harbour bridge council repairs traffic ferries detour engineers steel cables budget " +
		"contract tender delay minister lawsuit judge verdict appeal evidence witness trial prison sentence police " +
		"robbery jewels museum guard alarm")
	var entries []Entry
	for n := 0; n+8 <= len(words); n++ {
		some := words[n : n+8]
		link := fmt.Sprintf("https://%d.example/x", n)
		entries = append(entries, Entry{Feed: fmt.Sprint(n), Item: Item{ID: link, Link: link,
			Title: strings.Join(some[n%3:n%3+4], " "), Summary: strings.Join(some, " ")}})
	}
	groups := Group(entries)
	if len(groups) == len(entries) {
		t.Error("not even neighbours came together")
	}
	for pair := range together(groups) {
		if pair[1]-pair[0] > 6 {
			t.Errorf("entries %d and %d came together, who share %d of 8 words", pair[0], pair[1], max(0, 8-pair[1]+pair[0]))
		}
	}
}

// TestGroupIsOfTheEntriesAlone shuffles a heap of stories, reprints and near misses.
func TestGroupIsOfTheEntriesAlone(t *testing.T) {
	var entries []Entry
	for _, p := range labelledPairs(t, "pairs.txt") {
		again := p.b
		again.Feed, again.Link = "c", p.b.Link+"?utm_source=c"
		copied := p.a
		copied.Feed, copied.ID, copied.Link = "d", p.a.ID+"d", "https://d.example/"+p.a.ID
		entries = append(entries, p.a, p.b, again, copied)
	}
	want := byID(entries, Group(entries))
	rapid.Check(t, func(t *rapid.T) {
		shuffled := rapid.Permutation(entries).Draw(t, "entries")
		groups := Group(shuffled)
		if diff := cmp.Diff(want, byID(shuffled, groups)); diff != "" {
			t.Fatalf("groups (-in order +shuffled):\n%s", diff)
		}
		last := -1
		for _, group := range groups {
			if group[0].Index < last || !slices.IsSortedFunc(group, func(a, b Member) int {
				return a.Index - b.Index
			}) || group[0].Reason != "" {
				t.Fatalf("group %v after one that begins with %d", group, last)
			}
			last = group[0].Index
		}
	})
}

// byID names the members of each group, in an order of their own.
func byID(entries []Entry, groups [][]Member) (names []string) {
	for _, group := range groups {
		var ids []string
		for _, m := range group {
			ids = append(ids, entries[m.Index].Feed+" "+entries[m.Index].ID)
		}
		slices.Sort(ids)
		names = append(names, strings.Join(ids, ", "))
	}
	slices.Sort(names)
	return names
}

func BenchmarkGroup(b *testing.B) {
	pairs := labelledPairs(b, "pairs.txt")
	for _, n := range []int{500, 2000, 8000} {
		var entries []Entry
		for i := range n {
			e := pairs[i/2%len(pairs)].a
			if i%2 == 1 {
				e = pairs[i/2%len(pairs)].b
			}
			e.ID, e.Link = fmt.Sprint(i), fmt.Sprintf("https://%d.example/%d", i, i)
			e.Feed, e.Published = fmt.Sprint(i%100), e.Published.AddDate(0, 0, 4*(i/2/len(pairs)))
			e.Summary += " " + strings.Repeat(fmt.Sprintf("Filler %d of text number %d. ", i%7, i), 20)
			entries = append(entries, e)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Group(entries)
			}
		})
	}
}

// What names the same vulnerability, paper, version or result tells of the same, and a third telling in another language
// joins two that are alike.
func TestGroupByWhatIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		entries []Entry
		groups  int
	}{
		"a vulnerability": {[]Entry{
			item("a", "https://a.example/1", "Hole in Kestrel lets strangers in", "It is CVE-2026-48213, says its maker.", day(2)),
			item("b", "https://b.example/1", "PSA: patch today", "CVE-2026-48213 is used by somebody already.", day(2))}, 1},
		"a list of vulnerabilities": {[]Entry{
			item("a", "https://a.example/1", "Hole in Kestrel lets strangers in", "It is CVE-2026-48213, says its maker.", day(2)),
			item("b", "https://b.example/1", "Patches of the month", "CVE-2026-48213 CVE-2026-48214 CVE-2026-48215 CVE-2026-48216.",
				day(2))}, 2},
		"a version": {[]Entry{item("a", "https://a.example/1", "Kestrel 3.9.2 mends a hole", "Update it.", day(2)),
			item("b", "https://b.example/1", "Mail servers fall over", "Version Kestrel 3.9.2 helps, says a company.", day(2))}, 1},
		"another version": {[]Entry{item("a", "https://a.example/1", "Kestrel 3.9.2 mends a hole", "Update it.", day(2)),
			item("b", "https://b.example/1", "Kestrel 3.9.3 mends a hole", "Update it.", day(2))}, 2},
		"a vote": {[]Entry{
			item("a", "https://a.example/1", "Parliament passes the budget by 86 votes to 83", "It was late.", day(2)),
			item("b", "https://b.example/1", "86-83: budget for 2027 stands", "Nobody slept.", day(2))}, 1},
		"a score of another matter": {[]Entry{
			item("a", "https://a.example/1", "Parliament passes the budget by 86 votes to 83", "It was late.", day(2)),
			item("b", "https://b.example/1", "Tigers win 86-83", "A game of three hours.", day(2))}, 2},
		"a headline that was edited": {[]Entry{
			item("a", "https://a.example/1", "Bridge closes", bridgeText, day(2)),
			item("a", "https://a.example/2", "Two years without it", bridgeText[:200]+" More was said.", day(2).Add(time.Hour))}, 1},
		"three tellings in two languages": {[]Entry{
			item("a", "https://a.example/1", "Storm Ingrid cuts power to 210,000 homes in Vestland",
				"Storm Ingrid cut power to 210,000 homes in Vestland on Tuesday. BKK sends 400 people, says Kari Lund. Two ferries are in port.",
				day(2)),
			item("b", "https://b.example/1", "Storm Ingrid: 210,000 homes in Vestland without power",
				"Vestland woke without power after storm Ingrid. Kari Lund of BKK speaks of 210,000 homes and 400 people at work.", day(2)),
			item("c", "https://c.example/1", "Ingrid tok strømmen fra 210.000 i Vestland",
				"Uværet Ingrid slo ut strømmen for 210.000 i Vestland natt til tirsdag. 400 montører fra BKK er ute, sier Kari Lund.", day(2))}, 1},
	} {
		if groups := Group(c.entries); len(groups) != c.groups {
			t.Errorf("%s: %d groups, want %d: %v", name, len(groups), c.groups, groups)
		}
	}
}
