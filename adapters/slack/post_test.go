package slack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/kit"
	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

// standing are the texts of the bot's posts that are there, in order.
func standing(b *bot, channel string) []string {
	var texts []string
	for _, p := range b.sim.Posts(channel) {
		if !p.Deleted {
			texts = append(texts, p.Text)
		}
	}
	return texts
}

// long is a text of n pieces.
func long(word string, n int) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprint(word, " ", i, " ", strings.Repeat("word ", 2100)))
	}
	return strings.Join(parts, "\n\n")
}

// first returns the beginning of texts, which tells the pieces of long apart.
func first(texts []string) []string {
	var words []string
	for _, t := range texts {
		words = append(words, t[:min(len(t), 7)])
	}
	return words
}

func TestAnAnswerIsPutInThePlaceOfAnother(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	anna := b.sim.AddUser("anna")
	up(t, b)
	cases := []struct {
		name      string
		was, is   int
		gone      []int // pieces that somebody deleted meanwhile
		responses int   // answers at a response_url, which cannot be edited
		want      []string
	}{
		{name: "as many", was: 2, is: 2, want: []string{"is    0", "is    1"}},
		{name: "more", was: 1, is: 3, want: []string{"is    0", "is    1", "is    2"}},
		{name: "fewer", was: 3, is: 1, want: []string{"is    0"}},
		{name: "the first is gone", was: 2, is: 2, gone: []int{0}, want: []string{"is    0", "is    1"}},
		{name: "the last is gone", was: 2, is: 2, gone: []int{1}, want: []string{"is    0", "is    1"}},
		{name: "all are gone", was: 2, is: 1, gone: []int{0, 1}, want: []string{"is    0"}},
		{name: "no message at all", responses: 2, is: 1, want: []string{"is    0"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			channel := b.sim.AddChannel(c.name).ID
			root := b.sim.Mention(channel, anna, "hi")
			to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel, Thread: root.TS}
			var before chat.Ref
			if c.was > 0 {
				var err error
				if before, err = b.Post(deadline(t), to, chat.Draft{
					Key:    "was",
					Text:   long("was  ", c.was),
					Footer: "first",
				}); err != nil {
					t.Fatal(err)
				}
			}
			for range c.responses {
				before.IDs = append(before.IDs, "response/1234")
			}
			for _, n := range c.gone {
				b.sim.Delete(channel, before.IDs[n])
			}
			d := chat.Draft{Key: "is", Text: long("is   ", c.is), Replaces: before}
			for range 2 { // a repeated edit changes nothing
				ref, err := b.Post(deadline(t), to, d)
				if err != nil || len(ref.IDs) != c.is || ref.Repeated {
					t.Fatalf("%+v, %v", ref, err)
				}
				if diff := cmp.Diff(c.want, first(standing(b, channel))); diff != "" {
					t.Error(diff)
				}
				d.Again, d.Since = true, time.Now()
			}
		})
	}
}

// Slack neither edits nor deletes what it shows to one person alone, and has no thread below it, although it has a
// timestamp. That timestamp must not be used as that of a post.
func TestPost_ReplacesAnEphemeralPost_IsPostedBesideIt(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	to := chat.Address{Channel: channel}
	ref, err := b.Post(deadline(t), to, chat.Draft{Key: "other", Text: "other words"})
	if err != nil {
		t.Fatal(err)
	}
	private := chat.Ref{IDs: []string{"ephemeral/" + ref.IDs[0]}}
	if _, err := b.Post(deadline(t), to, chat.Draft{Key: "is", Text: "new words", Replaces: private}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"other words", "new words"}, standing(b, channel)); diff != "" {
		t.Errorf("posts (-want +got):\n%s", diff)
	}
	if at, err := b.Thread(deadline(t), to, private, ""); err != nil || at != to {
		t.Errorf("the thread below it is %v, %v, want none", at, err)
	}
}

func TestAnEditedPostStaysQuietAndLosesItsOldForm(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	to := chat.Address{Channel: channel}
	ref, err := b.Post(deadline(t), to, chat.Draft{Key: "was", Text: "**bold** words"})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"<!channel> <@U1> https://example.org", "plain words"} {
		if ref, err = b.Post(deadline(t), to, chat.Draft{Key: "is", Text: text, Replaces: ref}); err != nil {
			t.Fatal(err)
		}
		p := b.sim.Posts(channel)[0]
		if p.Pings.Any() || p.Unfurl != "false,false" {
			t.Errorf("%q pings %+v and shows previews %s", text, p.Pings, p.Unfurl)
		}
		if text == "plain words" && (p.Blocks != nil || p.Text != text) {
			t.Errorf("shows %s %q", p.Blocks, p.Text)
		}
	}
	// Slack's documents do not agree on whether a text alone drops the blocks of before.
	if _, err := b.sim.WaitRequest(deadline(t), func(r sim.Request) bool {
		return strings.HasSuffix(r.Path, "chat.update") && strings.Contains(string(r.Body), "blocks=%5B%5D")
	}); err != nil {
		t.Error(err)
	}
}

func TestPlainWordsShowAboveTheirFooter(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	if _, err := b.Post(deadline(t), chat.Address{Channel: channel}, chat.Draft{
		Key:    "k",
		Text:   "plain words",
		Footer: "a note",
	}); err != nil {
		t.Fatal(err)
	}
	var blocks []struct{ Type string }
	raw := b.sim.Posts(channel)[0].Blocks
	if err := json.Unmarshal(raw, &blocks); err != nil || len(blocks) != 2 || blocks[0].Type != "markdown" ||
		blocks[1].Type != "context" {
		t.Errorf("blocks %s, want the words and the note", raw)
	}
}

// unanswered makes the next post take effect without an answer.
func unanswered(b *bot, path string) {
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", path), Times: 1, Accept: true, Status: http.StatusBadGateway})
}

func TestABusyChannelDoesNotHideAnEarlierAttempt(t *testing.T) {
	for _, since := range []bool{true, false} {
		b := start(t, simslack.Options{}, slack.Options{})
		channel, anna := b.sim.AddDM(b.sim.AddUser("anna")).ID, b.sim.AddUser("anna")
		up(t, b)
		asked := b.sim.DM(anna, "hi")
		to := chat.Address{Channel: channel}
		d := chat.Draft{Key: "k", Text: "an answer"}
		if since {
			d.Since = time.Now()
		} else {
			d.Reply.MessageID = asked.TS
			d.Since = time.Now().Add(72 * time.Hour) // the bot's clock is wrong
		}
		chatter := func() {
			for n := range 150 {
				b.sim.Say(channel, anna, fmt.Sprint("chatter ", n))
			}
		}
		chatter()
		unanswered(b, "chat.postMessage")
		if _, err := b.Post(deadline(t), to, d); err == nil {
			t.Fatal("no failure")
		}
		chatter()
		ref, err := b.Post(deadline(t), to, d)
		if err != nil || ref.Repeated || len(standing(b, channel)) != 1 {
			t.Errorf("%+v, %v, posts %q", ref, err, standing(b, channel))
		}
	}
}

func TestAnAttemptWithoutItsLabelIsKnownByItsText(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	call := b.sim.Slash(channel, anna, "/raven", "ask who are you?")
	m := b.wait(t, 1)[0]
	d := chat.Draft{Key: "k", Text: "see https://example.org & <that>", Reply: m.Reply, Since: time.Now()}
	unanswered(b, "/commands/")
	if _, err := b.Post(deadline(t), m.Conversation, d); err == nil {
		t.Fatal("no failure")
	}
	d.Again = true
	ref, err := b.Post(deadline(t), m.Conversation, d)
	if err != nil || ref.Repeated || len(b.sim.Posts(channel)) != 1 || len(b.sim.Answers(call)) != 1 {
		t.Errorf("%+v, %v, posts %q", ref, err, standing(b, channel))
	}
}

func TestNothingIsSentWhileLookingFails(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	to, d := chat.Address{Channel: channel}, chat.Draft{Key: "k", Text: "an answer", Again: true, Since: time.Now()}
	faults := []sim.Fault{{Status: http.StatusBadGateway}, {Drop: true},
		{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "1"}},
		{Status: http.StatusOK, Body: `{"ok":false,"error":"internal_error"}`}}
	for _, f := range faults {
		f.Match = sim.MatchPath("POST", "conversations.history")
		off := b.sim.Fail(f)
		_, err := b.Post(deadline(t), to, d)
		off()
		var failed *chat.PostError
		if !errors.As(err, &failed) || failed.Permanent || !failed.Maybe || len(b.sim.Posts(channel)) != 0 {
			t.Errorf("%+v: %v, posts %q", f, err, standing(b, channel))
		}
		if f.Status == http.StatusTooManyRequests && failed.After != time.Second {
			t.Errorf("to wait %v, want 1s", failed.After)
		}
		kit.Sleep(t.Context(), failed.After)
	}
	ref, err := b.Post(deadline(t), to, d)
	if err != nil || ref.Repeated || len(b.sim.Posts(channel)) != 1 {
		t.Errorf("%+v, %v", ref, err)
	}
}

func TestLookingWaitsUntilTheBotKnowsItself(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	to, d := chat.Address{Channel: channel}, chat.Draft{Key: "k", Text: "an answer"}
	if _, err := b.Post(deadline(t), to, d); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", "auth.test"), Times: 1, Hang: 300 * time.Millisecond})
	d.Again = true
	if ref, err := join(t, b.sim, slack.Options{}).Post(deadline(t), to, d); err != nil || len(ref.IDs) != 1 ||
		len(b.sim.Posts(channel)) != 1 {
		t.Errorf("%+v, %v, posts %q", ref, err, standing(b, channel))
	}
}

func TestWhatCannotBeLookedUpIsSentOnceMoreAndSaysSo(t *testing.T) {
	b := start(t, simslack.Options{Scopes: slices.DeleteFunc(slack.Scopes(), func(s string) bool {
		return s == "channels:history"
	})}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	to, d := chat.Address{Channel: channel}, chat.Draft{Key: "k", Text: "an answer", Footer: "a note", Since: time.Now()}
	unanswered(b, "chat.postMessage")
	if _, err := b.Post(deadline(t), to, d); err == nil {
		t.Fatal("no failure")
	}
	unanswered(b, "chat.postMessage")
	if _, err := b.Post(deadline(t), to, d); err == nil {
		t.Fatal("no failure")
	}
	_, err := b.Post(deadline(t), to, d)
	var failed *chat.PostError
	if !errors.As(err, &failed) || !failed.Permanent {
		t.Errorf("the third attempt: %v, want a refusal for good", err)
	}
	posts := b.sim.Posts(channel)
	if len(posts) != 2 || strings.Contains(string(posts[0].Blocks), chat.MayRepeat) ||
		!strings.Contains(string(posts[1].Blocks), "a note · "+chat.MayRepeat) {
		t.Errorf("posts %+v", posts)
	}
	d.Key, d.Again = "after a restart", true
	if ref, err := b.Post(deadline(t), to, d); err != nil || !ref.Repeated {
		t.Errorf("%+v, %v", ref, err)
	}
}

func TestARepeatedAnswerToACommandSaysSo(t *testing.T) {
	for _, own := range []bool{true, false} { // for the asker alone, or for all
		b := start(t, simslack.Options{}, slack.Options{})
		channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
		up(t, b)
		call := b.sim.Slash(channel, anna, "/raven", "help")
		m := b.wait(t, 1)[0]
		d := chat.Draft{Key: "k", Text: "help yourself", Reply: m.Reply, Ephemeral: own, Since: time.Now(), Again: true}
		ref, err := b.Post(deadline(t), m.Conversation, d)
		if err != nil || !ref.Repeated {
			t.Errorf("%+v, %v", ref, err)
		}
		shown := ""
		for _, a := range b.sim.Answers(call) {
			shown += string(a.Blocks)
		}
		for _, p := range b.sim.Posts(channel) {
			shown += string(p.Blocks)
		}
		if !strings.Contains(shown, chat.MayRepeat) || own == (len(b.sim.Answers(call)) == 0) {
			t.Errorf("for the asker alone %v: shown %s", own, shown)
		}
	}
}

func TestAnAnswerThatNeverLeftIsNoRepeat(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	call := b.sim.Slash(channel, anna, "/raven", "help")
	m := b.wait(t, 1)[0]
	b.sim.Fail(sim.Fault{Match: sim.MatchPath("POST", "/commands/"), Times: 1, Status: http.StatusNotFound,
		Body: `{"ok":false,"error":"expired_url"}`})
	ref, err := b.Post(deadline(t), m.Conversation, chat.Draft{Key: "k", Text: "the answer", Reply: m.Reply})
	if err != nil || ref.Repeated || len(b.sim.Answers(call)) != 0 || len(b.sim.Posts(channel)) != 1 {
		t.Errorf("%+v, %v, posts %q", ref, err, standing(b, channel))
	}
}

func TestPost_WithoutTheScope_NamesTheRemedy(t *testing.T) {
	b := start(t, simslack.Options{Scopes: without("chat:write", "assistant:write")}, slack.Options{})
	channel := b.sim.AddChannel("general").ID
	up(t, b)
	_, err := b.Post(deadline(t), chat.Address{Channel: channel}, chat.Draft{Key: "k", Text: "an answer"})
	var failed *chat.PostError
	if !errors.As(err, &failed) || !failed.Permanent || !strings.Contains(err.Error(), "add the scope") ||
		strings.Contains(err.Error(), "edit") {
		t.Errorf("refused with %v, want the remedy", err)
	}
}
