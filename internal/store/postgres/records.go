package postgres

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// maxWhole is how long reading a whole table may take.
const maxWhole = 12 * time.Hour

// waitingRecord is a message without an outcome as other engines store it.
type waitingRecord struct {
	Received json.RawMessage `json:"received"`
	Seq      uint64          `json:"seq"`
}

// storedFile is a file of a room as other engines store it.
type storedFile struct {
	At time.Time `json:"at"`
	chat.File
}

// seqKey returns a number as other engines write it as a key, so that keys sort as the numbers do.
func seqKey(seq int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(seq))) }

// joinKey returns a key that has several parts in other engines. It changes parts.
func joinKey(parts ...string) string {
	for i, p := range parts {
		parts[i] = parseKey(p)
	}
	return strings.Join(parts, "\x00")
}

// dump is how the records of a kind are read: sql selects strings, numbers and JSON that make returns a record
// of. Where a column is nil it is the record of a group.
type dump struct {
	kind string
	sql  string
	make func(c columns) (store.Record, error)
}

// columns are the columns of a row: up to three texts, two numbers and one record, in this order.
type columns struct {
	a, b, c string
	n, m    int64
	body    []byte
}

// dumps returns how all kinds are read, in the order in which they are added to a store.
func dumps() []dump {
	const plain = `, 0, 0, `
	top := func(c columns) (store.Record, error) { return store.Record{Key: parseKey(c.a), Body: c.body}, nil }
	count := func(c columns) (store.Record, error) { return store.Record{Seq: uint64(c.n)}, nil }
	group := func(c columns) (store.Record, error) {
		return store.Record{Group: parseKey(c.a), Seq: uint64(c.n)}, nil
	}
	numbered := func(c columns) (store.Record, error) {
		return store.Record{Group: parseKey(c.a), Key: seqKey(c.n), Body: c.body}, nil
	}
	named := func(c columns) (store.Record, error) {
		return store.Record{Group: parseKey(c.a), Key: parseKey(c.b), Body: c.body}, nil
	}
	joined := func(c columns) (store.Record, error) { return store.Record{Key: joinKey(c.a, c.b), Body: c.body}, nil }
	// What nextval has returned so far; a sequence that was never used has no number.
	number := func(sequence string) string {
		return `select '', '', '', case when is_called then last_value else 0 end, 0, null::json
			from ravenbot.` + sequence
	}
	return []dump{
		{"waiting", number("inbox_seq"), count},
		{"waiting", `select key, '', '', seq, 0, record from ravenbot.inbox where record is not null`, dumpWaiting},
		{"post", number("post_seq"), count},
		{"post", `select key, '', ''` + plain + `record from ravenbot.posts where record is not null`, top},
		{"done", `select 'm/', key, ''` + plain + `done from ravenbot.inbox where done is not null`, dumpDone},
		{"done", `select 'p/', key, ''` + plain + `done from ravenbot.posts where done is not null`, dumpDone},
		{"stream", `select key, '', ''` + plain + `record from ravenbot.streams`, top},
		{"lastSeen", `select address, '', ''` + plain + `record from ravenbot.last_seen`, top},
		{"turn", `select address, '', '', last_turn, 0, null::json
			from ravenbot.conversations where last_turn is not null`, group},
		{"turn", `select c.address, '', '', t.seq, 0, t.record from ravenbot.turns t
			join ravenbot.conversations c on c.id = t.conversation`, numbered},
		{"message", `select address, '', '', 0, 0, null::json
			from ravenbot.conversations where messages is not null`, group},
		{"message", `select c.address, m.at, m.id, 0, 0, m.record from ravenbot.messages m
			join ravenbot.conversations c on c.id = m.conversation`, func(c columns) (store.Record, error) {
			return store.Record{Group: parseKey(c.a), Key: c.b + parseKey(c.c), Body: c.body}, nil
		}},
		{"messageTurn", `select m.subject, c.address, '', m.seq, 0, null::json from ravenbot.message_turns m
			join ravenbot.conversations c on c.id = m.conversation`, dumpMessageTurn},
		// The turns that quote a message are one record elsewhere.
		{"quote", `select q.subject, '', '', 0, 0,
				json_agg(json_build_object('address', c.address, 'seq', q.seq) order by q.n, c.address, q.seq)
			from ravenbot.quotes q join ravenbot.conversations c on c.id = q.conversation group by q.subject`, dumpQuote},
		{"summary", `select address, '', ''` + plain + `record from ravenbot.summaries`, top},
		{"call", number("call_seq"), count},
		{"call", `select '', '', '', seq, 0, record from ravenbot.calls`, numbered},
		{"result", `select id, '', ''` + plain + `record from ravenbot.results`, top},
		{"approval", `select turn, call, ''` + plain + `record from ravenbot.approvals`, joined},
		{"feedback", `select turn, user_id, ''` + plain + `record from ravenbot.feedback`, joined},
		{"shownTurn", `select platform, message, address` + plain + `record from ravenbot.shown_turns`,
			func(c columns) (store.Record, error) {
				return store.Record{Key: joinKey(c.a, c.b, c.c), Body: c.body}, nil
			}},
		{"feed", `select '', '', ''` + plain + `record from ravenbot.feeds`, dumpFeed},
		{"seenItem", `select name, '', '', 0, 0, null::json from ravenbot.digests`, group},
		{"seenItem", `select digest, coalesce(whole, item), ''` + plain + `record from ravenbot.seen_items`, named},
		{"run", `select digest, due, ''` + plain + `record from ravenbot.runs`, named},
		{"subscription", `select '', '', ''` + plain + `record from ravenbot.subscriptions`, dumpSubscription},
		{"entry", `select name, '', '', last_entry, 0, null::json
			from ravenbot.rooms where last_entry is not null`, group},
		{"entry", `select room, '', '', seq, 0, record from ravenbot.entries`, numbered},
		{"roomFile", `select name, '', '', last_file, 0, null::json
			from ravenbot.rooms where last_file is not null`, group},
		{"memory", `select scope, '', '', last, 0, null::json from ravenbot.memory_scopes`, group},
		{"memory", `select scope, '', '', n, 0, record from ravenbot.memories`, numbered},
		{"setting", `select scope, '', ''` + plain + `record from ravenbot.settings`, top},
		{"blob", `select key, '', ''` + plain + `record from ravenbot.blobs`, top},
		{"item", `select kind, name, ''` + plain + `record from ravenbot.items`, named},
	}
}

// Records calls fn with every record, as of one instant, in the order in which AddRecords takes them, and ends with the
// first error of fn. What was deleted and not yet removed is left out. Memory does not grow with the store. It returns
// an error where another process has taken over a store that OpenSource opened.
func (db *DB) Records(ctx context.Context, fn func(store.Record) error) error {
	ctx, cancel := context.WithTimeout(ctx, maxWhole)
	defer cancel()
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db.pool, options, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, limitTx, "0", "0"); err != nil {
			return err
		}
		for _, d := range dumps() {
			if err := dumpKind(ctx, tx, d, fn); err != nil {
				return fmt.Errorf("read %s: %w", d.kind, err)
			}
		}
		return errors.Join(dumpFiles(ctx, tx, fn), dumpUsage(ctx, tx, fn))
	})
	if err == nil {
		// What others have written since the transaction began is not in it.
		err = db.checkAlone(ctx)
	}
	if err != nil {
		return fmt.Errorf("read store: %w", db.explain(err))
	}
	return nil
}

// dumpKind reads row by row: memory does not grow with the table.
func dumpKind(ctx context.Context, tx pgx.Tx, d dump, fn func(store.Record) error) error {
	var c columns
	rows, _ := tx.Query(ctx, d.sql) // rows has the error as well
	return each([]any{&c.a, &c.b, &c.c, &c.n, &c.m, &c.body}, func() error {
		r, err := d.make(c)
		if err != nil {
			return err
		}
		r.Kind = d.kind
		return fn(r)
	})(rows)
}

// dumpWaiting and the functions below return records whose form in other engines is not that of the table.
func dumpWaiting(c columns) (store.Record, error) {
	body, err := encode(waitingRecord{c.body, uint64(c.n)})
	return store.Record{Key: parseKey(c.a), Body: []byte(body)}, err
}

// dumpDone returns what remains of a finished message or post, under m/ or p/ and its key.
func dumpDone(c columns) (store.Record, error) {
	return store.Record{Key: c.a + parseKey(c.b), Body: c.body}, nil
}

// dumpMessageTurn returns of which turn a message is a part.
func dumpMessageTurn(c columns) (store.Record, error) {
	a, err := chat.ParseAddress(parseKey(c.b))
	if err != nil {
		return store.Record{}, err
	}
	body, err := encode(store.TurnRef{Conversation: a, Seq: uint64(c.n)})
	return store.Record{Key: parseKey(c.a), Body: []byte(body)}, err
}

// dumpQuote returns the turns that quote a message, in their order.
func dumpQuote(c columns) (store.Record, error) {
	var quotes []struct {
		Address string
		Seq     uint64
	}
	errs := json.Unmarshal(c.body, &quotes)
	list := make([]store.TurnRef, len(quotes))
	for i, q := range quotes {
		a, err := chat.ParseAddress(parseKey(q.Address))
		list[i], errs = store.TurnRef{Conversation: a, Seq: q.Seq}, errors.Join(errs, err)
	}
	body, err := encode(list)
	return store.Record{Key: parseKey(c.a), Body: []byte(body)}, errors.Join(errs, err)
}

// maxKey bounds the bytes of a key in other engines.
const maxKey = 32768

// cutKey returns as much of a key as other engines take.
func cutKey(key string) string { return key[:min(len(key), maxKey)] }

// dumpFeed returns a feed under its address, which the table has shortened.
func dumpFeed(c columns) (store.Record, error) {
	var f store.Feed
	err := json.Unmarshal(c.body, &f)
	return store.Record{Key: cutKey(f.URL), Body: c.body}, err
}

// dumpSubscription returns a subscription under its conversation and the address of its feed.
func dumpSubscription(c columns) (store.Record, error) {
	var s store.Subscription
	err := json.Unmarshal(c.body, &s)
	return store.Record{Key: cutKey(s.To.String() + " " + s.URL), Body: c.body}, err
}

// dumpFiles reads the files of rooms, whose bytes stand apart.
func dumpFiles(ctx context.Context, tx pgx.Tx, fn func(store.Record) error) error {
	var room string
	var n int64
	var record, data []byte
	rows, _ := tx.Query(ctx, `select room, n, record, `+fileData+` from ravenbot.room_files`)
	return each([]any{&room, &n, &record, &data}, func() error {
		var r fileRecord
		if err := json.Unmarshal(record, &r); err != nil {
			return err
		}
		stored, err := r.file(data)
		if err != nil {
			return err
		}
		var file any = storedFile{r.At, stored}
		if r.At.IsZero() {
			file = stored // from before the times of files were recorded
		}
		body, err := encode(file)
		if err == nil {
			err = fn(store.Record{Kind: "roomFile", Group: parseKey(room), Key: seqKey(n), Body: []byte(body)})
		}
		return err
	})(rows)
}

// dumpUsage calls fn with the sums of usage, which are columns here and JSON elsewhere.
func dumpUsage(ctx context.Context, tx pgx.Tx, fn func(store.Record) error) error {
	var r usageRow
	rows, _ := tx.Query(ctx, `select `+usageColumns+` from ravenbot.usage`)
	return each(r.scans(), func() error {
		u, err := r.usage()
		if err != nil {
			return err
		}
		body, err := encode(u)
		if err == nil {
			key := strings.Join([]string{u.Day, u.Model, u.Channel.String(), u.User}, "\x00")
			err = fn(store.Record{Kind: "usage", Key: key, Body: []byte(body)})
		}
		return err
	})(rows)
}
