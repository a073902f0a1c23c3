package toolsearch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// corpus is a collected set of tools with requests whose right answers are known.
type corpus struct {
	index     *Index
	floor     *plain
	servers   []Server
	questions map[string][]Question // by split
}

func readCorpus(tb testing.TB, name string) corpus {
	tb.Helper()
	type line struct {
		Name, Description, Field string
		Parameters               json.RawMessage
	}
	bySubject := map[string]*Server{}
	for _, l := range readLines[line](tb, name+"/tools.jsonl") {
		subject, _, _ := strings.Cut(l.Field, "/")
		if bySubject[subject] == nil {
			bySubject[subject] = &Server{Name: subject}
		}
		s := bySubject[subject]
		s.Tools = append(s.Tools, Doc{Name: l.Name, Description: l.Description, Parameters: l.Parameters})
	}
	c := corpus{index: New(), questions: map[string][]Question{}}
	for _, s := range bySubject {
		c.index.Replace(*s)
		c.servers = append(c.servers, *s)
	}
	c.floor = newPlain(c.servers)
	type query struct {
		Question
		Split string
	}
	for _, q := range readLines[query](tb, name+"/queries.jsonl") {
		c.questions[q.Split] = append(c.questions[q.Split], q.Question)
	}
	return c
}

func readLines[T any](tb testing.TB, name string) []T {
	tb.Helper()
	var list []T
	lines := bufio.NewScanner(bytes.NewReader(readCollected(tb, "tools/"+name)))
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		list = append(list, v)
	}
	if lines.Err() != nil || len(list) == 0 {
		tb.Fatalf("%s: %d lines, %v", name, len(list), lines.Err())
	}
	return list
}

func readCollected(tb testing.TB, name string) []byte {
	tb.Helper()
	root := os.Getenv("RAVENBOT_CORPORA")
	if root == "" {
		tb.Skip("RAVENBOT_CORPORA does not name the folder of collected input")
	}
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// every gives every second question, beginning with the first or the second: one
// half was used to choose the weights, the other was not.
func every(list []Question, from int) []Question {
	var half []Question
	for i := from; i < len(list); i += 2 {
		half = append(half, list[i])
	}
	return half
}

// TestSearchFindsWhatPeopleAskFor holds the ranking to what it reached when its
// weights were chosen: with those requests it was chosen by, and with the others.
func TestSearchFindsWhatPeopleAskFor(t *testing.T) {
	meta, seal := readCorpus(t, "metatool"), readCorpus(t, "seal-tools")
	for _, set := range []struct {
		name      string
		corpus    corpus
		questions []Question
		recall5   float64
	}{
		{"MetaTool, one tool, for choosing", meta, every(meta.questions["single"], 0), 0.70},
		{"MetaTool, one tool", meta, every(meta.questions["single"], 1), 0.70},
		{"MetaTool, one tool, all", meta, meta.questions["single"], 0.70},
		{"MetaTool, two tools, for choosing", meta, every(meta.questions["two"], 0), 0.735},
		{"MetaTool, two tools", meta, every(meta.questions["two"], 1), 0.735},
		{"MetaTool, two tools, all", meta, meta.questions["two"], 0.735},
		{"Seal-Tools, for choosing", seal, seal.questions["dev"], 0.945},
		{"Seal-Tools, in domain", seal, seal.questions["test_in_domain"], 0.94},
		{"Seal-Tools, out of domain", seal, seal.questions["test_out_domain"], 0.925},
	} {
		t.Run(set.name, func(t *testing.T) {
			var floor Score
			s := set.corpus.index.Measure(set.questions, 10, func(q Question, _ []string) {
				floor.add(q.Gold, set.corpus.floor.search(q.Query, 10))
			})
			floor.Recall5 /= float64(len(set.questions))
			t.Logf("%d requests: %+v; plain BM25: recall@5 %.4f", len(set.questions), s, floor.Recall5)
			if s.Recall5 < max(set.recall5, floor.Recall5) {
				t.Errorf("recall@5 is %.4f, want %.4f or more, and more than plain BM25 with %.4f", s.Recall5,
					set.recall5, floor.Recall5)
			}
		})
	}
}

// TestTypingErrorsCostLittle makes one in about every seven words of the requests
// wrong.
func TestTypingErrorsCostLittle(t *testing.T) {
	seal := readCorpus(t, "seal-tools")
	questions := slices.Clone(seal.questions["test_in_domain"])
	for i := range questions {
		questions[i].Query = mistype(questions[i].Query)
	}
	s := seal.index.Measure(questions, 10, nil)
	t.Logf("%+v", s)
	if s.Recall5 < 0.915 {
		t.Errorf("recall@5 is %.4f, want 0.915 or more", s.Recall5)
	}
}

// mistype swaps two letters within every third longer word.
func mistype(text string) string {
	words := strings.Fields(text)
	n := 0
	for i, w := range words {
		if len(w) < 5 {
			continue
		}
		if n++; n%3 == 0 {
			at := 1 + n%(len(w)-3)
			words[i] = w[:at] + w[at+1:at+2] + w[at:at+1] + w[at+2:]
		}
	}
	return strings.Join(words, " ")
}
