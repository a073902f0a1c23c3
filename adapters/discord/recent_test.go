package discord_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// readings counts how often the bot asked for messages.
func (s *stage) readings() int {
	n := 0
	for _, r := range s.Requests() {
		if r.Method == "GET" && strings.Contains(r.Path, "/messages") {
			n++
		}
	}
	return n
}

func (s *stage) ask(t *testing.T, channel string, who simdiscord.User, text string) chat.Message {
	t.Helper()
	p := s.Say(channel, who, s.Mention()+" "+text)
	for {
		if m := receive(t, s.got); m.ID == p.ID && m.Change == "" {
			return m
		}
	}
}

func TestRecent_SecondMention_AsksDiscordNothing(t *testing.T) {
	t.Parallel()
	s := open(t, readable())
	thread := s.AddThreadBy(s.general, s.ann, "a thread")
	q := chat.ContextQuery{Messages: 5}
	s.Say(s.general.ID, s.ann, "one")
	wrong, gone := s.Say(s.general.ID, s.ann, "tow"), s.Say(s.general.ID, s.ann, "never mind")
	s.d.Context(within(t), s.ask(t, s.general.ID, s.ann, "first?"), q)
	s.d.Context(within(t), s.ask(t, thread.ID, s.ann, "first below?"), q)
	before := s.readings()
	s.post(t, s.address(), chat.Draft{Key: "k", Text: "news"})
	s.Edit(wrong.ID, "two")
	s.Delete(gone.ID)
	c := s.d.Context(within(t), s.ask(t, s.general.ID, s.ann, "second?"), q)
	want := []string{"ann: one", "ann: two", "ann: @ravenbot first?", "ravenbot: news"}
	if diff := cmp.Diff(want, spoken(c.Recent)); diff != "" {
		t.Errorf("recent (-want +got): %s", diff)
	}
	c = s.d.Context(within(t), s.ask(t, thread.ID, s.ann, "second below?"), q)
	if got := spoken(c.Recent); !slices.Equal(got, []string{"ann: @ravenbot first below?"}) {
		t.Errorf("in the thread %q", got)
	}
	// The thread began below no message that was seen; that alone is asked for.
	if n := s.readings() - before; n > 1 {
		t.Errorf("Discord was asked %d times for what it had told", n)
	}
}

// Whatever people do, a bot that remembers tells what one tells that reads everything again.
func TestRecent_WhateverHappens_IsWhatDiscordShows(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			s := open(t, readable())
			people := []simdiscord.User{s.ann, s.AddUser("bob")}
			places := []string{s.general.ID, s.AddThreadBy(s.general, s.ann, "a thread").ID}
			random := rand.New(rand.NewPCG(seed, 1))
			var said []string
			saved, asked, identifies := 0, 0, 1
			for n := range 80 {
				who, place := people[random.IntN(2)], places[random.IntN(2)]
				switch dice := random.IntN(14); {
				case dice < 4 || len(said) == 0:
					said = append(said, s.Say(place, who, fmt.Sprint("words ", n)).ID)
				case dice == 4:
					s.Edit(said[random.IntN(len(said))], fmt.Sprint("edited ", n))
				case dice == 5:
					s.Unfurl(said[random.IntN(len(said))], fmt.Sprint("a page ", n))
				case dice == 6:
					i := random.IntN(len(said))
					s.Delete(said[i])
					said = slices.Delete(said, i, i+1)
				case dice == 7:
					s.post(t, s.address(), chat.Draft{Key: fmt.Sprint(n), Text: fmt.Sprint("post ", n)})
				case dice == 8 && random.IntN(3) == 0:
					s.AskReconnect() // the session goes on
				case dice == 9 && random.IntN(6) == 0:
					s.InvalidateSessions(false)
					identifies++
					if _, err := s.WaitIdentifies(within(t), identifies); err != nil {
						t.Fatal(err)
					}
				default:
					m := s.ask(t, place, who, fmt.Sprint("question ", n))
					if random.IntN(2) == 0 {
						s.post(t, m.Conversation, chat.Draft{Key: m.Key(), Text: fmt.Sprint("answer ", n), Reply: m.Reply})
					}
					said = append(said, m.ID)
					q := chat.ContextQuery{Messages: 1 + random.IntN(8)}
					before := s.readings()
					got := s.d.Context(within(t), m, q)
					if asked++; s.readings() == before {
						saved++
					}
					if random.IntN(3) > 0 {
						continue
					}
					discord.ForgetRecent(s.d, s.guild.ID)
					if diff := cmp.Diff(s.d.Context(within(t), m, q), got); diff != "" {
						t.Fatalf("step %d (-read +remembered): %s", n, diff)
					}
				}
			}
			t.Logf("%d of %d questions needed no reading", saved, asked)
		})
	}
}

func TestRecent_PossibleGap_ReadsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		gap  func(t *testing.T, s *stage)
		asks int
	}{
		"the session goes on": {func(t *testing.T, s *stage) {
			s.AskReconnect()
			if _, err := s.WaitResumes(within(t), 1); err != nil {
				t.Fatal(err)
			}
			s.connected(t, 2)
		}, 0},
		"another session": {func(t *testing.T, s *stage) {
			s.InvalidateSessions(false)
			s.connected(t, 2)
		}, 1},
		"other rights": {func(t *testing.T, s *stage) { s.LimitReaders(s.general.ID, s.ann) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, readable())
			s.Say(s.general.ID, s.ann, "one")
			q := chat.ContextQuery{Messages: 5}
			s.d.Context(within(t), s.ask(t, s.general.ID, s.ann, "first?"), q)
			c.gap(t, s)
			s.Say(s.general.ID, s.ann, "meanwhile")
			m := s.ask(t, s.general.ID, s.ann, "second?")
			before := s.readings()
			got := spoken(s.d.Context(within(t), m, q).Recent)
			if n := s.readings() - before; n != c.asks || !slices.Contains(got, "ann: meanwhile") ||
				!slices.Contains(got, "ann: one") {
				t.Errorf("%d readings, want %d; recent %q", n, c.asks, got)
			}
		})
	}
}
