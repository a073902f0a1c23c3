package kvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// A transaction sees its own changes, in every way of reading, and others see them when it has ended.
func testOverlay(t *testing.T, s suite) {
	s.put(grouped, "g", "a", "1", "b", "2", "c", "3")
	s.update(func(tx kv.Tx) error {
		value := []byte("new")
		if err := errors.Join(tx.Put(grouped, "g", "b", value), tx.Put(grouped, "g", "d", value),
			tx.Delete(grouped, "g", "a"), tx.Put(grouped, "h", "x", value)); err != nil {
			return err
		}
		copy(value, "xxx") // Put has kept no reference
		for key, want := range map[string]string{"a": "none", "b": "new", "c": "3", "d": "new"} {
			got, err := get(tx, grouped, "g", key)
			check(t, key, got, err, want)
		}
		found, err := scan(tx, grouped, kv.Range{Group: "g"})
		check(t, "scan", found, err, []string{"b=new", "c=3", "d=new"})
		n, err := tx.Count(grouped, "g")
		check(t, "count", n, err, 3)
		found, err = groups(tx, grouped, "", "")
		check(t, "groups", found, err, []string{"g", "h"})
		// Changes after a scan are seen as well.
		if err := errors.Join(tx.Put(grouped, "g", "a", []byte("again")), tx.Delete(grouped, "g", "d")); err != nil {
			return err
		}
		got, err := get(tx, grouped, "g", "d")
		check(t, "deleted after a scan", got, err, "none")
		found, err = scan(tx, grouped, kv.Range{Group: "g", Reverse: true})
		check(t, "second scan", found, err, []string{"c=3", "b=new", "a=again"})
		return nil
	})
	s.checkAll(grouped, "g", "a=again", "b=new", "c=3")
	s.checkAll(grouped, "h", "x=new")
}

// With an error nothing is changed, also if some of it was read back.
func testRollback(t *testing.T, s suite) {
	s.put(grouped, "g", "a", "1")
	failed := errors.New("failed")
	for _, reads := range []bool{false, true} {
		err := s.db.Update(t.Context(), kv.Write{Scopes: []string{"x"}}, func(tx kv.Tx) error {
			err := errors.Join(tx.Put(grouped, "g", "a", []byte("2")), tx.Put(grouped, "g", "b", []byte("2")),
				tx.DeleteGroup(grouped, "h"), tx.Raise(grouped, "g", 7))
			if reads {
				_, scanErr := scan(tx, grouped, kv.Range{Group: "g"})
				_, nextErr := tx.Next(grouped, "g")
				err = errors.Join(err, scanErr, nextErr)
			}
			return errors.Join(err, failed)
		})
		if !errors.Is(err, failed) || strings.Contains(err.Error(), "\n") {
			t.Errorf("the transaction returned %v", err)
		}
		s.checkAll(grouped, "g", "a=1")
		s.view(func(tx kv.Tx) error {
			n, err := tx.Number(grouped, "g")
			check(t, "number", n, err, 0)
			return nil
		})
	}
	s.put(grouped, "g", "c", "3") // and the store goes on
	s.checkAll(grouped, "g", "a=1", "c=3")
}

func testReadOnly(t *testing.T, s suite) {
	s.put(plain, "", "a", "1")
	s.put(grouped, "g", "a", "1")
	for name, write := range map[string]func(tx kv.Tx) error{
		"Put":         func(tx kv.Tx) error { return tx.Put(plain, "", "a", []byte("2")) },
		"Delete":      func(tx kv.Tx) error { return tx.Delete(plain, "", "a") },
		"DeleteGroup": func(tx kv.Tx) error { return tx.DeleteGroup(grouped, "g") },
		"Next":        func(tx kv.Tx) error { _, err := tx.Next(grouped, "g"); return err },
		"Raise":       func(tx kv.Tx) error { return tx.Raise(grouped, "g", 2) },
	} {
		if err := s.db.View(t.Context(), write); err == nil {
			t.Errorf("%s succeeds in a read transaction", name)
		}
	}
	s.checkAll(plain, "", "a=1")
}

// Writers that read before they write lose no change, whether they share a commit, a process or neither: each
// transaction has a scope of its own and one in common with the others.
func testScopes(t *testing.T, s suite) {
	const writers, each = 64, 3
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range each {
				scopes := []string{fmt.Sprint("own/", w), "sum", "sum"}
				err := s.db.Update(context.WithoutCancel(t.Context()), kv.Write{Scopes: scopes}, func(tx kv.Tx) error {
					v, err := tx.Get(plain, "", "sum")
					if err != nil {
						return err
					}
					n, _ := strconv.Atoi(string(v)) // 0 if there is none
					return tx.Put(plain, "", "sum", []byte(strconv.Itoa(n+1)))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.checkAll(plain, "", fmt.Sprint("sum=", writers*each))
}

// What can be no key is refused, and changes nothing.
func testUnusable(t *testing.T, s suite) {
	long := strings.Repeat("k", kv.MaxKey+1)
	for name, put := range map[string]func(tx kv.Tx) error{
		"an empty key": func(tx kv.Tx) error { return tx.Put(plain, "", "", []byte("1")) },
		"a long key":   func(tx kv.Tx) error { return tx.Put(plain, "", long, []byte("1")) },
		"a long group": func(tx kv.Tx) error { return tx.Put(grouped, long, "a", []byte("1")) },
	} {
		if err := s.db.Update(t.Context(), kv.Write{}, put); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	s.checkAll(plain, "")
}

func testDamaged(t *testing.T, s suite) {
	s.view(func(tx kv.Tx) error {
		err := tx.Damaged(grouped, "g", "a", errors.New("no JSON"))
		if damaged := (*store.DamagedError)(nil); !errors.As(err, &damaged) || !strings.Contains(err.Error(), "no JSON") {
			t.Errorf("a damaged record is %v", err)
		}
		if !s.db.NoteDamage(fmt.Errorf("read: %w", err)) || s.db.NoteDamage(errors.New("another error")) {
			t.Error("damage is not recognized")
		}
		return nil
	})
}
