package agent

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
)

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

// said returns a message with one part of text.
func said(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{{Text: text}}}
}

// A summary without a model says who said what, in the order in which it was said: the lines of the summary before, the
// words of people and answers, but not what a turn said that failed or was answered by nobody.
func TestExtractSummary_TellsWhoSaidWhat(t *testing.T) {
	anna := llm.Message{Role: llm.User, Parts: []llm.Part{
		{Text: "Anna says (Sunday):\n", Source: llm.SourceSpeaker}, {Text: "The gate opens at 8.", Source: llm.SourceWords},
		{Text: "It was told long ago.", Source: llm.SourceContext},
	}}
	turns := []conversation.Turn{
		{State: conversation.Answered, Messages: []llm.Message{anna, said(llm.Assistant, "I note 8. It is early!")}},
		{State: conversation.Failed, Messages: []llm.Message{said(llm.User, "Is it 9?"), said(llm.Assistant,
			"Half of it is")}},
		{State: conversation.Answered, Messages: []llm.Message{said(llm.User, "the gate: opens at 8")}},
		{State: conversation.Answered, Messages: []llm.Message{said(llm.User, "...")}},
		{State: conversation.Answered},
		{State: conversation.Answered, Messages: []llm.Message{said(llm.Assistant, "Nobody asked.")}},
	}
	got := extractSummary("\n- Berit: The lock is blue.\n\n- you: It is.\n", turns)
	want := "- Berit: The lock is blue.\n- you: It is.\n- Anna: The gate opens at 8.\n- you: I note 8.\n- you: It is " +
		"early!\n- user: Is it 9?\n- you: Nobody asked."
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the summary (-want +got):\n%s", diff)
	}
}

// A line is cut to 240 characters, and one turn has four lines at most, those that tell the most.
func TestExtractSummary_IsFairToAllTurns(t *testing.T) {
	long := strings.Repeat("word ", 60) + "end."
	turn := conversation.Turn{State: conversation.Answered, Messages: []llm.Message{
		said(llm.User, long), said(llm.Assistant, "Well yes. Take 4711. Call 0815. Ask Berit Hansen. See KX-2291."),
	}}
	got := strings.Split(extractSummary("", []conversation.Turn{turn}), "\n")
	want := []string{"- you: Take 4711.", "- you: Call 0815.", "- you: Ask Berit Hansen.", "- you: See KX-2291."}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the lines (-want +got):\n%s", diff)
	}
	turn.Messages = turn.Messages[:1]
	if got := extractSummary("", []conversation.Turn{turn}); len([]rune(got)) != len("- user: ")+240 {
		t.Errorf("a long line has %d characters: %s", len([]rune(got)), got)
	}
}

// Rare words and names tell more than what is said again and again, neither the shortest nor the longest line wins by
// its length, and the first word of a sentence is no name.
func TestScoreLines_FavoursWhatIsRare(t *testing.T) {
	for name, c := range map[string]struct{ better, worse string }{
		"a rare word":   {"the heron sits here", "the tower sits here"},
		"a name":        {"ask the good Berit", "ask the good baker"},
		"a name inside": {"ask Berit the baker", "Ask berit the baker"},
		"a short line":  {"code 4711", "the tower sits here and the heron sits there"},
		"a longer line": {"the heron sits here by the river", "heron"},
	} {
		var lines []line
		for _, s := range []string{c.better, c.worse, "the tower", "tower here", "the sits here"} {
			lines = append(lines, line{text: s, words: wordsOf(s)})
		}
		scoreLines(lines)
		if lines[0].score <= lines[1].score {
			t.Errorf("%s: %q has %.2f, %q has %.2f", name, c.better, lines[0].score, c.worse, lines[1].score)
		}
	}
}

// A number tells as much as two words that nobody else used, and a name as much as one.
func TestScoreLines_NumbersAndNames_CountLikeRareWords(t *testing.T) {
	for name, c := range map[string]struct{ better, worse string }{
		"a number and a word that all use": {"the tower 4711", "the heron ibis"},
		"three rare words":                 {"heron ibis crane", "the tower 4711"},
		"a name and a word that all use":   {"the tower Berit", "the heron ibis"},
	} {
		lines := []line{{text: c.better, words: wordsOf(c.better)}, {text: c.worse, words: wordsOf(c.worse)}}
		for range 50 {
			lines = append(lines, line{text: "the tower", words: wordsOf("the tower")})
		}
		scoreLines(lines)
		if lines[0].score <= lines[1].score {
			t.Errorf("%s: %q has %.2f, %q has %.2f", name, c.better, lines[0].score, c.worse, lines[1].score)
		}
	}
}

// A summary without a model is filled up to its limit, and not beyond.
func TestExtractSummary_FillsItsLimit(t *testing.T) {
	lines := make([]string, 64) // of 128 bytes with their line ends
	for i := range lines {
		lines[i] = fmt.Sprintf("- you: %04d %s", i, strings.Repeat("x", 115))
	}
	all := strings.Join(lines, "\n")
	if got := extractSummary(all, nil); got != all {
		t.Errorf("%d bytes of the %d that fit are left", len(got), len(all))
	}
	lines[20] += "x"
	if got := extractSummary(strings.Join(lines, "\n"), nil); strings.Count(got, "\n") != 62 {
		t.Errorf("%d lines are left of one byte too much, want 63", strings.Count(got, "\n")+1)
	}
}

// Capital letters make names, but for that of the first word.
func TestNameCount(t *testing.T) {
	for text, want := range map[string]int{"": 0, "Ask": 0, "Ask Berit Hansen": 2, "ask Åse, not (Berit)": 1} {
		if got := nameCount(text); got != want {
			t.Errorf("%q has %d names, want %d", text, got, want)
		}
	}
}
