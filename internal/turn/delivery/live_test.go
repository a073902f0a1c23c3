package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// writer writes a word a second, for as many seconds as the question says.
type writer struct{ answerer }

func (writer) Answer(ctx context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	seconds, text := 0, ""
	_, _ = fmt.Sscan(q.Last().Text, &seconds)
	for n := range seconds {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), chat.ErrStopped) {
				return nil, &chat.Draft{Text: "stopped"}
			}
			return nil, nil
		}
		word := fmt.Sprint(n, " ")
		text += word
		show(chat.Progress{Text: word})
	}
	return &conversation.Turn{ID: q.Turn}, &chat.Draft{Text: text + "done"}
}

func TestAnAnswerIsShownWhileItIsMade(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := start(t, path, p, writer{})
		defer w.stop()
		accept(t, w, said("a", "quick", "1"))
		later()
		posted(t, p, "0 done")
		accept(t, w, said("a", "slow", "6"))
		later()
		posted(t, p, "0 done", "0 ", "0 1 2 ", "0 1 2 3 4 ", "0 1 2 3 4 5 done")
		for n, replaces := range []string{"", "", "2", "2", "2"} {
			d := p.at(n)
			if got := fmt.Sprint(d.Replaces.IDs); got != fmt.Sprint([]string{replaces}) && replaces != "" ||
				d.Partial != (n > 0 && n < 4) {
				t.Errorf("post %d takes the place of %v (partial: %v), want %s", n, d.Replaces.IDs, d.Partial, replaces)
			}
		}
	})
}

// streamer waits for a while, and then writes a word every 150 ms, by the clock of synctest.
type streamer struct{ answerer }

func (streamer) Answer(_ context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	<-time.After(3 * time.Second)
	for range 60 {
		show(chat.Progress{Text: "word "})
		<-time.After(150 * time.Millisecond)
	}
	return &conversation.Turn{ID: q.Turn}, &chat.Draft{Text: "done"}
}

// The first text is there as soon as the model has said something, and more at least every 1.2 s,
// also where the platform takes its time for each request.
func TestLiveAnswer_Streaming_GrowsEvenly(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		var shown []time.Duration
		began := time.Now()
		p := &platform{edits: time.Second, fail: func(_ int, d chat.Draft) error {
			shown = append(shown, time.Since(began))
			<-time.After(300 * time.Millisecond)
			return nil
		}}
		w := start(t, path, p, streamer{})
		defer w.stop()
		accept(t, w, said("a", "1", "go"))
		later()
		if len(shown) < 9 || shown[0] > 3300*time.Millisecond {
			t.Fatalf("shown at %v", shown)
		}
		for i := range len(shown) - 1 {
			if gap := shown[i+1] - shown[i]; gap > 1200*time.Millisecond {
				t.Errorf("a gap of %v in %v", gap, shown)
			}
		}
	})
}

func TestAnAnswerCutOffWhileItIsShownIsFinishedInPlace(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := start(t, path, p, writer{})
		accept(t, w, said("a", "1", "60"))
		pass(10 * time.Second)
		w.stop()
		shown := len(p.texts())
		w = start(t, path, p, answerer(func(context.Context, chat.Message) string { return "whole" }))
		later()
		w.stop()
		if got := p.texts(); shown < 3 || len(got) != shown+1 || p.at(shown).Text != "whole" ||
			fmt.Sprint(p.at(shown).Replaces.IDs) != "[1]" {
			t.Errorf("posted %q, the last in the place of %v, want the whole answer in the place of the first post", got,
				p.at(shown).Replaces.IDs)
		}
	})
}

func TestAViewThatFailsLeavesTheAnswer(t *testing.T) {
	for name, failure := range map[string]error{
		"no connection":        errors.New("not now"),
		"refused without time": &chat.PostError{Err: errors.New("not now")},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p := &platform{edits: 2 * time.Second, fail: func(_ int, d chat.Draft) error {
					if d.Partial {
						return failure
					}
					return nil
				}}
				w := start(t, path, p, writer{})
				defer w.stop()
				accept(t, w, said("a", "1", "20"))
				later()
				if got := p.texts(); len(got) != 1 || p.tries != 2 {
					t.Errorf("posted %q in %d tries, want the one answer after one failed view", got, p.tries)
				}
			})
		})
	}
}

// What a platform watches of the work is shown to whoever waits in the post as well, and told with the message that it
// is about.
func TestAnAnswerIsShownWhileItIsWatched(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &watched{platform: platform{edits: 2 * time.Second}}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, writer{}, delivery.Options{})
		defer w.stop()
		accept(t, w, said("a", "slow", "6"))
		later()
		posted(t, &p.platform, "0 ", "0 1 2 ", "0 1 2 3 4 ", "0 1 2 3 4 5 done")
		if got := p.words.String(); got != "slow:0 slow:1 slow:2 slow:3 slow:4 slow:5 " {
			t.Errorf("watched %q", got)
		}
	})
}

// watched is a platform that shows progress by itself.
type watched struct {
	platform
	words strings.Builder
}

func (p *watched) Show(_ chat.Address, progress chat.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.words.WriteString(progress.Message + ":" + progress.Text)
}

// A platform that asks for time gets it, and shows the answer afterwards.
func TestLiveAnswer_PlatformAsksForTime_IsShownLater(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second, fail: func(try int, _ chat.Draft) error {
			if try == 1 {
				return &chat.PostError{After: 3 * time.Second, Err: errors.New("slow down")}
			}
			return nil
		}}
		w := start(t, path, p, writer{})
		defer w.stop()
		accept(t, w, said("a", "1", "6"))
		later()
		if got := p.texts(); len(got) < 2 || !p.at(0).Partial || p.at(len(got)-1).Partial || p.tries != len(got)+1 {
			t.Errorf("posted %q, want a beginning and the whole answer", got)
		}
	})
}

func TestLiveAnswer_AnotherProcessOwnsTheStore_ShowsNothing(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		s, p := &sharedStore{}, &platform{edits: time.Second}
		w := startOver(t, path, func(db *records.Store) delivery.Store { s.Store = db; return s }, p, writer{}, delivery.Options{})
		defer w.stop()
		s.isTaken.Store(true)
		accept(t, w, said("a", "1", "20"))
		later()
		posted(t, p)
	})
}

// restarter shows words, begins again, and shows others, ten seconds apart.
type restarter struct{ answerer }

func (restarter) Answer(_ context.Context, q chat.Asked, show func(chat.Progress)) (*conversation.Turn, *chat.Draft) {
	for _, p := range []chat.Progress{{Text: "first"}, {Reset: true}, {Text: "second"}} {
		show(p)
		<-time.After(10 * time.Second)
	}
	return &conversation.Turn{ID: q.Turn}, &chat.Draft{Text: "done"}
}

// An answer that is begun again leaves what is shown until there are other words.
func TestLiveAnswer_BegunAgain_KeepsTheWordsUntilThereAreOthers(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := start(t, path, p, restarter{})
		defer w.stop()
		accept(t, w, said("a", "1", "go"))
		later()
		posted(t, p, "first", "second", "done")
	})
}

// On a platform that cannot edit posts an answer is shown as a whole.
func TestLiveAnswer_PlatformCannotEdit_ShowsNothing(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, restarter{})
		defer w.stop()
		accept(t, w, said("a", "1", "go"))
		later()
		posted(t, p, "done")
	})
}

// A platform that was switched off since a message came keeps no other one from being answered.
func TestAnswer_PlatformIsSwitchedOff_OthersGoOn(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		gone := said("a", "1", "gone")
		gone.Conversation.Platform = "gone"
		accept(t, w, gone)
		accept(t, w, said("a", "2", "here"))
		later()
		posted(t, p, "re: here")
		if n := w.Counts().GivenUp; n != 1 {
			t.Errorf("%d posts were given up, want 1", n)
		}
	})
}

// slowEdits is a platform that takes its time to edit an unfinished answer.
type slowEdits struct {
	*platform
	took time.Duration

	mu       sync.Mutex
	isInEdit bool
	causes   []error // why the contexts of edits ended while they were made
	early    []string
}

func (p *slowEdits) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	isEdit := d.Partial && len(d.Replaces.IDs) > 0
	p.mu.Lock()
	if p.isInEdit {
		p.early = append(p.early, d.Text)
	}
	p.isInEdit = isEdit
	p.mu.Unlock()
	if isEdit {
		<-time.After(p.took)
		p.mu.Lock()
		p.isInEdit = false
		if cause := context.Cause(ctx); cause != nil {
			p.causes = append(p.causes, cause)
		}
		p.mu.Unlock()
	}
	return p.platform.Post(ctx, to, d)
}

// A request that is cut off may be carried out later, after that of the whole answer.
func TestLiveAnswer_EditUnderWay_IsFinishedBeforeTheWholeAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		stopAfter time.Duration
		last      string
	}{
		"the answer is there": {0, "0 1 2 3 4 5 done"},
		"somebody says stop":  {4500 * time.Millisecond, "stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p := &slowEdits{platform: &platform{edits: time.Second}, took: 950 * time.Millisecond}
				w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, writer{}, delivery.Options{})
				defer w.stop()
				accept(t, w, said("a", "1", "6"))
				if tt.stopAfter > 0 {
					pass(tt.stopAfter)
					accept(t, w, said("a", "2", "stop"))
				}
				later()
				texts := p.texts()
				if got := texts[len(texts)-1]; !strings.Contains(got, tt.last) {
					t.Errorf("posted %q, want %q at the end", texts, tt.last)
				}
				if len(p.early) > 0 {
					t.Errorf("posted %q while an edit was under way", p.early)
				}
				if len(p.causes) != 1 || !errors.Is(p.causes[0], chat.ErrSuperseded) {
					t.Errorf("edits were told to end for %v, want once that the whole answer is there", p.causes)
				}
			})
		})
	}
}

// forgetful is a platform that does not say where an edited post is.
type forgetful struct{ *platform }

func (p forgetful) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	ref, err := p.platform.Post(ctx, to, d)
	if len(d.Replaces.IDs) > 0 {
		return chat.Ref{}, err
	}
	return ref, err
}

func TestLiveAnswer_PlaceOfAnEditIsNotTold_StaysTheFirst(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &platform{edits: 2 * time.Second}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, forgetful{p}, writer{}, delivery.Options{})
		defer w.stop()
		accept(t, w, said("a", "1", "6"))
		later()
		posted(t, p, "0 ", "0 1 2 ", "0 1 2 3 4 ", "0 1 2 3 4 5 done")
		for n := 1; n < len(p.texts()); n++ {
			if got := fmt.Sprint(p.at(n).Replaces.IDs); got != "[1]" {
				t.Errorf("post %d replaces %s, want the first", n, got)
			}
		}
	})
}

// slowFirst is a platform that takes ten seconds for the beginning of an answer.
type slowFirst struct {
	*platform
	cut atomic.Bool // the request was to end before
}

func (p *slowFirst) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if d.Partial && len(d.Replaces.IDs) == 0 {
		<-time.After(10 * time.Second)
		p.cut.Store(ctx.Err() != nil)
	}
	return p.platform.Post(ctx, to, d)
}

// A first post that is cut off could be there or not: the whole answer waits for it.
func TestLiveAnswer_AnswerIsReadyDuringTheFirstPost_LetsItEnd(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &slowFirst{platform: &platform{edits: 2 * time.Second}}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, writer{}, delivery.Options{})
		defer w.stop()
		accept(t, w, said("a", "1", "3"))
		later()
		if posted(t, p.platform, "0 ", "0 1 2 done"); p.cut.Load() {
			t.Error("the first post was cut off")
		}
	})
}
