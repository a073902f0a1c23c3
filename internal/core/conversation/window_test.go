package conversation_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
)

// sized returns n turns of a size each. Each begins with its number.
func sized(n, size int) []conversation.Turn {
	var turns []conversation.Turn
	for i := range n {
		id := fmt.Sprint(i)
		turns = append(turns, conversation.Turn{ID: id, Messages: []llm.Message{says(llm.User,
			id+strings.Repeat("x", size-len(id)))}})
	}
	return turns
}

// looking returns n turns, each with a tool result of a size.
func looking(n, size int) []conversation.Turn {
	var turns []conversation.Turn
	for i := range n {
		turns = append(turns, conversation.Turn{ID: fmt.Sprint(i), Messages: []llm.Message{
			{Role: llm.ToolRole, Parts: []llm.Part{{Text: "note"}, result("c", strings.Repeat("r", size))}},
			{Role: llm.User, Parts: []llm.Part{result("not of a tool", strings.Repeat("u", 1000))}},
		}})
	}
	return turns
}

// resultSizes returns the bytes of each turn's tool result.
func resultSizes(turns []conversation.Turn) []int {
	var sizes []int
	for _, t := range turns {
		sizes = append(sizes, len(t.Messages[0].Parts[1].Result.Content))
	}
	return sizes
}

func TestSizeCountsTextsCallsAndResults(t *testing.T) {
	turn := conversation.Turn{Messages: []llm.Message{
		says(llm.User, "12345"),
		{Role: llm.Assistant, Parts: []llm.Part{{Text: "67"}, {Call: &llm.Call{Name: "abc", Args: json.RawMessage(`{"a":1}`)}}}},
		{Role: llm.ToolRole, Parts: []llm.Part{result("c", "wxyz")}},
	}}
	if got := turn.Size(); got != 5+2+3+7+4 {
		t.Errorf("the turn has %d bytes, want 21", got)
	}
}

func TestWindowFits(t *testing.T) {
	w := conversation.Window{MaxTurns: 3, MaxBytes: 300}
	for _, c := range []struct {
		turns, size int
		want        bool
	}{{3, 100, true}, {4, 10, false}, {3, 101, false}, {0, 1, true}} {
		if got := w.Fits(sized(c.turns, c.size)); got != c.want {
			t.Errorf("%d turns of %d bytes fit: %v, want %v", c.turns, c.size, got, c.want)
		}
	}
	if got := w.Limit(); got != (conversation.Window{MaxTurns: 6, MaxBytes: 600}) {
		t.Errorf("the limit of %+v is %+v, want twice as much", w, got)
	}
	if got := conversation.DefaultWindow(); got != (conversation.Window{MaxTurns: 40, MaxBytes: 64_000}) {
		t.Errorf("the default window is %+v, want 40 turns and about 16,000 tokens", got)
	}
}

func TestTrim(t *testing.T) {
	for name, c := range map[string]struct {
		w           conversation.Window
		turns, size int
		want        int // turns that are kept
	}{
		"too many turns leave half of the window":   {conversation.Window{MaxTurns: 10, MaxBytes: 1000}, 11, 10, 5},
		"too many bytes leave half of the window":   {conversation.Window{MaxTurns: 10, MaxBytes: 1000}, 9, 125, 4},
		"exactly half of the bytes stays":           {conversation.Window{MaxTurns: 10, MaxBytes: 1000}, 3, 500, 1},
		"the last turn stays whatever its size":     {conversation.Window{MaxTurns: 10, MaxBytes: 1000}, 3, 5000, 1},
		"a window of one turn keeps the last":       {conversation.Window{MaxTurns: 1, MaxBytes: 1000}, 3, 10, 1},
		"an odd window leaves the smaller half":     {conversation.Window{MaxTurns: 7, MaxBytes: 1000}, 8, 10, 3},
		"what fits is left alone":                   {conversation.Window{MaxTurns: 10, MaxBytes: 1000}, 10, 100, 10},
		"two turns of a quarter stay, not a third":  {conversation.Window{MaxTurns: 10, MaxBytes: 1000}, 5, 250, 2},
		"a window of two turns keeps one when full": {conversation.Window{MaxTurns: 2, MaxBytes: 1000}, 3, 10, 1},
	} {
		got := c.w.Trim(sized(c.turns, c.size))
		if len(got) != c.want || got[len(got)-1].ID != fmt.Sprint(c.turns-1) {
			t.Errorf("%s: %d turns are left, want the newest %d", name, len(got), c.want)
		}
	}
}

func TestTrimShortensOldResultsFirst(t *testing.T) {
	turns := looking(6, 1000)
	before := resultSizes(turns)
	// Each turn has 2,004 bytes. With two results shortened to about 225 all turns fit.
	got := conversation.Window{MaxTurns: 10, MaxBytes: 11_000}.Trim(turns)
	short := len(conversation.Cut(strings.Repeat("r", 1000), 200))
	if diff := cmp.Diff([]int{short, short, 1000, 1000, 1000, 1000}, resultSizes(got)); diff != "" {
		t.Errorf("sizes of the results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, resultSizes(turns)); diff != "" {
		t.Errorf("the turns that were given have changed (-want +got):\n%s", diff)
	}
	if got[0].Messages[0].Parts[0].Text != "note" || len(got[0].Messages[1].Parts[0].Result.Content) != 1000 {
		t.Error("something else than the result of a tool was shortened")
	}
}

// The newest turns keep their results, even if there are no other turns.
func TestTrim_NoOlderTurns_ShortensNothing(t *testing.T) {
	got := conversation.Window{MaxTurns: 10, MaxBytes: 1000}.Trim(looking(1, 5000))
	if diff := cmp.Diff([]int{5000}, resultSizes(got)); diff != "" {
		t.Errorf("sizes of the results (-want +got):\n%s", diff)
	}
}

func TestShortResultsAreLeftAlone(t *testing.T) {
	for size, want := range map[int]int{
		400: 400, // shortening would gain little
		401: len(conversation.Cut(strings.Repeat("r", 401), 200)),
	} {
		got, ok := conversation.Window{MaxTurns: 10, MaxBytes: 1 << 20}.Shorten(looking(5, size))
		if !ok || resultSizes(got)[0] != want {
			t.Errorf("a result of %d bytes has %d, want %d", size, resultSizes(got)[0], want)
		}
	}
}

func TestShortenOnlyWhereItFreesAQuarter(t *testing.T) {
	turns := looking(5, 10_000)
	size := 0
	shorter, _ := conversation.Window{MaxTurns: 5, MaxBytes: 1 << 30}.Shorten(turns)
	for _, s := range shorter {
		size += s.Size()
	}
	atLimit := size / 3 * 4
	for size%3 != 0 || atLimit/4*3 < size {
		size, atLimit = size+1, atLimit+1 // the next window, of which three quarters are enough
	}
	for _, c := range []struct {
		name string
		w    conversation.Window
		want bool
	}{
		{"three quarters are just enough", conversation.Window{MaxTurns: 5, MaxBytes: atLimit}, true},
		{"more than three quarters are left", conversation.Window{MaxTurns: 5, MaxBytes: atLimit - 8}, false},
		{"too many turns stay too many", conversation.Window{MaxTurns: 4, MaxBytes: 1 << 30}, false},
	} {
		got, ok := c.w.Shorten(turns)
		if ok != c.want || ok == (resultSizes(got)[0] == 10_000) {
			t.Errorf("%s: %v with a first result of %d bytes, want %v", c.name, ok, resultSizes(got)[0], c.want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"hello", 5, "hello"},
		{"hello", 4, "hell\n[cut: 1 more bytes]"},
		{"aé", 2, "a\n[cut: 2 more bytes]"}, // é has two bytes, and no half of it is kept
	} {
		if got := conversation.Cut(c.text, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.n, got, c.want)
		}
	}
}

func TestSubjectsAndQuotes(t *testing.T) {
	turn := conversation.Turn{ID: "a", Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "q", Subject: "m1"}, {Text: "plain"}, {Text: "r", Subject: "m2"}}},
		{Role: llm.User, Parts: []llm.Part{{Text: "again", Subject: "m1"}}},
	}}
	if got := turn.Subjects(); !cmp.Equal(got, []string{"a"}) {
		t.Errorf("subjects %q, want the ID alone", got)
	}
	turn.Of = []string{"a", "b"}
	if got := turn.Subjects(); !cmp.Equal(got, []string{"a", "b"}) {
		t.Errorf("subjects %q, want those of all messages", got)
	}
	if got := turn.Quotes(); !cmp.Equal(got, []string{"m1", "m2", "m1"}) {
		t.Errorf("quotes %q", got)
	}
	without := turn.WithoutQuote("m1")
	if got := without.Quotes(); !cmp.Equal(got, []string{"m2"}) || len(without.Messages[0].Parts) != 2 {
		t.Errorf("without m1 the turn quotes %q", got)
	}
	if len(turn.Quotes()) != 3 {
		t.Error("the turn itself has changed")
	}
}

func TestUserMessages(t *testing.T) {
	user, assistant := says(llm.User, "q"), says(llm.Assistant, "a")
	for name, c := range map[string]struct {
		messages []llm.Message
		want     int
	}{
		"none":                       {nil, 0},
		"no word of a user":          {[]llm.Message{assistant}, 0},
		"all are of users":           {[]llm.Message{user, user}, 2},
		"those at the beginning":     {[]llm.Message{user, user, assistant, user}, 2},
		"those after an answer":      {[]llm.Message{assistant, user, assistant}, 1},
		"one before the assistant's": {[]llm.Message{user, assistant}, 1},
	} {
		got := conversation.Turn{Messages: c.messages}.UserMessages()
		if len(got) != c.want {
			t.Errorf("%s: %d messages, want %d", name, len(got), c.want)
		}
		for _, m := range got {
			if m.Role != llm.User {
				t.Errorf("%s: a message of role %s", name, m.Role)
			}
		}
	}
}

func TestBuildPutsTheSummaryFirst(t *testing.T) {
	turns := []conversation.Turn{{State: conversation.Answered, Messages: []llm.Message{says(llm.User, "now")}}}
	got := conversation.Build(conversation.Summary{Text: "they met"}, turns, "o/m")
	want := []llm.Message{{Role: llm.User, Parts: []llm.Part{
		{Text: "[What was said here before, in short:\nthey met\nEnd of that summary.]\n"},
		{Text: "now"},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestBuildSeparatesWhatPeopleSaid(t *testing.T) {
	said := func(texts ...string) []llm.Message {
		var list []llm.Message
		for _, text := range texts {
			list = append(list, says(llm.User, text))
		}
		return list
	}
	for name, c := range map[string]struct {
		messages []llm.Message
		want     []string
	}{
		"a line end between two people":   {said("one", "two"), []string{"one", "\n", "two"}},
		"none where there is one already": {said("one\n", "two"), []string{"one\n", "two"}},
		"none between parts of an answer": {[]llm.Message{says(llm.User, "q"), says(llm.Assistant, "a"),
			says(llm.Assistant, "b")},
			[]string{"q", "a", "b"}},
	} {
		var got []string
		for _, m := range conversation.Build(conversation.Summary{}, []conversation.Turn{{Messages: c.messages}}, "") {
			for _, p := range m.Parts {
				got = append(got, p.Text)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBuildOfEarlierTurns(t *testing.T) {
	turn := func(state conversation.State) conversation.Turn {
		return conversation.Turn{State: state, Messages: []llm.Message{says(llm.User, "q"), says(llm.Assistant, "half")}}
	}
	for state, want := range map[conversation.State]int{conversation.Answered: 1, conversation.Open: 0,
		conversation.Failed: 0} {
		got := conversation.Build(conversation.Summary{}, []conversation.Turn{turn(state), turn(conversation.Open)}, "")
		answers := 0
		for _, m := range got[:len(got)-1] {
			if m.Role == llm.Assistant {
				answers++
			}
		}
		if answers != want || got[len(got)-1].Role != llm.Assistant {
			t.Errorf("of an earlier turn that is %s %d answers are sent, want %d, and the present turn whole",
				state, answers, want)
		}
	}
}

func TestBuildLeavesOutWhatModelsRefuse(t *testing.T) {
	call := func(id, name, args string) llm.Part {
		return llm.Part{Call: &llm.Call{ID: id, Name: name, Args: json.RawMessage(args)},
			Raw: json.RawMessage(`{"signature":1}`)}
	}
	messages := []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "q"}, call("u", "t", `{}`), result("u", "not of a tool")}},
		{Role: llm.Assistant, Origin: "a", Parts: []llm.Part{
			call("", "t", `{}`), call("1", "", `{}`), call("2", "t", `{"a":1}`), call("2", "again", `{}`),
			call("3", "t", `[{}]`), call("4", "t", `{"cut`), {}, {Raw: json.RawMessage(`{"only":"raw"}`)},
			{Media: &llm.Media{}},
		}},
	}
	got := conversation.Build(conversation.Summary{}, []conversation.Turn{{Messages: messages}}, "a")
	var names []string
	for _, p := range got[1].Parts {
		switch {
		case p.Call != nil:
			names = append(names, p.Call.ID+" "+p.Call.Name+string(p.Call.Args)+string(p.Raw))
		case p.Media != nil:
			names = append(names, "media")
		default:
			names = append(names, string(p.Raw))
		}
	}
	want := []string{`2 t{"a":1}{"signature":1}`, `3 t{}`, `4 t{}`, `{"only":"raw"}`, "media"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("parts of the answer (-want +got):\n%s", diff)
	}
	if len(got[0].Parts) != 1 || len(got[2].Parts) != 3 {
		t.Errorf("the user's message has %d parts and %d results follow, want 1 and 3", len(got[0].Parts), len(got[2].Parts))
	}
}

// The newest turn counts like the others, and is kept whatever its size.
func TestTrim_CountsTheNewestTurn(t *testing.T) {
	turn := func(size int) conversation.Turn {
		return conversation.Turn{Messages: []llm.Message{{
			Role:  llm.User,
			Parts: []llm.Part{{Text: strings.Repeat("x", size)}},
		}}}
	}
	w := conversation.Window{MaxTurns: 10, MaxBytes: 100}
	for name, c := range map[string]struct {
		sizes []int
		kept  int
	}{
		"all are small but many":     {[]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 5},
		"the newest fills the half":  {[]int{40, 40, 10, 10, 45}, 1},
		"the newest leaves room":     {[]int{40, 40, 10, 10, 30}, 3},
		"the newest alone, too long": {[]int{500}, 1},
		"the newest too long":        {[]int{1, 1, 500}, 1},
	} {
		var turns []conversation.Turn
		for _, size := range c.sizes {
			turns = append(turns, turn(size))
		}
		if got := w.Trim(turns); len(got) != c.kept || got[len(got)-1].Size() != c.sizes[len(c.sizes)-1] {
			t.Errorf("%s: %d turns are kept, want the newest %d", name, len(got), c.kept)
		}
	}
}

// Providers accept only results in a tool message, so words from a damaged record are dropped.
func TestBuild_DropsWordsInToolMessages(t *testing.T) {
	turn := conversation.Turn{ID: "web/1", Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "go"}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "1", Name: "look", Args: []byte(`{}`)}}}},
		{Role: llm.ToolRole, Parts: []llm.Part{{Text: "stray"}, {Result: &llm.Result{ID: "1", Name: "look", Content: "seen"}}}},
	}}
	got := conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, "")
	if len(got) != 3 || got[2].Role != llm.ToolRole || len(got[2].Parts) != 1 || got[2].Parts[0].Result.Content != "seen" {
		t.Errorf("built %+v", got)
	}
}
