package agent

import "testing"

// In a summary without a model, a number is worth more than a word, and a question less than a
// statement.
func TestScoreLines_FavoursNumbersAndStatements(t *testing.T) {
	for name, c := range map[string]struct{ better, worse string }{
		"a number":    {"the code is 4711 today", "the code is oak today"},
		"a statement": {"we paint the fence red", "we paint the fence red?"},
	} {
		lines := []line{{text: c.better, words: wordsOf(c.better)}, {text: c.worse, words: wordsOf(c.worse)}}
		scoreLines(lines)
		if lines[0].score <= lines[1].score {
			t.Errorf("%s: %q has %.2f, %q has %.2f", name, c.better, lines[0].score, c.worse, lines[1].score)
		}
	}
}
