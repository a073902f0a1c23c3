package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/store/postgres"
	"ravenbot/internal/testing/pgtest"
)

// general is a claim.
const general = "web:/general"

// members are processes that store tasks and do them, and are ended by one another at any moment.
type members struct {
	t   *testing.T
	url string

	next    atomic.Int64 // number of the next task
	ended   atomic.Int64 // memberships
	mu      sync.Mutex
	waiting map[string]int   // tasks that were stored, and how often they were done
	owners  map[string]int64 // of keys, as they found out last
	conn    *pgx.Conn
}

// step is an outcome of a write: false where the process is no member any more.
func (m *members) step(r *replica, err error) bool {
	if err == nil {
		return true
	}
	if r.Owned() == nil {
		m.t.Errorf("the write of a member failed: %v", err)
	}
	return false
}

// do does a task.
func (m *members) do(r *replica, name string) bool {
	err := end(m.t.Context(), r.DB, name)
	if err == nil {
		m.mu.Lock()
		m.waiting[name]++
		m.mu.Unlock()
	}
	return m.step(r, err)
}

// take does what others have left.
func (m *members) take(r *replica) bool {
	left, err := r.Take(m.t.Context(), all)
	if !m.step(r, err) {
		return false
	}
	m.ended.Add(int64(len(left.From)))
	for _, name := range strings.Split(describe(left), ", ") {
		if name != "" && !m.do(r, name) {
			return false
		}
	}
	return true
}

// accept stores a new task.
func (m *members) accept(r *replica) (string, bool) {
	name := fmt.Sprint(m.next.Add(1))
	isNew, err := add(m.t.Context(), r.DB, name, general)
	if err == nil && isNew {
		m.mu.Lock()
		m.waiting[name] += 0
		m.mu.Unlock()
	}
	return name, m.step(r, err)
}

// claim asks who owns a key, and checks that no other member thinks that it does.
func (m *members) claim(r *replica) bool {
	key := fmt.Sprint("key ", rand.IntN(4))
	owner, err := r.Claim(m.t.Context(), key)
	if err != nil || owner.ID != r.id {
		return m.step(r, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.owners[key]
	m.owners[key] = r.id
	// One of the two may have been ended meanwhile.
	var members int
	err = m.conn.QueryRow(m.t.Context(), "select count(*) from ravenbot.replicas where id in ($1, $2)", before, r.id).
		Scan(&members)
	if err != nil || members > 1 {
		m.t.Errorf("%s is owned by %d and by %d (%v)", key, before, r.id, err)
	}
	return true
}

// work makes a process store and do tasks until ctx ends, and another one in its place when its membership was ended.
func (m *members) work(ctx context.Context) {
	for ctx.Err() == nil {
		r, err := joinMember(m.t, m.url, postgres.Options{MaxConns: 2})
		if err != nil {
			m.t.Error(err)
			return
		}
		for isMember := true; isMember && ctx.Err() == nil; {
			isMember = m.take(r) && m.claim(r)
			var name string
			if isMember {
				name, isMember = m.accept(r)
			}
			if isMember {
				isMember = m.do(r, name)
			}
		}
		if err := r.Close(); err != nil {
			m.t.Error(err)
		}
	}
}

// Whatever moment a membership ends at, each task that was stored is done once, and keys have one owner.
func TestMembers_EndAtAnyMoment_EachTaskIsDoneOnce(t *testing.T) {
	m := &members{t: t, url: pgtest.Start(t), waiting: map[string]int{}, owners: map[string]int64{}}
	open(t, m.url, time.Now) // makes the tables
	m.conn = connect(t, m.url)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { m.work(ctx) })
	}
	conn := connect(t, m.url)
	const ends = 12
	await(t, "memberships end", func() bool {
		<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond)
		_, err := conn.Exec(t.Context(), `update ravenbot.replicas set expires_at = '-infinity'
			where id = (select id from ravenbot.replicas order by random() limit 1)`)
		if err != nil {
			t.Fatal(err)
		}
		return m.ended.Load() >= ends
	})
	stop()
	wg.Wait()
	if !m.take(joinReplica(t, m.url)) {
		t.Fatal("the last one is no member")
	}
	if len(m.waiting) < ends {
		t.Errorf("only %d tasks were stored", len(m.waiting))
	}
	for name, times := range m.waiting {
		if times != 1 {
			t.Errorf("task %s was done %d times", name, times)
		}
	}
}
