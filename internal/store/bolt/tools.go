package bolt

import (
	"context"
	"encoding/json"
	"fmt"
)

// LoadTools gives the list of tools that was last saved under a key, or nil.
func (db *DB) LoadTools(ctx context.Context, key string) ([]byte, error) {
	var list json.RawMessage
	err := db.view(func(tx *tx) error {
		_, err := tx.top(toolsBucket).get([]byte(key), &list)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("load the tools of %s: %w", key, err)
	}
	return list, nil
}

// SaveTools keeps a list of tools, which is JSON.
func (db *DB) SaveTools(ctx context.Context, key string, list []byte) error {
	err := db.update(ctx, func(tx *tx) error {
		return tx.top(toolsBucket).put([]byte(key), json.RawMessage(list))
	})
	if err != nil {
		return fmt.Errorf("store the tools of %s: %w", key, err)
	}
	return nil
}
