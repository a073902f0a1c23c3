package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// SaveFeedback stores the feedback of a user on a turn and replaces their earlier one.
func (db *DB) SaveFeedback(ctx context.Context, f store.Feedback) error {
	err := db.write(ctx, func(t *tx) error {
		return t.sendAll(func(b *pgx.Batch) error {
			_, err := queueFeedback(b, f, `do update set v = excluded.v, record = excluded.record,
				withdrawn = excluded.withdrawn, at = excluded.at`)
			t.noteChange(b, store.FeedbackChanges)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("store feedback on %s: %w", f.Turn, err)
	}
	return nil
}

// queueFeedback queues inserting feedback; conflict says what happens where there is one.
func queueFeedback(b *pgx.Batch, f store.Feedback, conflict string) (*pgx.QueuedQuery, error) {
	record, err := encode(f)
	if err != nil {
		return nil, err
	}
	return b.Queue(`insert into ravenbot.feedback (turn, user_id, v, record, withdrawn, at)
		values ($1, $2, $3, $4, $5, $6) on conflict (turn, user_id) `+conflict,
		keyText(f.Turn), keyText(f.User), recordVersion, record, f.Withdrawn, f.At), nil
}

// SaveReaction applies a reaction, or the removal of one, to the feedback of its user. A removal without a user applies
// to all users. One that is older than what is stored changes nothing.
func (db *DB) SaveReaction(ctx context.Context, r store.Reaction) error {
	err := db.write(ctx, func(t *tx) error {
		given, err := t.lockFeedback(r)
		if err != nil {
			return err
		}
		isNew := len(given) == 0 && r.User != ""
		if isNew {
			given = []store.Feedback{{Turn: r.Turn, User: r.User}}
		}
		return t.sendAll(func(b *pgx.Batch) error {
			t.noteChange(b, store.FeedbackChanges)
			for _, f := range given {
				// Platforms deliver late and twice; such a reaction changes nothing.
				after, changed := f.Apply(r)
				if !changed {
					continue
				}
				if err := saveApplied(b, after, isNew); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("store a reaction on %s: %w", r.Turn, err)
	}
	return nil
}

// lockFeedback returns the feedback that a reaction is about, as far as there is one. Other transactions
// that want to change it wait.
func (t *tx) lockFeedback(r store.Reaction) (given []store.Feedback, err error) {
	return given, t.send(func(b *pgx.Batch) {
		b.Queue(`select v, record from ravenbot.feedback where turn = $1 and ($2 = '' or user_id = $2)
			order by user_id for update`, keyText(r.Turn), keyText(r.User)).
			Query(eachRecord(t.db, "feedback", func(f store.Feedback) { given = append(given, f) }))
	})
}

// saveApplied queues storing feedback to which a reaction was applied.
func saveApplied(b *pgx.Batch, f store.Feedback, isNew bool) error {
	if !isNew {
		_, err := queueFeedback(b, f, `do update set v = excluded.v, record = excluded.record,
			withdrawn = excluded.withdrawn, at = excluded.at`)
		return err
	}
	q, err := queueFeedback(b, f, `do nothing`)
	if err != nil {
		return err
	}
	// There was no row to lock: a concurrent first reaction of this user may have come first.
	q.Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return &conflictError{fmt.Errorf("feedback of %s on %s was stored meanwhile", f.User, f.Turn)}
		}
		return nil
	})
	return nil
}

// Feedback returns all feedback that was not withdrawn, by turn.
func (db *DB) Feedback(ctx context.Context) ([]store.Feedback, error) {
	list, err := readRecords[store.Feedback](ctx, db, "feedback",
		`select v, record from ravenbot.feedback where not withdrawn order by turn, user_id`)
	if err != nil {
		return nil, fmt.Errorf("list feedback: %w", err)
	}
	return list, nil
}

// feedbackVersion is a sum over the changes of feedback, and the newest of them.
type feedbackVersion struct{ sum, newest int64 }

// FeedbackCounts returns how much feedback calls its answer helpful, and how much does not. It reads the feedback only
// where this or another process has changed some since the last call.
func (db *DB) FeedbackCounts(ctx context.Context) (good, bad int, err error) {
	var version feedbackVersion
	err = db.read(ctx, func(ctx context.Context) error {
		return db.pool.QueryRow(ctx, `select coalesce(sum(n >> 16), 0)::bigint, coalesce(max(n), 0) from ravenbot.changes
			where kind = $1`, keyText(store.FeedbackChanges)).Scan(&version.sum, &version.newest)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count feedback: %w", err)
	}
	good, bad, ok := db.feedback.Get(version)
	if ok {
		return good, bad, nil
	}
	// Read after its version: what is changed in between is read again at the next call.
	list, err := db.Feedback(ctx)
	if err != nil {
		return 0, 0, err
	}
	good, bad = db.feedback.Set(version, list)
	return good, bad, nil
}

// shownRecord says which turn a message of the bot shows.
type shownRecord struct {
	Shown store.ShownTurn `json:"shown"`
	At    time.Time       `json:"at"`
}

// saveShownTurns queues recording which turn the messages of a post show.
func saveShownTurns(b *pgx.Batch, p store.Post, o store.Outcome) error {
	if p.Turn == "" {
		return nil
	}
	record, err := encode(shownRecord{store.ShownTurn{To: p.To, Turn: p.Turn}, o.At})
	if err != nil {
		return err
	}
	for _, id := range o.Ref.IDs {
		b.Queue(`insert into ravenbot.shown_turns (platform, message, address, v, record, at)
			values ($1, $2, $3, $4, $5, $6) on conflict (platform, message, address)
			do update set v = excluded.v, record = excluded.record, at = excluded.at`,
			keyText(p.To.Platform), keyText(id), keyText(p.To.String()), recordVersion, record, o.At)
	}
	return nil
}

// ShownTurn returns the turn that a message of the bot shows, by the message's id and the channel or thread
// that it is in. It returns false where none is known.
func (db *DB) ShownTurn(ctx context.Context, in chat.Address, id string) (store.ShownTurn, bool, error) {
	// Ids are unique on some platforms, within a channel on others.
	list, err := readRecords[shownRecord](ctx, db, "shown_turns",
		`select v, record from ravenbot.shown_turns where platform = $1 and message = $2 order by address`,
		keyText(in.Platform), keyText(id))
	if err != nil {
		return store.ShownTurn{}, false, fmt.Errorf("look for what message %s shows: %w", id, err)
	}
	for _, r := range list {
		// On Discord a thread is a channel of its own, and reactions name only that.
		if r.Shown.To.Channel == in.Channel || r.Shown.To.Thread == in.Channel {
			return r.Shown, true, nil
		}
	}
	return store.ShownTurn{}, false, nil
}
