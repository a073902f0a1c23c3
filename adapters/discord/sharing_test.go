package discord_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/adapters/discord"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/chattest"
	simdiscord "ravenbot/internal/testing/sim/discord"
)

// party is several processes with one bot, and what they share.
type party struct {
	*simdiscord.Server
	t         *testing.T
	o         discord.Options
	ann       simdiscord.User
	took      chan takenBy
	processes []*process

	mu     sync.Mutex
	known  map[string]bool // messages that one of them has accepted
	refuse error           // of accepting

	count    int
	members  map[int]bool
	shards   map[int]int // owners
	sessions map[int]string
	until    map[int]time.Time // by bucket
	begun    int
}

// process is one of a party. It is the store.Shards of its adapter.
type process struct {
	*party
	n    int
	d    *discord.Discord
	log  *journal
	stop func()
}

// takenBy is a message and which process took it.
type takenBy struct {
	by int
	chat.Message
}

func newParty(t *testing.T, so simdiscord.Options, o discord.Options) *party {
	t.Helper()
	so.OpenAPI = openAPI(t)
	p := &party{
		Server:   must(simdiscord.New(so)),
		t:        t,
		o:        o,
		took:     make(chan takenBy, 10_000),
		known:    map[string]bool{},
		members:  map[int]bool{},
		shards:   map[int]int{},
		sessions: map[int]string{},
		until:    map[int]time.Time{},
	}
	p.ann = p.AddUser("ann")
	t.Cleanup(func() {
		for _, one := range p.processes {
			one.stop()
		}
		p.Close()
		if v := p.Violations(); len(v) > 0 {
			t.Errorf("requests that Discord's document does not allow: %+v", v)
		}
		for _, one := range p.processes {
			if t.Failed() || strings.Contains(one.log.String(), "panic") {
				t.Errorf("process %d:\n%s", one.n, one.log.String())
			}
		}
	})
	return p
}

// join starts a process. The first one leads.
func (p *party) join() *process {
	p.t.Helper()
	one := &process{party: p, n: len(p.processes) + 1, log: &journal{}}
	leads := make(chan struct{})
	if one.n == 1 {
		close(leads)
	}
	o := p.o
	o.Token, o.APIBaseURL, o.Log = "token", p.URL(), (&stage{log: one.log}).logger()
	o.Commands, o.MessageCommands = chattest.Commands(), chattest.MessageCommands()
	o.Sharing = &discord.Sharing{Shards: one, Leads: leads, Store: "the database"}
	one.d = discord.New(o)
	p.mu.Lock()
	p.processes = append(p.processes, one)
	p.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := one.d.Run(ctx, one.accept); err != nil {
			p.t.Errorf("process %d: %v", one.n, err)
		}
	}()
	one.stop = func() {
		cancel()
		<-done
	}
	return one
}

// accept takes a message unless one of the processes has taken it, as the database that they share does.
func (p *process) accept(_ context.Context, m chat.Message) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	if !p.known[m.Key()] {
		p.known[m.Key()] = true
		p.took <- takenBy{p.n, m}
	}
	return nil
}

func (p *process) JoinShards(_ context.Context, _ string, want, least int) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.members, p.n)
	if p.count != want && (len(p.members) == 0 || p.count < least) {
		p.count = want
		clear(p.shards)
		clear(p.sessions)
	}
	p.members[p.n] = true
	return p.count, nil
}

func (p *process) ShardTable(context.Context, string) (store.ShardTable, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.table(), nil
}

func (p *process) table() store.ShardTable {
	t := store.ShardTable{Count: p.count, Replicas: len(p.members), Identifies: p.begun}
	for id := range p.count {
		switch p.shards[id] {
		case 0:
			t.Free = append(t.Free, id)
		case p.n:
			t.Own = append(t.Own, id)
		}
	}
	return t
}

func (p *process) ClaimShard(_ context.Context, _ string, shard, count int) ([]byte, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.table(); p.shards[shard] != 0 || count != p.count || len(t.Own) >= t.Part() {
		return nil, false, nil
	}
	left := p.sessions[shard]
	p.shards[shard] = p.n
	delete(p.sessions, shard)
	return []byte(left), true, nil
}

func (p *process) ReleaseShard(_ context.Context, _ string, shard int, session []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shards[shard] == p.n {
		delete(p.shards, shard)
		p.sessions[shard] = string(session)
	}
	return nil
}

func (p *process) LeaveShards(context.Context, string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.members, p.n)
	return nil
}

func (p *process) BeginIdentify(_ context.Context, _ string, bucket, maxPerDay int) (time.Duration, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun >= maxPerDay {
		return time.Hour, nil
	}
	if wait := time.Until(p.until[bucket]); wait > 0 {
		return min(wait, 5*time.Second), nil
	}
	p.until[bucket] = time.Now().Add(time.Minute)
	p.begun++
	return 0, nil
}

func (p *process) EndIdentify(_ context.Context, _ string, bucket int, hasBegun bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until[bucket] = time.Now()
	if !hasBegun {
		p.begun--
	} else {
		p.until[bucket] = time.Now().Add(5 * time.Second)
	}
	return nil
}

// has waits until a process is connected by these shards alone.
func (p *process) has(shards ...int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("process %d has the shards %v", p.n, shards), func() bool {
		h := p.d.Health()
		return h.Connected && slices.Equal(h.Shards, shards)
	})
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

// next returns the next message that one of the processes takes.
func (p *party) next() takenBy {
	p.t.Helper()
	return receive(p.t, p.took)
}

// idle checks that nothing was taken that nobody waited for.
func (p *party) idle() {
	p.t.Helper()
	select {
	case m := <-p.took:
		p.t.Errorf("process %d took %+v", m.by, m.Message)
	default:
	}
}

// guildOn adds a channel to a new server on a shard.
func (p *party) guildOn(shard, count int) simdiscord.Channel {
	return p.AddChannel(p.AddGuildOn(shard, count, fmt.Sprint("guild ", shard)), "general")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Each of several processes has a part of the shards, and what comes is taken once, in the order of its channel.
func TestSharing_ShardsAreDivided(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{Shards: 4, MaxConcurrency: 2}, discord.Options{})
	var channels []simdiscord.Channel
	for n := range 4 {
		channels = append(channels, p.guildOn(n, 4))
	}
	dm := p.AddDM(p.ann)
	first := p.join()
	eventually(t, "the first one begins", func() bool { return len(p.Identifies()) > 0 })
	second := p.join()
	eventually(t, "each has two", func() bool {
		a, b := first.d.Health(), second.d.Health()
		return a.Connected && b.Connected && len(a.Shards) == 2 && len(b.Shards) == 2
	})
	const count = 5
	for i := range count {
		for _, c := range append(channels, dm) {
			p.Say(c.ID, p.ann, fmt.Sprint(p.Mention(), " ", i))
		}
	}
	last, by := map[string]string{}, map[string]int{}
	for range count * (len(channels) + 1) {
		m := p.next()
		at := m.Conversation.String()
		if last[at] >= m.ID || by[at] != 0 && by[at] != m.by {
			t.Errorf("process %d took %s of %s after %s of process %d", m.by, m.ID, at, last[at], by[at])
		}
		last[at], by[at] = m.ID, m.by
	}
	p.idle()
	holder := first
	if !slices.Contains(first.d.Health().Shards, 0) {
		holder = second
	}
	if got := by["discord:@me/"+dm.ID]; got != holder.n {
		t.Errorf("direct messages came to process %d, want %d, which has shard 0", got, holder.n)
	}
	if n := len(p.Identifies()); n != 4 { // one too early would have been refused, and repeated
		t.Errorf("%d sessions were begun, want 4", n)
	}
	h := first.d.Health()
	want := fmt.Sprintf("shards %d, %d of 4", h.Shards[0], h.Shards[1])
	if !strings.Contains(h.Detail, want) || h.ShardCount != 4 {
		t.Errorf("health %+v, want %q in it", h, want)
	}
	p.registeredBy(first)
}

// registeredBy checks that the commands were made once.
func (p *party) registeredBy(leader *process) {
	p.t.Helper()
	if err := p.WaitCommand(within(p.t), chattest.MessageCommands()[0].Title); err != nil {
		p.t.Fatal(err)
	}
	n := 0
	for _, r := range p.Requests() {
		if strings.HasSuffix(r.Path, "/commands") {
			n++
		}
	}
	if want := 1 + 1 + len(chattest.MessageCommands()); n != want {
		p.t.Errorf("%d requests about commands, want %d of the leader", n, want)
	}
}

// With one shard one process is connected, and the others stand by.
func TestSharing_OneShard_IsOfOneProcess(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{}, discord.Options{})
	c := p.guildOn(0, 1)
	first := p.join()
	first.has(0)
	second := p.join()
	eventually(t, "the second one stands by", func() bool { return second.d.Health().Connected })
	if h := second.d.Health(); len(h.Shards) != 0 || !strings.Contains(h.Detail, "other replicas have the connection") {
		t.Errorf("health %+v", h)
	}
	p.Say(c.ID, p.ann, p.Mention()+" hi")
	if m := p.next(); m.by != 1 || p.Connections() != 1 {
		t.Errorf("process %d took it, with %d connections", m.by, p.Connections())
	}
}

// A token that Discord refuses is told also by a process that waits for the lead.
func TestSharing_RefusedToken_EndsRunAlsoWithoutTheLead(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{Shards: 1}, discord.Options{})
	for name, leads := range map[string]chan struct{}{"leads": make(chan struct{}), "follows": make(chan struct{})} {
		if name == "leads" {
			close(leads)
		}
		one := &process{party: p, n: 1}
		d := discord.New(discord.Options{Token: "wrong", APIBaseURL: p.URL(), Log: slog.New(slog.DiscardHandler),
			Sharing: &discord.Sharing{Shards: one, Leads: leads, Store: "the database"}})
		ctx := within(t)
		err := d.Run(ctx, one.accept)
		if _, isSetup := errors.AsType[*chat.SetupError](err); !isSetup || ctx.Err() != nil {
			t.Errorf("%s: Run ended with %v (%v)", name, err, ctx.Err())
		}
	}
}

// What happens between two owners of a shard is read from the session of the first: also what no history tells.
func TestSharing_ShardMoves_NothingIsMissed(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{MaxConcurrency: 1}, discord.Options{})
	c, never := p.guildOn(0, 1), p.guildOn(0, 1)
	first := p.join()
	first.has(0)
	said := p.Say(c.ID, p.ann, p.Mention()+" before")
	if m := p.next(); m.ID != said.ID {
		t.Fatalf("message %+v", m)
	}
	second := p.join()
	eventually(t, "the second one stands by", func() bool { return second.d.Health().Connected })
	first.stop()
	// The next session may begin five seconds after the last.
	p.Say(c.ID, p.ann, p.Mention()+" between")
	p.Edit(said.ID, p.Mention()+" now")
	mentioned := p.Say(never.ID, p.ann, p.Mention()+" where nobody has spoken to it")
	p.Delete(said.ID)
	private := p.Say(p.AddDM(p.ann).ID, p.ann, "in private")
	second.has(0)
	p.Say(c.ID, p.ann, p.Mention()+" after")
	var got []string
	for range 6 {
		m := p.next()
		what := string(m.Change)
		if what != "" {
			what += " "
		}
		got = append(got, fmt.Sprint(m.by, " ", what+m.Text))
		if m.ID == mentioned.ID && m.Conversation.Workspace != never.GuildID || m.ID == private.ID && !m.Direct {
			t.Errorf("message %+v", m)
		}
	}
	want := []string{
		"2 between", "2 edited now", "2 where nobody has spoken to it", "2 deleted ", "2 in private", "2 after",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
	p.idle()
	if r := p.Resumes(); len(r) != 1 || !r[0].OK || len(p.Identifies()) != 2 {
		t.Errorf("%d sessions were begun, and resumed %+v", len(p.Identifies()), r)
	}
	eventually(t, "the former session is closed", func() bool { return p.Connections() == 1 })
}

// An owner that ends before it could begin a session leaves that of its former owner to the next one.
func TestSharing_ShardMovesTwice_NothingIsMissed(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{MaxConcurrency: 1}, discord.Options{})
	c := p.guildOn(0, 1)
	first := p.join()
	first.has(0)
	first.stop()
	p.Say(c.ID, p.ann, p.Mention()+" between")
	second := p.join() // waits for five seconds
	eventually(t, "the second one has the shard", func() bool { return len(second.d.Health().Shards) == 1 })
	second.stop()
	p.join().has(0)
	if m := p.next(); m.by != 3 || m.Text != "between" || len(p.Identifies()) != 2 {
		t.Errorf("process %d took %q after %d sessions", m.by, m.Text, len(p.Identifies()))
	}
}

// Where the session of the former owner is gone, the channels are read.
func TestSharing_FormerSessionIsGone_ReadsTheChannels(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{}, discord.Options{})
	c := p.guildOn(0, 1)
	p.o.CatchUp = time.Hour
	p.o.LastSeen = func(context.Context) ([]chat.LastSeen, error) {
		return []chat.LastSeen{all(chat.Address{Platform: "discord", Workspace: c.GuildID, Channel: c.ID})}, nil
	}
	first := p.join()
	first.has(0)
	p.Say(c.ID, p.ann, p.Mention()+" before")
	p.next()
	second := p.join()
	p.SetFaults(simdiscord.GatewayFaults{RefuseResumes: true})
	first.stop()
	p.Say(c.ID, p.ann, p.Mention()+" between")
	second.has(0)
	p.Say(c.ID, p.ann, p.Mention()+" after")
	for _, want := range []string{"between", "after"} {
		if m := p.next(); m.Text != want || m.by != 2 {
			t.Errorf("process %d took %q, want %q", m.by, m.Text, want)
		}
	}
	p.idle()
}

// setRefuse makes accepting fail, or work again.
func (p *party) setRefuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = err
}

// While something that came by a shard is not stored, nobody may go on behind it: whoever has it next reads the
// channels.
func TestSharing_NotStoredAtTheEnd_SessionIsNotLeft(t *testing.T) {
	t.Parallel()
	p, _, c := shared(t, simdiscord.Options{}, discord.Options{})
	p.setRefuse(errors.New("nobody answers"))
	p.Say(c.ID, p.ann, p.Mention()+" stuck")
	first := p.processes[0]
	eventually(t, "it waits", func() bool { return strings.Contains(first.d.Health().Detail, "1 messages waiting") })
	first.stop()
	if log := first.log.String(); !strings.Contains(log, "shard released") || strings.Contains(log, "session_left=true") {
		t.Error("the session was left")
	}
}

// Who has had more than their part for long enough releases one shard after the other, and none for the sake of a
// process that is there for a moment.
func TestSharing_Balance(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{Shards: 4, MaxConcurrency: 4}, discord.Options{})
	first := p.join()
	discord.SetBalanceAfter(first.d, 300*time.Millisecond)
	first.has(0, 1, 2, 3)
	second := p.join()
	first.has(0, 1)
	second.has(2, 3)
	if n := len(p.Identifies()); n != 6 {
		t.Errorf("%d sessions were begun, want 6", n)
	}
	second.stop()
	first.has(0, 1, 2, 3)
	if n := len(p.Identifies()); n != 8 {
		t.Errorf("%d sessions were begun, want 8", n)
	}
	p.mu.Lock()
	p.begun = 300 // more than a quarter of the day's
	p.mu.Unlock()
	third := p.join()
	eventually(t, "the third one stands by", func() bool { return third.d.Health().Connected })
	p.Say(p.guildOn(3, 4).ID, p.ann, p.Mention()+" hi")
	if m := p.next(); m.by != 1 {
		t.Errorf("process %d took it", m.by)
	}
}

// A bot that has come to more servers than its shards may hold is divided anew by whoever is told first.
func TestSharing_MoreShardsAreWanted(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{Shards: 2, MaxConcurrency: 16}, discord.Options{})
	c := p.guildOn(3, 4)
	first := p.join()
	discord.SetBalanceAfter(first.d, 300*time.Millisecond)
	first.has(0, 1)
	second := p.join()
	discord.SetBalanceAfter(second.d, 300*time.Millisecond)
	second.has(1)
	p.WantShards(4)
	eventually(t, "both have their parts of four", func() bool {
		a, b := first.d.Health(), second.d.Health()
		return a.Connected && b.Connected && len(a.Shards) == 2 && len(b.Shards) == 2 && a.ShardCount == 4
	})
	p.Say(c.ID, p.ann, p.Mention()+" hi")
	p.next()
	p.idle()
}

// Discord begins one session in five seconds of a bucket, whichever process asks, and none where none is left.
func TestSharing_SessionsOfAllProcessesShareTheLimits(t *testing.T) {
	t.Parallel()
	p := newParty(t, simdiscord.Options{Shards: 3, MaxConcurrency: 1, Identifies: 2}, discord.Options{})
	a, b := p.join(), p.join()
	logged := func(one *process) bool {
		return strings.Contains(one.log.String(), "too many new discord sessions today")
	}
	eventually(t, "two are connected and one waits", func() bool {
		return len(p.Identifies()) == 2 && (logged(a) || logged(b))
	})
	at := p.Identifies()
	if gap := at[1].At.Sub(at[0].At); gap < 5*time.Second {
		t.Errorf("two sessions were begun within %v", gap)
	}
}

// What processes with one store post is not taken for posts of another bot, but what a process with a store of its own
// posts with the token is reported.
func TestSharing_PostsOfAnotherStoreAreReported(t *testing.T) {
	t.Parallel()
	for name, sharing := range map[string]*discord.Sharing{
		"another database": {Store: "another database"},
		"a file":           nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newParty(t, simdiscord.Options{Shards: 1}, discord.Options{})
			channel := p.guildOn(0, 1)
			first := p.join()
			first.has(0)
			second := p.join()
			posted := 0
			post := func(d *discord.Discord, n int) {
				for range n {
					posted++
					at := chat.Address{Platform: "discord", Workspace: channel.GuildID, Channel: channel.ID}
					if _, err := d.Post(within(t), at, chat.Draft{Key: fmt.Sprint(posted), Text: "hello"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			o := p.o
			o.Token, o.APIBaseURL, o.Sharing = "token", p.URL(), sharing
			o.Log = slog.New(slog.DiscardHandler)
			outside := discord.New(o)
			const report = "posts of another process"
			post(first.d, 5)
			post(second.d, 5)
			post(outside, 2) // so few can be of a process that has just ended
			// What comes behind them is taken when they were seen.
			p.Say(channel.ID, p.ann, p.Mention())
			p.next()
			if strings.Contains(first.log.String(), report) {
				t.Error("reported too early")
			}
			post(outside, 1)
			eventually(t, "it is reported", func() bool { return strings.Contains(first.log.String(), report) })
		})
	}
}
