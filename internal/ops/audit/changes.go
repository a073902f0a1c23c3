package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/egress"
	"ravenbot/internal/store"
)

// kind says how changes of a kind of items are recorded.
type kind struct {
	word    string   // what it is
	title   string   // the field that names it; empty: the item's own name does
	private []string // fields with somebody's own words
}

// kinds are the kinds of items whose changes are recorded.
var kinds = map[string]kind{
	"digest":                {word: "digest"},
	"digest pause":          {word: "pause of digest"},
	"digest page":           {word: "public page of digest"},
	"digest unsubscription": {word: "unsubscription from digest", title: "digest"},
	"agent":                 {word: "agent"},
	"agent of web room":     {word: "agent of web room"},
	"web room":              {word: "web room", private: []string{"title"}}, // the first words that were said there
	"mcp server":            {word: "MCP server"},
	"mcp token":             {word: "MCP token", title: "name"},
	"job":                   {word: "job", private: []string{"text", "prompt", "foreign"}},
	"grant":                 {word: "standing approval", title: "tool"},
}

// ChangeStore is a store that records every change in a context with an actor (WithActor, chat.WithAuthor). Changes that
// the bot makes by itself, and changes that fail, are not recorded. The methods return the results of the store.
type ChangeStore struct {
	store.Store
	Log *Log
	// Mask masks the secrets of the configuration in a text. nil: there are none.
	Mask func(string) string
}

// record writes a change to the audit, and returns the error of the change.
func (s ChangeStore) record(ctx context.Context, err error, action, target string, changes ...Change) error {
	if err == nil && hasActor(ctx) {
		for i := range changes {
			if s.Mask != nil {
				changes[i].Old, changes[i].New = s.Mask(changes[i].Old), s.Mask(changes[i].New)
			}
		}
		// The change has happened, so it is recorded even when its context has ended.
		s.Log.Record(context.WithoutCancel(ctx), Entry{Action: action, Target: target, Changes: changes})
	}
	return err
}

// recordJSON records that JSON was added, changed or deleted, unless nothing of it that matters has changed.
func (s ChangeStore) recordJSON(ctx context.Context, err error, k kind, name string, was, now json.RawMessage) error {
	if k.word == "" || err != nil {
		return err
	}
	isPrivate := func(field string) bool { return slices.Contains(k.private, field) }
	changes, verb := diff(was, now, isPrivate), "changed"
	switch {
	case was == nil:
		verb = "added"
	case now == nil:
		verb = "deleted"
	case len(changes) == 0:
		return nil
	}
	if k.title != "" {
		item := readFields(now, nil)
		if now == nil {
			item = readFields(was, nil)
		}
		name = item[k.title].shown
	}
	return s.record(ctx, nil, k.word+" "+verb, name, changes...)
}

// stored returns an item as it is stored before a change of a kind that is recorded; nil if there is none.
func (s ChangeStore) stored(ctx context.Context, kind, name string) json.RawMessage {
	if kinds[kind].word == "" || !hasActor(ctx) {
		return nil
	}
	raw, _ := s.Store.Item(ctx, kind, name) // without it, the entry says who did what to it all the same
	return raw
}

// SwapSetting replaces a layer of settings and records the change.
func (s ChangeStore) SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error) {
	swapped, err := s.Store.SwapSetting(ctx, scope, was, now)
	if !swapped {
		return false, err
	}
	return true, s.recordJSON(ctx, err, kind{word: "settings"}, scope, was, now)
}

// SaveItem stores an item and records the change.
func (s ChangeStore) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	var was json.RawMessage
	if overwrite {
		was = s.stored(ctx, kind, name)
	}
	err := s.Store.SaveItem(ctx, kind, name, item, overwrite)
	return s.recordJSON(ctx, err, kinds[kind], name, was, item)
}

// SwapItem replaces an item together with its posts, and records the change.
func (s ChangeStore) SwapItem(
	ctx context.Context,
	kind, name string,
	was, now json.RawMessage,
	posts []store.Post,
) (bool, error) {
	swapped, err := s.Store.SwapItem(ctx, kind, name, was, now, posts)
	if !swapped {
		return false, err
	}
	return true, s.recordJSON(ctx, err, kinds[kind], name, was, now)
}

// DeleteItem deletes an item and records the change.
func (s ChangeStore) DeleteItem(ctx context.Context, kind, name string) error {
	was := s.stored(ctx, kind, name)
	return s.recordJSON(ctx, s.Store.DeleteItem(ctx, kind, name), kinds[kind], name, was, nil)
}

// DeleteConversation deletes a conversation and records the change.
func (s ChangeStore) DeleteConversation(ctx context.Context, a chat.Address) error {
	return s.record(ctx, s.Store.DeleteConversation(ctx, a), "conversation deleted", a.String())
}

// DeleteRoom deletes the lines of a web room and records the change.
func (s ChangeStore) DeleteRoom(ctx context.Context, name string) error {
	return s.record(ctx, s.Store.DeleteRoom(ctx, name), "lines of web room deleted", name)
}

// SaveMemory stores a note and records the change.
func (s ChangeStore) SaveMemory(ctx context.Context, m store.Memory, limit int) (store.Memory, bool, error) {
	kept, isNew, err := s.Store.SaveMemory(ctx, m, limit)
	if !isNew {
		return kept, isNew, err
	}
	return kept, isNew, s.record(ctx, err, "note added", m.Scope, noteChange(kept.N, "", m.Text))
}

// ReplaceMemory replaces a note and records the change.
func (s ChangeStore) ReplaceMemory(ctx context.Context, m store.Memory) (before, kept store.Memory, err error) {
	before, kept, err = s.Store.ReplaceMemory(ctx, m)
	return before, kept, s.record(ctx, err, "note changed", m.Scope, noteChange(m.N, before.Text, kept.Text))
}

// DeleteMemory deletes a note and records the change.
func (s ChangeStore) DeleteMemory(ctx context.Context, scope string, n uint64) error {
	before := ""
	if hasActor(ctx) {
		list, _ := s.Memories(ctx, scope) // without it, the entry says who deleted the note all the same
		if i := slices.IndexFunc(list, func(m store.Memory) bool { return m.N == n }); i >= 0 {
			before = list[i].Text
		}
	}
	return s.record(ctx, s.Store.DeleteMemory(ctx, scope, n), "note deleted", scope, noteChange(n, before, ""))
}

// DeleteMemories deletes all notes of a scope and records the change.
func (s ChangeStore) DeleteMemories(ctx context.Context, scope string) error {
	return s.record(ctx, s.Store.DeleteMemories(ctx, scope), "notes deleted", scope)
}

// noteChange returns the change of a note, whose text is not shown.
func noteChange(n uint64, before, after string) Change {
	c := Change{Field: fmt.Sprintf("note %d", n)}
	if before != "" {
		c.Old = describeText(before)
	}
	if after != "" {
		c.New = describeText(after)
	}
	return c
}

// SaveSubscription stores a subscription and records the change.
func (s ChangeStore) SaveSubscription(ctx context.Context, v store.Subscription) error {
	return s.record(ctx, s.Store.SaveSubscription(ctx, v), "subscription added", v.To.String(),
		Change{Field: "feed", New: egress.RedactURL(v.URL)})
}

// DeleteSubscription deletes a subscription and records the change.
func (s ChangeStore) DeleteSubscription(ctx context.Context, to chat.Address, url string) error {
	return s.record(ctx, s.Store.DeleteSubscription(ctx, to, url), "subscription deleted", to.String(),
		Change{Field: "feed", Old: egress.RedactURL(url)})
}
