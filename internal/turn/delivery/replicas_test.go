package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/pgtest"
	"ravenbot/internal/turn/delivery"
)

// replica is a service among several on one database.
type replica struct {
	*delivery.Service
	store.Membership
	id  int64
	off bool     // no platform is switched on
	own sync.Map // channels that this one has claimed
}

func (r *replica) Accept(ctx context.Context, in store.Received) (isNew, isMine bool, err error) {
	owner, err := r.Claim(ctx, store.ClaimKey(in.Message.Conversation))
	if err != nil {
		return false, false, err
	}
	if owner.ID == r.id {
		r.own.Store(in.Message.Conversation.Base(), true)
	}
	return r.AcceptFor(ctx, in, owner.ID == r.id)
}

func (r *replica) Has(channel chat.Address) bool {
	_, has := r.own.Load(channel.Base())
	return has
}

func (r *replica) IsHeard(ctx context.Context, a chat.Address) bool {
	is, err := r.Membership.IsHeard(ctx, a, time.Now().Add(-time.Minute))
	return is && err == nil
}

// take takes what there is.
func (r *replica) take(t *testing.T) (taken store.Taken) {
	t.Helper()
	err := r.Service.Take(func() (_ store.Taken, err error) {
		taken, err = r.Membership.Take(t.Context(), func(chat.Address, time.Time) bool { return !r.off })
		return taken, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// startReplica starts a service that is a member of those on a database.
func startReplica(t *testing.T, url string, p chat.Platform, a delivery.Answerer) *replica {
	t.Helper()
	db, err := storage.OpenDatabase(t.Context(), url, postgres.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m, err := db.Membership(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	self, err := m.Join(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{Membership: m, id: self.ID, off: p == nil}
	platforms := map[string]chat.Platform{"web": p}
	if p == nil {
		delete(platforms, "web")
	}
	r.Service = delivery.New(delivery.Options{
		Store: db, Replicas: r, Answerer: a, Platform: among(platforms),
		Admit: func(_ context.Context, m chat.Message, isActive bool) (bool, string) {
			return m.Reach != chat.Followed || isActive, ""
		},
		Log: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	<-r.Ready()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
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
func TestTake_MessageSentToTwoReplicas_IsAnsweredOnceByWhoTakesIt(t *testing.T) {
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
	if err := dead.Service.Accept(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	<-asked
	for range 2 {
		if err := heir.Service.Accept(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := heir.Service.Accept(t.Context(), said("b", "2", "mine")); err != nil {
		t.Fatal(err)
	}
	await(t, p, 1)
	posted(t, p, "re: mine")

	if err := dead.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if taken := heir.take(t); len(taken.Messages) != 1 {
		t.Fatalf("took %+v, want the message", taken.Messages)
	}
	if err := heir.Service.Accept(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	await(t, p, 2)
	if err := heir.Service.Accept(t.Context(), said("b", "3", "the last")); err != nil {
		t.Fatal(err)
	}
	await(t, p, 3)
	if got := p.texts(); !slices.Equal(got, []string{"re: mine", "re: hello", "re: the last"}) {
		t.Errorf("posted %q, want each answer once", got)
	}
}

// Messages of a channel come to two replicas in turn. The one that has claimed it answers all, in the order in which they
// were accepted.
func TestTake_MessagesToTwoReplicas_AreAnsweredInOrderByTheOwner(t *testing.T) {
	url := pgtest.Start(t)
	p := &platform{}
	owner := startReplica(t, url, p, answerer(echo))
	other := startReplica(t, url, p, answerer(func(context.Context, chat.Message) string {
		t.Error("answered by a replica that has not claimed the channel")
		return ""
	}))
	answered := func() []string {
		return strings.Split(strings.ReplaceAll(strings.Join(p.texts(), "; "), "re: ", ""), "; ")
	}
	var want []string
	for n := range 20 {
		r := owner
		if n%3 > 0 {
			r = other
		}
		text := fmt.Sprint("message ", n)
		if err := r.Service.Accept(t.Context(), said("a", fmt.Sprint(n), text)); err != nil {
			t.Fatal(err)
		}
		want = append(want, text)
		other.take(t)
		if n%2 > 0 {
			owner.take(t)
		}
	}
	for end := time.Now().Add(time.Minute); len(answered()) < len(want) && time.Now().Before(end); {
		<-time.After(5 * time.Millisecond)
	}
	if got := answered(); !slices.Equal(got, want) {
		t.Errorf("answered %q, want %q", got, want)
	}
}

// A message that follows up on work of another replica is for the bot.
func TestAccept_FollowUpOnWorkOfAnotherReplica_IsAccepted(t *testing.T) {
	url := pgtest.Start(t)
	p := &platform{}
	owner, other := startReplica(t, url, p, answerer(echo)), startReplica(t, url, p, answerer(echo))
	followUp := said("a", "2", "and?")
	followUp.Reach = chat.Followed
	if err := other.Service.Accept(t.Context(), followUp); err != nil {
		t.Fatal(err)
	}
	if waiting := owner.take(t); len(waiting.Messages) > 0 {
		t.Fatalf("took %+v, which follows up on nothing", waiting.Messages)
	}
	if err := owner.Service.Accept(t.Context(), said("a", "1", "hello")); err != nil {
		t.Fatal(err)
	}
	followUp.ID = "3"
	if err := other.Service.Accept(t.Context(), followUp); err != nil {
		t.Fatal(err)
	}
	if taken := owner.take(t); len(taken.Messages) != 1 {
		t.Errorf("took %+v, want the message that follows up", taken.Messages)
	}
}

// A post for a platform that is switched off in a replica is sent by another one.
func TestSend_PlatformIsSwitchedOffHere_AnotherReplicaPosts(t *testing.T) {
	url := pgtest.Start(t)
	p := &platform{}
	without, with := startReplica(t, url, nil, answerer(echo)), startReplica(t, url, p, answerer(echo))
	if err := without.Send(t.Context(), said("a", "1", "").Conversation, chat.Draft{Key: "k", Text: "news"}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); len(p.texts()) == 0 && time.Now().Before(end); {
		without.take(t)
		with.take(t)
	}
	posted(t, p, "news")
}
