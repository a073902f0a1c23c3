package replica_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/replica"
	"ravenbot/internal/store"
)

// slack is a platform that keeps what is posted.
type slack struct {
	mu     sync.Mutex
	posts  []chat.Draft
	answer error
	before func() // each post
}

func (*slack) Name() string { return "slack" }

func (*slack) Run(context.Context, func(context.Context, chat.Message) error) error { return nil }

func (*slack) Limits() chat.Limits { return chat.Limits{} }

func (s *slack) Post(ctx context.Context, _ chat.Address, d chat.Draft) (chat.Ref, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before != nil {
		s.before()
	}
	if err := chat.MayAct(ctx); err != nil {
		return chat.Ref{}, &chat.PostError{Err: err}
	}
	if s.answer != nil {
		return chat.Ref{}, s.answer
	}
	s.posts = append(s.posts, d)
	return chat.Ref{IDs: []string{"17"}}, nil
}

// has returns the platforms of a replica with this one.
func (s *slack) has(name string) chat.Platform {
	if name == "slack" {
		return s
	}
	return nil
}

func hasNone(string) chat.Platform { return nil }

// Configurations may differ: what one replica has to post on a platform that it has not is sent by one that has it.
func TestPlatforms_SwitchedOffHere_AnotherReplicaPosts(t *testing.T) {
	d := newDatabase()
	first, second, third := d.join(t), d.join(t), d.join(t)
	there := &slack{}
	third.Platforms(there.has)
	second.Platforms(hasNone)
	platform := first.Platforms(hasNone)("slack")
	draft := chat.Draft{Key: "k", Text: "hello", Again: true, Since: time.Unix(5, 0).UTC()}
	ref, err := platform.Post(t.Context(), general, draft)
	if err != nil || len(ref.IDs) != 1 || ref.IDs[0] != "17" || len(there.posts) != 1 {
		t.Fatalf("ref %+v, error %v, posted %+v", ref, err, there.posts)
	}
	if got := there.posts[0]; got.Text != "hello" || !got.Again || !got.Since.Equal(draft.Since) {
		t.Errorf("posted %+v", got)
	}
	t.Run("what the platform refuses is refused here", func(t *testing.T) {
		there.answer = &chat.PostError{Permanent: true, After: time.Minute, Err: errors.New("no such channel")}
		_, err := platform.Post(t.Context(), general, draft)
		refused, ok := errors.AsType[*chat.PostError](err)
		if !ok || !refused.Permanent || refused.After != time.Minute || refused.Error() != "no such channel" {
			t.Errorf("error %v", err)
		}
	})
	t.Run("an error that tells nothing leaves open whether it was posted", func(t *testing.T) {
		there.answer = errors.New("connection lost")
		_, err := platform.Post(t.Context(), general, draft)
		if refused, ok := errors.AsType[*chat.PostError](err); !ok || !refused.Maybe || refused.Permanent {
			t.Errorf("error %v", err)
		}
	})
	t.Run("a replica that has ended meanwhile posts nothing", func(t *testing.T) {
		there.answer, there.before = nil, func() { d.end(1) }
		if _, err := platform.Post(t.Context(), general, draft); err == nil || len(there.posts) != 1 {
			t.Errorf("error %v, posted %+v", err, there.posts)
		}
	})
}

func TestPlatforms_NoReplicaHasIt_PostIsTriedAgain(t *testing.T) {
	d := newDatabase()
	first, second := d.join(t), d.join(t)
	second.Platforms(hasNone)
	_, err := first.Platforms(hasNone)("slack").Post(t.Context(), general, chat.Draft{Text: "hello"})
	if refused, ok := errors.AsType[*chat.PostError](err); !ok || refused.Permanent || refused.Maybe {
		t.Errorf("error %v", err)
	}
	// In the database of a test it is the year 2001.
	old := chat.Draft{Text: "hello", Since: d.clock().Add(-7 * time.Hour)}
	_, err = first.Platforms(hasNone)("slack").Post(t.Context(), general, old)
	if refused, ok := errors.AsType[*chat.PostError](err); !ok || !refused.Permanent {
		t.Errorf("a post that has waited for seven hours: %v", err)
	}
	here := &slack{}
	if got := first.Platforms(here.has)("slack"); got != chat.Platform(here) {
		t.Errorf("a platform that is here is not used: %v", got)
	}
	var alone *replica.Node
	if alone.Platforms(hasNone)("slack") != nil {
		t.Error("a process alone has others post")
	}
}

// A replica may inherit a channel of a platform that it has not. Who has it gets the channel when what was left there is
// answered.
func TestHandOn_OwnerHasNotThePlatform_ChannelIsGivenBack(t *testing.T) {
	d := newDatabase()
	first, second := d.join(t), d.join(t)
	first.takes("", chat.ErrSwitchedOff)
	if mine, err := first.Owns(t.Context(), general); !mine || err != nil {
		t.Fatal(err)
	}
	first.mu.Lock()
	first.busy = []chat.Address{general}
	first.mu.Unlock()
	time.AfterFunc(300*time.Millisecond, func() {
		first.mu.Lock()
		defer first.mu.Unlock()
		if d.owner(store.ClaimKey(general)) != 1 {
			t.Error("the channel was given back before what waits there was answered")
		}
		first.busy = nil
	})
	if _, mine, err := second.HandOn(t.Context(), general, []byte("hello")); !mine || err != nil {
		t.Errorf("mine %v, %v", mine, err)
	}
}
