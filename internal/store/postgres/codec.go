package postgres

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ravenbot/internal/store"
)

// recordVersion is the version of the records that this version of ravenbot writes.
const recordVersion = 1

// encode returns a record as JSON. Bytes that are no UTF-8, which only JSON made elsewhere can have, are
// replaced as every reader of JSON replaces them: the server refuses them.
func encode(record any) (string, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false) // raw parts of a provider must come back byte by byte
	if err := enc.Encode(record); err != nil {
		return "", err
	}
	return strings.ToValidUTF8(strings.TrimSuffix(body.String(), "\n"), "\uFFFD"), nil
}

// decode reads a record of a table. It returns a *store.NewerError for one that a later version has written, and a
// *store.DamagedError for one that is no JSON of its kind.
func (db *DB) decode(table string, v int16, body []byte, record any) error {
	if v > recordVersion {
		return &store.NewerError{Path: db.name, Format: int(v), Known: recordVersion}
	}
	if err := json.Unmarshal(body, record); err != nil {
		return &store.DamagedError{
			Path:   db.name,
			What:   fmt.Sprintf("a record of the table %s cannot be read: %v", table, err),
			Remedy: "restore a backup of the database",
		}
	}
	return nil
}

// quoted stands before a key that the server cannot hold as it is.
const quoted = "\x01"

// keyText returns a key in a form that the server can hold: a key with a NUL or with bytes that are no
// UTF-8 is quoted. Two keys never have the same form.
func keyText(key string) string {
	if utf8.ValidString(key) && !strings.Contains(key, "\x00") && !strings.HasPrefix(key, quoted) {
		return key
	}
	return quoted + strconv.QuoteToASCII(key)
}

// parseKey returns the key of which keyText returned the form.
func parseKey(form string) string {
	if text, ok := strings.CutPrefix(form, quoted); ok {
		if key, err := strconv.Unquote(text); err == nil {
			return key
		}
	}
	return form
}

// keyTexts returns the forms of keys.
func keyTexts(keys []string) []string {
	forms := make([]string, len(keys))
	for i, k := range keys {
		forms[i] = keyText(k)
	}
	return forms
}

// maxForeignKey bounds the bytes of a key that feeds choose. An entry of an index of PostgreSQL holds
// 2,704 bytes.
const maxForeignKey = 1000

// foreignKey is keyText for a key of any length: the end of a long one is replaced by its hash.
func foreignKey(key string) string {
	form := keyText(key)
	if len(form) <= maxForeignKey {
		return form
	}
	sum := sha256.Sum256([]byte(key))
	return strings.ToValidUTF8(form[:maxForeignKey-len(sum)*2], "") + hex.EncodeToString(sum[:])
}

// timeKey returns a time as text that sorts by time, to the nanosecond; the server keeps microseconds.
func timeKey(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// hashOf returns a number that changes with the text.
func hashOf(body string) int64 {
	sum := sha256.Sum256([]byte(body))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// A cursor of a list is the key that was returned last, written for addresses on the web. The parts of a
// key are kept apart by a NUL.
func writeCursor(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\x00")))
}

// readCursor returns the n parts of a cursor; all are empty where it stands before the first. It returns a
// store.CursorError for what no list has given.
func readCursor(cursor string, n int) ([]string, error) {
	if cursor == "" {
		return make([]string, n), nil
	}
	key, err := base64.RawURLEncoding.DecodeString(cursor)
	parts := strings.Split(string(key), "\x00")
	if err != nil || len(parts) != n || !utf8.Valid(key) {
		return nil, store.CursorError{Cursor: cursor}
	}
	return parts, nil
}
