package replica_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/replica"
	"ravenbot/internal/store"
	"ravenbot/internal/store/seal"
)

// database is what replicas share: who they are and what they own.
type database struct {
	mu      sync.Mutex
	members []store.Replica
	gone    []store.Replica // whose time is over, and of which nobody has inherited
	left    store.Taken     // by them
	claims  map[string]store.Replica
	err     error // of every operation
	stuck   error // of Release, which has no effect then
	tried   int   // calls of Release that were stuck
	now     time.Time
	looks   int    // calls of HasFree
	isOwn   []bool // the calls of AcceptFor
	behind  bool   // messages of owners wait to be taken
	notices chan struct{}
	told    []string
	topics  map[string]map[int64]json.RawMessage // what was told; nil: others tell their topic
}

func newDatabase() *database {
	return &database{claims: map[string]store.Replica{}, now: time.Unix(1e9, 0), notices: make(chan struct{}, 1)}
}

func (d *database) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// stick has Release fail; nil: it works again.
func (d *database) stick(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = err
}

func (d *database) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func (d *database) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

// owner returns the ID of the owner of a key; 0: nobody.
func (d *database) owner(key string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.claims[key].ID
}

// end ends the time of a replica, which leaves messages.
func (d *database) end(id int64, left ...store.Received) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range d.members {
		if r.ID == id {
			d.gone = append(d.gone, r)
			d.members = slices.Delete(d.members, i, i+1)
			break
		}
	}
	d.left.Messages = append(d.left.Messages, left...)
}

// member is the part of one replica in a database.
type member struct {
	store.Shards // none: nobody asks for them
	*database
	self store.Replica
}

func (m *member) Join(_ context.Context, address string) (store.Replica, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := int64(len(m.members) + len(m.gone) + 1)
	m.self = store.Replica{ID: id, Name: fmt.Sprint("replica/", id), Address: address}
	m.members = append(m.members, m.self)
	return m.self, m.err
}

func (m *member) Lost() <-chan struct{} { return nil }

func (m *member) Waiting() <-chan struct{} { return m.notices }

func (m *member) Tell(_ context.Context, topic string, mine json.RawMessage) (map[int64]json.RawMessage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = append(m.told, topic+" "+string(mine))
	if m.topics != nil {
		if m.topics[topic] == nil {
			m.topics[topic] = map[int64]json.RawMessage{}
		}
		others := maps.Clone(m.topics[topic])
		delete(others, m.self.ID)
		m.topics[topic][m.self.ID] = mine
		return others, m.err
	}
	return map[int64]json.RawMessage{9: json.RawMessage(`"` + topic + `"`)}, m.err
}

func (m *member) HasFree(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	return len(m.gone)+len(m.left.Messages) > 0, m.err
}

func (m *member) Take(_ context.Context, may func(chat.Address, time.Time) bool) (taken store.Taken, err error) {
	m.mu.Lock()
	taken.From = m.gone
	for key, owner := range m.claims {
		if slices.Contains(m.gone, owner) {
			delete(m.claims, key)
		}
	}
	left := m.left.Messages
	m.gone, m.left.Messages = nil, nil
	m.mu.Unlock()
	for _, r := range left {
		isOwn := may(r.Message.Conversation, r.At) // asks for the time, under the same lock
		m.mu.Lock()
		if key := store.ClaimKey(r.Message.Conversation); isOwn {
			m.claims[key], taken.Keys = m.self, append(taken.Keys, key)
			taken.Messages = append(taken.Messages, r)
		} else {
			m.left.Messages = append(m.left.Messages, r)
		}
		m.mu.Unlock()
	}
	return taken, nil
}

func (m *member) AcceptFor(_ context.Context, _ store.Received, isOwn bool) (isNew, isMine bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.database.isOwn = append(m.database.isOwn, isOwn)
	return true, isOwn && !m.behind, m.err
}

func (m *member) IsHeard(context.Context, chat.Address, time.Time) (bool, error) { return true, m.err }

func (m *member) FreePost(context.Context, store.Post) error { return m.err }

func (m *member) Claim(_ context.Context, key string) (store.Replica, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return store.Replica{}, m.err
	}
	if _, ok := m.claims[key]; !ok {
		m.claims[key] = m.self
	}
	return m.claims[key], nil
}

func (m *member) Release(_ context.Context, keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stuck != nil {
		m.tried++
		return m.stuck
	}
	for _, key := range keys {
		if m.claims[key] == m.self {
			delete(m.claims, key)
		}
	}
	return m.err
}

func (m *member) Replicas(context.Context) ([]store.Replica, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.members), m.err
}

func (m *member) Leave(context.Context) error { return nil }

// running is a replica that runs: a Node with its HTTP server.
type running struct {
	*replica.Node
	url  string
	stop func()

	mu      sync.Mutex
	busy    []chat.Address
	resumed []store.Received
}

func (r *running) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

func (r *running) Take(take func() (store.Taken, error)) error {
	taken, err := take()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resumed = append(r.resumed, taken.Messages...)
	return err
}

func (r *running) taken() []store.Received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.resumed)
}

func (r *running) WorkingIn(channel chat.Address) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.busy, channel)
}

func box(context.Context) (replica.Box, error) { return seal.NewBox(make([]byte, 32)) }

// listen returns a listener of loopback.
func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*net.TCPListener)
}

// options are those of a replica of a database.
func options(d *database, l *net.TCPListener) replica.Options {
	return replica.Options{
		Open: func(context.Context) (replica.Opened, error) {
			return replica.Opened{Members: &member{database: d}, Address: l.Addr().String(), Box: box}, nil
		},
		Listener: l,
		Log:      slog.New(slog.DiscardHandler),
		Now:      d.clock,
	}
}

// join starts a replica whose pages say what they were asked.
func (d *database) join(t *testing.T) *running {
	return d.joinWith(t, func(_ *replica.Node, pages http.Handler) http.Handler { return pages })
}

// joinWith starts a replica with a handler around its pages.
func (d *database) joinWith(t *testing.T, around func(*replica.Node, http.Handler) http.Handler) *running {
	t.Helper()
	t.Helper()
	l := listen(t)
	node, err := replica.Join(t.Context(), options(d, l))
	if err != nil {
		t.Fatal(err)
	}
	r := &running{Node: node, url: "http://" + l.Addr().String()}
	pages := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprintf(w, "%s says %s of %s for %s", l.Addr(), q.URL, q.Host, q.Header.Get("X-Forwarded-For"))
	})
	server := &http.Server{Handler: node.Handler(around(node, pages))}
	go server.Serve(l)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { node.Run(ctx, r); close(ended) }()
	r.stop = sync.OnceFunc(func() { cancel(); <-ended; server.Close() })
	t.Cleanup(r.stop)
	return r
}

func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not within 20 seconds: %s", what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

var general = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C1"}

// Each replica stores what it receives; the owner of a channel answers it.
func TestAccept_ChannelOfAnother_IsStoredForIt(t *testing.T) {
	d := newDatabase()
	first, second := d.join(t), d.join(t)
	said := store.Received{Message: chat.Message{ID: "1", Conversation: general}}
	for _, r := range []*running{first, second, first} {
		isNew, isMine, err := r.Accept(t.Context(), said)
		if !isNew || isMine != (r == first) || r.Has(general) != isMine || err != nil {
			t.Errorf("new %v, mine %v, claimed %v: %v", isNew, isMine, r.Has(general), err)
		}
	}
	if !slices.Equal(d.isOwn, []bool{true, false, true}) {
		t.Errorf("stored as a message of the channel's owner: %v", d.isOwn)
	}
	if !second.IsHeard(t.Context(), general) {
		t.Error("a conversation of another replica is not known")
	}
	d.fail(errors.New("connection lost"))
	other := store.Received{Message: chat.Message{ID: "2", Conversation: chat.Address{Platform: "web", Channel: "C2"}}}
	if _, _, err := first.Accept(t.Context(), other); err == nil {
		t.Error("accepted without knowing whose it is")
	}
}

// A message of the owner that waits behind older ones is taken at once.
func TestAccept_BehindOthers_LooksAtOnce(t *testing.T) {
	l := listen(t)
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		node, stop := runNode(t, d, l)
		defer stop()
		d.behind = true
		before := d.looks
		if _, isMine, err := node.Accept(t.Context(), store.Received{Message: chat.Message{Conversation: general}}); isMine ||
			err != nil {
			t.Errorf("mine %v, %v", isMine, err)
		}
		synctest.Wait() // no time passes
		if d.looks != before+1 {
			t.Errorf("%d looks", d.looks-before)
		}
	})
}

// The work of a replica that has ended is taken with its channel, by one in which the platform is switched on.
func TestTake_OwnerIsGone_WithItsPlatform(t *testing.T) {
	d := newDatabase()
	first, second, third := d.join(t), d.join(t), d.join(t)
	for r, has := range map[*running]chat.Platform{second: nil, third: slack{}} {
		r.SetPlatforms(func(string) chat.Platform { return has })
	}
	_, _ = first.Owns(t.Context(), general)
	first.stop()
	var acquired atomic.Int32
	third.OnAcquire(func(channel chat.Address) {
		if channel == general {
			acquired.Add(1)
		}
	})
	d.end(1, store.Received{Message: chat.Message{ID: "1", Conversation: general}, At: d.clock()})
	within(t, "the message is taken", func() bool { return len(third.taken()) == 1 })
	if acquired.Load() != 1 || len(second.taken()) > 0 {
		t.Errorf("told %d times that the channel is its own now; the one without the platform took %+v", acquired.Load(),
			second.taken())
	}
	// After hours somebody has to give it up.
	third.stop()
	d.end(3, store.Received{Message: chat.Message{ID: "2", Conversation: general}, At: d.clock().Add(-7 * time.Hour)})
	within(t, "the old message is taken", func() bool { return len(second.taken()) == 1 })
	within(t, "a channel is given back whose platform is switched off", func() bool {
		return d.owner(store.ClaimKey(general)) == 0
	})
}

// slack is a platform that is switched on.
type slack struct{ chat.Platform }

// A channel from which nothing came for a while is given back, unless there is work for it.
func TestIdleChannels_AreGivenBack(t *testing.T) {
	d := newDatabase()
	first, second, third := d.join(t), d.join(t), d.join(t)
	busy := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}
	first.mu.Lock()
	first.busy = []chat.Address{busy}
	first.mu.Unlock()
	for _, at := range []chat.Address{general, busy} {
		_, _ = first.Owns(t.Context(), at)
		if mine, err := third.Owns(t.Context(), at); mine || err != nil {
			t.Fatalf("%s: mine %v, %v", at, mine, err)
		}
	}
	d.pass(11 * time.Minute)
	within(t, "the idle channel is given back", func() bool { return d.owner(store.ClaimKey(general)) == 0 })
	if d.owner(store.ClaimKey(busy)) != 1 {
		t.Error("a channel with work was given back")
	}
	var acquired []chat.Address
	second.OnAcquire(func(channel chat.Address) { acquired = append(acquired, channel) })
	for range 2 {
		if mine, err := second.Owns(t.Context(), general); !mine || err != nil {
			t.Fatalf("mine %v, %v", mine, err)
		}
	}
	if !slices.Equal(acquired, []chat.Address{general}) {
		t.Errorf("told of %v, want once of the channel that it has got", acquired)
	}
}

// A channel that could not be given back is given back later, unless it is in use again.
func TestIdleChannels_DatabaseFails_AreGivenBackLater(t *testing.T) {
	d := newDatabase()
	first := d.join(t)
	used := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C2"}
	for _, at := range []chat.Address{general, used} {
		if mine, err := first.Owns(t.Context(), at); !mine || err != nil {
			t.Fatalf("%s: mine %v, %v", at, mine, err)
		}
	}
	d.stick(errors.New("connection lost"))
	d.pass(11 * time.Minute)
	within(t, "giving back is tried", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.tried > 0
	})
	if mine, err := first.Owns(t.Context(), used); !mine || err != nil {
		t.Fatalf("mine %v, %v", mine, err)
	}
	d.stick(nil)
	within(t, "the idle channel is given back", func() bool { return d.owner(store.ClaimKey(general)) == 0 })
	if d.owner(store.ClaimKey(used)) != 1 {
		t.Error("a channel that is in use again was given back")
	}
}

// When the leader is gone another replica leads, and serves the pages itself.
func TestLeader_IsGone_AnotherOneLeads(t *testing.T) {
	d := newDatabase()
	first, second := d.join(t), d.join(t)
	first.stop()
	d.end(1)
	select {
	case <-second.Leads():
	case <-time.After(20 * time.Second):
		t.Fatal("nobody leads")
	}
	if status, body := get(t, second.url+"/"); status != http.StatusOK || !strings.Contains(body, "says /") {
		t.Errorf("%d %s", status, body)
	}
	ran := make(chan struct{})
	go second.WhenLeading(func(context.Context) { close(ran) })(t.Context())
	select {
	case <-ran:
	case <-time.After(20 * time.Second):
		t.Error("what the leader does is not done")
	}
}

// runNode starts a node in a bubble, and returns what ends it.
func runNode(t *testing.T, d *database, l *net.TCPListener) (*replica.Node, func()) {
	t.Helper()
	node, err := replica.Join(t.Context(), options(d, l))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { node.Run(ctx, &running{}); close(ended) }()
	synctest.Wait()
	return node, func() { cancel(); <-ended }
}

func TestRun_Notice_LooksAtOnce(t *testing.T) {
	l := listen(t)
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase()
		_, stop := runNode(t, d, l)
		defer stop()
		before := d.looks
		d.notices <- struct{}{}
		synctest.Wait() // no time passes
		if d.looks != before+1 {
			t.Errorf("%d looks", d.looks-before)
		}
	})
}

// A process that has its store alone leads, and hands nothing on.
func TestNilNode_Leads(t *testing.T) {
	var n *replica.Node
	ran := false
	n.WhenLeading(func(context.Context) { ran = true })(t.Context())
	n.Run(t.Context(), nil)
	n.SetPlatforms(nil)
	if !n.IsLeader() || n.Leads() != nil || !ran || n.Handler(http.NotFoundHandler()) == nil {
		t.Error("a process that is alone does not lead")
	}
}

// A replica that starts while the database is away waits for it, and says so; what will not pass ends it.
func TestJoin_DatabaseIsAwayAtTheStart_Waits(t *testing.T) {
	away := fmt.Errorf("open store: %w", &store.SystemError{What: "the database does not answer", Passing: true})
	refused := &store.SystemError{What: "the database refuses the password"}
	inUse := &store.InUseError{Path: "postgres://db", By: store.Replica{Name: "import/1"}}
	for _, c := range []struct {
		name        string
		first, then error
	}{{"back", away, nil}, {"refused", away, refused}, {"no longer in use", inUse, nil}} {
		t.Run(c.name, func(t *testing.T) {
			then := c.then
			l, d := listen(t), newDatabase()
			o := options(d, l)
			open, trouble := o.Open, make(chan error, 1)
			trouble <- c.first
			o.Open = func(ctx context.Context) (replica.Opened, error) {
				err := <-trouble
				if trouble <- err; err != nil {
					return replica.Opened{}, err
				}
				return open(ctx)
			}
			ended := make(chan error, 1)
			go func() { _, err := replica.Join(t.Context(), o); ended <- err }()
			url := "http://" + l.Addr().String()
			if status, body := get(t, url+"/readyz"); status != http.StatusServiceUnavailable ||
				!strings.Contains(body, "does not answer") {
				t.Errorf("/readyz without the database: %d %s", status, body)
			}
			if status, _ := get(t, url+"/healthz"); status != http.StatusOK {
				t.Errorf("/healthz: %d: a supervisor would restart the replica", status)
			}
			<-trouble
			trouble <- then
			select {
			case err := <-ended:
				if !errors.Is(err, then) {
					t.Errorf("Join returned %v, want %v", err, then)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("Join does not return")
			}
			if then != nil {
				return
			}
			// The listener is open, and serves the bot now.
			server := &http.Server{Handler: http.NotFoundHandler()}
			go server.Serve(l)
			defer server.Close()
			if status, _ := get(t, url+"/readyz"); status != http.StatusNotFound {
				t.Errorf("the listener answers %d, want that of the next server", status)
			}
		})
	}
}

// A supervisor kills a process that shows no life, and a new version may change large tables when it opens the database.
func TestJoin_OpeningTakesLong_AnswersMeanwhile(t *testing.T) {
	l, d := listen(t), newDatabase()
	o := options(d, l)
	open, opened := o.Open, make(chan struct{})
	o.Open = func(ctx context.Context) (replica.Opened, error) {
		<-opened
		return open(ctx)
	}
	ended := make(chan error, 1)
	go func() { _, err := replica.Join(t.Context(), o); ended <- err }()
	client := &http.Client{Timeout: 10 * time.Second}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		res, err := client.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
		}
	}
	close(opened)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A readiness probe is told what keeps the database from being opened, as by a bot that runs.
func TestJoin_DatabaseCannotBeUsed_ReadyzSaysWhy(t *testing.T) {
	l, d := listen(t), newDatabase()
	o := options(d, l)
	open, again, opened := o.Open, make(chan struct{}), make(chan struct{})
	calls := 0
	o.Open = func(ctx context.Context) (replica.Opened, error) {
		if calls++; calls == 1 {
			return replica.Opened{}, &store.SystemError{Path: "db.internal", What: "it is closed", Err: io.EOF, Passing: true}
		}
		close(again)
		<-opened
		return open(ctx)
	}
	ended := make(chan error, 1)
	go func() { _, err := replica.Join(t.Context(), o); ended <- err }()
	<-again
	client := &http.Client{Timeout: 10 * time.Second}
	res, err := client.Get("http://" + l.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(body), "it is closed") ||
		strings.Contains(string(body), "db.internal") {
		t.Errorf("%d %s %v", res.StatusCode, body, err)
	}
	close(opened)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAdvertisedAddress(t *testing.T) {
	database := &net.TCPAddr{IP: net.ParseIP("10.1.2.3"), Port: 40000}
	for _, c := range []struct {
		listen, want string
		towards      net.Addr
	}{
		{"127.0.0.1:8080", "127.0.0.1:8080", database},
		{"10.1.2.9:8080", "10.1.2.9:8080", database},
		{"0.0.0.0:8080", "10.1.2.3:8080", database},
		{"[::]:8080", "10.1.2.3:8080", database},
		{"[::]:8080", "127.0.0.1:8080", &net.UnixAddr{Name: "/run/postgresql", Net: "unix"}},
	} {
		addr, err := net.ResolveTCPAddr("tcp", c.listen)
		if err != nil {
			t.Fatal(err)
		}
		if got := replica.AdvertisedAddress(addr, c.towards); got != c.want {
			t.Errorf("AdvertisedAddress(%s, %v) = %s, want %s", c.listen, c.towards, got, c.want)
		}
	}
}
