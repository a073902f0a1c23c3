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

// SwapSetting replaces a layer of settings, which is JSON, by another; nil stands for no layer. It returns false and
// changes nothing where the layer is another than was, byte by byte.
func (db *DB) SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error) {
	var swapped bool
	err := db.update(ctx, func(tx *tx) error {
		b := tx.top(settingsBucket)
		var kept json.RawMessage
		if _, err := b.get([]byte(scope), &kept); err != nil {
			return err
		}
		swapped = bytes.Equal(kept, was)
		switch {
		case !swapped:
			return nil
		case now == nil:
			return b.delete([]byte(scope))
		default:
			return b.put([]byte(scope), json.RawMessage(now))
		}
	})
	if err != nil {
		return false, fmt.Errorf("store settings of %s: %w", scope, err)
	}
	return swapped, nil
}
