package summary

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ravenbot/internal/core/text"
)

// article is a text with what a reader would want to have been told of it.
type article struct {
	Title   string `json:"title"`
	Text    string `json:"text"`
	Summary string `json:"summary"`
}

// TestQuality compares three chosen sentences with the first three by ROUGE-1. The
// reports of testdata have openings that say little, as magazines like them; they are
// seven, and tell of gross faults alone.
func TestQuality(t *testing.T) {
	data, err := os.ReadFile("testdata/news.txt")
	if err != nil {
		t.Fatal(err)
	}
	var reports []article
	for _, block := range strings.Split(string(data), "\n= ")[1:] {
		title, rest, _ := strings.Cut(block, "\n")
		text, gold, ok := strings.Cut(rest, "\n--\n")
		if !ok {
			t.Fatalf("%q has no summary", title)
		}
		reports = append(reports, article{title, text, gold})
	}
	if chosen := atLeast(t, "testdata", reports); chosen < 50 {
		t.Errorf("ROUGE-1 F1 of the chosen sentences is %.1f, less than 50", chosen)
	}
}

// TestQualityOnNews does so on a collection of news, which is kept outside the
// project: a JSON object a line.
func TestQualityOnNews(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(os.Getenv("RAVENBOT_CORPORA"), "text/news/*.jsonl"))
	if err != nil || os.Getenv("RAVENBOT_CORPORA") == "" || len(files) == 0 {
		t.Skip("there is no collection of news in text/news of RAVENBOT_CORPORA")
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var reports []article
		for d := json.NewDecoder(strings.NewReader(string(data))); d.More(); {
			var r article
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			reports = append(reports, r)
		}
		atLeast(t, filepath.Base(file), reports)
	}
}

// atLeast fails where the chosen sentences are not better than the first three by a
// point on average. It returns the average of the chosen ones.
func atLeast(t *testing.T, name string, reports []article) (chosen float64) {
	t.Helper()
	var lead float64
	for _, r := range reports {
		first := Sentences(r.Text)
		mine, theirs := rouge1(Summarize(r.Title, r.Text, 3), r.Summary), rouge1(first[:min(3, len(first))], r.Summary)
		t.Logf("%s: chosen %.1f, first three %.1f: %.60s", name, 100*mine, 100*theirs, r.Title)
		chosen += 100 * mine / float64(len(reports))
		lead += 100 * theirs / float64(len(reports))
	}
	t.Logf("%s: %d texts, ROUGE-1 F1 of the chosen sentences %.1f, of the first three %.1f", name,
		len(reports), chosen, lead)
	if len(reports) == 0 || chosen < lead+1 {
		t.Errorf("%s: %.1f is not a point above %.1f", name, chosen, lead)
	}
	return chosen
}

// rouge1 is the F1 of single words, singular and plural being the same.
func rouge1(summary []string, gold string) float64 {
	counts := map[string]int{}
	var have, want, both float64
	for word := range text.Terms(gold) {
		counts[text.Singular(word)]++
		want++
	}
	for word := range text.Terms(strings.Join(summary, " ")) {
		have++
		if word = text.Singular(word); counts[word] > 0 {
			counts[word]--
			both++
		}
	}
	if both == 0 {
		return 0
	}
	return 2 * both / (have + want)
}
