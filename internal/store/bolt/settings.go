package bolt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// Settings returns every layer of settings, by scope.
func (db *DB) Settings(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := db.view(func(tx *tx) error {
		return tx.top(settingsBucket).each(func(k, v []byte) error {
			var layer json.RawMessage
			err := db.decode(k, v, &layer)
			all[string(k)] = bytes.Clone(layer)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return all, nil
}

// SaveSetting stores a layer of settings, which is JSON; nil deletes it.
func (db *DB) SaveSetting(ctx context.Context, scope string, layer []byte) error {
	err := db.update(ctx, func(tx *tx) error {
		if layer == nil {
			return tx.top(settingsBucket).delete([]byte(scope))
		}
		return tx.top(settingsBucket).put([]byte(scope), json.RawMessage(layer))
	})
	if err != nil {
		return fmt.Errorf("store settings of %s: %w", scope, err)
	}
	return nil
}
