package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// turnWrite is a change that stores a turn, with calls and posts that need numbers.
type turnWrite struct {
	tx       *tx
	to       chat.Address
	turn     *conversation.Turn // nil: there is none
	calls    []store.ToolCall
	newPosts int

	isNew        bool
	conversation int64 // of a new turn
	postNumbers  []uint64
	callNumbers  []uint64
}

// allocate takes the numbers of what is new, in one round trip; where nothing is new, in none.
func (w *turnWrite) allocate() error {
	w.isNew = w.turn != nil && w.turn.Seq == 0
	w.postNumbers, w.callNumbers = make([]uint64, w.newPosts), make([]uint64, len(w.calls))
	return w.tx.send(func(b *pgx.Batch) {
		if w.isNew {
			queueNewTurn(b, w.to, 0).QueryRow(func(row pgx.Row) error {
				var seq int64
				err := row.Scan(&w.conversation, &seq)
				w.turn.Seq = uint64(seq)
				return err
			})
		}
		nextNumbers(b, "post_seq", w.postNumbers)
		nextNumbers(b, "call_seq", w.callNumbers)
	})
}

// queueNewTurn queues counting a turn that is about to be inserted, which locks its conversation, and
// returns the conversation's id and the turn's number: seq, or where that is 0 the next one.
func queueNewTurn(b *pgx.Batch, a chat.Address, seq uint64) *pgx.QueuedQuery {
	return b.Queue(`insert into ravenbot.conversations as c (id, address, channel, last_turn, turns)
		values ($1, $2, $3, greatest($4::bigint, 1), 1) on conflict (address) do update
		set last_turn = greatest($4::bigint, coalesce(c.last_turn, 0) + case when $4 = 0 then 1 else 0 end),
			turns = c.turns + 1
		returning id, last_turn`, randomID(), keyText(a.String()), keyText(a.Base().String()), int64(seq))
}

// save stores the turn and what more queues, in one round trip.
func (w *turnWrite) save(more func(b *pgx.Batch) error) error {
	isMissing := false
	err := w.tx.sendAll(func(b *pgx.Batch) error {
		if err := more(b); err != nil {
			return err
		}
		if err := queueCalls(b, w.calls, w.callNumbers); err != nil || w.turn == nil {
			return err
		}
		record, err := encode(w.turn)
		switch {
		case err != nil:
			return err
		case w.isNew:
			queueInsertTurn(b, w.conversation, *w.turn, record)
			return nil
		}
		b.Queue(`update ravenbot.turns t set v = $3, record = $4, began = $5, hash = $6 from ravenbot.conversations c
			where c.address = $1 and t.conversation = c.id and t.seq = $2`, keyText(w.to.String()),
			int64(w.turn.Seq), recordVersion, record, w.turn.Began, hashOf(record)).Exec(func(tag pgconn.CommandTag) error {
			isMissing = tag.RowsAffected() == 0
			return nil
		})
		queueMessageTurns(b, w.to, *w.turn)
		return nil
	})
	if err != nil || !isMissing {
		return err
	}
	return w.restore()
}

// restore stores a turn that has a number and was deleted meanwhile, perhaps with its conversation.
func (w *turnWrite) restore() error {
	err := w.tx.send(func(b *pgx.Batch) {
		queueNewTurn(b, w.to, w.turn.Seq).QueryRow(func(row pgx.Row) error {
			var last int64
			return row.Scan(&w.conversation, &last)
		})
	})
	if err != nil {
		return err
	}
	return w.tx.sendAll(func(b *pgx.Batch) error {
		record, err := encode(w.turn)
		if err != nil {
			return err
		}
		queueInsertTurn(b, w.conversation, *w.turn, record)
		queueMessageTurns(b, w.to, *w.turn)
		return nil
	})
}

// queueInsertTurn queues inserting a turn with the index of what it answers and quotes.
func queueInsertTurn(b *pgx.Batch, conversation int64, t conversation.Turn, record string) {
	b.Queue(`insert into ravenbot.turns (conversation, seq, v, record, began, hash) values ($1, $2, $3, $4, $5, $6)`,
		conversation, int64(t.Seq), recordVersion, record, t.Began, hashOf(record))
	// A message may be part of a turn already; one of a deleted conversation does not count.
	b.Queue(`insert into ravenbot.message_turns (subject, conversation, seq)
		select s, $2, $3 from unnest($1::text[]) s where not exists (select from ravenbot.message_turns m
			join ravenbot.conversations c on c.id = m.conversation where m.subject = s)
		on conflict (subject) do update set conversation = excluded.conversation, seq = excluded.seq`,
		distinctKeys(t.Subjects()), conversation, int64(t.Seq))
	// What a turn quotes is known when it begins, so that later steps need no index.
	if quotes := t.Quotes(); len(quotes) > 0 {
		b.Queue(`insert into ravenbot.quotes (subject, n, conversation, seq)
			select s, coalesce((select max(q.n) from ravenbot.quotes q where q.subject = s), 0) + 1, $2, $3
			from unnest($1::text[]) s on conflict do nothing`, distinctKeys(quotes), conversation, int64(t.Seq))
	}
}

// queueMessageTurns queues indexing the messages of a turn that is there: more may have been added to it.
func queueMessageTurns(b *pgx.Batch, a chat.Address, t conversation.Turn) {
	b.Queue(`insert into ravenbot.message_turns (subject, conversation, seq)
		select s, c.id, $3 from unnest($1::text[]) s join ravenbot.conversations c on c.address = $2
		where not exists (select from ravenbot.message_turns m
			join ravenbot.conversations o on o.id = m.conversation where m.subject = s)
		on conflict (subject) do update set conversation = excluded.conversation, seq = excluded.seq`,
		distinctKeys(t.Subjects()), keyText(a.String()), int64(t.Seq))
}

// distinctKeys returns the forms of keys, each once and in their order.
func distinctKeys(keys []string) []string {
	var distinct []string
	for _, form := range keyTexts(keys) {
		if !slices.Contains(distinct, form) {
			distinct = append(distinct, form)
		}
	}
	return distinct
}

// SaveTurn stores a turn as far as it has come, with the calls that ended since it was saved last, in one
// transaction. It sets the turn's Seq.
func (db *DB) SaveTurn(ctx context.Context, a chat.Address, turn *conversation.Turn, calls ...store.ToolCall) error {
	var saved conversation.Turn
	err := db.write(ctx, func(t *tx) error {
		saved = *turn // the change may run more than once
		w := turnWrite{tx: t, to: a, turn: &saved, calls: calls}
		if err := w.allocate(); err != nil {
			return err
		}
		return w.save(func(*pgx.Batch) error { return nil })
	})
	if err != nil {
		return fmt.Errorf("store turn of %s: %w", a, err)
	}
	turn.Seq = saved.Seq
	return nil
}

// Turns returns turns of a conversation, oldest first.
func (db *DB) Turns(ctx context.Context, a chat.Address, r store.Range) ([]conversation.Turn, error) {
	after, upto := min(r.After, math.MaxInt64), min(cmp.Or(r.Upto, math.MaxInt64), math.MaxInt64)
	// With the id as a value of its own the newest are read from the index, however many there are.
	turns, err := readRecords[conversation.Turn](ctx, db, "turns",
		`select v, record from ravenbot.turns
		where conversation = (select id from ravenbot.conversations where address = $1)
		and seq > $2 and seq <= $3 order by seq desc limit $4`,
		keyText(a.String()), int64(after), int64(upto), max(r.Newest, 0))
	if err != nil {
		return nil, fmt.Errorf("load conversation %s: %w", a, err)
	}
	slices.Reverse(turns)
	return turns, nil
}

// TurnOf returns the turn that holds a message, and its conversation. It returns store.ErrNotFound where none
// does; with a conversation, the turn was deleted or pruned.
func (db *DB) TurnOf(ctx context.Context, subject string) (chat.Address, conversation.Turn, error) {
	var a chat.Address
	var turn conversation.Turn
	found := false
	err := db.read(ctx, func(ctx context.Context) error {
		var address string
		var v int16
		var record []byte
		return db.query(ctx, `select c.address, coalesce(t.v, 0), t.record from ravenbot.message_turns m
			join ravenbot.conversations c on c.id = m.conversation
			left join ravenbot.turns t on t.conversation = m.conversation and t.seq = m.seq
			where m.subject = $1`, []any{keyText(subject)}, each([]any{&address, &v, &record}, func() (err error) {
			if a, err = chat.ParseAddress(parseKey(address)); err != nil || record == nil {
				return err
			}
			found = true
			return db.decode("turns", v, record, &turn)
		}))
	})
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return a, conversation.Turn{}, fmt.Errorf("load the turn of message %s: %w", subject, err)
	}
	return a, turn, nil
}

// DeleteTurn removes a turn; there may be none.
func (db *DB) DeleteTurn(ctx context.Context, a chat.Address, seq uint64) error {
	err := db.write(ctx, func(t *tx) error {
		return t.send(func(b *pgx.Batch) {
			b.Queue(`with gone as (
				delete from ravenbot.turns t using ravenbot.conversations c
				where c.address = $1 and t.conversation = c.id and t.seq = $2 returning t.conversation, t.seq),
			places as (delete from ravenbot.message_turns m using gone g
				where m.conversation = g.conversation and m.seq = g.seq),
			quotes as (delete from ravenbot.quotes q using gone g
				where q.conversation = g.conversation and q.seq = g.seq)
			update ravenbot.conversations c set turns = c.turns - 1 from gone g where c.id = g.conversation`,
				keyText(a.String()), int64(seq))
			t.noteChange(b, store.ConversationChanges)
		})
	})
	if err != nil {
		return fmt.Errorf("delete a turn of %s: %w", a, err)
	}
	return nil
}

// TurnsQuoting returns where the turns are that quoted a message when they were first stored.
func (db *DB) TurnsQuoting(ctx context.Context, subject string) (list []store.TurnRef, err error) {
	err = db.read(ctx, func(ctx context.Context) error {
		list = nil
		var address string
		var seq uint64
		return db.query(ctx, `select c.address, q.seq from ravenbot.quotes q
			join ravenbot.conversations c on c.id = q.conversation
			where q.subject = $1 order by q.n, c.address, q.seq`,
			[]any{keyText(subject)}, each([]any{&address, &seq}, func() error {
				a, err := chat.ParseAddress(parseKey(address))
				list = append(list, store.TurnRef{Conversation: a, Seq: seq})
				return err
			}))
	})
	if err != nil {
		return nil, fmt.Errorf("find the turns that quote message %s: %w", subject, err)
	}
	return list, nil
}
