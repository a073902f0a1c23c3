package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
)

// oldTurns are the first turns of a conversation, as far as they are to be deleted.
type oldTurns struct {
	id      int64 // of the conversation
	address chat.Address
	summary uint64 // Seq of the last turn that a summary covers
	upto    uint64 // Seq
	expired uint64 // as far as they are over the retention
}

// summaryJSON is the record of a summary s from which the server can read numbers: it refuses to look into JSON with a
// NUL. The texts are of a kind that reads backslashes alike whatever standard_conforming_strings is.
const summaryJSON = `replace(s.record::text, E'\\u0000', E'\\u0020')::json`

// pruneConversations deletes old turns: those that are over their conversation's retention, from the indexes,
// too, and those that a summary has covered for long. The index of these stays, so that the summary is
// written again when one of their messages is deleted.
func (p *pruner) pruneConversations() error {
	join := "left join"
	if p.keep.Conversations == nil {
		join = "join" // only conversations with a summary lose anything
	}
	var o oldTurns
	var first *int64
	return p.inPages(`select c.address, c.id, coalesce((`+summaryJSON+` ->> 'upto')::bigint, 0),
			floor(extract(epoch from (select t.began from ravenbot.turns t
				where t.conversation = c.id order by t.seq limit 1)))::bigint
		from ravenbot.conversations c `+join+` ravenbot.summaries s on s.address = c.address
		where c.address > $1 and c.turns > 0 order by c.address limit $2`,
		[]any{&o.id, &o.summary, &first}, func(a chat.Address) (func() error, error) {
			o.address = a
			if first == nil || !p.mayBeOld(time.Unix(*first, 0), o) {
				return nil, nil
			}
			found := o
			return func() error { return p.pruneTurns(found) }, nil
		})
}

// inPages runs a query that selects conversations in the order of their addresses: those behind $1, $2 of them. For
// each it scans the address, and what is selected behind it into scans, and calls look, which returns what is to be
// done with the conversation once the page is read, or nil.
func (p *pruner) inPages(sql string, scans []any, look func(chat.Address) (func() error, error)) error {
	after := ""
	scans = append([]any{&after}, scans...)
	for more := true; more; {
		more = false
		var found []func() error // not emptied where the query is repeated: that begins behind the row that was read last
		err := p.db.read(p.ctx, func(ctx context.Context) error {
			return p.db.query(ctx, sql, []any{after, maxLooked}, each(scans, func() error {
				more = true
				a, err := chat.ParseAddress(parseKey(after))
				if err != nil {
					return err
				}
				act, err := look(a)
				if act != nil {
					found = append(found, act)
				}
				return err
			}))
		})
		if err != nil {
			return err
		}
		for _, act := range found {
			if err := errors.Join(p.ctx.Err(), act()); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayBeOld reports whether a conversation may have turns that are to be deleted, by when its first one began.
func (p *pruner) mayBeOld(began time.Time, o oldTurns) bool {
	return !began.Before(p.now.Truncate(time.Second)) || p.isOver(began, p.keep.Conversation(o.address)) ||
		o.summary > 0 && p.isOver(began, keepTurns)
}

// pruneTurns deletes the old turns of a conversation, in small transactions, and the conversation itself where nothing
// is left of it.
func (p *pruner) pruneTurns(o oldTurns) error {
	if err := p.findOld(&o); err != nil || o.upto == 0 {
		return err
	}
	p.changed[o.address] = true
	for left := true; left; {
		// The index entries up to expired alone go: a deletion has to find the summary that has words of the others.
		err := p.db.write(p.ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				b.Queue(`with gone as (delete from ravenbot.turns where conversation = $1 and seq in
						(select seq from ravenbot.turns where conversation = $1 and seq <= $2 order by seq limit $4)
						returning seq),
					places as (delete from ravenbot.message_turns m using gone g
						where m.conversation = $1 and m.seq = g.seq and g.seq <= $3),
					quotes as (delete from ravenbot.quotes q using gone g
						where q.conversation = $1 and q.seq = g.seq and g.seq <= $3)
					update ravenbot.conversations set turns = turns - (select count(*) from gone) where id = $1
						and exists (select from gone)`, o.id, int64(o.upto), int64(o.expired), maxDeleted).
					Exec(func(tag pgconn.CommandTag) error {
						left = tag.RowsAffected() > 0
						return nil
					})
			})
		})
		if err != nil {
			return err
		}
	}
	return p.dropConversation(o.address)
}

// findOld finds out which turns of a conversation are old. The first that is young ends them.
func (p *pruner) findOld(o *oldTurns) error {
	var err error
	var after, micros int64
	done := false
	for more := true; err == nil && more && !done; {
		more = false
		err = p.db.read(p.ctx, func(ctx context.Context) error {
			return p.db.query(ctx, `select seq, (extract(epoch from began) * 1000000)::bigint from ravenbot.turns
				where conversation = $1 and seq > $2 order by seq limit $3`,
				[]any{o.id, after, maxLooked}, each([]any{&after, &micros}, func() error {
					more = true
					seq, began := uint64(after), time.UnixMicro(micros)
					switch {
					// A clock that was ahead for a while must not keep what came later.
					case done, began.After(p.now):
					case p.isOver(began, p.keep.Conversation(o.address)):
						o.upto, o.expired = seq, seq
					case seq <= o.summary && p.isOver(began, keepTurns):
						o.upto = seq
					default:
						done = true
					}
					return nil
				}))
		})
	}
	return err
}

// dropConversation deletes a conversation that has neither turns nor words in a summary left, as far as it has
// no messages outside of turns. While there is a summary, the number of the last turn stays: the summary names
// turns by their numbers.
func (p *pruner) dropConversation(a chat.Address) error {
	key := keyText(a.String())
	return p.db.write(p.ctx, func(t *tx) error {
		var s conversation.Summary
		turns := int64(0)
		err := t.send(func(b *pgx.Batch) {
			b.Queue(`select turns from ravenbot.conversations where address = $1 for update`, key).
				Query(each([]any{&turns}, func() error { return nil }))
			t.lockSummary(b, key, &s)
		})
		if err != nil || turns > 0 || s.Text != "" {
			return orUnchanged(err)
		}
		return t.send(func(b *pgx.Batch) {
			b.Queue(`update ravenbot.conversations set last_turn = null where address = $1`, key)
			b.Queue(`delete from ravenbot.conversations where address = $1 and messages is null`, key)
			b.Queue(`delete from ravenbot.summaries where address = $1`, key)
		})
	})
}

// lockSummary queues reading the summary of a conversation into s. Other transactions that want to change it
// wait.
func (t *tx) lockSummary(b *pgx.Batch, key string, s *conversation.Summary) {
	b.Queue(`select v, record from ravenbot.summaries where address = $1 for update`, key).
		Query(eachRecord(t.db, "summaries", func(kept conversation.Summary) { *s = kept }))
}

// pruneSummaries empties the summaries that may hold words which are over the retention of their
// conversation. What can be said of the turns that are left is for whoever writes summaries.
func (p *pruner) pruneSummaries() error {
	if p.keep.Conversations == nil {
		return nil
	}
	var v int16
	var record []byte
	return p.inPages(`select address, v, record from ravenbot.summaries where address > $1 order by address limit $2`,
		[]any{&v, &record}, func(a chat.Address) (func() error, error) {
			var s conversation.Summary
			err := p.db.decode("summaries", v, record, &s)
			if err != nil || !p.isOldSummary(a, s) {
				return nil, err
			}
			return func() error { return p.emptySummary(a) }, nil
		})
}

// isOldSummary reports whether a summary has words of messages that are older than the conversation keeps them.
func (p *pruner) isOldSummary(a chat.Address, s conversation.Summary) bool {
	return s.Text != "" && p.isOver(s.Since, p.keep.Conversation(a))
}

// emptySummary takes the words out of a summary that is still too old.
func (p *pruner) emptySummary(a chat.Address) error {
	key := keyText(a.String())
	emptied := false
	err := p.db.write(p.ctx, func(t *tx) error {
		emptied = false
		var s conversation.Summary
		err := t.send(func(b *pgx.Batch) { t.lockSummary(b, key, &s) })
		if emptied = err == nil && p.isOldSummary(a, s); !emptied {
			return orUnchanged(err)
		}
		record, err := encode(conversation.Summary{Upto: s.Upto, From: s.Upto + 1, Since: p.now, At: p.now})
		if err == nil {
			_, err = t.exec(`update ravenbot.summaries set v = $2, record = $3 where address = $1`, key, recordVersion, record)
		}
		return err
	})
	if err != nil || !emptied {
		return err
	}
	p.changed[a] = true
	return p.dropConversation(a)
}

// pruneMessages deletes old messages that stand outside of turns.
func (p *pruner) pruneMessages() error {
	if p.keep.Conversations == nil {
		return nil
	}
	var id int64
	var oldest string
	return p.inPages(`select c.address, c.id, coalesce((select m.at from ravenbot.messages m
			where m.conversation = c.id order by m.at limit 1), '')
		from ravenbot.conversations c where c.address > $1 and c.messages is not null order by c.address limit $2`,
		[]any{&id, &oldest}, func(a chat.Address) (func() error, error) {
			keep := p.keep.Conversation(a)
			id, before := id, timeKey(p.now.Add(-keep))
			// One without messages is dropped below.
			if keep <= 0 || oldest >= before {
				return nil, nil
			}
			return func() error { return p.deleteOldMessages(id, before) }, nil
		})
}

// deleteOldMessages deletes the messages of a conversation that were said before a time, and the conversation
// where nothing else is kept of it.
func (p *pruner) deleteOldMessages(id int64, before string) error {
	for left := true; left; {
		err := p.db.write(p.ctx, func(t *tx) error {
			return t.send(func(b *pgx.Batch) {
				b.Queue(`with gone as (delete from ravenbot.messages where conversation = $1 and id in
						(select id from ravenbot.messages where conversation = $1 and at < $2 order by at, id limit $4)
						returning id)
					update ravenbot.conversations set messages = messages - (select count(*) from gone), message_version = $3
					where id = $1 and exists (select from gone)`, id, before, randomID(), maxDeleted).
					Exec(func(tag pgconn.CommandTag) error {
						left = tag.RowsAffected() > 0
						return nil
					})
				b.Queue(`update ravenbot.conversations set messages = null where id = $1 and messages = 0`, id)
				b.Queue(`delete from ravenbot.conversations where id = $1 and messages is null and last_turn is null`, id)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
