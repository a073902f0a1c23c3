package discord_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/chattest"
	"ravenbot/internal/testing/sim"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

func TestContract(t *testing.T) {
	for name, intents := range map[string]int{"default": 0, "message content": simdiscord.IntentMessageContent} {
		t.Run(name, func(t *testing.T) { runContract(t, intents) })
	}
}

// runContract checks the contract where so many privileged intents are switched on.
func runContract(t *testing.T, intents int) {
	chattest.Run(t, func(t *testing.T) *chattest.World {
		s, err := simdiscord.New(simdiscord.Options{OpenAPI: openAPI(t), Privileged: intents})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		s.SetFaults(simdiscord.GatewayFaults{Repeat: 2})
		guild := s.AddGuild("home")
		general, ann, bob := s.AddChannel(guild, "general"), s.AddUser("ann"), s.AddUser("bob")
		private := chat.Address{Platform: "discord", Workspace: "@me", Channel: s.AddDM(ann).ID}
		return &chattest.World{
			Platform: discord.New(discord.Options{
				Token:          "token",
				APIBaseURL:     s.URL(),
				MessageContent: intents != 0,
				Log:            slog.New(slog.DiscardHandler),

				MessageCommands: chattest.MessageCommands(),
			}),
			Channel:  chat.Address{Platform: "discord", Workspace: guild.ID, Channel: general.ID},
			Private:  private,
			Repeats:  true,
			MaxText:  5000,
			Name:     "ann",
			Hides:    intents == 0,
			Overhear: func(at chat.Address, text string) string { return s.Say(at.Channel, bob, text).ID },
			Reply: func(at chat.Address, to, text string) {
				s.Say(at.Channel, ann, s.Mention()+" "+text, simdiscord.ReplyTo(to))
			},
			Say: func(at chat.Address, text string, files ...chat.File) (string, error) {
				var with []simdiscord.SayOption
				for _, f := range files {
					with = append(with, simdiscord.Attach(simdiscord.File{Name: f.Name, ContentType: f.Type, Body: f.Data}))
				}
				if at != private {
					text = s.Mention() + " " + text
				}
				return s.Say(at.Channel, ann, text, with...).ID, nil
			},
			Edit:   func(_ chat.Address, message, text string) { s.Edit(message, s.Mention()+" "+text) },
			Delete: func(_ chat.Address, message string) { s.Delete(message) },
			Use: func(_ chat.Address, message string) {
				title := chattest.MessageCommands()[0].Title
				if err := s.WaitCommand(within(t), title); err != nil {
					t.Fatal(err)
				}
				if _, err := s.Use(message, ann, title); err != nil {
					t.Fatal(err)
				}
			},
			Press: func(_ chat.Address, post, value string) { s.Click(post, ann, value) },
			Shown: func(at chat.Address) []string {
				var list []string
				for _, p := range s.Posts(at.Channel) {
					if !p.Deleted {
						list = append(list, p.Content)
					}
				}
				return list
			},
			LoseAnswer: func() {
				posts := func(r sim.Request) bool { return r.Method == "POST" && strings.HasSuffix(r.Path, "/messages") }
				s.Fail(sim.Fault{Match: posts, Times: 1, Accept: true, Drop: true})
			},
			Delay: func() (come, done func()) {
				edits := sim.MatchPath("PATCH", "/messages/")
				s.Fail(sim.Fault{Match: edits, Times: 1, Hang: 500 * time.Millisecond, Accept: true})
				come = func() {
					if err := s.WaitArrival(within(t), edits); err != nil {
						t.Fatal(err)
					}
				}
				done = func() { // this edit and that of the whole answer
					if _, err := s.WaitRequests(within(t), 2, edits); err != nil {
						t.Fatal(err)
					}
				}
				return come, done
			},
			Cut: s.Outage,
		}
	})
}
