package slack_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

// known makes Options.Heard of conversations.
func known(list ...chat.LastSeen) func(context.Context) ([]chat.LastSeen, error) {
	return func(context.Context) ([]chat.LastSeen, error) { return list, nil }
}

// in names a channel, or a thread in it, with the last message taken there.
func in(channel, thread, last string) chat.LastSeen {
	h := chat.LastSeen{Conversation: chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel,
		Thread: thread}}
	if last != "" {
		h.Message = simslack.TeamID + "/" + channel + "/" + last
	}
	return h
}

// world is a Slack without a bot.
func world(t *testing.T, o simslack.Options) *simslack.Server {
	t.Helper()
	if o.RetryDelays == nil {
		o.RetryDelays = []time.Duration{} // what is missed is not told later
	}
	server, err := simslack.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

func texts(messages []chat.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Text)
	}
	return all
}

// byConversation keeps each message once, in the order of its conversation.
func byConversation(messages []chat.Message) map[chat.Address][]chat.Message {
	all, seen := map[chat.Address][]chat.Message{}, map[string]bool{}
	for _, m := range messages {
		if !seen[m.Key()] {
			seen[m.Key()] = true
			m.Author.Name = "" // comes with the message where it is known at once
			all[m.Conversation] = append(all[m.Conversation], m)
		}
	}
	return all
}

func TestWhatWasMissedIsTakenAsIfItHadComeLive(t *testing.T) {
	server := world(t, simslack.Options{})
	general, anna, berit := server.AddChannel("general").ID, server.AddUser("anna"), server.AddUser("berit")
	direct := server.AddDM(anna).ID
	before := server.Mention(general, anna, "before the bot was there")
	live := join(t, server, slack.Options{})
	up(t, live)
	server.ThreadReply(general, before.TS, berit, "in a thread that is known")
	root := server.Mention(general, anna, "a &lt;question&gt; <https://example.org|here>")
	server.ThreadReply(general, root.TS, berit, "<@"+anna.ID+"> what do you mean?")
	server.ThreadReply(general, root.TS, anna, "this")
	plain := server.Say(general, berit, "just talking")
	server.ThreadReply(general, plain.TS, anna, simslack.BotMention+" and you?")
	server.ThreadReply(general, before.TS, anna, "more of it")
	server.ThreadBroadcast(general, before.TS, berit, "for all to see")
	server.ThreadBroadcast(general, root.TS, berit, "and this")
	server.DM(anna, "psst")
	server.DM(anna, "are you there?")
	heard := live.wait(t, 13)
	live.stop()
	for server.Connections() > 0 { // else Slack may still send the last message to the one that has gone
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline(t).Done():
			t.Fatal("the connection is still open")
		}
	}
	late := join(t, server, slack.Options{CatchUp: time.Hour,
		LastSeen: known(in(general, before.TS, before.TS), in(direct, "", ""))})
	late.wait(t, 11)
	late.sim.Say(general, berit, "that is all")
	end := late.wait(t, 12)
	missed := slices.Clone(end[:11])
	for i := range missed {
		if !missed[i].Missed {
			t.Errorf("%q does not count as missed", missed[i].Text)
		}
		missed[i].Missed = false // in all else it is as if it had come live
	}
	if diff := cmp.Diff(byConversation(heard), byConversation(missed)); diff != "" {
		t.Error(diff)
	}
}

func TestLiveMessagesWaitForWhatWasMissedBeforeThem(t *testing.T) {
	server := world(t, simslack.Options{AckWithin: 300 * time.Millisecond,
		RetryDelays: []time.Duration{50 * time.Millisecond, 200 * time.Millisecond}})
	busy, calm, anna := server.AddChannel("busy").ID, server.AddChannel("calm").ID, server.AddUser("anna")
	root := server.Mention(busy, anna, "known")
	server.ThreadReply(busy, root.TS, anna, "missed in the thread")
	server.Mention(busy, anna, "missed")
	broken := server.Fail(sim.Fault{Match: func(r sim.Request) bool {
		return strings.HasSuffix(r.Path, "conversations.history") && strings.Contains(string(r.Body), busy)
	}, Status: http.StatusBadGateway})
	b := join(t, server, slack.Options{CatchUp: time.Hour, LastSeen: known(in(busy, root.TS, root.TS), in(calm, "", ""))})
	up(t, b)
	for _, e := range []simslack.Event{server.Mention(busy, anna, "live"),
		server.ThreadReply(busy, root.TS, anna, "live in the thread")} {
		if _, err := server.WaitDelivery(deadline(t), func(d simslack.Delivery) bool {
			return d.EventID == e.IDs[0] && d.Over
		}); err != nil {
			t.Fatal(err)
		}
	}
	acked(t, b, server.Mention(calm, anna, "elsewhere"))
	for _, m := range b.wait(t, 2) {
		if m.Text == "live" {
			t.Error("taken before what was missed")
		}
	}
	broken()
	got := map[string]int{}
	for n := 1; len(got) < 5; n++ {
		for i, m := range b.wait(t, n) {
			if _, again := got[m.Text]; !again {
				got[m.Text] = i
			}
		}
	}
	if got["missed"] > got["live"] || got["missed in the thread"] > got["live in the thread"] {
		t.Errorf("taken in the order %v", got)
	}
}

func TestAThousandMessagesArriveThroughPagesAndLimits(t *testing.T) {
	server := world(t, simslack.Options{})
	channel, anna := server.AddChannel("general").ID, server.AddUser("anna")
	var want []string
	for n := range 450 {
		want = append(want, fmt.Sprint("message ", n))
		server.Say(channel, anna, want[n])
	}
	server.RateLimit("conversations.history", 2, time.Second)
	b := join(t, server, slack.Options{CatchUp: time.Hour, LastSeen: known(in(channel, "", ""))})
	if diff := cmp.Diff(want, texts(b.wait(t, len(want)))); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsReadFromBeforeItsBound(t *testing.T) {
	server := world(t, simslack.Options{})
	channel, anna := server.AddChannel("general").ID, server.AddUser("anna")
	root := server.Mention(channel, anna, "long ago")
	server.ThreadReply(channel, root.TS, anna, "and more of it")
	var log journal
	b := join(t, server, slack.Options{CatchUp: 15 * time.Minute,
		LastSeen: known(in(channel, "", ""), in(channel, root.TS, "")), Log: log.logger(),
		Now: func() time.Time { return time.Now().Add(time.Hour) }})
	log.wait(t, "caught up")
	if len(b.got) != 0 {
		t.Errorf("taken %q", texts(b.got))
	}
}

// journal is a log that can be waited for.
type journal struct {
	mu    sync.Mutex
	lines bytes.Buffer
	more  chan struct{}
}

func (j *journal) logger() *slog.Logger {
	j.more = make(chan struct{}, 10_000)
	return slog.New(slog.NewTextHandler(j, nil))
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.more <- struct{}{}
	return j.lines.Write(line)
}

func (j *journal) wait(t *testing.T, text string) string {
	t.Helper()
	for {
		j.mu.Lock()
		lines := j.lines.String()
		j.mu.Unlock()
		if strings.Contains(lines, text) {
			return lines
		}
		select {
		case <-j.more:
		case <-time.After(20 * time.Second):
			t.Fatalf("the log lacks %q: %s", text, lines)
		}
	}
}

func TestAChannelThatCannotBeReadHoldsUpNobody(t *testing.T) {
	server := world(t, simslack.Options{Scopes: slices.DeleteFunc(slack.Scopes(), func(s string) bool {
		return s == "im:history"
	})})
	closed, general, anna := server.AddOtherChannel("closed").ID, server.AddChannel("general").ID, server.AddUser("anna")
	direct := server.AddDM(anna).ID
	server.DM(anna, "nobody may read this")
	missed := server.Mention(general, anna, "hello")
	var log journal
	b := join(t, server, slack.Options{CatchUp: time.Hour, Log: log.logger(),
		LastSeen: known(in(closed, "", ""), in(closed, "1700000000.000001", ""), in(direct, "", ""), in(general, "", ""),
			in(general, "1700000000.000001", ""))})
	if got := b.wait(t, 1)[0]; got.Reply.MessageID != missed.TS {
		t.Errorf("taken %+v", got)
	}
	lines := log.wait(t, "caught up")
	for channel, remedy := range map[string]string{closed: "/invite", direct: "needs im:history"} {
		n := 0
		for line := range strings.Lines(lines) {
			if strings.Contains(line, "channel="+channel) && strings.Contains(line, remedy) &&
				strings.Contains(line, "remedy=") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("channel %s is told of %d times with %q: %s", channel, n, remedy, lines)
		}
	}
	n := 0
	for _, r := range server.Requests() {
		if strings.Contains(string(r.Body), closed) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d calls for a channel that cannot be read, want 1", n)
	}
	acked(t, b, server.DM(anna, "but this")) // is not held up
}

func TestWhatHasAReplyIsNotAnsweredAgain(t *testing.T) {
	server := world(t, simslack.Options{})
	general, anna := server.AddChannel("general").ID, server.AddUser("anna")
	direct := server.AddDM(anna).ID
	first := join(t, server, slack.Options{})
	up(t, first)
	answer := func(asked simslack.Event, also ...simslack.Event) {
		t.Helper()
		d := chat.Draft{Text: "an answer", Reply: chat.Reply{MessageID: asked.TS},
			Key: "slack/" + simslack.TeamID + "/" + asked.Channel + "/" + asked.TS}
		for _, e := range also {
			d.Answers = append(d.Answers, chat.Reply{MessageID: e.TS})
		}
		to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: asked.Channel}
		if asked.Channel == general {
			to.Thread = asked.TS
		}
		if _, err := first.Post(deadline(t), to, d); err != nil {
			t.Fatal(err)
		}
	}
	root := server.Mention(general, anna, "answered")
	answer(root)
	reply := server.ThreadReply(general, root.TS, anna, "also answered")
	answer(simslack.Event{TS: root.TS, Channel: general}, reply)
	server.ThreadReply(general, root.TS, anna, "open in the thread")
	one, two := server.DM(anna, "one"), server.DM(anna, "two")
	answer(two, one)
	byKey := server.DM(anna, "answered by an earlier version")
	key := "slack/" + simslack.TeamID + "/" + direct + "/" + byKey.TS
	if _, err := first.Post(deadline(t), chat.Address{Channel: direct},
		chat.Draft{Key: key, Text: "an answer"}); err != nil {
		t.Fatal(err)
	}
	server.DM(anna, "open")
	unlabelled := server.Mention(general, anna, "answered without a word of it")
	if _, err := first.Post(deadline(t), chat.Address{
		Channel: general,
		Thread:  unlabelled.TS,
	}, chat.Draft{Key: "another", Text: "an answer"}); err != nil {
		t.Fatal(err)
	}
	server.Mention(general, anna, "open in the channel")
	first.wait(t, 10)
	first.stop()
	var log journal
	second := join(t, server, slack.Options{CatchUp: time.Hour, LastSeen: known(in(general, "", ""), in(direct, "", "")),
		Log: log.logger()})
	log.wait(t, "caught up")
	got := texts(second.wait(t, 3))
	if diff := cmp.Diff([]string{"open in the thread", "open in the channel", "open"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestOnlyAnOutageIsCaughtUp(t *testing.T) {
	server := world(t, simslack.Options{RefreshGrace: 500 * time.Millisecond})
	channel, anna := server.AddChannel("general").ID, server.AddUser("anna")
	var ahead atomic.Int64
	var last atomic.Value
	last.Store("")
	var log journal
	b := join(t, server, slack.Options{CatchUp: time.Hour, Log: log.logger(), Now: func() time.Time {
		return time.Now().Add(time.Duration(ahead.Load()))
	},
		LastSeen: func(context.Context) ([]chat.LastSeen, error) {
			return []chat.LastSeen{in(channel, "", last.Load().(string))}, nil
		}})
	up(t, b)
	log.wait(t, "caught up")
	reads := func() int {
		n := 0
		for _, r := range server.Requests() {
			if strings.HasSuffix(r.Path, "conversations.history") {
				n++
			}
		}
		return n
	}
	first := server.Say(channel, anna, "live")
	acked(t, b, first)
	server.Disconnect(0, "refresh_requested")
	up(t, b)
	acked(t, b, server.Say(channel, anna, "after a refresh"))
	if n := reads(); n != 1 {
		t.Errorf("history was read %d times, want only at the start", n)
	}
	last.Store(first.TS)
	end := server.Outage()
	server.Say(channel, anna, "in the outage")
	log.wait(t, "reconnecting")
	ahead.Store(int64(time.Minute))
	end()
	up(t, b)
	got := texts(b.wait(t, 4))
	if diff := cmp.Diff([]string{"live", "after a refresh", "after a refresh", "in the outage"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestHTTPModeCatchesUpAndAnswersInTime(t *testing.T) {
	server := world(t, simslack.Options{})
	slow, broken, anna := server.AddChannel("slow").ID, server.AddChannel("broken").ID, server.AddUser("anna")
	server.Say(slow, anna, "missed")
	server.Say(broken, anna, "missed for now")
	reads := func(channel string) func(sim.Request) bool {
		return func(r sim.Request) bool {
			return strings.HasSuffix(r.Path, "conversations.history") && strings.Contains(string(r.Body), channel)
		}
	}
	server.Fail(sim.Fault{Match: reads(slow), Hang: time.Second, Times: 1})
	mended := server.Fail(sim.Fault{Match: reads(broken), Status: http.StatusBadGateway})
	b := join(t, server, slack.Options{Mode: "http", SigningSecret: "signing-secret", CatchUp: time.Hour,
		LastSeen: known(in(slow, "", ""), in(broken, "", ""))})
	door := httptest.NewServer(b.Handler())
	t.Cleanup(door.Close)
	server.DeliverHTTP(door.URL)
	acked(t, b, server.Say(slow, anna, "live")) // after a wait; it may have been read as well
	if got := texts(b.wait(t, 2)); got[0] != "missed" || got[1] != "live" {
		t.Errorf("taken %q", got)
	}
	acked(t, b, server.Say(broken, anna, "live, too")) // in time, though nothing can be read
	mended()
	for n := 3; !slices.Contains(texts(b.wait(t, n)), "missed for now"); n++ {
	}
}

// What was missed is found by the last message taken, although the clocks differ.
func TestAWrongClockHidesNothing(t *testing.T) {
	server := world(t, simslack.Options{})
	anna := server.AddUser("anna")
	general, direct := server.AddChannel("general").ID, server.AddDM(anna).ID
	before, root := server.DM(anna, "before"), server.Mention(general, anna, "a question")
	server.DM(anna, "missed")
	server.ThreadReply(general, root.TS, anna, "and this")
	server.Mention(general, anna, "another question")
	later := func() time.Time { return time.Now().Add(72 * time.Hour) }
	heard := []chat.LastSeen{in(direct, "", before.TS), in(general, root.TS, root.TS)}
	for i := range heard {
		heard[i].At = later().Add(-time.Minute)
	}
	b := join(t, server, slack.Options{CatchUp: 15 * time.Minute, Now: later, LastSeen: known(heard...)})
	texts := map[string]bool{}
	for _, m := range b.wait(t, 3) {
		texts[m.Text] = true
	}
	if !texts["missed"] || !texts["and this"] || !texts["another question"] {
		t.Errorf("took %v", texts)
	}
}
