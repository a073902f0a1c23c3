package mcp

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/internal/tool"
)

const (
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// steady is how long a connection must have lasted, if nothing was called on
	// it, for the next delay to be a first one.
	steady = time.Minute
	// relistGap is the least time between two lists that a server asks for.
	relistGap = time.Second
	// probeTime is how long a server that did not answer a call has to show that
	// it lives.
	probeTime = 1500 * time.Millisecond
	// healthTime is the same at the regular check.
	healthTime = 10 * time.Second
	// patience is how many regular checks may fail while calls are under way: a
	// server that does one thing at a time answers none meanwhile. One that lets a
	// call's whole time pass in silence is not waited for.
	patience = 3
)

var (
	errStopped   = errors.New("stopped")
	errRestarted = errors.New("restarted")
)

// server supervises one entry: at most one connection at a time, made, watched
// and ended by the goroutine in run.
type server struct {
	c       Config
	h       *Host
	o       *Options
	source  string
	log     *slog.Logger
	logs    *ring
	mask    func(string) string
	quit    context.CancelFunc // ends run; set when it is started
	retired atomic.Bool        // another has its place, or nobody has: nothing more is kept of it

	settled chan struct{} // closed when the first attempt has ended, or none will be made
	settle  func()
	kick    chan struct{} // wanted has changed, or a delay is to be cut short

	mu        sync.Mutex
	state     State
	problem   string
	since     time.Time
	due       time.Time // the next attempt, after a connection that was good was lost
	checked   time.Time
	wanted    bool
	interrupt context.CancelCauseFunc // ends the attempt or connection there is
	conn      *connection             // nil unless connected
	about     about
	listed    listed
	seen      []inspected // the tools of listed
	cautions  []string    // what is suspicious in what it says of its use
	pins      *pins       // nil: none of its tools was ever seen
	judged    []judged
	held      map[string]bool // tools that wait for Approve
	tools     []tool.Tool     // those that are offered
	changed   chan struct{}   // closed at the next change of state
	users     users

	pinning sync.Mutex // held while pins are saved

	connections int64 // how many were tried; only run uses it

	known    known // what was learnt of the server; only run uses it
	restored bool  // its tools are known from an earlier process
}

// about is what a server said of itself when it was connected.
type about struct{ transport, protocol, version string }

func newServer(h *Host, c Config, source string) *server {
	o := &h.o
	settled := make(chan struct{})
	s := &server{
		c: c, h: h, o: o, source: source, mask: masker(c), quit: func() {},
		log:     o.Log.With("server", c.Name),
		logs:    &ring{now: o.Now, wrote: h.wrote},
		settled: settled, settle: sync.OnceFunc(func() { close(settled) }),
		kick:   make(chan struct{}, 1),
		state:  Uninitialized,
		since:  o.Now(),
		wanted: true, changed: make(chan struct{}),
	}
	if c.Disabled {
		s.state, s.wanted = Disabled, false
		s.settle()
		return s
	}
	if h.recalled { // else that is done for all together, when it is first asked for
		s.recall()
	}
	return s
}

// recall takes what is kept of the server.
func (s *server) recall() {
	if s.c.Disabled {
		return
	}
	s.restoreLog()
	s.restorePins()
	s.restored = s.restore()
}

// run keeps the server connected while it is wanted, until ctx ends.
func (s *server) run(ctx context.Context) {
	if s.c.Disabled {
		return
	}
	defer s.end()
	defer s.dismiss()
	if s.o.StartAfter != nil {
		select {
		case <-s.o.StartAfter:
		case <-ctx.Done():
		}
	}
	s.h.recall()
	if s.lazy() {
		s.settle()
		s.pause(ctx, nil)
	}
	failures := 0
	for ctx.Err() == nil {
		if !s.isWanted() {
			s.move(Stopped, "")
			s.settle()
			s.pause(ctx, nil)
			continue
		}
		select { // whoever asked for an attempt has one now
		case <-s.kick:
		default:
		}
		began := s.o.Now()
		reached, err := s.session(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, errStopped):
			continue
		case errors.Is(err, errRestarted):
			failures = 0
			continue
		case reached == useful || reached == told && s.o.Now().Sub(began) >= steady:
			failures = 0
		case reached == nothing:
			s.forget()
		}
		failures++
		wait := delay(failures, rand.Float64())
		s.fail(err, wait, reached)
		timer := time.NewTimer(wait)
		if s.pause(ctx, timer.C) {
			failures = 0
		}
		timer.Stop()
	}
}

// lazy reports whether the server is started at its first call.
func (s *server) lazy() bool { return s.restored && !s.c.Eager }

// delay before attempt n+1: doubling, at most maxDelay, and shortened by up to a
// half by luck, so that servers which fell together do not rise together.
func delay(n int, luck float64) time.Duration {
	d := maxDelay
	if n < 16 {
		d = min(firstDelay<<(n-1), maxDelay)
	}
	return d - time.Duration(luck*float64(d)/2)
}

// pause waits and reports whether it was ended by a command.
func (s *server) pause(ctx context.Context, until <-chan time.Time) bool {
	select {
	case <-ctx.Done():
	case <-until:
	case <-s.kick:
		return true
	}
	return false
}

// reached is how far a session came.
type reached int

const (
	nothing reached = iota
	told            // its tools are known
	useful          // a call was answered
)

// session connects and watches until that ends, and says why.
func (s *server) session(ctx context.Context) (reached, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	s.interrupt = cancel
	if !s.wanted { // stopped since it was looked at
		cancel(errStopped)
	}
	s.mu.Unlock()
	s.move(Connecting, "")
	began := s.o.Now()
	conn, err := s.connect(ctx)
	if err != nil {
		return nothing, cause(ctx, err)
	}
	defer conn.close()
	list, err := conn.list(ctx, s.o.StartTimeout)
	if err != nil {
		return nothing, cause(ctx, err)
	}
	conn.ready()
	s.connected(conn, list)
	defer s.disconnected()
	s.settle()
	s.log.Info("mcp server connected", "transport", conn.about.transport, "protocol", conn.about.protocol,
		"tools", len(list), "ms", s.o.Now().Sub(began).Milliseconds())
	err = cause(ctx, s.watch(ctx, conn))
	if conn.answered.Load() {
		return useful, err
	}
	return told, err
}

// cause prefers the reason for which we ended things to what followed from it.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch follows a connection until it is lost, found dead, or no longer wanted.
func (s *server) watch(ctx context.Context, conn *connection) error {
	health := time.NewTicker(s.o.HealthInterval)
	defer health.Stop()
	relist, suspect := conn.relist, conn.suspect
	var gap, calm <-chan time.Time // until when either is not looked at
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-conn.lost:
			return conn.why()
		case <-relist:
			relist, gap = nil, time.After(relistGap)
			if err := s.refresh(ctx, conn, healthTime); err != nil {
				s.log.Warn("mcp server did not list its changed tools", "error", s.mask(err.Error()))
			}
		case <-gap:
			relist, gap = conn.relist, nil
		case <-suspect:
			err := s.refresh(ctx, conn, probeTime)
			if err != nil && (!conn.busy() || conn.silent()) {
				return err
			}
			s.mu.Lock()
			s.wake() // calls wait for the outcome
			s.mu.Unlock()
			suspect, calm = nil, time.After(relistGap)
		case <-calm:
			suspect, calm = conn.suspect, nil
		case <-health.C:
			err := s.refresh(ctx, conn, healthTime)
			if err == nil {
				missed = 0
				continue
			}
			if missed++; !conn.busy() || missed >= patience {
				return err
			}
		}
	}
}

// refresh asks for the tools, which shows at once whether the server lives.
func (s *server) refresh(ctx context.Context, conn *connection, timeout time.Duration) error {
	list, err := conn.list(ctx, timeout)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // it is to be ended, and has nothing to tell any more
		return ctx.Err()
	}
	s.connected(conn, list)
	return nil
}

// connected notes that the server has just told its tools.
func (s *server) connected(conn *connection, list []spec) {
	state := Connected
	if len(list) == 0 {
		state = NoToolsFound
	}
	now := listed{Tools: list, Instructions: conn.instructions, Offers: conn.offers()}
	s.mu.Lock()
	same := equal(s.listed, now)
	s.mu.Unlock()
	if same {
		s.rejudge()
	} else {
		s.adopt(now)
	}
	s.mu.Lock() // calls are made from here on, and know what is withheld
	s.conn, s.about, s.checked = conn, conn.about, s.o.Now()
	s.moved(state, "")
	s.mu.Unlock()
	if !same {
		s.remember(now)
	}
}

func (s *server) disconnected() {
	s.mu.Lock()
	s.conn = nil
	s.mu.Unlock()
}

// move changes the state and wakes who waits for that.
func (s *server) move(to State, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moved(to, problem)
}

// moved is move with s.mu held.
func (s *server) moved(to State, problem string) {
	if s.state == to && s.problem == problem {
		return
	}
	if s.state != to {
		s.since = s.o.Now()
	}
	s.state, s.problem = to, problem
	s.wake()
}

// wake wakes who waits for a change; s.mu is held.
func (s *server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) fail(err error, wait time.Duration, came reached) {
	problem := s.mask(plain(err.Error()))
	s.mu.Lock()
	if s.due = (time.Time{}); came != nothing {
		s.due = s.o.Now().Add(wait)
	}
	s.moved(Failed, problem)
	s.mu.Unlock()
	s.settle() // not before: whoever waits asks for the problem
	s.log.Warn("mcp server failed", "error", problem, "retry_in", wait.Round(time.Millisecond).String())
	s.logs.add("bot", []byte("failed: "+problem))
}

func (s *server) end() {
	s.mu.Lock()
	s.wanted = false
	s.mu.Unlock()
	s.move(Stopped, "")
	s.settle()
}

// forget drops the tools of a server that cannot be connected.
func (s *server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed, s.seen, s.cautions, s.judged, s.tools, s.held = listed{}, nil, nil, nil, nil, nil
}

// offered are the tools that may be called now. A lost connection keeps its
// tools until an attempt to make it anew has failed, so that a passing fault
// does not change what models see.
func (s *server) offered() []tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Stopped || s.state == Disabled {
		return nil
	}
	return s.tools
}

func (s *server) isWanted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted
}

func (s *server) start() error {
	s.mu.Lock()
	if s.conn == nil {
		s.moved(Connecting, "") // whoever asked for it sees that it was heard
	}
	s.mu.Unlock()
	s.want(true, nil)
	s.everyone(true, nil)
	return nil
}

func (s *server) restart() error {
	s.mu.Lock()
	s.conn = nil // new calls wait for the next
	s.moved(Connecting, "")
	s.mu.Unlock()
	s.want(true, errRestarted)
	s.everyone(true, errRestarted)
	return nil
}

// stop returns when the process or connection is gone. Ending a process takes a
// few seconds at most; the deadline is for one that the kernel cannot end.
func (s *server) stop() error {
	s.everyone(false, errStopped)
	s.want(false, errStopped)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if !s.await(ctx, func() bool { return s.state == Stopped }) {
		return errors.New("the server has not ended yet")
	}
	return nil
}

// want says whether the server is to run, and ends what there is for a reason.
func (s *server) want(wanted bool, reason error) {
	s.mu.Lock()
	s.wanted = wanted
	interrupt := s.interrupt
	s.mu.Unlock()
	if reason != nil && interrupt != nil {
		interrupt(reason)
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// await waits until a condition on the state holds; it is looked at with the
// lock held. It reports false if ctx ended first.
func (s *server) await(ctx context.Context, holds func() bool) bool {
	for {
		s.mu.Lock()
		ok, changed := holds(), s.changed
		s.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
