// Package migrate copies every record of a store to another one, between any engines, and compares them. Its memory
// does not grow with the store.
package migrate

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/store"
)

// Count says how many records of a kind a store holds.
type Count struct {
	Kind    string `json:"kind"`
	Records uint64 `json:"records"`
}

// Report says what was copied.
type Report struct {
	Records uint64  `json:"records"`
	Kinds   []Count `json:"kinds"` // by name
}

// Progress is called now and then with how many records were copied, or with compared those of the copy that
// were read again.
type Progress func(records uint64, compared bool)

// Bounds of what is written at once.
const (
	maxBatch      = 500
	maxBatchBytes = 4 << 20
)

// Run copies every record, reads the copy, and compares the two by kind. It returns an error where they differ;
// then, and where it is cut off, the target stays marked as incomplete.
func Run(ctx context.Context, from store.Source, to store.Target, progress Progress) (Report, error) {
	copied := tallies{}
	var batch []store.Record
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := to.AddRecords(ctx, batch)
		batch, size = batch[:0], 0
		progress(copied.records(), false)
		return err
	}
	err := from.Records(ctx, func(r store.Record) error {
		copied.add(r)
		batch = append(batch, r)
		if size += len(r.Key) + len(r.Body); len(batch) >= maxBatch || size >= maxBatchBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return Report{}, fmt.Errorf("copy records: %w", err)
	}
	found := tallies{}
	err = to.Records(ctx, func(r store.Record) error {
		if found.add(r); found.records()%maxBatch == 0 {
			progress(found.records(), true)
		}
		return nil
	})
	if err != nil {
		return Report{}, fmt.Errorf("read what was copied: %w", err)
	}
	if err := copied.compare(found); err != nil {
		return Report{}, err
	}
	return copied.report(), to.Complete(ctx)
}

// tally is the number of records of a kind, and the sum of their hashes: their order does not matter.
type tally struct{ records, groups, sum uint64 }

type tallies map[string]*tally

// add counts a record. The sum of the hashes does not depend on the order, in which engines differ.
func (t tallies) add(r store.Record) {
	k := t[r.Kind]
	if k == nil {
		k = &tally{}
		t[r.Kind] = k
	}
	if r.Body == nil {
		k.groups++
	} else {
		k.records++
	}
	h := sha256.New()
	// JSON that is no UTF-8 is kept by some engines with its bytes replaced, as every reader replaces them.
	for _, part := range []string{r.Group, r.Key, strings.ToValidUTF8(string(r.Body), "\uFFFD")} {
		// With its length, so that the end of one part cannot pass for the beginning of the next.
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // never fails
		_, _ = h.Write([]byte(part))
	}
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, r.Seq))
	k.sum += binary.BigEndian.Uint64(h.Sum(nil))
}

// records returns how many records there are of all kinds.
func (t tallies) records() (n uint64) {
	for _, k := range t {
		n += k.records
	}
	return n
}

// compare returns an error that names the kinds of which the copy has other records.
func (t tallies) compare(found tallies) error {
	var faults []string
	for _, kind := range t.kinds(found) {
		want, got := t.of(kind), found.of(kind)
		switch {
		case want == got:
		case want.records != got.records:
			faults = append(faults, fmt.Sprintf("of %d %s there are %d", want.records, kind, got.records))
		case want.groups != got.groups:
			faults = append(faults, fmt.Sprintf("of %d groups of %s there are %d", want.groups, kind, got.groups))
		default:
			faults = append(faults, fmt.Sprintf("the %d %s are not the same", want.records, kind))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("the copy is not like the original, and stays marked as incomplete: %s; "+
			"run ravenbot store migrate again, while no bot writes to either", strings.Join(faults, "; "))
	}
	return nil
}

// of returns the tally of a kind; zero where there is none of it.
func (t tallies) of(kind string) tally {
	if k := t[kind]; k != nil {
		return *k
	}
	return tally{}
}

// kinds returns the kinds of either, by name.
func (t tallies) kinds(other tallies) []string {
	var list []string
	for _, all := range []tallies{t, other} {
		for kind := range all {
			list = append(list, kind)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// report returns how many records there are of each kind that has any.
func (t tallies) report() Report {
	r := Report{Records: t.records(), Kinds: []Count{}}
	for _, kind := range t.kinds(nil) {
		if n := t[kind].records; n > 0 {
			r.Kinds = append(r.Kinds, Count{kind, n})
		}
	}
	return r
}
