// Package approval asks people to approve tool calls. It promises:
//   - The question shows the exact call.
//   - Only the asker or an administrator decides.
//   - Questions and answers survive a restart, and each call is asked about once.
//   - Silence is never a yes: after 15 minutes the call is visibly denied.
//   - An approved call is started only once.
//   - Only the first decision counts, even if several processes share the store. A call waits in the process that
//     makes it, and any process can decide it.
//
// Package policy decides which calls need an approval. Package delivery sends the posts.
//
// Ask stores an approval without a decision, posts the question together with the other calls of the same step, and
// waits (queue.go). A button, a word (messages.go), the API or the timeout makes the decision (decide.go). The
// decision is stored first, if there is none yet, and then wakes the call. Begin records the start of an approved
// call, so that a restart does not repeat it. An approval of more than one call leaves a Grant (grants.go), which
// package policy checks before it asks a person.
package approval

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
)

const (
	// Wait is how long a question stays open.
	Wait = 15 * time.Minute
	// maxOpenOfUser and maxOpenInChannel are the maximum numbers of open questions. The limit of a channel keeps it
	// readable. The limit of a user stops one person from using up the channel's limit.
	maxOpenOfUser    = 8
	maxOpenInChannel = 40
	// checkInterval is how often Run looks for expired questions; calls that wait have
	// timers of their own.
	checkInterval = 15 * time.Second
	// retention is how long decided approvals stay in memory; the store keeps them longer.
	retention = 2 * 24 * time.Hour
	// graceOfOthers is how long after its end a question of another process is left to that one.
	graceOfOthers = time.Minute
	// idBytes makes an ID short enough to be typed.
	idBytes = 4
)

// Words of buttons and messages, followed by a space and the ID of an approval.
const (
	pressYes     = "approve"
	pressHere    = "approve-conversation"
	pressAlways  = "approve-always"
	pressReading = "approve-reading"
	pressNo      = "deny"
	// wholeQuestion after the ID of the first of several calls in one question means all of them.
	wholeQuestion = "+"
)

// scopes are how far the decisions of words reach.
var scopes = map[string]Scope{pressYes: Once, pressHere: InConversation, pressAlways: Always, pressReading: Reading,
	pressNo: Denied}

// Store stores approvals.
type Store interface {
	// SaveApproval stores an approval in the place of one with its ID.
	SaveApproval(ctx context.Context, a store.Approval) error
	// DecideApproval stores the decision on an undecided approval. It returns false if the approval is unknown or
	// already decided.
	DecideApproval(ctx context.Context, a store.Approval) (bool, error)
	// Approvals returns the approvals requested since a time. The zero time returns all.
	Approvals(ctx context.Context, since time.Time) ([]store.Approval, error)
}

// Options are what a Queue needs.
type Options struct {
	Store Store
	// Post posts at once, ahead of the waiting posts of the conversation. If replaces is not empty, it replaces the
	// post with that key.
	Post func(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error
	// Decided is called after each decision. It may be nil.
	Decided func(ctx context.Context, a store.Approval)
	// Page is the address of the page that shows all questions, or "".
	Page   string
	Grants *Grants
	Log    *slog.Logger
	Now    func() time.Time
}

// Queue holds the open and the answered questions. It is safe for concurrent use.
type Queue struct {
	o Options
	// deciding is held while a decision is stored or read, so that a read never returns an older state than the last
	// stored one. It is locked before mu.
	deciding sync.Mutex

	// mu guards the entries and their fields. It is not held during store calls and posts.
	mu      sync.Mutex
	entries map[string]*entry // by turn and call
}

// entry is an approval with its waiters.
type entry struct {
	store.Approval
	decided   chan struct{} // closed with the decision
	isForeign bool          // the call waits in another process that shares the store
	isAsked   bool          // its question is being stored and posted, or was
	err       error         // why it could not be asked; it is decided then
}

// New returns a Queue that Load fills.
func New(o Options) *Queue { return &Queue{o: o, entries: map[string]*entry{}} }

// Module returns the ability to decide about calls, in a question or ahead of it by a grant.
func (q *Queue) Module(g *Grants) feature.Module {
	return feature.Module{
		Features: []feature.Feature{q},
		Shared:   []store.Shared{g, q},
		Tasks:    []feature.Task{{Name: "approvals", Run: q.Run}},
	}
}

// Load reads the approvals of earlier processes. It fails when the store does. It is called once, before anything is
// asked.
func (q *Queue) Load(ctx context.Context) error {
	list, err := q.o.Store.Approvals(ctx, time.Time{})
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range list {
		e := newEntry(a)
		// This is true until a call resumes it here, because another process may have asked and still wait.
		e.isForeign = true
		q.entries[key(a.Turn, a.Call)] = e
	}
	return nil
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Queue) SharedKinds() []string { return []string{store.ApprovalChanges} }

// Reload loads the questions and decisions of other processes that share the store, and resumes the calls that wait
// here for one of these decisions.
func (q *Queue) Reload(ctx context.Context) error {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	// The asking process, or another one after the grace period, has ended older questions.
	return q.reload(ctx, q.o.Now().Add(-Wait-2*graceOfOthers))
}

// reload is Reload for the questions that were asked since a time; q.deciding is held.
func (q *Queue) reload(ctx context.Context, since time.Time) error {
	list, err := q.o.Store.Approvals(ctx, since)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range list {
		k := key(a.Turn, a.Call)
		e := q.entries[k]
		switch {
		case e == nil, e.ID != a.ID && e.isForeign:
			e = newEntry(a)
			e.isForeign = true
			q.entries[k] = e
		case e.ID != a.ID: // asked here again, with other arguments
		case e.Decision == "" && a.Decision != "":
			// The rest is read without the lock by the call that waits.
			e.Decision, e.By, e.Started = a.Decision, a.By, a.Started
			close(e.decided)
		default:
			// Never reset to false: the loaded state may be older than a call that begins here.
			e.Started = e.Started || a.Started
		}
	}
	return nil
}

// newEntry returns the entry of an approval. A decided entry is already closed.
func newEntry(a store.Approval) *entry {
	e := &entry{Approval: a, decided: make(chan struct{}), isAsked: true}
	if a.Decision != "" {
		close(e.decided)
	}
	return e
}

// key names a call; outside of turns its ID alone does.
func key(turn, call string) string { return turn + "\x00" + call }

// Run denies questions that are open for too long, until ctx ends. It also covers questions from before a restart, for
// which no call waits.
func (q *Queue) Run(ctx context.Context) {
	look := time.NewTicker(checkInterval)
	defer look.Stop()
	for {
		q.decide(ctx, q.overdue(), store.Expired, "", nil)
		q.dropOld()
		if err := q.o.Grants.dropExpired(ctx); err != nil {
			q.o.Log.Warn("failed to delete an expired approval", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// overdue returns the IDs of the questions that are open for too long.
func (q *Queue) overdue() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.o.Now()
	var list []string
	for _, e := range q.entries {
		until := e.Expires
		if e.isForeign { // the asking process reports it in the conversation
			until = until.Add(graceOfOthers)
		}
		if e.Decision == "" && !now.Before(until) {
			list = append(list, e.ID)
		}
	}
	return list
}

// dropOld drops approvals that were decided longer than retention ago.
func (q *Queue) dropOld() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for k, e := range q.entries {
		if e.Decision != "" && q.o.Now().Sub(e.At) > retention {
			delete(q.entries, k)
		}
	}
}

// Fresh reports whether a call was asked about and never started: it has had no effect yet.
func (q *Queue) Fresh(turn, call string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[key(turn, call)]
	return e != nil && !e.Started
}

// Begin records the start of an approved call. It fails if the call was never asked about, or the store fails. The
// call must then not be made.
func (q *Queue) Begin(ctx context.Context, in tool.Intent) error {
	q.mu.Lock()
	e := q.entries[key(in.Caller.Turn, in.Caller.Call)]
	if e == nil {
		q.mu.Unlock()
		return errors.New("the call was never asked about")
	}
	e.Started = true
	a := e.Approval
	q.mu.Unlock()
	return q.o.Store.SaveApproval(ctx, a)
}

// Ask asks for the approval of a call, unless that was asked before, and returns the decision, with the name of the
// approver or the reason for a refusal. It waits for up to Wait, minus the time before a restart. It returns an error
// only when ctx ends or the store fails. If ctx ends because the work was stopped, the question is denied. If the bot
// ends, it stays open.
func (q *Queue) Ask(ctx context.Context, in tool.Intent, v tool.Verdict) (bool, string, error) {
	in = in.Decided()
	e, refusal := q.enter(in, v)
	// From here on the calls that the model made at once wait for each other, so that one question is about all.
	in.Caller.MeetOthers()
	if e == nil {
		return false, refusal, nil
	}
	q.askTogether(ctx, e)
	// Use the remaining time, which a restart does not reset. Run also denies overdue calls, but the call must not
	// wait for its next check.
	left := time.NewTimer(e.Expires.Sub(q.o.Now()))
	defer left.Stop()
	one := []string{e.ID}
	select {
	case <-e.decided:
	case <-left.C:
		q.decide(ctx, one, store.Expired, "", nil)
	case <-in.Caller.Revised:
		q.decide(ctx, one, store.Denied, "the asker changed the question", nil)
	case <-ctx.Done():
		// When the bot shuts down the question stays open, and the turn finds it again after
		// the restart. A call without a turn cannot be resumed.
		if errors.Is(context.Cause(ctx), chat.ErrStopped) || in.Caller.Turn == "" {
			q.decide(context.WithoutCancel(ctx), one, store.Denied, "the asker ended the work", nil)
		}
		return false, "", ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case e.err != nil:
		return false, "", e.err
	case e.Decision == store.Approved:
		return true, "approved by " + e.By, nil
	case e.Decision == store.Expired:
		return false, fmt.Sprintf("nobody approved it within %d minutes", int(Wait.Minutes())), nil
	}
	return false, "denied by " + e.By, nil
}

// enter returns the entry of a call, which is made if there is none, or why the call cannot be asked about.
func (q *Queue) enter(in tool.Intent, v tool.Verdict) (*entry, string) {
	k := key(in.Caller.Turn, in.Caller.Call)
	q.mu.Lock()
	defer q.mu.Unlock()
	// A decision is about the exact call: with other arguments it is asked again.
	if e := q.entries[k]; e != nil && e.Tool == in.Tool.Name && bytes.Equal(e.Args, in.Args) {
		e.isForeign = false // the call went on here
		return e, ""
	}
	if refusal := q.tooMany(in.Caller); refusal != "" {
		return nil, refusal
	}
	if n := len(in.Args); n > maxShownArgs && q.o.Page == "" {
		return nil, fmt.Sprintf("its arguments have %d bytes, and more than %d cannot be shown to the person who decides",
			n, maxShownArgs)
	}
	now := q.o.Now()
	e := newEntry(store.Approval{
		ID:           text.RandomID(idBytes),
		Turn:         in.Caller.Turn,
		Call:         in.Caller.Call,
		Tool:         in.Tool.Name,
		Server:       in.Tool.Tool.Spec().Server,
		Args:         in.Args,
		Reason:       v.Reason,
		Line:         v.Line,
		Approvers:    v.Approvers,
		Grantable:    v.Grantable,
		Reading:      v.ReadingGrantable,
		Shared:       v.Shared,
		Origin:       in.Caller.Origin(),
		Conversation: in.Caller.Conversation,
		Asker:        in.Caller.User,
		At:           now,
		Expires:      now.Add(Wait),
	})
	e.isAsked = false
	// Under the lock of the look-up above: a call that is asked about twice at once is one question.
	q.entries[k] = e
	return e, ""
}

// tooMany returns the reason why no further call can be asked about, or "". It counts turns, because the calls of a
// turn share a question. q.mu must be held.
func (q *Queue) tooMany(c tool.Caller) string {
	ofUser, inChannel := map[string]bool{}, map[string]bool{}
	for _, e := range q.entries {
		question := cmp.Or(e.Turn, e.Call)
		if e.Decision != "" || e.Turn != "" && e.Turn == c.Turn || e.Conversation.Platform != c.Conversation.Platform {
			continue
		}
		if e.Asker.ID != "" && e.Asker.ID == c.User.ID {
			ofUser[question] = true
		}
		if e.Conversation.Base() == c.Conversation.Base() {
			inChannel[question] = true
		}
	}
	switch {
	case len(ofUser) >= maxOpenOfUser:
		return fmt.Sprintf("%d questions of the same person wait for an approval already", len(ofUser))
	case len(inChannel) >= maxOpenInChannel:
		return fmt.Sprintf("%d questions wait for an approval in this channel already", len(inChannel))
	}
	return ""
}

// askTogether stores and posts the question about a call, in one post with the other calls of its turn that need
// approval, as far as their arguments fit. It does nothing if another call has already done it.
func (q *Queue) askTogether(ctx context.Context, e *entry) {
	q.mu.Lock()
	if e.isAsked {
		q.mu.Unlock()
		return
	}
	together, size := []*entry{e}, len(e.Args)
	for _, other := range q.entries {
		if other != e && !other.isAsked && other.Turn != "" && other.Turn == e.Turn &&
			slices.Equal(other.Approvers, e.Approvers) && size+len(other.Args) <= maxShownArgs {
			together, size = append(together, other), size+len(other.Args)
		}
	}
	slices.SortFunc(together, func(a, b *entry) int { return compareCalls(a.Approval, b.Approval) })
	list := make([]store.Approval, len(together))
	for i, one := range together {
		one.isAsked = true
		if len(together) > 1 {
			one.Post = postKey(together[0].Approval)
		}
		list[i] = one.Approval
	}
	q.mu.Unlock()
	for i, a := range list {
		// Stored before it is posted: a button must never be shown that a restart forgets.
		if err := q.o.Store.SaveApproval(ctx, a); err != nil {
			q.giveUp(together[i:], err)
			list = list[:i]
			break
		}
		q.o.Log.Info("approval requested", "approval", a.ID, "turn", a.Turn, "call", a.Call, "tool", a.Tool)
	}
	if len(list) > 0 {
		q.post(ctx, list[0], q.questionDraft(list), "")
	}
}

// giveUp ends the questions of calls that could not be stored.
func (q *Queue) giveUp(list []*entry, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range list {
		delete(q.entries, key(e.Turn, e.Call))
		e.err = err
		close(e.decided)
	}
}

// post posts a draft in the place of the call. Calls without a conversation are shown only on the dashboard.
func (q *Queue) post(ctx context.Context, a store.Approval, d chat.Draft, replaces string) {
	if a.Conversation.IsZero() {
		return
	}
	if err := q.o.Post(ctx, a.Conversation, d, replaces); err != nil {
		q.o.Log.Error("failed to post an approval", "approval", a.ID, "error", err)
	}
}

// askedWith returns the calls that the question about a call is about, in their order.
func (q *Queue) askedWith(a store.Approval) []store.Approval {
	list := q.list(func(other store.Approval) bool { return other.ID == a.ID || a.Post != "" && other.Post == a.Post })
	slices.SortFunc(list, compareCalls)
	return list
}

// compareCalls is the order in which a question shows its calls.
func compareCalls(a, b store.Approval) int {
	return cmp.Or(cmp.Compare(a.Tool, b.Tool), bytes.Compare(a.Args, b.Args), cmp.Compare(a.ID, b.ID))
}

// openEntry returns the approval of an ID, and whether it is still to be decided.
func (q *Queue) openEntry(id string) (store.Approval, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.find(id)
	if e == nil {
		return store.Approval{}, false
	}
	return e.Approval, e.Decision == ""
}

// find returns the entry of an approval, or nil; q.mu is held.
func (q *Queue) find(id string) *entry {
	for _, e := range q.entries {
		if e.ID == id {
			return e
		}
	}
	return nil
}

// Open returns the questions that nobody has answered, oldest first.
func (q *Queue) Open() []store.Approval {
	return q.list(func(a store.Approval) bool { return a.Decision == "" })
}

// All returns the questions of the last days, oldest first.
func (q *Queue) All() []store.Approval {
	return q.list(func(store.Approval) bool { return true })
}

// list returns the approvals that match, oldest first. The ID decides between those of one moment, so that pages of a
// list do not overlap.
func (q *Queue) list(match func(store.Approval) bool) []store.Approval {
	q.mu.Lock()
	defer q.mu.Unlock()
	var list []store.Approval
	for _, e := range q.entries {
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
