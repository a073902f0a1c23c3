package conversation_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/testing/llmtest"
)

func says(role llm.Role, text string) llm.Message {
	return llm.Message{Role: role, Parts: []llm.Part{{Text: text}}}
}

func calls(id, name string) llm.Part {
	return llm.Part{Call: &llm.Call{ID: id, Name: name, Args: json.RawMessage(`{}`)}}
}

func result(id, content string) llm.Part {
	return llm.Part{Result: &llm.Result{ID: id, Content: content}}
}

func TestBuildKeepsAWholeTurnAsItIs(t *testing.T) {
	call := calls("c1", "web_fetch")
	call.Raw = json.RawMessage(`{"thoughtSignature":"AQ=="}`)
	want := []llm.Message{
		says(llm.User, "look"),
		{Role: llm.Assistant, Origin: "gemini/a", Parts: []llm.Part{call}},
		{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "c1", Name: "web_fetch", Content: "page"}}}},
		{Role: llm.Assistant, Origin: "gemini/a", Parts: []llm.Part{{Text: "it says page"}}},
	}
	turn := conversation.Turn{State: conversation.Answered, Messages: want}
	got := conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, "gemini/a")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("built messages differ (-want +got):\n%s", diff)
	}
}

func TestBuildGivesALostCallItsResult(t *testing.T) {
	turn := conversation.Turn{State: conversation.Open, Messages: []llm.Message{
		says(llm.User, "delete it"),
		{Role: llm.Assistant, Parts: []llm.Part{calls("c1", "files_delete")}},
	}}
	got := conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, "x/y")
	last := got[len(got)-1]
	if last.Role != llm.ToolRole || last.Parts[0].Result.Content != conversation.Interrupted {
		t.Errorf("the lost call was answered with %+v, want the word that it was interrupted", last)
	}
}

func TestBuildDropsForeignSignatures(t *testing.T) {
	call := calls("c1", "t")
	call.Raw = json.RawMessage(`{"thoughtSignature":"AQ=="}`)
	turn := conversation.Turn{State: conversation.Answered, Messages: []llm.Message{
		says(llm.User, "q"),
		{Role: llm.Assistant, Origin: "gemini/a", Parts: []llm.Part{{Text: "hm", Thought: true}, call}},
		{Role: llm.ToolRole, Parts: []llm.Part{result("c1", "r")}},
		{Role: llm.Assistant, Origin: "gemini/a", Parts: []llm.Part{{Text: "answer"}}},
	}}
	got := conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, "openai/b")
	for _, m := range got {
		for _, p := range m.Parts {
			if p.Raw != nil || p.Thought {
				t.Errorf("part %+v of another model went out", p)
			}
		}
	}
}

// A part without its signature is kept if it is an image and dropped if it is empty.
func TestBuild_PartsOfAnotherModel_StayWhereSomethingIsLeft(t *testing.T) {
	raw := json.RawMessage(`{"signature":1}`)
	image := llm.Part{Media: &llm.Media{Type: "image/png"}}
	turn := conversation.Turn{Messages: []llm.Message{
		says(llm.User, "draw"),
		{Role: llm.Assistant, Origin: "gemini/a", Parts: []llm.Part{{Raw: raw}, {Media: image.Media, Raw: raw}, {Raw: raw}}},
	}}
	got := conversation.Build(conversation.Summary{}, []conversation.Turn{turn}, "openai/b")
	if diff := cmp.Diff([]llm.Part{image}, got[len(got)-1].Parts); diff != "" {
		t.Errorf("parts of the answer (-want +got):\n%s", diff)
	}
}

// A damaged record may have lost everything except a call.
func TestBuild_TurnOfACallAlone_GetsAResult(t *testing.T) {
	turns := []conversation.Turn{
		{State: conversation.Answered, Messages: []llm.Message{says(llm.User, "q")}},
		{State: conversation.Open, Messages: []llm.Message{{Role: llm.Assistant, Parts: []llm.Part{calls("c1", "look")}}}},
	}
	got := conversation.Build(conversation.Summary{}, turns, "")
	if fault := llmtest.Malformed(got); fault != "" || len(got) != 3 {
		t.Errorf("%s in %+v, want the question, the call and its result", fault, got)
	}
}

// Models invent names of tools. Providers would refuse each later request with an invalid one.
func TestBuild_NameThatNoToolCanHave_IsReplaced(t *testing.T) {
	for name, want := range map[string]string{
		"functions.look up":      "functions_look_up",
		"2nd":                    "_2nd",
		"-x":                     "_-x",
		"größe":                  "gr__e",
		"look_up-2":              "look_up-2",
		strings.Repeat("x", 100): strings.Repeat("x", 63),
	} {
		called := calls("c1", name)
		called.Raw = json.RawMessage(`{"functionCall":{}}`)
		turns := []conversation.Turn{{State: conversation.Open, Messages: []llm.Message{says(llm.User, "q"),
			{Role: llm.Assistant, Parts: []llm.Part{called}},
			{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "c1", Name: name, Content: "unknown"}}}}}}}
		got := conversation.Build(conversation.Summary{}, turns, "")
		call, result := got[1].Parts[0], got[2].Parts[0].Result
		if call.Call.Name != want || result.Name != want || result.Content != "unknown" {
			t.Errorf("%q became %q with a result of %q, want %q", name, call.Call.Name, result.Name, want)
		}
		if keeps := name == want; keeps != (call.Raw != nil) {
			t.Errorf("%q: raw part %s", name, call.Raw)
		}
		if turns[0].Messages[1].Parts[0].Call.Name != name {
			t.Errorf("the turn itself was changed")
		}
	}
}

func TestTrimCutsToHalfOnTurnBorders(t *testing.T) {
	var turns []conversation.Turn
	for i := range 41 {
		turns = append(turns, conversation.Turn{ID: fmt.Sprint(i), Messages: []llm.Message{says(llm.User, "x")}})
	}
	w := conversation.Window{MaxTurns: 40, MaxBytes: 1 << 20}
	if got := w.Trim(turns[:40]); len(got) != 40 {
		t.Errorf("a window of 40 was cut to %d although it fits", len(got))
	}
	if got := w.Trim(turns); len(got) != 20 || got[19].ID != "40" {
		t.Errorf("41 turns became %d, want the newest 20", len(got))
	}
}

// TestBuildIsWellFormedWhateverIsStored builds from turns with arbitrary messages, in worse disorder than any crash
// causes.
func TestBuildIsWellFormedWhateverIsStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns := rapid.SliceOfN(anyTurn(), 1, 6).Draw(t, "turns")
		turns[len(turns)-1].Messages = slices.Insert(turns[len(turns)-1].Messages, 0, says(llm.User, "now"))
		before, _ := json.Marshal(turns)
		got := conversation.Build(conversation.Summary{}, turns, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "origin"))
		if fault := llmtest.Malformed(got); fault != "" {
			t.Fatalf("%s in %+v", fault, got)
		}
		if after, _ := json.Marshal(turns); string(before) != string(after) {
			t.Fatal("Build changed the turns that it was given")
		}
	})
}

func anyTurn() *rapid.Generator[conversation.Turn] {
	return rapid.Custom(func(t *rapid.T) conversation.Turn {
		return conversation.Turn{
			State: rapid.SampledFrom([]conversation.State{conversation.Open, conversation.Answered,
				conversation.Failed}).Draw(t, "state"),
			Messages: rapid.SliceOfN(anyMessage(), 0, 6).Draw(t, "messages"),
		}
	})
}

func anyMessage() *rapid.Generator[llm.Message] {
	return rapid.Custom(func(t *rapid.T) llm.Message {
		return llm.Message{
			Role:   rapid.SampledFrom([]llm.Role{llm.User, llm.Assistant, llm.ToolRole}).Draw(t, "role"),
			Origin: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "origin"),
			Parts:  rapid.SliceOfN(anyPart(), 0, 4).Draw(t, "parts"),
		}
	})
}

func anyPart() *rapid.Generator[llm.Part] {
	return rapid.Custom(func(t *rapid.T) llm.Part {
		id := rapid.SampledFrom([]string{"", "1", "2", "3"}).Draw(t, "id")
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return llm.Part{Text: rapid.SampledFrom([]string{"", "text"}).Draw(t, "text"),
				Thought: rapid.Bool().Draw(t, "thought")}
		case 1:
			args := rapid.SampledFrom([]string{`{}`, `{"a":1}`, `[1`, `7`, ``}).Draw(t, "args")
			return llm.Part{Call: &llm.Call{ID: id, Name: rapid.SampledFrom([]string{"", "t"}).Draw(t, "name"),
				Args: json.RawMessage(args)}}
		case 2:
			return llm.Part{Result: &llm.Result{ID: id, Content: strings.Repeat("r", rapid.IntRange(0, 5000).Draw(t, "length"))}}
		}
		return llm.Part{Raw: json.RawMessage(`{"x":1}`)}
	})
}
