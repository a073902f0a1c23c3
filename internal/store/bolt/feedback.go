package bolt

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// feedbackKey returns the key of a user's feedback. With an empty user it is the prefix of all on a
// turn.
func feedbackKey(turn, user string) []byte { return []byte(turn + nul + user) }

// SaveFeedback stores the feedback of a user on a turn and replaces their earlier one.
func (db *DB) SaveFeedback(ctx context.Context, f store.Feedback) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(feedbackBucket).put(feedbackKey(f.Turn, f.User), f)
	})
	if err != nil {
		return fmt.Errorf("store feedback on %s: %w", f.Turn, err)
	}
	return nil
}

// SaveReaction applies a reaction, or the removal of one, to the feedback of its user. A
// removal without a user applies to all users.
func (db *DB) SaveReaction(ctx context.Context, r store.Reaction) error {
	err := db.update(ctx, func(tx *tx) error {
		users := []string{r.User}
		if r.User == "" {
			users = tx.usersWithFeedback(r.Turn)
		}
		all := tx.top(feedbackBucket)
		for _, user := range users {
			f := store.Feedback{Turn: r.Turn, User: user}
			if _, err := all.get(feedbackKey(r.Turn, user), &f); err != nil {
				return err
			}
			// Platforms deliver late and twice; such a reaction changes nothing.
			if after, changed := f.Apply(r); changed {
				if err := all.put(feedbackKey(r.Turn, user), after); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("store a reaction on %s: %w", r.Turn, err)
	}
	return nil
}

// usersWithFeedback returns the users that gave feedback on a turn.
func (tx *tx) usersWithFeedback(turn string) []string {
	var users []string
	prefix := feedbackKey(turn, "")
	c := tx.top(feedbackBucket).cursor()
	for k, _ := c.seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.next() {
		users = append(users, string(k[len(prefix):]))
	}
	return users
}

// Feedback returns all feedback that was not withdrawn, by turn.
func (db *DB) Feedback(ctx context.Context) (list []store.Feedback, err error) {
	err = db.view(func(tx *tx) error {
		list, err = tx.feedback()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list feedback: %w", err)
	}
	return list, nil
}

// feedback returns all feedback that was not withdrawn, by turn.
func (tx *tx) feedback() ([]store.Feedback, error) {
	var list []store.Feedback
	return list, tx.top(feedbackBucket).each(func(k, v []byte) error {
		var f store.Feedback
		err := tx.db.decode(k, v, &f)
		if !f.Withdrawn {
			list = append(list, f)
		}
		return err
	})
}

// FeedbackCounts returns how much feedback calls its answer helpful, and how much does not. It decodes the
// records only if they have changed since the last call.
func (db *DB) FeedbackCounts(context.Context) (good, bad int, err error) {
	err = db.view(func(tx *tx) error {
		version, err := tx.top(feedbackBucket).version()
		if err != nil {
			return err
		}
		var ok bool
		if good, bad, ok = db.feedback.Get(version); ok {
			return nil
		}
		list, err := tx.feedback()
		if err == nil {
			good, bad = db.feedback.Set(version, list)
		}
		return err
	})
	if err != nil {
		return 0, 0, fmt.Errorf("count feedback: %w", err)
	}
	return good, bad, nil
}

// shownRecord says which turn a message of the bot shows.
type shownRecord struct {
	Shown store.ShownTurn `json:"shown"`
	At    time.Time       `json:"at"`
}

// shownKey begins with the platform and the message's id, since the full address is not
// known when a reaction arrives. Ids are unique on some platforms, within a channel on
// others.
func shownKey(platform, id, address string) []byte {
	return []byte(platform + nul + id + nul + address)
}

// saveShownTurns records which turn the messages of a post show.
func saveShownTurns(tx *tx, p store.Post, o store.Outcome) error {
	if p.Turn == "" {
		return nil
	}
	for _, id := range o.Ref.IDs {
		r := shownRecord{store.ShownTurn{To: p.To, Turn: p.Turn}, o.At}
		if err := tx.top(shownTurnsBucket).put(shownKey(p.To.Platform, id, p.To.String()), r); err != nil {
			return err
		}
	}
	return nil
}

// ShownTurn returns the turn that a message of the bot shows, by the message's id and the
// channel or thread that it is in. It returns false where none is known.
func (db *DB) ShownTurn(ctx context.Context, in chat.Address, id string) (store.ShownTurn, bool, error) {
	var r shownRecord
	found := false
	err := db.view(func(tx *tx) error {
		prefix := shownKey(in.Platform, id, "")
		c := tx.top(shownTurnsBucket).cursor()
		for k, v := c.seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && !found; k, v = c.next() {
			if err := db.decode(k, v, &r); err != nil {
				return err
			}
			// On Discord a thread is a channel of its own, and reactions name only that.
			found = r.Shown.To.Channel == in.Channel || r.Shown.To.Thread == in.Channel
		}
		return nil
	})
	if err != nil {
		return store.ShownTurn{}, false, fmt.Errorf("look for what message %s shows: %w", id, err)
	}
	if !found {
		return store.ShownTurn{}, false, nil
	}
	return r.Shown, true, nil
}
