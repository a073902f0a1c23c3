package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store"
)

// Settings returns every layer of settings, by scope.
func (db *DB) Settings(ctx context.Context) (map[string][]byte, error) {
	layers, err := db.readMap(ctx, "settings", `select v, record, scope from ravenbot.settings`)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	all := map[string][]byte{}
	for scope, layer := range layers {
		all[scope] = layer
	}
	return all, nil
}

// SwapSetting replaces a layer of settings, which is JSON, by another; nil stands for no layer. It returns false and
// changes nothing where the layer is another than was, byte by byte.
func (db *DB) SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error) {
	record, err := encode(json.RawMessage(now))
	if err != nil {
		return false, fmt.Errorf("store settings of %s: %w", scope, err)
	}
	var swapped bool
	err = db.write(ctx, func(t *tx) error {
		// Other transactions that want to change the layer wait from here on.
		var kept json.RawMessage
		if err := t.send(func(b *pgx.Batch) {
			b.Queue(`select v, record from ravenbot.settings where scope = $1 for update`, keyText(scope)).
				Query(eachRecord(t.db, "settings", func(layer json.RawMessage) { kept = layer }))
		}); err != nil {
			return err
		}
		if swapped = bytes.Equal(kept, was); !swapped {
			return errUnchanged
		}
		return t.send(func(b *pgx.Batch) {
			t.noteChange(b, store.SettingChanges)
			switch {
			case now == nil:
				b.Queue(`delete from ravenbot.settings where scope = $1`, keyText(scope))
			case was != nil:
				b.Queue(`update ravenbot.settings set v = $2, record = $3 where scope = $1`,
					keyText(scope), recordVersion, record)
			default:
				b.Queue(`insert into ravenbot.settings (scope, v, record) values ($1, $2, $3) on conflict do nothing`,
					keyText(scope), recordVersion, record).Exec(orConflict("settings of " + scope))
			}
		})
	})
	if err != nil {
		return false, fmt.Errorf("store settings of %s: %w", scope, err)
	}
	return swapped, nil
}

// LoadBlob returns the JSON that was last saved under a key, or nil.
func (db *DB) LoadBlob(ctx context.Context, key string) ([]byte, error) {
	data, _, err := readRecord[json.RawMessage](ctx, db, "blobs",
		`select v, record from ravenbot.blobs where key = $1`, keyText(key))
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", key, err)
	}
	return data, nil
}

// SaveBlob keeps JSON under a key.
func (db *DB) SaveBlob(ctx context.Context, key string, data []byte) error {
	record, err := encode(json.RawMessage(data))
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				b.Queue(`insert into ravenbot.blobs (key, v, record) values ($1, $2, $3)
					on conflict (key) do update set v = excluded.v, record = excluded.record`,
					keyText(key), recordVersion, record)
				t.noteChange(b, blobKind(key))
			})
		})
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}
