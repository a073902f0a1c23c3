package seal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"ravenbot/internal/store"
)

// Store is a store that keeps the items of some kinds encrypted.
type Store struct {
	store.Store
	Box   *Box
	Kinds []string
	Log   *slog.Logger
}

// sealedItem is how an encrypted item is stored.
type sealedItem struct {
	Sealed []byte `json:"sealed"`
}

// keyCheckKey is where releases before December 2026 kept what only the right key decrypts; keyCheckKind and
// keyCheckName are the item in which CheckKey keeps it.
const (
	keyCheckKey  = "seal/key-check"
	keyCheckKind = "seal"
	keyCheckName = "key-check"
)

// CheckKey returns an error where the store was first opened with another key than the box has: several processes that
// share a store need the same.
func CheckKey(ctx context.Context, s store.Store, box *Box) error {
	raw, err := s.LoadBlob(ctx, keyCheckKey)
	if err == nil && raw == nil {
		raw, err = firstKeyCheck(ctx, s, box)
	}
	if err != nil {
		return err
	}
	return compareKey(raw, box)
}

// CompareKey is CheckKey that changes nothing: any key is right for a store without one.
func CompareKey(ctx context.Context, s store.Store, box *Box) error {
	raw, err := s.LoadBlob(ctx, keyCheckKey)
	if err == nil && raw == nil {
		raw, err = s.Item(ctx, keyCheckKind, keyCheckName)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return compareKey(raw, box)
}

// compareKey returns an error where something was sealed with another key.
func compareKey(raw json.RawMessage, box *Box) error {
	var kept sealedItem
	err := json.Unmarshal(raw, &kept)
	if err == nil {
		_, err = box.Open(keyCheckKey, kept.Sealed)
	}
	if err != nil {
		return fmt.Errorf("this store was made with another key for secrets: set storeKey "+
			"(RAVENBOT_STORE_KEY) to the same value for all replicas, or copy the .key file of the first one: %w", err)
	}
	return nil
}

// firstKeyCheck returns what was sealed with the key of whoever opened the store first, which may be box.
func firstKeyCheck(ctx context.Context, s store.Store, box *Box) (json.RawMessage, error) {
	raw, err := s.Item(ctx, keyCheckKind, keyCheckName)
	if !errors.Is(err, store.ErrNotFound) {
		return raw, err
	}
	if raw, err = json.Marshal(sealedItem{box.Seal(keyCheckKey, []byte("ravenbot"))}); err != nil {
		return nil, err
	}
	// An item that is not overwritten: of several processes that open a new store at the same moment one is the first.
	err = s.SaveItem(ctx, keyCheckKind, keyCheckName, raw, false)
	if errors.Is(err, store.ErrExists) {
		return s.Item(ctx, keyCheckKind, keyCheckName)
	}
	return raw, err
}

// recordName returns what an item is sealed under, so that none can take the place of another.
func recordName(kind, name string) string { return kind + "/" + name }

// SaveItem encrypts an item of one of Kinds and stores it.
func (s Store) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	if slices.Contains(s.Kinds, kind) {
		raw, err := json.Marshal(sealedItem{s.Box.Seal(recordName(kind, name), item)})
		if err != nil {
			return fmt.Errorf("encrypt %s %q: %w", kind, name, err)
		}
		item = raw
	}
	return s.Store.SaveItem(ctx, kind, name, item, overwrite)
}

// Items returns all items of a kind in clear, by name. One that cannot be decrypted is logged and left out; one that
// an earlier release stored in clear is encrypted now.
func (s Store) Items(ctx context.Context, kind string) (map[string]json.RawMessage, error) {
	items, err := s.Store.Items(ctx, kind)
	if err != nil || !slices.Contains(s.Kinds, kind) {
		return items, err
	}
	for name, raw := range items {
		plain, isSealed, err := s.open(kind, name, raw)
		switch {
		case !isSealed:
			if err := s.SaveItem(ctx, kind, name, raw, true); err != nil {
				return nil, err
			}
		case err != nil:
			s.Log.Error("failed to decrypt a stored item", "kind", kind, "name", name, "error", err,
				"remedy", "restore the key file next to the store, or add it again")
			delete(items, name)
		default:
			items[name] = plain
		}
	}
	return items, nil
}

// Item returns an item in clear. It returns store.ErrNotFound for one that is not there, or cannot be decrypted.
func (s Store) Item(ctx context.Context, kind, name string) (json.RawMessage, error) {
	raw, err := s.Store.Item(ctx, kind, name)
	if err != nil || !slices.Contains(s.Kinds, kind) {
		return raw, err
	}
	if raw, _, err = s.open(kind, name, raw); err != nil {
		return nil, store.ErrNotFound
	}
	return raw, nil
}

// open returns what an item holds in clear. isSealed is false for one that an earlier release stored in clear.
func (s Store) open(kind, name string, raw json.RawMessage) (plain []byte, isSealed bool, err error) {
	var kept sealedItem
	if json.Unmarshal(raw, &kept) != nil || len(kept.Sealed) == 0 {
		return raw, false, nil
	}
	plain, err = s.Box.Open(recordName(kind, name), kept.Sealed)
	return plain, true, err
}

// Unreadable returns the names of the items of a kind that Items leaves out, sorted.
func (s Store) Unreadable(ctx context.Context, kind string) (names []string, err error) {
	items, err := s.Store.Items(ctx, kind)
	if err != nil || !slices.Contains(s.Kinds, kind) {
		return nil, err
	}
	for name, raw := range items {
		if _, _, err := s.open(kind, name, raw); err != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
