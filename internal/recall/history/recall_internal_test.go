package history

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/recall/search"
)

// asked is a question about a conversation of testdata, and the message that answers it.
type asked struct{ conversation, mark, query string }

// readConversations returns the conversations of testdata by name, the position of each marked message, and the
// questions. A conversation begins with the names of its people; "= DATE TIME" begins a time, and every message is two
// minutes after the one before it.
func readConversations(t *testing.T) (map[string][]Message, map[string]int, []asked) {
	t.Helper()
	talks, marks := map[string][]Message{}, map[string]int{}
	var questions []asked
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, _ := strings.CutSuffix(f.Name(), ".txt")
		data, err := os.ReadFile("testdata/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if name == "questions" {
			for line := range strings.Lines(string(data)) {
				if parts := strings.Split(strings.TrimSpace(line), "\t"); len(parts) == 3 {
					questions = append(questions, asked{parts[0], parts[1], parts[2]})
				}
			}
			continue
		}
		var at time.Time
		people := map[string]string{}
		for line := range strings.Lines(string(data)) {
			kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch kind {
			case "!":
				for _, word := range strings.Fields(rest) {
					if letter, person, found := strings.Cut(word, "="); found {
						people[letter] = person
					}
				}
			case "=":
				if at, err = time.Parse("2006-01-02 15:04", rest); err != nil {
					t.Fatal(err)
				}
			default:
				words, mark, found := strings.Cut(rest, " @")
				if found {
					marks[mark] = len(talks[name])
				}
				who := people[strings.TrimSuffix(kind, ":")]
				if who == "" {
					t.Fatalf("%s: nobody says %q", f.Name(), line)
				}
				talks[name] = append(talks[name], Message{
					Conversation: chat.Address{Platform: "web", Channel: name},
					ID:           fmt.Sprint(len(talks[name])),
					Author:       who,
					At:           at,
					Text:         words,
				})
				at = at.Add(2 * time.Minute)
			}
		}
	}
	return talks, marks, questions
}

// plainBM25 returns the positions of the k messages that fit best by BM25 (k1 1.2, b 0.75) over words in lower case.
func plainBM25(messages []Message, query string, k int) []int {
	type document struct {
		counts map[string]int
		length int
	}
	docs, frequency, total := make([]document, len(messages)), map[string]int{}, 0
	for i, m := range messages {
		docs[i].counts = map[string]int{}
		for w := range search.Words(m.Text) {
			if docs[i].counts[w]++; docs[i].counts[w] == 1 {
				frequency[w]++
			}
			docs[i].length++
			total++
		}
	}
	scores := make([]float64, len(docs))
	for w := range search.Words(query) {
		n, all := float64(frequency[w]), float64(len(docs))
		rarity := math.Log(1 + (all-n+0.5)/(n+0.5))
		for i, d := range docs {
			count := float64(d.counts[w])
			scores[i] += rarity * count * 2.2 / (count + 1.2*(0.25+0.75*float64(d.length)*all/float64(total)))
		}
	}
	var list []int
	for i, s := range scores {
		if s > 0 {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b)) })
	return list[:min(k, len(list))]
}

// TestRank_FindsMoreThanWordsAlone asks for messages in other words than theirs. The questions were written before the
// ranking.
func TestRank_FindsMoreThanWordsAlone(t *testing.T) {
	talks, marks, questions := readConversations(t)
	corpora, total := map[string]corpus{}, 0
	for name, list := range talks {
		p := newPlace()
		for _, m := range list {
			p.add("", m)
		}
		p.commit()
		corpora[name] = p.corpus
		total += len(list)
	}
	var ours, plain, stems float64
	for _, q := range questions {
		c := corpora[q.conversation]
		var authors []string
		for _, m := range c.messages {
			if !slices.Contains(authors, m.Author) {
				authors = append(authors, m.Author)
			}
		}
		now := c.messages[len(c.messages)-1].At
		found := c.rank(parseQuestion(q.query, authors, now), 10, func(Message) bool { return true })
		if slices.Contains(found, marks[q.mark]) {
			ours++
		} else {
			t.Logf("not found: %s", q.query)
		}
		for _, h := range c.words.Search(search.Query[string]{Text: q.query, Limit: 10}) {
			if c.places[h.Key] == marks[q.mark] {
				stems++
			}
		}
		if slices.Contains(plainBM25(c.messages, q.query, 10), marks[q.mark]) {
			plain++
		}
	}
	n := float64(len(questions))
	t.Logf("%d messages, %v questions: recall@10 %.3f, plain BM25 %.3f, BM25 with stems and stop words %.3f",
		total, n, ours/n, plain/n, stems/n)
	if total < 1000 || n < 60 || ours/n < max(plain, stems)/n+0.10 {
		t.Errorf("recall@10 is %.3f, want .10 more than %.3f", ours/n, max(plain, stems)/n)
	}
}
