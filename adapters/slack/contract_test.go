package slack_test

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/chattest"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

func TestContract(t *testing.T) {
	for _, mode := range []string{"socket", "http"} {
		t.Run(mode, func(t *testing.T) {
			chattest.Run(t, func(t *testing.T) *chattest.World { return newWorld(t, mode) })
		})
	}
}

func newWorld(t *testing.T, mode string) *chattest.World {
	s, err := simslack.New(simslack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	platform := slack.New(slack.Options{
		BotToken:      "xoxb-token",
		AppToken:      "xapp-token",
		SigningSecret: "signing-secret",
		Mode:          mode,
		APIBaseURL:    s.APIURL(),
		Log:           slog.New(slog.DiscardHandler),
		Now:           time.Now,

		MessageCommands: chattest.MessageCommands(),
	})
	channel, ann, bob := s.AddChannel("general").ID, s.AddUser("ann"), s.AddUser("bob")
	private := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: s.AddDM(ann).ID}
	events := map[string][]string{} // by message
	said := func(at chat.Address, text string) string {
		if at != private {
			return simslack.BotMention + " " + text
		}
		return text
	}
	w := &chattest.World{
		Platform: platform,
		Channel:  chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel},
		Private:  private,
		Repeats:  true, // a mention comes as two events
		MaxText:  25_000,
		Name:     "ann",
		Overhear: func(at chat.Address, text string) string { return s.Say(at.Channel, bob, text).TS },
		Say: func(at chat.Address, text string, files ...chat.File) (string, error) {
			var e simslack.Event
			if len(files) > 0 {
				f := files[0]
				e = s.Share(at.Channel, "", ann, said(at, text), simslack.File{Name: f.Name, Type: f.Type, Body: f.Data})
			} else {
				e = s.Say(at.Channel, ann, said(at, text))
			}
			events[e.TS] = e.IDs
			return e.TS, nil
		},
		Edit:   func(at chat.Address, message, text string) { s.Edit(at.Channel, message, said(at, text)) },
		Delete: func(at chat.Address, message string) { s.Delete(at.Channel, message) },
		Use: func(at chat.Address, message string) {
			s.Shortcut(at.Channel, message, ann, chattest.MessageCommands()[0].Name)
		},
		Press: func(at chat.Address, post, value string) {
			p, err := s.WaitPost(deadline(t), at.Channel, func(p simslack.Post) bool { return p.TS == post })
			if err != nil {
				t.Fatal(err)
			}
			s.Click(at.Channel, post, ann, actionOf(t, p, value))
		},
		Shown: func(at chat.Address) []string {
			var list []string
			for _, p := range append(s.Posts(at.Channel), s.Ephemerals()...) {
				if !p.Deleted {
					list = append(list, shownText(t, p))
				}
			}
			return list
		},
		IsAcknowledged: func(message string) bool {
			for _, d := range s.Deliveries() {
				for _, id := range events[message] {
					if d.EventID == id && d.Acked {
						return true
					}
				}
			}
			return false
		},
		LoseAnswer: func() {
			s.Fail(sim.Fault{Match: sim.MatchPath("POST", "chat.postMessage"), Times: 1, Accept: true, Drop: true})
		},
		Delay: func() (come, done func()) {
			edits := sim.MatchPath("POST", "chat.update")
			s.Fail(sim.Fault{Match: edits, Times: 1, Hang: 500 * time.Millisecond, Accept: true})
			come = func() {
				if err := s.WaitArrival(deadline(t), edits); err != nil {
					t.Fatal(err)
				}
			}
			done = func() { // this edit and that of the whole answer
				if _, err := s.WaitRequests(deadline(t), 2, edits); err != nil {
					t.Fatal(err)
				}
			}
			return come, done
		},
		Cut: s.Outage,
	}
	if mode == "http" {
		door := httptest.NewServer(platform.Handler())
		t.Cleanup(door.Close)
		s.DeliverHTTP(door.URL)
		w.Concurrent = true
		w.Cut = nil // Slack calls the bot: there is no connection to lose
	}
	return w
}

// shownText returns what a post says to whoever reads it in Slack: its blocks, and the text
// that goes with them where it has none.
func shownText(t *testing.T, p simslack.Post) string {
	t.Helper()
	var blocks []struct {
		Type string
		Text json.RawMessage
	}
	if len(p.Blocks) > 0 {
		if err := json.Unmarshal(p.Blocks, &blocks); err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range blocks {
		var text string
		if b.Type == "markdown" && json.Unmarshal(b.Text, &text) == nil {
			return text
		}
	}
	return p.Text
}

// actionOf returns the id of the button with a value.
func actionOf(t *testing.T, p simslack.Post, value string) string {
	t.Helper()
	before, _, found := strings.Cut(string(p.Blocks), `"value":"`+value+`"`)
	i := strings.LastIndex(before, `"action_id":"`)
	if !found || i < 0 {
		t.Fatalf("no button %q in %s", value, p.Blocks)
	}
	id, _, _ := strings.Cut(before[i+len(`"action_id":"`):], `"`)
	return id
}
