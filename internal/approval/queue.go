// Package approval asks people whether a tool call may be made. It promises that
// what is asked shows the exact call, that only the asker or an administrator
// decides, that a question outlives a restart with its answer and is never asked
// twice for one call, that nobody's silence is a yes (15 minutes, then it is denied,
// visibly), and that a call which was let go is not let go again. When a call needs
// an approval is the policy's business; how a post gets to a platform delivery's.
package approval

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

const (
	// Wait is how long a question stays open.
	Wait = 15 * time.Minute
	// maxOpen is how many questions may be open at a time; each holds up a
	// conversation.
	maxOpen = 100
	// checkInterval is how often questions that nobody waits for are looked at.
	checkInterval = 15 * time.Second
)

// What buttons and words say: followed by a space and the ID of an approval.
const (
	pressYes = "approve"
	pressNo  = "deny"
)

// Store keeps approvals.
type Store interface {
	SaveApproval(ctx context.Context, a store.Approval) error
	Approvals(ctx context.Context) ([]store.Approval, error)
}

// Options are what a Book needs.
type Options struct {
	Store Store
	// Post posts at once, past what waits in the conversation; with replaces it takes
	// the place of the post that has this key.
	Post func(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error
	// Decided hears of each decision; nil: nobody does.
	Decided func(ctx context.Context, a store.Approval)
	Log     *slog.Logger
	Now     func() time.Time
}

// Queue holds the questions that are open, and those that were answered. It is safe
// for concurrent use.
type Queue struct {
	o Options

	mu      sync.Mutex
	entries map[string]*entry // by turn and call
}

type entry struct {
	store.Approval
	decided chan struct{} // closed with the decision
}

// New returns a Book that Load fills.
func New(o Options) *Queue { return &Queue{o: o, entries: map[string]*entry{}} }

// Load reads what an earlier process left.
func (b *Queue) Load(ctx context.Context) error {
	list, err := b.o.Store.Approvals(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range list {
		b.entries[key(a.Turn, a.Call)] = newEntry(a)
	}
	return nil
}

func newEntry(a store.Approval) *entry {
	e := &entry{Approval: a, decided: make(chan struct{})}
	if a.Decision != "" {
		close(e.decided)
	}
	return e
}

func key(turn, call string) string { return turn + "\x00" + call }

// Run ends questions that are open for too long, until ctx ends.
func (b *Queue) Run(ctx context.Context) error {
	look := time.NewTicker(checkInterval)
	defer look.Stop()
	for {
		for _, a := range b.Open() {
			if !b.o.Now().Before(a.Expires) {
				b.decide(ctx, a.ID, store.Expired, "")
			}
		}
		b.dropOld()
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// dropOld drops what was decided days ago; the store keeps it for longer.
func (b *Queue) dropOld() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for k, e := range b.entries {
		if e.Decision != "" && b.o.Now().Sub(e.At) > 2*24*time.Hour {
			delete(b.entries, k)
		}
	}
}

// Fresh reports that a call was asked about and never let go: nothing of it has
// happened yet.
func (b *Queue) Fresh(turn, call string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[key(turn, call)]
	return e != nil && !e.Started
}

// Begin notes that a call is let go.
func (b *Queue) Begin(ctx context.Context, in tool.Intent) error {
	b.mu.Lock()
	e := b.entries[key(in.Caller.Turn, in.Caller.Call)]
	if e == nil {
		b.mu.Unlock()
		return errors.New("the call was never asked about")
	}
	e.Started = true
	a := e.Approval
	b.mu.Unlock()
	return b.o.Store.SaveApproval(ctx, a)
}

// Ask asks whether a call may be made, unless that was asked before, and waits for
// the decision. The error is that of ctx, or of the store.
func (b *Queue) Ask(ctx context.Context, in tool.Intent, reason string) (bool, string, error) {
	e, err := b.openQuestion(ctx, in, reason)
	if err != nil || e == nil {
		return false, "too many calls wait for an approval already", err
	}
	left := time.NewTimer(e.Expires.Sub(b.o.Now()))
	defer left.Stop()
	select {
	case <-e.decided:
	case <-left.C:
		b.decide(ctx, e.ID, store.Expired, "")
	case <-in.Caller.Revised:
		b.decide(ctx, e.ID, store.Denied, "whoever asked changed the question")
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), chat.ErrStopped) || in.Caller.Turn == "" {
			b.decide(context.WithoutCancel(ctx), e.ID, store.Denied, "whoever asked ended the work")
		}
		return false, "", ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e.Decision {
	case store.Approved:
		return true, "approved by " + e.By, nil
	case store.Expired:
		return false, fmt.Sprintf("nobody approved it within %d minutes", int(Wait.Minutes())), nil
	}
	return false, "denied by " + e.By, nil
}

// openQuestion gives the question about a call, asking it where it was not. Nil: too
// many are open.
func (b *Queue) openQuestion(ctx context.Context, in tool.Intent, reason string) (*entry, error) {
	k := key(in.Caller.Turn, in.Caller.Call)
	b.mu.Lock()
	if e := b.entries[k]; e != nil && in.Caller.Turn != "" {
		b.mu.Unlock()
		return e, nil
	}
	open := 0
	for _, e := range b.entries {
		if e.Decision == "" {
			open++
		}
	}
	if open >= maxOpen {
		b.mu.Unlock()
		return nil, nil
	}
	now := b.o.Now()
	a := store.Approval{ID: newID(), Turn: in.Caller.Turn, Call: in.Caller.Call, Tool: in.Tool.Name, Server: in.Tool.Tool.Spec().Server,
		Args: in.Args, Reason: reason, Conversation: in.Caller.Conversation, Asker: in.Caller.User, At: now, Expires: now.Add(Wait)}
	if a.Turn == "" { // it has no place in a conversation
		k = key("", a.ID)
		a.Call = a.ID
	}
	e := newEntry(a)
	b.entries[k] = e
	b.mu.Unlock()
	if err := b.o.Store.SaveApproval(ctx, a); err != nil {
		b.mu.Lock()
		delete(b.entries, k)
		b.mu.Unlock()
		return nil, err
	}
	b.o.Log.Info("approval asked", "approval", a.ID, "turn", a.Turn, "call", a.Call, "tool", a.Tool)
	b.post(ctx, a, b.questionDraft(a), "")
	return e, nil
}

// post shows a draft where the call was made; it is the page of approvals that
// shows those that no conversation asked for.
func (b *Queue) post(ctx context.Context, a store.Approval, d chat.Draft, replaces string) {
	if a.Conversation.IsZero() {
		return
	}
	if err := b.o.Post(ctx, a.Conversation, d, replaces); err != nil {
		b.o.Log.Error("approval not shown", "approval", a.ID, "error", err)
	}
}

func newID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// decide makes a decision, if none was made; false says that one was.
func (b *Queue) decide(ctx context.Context, id string, d store.Decision, by string) bool {
	b.mu.Lock()
	e := b.find(id)
	if e == nil || e.Decision != "" {
		b.mu.Unlock()
		return false
	}
	e.Decision, e.By = d, by
	a := e.Approval
	b.mu.Unlock()
	if err := b.o.Store.SaveApproval(ctx, a); err != nil {
		b.o.Log.Error("decision not stored", "approval", id, "error", err)
	}
	close(e.decided)
	if b.o.Decided != nil {
		b.o.Decided(ctx, a)
	}
	b.o.Log.Info("approval decided", "approval", id, "turn", a.Turn, "call", a.Call, "tool", a.Tool, "decision", string(d), "by", by)
	b.post(ctx, a, decidedDraft(a), postKey(a))
	return true
}

// find gives the entry of an id; mu is held.
func (b *Queue) find(id string) *entry {
	for _, e := range b.entries {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// Open lists the questions that nobody has answered, oldest first.
func (b *Queue) Open() []store.Approval {
	return b.list(func(a store.Approval) bool { return a.Decision == "" })
}

// All lists the questions of the last days, oldest first.
func (b *Queue) All() []store.Approval {
	return b.list(func(store.Approval) bool { return true })
}

func (b *Queue) list(match func(store.Approval) bool) []store.Approval {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []store.Approval
	for _, e := range b.entries {
		if match(e.Approval) {
			list = append(list, e.Approval)
		}
	}
	slices.SortFunc(list, func(x, y store.Approval) int {
		if c := x.At.Compare(y.At); c != 0 {
			return c
		}
		return strings.Compare(x.ID, y.ID)
	})
	return list
}

// The reasons for which a decision is not taken.
var (
	ErrUnknown = errors.New("there is no such approval, or it was forgotten")
	ErrDecided = errors.New("this was decided before")
	ErrOthers  = errors.New("only whoever asked for the call, or an administrator, can decide")
)

// Decide takes the decision of a user.
func (b *Queue) Decide(ctx context.Context, id string, yes bool, by chat.User, platform string) (store.Approval, error) {
	b.mu.Lock()
	e := b.find(id)
	switch {
	case e == nil:
		b.mu.Unlock()
		return store.Approval{}, ErrUnknown
	case !mayDecide(e.Approval, by, platform):
		b.mu.Unlock()
		return store.Approval{}, ErrOthers
	}
	b.mu.Unlock()
	d := store.Denied
	if yes {
		d = store.Approved
	}
	name := by.Name
	if name == "" {
		name = by.ID
	}
	taken := b.decide(ctx, id, d, name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !taken {
		return e.Approval, ErrDecided
	}
	return e.Approval, nil
}

// mayDecide reports whether a user of a platform may decide.
func mayDecide(a store.Approval, by chat.User, platform string) bool {
	return by.Admin || a.Asker.ID != "" && a.Asker.ID == by.ID && a.Conversation.Platform == platform
}
