package records

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

var (
	// items holds what features keep, in a group for each kind, by name.
	items = kv.Of[json.RawMessage](kv.Spec{Name: "items", Grouped: true, Watch: func(kind, _ string, _ bool) string {
		kind, _, _ = strings.Cut(kind, "/") // kinds that end with a name are announced as one
		return kind
	}})
	// blobs holds values of any size, by their keys.
	blobs = kv.Of[json.RawMessage](kv.Spec{Name: "tools", Watch: func(_, key string, _ bool) string {
		kind, _, _ := strings.Cut(key, "/")
		return store.BlobChanges + kind
	}})
	// settings holds the layers of settings, by scope.
	settings = kv.Of[json.RawMessage](kv.Spec{Name: "settings", Watch: func(string, string, bool) string {
		return store.SettingChanges
	}})
)

// itemScope is the scope of an item.
func itemScope(kind, name string) string { return "item/" + kv.Key(kind, name) }

// SaveItem stores what was made through the API or in chat, under its kind and name. It returns store.ErrExists if the
// name is taken and overwrite is false.
func (s *Store) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	err := s.update(ctx, func(tx kv.Tx) error {
		taken := false
		if !overwrite {
			var err error
			if taken, err = items.Has(tx, kind, name); err != nil {
				return err
			}
		}
		if taken {
			return store.ErrExists
		}
		return items.Put(tx, kind, name, item)
	}, itemScope(kind, name))
	return wrap(err, "store %s %q", kind, name)
}

// Item returns one item of a kind. It returns store.ErrNotFound if there is none.
func (s *Store) Item(ctx context.Context, kind, name string) (json.RawMessage, error) {
	item, err := mustFind(ctx, s, items, kind, name)
	return item, wrap(err, "load %s %q", kind, name)
}

// Items returns all items of a kind, by name.
func (s *Store) Items(ctx context.Context, kind string) (map[string]json.RawMessage, error) {
	found, err := listByKey(ctx, s, items, kind)
	return found, wrap(err, "list %s", kind)
}

// listByKey returns the records of a group by their keys.
func listByKey[T any](ctx context.Context, s *Store, c kv.Collection[T], group string) (map[string]T, error) {
	return read(ctx, s, func(tx kv.Tx) (map[string]T, error) {
		found := map[string]T{}
		return found, c.Scan(tx, kv.Range{Group: group}, func(key string, record T) error {
			found[key] = record
			return nil
		})
	})
}

// DeleteItem removes an item. It returns store.ErrNotFound if there is none.
func (s *Store) DeleteItem(ctx context.Context, kind, name string) error {
	return wrap(remove(ctx, s, items, kind, name, itemScope(kind, name)), "remove %s %q", kind, name)
}

// SwapItem replaces an item by another, or by none, and stores posts in the same transaction. It returns false and changes
// nothing if the item is another than was.
func (s *Store) SwapItem(
	ctx context.Context,
	kind, name string,
	was, now json.RawMessage,
	posts []store.Post,
) (swapped bool, err error) {
	err = s.update(ctx, func(tx kv.Tx) error {
		refs := kv.Ref{Spec: items.Spec, Group: kind, Key: name}
		if err := prefetchPosts(tx, posts, refs); err != nil {
			return err
		}
		var err error
		if swapped, err = swap(tx, items, kind, name, was, now); err != nil || !swapped {
			return err
		}
		return addPosts(tx, posts)
	}, postScopes([]string{itemScope(kind, name)}, posts)...)
	return swapped && err == nil, wrap(err, "replace %s %q", kind, name)
}

// swap replaces a record by another, or by none. It returns false and changes nothing if the record is another than was,
// byte by byte: the caller got was from here.
func swap(tx kv.Tx, c kv.Collection[json.RawMessage], group, key string, was, now []byte) (bool, error) {
	kept, _, err := c.Get(tx, group, key)
	if err != nil || !bytes.Equal(kept, was) {
		return false, err
	}
	switch {
	case now != nil:
		err = c.Put(tx, group, key, now)
	case was != nil:
		err = c.Delete(tx, group, key)
	}
	return true, err
}

// LoadBlob returns what was last saved under a key, or nil.
func (s *Store) LoadBlob(ctx context.Context, key string) ([]byte, error) {
	data, _, err := lookUp(ctx, s, blobs, "", key)
	return data, wrap(err, "load %s", key)
}

// SaveBlob keeps JSON under a key.
func (s *Store) SaveBlob(ctx context.Context, key string, data []byte) error {
	return wrap(put(ctx, s, blobs, "", key, json.RawMessage(data)), "store %s", key)
}

// Settings returns every layer of settings, by scope.
func (s *Store) Settings(ctx context.Context) (map[string][]byte, error) {
	found, err := listByKey(ctx, s, settings, "")
	all := map[string][]byte{}
	for scope, layer := range found {
		all[scope] = layer
	}
	return all, wrap(err, "read settings")
}

// SwapSetting replaces a layer of settings, which is JSON, by another; nil stands for no layer. It returns false and
// changes nothing if the layer is another than was, byte by byte.
func (s *Store) SwapSetting(ctx context.Context, scope string, was, now []byte) (swapped bool, err error) {
	err = s.update(ctx, func(tx kv.Tx) (err error) {
		swapped, err = swap(tx, settings, "", scope, was, now)
		return err
	}, "setting/"+scope)
	return swapped && err == nil, wrap(err, "store settings of %s", cmp.Or(scope, "the instance"))
}
