package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/prompt"
)

// places tells what messages are about by a function, and remembers what it was asked.
type places struct {
	about func(ctx context.Context, m chat.Message) chat.Context
	asked []chat.ContextQuery
}

func (p *places) Context(ctx context.Context, m chat.Message, q chat.ContextQuery) chat.Context {
	p.asked = append(p.asked, q)
	return p.about(ctx, m)
}

func (p *places) Formatting(platform string) string { return "Rules of " + platform + "." }

func (p *places) Link(chat.Address, string) string { return "" }

// notes are what is remembered of whoever asks.
type notes map[string]string

func (n notes) Recall(_ context.Context, m chat.Message, _ string) (string, origin.Origin) {
	return n[m.Author.ID], origin.Origin{}
}

// recorder answers "ok" and keeps the requests.
func recorder() *llmtest.Model {
	return &llmtest.Model{Script: func(int, llm.Request) ([]llm.Chunk, error) { return llmtest.Says("ok"), nil }}
}

func wholeText(r llm.Request) string {
	text := r.System
	for _, t := range r.Tools {
		text += t.Name + t.Description + string(t.Schema)
	}
	for _, m := range r.Messages {
		text += "\n" + string(m.Role) + ": "
		for _, p := range m.Parts {
			text += p.Text
		}
	}
	return text
}

func inProfile(b *bench, change func(*agent.Profile)) {
	was := b.options.Roster.(*roster).profile
	b.options.Roster.(*roster).profile = func(m chat.Message) agent.Profile {
		p := was(m)
		change(&p)
		return p
	}
	b.Engine = b.over()
}

func TestAnswer_TellsWhatTheQuestionIsAbout(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	p := &places{about: func(_ context.Context, m chat.Message) chat.Context {
		return chat.Context{
			Place: chat.Place{Channel: "ops"},
			Names: map[string]string{"U1": "Anna", "U3": "Berit"},
			Zone:  "Europe/Oslo",
			Reply: &chat.Said{
				ID:    "0",
				By:    "Carl",
				Text:  "It costs 40 kroner.",
				Files: []chat.File{{Name: "bill.txt", Type: "text/plain"}, {Name: "bill.png", Type: "image/png"}},
			},
			Recent: []chat.Said{
				{ID: "9", By: "Dan", Text: "said before"},
				{ID: "answer-1", Self: true, Text: "an answer that the history has"},
				{ID: "digest-1", Self: true, Text: "the news of today"},
			},
		}
	}}
	b.options.Places = p
	b.options.Files = files(func(_ context.Context, _ string, f chat.File, _ int64) ([]byte, error) {
		return []byte("of " + f.Name), nil
	})
	b.options.Documents = document.NewReader(nil)
	inProfile(b, func(p *agent.Profile) { p.ContextMessages = 20 })
	m := asks("1", "is this true, @U3?")
	m.Time = time.Date(2026, 11, 22, 7, 30, 0, 0, time.UTC)
	b.answer(t, t.Context(), one(m))
	r := model.Requests()[0]
	text := wholeText(r)
	for _, want := range []string{
		"in the channel #ops", "Rules of web.", "Anna says (Sunday, 22 November 2026, 08:30 Europe/Oslo):\nis this " +
			"true, @Berit?",
		"> Carl:\n> It costs 40 kroner.", "of bill.txt", "> Dan:\n> said before", "> the news of today",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "an answer that the history has") {
		t.Error("an answer of the bot is told again")
	}
	if !slices.ContainsFunc(r.Messages[0].Parts, func(p llm.Part) bool {
		return p.Media != nil && string(p.Media.Data) == "of bill.png"
	}) {
		t.Error("the picture of the message replied to is missing")
	}
	next := asks("2", "and now?")
	b.answer(t, t.Context(), one(next))
	if want := []chat.ContextQuery{{Messages: 20}, {Messages: 20, After: "1"}}; !slices.Equal(p.asked, want) {
		t.Errorf("asked for %+v, want %+v", p.asked, want)
	}
	// What was said before the first question is still there, once.
	if n := strings.Count(wholeText(model.Requests()[1]), "It costs 40 kroner."); n != 2 {
		t.Errorf("the message replied to is told %d times, want it with both questions", n)
	}
}

func TestAnswer_DoesNotWaitForASlowLookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := recorder()
		b := engine(nil, model)
		b.options.Places = &places{about: func(ctx context.Context, _ chat.Message) chat.Context {
			<-ctx.Done()
			return chat.Context{}
		}}
		b.Engine = b.over()
		began := time.Now()
		if d := b.answer(t, t.Context(), one(asks("1", "quick"))); d.Text != "ok" {
			t.Errorf("answered %q", d.Text)
		}
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("the answer waited %v", took)
		}
	})
}

// An edit keeps what the message is about, and its files.
func TestAnswer_EditKeepsTheContext(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Places = &places{about: func(context.Context, chat.Message) chat.Context {
		return chat.Context{Names: map[string]string{"U1": "Anna"}, Reply: &chat.Said{ID: "0", By: "Carl", Text: "the plan"}}
	}}
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "frist")))
	b.answer(t, t.Context(), edit("1", "first"))
	text := wholeText(model.Requests()[1])
	if !strings.Contains(text, "> the plan") || !strings.Contains(text, "Anna says:\nfirst") ||
		strings.Contains(text, "frist") {
		t.Errorf("after the edit the request is\n%s", text)
	}
	if d := b.answer(t, t.Context(), edit("1", "first")); d != nil || len(model.Requests()) != 2 {
		t.Errorf("an edit that changes nothing was answered: %+v", d)
	}
}

// Notes about a person stand behind the question of that person, and in no other request.
func TestAnswer_NotesAreForTheAskerAlone(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Notes = notes{"U1": "- prefers metric units"}
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "how far is it?")))
	other := asks("2", "and for me?")
	other.Author.ID = "U2"
	b.answer(t, t.Context(), one(other))
	first, second := asks("3", "one"), asks("4", "two")
	second.Author.ID = "U2"
	b.answer(t, t.Context(), chat.Asked{Turn: first.Key(), Messages: []chat.Message{first, second}})
	for i, want := range []bool{true, false, false} {
		if got := strings.Contains(wholeText(model.Requests()[i]), "prefers metric units"); got != want {
			t.Errorf("request %d has the notes: %v, want %v", i, got, want)
		}
	}
}

// commonPrefix returns the share of a request that stands at the beginning of the next one.
func commonPrefix(a, b llm.Request) float64 {
	x, y := wholeText(a), wholeText(b)
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return float64(n) / float64(len(x))
}

func TestAnswer_RequestsShareTheirBeginning(t *testing.T) {
	model := &llmtest.Model{Script: func(n int, _ llm.Request) ([]llm.Chunk, error) {
		return llmtest.Says("answer " + strings.Repeat("word ", 20)), nil
	}}
	b := engine(tools{"web_fetch": does(nil)}, model)
	b.options.Notes = notes{"U1": "- prefers metric units"}
	inProfile(b, func(p *agent.Profile) {
		p.System = "You are a test."
		p.Recall = func(_ context.Context, question string, earlier []string) agent.Knowledge {
			k := agent.Knowledge{Standing: "You know files."}
			if strings.Contains(question, "thanks") {
				return k
			}
			for n := range 3 { // passages of neighbouring questions overlap
				k.Passages = append(k.Passages, fmt.Sprintf("[garden.md] passage %d %s", len(question)%5+n,
					strings.Repeat("soil ", 200)))
			}
			return k
		}
	})
	for n := range 12 {
		m := asks(fmt.Sprint(n), "question "+strings.Repeat("x", n))
		if n%4 == 3 {
			m.Text = "ok thanks"
		}
		m.Time = time.Date(2026, 11, 22, 8, n, 0, 0, time.UTC)
		b.options.Now = func() time.Time { return m.Time }
		b.answer(t, t.Context(), one(m))
	}
	requests := model.Requests()
	for i := 1; i < len(requests); i++ {
		if share := commonPrefix(requests[i-1], requests[i]); share < 0.8 {
			t.Errorf("request %d begins with %.0f %% of the one before it, want 80 %%", i, 100*share)
		}
	}
	if n := strings.Count(wholeText(requests[len(requests)-1]), "[garden.md] passage 2 "); n != 1 {
		t.Errorf("one passage stands %d times in a request", n)
	}
	if last := requests[len(requests)-1]; strings.Count(wholeText(last), "soil") > 7*200 {
		t.Error("the passages of every question are told again")
	}
}

// No turn is left out of a request before a summary covers it.
func TestAnswer_NothingIsCutBeforeItIsSummarized(t *testing.T) {
	model := &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if strings.HasPrefix(r.System, "You keep the memory") {
			return llmtest.Says("SUMMARY of what was before"), nil
		}
		return llmtest.Says("fine"), nil
	}}
	b := engine(nil, model)
	for n := range 60 {
		b.answer(t, t.Context(), one(asks(fmt.Sprint(n), fmt.Sprintf("question <%d>", n))))
	}
	requests := model.Requests()
	if text := wholeText(requests[59]); !strings.Contains(text, "question <0>") {
		t.Error("the first question is left out although no summary covers it")
	}
	if err := b.Compact(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	b.answer(t, t.Context(), one(asks("next", "and now?")))
	text := wholeText(last(model.Requests()))
	if strings.Contains(text, "question <0>") || !strings.Contains(text, "SUMMARY of what was before") ||
		!strings.Contains(text, "question <59>") {
		t.Errorf("after the summary the request is\n%s", text)
	}
}

func last[T any](list []T) T { return list[len(list)-1] }

func TestAnswer_StopKeepsWhatWasShown(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if n == 1 {
			stop(chat.ErrStopped)
			return []llm.Chunk{{Parts: []llm.Part{{Text: "The first half "}}}}, context.Canceled
		}
		return llmtest.Says(wholeText(r)), nil
	}})
	if d := b.answer(t, ctx, one(asks("1", "tell me all"))); d.Text != "The first half\n\n*(stopped)*" {
		t.Errorf("the post says %q", d.Text)
	}
	if d := b.answer(t, t.Context(), one(asks("2", "go on"))); !strings.Contains(d.Text,
		"The first half\n\n(Stopped by a user here.)") {
		t.Errorf("the next request is %q", d.Text)
	}
}

// A turn stored by an earlier version has no sources in its parts; an edit of it works.
func TestAnswer_EditOfAnOldRecord(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	old := conversation.Turn{ID: "web/1", State: conversation.Answered, Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "anna says:\n"}, {Text: "frist"}, {Text: "\n[attached: plan.zip, application/zip]"}}},
		{Role: llm.Assistant, Parts: []llm.Part{{Text: "what?"}}},
	}}
	if err := b.memory.SaveTurn(t.Context(), room, &old); err != nil {
		t.Fatal(err)
	}
	if d := b.answer(t, t.Context(), edit("1", "frist")); d != nil {
		t.Errorf("an edit that changes nothing was answered: %+v", d)
	}
	b.answer(t, t.Context(), edit("1", "first"))
	if text := wholeText(model.Requests()[0]); !strings.Contains(text, "first\n[attached: plan.zip") ||
		strings.Contains(text, "frist") {
		t.Errorf("the request is\n%s", text)
	}
}

// The bot's own tools are declared even where the others have to be found.
func TestDiscovery_DeclaresTheCorePacks(t *testing.T) {
	var ran []string
	box := workshop(&ran)
	for server, name := range map[string]string{"memory": "save", "history": "search", "result": "read", "skill": "read",
		"feeds": "fetch"} {
		box[server+"_"+name] = tool.Func{Described: tool.Spec{Server: server, Name: name, Native: true,
			Schema: json.RawMessage(`{}`)}}
	}
	model := recorder()
	b := engine(box, model)
	b.options.Discovery = finder()
	b.options.Roster.(*roster).threshold = 40
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "hello")))
	declared := strings.Fields(names(model.Requests()[0].Tools))
	for name, want := range map[string]bool{"memory_save": true, "history_search": true, "result_read": true,
		"skill_read": true, "feeds_fetch": false} {
		if slices.Contains(declared, name) != want {
			t.Errorf("%s is declared: %v, want %v", name, !want, want)
		}
	}
}

// A message that is deleted leaves the turns that quote it, and the summary of them.
func TestPurge_RemovesQuotes(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Places = &places{about: func(_ context.Context, m chat.Message) chat.Context {
		if m.ID != "1" {
			return chat.Context{}
		}
		return chat.Context{Recent: []chat.Said{
			{ID: "8", Subject: "web/8", By: "Dan", Text: "the secret word"},
			{ID: "9", Subject: "web/9", By: "Eve", Text: "stays here"},
		}}
	}}
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "what was said?")))
	if err := b.Purge(t.Context(), "web/8"); err != nil {
		t.Fatal(err)
	}
	b.answer(t, t.Context(), one(asks("2", "and now?")))
	text := wholeText(last(model.Requests()))
	if strings.Contains(text, "secret word") || !strings.Contains(text, "stays here") ||
		!strings.Contains(text, "what was said?") {
		t.Errorf("after the deletion the request is\n%s", text)
	}
}

// only lets the users that it names use the bot.
type only []string

func (o only) UsersAt(chat.Address) func(string) bool {
	return func(userID string) bool { return slices.Contains(o, userID) }
}

// What bots say, and people who may not use the bot, taints the turn; what others say does not.
func TestAnswer_WordsOfOutsidersTaintTheTurn(t *testing.T) {
	for name, c := range map[string]struct {
		said  chat.Said
		taint bool
	}{
		"somebody who may":     {chat.Said{ID: "9", ByID: "U2", Text: "hello"}, false},
		"somebody who may not": {chat.Said{ID: "9", ByID: "U3", Text: "hello"}, true},
		"a bot":                {chat.Said{ID: "9", ByID: "U2", Bot: true, Text: "hello"}, true},
		"a poll of the bot":    {chat.Said{ID: "poll-1", Bot: true, Self: true, Text: "hello"}, false},
		"a digest of the bot":  {chat.Said{ID: "9", Bot: true, Self: true, Text: "hello"}, true},
		"a file's name":        {chat.Said{ID: "9", ByID: "U2", Files: []chat.File{{Name: "hello"}}}, true},
	} {
		b := engine(nil, recorder())
		b.options.Places = &places{about: func(context.Context, chat.Message) chat.Context {
			return chat.Context{Recent: []chat.Said{c.said}}
		}}
		b.options.Access = only{"U1", "U2"}
		b.Engine = b.over()
		b.answer(t, t.Context(), one(asks("1", "what was said?")))
		if got := b.memory.turns[room][0].Taint; len(got) > 0 != c.taint {
			t.Errorf("%s: the turn is tainted by %q, want it tainted: %v", name, got, c.taint)
		}
	}
}

// A task that a model wrote after foreign text is not taken for the words of whoever confirmed it.
func TestAnswer_ATaskKeepsWhoseWordsItHolds(t *testing.T) {
	b := engine(nil, recorder())
	m := asks("1", "obey")
	m.Origin = origin.Foreign("a page")
	b.answer(t, t.Context(), one(m))
	if got := b.memory.turns[room][0].Origin; !slices.Equal(got.Taint, []string{"a page"}) ||
		!slices.Equal(got.Authors, []string{"web/U1"}) {
		t.Errorf("the turn holds words of %+v", got)
	}
}

// What was said before is asked for once a question, and only where the history does not have it: not in direct
// messages, not for an operator and not for an edit; a press is about nothing.
func TestAnswer_AsksForWhatWasSaidBefore_OnlyWhereItIsNews(t *testing.T) {
	direct, operator, press := asks("d", "hello"), asks("o", "hello"), asks("p", chat.PressRetry+"web/1")
	direct.Direct, operator.Author.Operator, press.Command = true, true, chat.Pressed
	first, second := asks("1", "one"), asks("2", "two")
	news, nothing := chat.ContextQuery{Messages: 20}, chat.ContextQuery{}
	for _, c := range []struct {
		name  string
		asked []chat.Asked
		want  []chat.ContextQuery
	}{
		{"in a channel", []chat.Asked{one(first)}, []chat.ContextQuery{news}},
		{"direct message", []chat.Asked{one(direct)}, []chat.ContextQuery{nothing}},
		{"operator", []chat.Asked{one(operator)}, []chat.ContextQuery{nothing}},
		{"an edit", []chat.Asked{one(first), edit("1", "won")}, []chat.ContextQuery{news, nothing}},
		{"a retry", []chat.Asked{one(first), {Messages: []chat.Message{press}}}, []chat.ContextQuery{news}},
	} {
		b := engine(nil, recorder())
		p := &places{about: func(context.Context, chat.Message) chat.Context { return chat.Context{} }}
		b.options.Places = p
		inProfile(b, func(p *agent.Profile) { p.ContextMessages = 20 })
		for _, q := range c.asked {
			if d := b.answer(t, t.Context(), q); d == nil || d.Text != "ok" {
				t.Errorf("%s: answered %+v", c.name, d)
			}
		}
		if !slices.Equal(p.asked, c.want) {
			t.Errorf("%s: asked for %+v, want %+v", c.name, p.asked, c.want)
		}
	}
	// Two messages at once are looked up beside each other, so that their order is not known.
	var mu sync.Mutex
	asked := map[string]chat.ContextQuery{}
	b := engine(nil, recorder())
	b.options.Places = placesFunc(func(m chat.Message, q chat.ContextQuery) {
		mu.Lock()
		defer mu.Unlock()
		asked[m.ID] = q
	})
	inProfile(b, func(p *agent.Profile) { p.ContextMessages = 20 })
	b.answer(t, t.Context(), chat.Asked{Turn: first.Key(), Messages: []chat.Message{first, second}})
	if want := map[string]chat.ContextQuery{"1": news, "2": nothing}; !maps.Equal(asked, want) {
		t.Errorf("asked for %+v, want %+v", asked, want)
	}
}

// placesFunc knows nothing of messages, and calls itself with what it is asked.
type placesFunc func(m chat.Message, q chat.ContextQuery)

func (p placesFunc) Context(_ context.Context, m chat.Message, q chat.ContextQuery) chat.Context {
	p(m, q)
	return chat.Context{}
}

func (placesFunc) Formatting(string) string { return "" }

func (placesFunc) Link(chat.Address, string) string { return "" }

// Whoever may not use the bot is foreign wherever a message of theirs turns up.
func TestAnswer_OutsidersAreFoundInEveryPartOfTheContext(t *testing.T) {
	said := chat.Said{ID: "9", ByID: "U3", Text: "hello"}
	for name, c := range map[string]chat.Context{
		"reply":  {Reply: &said},
		"root":   {Root: &said},
		"linked": {Linked: []chat.Said{said}},
		"recent": {Recent: []chat.Said{said}},
	} {
		b := engine(nil, recorder())
		b.options.Places = &places{about: func(context.Context, chat.Message) chat.Context { return c }}
		b.options.Access = only{"U1"}
		b.Engine = b.over()
		b.answer(t, t.Context(), one(asks("1", "what was said?")))
		if got := b.memory.turns[room][0].Taint; len(got) != 1 {
			t.Errorf("%s: the turn is tainted by %q", name, got)
		}
	}
}

// The model is told the time where the question is older than ten minutes, and of several messages that there are
// several: both in this turn alone.
func TestAnswer_LateOrSeveral_TheModelIsTold(t *testing.T) {
	said := time.Date(2026, 11, 22, 7, 30, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		messages      int
		late          time.Duration
		isLate, manys bool
	}{
		"one in time": {1, 10 * time.Minute, false, false},
		"one late":    {1, 10*time.Minute + time.Second, true, false},
		"two":         {2, 0, false, true},
	} {
		model := recorder()
		b := engine(nil, model)
		b.options.Now = func() time.Time { return said.Add(c.late) }
		b.Engine = b.over()
		var q chat.Asked
		for n := range c.messages {
			m := asks(fmt.Sprint(n), "hello")
			m.Time = said
			q.Turn, q.Messages = m.Key(), append(q.Messages, m)
		}
		b.answer(t, t.Context(), q)
		text := wholeText(model.Requests()[0])
		late, several := strings.Contains(text, prompt.Late(said.Add(c.late)).Text), strings.Contains(text,
			prompt.Several(2).Text)
		if late != c.isLate || several != c.manys {
			t.Errorf("%s: told that it is late: %v, of several: %v, in\n%s", name, late, several, text)
		}
	}
}

// What the agent knows is asked for by the question and the two before it, and each passage is told once: before the
// words of the question, and not again for an edit.
func TestAnswer_KnowledgeIsToldOnce(t *testing.T) {
	var earlier [][]string
	model := recorder()
	b := engine(nil, model)
	inProfile(b, func(p *agent.Profile) {
		p.Recall = func(_ context.Context, _ string, before []string) agent.Knowledge {
			earlier = append(earlier, before)
			return agent.Knowledge{Passages: []string{"[a.md] ravens are black"}}
		}
	})
	for n, words := range []string{"one", "two", "three", "four"} {
		b.answer(t, t.Context(), one(asks(fmt.Sprint(n), words)))
	}
	b.answer(t, t.Context(), edit("3", "fourth"))
	want := [][]string{nil, {"one"}, {"one", "two"}, {"two", "three"}, {"two", "three"}}
	if diff := cmp.Diff(want, earlier); diff != "" {
		t.Errorf("the questions before (-want +got):\n%s", diff)
	}
	for n, r := range model.Requests() {
		text := wholeText(r)
		if strings.Count(text, "ravens are black") != 1 || !strings.Contains(text, "]\none") {
			t.Errorf("request %d is\n%s", n, text)
		}
	}
	// An agent that knows nothing about it tells nothing.
	b = engine(nil, model)
	inProfile(b, func(p *agent.Profile) {
		p.Recall = func(context.Context, string, []string) agent.Knowledge { return agent.Knowledge{} }
	})
	b.answer(t, t.Context(), one(asks("1", "and now?")))
	if r := last(model.Requests()); len(r.Messages[0].Parts) != 1 || len(b.memory.turns[room][0].Taint) > 0 {
		t.Errorf("the question is %+v, tainted by %q", r.Messages[0].Parts, b.memory.turns[room][0].Taint)
	}
}

// The file of a message that is replied to is one line of its own, before what is asked about it.
func TestAnswer_ReplyToOneFile_NamesIt(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Places = &places{about: func(context.Context, chat.Message) chat.Context {
		return chat.Context{Names: map[string]string{"U1": "Anna"},
			Reply: &chat.Said{ID: "0", Text: "see here", Files: []chat.File{{Name: "plan.zip"}}}}
	}}
	b.Engine = b.over()
	b.answer(t, t.Context(), one(asks("1", "is it new?")))
	if text := wholeText(model.Requests()[0]); !strings.Contains(text, "[attached: plan.zip, which could not be read: "+
		"files of this kind are not read]\nAnna says") {
		t.Errorf("the request is\n%s", text)
	}
}

// Where several people are answered at once, nobody's notes are told: the others would read them.
func TestAnswer_SeveralPeople_TellsNobodysNotes(t *testing.T) {
	model := recorder()
	b := engine(nil, model)
	b.options.Notes = notes{"U1": "- likes teal", "U2": "- likes red"}
	b.Engine = b.over()
	first, second := asks("1", "which colour?"), asks("2", "and mine?")
	second.Author.ID = "U2"
	b.answer(t, t.Context(), chat.Asked{Turn: first.Key(), Messages: []chat.Message{first, second}})
	if text := wholeText(model.Requests()[0]); strings.Contains(text, "likes") {
		t.Errorf("the request is\n%s", text)
	}
}

// What the model is told to do with tools depends on those that it has.
func TestAnswer_ToolsThatAreDeclared_HaveTheirRules(t *testing.T) {
	const rule = "Save to memory only what somebody asks you to remember"
	for name, want := range map[string]bool{"memory_save": true, "look": false} {
		model := recorder()
		b := engine(tools{name: reads("memory", true, "done")}, model)
		b.answer(t, t.Context(), one(asks("1", "hello")))
		if got := strings.Contains(model.Requests()[0].System, rule); got != want {
			t.Errorf("with the tool %s the rule is told: %v, want %v", name, got, want)
		}
	}
}
