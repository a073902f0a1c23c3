package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// unreadable is a store of which a part cannot be read.
type unreadable struct {
	*memory
	turns, summary error
}

var errUnreadable = errors.New("the disk cannot be read")

func (u unreadable) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	if u.turns != nil {
		return nil, u.turns
	}
	return u.memory.Turns(ctx, a, r)
}

func (u unreadable) Summary(ctx context.Context, a chat.Address) (conversation.Summary, error) {
	if u.summary != nil {
		return conversation.Summary{}, u.summary
	}
	return u.memory.Summary(ctx, a)
}

// Who does not know what was said before must not answer as if nothing had been, nor forget it.
func TestUnreadableHistory_IsAnError(t *testing.T) {
	for name, broken := range map[string]unreadable{
		"turns":   {turns: errUnreadable},
		"summary": {summary: errUnreadable},
	} {
		t.Run(name, func(t *testing.T) {
			model := recorder()
			b := engine(nil, model)
			for n := range 60 {
				b.answer(t, t.Context(), one(asks(fmt.Sprint(n), "words")))
			}
			asked := len(model.Requests())
			broken.memory = b.memory
			b.options.Store = broken
			b.Engine = agent.New(b.options)
			if d := b.answer(t, t.Context(), one(asks("last", "what did I say?"))); !d.Failed {
				t.Errorf("answered %q", d.Text)
			}
			if n := len(model.Requests()) - asked; n != 0 {
				t.Errorf("the model was asked %d times", n)
			}
			if err := b.Compact(t.Context(), room); !errors.Is(err, errUnreadable) {
				t.Errorf("summarizing gave %v", err)
			}
			if s := b.memory.sums[room]; s.Text != "" {
				t.Errorf("the summary is %+v", s)
			}
		})
	}
}

// What people say names addresses at once. What a page says names them for the next step: the model
// has not read it when it makes the calls of this one.
func TestIsNamed_ByWhatTheModelHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const said, shown = "https://said.example/a", "https://shown.example/b"
		box := tools{
			"page": tool.Func{Described: tool.Spec{Server: "web", Name: "page", Native: true},
				Do: func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("see " + shown), nil }},
			"open": does(func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("opened"), nil }),
		}
		b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			switch n {
			case 1:
				return llmtest.Calls("page", `{}`, "open", `{"n":1}`), nil
			case 2:
				return llmtest.Calls("open", `{"n":2}`), nil
			}
			return llmtest.Says("done"), nil
		}})
		var named []string
		b.options.Calls = b.calls(func(c tool.Caller, n tool.Named) (tool.Decision, string) {
			if n.Name == "open" {
				<-time.After(time.Minute) // the page has been read
				named = append(named, fmt.Sprint(c.IsNamed(said), c.IsNamed(shown), c.IsNamed("https://other.example/")))
			}
			return tool.Allow, ""
		})
		b.Engine = b.over()
		b.answer(t, t.Context(), one(asks("1", "look at "+said)))
		if want := []string{"true false false", "true true false"}; !slices.Equal(named, want) {
			t.Errorf("said, shown and other addresses are named in the two steps: %q, want %q", named, want)
		}
	})
}

// The same where a crash has left a part of the results, which a provider wants in one message.
func TestIsNamed_AfterACrash_ByWhatTheModelHasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "https://first.example/a", "https://second.example/b"
		yes := true
		readOnly := tool.Hints{ReadOnly: &yes}
		box := tools{
			"page": tool.Func{Described: tool.Spec{Server: "web", Name: "page", Native: true, Hints: readOnly},
				Do: func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("see " + second), nil }},
			"open": tool.Func{Described: tool.Spec{Hints: readOnly},
				Do: func(context.Context, json.RawMessage) (tool.Result, error) { return tool.Text("opened"), nil }},
		}
		b := engine(box, recorder())
		named := ""
		b.options.Calls = b.calls(func(c tool.Caller, n tool.Named) (tool.Decision, string) {
			if n.Name == "open" {
				<-time.After(time.Minute)
				named = fmt.Sprint(c.IsNamed(first), c.IsNamed(second))
			}
			return tool.Allow, ""
		})
		b.Engine = b.over()
		call := func(id, name string) llm.Part {
			return llm.Part{Call: &llm.Call{ID: id, Name: name, Args: json.RawMessage(`{}`)}}
		}
		cut := conversation.Turn{ID: "web/go", State: conversation.Open, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "go"}}},
			{Role: llm.Assistant, Parts: []llm.Part{call("1", "page"), call("2", "page"), call("3", "open")}},
			{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "1", Name: "page", Content: "see " + first}}}},
		}}
		if err := b.memory.SaveTurn(t.Context(), room, &cut); err != nil {
			t.Fatal(err)
		}
		b.ask(t, "go")
		if named != "true false" {
			t.Errorf("what was read before and what was read beside the call is named: %q, want the first alone", named)
		}
	})
}

// Providers match a result with the name that the model called, also where the call is not made.
func TestRepeatedCall_ByAMetaTool_IsAnsweredUnderItsName(t *testing.T) {
	var ran []string
	var results []llm.Result
	b := engine(workshop(&ran), &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n > 1 {
			results = append(results, lastResults(r)...)
		}
		if n <= 6 {
			return llmtest.Calls("execute_tool", `{"name":"office_book_room","arguments":{"room":"blue"}}`), nil
		}
		return llmtest.Says("done"), nil
	}})
	b.options.Discovery = finder()
	b.options.Roster.(*roster).threshold = 40
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "book the blue room")))
	refused := 0
	for _, m := range b.memory.turns[room][0].Messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				results = append(results, *p.Result)
			}
		}
	}
	for _, r := range results {
		if r.Name != "execute_tool" {
			t.Errorf("a result is named %q", r.Name)
		}
		if strings.Contains(r.Content, "made before") {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("%d calls ran and none was refused", len(ran))
	}
}

func TestTools_NamesThoseOfOneServer(t *testing.T) {
	var ran []string
	b := engine(workshop(&ran), recorder())
	for said, want := range map[string]string{
		"":          "61 tools can be used here",
		" office ":  "**Tools of office**",
		"elsewhere": `No tool of "elsewhere" may be used here`,
	} {
		d, err := agent.Tools{Engine: b.Engine}.Handle(t.Context(), chat.Message{Conversation: room, Text: said})
		if err != nil || !d.Ephemeral || !strings.Contains(d.Text, want) || d.Failed != (said == "elsewhere") {
			t.Errorf("%q is answered %+v (%v), want %q", said, d, err, want)
		}
		if strings.Contains(d.Text, "shelf") && said != "" {
			t.Errorf("%q is answered with the tools of others: %s", said, d.Text)
		}
	}
}

// A turn that fails in the end shows what was done until then.
func TestFailure_AfterACall_ShowsTheCall(t *testing.T) {
	box := tools{"look": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Text("seen"), nil
	})}
	b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("look", `{}`), nil
		}
		return nil, &llm.Error{Kind: llm.Denied, Reason: "no key"}
	}})
	d := b.answer(t, t.Context(), one(asks("1", "look")))
	if !d.Failed || len(d.Tools) != 1 || d.Tools[0].Name != "look" {
		t.Errorf("answered %+v, want a failure with the call", d)
	}
}

// A provider may send a few letters at a time: the transcript has one text.
func TestAnswer_InPieces_IsOneText(t *testing.T) {
	b := engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
		return append([]llm.Chunk{{Parts: []llm.Part{{Text: "It is "}}}, {Parts: []llm.Part{{Text: "a "}}}},
			llmtest.Says("raven.")...), nil
	}})
	d := b.answer(t, t.Context(), one(asks("1", "what is it?")))
	turn := b.memory.turns[room][0]
	parts := turn.Messages[len(turn.Messages)-1].Parts
	if d.Text != "It is a raven." || len(parts) != 1 || parts[0].Text != d.Text {
		t.Errorf("answered %q, kept %+v", d.Text, parts)
	}
}

// The first ten files go with an answer: platforms take no more.
func TestFilesOfTools_AboveTen_AreLeftOut(t *testing.T) {
	box := tools{"draw": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		var files []chat.File
		for n := range 12 {
			files = append(files, chat.File{Name: fmt.Sprint(n, ".txt"), Type: "text/plain", Data: []byte("x")})
		}
		return tool.Result{Text: "drawn", Files: files}, nil
	})}
	b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("draw", `{}`), nil
		}
		return llmtest.Says("there"), nil
	}})
	if d := b.answer(t, t.Context(), one(asks("1", "draw"))); len(d.Files) != 10 || d.Files[9].Name != "9.txt" {
		t.Errorf("%d files are posted, want the first 10", len(d.Files))
	}
}

// A file for which no room is left is named as one, also where the files before it fill the room exactly.
func TestAttachedFiles_ThatFillTheRoom_LeaveOutTheNext(t *testing.T) {
	var words string
	b := engine(nil, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		words = r.Messages[len(r.Messages)-1].Text()
		return llmtest.Says("read"), nil
	}})
	b.options.Files = files(func(_ context.Context, _ string, f chat.File, _ int64) ([]byte, error) {
		return []byte(strings.Repeat("x", int(f.Size))), nil
	})
	b.Engine = b.over()
	m := asks("1", "read")
	for n, size := range []int64{48 << 10, 48 << 10, 32 << 10, 1000} {
		m.Files = append(m.Files, chat.File{Name: fmt.Sprint(n, ".txt"), Type: "text/plain", Size: size})
	}
	b.answer(t, t.Context(), one(m))
	if want := "3.txt, text/plain, which could not be read: the files before it have all the room"; !strings.Contains(words, want) {
		t.Errorf("the end is %q, want %q", words[max(0, len(words)-300):], want)
	}
	m = asks("2", "read")
	for n, size := range []int64{48 << 10, 48 << 10, 32<<10 - 1, 1000} {
		m.Files = append(m.Files, chat.File{Name: fmt.Sprint(n, ".txt"), Type: "text/plain", Size: size})
	}
	b.answer(t, t.Context(), one(m))
	if want := "x\n[cut: 999 more bytes]"; !strings.Contains(words, want) {
		t.Errorf("the end is %q, want %q", words[max(0, len(words)-300):], want)
	}
}

// forgetting is a store in which a conversation is deleted with an outcome.
type forgetting struct {
	*memory
	err error
}

func (f forgetting) DeleteConversation(context.Context, chat.Address) error { return f.err }

// Nobody is told that something is forgotten which is still there.
func TestForget_SaysWhatBecameOfIt(t *testing.T) {
	for want, outcome := range map[string]error{
		"Forgotten:":                             nil,
		"There is nothing here that I remember.": store.ErrNotFound,
		"":                                       errUnreadable,
	} {
		b := engine(nil, recorder())
		b.options.Store = forgetting{b.memory, outcome}
		m := chat.Message{ID: "1", Conversation: room, Command: "forget", Author: chat.User{ID: "U1", Admin: true}}
		d, err := agent.Control{Engine: agent.New(b.options)}.Handle(t.Context(), m)
		switch {
		case want == "" && (!errors.Is(err, errUnreadable) || d != nil):
			t.Errorf("with a store that fails: %+v, %v", d, err)
		case want != "" && (err != nil || !strings.HasPrefix(d.Text, want)):
			t.Errorf("%+v, %v, want %q", d, err, want)
		}
	}
}

// A model whose steps are used up is told so, or it would go on calling tools instead of answering.
func TestMaxSteps_UsedUp_TheModelIsTold(t *testing.T) {
	box := tools{"look": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Text("seen"), nil
	})}
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if strings.Contains(r.System, "No more tools can be called") {
			return llmtest.Says("that is all I found"), nil
		}
		return llmtest.Calls("look", fmt.Sprintf(`{"n":%d}`, n)), nil
	}}
	b := engine(box, model)
	inProfile(b, func(p *agent.Profile) { p.MaxSteps = 2 })
	d := b.answer(t, t.Context(), one(asks("1", "look")))
	if d.Text != "that is all I found" || len(d.Tools) != 2 {
		t.Errorf("answered %q after %d calls, want an answer after 2", d.Text, len(d.Tools))
	}
}
