package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
)

const dayFormat = "2006-01-02"

// countTurn queues adding the usage of a turn to the sums, without what was counted before: a turn may be
// answered more than once.
func countTurn(b *pgx.Batch, now time.Time, a chat.Address, turn *conversation.Turn) error {
	used := turn.Usage.Sub(turn.Counted)
	if used == (llm.Usage{}) {
		return nil
	}
	turn.Counted = turn.Usage
	return addUsage(b, now, store.Usage{Model: turn.Model, Channel: a, User: turn.User, Turns: 1, Tokens: used})
}

// CountUsage adds usage outside of turns to the sums of today.
func (db *DB) CountUsage(ctx context.Context, u store.Usage) error {
	err := db.write(ctx, func(t *tx) error {
		return t.sendAll(func(b *pgx.Batch) error { return addUsage(b, db.now(), u) })
	})
	if err != nil {
		return fmt.Errorf("count usage: %w", err)
	}
	return nil
}

func addUsage(b *pgx.Batch, now time.Time, u store.Usage) error {
	b.Queue(`insert into ravenbot.usage as u (day, model, channel, user_id, turns, input, cached, output)
		values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (day, model, channel, user_id) do update
		set turns = u.turns + excluded.turns, input = u.input + excluded.input, cached = u.cached + excluded.cached,
		output = u.output + excluded.output`, now.UTC().Format(dayFormat), keyText(u.Model),
		addressKey(u.Channel.Base()), // threads count for their channel
		keyText(u.User), u.Turns, u.Tokens.Input, u.Tokens.Cached, u.Tokens.Output)
	return nil
}

// addressKey is the key of an address; "" where that names nothing.
func addressKey(a chat.Address) string {
	if a.IsZero() {
		return ""
	}
	return keyText(a.String())
}

// parseAddressKey returns the address of which addressKey returned the form.
func parseAddressKey(key string) (chat.Address, error) {
	if key == "" {
		return chat.Address{}, nil
	}
	return chat.ParseAddress(parseKey(key))
}

// Usage returns up to n sums from a day on, written as 2006-01-02, behind a cursor, and the cursor behind
// them; "": there are no more.
func (db *DB) Usage(ctx context.Context, from, cursor string, n int) (list []store.Usage, next string, err error) {
	after, err := readCursor(cursor, 4)
	if err != nil {
		return nil, "", fmt.Errorf("list usage: %w", err)
	}
	n = min(n, maxPage)
	var last []string
	err = db.read(ctx, func(ctx context.Context) error {
		list, next = nil, ""
		return db.eachRow(ctx, `select day, model, channel, user_id, turns, input, cached, output from ravenbot.usage
			where day >= $1 and (day, model, channel, user_id) > ($2, $3, $4, $5)
			order by day, model, channel, user_id limit $6`,
			[]any{from, after[0], after[1], after[2], after[3], n + 1}, func(rows pgx.Rows) error {
				if len(list) == n {
					next = writeCursor(last...)
					return nil
				}
				u, err := scanUsage(rows)
				list, last = append(list, u), []string{u.Day, keyText(u.Model), addressKey(u.Channel), keyText(u.User)}
				return err
			})
	})
	if err != nil {
		return nil, "", fmt.Errorf("list usage: %w", err)
	}
	return list, next, nil
}

// scanUsage reads a row of the table, whose columns are in the order of the query in Usage.
func scanUsage(row scanner) (u store.Usage, err error) {
	var model, channel, user string
	err = row.Scan(&u.Day, &model, &channel, &user, &u.Turns, &u.Tokens.Input, &u.Tokens.Cached, &u.Tokens.Output)
	if err != nil {
		return u, err
	}
	u.Model, u.User = parseKey(model), parseKey(user)
	u.Channel, err = parseAddressKey(channel)
	return u, err
}
