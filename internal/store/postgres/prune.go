package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// How long records are kept that no setting is about. What was said is kept no longer than the conversation
// that it belongs to.
const (
	keepDone        = 48 * time.Hour      // keys of finished messages and posts: longer than platforms redeliver
	keepLastSeen    = 30 * 24 * time.Hour // of a conversation
	keepUndelivered = 7 * 24 * time.Hour  // posts that were given up
	keepTurns       = 30 * 24 * time.Hour // that a summary covers
	keepShown       = 30 * 24 * time.Hour // which turn a post shows
	keepApprovals   = 30 * 24 * time.Hour
)

// Bounds of one statement of maintenance that looks for what is old.
const (
	maxLooked = 1000
	maxSearch = 5 * time.Minute
)

// pruner deletes what is older than it is kept, as of one instant. Several at once, also of several
// processes, do no harm: each deletes what is old and still there.
type pruner struct {
	db      *DB
	ctx     context.Context
	now     time.Time
	keep    store.Retention
	changed map[chat.Address]bool // conversations that lost turns or their summary
}

// Prune deletes the records that are older than they are kept, in small transactions. Without a retention of
// their conversation turns are deleted only where a summary covers them. It returns the conversations that
// lost turns or their summary, by address.
func (db *DB) Prune(ctx context.Context, keep store.Retention) ([]chat.Address, error) {
	p := &pruner{db: db, ctx: ctx, now: db.Now(), keep: keep, changed: map[chat.Address]bool{}}
	for _, step := range []func() error{
		p.emptyDeleted,
		p.pruneShortLived,
		p.pruneByConversation,
		p.pruneConversations,
		p.pruneSummaries,
		p.pruneIndexes,
		p.pruneMessages,
		p.pruneRooms,
	} {
		if err := errors.Join(ctx.Err(), step()); err != nil {
			return p.changedAddresses(), fmt.Errorf("prune store: %w", errors.Join(err, p.noteChanged()))
		}
	}
	if err := p.noteChanged(); err != nil {
		return p.changedAddresses(), fmt.Errorf("prune store: %w", err)
	}
	return p.changedAddresses(), nil
}

// noteChanged lets other processes forget what they remember of the conversations that lost something.
func (p *pruner) noteChanged() error {
	if len(p.changed) == 0 {
		return nil
	}
	// Also when ctx has ended: what was deleted until then is deleted, and the others would go on using it.
	return p.db.write(context.WithoutCancel(p.ctx), func(t *tx) error {
		return t.send(func(b *pgx.Batch) { t.noteChange(b, store.ConversationChanges) })
	})
}

// changedAddresses returns the conversations that lost something, by address.
func (p *pruner) changedAddresses() []chat.Address {
	return slices.SortedFunc(maps.Keys(p.changed), func(a, b chat.Address) int {
		return strings.Compare(a.String(), b.String())
	})
}

// isOver reports whether something is older than it is kept; 0: it is kept without end.
func (p *pruner) isOver(at time.Time, keep time.Duration) bool {
	return keep > 0 && at.Before(p.now.Add(-keep))
}

// emptyDeleted deletes what crashes have left of deleted conversations.
func (p *pruner) emptyDeleted() error {
	var ids []int64
	err := p.db.read(p.ctx, func(ctx context.Context) error {
		ids = nil
		var id int64
		return p.db.query(ctx, `select id from ravenbot.deleted_conversations`, nil, each([]any{&id}, func() error {
			ids = append(ids, id)
			return nil
		}))
	})
	for _, id := range ids {
		if err == nil {
			err = p.db.emptyConversation(p.ctx, id)
		}
	}
	return err
}

// deleteAll runs a statement that deletes up to maxDeleted rows, the last parameter, until there are no more. Each run
// is a transaction of its own, so that nobody waits for long.
func (p *pruner) deleteAll(sql string, args ...any) error { return p.deleteKind("", sql, args...) }

// deleteKind is deleteAll for records whose changes are counted under a kind; "" stands for none.
func (p *pruner) deleteKind(kind, sql string, args ...any) error {
	for n := int64(maxDeleted); n >= maxDeleted; {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		err := p.db.write(p.ctx, func(t *tx) (err error) {
			n, err = t.exec(sql, append(slices.Clone(args), maxDeleted)...)
			switch {
			case err != nil:
				return err
			case n == 0:
				return errUnchanged
			case kind != "":
				return t.send(func(b *pgx.Batch) { t.noteChange(b, kind) })
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pruneShortLived deletes what is kept for a time that is the same for all.
func (p *pruner) pruneShortLived() error {
	before := func(keep time.Duration) time.Time { return p.now.Add(-keep) }
	type step struct {
		sql    string
		before any
	}
	steps := []step{
		{`delete from ravenbot.inbox where key in (select key from ravenbot.inbox
			where done_at < $1 and record is null order by done_at limit $2)`, before(keepDone)},
		{`delete from ravenbot.posts where key in (select key from ravenbot.posts
			where done_at < $1 and record is null order by done_at limit $2)`, before(keepDone)},
		// A post that waits or was given up stays: only the place of what replaced it is old.
		{`update ravenbot.posts set done = null, done_at = null where key in (select key from ravenbot.posts
			where done_at < $1 and record is not null order by done_at limit $2)`, before(keepDone)},
		{`delete from ravenbot.streams where key in (select key from ravenbot.streams
			where at < $1 order by at limit $2)`, before(keepDone)},
		{`delete from ravenbot.seen_items where (digest, item) in (select digest, item from ravenbot.seen_items
			where at < $1 order by at limit $2)`, before(keepSeen)},
	}
	if p.keep.Usage > 0 {
		steps = append(steps, step{`delete from ravenbot.usage where (day, model, channel, user_id) in
			(select day, model, channel, user_id from ravenbot.usage where day < $1 order by day limit $2)`,
			before(p.keep.Usage).UTC().Format(dayFormat)})
	}
	for _, s := range steps {
		if err := p.deleteAll(s.sql, s.before); err != nil {
			return err
		}
	}
	if p.keep.Feedback <= 0 {
		return nil
	}
	return p.deleteKind(store.FeedbackChanges, `delete from ravenbot.feedback where (turn, user_id) in
		(select turn, user_id from ravenbot.feedback where at < $1 order by at limit $2)`, before(p.keep.Feedback))
}

// inConversations are the tables whose rows are kept no longer than what was said in their conversation, and
// no longer than a limit of their own.
func (p *pruner) inConversations() []struct {
	table, key, where string
	keep              time.Duration // 0: without end
} {
	return []struct {
		table, key, where string
		keep              time.Duration
	}{
		// What was not given up is still to be sent.
		{"posts", "key", "failed and record is not null", keepUndelivered},
		{"last_seen", "address", "true", keepLastSeen},
		{"shown_turns", "platform, message, address", "true", keepShown},
		{"approvals", "turn, call", "true", keepApprovals},
		{"calls", "seq", "true", p.keep.Calls},
		{"results", "id", "true", p.keep.Calls},
	}
}

// pruneByConversation deletes the rows of inConversations that are too old.
func (p *pruner) pruneByConversation() error {
	for _, c := range p.inConversations() {
		remove := "delete from ravenbot." + c.table
		if c.table == "posts" {
			// A post that was given up may have been replaced, and where the other is stays known.
			err := p.deleteAll(`update ravenbot.posts set record = null, failed = false where key in (select key
				from ravenbot.posts where failed and record is not null and done is not null and at < $1 limit $2)`,
				p.now.Add(-keepUndelivered))
			if err != nil {
				return err
			}
		}
		one := fmt.Sprintf(`%s where (%s) in (select %s from ravenbot.%s where %s and at < $1 order by at limit $2)`,
			remove, c.key, c.key, c.table, c.where)
		if c.keep > 0 {
			if err := p.deleteAll(one, p.now.Add(-c.keep)); err != nil {
				return err
			}
		}
		if p.keep.Conversations == nil {
			continue
		}
		oldest, err := p.oldestByAddress(c.table, c.where)
		if err != nil {
			return err
		}
		of := fmt.Sprintf(`%s where (%s) in (select %s from ravenbot.%s where %s and address = $1 and at < $2 limit $3)`,
			remove, c.key, c.key, c.table, c.where)
		for key, at := range oldest {
			a, err := parseAddressKey(key)
			if err != nil {
				return err
			}
			if keep := p.keep.Conversation(a); p.isOver(at, keep) {
				if err := p.deleteAll(of, key, p.now.Add(-keep)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// oldestByAddress returns the time of the oldest row of each conversation, rounded down to the second.
func (p *pruner) oldestByAddress(table, where string) (oldest map[string]time.Time, err error) {
	err = p.db.readWithin(p.ctx, maxSearch, func(ctx context.Context) error {
		oldest = map[string]time.Time{}
		sql := fmt.Sprintf(`select address, floor(extract(epoch from min(at)))::bigint
			from ravenbot.%s where %s group by address`, table, where)
		var key string
		var at int64
		return p.db.query(ctx, sql, nil, each([]any{&key, &at}, func() error {
			oldest[key] = time.Unix(at, 0)
			return nil
		}))
	})
	return oldest, err
}

// pruneIndexes deletes the entries of messages and quotes whose turn is gone, and in no summary.
func (p *pruner) pruneIndexes() error {
	for _, table := range []string{"message_turns", "quotes"} {
		gone := `select m.subject, m.conversation, m.seq from ravenbot.` + table + ` m
			left join ravenbot.conversations c on c.id = m.conversation
			left join ravenbot.summaries s on s.address = c.address
			where not exists (select from ravenbot.turns t where t.conversation = m.conversation and t.seq = m.seq)
			and (s.address is null or m.seq > (` + summaryJSON + ` ->> 'upto')::bigint
				or m.seq < coalesce((` + summaryJSON + ` ->> 'from')::bigint, 0))`
		// Finding out costs a look at the whole table, so that this is done once for many.
		for more := true; more; {
			var subjects []string
			var conversations, seqs []int64
			err := p.db.readWithin(p.ctx, maxSearch, func(ctx context.Context) error {
				subjects, conversations, seqs = nil, nil, nil
				var subject string
				var conversation, seq int64
				scans := []any{&subject, &conversation, &seq}
				return p.db.query(ctx, gone+` limit $1`, []any{maxLooked}, each(scans, func() error {
					subjects, conversations, seqs = append(subjects, subject), append(conversations, conversation), append(seqs, seq)
					return nil
				}))
			})
			if err != nil {
				return err
			}
			more = len(subjects) == maxLooked
			for i := 0; i < len(subjects); i += maxDeleted {
				end := min(i+maxDeleted, len(subjects))
				// By all three columns: a message may have become part of another turn since the search, and its entry is needed.
				err := p.db.write(p.ctx, func(t *tx) error {
					_, err := t.exec(`delete from ravenbot.`+table+` m using unnest($1::text[], $2::bigint[], $3::bigint[])
						as g (subject, conversation, seq)
						where m.subject = g.subject and m.conversation = g.conversation and m.seq = g.seq`,
						subjects[i:end], conversations[i:end], seqs[i:end])
					return err
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// pruneRooms deletes the old lines and files of web rooms.
func (p *pruner) pruneRooms() error {
	if p.keep.Rooms == nil {
		return nil
	}
	rooms, err := p.db.readKeys(p.ctx, `select name from ravenbot.rooms`)
	if err != nil {
		return err
	}
	for _, room := range rooms {
		keep := p.keep.Rooms(room)
		if keep == 0 {
			continue
		}
		for _, sql := range []string{
			`delete from ravenbot.entries where room = $1 and seq in (select seq from ravenbot.entries
				where room = $1 and at < $2 order by seq limit $3)`,
			`delete from ravenbot.room_files where room = $1 and n in (select n from ravenbot.room_files
				where room = $1 and at < $2 order by n limit $3)`,
		} {
			if err := p.deleteAll(sql, keyText(room), p.now.Add(-keep)); err != nil {
				return err
			}
		}
	}
	return nil
}
