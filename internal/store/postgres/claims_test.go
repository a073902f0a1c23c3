package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"ravenbot/internal/store"
	"ravenbot/internal/testing/pgtest"
)

func TestClaim_SeveralAtOnce_OneOwns(t *testing.T) {
	url := pgtest.Start(t)
	var members []*replica
	for range 3 {
		members = append(members, joinReplica(t, url))
	}
	for n := range 30 {
		key := fmt.Sprint("key\x00", n) // no text of the server may hold a NUL
		var owners [3]store.Replica
		var wg sync.WaitGroup
		for i, r := range members {
			wg.Go(func() {
				var err error
				if owners[i], err = r.Claim(t.Context(), key); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if owners[0] != owners[1] || owners[1] != owners[2] || owners[0].Name == "" {
			t.Errorf("%q is owned by %+v", key, owners)
		}
	}
}

func TestRelease_OwnKeysAlone(t *testing.T) {
	url := pgtest.Start(t)
	first, second := joinReplica(t, url), joinReplica(t, url)
	for key, r := range map[string]*replica{"a": first, "b": first, "c": second} {
		if r.owner(t, key) != r.id {
			t.Fatal("not claimed")
		}
	}
	if err := first.Release(t.Context(), "a", "c", "none"); err != nil {
		t.Fatal(err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for key, want := range map[string]int64{"a": second.id, "b": first.id, "c": second.id} {
		if got := second.owner(t, key); got != want {
			t.Errorf("%s is owned by %d, want %d", key, got, want)
		}
	}
}

// While nobody has inherited, what a dead member owned is its own: others must not act before they have what it left.
func TestClaim_OwnerIsOver_StaysUntilItIsInherited(t *testing.T) {
	url := pgtest.Start(t)
	first, second := joinReplica(t, url), joinReplica(t, url)
	if first.owner(t, "a") != first.id {
		t.Fatal("not claimed")
	}
	if err := first.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if owner, err := second.Claim(t.Context(), "a"); err != nil || owner.ID != first.id || owner.Address == "" {
		t.Errorf("owned by %+v (%v), want %d still", owner, err, first.id)
	}
	second.take(t)
	if got := second.owner(t, "a"); got != second.id {
		t.Errorf("owned by %d, want %d", got, second.id)
	}
}

// A claim of which the owner's row is gone without having been inherited, as by hand, is nobody's.
func TestClaim_OwnersRowIsGone_IsTaken(t *testing.T) {
	url := pgtest.Start(t)
	r := joinReplica(t, url)
	if _, err := connect(t, url).Exec(t.Context(), "insert into ravenbot.claims values ('a', 1000)"); err != nil {
		t.Fatal(err)
	}
	if got := r.owner(t, "a"); got != r.id {
		t.Errorf("owned by %d, want %d", got, r.id)
	}
}
