package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

// Scope is how far an approval reaches.
type Scope string

// The scopes of an approval.
const (
	Denied         Scope = ""             // nothing: the call is not made
	Once           Scope = "once"         // the one call, with its arguments
	InConversation Scope = "conversation" // calls of the tool by the same person in the same conversation, for a day
	Always         Scope = "always"       // calls of the tool in the channel and its threads, until it is revoked
	// Reading allows calls of the server's reading tools in the channel and its threads, even after foreign text,
	// until it is revoked. The tool of the question counts as one of them if its effects are unknown.
	Reading Scope = "reading"
)

// conversationGrantLife is how long a grant for a conversation lasts.
const conversationGrantLife = 24 * time.Hour

// grantKind is the kind of the stored items.
const grantKind = "grant"

// Grant is a standing approval of a tool. But for Reading it never counts in a turn that has read foreign text, and none
// counts against a rule of the operator's: see package policy.
type Grant struct {
	ID      string       `json:"id"`
	Tool    string       `json:"tool"` // as models call it
	Server  string       `json:"server"`
	Scope   Scope        `json:"scope"`
	Where   chat.Address `json:"where"`          // the conversation, or the channel
	User    string       `json:"user,omitempty"` // platform/id of whom it is for; empty: everybody there
	By      string       `json:"by"`             // name of who gave it
	Giver   string       `json:"giver"`          // platform/id of who gave it
	At      time.Time    `json:"at"`
	Expires time.Time    `json:"expires,omitzero"`
}

// allows reports whether a grant is for a call.
func (g Grant) allows(in tool.Intent, now time.Time) bool {
	at := in.Caller.Conversation
	if g.Scope == Reading {
		spec := in.Tool.Tool.Spec()
		class := spec.Hints.Class()
		return g.Server == spec.Server && g.Where == at.Base() &&
			(class == "readOnly" || class == "unknown" && g.Tool == in.Tool.Name)
	}
	switch {
	case g.Tool != in.Tool.Name, g.Server != in.Tool.Tool.Spec().Server, g.hasExpired(now):
		return false
	case g.Scope == Always:
		return g.Where == at.Base()
	}
	return g.Where == at && in.Caller.User.ID != "" && g.User == userKey(at, in.Caller.User)
}

// hasExpired reports whether a grant is over; one without an end never is.
func (g Grant) hasExpired(now time.Time) bool { return !g.Expires.IsZero() && !now.Before(g.Expires) }

// userKey names a user across all platforms.
func userKey(at chat.Address, u chat.User) string { return at.Platform + "/" + u.ID }

// Grants are the standing approvals. They are safe for concurrent use.
type Grants struct {
	store store.Items
	now   func() time.Time
	// reloading is read-locked while a grant is changed, in the store and here, and write-locked by Reload, so that
	// Reload never replaces newer data. It is locked before mu.
	reloading sync.RWMutex

	// mu guards list, for moments only: Allow is asked before every call.
	mu   sync.Mutex
	list []Grant // oldest first
}

// LoadGrants reads the stored grants. With an error the Grants hold none and may still be reloaded.
func LoadGrants(ctx context.Context, s store.Items, now func() time.Time) (*Grants, error) {
	g := &Grants{store: s, now: now}
	return g, g.Reload(ctx)
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Grants) SharedKinds() []string { return []string{grantKind} }

// Reload reads the stored grants again. With an error nothing has changed.
func (g *Grants) Reload(ctx context.Context) error {
	g.reloading.Lock()
	defer g.reloading.Unlock()
	items, err := g.store.Items(ctx, grantKind)
	if err != nil {
		return fmt.Errorf("read the standing approvals: %w", err)
	}
	list := make([]Grant, 0, len(items))
	for name, raw := range items {
		var one Grant
		if err := json.Unmarshal(raw, &one); err != nil {
			return fmt.Errorf("read the standing approval %s: %w", name, err)
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Grant) int { return a.At.Compare(b.At) })
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = list
	return nil
}

// Allow reports whether a grant allows a call while no foreign text was read.
func (g *Grants) Allow(in tool.Intent) bool {
	return g.has(func(one Grant) bool { return one.Scope != Reading && one.allows(in, g.now()) })
}

// AllowReading reports whether a grant counts a call among the reading tools of a server that may be used here.
func (g *Grants) AllowReading(in tool.Intent) bool {
	return g.has(func(one Grant) bool { return one.Scope == Reading && one.allows(in, g.now()) })
}

// has reports whether there is a grant that matches.
func (g *Grants) has(match func(Grant) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.list, match)
}

// List returns the grants that count, oldest first.
func (g *Grants) List() []Grant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.list), func(one Grant) bool { return one.hasExpired(g.now()) })
}

// add stores the grant that an approval of a wider scope is.
func (g *Grants) add(ctx context.Context, a store.Approval, scope Scope, by chat.User, platform string) error {
	one := Grant{
		ID:     text.RandomID(idBytes),
		Tool:   a.Tool,
		Server: a.Server,
		Scope:  scope,
		Where:  a.Conversation,
		By:     displayName(by),
		Giver:  platform + "/" + by.ID,
		At:     g.now().UTC(),
	}
	if scope != InConversation {
		one.Where = a.Conversation.Base()
	} else {
		one.User = userKey(a.Conversation, a.Asker)
		one.Expires = one.At.Add(conversationGrantLife)
	}
	raw, err := json.Marshal(one)
	if err != nil {
		return err
	}
	g.reloading.RLock()
	defer g.reloading.RUnlock()
	if err := g.store.SaveItem(ctx, grantKind, one.ID, raw, false); err != nil {
		return fmt.Errorf("store the standing approval: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, one)
	return nil
}

// Revoke ends a grant. It returns store.ErrNotFound for an unknown ID.
func (g *Grants) Revoke(ctx context.Context, id string) error {
	g.reloading.RLock()
	defer g.reloading.RUnlock()
	if err := g.store.DeleteItem(ctx, grantKind, id); err != nil {
		return fmt.Errorf("revoke the standing approval %s: %w", id, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = slices.DeleteFunc(g.list, func(one Grant) bool { return one.ID == id })
	return nil
}

// dropExpired deletes the grants that are over.
func (g *Grants) dropExpired(ctx context.Context) error {
	g.mu.Lock()
	var over []string
	for _, one := range g.list {
		if one.hasExpired(g.now()) {
			over = append(over, one.ID)
		}
	}
	g.mu.Unlock()
	// Without mu: Revoke takes reloading, which comes before it.
	for _, id := range over {
		// Another process that shares the store may have deleted it.
		if err := g.Revoke(ctx, id); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
	}
	return nil
}
