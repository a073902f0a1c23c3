package records

import (
	"cmp"
	"context"
	"math"
	"slices"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// summaries holds the summary of the older turns of a conversation, by its address.
var summaries = kv.Of[conversation.Summary](kv.Spec{Name: "summaries"})

// Summary returns the summary of the older turns of a conversation; its Upto is 0 if there is none.
func (s *Store) Summary(ctx context.Context, a chat.Address) (conversation.Summary, error) {
	found, _, err := lookUp(ctx, s, summaries, "", a.String())
	return found, wrap(err, "load the summary of %s", a)
}

// SaveSummary replaces the summary of a conversation.
func (s *Store) SaveSummary(ctx context.Context, a chat.Address, summary conversation.Summary) error {
	err := s.update(ctx, func(tx kv.Tx) error { return summaries.Put(tx, "", a.String(), summary) }, channelScope(a))
	return wrap(err, "store the summary of %s", a)
}

// hasGroup reports whether a group exists.
func hasGroup(tx kv.Tx, spec *kv.Spec, group string) (has bool, err error) {
	err = tx.Groups(spec, group, group, func(name string) error {
		has = name == group
		return kv.ErrStop
	})
	return has, err
}

// HasConversation reports whether anything is kept of a conversation.
func (s *Store) HasConversation(ctx context.Context, a chat.Address) (bool, error) {
	has, err := read(ctx, s, func(tx kv.Tx) (bool, error) { return hasConversation(tx, a) })
	return has, wrap(err, "look for conversation %s", a)
}

func hasConversation(tx kv.Tx, a chat.Address) (bool, error) {
	has, err := hasGroup(tx, turns.Spec, a.String())
	if err == nil && !has {
		has, err = hasGroup(tx, messages.Spec, a.String())
	}
	return has, err
}

// Conversations returns up to n conversations behind a cursor, by address, and the cursor behind them; it is empty if there
// are no more.
func (s *Store) Conversations(ctx context.Context, cursor string, n int) (
	infos []store.ConversationInfo,
	next string,
	err error,
) {
	after, err := readCursor(cursor)
	n = min(max(n, 0), math.MaxInt-1)
	if err == nil {
		err = s.View(ctx, func(tx kv.Tx) error {
			infos, next = nil, ""
			names, err := conversationNames(tx, kv.After(after), n+1)
			for i, name := range names {
				if err != nil || i == n {
					break
				}
				var info store.ConversationInfo
				info, err = conversationInfo(tx, name)
				infos = append(infos, info)
			}
			if len(names) > n && n > 0 {
				next = writeCursor(names[n-1])
			}
			return err
		})
	}
	if err != nil {
		return nil, "", wrap(err, "list conversations")
	}
	return infos, next, nil
}

// conversationNames returns the first n conversations from a name on that have turns or messages outside of turns.
func conversationNames(tx kv.Tx, from string, n int) (names []string, err error) {
	for _, spec := range []*kv.Spec{turns.Spec, messages.Spec} {
		found := 0
		err = cmp.Or(err, tx.Groups(spec, from, "", func(name string) error {
			if found == n {
				return kv.ErrStop
			}
			found++
			names = append(names, name)
			return nil
		}))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(n, len(names))], err
}

// conversationInfo returns what a list shows of a conversation, by its name. Only the newest turn and message are read.
func conversationInfo(tx kv.Tx, name string) (info store.ConversationInfo, err error) {
	if info.Address, err = chat.ParseAddress(name); err != nil {
		return info, err
	}
	if info.Turns, err = tx.Count(turns.Spec, name); err != nil {
		return info, err
	}
	newest := kv.Range{Group: name, Reverse: true, Limit: 1}
	err = turns.Scan(tx, newest, func(_ string, t conversation.Turn) error {
		info.Last = t.Began
		return nil
	})
	if err != nil {
		return info, err
	}
	return info, messages.Scan(tx, newest, func(_ string, m store.Message) error {
		if m.At.After(info.Last) {
			info.Last = m.At
		}
		return nil
	})
}

// DeleteConversation removes the turns, the messages outside of turns, the summary and the large results of a
// conversation, in small transactions: what a crash leaves is deleted when it is called again. It returns
// store.ErrNotFound if nothing is kept, and a *store.DamagedError if a large result cannot be read, whosever it is: all
// else is deleted.
func (s *Store) DeleteConversation(ctx context.Context, a chat.Address) error {
	p := s.newPruner(ctx, store.Retention{})
	// The results come first: once the turns are gone, nothing tells that a crash left some.
	err := sweepAll(p, results, func(r store.ToolResult) bool { return r.Conversation == a })
	var last uint64
	if err == nil {
		last, err = s.deleteSummary(ctx, a)
	}
	if err == nil {
		err = p.deleteTurns(oldTurns{address: a, upto: last, expired: last})
	}
	if err == nil {
		err = p.deleteMessages(a, "")
	}
	return wrap(cmp.Or(err, p.blocked), "delete conversation %s", a)
}

// deleteSummary deletes the summary of a conversation and returns the number of its last turn. It returns
// store.ErrNotFound if nothing is kept of the conversation.
func (s *Store) deleteSummary(ctx context.Context, a chat.Address) (last uint64, err error) {
	err = s.update(ctx, func(tx kv.Tx) error {
		has, err := hasConversation(tx, a)
		if err == nil && !has {
			err = store.ErrNotFound
		}
		if err == nil {
			last, err = tx.Number(turns.Spec, a.String())
		}
		if err != nil {
			return err
		}
		return summaries.Delete(tx, "", a.String())
	}, channelScope(a))
	return last, err
}
