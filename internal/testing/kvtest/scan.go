package kvtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/store/kv"
)

func testScan(t *testing.T, s suite) {
	s.put(grouped, "g", "a", "1", "b", "2", "b\x00", "3", "c", "4", "d", "5")
	s.put(grouped, "g2", "b", "of another group")
	for name, c := range map[string]struct {
		r    kv.Range
		want string
	}{
		"all":              {kv.Range{}, "a=1 b=2 b\x00=3 c=4 d=5"},
		"from":             {kv.Range{From: "b"}, "b=2 b\x00=3 c=4 d=5"},
		"from between":     {kv.Range{From: "bb"}, "c=4 d=5"},
		"to":               {kv.Range{To: "c"}, "a=1 b=2 b\x00=3"},
		"to between":       {kv.Range{To: "cc"}, "a=1 b=2 b\x00=3 c=4"},
		"from and to":      {kv.Range{From: kv.After("b"), To: "d"}, "b\x00=3 c=4"},
		"nothing":          {kv.Range{From: "c", To: "b"}, ""},
		"reverse":          {kv.Range{Reverse: true}, "d=5 c=4 b\x00=3 b=2 a=1"},
		"reverse, bounded": {kv.Range{From: "b", To: "d", Reverse: true}, "c=4 b\x00=3 b=2"},
		"reverse to end":   {kv.Range{To: "zz", Reverse: true, Limit: 1}, "d=5"},
		"limit":            {kv.Range{Limit: 2}, "a=1 b=2"},
		"reverse, limit":   {kv.Range{To: "d", Reverse: true, Limit: 2}, "c=4 b\x00=3"},
		"large limit":      {kv.Range{Limit: 100}, "a=1 b=2 b\x00=3 c=4 d=5"},
		"keys":             {kv.Range{From: "c", KeysOnly: true}, "c= d="},
		"prefix":           {kv.Prefix("", "b"), "b=2 b\x00=3"},
	} {
		c.r.Group = "g"
		s.view(func(tx kv.Tx) error {
			found, err := scan(tx, grouped, c.r)
			check(t, name, strings.Join(found, " "), err, c.want)
			return nil
		})
	}
	s.checkAll(grouped, "none")
	s.view(func(tx kv.Tx) error {
		for _, end := range []error{kv.ErrStop, errors.New("enough")} {
			n := 0
			err := tx.Scan(grouped, kv.Range{Group: "g"}, func(kv.Entry) error {
				n++
				return end
			})
			if isStop := errors.Is(end, kv.ErrStop); n != 1 || isStop != (err == nil) || err != nil && !errors.Is(err, end) {
				t.Errorf("a scan that ends with %v visits %d records and returns %v", end, n, err)
			}
			// A visit may read.
			err = tx.Scan(grouped, kv.Range{Group: "g"}, func(e kv.Entry) error {
				v, err := tx.Get(grouped, "g", e.Key)
				if err == nil && string(v) != string(e.Value) {
					t.Errorf("%q is %q, and %q in the scan", e.Key, v, e.Value)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	testSums(t, s)
}

// sums returns the checksums of a group, by key.
func (s suite) sums(group string) map[string]uint64 {
	s.t.Helper()
	sums := map[string]uint64{}
	s.view(func(tx kv.Tx) error {
		clear(sums)
		return tx.Scan(grouped, kv.Range{Group: group, KeysOnly: true}, func(e kv.Entry) error {
			sums[e.Key] = e.Sum
			return e.Err
		})
	})
	return sums
}

// testSums checks that a checksum changes with its value alone.
func testSums(t *testing.T, s suite) {
	before := s.sums("g")
	s.put(grouped, "g", "a", "other", "b", "2")
	after := s.sums("g")
	for key, sum := range after {
		if hasChanged := sum != before[key]; hasChanged != (key == "a") {
			t.Errorf("the checksum of %q: %d, then %d", key, before[key], sum)
		}
	}
}

// However many records there are, each is visited once.
func testPages(t *testing.T, s suite) {
	const n = 2500
	var want []string
	s.update(func(tx kv.Tx) error {
		want = nil
		for i := range n {
			key := fmt.Sprintf("%05d", i)
			want = append(want, key+"="+key)
			if err := tx.Put(grouped, "g", key, []byte(key)); err != nil {
				return err
			}
		}
		return nil
	})
	s.checkAll(grouped, "g", want...)
	s.view(func(tx kv.Tx) error {
		found, err := scan(tx, grouped, kv.Range{Group: "g", Limit: n - 1})
		check(t, "limit", found, err, want[:n-1])
		found, err = scan(tx, grouped, kv.Range{Group: "g", Reverse: true, From: "00001"})
		reversed := slices.Clone(want[1:])
		slices.Reverse(reversed)
		check(t, "reverse", found, err, reversed)
		return nil
	})
}

func record(at time.Time, owner string) []byte {
	v, err := kv.Encode(owned{at, owner})
	if err != nil {
		panic(err) // it can always be encoded
	}
	return v
}

func testBefore(t *testing.T, s suite) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	s.put(timed, "", "d", string(record(at, "")), "a", string(record(at.Add(time.Hour), "")),
		"c", string(record(at.Add(-time.Nanosecond), "")), "b", string(record(time.Time{}, "")))
	before := func(at time.Time, want ...string) {
		t.Helper()
		s.view(func(tx kv.Tx) error {
			var keys []string
			err := tx.Scan(timed, kv.Range{Before: at}, func(e kv.Entry) error {
				keys = append(keys, e.Key)
				return nil
			})
			check(t, fmt.Sprint("before ", at), keys, err, want)
			return nil
		})
	}
	before(at.Add(-time.Nanosecond), "b")
	before(at, "b", "c")
	before(at.Add(time.Nanosecond), "b", "c", "d")
	before(time.Time{}, "a", "b", "c", "d")
	// And it follows the value.
	s.put(timed, "", "a", string(record(at.Add(-time.Hour), "")), "b", string(record(at.Add(time.Hour), "")))
	before(at, "a", "c")
	s.update(func(tx kv.Tx) error { return tx.Delete(timed, "", "a") })
	before(at, "c")
}

// A process that shares the store with no other one has all records.
func testMine(t *testing.T, s suite) {
	s.put(claimed, "g", "a", string(record(time.Time{}, "x")), "b", string(record(time.Time{}, "")))
	s.view(func(tx kv.Tx) error {
		n := 0
		err := tx.Scan(claimed, kv.Range{Group: "g", Mine: true}, func(kv.Entry) error { n++; return nil })
		check(t, "own records", n, err, 2)
		return nil
	})
}

// A group is there while it has a record or a number.
func testGroups(t *testing.T, s suite) {
	s.put(grouped, "b", "1", "x", "2", "x")
	s.put(grouped, "ab", "1", "x")
	s.put(grouped, "abc", "1", "x")
	s.update(func(tx kv.Tx) error {
		return errors.Join(tx.Raise(grouped, "a", 1), tx.Raise(grouped, "zero", 0), tx.Raise(grouped, "b", 3))
	})
	want := func(from, prefix string, want ...string) {
		t.Helper()
		s.view(func(tx kv.Tx) error {
			found, err := groups(tx, grouped, from, prefix)
			check(t, fmt.Sprintf("groups from %q with %q", from, prefix), found, err, want)
			return nil
		})
	}
	want("", "", "a", "ab", "abc", "b")
	want("ab", "", "ab", "abc", "b")
	want(kv.After("ab"), "", "abc", "b")
	want("", "ab", "ab", "abc")
	want("abb", "ab", "abc")
	want("", "x")
	s.update(func(tx kv.Tx) error {
		return errors.Join(tx.Delete(grouped, "ab", "1"), tx.Delete(grouped, "b", "1"), tx.Delete(grouped, "b", "2"))
	})
	want("", "", "a", "abc", "b")
	s.view(func(tx kv.Tx) error {
		for _, end := range []error{kv.ErrStop, errors.New("enough")} {
			n := 0
			err := tx.Groups(grouped, "", "", func(string) error { n++; return end })
			if isStop := errors.Is(end, kv.ErrStop); n != 1 || isStop != (err == nil) {
				t.Errorf("with %v it visits %d groups and returns %v", end, n, err)
			}
		}
		return nil
	})
	var many []string
	s.update(func(tx kv.Tx) error {
		many = nil
		for i := range 900 {
			group := fmt.Sprintf("many %03d", i)
			many = append(many, group)
			var err error
			if i%3 == 0 {
				err = tx.Raise(grouped, group, 1)
			} else {
				err = tx.Put(grouped, group, "a", []byte("1"))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	want("", "many ", many...)
}

func testDeleteGroup(t *testing.T, s suite) {
	for _, group := range []string{"f", "g", "h"} {
		s.put(grouped, group, "a", "1", "b", "2")
		s.update(func(tx kv.Tx) error { return tx.Raise(grouped, group, 5) })
	}
	s.update(func(tx kv.Tx) error {
		err := errors.Join(tx.Put(grouped, "g", "c", []byte("3")), tx.DeleteGroup(grouped, "g"),
			tx.DeleteGroup(grouped, "none"), tx.DeleteGroup(grouped, "h"), tx.Put(grouped, "h", "b", []byte("new")))
		for _, key := range []string{"a", "c"} {
			v, getErr := get(tx, grouped, "g", key)
			check(t, "in the transaction, "+key, v, getErr, "none")
		}
		n, numberErr := tx.Number(grouped, "g")
		check(t, "in the transaction, its number", n, numberErr, 0)
		next, nextErr := tx.Next(grouped, "h")
		check(t, "in the transaction, the next number", next, nextErr, 1)
		return err
	})
	s.checkAll(grouped, "f", "a=1", "b=2")
	s.checkAll(grouped, "g")
	s.checkAll(grouped, "h", "b=new")
	s.view(func(tx kv.Tx) error {
		found, err := groups(tx, grouped, "", "")
		check(t, "groups", found, err, []string{"f", "h"})
		for group, want := range map[string]uint64{"f": 5, "g": 0, "h": 1} {
			n, err := tx.Number(grouped, group)
			check(t, "number of "+group, n, err, want)
		}
		return nil
	})
}

func testNumbers(t *testing.T, s suite) {
	for _, c := range []struct {
		spec  *kv.Spec
		group string
	}{{plain, ""}, {grouped, "g"}, {grouped, "h"}} {
		number := func(want uint64) {
			t.Helper()
			s.view(func(tx kv.Tx) error {
				n, err := tx.Number(c.spec, c.group)
				check(t, "number of "+c.group, n, err, want)
				return nil
			})
		}
		next := func(want uint64) {
			t.Helper()
			s.update(func(tx kv.Tx) error {
				n, err := tx.Next(c.spec, c.group)
				check(t, "next of "+c.group, n, err, want)
				return err
			})
		}
		raise := func(n uint64) { s.update(func(tx kv.Tx) error { return tx.Raise(c.spec, c.group, n) }) }
		number(0)
		raise(0)
		number(0)
		next(1)
		next(2)
		number(2)
		raise(1)
		number(2)
		raise(9)
		number(9)
		next(10)
		s.update(func(tx kv.Tx) error {
			a, errA := tx.Next(c.spec, c.group)
			b, errB := tx.Next(c.spec, c.group)
			check(t, "two numbers", []uint64{a, b}, errors.Join(errA, errB), []uint64{11, 12})
			return nil
		})
		number(12)
	}
}

// No number is given twice.
func testNumbersAtOnce(t *testing.T, s suite) {
	var mu sync.Mutex
	given := map[string]int{}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 5 {
				for spec, group := range map[*kv.Spec]string{plain: "", grouped: "g"} {
					var n uint64
					err := s.db.Update(t.Context(), kv.Write{}, func(tx kv.Tx) (err error) {
						if n, err = tx.Next(spec, group); err == nil {
							err = tx.Put(spec, group, kv.NumberKey(n), nil)
						}
						return err
					})
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					given[fmt.Sprint(spec.Name, n)]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if len(given) != 160 {
		t.Errorf("%d numbers were given 160 times", len(given))
	}
}

// Prefetch changes no result.
func testPrefetch(t *testing.T, s suite) {
	s.put(plain, "", "a", "1", "b", "2")
	s.put(grouped, "g", "a", "3")
	refs := []kv.Ref{{Spec: plain, Key: "a"}, {Spec: plain, Key: "none"}, {Spec: grouped, Group: "g", Key: "a"},
		{Spec: plain, Key: "b"}, {Spec: grouped, Group: "g", Key: "none"}, {Spec: plain, Key: "a"}, {Spec: plain},
		{Spec: plain}}
	read := func(tx kv.Tx) error {
		err := tx.Prefetch(refs...)
		for ref, want := range map[kv.Ref]string{refs[0]: "1", refs[1]: "none", refs[2]: "3", refs[3]: "2", refs[4]: "none"} {
			v, getErr := get(tx, ref.Spec, ref.Group, ref.Key)
			check(t, ref.Group+"/"+ref.Key, v, errors.Join(err, getErr), want)
		}
		return nil
	}
	s.view(read)
	var first, second, third uint64
	s.update(func(tx kv.Tx) (err error) {
		if err := read(tx); err != nil {
			return err
		}
		for _, n := range []*uint64{&first, &second, &third} {
			if *n, err = tx.Next(plain, ""); err != nil {
				return err
			}
		}
		return errors.Join(tx.Put(plain, "", "none", []byte("new")), tx.Delete(plain, "", "b"), tx.Prefetch(refs[1], refs[3]))
	})
	if first == 0 || second <= first || third <= second {
		t.Errorf("the numbers are %d, %d and %d", first, second, third)
	}
	s.checkAll(plain, "", "a=1", "none=new")
	s.update(func(tx kv.Tx) error {
		err := tx.Prefetch(kv.Ref{Spec: grouped, Group: "g"}, kv.Ref{Spec: grouped, Group: "g"})
		a, errA := tx.Next(grouped, "g")
		b, errB := tx.Next(grouped, "g")
		check(t, "numbers of a group", []uint64{a, b}, errors.Join(err, errA, errB), []uint64{1, 2})
		return errors.Join(tx.Raise(grouped, "g", 1), tx.Put(grouped, "g", "b", nil))
	})
	s.view(func(tx kv.Tx) error {
		n, err := tx.Number(grouped, "g")
		check(t, "number of a group", n, err, 2)
		return nil
	})
	s.view(func(tx kv.Tx) error { return tx.Prefetch() })
}
