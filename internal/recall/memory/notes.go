package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// add stores a note of who asked: their name, userKey of them, and whose words they may have had noted.
func (p *Pack) add(
	ctx context.Context,
	of scope,
	note, by, user string,
	from origin.Origin,
) (store.Memory, bool, error) {
	m := store.Memory{Scope: of.key, Text: note, By: by, User: user, At: p.o.Now(), Origin: from}
	return p.o.Store.SaveMemory(ctx, m, maxNotes)
}

// userKey returns platform/id of a person, or "" where several people are answered at once.
func userKey(platform string, who chat.User) string {
	if who.ID == "" {
		return ""
	}
	return platform + "/" + who.ID
}

// replace changes the text of a note on behalf of the author of m, to what may be words of others. In a channel it takes
// an administrator, or the one who had the note stored.
func (p *Pack) replace(
	ctx context.Context,
	of scope,
	n uint64,
	note string,
	m chat.Message,
	from origin.Origin,
) (before, kept store.Memory, err error) {
	by, user := cmp.Or(m.Author.Name, m.Author.ID), userKey(m.Conversation.Platform, m.Author)
	if of.isChannel() && !p.o.Manages(m) {
		list, err := p.o.Store.Memories(ctx, of.key)
		if err != nil {
			return store.Memory{}, store.Memory{}, err
		}
		for _, one := range list {
			// Anybody may take a name: who had the note stored is known by id alone.
			if one.N != n || one.User != "" && one.User == user {
				continue
			}
			who := "Only administrators"
			if one.User != "" {
				who += ", and " + cmp.Or(text.OneLine(one.By), "whoever had it stored") + ","
			}
			return store.Memory{}, store.Memory{}, userError(who + " change this note of the channel.")
		}
	}
	changed := store.Memory{Scope: of.key, N: n, Text: note, By: by, User: user, At: p.o.Now(), Origin: from}
	before, kept, err = p.o.Store.ReplaceMemory(ctx, changed)
	return before, kept, p.forget(ctx, of, err)
}

// Scopes returns the scopes that may have notes, as operators write them.
func (p *Pack) Scopes(ctx context.Context) ([]string, error) {
	keys, err := p.o.Store.MemoryScopes(ctx)
	for i, key := range keys {
		keys[i] = strings.Replace(key, "/", ":", 1)
	}
	return keys, err
}

// List returns the notes of a scope, which is user:PLATFORM/ID or channel:ADDRESS: the newest first or, with a query,
// those that fit, the best first. An error with a method BadInput that returns true is a mistake of the caller.
func (p *Pack) List(ctx context.Context, scope, query string) ([]store.Memory, error) {
	of, err := parseScope(scope)
	if err != nil {
		return nil, err
	}
	notes, err := p.notes(ctx, of)
	if strings.TrimSpace(query) != "" {
		notes = p.find(ctx, notes, query)
	}
	list := make([]store.Memory, len(notes))
	for i, n := range notes {
		list[i] = n.Memory
	}
	return list, err
}

// Add stores a note in a scope and returns it. Where one of the same text is there it returns that. Errors are like
// those of List.
func (p *Pack) Add(ctx context.Context, scope, words, by string) (store.Memory, error) {
	of, err := parseScope(scope)
	if err != nil {
		return store.Memory{}, err
	}
	note := text.OneLine(words)
	if n := utf8.RuneCountInString(note); n == 0 || n > maxNoteChars {
		return store.Memory{}, userError(fmt.Sprintf("the text of a note has %d characters, want 1 to %d", n, maxNoteChars))
	}
	kept, _, err := p.add(ctx, of, note, by, "", origin.Origin{})
	if errors.Is(err, store.ErrFull) {
		return kept, userError(fmt.Sprintf("%s has %d notes, which is the most; remove one first", scope, maxNotes))
	}
	return kept, err
}

// Remove deletes a note of a scope by its number. It returns store.ErrNotFound where there is none; other errors are
// like those of List.
func (p *Pack) Remove(ctx context.Context, scope string, n uint64) error {
	of, err := parseScope(scope)
	if err != nil {
		return err
	}
	return p.forget(ctx, of, p.o.Store.DeleteMemory(ctx, of.key, n))
}
