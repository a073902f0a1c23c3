package records

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// inboxRecord is a message without an outcome; Seq orders them by arrival.
type inboxRecord struct {
	Received store.Received `json:"received"`
	Seq      uint64         `json:"seq"`
}

// doneRecord is what remains of a finished message or post.
type doneRecord struct {
	Done time.Time `json:"done"`
	Ref  chat.Ref  `json:"ref,omitzero"`
}

var (
	// inbox holds messages without an outcome, by their keys.
	inbox = kv.Of[inboxRecord](kv.Spec{Name: "inbox", Owner: func(value []byte) (string, error) {
		var r inboxRecord
		err := json.Unmarshal(value, &r)
		return store.ClaimKey(r.Received.Message.Conversation), err
	}})
	// done holds finished messages and posts, by messageDone and postDone of their keys.
	done = kv.Of[doneRecord](kv.Spec{Name: "done", At: doneTime})
	// lastSeen holds the newest message of each conversation, by its address.
	lastSeen = kv.Of[chat.LastSeen](kv.Spec{Name: "heard"})
	// streams holds where an answer has begun to be shown, by the key of its post.
	streams = kv.Of[doneRecord](kv.Spec{Name: "streams", At: doneTime})
)

// doneTime returns when a message or post was finished.
func doneTime(value []byte) (time.Time, error) {
	var r doneRecord
	err := json.Unmarshal(value, &r)
	return r.Done, err
}

func messageDone(key string) string { return "m/" + key }
func postDone(key string) string    { return "p/" + key }

// Accept stores a message until it is answered. It returns false and stores nothing if a message with the same key was
// accepted before.
func (s *Store) Accept(ctx context.Context, r store.Received) (isNew bool, err error) {
	return s.accept(ctx, r, nil)
}

// accept is Accept with Write.Free.
func (s *Store) accept(ctx context.Context, r store.Received, free *bool) (isNew bool, err error) {
	m, key := r.Message, r.Message.Key()
	write := kv.Write{Scopes: []string{channelScope(m.Conversation)}, Free: free}
	err = s.Update(ctx, write, func(tx kv.Tx) error {
		// In this order: an outcome moves a message from the inbox to those that are done, in another scope.
		err := tx.Prefetch(
			kv.Ref{Spec: inbox.Spec, Key: key},
			kv.Ref{Spec: done.Spec, Key: messageDone(key)},
			kv.Ref{Spec: inbox.Spec}, // its next number
		)
		if err != nil {
			return err
		}
		waits, err := inbox.Has(tx, "", key)
		isDone, doneErr := done.Has(tx, "", messageDone(key))
		if isNew = !waits && !isDone; cmp.Or(err, doneErr) != nil || !isNew {
			return cmp.Or(err, doneErr)
		}
		seq, err := tx.Next(inbox.Spec, "")
		if err == nil {
			err = inbox.Put(tx, "", key, inboxRecord{r, seq})
		}
		// Edits and deletions are about older messages.
		if err != nil || m.Change != "" {
			return err
		}
		return lastSeen.Put(tx, "", m.Conversation.String(),
			chat.LastSeen{Conversation: m.Conversation, Message: m.ID, Time: m.Time, At: s.Now()})
	})
	return isNew && err == nil, wrap(err, "store message %s", key)
}

// LastSeen returns the newest accepted message of each conversation of a platform, of those accepted since a time, latest
// first.
func (s *Store) LastSeen(ctx context.Context, platform string, since time.Time) ([]chat.LastSeen, error) {
	found, err := list(ctx, s, lastSeen, kv.Prefix("", platform+":"))
	found = slices.DeleteFunc(found, func(l chat.LastSeen) bool { return l.At.Before(since) })
	slices.SortFunc(found, func(a, b chat.LastSeen) int { return b.At.Compare(a.At) })
	return found, wrap(err, "list the last messages of %s", platform)
}

// ConversationOf returns the conversation of a message that waits or is part of a turn, by the message's subject. It
// returns false if it is neither.
func (s *Store) ConversationOf(ctx context.Context, subject string) (a chat.Address, found bool, err error) {
	err = s.View(ctx, func(tx kv.Tx) error {
		refs := []kv.Ref{{Spec: inbox.Spec, Key: subject}, {Spec: messageTurns.Spec, Key: subject}}
		if err := tx.Prefetch(refs...); err != nil {
			return err
		}
		waiting, waits, err := inbox.Get(tx, "", subject)
		if a, found = waiting.Received.Message.Conversation, waits; err != nil || waits {
			return err
		}
		at, held, err := messageTurns.Get(tx, "", subject)
		a, found = at.Conversation, held
		return err
	})
	return a, found, wrap(err, "look for message %s", subject)
}

// Unanswered returns the messages without an outcome, in the order of their arrival.
func (s *Store) Unanswered(ctx context.Context) ([]store.Received, error) {
	found, err := list(ctx, s, inbox, kv.Range{Mine: true})
	return received(found), wrap(err, "list waiting messages")
}

// received returns the messages of records in the order of their arrival.
func received(list []inboxRecord) (messages []store.Received) {
	slices.SortFunc(list, func(a, b inboxRecord) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, r := range list {
		messages = append(messages, r.Received)
	}
	return messages
}

// SaveAnswer stores, in one transaction, the turn that answered messages and the posts with the answer. turn may be nil: a
// command keeps no history. Without posts the messages, named by their keys, are done at once.
func (s *Store) SaveAnswer(
	ctx context.Context,
	to chat.Address,
	answered []string,
	turn *conversation.Turn,
	posts []store.Post,
) error {
	var saved conversation.Turn
	var used store.Usage
	err := s.update(ctx, func(tx kv.Tx) error {
		refs := turnRefs(to, turn)
		if turn != nil {
			saved = *turn // the transaction may run more than once
			if used = s.takeUsage(to, &saved); used.Tokens != (llm.Usage{}) {
				refs = append(refs, kv.Ref{Spec: usage.Spec, Key: usageKey(used)})
			}
		}
		if err := prefetchPosts(tx, posts, refs...); err != nil {
			return err
		}
		if turn != nil {
			if used.Tokens != (llm.Usage{}) {
				if err := addUsage(tx, used); err != nil {
					return err
				}
			}
			if err := putTurn(tx, to, &saved); err != nil {
				return err
			}
		}
		// The messages stay in the inbox until the posts have outcomes.
		if len(posts) > 0 {
			return addPosts(tx, posts)
		}
		return s.markDone(tx, answered)
	}, postScopes([]string{channelScope(to)}, posts)...)
	if err == nil && turn != nil {
		turn.Seq = saved.Seq
		s.own.add(used)
	}
	return wrap(err, "store the answer to %s", strings.Join(answered, ", "))
}

// markDone removes messages from the inbox and keeps their keys, so that a redelivered message is recognized.
func (s *Store) markDone(tx kv.Tx, keys []string) error {
	for _, key := range keys {
		if err := inbox.Delete(tx, "", key); err != nil {
			return err
		}
		if err := done.Put(tx, "", messageDone(key), doneRecord{Done: s.Now()}); err != nil {
			return err
		}
	}
	return nil
}

// SaveStream stores where an answer has begun to be shown, under the key of its future post, until that post has an
// outcome.
func (s *Store) SaveStream(ctx context.Context, key string, ref chat.Ref) error {
	err := put(ctx, s, streams, "", key, doneRecord{Done: s.Now(), Ref: ref})
	return wrap(err, "store the place of begun answer %s", key)
}

// Stream returns where an answer has begun to be shown. It returns false if it has not.
func (s *Store) Stream(ctx context.Context, key string) (chat.Ref, bool, error) {
	r, found, err := lookUp(ctx, s, streams, "", key)
	return r.Ref, found, wrap(err, "look for begun answer %s", key)
}
