package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// store puts turns of a question and an answer into the conversation.
func (b *bench) store(t *testing.T, turns ...[2]string) {
	t.Helper()
	for _, words := range turns {
		turn := conversation.Turn{
			ID:    "web/" + words[0],
			State: conversation.Answered,
			Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{{Text: words[0]}}},
				{Role: llm.Assistant, Parts: []llm.Part{{Text: words[1]}}},
			},
		}
		if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
			t.Fatal(err)
		}
	}
}

func denied(int, llm.Request) ([]llm.Chunk, error) {
	return nil, &llm.Error{Kind: llm.Denied, Reason: "no key"}
}

// A removal makes the summary again from the turns that are left, of which there may be one or none.
func TestPurge_SummaryCoversWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		purged     []string
		from, upto uint64
		text       string
	}{
		"one is left":  {[]string{"web/The key is 4711."}, 2, 2, "The lock is 12."},
		"none is left": {[]string{"web/The key is 4711.", "web/The lock is 12."}, 3, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := engine(nil, &llmtest.Model{Script: denied})
			b.store(t, [2]string{"The key is 4711.", "noted"}, [2]string{"The lock is 12.", "noted"})
			b.memory.sums[room] = conversation.Summary{Upto: 2, From: 1, Text: "4711 and 12", By: "test/"}
			for _, subject := range c.purged {
				if err := b.Purge(t.Context(), subject); err != nil {
					t.Fatal(err)
				}
			}
			s := b.memory.sums[room]
			if s.From != c.from || s.Upto != c.upto || s.By != "" || strings.Contains(s.Text, "4711") ||
				!strings.Contains(s.Text, c.text) {
				t.Errorf("the summary is %+v, want it from turn %d on", s, c.from)
			}
		})
	}
}

// A summary without a model says nothing twice, and no single long answer fills it.
func TestSummaryWithoutAModel_IsBoundedAndFair(t *testing.T) {
	b := engine(nil, &llmtest.Model{Script: denied})
	var long []string
	for n := range 200 {
		long = append(long, fmt.Sprintf("Item Alpha%d costs %d kroner in Oslo and %d in Bergen.", n, 1000+n, 2000+n))
	}
	b.store(t, [2]string{"The code is 4711.", strings.Join(long, " ")})
	for n := range 300 {
		b.store(t, [2]string{fmt.Sprintf("Room %d has %d chairs and was painted by painter %d last year.", n, 3*n, 7*n),
			"The code is 4711."})
	}
	inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 4, MaxBytes: 1000} })
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	s := b.memory.sums[room]
	if len(s.Text) > 8<<10 || len(s.Text) < 7<<10 {
		t.Errorf("the summary has %d bytes, want it filled up to 8 KiB", len(s.Text))
	}
	if n := strings.Count(s.Text, "4711"); n != 1 {
		t.Errorf("what was said again and again stands in it %d times", n)
	}
	if n := strings.Count(s.Text, "kroner in Oslo"); n != 4 {
		t.Errorf("%d lines are of one answer, want 4", n)
	}
}

// Of a conversation that is far too long for a model's requests, the oldest part keeps its own sentences, and the
// model is given the rest in order, each time with the summary so far.
func TestSummary_OfVeryManyTurns_AsksAModelEightTimes(t *testing.T) {
	var asked []string
	b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		asked = append(asked, r.Messages[0].Text())
		return llmtest.Says(fmt.Sprintf("summary %d", n)), nil
	}})
	filler := strings.Repeat("words and words ", 1400) // 22 KB: one turn a request
	for n := range 12 {
		b.store(t, [2]string{fmt.Sprintf("The code of room %d is %d.", n, 4000+n), filler})
	}
	inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 2, MaxBytes: 100 << 10} })
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 8 || !strings.Contains(asked[0], "The code of room 0 is 4000.") ||
		!strings.Contains(asked[0], "Then:\nUser: The code of room 3") {
		t.Fatalf("the model got %d requests, the first begins %.200q", len(asked), asked[0])
	}
	for n, text := range asked {
		if len(text) > 24<<10+8<<10+100 {
			t.Errorf("request %d has %d bytes", n, len(text))
		}
		if n > 0 && !strings.HasPrefix(text, fmt.Sprintf("The summary before:\nsummary %d\n\nThen:\n", n)) {
			t.Errorf("request %d begins %.60q", n, text)
		}
	}
	s := b.memory.sums[room]
	if s.Text != "summary 8" || s.By != "test/" || s.Upto != 11 || s.From != 1 {
		t.Errorf("the summary is %+v", s)
	}
}

// The models for small work write summaries where there are any; a model that fails in the middle leaves what the
// ones before it have written.
func TestSummary_ModelFailsInTheMiddle_KeepsWhatWasWritten(t *testing.T) {
	small := &llmtest.Model{Name: "small", Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			return llmtest.Says("Facts: the code is 4711."), nil
		}
		return denied(n, r)
	}}
	large := recorder()
	b := engine(nil, large, small)
	filler := strings.Repeat("words and words ", 1400)
	b.store(t, [2]string{"first", filler}, [2]string{"The gate opens at 08:15.", filler}, [2]string{"last", "ok"})
	inProfile(b, func(p *agent.Profile) {
		p.Utility = []string{"test/small"}
		p.Window = conversation.Window{MaxTurns: 2, MaxBytes: 100 << 10}
	})
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	if n := len(large.Requests()); n != 0 {
		t.Errorf("the large model was asked %d times", n)
	}
	s := b.memory.sums[room]
	if !strings.Contains(s.Text, "4711") || !strings.Contains(s.Text, "08:15") || s.By != "" {
		t.Errorf("the summary is %+v", s)
	}
}

// Conversations that have outgrown their window are summarized while the bot works; a failure is logged and tried
// again after the next turn.
func TestRun_SummarizesWhatHasOutgrownItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := engine(nil, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
			if strings.HasPrefix(r.System, "You keep the memory") {
				return llmtest.Says("in short"), nil
			}
			return llmtest.Says("ok"), nil
		}})
		inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 4, MaxBytes: 1 << 20} })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); b.Run(ctx) }()
		for n := range 4 {
			b.answer(t, t.Context(), one(asks(fmt.Sprint(n), "words")))
			synctest.Wait()
		}
		if s := b.memory.sums[room]; s.Upto != 0 {
			t.Errorf("summarized before the window was full: %+v", s)
		}
		// The turn is stored after the answer, so that the summary of this turn may have missed it.
		b.answer(t, t.Context(), one(asks("4", "words")))
		synctest.Wait()
		b.answer(t, t.Context(), one(asks("5", "words")))
		synctest.Wait()
		if s := b.memory.sums[room]; s.Text != "in short" || s.Upto < 2 {
			t.Errorf("the summary is %+v", s)
		}
		if strings.Contains(b.log.String(), "level=ERROR") {
			t.Errorf("the log has an error:\n%s", b.log)
		}
		stop()
		<-ended
	})
}

// What was said by whom, what was attached and what tools gave reaches the model that summarizes, shortened.
func TestSummary_TellsSpeakersFilesAndResults(t *testing.T) {
	var asked string
	b := engine(nil, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		asked = r.Messages[0].Text()
		return llmtest.Says("in short"), nil
	}})
	turn := conversation.Turn{ID: "web/1", State: conversation.Answered, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{
			{Text: "Anna says:\n", Source: llm.SourceSpeaker},
			{Text: "look at this", Source: llm.SourceWords},
			{Text: "\n[attached: " + strings.Repeat("f", 2000) + "]", Source: llm.SourceFile},
			{Text: "a note of the bot", Source: llm.SourceNote},
		}},
		{Role: llm.Assistant, Parts: []llm.Part{
			{Text: "I look."},
			{Call: &llm.Call{ID: "1", Name: "look", Args: []byte(`{}`)}},
		}},
		{Role: llm.ToolRole, Parts: []llm.Part{
			{Result: &llm.Result{ID: "1", Name: "look", Content: strings.Repeat("r", 2000)}},
		}},
		{Role: llm.Assistant, Parts: []llm.Part{{Text: "It is red."}}},
	}}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
	b.store(t, [2]string{"next", "ok"})
	inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"User: Anna says:\nlook at this", "You: I look. [called look]", "Result of look: rrr", "You: It is red.",
	} {
		if !strings.Contains(asked, want) {
			t.Errorf("%q is missing in %.300q", want, asked)
		}
	}
	// A thousand bytes of a file, with the words before it, and three hundred of a result.
	for letter, n := range map[string]int{"f": 1000 - len("\n[attached: "), "r": 300} {
		if !strings.Contains(asked, strings.Repeat(letter, n)) || strings.Contains(asked, strings.Repeat(letter, n+1)) {
			t.Errorf("not %d times %q are told: %.300q", n, letter, asked)
		}
	}
	if strings.Contains(asked, "a note of the bot") || strings.Contains(asked, "next") {
		t.Errorf("told more than what is forgotten: %.300q", asked)
	}
}

// A message that is deleted leaves every turn and every summary that quotes it, wherever they are.
func TestPurge_RemovesAllQuotes(t *testing.T) {
	b := engine(nil, &llmtest.Model{Script: denied})
	places := []chat.Address{room, {Platform: "web", Channel: "elsewhere"}}
	for _, at := range places {
		for n := range 2 {
			turn := conversation.Turn{ID: fmt.Sprint(at, n), State: conversation.Answered, Messages: []llm.Message{
				{Role: llm.User, Parts: []llm.Part{
					{Text: "The key is 4711.", Subject: "web/quoted", Source: llm.SourceContext},
					{Text: fmt.Sprintf("What about room %d?", n)},
				}},
			}}
			if err := b.memory.SaveTurn(t.Context(), at, &turn); err != nil {
				t.Fatal(err)
			}
		}
		b.memory.sums[at] = conversation.Summary{Upto: 2, From: 1, Text: "The key is 4711."}
	}
	if err := b.Purge(t.Context(), "web/quoted"); err != nil {
		t.Fatal(err)
	}
	for _, at := range places {
		all := fmt.Sprint(b.memory.turns[at], b.memory.sums[at])
		if strings.Contains(all, "4711") || !strings.Contains(all, "room 1") {
			t.Errorf("in %s there is %s", at, all)
		}
	}
}

// A model is given at most 24 KiB at once: as many whole turns as fit, and of a turn that is longer its beginning.
func TestSummary_NoRequestIsTooLong(t *testing.T) {
	var asked []string
	b := engine(nil, &llmtest.Model{Script: func(_ int, r llm.Request) ([]llm.Chunk, error) {
		asked = append(asked, r.Messages[0].Text())
		return llmtest.Says(strings.Repeat("s", 9<<10)), nil
	}})
	b.store(t, [2]string{"<long>", strings.Repeat("x", 25<<10)}, [2]string{"<half>", strings.Repeat("x", 12<<10-20)},
		[2]string{"<half>", strings.Repeat("x", 12<<10-20)}, [2]string{"<more>", "x"}, [2]string{"last", "ok"})
	inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	var got []int
	for n, text := range asked {
		_, source, found := strings.Cut(text, "\n\nThen:\n")
		if !found {
			source = text
		}
		if found != (n > 0) || len(source) > 24<<10 || len(source) < 23<<10 && n < 2 {
			t.Errorf("request %d has %d bytes of %d to summarize", n, len(source), len(text))
		}
		got = append(got, strings.Count(source, "User: <"))
	}
	if fmt.Sprint(got) != "[1 2 1]" {
		t.Errorf("the requests have %v turns", got)
	}
	if n := len(b.memory.sums[room].Text); n < 8<<10 || n > 8<<10+64 {
		t.Errorf("a summary of 9 KiB was stored with %d bytes", n)
	}
}

// The summary of an offline model, which only quotes sentences, and an empty one are replaced by chosen sentences.
func TestSummary_OfNoUse_IsReplacedBySentences(t *testing.T) {
	for name, c := range map[string]struct{ model, text string }{
		"offline": {"offline", "quoted"},
		"empty":   {"test/m", " \n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
				chunks := llmtest.Says(c.text)
				chunks[0].ServedBy = c.model
				return chunks, nil
			}})
			b.store(t, [2]string{"The code is 4711.", "noted"}, [2]string{"last", "ok"})
			inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
			if err := b.Compact(t.Context(), room); err != nil {
				t.Fatal(err)
			}
			if s := b.memory.sums[room]; !strings.Contains(s.Text, "4711") || strings.Contains(s.Text, "quoted") ||
				s.By != "" {
				t.Errorf("%s: the summary is %+v", name, s)
			}
			if logged := strings.Contains(b.log.String(), "no model summarized"); logged != (name == "empty") {
				t.Errorf("%s: logged as a failure: %t", name, logged)
			}
		})
	}
}

// A conversation without a summary, of which retention has deleted turns, begins with what is left, too.
func TestForgetExpired_WithoutASummary_BeginsWithWhatIsLeft(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.answer(t, t.Context(), one(asks("1", "the first")))
	b.answer(t, t.Context(), one(asks("2", "the second")))
	b.memory.turns[room][0] = conversation.Turn{}
	if err := b.ForgetExpired(t.Context(), []chat.Address{room}); err != nil {
		t.Fatal(err)
	}
	b.answer(t, t.Context(), one(asks("3", "and now?")))
	if text := wholeText(last(model.Requests())); strings.Contains(text, "the first") || !strings.Contains(text,
		"the second") {
		t.Errorf("the next request is\n%s", text)
	}
	if s, ok := b.memory.sums[room]; ok {
		t.Errorf("a summary was made: %+v", s)
	}
}

// A summary that has its words stays as it is where older turns of the conversation are deleted.
func TestForgetExpired_SummaryWithWords_Stays(t *testing.T) {
	b := engine(nil, recorder())
	b.store(t, [2]string{"first", "one"}, [2]string{"second", "two"})
	was := conversation.Summary{Upto: 1, From: 1, Text: "in short", By: "test/"}
	b.memory.sums[room] = was
	if err := b.ForgetExpired(t.Context(), []chat.Address{room}); err != nil {
		t.Fatal(err)
	}
	if s := b.memory.sums[room]; s.Text != was.Text || s.By != was.By {
		t.Errorf("the summary is %+v", s)
	}
}

// A message that is deleted while a summary of it is written is not in the summary: the one that is being written is
// thrown away. The same holds for a conversation that is forgotten.
func TestCompact_RemovalMeanwhile_ThrowsTheSummaryAway(t *testing.T) {
	for name, remove := range map[string]func(*bench) error{
		"a message":        func(b *bench) error { return b.Purge(t.Context(), "web/The key is 4711.") },
		"the conversation": func(b *bench) error { b.Forget(room); return nil },
		"expired turns":    func(b *bench) error { return b.ForgetExpired(t.Context(), []chat.Address{room}) },
	} {
		var b *bench
		b = engine(nil, &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) {
			if err := remove(b); err != nil {
				t.Error(err)
			}
			return llmtest.Says("the key is 4711"), nil
		}})
		b.store(t, [2]string{"The key is 4711.", "noted"}, [2]string{"last", "ok"})
		inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
		if err := b.Compact(t.Context(), room); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if s := b.memory.sums[room]; s.Text != "" {
			t.Errorf("%s: the summary is %+v", name, s)
		}
	}
}

// At most 500 turns are summarized at a time; the others keep for the next time.
func TestCompact_VeryManyTurns_AreTakenInParts(t *testing.T) {
	b := engine(nil, &llmtest.Model{Script: denied})
	for n := range 510 {
		b.store(t, [2]string{fmt.Sprint("question ", n), "ok"})
	}
	var read int
	inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
	b.options.Store = counted{b.memory, &read}
	b.Engine = agent.New(b.options)
	if err := b.Compact(t.Context(), room); err != nil || read != 500 {
		t.Errorf("%d turns were read, %v", read, err)
	}
}

// counted is a store that notes the largest number of turns that is asked for.
type counted struct {
	*memory
	most *int
}

func (c counted) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	*c.most = max(*c.most, r.Newest)
	return c.memory.Turns(ctx, a, r)
}

// A summary that was thrown away is made again while the bot works.
func TestCompact_ThrownAway_IsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b *bench
		b = engine(nil, &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
			if n == 1 {
				b.Forget(room)
			}
			return llmtest.Says(fmt.Sprint("summary ", n)), nil
		}})
		b.store(t, [2]string{"first", "noted"}, [2]string{"last", "ok"})
		inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); b.Run(ctx) }()
		if err := b.Compact(t.Context(), room); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		stop()
		<-ended
		if b.memory.sums[room].Text != "summary 2" {
			t.Errorf("the summary is %+v", b.memory.sums[room])
		}
	})
}

// A summary that cannot be stored is logged, and tried again after the next turn.
func TestRun_SummaryNotStored_IsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := engine(nil, recorder())
		inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 2, MaxBytes: 1 << 20} })
		b.Engine = b.fails("save summary")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); b.Run(ctx) }()
		for n := range 6 {
			b.answer(t, t.Context(), one(asks(fmt.Sprint(n), "words")))
			synctest.Wait()
		}
		stop()
		<-ended
		if strings.Count(b.log.String(), "failed to summarize a conversation") < 2 {
			t.Errorf("logged\n%s", b.log)
		}
	})
}

// Words that are edited leave the summary that covers them, also where theirs is the last turn of it.
func TestEdit_OfTheLastTurnOfASummary_LeavesIt(t *testing.T) {
	b := engine(nil, &llmtest.Model{Script: denied})
	b.store(t, [2]string{"The lock is 12.", "noted"}, [2]string{"The key is 4711.", "noted"}, [2]string{"last", "ok"})
	b.memory.sums[room] = conversation.Summary{Upto: 2, From: 1, Text: "4711 and 12"}
	b.answer(t, t.Context(), edit("The key is 4711.", "The key is secret."))
	if s := b.memory.sums[room]; strings.Contains(s.Text, "4711") || !strings.Contains(s.Text, "secret") || s.Upto != 2 {
		t.Errorf("the summary is %+v", s)
	}
}

// A model is given as much at once as it takes: small turns together, and of too many large ones the newest eight.
func TestCompact_AsksNoMoreThanNeeded(t *testing.T) {
	for name, c := range map[string]struct{ turns, size, requests int }{
		"small turns":      {5, 10, 1},
		"eight large ones": {8, 24 << 10, 8},
		"nine large ones":  {9, 24 << 10, 8},
	} {
		model := &llmtest.Model{Script: sayHere}
		b := engine(nil, model)
		for n := range c.turns + 1 {
			b.store(t, [2]string{fmt.Sprint("question ", n, strings.Repeat("x", c.size)), "ok"})
		}
		inProfile(b, func(p *agent.Profile) { p.Window = conversation.Window{MaxTurns: 1, MaxBytes: 1 << 20} })
		if err := b.Compact(t.Context(), room); err != nil || len(model.Requests()) != c.requests {
			t.Errorf("%s: %d requests, want %d, %v", name, len(model.Requests()), c.requests, err)
		}
	}
}

// Whichever write of a removal fails: the removal fails, and is tried again.
func TestPurge_AnyWriteFails_IsAnError(t *testing.T) {
	for n := range 10 {
		b := engine(nil, recorder())
		quoting := conversation.Turn{ID: "web/2", State: conversation.Answered, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "> The key is 4711.", Subject: "web/1", Source: llm.SourceContext},
				{Text: "is it?"}}}, says(llm.Assistant, "yes")}}
		for _, turn := range []conversation.Turn{{ID: "web/1", Messages: []llm.Message{says(llm.User, "4711")}}, quoting} {
			if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
				t.Fatal(err)
			}
		}
		b.memory.sums[room] = conversation.Summary{Upto: 2, From: 1, Text: "4711"}
		b.memory.crashAfter(n, func(error) {})
		err := b.Purge(t.Context(), "web/1")
		if failed := b.memory.writes < 0; failed != (err != nil) {
			t.Errorf("write %d fails: %v, the removal returned %v", n, failed, err)
		}
		if err == nil && n == 0 {
			t.Error("nothing was written")
		}
	}
}
