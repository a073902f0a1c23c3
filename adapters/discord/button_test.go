package discord_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// buttons lists the rows of a post as "label=value/style", a row a line.
func buttons(t *testing.T, p simdiscord.Post) string {
	t.Helper()
	var lines []string
	for _, raw := range p.Components {
		var r struct {
			Components []struct {
				Label string `json:"label"`
				Value string `json:"custom_id"`
				Style int    `json:"style"`
			} `json:"components"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		var row []string
		for _, b := range r.Components {
			row = append(row, fmt.Sprintf("%s=%s/%d", b.Label, b.Value, b.Style))
		}
		lines = append(lines, strings.Join(row, " "))
	}
	return strings.Join(lines, "\n")
}

// press presses a button and returns the message that it became.
func (s *stage) press(t *testing.T, post, value string) chat.Message {
	t.Helper()
	in := s.Click(post, s.ann, value)
	m := receive(t, s.got)
	if m.ID != in.ID {
		t.Fatalf("message %+v of interaction %s", m, in.ID)
	}
	return m
}

func TestButtonsStandBelowTheLastPiece(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	d := chat.Draft{Key: "k", Text: strings.Repeat("words of an answer. ", 150), Buttons: []chat.Button{
		{Label: "Stop", Value: "stop:1", Style: chat.Danger}, {Label: "Again", Value: "again:1", Style: chat.Primary}, {Label: "Helpful", Value: "good:1"}}}
	ref := s.post(t, s.address(), d)
	posts := s.Posts(s.general.ID)
	if len(posts) != 2 || len(posts[0].Components) > 0 ||
		buttons(t, posts[1]) != "Stop=stop:1/4 Again=again:1/1 Helpful=good:1/2" {
		t.Fatalf("posts %+v", posts)
	}
	shorter := chat.Draft{Key: "k2", Text: "short", Buttons: d.Buttons[2:], Replaces: ref}
	ref = s.post(t, s.address(), shorter)
	if p := s.Posts(s.general.ID)[0]; buttons(t, p) != "Helpful=good:1/2" {
		t.Errorf("kept: %+v", p)
	}
	s.post(t, s.address(), chat.Draft{Key: "k3", Text: "short", Replaces: ref})
	if p := s.Posts(s.general.ID)[0]; len(p.Components) > 0 {
		t.Errorf("not removed: %+v", p)
	}
}

// Discord refuses a whole message for one button too many, too long or twice.
func TestButtonsKeepTheLimits(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	list := []chat.Button{{Label: "no value"}, {Value: "no label"}, {Label: "long", Value: strings.Repeat("v", 101)},
		{Label: strings.Repeat("l", 100), Value: strings.Repeat("v", 100)}}
	for i := range 40 {
		list = append(list, chat.Button{Label: "b", Value: fmt.Sprint(i / 2)})
	}
	for i := range 20 {
		list = append(list, chat.Button{Label: "b", Value: fmt.Sprint("more ", i)})
	}
	s.post(t, s.address(), chat.Draft{Key: "k", Text: "press", Buttons: list})
	p := s.Posts(s.general.ID)[0]
	if got := buttons(t, p); len(p.Components) != 5 || strings.Count(got, "=") != 25 ||
		!strings.Contains(got, strings.Repeat("l", 79)+"…=") {
		t.Errorf("buttons\n%s", got)
	}
}

// A button comes and goes while an answer is written, though its words stay.
func TestButtonsOfAnAnswerBeingWritten(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	d := chat.Draft{Key: "k", Text: "so far", Partial: true}
	for _, want := range []string{"", "Stop=stop/2", ""} {
		d.Buttons = nil
		if want != "" {
			d.Buttons = []chat.Button{{Label: "Stop", Value: "stop"}}
		}
		d.Replaces = s.post(t, s.address(), d)
		if p := s.Posts(s.general.ID); len(p) != 1 || buttons(t, p[0]) != want {
			t.Errorf("want %q: %+v", want, p)
		}
	}
}

func TestPressOfAButton(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	thread, boss := s.AddThread(s.general, "side"), s.AddManager("boss")
	in := s.address()
	in.Thread = thread.ID
	ref := s.post(t, in, chat.Draft{Key: "k", Text: "an answer",
		Buttons: []chat.Button{{Label: "Again", Value: "again:1"}}})
	click := s.Click(ref.IDs[0], boss, "again:1")
	m := receive(t, s.got)
	if m.ID != click.ID || m.Command != chat.Pressed || m.Text != "again:1" || m.Reach != chat.Addressed ||
		m.Conversation != in ||
		m.Author.ID != boss.ID || !m.Author.Admin || m.Reply.MessageID != ref.IDs[0] || len(m.Reply.Handle) == 0 {
		t.Errorf("message %+v", m)
	}
	back, err := s.WaitCallback(within(t), m.ID)
	if err != nil || back.Type != simdiscord.CallbackDeferredUpdate {
		t.Errorf("callback %+v: %v", back, err)
	}
}

// What a deferred update calls the original message is the post with the button.
func TestAnswerToAPressLeavesThePost(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	ref := s.post(t, s.address(), chat.Draft{Key: "k", Text: "an answer",
		Buttons: []chat.Button{{Label: "Good", Value: "good"}}})
	s.Fail(sim.Fault{
		Match:  sim.MatchPath("POST", "/callback"),
		Times:  1,
		Status: 500,
	}) // the answer is ready before Discord knows of it
	m := s.press(t, ref.IDs[0], "good")
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: strings.Repeat("thank you @everyone. ", 150), Reply: m.Reply})
	posts := s.Posts(s.general.ID)
	if len(posts) != 3 || posts[0].Edits != 0 || posts[0].Content != "an answer" || len(posts[0].Components) != 1 {
		t.Fatalf("posts %+v", posts)
	}
	for _, p := range posts[1:] {
		if p.Interaction != m.ID || !p.Ephemeral() || p.Pings.Everyone || p.Flags&simdiscord.FlagSuppressEmbeds == 0 {
			t.Errorf("answer %+v", p)
		}
	}
}

// Too late for an answer to the press, the channel has to do.
func TestLateAnswerToAPress(t *testing.T) {
	t.Parallel()
	s := open(t, script{sim: simdiscord.Options{TokenLife: 1}})
	ref := s.post(t, s.address(), chat.Draft{Key: "k", Text: "an answer",
		Buttons: []chat.Button{{Label: "Good", Value: "good"}}})
	m := s.press(t, ref.IDs[0], "good")
	s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: "thank you", Reply: m.Reply})
	posts := s.Posts(s.general.ID)
	if len(posts) != 2 || posts[0].Edits != 0 || posts[1].ReplyTo != ref.IDs[0] || posts[1].Content != "thank you" {
		t.Errorf("posts %+v", posts)
	}
}

// Menus and forms are none of this bot's; earlier versions of it, or whoever had
// its token before, may have made some.
func TestForeignComponentsAreHarmless(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	s.rest(t, "POST", "/channels/"+s.general.ID+"/messages", `{"content":"choose","components":[{"type":1,"components":[
		{"type":3,"custom_id":"menu","options":[{"label":"a","value":"a"}]}]}]}`)
	in := s.Click(s.Posts(s.general.ID)[0].ID, s.ann, "menu", "a")
	p, err := s.WaitAnswer(within(t), in.ID, anyPost)
	if err != nil || !p.Ephemeral() || p.Content != "This button or form no longer works." {
		t.Errorf("answer %+v: %v", p, err)
	}
	s.exchange(t, 0, 1)
}

// An answer that is given again may begin as the first one did.
func TestAnswerBegunAgainIsShown(t *testing.T) {
	t.Parallel()
	s := open(t, script{})
	begun := chat.Draft{Key: "k", Text: "so far", Partial: true}
	whole := chat.Draft{Key: "k", Text: "the whole answer"}
	whole.Replaces = s.post(t, s.address(), begun)
	begun.Replaces = s.post(t, s.address(), whole)
	s.post(t, s.address(), begun)
	if p := s.Posts(s.general.ID); len(p) != 1 || !strings.HasPrefix(p[0].Content, "so far") {
		t.Errorf("posts %+v", p)
	}
}
