package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// doneRecord is what remains of a finished message or post.
type doneRecord struct {
	Done time.Time `json:"done"`
	Ref  chat.Ref  `json:"ref,omitzero"`
}

// Accept stores a message until it is answered. It returns false and stores nothing where a message with
// the same key was accepted before, by whichever process.
func (db *DB) Accept(ctx context.Context, r store.Received) (bool, error) {
	key, m := r.Message.Key(), r.Message
	record, err := encode(r)
	var seen string
	if err == nil {
		seen, err = encode(chat.LastSeen{Conversation: m.Conversation, Message: m.ID, Time: m.Time, At: db.Now()})
	}
	var isNew bool
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				// A finished message keeps its row, so that the key alone decides.
				b.Queue(`insert into ravenbot.inbox (key, seq, v, record, owner)
					values ($1, nextval('ravenbot.inbox_seq'), $2, $3, $4) on conflict (key) do nothing`,
					keyText(key), recordVersion, record, db.owner()).Exec(func(tag pgconn.CommandTag) error {
					isNew = tag.RowsAffected() > 0
					if !isNew {
						return errUnchanged
					}
					return nil
				})
				// Edits and deletions are about older messages.
				if m.Change == "" {
					b.Queue(`insert into ravenbot.last_seen (address, platform, v, record, at) values ($1, $2, $3, $4, $5)
						on conflict (address) do update set v = excluded.v, record = excluded.record, at = excluded.at`,
						keyText(m.Conversation.String()), keyText(m.Conversation.Platform), recordVersion, seen, db.Now())
				}
			})
		})
	}
	if err != nil {
		return false, fmt.Errorf("store message %s: %w", key, err)
	}
	return isNew, nil
}

// LastSeen returns the newest accepted message of each conversation of a platform, of those accepted since
// a time, latest first.
func (db *DB) LastSeen(ctx context.Context, platform string, since time.Time) ([]chat.LastSeen, error) {
	list, err := readRecords[chat.LastSeen](ctx, db, "last_seen",
		`select v, record from ravenbot.last_seen where platform = $1 and at >= $2 order by at desc`,
		keyText(platform), since)
	if err != nil {
		return nil, fmt.Errorf("list the last messages of %s: %w", platform, err)
	}
	return list, nil
}

// ConversationOf returns the conversation of a message that waits or is part of a turn, by the message's
// subject. It returns false where it is neither.
func (db *DB) ConversationOf(ctx context.Context, subject string) (chat.Address, bool, error) {
	var waiting []byte
	var held *string
	var v int16
	err := db.read(ctx, func(ctx context.Context) error {
		return db.pool.QueryRow(ctx, `select coalesce((select v from ravenbot.inbox where key = $1), 0),
			(select record from ravenbot.inbox where key = $1),
			(select c.address from ravenbot.message_turns m join ravenbot.conversations c on c.id = m.conversation
				where m.subject = $1)`, keyText(subject)).Scan(&v, &waiting, &held)
	})
	var a chat.Address
	switch {
	case err != nil:
	case waiting != nil:
		var r store.Received
		err = db.decode("inbox", v, waiting, &r)
		a = r.Message.Conversation
	case held != nil:
		a, err = chat.ParseAddress(parseKey(*held))
	}
	if err != nil {
		return chat.Address{}, false, fmt.Errorf("look for message %s: %w", subject, err)
	}
	return a, waiting != nil || held != nil, nil
}

// ofOwner keeps rows of others out of a list; 0 stands for a process that is no member.
const ofOwner = `($1::bigint = 0 or owner = $1)`

// Unanswered returns the messages without an outcome, in order of arrival: of a member its own, of a process that is
// none all of them.
func (db *DB) Unanswered(ctx context.Context) ([]store.Received, error) {
	list, err := readRecords[store.Received](ctx, db, "inbox",
		`select v, record from ravenbot.inbox where record is not null and `+ofOwner+` order by seq`, db.owner())
	if err != nil {
		return nil, fmt.Errorf("list waiting messages: %w", err)
	}
	return list, nil
}

// SaveAnswer stores, in one transaction, the turn that answered messages and the posts with the answer, and sets the
// Seq of both. turn may be nil: a command keeps no history. Without posts the messages, named by their keys, are done
// at once. With an error neither turn nor posts have changed.
func (db *DB) SaveAnswer(
	ctx context.Context,
	to chat.Address,
	messages []string,
	turn *conversation.Turn,
	posts []store.Post,
) error {
	var saved *conversation.Turn
	var numbers []uint64
	err := db.write(ctx, func(t *tx) error {
		// The change may run more than once: the caller's values are set by its result alone.
		saved = nil
		var err error
		if turn != nil {
			copied := *turn
			saved = &copied
		}
		w := turnWrite{tx: t, to: to, turn: saved, newPosts: len(posts)}
		if err = w.allocate(); err != nil {
			return err
		}
		numbers = w.postNumbers
		return w.save(func(b *pgx.Batch) error {
			if saved != nil {
				t.countTurn(b, to, saved)
			}
			if len(posts) == 0 {
				return markDone(b, db.Now(), messages)
			}
			// The messages stay in the inbox until the posts have outcomes: SaveOutcomes marks them done.
			return db.insertPosts(b, posts, numbers)
		})
	})
	if err != nil {
		return fmt.Errorf("store the answer to %s: %w", strings.Join(messages, ", "), err)
	}
	if turn != nil {
		turn.Seq = saved.Seq
	}
	setNumbers(posts, numbers)
	return nil
}

// markDone queues removing messages from the inbox. Their keys stay, so that a redelivered message is
// recognized.
func markDone(b *pgx.Batch, now time.Time, messages []string) error {
	if len(messages) == 0 {
		return nil
	}
	done, err := encode(doneRecord{Done: now})
	if err != nil {
		return err
	}
	for _, key := range messages {
		b.Queue(`insert into ravenbot.inbox as i (key, seq, v, done, done_at) values ($1, 0, $2, $3, $4)
			on conflict (key) do update set record = null, done = excluded.done, done_at = excluded.done_at`,
			keyText(key), recordVersion, done, now)
	}
	return nil
}

// SaveStream stores where an answer has begun to be shown, under the key of its future post, until that
// post has an outcome.
func (db *DB) SaveStream(ctx context.Context, key string, ref chat.Ref) error {
	now := db.Now()
	record, err := encode(doneRecord{Done: now, Ref: ref})
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			_, err := t.exec(`insert into ravenbot.streams (key, v, record, at) values ($1, $2, $3, $4)
				on conflict (key) do update set v = excluded.v, record = excluded.record, at = excluded.at`,
				keyText(key), recordVersion, record, now)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("store the place of begun answer %s: %w", key, err)
	}
	return nil
}

// Stream returns where an answer has begun to be shown. It returns false where it has not.
func (db *DB) Stream(ctx context.Context, key string) (chat.Ref, bool, error) {
	r, found, err := readRecord[doneRecord](ctx, db, "streams",
		`select v, record from ravenbot.streams where key = $1`, keyText(key))
	if err != nil {
		return chat.Ref{}, false, fmt.Errorf("look for begun answer %s: %w", key, err)
	}
	return r.Ref, found, nil
}
