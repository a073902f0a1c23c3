package agent

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
)

// racedStore is a store of one conversation that has something happen in the middle of a reading or writing.
type racedStore struct {
	Store
	turns       []conversation.Turn
	summary     conversation.Summary
	stored      *conversation.Turn // what TurnOf finds for the third turn
	reads       int                // of turns
	duringRead  func()             // after the turns are read, once
	duringWrite func()             // before a summary is saved, once
}

func (s *racedStore) Summary(context.Context, chat.Address) (conversation.Summary, error) {
	return s.summary, nil
}

func (s *racedStore) Turns(_ context.Context, _ chat.Address, r store.Range) ([]conversation.Turn, error) {
	s.reads++
	var list []conversation.Turn
	for _, t := range s.turns {
		if t.Seq > r.After && (r.Upto == 0 || t.Seq <= r.Upto) {
			list = append(list, t)
		}
	}
	runOnce(&s.duringRead)
	return list, nil
}

func (s *racedStore) SaveSummary(_ context.Context, _ chat.Address, saved conversation.Summary) error {
	runOnce(&s.duringWrite)
	s.summary = saved
	return nil
}

func (s *racedStore) TurnsQuoting(context.Context, string) ([]store.TurnRef, error) { return nil, nil }

func (s *racedStore) TurnOf(_ context.Context, subject string) (chat.Address, conversation.Turn, error) {
	if subject == "third" {
		if s.stored == nil {
			return racedRoom, conversation.Turn{}, store.ErrNotFound
		}
		return racedRoom, *s.stored, nil
	}
	return racedRoom, s.turns[0], nil
}

func (s *racedStore) DeleteTurn(context.Context, chat.Address, uint64) error {
	s.turns = s.turns[1:]
	return nil
}

func runOnce(hook *func()) {
	if do := *hook; do != nil {
		*hook = nil
		do()
	}
}

var racedRoom = chat.Address{Platform: "web", Channel: "general"}

// newRacedEngine returns an engine over turns that say "secret" and "harmless", of which a summary covers some.
func newRacedEngine(upto uint64) (*Engine, *racedStore) {
	s := &racedStore{}
	for i, words := range []string{"The secret is 4711.", "The harmless number is 12."} {
		s.turns = append(s.turns, conversation.Turn{
			ID:       words,
			Seq:      uint64(i + 1),
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: words}}}},
		})
	}
	if upto > 0 {
		s.summary = conversation.Summary{Upto: upto, From: 1, Text: "The secret is 4711."}
	}
	return New(Options{Store: s, Now: time.Now}), s
}

// loadAll returns all that a request of the conversation would hold.
func loadAll(t *testing.T, e *Engine) string {
	t.Helper()
	past, err := e.history.load(t.Context(), racedRoom, conversation.DefaultWindow())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(past.summary.Text, past.turns)
}

func TestPurge_WhileTheHistoryIsRead_LeavesNothingInTheCache(t *testing.T) {
	e, s := newRacedEngine(0)
	s.duringRead = func() {
		if err := e.Purge(t.Context(), "web/1"); err != nil {
			t.Error(err)
		}
	}
	loadAll(t, e) // read the turns before they were removed
	if got := loadAll(t, e); strings.Contains(got, "secret") || !strings.Contains(got, "harmless") {
		t.Errorf("after the removal the history is %s", got)
	}
	// What is read without a removal is kept.
	s.turns = nil
	if got := loadAll(t, e); !strings.Contains(got, "harmless") {
		t.Errorf("the history was not kept: %s", got)
	}
	if len(e.history.loading) > 0 {
		t.Errorf("%d loads are still counted", len(e.history.loading))
	}
}

func TestPurge_HistoryReadBeforeTheSummaryIsSaved_LeavesNothingInTheCache(t *testing.T) {
	e, s := newRacedEngine(2)
	s.duringWrite = func() { loadAll(t, e) }
	if err := e.Purge(t.Context(), "web/1"); err != nil {
		t.Fatal(err)
	}
	if got := loadAll(t, e); strings.Contains(got, "secret") || !strings.Contains(got, "harmless") {
		t.Errorf("after the removal the history is %s", got)
	}
}

// An answer whose write fails was never given: the next request must not tell the model of it. Once it is stored it is
// told, and the cache that has it saves reading the whole window.
func TestAddToHistory_TurnThatIsNotStored_IsNotTold(t *testing.T) {
	e, s := newRacedEngine(0)
	loadAll(t, e)
	for name, state := range map[string]conversation.State{"new": "", "open since its calls": conversation.Open} {
		turn := s.turns[1]
		turn.ID, turn.State = "third", conversation.Answered
		turn.Messages = []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "The answer that failed is 99."}}}}
		e.addToHistory(racedRoom, &turn, conversation.DefaultWindow())
		if state != "" {
			s.stored = &conversation.Turn{ID: turn.ID, State: state}
		}
		for range 2 {
			if got := loadAll(t, e); strings.Contains(got, "99") || !strings.Contains(got, "harmless") {
				t.Errorf("%s: before it is stored the history is %s", name, got)
			}
		}
		s.stored = &turn
		before := s.reads
		for range 2 {
			if got := loadAll(t, e); !strings.Contains(got, "99") {
				t.Errorf("%s: after it is stored the history is %s", name, got)
			}
		}
		if s.reads != before {
			t.Errorf("%s: the window was read again", name)
		}
		s.stored = nil
	}
}

// The conversations that were used last stay in the cache, 256 of them.
func TestHistoryCache_DropsTheLeastRecentlyUsed(t *testing.T) {
	e, s := newRacedEngine(0)
	load := func(n int) (isRead bool) {
		before := s.reads
		a := chat.Address{Platform: "web", Channel: fmt.Sprint(n)}
		if _, err := e.history.load(t.Context(), a, conversation.DefaultWindow()); err != nil {
			t.Fatal(err)
		}
		return s.reads > before
	}
	for n := range 256 {
		load(n)
	}
	if load(0) {
		t.Error("256 conversations are not kept")
	}
	load(256)
	if load(0) || load(256) || !load(1) {
		t.Error("what was used last was dropped, or what was not used is kept")
	}
}

// What is known of a place stays known when it cannot be looked up, and is replaced by what is news.
func TestKeepPlace_LookUpThatFails_ChangesNothing(t *testing.T) {
	e, _ := newRacedEngine(0)
	ops, dev := chat.Place{Channel: "ops"}, chat.Place{Channel: "dev"}
	if got := e.history.keepPlace(racedRoom, ops); got != ops {
		t.Errorf("of a conversation that is not cached: %+v", got)
	}
	loadAll(t, e)
	for _, c := range []struct{ told, want chat.Place }{{chat.Place{}, chat.Place{}}, {ops, ops}, {chat.Place{}, ops},
		{dev, dev}} {
		if got := e.history.keepPlace(racedRoom, c.told); got != c.want {
			t.Errorf("told %+v: %+v", c.told, got)
		}
	}
}

// An answer to a turn that the history has replaces it, wherever it stands.
func TestAddToHistory_TurnAnsweredAgain_IsReplaced(t *testing.T) {
	for n := range 2 {
		e, s := newRacedEngine(0)
		loadAll(t, e)
		again := s.turns[n]
		again.Messages = []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: "other words"}}}}
		s.stored = &again
		e.addToHistory(racedRoom, &again, conversation.DefaultWindow())
		past, err := e.history.load(t.Context(), racedRoom, conversation.DefaultWindow())
		if err != nil || len(past.turns) != 2 || past.turns[n].Messages[0].Text() != "other words" {
			t.Errorf("turn %d: the history is %+v, %v", n, past.turns, err)
		}
	}
}
