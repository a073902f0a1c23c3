// Package kvtest is the test suite of the engines of package kv.
package kvtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"ravenbot/internal/store/kv"
)

// owned is a record of the collections with a time or an owner.
type owned struct {
	At    time.Time `json:"at"`
	Owner string    `json:"owner"`
}

// The collections of the suite.
var (
	plain   = &kv.Spec{Name: "kvtest_plain"}
	grouped = &kv.Spec{Name: "kvtest_grouped", Grouped: true}
	timed   = &kv.Spec{Name: "kvtest_timed", At: func(value []byte) (time.Time, error) {
		var r owned
		err := json.Unmarshal(value, &r)
		return r.At, err
	}}
	claimed = &kv.Spec{Name: "kvtest_claimed", Grouped: true, Owner: func(value []byte) (string, error) {
		var r owned
		err := json.Unmarshal(value, &r)
		return r.Owner, err
	}}
)

// Specs returns the collections of the suite, with which an engine is opened for it.
func Specs() []*kv.Spec { return []*kv.Spec{plain, grouped, timed, claimed} }

// Run checks that an engine keeps the contract. open returns an empty store with Specs, which is closed when its test
// ends.
func Run(t *testing.T, open func(t *testing.T) kv.DB) {
	for name, test := range map[string]func(t *testing.T, db suite){
		"Records":                  testRecords,
		"OddKeys":                  testOddKeys,
		"LargeValues":              testLargeValues,
		"TransactionSeesItself":    testOverlay,
		"Scan":                     testScan,
		"ScanOfManyPages":          testPages,
		"ScanBefore":               testBefore,
		"ScanMine":                 testMine,
		"Groups":                   testGroups,
		"DeleteGroup":              testDeleteGroup,
		"Numbers":                  testNumbers,
		"NumbersOfManyAtOnce":      testNumbersAtOnce,
		"Prefetch":                 testPrefetch,
		"ErrorChangesNothing":      testRollback,
		"ReadTransactionIsNoWrite": testReadOnly,
		"ScopesKeepApart":          testScopes,
		"ContextHasEnded":          testContext,
		"UnusableKeys":             testUnusable,
		"Damaged":                  testDamaged,
	} {
		t.Run(name, func(t *testing.T) { test(t, suite{t, open(t)}) })
	}
}

// suite is a store under test.
type suite struct {
	t  *testing.T
	db kv.DB
}

// update runs a write transaction that must succeed.
func (s suite) update(fn func(tx kv.Tx) error, scopes ...string) {
	s.t.Helper()
	if err := s.db.Update(s.t.Context(), kv.Write{Scopes: scopes}, fn); err != nil {
		s.t.Fatal(err)
	}
}

// view runs a read transaction that must succeed.
func (s suite) view(fn func(tx kv.Tx) error) {
	s.t.Helper()
	if err := s.db.View(s.t.Context(), fn); err != nil {
		s.t.Fatal(err)
	}
}

// put stores records, given as keys and values in turn.
func (s suite) put(spec *kv.Spec, group string, pairs ...string) {
	s.t.Helper()
	s.update(func(tx kv.Tx) error {
		for i := 0; i < len(pairs); i += 2 {
			if err := tx.Put(spec, group, pairs[i], []byte(pairs[i+1])); err != nil {
				return err
			}
		}
		return nil
	})
}

// get returns a value, and "none" if there is no record.
func get(tx kv.Tx, spec *kv.Spec, group, key string) (string, error) {
	v, err := tx.Get(spec, group, key)
	if v == nil {
		return "none", err
	}
	return string(v), err
}

// scan returns the keys and values of a range.
func scan(tx kv.Tx, spec *kv.Spec, r kv.Range) (found []string, err error) {
	err = tx.Scan(spec, r, func(e kv.Entry) error {
		found = append(found, e.Key+"="+string(e.Value))
		return e.Err
	})
	return found, err
}

// groups returns the names of groups.
func groups(tx kv.Tx, spec *kv.Spec, from, prefix string) (found []string, err error) {
	err = tx.Groups(spec, from, prefix, func(group string) error {
		found = append(found, group)
		return nil
	})
	return found, err
}

// check compares the result of a read with what is expected.
func check[T any](t *testing.T, what string, got T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %.2000q, want %.2000q", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// checkAll compares what is in a group with what is expected.
func (s suite) checkAll(spec *kv.Spec, group string, want ...string) {
	s.t.Helper()
	s.view(func(tx kv.Tx) error {
		found, err := scan(tx, spec, kv.Range{Group: group})
		n, countErr := tx.Count(spec, group)
		check(s.t, "group "+group, found, err, want)
		check(s.t, "count of group "+group, n, countErr, len(want))
		return nil
	})
}

func testRecords(t *testing.T, s suite) {
	s.put(plain, "", "b", "1", "a", "", "c", "3")
	s.put(grouped, "g", "b", "of g")
	s.put(grouped, "h", "b", "of h")
	s.checkAll(plain, "", "a=", "b=1", "c=3")
	s.checkAll(grouped, "g", "b=of g")
	s.put(plain, "", "b", "2")
	s.update(func(tx kv.Tx) error {
		return errors.Join(tx.Delete(plain, "", "c"), tx.Delete(plain, "", "none"), tx.Delete(grouped, "g", "b"))
	})
	s.checkAll(plain, "", "a=", "b=2")
	s.checkAll(grouped, "g")
	s.checkAll(grouped, "h", "b=of h")
	s.view(func(tx kv.Tx) error {
		for key, want := range map[string]string{"a": "", "b": "2", "c": "none", "none": "none"} {
			got, err := get(tx, plain, "", key)
			check(t, key, got, err, want)
		}
		return nil
	})
}

func testOddKeys(t *testing.T, s suite) {
	keys := []string{"\x00", "\x00\x00", "\x00a", "\x01\"a\"", " ", "%", "'", "\\", "\\x00", "a", "a\x00", "a\x00b",
		"a\xff", "a b", "é", "\x7f", "\xc3", "\xff", "\xff\xff", "{}", string(make([]byte, kv.MaxKey))}
	for _, key := range keys {
		s.put(plain, "", key, "value of "+key)
		s.put(grouped, key, key, "group "+key)
	}
	s.view(func(tx kv.Tx) error {
		for _, key := range keys {
			got, err := get(tx, plain, "", key)
			check(t, fmt.Sprintf("%q", key), got, err, "value of "+key)
			got, err = get(tx, grouped, key, key)
			check(t, fmt.Sprintf("group %q", key), got, err, "group "+key)
		}
		found, err := groups(tx, grouped, "", "")
		check(t, "groups", found, err, sorted(keys))
		var inOrder []string
		err = tx.Scan(plain, kv.Range{}, func(e kv.Entry) error {
			inOrder = append(inOrder, e.Key)
			return nil
		})
		check(t, "keys", inOrder, err, sorted(keys))
		return nil
	})
}

func testLargeValues(t *testing.T, s suite) {
	value := make([]byte, 30<<20)
	for i := range value {
		value[i] = byte(i * i >> 3)
	}
	s.update(func(tx kv.Tx) error {
		if err := tx.Put(plain, "", "large", value); err != nil {
			return err
		}
		return tx.Put(plain, "", "small", []byte("1"))
	})
	s.view(func(tx kv.Tx) error {
		got, err := tx.Get(plain, "", "large")
		check(t, "large value", len(got), err, len(value))
		if string(got) != string(value) {
			t.Error("the value is another one")
		}
		found := 0
		err = tx.Scan(plain, kv.Range{}, func(e kv.Entry) error { found += len(e.Value); return nil })
		check(t, "scanned bytes", found, err, len(value)+1)
		return nil
	})
}

func testContext(t *testing.T, s suite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.db.Update(ctx, kv.Write{}, func(tx kv.Tx) error { return tx.Put(plain, "", "a", []byte("1")) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a write whose context has ended: %v", err)
	}
	s.checkAll(plain, "")
}
