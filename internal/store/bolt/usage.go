package bolt

import (
	"context"
	"fmt"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
)

// dayFormat is the format of days in keys and in store.Usage, in UTC.
const dayFormat = "2006-01-02"

// countTurn adds the usage of a turn to the sums, without what was counted before: a turn
// may be answered more than once.
func (db *DB) countTurn(tx *tx, a chat.Address, turn *conversation.Turn) error {
	used := turn.Usage.Sub(turn.Counted)
	if used == (llm.Usage{}) {
		return nil
	}
	turn.Counted = turn.Usage
	return db.addUsage(tx, store.Usage{Model: turn.Model, Channel: a, User: turn.User, Turns: 1, Tokens: used})
}

// CountUsage adds usage outside of turns to the sums of today.
func (db *DB) CountUsage(ctx context.Context, u store.Usage) error {
	if err := db.update(ctx, func(tx *tx) error { return db.addUsage(tx, u) }); err != nil {
		return fmt.Errorf("count usage: %w", err)
	}
	return nil
}

// addUsage adds to what a day, a model, a channel and a user have used.
func (db *DB) addUsage(tx *tx, more store.Usage) error {
	u := store.Usage{
		Day:     db.now().UTC().Format(dayFormat),
		Model:   more.Model,
		Channel: more.Channel.Base(), // threads count for their channel
		User:    more.User,
	}
	key := []byte(strings.Join([]string{u.Day, u.Model, u.Channel.String(), u.User}, nul))
	if _, err := tx.top(usageBucket).get(key, &u); err != nil {
		return err
	}
	u.Turns += more.Turns
	u.Tokens = u.Tokens.Add(more.Tokens)
	return tx.top(usageBucket).put(key, u)
}

// Usage returns up to n sums from a day on, written as 2006-01-02, behind a cursor, and the cursor
// behind them; "": there are no more.
func (db *DB) Usage(ctx context.Context, from, cursor string, n int) (list []store.Usage, next string, err error) {
	after, err := readCursor(cursor)
	// A key has four parts; anything else would be a place behind the last sum, and the list would look complete.
	if err == nil && after != nil && strings.Count(string(after), nul) != 3 {
		err = store.CursorError{Cursor: cursor}
	}
	if err != nil {
		return nil, "", fmt.Errorf("list usage: %w", err)
	}
	err = db.view(func(tx *tx) error {
		c := tx.top(usageBucket).cursor()
		k, v := c.from(after)
		if string(after) < from {
			k, v = c.seek([]byte(from)) // keys begin with the day
		}
		var last []byte
		for ; k != nil; k, v = c.next() {
			if len(list) == n {
				next = writeCursor(last)
				return nil
			}
			var u store.Usage
			if err := db.decode(k, v, &u); err != nil {
				return err
			}
			list, last = append(list, u), k
		}
		return nil
	})
	if err != nil {
		return nil, "", fmt.Errorf("list usage: %w", err)
	}
	return list, next, nil
}
