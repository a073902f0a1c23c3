package bolt

import (
	"context"
	"fmt"

	"ravenbot/internal/chat"
)

// SaveStream keeps where an answer has begun to be shown, by the key of its post to
// come, until that has an outcome.
func (db *DB) SaveStream(ctx context.Context, key string, ref chat.Ref) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(streamsBucket).put([]byte(key), doneRecord{Done: db.now(), Ref: ref})
	})
	if err != nil {
		return fmt.Errorf("store the place of begun answer %s: %w", key, err)
	}
	return nil
}

// Stream gives where an answer has begun to be shown; false says that it has not.
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
