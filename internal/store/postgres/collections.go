package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store/kv"
)

// tableOf returns the table of a collection. A row holds a record, the checksum of its value, and if the Spec says so
// its time and its owner.
func tableOf(s *kv.Spec) string { return "ravenbot.c_" + s.Name }

// sequenceOf returns the sequence of a collection without groups. The numbers of groups are in the table numbers.
func sequenceOf(s *kv.Spec) string { return tableOf(s) + "_seq" }

// columns are those that the table of a collection has besides those of every collection.
type columns struct{ hasAt, hasOwner bool }

func columnsOf(s *kv.Spec) columns { return columns{s.At != nil, s.Owner != nil} }

// hasAll reports whether no further columns are wanted.
func (c columns) hasAll(want columns) bool {
	return (c.hasAt || !want.hasAt) && (c.hasOwner || !want.hasOwner)
}

const listCollections = `select name, has_at, has_owner from ravenbot.collections`

// scanCollections returns what reads the rows of listCollections.
func scanCollections(into map[string]columns) func(pgx.Rows) error {
	var name string
	var c columns
	return each([]any{&name, &c.hasAt, &c.hasOwner}, func() error {
		into[name] = c
		return nil
	})
}

// createCollections creates the tables and columns of declared collections that were never created: a new kind of
// record needs no migration. A table that was created and is gone is missed when it is used.
func (db *DB) createCollections(ctx context.Context) error {
	var found map[string]columns
	err := db.read(ctx, func(ctx context.Context) error {
		found = map[string]columns{}
		return db.query(ctx, listCollections, nil, scanCollections(found))
	})
	isComplete := true
	for _, s := range db.specs {
		c, exists := found[s.Name]
		isComplete = isComplete && exists && c.hasAll(columnsOf(s))
	}
	if err != nil || isComplete {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxMigration)
	defer cancel()
	err = pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, limitTx, "0", "0"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, lockMembers); err != nil {
			return err
		}
		found := map[string]columns{} // another process may have been first
		rows, _ := tx.Query(ctx, listCollections)
		if err := scanCollections(found)(rows); err != nil {
			return err
		}
		for _, s := range db.specs {
			c, exists := found[s.Name]
			if err := createCollection(ctx, tx, s, c, exists); err != nil {
				return fmt.Errorf("create the table of %s: %w", s.Name, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create tables: %w", db.explain(err))
	}
	return nil
}

// createCollection creates the table of a collection, or the columns that it does not have yet.
func createCollection(ctx context.Context, tx pgx.Tx, s *kv.Spec, has columns, exists bool) error {
	table, want := tableOf(s), columnsOf(s)
	addsAt, addsOwner := want.hasAt && !has.hasAt, want.hasOwner && !has.hasOwner
	for _, step := range []struct {
		isNeeded bool
		sql      string
	}{
		{!exists, `create table ` + table + ` (grp bytea, key bytea, value bytea not null, sum bigint not null,
			primary key (grp, key))`},
		{!exists && !s.Grouped, `create sequence ` + sequenceOf(s)},
		{!exists, `insert into ravenbot.collections (name) values ('` + s.Name + `')`},
		{addsAt, `alter table ` + table + ` add column at bigint`},
		{addsAt, `create index on ` + table + ` (grp, at)`},
		{addsOwner, `alter table ` + table + ` add column owner bigint not null default 0`},
		{addsOwner, `create index on ` + table + ` (owner)`},
		{addsAt || addsOwner, fmt.Sprintf(`update ravenbot.collections set has_at = has_at or %v, has_owner = has_owner or %v
			where name = '%s'`, addsAt, addsOwner, s.Name)},
	} {
		if !step.isNeeded {
			continue
		}
		if _, err := tx.Exec(ctx, step.sql); err != nil {
			return err
		}
	}
	if exists && addsAt {
		return setTimes(ctx, tx, s)
	}
	return nil
}

// setTimes sets the times of the records of a collection that had none. A record that cannot be read has none.
func setTimes(ctx context.Context, tx pgx.Tx, s *kv.Spec) error {
	for group, key := []byte{}, []byte{}; ; {
		rows, _ := tx.Query(ctx, `select grp, key, value from `+tableOf(s)+` where (grp, key) > ($1::bytea, $2::bytea)
			order by grp, key limit $3`, pgx.QueryResultFormats{pgx.BinaryFormatCode}, group, key, firstPage)
		var groups, keys [][]byte
		var times []*int64
		var value []byte
		n := 0
		err := each([]any{&group, &key, &value}, func() error {
			n++
			if at, err := s.At(value); err == nil {
				ns := nanoseconds(at)
				groups, keys, times = append(groups, copyOf(group)), append(keys, copyOf(key)), append(times, &ns)
			}
			return nil
		})(rows)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `update `+tableOf(s)+` set at = t
			from unnest($1::bytea[], $2::bytea[], $3::bigint[]) r (g, k, t) where grp = g and key = k`,
			groups, keys, times); err != nil {
			return err
		}
		if n < firstPage {
			return nil
		}
	}
}
