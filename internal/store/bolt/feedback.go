package bolt

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

func feedbackKey(turn, user string) []byte { return []byte(turn + nul + user) }

// SaveFeedback keeps what somebody thinks of an answer, in the place of what they
// thought of it before.
func (db *DB) SaveFeedback(ctx context.Context, f store.Feedback) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(feedbackBucket).put(feedbackKey(f.Turn, f.User), f)
	})
	if err != nil {
		return fmt.Errorf("store feedback on %s: %w", f.Turn, err)
	}
	return nil
}

// SaveReaction keeps what somebody thinks of an answer after a reaction of theirs.
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

// usersWithFeedback are those who said something of a turn.
func (tx *tx) usersWithFeedback(turn string) []string {
	var users []string
	prefix := feedbackKey(turn, "")
	c := tx.top(feedbackBucket).cursor()
	for k, _ := c.seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.next() {
		users = append(users, string(k[len(prefix):]))
	}
	return users
}

// Feedback lists all that stands, by turn.
func (db *DB) Feedback(ctx context.Context) ([]store.Feedback, error) {
	var list []store.Feedback
	err := db.view(func(tx *tx) error {
		return tx.top(feedbackBucket).each(func(k, v []byte) error {
			var f store.Feedback
			err := db.decode(k, v, &f)
			if !f.Withdrawn {
				list = append(list, f)
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list feedback: %w", err)
	}
	return list, nil
}

// shownRecord is what a message of the bot shows.
type shownRecord struct {
	Shown store.ShownTurn `json:"shown"`
	At    time.Time       `json:"at"`
}

// shownKey begins with what is known of a message before its address is: on one
// platform ids are unique, on another in a channel alone.
func shownKey(platform, id, address string) []byte {
	return []byte(platform + nul + id + nul + address)
}

// saveShownTurns notes which turn the messages of a post show.
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

// ShownTurn gives the turn that a message of the bot shows, by its id and the channel, or
// the thread, that it is in; false: none is known of.
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
