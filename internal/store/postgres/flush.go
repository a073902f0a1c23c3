package postgres

import (
	"cmp"
	"fmt"
	"hash/crc64"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/store/kv"
)

// flush sends the changes if the statements of a collection would miss some of them.
func (x *transaction) flush(s *kv.Spec) error {
	if !x.of(s).isDirty() {
		return nil
	}
	return x.send(x.queueChanges)
}

// queueChanges queues all changes that were not sent.
func (x *transaction) queueChanges(b *batch) {
	for _, s := range x.dirty() {
		x.queueCollection(b, s, x.of(s))
		x.hasChanged = true
	}
}

// queueCollection queues the changes of a collection, in the order of the keys: all transactions lock in the same
// order.
func (x *transaction) queueCollection(b *batch, s *kv.Spec, c *changes) {
	for _, group := range slices.Sorted(maps.Keys(c.emptied)) {
		b.Queue(`delete from `+tableOf(s)+` where grp = $1`, []byte(group))
		b.Queue(`delete from ravenbot.numbers where collection = $1 and grp = $2`, s.Name, []byte(group))
	}
	keys := slices.SortedFunc(maps.Keys(c.dirty), func(a, b recordKey) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.key, b.key))
	})
	var deleted, put rows
	for _, k := range keys {
		if v := c.known[k]; v != nil {
			put.add(s, k, v)
		} else {
			deleted.add(s, k, nil)
		}
	}
	deleted.queueDelete(b, s)
	put.queuePut(b, s, x.ownerOf(s), x.noteOwner)
	for _, group := range slices.Sorted(maps.Keys(c.raised)) {
		b.Queue(`insert into ravenbot.numbers as n (collection, grp, last) select $1, $2, $3::bigint where $3::bigint > 0
			on conflict (collection, grp) do update set last = excluded.last where n.last < excluded.last`,
			s.Name, []byte(group), int64(c.raised[group]))
	}
	clear(c.dirty)
	clear(c.emptied)
	clear(c.raised)
}

// nobody is the owner of records that wait for a process that takes them.
const nobody = "0"

// ownerOf returns the SQL expression of the owner of new records of a collection.
func (x *transaction) ownerOf(s *kv.Spec) string {
	switch owner := x.db.owner(); {
	case x.free == nil:
		return strconv.FormatInt(owner, 10)
	case *x.free:
		return nobody
	default:
		return fmt.Sprintf("case when exists (select from %s where owner = %s) then %[2]s else %d end",
			tableOf(s), nobody, owner)
	}
}

// noteOwner notes the owner that a record has got.
func (x *transaction) noteOwner(owner int64) {
	if x.free != nil && owner == 0 {
		*x.free = true
	}
}

// rows are the columns of records.
type rows struct {
	groups, keys, values [][]byte
	sums, times          []int64
}

var sumTable = crc64.MakeTable(crc64.ECMA)

func (r *rows) add(s *kv.Spec, k recordKey, value []byte) {
	r.groups, r.keys = append(r.groups, []byte(k.group)), append(r.keys, []byte(k.key))
	if value == nil {
		return
	}
	r.values, r.sums = append(r.values, value), append(r.sums, int64(crc64.Checksum(value, sumTable)))
	if s.At != nil {
		at, _ := s.At(value) // Put has checked it
		r.times = append(r.times, nanoseconds(at))
	}
}

// queueDelete queues deleting the records.
func (r *rows) queueDelete(b *batch, s *kv.Spec) {
	switch len(r.keys) {
	case 0:
	case 1: // which the server plans in less time
		b.Queue(`delete from `+tableOf(s)+` where grp = $1 and key = $2`, r.groups[0], r.keys[0])
	default:
		b.Queue(`delete from `+tableOf(s)+` using unnest($1::bytea[], $2::bytea[]) d (g, k) where grp = d.g and key = d.k`,
			r.groups, r.keys)
	}
}

// queuePut queues storing the records. Those that are new get an owner, if the collection has owners; note is called with
// the owner of each record.
func (r *rows) queuePut(b *batch, s *kv.Spec, owner string, note func(owner int64)) {
	if len(r.keys) == 0 {
		return
	}
	columns, types, update := `grp, key, value, sum`, `$1::bytea[], $2::bytea[], $3::bytea[], $4::bigint[]`,
		`value = excluded.value, sum = excluded.sum`
	single, several := []any{r.groups[0], r.keys[0], r.values[0], r.sums[0]}, []any{r.groups, r.keys, r.values, r.sums}
	if s.At != nil {
		columns, types, update = columns+`, at`, types+`, $5::bigint[]`, update+`, at = excluded.at`
		single, several = append(single, r.times[0]), append(several, r.times)
	}
	values, constant := []string{"$1", "$2", "$3", "$4", "$5", "$6"}[:len(single)], ""
	if s.Owner != nil {
		columns, constant = columns+`, owner`, ", "+owner
		if owner == nobody {
			update += `, owner = ` + nobody
		}
	}
	from, args := ` values (`+strings.Join(values, ", ")+constant+`)`, single
	if len(r.keys) > 1 {
		from, args = ` select r.*`+constant+` from unnest(`+types+`) r`, several
	}
	sql := `insert into ` + tableOf(s) + ` (` + columns + `)` + from + ` on conflict (grp, key) do update set ` + update
	if s.Owner == nil {
		b.Queue(sql, args...)
		return
	}
	b.Queue(sql+` returning owner`, args...).eachNumber(func(owner uint64) { note(int64(owner)) })
}

// nanoseconds returns a time as a number that sorts like it.
func nanoseconds(t time.Time) int64 {
	switch year := t.Year(); {
	case year < 1700:
		return math.MinInt64
	case year > 2250:
		return math.MaxInt64
	}
	return t.UnixNano()
}
