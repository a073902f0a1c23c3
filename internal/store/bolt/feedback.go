package bolt

import (
	"context"
	"fmt"

	"ravenbot/internal/store"
)

// SaveFeedback keeps what somebody thinks of an answer, in the place of what they
// thought of it before.
func (db *DB) SaveFeedback(ctx context.Context, f store.Feedback) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(feedbackBucket).put([]byte(f.Turn+nul+f.User), f)
	})
	if err != nil {
		return fmt.Errorf("store feedback on %s: %w", f.Turn, err)
	}
	return nil
}

// Feedback lists all that is kept, by turn.
func (db *DB) Feedback(ctx context.Context) ([]store.Feedback, error) {
	var list []store.Feedback
	err := db.view(func(tx *tx) error {
		return tx.top(feedbackBucket).each(func(k, v []byte) error {
			var f store.Feedback
			err := db.decode(k, v, &f)
			list = append(list, f)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("list feedback: %w", err)
	}
	return list, nil
}
