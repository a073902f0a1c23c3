package memory

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ravenbot/internal/store"
)

// readLines returns the lines of a file below testdata, comments apart.
func readLines(t *testing.T, name string) []string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(data)), "\n"),
		func(line string) bool { return strings.HasPrefix(line, "#") })
}

// TestSearch_FindsNotesByKeywordsAndQuestions searches 200 notes of one person. The first questions were written
// before the ranking was; with it, and the table of related words as it was written before, they reached .632. The
// table was widened after that, so "later" questions were written, for which nothing was changed any more.
func TestSearch_FindsNotesByKeywordsAndQuestions(t *testing.T) {
	var notes []hit
	for i, text := range readLines(t, "notes.txt") {
		notes = append(notes, hit{Memory: store.Memory{N: uint64(i + 1), Text: text}})
	}
	slices.Reverse(notes) // the newest first, as search passes them
	found, asked := map[string]float64{}, map[string]float64{}
	for _, line := range readLines(t, "questions.txt") {
		parts := strings.Split(line, "\t")
		right := strings.Split(parts[2], ",")
		ranked := rank(notes, parts[1])
		n := 0.0
		for _, h := range ranked[:min(3, len(ranked))] {
			if slices.Contains(right, strconv.FormatUint(h.N, 10)) {
				n++
			}
		}
		asked[parts[0]]++
		found[parts[0]] += n / float64(min(len(right), 3))
		if n == 0 {
			t.Logf("not found: %s: %q", parts[1], texts(ranked[:min(3, len(ranked))]))
		}
	}
	for kind, bound := range map[string]float64{"keywords": 0.8, "question": 0.6, "later": 0.57} {
		recall := found[kind] / asked[kind]
		t.Logf("%d notes, %v %s: recall@3 %.3f", len(notes), asked[kind], kind, recall)
		if recall < bound {
			t.Errorf("recall@3 by %s is %.3f, want %.2f or more", kind, recall, bound)
		}
	}
	boss := texts(rank(notes, "Who is my boss?"))
	if !slices.Contains(boss[:min(3, len(boss))], "I report to Ingrid Solberg") {
		t.Errorf("the boss is %q", boss[:min(3, len(boss))])
	}
}

func texts(hits []hit) (list []string) {
	for _, h := range hits {
		list = append(list, h.Text)
	}
	return list
}
