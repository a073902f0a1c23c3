package bolt

import (
	"context"
	"fmt"

	"ravenbot/internal/chat"
)

// SaveStream stores where an answer has begun to be shown, under the key of its future
// post, until that post has an outcome.
func (db *DB) SaveStream(ctx context.Context, key string, ref chat.Ref) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(streamsBucket).put([]byte(key), doneRecord{Done: db.now(), Ref: ref})
	})
	if err != nil {
		return fmt.Errorf("store the place of begun answer %s: %w", key, err)
	}
	return nil
}

// Stream returns where an answer has begun to be shown. It returns false where it has not.
func (db *DB) Stream(ctx context.Context, key string) (chat.Ref, bool, error) {
	var r doneRecord
	var found bool
	err := db.view(func(tx *tx) (err error) {
		found, err = tx.top(streamsBucket).get([]byte(key), &r)
		return err
	})
	if err != nil {
		return chat.Ref{}, false, fmt.Errorf("look for begun answer %s: %w", key, err)
	}
	return r.Ref, found, nil
}
