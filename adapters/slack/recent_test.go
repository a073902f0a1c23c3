package slack_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

// patient is a Slack that sends no event again because a busy machine is slow to acknowledge it.
var patient = simslack.Options{AckWithin: time.Minute}

// readings counts how often the bot asked what was said.
func readings(b *bot) int {
	return calls(b, "conversations.history") + calls(b, "conversations.replies")
}

// ask mentions the bot in a channel, or in a thread of it, and returns the message when both of its events are in.
func ask(t *testing.T, b *bot, channel, thread string, who simslack.User, text string) chat.Message {
	t.Helper()
	e := b.sim.SayWith(channel, who, simslack.BotMention+" "+text, func(p *simslack.Post) { p.ThreadTS = thread })
	acked(t, b, e)
	return handed(t, b, e)
}

func TestRecent_SecondMention_AsksSlackNothing(t *testing.T) {
	b := start(t, patient, slack.Options{})
	channel, anna, berit := b.sim.AddChannel("general").ID, b.sim.AddUser("anna"), b.sim.AddUser("berit")
	up(t, b)
	b.sim.Say(channel, berit, "one")
	wrong := b.sim.Say(channel, berit, "tow")
	gone := b.sim.Say(channel, berit, "never mind")
	q := chat.ContextQuery{Messages: 5}
	first := ask(t, b, channel, "", anna, "first?")
	b.Context(deadline(t), first, q)
	before := readings(b)
	post, err := b.Post(deadline(t), chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel},
		chat.Draft{Key: "k", Text: "news"})
	if err != nil {
		t.Fatal(err)
	}
	acked(t, b, b.sim.Edit(channel, wrong.TS, "two"), b.sim.Delete(channel, gone.TS))
	b.sim.ThreadReply(channel, first.Reply.MessageID, berit, "in the thread")
	second := ask(t, b, channel, "", anna, "second?")
	c := b.Context(deadline(t), second, q)
	want := []string{"berit: one", "berit: two", "anna: @ravenbot first?", "ravenbot: news"}
	if diff := cmp.Diff(want, spoken(c.Recent)); diff != "" || c.Recent[3].ID != post.IDs[0] || !c.Recent[3].Self {
		t.Errorf("recent (-want +got): %s", diff)
	}
	// The thread that the first question began is known, too: the bot saw its first message.
	below := ask(t, b, channel, first.Reply.MessageID, anna, "and here?")
	c = b.Context(deadline(t), below, q)
	if got := spoken(c.Recent); c.Root == nil || c.Root.Text != "@ravenbot first?" ||
		!slices.Equal(got, []string{"berit: in the thread"}) {
		t.Errorf("root %+v, recent %q", c.Root, got)
	}
	if n := readings(b) - before; n != 0 {
		t.Errorf("Slack was asked %d times for what it had told", n)
	}
}

// Whatever people do, a bot that remembers tells what one tells that reads everything again.
func TestRecent_WhateverHappens_IsWhatSlackShows(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := start(t, simslack.Options{RetryDelays: slices.Repeat([]time.Duration{200 * time.Millisecond}, 50)},
				slack.Options{})
			reader := join(t, b.sim, slack.Options{Mode: "http", SigningSecret: "s"})
			channel, people := b.sim.AddChannel("general").ID, []simslack.User{b.sim.AddUser("anna"), b.sim.AddUser("berit")}
			up(t, b)
			random := rand.New(rand.NewPCG(seed, 1))
			var roots []string
			var said []simslack.Event
			saved, asked := 0, 0
			for n := range 60 {
				who := people[random.IntN(2)]
				var e simslack.Event
				switch dice := random.IntN(14); {
				case dice < 3 || len(said) == 0:
					e = b.sim.Say(channel, who, fmt.Sprint("words ", n))
					said, roots = append(said, e), append(roots, e.TS)
				case dice < 5:
					e = b.sim.ThreadReply(channel, roots[random.IntN(len(roots))], who, fmt.Sprint("reply ", n))
					said = append(said, e)
				case dice == 5:
					e = b.sim.Edit(channel, said[random.IntN(len(said))].TS, fmt.Sprint("edited ", n))
				case dice == 6:
					i := random.IntN(len(said))
					e = b.sim.Delete(channel, said[i].TS)
					roots = slices.DeleteFunc(roots, func(ts string) bool { return ts == said[i].TS })
					said = slices.Delete(said, i, i+1)
					if len(roots) == 0 {
						said = nil
					}
				case dice == 7:
					to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
					if random.IntN(2) == 0 && len(roots) > 0 {
						to.Thread = roots[random.IntN(len(roots))]
					}
					if _, err := b.Post(deadline(t), to, chat.Draft{Key: fmt.Sprint(n), Text: fmt.Sprint("post ", n)}); err != nil {
						t.Fatal(err)
					}
					continue
				case dice == 8 && random.IntN(3) == 0:
					end := b.sim.Outage()
					said = append(said, b.sim.SayUntold(channel, who, fmt.Sprint("missed ", n)))
					end()
					up(t, b)
					continue
				default:
					thread := ""
					if random.IntN(2) == 0 && len(roots) > 0 {
						thread = roots[random.IntN(len(roots))]
					}
					m := ask(t, b, channel, thread, who, fmt.Sprint("question ", n))
					if thread == "" {
						roots = append(roots, m.Reply.MessageID)
					}
					q := chat.ContextQuery{Messages: 1 + random.IntN(8)}
					before := readings(b)
					got := b.Context(deadline(t), m, q)
					if asked++; readings(b) == before {
						saved++
					}
					if diff := cmp.Diff(reader.Context(deadline(t), m, q), got); diff != "" {
						t.Fatalf("step %d (-read +remembered): %s", n, diff)
					}
					said = append(said, simslack.Event{TS: m.Reply.MessageID})
					continue
				}
				acked(t, b, e)
			}
			t.Logf("%d of %d questions needed no reading", saved, asked)
		})
	}
}

func TestRecent_PossibleGap_ReadsAgain(t *testing.T) {
	for name, gap := range map[string]func(t *testing.T, b *bot, channel string, who simslack.User){
		"the connection broke": func(t *testing.T, b *bot, channel string, who simslack.User) {
			end := b.sim.Outage()
			b.sim.SayUntold(channel, who, "missed")
			end()
			up(t, b)
		},
		"Slack keeps events back": func(t *testing.T, b *bot, channel string, who simslack.User) {
			acked(t, b, simslack.Event{IDs: []string{b.sim.InjectPayload(simslack.KindEvent,
				[]byte(`{"type":"app_rate_limited","minute_rate_limited":1700000000}`))}})
			b.sim.SayUntold(channel, who, "missed")
		},
		"the bot was not in the channel": func(t *testing.T, b *bot, channel string, who simslack.User) {
			b.sim.SayUntold(channel, who, "missed")
			acked(t, b, b.sim.Emit(map[string]any{"type": "message", "subtype": "channel_join", "user": simslack.BotUserID,
				"channel": channel, "ts": "1795330610.000100"}))
		},
		"the question came as a mention alone": func(t *testing.T, b *bot, channel string, who simslack.User) {
			b.sim.SayUntold(channel, who, "missed")
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, patient, slack.Options{})
			channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
			up(t, b)
			q := chat.ContextQuery{Messages: 3}
			b.Context(deadline(t), ask(t, b, channel, "", anna, "first?"), q)
			gap(t, b, channel, anna)
			var e simslack.Event
			if strings.Contains(name, "mention alone") {
				e = b.sim.SayUntold(channel, anna, simslack.BotMention+" second?")
				e.IDs = b.sim.Emit(map[string]any{"type": "app_mention", "user": anna.ID, "channel": channel, "ts": e.TS,
					"text": simslack.BotMention + " second?"}).IDs
			} else {
				e = b.sim.Mention(channel, anna, "second?")
			}
			acked(t, b, e)
			c := b.Context(deadline(t), handed(t, b, e), q)
			if got := spoken(c.Recent); !slices.Contains(got, "anna: missed") {
				t.Errorf("recent %q lacks what was said meanwhile", got)
			}
		})
	}
}

// An event that had to be sent again says that others may be late.
func TestRecent_RepeatedDelivery_ReadsAgain(t *testing.T) {
	b := start(t, patient, slack.Options{})
	channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
	up(t, b)
	q := chat.ContextQuery{Messages: 3}
	b.Context(deadline(t), ask(t, b, channel, "", anna, "first?"), q)
	b.sim.Inject(`{"envelope_id":"again","type":"events_api","retry_attempt":1,"retry_reason":"timeout","payload":{}}`)
	before := readings(b)
	m := ask(t, b, channel, "", anna, "second?")
	b.Context(deadline(t), m, q)
	if n := readings(b) - before; n != 1 {
		t.Errorf("%d readings after a repeated delivery, want 1", n)
	}
}

// Slack gives each event to one of the processes that are connected.
func TestRecent_OtherProcess_IsReadEachTime(t *testing.T) {
	for name, o := range map[string]slack.Options{"Slack counts it": {}, "it is configured": {Replicas: alone{}}} {
		t.Run(name, func(t *testing.T) {
			b := start(t, simslack.Options{}, o)
			channel, anna := b.sim.AddChannel("general").ID, b.sim.AddUser("anna")
			up(t, b)
			one := b
			if o.Replicas == nil {
				one = join(t, b.sim, slack.Options{})
				if err := b.sim.WaitConnections(deadline(t), 2); err != nil {
					t.Fatal(err)
				}
			}
			for n := range 6 {
				e := b.sim.Mention(channel, anna, fmt.Sprint("question ", n))
				acked(t, b, e)
				m := chat.Message{ID: simslack.TeamID + "/" + channel + "/" + e.TS, Author: chat.User{ID: anna.ID},
					Conversation: chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel, Thread: e.TS}}
				c := one.Context(deadline(t), m, chat.ContextQuery{Messages: 20})
				if len(c.Recent) != n || readings(b) != n+1 {
					t.Errorf("after %d questions: %q, %d readings", n, spoken(c.Recent), readings(b))
				}
			}
		})
	}
}
