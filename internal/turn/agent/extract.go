package agent

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/news/summary"
)

// Limits of a summary without a model.
const (
	maxLineChars    = 240 // of one sentence
	minLineWords    = 1
	maxLinesOfTurn  = 4 // lines of one turn, so that no long answer fills the summary
	questionPenalty = 0.5
)

// line is a sentence of a conversation that may stay in its summary.
type line struct {
	by    string
	text  string
	words []string
	turn  int     // index of its turn; -1: it stood in the summary before
	score float64 // set by scoreLines; more is better
}

// extractSummary returns a summary made without a model: the sentences, each with who said it,
// that hold the most of what could not be guessed from the rest of the conversation: numbers,
// names and rare words. Lines of the summary before are treated like newer ones.
func extractSummary(before string, turns []conversation.Turn) string {
	lines := candidateLines(before, turns)
	scoreLines(lines)
	// The best lines first, but kept by their index: the summary is read in the order in which things were said.
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lines[b].score, lines[a].score) })
	size, perTurn, seen := 0, map[int]int{}, map[string]bool{}
	var kept []int
	for _, i := range order {
		l := lines[i]
		key := strings.Join(l.words, " ")
		if seen[key] || l.turn >= 0 && perTurn[l.turn] == maxLinesOfTurn || size+len(l.String())+1 > maxSummaryBytes {
			continue
		}
		seen[key] = true
		perTurn[l.turn]++
		size += len(l.String()) + 1
		kept = append(kept, i)
	}
	slices.Sort(kept) // back into the order in which it was said
	out := make([]string, len(kept))
	for i, at := range kept {
		out[i] = lines[at].String()
	}
	return strings.Join(out, "\n")
}

// String returns the line in its form for a summary. Lines of the previous summary already have their speaker.
func (l line) String() string {
	if l.turn < 0 {
		return l.text
	}
	return "- " + l.by + ": " + l.text
}

// candidateLines returns the lines of a summary, and the sentences of turns.
func candidateLines(before string, turns []conversation.Turn) []line {
	var lines []line
	for _, text := range strings.Split(strings.TrimSpace(before), "\n") {
		if text != "" {
			lines = append(lines, line{text: text, words: wordsOf(text), turn: -1})
		}
	}
	for n, t := range turns {
		for _, m := range t.UserMessages() {
			lines = append(lines, linesOf(n, speakerOf(m), userText(m))...)
		}
		if end := len(t.Messages) - 1; end >= 0 && t.State == conversation.Answered && t.Messages[end].Role == llm.Assistant {
			lines = append(lines, linesOf(n, "you", t.Messages[end].Text())...)
		}
	}
	return lines
}

// linesOf returns the sentences of a text as lines of a turn, each cut to maxLineChars. Sentences without words are
// left out.
func linesOf(turn int, by, text string) []line {
	var lines []line
	for _, s := range summary.Sentences(text) {
		s = shortLine(s, maxLineChars)
		if words := wordsOf(s); len(words) >= minLineWords {
			lines = append(lines, line{by: by, text: s, words: words, turn: turn})
		}
	}
	return lines
}

// speakerOf returns the name of who said a message.
func speakerOf(m llm.Message) string {
	for _, p := range m.Parts {
		if sourceOf(p) == llm.SourceSpeaker {
			if name, _, ok := strings.Cut(p.Text, " says"); ok {
				return name
			}
		}
	}
	return "user"
}

// wordsOf returns the words of a text in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// scoreLines scores lines by information for their length: the rarity of their words in all lines, with a bonus for
// numbers and names.
func scoreLines(lines []line) {
	in := map[string]int{} // lines that hold a word
	for _, l := range lines {
		for _, w := range distinct(l.words) {
			in[w]++
		}
	}
	for i, l := range lines {
		words := distinct(l.words)
		sum := 0.0
		for _, w := range words {
			rarity := math.Log(1 + float64(len(lines))/float64(in[w]))
			// People ask for numbers later, and nobody can guess them.
			if strings.ContainsFunc(w, unicode.IsDigit) {
				rarity *= 2
			}
			sum += rarity
		}
		// A name counts like a word that is in no other line.
		sum += float64(nameCount(l.text)) * math.Log(1+float64(len(lines)))
		// The square root favours neither the shortest nor the longest sentences.
		lines[i].score = sum / math.Sqrt(float64(len(words)))
		if strings.HasSuffix(strings.TrimSpace(l.text), "?") {
			lines[i].score *= questionPenalty
		}
	}
}

// distinct returns the words without repeats, sorted, in new memory.
func distinct(words []string) []string {
	sorted := slices.Clone(words)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// nameCount returns the number of capitalized words after the first.
func nameCount(text string) int {
	n := 0
	for i, w := range strings.Fields(text) {
		if r, _ := utf8.DecodeRuneInString(w); i > 0 && unicode.IsUpper(r) {
			n++
		}
	}
	return n
}
