package postgres

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
)

// dayFormat writes a day of usage, which is one in UTC. As text, days are in their order.
const dayFormat = "2006-01-02"

// countTurn queues adding the usage of a turn to the sums, without what was counted before: a turn may be
// answered more than once.
func (t *tx) countTurn(b *pgx.Batch, a chat.Address, turn *conversation.Turn) {
	used := turn.Usage.Sub(turn.Counted)
	if used == (llm.Usage{}) {
		return
	}
	turn.Counted = turn.Usage
	t.addUsage(b, store.Usage{Model: turn.Model, Channel: a, User: turn.User, Turns: 1, Tokens: used})
}

// CountUsage adds usage outside of turns to the sums of today.
func (db *DB) CountUsage(ctx context.Context, u store.Usage) error {
	err := db.write(ctx, func(t *tx) error {
		return t.send(func(b *pgx.Batch) { t.addUsage(b, u) })
	})
	if err != nil {
		return fmt.Errorf("count usage: %w", err)
	}
	return nil
}

// addUsage queues adding usage to the sums of today, and notes it for what this process has counted once the
// transaction is committed.
func (t *tx) addUsage(b *pgx.Batch, u store.Usage) {
	u.Day = t.db.Now().UTC().Format(dayFormat)
	u.Channel = u.Channel.Base() // threads count for their channel
	t.used = append(t.used, u)
	b.Queue(`insert into ravenbot.usage as u (day, model, channel, user_id, turns, input, cached, output)
		values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (day, model, channel, user_id) do update
		set turns = u.turns + excluded.turns, input = u.input + excluded.input, cached = u.cached + excluded.cached,
		output = u.output + excluded.output`, u.Day, keyText(u.Model), addressKey(u.Channel), keyText(u.User),
		u.Turns, u.Tokens.Input, u.Tokens.Cached, u.Tokens.Output)
}

// ownUsage is what this process has counted on one day.
type ownUsage struct {
	mu   sync.Mutex
	day  string
	sums map[store.Usage]store.Usage // by themselves without their numbers
}

// usageKey returns a sum without its numbers.
func usageKey(u store.Usage) store.Usage {
	return store.Usage{Day: u.Day, Model: u.Model, Channel: u.Channel, User: u.User}
}

// add counts what a committed transaction has counted.
func (o *ownUsage) add(used []store.Usage) {
	if len(used) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range used {
		if u.Day > o.day {
			o.day, o.sums = u.Day, map[store.Usage]store.Usage{}
		}
		if u.Day == o.day {
			sum := o.sums[usageKey(u)]
			sum.Turns, sum.Tokens = sum.Turns+u.Turns, sum.Tokens.Add(u.Tokens)
			o.sums[usageKey(u)] = sum
		}
	}
}

// of returns a copy of the sums of a day.
func (o *ownUsage) of(day string) map[store.Usage]store.Usage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.day != day {
		return nil
	}
	return maps.Clone(o.sums)
}

// UsageOfOthers returns the sums of a day, written as 2006-01-02, without what this process has counted since the store
// was opened. What it counts meanwhile may be in them.
func (db *DB) UsageOfOthers(ctx context.Context, day string) (list []store.Usage, err error) {
	// Read first: a sum that is too large for a moment keeps a cap, one that is too small does not.
	own := db.ownUsage.of(day)
	err = db.read(ctx, func(ctx context.Context) error {
		list = nil
		var r usageRow
		const sql = `select ` + usageColumns + ` from ravenbot.usage where day = $1`
		return db.query(ctx, sql, []any{day}, each(r.scans(), func() error {
			u, err := r.usage()
			mine := own[usageKey(u)]
			u.Turns, u.Tokens = u.Turns-mine.Turns, u.Tokens.Sub(mine.Tokens)
			if u.Turns != 0 || u.Tokens != (llm.Usage{}) {
				list = append(list, u)
			}
			return err
		}))
	})
	if err != nil {
		return nil, fmt.Errorf("read what other processes have used: %w", err)
	}
	return list, nil
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
		var r usageRow
		return db.query(ctx, `select `+usageColumns+` from ravenbot.usage
			where day >= $1 and (day, model, channel, user_id) > ($2, $3, $4, $5)
			order by day, model, channel, user_id limit $6`,
			[]any{from, after[0], after[1], after[2], after[3], n + 1}, each(r.scans(), func() error {
				if len(list) == n {
					next = writeCursor(last...)
					return nil
				}
				u, err := r.usage()
				list, last = append(list, u), []string{u.Day, r.model, r.channel, r.user}
				return err
			}))
	})
	if err != nil {
		return nil, "", fmt.Errorf("list usage: %w", err)
	}
	return list, next, nil
}

// usageRow is where the usageColumns of a row are scanned.
type usageRow struct {
	sum                  store.Usage
	model, channel, user string
}

const usageColumns = `day, model, channel, user_id, turns, input, cached, output`

// scans returns what the usageColumns are scanned into.
func (r *usageRow) scans() []any {
	used := &r.sum.Tokens
	return []any{&r.sum.Day, &r.model, &r.channel, &r.user, &r.sum.Turns, &used.Input, &used.Cached, &used.Output}
}

// usage returns the sum of the row that was scanned last.
func (r *usageRow) usage() (u store.Usage, err error) {
	u = r.sum
	u.Model, u.User = parseKey(r.model), parseKey(r.user)
	u.Channel, err = parseAddressKey(r.channel)
	return u, err
}
