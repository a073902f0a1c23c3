package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres/pgtest"
)

// received returns a message in a channel.
func received(id string) store.Received {
	return store.Received{Message: chat.Message{ID: id, Conversation: general, Time: time.Now()}, At: time.Now()}
}

// channel returns the address of a thread in a channel.
func channel(name string) chat.Address {
	return chat.Address{Platform: "web", Channel: name, Thread: "1"}
}

// leave stores messages, pending posts and posts that were given up, as a process that ends.
func (r *replica) leave(t *testing.T, prefix string, n int) {
	t.Helper()
	for i := range n {
		m := received(fmt.Sprintf("%s%d", prefix, i))
		m.Message.Conversation = channel(prefix)
		if isNew, err := r.Accept(t.Context(), m); !isNew || err != nil {
			t.Fatalf("accepted: %v, %v", isNew, err)
		}
		posts := []store.Post{
			{Key: fmt.Sprintf("%s post %d", prefix, i), To: channel(prefix)},
			{Key: fmt.Sprintf("%s failed %d", prefix, i), To: channel(prefix)},
			{Key: fmt.Sprintf("%s told %d", prefix, i), To: channel(prefix)},
		}
		if err := r.SavePosts(t.Context(), posts); err != nil {
			t.Fatal(err)
		}
		err := r.SaveOutcomes(t.Context(), []store.Outcome{
			{Key: posts[1].Key, Error: "refused", At: time.Now()},
			{Key: posts[2].Key, Error: "refused", At: time.Now()},
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.MarkNotified(t.Context(), []string{posts[2].Key}); err != nil {
			t.Fatal(err)
		}
	}
}

// describe returns what there is to resume, in order.
func describe(messages []store.Received, posts []store.Post) string {
	var text string
	for _, m := range messages {
		text += m.Message.ID + ", "
	}
	for _, p := range posts {
		text += p.Key + ", "
	}
	return text
}

// own returns what a process has to resume at its start.
func (r *replica) own(t *testing.T) string {
	t.Helper()
	messages, err1 := r.Unanswered(t.Context())
	posts, err2 := r.PendingPosts(t.Context())
	lost, err3 := r.Unnotified(t.Context())
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return describe(messages, append(posts, lost...))
}

func TestInherit_WhatAMemberLeft_IsTheOthersInItsOrder(t *testing.T) {
	url := pgtest.Start(t)
	first, second, conn := joinReplica(t, url), joinReplica(t, url), connect(t, url)
	first.leave(t, "a", 2)
	second.leave(t, "b", 1)
	first.leave(t, "c", 1)
	const ofSecond = "b0, b post 0, b failed 0, "
	if got := second.own(t); got != ofSecond {
		t.Errorf("before, the second has %q, want %q", got, ofSecond)
	}
	for key, r := range map[string]*replica{"web:/a": first, "leader": first, "web:/y": first, "web:/b": second,
		"web:/x": second} {
		if r.owner(t, key) != r.id {
			t.Errorf("%s was not claimed", key)
		}
	}

	left := pause(t, conn, first, second)
	const want = "a0, a1, c0, a post 0, a failed 0, a post 1, a failed 1, c post 0, c failed 0, "
	if got := describe(left.Messages, left.Posts); got != want {
		t.Errorf("inherited %q, want %q", got, want)
	}
	if slices.Sort(left.Keys); !slices.Equal(left.Keys, []string{"leader", "web:/a", "web:/c"}) {
		t.Errorf("the keys %q came with it", left.Keys)
	}
	if n := second.Count(t, "claims"); n != 5 {
		t.Errorf("%d claims are left, want those of the three keys and the second's own", n)
	}
	const own = "a0, a1, b0, c0, a post 0, a post 1, b post 0, c post 0, " +
		"a failed 0, a failed 1, b failed 0, c failed 0, "
	if got := second.own(t); got != own {
		t.Errorf("afterwards the second has %q, want %q", got, own)
	}
	if all, err := second.Undelivered(t.Context()); err != nil || len(all) != 8 {
		t.Errorf("%d posts are undelivered (%v), want those of all", len(all), err)
	}
	third := joinReplica(t, url)
	if got := third.own(t); got != "" {
		t.Errorf("a new member has %q", got)
	}
	for key, want := range map[string]int64{
		"web:/a": second.id, // there is something to resume
		"web:/c": second.id, // that, too; nobody had claimed it
		"web:/b": second.id,
		"web:/x": second.id,
		"leader": second.id, // what was left may be the leader's
		"web:/y": third.id,  // it was free
	} {
		if got := third.owner(t, key); got != want {
			t.Errorf("%s is owned by %d, want %d", key, got, want)
		}
	}
}

// What a third member owns stays its own, also where what another one left is to go there.
func TestInherit_ChannelOfAThird_StaysThere(t *testing.T) {
	url := pgtest.Start(t)
	first, second, third := joinReplica(t, url), joinReplica(t, url), joinReplica(t, url)
	for _, key := range []string{"web:/a", store.LeaderKey} {
		if third.owner(t, key) != third.id {
			t.Fatal("not claimed")
		}
	}
	first.leave(t, "a", 1)
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := second.inherit(t); len(left.Messages) != 1 || len(left.Posts) != 2 || len(left.Keys) > 0 {
		t.Errorf("inherited %q with the keys %q", describe(left.Messages, left.Posts), left.Keys)
	}
	for _, key := range []string{"web:/a", store.LeaderKey} {
		if got := second.owner(t, key); got != third.id {
			t.Errorf("%s is owned by %d, want %d", key, got, third.id)
		}
	}
}

// Rows of no member are left to whoever asks first: a tool has stored them, or a version that knew no members.
func TestInherit_RowsOfNobody(t *testing.T) {
	url := pgtest.Start(t)
	nobody := &replica{DB: open(t, url, time.Now)}
	nobody.leave(t, "a", 1)
	const all = "a0, a post 0, a failed 0, "
	if got := nobody.own(t); got != all {
		t.Errorf("without members there is %q, want %q", got, all)
	}
	member := joinReplica(t, url)
	if got := member.own(t); got != "" {
		t.Errorf("a member that has not inherited has %q", got)
	}
	if left := member.inherit(t); describe(left.Messages, left.Posts) != all || len(left.From) > 0 {
		t.Errorf("inherited %q from %+v, want %q", describe(left.Messages, left.Posts), left.From, all)
	}
	if got := nobody.own(t); got != all {
		t.Errorf("a tool reads %q, want %q", got, all)
	}
	if got := joinReplica(t, url).owner(t, "web:/a"); got != member.id {
		t.Errorf("the channel is owned by %d, want %d", got, member.id)
	}
}

// A message or a post alone is found, and its channel goes with it.
func TestInherit_OneRowOfNobody(t *testing.T) {
	for name, leave := range map[string]func(r *replica) error{
		"a message": func(r *replica) error {
			_, err := r.Accept(t.Context(), received("1"))
			return err
		},
		"a post": func(r *replica) error {
			return r.SavePosts(t.Context(), []store.Post{{Key: "web/1", To: general}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := pgtest.Start(t)
			if err := leave(&replica{DB: open(t, url, time.Now)}); err != nil {
				t.Fatal(err)
			}
			r := joinReplica(t, url)
			left := r.inherit(t)
			slices.Sort(left.Keys)
			if len(left.Messages)+len(left.Posts) != 1 ||
				!slices.Equal(left.Keys, []string{"leader", store.ClaimKey(general)}) {
				t.Errorf("inherited %q with the keys %q", describe(left.Messages, left.Posts), left.Keys)
			}
		})
	}
}

// However many inherit at once, one gets each row, and nobody waits for another.
func TestInherit_SeveralAtOnce_OneGetsEachRow(t *testing.T) {
	url := pgtest.Start(t)
	var heirs []*replica
	for range 3 {
		heirs = append(heirs, joinReplica(t, url))
	}
	const rounds, each = 5, 8
	for round := range rounds {
		// Half of it is of somebody who leaves, half of nobody.
		for n, r := range []*replica{joinReplica(t, url), {DB: open(t, url, time.Now)}} {
			r.leave(t, fmt.Sprintf("r%d-%d-", round, n), each/2)
			if r.Membership != nil {
				if err := r.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		var mu sync.Mutex
		got := map[string]int{}
		var wg sync.WaitGroup
		for _, r := range heirs {
			wg.Go(func() {
				for range 4 {
					left, err := r.Inherit(t.Context())
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					for _, m := range left.Messages {
						got[m.Message.ID]++
					}
					for _, p := range left.Posts {
						got[p.Key]++
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(got) != 3*each {
			t.Errorf("round %d: %d rows were inherited, want %d", round, len(got), 3*each)
		}
		for key, n := range got {
			if n != 1 {
				t.Errorf("round %d: %s was inherited %d times", round, key, n)
			}
		}
	}
}

// Whose time is over may be about to renew it, where the database was away: who has just joined cannot tell.
func TestInherit_JustJoined_WaitsForThoseWhoMayBeBack(t *testing.T) {
	url := pgtest.Start(t)
	open(t, url, time.Now)
	if _, err := connect(t, url).Exec(t.Context(), `insert into ravenbot.replicas (name, address, expires_at)
		values ('away/1', '', clock_timestamp() - interval '1 second')`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := joinReplica(t, url)
	if left := r.inherit(t); len(left.From) > 0 && time.Since(began) < 4*time.Second {
		t.Errorf("inherited at once from %+v", left.From)
	}
	await(t, "it inherits when the other one has not come back", func() bool { return len(r.inherit(t).From) == 1 })
}

// A member whose own time is over, and who is about to renew it, does not end its own membership.
func TestInherit_OwnTimeIsOver_GoesOn(t *testing.T) {
	url := pgtest.Start(t)
	r, conn := joinReplica(t, url), connect(t, url)
	for range 20 {
		if _, err := conn.Exec(t.Context(), "update ravenbot.replicas set expires_at = '-infinity'"); err != nil {
			t.Fatal(err)
		}
		if left := r.inherit(t); len(left.From) > 0 {
			t.Fatalf("inherited from itself: %+v", left.From)
		}
	}
	if err := r.save(t, `1`); err != nil {
		t.Error(err)
	}
}

// While another one is joining or inheriting, nobody waits for it.
func TestInherit_AnotherIsInheriting_ReturnsAtOnce(t *testing.T) {
	url := pgtest.Start(t)
	first, second := joinReplica(t, url), joinReplica(t, url)
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := connect(t, url).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), "select from ravenbot.format for update"); err != nil {
		t.Fatal(err)
	}
	if left := second.inherit(t); len(left.From) > 0 {
		t.Errorf("inherited from %+v beside another one", left.From)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := second.inherit(t); len(left.From) != 1 {
		t.Errorf("inherited from %+v afterwards", left.From)
	}
}

// A platform sends a message again to another process when the first has died between storing and acknowledging it:
// it is the same message, and waits for whoever inherits it.
func TestAccept_RepeatOfWhatADeadMemberStored_IsInherited(t *testing.T) {
	url := pgtest.Start(t)
	first, second, conn := joinReplica(t, url), joinReplica(t, url), connect(t, url)
	if isNew, err := first.Accept(t.Context(), received("1")); !isNew || err != nil {
		t.Fatal(isNew, err)
	}
	if isNew, err := second.Accept(t.Context(), received("1")); isNew || err != nil {
		t.Fatalf("a repeat at another replica: new %v, %v", isNew, err)
	}
	if got := second.own(t); got != "" {
		t.Errorf("the repeat made %q the second's", got)
	}
	if left := pause(t, conn, first, second); len(left.Messages) != 1 || left.Messages[0].Message.ID != "1" {
		t.Errorf("inherited %+v, want the message", left.Messages)
	}
}
