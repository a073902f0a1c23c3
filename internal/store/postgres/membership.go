package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
)

// Times of a membership.
const (
	// memberTime is how long a member that does not renew its time keeps the others from taking over.
	memberTime = 10 * time.Second
	// renewEvery is how often a member renews its time, retryRenew the pause after a renewal that failed.
	renewEvery = 2 * time.Second
	retryRenew = 500 * time.Millisecond
	// ownedFor is how long after it asked for a renewal a member begins to send something. The rest of its
	// time is for requests under way; a process that takes over looks for what one that took longer has posted.
	ownedFor = 7 * time.Second
)

// A database that was away has ended the time of all members at once. Whoever is the first to reach it again must
// not end the memberships of those who are about to renew theirs: a member whose last two renewals were
// further apart than maxGap, and one that has just joined, takes over for steadyFor only from those who left in
// order. That is more than the two tries which a renewal may need.
const (
	maxGap    = 2 * renewEvery
	steadyFor = 2 * (renewEvery + retryRenew)
)

// A member is a row of the table replicas. Writers take a key share lock on their own row, which lets one another
// and renewals pass; a process that takes over takes the strongest lock, which waits until the writers of the member have
// ended. A process that joins or takes over locks the row of the table format before, so that they come one after
// another.
const (
	lockMembers = `select from ravenbot.format for update`
	findOthers  = `select id, name, address from ravenbot.replicas
		where expires_at > clock_timestamp() and (alone or $1) order by id limit 1`
	addMember = `insert into ravenbot.replicas (name, address, alone, expires_at)
		values ($1, $2, $3, clock_timestamp() + make_interval(secs => $4)) returning id`
	renewMember = `update ravenbot.replicas set expires_at = clock_timestamp() + make_interval(secs => $2) where id = $1`
	endMember   = `update ravenbot.replicas set expires_at = '-infinity' where id = $1`
	checkMember = `select 1 from ravenbot.replicas where id = $1 for key share`
	// $2 is the topic and $3 what is told. A row is only written when that has changed.
	tell = `with mine as (update ravenbot.replicas set told = told || jsonb_build_object($2::text, $3::jsonb)
			where id = $1 and told -> $2::text is distinct from $3::jsonb)
		select id, told -> $2::text from ravenbot.replicas
			where id <> $1 and told ? $2::text and expires_at > clock_timestamp()`
	listMembers = `select id, name, address from ravenbot.replicas where expires_at > clock_timestamp() order by id`
)

// Membership is the part of this process among those that share a database, as store.Membership describes it. It refuses
// every write of a process that is no member.
type Membership struct {
	db *DB
	// pool is for renewals alone, so that they do not wait behind slow statements.
	pool  *pgxpool.Pool
	alone bool // no other process may be a member

	// mu guards the fields below. No statement runs while it is held.
	mu      sync.Mutex
	id      int64     // of the row; 0: not a member
	renewed time.Time // when the last renewal that succeeded was asked for
	steady  time.Time // since when no renewal was late
	// hasLeft and isLost are for good: a process that left or was taken over joins no more.
	hasLeft bool
	isLost  bool
	lost    chan struct{}
	stop    context.CancelFunc // of keep and listen
	kept    chan struct{}      // closed when keep has returned

	changed, waiting signal // see listen
}

// Membership returns the part of this process among those that share the database, which has not joined yet. From now on db
// writes only while it is a member, and Close ends its membership. Call it before any other method.
func (db *DB) Membership(ctx context.Context) (*Membership, error) {
	config := db.pool.Config()
	config.MaxConns = 2 // one may be of no use and not closed yet
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err == nil {
		// Before this process joins: a server whose last connections others have taken by then could not be asked for
		// a renewal, and what was accepted until its time is over would wait for another process.
		if err = pool.Ping(ctx); err != nil {
			pool.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("connect for renewals: %w", db.explain(err))
	}
	db.members = &Membership{
		db:      db,
		pool:    pool,
		lost:    make(chan struct{}),
		changed: make(signal, 1),
		waiting: make(signal, 1),
	}
	db.guard = db.members.guard
	return db.members, nil
}

// Reserve makes this process the only one that writes to the database until Close, and what others have left its
// own. It returns a *store.InUseError where there is another one. Call it before any other method.
func (db *DB) Reserve(ctx context.Context) error {
	m, err := db.Membership(ctx)
	if err != nil {
		return err
	}
	m.alone = true
	if _, err = m.Join(ctx, ""); err != nil {
		return err
	}
	_, err = m.Take(ctx, func(*kv.Spec, []byte) bool { return true })
	return err
}

// owner returns the id of this process as a member; 0: it is none.
func (db *DB) owner() int64 {
	if db.members == nil {
		return 0
	}
	db.members.mu.Lock()
	defer db.members.mu.Unlock()
	return db.members.id
}

// Owned returns why this process may not act on the records now, or nil.
func (db *DB) Owned() error {
	if db.members == nil {
		return nil
	}
	return db.members.owned(time.Now())
}

// IsShared reports whether this process is a member, whose time can be over.
func (db *DB) IsShared() bool { return db.members != nil }

// notOwnedError says why a process may not act on the records.
type notOwnedError string

func (e notOwnedError) Error() string { return string(e) }

const (
	errNotMember = notOwnedError("this process is not one of the replicas that share the database: it has not joined, " +
		"or has left")
	errTakenOver = notOwnedError("another replica has taken over what this one had")
)

// owned is Owned at an instant. A process that was paused finds that its time is over by one of two clocks: the
// monotonic one stands still while a machine sleeps, and the other one can be set back.
func (m *Membership) owned(now time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.id == 0:
		return errNotMember
	case m.isLost:
		return errTakenOver
	}
	if since := elapsed(m.renewed, now); since > ownedFor {
		return notOwnedError(fmt.Sprintf("the database has not confirmed for %v that this replica lives: another one may "+
			"have taken over", since.Round(time.Second)))
	}
	return nil
}

// elapsed returns how much time is between two instants by that of the two clocks which says more.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}

// guard queues what refuses a write of a process that is no member. It is part of the write's transaction, which
// keeps others from taking over until it has ended.
func (m *Membership) guard(b *batch) {
	id := m.db.owner() // 0 is nobody's
	b.Queue(checkMember, id).QueryRow(func(row pgx.Row) error {
		var ignored int
		err := row.Scan(&ignored)
		switch {
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		case id == 0:
			return errNotMember
		}
		m.noteLost(id)
		return errTakenOver
	})
}

// Join makes this process a member, and keeps renewing its time until Leave. It returns a *store.InUseError where
// another process wants to be alone, or where this one does and there are others. A process joins once.
func (m *Membership) Join(ctx context.Context, address string) (store.Replica, error) {
	m.mu.Lock()
	hasJoined := m.id != 0 || m.hasLeft
	m.mu.Unlock()
	if hasJoined {
		return store.Replica{}, errors.New("join the replicas: this process has joined before")
	}
	me := store.Replica{Name: processName(), Address: address}
	var asked time.Time
	// No guard: it asks for what this makes.
	err := m.db.writeWith(ctx, func(*batch) {}, func(t *tx) error {
		// Before the request, as in keep: the database counts from later on, so that this process stops first.
		asked = time.Now()
		by, err := t.findOthers(m.alone)
		if err != nil {
			return err
		}
		if len(by) > 0 {
			return &store.InUseError{Path: m.db.name, By: by[0]}
		}
		return t.send(func(b *batch) {
			b.Queue(addMember, me.Name, me.Address, m.alone, memberTime.Seconds()).
				QueryRow(func(row pgx.Row) error { return row.Scan(&me.ID) })
		})
	})
	if err != nil {
		return store.Replica{}, fmt.Errorf("join the replicas: %w", err)
	}
	// The membership lasts until Leave, and ctx may be that of the call alone.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.mu.Lock()
	m.id, m.renewed, m.steady, m.stop, m.kept = me.ID, asked, asked, stop, make(chan struct{})
	m.mu.Unlock()
	go m.keep(keeping, me.ID)
	if !m.alone {
		go m.listen(keeping)
	}
	return me, nil
}

// findOthers returns one of the members that keep this process from joining: all do where it wants to be alone.
func (t *tx) findOthers(alone bool) (list []store.Replica, err error) {
	err = t.send(func(b *batch) {
		b.Queue(lockMembers)
		b.Queue(findOthers, alone).Query(eachReplica(&list))
	})
	return list, err
}

// eachReplica returns what appends each row of a replica to a list.
func eachReplica(list *[]store.Replica) func(pgx.Rows) error {
	var r store.Replica
	return each([]any{&r.ID, &r.Name, &r.Address}, func() error {
		*list = append(*list, r)
		return nil
	})
}

// processName returns the name of this process for people.
func processName() string {
	host, _ := os.Hostname() // "" with an error
	return fmt.Sprintf("%s/%d", cmp.Or(host, "unknown"), os.Getpid())
}

// keep renews the time of the member until ctx ends or another process has taken over. A database that does not answer
// is no reason to give up: the others cannot take over meanwhile either.
func (m *Membership) keep(ctx context.Context, id int64) {
	defer close(m.kept)
	wait := renewEvery
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		// Before the request: the database counts from later on, so that this process stops first.
		asked := time.Now()
		ok, err := m.renew(ctx, id)
		switch {
		case err != nil:
			wait = retryRenew
		case !ok:
			m.noteLost(id)
			return
		default:
			m.noteRenewed(asked)
			wait = renewEvery
		}
	}
}

// renew returns false where another process has taken over.
func (m *Membership) renew(ctx context.Context, id int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	tag, err := m.pool.Exec(ctx, renewMember, id, memberTime.Seconds())
	return tag.RowsAffected() == 1, err
}

// noteRenewed notes a renewal that was asked for at an instant, and begins the steady time again where it came late.
func (m *Membership) noteRenewed(asked time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if elapsed(m.renewed, asked) > maxGap {
		m.steady = asked
	}
	m.renewed = asked
}

// isSteady reports whether no renewal was late for so long that the other members could renew, too. A process that
// is alone found before it joined that their time is over.
func (m *Membership) isSteady(now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.alone || elapsed(m.renewed, now) <= maxGap && elapsed(m.steady, now) >= steadyFor
}

// noteLost notes, once, that another process has taken over what a member of an id had.
func (m *Membership) noteLost(id int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id == id && !m.isLost {
		m.isLost = true
		close(m.lost)
	}
}

// Lost is closed when another process has taken over what this one had.
func (m *Membership) Lost() <-chan struct{} { return m.lost }

// Replicas returns the members whose time is not over.
func (m *Membership) Replicas(ctx context.Context) (list []store.Replica, err error) {
	err = m.db.read(ctx, func(ctx context.Context) error {
		list = nil
		return m.db.query(ctx, listMembers, nil, eachReplica(&list))
	})
	if err != nil {
		return nil, fmt.Errorf("list the replicas: %w", err)
	}
	return list, nil
}

// Tell replaces what this process tells the others under a topic, and returns what each of them tells, by their ids. It
// is no write in the sense of the records: what a process tells whose time is over is deleted with its row.
func (m *Membership) Tell(
	ctx context.Context,
	topic string,
	mine json.RawMessage,
) (others map[int64]json.RawMessage, err error) {
	err = m.db.read(ctx, func(ctx context.Context) error {
		others = map[int64]json.RawMessage{}
		var id int64
		var told []byte
		return m.db.query(ctx, tell, []any{m.db.owner(), topic, mine}, each([]any{&id, &told}, func() error {
			others[id] = told
			return nil
		}))
	})
	if err != nil {
		return nil, fmt.Errorf("tell the other replicas: %w", err)
	}
	return others, nil
}

// Leave lets another process take over at once. Nothing is written afterwards. It may be called more than once, and waits
// for the renewal under way, two seconds at most; with an error others take over when its time is over.
func (m *Membership) Leave(ctx context.Context) error {
	m.mu.Lock()
	id, stop, kept := m.id, m.stop, m.kept
	// First, so that no write begins any more; a process that takes over waits for those under way.
	m.id, m.hasLeft = 0, true
	m.mu.Unlock()
	if id == 0 {
		return nil
	}
	// A renewal that comes after endMember would give the row its time back, and keep the others from taking over.
	stop()
	<-kept
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if _, err := m.pool.Exec(ctx, leave, id); err != nil {
		return fmt.Errorf("leave the replicas: %w", err)
	}
	return nil
}

// close ends the membership and closes its connection.
func (m *Membership) close() error {
	err := m.Leave(context.Background())
	m.pool.Close()
	return err
}
