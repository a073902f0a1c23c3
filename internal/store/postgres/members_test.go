package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"ravenbot/internal/chat"
	"ravenbot/internal/conversation"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
)

// members are processes that accept and answer messages, and are ended by one another at any moment.
type members struct {
	t   *testing.T
	url string

	next    atomic.Int64 // number of the next message
	ended   atomic.Int64 // memberships
	mu      sync.Mutex
	waiting map[string]int   // messages that were accepted, and how often they were answered
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

// answer stores the answer to a message.
func (m *members) answer(r *replica, message chat.Message) bool {
	key := message.Key()
	err := r.SaveAnswer(m.t.Context(), general, []string{key}, &conversation.Turn{ID: key, Began: time.Now()}, nil)
	if err == nil {
		m.mu.Lock()
		m.waiting[key]++
		m.mu.Unlock()
	}
	return m.step(r, err)
}

// inherit answers what others have left.
func (m *members) inherit(r *replica) bool {
	left, err := r.Inherit(m.t.Context())
	if !m.step(r, err) {
		return false
	}
	m.ended.Add(int64(len(left.From)))
	for _, message := range left.Messages {
		if !m.answer(r, message.Message) {
			return false
		}
	}
	return true
}

// accept stores a new message.
func (m *members) accept(r *replica) (chat.Message, bool) {
	message := received(fmt.Sprint(m.next.Add(1)))
	isNew, err := r.Accept(m.t.Context(), message)
	if err == nil && isNew {
		m.mu.Lock()
		m.waiting[message.Message.Key()] += 0
		m.mu.Unlock()
	}
	return message.Message, m.step(r, err)
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

// work lets a process accept and answer until ctx ends, and another one in its place when its membership was ended.
func (m *members) work(ctx context.Context) {
	for ctx.Err() == nil {
		r, err := joinMember(m.t, m.url, postgres.Options{MaxConns: 2})
		if err != nil {
			m.t.Error(err)
			return
		}
		for isMember := true; isMember && ctx.Err() == nil; {
			isMember = m.inherit(r) && m.claim(r)
			var message chat.Message
			if isMember {
				message, isMember = m.accept(r)
			}
			if isMember {
				isMember = m.answer(r, message)
			}
		}
		if err := r.Close(); err != nil {
			m.t.Error(err)
		}
	}
}

// Whatever moment a membership ends at, each message that was accepted is answered once, and keys have one owner.
func TestMembers_EndAtAnyMoment_EachMessageIsAnsweredOnce(t *testing.T) {
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
	if !m.inherit(joinReplica(t, m.url)) {
		t.Fatal("the last one is no member")
	}
	if len(m.waiting) < ends {
		t.Errorf("only %d messages were accepted", len(m.waiting))
	}
	for key, answers := range m.waiting {
		if answers != 1 {
			t.Errorf("message %s was answered %d times", key, answers)
		}
	}
}
