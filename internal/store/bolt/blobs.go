package bolt

import (
	"context"
	"encoding/json"
	"fmt"
)

// LoadBlob returns what was last saved under a key, or nil.
func (db *DB) LoadBlob(ctx context.Context, key string) ([]byte, error) {
	var data json.RawMessage
	err := db.view(func(tx *tx) error {
		_, err := tx.top(blobsBucket).get([]byte(key), &data)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", key, err)
	}
	return data, nil
}

// SaveBlob keeps JSON under a key.
func (db *DB) SaveBlob(ctx context.Context, key string, data []byte) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(blobsBucket).put([]byte(key), json.RawMessage(data))
	})
	if err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}
