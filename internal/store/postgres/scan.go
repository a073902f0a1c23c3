package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"ravenbot/internal/store/kv"
)

// Bounds of what is read at once: the rows of the first page, and the rows and roughly the bytes of a further one.
const (
	firstPage    = 200
	maxPage      = 2000
	maxPageBytes = 8 << 20
)

// Scan reads in pages, so that no connection is held while visit works.
func (x *transaction) Scan(s *kv.Spec, r kv.Range, visit func(kv.Entry) error) error {
	if err := x.flush(s); err != nil {
		return err
	}
	for size, seen := firstPage, 0; r.Limit == 0 || seen < r.Limit; {
		if r.Limit > 0 {
			size = min(size, r.Limit-seen)
		}
		page, bytes, err := x.readPage(s, r, size)
		if err != nil {
			return err
		}
		for _, e := range page {
			if err := visit(e); err != nil {
				return unlessStop(err)
			}
		}
		if len(page) < size {
			return nil
		}
		seen += len(page)
		last := page[len(page)-1].Key
		if r.Reverse {
			r.To = last
		} else {
			r.From = kv.After(last)
		}
		size = min(maxPage, max(1, maxPageBytes/max(1, bytes/len(page))))
	}
	return nil
}

func unlessStop(err error) error {
	if errors.Is(err, kv.ErrStop) {
		return nil
	}
	return err
}

// readPage returns the first entries of a range, and how many bytes they have.
func (x *transaction) readPage(s *kv.Spec, r kv.Range, size int) (page []kv.Entry, bytes int, err error) {
	where, args, err := x.condition(s, r)
	if err != nil {
		return nil, 0, err
	}
	columns, order := "key, sum, value", "asc"
	if r.KeysOnly {
		columns = "key, sum"
	}
	if r.Reverse {
		order = "desc"
	}
	sql := fmt.Sprintf("select %s from %s where %s order by key %s limit %d", columns, tableOf(s), where, order, size)
	err = x.send(func(b *batch) {
		b.Queue(sql, args...).each(func(columns [][]byte) error {
			e := kv.Entry{Key: string(columns[0]), Sum: binary.BigEndian.Uint64(columns[1])}
			if !r.KeysOnly {
				e.Value = copyOf(columns[2])
			}
			page = append(page, e)
			bytes += len(e.Key) + len(e.Value)
			return nil
		})
	})
	return page, bytes, err
}

// condition returns the condition of a range in SQL.
func (x *transaction) condition(s *kv.Spec, r kv.Range) (where string, args []any, err error) {
	conditions := []string{"grp = $1"}
	args = []any{[]byte(r.Group)}
	add := func(condition string, arg any) {
		args = append(args, arg)
		conditions = append(conditions, fmt.Sprintf("%s $%d", condition, len(args)))
	}
	if r.From != "" {
		add("key >=", []byte(r.From))
	}
	if r.To != "" {
		add("key <", []byte(r.To))
	}
	if !r.Before.IsZero() {
		if s.At == nil {
			return "", nil, fmt.Errorf("the records of %s have no time", s.Name)
		}
		add("at <", nanoseconds(r.Before))
	}
	if owner := x.db.owner(); r.Mine && owner != 0 {
		if s.Owner == nil {
			return "", nil, fmt.Errorf("the records of %s have no owner", s.Name)
		}
		add("owner =", owner)
	}
	return strings.Join(conditions, " and "), args, nil
}

func (x *transaction) Count(s *kv.Spec, group string) (n int, err error) {
	err = x.flush(s)
	if err == nil {
		err = x.send(func(b *batch) {
			q := b.Queue(`select count(*) from `+tableOf(s)+` where grp = $1`, []byte(group))
			q.eachNumber(func(count uint64) { n = int(count) })
		})
	}
	return n, err
}

// Groups reads in pages, each by steps from one group to the next one in the index.
func (x *transaction) Groups(s *kv.Spec, from, prefix string, visit func(group string) error) error {
	if err := x.flush(s); err != nil {
		return err
	}
	from = max(from, prefix)
	end := kv.AfterPrefix(prefix)
	for {
		page, err := x.readGroups(s, from, end)
		if err != nil {
			return err
		}
		for _, group := range page {
			if err := visit(group); err != nil {
				return unlessStop(err)
			}
		}
		if len(page) < firstPage {
			return nil
		}
		from = kv.After(page[len(page)-1])
	}
}

// readGroups returns the first groups from one on, which come before end.
func (x *transaction) readGroups(s *kv.Spec, from, end string) (page []string, err error) {
	args, before := []any{s.Name, []byte(from)}, ""
	if end != "" {
		args, before = append(args, []byte(end)), " and grp < $3"
	}
	sql := fmt.Sprintf(`with recursive groups (grp, n) as (
			(select grp, 1 from %[1]s where grp >= $2%[2]s order by grp limit 1)
			union all
			select (select t.grp from %[1]s t where t.grp > groups.grp%[2]s order by t.grp limit 1), n + 1
			from groups where groups.grp is not null and n < %[3]d
		)
		select grp from groups where grp is not null
		union (select grp from ravenbot.numbers where collection = $1 and last > 0 and grp >= $2%[2]s
			order by grp limit %[3]d)
		order by grp limit %[3]d`, tableOf(s), before, firstPage)
	err = x.send(func(b *batch) {
		b.Queue(sql, args...).each(func(columns [][]byte) error {
			page = append(page, string(columns[0]))
			return nil
		})
	})
	return page, err
}
