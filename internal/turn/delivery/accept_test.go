package delivery_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// fullStore takes no message.
type fullStore struct{ *records.Store }

func (fullStore) Accept(context.Context, store.Received) (bool, error) {
	return false, errors.New("no space left")
}

// Adapters acknowledge a message when Accept returns nil, and platforms send it again otherwise.
func TestAccept_MessageThatIsNotStored_IsAnError(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := startOver(t, path, func(db *records.Store) delivery.Store {
			return fullStore{db}
		}, p, answerer(echo), delivery.Options{})
		defer w.stop()
		if err := w.Accept(t.Context(), said("general", "1", "hello")); err == nil {
			t.Error("a message that was not stored counts as accepted")
		}
		synctest.Wait()
		if c := w.Counts(); c.Accepted != 0 || len(p.texts()) != 0 {
			t.Errorf("%d messages were accepted and %q posted, want none", c.Accepted, p.texts())
		}
	})
}

// closedStore is one in which no post can be stored.
type closedStore struct{ delivery.Store }

func (closedStore) SavePosts(context.Context, []store.Post) error {
	return errors.New("the store is closed")
}

// A post that was not stored is told to its caller, and is not sent: a crash would lose it.
func TestSend_PostThatIsNotStored_IsAnError(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return closedStore{db} }, p,
			answerer(echo), delivery.Options{})
		defer w.stop()
		room := chat.Address{Platform: "web", Channel: "general"}
		if err := w.Send(t.Context(), room, chat.Draft{Key: "digest", Text: "news"}); err == nil {
			t.Error("a post that was not stored counts as sent")
		}
		if err := w.Interject(t.Context(), room, chat.Draft{Key: "poll", Text: "votes"}, ""); err == nil {
			t.Error("an urgent post that was not stored counts as sent")
		}
		synctest.Wait()
		if len(p.texts()) != 0 {
			t.Errorf("%q were posted, want none", p.texts())
		}
	})
}

func TestInterject_ReplacesTheNamedPostAlone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		room := chat.Address{Platform: "web", Channel: "general"}
		for _, c := range []struct{ key, replaces string }{{"first", ""}, {"second", "first"}, {"third", ""}} {
			if err := w.Interject(t.Context(), room, chat.Draft{Key: c.key, Text: c.key}, c.replaces); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if got := strings.Join(p.texts(), " "); got != "first second third" {
			t.Fatalf("posted %q", got)
		}
		if first, second, third := p.at(0).Replaces.IDs, p.at(1).Replaces.IDs, p.at(2).Replaces.IDs; len(first) != 0 ||
			len(second) != 1 ||
			second[0] != "1" || len(third) != 0 {
			t.Errorf("the posts replace %q, %q and %q, want the second to replace the first", first, second, third)
		}
	})
}

// A refused message is not kept, so that it is not recognized when its platform delivers it again.
func TestAccept_RefusedMessageDeliveredAgain_IsRefusedOnce(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		refuse := func(context.Context, chat.Message, bool) (bool, string) { return false, "not for you" }
		for range 2 {
			w := startWith(t, path, p, answerer(echo), delivery.Options{Admit: refuse})
			for range 2 {
				accept(t, w, said("general", "1", "/raven admin"))
				synctest.Wait()
			}
			w.stop()
		}
		if got := p.texts(); len(got) != 1 {
			t.Errorf("posted %q, want one refusal", got)
		}
	})
}

// To show the same again in the place of a post changes nothing, and polls rely on it. Where there is no place, it
// would be a second post. A post that was to replace one which is not known has its place.
func TestInterject_SameKeyAgain_IsSentWhereItReplacesAPost(t *testing.T) {
	for _, c := range []struct {
		name     string
		draft    chat.Draft
		replaces string
		posts    int
		edits    int
	}{
		{"new post", chat.Draft{Key: "again"}, "", 1, 0},
		{"replaces a post by its key", chat.Draft{Key: "again"}, "first", 0, 2},
		{"replaces a post by its place", chat.Draft{Key: "again", Replaces: chat.Ref{IDs: []string{"1"}}}, "", 0, 2},
		{"replaces a post that is not known", chat.Draft{Key: "again"}, "forgotten", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p := &platform{}
				w := start(t, path, p, answerer(echo))
				defer w.stop()
				room := chat.Address{Platform: "web", Channel: "general"}
				if err := w.Interject(t.Context(), room, chat.Draft{Key: "first"}, ""); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for range 2 {
					if err := w.Interject(t.Context(), room, c.draft, c.replaces); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				posts, edits := 0, 0
				for n := 1; n < len(p.texts()); n++ {
					if len(p.at(n).Replaces.IDs) == 0 {
						posts++
					} else {
						edits++
					}
				}
				if posts != c.posts || edits != c.edits {
					t.Errorf("%d posts and %d edits, want %d and %d", posts, edits, c.posts, c.edits)
				}
			})
		})
	}
}

// doubting is a platform that cannot say whether a post is there already.
type doubting struct{ platform }

func (p *doubting) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	ref, err := p.platform.Post(ctx, to, d)
	ref.Repeated = d.Text == "re: perhaps"
	return ref, err
}

func TestCounts_PostsThatMayBeThereTwice(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		w := startOver(t, path, func(db *records.Store) delivery.Store {
			return db
		}, &doubting{}, answerer(echo), delivery.Options{})
		defer w.stop()
		for id, text := range map[string]string{"1": "surely", "2": "perhaps", "3": "certainly"} {
			accept(t, w, said("room"+id, id, text))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if c := w.Counts(); c.Posted != 3 || c.Repeated != 1 {
			t.Errorf("%d posts, of which %d may be there twice, want 3 and 1", c.Posted, c.Repeated)
		}
	})
}

func TestAnswer_MissedMessage_SaysHowLongAgoItWas(t *testing.T) {
	for age, want := range map[time.Duration]string{
		95 * time.Minute:             "asked 95 minutes ago",
		2 * time.Hour:                "asked 2 hours ago",
		48 * time.Hour:               "asked 2 days ago",
		2*time.Hour + time.Minute:    "asked 2 hours ago",
		47*time.Hour + 5*time.Minute: "asked 47 hours ago",
		48*time.Hour + time.Minute:   "asked 2 days ago",
		71 * time.Hour:               "asked 2 days ago",
		73 * time.Hour:               "asked 3 days ago",
	} {
		story(t, func(t *testing.T, path string) {
			p := &platform{}
			w := start(t, path, p, answerer(echo))
			defer w.stop()
			m := said("general", "1", "hello")
			m.Missed, m.Time = true, time.Now().Add(-age)
			accept(t, w, m)
			time.Sleep(time.Second)
			synctest.Wait()
			if len(p.texts()) != 1 || !strings.Contains(p.at(0).Footer, want) {
				t.Errorf("after %v: %q, want a footer with %q", age, p.texts(), want)
			}
		})
	}
}

// Nobody is told about a delay that is hardly one.
func TestAnswer_MissedForAMoment_SaysNothing(t *testing.T) {
	for age, want := range map[time.Duration]bool{time.Minute: false, 2 * time.Minute: false, 121 * time.Second: true} {
		story(t, func(t *testing.T, path string) {
			p := &platform{}
			w := start(t, path, p, answerer(echo))
			defer w.stop()
			m := said("general", "1", "hello")
			m.Missed, m.Time = true, time.Now().Add(-age)
			accept(t, w, m)
			soon()
			if got := p.at(0).Footer; (got != "") != want {
				t.Errorf("after %v the footer is %q", age, got)
			}
		})
	}
}

// The adapter that looks for an earlier attempt is told how far back it has to look: to when the post was stored.
func TestAnswer_TellsSinceWhenItMayBeThere(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		began := time.Now()
		p := &platform{fail: func(try int, _ chat.Draft) error {
			if try < 3 {
				return errors.New("the connection was lost")
			}
			return nil
		}}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		accept(t, w, said("general", "1", "hello"))
		later()
		if d := p.at(0); !d.Since.Equal(began) || !d.Again {
			t.Errorf("posted again: %v, since %v, want since %v", d.Again, d.Since, began)
		}
	})
}

// quoting is a store with a turn that quotes a message, or none where it cannot be read.
type quoting struct {
	*records.Store
	turns  []store.TurnRef
	err    error
	doneIn *[]chat.Address // the conversations of answers
}

func (s quoting) SaveAnswer(
	ctx context.Context,
	to chat.Address,
	messages []string,
	turn *conversation.Turn,
	posts []store.Post,
) error {
	*s.doneIn = append(*s.doneIn, to)
	return s.Store.SaveAnswer(ctx, to, messages, turn, posts)
}

func (s quoting) TurnsQuoting(context.Context, string) ([]store.TurnRef, error) {
	return s.turns, s.err
}

// A message that the bot was only told of leaves what it was told, when it is deleted.
func TestAccept_QuotedMessageIsDeleted_IsPurged(t *testing.T) {
	elsewhere := said("another", "", "").Conversation
	for _, tt := range []struct {
		name  string
		store quoting
		want  []string
	}{
		{"quoted", quoting{turns: []store.TurnRef{{Conversation: elsewhere}}}, []string{"web/1"}},
		{"not quoted", quoting{}, nil},
		{"not known", quoting{err: errors.New("disk failed")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				a := &thinker{}
				var doneIn []chat.Address
				wrap := func(db *records.Store) delivery.Store { tt.store.Store, tt.store.doneIn = db, &doneIn; return tt.store }
				w := startOver(t, path, wrap, &platform{}, a, delivery.Options{})
				defer w.stop()
				err := w.Accept(t.Context(), changed("general", "1", chat.Deleted, "", ""))
				if !errors.Is(err, tt.store.err) {
					t.Errorf("Accept returned %v, want %v", err, tt.store.err)
				}
				later()
				if !slices.Equal(a.purged, tt.want) {
					t.Errorf("purged %q, want %q", a.purged, tt.want)
				}
				// In the queue of the turn, so that no answer there is made with it meanwhile.
				if len(doneIn) != len(tt.want) || len(doneIn) > 0 && doneIn[0] != elsewhere {
					t.Errorf("done in %v, want it in the conversation of the turn alone", doneIn)
				}
			})
		})
	}
}

// unknowing is a store that cannot tell where a message is.
type unknowing struct{ *records.Store }

func (unknowing) ConversationOf(context.Context, string) (chat.Address, bool, error) {
	return chat.Address{}, false, errors.New("the disk cannot be read")
}

// A platform delivers an edit again where it was not taken.
func TestAccept_PlaceOfAnEditCannotBeRead_IsAnError(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		w := startOver(t, path, func(db *records.Store) delivery.Store { return unknowing{db} }, &platform{}, answerer(echo),
			delivery.Options{})
		defer w.stop()
		if err := w.Accept(t.Context(), changed("a", "1", chat.Edited, "1", "hello")); err == nil {
			t.Error("the edit counts as accepted")
		}
	})
}

// A platform may tell of an edit without the thread: its answer goes where the message was.
func TestAccept_EditWithoutItsThread_IsAnsweredThere(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &threaded{}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, &thinker{}, delivery.Options{})
		defer w.stop()
		m := said("a", "1", "helo")
		m.Conversation.Thread = "77"
		accept(t, w, m)
		later()
		accept(t, w, changed("a", "1", chat.Edited, "1", "hello"))
		later()
		posted(t, &p.platform, "re: helo", "re: hello")
		if len(p.to) != 2 || p.to[1] != m.Conversation {
			t.Errorf("posted to %v, want both in %v", p.to, m.Conversation)
		}
	})
}

// Of a message that the bot was never told, an edit may make a question, up to 15 minutes later; its deletion is none.
func TestAccept_ChangeOfAnUnknownMessage(t *testing.T) {
	for name, c := range map[string]struct {
		change chat.Change
		age    time.Duration
		want   []string
	}{
		"an edit":      {chat.Edited, 15*time.Minute - time.Second, []string{"re: hello"}},
		"a late edit":  {chat.Edited, 15 * time.Minute, nil},
		"its deletion": {chat.Deleted, time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p := &platform{}
				w := start(t, path, p, answerer(echo))
				defer w.stop()
				m := changed("a", "1", c.change, "1", "hello")
				m.Time = time.Now().Add(-c.age)
				accept(t, w, m)
				later()
				posted(t, p, c.want...)
			})
		})
	}
}
