package records

import (
	"context"
	"maps"
	"math"
	"strings"
	"sync"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// usage holds sums of usage, by day, model, channel and user.
var usage = kv.Of[store.Usage](kv.Spec{Name: "usage"})

// dayFormat is the format of days in keys and in store.Usage, in UTC.
const dayFormat = "2006-01-02"

// takeUsage returns the usage of a turn that was not counted before, and marks it as counted: a turn may be answered more
// than once.
func (s *Store) takeUsage(a chat.Address, turn *conversation.Turn) store.Usage {
	used := turn.Usage.Sub(turn.Counted)
	turn.Counted = turn.Usage
	return s.ofToday(store.Usage{Model: turn.Model, Channel: a, User: turn.User, Turns: 1, Tokens: used})
}

// ofToday returns usage as it is counted: for today, and for the channel of a thread.
func (s *Store) ofToday(u store.Usage) store.Usage {
	u.Day, u.Channel = s.Now().UTC().Format(dayFormat), u.Channel.Base()
	return u
}

// CountUsage adds usage outside of turns to the sums of today.
func (s *Store) CountUsage(ctx context.Context, u store.Usage) error {
	u = s.ofToday(u)
	err := s.update(ctx, func(tx kv.Tx) error { return addUsage(tx, u) }, channelScope(u.Channel))
	if err == nil {
		s.own.add(u)
	}
	return wrap(err, "count usage")
}

func usageKey(u store.Usage) string { return kv.Key(u.Day, u.Model, u.Channel.String(), u.User) }

// addUsage adds to what a day, a model, a channel and a user have used.
func addUsage(tx kv.Tx, more store.Usage) error {
	kept, found, err := usage.Get(tx, "", usageKey(more))
	if err != nil {
		return err
	}
	if found {
		more.Turns, more.Tokens = kept.Turns+more.Turns, kept.Tokens.Add(more.Tokens)
	}
	return usage.Put(tx, "", usageKey(more), more)
}

// ownUsage is what this process has counted on one day.
type ownUsage struct {
	mu   sync.Mutex
	day  string
	sums map[string]store.Usage // by usageKey
}

// add counts what a committed transaction has counted.
func (o *ownUsage) add(u store.Usage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if u.Day > o.day {
		o.day, o.sums = u.Day, map[string]store.Usage{}
	}
	if u.Day == o.day {
		sum := o.sums[usageKey(u)]
		sum.Turns, sum.Tokens = sum.Turns+u.Turns, sum.Tokens.Add(u.Tokens)
		o.sums[usageKey(u)] = sum
	}
}

// of returns a copy of the sums of a day.
func (o *ownUsage) of(day string) map[string]store.Usage {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.day != day {
		return nil
	}
	return maps.Clone(o.sums)
}

// usageOfOthers is Shared.UsageOfOthers.
func (s *Store) usageOfOthers(ctx context.Context, day string) (others []store.Usage, err error) {
	// Read first: a sum that is too large for a moment keeps a cap, one that is too small does not.
	own := s.own.of(day)
	found, err := list(ctx, s, usage, kv.Prefix("", day+"\x00"))
	for _, u := range found {
		mine := own[usageKey(u)]
		u.Turns, u.Tokens = u.Turns-mine.Turns, u.Tokens.Sub(mine.Tokens)
		if u.Turns != 0 || u.Tokens != (llm.Usage{}) {
			others = append(others, u)
		}
	}
	return others, wrap(err, "read what other processes have used")
}

// Usage returns up to n sums from a day on, written as 2006-01-02, behind a cursor, and the cursor behind them; it is empty
// if there are no more.
func (s *Store) Usage(ctx context.Context, from, cursor string, n int) (sums []store.Usage, next string, err error) {
	after, err := readCursor(cursor)
	// A key has four parts; anything else would be a place behind the last sum, and the list would look complete.
	if err == nil && after != "" && strings.Count(after, "\x00") != 3 {
		err = store.CursorError{Cursor: cursor}
	}
	n = min(max(n, 0), math.MaxInt-1)
	if err == nil {
		r := kv.Range{From: from, Limit: n + 1} // keys begin with the day
		if after != "" {
			r.From = max(from, kv.After(after))
		}
		err = s.View(ctx, func(tx kv.Tx) error {
			sums, next = nil, ""
			var last string
			return tx.Scan(usage.Spec, r, func(e kv.Entry) error {
				if len(sums) == n {
					next = writeCursor(last)
					return kv.ErrStop
				}
				u, err := usage.Decode(tx, "", e)
				sums, last = append(sums, u), e.Key
				return err
			})
		})
	}
	if err != nil {
		return nil, "", wrap(err, "list usage")
	}
	return sums, next, nil
}
