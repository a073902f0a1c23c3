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
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// OpenSource opens a store to be read as a whole, and keeps daemons from joining its replicas until Close. It returns a
// *store.InUseError where a daemon is connected to the database.
func OpenSource(ctx context.Context, address string, o Options) (*DB, error) {
	db, err := openForMigration(ctx, address, o)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := db.checkState(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store: %w", err), db.Close())
	}
	return db, nil
}

// OpenTarget opens an empty database to be filled with the records of another store, and one that a migration
// has begun to fill, which is emptied. It returns store.ErrExists where there is a store that holds anything,
// and a *store.InUseError where a daemon is connected to it.
func OpenTarget(ctx context.Context, address string, o Options) (*DB, error) {
	db, err := openForMigration(ctx, address, o)
	if err != nil {
		return nil, fmt.Errorf("open store to be filled: %w", err)
	}
	if err := db.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open store to be filled: %w", err), db.Close())
	}
	return db, nil
}

// openForMigration connects to a database that no daemon uses, brings its tables to the format of this version, and keeps
// others from it until Close.
func openForMigration(ctx context.Context, address string, o Options) (*DB, error) {
	o.application = migratorName
	db, err := connect(ctx, address, o)
	if err != nil {
		return nil, err
	}
	// First: daemons of the version before would be refused by tables of another format.
	if err = db.checkUnused(ctx); err == nil {
		err = db.migrate(ctx)
	}
	if err == nil {
		err = db.joinAlone(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// joinAlone makes this process the only one that may write. It waits until the time of one that was killed is over: a
// migration that was cut off is repeated at once.
func (db *DB) joinAlone(ctx context.Context) error {
	m, err := db.newMembership(ctx)
	if err != nil {
		return err
	}
	m.alone = true
	for began := time.Now(); ; {
		_, err := m.Join(ctx, "")
		if _, isInUse := errors.AsType[*store.InUseError](err); !isInUse || time.Since(began) > memberTime {
			return err
		}
		if err := wait(ctx, maxPause); err != nil {
			return err
		}
	}
}

// checkAlone returns an error where this process was to be the only one, and others have joined meanwhile, since it was
// paused or cut off.
func (db *DB) checkAlone(ctx context.Context) error {
	if db.members == nil || !db.members.alone {
		return nil
	}
	if err := db.Owned(); err != nil {
		return err
	}
	living, err := db.members.Replicas(ctx)
	for _, r := range living {
		if r.ID != db.owner() {
			return &store.InUseError{Path: db.name, By: r}
		}
	}
	return err
}

// The names by which the server lists the connections of daemons and of migrations.
const (
	daemonName   = "ravenbot"
	migratorName = "ravenbot store migrate"
)

// maxLinger is for how long the connections of a daemon that has ended may still be listed.
const maxLinger = 5 * time.Second

// checkUnused returns a *store.InUseError where a daemon is connected to the database.
func (db *DB) checkUnused(ctx context.Context) error {
	for began := time.Now(); ; {
		var daemons int
		err := db.read(ctx, func(ctx context.Context) error {
			return db.pool.QueryRow(ctx, `select count(*) from pg_stat_activity
				where datname = current_database() and application_name = $1`, daemonName).Scan(&daemons)
		})
		switch {
		case err != nil || daemons == 0:
			return err
		case time.Since(began) > maxLinger:
			return &store.InUseError{Path: db.name}
		}
		if err := wait(ctx, maxPause); err != nil {
			return err
		}
	}
}

// recordTables are all tables with records.
const recordTables = `ravenbot.inbox, ravenbot.posts, ravenbot.streams, ravenbot.last_seen, ravenbot.conversations,
	ravenbot.deleted_conversations, ravenbot.turns, ravenbot.message_turns, ravenbot.quotes, ravenbot.summaries,
	ravenbot.messages, ravenbot.calls, ravenbot.results, ravenbot.approvals, ravenbot.feedback, ravenbot.shown_turns,
	ravenbot.feeds, ravenbot.digests, ravenbot.seen_items, ravenbot.runs, ravenbot.subscriptions, ravenbot.rooms,
	ravenbot.entries, ravenbot.room_files, ravenbot.memory_scopes, ravenbot.memories, ravenbot.usage, ravenbot.settings,
	ravenbot.blobs, ravenbot.items`

// begin marks the store as incomplete, and empties it where it was before.
func (db *DB) begin(ctx context.Context) error {
	return db.write(ctx, func(t *tx) error {
		var state string
		isEmpty := true
		err := t.send(func(b *pgx.Batch) {
			b.Queue(`select state from ravenbot.format for update`).
				QueryRow(func(row pgx.Row) error { return row.Scan(&state) })
			for _, table := range strings.Split(recordTables, ",") {
				b.Queue(`select not exists (select from ` + table + `)`).QueryRow(func(row pgx.Row) error {
					var is bool
					err := row.Scan(&is)
					isEmpty = isEmpty && is
					return err
				})
			}
		})
		if err == nil && state == ready && !isEmpty {
			err = fmt.Errorf("%s holds records: %w", db.name, store.ErrExists)
		}
		if err != nil {
			return err
		}
		return t.send(func(b *pgx.Batch) {
			b.Queue(`update ravenbot.format set state = $1`, incomplete)
			b.Queue(`truncate ` + recordTables)
		})
	})
}

// Complete marks a store that OpenTarget returned as filled.
func (db *DB) Complete(ctx context.Context) error {
	err := db.write(ctx, func(t *tx) error {
		_, err := t.exec(`update ravenbot.format set state = $1`, ready)
		return err
	})
	if err != nil {
		return fmt.Errorf("complete store: %w", err)
	}
	return nil
}

// AddRecords stores records of another store, all or none. Conversations, digests, rooms and scopes come before what
// belongs to them. Records that are there already are an error: the store was empty.
func (db *DB) AddRecords(ctx context.Context, list []store.Record) error {
	adders := adders()
	err := db.write(ctx, func(t *tx) error {
		return t.sendAll(func(b *pgx.Batch) error {
			for _, r := range list {
				add, known := adders[r.Kind]
				err := errors.New("this version does not know the kind")
				if known {
					err = add(b, r)
				}
				if err != nil {
					return fmt.Errorf("%s %q of %q: %w", r.Kind, r.Key, r.Group, err)
				}
			}
			queueCounts(b, list)
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("store records: %w", err)
	}
	return nil
}

// queueCounts queues counting what was added to each conversation, once for all of it.
func queueCounts(b *pgx.Batch, list []store.Record) {
	turns, messages := map[string]int{}, map[string]int{}
	for _, r := range list {
		switch {
		case r.Body == nil:
		case r.Kind == "turn":
			turns[r.Group]++
		case r.Kind == "message":
			messages[r.Group]++
		}
	}
	for a, n := range turns {
		b.Queue(`update ravenbot.conversations set turns = turns + $2 where address = $1`, keyText(a), n)
	}
	for a, n := range messages {
		b.Queue(`update ravenbot.conversations set messages = messages + $2, message_version = $3 where address = $1`,
			keyText(a), n, randomID())
	}
}

// recordText returns a record as the server holds it.
func recordText(body []byte) string { return strings.ToValidUTF8(string(body), "\uFFFD") }

// numberOf returns the number that the key of a numbered record is, eight bytes with the most significant first.
func numberOf(key string) (int64, error) {
	if len(key) != 8 {
		return 0, fmt.Errorf("the key is no number")
	}
	return int64(binary.BigEndian.Uint64([]byte(key))), nil
}

// adder queues storing a record.
type adder = func(b *pgx.Batch, r store.Record) error

// decoded returns what a record of a kind queues, by its body.
func decoded[T any](add func(b *pgx.Batch, r store.Record, record T, text string)) adder {
	return func(b *pgx.Batch, r store.Record) error {
		var record T
		if err := json.Unmarshal(r.Body, &record); err != nil {
			return err
		}
		add(b, r, record, recordText(r.Body))
		return nil
	}
}

// grouped returns what a record of a kind queues: group for the record of a group, else add.
func grouped(group func(b *pgx.Batch, r store.Record), add adder) adder {
	return func(b *pgx.Batch, r store.Record) error {
		if r.Body != nil {
			return add(b, r)
		}
		group(b, r)
		return nil
	}
}

// counted queues setting a sequence.
func counted(sequence string) func(b *pgx.Batch, r store.Record) {
	return func(b *pgx.Batch, r store.Record) {
		b.Queue(`select setval($1::regclass, greatest($2::bigint, 1), $2 > 0)`, "ravenbot."+sequence, int64(r.Seq))
	}
}

// insert returns a statement that inserts a row, with the version of the record as its first parameter.
func insert(table string, names ...string) string {
	marks := make([]string, len(names))
	for i := range names {
		marks[i] = fmt.Sprintf("$%d", i+2)
	}
	return fmt.Sprintf(`insert into ravenbot.%s (v, %s) values ($1, %s)`,
		table, strings.Join(names, ", "), strings.Join(marks, ", "))
}

// adders returns what queues storing a record, by its kind.
func adders() map[string]adder {
	const v = recordVersion
	all := conversationAdders()
	for kind, add := range map[string]adder{
		"waiting": grouped(counted("inbox_seq"), decoded(func(b *pgx.Batch, r store.Record, w waitingRecord, _ string) {
			b.Queue(insert("inbox", "key", "seq", "record"), v, keyText(r.Key), int64(w.Seq), recordText(w.Received))
		})),
		"post": grouped(counted("post_seq"), decoded(func(b *pgx.Batch, r store.Record, p store.Post, text string) {
			b.Queue(insert("posts", "key", "seq", "record", "failed", "address", "at"),
				v, keyText(r.Key), int64(p.Seq), text, p.Error != "", keyText(p.To.String()), p.At)
		})),
		"done": addDone,
		"stream": decoded(func(b *pgx.Batch, r store.Record, d doneRecord, text string) {
			b.Queue(insert("streams", "key", "record", "at"), v, keyText(r.Key), text, d.Done)
		}),
		"call": grouped(counted("call_seq"), decoded(func(b *pgx.Batch, r store.Record, c store.ToolCall, text string) {
			b.Queue(insert("calls", "seq", "record", "address", "at"),
				v, int64(c.Seq), text, addressKey(c.Conversation), c.Began)
		})),
		"result": decoded(func(b *pgx.Batch, r store.Record, t store.ToolResult, text string) {
			b.Queue(insert("results", "id", "record", "address", "at"),
				v, keyText(r.Key), text, addressKey(t.Conversation), t.At)
		}),
		"approval": decoded(func(b *pgx.Batch, r store.Record, a store.Approval, text string) {
			turn, call, _ := strings.Cut(r.Key, "\x00")
			b.Queue(insert("approvals", "turn", "call", "record", "address", "at"),
				v, keyText(turn), keyText(call), text, addressKey(a.Conversation), a.At)
		}),
		"feedback": decoded(func(b *pgx.Batch, r store.Record, f store.Feedback, text string) {
			turn, user, _ := strings.Cut(r.Key, "\x00")
			b.Queue(insert("feedback", "turn", "user_id", "record", "withdrawn", "at"),
				v, keyText(turn), keyText(user), text, f.Withdrawn, f.At)
		}),
		"feed": decoded(func(b *pgx.Batch, r store.Record, f store.Feed, text string) {
			b.Queue(insert("feeds", "url", "record"), v, foreignKey(f.URL), text)
		}),
		"subscription": decoded(func(b *pgx.Batch, r store.Record, s store.Subscription, text string) {
			b.Queue(insert("subscriptions", "address", "url", "record"),
				v, keyText(s.To.String()), foreignKey(s.URL), text)
		}),
		"seenItem": grouped(func(b *pgx.Batch, r store.Record) {
			b.Queue(`insert into ravenbot.digests (name) values ($1)`, keyText(r.Group))
		}, decoded(func(b *pgx.Batch, r store.Record, at time.Time, text string) {
			key := foreignKey(r.Key)
			b.Queue(insert("seen_items", "digest", "item", "whole", "record", "at"),
				v, keyText(r.Group), key, wholeKey(r.Key, key), text, at)
		})),
		"run":     addNamed("runs", "digest", "due"),
		"item":    addNamed("items", "kind", "name"),
		"setting": addTop("settings", "scope"),
		"blob":    addTop("blobs", "key"),
		"summary": addTop("summaries", "address"),
		"entry": grouped(addRoom("last_entry"), decoded(func(b *pgx.Batch, r store.Record, e store.Entry, text string) {
			b.Queue(insert("entries", "room", "seq", "id", "record", "at"),
				v, keyText(r.Group), int64(e.Seq), keyText(e.ID), text, e.At)
		})),
		"roomFile": grouped(addRoom("last_file"), addFile),
		"memory": grouped(func(b *pgx.Batch, r store.Record) {
			b.Queue(`insert into ravenbot.memory_scopes (scope, last) values ($1, $2)`, keyText(r.Group), int64(r.Seq))
		}, decoded(func(b *pgx.Batch, r store.Record, m store.Memory, text string) {
			b.Queue(insert("memories", "scope", "n", "record"), v, keyText(r.Group), int64(m.N), text)
		})),
		"usage": decoded(func(b *pgx.Batch, r store.Record, u store.Usage, _ string) {
			b.Queue(`insert into ravenbot.usage (day, model, channel, user_id, turns, input, cached, output)
				values ($1, $2, $3, $4, $5, $6, $7, $8)`, u.Day, keyText(u.Model), addressKey(u.Channel), keyText(u.User),
				u.Turns, u.Tokens.Input, u.Tokens.Cached, u.Tokens.Output)
		}),
	} {
		all[kind] = add
	}
	return all
}

// conversationAdders are the adders of what is found by a conversation.
func conversationAdders() map[string]adder {
	const v = recordVersion
	return map[string]adder{
		"lastSeen": decoded(func(b *pgx.Batch, r store.Record, l chat.LastSeen, text string) {
			b.Queue(insert("last_seen", "address", "platform", "record", "at"),
				v, keyText(r.Key), keyText(l.Conversation.Platform), text, l.At)
		}),
		"turn":    grouped(addConversation("last_turn"), decoded(addTurn)),
		"message": grouped(addConversation("messages"), decoded(addMessage)),
		"messageTurn": decoded(func(b *pgx.Batch, r store.Record, at store.TurnRef, _ string) {
			b.Queue(`insert into ravenbot.message_turns (subject, conversation, seq)
				select $1, id, $3 from ravenbot.conversations where address = $2`,
				keyText(r.Key), keyText(at.Conversation.String()), int64(at.Seq))
		}),
		"quote": decoded(func(b *pgx.Batch, r store.Record, list []store.TurnRef, _ string) {
			for i, at := range list {
				b.Queue(`insert into ravenbot.quotes (subject, n, conversation, seq)
					select $1, $4, id, $3 from ravenbot.conversations where address = $2`,
					keyText(r.Key), keyText(at.Conversation.String()), int64(at.Seq), i+1)
			}
		}),
		"shownTurn": decoded(func(b *pgx.Batch, r store.Record, s shownRecord, text string) {
			parts := append(strings.SplitN(r.Key, "\x00", 3), "", "")
			b.Queue(insert("shown_turns", "platform", "message", "address", "record", "at"),
				v, keyText(parts[0]), keyText(parts[1]), keyText(parts[2]), text, s.At)
		}),
	}
}

// addTurn queues storing a turn of a conversation that is there.
func addTurn(b *pgx.Batch, r store.Record, t conversation.Turn, text string) {
	b.Queue(`insert into ravenbot.turns (conversation, seq, v, record, began, hash)
		select id, $2, $3, $4, $5, $6 from ravenbot.conversations where address = $1`,
		keyText(r.Group), int64(t.Seq), recordVersion, text, t.Began, hashOf(text))
}

// addMessage queues storing a message outside of turns, of a conversation that is there.
func addMessage(b *pgx.Batch, r store.Record, m store.Message, text string) {
	b.Queue(`insert into ravenbot.messages (conversation, at, id, platform, v, record)
		select id, $2, $3, $4, $5, $6 from ravenbot.conversations where address = $1`,
		keyText(r.Group), timeKey(m.At), keyText(m.ID), keyText(m.Conversation.Platform), recordVersion, text)
}

// addConversation queues noting that a conversation has turns, or messages outside of turns.
func addConversation(column string) func(b *pgx.Batch, r store.Record) {
	return func(b *pgx.Batch, r store.Record) {
		channel := r.Group
		if a, err := chat.ParseAddress(r.Group); err == nil {
			channel = a.Base().String()
		}
		b.Queue(`insert into ravenbot.conversations (id, address, channel, `+column+`) values ($1, $2, $3, $4)
			on conflict (address) do update set `+column+` = excluded.`+column,
			randomID(), keyText(r.Group), keyText(channel), int64(r.Seq))
	}
}

// addRoom queues noting the number of the last line or file of a room.
func addRoom(column string) func(b *pgx.Batch, r store.Record) {
	return func(b *pgx.Batch, r store.Record) {
		b.Queue(`insert into ravenbot.rooms (name, `+column+`) values ($1, $2)
			on conflict (name) do update set `+column+` = excluded.`+column, keyText(r.Group), int64(r.Seq))
	}
}

// addTop returns what queues a record that has nothing but its key.
func addTop(table, key string) adder {
	return func(b *pgx.Batch, r store.Record) error {
		b.Queue(insert(table, key, "record"), recordVersion, keyText(r.Key), recordText(r.Body))
		return nil
	}
}

// addNamed returns what queues a record that has nothing but its group and key.
func addNamed(table, group, key string) adder {
	return func(b *pgx.Batch, r store.Record) error {
		b.Queue(insert(table, group, key, "record"), recordVersion, keyText(r.Group), keyText(r.Key), recordText(r.Body))
		return nil
	}
}

// addDone queues what remains of a finished message (m/) or post (p/).
func addDone(b *pgx.Batch, r store.Record) error {
	var d doneRecord
	if err := json.Unmarshal(r.Body, &d); err != nil {
		return err
	}
	kind, key, _ := strings.Cut(r.Key, "/")
	columns, values := `(key, seq, v, done, done_at)`, `($1, 0, $2, $3, $4)`
	table := "inbox"
	if kind == "p" {
		table, columns, values = "posts", `(key, seq, failed, v, done, done_at)`, `($1, 0, false, $2, $3, $4)`
	}
	b.Queue(`insert into ravenbot.`+table+` `+columns+` values `+values+`
		on conflict (key) do update set done = excluded.done, done_at = excluded.done_at`,
		keyText(key), recordVersion, recordText(r.Body), d.Done)
	return nil
}

// addFile queues a file of a room.
func addFile(b *pgx.Batch, r store.Record) error {
	n, err := numberOf(r.Key)
	if err != nil {
		return err
	}
	var f storedFile
	if err := json.Unmarshal(r.Body, &f); err != nil {
		return err
	}
	record, err := encode(newFileRecord(f.At, f.File))
	if err != nil {
		return err
	}
	data := f.Data
	if data == nil {
		data = []byte{}
	}
	b.Queue(insert("room_files", "room", "n", "record", "data", "at"),
		recordVersion, keyText(r.Group), n, record, data, f.At)
	return nil
}
