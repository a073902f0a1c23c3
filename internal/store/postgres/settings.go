package postgres

import (
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

// SaveSetting stores a layer of settings, which is JSON; nil deletes it.
func (db *DB) SaveSetting(ctx context.Context, scope string, layer []byte) error {
	record, err := encode(json.RawMessage(layer))
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				if t.noteChange(b, store.SettingChanges); layer == nil {
					b.Queue(`delete from ravenbot.settings where scope = $1`, keyText(scope))
					return
				}
				b.Queue(`insert into ravenbot.settings (scope, v, record) values ($1, $2, $3)
					on conflict (scope) do update set v = excluded.v, record = excluded.record`,
					keyText(scope), recordVersion, record)
			})
		})
	}
	if err != nil {
		return fmt.Errorf("store settings of %s: %w", scope, err)
	}
	return nil
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
