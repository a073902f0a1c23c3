package postgres_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"ravenbot/internal/store/kv"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/kvtest"
)

// The collections of the tests. A change of a note is announced under what stands before the first slash of its key; a
// task has an owner, who acts on it.
var (
	notes = &kv.Spec{Name: "notes", Watch: func(_, key string, _ bool) string {
		kind, _, _ := strings.Cut(key, "/")
		return kind
	}}
	logs  = &kv.Spec{Name: "logs", Grouped: true}
	tasks = &kv.Spec{Name: "tasks", Owner: func(value []byte) (string, error) {
		var t task
		err := json.Unmarshal(value, &t)
		return t.Claim, err
	}}
	specs = append(kvtest.Specs(), notes, logs, tasks)
)

// task is a record on which one process at a time acts.
type task struct {
	Name  string `json:"name"`
	Claim string `json:"claim"`
}

// put stores a record without a group.
func put(ctx context.Context, db *postgres.DB, s *kv.Spec, key, value string) error {
	return db.Update(ctx, kv.Write{}, func(tx kv.Tx) error { return tx.Put(s, "", key, []byte(value)) })
}

// save stores a note that is its key.
func save(ctx context.Context, db *postgres.DB, key string) error {
	return put(ctx, db, notes, key, key)
}

// read returns a note.
func read(ctx context.Context, db *postgres.DB, key string) (value string, err error) {
	err = db.View(ctx, func(tx kv.Tx) error {
		v, err := tx.Get(notes, "", key)
		value = string(v)
		return err
	})
	return value, err
}

// add stores a task unless it is known, and reports whether it was not.
func add(ctx context.Context, db *postgres.DB, name, claim string) (isNew bool, err error) {
	err = db.Update(ctx, kv.Write{Scopes: []string{"task/" + name}}, func(tx kv.Tx) error {
		known, err := tx.Get(tasks, "", name)
		if isNew = err == nil && known == nil; !isNew {
			return err
		}
		return kv.Collection[task]{Spec: tasks}.Put(tx, "", name, task{name, claim})
	})
	return isNew, err
}

// end deletes a task, and returns an error if there is none.
func end(ctx context.Context, db *postgres.DB, name string) error {
	return db.Update(ctx, kv.Write{Scopes: []string{"task/" + name}}, func(tx kv.Tx) error {
		known, err := tx.Get(tasks, "", name)
		if err == nil && known == nil {
			err = errors.New("the task is not there")
		}
		return errors.Join(err, tx.Delete(tasks, "", name))
	})
}

// readAndWrite adds to a number, and appends an entry with the next number of a log.
func readAndWrite(ctx context.Context, db *postgres.DB, name string, n int) error {
	return db.Update(ctx, kv.Write{Scopes: []string{name}}, func(tx kv.Tx) error {
		if err := tx.Prefetch(kv.Ref{Spec: notes, Key: name}); err != nil {
			return err
		}
		v, err := tx.Get(notes, "", name)
		if err != nil {
			return err
		}
		sum, _ := strconv.Atoi(string(v)) // 0 if there is none
		seq, err := tx.Next(logs, name)
		return errors.Join(err, tx.Put(notes, "", name, []byte(strconv.Itoa(sum+n))),
			tx.Put(logs, name, kv.NumberKey(seq), []byte(strconv.Itoa(n))))
	})
}

// count returns the sum of a log, and how many entries it has.
func count(t *testing.T, db *postgres.DB, name string) (sum, entries int) {
	t.Helper()
	err := db.View(t.Context(), func(tx kv.Tx) error {
		v, err := tx.Get(notes, "", name)
		sum, _ = strconv.Atoi(string(v))
		n, countErr := tx.Count(logs, name)
		entries = n
		return errors.Join(err, countErr)
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum, entries
}

// own returns the tasks of a process, by their names.
func own(t *testing.T, db *postgres.DB) (text string) {
	t.Helper()
	err := db.View(t.Context(), func(tx kv.Tx) error {
		text = ""
		return kv.Collection[task]{Spec: tasks}.Scan(tx, kv.Range{Mine: true}, func(name string, _ task) error {
			text += name + ", "
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// all takes every record.
func all(*kv.Spec, []byte) bool { return true }

// describe returns the tasks that were taken, in their order.
func describe(left kv.Taken) (text string) {
	for _, v := range left.Values[tasks] {
		var one task
		if err := json.Unmarshal(v.Value, &one); err != nil {
			return err.Error()
		}
		text += one.Name + ", "
	}
	return text
}

// errOf returns the error of a call that returns something else as well.
func errOf[T any](_ T, err error) error { return err }
