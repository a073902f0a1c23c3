package delivery_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/delivery"
	"ravenbot/internal/storage"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
)

// replica is a service among several on one database.
type replica struct {
	*delivery.Service
	store.Membership
}

// startReplica starts a service that is a member of those on a database.
func startReplica(t *testing.T, url string, p chat.Platform, a delivery.Answerer) replica {
	t.Helper()
	db, err := storage.OpenDatabase(t.Context(), url, postgres.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := db.Membership(t.Context())
	if err == nil {
		_, err = m.Join(t.Context(), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	s := delivery.New(delivery.Options{
		Store: db, Answerer: a, Platform: among(map[string]chat.Platform{"web": p}),
		Admit: func(context.Context, chat.Message, bool) (bool, string) { return true, "" },
		Log:   slog.New(slog.DiscardHandler), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return replica{s, m}
}

// await waits until a platform has posted a number of texts.
func await(t *testing.T, p *platform, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(p.texts()) < n; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("posted %q within a minute, want %d posts", p.texts(), n)
		}
	}
}

// A replica ends while it answers; the platform has sent the same message to another one as well, which neither
// answers it meanwhile nor forgets it.
func TestResume_MessageSentToTwoReplicas_IsAnsweredOnceByWhoInherits(t *testing.T) {
	url := pgtest.Start(t)
	p := &platform{}
	asked := make(chan struct{}, 1)
	dead := startReplica(t, url, p, answerer(func(ctx context.Context, m chat.Message) string {
		asked <- struct{}{}
		<-ctx.Done()
		return "never"
	}))
	heir := startReplica(t, url, p, answerer(echo))
	m := said("a", "1", "hello")
	if err := dead.Accept(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	<-asked
	for range 2 {
		if err := heir.Accept(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := heir.Accept(t.Context(), said("b", "2", "mine")); err != nil {
		t.Fatal(err)
	}
	await(t, p, 1)
	posted(t, p, "re: mine")

	if err := dead.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	left, err := heir.Inherit(t.Context())
	if err != nil || len(left.Messages) != 1 {
		t.Fatalf("inherited %+v (%v), want the message", left.Messages, err)
	}
	heir.Resume(left.Posts, left.Messages)
	if err := heir.Accept(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	await(t, p, 2)
	if err := heir.Accept(t.Context(), said("b", "3", "the last")); err != nil {
		t.Fatal(err)
	}
	await(t, p, 3)
	if got := p.texts(); !slices.Equal(got, []string{"re: mine", "re: hello", "re: the last"}) {
		t.Errorf("posted %q, want each answer once", got)
	}
}
