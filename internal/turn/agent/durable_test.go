package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

func asks(id, text string) chat.Message {
	return chat.Message{ID: id, Text: text, Conversation: room, Author: chat.User{ID: "U1"}}
}

func edit(id, text string) chat.Asked {
	m := asks(id, text)
	m.Change, m.Revision = chat.Edited, "1"
	return chat.Asked{Messages: []chat.Message{m}}
}

func one(m chat.Message) chat.Asked { return chat.Asked{Turn: m.Key(), Messages: []chat.Message{m}} }

// answer asks, and keeps the turn as delivery does.
func (b *bench) answer(t testing.TB, ctx context.Context, q chat.Asked) *chat.Draft {
	t.Helper()
	// The conversation's feature comes first, as in the bot.
	if d, err := (agent.Conversation{Engine: b.Engine}).Handle(ctx, q.Last()); d != nil || err != nil {
		return d
	}
	turn, d := b.Answer(ctx, q, func(chat.Progress) {})
	if turn != nil {
		if err := b.memory.SaveTurn(context.WithoutCancel(ctx), room, turn); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// quoting answers with all that a request holds.
func quoting(_ int, r llm.Request) ([]llm.Chunk, error) {
	var all []string
	for _, m := range r.Messages {
		all = append(all, string(m.Role)+":"+m.Text())
	}
	return llmtest.Says(fmt.Sprintf("%d: %s", len(r.Messages), all[len(all)-1])), nil
}

// counting is a tool that counts its runs and says nothing about repeating.
func counting(n *atomic.Int32) tool.Func {
	return does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Text(fmt.Sprint("run ", n.Add(1))), nil
	})
}

func TestAnEditedQuestionIsAnsweredAnewWithoutRepeatingWhatWasDone(t *testing.T) {
	var runs atomic.Int32
	b := engine(tools{"pay": counting(&runs)}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("pay", `{}`), nil
		}
		return llmtest.Says(fmt.Sprintf("%d messages, asked %q", len(r.Messages), r.Messages[0].Text())), nil
	}})
	b.answer(t, t.Context(), one(asks("1", "pay twnty")))
	d := b.answer(t, t.Context(), edit("1", "pay twenty"))
	if d == nil || !strings.Contains(d.Text, `3 messages, asked "pay twenty`) || len(d.Tools) != 1 {
		t.Errorf("the edited question was answered %+v, want it asked with the call already made", d)
	}
	if runs.Load() != 1 {
		t.Errorf("the tool ran %d times", runs.Load())
	}
	turns := b.memory.turns[room]
	if len(turns) != 1 || turns[0].State != conversation.Answered ||
		strings.Contains(fmt.Sprint(turns[0].UserMessages()), "twnty") {
		t.Errorf("stored turns %+v, want the one with its new words", turns)
	}
	if d := b.answer(t, t.Context(), edit("1", "pay twenty")); d != nil {
		t.Errorf("an edit that changes no word was answered %q", d.Text)
	}
	if d := b.answer(t, t.Context(), edit("unknown", "hello")); d != nil {
		t.Errorf("an edit of an unknown message was answered %q", d.Text)
	}
}

func TestSeveralMessagesAreOneTurn(t *testing.T) {
	var caller chat.User
	who := does(func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
		caller = tool.CallerFrom(ctx).User
		return tool.Text("ok"), nil
	})
	b := engine(tools{"who": who}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("who", `{}`), nil
		}
		return llmtest.Says(r.Messages[0].Text()), nil
	}})
	anna, berit := asks("1", "one"), asks("2", "two")
	anna.Author, berit.Author = chat.User{ID: "U1", Admin: true}, chat.User{ID: "U2"}
	d := b.answer(t, t.Context(), chat.Asked{Turn: anna.Key(), Messages: []chat.Message{anna, berit}})
	if !strings.HasPrefix(d.Text, "one\ntwo\n") || !strings.Contains(d.Text, "The last 2 messages") {
		t.Errorf("the question was %q", d.Text)
	}
	if caller.ID != "" || caller.Admin {
		t.Errorf("tools ran for %+v, want nobody in particular", caller)
	}
	if of := b.memory.turns[room][0].Of; len(of) != 2 || of[1] != "web/2" {
		t.Errorf("the turn is of %v", of)
	}
}

func TestARevisionCutsOffTheModelAndNotATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		slow := does(func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
			select {
			case <-time.After(time.Minute):
				return tool.Text(fmt.Sprint("run ", runs.Add(1))), nil
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			}
		})
		b := engine(tools{"slow": slow}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls("slow", `{}`), nil
			}
			return llmtest.Says(r.Messages[0].Text() + ": " + lastResults(r)[0].Content), nil
		}})
		revised, revise := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, revise)
		q := one(asks("1", "first"))
		q.Revised = revised
		began := time.Now()
		if turn, d := b.Answer(t.Context(), q, func(chat.Progress) {}); turn != nil || d != nil {
			t.Errorf("a revised question was answered %+v", d)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("the tool was left after %v", took)
		}
		q = one(asks("1", "second"))
		d := b.answer(t, t.Context(), q)
		if !strings.HasPrefix(d.Text, "second") || !strings.HasSuffix(d.Text, ": run 1") || runs.Load() != 1 {
			t.Errorf("answered %q after %d runs, want the new words and the one run", d.Text, runs.Load())
		}
	})
}

func TestStopKeepsWhatWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := does(func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
		b := engine(tools{"hangs": hangs}, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls("hangs", `{}`), nil
			}
			if fault := llmtest.Malformed(r.Messages); fault != "" {
				t.Error(fault)
			}
			return llmtest.Says(fmt.Sprint(r.Messages)), nil
		}})
		ctx, stop := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { stop(chat.ErrStopped) })
		if d := b.answer(t, ctx, one(asks("1", "go"))); d == nil || d.Text != "Stopped." {
			t.Errorf("a stopped question was answered %+v", d)
		}
		b.answer(t, t.Context(), one(asks("2", "next")))
		last := b.memory.turns[room][1]
		if text := last.Messages[1].Text(); !strings.Contains(text, "hangs") && len(b.memory.turns[room][0].Messages) < 3 {
			t.Errorf("the next request does not know of the stopped one: %s", text)
		}
	})
}

func TestAResultIsOnRecordWhenItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		slow := does(func(ctx context.Context, _ json.RawMessage) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		})
		box := tools{"quick": counting(&runs), "slow": slow}
		b := engine(box, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				return llmtest.Calls("quick", `{}`, "slow", `{}`), nil
			}
			res := lastResults(r)
			return llmtest.Says(res[0].Content + "; " + res[1].Content), nil
		}})
		crash, die := context.WithTimeout(t.Context(), time.Minute)
		defer die()
		b.answer(t, crash, one(asks("1", "go")))
		again := engine(box, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
			res := lastResults(r)
			return llmtest.Says(res[0].Content + "; " + res[1].Content), nil
		}})
		again.memory = b.memory
		again.Engine = b.over()
		d := again.answer(t, t.Context(), one(asks("1", "go")))
		if want := "run 1; " + conversation.Interrupted; d.Text != want || runs.Load() != 1 {
			t.Errorf("answered %q after %d runs, want %q after one", d.Text, runs.Load(), want)
		}
		if !strings.Contains(d.Footer, "whether slow took effect is not known") || len(d.Tools) != 2 {
			t.Errorf("footer %q with %d calls, want the unknown outcome told", d.Footer, len(d.Tools))
		}
	})
}

// talk fills the conversation until its window overflows.
func talk(t *testing.T, b *bench) {
	t.Helper()
	for n := range 41 {
		b.answer(t, t.Context(), one(asks(fmt.Sprint(n), fmt.Sprintf("question number %d about secret%d", n, n))))
	}
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
}

func TestOldTurnsBecomeASummary(t *testing.T) {
	for name, says := range map[string]string{"by a model": "they asked twenty things", "without one": ""} {
		t.Run(name, func(t *testing.T) {
			b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
				if strings.HasPrefix(r.System, "You keep the memory") {
					if says == "" {
						return nil, &llm.Error{Kind: llm.Denied, Reason: "no key"}
					}
					return llmtest.Says(says), nil
				}
				return quoting(n, r)
			}})
			talk(t, b)
			s := b.memory.sums[room]
			if s.Upto != 21 || !strings.Contains(s.Text, says) || says == "" && !strings.Contains(s.Text, "question number 3") {
				t.Fatalf("summary %+v, want the first 21 turns in it", s)
			}
			var got llm.Request
			b2 := engine(nil, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
				got = r
				return llmtest.Says("ok"), nil
			}})
			b2.memory = b.memory
			b2.Engine = b2.over()
			b2.answer(t, t.Context(), one(asks("next", "and now?")))
			if fault := llmtest.Malformed(got.Messages); fault != "" || !strings.Contains(got.Messages[0].Text(), s.Text) ||
				len(got.Messages) != 41 {
				t.Errorf("the next request (%s) has %d messages and begins %q, want the summary and 20 turns", fault,
					len(got.Messages), got.Messages[0].Text())
			}
		})
	}
}

func TestADeletedMessageLeavesHistoryAndSummary(t *testing.T) {
	var last llm.Request
	b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if strings.HasPrefix(r.System, "You keep the memory") {
			return llmtest.Says("among others secret3"), nil
		}
		last = r
		return quoting(n, r)
	}})
	talk(t, b)
	for _, id := range []string{"3", "30"} {
		if err := b.Purge(t.Context(), "web/"+id); err != nil {
			t.Fatal(err)
		}
	}
	b.answer(t, t.Context(), one(asks("next", "and now?")))
	request := fmt.Sprint(last.Messages)
	if strings.Contains(request, "secret3 ") || strings.Contains(request, "secret30") ||
		!strings.Contains(request, "secret4") || !strings.Contains(request, "secret31") {
		t.Errorf("after the deletion the request is %s", request)
	}
	if err := b.Purge(t.Context(), "web/unknown"); err != nil {
		t.Error(err)
	}
	b.answer(t, t.Context(), edit("5", "harmless"))
	if text := b.memory.sums[room].Text; strings.Contains(text, "secret5") || !strings.Contains(text, "harmless") {
		t.Errorf("after an edit of an old message the summary is %q", text)
	}
}

// A summary that retention emptied is made again from the turns that are left, and what the engine
// remembered of the others is gone.
func TestForgetExpired_BeginsWithWhatIsLeft(t *testing.T) {
	var last llm.Request
	b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if strings.HasPrefix(r.System, "You keep the memory") {
			return llmtest.Says("the words of long ago"), nil
		}
		last = r
		return quoting(n, r)
	}})
	talk(t, b)
	s := b.memory.sums[room]
	if s.From != 1 || s.Since.IsZero() {
		t.Errorf("the summary says that it begins with turn %d of %v", s.From, s.Since)
	}
	b.memory.turns[room] = b.memory.turns[room][5:]
	b.memory.sums[room] = conversation.Summary{Upto: s.Upto, From: s.Upto + 1}
	if err := b.ForgetExpired(t.Context(), []chat.Address{room}); err != nil {
		t.Fatal(err)
	}
	if again := b.memory.sums[room]; again.From != 6 || again.Upto != s.Upto {
		t.Errorf("the new summary covers turns %d to %d", again.From, again.Upto)
	}
	b.answer(t, t.Context(), one(asks("next", "and now?")))
	request := fmt.Sprint(last.Messages)
	if strings.Contains(request, "long ago") || strings.Contains(request, "secret3 ") ||
		!strings.Contains(request, "secret31") {
		t.Errorf("the next request is %s", request)
	}
}

// What another process has stored or deleted is known when the channel comes to this one, and when it says that it has
// deleted something.
func TestForgetChannelAndReload_ReadWhatOtherProcessesDid(t *testing.T) {
	var last llm.Request
	b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		last = r
		return llmtest.Says("well"), nil
	}})
	b.answer(t, t.Context(), one(asks("1", "the first question")))
	other := conversation.Turn{ID: "elsewhere", Seq: 2, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "asked of another process"}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Text: "answered there"}}}}}
	b.memory.turns[room] = append(b.memory.turns[room], other)
	b.ForgetChannel(chat.Address{Platform: "elsewhere", Channel: "other"})
	b.ForgetChannel(room.Base())
	b.answer(t, t.Context(), one(asks("2", "the second question")))
	if request := fmt.Sprint(last.Messages); !strings.Contains(request, "asked of another process") {
		t.Errorf("the channel came to this process, and the next request is %s", request)
	}
	b.memory.turns[room] = nil
	if err := b.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.answer(t, t.Context(), one(asks("3", "the third question")))
	if request := fmt.Sprint(last.Messages); strings.Contains(request, "the first question") {
		t.Errorf("another process deleted the conversation, and the next request is %s", request)
	}
}

// TestNoTranscriptCanBrick lets a conversation live through everything at once:
// crashes at any write, edits, deletions, revisions, stops, other models, lost
// records and compaction; whatever is left, every request is well formed, and no
// call that is on record as done runs again.
func TestNoTranscriptCanBrick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &life{t: t, memory: &memory{turns: map[chat.Address][]conversation.Turn{},
			sums: map[chat.Address]conversation.Summary{}}, runs: map[string]int{}}
		l.start()
		steps := rapid.IntRange(1, 25).Draw(t, "steps")
		for n := range steps {
			l.step(n)
		}
		for args, n := range l.runs {
			if n > 1 {
				t.Fatalf("the call with %s ran %d times", args, n)
			}
		}
	})
}

type life struct {
	t      *rapid.T
	memory *memory
	b      *bench
	asked  []chat.Message
	runs   map[string]int
	model  string
}

// start is a start of the program: nothing is remembered but what is stored.
func (l *life) start() {
	pay := does(func(_ context.Context, args json.RawMessage) (tool.Result, error) {
		l.runs[string(args)]++
		return tool.Text(strings.Repeat("paid ", 500)), nil
	})
	l.model = rapid.SampledFrom([]string{"a", "b"}).Draw(l.t, "model")
	model := &llmtest.Model{Name: l.model, Script: l.script}
	l.b = engine(tools{"pay": pay}, model)
	l.b.memory = l.memory
	l.b.Engine = l.b.over()
}

func (l *life) script(_ int, r llm.Request) ([]llm.Chunk, error) {
	if fault := llmtest.Malformed(r.Messages); fault != "" {
		l.t.Fatalf("%s in %+v", fault, r.Messages)
	}
	for _, m := range r.Messages {
		for _, p := range m.Parts {
			if len(p.Raw) > 0 && m.Origin != "test/"+l.model {
				l.t.Fatalf("raw part of %s sent to %s", m.Origin, l.model)
			}
		}
	}
	if len(r.Tools) > 0 && rapid.IntRange(0, 2).Draw(l.t, "calls") > 0 {
		n := len(l.runs) + 1000*rapid.IntRange(0, 1_000_000).Draw(l.t, "nonce")
		c := llmtest.Calls("pay", fmt.Sprintf(`{"n":%d}`, n))
		c[0].Parts[0].Raw = json.RawMessage(`{"thoughtSignature":"` + l.model + `"}`)
		return c, nil
	}
	return llmtest.Says("answer"), nil
}

func (l *life) step(n int) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	l.memory.crashAfter(rapid.IntRange(0, 12).Draw(l.t, "writes until a crash"), cancel)
	defer l.memory.crashAfter(-1, nil)
	known := func() chat.Message { return l.asked[rapid.IntRange(0, len(l.asked)-1).Draw(l.t, "which")] }
	what := rapid.IntRange(0, 7).Draw(l.t, "what")
	if len(l.asked) == 0 {
		what = 0
	}
	switch what {
	case 0, 1, 2:
		q := chat.Asked{}
		for i := range rapid.IntRange(1, 3).Draw(l.t, "messages") {
			q.Messages = append(q.Messages, asks(fmt.Sprint(n, "-", i),
				strings.Repeat("words ", rapid.IntRange(1, 2000).Draw(l.t, "length"))))
		}
		q.Turn = q.Messages[0].Key()
		l.asked = append(l.asked, q.Messages...)
		l.live(ctx, q)
	case 3:
		l.live(ctx, edit(known().ID, fmt.Sprint("edited at ", n)))
	case 4:
		_ = l.b.Purge(ctx, known().Subject())
	case 5:
		_ = l.b.Compact(ctx, room)
	case 6:
		if turns := l.memory.turns[room]; len(turns) > 0 { // a record is lost
			turns[rapid.IntRange(0, len(turns)-1).Draw(l.t, "lost")] = conversation.Turn{}
		}
		l.start()
	case 7:
		cancel(chat.ErrStopped)
		l.live(ctx, one(known()))
	}
}

// live answers until there is an outcome, starting again after each crash.
func (l *life) live(ctx context.Context, q chat.Asked) {
	turn, _ := l.b.Answer(ctx, q, func(chat.Progress) {})
	if turn != nil && (ctx.Err() == nil || errors.Is(context.Cause(ctx), chat.ErrStopped)) {
		l.memory.crashAfter(-1, nil)
		_ = l.memory.SaveTurn(context.Background(), room, turn)
		return
	}
	if ctx.Err() != nil {
		l.memory.crashAfter(-1, nil)
		l.start()
		l.live(context.Background(), q)
	}
}

// over is an engine that knows nothing but what is stored.
func (b *bench) over() *agent.Engine {
	b.options.Store = b.memory
	return agent.New(b.options)
}

func TestButtonsAreHeard(t *testing.T) {
	down := true
	b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if down {
			return nil, &llm.Error{Kind: llm.Denied, Reason: "no key"}
		}
		return quoting(n, r)
	}})
	press := func(value string) *chat.Draft {
		m := asks("press/"+value, value)
		m.Command = chat.Pressed
		return b.answer(t, t.Context(), chat.Asked{Messages: []chat.Message{m}})
	}
	if d := b.answer(t, t.Context(), one(asks("1", "hello"))); !d.Failed {
		t.Fatalf("answered %q without a model", d.Text)
	}
	down = false
	if d := press(chat.PressRetry + "web/1"); d == nil || d.Failed || d.Text != "1: user:hello" {
		t.Errorf("the second try gave %+v", d)
	}
	if turns := b.memory.turns[room]; len(turns) != 1 || turns[0].State != conversation.Answered {
		t.Errorf("the turns are %+v, want the one answered", turns)
	}
	if d := press(chat.PressBad + "web/1"); !d.Ephemeral || len(b.memory.words) != 1 || b.memory.words[0].Good ||
		b.memory.words[0].Turn != "web/1" {
		t.Errorf("feedback %+v was answered %+v", b.memory.words, d)
	}
	for _, value := range []string{"unknown", chat.PressRetry + "nobody"} {
		if d := press(value); d == nil || !d.Ephemeral {
			t.Errorf("%q was answered %+v", value, d)
		}
	}
}

func TestFilesOfAMessageAreReadAndShown(t *testing.T) {
	var blind bool
	var requests []llm.Request
	b := engine(nil, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		requests = append(requests, r)
		for _, p := range r.Messages[len(r.Messages)-1].Parts {
			if p.Media != nil && blind {
				return nil, &llm.Error{Kind: llm.BadRequest, Reason: "no images here"}
			}
		}
		return llmtest.Says("seen"), nil
	}})
	b.options.Files = files(func(_ context.Context, platform string, f chat.File, limit int64) ([]byte, error) {
		if f.Name == "lost.txt" || platform != "web" || limit <= 0 {
			return nil, errors.New("gone")
		}
		return []byte("content of " + f.Name), nil
	})
	b.Engine = b.over()
	m := asks("1", "")
	m.Files = []chat.File{{Name: "notes.md", Type: "text/markdown; charset=utf-8"}, {Name: "cat.png", Type: "image/png"},
		{Name: "lost.txt", Type: "text/plain"}, {Name: "a.zip", Type: "application/zip"}}
	for _, blind = range []bool{false, true} {
		m.ID += "x"
		d := b.answer(t, t.Context(), one(m))
		if d.Text != "seen" || strings.Contains(d.Footer, "takes no images") != blind {
			t.Errorf("answered %q, footer %q", d.Text, d.Footer)
		}
	}
	words, images := "", 0
	for _, p := range requests[0].Messages[0].Parts {
		if words += p.Text; p.Media != nil && p.Media.Type == "image/png" && string(p.Media.Data) == "content of cat.png" {
			images++
		}
	}
	for _, want := range []string{"content of notes.md", "[attached: cat.png, image/png]",
		"lost.txt, text/plain, which could not be read: it could not be fetched from web]",
		"[attached: a.zip, application/zip, which could not be read: files of this kind are not read]"} {
		if !strings.Contains(words, want) {
			t.Errorf("the words lack %q: %s", want, words)
		}
	}
	if images != 1 || len(requests) != 3 {
		t.Errorf("%d images, %d requests; want the image, and without it for the model that refuses it",
			images, len(requests))
	}
}

func TestPicturesOfToolsAreShownToTheModel(t *testing.T) {
	const drawn, most = 5, 4
	box := tools{"draw": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Result{Text: "[image: image/png, 1 byte]",
			Files: []chat.File{{Name: "a.png", Type: "image/png", Data: []byte("a")},
				{Name: "b.mp3", Type: "audio/mpeg", Data: []byte("b")}}}, nil
	})}
	for _, blind := range []bool{false, true} {
		var last llm.Request
		b := engine(box, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
			last = r
			for _, p := range r.Messages[0].Parts {
				if p.Media != nil && blind {
					return nil, &llm.Error{Kind: llm.BadRequest, Reason: "no images here"}
				}
			}
			if calls := len(r.Messages) / 2; calls < drawn {
				return llmtest.Calls("draw", fmt.Sprintf(`{"n":%d}`, calls)), nil
			}
			return llmtest.Says("drawn"), nil
		}})
		if d := b.answer(t, t.Context(), one(asks("1", "draw"))); d.Text != "drawn" || len(d.Files) != 2*drawn ||
			strings.Contains(d.Footer, "takes no images") != blind {
			t.Fatalf("answered %q with %d files, %q", d.Text, len(d.Files), d.Footer)
		}
		labels, images := 0, 0
		for _, p := range last.Messages[0].Parts {
			if p.Media != nil {
				images++
			} else if strings.Contains(p.Text, "the tool draw gave it as a.png") {
				labels++
			}
		}
		if want := map[bool]int{false: most, true: 0}[blind]; images != want || labels != want {
			t.Errorf("blind %v: the model was shown %d images with %d labels, want %d", blind, images, labels, want)
		}
	}
}

func TestTheCallsBehindAnAnswerAreShownWhereItWasGiven(t *testing.T) {
	box := tools{"look": does(func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Text("a ```fence``` and " + strings.Repeat("more ", 100)), nil
	})}
	b := engine(box, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Calls("look", `{"at":"it"}`), nil
		}
		return llmtest.Says("seen"), nil
	}})
	b.answer(t, t.Context(), one(asks("1", "look")))
	m := asks("press", chat.PressTools+"web/1")
	m.Command = chat.Pressed
	d := b.answer(t, t.Context(), chat.Asked{Messages: []chat.Message{m}})
	if !d.Ephemeral || !strings.Contains(d.Text, "`look`: done") ||
		!strings.Contains(d.Text, "```\n{\"at\":\"it\"}\n```") || !strings.Contains(d.Text, "````\na ```fence```") ||
		len(d.Text) > 900 {
		t.Errorf("shown as %+v", d)
	}
	m.Conversation = chat.Address{Platform: "web", Channel: "elsewhere"}
	if d := b.answer(t, t.Context(), chat.Asked{Messages: []chat.Message{m}}); strings.Contains(d.Text, "look") {
		t.Errorf("elsewhere shown as %+v", d)
	}
}
