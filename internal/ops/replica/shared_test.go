package replica_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature/approval"
	"ravenbot/internal/feature/jobs"
	"ravenbot/internal/feature/poll"
	"ravenbot/internal/feature/settings"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/mcpserve"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/ops/audit"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/ops/replica"
	"ravenbot/internal/recall/document"
	"ravenbot/internal/recall/knowledge"
	"ravenbot/internal/store"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/pgtest"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/roster"
)

// place is where everything happens.
var place = chat.Address{Platform: "sim", Workspace: "T1", Channel: "C1"}

// everywhere can be posted to.
type everywhere struct{}

func (everywhere) CanPost(chat.Address) bool        { return true }
func (everywhere) CanThread(chat.Address) bool      { return true }
func (everywhere) Link(chat.Address, string) string { return "" }
func (everywhere) Ready() <-chan struct{}           { return closed }
func (everywhere) DirectMessage(context.Context, chat.Address, string) (chat.Address, error) {
	return place, nil
}
func (everywhere) CheckPost(context.Context, chat.Address, []string) error { return nil }
func (everywhere) UserCanRead(context.Context, string, chat.Address) (bool, error) {
	return true, nil
}
func (everywhere) ReadersCanRead(context.Context, chat.Address, chat.Address) (bool, error) {
	return true, nil
}
func (everywhere) Context(context.Context, chat.Message, chat.ContextQuery) chat.Context {
	return chat.Context{}
}
func (everywhere) Deliver([]store.Post) func(context.Context) []store.Outcome {
	return func(context.Context) []store.Outcome { return nil }
}
func (everywhere) Interject(context.Context, chat.Address, chat.Draft, string) error { return nil }

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// heldStore is a database whose lists of records can be kept on their way to the reader.
type heldStore struct {
	*storage.Database
	mu   sync.Mutex
	read chan string   // kinds that were read while they are held; nil: they are not
	let  chan struct{} // closed when they go on
}

// hold keeps what is read from now on until release is called.
func (h *heldStore) hold() (read <-chan string, release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.read, h.let = make(chan string, 100), make(chan struct{})
	return h.read, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(h.let)
		h.read = nil
	}
}

func (h *heldStore) wait(kind string) {
	h.mu.Lock()
	read, let := h.read, h.let
	h.mu.Unlock()
	if read != nil {
		read <- kind
		<-let
	}
}

func (h *heldStore) Items(ctx context.Context, kind string) (map[string]json.RawMessage, error) {
	items, err := h.Database.Items(ctx, kind)
	h.wait(kind)
	return items, err
}

func (h *heldStore) Settings(ctx context.Context) (map[string][]byte, error) {
	layers, err := h.Database.Settings(ctx)
	h.wait(store.SettingChanges)
	return layers, err
}

// process is what one replica keeps in memory.
type process struct {
	db        *heldStore
	settings  *settings.Repository
	grants    *approval.Grants
	approvals *approval.Queue
	audit     *audit.Log
	tokens    *mcpserve.Tokens
	polls     *poll.Service
	jobs      *jobs.Service
	digests   *digest.Service
	catalog   *mcp.Catalog
	roster    *roster.Roster
	spending  *budget.Spending
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// start returns a replica on a database, which watches it until the test ends.
func start(t *testing.T, url string, conf *config.Config) *process {
	t.Helper()
	ctx, log := t.Context(), slog.New(slog.DiscardHandler)
	db := &heldStore{Database: must(storage.OpenDatabase(ctx, url, postgres.Options{Log: log}))}
	p := &process{db: db}
	p.settings = settings.New(db, func() []string { return nil }, nil, log)
	p.grants = must(approval.LoadGrants(ctx, db, time.Now))
	p.approvals = approval.New(approval.Options{Store: db, Grants: p.grants, Log: log, Now: time.Now,
		Post: everywhere{}.Interject})
	p.audit = must(audit.Load(ctx, db, time.Now, log))
	p.tokens = must(mcpserve.LoadTokens(ctx, db, time.Now))
	p.polls = poll.New(poll.Options{
		Store:   db,
		Poster:  everywhere{},
		CanPost: everywhere{}.CanPost,
		Log:     log,
		Now:     time.Now,
	})
	getConfig := func() *config.Config { return conf }
	p.digests = digest.New(digest.Options{
		Store:     db,
		Delivery:  everywhere{},
		Platforms: everywhere{},
		Log:       log,
		Now:       time.Now,
	})
	p.jobs = jobs.New(jobs.Options{Store: db, Delivery: everywhere{}, Places: everywhere{}, Digests: p.digests,
		Config: getConfig, Timezone: func(chat.Address, string) string { return "" }, Log: log, Now: time.Now})
	host := must(mcp.NewHost(mcp.Options{}))
	parse := func(name string, raw json.RawMessage) (mcp.Config, error) {
		c := mcp.Config{Name: name}
		return c, json.Unmarshal(raw, &c)
	}
	p.catalog = mcp.NewCatalog(host, db, parse, func(string) bool { return false }, log)
	documents := document.NewReader(func(context.Context, []byte) ([]string, error) { return nil, nil })
	p.roster = roster.New(roster.Options{Store: db, Servers: host, Settings: p.settings, RoomPlatform: "sim",
		CheckRoom: func(string) error { return nil }, Log: log,
		Knowledge: knowledge.New(knowledge.Options{Folder: t.TempDir(), Documents: documents, Log: log,
			Copies: &knowledge.Copies{Items: db}})})
	if err := p.roster.Apply(conf, nil); err != nil {
		t.Fatal(err)
	}
	p.spending = must(budget.LoadSpending(ctx, db, budget.ConfiguredRates(getConfig), log, time.Now))
	watching, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		replica.Watch(watching, db, log, p.settings, p.grants, p.approvals, p.audit, p.tokens, p.polls, p.jobs, p.digests,
			p.catalog, p.roster, roster.Files{Roster: p.roster}, p.spending)
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); {
		if time.Now().After(end) {
			t.Fatal("not seen by the other replica: " + what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// What is changed on one replica is known to the other one soon, in both directions.
func TestReplicas_KnowWhatAnotherHasChanged(t *testing.T) {
	limits := []byte(`{"budget": {"instanceDailyUSD": 5}, "limits": {"userDailyTokens": 1000}}`)
	conf := must(config.Parse(limits, "config.json", config.Options{Env: func(string) (string, bool) {
		return "", false
	}}))
	url := pgtest.Start(t)
	a, b := start(t, url, conf), start(t, url, conf)
	anna := chat.User{ID: "U1", Name: "anna", Admin: true}
	for n, pair := range [][2]*process{{a, b}, {b, a}} {
		here, there := pair[0], pair[1]
		name := fmt.Sprintf("name%d", n)
		ctx := t.Context()
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}

		do(here.settings.Set(ctx, settings.Channel(place), settings.Layer{Language: name}))
		eventually(t, "a setting", func() bool { return there.settings.Effective(place, "U1").Language == name })

		asked := make(chan bool, 1)
		go func() {
			ok, _, err := here.approvals.Ask(context.Background(), tool.Intent{Args: json.RawMessage(`{}`),
				Tool:   tool.Named{Name: "s_do", Tool: tool.Func{Described: tool.Spec{Server: "s", Name: "do"}}},
				Caller: tool.Caller{Conversation: place, User: anna, Turn: name, Call: "c"}}, tool.Verdict{Grantable: true})
			asked <- ok && err == nil
		}()
		eventually(t, "a question", func() bool { return len(there.approvals.Open()) == 1 })
		do2(t)(there.approvals.Decide(ctx, there.approvals.Open()[0].ID, approval.Always, anna, place))
		if !<-asked {
			t.Error("the call was not let go on")
		}
		eventually(t, "a grant", func() bool { return len(here.grants.List()) == n+1 })

		here.audit.Record(ctx, audit.Entry{Action: name})
		eventually(t, "an audit entry", func() bool {
			list := there.audit.Entries("", 1)
			return len(list) == 1 && list[0].Action == name
		})

		_, secret, err := here.tokens.Create(ctx, "admin", name, nil, 0, false)
		do(err)
		eventually(t, "a token", func() bool { _, ok := there.tokens.Check(ctx, secret); return ok })
		do(there.tokens.Revoke(ctx, "admin", name))
		eventually(t, "a revoked token", func() bool { _, ok := here.tokens.Check(ctx, secret); return !ok })

		job := must(here.jobs.Add(ctx, jobs.Job{Schedule: "0 9 * * *", Post: []string{place.String()}, Text: "hello",
			Source: jobs.FromAPI}))
		has := func(p *process) bool {
			list := must(p.jobs.List(ctx))
			return slices.ContainsFunc(list, func(i jobs.Info) bool { return i.ID == job.ID })
		}
		eventually(t, "a job", func() bool { return has(there) })
		do(there.jobs.Remove(ctx, job.ID))
		eventually(t, "a removed job", func() bool { return !has(here) })

		do2(t)(here.digests.Create(ctx, digest.Plan{Name: name, Schedule: "0 9 * * *", Post: []string{place.String()},
			Feeds: []digest.Feed{{URL: "https://example.org/feed"}}, Source: digest.FromAPI}))
		eventually(t, "a digest", func() bool { _, ok := there.digests.Plan(name); return ok })
		do(there.digests.Pause(ctx, name, true))
		do2(t)(there.digests.Change(ctx, name, func(p *digest.Plan) error { p.MaxItems = 7; return nil }))
		eventually(t, "a change of a digest", func() bool {
			p, _ := here.digests.Plan(name)
			return p.MaxItems == 7 && p.Paused
		})
		do(there.digests.Remove(ctx, name))
		eventually(t, "a removed digest", func() bool { _, ok := here.digests.Plan(name); return !ok })

		do2(t)(here.catalog.Add(ctx, name, json.RawMessage(`{"URL":"https://example.org/mcp"}`)))
		eventually(t, "a server", func() bool { _, err := there.catalog.Get(name); return err == nil })
		do(there.catalog.Remove(ctx, name))
		eventually(t, "a removed server", func() bool { _, err := here.catalog.Get(name); return err != nil })

		do2(t)(here.roster.Add(ctx, name, json.RawMessage(`{"systemPrompt": "Be kind."}`)))
		eventually(t, "an agent", func() bool { return there.roster.Exists(name) })
		do(there.roster.Choose(ctx, "lobby", name))
		eventually(t, "the agent of a room", func() bool { return here.roster.Rooms()["lobby"] == name })
		do2(t)(roster.Files{Roster: here.roster}.Put(ctx, name, "handbook.md", []byte("# Holidays\n\nThirty days.")))
		eventually(t, "a file", func() bool {
			list, err := roster.Files{Roster: there.roster}.List(name)
			return err == nil && len(list) == 1 && list[0].Name == "handbook.md"
		})
		do(there.roster.Remove(ctx, name))
		eventually(t, "a removed agent", func() bool { return !here.roster.Exists(name) })

		do(here.db.CountUsage(ctx, store.Usage{Model: "default", User: "sim/" + name, Channel: place, Turns: 1,
			Tokens: llm.Usage{Input: 2000}}))
		eventually(t, "spent tokens", func() bool {
			on := store.Usage{Model: "default", User: "sim/" + name, Channel: place}
			count, err := there.spending.Reserve(ctx, on, llm.Request{})
			if err == nil {
				count(llm.Usage{})
			}
			return err != nil && strings.Contains(err.Error(), "used up")
		})
	}
	if report := must(a.audit.Verify(t.Context(), audit.Link{})); report.Problem != "" || report.Entries != 2 {
		t.Errorf("the audit: %+v", report)
	}
}

// do2 fails the test where a call that returns something has failed.
func do2(t *testing.T) func(any, error) {
	return func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Replicas that change different keys of one layer at once do not overwrite each other's.
func TestSettings_TwoReplicasChangeKeysAtOnce_AllAreSet(t *testing.T) {
	url := pgtest.Start(t)
	scope := settings.Channel(place)
	open := func() *settings.Repository {
		db := must(storage.OpenDatabase(t.Context(), url, postgres.Options{Log: slog.New(slog.DiscardHandler)}))
		t.Cleanup(func() { _ = db.Close() })
		r := settings.New(db, func() []string { return nil }, nil, slog.New(slog.DiscardHandler))
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b, later := open(), open(), open()
	for n := 1; n <= 20; n++ {
		language, steps := fmt.Sprint("language ", n), n
		var wg sync.WaitGroup
		for r, change := range map[*settings.Repository]func(*settings.Layer) error{
			a: func(l *settings.Layer) error { l.Language = language; return nil },
			b: func(l *settings.Layer) error { l.Tools.MaxSteps = &steps; return nil },
		} {
			wg.Go(func() {
				if err := r.Change(context.Background(), scope, change); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := later.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := later.Layer(scope)
		if l.Tools.MaxSteps == nil || *l.Tools.MaxSteps != n || l.Language != language {
			t.Fatalf("after changes %d the layer is %+v, want both", n, l)
		}
	}
}

// What a replica changes while it reads again what others have changed is not lost: what it has read is older.
func TestReload_OwnChangeMeanwhile_Stays(t *testing.T) {
	conf := must(config.Parse([]byte(`{}`), "config.json", config.Options{Env: func(string) (string, bool) {
		return "", false
	}}))
	p := start(t, pgtest.Start(t), conf)
	ctx := t.Context()
	token, job := "", ""
	for _, c := range []struct {
		what   string
		part   store.Shared
		change func() error
		has    func() bool
	}{
		{"setting", p.settings,
			func() error {
				return p.settings.Set(ctx, settings.Channel(place), settings.Layer{Language: "Norwegian"})
			},
			func() bool { return p.settings.Effective(place, "").Language == "Norwegian" }},
		{"token", p.tokens,
			func() (err error) { _, token, err = p.tokens.Create(ctx, "admin", "host", nil, 0, false); return err },
			func() bool { _, ok := p.tokens.Check(ctx, token); return ok }},
		{"job", p.jobs,
			func() error {
				i, err := p.jobs.Add(ctx, jobs.Job{Schedule: "0 9 * * *", Post: []string{place.String()}, Text: "hello",
					Source: jobs.FromAPI})
				job = i.ID
				return err
			},
			func() bool { list := must(p.jobs.List(ctx)); return len(list) == 1 && list[0].ID == job }},
		{"digest", p.digests,
			func() error {
				_, err := p.digests.Create(ctx, digest.Plan{Name: "news", Schedule: "0 9 * * *", Post: []string{place.String()},
					Feeds: []digest.Feed{{URL: "https://example.org/feed"}}, Source: digest.FromAPI})
				return err
			},
			func() bool { _, ok := p.digests.Plan("news"); return ok }},
		{"server", p.catalog,
			func() error {
				_, err := p.catalog.Add(ctx, "s", json.RawMessage(`{"URL":"https://example.org/mcp"}`))
				return err
			},
			func() bool { _, err := p.catalog.Get("s"); return err == nil }},
		{"agent", p.roster,
			func() error {
				_, err := p.roster.Add(ctx, "kind", json.RawMessage(`{"systemPrompt":"Be kind."}`))
				return err
			},
			func() bool { return p.roster.Exists("kind") }},
	} {
		read, release := p.db.hold()
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := c.part.Reload(ctx); err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		})
		<-read
		changed := make(chan error, 1)
		wg.Go(func() { changed <- c.change() })
		// The change waits for what is being read, or is done: both are right, as long as it is there in the end.
		var err error
		select {
		case err = <-changed:
			changed <- err
		case <-time.After(200 * time.Millisecond):
		}
		release()
		wg.Wait()
		if err := <-changed; err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if !c.has() {
			t.Errorf("%s: the change is lost", c.what)
		}
	}
}

// Two logs on one database make one chain.
func TestAudit_OfTwoReplicasAtOnce_IsOneChain(t *testing.T) {
	url := pgtest.Start(t)
	log := slog.New(slog.DiscardHandler)
	logs := make([]*audit.Log, 2)
	for n := range logs {
		db := must(storage.OpenDatabase(t.Context(), url, postgres.Options{Log: log}))
		t.Cleanup(func() { _ = db.Close() })
		logs[n] = must(audit.Load(t.Context(), db, time.Now, log))
	}
	var wg sync.WaitGroup
	for n, l := range logs {
		for i := range 4 {
			wg.Go(func() {
				for j := range 25 {
					l.Record(context.Background(), audit.Entry{Action: fmt.Sprint(n, i, j)})
				}
			})
		}
	}
	wg.Wait()
	for _, l := range logs {
		if report := must(l.Verify(t.Context(), audit.Link{})); report.Problem != "" || report.Entries != 200 {
			t.Errorf("verified: %+v, want 200 entries", report)
		}
	}
}
