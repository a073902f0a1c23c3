package delivery_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/turn/delivery"
)

// thinker takes a minute over an answer, and stops when what it was asked is
// revised or somebody says stop.
type thinker struct {
	mu     sync.Mutex
	asked  [][]string // texts of each call
	turns  []string
	purged []string
}

func (a *thinker) Answer(ctx context.Context, q chat.Asked, _ func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	var texts, of []string
	for _, m := range q.Messages {
		texts, of = append(texts, m.Text), append(of, m.Subject())
	}
	a.mu.Lock()
	a.asked, a.turns = append(a.asked, texts), append(a.turns, q.Turn)
	a.mu.Unlock()
	select {
	case <-time.After(time.Minute):
	case <-q.Revised.Done():
		return nil, nil
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), chat.ErrStopped) {
			return nil, &chat.Draft{Text: "Stopped."}
		}
		return nil, nil
	}
	turn := q.Turn
	if turn == "" {
		turn = q.Last().Subject()
	}
	return &conversation.Turn{ID: turn, Of: of}, &chat.Draft{Text: "re: " + strings.Join(texts, "+")}
}

func (a *thinker) Purge(_ context.Context, subject string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.purged = append(a.purged, subject)
	return nil
}

func changed(room, id string, change chat.Change, revision, text string) chat.Message {
	m := said(room, id, text)
	m.Change, m.Revision = change, revision
	return m
}

func soon() { pass(time.Second) }

func later() { pass(5 * time.Minute) }

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func posted(t *testing.T, p *platform, want ...string) {
	t.Helper()
	if got := p.texts(); !slices.Equal(got, want) {
		t.Errorf("posted %q, want %q", got, want)
	}
}

func TestWhatWaitsIsAnsweredTogether(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		help := said("a", "4", "")
		help.Command = "help"
		for _, m := range []chat.Message{said("a", "1", "one"), said("a", "2", "two"), said("a", "3", "three"), help,
			said("a", "5", "five")} {
			accept(t, w, m)
			soon()
		}
		later()
		posted(t, p, "re: one", "re: two+three", "re: ", "re: five")
		both := p.at(1)
		if both.Key != "web/2" || !slices.Equal(both.For(), []string{"3", "2"}) ||
			both.Footer != "in answer to “two”, “three”" {
			t.Errorf("the answer to two messages is %+v, want it to name both", both)
		}
	})
}

// What was stored in another order than it was said, because it came over several connections, is read in the order
// in which it was said.
func TestMerge_OrdersByTheTimeOfTheMessages(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, said("a", "1", "one"))
		soon()
		for _, n := range []int{4, 2, 3} {
			m := said("a", strconv.Itoa(n), strconv.Itoa(n))
			m.Time = time.Unix(int64(n), 0)
			accept(t, w, m)
		}
		later()
		if len(a.asked) != 2 || !slices.Equal(a.asked[1], []string{"2", "3", "4"}) {
			t.Errorf("asked %q, want what waited in the order of its times", a.asked)
		}
	})
}

func TestTooManyToMergeAreAnsweredInSeveralTurns(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, said("a", "first", "first"))
		soon()
		for n := range 45 {
			accept(t, w, said("a", strings.Repeat("x", n+1), "y"))
		}
		later()
		var sizes []int
		for _, texts := range a.asked {
			sizes = append(sizes, len(texts))
		}
		if !slices.Equal(sizes, []int{1, 20, 20, 5}) {
			t.Errorf("turns of %v messages, want 1, 20, 20, 5", sizes)
		}
	})
}

func TestAnEditReachesTheMessageWhereverItStands(t *testing.T) {
	for name, when := range map[string]int{"waiting": 0, "running": 1} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p, a := &platform{}, &thinker{}
				w := start(t, path, p, a)
				defer w.stop()
				if when == 0 {
					accept(t, w, said("a", "0", "zero"))
					soon()
				}
				accept(t, w, said("a", "1", "helo"))
				soon()
				accept(t, w, changed("a", "1", chat.Edited, "2", "hello"))
				accept(t, w, changed("a", "1", chat.Edited, "2", "hello"))
				accept(t, w, changed("a", "1", chat.Edited, "1", "an older edit that came late"))
				accept(t, w, changed("a", "9", chat.Edited, "1", "of a message nobody knows"))
				later()
				posted(t, p, []string{"re: zero", "re: hello"}[when:]...)
			})
		})
	}
}

// attentive answers an edit only where it changes the text, as the agent does.
type attentive struct {
	thinker
	answered []string
}

func (a *attentive) Answer(
	ctx context.Context,
	q chat.Asked,
	show func(chat.Progress),
) (*conversation.Turn, *chat.Draft) {
	if text := q.Last().Text; slices.Contains(a.answered, text) {
		return nil, nil
	}
	a.answered = append(a.answered, q.Last().Text)
	return a.thinker.Answer(ctx, q, show)
}

func TestAccept_EditMakesItAQuestion_AnsweredOnce(t *testing.T) {
	for _, tt := range []struct {
		name   string
		age    time.Duration
		change chat.Change
		reach  chat.Reach
		want   []string
	}{
		{"young and addressed", 10 * time.Minute, chat.Edited, chat.Addressed, []string{"re: what is this?"}},
		{"too old", 20 * time.Minute, chat.Edited, chat.Addressed, nil},
		{"without a mention", time.Minute, chat.Edited, chat.Followed, nil},
		{"a deletion", time.Minute, chat.Deleted, chat.Addressed, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p, a := &platform{}, &attentive{}
				edit := changed("a", "1", tt.change, "1", "what is this?")
				edit.Reach, edit.Time = tt.reach, time.Now().Add(-tt.age)
				again := edit
				again.Revision = "2" // the same edit, as another event tells it
				for range 2 {        // the second time after a restart
					w := start(t, path, p, a)
					accept(t, w, edit)
					accept(t, w, again)
					later()
					w.stop()
				}
				posted(t, p, tt.want...)
			})
		})
	}
}

func TestAnEditAfterTheAnswerReplacesIt(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, said("a", "1", "helo"))
		later()
		for _, revision := range []string{"1", "2"} {
			accept(t, w, changed("a", "1", chat.Edited, revision, "hello "+revision))
			later()
		}
		posted(t, p, "re: helo", "re: hello 1", "re: hello 2")
		for n, want := range []string{"", "1", "1"} {
			if got := strings.Join(p.at(n).Replaces.IDs, ","); got != want {
				t.Errorf("post %d takes the place of %q, want %q", n, got, want)
			}
		}
	})
}

func TestADeletedMessageIsNotAnswered(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, said("a", "1", "one"))
		soon()
		accept(t, w, said("a", "2", "two"))
		accept(t, w, changed("a", "1", chat.Deleted, "", "")) // running
		accept(t, w, said("a", "3", "three"))
		accept(t, w, changed("a", "2", chat.Deleted, "", "")) // waiting, or merged meanwhile
		later()
		posted(t, p, "re: three")
		accept(t, w, changed("a", "3", chat.Deleted, "", "")) // answered
		later()
		if !slices.Equal(a.purged, []string{"web/1", "web/3"}) &&
			!slices.Equal(a.purged, []string{"web/1", "web/2", "web/3"}) {
			t.Errorf("purged %q", a.purged)
		}
		if n := w.Load().Waiting; n != 0 {
			t.Errorf("%d are still waiting", n)
		}
	})
}

func TestOneOfSeveralIsDeletedWhileTheyAreAnswered(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		for _, id := range []string{"0", "1", "2"} {
			accept(t, w, said("a", id, "m"+id))
			soon()
		}
		pass(time.Minute) // 1 and 2 are being answered
		accept(t, w, changed("a", "1", chat.Deleted, "", ""))
		later()
		posted(t, p, "re: m0", "re: m2")
		if last := a.turns[len(a.turns)-1]; last != "web/1" {
			t.Errorf("the turn goes on as %s, want web/1", last)
		}
	})
}

func TestStopEndsWhatIsRunning(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, said("a", "1", "a long story"))
		accept(t, w, said("b", "2", "elsewhere"))
		soon()
		accept(t, w, said("a", "3", "next"))
		accept(t, w, said("a", "4", "Stop!"))
		soon()
		posted(t, p, "Stopped.")
		if d := p.at(0); !slices.Equal(d.For(), []string{"1", "4"}) {
			t.Errorf("the word that it stopped answers %q, want the question and the stop", d.For())
		}
		later()
		posted(t, p, "Stopped.", "re: elsewhere", "re: next")
		accept(t, w, said("a", "5", "stop"))
		soon()
		if got := p.texts(); len(got) != 4 || !strings.Contains(got[3], "not working on anything") {
			t.Errorf("posted %q, want a word that nothing runs", got)
		}
	})
}

func TestAStopCommandReachesOnesOwnThreads(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		for _, user := range []string{"anna", "berit"} {
			m := said("a", user, "from "+user)
			m.Conversation.Thread, m.Author.ID = user, user
			accept(t, w, m)
		}
		soon()
		stop := said("a", "3", "")
		stop.Command, stop.Author.ID, stop.Reply.Handle = "stop", "anna", []byte(`{}`)
		accept(t, w, stop)
		later()
		posted(t, p, "Stopped.", "Stopped.", "re: from berit")
	})
}

func TestWorkIsTakenUpAsItStood(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		accept(t, w, said("a", "0", "zero"))
		soon()
		for _, id := range []string{"1", "2"} {
			accept(t, w, said("a", id, "m"+id))
		}
		pass(time.Minute) // 1 and 2 are being answered together
		accept(t, w, said("b", "5", "gone"))
		soon()
		accept(t, w, changed("a", "1", chat.Edited, "1", "amended"))
		accept(t, w, changed("b", "5", chat.Deleted, "", ""))
		w.stop()
		w = start(t, path, p, a)
		defer w.stop()
		later()
		posted(t, p, "re: zero", "re: amended+m2")
		if last := a.turns[len(a.turns)-1]; last != "web/1" {
			t.Errorf("the turn goes on as %s, want web/1", last)
		}
	})
}

func TestALateAnswerSaysSo(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		m := said("a", "1", "hello")
		m.Time = time.Now().Add(-25 * time.Minute)
		redelivered := m
		redelivered.ID, redelivered.Conversation.Channel = "2", "b"
		m.Missed = true
		accept(t, w, m)
		accept(t, w, redelivered)
		synctest.Wait()
		if want := "asked 25 minutes ago; I could not answer sooner"; p.at(0).Footer+p.at(1).Footer != want {
			t.Errorf("footers %q and %q, want %q below the first", p.at(0).Footer, p.at(1).Footer, want)
		}
	})
}

func TestALostPostIsToldWhenItsPlaceCanBeReached(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{fail: func(int, chat.Draft) error {
			return &chat.PostError{Permanent: true, Err: errors.New("not in the channel")}
		}}
		w := start(t, path, p, answerer(echo))
		accept(t, w, said("a", "1", "hello"))
		soon()
		if c := w.Counts(); c.GivenUp != 1 || c.Notified != 0 || len(p.texts()) != 0 {
			t.Fatalf("counted %+v and posted %q, want one post given up of which nobody knows", c, p.texts())
		}
		w.stop()
		p.fail = nil
		w = start(t, path, p, answerer(echo))
		accept(t, w, said("b", "2", "elsewhere"))
		soon()
		posted(t, p, "re: elsewhere")
		accept(t, w, said("a", "3", "again"))
		soon()
		if got := p.texts(); len(got) != 3 || got[1] != "re: again" || !strings.Contains(got[2], "reference web/1") {
			t.Errorf("posted %q, want the word about the lost post behind the answer", got)
		}
		w.stop()
		w = start(t, path, p, answerer(echo))
		defer w.stop()
		pass(2 * time.Hour)
		if got := p.texts(); len(got) != 3 {
			t.Errorf("posted %q, want nothing told twice", got)
		}
	})
}

func TestALostPostIsToldInTheEndWithoutAnotherPost(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{fail: func(int, chat.Draft) error {
			return &chat.PostError{Permanent: true, Err: errors.New("archived")}
		}}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		soon()
		p.mu.Lock()
		p.fail = nil
		p.mu.Unlock()
		pass(time.Hour)
		if got := p.texts(); len(got) != 1 || !strings.Contains(got[0], "could not be posted") {
			t.Errorf("posted %q, want the word about the lost post", got)
		}
		if n := w.Counts().Notified; n != 1 {
			t.Errorf("%d places were told, want 1", n)
		}
	})
}

// byCommand is a question that was asked by /raven ask.
func byCommand(room, id, author string) chat.Message {
	m := said(room, id, id)
	m.Command, m.Author.ID = chat.CommandAsk, author
	return m
}

func TestCommands_AreAnsweredAFewAtATime(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
			accept(t, w, byCommand("a", id, "U"+id))
		}
		accept(t, w, said("a", "plain", "plain"))
		pass(61 * time.Second) // each answer takes a minute
		if got := len(p.texts()); got != 4 {
			t.Errorf("%d commands are answered after a minute, want 4: %q", got, p.texts())
		}
		pass(time.Minute)
		if got := p.texts(); len(got) != 6 || slices.Contains(got, "re: plain") {
			t.Errorf("after two minutes there is %q, want the commands alone", got)
		}
		later()
		if got := p.texts(); len(got) != 7 || got[6] != "re: plain" {
			t.Errorf("posted %q, want what was said behind the commands last", got)
		}
	})
}

func TestStop_IsForWhoeverAskedAndAdministrators(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, byCommand("a", "1", "anna"))
		accept(t, w, byCommand("a", "2", "bob"))
		soon()
		stop := func(id, by string, admin bool) {
			m := said("a", id, chat.PressStop)
			m.Command, m.Author = chat.Pressed, chat.User{ID: by, Admin: admin}
			accept(t, w, m)
			soon()
		}
		stop("3", "eve", false)
		posted(t, p, "Only the asker or an administrator can stop this.")
		stop("4", "anna", false)
		if texts := p.texts(); len(texts) != 3 {
			t.Errorf("posted %q, want the stopped answer and that it is stopped", texts)
		}
		later()
		texts := p.texts()
		slices.Sort(texts)
		want := []string{"Only the asker or an administrator can stop this.", "Stopped.", "Stopped.", "re: 2"}
		if !slices.Equal(texts, want) {
			t.Errorf("posted %q, want %q", texts, want)
		}
		accept(t, w, byCommand("a", "5", "anna"))
		soon()
		stop("6", "root", true)
		later()
		if texts := p.texts(); slices.Contains(texts, "re: 5") {
			t.Errorf("an administrator could not stop it: %q", texts)
		}
	})
}

// Messages are answered together while their texts are within a limit.
func TestMerge_EndsWhereTheTextsAreTooLong(t *testing.T) {
	for size, want := range map[int]int{16 << 10: 2, 16<<10 + 1: 3} {
		story(t, func(t *testing.T, path string) {
			p, a := &platform{}, &thinker{}
			w := start(t, path, p, a)
			defer w.stop()
			accept(t, w, said("a", "1", "one"))
			soon()
			accept(t, w, said("a", "2", strings.Repeat("x", size-1)))
			accept(t, w, said("a", "3", "y"))
			later()
			if len(a.asked) != want {
				t.Errorf("%d bytes that waited were answered in %d turns, want %d", size, len(a.asked)-1, want-1)
			}
		})
	}
}

// Where the time of one message is not known, all stay in the order in which they came.
func TestMerge_TimeNotKnown_KeepsTheOrder(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, said("a", "1", "one"))
		soon()
		for _, n := range []int{4, 0, 2} {
			m := said("a", "n"+strconv.Itoa(n), strconv.Itoa(n))
			if n > 0 {
				m.Time = time.Unix(int64(n), 0)
			}
			accept(t, w, m)
		}
		later()
		if len(a.asked) != 2 || !slices.Equal(a.asked[1], []string{"4", "0", "2"}) {
			t.Errorf("asked %q, want what waited in the order in which it came", a.asked)
		}
	})
}

func TestAnswer_ToSeveral_QuotesTheirBeginnings(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "1", "one"))
		soon()
		accept(t, w, said("a", "2", strings.Repeat("ä", 48)))
		accept(t, w, said("a", "3", strings.Repeat("ö", 49)))
		later()
		want := "in answer to “" + strings.Repeat("ä", 48) + "”, “" + strings.Repeat("ö", 47) + "…”"
		if got := p.at(1).Footer; got != want {
			t.Errorf("footer %q, want %q", got, want)
		}
	})
}

// What is said about a stop is for whoever said it; that an answer was stopped is for all who wait for it.
func TestStop_WordsAboutIt_AreForItsAuthorAlone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "1", "stop"))
		soon()
		accept(t, w, said("a", "2", "a long story"))
		soon()
		accept(t, w, said("a", "3", "stop"))
		soon()
		if got := p.texts(); len(got) != 2 || !p.at(0).Ephemeral || p.at(1).Ephemeral {
			t.Errorf("posted %q, want the first for its author and the second for all", got)
		}
	})
}

func TestWorkingIn_CountsThreadsAndNoOtherChannel(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		w := start(t, path, &platform{}, &thinker{})
		defer w.stop()
		accept(t, w, from("anna", "a", "1"))
		soon()
		channel, other := said("a", "", "").Conversation, said("b", "", "").Conversation
		if !w.WorkingIn(channel) || w.WorkingIn(other) || w.Working(channel) {
			t.Error("want work in the thread to count for its channel alone")
		}
		later()
		if w.WorkingIn(channel) {
			t.Error("work that is done counts")
		}
	})
}

// Of messages that wait together the name of the turn is that of the first one that is answered.
func TestMerge_AllBeforeWereDeleted_TheTurnHasTheNameOfTheNext(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		for _, id := range []string{"1", "2", "3"} {
			accept(t, w, said("a", id, id))
			soon()
		}
		accept(t, w, changed("a", "2", chat.Deleted, "", ""))
		later()
		posted(t, p, "re: 1", "re: 3")
		if want := []string{"web/1", "web/3"}; !slices.Equal(a.turns, want) {
			t.Errorf("the turns are %q, want %q", a.turns, want)
		}
	})
}

// Where all messages of an answer are deleted what is kept of its turn goes.
func TestRevise_AllOfSeveralAreDeleted_TheTurnIsPurged(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		for _, id := range []string{"0", "1", "2"} {
			accept(t, w, said("a", id, id))
			soon()
		}
		pass(time.Minute) // 1 and 2 are being answered
		accept(t, w, changed("a", "1", chat.Deleted, "", ""))
		accept(t, w, changed("a", "2", chat.Deleted, "", ""))
		later()
		posted(t, p, "re: 0")
		if !slices.Equal(a.purged, []string{"web/1"}) {
			t.Errorf("purged %q, want the turn of both", a.purged)
		}
	})
}

// An edited question that is deleted while it is answered again has no further answer.
func TestRevise_EditedQuestionIsDeleted_IsPurged(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p, a := &platform{}, &thinker{}
		w := start(t, path, p, a)
		defer w.stop()
		accept(t, w, said("a", "1", "helo"))
		later()
		accept(t, w, changed("a", "1", chat.Edited, "1", "hello"))
		soon()
		accept(t, w, changed("a", "1", chat.Deleted, "", ""))
		later()
		posted(t, p, "re: helo")
		if !slices.Equal(a.purged, []string{"web/1"}) {
			t.Errorf("purged %q, want the question", a.purged)
		}
	})
}

// Not every platform numbers the edits of a message.
func TestRevise_EditWithoutANumber_Counts(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "1", "helo"))
		soon()
		accept(t, w, changed("a", "1", chat.Edited, "", "hello"))
		later()
		posted(t, p, "re: hello")
	})
}

// The word stop is about the place where it is said. The command is about the threads of its channel, too, and about no
// other channel.
func TestStop_ReachesNoOtherPlace(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		for _, at := range []chat.Address{{Channel: "a", Thread: "t"}, {Channel: "b"}, {Channel: "b", Thread: "t"}} {
			m := said(at.Channel, at.Channel+at.Thread, at.Channel+at.Thread)
			m.Conversation.Thread = at.Thread
			accept(t, w, m)
		}
		soon()
		accept(t, w, said("a", "1", "stop"))
		soon()
		posted(t, p, "I am not working on anything here just now.")
		stop := said("a", "2", "")
		stop.Command = "stop"
		accept(t, w, stop)
		later()
		got := p.texts()[1:]
		slices.Sort(got)
		if !slices.Equal(got, []string{"Stopped.", "Stopped.", "re: b", "re: bt"}) {
			t.Errorf("posted %q, want the thread of the channel to be stopped alone", got)
		}
	})
}

// An answer that is on its way to the platform is not being worked on any more: a stop that comes then is answered by
// itself.
func TestStop_WhileTheAnswerIsPosted_IsAnswered(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{fail: func(_ int, d chat.Draft) error {
			if d.Text == "re: one" {
				<-time.After(10 * time.Second)
			}
			return nil
		}}
		w, l := startBeside(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "1", "one"))
		pass(time.Minute + time.Second)
		accept(t, w, said("a", "2", "stop"))
		later()
		posted(t, p, "re: one", "I am not working on anything here just now.")
		if waiting, err := l.db.Unanswered(t.Context()); err != nil || len(waiting) > 0 {
			t.Errorf("%d messages still wait (%v)", len(waiting), err)
		}
	})
}

// Who may not ask the bot cannot ask it by an edit either.
func TestAccept_EditByWhoMayNotAsk_IsNoQuestion(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := startWith(t, path, p, &thinker{}, delivery.Options{
			Admit: func(_ context.Context, m chat.Message, _ bool) (bool, string) { return m.Author.ID == "anna", "" },
		})
		defer w.stop()
		for _, author := range []string{"anna", "eve"} {
			edit := changed(author, author, chat.Edited, "1", author)
			edit.Author.ID, edit.Time = author, time.Now()
			accept(t, w, edit)
		}
		later()
		posted(t, p, "re: anna")
	})
}

// What is answered together, and what is stopped, is counted by message.
func TestCounts_MergedAndStopped(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		for _, id := range []string{"1", "2", "3", "4"} {
			accept(t, w, said("a", id, "word "+id))
			soon()
		}
		pass(90 * time.Second)
		accept(t, w, said("a", "5", "stop"))
		later()
		if c := w.Counts(); c.Merged != 2 || c.Stopped != 1 {
			t.Errorf("merged %d and stopped %d, want 2 and 1 of %q", c.Merged, c.Stopped, p.texts())
		}
	})
}

// An edit of what was answered changes that answer alone, whatever waits beside it.
func TestMerge_EditOfAnAnswer_IsAnsweredAlone(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, &thinker{})
		defer w.stop()
		accept(t, w, said("a", "1", "one"))
		later()
		accept(t, w, said("a", "2", "two"))
		soon()
		accept(t, w, changed("a", "1", chat.Edited, "1", "won"))
		accept(t, w, said("a", "3", "three"))
		later()
		posted(t, p, "re: one", "re: two", "re: won", "re: three")
	})
}
