package mcp

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

const (
	// Delays between attempts to connect: the first, which doubles with each failure, and the longest.
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// steadyAfter is how long a connection without an answered call must have lasted for
	// the delays to begin again with firstDelay.
	steadyAfter = time.Minute
	// minRelistInterval is the minimum time between two lists that a server asks for. It doubles, up to
	// maxRelistInterval, while the server asks without a pause, as some do after each list.
	minRelistInterval = time.Second
	maxRelistInterval = 5 * time.Minute
	// probeTimeout is how long a server that did not answer a call has to show that it is alive.
	probeTimeout = 1500 * time.Millisecond
	// healthTimeout is the same for the regular check.
	healthTimeout = 10 * time.Second
	// maxMissedChecks is how many regular checks in a row may fail while calls are
	// running: a server that handles one request at a time answers none meanwhile.
	maxMissedChecks = 3
)

var (
	// Reasons with which setWanted ends a session. Neither counts as a failure of the server.
	errStopped   = errors.New("stopped")
	errRestarted = errors.New("restarted")
)

// server supervises one entry: at most one connection at a time, made, watched and ended by the
// goroutine in run. Calls and the methods of Host only change wanted and wait for the state, so
// that two of them cannot start the same program twice.
type server struct {
	c       Config
	h       *Host
	o       *Options
	source  string
	log     *slog.Logger
	logs    *logBuffer
	mask    func(string) string
	quit    context.CancelFunc // ends run; set when it is started
	leases  int                // of those who need it to run; Host.mu guards it
	retired atomic.Bool        // replaced or removed: nothing of it is saved any more

	firstAttempt    chan struct{} // closed when the first attempt has ended, or none will be made
	endFirstAttempt func()
	wakeup          chan struct{} // signalled when wanted has changed, or to cut a delay short

	// mu guards the fields below. It is taken after Host.mu, and not held while anybody waits for
	// the server or the store.
	mu                  sync.Mutex
	state               State                   // never Quarantined: see publicState
	problem             string                  // why it is Failed, secrets masked; else ""
	since               time.Time               // of state
	retryAt             time.Time               // of the next attempt, after a good connection was lost
	checkedAt           time.Time               // when it last listed its tools
	wanted              bool                    // whether run should keep a connection
	endSession          context.CancelCauseFunc // ends the current attempt or connection
	conn                *connection             // nil unless connected
	info                serverInfo
	listing             listing         // the last one, of this or an earlier process
	inspected           []inspectedTool // the tools of listed
	instructionWarnings []string        // what is suspicious in its instructions
	pins                *pins           // nil: none of its tools was ever seen
	decisions           []decidedTool   // one for each of inspected
	tools               []tool.Tool     // those that are offered
	changed             chan struct{}   // closed at the next change of state
	users               userConnections

	savingPins sync.Mutex // held while pins are saved

	learned     learned // used only by run
	restoreOnce sync.Once
	restored    bool // its tools are known from an earlier process
}

// serverInfo is what a server said of itself when it was connected.
type serverInfo struct {
	transport, protocol, version string
	isolation                    []string // what keeps its process from the bot, in words
}

// newServer returns a server that does nothing until run. It reads nothing from the store.
func newServer(h *Host, c Config, source string) *server {
	o := &h.o
	firstAttempt := make(chan struct{})
	s := &server{
		c:               c,
		h:               h,
		o:               o,
		source:          source,
		mask:            newMasker(c),
		quit:            func() {},
		log:             o.Log.With("server", c.Name),
		logs:            &logBuffer{now: o.Now},
		firstAttempt:    firstAttempt,
		endFirstAttempt: sync.OnceFunc(func() { close(firstAttempt) }),
		wakeup:          make(chan struct{}, 1),
		state:           Uninitialized,
		since:           o.Now(),
		wanted:          true,
		changed:         make(chan struct{}),
	}
	if c.Disabled {
		s.state, s.wanted = Disabled, false
		s.endFirstAttempt()
	}
	return s
}

// run keeps the server connected while it is wanted, until ctx ends. An attempt that fails is
// repeated after a growing delay, which Start and Restart cut short. The number of failures begins
// again with 0 after a session in which a call was answered or which lasted for steadyAfter: a
// server that lists its tools and ends at once is delayed like one that does not start.
func (s *server) run(ctx context.Context) {
	if s.c.Disabled {
		return
	}
	defer s.markStopped()
	defer s.closeUsers() // first, as the users' servers end with this one
	if s.o.StartAfter != nil {
		select {
		case <-s.o.StartAfter:
		case <-ctx.Done():
		}
	}
	s.h.sortedServers() // restores them, in the order of their names
	if s.startsOnCall() {
		s.endFirstAttempt()
		s.waitForWakeup(ctx, nil)
	}
	failures := 0
	for ctx.Err() == nil {
		s.mu.Lock()
		isWanted := s.wanted
		s.mu.Unlock()
		if !isWanted {
			s.setState(Stopped, "")
			s.endFirstAttempt()
			s.waitForWakeup(ctx, nil)
			continue
		}
		// A pending wakeup asked for the attempt that begins now: it must not also cut the delay after it short.
		select {
		case <-s.wakeup:
		default:
		}
		began := s.o.Now()
		reached, err := s.runSession(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, errStopped):
			continue
		case errors.Is(err, errRestarted):
			failures = 0
			continue
		case reached == callAnswered || reached == toolsListed && s.o.Now().Sub(began) >= steadyAfter:
			failures = 0
		case reached == notConnected:
			s.dropTools()
		}
		failures++
		wait := retryDelay(failures, rand.Float64())
		s.recordFailure(err, wait, reached)
		if s.waitForWakeup(ctx, time.After(wait)) {
			failures = 0
		}
	}
}

func (s *server) startsOnCall() bool { return s.restored && !s.c.Eager }

// retryDelay returns the delay after n failed attempts: doubling, at most maxDelay, and shortened by up to a half by
// luck in [0,1), so that servers which failed at the same time are not restarted at the same time.
func retryDelay(n int, luck float64) time.Duration {
	d := maxDelay
	if n < 16 {
		d = min(firstDelay<<(n-1), maxDelay)
	}
	return d - time.Duration(luck*float64(d)/2)
}

// waitForWakeup waits until ctx ends, until fires or s.wakeup is signalled, and reports
// whether it was the last. A nil channel never fires.
func (s *server) waitForWakeup(ctx context.Context, until <-chan time.Time) bool {
	select {
	case <-ctx.Done():
	case <-until:
	case <-s.wakeup:
		return true
	}
	return false
}

// outcome is how far a session got.
type outcome int

const (
	notConnected outcome = iota
	toolsListed          // the server has listed its tools
	callAnswered         // a call was answered
)

// runSession connects and watches until that ends, and says why.
func (s *server) runSession(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	s.endSession = cancel
	if !s.wanted { // stop was called before endSession was set, and could not call it
		cancel(errStopped)
	}
	s.mu.Unlock()
	s.setState(Connecting, "")
	began := s.o.Now()
	// Connecting and listing may each take StartTimeout.
	conn, err := s.connect(ctx)
	if err != nil {
		return notConnected, preferCause(ctx, err)
	}
	defer conn.close()
	list, err := conn.list(ctx, s.o.StartTimeout)
	if err != nil {
		return notConnected, preferCause(ctx, err)
	}
	s.recordListing(conn, list)
	defer s.clearConnection() // before conn.close, so that no call begins on a connection that ends
	s.endFirstAttempt()
	s.log.Info("mcp server connected", "transport", conn.info.transport, "protocol", conn.info.protocol,
		"tools", len(list), "ms", s.o.Now().Sub(began).Milliseconds())
	err = preferCause(ctx, s.watch(ctx, conn))
	if conn.hasAnswered.Load() {
		return callAnswered, err
	}
	return toolsListed, err
}

// preferCause returns the reason why ctx was ended, if it was, in place of the error that followed from it.
func preferCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch watches a connection until it is lost, found dead, or no longer wanted, and returns why.
func (s *server) watch(ctx context.Context, conn *connection) error {
	health := time.NewTicker(s.o.HealthInterval)
	defer health.Stop()
	relist, suspect := conn.relistWanted, conn.checkWanted
	// A nil channel blocks: while relist or suspect is nil, its signals wait for the timer.
	var gap, calm <-chan time.Time
	interval, listed := minRelistInterval, time.Time{}
	missed := 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-conn.lost:
			return conn.lossReason()
		case <-relist:
			if time.Since(listed) > 2*interval {
				interval = minRelistInterval
			} else if interval < maxRelistInterval {
				if interval = min(2*interval, maxRelistInterval); interval == maxRelistInterval {
					s.log.Warn("mcp server keeps announcing changed tools; listing them less often", "interval", interval)
				}
			}
			relist, gap, listed = nil, time.After(interval), time.Now()
			if err := s.refresh(ctx, conn, healthTimeout); err != nil {
				s.log.Warn("mcp server failed to list its changed tools", "error", s.mask(err.Error()))
			}
		case <-gap:
			relist, gap = conn.relistWanted, nil
		case <-suspect:
			// No answer is proof of death only where no call keeps the server busy.
			if err := s.refresh(ctx, conn, probeTimeout); err != nil && !conn.hasCalls() {
				return err
			}
			suspect, calm = nil, time.After(minRelistInterval)
		case <-calm:
			suspect, calm = conn.checkWanted, nil
		case <-health.C:
			err := s.refresh(ctx, conn, healthTimeout)
			if err == nil {
				missed = 0
				continue
			}
			if missed++; !conn.hasCalls() || missed >= maxMissedChecks {
				return err
			}
		}
	}
}

// refresh lists the tools, which also shows whether the server is alive.
func (s *server) refresh(ctx context.Context, conn *connection, timeout time.Duration) error {
	list, err := conn.list(ctx, timeout)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the connection is being ended: its list must not set a state
		return ctx.Err()
	}
	s.recordListing(conn, list)
	return nil
}

// recordListing records the tools that the server has just listed.
func (s *server) recordListing(conn *connection, list []toolSpec) {
	state := Connected
	if len(list) == 0 {
		state = NoToolsFound
	}
	now := listing{Tools: list, Instructions: conn.instructions, Offers: conn.features()}
	changed := s.setListing(now)
	// The connection is published last: calls begin here, and have to find changed tools in quarantine.
	s.mu.Lock()
	s.conn, s.info, s.checkedAt = conn, conn.info, s.o.Now()
	s.setStateLocked(state, "")
	s.mu.Unlock()
	// Last, and without the lock: no call waits for the store.
	if changed {
		s.saveOrLog(kindTools, savedListing{s.fingerprint(), now})
	}
}

// clearConnection has calls wait for the next connection.
func (s *server) clearConnection() {
	s.mu.Lock()
	s.conn = nil
	s.mu.Unlock()
}

// setState changes the state and wakes those who wait for a change.
func (s *server) setState(to State, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setStateLocked(to, problem)
}

// setStateLocked is setState with s.mu held.
func (s *server) setStateLocked(to State, problem string) {
	if s.state == to && s.problem == problem {
		return
	}
	if s.state != to {
		s.since = s.o.Now()
	}
	s.state, s.problem = to, problem
	s.wakeWaiters()
}

// wakeWaiters wakes all callers of awaitState; s.mu is held.
func (s *server) wakeWaiters() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// describe returns the text of an error as one line without secrets. Servers and what stands before them answer with
// whole pages.
func (s *server) describe(err error) string {
	return text.ErrorLine(s.mask(text.OneLine(err.Error())), 500)
}

// recordFailure sets the state to Failed with what happened, secrets masked, and notes when the next attempt is.
func (s *server) recordFailure(err error, wait time.Duration, came outcome) {
	problem := s.describe(err)
	s.mu.Lock()
	if s.retryAt = (time.Time{}); came != notConnected {
		s.retryAt = s.o.Now().Add(wait)
	}
	s.setStateLocked(Failed, problem)
	s.mu.Unlock()
	s.endFirstAttempt() // after the state is set: whoever waits for it reads the problem next
	s.log.Warn("mcp server failed", "error", problem, "retry_in", wait.Round(time.Millisecond).String())
	s.logs.add("bot", []byte("failed: "+problem))
}

func (s *server) markStopped() {
	s.mu.Lock()
	s.wanted = false
	s.mu.Unlock()
	s.setState(Stopped, "")
	s.endFirstAttempt()
}

func (s *server) dropTools() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listing, s.inspected, s.instructionWarnings = listing{}, nil, nil
	s.decisions, s.tools = nil, nil
}

// offeredTools returns the tools that may be called now. A server keeps its tools after a lost connection until an
// attempt to connect again has failed, so that a passing fault does not change what models see.
func (s *server) offeredTools() []tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Stopped || s.state == Disabled {
		return nil
	}
	return s.tools
}

// begin has the server connect, with a reason anew; it does not wait for that.
func (s *server) begin(reason error) error {
	s.mu.Lock()
	if reason != nil {
		s.conn = nil // new calls wait for the next connection
	}
	if s.conn == nil {
		s.setStateLocked(Connecting, "") // at once, so that the caller's next status shows it
	}
	s.mu.Unlock()
	s.setWanted(true, reason)
	s.setUsersWanted(true, reason)
	return nil
}

// stop returns when the process or connection is gone. Ending a process takes a few seconds at most; the deadline is
// for one that the kernel cannot end, as one that hangs in a system call.
func (s *server) stop() error {
	s.setUsersWanted(false, errStopped)
	s.setWanted(false, errStopped)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if !s.awaitState(ctx, func() bool { return s.state == Stopped }) {
		return errors.New("the server has not ended yet")
	}
	return nil
}

// setWanted sets whether the server is to run and wakes the supervisor. With a reason it
// also ends the current attempt or connection.
func (s *server) setWanted(wanted bool, reason error) {
	s.mu.Lock()
	s.wanted = wanted
	interrupt := s.endSession
	s.mu.Unlock()
	if reason != nil && interrupt != nil {
		interrupt(reason)
	}
	wake(s.wakeup)
}

// awaitState waits until a condition on the state holds, which is called with s.mu held.
// It reports false if ctx ended first.
func (s *server) awaitState(ctx context.Context, holds func() bool) bool {
	for {
		s.mu.Lock()
		// Both under one lock: a change between them would be missed.
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
