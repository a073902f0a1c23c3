package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store"
)

// Summary returns the summary of the older turns of a conversation; its Upto is 0 where there is none.
func (db *DB) Summary(ctx context.Context, a chat.Address) (conversation.Summary, error) {
	s, _, err := readRecord[conversation.Summary](ctx, db, "summaries",
		`select v, record from ravenbot.summaries where address = $1`, keyText(a.String()))
	if err != nil {
		return conversation.Summary{}, fmt.Errorf("load the summary of %s: %w", a, err)
	}
	return s, nil
}

// SaveSummary stores the summary of the older turns of a conversation.
func (db *DB) SaveSummary(ctx context.Context, a chat.Address, s conversation.Summary) error {
	record, err := encode(s)
	if err == nil {
		err = db.write(ctx, func(t *tx) error {
			_, err := t.exec(`insert into ravenbot.summaries (address, v, record) values ($1, $2, $3)
				on conflict (address) do update set v = excluded.v, record = excluded.record`,
				keyText(a.String()), recordVersion, record)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("store the summary of %s: %w", a, err)
	}
	return nil
}

// HasConversation reports whether anything is kept of a conversation.
func (db *DB) HasConversation(ctx context.Context, a chat.Address) (has bool, err error) {
	err = db.read(ctx, func(ctx context.Context) error {
		return db.pool.QueryRow(ctx, `select exists (select from ravenbot.conversations where address = $1)`,
			keyText(a.String())).Scan(&has)
	})
	if err != nil {
		return false, fmt.Errorf("look for conversation %s: %w", a, err)
	}
	return has, nil
}

// maxPage bounds the rows of a page, so that one more can be asked for.
const maxPage = 1 << 30

// Conversations returns up to n conversations behind a cursor, by address, and the cursor behind them; "":
// there are no more.
func (db *DB) Conversations(
	ctx context.Context,
	cursor string,
	n int,
) (list []store.ConversationInfo, next string, err error) {
	after, err := readCursor(cursor, 1)
	if err != nil {
		return nil, "", fmt.Errorf("list conversations: %w", err)
	}
	n = min(n, maxPage)
	var last string
	err = db.read(ctx, func(ctx context.Context) error {
		list, next = nil, ""
		var key, said string
		var began *time.Time
		var turns int
		// Only the newest turn and message are looked at.
		return db.query(ctx, `select c.address, c.turns,
				(select t.began from ravenbot.turns t where t.conversation = c.id order by t.seq desc limit 1),
				coalesce((select m.at from ravenbot.messages m
					where m.conversation = c.id order by m.at desc limit 1), '')
			from ravenbot.conversations c where c.address > $1 order by c.address limit $2`,
			[]any{after[0], n + 1}, each([]any{&key, &turns, &began, &said}, func() error {
				if len(list) == n {
					next = writeCursor(last)
					return nil
				}
				info := store.ConversationInfo{Turns: turns}
				if began != nil {
					info.Last = began.UTC()
				}
				if t, err := time.Parse(time.RFC3339Nano, said); err == nil && t.After(info.Last) {
					info.Last = t
				}
				var err error
				info.Address, err = chat.ParseAddress(parseKey(key))
				list, last = append(list, info), key
				return err
			}))
	})
	if err != nil {
		return nil, "", fmt.Errorf("list conversations: %w", err)
	}
	return list, next, nil
}

// Versions returns the versions of a channel and of the threads in it, by address. It reads no record: the hashes of
// turns and the version of the messages tell of every change.
func (db *DB) Versions(ctx context.Context, channel chat.Address) ([]store.ConversationVersion, error) {
	var list []store.ConversationVersion
	err := db.read(ctx, func(ctx context.Context) error {
		list = nil
		var address string
		var version uint64
		var seq, hash int64
		return db.query(ctx, `select c.address, case when c.messages > 0 then c.message_version else 0 end,
				coalesce(t.seq, 0), coalesce(t.hash, 0)
			from ravenbot.conversations c left join ravenbot.turns t on t.conversation = c.id
			where c.channel = $1 and (c.messages > 0 or t.seq is not null) order by c.address, t.seq`,
			[]any{keyText(channel.Base().String())}, each([]any{&address, &version, &seq, &hash}, func() error {
				a, err := chat.ParseAddress(parseKey(address))
				if err != nil {
					return err
				}
				if len(list) == 0 || list[len(list)-1].Address != a {
					v := store.ConversationVersion{Address: a, Turns: map[uint64]uint64{}, Messages: version}
					list = append(list, v)
				}
				if seq > 0 {
					list[len(list)-1].Turns[uint64(seq)] = uint64(hash)
				}
				return nil
			}))
	})
	if err != nil {
		return nil, fmt.Errorf("read the versions of %s: %w", channel, err)
	}
	return list, nil
}

// maxDeleted is how many rows one transaction of maintenance deletes: whoever waits for one of them, or for
// the disk, waits for a few milliseconds.
const maxDeleted = 200

// DeleteConversation removes the turns, the messages outside of turns, the summary and the large results of a
// conversation. It returns store.ErrNotFound where nothing is kept. The conversation is out of sight after
// the first transaction; what a crash leaves of it is deleted by Prune.
func (db *DB) DeleteConversation(ctx context.Context, a chat.Address) error {
	var id int64
	err := db.write(ctx, func(t *tx) error {
		return t.send(func(b *pgx.Batch) {
			b.Queue(`with gone as (delete from ravenbot.conversations where address = $1 returning id, address)
				insert into ravenbot.deleted_conversations (id, address) select id, address from gone returning id`,
				keyText(a.String())).QueryRow(func(row pgx.Row) error {
				err := row.Scan(&id)
				if errors.Is(err, pgx.ErrNoRows) {
					err = store.ErrNotFound
				}
				return err
			})
			b.Queue(`delete from ravenbot.summaries where address = $1`, keyText(a.String()))
			b.Queue(`delete from ravenbot.results where address = $1`, keyText(a.String()))
			t.noteChange(b, store.ConversationChanges)
		})
	})
	if err == nil {
		err = db.emptyConversation(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("delete conversation %s: %w", a, err)
	}
	return nil
}

// emptyConversation deletes what hangs on the id of a deleted conversation, in small transactions.
func (db *DB) emptyConversation(ctx context.Context, id int64) error {
	for left := true; left; {
		err := db.write(ctx, func(t *tx) error {
			left = false
			return t.send(func(b *pgx.Batch) {
				for _, sql := range []string{
					`delete from ravenbot.turns where conversation = $1 and seq in
						(select seq from ravenbot.turns where conversation = $1 order by seq limit $2)`,
					`delete from ravenbot.messages where conversation = $1 and id in
						(select id from ravenbot.messages where conversation = $1 order by id limit $2)`,
					`delete from ravenbot.message_turns where subject in
						(select subject from ravenbot.message_turns where conversation = $1 order by seq limit $2)`,
					`delete from ravenbot.quotes where conversation = $1 and (subject, seq) in
						(select subject, seq from ravenbot.quotes where conversation = $1 order by seq limit $2)`,
				} {
					b.Queue(sql, id, maxDeleted).Exec(func(tag pgconn.CommandTag) error {
						left = left || tag.RowsAffected() >= maxDeleted
						return nil
					})
				}
			})
		})
		if err != nil {
			return err
		}
	}
	// Last: as long as this row is there, Prune goes on where a crash has cut the rest off.
	return db.write(ctx, func(t *tx) error {
		_, err := t.exec(`delete from ravenbot.deleted_conversations where id = $1`, id)
		return err
	})
}
