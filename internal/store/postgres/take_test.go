package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/store"
	"ravenbot/internal/store/kv"
	"ravenbot/internal/testing/pgtest"
)

// leave stores tasks, each with the claim of its prefix, and as many without a claim, as a process that ends.
func (r *replica) leave(t *testing.T, prefix string, n int) {
	t.Helper()
	for i := range n {
		name := fmt.Sprint(prefix, i)
		isNew, err1 := add(t.Context(), r.DB, name, "web:/"+prefix)
		_, err2 := add(t.Context(), r.DB, name+" without a claim", "")
		if err := errors.Join(err1, err2); !isNew || err != nil {
			t.Fatalf("added: %v, %v", isNew, err)
		}
	}
}

func TestTake_WhatAMemberLeft_IsTheOthersInItsOrder(t *testing.T) {
	url := pgtest.Start(t)
	first, second, conn := joinReplica(t, url), joinReplica(t, url), connect(t, url)
	first.leave(t, "a", 2)
	second.leave(t, "b", 1)
	first.leave(t, "c", 1)
	const ofSecond = "b0, b0 without a claim, "
	if got := own(t, second.DB); got != ofSecond {
		t.Errorf("before, the second has %q, want %q", got, ofSecond)
	}
	for key, r := range map[string]*replica{"web:/a": first, "leader": first, "web:/y": first, "web:/b": second,
		"web:/x": second} {
		if r.owner(t, key) != r.id {
			t.Errorf("%s was not claimed", key)
		}
	}

	left := pause(t, conn, first, second)
	const want = "a0, a0 without a claim, a1, a1 without a claim, c0, c0 without a claim, "
	if got := describe(left); got != want {
		t.Errorf("took %q, want %q", got, want)
	}
	if slices.Sort(left.Keys); !slices.Equal(left.Keys, []string{"leader", "web:/a", "web:/c"}) {
		t.Errorf("the keys %q came with it", left.Keys)
	}
	if n := second.Count(t, "claims"); n != 5 {
		t.Errorf("%d claims are left, want those of the three keys and the second's own", n)
	}
	const all = "a0, a0 without a claim, a1, a1 without a claim, b0, b0 without a claim, c0, c0 without a claim, "
	if got := own(t, second.DB); got != all {
		t.Errorf("afterwards the second has %q, want %q", got, all)
	}
	third := joinReplica(t, url)
	if got := own(t, third.DB); got != "" {
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

// A member takes what another one left for a channel that it has claimed.
func TestTake_ChannelOfAThird_StaysThere(t *testing.T) {
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
	if left := second.take(t); describe(left) != "a0 without a claim, " || len(left.Keys) > 0 {
		t.Errorf("took %q with the keys %q, want what needs no claim", describe(left), left.Keys)
	}
	if left := third.take(t); describe(left) != "a0, " || len(left.Keys) > 0 {
		t.Errorf("the owner of the channel took %q with the keys %q", describe(left), left.Keys)
	}
	for _, key := range []string{"web:/a", store.LeaderKey} {
		if got := second.owner(t, key); got != third.id {
			t.Errorf("%s is owned by %d, want %d", key, got, third.id)
		}
	}
}

// Rows of no member are left to whoever asks first: a tool has stored them, or a version that knew no members.
func TestTake_RowsOfNobody(t *testing.T) {
	url := pgtest.Start(t)
	nobody := &replica{DB: open(t, url, time.Now)}
	nobody.leave(t, "a", 1)
	const all = "a0, a0 without a claim, "
	if got := own(t, nobody.DB); got != all {
		t.Errorf("without members there is %q, want %q", got, all)
	}
	member := joinReplica(t, url)
	if got := own(t, member.DB); got != "" {
		t.Errorf("a member that has not inherited has %q", got)
	}
	if left := member.take(t); describe(left) != all || len(left.From) > 0 {
		t.Errorf("took %q from %+v, want %q", describe(left), left.From, all)
	}
	if got := own(t, nobody.DB); got != all {
		t.Errorf("a tool reads %q, want %q", got, all)
	}
	if got := joinReplica(t, url).owner(t, "web:/a"); got != member.id {
		t.Errorf("the channel is owned by %d, want %d", got, member.id)
	}
}

// However many inherit at once, one gets each row, and nobody waits for another.
func TestTake_SeveralAtOnce_OneGetsEachRow(t *testing.T) {
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
					left, err := r.Take(t.Context(), all)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					for _, name := range strings.Split(strings.TrimSuffix(describe(left), ", "), ", ") {
						if name != "" {
							got[name]++
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(got) != 2*each {
			t.Errorf("round %d: %d rows were inherited, want %d", round, len(got), 2*each)
		}
		for key, n := range got {
			if n != 1 {
				t.Errorf("round %d: %s was inherited %d times", round, key, n)
			}
		}
	}
}

// Whose time is over may be about to renew it, where the database was away: who has just joined cannot tell.
func TestTake_JustJoined_WaitsForThoseWhoMayBeBack(t *testing.T) {
	url := pgtest.Start(t)
	open(t, url, time.Now)
	if _, err := connect(t, url).Exec(t.Context(), `insert into ravenbot.replicas (name, address, expires_at)
		values ('away/1', '', clock_timestamp() - interval '1 second')`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := joinReplica(t, url)
	if left := r.take(t); len(left.From) > 0 && time.Since(began) < 4*time.Second {
		t.Errorf("inherited at once from %+v", left.From)
	}
	await(t, "it inherits when the other one has not come back", func() bool { return len(r.take(t).From) == 1 })
}

// A member whose own time is over, and who is about to renew it, does not end its own membership.
func TestTake_OwnTimeIsOver_GoesOn(t *testing.T) {
	url := pgtest.Start(t)
	r, conn := joinReplica(t, url), connect(t, url)
	for range 20 {
		if _, err := conn.Exec(t.Context(), "update ravenbot.replicas set expires_at = '-infinity'"); err != nil {
			t.Fatal(err)
		}
		if left := r.take(t); len(left.From) > 0 {
			t.Fatalf("took from itself: %+v", left.From)
		}
	}
	if err := r.save(t, `1`); err != nil {
		t.Error(err)
	}
}

// While another one is joining or inheriting, nobody waits for it.
func TestTake_AnotherIsInheriting_ReturnsAtOnce(t *testing.T) {
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
	if left := second.take(t); len(left.From) > 0 {
		t.Errorf("took from %+v beside another one", left.From)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := second.take(t); len(left.From) != 1 {
		t.Errorf("took from %+v afterwards", left.From)
	}
}

// A platform sends a message again to another process when the first has died between storing and acknowledging it:
// the record stays the first one's, and waits for whoever inherits it.
func TestTake_RecordThatAnotherHasReplaced_IsTheFirstOnes(t *testing.T) {
	url := pgtest.Start(t)
	first, second, conn := joinReplica(t, url), joinReplica(t, url), connect(t, url)
	if isNew, err := add(t.Context(), first.DB, "1", ""); !isNew || err != nil {
		t.Fatal(isNew, err)
	}
	if isNew, err := add(t.Context(), second.DB, "1", ""); isNew || err != nil {
		t.Fatalf("a repeat at another replica: new %v, %v", isNew, err)
	}
	if err := put(t.Context(), second.DB, tasks, "1", `{"name":"1","claim":"changed"}`); err != nil {
		t.Fatal(err)
	}
	if got := own(t, second.DB); got != "" {
		t.Errorf("the change made %q the second's", got)
	}
	if left := pause(t, conn, first, second); describe(left) != "1, " || !slices.Contains(left.Keys, "changed") {
		t.Errorf("took %q with %q, want the task", describe(left), left.Keys)
	}
}

// addFree stores a task with Write.Free, and returns what that is afterwards.
func (r *replica) addFree(t *testing.T, name, claim string, isFree bool) bool {
	t.Helper()
	err := r.Update(t.Context(), kv.Write{Free: &isFree}, func(tx kv.Tx) error {
		return kv.Collection[task]{Spec: tasks}.Put(tx, "", name, task{name, claim})
	})
	if err != nil {
		t.Fatal(err)
	}
	return isFree
}

// What a member stores for any process is taken by the owner of its claim, which takes its own newer records behind it.
func TestTake_FreeRecords_AreTheOwnersInTheirOrder(t *testing.T) {
	url := pgtest.Start(t)
	receiver, owner, third := joinReplica(t, url), joinReplica(t, url), joinReplica(t, url)
	if owner.owner(t, "web:/a") != owner.id {
		t.Fatal("not claimed")
	}
	if owner.addFree(t, "a0", "web:/a", false) {
		t.Error("the owner's record waits, though there is none before it")
	}
	for len(owner.Waiting()) > 0 {
		<-owner.Waiting()
	}
	if !receiver.addFree(t, "a1", "web:/a", true) || !owner.addFree(t, "a2", "web:/a", false) {
		t.Error("a record of the owner is its own at once, though an older one waits")
	}
	receive(t, "waiting", owner.Waiting())
	receiver.addFree(t, "b0", "web:/b", true)
	if taken := third.take(t); describe(taken) != "b0, " || !slices.Equal(taken.Keys, []string{"web:/b"}) {
		t.Errorf("a third took %q with %q, want what nobody has claimed", describe(taken), taken.Keys)
	}
	taken := owner.take(t)
	if describe(taken) != "a1, a2, " || len(taken.Keys) > 0 || !taken.Values[tasks][0].IsFresh {
		t.Errorf("the owner took %+v", taken)
	}
	if got := own(t, owner.DB); got != "a0, a1, a2, " {
		t.Errorf("the owner has %q", got)
	}
	if owner.addFree(t, "a3", "web:/a", false) {
		t.Error("a record waits behind others that were taken")
	}
	// Given back, it is no longer the owner's, and may have been worked on.
	owner.addFree(t, "a3", "web:/a", true)
	if got := own(t, owner.DB); got != "a0, a1, a2, " {
		t.Errorf("the owner has %q after it has given one back", got)
	}
}
