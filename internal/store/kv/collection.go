package kv

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Collection is a collection whose records are JSON of type T. Get, Scan and Each return a *store.DamagedError for
// invalid JSON.
type Collection[T any] struct{ *Spec }

// Of returns the collection of s for records of type T.
func Of[T any](s Spec) Collection[T] { return Collection[T]{&s} }

// Get returns a record, and false if there is none.
func (c Collection[T]) Get(tx Tx, group, key string) (record T, found bool, err error) {
	v, err := tx.Get(c.Spec, group, key)
	if err != nil || v == nil {
		return record, false, err
	}
	if err := json.Unmarshal(v, &record); err != nil {
		return record, true, tx.Damaged(c.Spec, group, key, err)
	}
	return record, true, nil
}

// Has reports whether there is a record.
func (c Collection[T]) Has(tx Tx, group, key string) (bool, error) {
	v, err := tx.Get(c.Spec, group, key)
	return v != nil, err
}

// Put stores a record, and replaces a record with the same key.
func (c Collection[T]) Put(tx Tx, group, key string, record T) error {
	v, err := Encode(record)
	if err != nil {
		return fmt.Errorf("encode a record of %s: %w", c.Name, err)
	}
	return tx.Put(c.Spec, group, key, v)
}

// Delete deletes a record, which may be missing.
func (c Collection[T]) Delete(tx Tx, group, key string) error { return tx.Delete(c.Spec, group, key) }

// Scan calls visit with the records of a range, as Tx.Scan does, and stops at the first unreadable record.
func (c Collection[T]) Scan(tx Tx, r Range, visit func(key string, record T) error) error {
	return tx.Scan(c.Spec, r, func(e Entry) error {
		record, err := c.Decode(tx, r.Group, e)
		if err != nil {
			return err
		}
		return visit(e.Key, record)
	})
}

// List returns the records of a range.
func (c Collection[T]) List(tx Tx, r Range) (list []T, err error) {
	err = c.Scan(tx, r, func(_ string, record T) error {
		list = append(list, record)
		return nil
	})
	return list, err
}

// Decode returns the record of an entry.
func (c Collection[T]) Decode(tx Tx, group string, e Entry) (record T, err error) {
	if err = e.Err; err == nil {
		err = json.Unmarshal(e.Value, &record)
		if err != nil {
			err = tx.Damaged(c.Spec, group, e.Key, err)
		}
	}
	return record, err
}

// Encode returns the JSON of a record. Raw JSON in it, such as the parts of a provider, is preserved byte by byte.
func Encode(record any) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(record); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(body.Bytes(), []byte("\n")), nil
}

// nul separates the parts of a key.
const nul = "\x00"

// Key returns a key of several parts, which must not contain a NUL.
func Key(parts ...string) string { return strings.Join(parts, nul) }

// NumberKey returns a key of 8 bytes that sorts by number.
func NumberKey(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// ParseNumber returns the number of a NumberKey, and 0 for any other key.
func ParseNumber(key string) uint64 {
	if len(key) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(key))
}

// TimeKey returns a key of 30 bytes that sorts by time, to the nanosecond.
func TimeKey(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }
