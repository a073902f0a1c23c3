package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
)

// linked is a place whose messages have addresses.
type linked struct{ places }

func (*linked) Link(at chat.Address, id string) string {
	return "https://chat.example/" + at.Channel + "/" + id
}

// Somebody asks about a message by the entry in its menu: the form asks for words, and becomes a question that links
// the message.
func TestAskAbout_FormBecomesAQuestion(t *testing.T) {
	b := engine(nil, recorder())
	b.options.Places = &linked{}
	c := agent.Conversation{Engine: agent.New(b.options)}
	command := c.MessageCommands()[0].Name
	open := asks("1", "")
	open.Command, open.Target = command, &chat.Said{ID: "77"}
	form, err := c.OpenForm(t.Context(), open)
	if err != nil || form == nil || form.ID != "ask-about 77" || len(form.Fields) != 1 || !form.Fields[0].Required {
		t.Fatalf("the form is %+v, %v", form, err)
	}
	for name, m := range map[string]chat.Message{
		"no message":      {Command: command},
		"another command": {Command: "poll", Target: &chat.Said{ID: "77"}},
	} {
		if form, err := c.OpenForm(t.Context(), m); form != nil || err != nil {
			t.Errorf("%s: opened %+v, %v", name, form, err)
		}
	}
	sent := asks("2", form.ID)
	sent.Command, sent.Values = chat.Submitted, map[string]string{form.Fields[0].Name: " what is this? "}
	q, ok := c.Question(sent)
	if !ok || q.Command != chat.CommandAsk || q.Values != nil ||
		q.Text != "what is this?\n\nhttps://chat.example/general/77" {
		t.Errorf("the question is %+v, %v", q, ok)
	}
	sent.Text = "poll 77"
	if _, ok := c.Question(sent); ok {
		t.Error("the form of another feature became a question")
	}
	said := asks("3", form.ID)
	if _, ok := c.Question(said); ok {
		t.Error("words became a form")
	}
	// A platform that could not open the form passes the command on.
	d, err := c.Handle(t.Context(), open)
	if err != nil || !d.Ephemeral || !strings.Contains(d.Text, "Reply to the message") {
		t.Errorf("without a form it is answered %+v, %v", d, err)
	}
}

// Whatever the features of the agent declare, the registry takes: names, buttons and forms that no two have.
func TestFeatures_CanBeRegisteredTogether(t *testing.T) {
	e := engine(nil, recorder()).Engine
	r := feature.New(slog.New(slog.DiscardHandler))
	if err := r.Register(e.Module()); err != nil {
		t.Fatal(err)
	}
	help := r.Help(asks("1", "")).Text
	for _, want := range []string{"I answer with the agent `default` (test/)", "forget", "tools", "stop"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help does not say %q: %s", want, help)
		}
	}
	// A stop passes the queue by delivery, and nothing else of these may.
	for _, m := range []chat.Message{asks("1", "stop"), {Command: "forget"}, {Command: "tools"}, {Command: "ask"}} {
		if r.Urgent(m) {
			t.Errorf("%+v passes the queue", m)
		}
	}
	d, err := agent.Control{Engine: e}.Handle(t.Context(), chat.Message{Command: chat.CommandStop})
	if d != nil || err != nil {
		t.Errorf("a stop is answered %+v, %v", d, err)
	}
	if d, err := (agent.Conversation{Engine: e}).Handle(t.Context(), asks("1", "hello")); d != nil || err != nil {
		t.Errorf("a question is answered %+v, %v by the feature", d, err)
	}
}

// Where several people talk, only an administrator can have the conversation forgotten.
func TestForget_IsForAdministrators(t *testing.T) {
	b := engine(nil, recorder())
	b.store(t, [2]string{"words", "ok"})
	m := asks("1", "")
	m.Command, m.Conversation = "forget", chat.Address{Platform: "slack", Workspace: "T", Channel: "C"}
	d, err := agent.Control{Engine: b.Engine}.Handle(t.Context(), m)
	if err != nil || !d.Failed || !d.Ephemeral || !strings.Contains(d.Text, "an administrator has to say this") {
		t.Errorf("answered %+v, %v", d, err)
	}
}

// Who may have a question answered again: whoever asked, one of several people, and administrators.
func TestRetry_IsForWhoeverAsked(t *testing.T) {
	for name, c := range map[string]struct {
		author  chat.User
		user    string // of the turn
		refused bool
	}{
		"the asker":        {chat.User{ID: "U1"}, "web/U1", false},
		"somebody else":    {chat.User{ID: "U2"}, "web/U1", true},
		"an administrator": {chat.User{ID: "U2", Admin: true}, "web/U1", false},
		"several asked":    {chat.User{ID: "U2"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := engine(nil, recorder())
			turn := conversation.Turn{ID: "web/1", User: c.user, State: conversation.Failed}
			if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
				t.Fatal(err)
			}
			m := asks("press", chat.PressRetry+"web/1")
			m.Command, m.Author = chat.Pressed, c.author
			d, err := agent.Conversation{Engine: b.Engine}.Handle(t.Context(), m)
			if err != nil || (d != nil) != c.refused {
				t.Errorf("answered %+v, %v", d, err)
			}
			for _, value := range []string{chat.PressRetry, chat.PressTools} {
				m.Text = value + "web/1"
				d, err = agent.Conversation{Engine: b.fails("turn")}.Handle(t.Context(), m)
				if d != nil || !errors.Is(err, errUnreadable) {
					t.Errorf("%s with a store that fails: answered %+v, %v", value, d, err)
				}
			}
			m.Text = chat.PressGood + "web/1"
			d, err = agent.Conversation{Engine: b.fails("feedback")}.Handle(t.Context(), m)
			if d != nil || !errors.Is(err, errUnreadable) {
				t.Errorf("feedback that is not stored is answered %+v, %v", d, err)
			}
		})
	}
}

// Of very many calls behind an answer the first twelve are shown, and how many more there were.
func TestCallsBehindAnAnswer_AboveTwelve_AreCounted(t *testing.T) {
	b := engine(nil, recorder())
	turn := conversation.Turn{ID: "web/1", State: conversation.Answered, Origin: origin.Foreign("a *page*"), Messages: []llm.Message{
		{Role: llm.User, Parts: []llm.Part{{Text: "go"}}}, {Role: llm.Assistant}, {Role: llm.ToolRole}}}
	for n := range 14 {
		id := fmt.Sprint("c", n)
		call := llm.Call{ID: id, Name: "look", Args: json.RawMessage(`{}`)}
		turn.Messages[1].Parts = append(turn.Messages[1].Parts, llm.Part{Call: &call})
		if n < 13 { // the last one has no result: it was not made
			turn.Messages[2].Parts = append(turn.Messages[2].Parts,
				llm.Part{Result: &llm.Result{ID: id, Name: "look", Content: "seen", IsError: n == 1}})
		}
	}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
	m := asks("press", chat.PressTools+"web/1")
	m.Command = chat.Pressed
	d, err := agent.Conversation{Engine: b.Engine}.Handle(t.Context(), m)
	if err != nil || !strings.Contains(d.Text, "(13 calls)\n\nText of others that I read: a \\*page\\*") || !strings.Contains(d.Text, "and 1 more") ||
		strings.Count(d.Text, "`look`: done") != 11 || strings.Count(d.Text, "`look`: failed") != 1 {
		t.Errorf("shown as %+v, %v", d, err)
	}
}

// named returns tools of a server with a description of two lines.
func named(server string, n int) tools {
	list := tools{}
	for i := range n {
		list[fmt.Sprintf("%s_%02d", server, i)] = tool.Func{Described: tool.Spec{Server: server,
			Description: "does *thing* " + strings.Repeat("x", 100) + "\nsecond line"}}
	}
	return list
}

// The list of tools shows few of them in full, and many by the names of their servers.
func TestTools_ListIsBounded(t *testing.T) {
	show := func(b *bench, name string) string {
		t.Helper()
		d, err := agent.Tools{Engine: b.Engine}.Handle(t.Context(), asks("1", name))
		if err != nil {
			t.Fatal(err)
		}
		return d.Text
	}
	if text := show(engine(nil, recorder()), ""); text != "No tools are switched on here." {
		t.Errorf("without tools: %q", text)
	}
	few := show(engine(named("shelf", 30), recorder()), "")
	if strings.Count(few, "- `shelf_") != 30 || strings.Contains(few, "second line") ||
		!strings.Contains(few, `does \*thing\*`) || strings.Contains(few, strings.Repeat("x", 80)) {
		t.Errorf("thirty tools: %s", few)
	}
	many := engine(named("shelf", 61), recorder())
	if text := show(many, ""); !strings.Contains(text, "**61 tools can be used here**") ||
		!strings.Contains(text, "and 55 more") || strings.Count(text, "`shelf_") != 6 {
		t.Errorf("sixty-one tools: %s", text)
	}
	if text := show(many, "shelf"); !strings.Contains(text, "- and 1 more") || strings.Count(text, "- `shelf_") != 60 {
		t.Errorf("those of one server: %s", text)
	}
	box := tools{}
	for i := range 42 {
		box[fmt.Sprintf("s%02d", i)] = tool.Func{Described: tool.Spec{Server: fmt.Sprintf("server%02d", i)}}
	}
	if text := show(engine(box, recorder()), ""); !strings.Contains(text, "- and 2 more") ||
		strings.Count(text, "**server") != 40 {
		t.Errorf("forty-two servers: %s", text)
	}
	box = named("six", 6)
	maps.Copy(box, named("seven", 7))
	maps.Copy(box, named("shelf", 30))
	text := show(engine(box, recorder()), "")
	lines := strings.Split(text, "\n")
	for n, want := range map[int]string{2: "6 and 1 more", 3: "6 and 24 more", 4: "6"} {
		count, more, _ := strings.Cut(lines[n], " and ")
		if got := fmt.Sprint(strings.Count(count, "_")); more != "" && got+" and "+more != want || more == "" && got != want {
			t.Errorf("a server is listed with %s, want %s: %s", got, want, lines[n])
		}
	}
}

// The help names the model that is asked first.
func TestDescribe_NamesTheFirstModelThatIsSwitchedOn(t *testing.T) {
	b := engine(nil, recorder(), &llmtest.Model{Name: "spare"})
	inProfile(b, func(p *agent.Profile) { p.Models = []string{"off", "test/", "test/spare"} })
	if got := b.Describe(asks("1", "")); got != "I answer with the agent `default` (test/)" {
		t.Errorf("described as %q", got)
	}
}

// What a call was given and what it returned is shown from its beginning.
func TestCallsBehindAnAnswer_LongTexts_AreCut(t *testing.T) {
	b := engine(nil, recorder())
	call := llm.Call{ID: "c", Name: "look", Args: json.RawMessage(`{"text":"` + strings.Repeat("a", 1000) + `"}`)}
	turn := conversation.Turn{ID: "web/1", State: conversation.Answered, Messages: []llm.Message{
		says(llm.User, "go"),
		{Role: llm.Assistant, Parts: []llm.Part{{Call: &call}}},
		{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "c", Content: strings.Repeat("r", 1000)}}}},
	}}
	if err := b.memory.SaveTurn(t.Context(), room, &turn); err != nil {
		t.Fatal(err)
	}
	m := asks("press", chat.PressTools+"web/1")
	m.Command = chat.Pressed
	d, err := agent.Conversation{Engine: b.Engine}.Handle(t.Context(), m)
	if err != nil || strings.Contains(d.Text, strings.Repeat("a", 301)) || strings.Contains(d.Text, strings.Repeat("r", 301)) ||
		!strings.Contains(d.Text, strings.Repeat("r", 300)+"\n[cut: 700 more bytes]") {
		t.Errorf("shown as %+v, %v", d, err)
	}
}

// A chat is named by the model for small work; without one, or where it fails, by nobody.
func TestTitle(t *testing.T) {
	for name, c := range map[string]struct {
		utility bool
		answer  string
		want    string
	}{
		"no model for small work": {false, "Title", ""},
		"it fails":                {true, "", ""},
		"a title":                 {true, "\n “*Red towers.*”\nand more", "Red towers"},
	} {
		t.Run(name, func(t *testing.T) {
			small := &llmtest.Model{Name: "small", Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
				if c.answer == "" {
					return denied(n, r)
				}
				if len(r.Messages[0].Text()) > 2100 || !strings.HasPrefix(r.Messages[0].Text(), "why") {
					t.Errorf("asked with %d bytes", len(r.Messages[0].Text()))
				}
				return llmtest.Says(c.answer), nil
			}}
			b := engine(nil, small)
			if c.utility {
				inProfile(b, func(p *agent.Profile) { p.Utility = []string{"test/small"} })
			}
			if got := b.Title(t.Context(), asks("1", "why "+strings.Repeat("x", 5000))); got != c.want {
				t.Errorf("the title is %q, want %q", got, c.want)
			}
		})
	}
}

// A title is worth a wait of eight seconds.
func TestTitle_ModelHangs_IsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := engine(nil, hanging{})
		inProfile(b, func(p *agent.Profile) { p.Utility = []string{"test/hanging"} })
		began := time.Now()
		if got := b.Title(t.Context(), asks("1", "why")); got != "" || time.Since(began) != 8*time.Second {
			t.Errorf("%q after %v", got, time.Since(began))
		}
	})
}
