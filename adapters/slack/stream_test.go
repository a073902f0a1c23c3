package slack_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

// asked is a question in a channel, and where and how it is answered.
func asked(t *testing.T, b *bot) (to chat.Address, d chat.Draft) {
	t.Helper()
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	e := b.sim.Mention(channel, anna, "tell me")
	m := b.wait(t, 2)[1]
	return m.Conversation, chat.Draft{Key: m.Key(), Partial: true, Reply: chat.Reply{MessageID: e.TS},
		Buttons: []chat.Button{{Label: "Stop", Value: chat.PressStop}}}
}

// grow shows an answer as it grows and returns where it stands.
func grow(t *testing.T, b *bot, to chat.Address, d chat.Draft, texts ...string) chat.Draft {
	t.Helper()
	for _, text := range texts {
		d.Text = text
		ref, err := b.Post(deadline(t), to, d)
		if err != nil {
			t.Fatal(err)
		}
		d.Replaces = ref
	}
	return d
}

// whole posts the whole answer.
func whole(t *testing.T, b *bot, to chat.Address, d chat.Draft) chat.Ref {
	t.Helper()
	d.Partial, d.Buttons = false, []chat.Button{{Label: "👍", Value: chat.PressGood + "turn"}}
	ref, err := b.Post(deadline(t), to, d)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func calls(b *bot, method string) int {
	n := 0
	for _, r := range b.sim.Requests() {
		if strings.HasSuffix(r.Path, "/"+method) {
			n++
		}
	}
	return n
}

// A crash leaves the beginning of an answer, and another message joins the question before the next start answers it.
func TestPost_BeginningIsOlderThanTheLastMessage_IsReplaced(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	grow(t, b, to, d, "The answer is so far ")
	second := b.sim.ThreadReply(to.Channel, to.Thread, b.sim.AddUser("berit"), simslack.BotMention+" and you?")
	d.Text, d.Again = "The whole answer.", true
	d.Reply, d.Answers = chat.Reply{MessageID: second.TS}, []chat.Reply{d.Reply}
	ref := whole(t, b, to, d)
	left := 0
	for _, p := range b.sim.Posts(to.Channel) {
		if !p.Deleted {
			left++
		}
	}
	if left != 1 || len(ref.IDs) != 1 {
		t.Errorf("%d posts are left, want the whole answer alone", left)
	}
}

func TestAnAnswerIsStreamedAndEndsAsOnePost(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	d.Tools = []chat.ToolRun{{ID: "1", Name: "web_fetch", State: chat.Running}}
	d = grow(t, b, to, d, "", "The **answer** is that <!chan")
	d.Tools[0].State = chat.Done
	d = grow(t, b, to, d, "The **answer** is that <!channel> calls",
		"The **answer** is that <!channel> calls nobody, I think.")
	p := b.sim.Posts(to.Channel)[0]
	if !p.Streaming || p.Recipient == "" || p.ThreadTS != to.Thread || p.Unfurl != "false,false" ||
		p.Tasks["1"] != "complete" ||
		!strings.HasPrefix(p.Markdown, "The **answer** is that <") {
		t.Errorf("while it is written: %+v", p)
	}
	d.Text += "\n\nThat is all."
	ref := whole(t, b, to, d)
	posts := b.sim.Posts(to.Channel)
	if len(posts) != 1 || len(ref.IDs) != 1 || posts[0].Streaming || posts[0].Edits != 0 || posts[0].Pings.Any() ||
		!strings.HasSuffix(posts[0].Markdown, "nobody, I think.\n\nThat is all.") ||
		!strings.Contains(string(posts[0].Blocks), "👍") ||
		strings.Contains(string(posts[0].Blocks), "web_fetch") ||
		!strings.Contains(string(posts[0].Metadata), "ravenbot_post") {
		t.Errorf("in the end: %+v", posts)
	}
}

func TestAStreamThatHasToChangeIsEdited(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	d = grow(t, b, to, d, "I think it is green, or", "No: it is blue, as the sky", "No: it is blue, as the sky is")
	if p := b.sim.Posts(to.Channel)[0]; p.Streaming || p.Edits != 2 || !strings.Contains(string(p.Blocks), "it is blue") {
		t.Errorf("while it is written: %+v", p)
	}
	d.Text = "It is blue."
	whole(t, b, to, d)
	posts := b.sim.Posts(to.Channel)
	if len(posts) != 1 || posts[0].Text != "It is blue." || !strings.Contains(string(posts[0].Blocks), "👍") ||
		strings.Contains(string(posts[0].Blocks), "Stop") {
		t.Errorf("in the end: %+v", posts)
	}
}

func TestALongStreamGoesOnInAnotherMessage(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	text := ""
	for n := range 60 {
		text += fmt.Sprintf("Paragraph %d. %s\n\n", n, strings.Repeat("word ", 80))
		d = grow(t, b, to, d, text)
	}
	d.Text = text
	ref := whole(t, b, to, d)
	posts := b.sim.Posts(to.Channel)
	if len(posts) < 3 || len(ref.IDs) != len(posts) {
		t.Fatalf("%d posts, ids %v", len(posts), ref.IDs)
	}
	shown := ""
	for n, p := range posts {
		shown += p.Markdown + "\n\n"
		if p.Streaming || p.Edits != 0 || p.Appends < 5 || len(p.Markdown) > 12_000 {
			t.Errorf("post %d: streaming %v, edits %d, appends %d, %d bytes", n, p.Streaming, p.Edits, p.Appends,
				len(p.Markdown))
		}
	}
	if strings.Join(strings.Fields(shown), " ") != strings.Join(strings.Fields(text), " ") {
		t.Error("the streams show something else than the answer")
	}
}

func TestWithoutStreamsAnAnswerIsEdited(t *testing.T) {
	for _, word := range []string{"unknown_method", "missing_scope", "not_in_channel"} {
		logged := &journal{}
		b := start(t, simslack.Options{}, slack.Options{Log: logged.logger()})
		to, d := asked(t, b)
		b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", "chat.startStream"), Status: http.StatusOK,
			Body: `{"ok":false,"error":"` + word + `"}`})
		for range 2 {
			d.Replaces = chat.Ref{}
			d = grow(t, b, to, d, "one two", "one two three")
			d.Text = "one two three."
			whole(t, b, to, d)
		}
		posts := b.sim.Posts(to.Channel)
		if len(posts) != 2 || posts[0].Text != "one two three." || posts[0].Edits != 2 || calls(b, "chat.startStream") != 1 {
			t.Errorf("%s: %d streams begun, %d posts, the first shows %q after %d edits", word, calls(b, "chat.startStream"),
				len(posts), posts[0].Text, posts[0].Edits)
		}
		if lines := logged.wait(t, "remedy="); strings.Count(lines, "remedy=") != 1 {
			t.Errorf("%s: logged %s", word, lines)
		}
	}
}

func TestWhereNobodyIsAnsweredNothingIsStreamed(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	d.Reply.MessageID = "1700000000.000001" // of somebody unknown, as after a restart
	grow(t, b, to, d, "one", "one two")
	grow(t, b, to.Base(), d, "one", "one two")
	if n := calls(b, "chat.startStream"); n != 0 {
		t.Errorf("%d streams begun", n)
	}
	b.sim.RateLimit("chat.startStream", 1, time.Minute)
	for _, m := range b.wait(t, 2) {
		d.Reply.MessageID = m.Reply.MessageID
		grow(t, b, to, d, "a slow one", "a slow one it is")
	}
	if n := calls(b, "chat.startStream"); n != 1 {
		t.Errorf("%d streams begun while Slack wants none", n)
	}
}

// A process that is killed leaves a stream open. The next one ends it in place,
// whether it knows where it stands or has to look.
func TestAStreamOfAnEarlierProcessIsEndedInPlace(t *testing.T) {
	for _, c := range []struct {
		name  string
		known bool
		part  []string
	}{
		{"known", true, []string{"The answer is", "The answer is still being"}},
		{"looked for", false, []string{"The answer is still being"}},
		{"wholly written", false, []string{"The answer is yes. "}},
		{"stopped, not yet whole", false, []string{"Nothing like it", "The answer is still being"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, simslack.Options{}, slack.Options{})
			to, d := asked(t, b)
			d = grow(t, b, to, d, c.part...)
			b.stop()
			next := join(t, b.sim, slack.Options{})
			if !c.known {
				d.Replaces, d.Again, d.Since = chat.Ref{}, true, time.Now()
			}
			d.Text = "The answer is yes."
			for range 2 { // and once more, as if the outcome had been lost
				ref := whole(t, next, to, d)
				posts := b.sim.Posts(to.Channel)
				if len(posts) != 1 || posts[0].Streaming || !slices.Equal(ref.IDs, []string{posts[0].TS}) || ref.Repeated ||
					posts[0].Text != d.Text {
					t.Fatalf("%+v, posts %+v", ref, posts)
				}
				d.Again, d.Since = true, time.Now()
			}
		})
	}
}

// A stream whose start got no answer may be there.
func TestAStreamThatMayHaveBegunIsNoSecondPost(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	unanswered(b, "chat.startStream")
	d.Text = "The answer is being"
	if _, err := b.Post(deadline(t), to, d); err == nil {
		t.Fatal("no failure")
	}
	d.Text = "The answer is yes."
	whole(t, b, to, d)
	if posts := b.sim.Posts(to.Channel); len(posts) != 1 || posts[0].Streaming || posts[0].Text != d.Text {
		t.Errorf("posts %+v", posts)
	}
}

func TestAStreamThatSlackEndedIsEdited(t *testing.T) {
	for _, method := range []string{"chat.appendStream", "chat.stopStream"} {
		b := start(t, simslack.Options{}, slack.Options{})
		to, d := asked(t, b)
		d = grow(t, b, to, d, "one two")
		b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", method), Status: http.StatusOK,
			Body: `{"ok":false,"error":"message_not_in_streaming_state"}`, Accept: true, Times: 1})
		d = grow(t, b, to, d, "one two three four")
		d.Text = "one two three four five"
		whole(t, b, to, d)
		if posts := b.sim.Posts(to.Channel); len(posts) != 1 || posts[0].Streaming ||
			!strings.Contains(posts[0].Shown(), "four five") {
			t.Errorf("%s: posts %+v", method, posts)
		}
	}
}

// Whatever a text is cut into while it grows, it calls nobody, and text without
// spaces is shown, too.
func TestAGrowingStreamCallsNobody(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	text := []rune("你好世界。<!channel> and <@U0123> 世<!here>界, <!subteam^S1>, @everyone\n<#C1> `<!everyone>`")
	for n := range text {
		d = grow(t, b, to, d, string(text[:n+1]))
	}
	posts := b.sim.Posts(to.Channel)
	if len(posts) != 1 || !posts[0].Streaming || posts[0].Appends < 10 || posts[0].Pings.Any() ||
		!strings.HasPrefix(posts[0].Markdown, "你好世界。<") {
		t.Errorf("while it grows: %q calls %+v", posts[0].Markdown, posts[0].Pings)
	}
	d.Text = string(text)
	whole(t, b, to, d)
	if p := b.sim.Posts(to.Channel)[0]; p.Pings.Any() || p.Edits != 0 || !strings.HasSuffix(p.Markdown, "everyone>`") {
		t.Errorf("in the end: %q calls %+v", p.Markdown, p.Pings)
	}
}

// Of a beginning that could not be shown as a whole the first message is there: the whole answer takes its place.
func TestPost_ShowingTheBeginningFailed_WholeAnswerTakesItsPlace(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	to, d := asked(t, b)
	d.Reply.MessageID = strings.TrimSuffix(d.Reply.MessageID, "0") + "1" // nobody's, so that there is no stream
	posts := 0
	b.sim.Fail(sim.Fault{Match: func(r sim.Request) bool {
		if !strings.HasSuffix(r.Path, "/chat.postMessage") {
			return false
		}
		posts++
		return posts == 2
	}, Times: 1, Status: http.StatusOK, Body: `{"ok":false,"error":"restricted_action"}`})
	d.Text = long("is   ", 2)
	if ref, err := b.Post(deadline(t), to, d); err == nil {
		t.Fatalf("no failure, %v", ref)
	}
	d.Text, d.Since = "the whole answer", time.Now()
	ref := whole(t, b, to, d)
	if got := standing(b, to.Channel); ref.Repeated || len(got) != 1 || got[0] != d.Text {
		t.Errorf("%+v, the channel shows %q, want the whole answer alone", ref, first(got))
	}
}
