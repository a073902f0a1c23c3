package bolt

import (
	"encoding/base64"

	"ravenbot/internal/store"
)

// A cursor of a list is the last key that was returned, written for addresses on the web.

// writeCursor returns the cursor of a list: the last key that was returned, written for addresses
// on the web.
func writeCursor(key []byte) string { return base64.RawURLEncoding.EncodeToString(key) }

// readCursor returns the key of a cursor; nil: it stands before the first. It returns a
// store.CursorError for what no list has given.
func readCursor(cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	key, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, store.CursorError{Cursor: cursor}
	}
	return key, nil
}
