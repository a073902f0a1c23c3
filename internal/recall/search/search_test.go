package search

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// newIndex returns an index over a title and a text.
func newIndex(docs ...Doc[string]) *Index[string] {
	x := New(cmp.Compare[string],
		Field{Weight: 3, MaxWords: 10, KeepCommon: true}, Field{Weight: 1, LengthEffect: 0.5, UsualLength: 5, MaxWords: 50})
	x.Update(nil, docs)
	return x
}

func doc(key, title, text string) Doc[string] { return Doc[string]{key, []string{title, text}} }

func animals() []Doc[string] {
	return []Doc[string]{
		doc("1", "Cats", "A kitten purrs when it is content"), doc("2", "Dogs", "Puppies bark, and cats run from them"),
		doc("3", "Weather forecast", "It will rain over the whole country"), doc("4", "猫の名前", ""),
	}
}

func keys(hits []Hit[string]) []string {
	list := []string{}
	for _, h := range hits {
		list = append(list, h.Key)
	}
	return list
}

func (x *Index[K]) find(text string) []Hit[K] {
	return x.Search(Query[K]{Text: text, Limit: 10, Related: true})
}

func TestSearch_BestDocumentFirst(t *testing.T) {
	x := newIndex(animals()...)
	for question, want := range map[string][]string{
		"cat":              {"1", "2"},
		"a barking puppy":  {"2", "1"}, // a cat is related to a puppy
		"forcast":          {"3"},      // a letter is missing
		"weatherforecasts": {"3"},      // put together from two words
		"名前":               {"4"},
		"猫":                {"4"}, // a word of one character
		"storm":            {"3"}, // a related word
		"xylophone":        {},
		"the":              {}, // common, and in no title
		"":                 {},
	} {
		if diff := gocmp.Diff(want, keys(x.find(question))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", question, diff)
		}
	}
	if hits := x.Search(Query[string]{Text: "storm", Limit: 10}); len(hits) != 0 {
		t.Errorf("without related words, storm finds %v", hits)
	}
	if hits := x.Search(Query[string]{Text: "cat", Limit: 1, Keep: func(k string) bool {
		return k != "1"
	}}); len(hits) != 1 || hits[0].Key != "2" {
		t.Errorf("without document 1, cat finds %v", hits)
	}
}

func TestUpdate_ReplacesAndRemovesByKey(t *testing.T) {
	x := newIndex(animals()...)
	x.Update([]string{"3", "unknown"}, []Doc[string]{doc("1", "Birds", "An owl")})
	for question, want := range map[string][]string{"cat": {"2"}, "owl": {"1"}, "weather": {}, "forcast": {}} {
		if diff := gocmp.Diff(want, keys(x.find(question))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", question, diff)
		}
	}
	if len(x.numbers) != 3 {
		t.Errorf("%d documents, want 3", len(x.numbers))
	}
}

// TestUpdate_HistoryLeavesNoTrace compares an index that was changed many times with a new one.
func TestUpdate_HistoryLeavesNoTrace(t *testing.T) {
	texts := newTexts(500)
	docs := make([]Doc[string], 300)
	for i := range docs {
		docs[i] = doc(fmt.Sprint(i), texts.text(2), texts.text(10))
	}
	fresh, used := newIndex(docs[:100]...), newIndex(docs[50:]...)
	for i := range docs {
		used.Update([]string{docs[(i*7)%300].Key}, docs[i:i+1])
		used.Update([]string{docs[(i*11)%300].Key}, nil)
	}
	var later []string
	for _, d := range docs[100:] {
		later = append(later, d.Key)
	}
	used.Update(later, docs[:100])
	for range 100 {
		question := texts.text(3) + ". " + texts.text(1)[1:]
		if diff := gocmp.Diff(fresh.find(question), used.find(question)); diff != "" {
			t.Fatalf("%q (-fresh +used):\n%s", question, diff)
		}
	}
	for _, d := range docs[:100] {
		used.Update([]string{d.Key}, nil)
	}
	if w := used.words; len(w.ids)+len(w.grams) != 0 || len(used.numbers) != 0 {
		t.Errorf("an emptied index holds %d words and %d trigrams", len(w.ids), len(w.grams))
	}
}

// TestUpdate_LimitsTheWordsOfAField gives one document more words than a field takes.
func TestUpdate_LimitsTheWordsOfAField(t *testing.T) {
	flood := newTexts(50_000).text(20_000)
	x := newIndex(doc("flood", flood, flood), doc("2", "Dogs", "bark"))
	if n := len(x.words.ids); n > 10+50+2 {
		t.Errorf("the index holds %d words, want 62 at most", n)
	}
	if got := keys(x.find("dog")); len(got) != 1 {
		t.Errorf("dog finds %v", got)
	}
}

func TestSearch_SeesAllOfAnUpdateOrNothing(t *testing.T) {
	versions := [2][]Doc[string]{}
	var remove [2][]string
	for v := range versions {
		for i := range 20 {
			key := fmt.Sprintf("v%d_%02d", v, i)
			versions[v], remove[v] = append(versions[v], doc(key, "thing", "")), append(remove[v], key)
		}
	}
	x := newIndex(versions[0]...)
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
				x.Update(remove[(i+1)%2], versions[i%2])
			}
		}
	})
	for range 300 {
		got := keys(x.Search(Query[string]{Text: "thing", Limit: 100}))
		if len(got) != 20 || got[0][:2] != got[19][:2] {
			t.Fatalf("a search saw %v", got)
		}
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("getHTTPStatus", "what is the status?")
	f.Add("the_and", "\xff\x00。天气 'x' v2.0\n")
	f.Fuzz(func(t *testing.T, title, question string) {
		x := newIndex(append(animals(), doc("5", title, question))...)
		x.find(question)
		if len(title) > 10 {
			return // its words may not all be in the index
		}
		for range Words(title) {
			if hits := x.Search(Query[string]{Text: title, Limit: 5}); len(hits) == 0 {
				t.Errorf("%q is not found by its title", title)
			}
			break
		}
	})
}

// texts makes texts of invented words, some far more frequent than others, as in every language.
type texts struct {
	often *rand.Zipf
	words []string
}

func newTexts(words int) texts {
	random := rand.New(rand.NewPCG(1, 2))
	v := texts{often: rand.NewZipf(random, 1.1, 20, uint64(words-1))}
	for range words {
		word := ""
		for range 2 + random.IntN(3) {
			word += string("bcdfghklmnprst"[random.IntN(14)]) + string("aeiou"[random.IntN(5)])
		}
		v.words = append(v.words, word)
	}
	return v
}

func (v texts) text(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = v.words[v.often.Uint64()]
	}
	return strings.Join(list, " ")
}

// BenchmarkHundredThousandMessages measures an index of messages of about 300 bytes.
func BenchmarkHundredThousandMessages(b *testing.B) {
	texts := newTexts(60_000)
	const many = 100_000
	docs := make([]Doc[int], many)
	for i := range docs {
		docs[i] = Doc[int]{i, []string{texts.text(40)}}
	}
	before := heap()
	x := New(cmp.Compare[int], Field{Weight: 1, LengthEffect: 0.5, UsualLength: 30})
	began := time.Now()
	for _, d := range docs {
		x.Update(nil, []Doc[int]{d})
	}
	b.Logf("%d messages: %.1f MB, %v", many, float64(heap()-before)/1e6, time.Since(began))
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			x.Search(Query[int]{Text: texts.text(5), Limit: 10})
		}
	})
	b.Run("add and remove", func(b *testing.B) {
		for n := many; b.Loop(); n++ {
			x.Update([]int{n - many}, []Doc[int]{{n, docs[n%many].Texts}})
		}
	})
	runtime.KeepAlive(docs)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
