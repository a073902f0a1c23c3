package audit

import (
	"context"
	"encoding/json"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// kindNames are the kinds of items that are recorded when people change them in the chat, in words.
var kindNames = map[string]string{
	"digest":            "digest",
	"digest pause":      "pause of digest",
	"digest page":       "public page of digest",
	"agent":             "agent",
	"agent of web room": "agent of web room",
	"mcp server":        "mcp server",
	"job":               "job",
	"grant":             "standing approval",
}

// ChangeStore is a store that records what people change in the chat: whatever is saved or deleted in a context with an
// author (chat.WithAuthor). Requests to the API are recorded by their handlers. Its methods return what those of the
// store return; a change that failed is not recorded.
type ChangeStore struct {
	store.Store
	Log *Log
}

// record writes a change to the audit, and returns the error of the change. What nobody said in a chat is recorded by
// whoever called: the API and the configuration.
func (s ChangeStore) record(ctx context.Context, err error, action, target string) error {
	m, ok := chat.AuthorOf(ctx)
	if !ok || err != nil {
		return err
	}
	// The change has happened, so it is recorded even when its context has ended.
	s.Log.Record(context.WithoutCancel(ctx), Entry{
		Who:    m.Conversation.Platform + "/" + m.Author.ID,
		From:   m.Conversation.String(),
		Action: action,
		Target: target,
	})
	return nil
}

// SwapSetting replaces a layer of settings and records the change.
func (s ChangeStore) SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error) {
	swapped, err := s.Store.SwapSetting(ctx, scope, was, now)
	if !swapped {
		return false, err
	}
	return true, s.record(ctx, err, "settings changed", scope)
}

// SaveItem stores an item and records the change.
func (s ChangeStore) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	err := s.Store.SaveItem(ctx, kind, name, item, overwrite)
	if word := kindNames[kind]; word != "" {
		return s.record(ctx, err, word+" saved", name)
	}
	return err
}

// SwapItem replaces an item together with its posts, and records the change.
func (s ChangeStore) SwapItem(
	ctx context.Context,
	kind, name string,
	was, now json.RawMessage,
	posts []store.Post,
) (bool, error) {
	swapped, err := s.Store.SwapItem(ctx, kind, name, was, now, posts)
	word := kindNames[kind]
	if word == "" || !swapped {
		return swapped, err
	}
	if now == nil {
		return swapped, s.record(ctx, err, word+" deleted", name)
	}
	return swapped, s.record(ctx, err, word+" saved", name)
}

// DeleteItem deletes an item and records the change.
func (s ChangeStore) DeleteItem(ctx context.Context, kind, name string) error {
	err := s.Store.DeleteItem(ctx, kind, name)
	if word := kindNames[kind]; word != "" {
		return s.record(ctx, err, word+" deleted", name)
	}
	return err
}

// SaveMemory stores a note and records the change.
func (s ChangeStore) SaveMemory(ctx context.Context, m store.Memory, limit int) (store.Memory, bool, error) {
	kept, isNew, err := s.Store.SaveMemory(ctx, m, limit)
	return kept, isNew, s.record(ctx, err, "note saved", m.Scope)
}

// ReplaceMemory replaces a note and records the change.
func (s ChangeStore) ReplaceMemory(ctx context.Context, m store.Memory) (before, kept store.Memory, err error) {
	before, kept, err = s.Store.ReplaceMemory(ctx, m)
	return before, kept, s.record(ctx, err, "note replaced", m.Scope)
}

// DeleteMemory deletes a note and records the change.
func (s ChangeStore) DeleteMemory(ctx context.Context, scope string, n uint64) error {
	return s.record(ctx, s.Store.DeleteMemory(ctx, scope, n), "note deleted", scope)
}

// DeleteMemories deletes all notes of a scope and records the change.
func (s ChangeStore) DeleteMemories(ctx context.Context, scope string) error {
	return s.record(ctx, s.Store.DeleteMemories(ctx, scope), "notes deleted", scope)
}

// SaveSubscription stores a subscription and records the change.
func (s ChangeStore) SaveSubscription(ctx context.Context, v store.Subscription) error {
	return s.record(ctx, s.Store.SaveSubscription(ctx, v), "subscription saved", v.To.String()+" "+v.URL)
}
