package toolsearch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func pack(server, text string, tools ...string) Server {
	s := Server{Name: server, Text: text}
	for _, t := range tools {
		name, does, _ := strings.Cut(t, ": ")
		s.Tools = append(s.Tools, Doc{Name: name, Description: does})
	}
	return s
}

func office() []Server {
	return []Server{
		pack("calendar", "Appointments of the team",
			"calendar_create: Put an event into the calendar", "calendar_list: Show the events of a day",
			"calendar_delete: Cancel an event"),
		pack("mail", "Electronic letters", "mail_send: Send a message to somebody",
			"mail_search: Find messages by their words"),
		pack("weather", "", "weatherforecast: How warm it will be tomorrow", "what_is_this: "),
	}
}

func filled(servers ...Server) *Index {
	x := New()
	for _, s := range servers {
		x.Replace(s)
	}
	return x
}

func names(hits []Hit) []string {
	var list []string
	for _, h := range hits {
		list = append(list, h.Name)
	}
	return list
}

func TestTheRightToolIsFirst(t *testing.T) {
	x := filled(office()...)
	for query, want := range map[string]string{
		"create a calendar event":                   "calendar_create",
		"Could you please cancel my meeting event?": "calendar_delete",
		"sending messages":                          "mail_send",       // other forms of the words
		"find a mesage":                             "mail_search",     // a letter too few
		"serach the inbox":                          "mail_search",     // two letters in the wrong order
		"weather in Oslo":                           "weatherforecast", // part of a word
		"forecasts":                                 "weatherforecast",
		"what is this":                              "what_is_this", // common words alone
		"electronic letters, find some":             "mail_search",  // by what the server says of itself
		"calendar_list":                             "calendar_list",
		"CALENDAR-DELETE!":                          "calendar_delete",
	} {
		hits := x.Search(query, 3, nil)
		if len(hits) == 0 || hits[0].Name != want {
			t.Errorf("%q gives %v, want %s first", query, hits, want)
		}
	}
	for _, query := range []string{"", "xylophone", "?!", "\x00\xff"} {
		if hits := x.Search(query, 3, nil); len(hits) != 0 {
			t.Errorf("%q gives %v", query, hits)
		}
	}
}

func TestEachSentenceOfARequestIsHeard(t *testing.T) {
	x := filled(office()...)
	query := "Show me the events of the day, all events of every day that are in the calendar. Then send a message."
	if got := names(x.Search(query, 3, nil)); !slices.Contains(got, "mail_send") {
		t.Errorf("%q gives %v, want mail_send among them", query, got)
	}
}

func TestOnlyWhatMayBeUsedIsFound(t *testing.T) {
	x := filled(office()...)
	got := names(x.Search("calendar event", 2, func(name string) bool { return name != "calendar_create" }))
	if diff := gocmp.Diff([]string{"calendar_delete", "calendar_list"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if hits := x.Search("calendar", 5, func(string) bool { return false }); len(hits) != 0 {
		t.Errorf("found %v, though nothing may be used", hits)
	}
}

func TestEqualToolsComeInTheOrderOfTheirNames(t *testing.T) {
	x := filled(pack("s", "", "c_x: equal", "a_x: equal", "b_x: equal", "d_x: equal"))
	if diff := gocmp.Diff([]string{"a_x", "b_x", "c_x"}, names(x.Search("equal", 3, nil))); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if n := len(x.Search("equal", 0, nil)); n != 0 {
		t.Errorf("%d tools, though none was asked for", n)
	}
}

func TestAServerChangesInPlace(t *testing.T) {
	x := filled(office()...)
	x.Replace(pack("mail", "Letters", "mail_archive: Put a message away"))
	if diff := gocmp.Diff([]string{"mail_archive"}, names(x.Search("message", 9, nil))); diff != "" {
		t.Errorf("after the change (-want +got):\n%s", diff)
	}
	if x.Len() != 6 {
		t.Errorf("after the change there are %d tools", x.Len())
	}
	x.Remove("calendar")
	x.Remove("calendar")
	if hits := x.Search("calendar event", 9, nil); len(hits) != 0 || x.Len() != 3 {
		t.Errorf("after removal %d tools, found %v", x.Len(), hits)
	}
	x.Sync(office()[:1])
	if hits := x.Search("message letter weather", 9, nil); len(hits) != 0 || x.Len() != 3 {
		t.Errorf("after Sync %d tools, found %v", x.Len(), hits)
	}
}

// TestHistoryLeavesNoTrace compares an index through which much has gone with a
// new one.
func TestHistoryLeavesNoTrace(t *testing.T) {
	v := newInvented()
	a, b := v.server(1), v.server(2)
	used := filled(v.server(3), b, v.server(1), a, v.server(2))
	used.Remove("server3")
	used.Replace(b)
	fresh := filled(a, b)
	for _, q := range append(v.questions(), "", "x") {
		if diff := gocmp.Diff(fresh.Search(q, 20, nil), used.Search(q, 20, nil)); diff != "" {
			t.Fatalf("%q (-fresh +used):\n%s", q, diff)
		}
	}
	used.Sync(nil)
	if used.Len() != 0 || len(used.Search("server1", 5, nil)) != 0 {
		t.Errorf("an emptied index holds %d tools", used.Len())
	}
}

// TestSearchesNeverSeeHalfAChange looks while a server goes back and forth between
// two lists of tools.
func TestSearchesNeverSeeHalfAChange(t *testing.T) {
	var versions [2]Server
	for i := range versions {
		versions[i].Name = "s"
		for j := range 20 {
			versions[i].Tools = append(versions[i].Tools, Doc{Name: fmt.Sprintf("v%d_%02d", i, j), Description: "thing"})
		}
	}
	x := filled(versions[0])
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{})
	defer close(done)
	wg.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-done:
				return
			default:
				x.Replace(versions[i%2])
			}
		}
	})
	for range 500 {
		got := names(x.Search("thing", 100, nil))
		if len(got) != 20 || got[0][:2] != got[19][:2] {
			t.Fatalf("a search saw %v", got)
		}
	}
}

// TestAServerCannotFloodTheIndex gives one tool more words than anyone needs.
func TestAServerCannotFloodTheIndex(t *testing.T) {
	var words []string
	for i := range 50_000 {
		words = append(words, fmt.Sprintf("w%dx", i))
	}
	flood := strings.Join(words, " ")
	schema, err := json.Marshal(map[string]any{"description": flood[:maxSchema/2]})
	if err != nil {
		t.Fatal(err)
	}
	x := filled(Server{Name: flood, Text: flood, Tools: []Doc{{Name: flood, Description: flood,
		Parameters: schema}}}, office()[1])
	for _, f := range indexFields {
		if f.MaxWords < 1 || f.MaxWords > 400 {
			t.Errorf("a field takes %d words", f.MaxWords)
		}
	}
	if hits := x.Search("send a message", 1, nil); len(hits) == 0 || hits[0].Name != "mail_send" {
		t.Errorf("found %v", hits)
	}
}

func TestWhatIsMeasured(t *testing.T) {
	x := filled(office()...)
	shown := 0
	got := x.Measure([]Question{
		{"create a calendar event", []string{"calendar_create"}},
		{"xylophone", []string{"mail_send"}},
	}, 1, func(q Question, ranked []string) {
		shown++
		if q.Query == "xylophone" && len(ranked) != 0 || q.Query != "xylophone" && !slices.Equal(ranked, q.Gold) {
			t.Errorf("%q is shown as %q", q.Query, ranked)
		}
	})
	if got.P99Ms < got.P50Ms || got.P50Ms <= 0 || shown != 2 {
		t.Errorf("%d shown, times %v and %v", shown, got.P50Ms, got.P99Ms)
	}
	got.P50Ms, got.P99Ms = 0, 0
	if diff := gocmp.Diff(Score{
		Recall1:  .5,
		Recall3:  .5,
		Recall5:  .5,
		Recall10: .5,
		NDCG10:   .5,
		MRR:      .5,
	}, got); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff(Score{}, x.Measure(nil, 5, nil)); diff != "" {
		t.Errorf("of nothing (-want +got):\n%s", diff)
	}
}

// naughty are strings that have troubled programs.
func naughty(tb testing.TB) []string {
	var list []string
	if err := json.Unmarshal(readCollected(tb, "text/naughty-strings/blns.json"), &list); err != nil {
		tb.Fatal(err)
	}
	return list
}

func TestNaughtyStrings(t *testing.T) {
	for _, s := range naughty(t) {
		checkFound(t, s, s)
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("getHTTPStatus", "what is the status?")
	f.Add("the_and", "\xff\x00。天气 'x' v2.0\n")
	f.Fuzz(func(t *testing.T, name, query string) { checkFound(t, name, query) })
}

// checkFound searches for anything, and for a tool by its name.
func checkFound(t *testing.T, name, query string) {
	t.Helper()
	x := filled(office()...)
	x.Replace(Server{Name: query, Text: query, Tools: []Doc{{Name: name, Description: query,
		Parameters: json.RawMessage(query)}}})
	hits := x.Search(query, 3, nil)
	if len(hits) > 3 || !slices.IsSortedFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Score, a.Score) }) {
		t.Fatalf("%q gives %v", query, hits)
	}
	if len(name) > indexFields[0].MaxWords || len(plainWords(name)) == 0 {
		return // its words may not all be in the index
	}
	if got := names(x.Search(name, 100, nil)); !slices.Contains(got, name) {
		t.Errorf("a tool named %q is not found by its name but %q", name, got)
	}
}
