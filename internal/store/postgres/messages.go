package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// SaveMessages stores those messages whose ID their conversation does not have yet, and returns how many
// these are.
func (db *DB) SaveMessages(ctx context.Context, list []store.Message) (added int, err error) {
	addresses := map[string]chat.Address{}
	for _, m := range list {
		addresses[keyText(m.Conversation.String())] = m.Conversation
	}
	err = db.write(ctx, func(t *tx) error {
		added = 0 // this change may run more than once
		ids, err := t.lockConversations(addresses)
		if err != nil {
			return err
		}
		addedTo := map[string]int64{}
		err = t.sendAll(func(b *pgx.Batch) error {
			for _, m := range list {
				key := keyText(m.Conversation.String())
				record, err := encode(m)
				if err != nil {
					return err
				}
				b.Queue(`insert into ravenbot.messages (conversation, at, id, platform, v, record)
					values ($1, $2, $3, $4, $5, $6) on conflict do nothing`, ids[key], timeKey(m.At), keyText(m.ID),
					keyText(m.Conversation.Platform), recordVersion, record).Exec(func(tag pgconn.CommandTag) error {
					addedTo[key] += tag.RowsAffected()
					added += int(tag.RowsAffected())
					return nil
				})
			}
			return nil
		})
		if err != nil {
			return err
		}
		if added == 0 {
			return errUnchanged
		}
		return t.send(func(b *pgx.Batch) {
			for key, n := range addedTo {
				b.Queue(`update ravenbot.conversations set messages = messages + $2, message_version = $3 where id = $1`,
					ids[key], n, randomID())
			}
		})
	})
	if err != nil {
		return 0, fmt.Errorf("store messages: %w", err)
	}
	return added, nil
}

// lockConversations returns the ids of conversations, which it makes where there are none, and locks them.
// All lock in the same order.
func (t *tx) lockConversations(addresses map[string]chat.Address) (map[string]int64, error) {
	ids := map[string]int64{}
	return ids, t.send(func(b *pgx.Batch) {
		for _, key := range slices.Sorted(maps.Keys(addresses)) {
			b.Queue(`insert into ravenbot.conversations as c (id, address, channel, messages) values ($1, $2, $3, 0)
				on conflict (address) do update set messages = coalesce(c.messages, 0) returning id`,
				randomID(), key, keyText(addresses[key].Base().String())).QueryRow(func(row pgx.Row) error {
				var id int64
				err := row.Scan(&id)
				ids[key] = id
				return err
			})
		}
	})
}

// Messages returns up to n messages of a conversation behind a cursor, oldest first, and the cursor behind the last of
// them; where there are none it is the same cursor, behind which later messages may come.
func (db *DB) Messages(
	ctx context.Context,
	a chat.Address,
	cursor string,
	n int,
) (list []store.Message, next string, err error) {
	after, err := readCursor(cursor, 2)
	if err == nil {
		list, err = readRecords[store.Message](ctx, db, "messages",
			`select v, record from ravenbot.messages
			where conversation = (select id from ravenbot.conversations where address = $1)
			and (at, id) > ($2, $3) order by at, id limit $4`,
			keyText(a.String()), after[0], after[1], max(n, 0))
	}
	if err != nil {
		return nil, "", fmt.Errorf("load messages of %s: %w", a, err)
	}
	if len(list) > 0 {
		last := list[len(list)-1]
		cursor = writeCursor(timeKey(last.At), keyText(last.ID))
	}
	return list, cursor, nil
}

// NewestMessages returns the newest n messages of a conversation before a cursor, oldest first, and the cursor before
// the first of them; empty: there are none.
func (db *DB) NewestMessages(
	ctx context.Context,
	a chat.Address,
	cursor string,
	n int,
) (list []store.Message, next string, err error) {
	before, err := readCursor(cursor, 2)
	if err == nil {
		where, args := "", []any{keyText(a.String()), max(n, 0) + 1} // one more says whether there are older ones
		if cursor != "" {
			where, args = "and (at, id) < ($3, $4)", append(args, before[0], before[1])
		}
		list, err = readRecords[store.Message](ctx, db, "messages",
			`select v, record from ravenbot.messages
			where conversation = (select id from ravenbot.conversations where address = $1) `+where+`
			order by at desc, id desc limit $2`, args...)
	}
	if err != nil {
		return nil, "", fmt.Errorf("load messages of %s: %w", a, err)
	}
	if len(list) > n && n > 0 {
		list = list[:n]
		next = writeCursor(timeKey(list[n-1].At), keyText(list[n-1].ID))
	}
	slices.Reverse(list)
	return list, next, nil
}

// DeleteMessage deletes the messages of an ID in all conversations of a platform; there may be none.
func (db *DB) DeleteMessage(ctx context.Context, platform, id string) error {
	err := db.write(ctx, func(t *tx) error {
		n, err := t.exec(`with gone as (delete from ravenbot.messages where id = $1 and platform = $2 returning conversation)
			update ravenbot.conversations c set messages = c.messages - g.n, message_version = $3
			from (select conversation, count(*) as n from gone group by conversation) g where c.id = g.conversation`,
			keyText(id), keyText(platform), randomID())
		if err == nil && n == 0 {
			err = errUnchanged
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete message %s of %s: %w", id, platform, err)
	}
	return nil
}
