package delivery_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/records"
	"ravenbot/internal/turn/delivery"
)

// The waits between attempts double up to a minute, and no attempt is made six hours after the first one.
func TestPost_FailsAgainAndAgain_WaitsLongerAndIsGivenUp(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		var tries []time.Duration
		began := time.Now()
		p := &platform{fail: func(_ int, d chat.Draft) error {
			if !d.Failed { // the notice that it was lost
				tries = append(tries, time.Since(began).Round(time.Second))
			}
			return errors.New("the connection was lost")
		}}
		w := start(t, path, p, answerer(echo))
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		pass(5*time.Hour + 58*time.Minute)
		if n := w.Counts().GivenUp; n != 0 {
			t.Errorf("%d posts are given up before six hours have passed", n)
		}
		pass(time.Hour)
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(tries[:len(want)], want) {
			t.Errorf("the first tries were made after %v, want %v", tries[:len(want)], want)
		}
		if last := tries[len(tries)-1]; last > 6*time.Hour || last < 6*time.Hour-time.Minute {
			t.Errorf("the last try was made after %v, want it in the last minute of six hours", last)
		}
		if n := w.Counts().GivenUp; n != 1 {
			t.Errorf("%d posts are given up, want 1", n)
		}
	})
}

// An attempt in doubt stays in doubt, whatever is known about a later one. What was refused for sure is not looked for.
func TestPost_AttemptInDoubt_IsLookedForAtEveryLaterOne(t *testing.T) {
	for _, tt := range []struct {
		name string
		errs []error
		want bool
	}{
		{"refused", []error{&chat.PostError{Err: errors.New("slow down")}}, false},
		{"in doubt", []error{&chat.PostError{Maybe: true, Err: errors.New("no reply")}}, true},
		{"in doubt and then refused", []error{
			&chat.PostError{Maybe: true, Err: errors.New("no reply")},
			&chat.PostError{Err: errors.New("slow down")},
		}, true},
		{"refused and then in doubt", []error{
			&chat.PostError{Err: errors.New("slow down")},
			&chat.PostError{Maybe: true, Err: errors.New("no reply")},
		}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			story(t, func(t *testing.T, path string) {
				p := &platform{fail: func(try int, _ chat.Draft) error {
					if try <= len(tt.errs) {
						return tt.errs[try-1]
					}
					return nil
				}}
				w := start(t, path, p, answerer(echo))
				defer w.stop()
				accept(t, w, said("a", "1", "hello"))
				later()
				posted(t, p, "re: hello")
				if got := p.at(0).Again; got != tt.want {
					t.Errorf("marked as perhaps sent before: %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// hanging is a platform whose first request is never answered.
type hanging struct {
	platform
	once sync.Once
}

func (p *hanging) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	var err error
	p.once.Do(func() { <-ctx.Done(); err = ctx.Err() })
	if err != nil {
		return chat.Ref{}, err
	}
	return p.platform.Post(ctx, to, d)
}

func TestPost_PlatformHangs_IsTriedAgainAfterAMinute(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &hanging{}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, answerer(echo), delivery.Options{})
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		pass(time.Minute)
		posted(t, &p.platform)
		pass(2 * time.Second)
		posted(t, &p.platform, "re: hello")
	})
}

// A post below another one waits for its thread. To find the thread sends nothing, so that the next attempt looks for
// no earlier one.
func TestPost_ThreadNotFound_IsNotLookedForLater(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &threaded{down: 3}
		var db *records.Store
		wrap := func(opened *records.Store) delivery.Store { db = opened; return opened }
		w := startOver(t, path, wrap, p, answerer(echo), delivery.Options{})
		defer w.stop()
		<-w.Ready()
		room := said("a", "", "").Conversation
		posts := []store.Post{
			{Key: "head", To: room, Draft: chat.Draft{Key: "head", Text: "head"}, At: time.Now()},
			{Key: "rest", To: room, Draft: chat.Draft{Key: "rest", Text: "rest"}, Below: "head", At: time.Now()},
		}
		if err := db.SavePosts(t.Context(), posts); err != nil {
			t.Fatal(err)
		}
		wait := w.Deliver(posts)
		later()
		if all := wait(t.Context()); len(all) != 2 {
			t.Errorf("the outcomes of %d posts are known, want 2", len(all))
		}
		posted(t, &p.platform, "head", "rest")
		if p.at(1).Again {
			t.Error("the post is looked for, although it was never sent")
		}
	})
}

// failing stores no answer for some time.
type failing struct {
	*records.Store
	began time.Time
	fails int
	tries []time.Duration
}

func (s *failing) SaveAnswer(
	ctx context.Context,
	to chat.Address,
	messages []string,
	turn *conversation.Turn,
	posts []store.Post,
) error {
	s.tries = append(s.tries, time.Since(s.began))
	if len(s.tries) <= s.fails {
		return errors.New("no space left")
	}
	return s.Store.SaveAnswer(ctx, to, messages, turn, posts)
}

func TestAnswer_CannotBeStored_IsTriedUntilItIs(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		s, p := &failing{began: time.Now(), fails: 8}, &platform{}
		wrap := func(db *records.Store) delivery.Store { s.Store = db; return s }
		w := startOver(t, path, wrap, p, answerer(echo), delivery.Options{})
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		pass(3 * time.Minute)
		posted(t, p)
		pass(time.Minute)
		posted(t, p, "re: hello")
		want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 123, 183}
		for i := range want {
			want[i] *= time.Second
		}
		if !slices.Equal(s.tries, want) {
			t.Errorf("tried after %v, want %v", s.tries, want)
		}
	})
}

// typing is a platform that shows that somebody types.
type typing struct {
	platform
	began time.Time
	at    []time.Duration
}

func (p *typing) Typing(context.Context, chat.Address) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, time.Since(p.began))
	return errors.New("not shown")
}

func TestTyping_IsShownWhileAnAnswerTakesTime(t *testing.T) {
	for take, want := range map[time.Duration][]time.Duration{
		499 * time.Millisecond: nil,
		20 * time.Second:       {500 * time.Millisecond, 8500 * time.Millisecond, 16500 * time.Millisecond},
	} {
		story(t, func(t *testing.T, path string) {
			p := &typing{began: time.Now()}
			slow := answerer(func(ctx context.Context, m chat.Message) string { <-time.After(take); return echo(ctx, m) })
			w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, slow, delivery.Options{})
			defer w.stop()
			accept(t, w, said("a", "1", "hello"))
			later()
			if posted(t, &p.platform, "re: hello"); !slices.Equal(p.at, want) {
				t.Errorf("typing was shown after %v, want %v for an answer that takes %v", p.at, want, take)
			}
		})
	}
}

// lateTyping is a platform that takes its time to show that somebody types.
type lateTyping struct {
	platform
	took  time.Duration
	shown atomic.Bool
	cause error
	early bool // a post came before the indicator was shown
}

func (p *lateTyping) Typing(ctx context.Context, _ chat.Address) error {
	<-time.After(p.took)
	p.cause = context.Cause(ctx)
	p.shown.Store(true)
	return nil
}

func (p *lateTyping) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	p.early = !p.shown.Load()
	return p.platform.Post(ctx, to, d)
}

// A request that is cut off may be carried out later, and show that somebody types below the answer.
func TestTyping_RequestUnderWay_AnswerWaitsForItForASecond(t *testing.T) {
	for took, isEarly := range map[time.Duration]bool{900 * time.Millisecond: false, 10 * time.Second: true} {
		story(t, func(t *testing.T, path string) {
			p := &lateTyping{took: took}
			slow := answerer(func(ctx context.Context, m chat.Message) string {
				<-time.After(600 * time.Millisecond)
				return echo(ctx, m)
			})
			w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, slow, delivery.Options{})
			defer w.stop()
			began := time.Now()
			accept(t, w, said("a", "1", "hello"))
			for len(p.texts()) == 0 && time.Since(began) < time.Minute {
				pass(100 * time.Millisecond)
			}
			if waited := time.Since(began); waited > 2*time.Second || p.early != isEarly {
				t.Errorf("answered after %v, before the indicator was shown: %v; that takes %v", waited, p.early, took)
			}
			pass(took)
			if !errors.Is(p.cause, chat.ErrSuperseded) {
				t.Errorf("the request was told to end for %v, want that the answer is there", p.cause)
			}
		})
	}
}

// oneWay is a platform on which nobody reads notices.
type oneWay struct{ platform }

func (*oneWay) OneWay() {}

func TestUndelivered_PlatformIsOneWay_IsNotTold(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		p := &oneWay{platform{fail: func(_ int, d chat.Draft) error {
			if strings.HasPrefix(d.Text, "re: ") {
				return &chat.PostError{Permanent: true, Err: errors.New("no such mailbox")}
			}
			return nil
		}}}
		w := startOver(t, path, func(db *records.Store) delivery.Store { return db }, p, answerer(echo), delivery.Options{})
		defer w.stop()
		accept(t, w, said("a", "1", "hello"))
		pass(time.Hour)
		if c := w.Counts(); p.tries != 1 || c.GivenUp != 1 || c.Notified != 0 {
			t.Errorf("%d requests, counted %+v; want the one post alone", p.tries, c)
		}
	})
}

// impatient is a store that notes how long it may wait for other writes.
type impatient struct {
	*records.Store
	mu       sync.Mutex
	patience []time.Duration
}

func (s *impatient) SaveOutcomes(ctx context.Context, outcomes []store.Outcome, patience time.Duration) error {
	s.mu.Lock()
	s.patience = append(s.patience, patience)
	s.mu.Unlock()
	return s.Store.SaveOutcomes(ctx, outcomes, patience)
}

// The outcome of a post may wait for another write, unless somebody waits for it.
func TestOutcomes_SomebodyWaits_AreStoredAtOnce(t *testing.T) {
	story(t, func(t *testing.T, path string) {
		s, p := &impatient{}, &platform{}
		wrap := func(db *records.Store) delivery.Store { s.Store = db; return s }
		w := startOver(t, path, wrap, p, answerer(echo), delivery.Options{})
		defer w.stop()
		room := said("a", "", "").Conversation
		for _, post := range []struct{ key, replaces string }{{"first", ""}, {"second", ""}, {"third", "second"}} {
			if err := w.Interject(t.Context(), room, chat.Draft{Key: post.key, Text: post.key}, post.replaces); err != nil {
				t.Fatal(err)
			}
			if synctest.Wait(); post.key == "first" {
				soon()
			}
		}
		soon()
		s.mu.Lock()
		defer s.mu.Unlock()
		want := []bool{false, true, false} // the third post asks where the second is
		var got []bool
		for _, patience := range s.patience {
			got = append(got, patience == 0)
		}
		if !slices.Equal(got, want) {
			t.Errorf("stored with patience %v, want none the second time alone", s.patience)
		}
	})
}
