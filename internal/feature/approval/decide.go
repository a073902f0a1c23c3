package approval

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Reasons why Decide refuses a decision.
var (
	ErrUnknown  = errors.New("there is no such approval, or it was forgotten")
	ErrDecided  = errors.New("this was decided before")
	ErrOthers   = errors.New("only those whom the question names can decide")
	ErrScope    = errors.New("this call cannot be approved for so much")
	ErrAlways   = errors.New("only an administrator can let a tool run here for always")
	ErrNotShown = errors.New("the arguments are too long to be shown here; an administrator can approve it on the page Calls")
)

// Decide decides for a user at a place about one call or, with wholeQuestion after its ID, about all calls of its
// question. The answer is no if the scope is Denied, otherwise yes, including similar calls within the scope. It
// returns the approval of the first call, or one of the errors above if the decision is not accepted.
func (q *Queue) Decide(
	ctx context.Context,
	id string,
	scope Scope,
	by chat.User,
	at chat.Address,
) (store.Approval, error) {
	id, isWhole := strings.CutSuffix(id, wholeQuestion)
	a, isOpen := q.openEntry(id)
	list := []store.Approval{a}
	if isWhole && a.ID != "" {
		list = slices.DeleteFunc(q.askedWith(a), func(a store.Approval) bool { return a.Decision != "" })
		isOpen = len(list) > 0
	}
	if a.ID == "" {
		return a, ErrUnknown
	}
	for _, one := range list {
		if err := check(one, scope, by, at); err != nil {
			return one, err
		}
	}
	if !isOpen {
		return a, ErrDecided
	}
	d := store.Approved
	if scope == Denied {
		d = store.Denied
	}
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = one.ID
	}
	var failed error
	granted := map[string]bool{} // tools, which several calls may be of
	decided := q.decide(ctx, ids, d, displayName(by), func(a store.Approval) {
		// Not before the decision, which somebody else may have made, and before the call goes on, which the next may follow.
		if scope != Once && scope != Denied && !granted[a.Tool] {
			granted[a.Tool] = true
			failed = errors.Join(failed, q.o.Grants.add(ctx, a, scope, by, at.Platform))
		}
	})
	if len(decided) == 0 { // somebody else, or the end of the time, was quicker
		a, _ = q.openEntry(id)
		return a, ErrDecided
	}
	return decided[0], failed
}

// check returns an error if a user must not make this decision about a call.
func check(a store.Approval, scope Scope, by chat.User, at chat.Address) error {
	switch {
	case !mayDecide(a, by, at):
		return ErrOthers
	case scope == Denied:
	case len(a.Args) > maxShownArgs && !by.Operator:
		return ErrNotShown
	case scope == Once:
	case !slices.Contains([]Scope{InConversation, Always, Reading}, scope),
		scope == Reading && !a.Reading, scope != Reading && !a.Grantable, scope == InConversation && !mayGrantHere(a):
		return ErrScope
	case scope != InConversation && !by.Operator && !by.Admin:
		return ErrAlways
	}
	return nil
}

// displayName returns how a user is named in posts and logs.
func displayName(u chat.User) string { return cmp.Or(u.Name, u.ID) }

// mayDecide reports whether a user at a place may decide. IDs are unique only within a platform, and roles and
// administrators only apply to a workspace. If a rule names the approvers, the asker is not automatically one of them.
func mayDecide(a store.Approval, by chat.User, at chat.Address) bool {
	isHere := a.Conversation.Platform == at.Platform && a.Conversation.Workspace == at.Workspace
	switch {
	case by.Operator || by.Admin && isHere && len(a.Approvers) == 0:
		return true
	case a.Conversation.Platform != at.Platform:
		return false
	case len(a.Approvers) == 0:
		return a.Asker.ID != "" && a.Asker.ID == by.ID
	}
	return slices.ContainsFunc(a.Approvers, func(who string) bool {
		kind, name, _ := strings.Cut(who, ":")
		switch kind {
		case "roles":
			return isHere && slices.Contains(by.Roles, name)
		case "users":
			return by.ID == name || by.Handle != "" && by.Handle == name
		}
		return false
	})
}

// decide records a decision about calls, wakes the waiting calls and replaces the posts. It returns the calls that
// were undecided before, in this process and in others. before, if not nil, is called with each of them before its
// call proceeds.
func (q *Queue) decide(
	ctx context.Context,
	ids []string,
	d store.Decision,
	by string,
	before func(a store.Approval),
) []store.Approval {
	var decided []store.Approval
	posts := map[string]store.Approval{} // the last call that each was about
	for _, id := range ids {
		a, ok := q.saveDecision(ctx, id, d, by, before)
		if !ok {
			continue
		}
		if q.o.Decided != nil {
			q.o.Decided(ctx, a)
		}
		q.o.Log.Info("approval decided", "approval", id, "turn", a.Turn, "call", a.Call, "tool", a.Tool,
			"decision", string(d), "by", by)
		decided, posts[postKey(a)] = append(decided, a), a
	}
	for key, a := range posts {
		d := q.questionDraft(q.askedWith(a))
		d.Key = key + "/" + a.ID // of the last decided call, so that each state has its own key
		q.post(ctx, a, d, key)
	}
	return decided
}

// saveDecision stores a decision, calls before, and resumes the call if it waits here. It returns false if the
// question is unknown or was decided before.
func (q *Queue) saveDecision(
	ctx context.Context,
	id string,
	d store.Decision,
	by string,
	before func(a store.Approval),
) (store.Approval, bool) {
	q.deciding.Lock()
	defer q.deciding.Unlock()
	a, isOpen := q.openEntry(id)
	if !isOpen {
		return a, false
	}
	a.Decision, a.By = d, by
	// A decision that cannot be stored still counts: after a restart the question is open
	// again, which is safe.
	decided, err := q.o.Store.DecideApproval(ctx, a)
	if err != nil {
		q.o.Log.Error("failed to store a decision", "approval", id, "error", err)
	}
	if err == nil && !decided {
		if err := q.reload(ctx, a.At); err != nil {
			q.o.Log.Error("failed to read an earlier decision", "approval", id, "error", err)
		}
		// A question that is still open was deleted with its conversation, and the call waits for an answer.
		if decided, isOpen := q.openEntry(id); !isOpen {
			return decided, false
		}
	}
	if before != nil {
		before(a)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.find(id)
	if e == nil {
		return a, false
	}
	e.Decision, e.By = d, by
	close(e.decided)
	return e.Approval, true
}
