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
	// Delays between attempts to connect: the first one, which doubles with each failure, and the longest.
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// steadyAfter is the length of a connection without an answered call that resets the delays.
	steadyAfter = time.Minute
	// minRelistInterval is the minimum time between lists that a server asks for. It doubles up to maxRelistInterval
	// while the server keeps asking, as some do after each list.
	minRelistInterval = time.Second
	maxRelistInterval = 5 * time.Minute
	// probeTimeout bounds the check of a server that did not answer a call, healthTimeout the regular check.
	probeTimeout  = 1500 * time.Millisecond
	healthTimeout = 10 * time.Second
	// maxMissedChecks bounds failed regular checks in a row during calls, because some servers handle one request at a
	// time.
	maxMissedChecks = 3
)

var (
	// Reasons for the end of a session that are not failures.
	errStopped   = errors.New("stopped")
	errRestarted = errors.New("restarted")
)

// server supervises one entry: at most one connection at a time, made, watched and ended by the goroutine in run. All
// others only change wanted and wait for the state, so that a program cannot be started twice.
type server struct {
	c       Config
	h       *Host
	o       *Options
	source  string
	log     *slog.Logger
	logs    *logBuffer
	mask    func(string) string
	quit    context.CancelFunc // ends run; set when it is started
	leases  int                // leases on it; Host.mu guards it
	retired atomic.Bool        // replaced or removed: its state is not saved

	firstAttempt    chan struct{} // closed after the first attempt, or if there will be none
	endFirstAttempt func()
	wakeup          chan struct{} // signalled when wanted has changed, or to cut a delay short

	// mu guards the fields below. It is taken after Host.mu, and not held during calls of the server or the store.
	mu                  sync.Mutex
	state               State                   // never Quarantined: see publicState
	problem             string                  // the reason for Failed, masked; otherwise ""
	since               time.Time               // of state
	retryAt             time.Time               // time of the next attempt, after a good connection was lost
	checkedAt           time.Time               // time of the last list of tools
	wanted              bool                    // whether run should keep a connection
	endSession          context.CancelCauseFunc // ends the current attempt or connection
	conn                *connection             // nil unless connected
	info                serverInfo
	listing             listing         // the last one, perhaps of an earlier process
	inspected           []inspectedTool // the tools of listing
	instructionWarnings []string        // about its instructions
	pins                *pins           // nil: it has listed no tools yet
	decisions           []decidedTool   // one for each element of inspected
	tools               []tool.Tool     // the offered ones
	changed             chan struct{}   // closed at the next change of state
	users               userConnections

	savingPins sync.Mutex // held while pins are saved

	learned     era // of the last connection; used only by run
	restoreOnce sync.Once
	restored    bool // its tools are known from an earlier process
}

// serverInfo is the server's own description at the start of the connection.
type serverInfo struct {
	transport, protocol, version string
	isolation                    []string // description of the isolation of its process
}

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

// run keeps the server connected while it is wanted, until ctx ends. It repeats failed attempts with growing delays,
// which Start and Restart cut short. A session resets the delays if a call was answered or the session lasted for
// steadyAfter; a server that lists its tools and ends at once is delayed.
func (s *server) run(ctx context.Context) {
	if s.c.Disabled {
		return
	}
	defer func() {
		s.mu.Lock()
		s.wanted = false
		s.mu.Unlock()
		s.setState(Stopped, "")
		s.endFirstAttempt()
	}()
	defer s.closeUsers() // first: the users' servers end with this one
	if s.o.StartAfter != nil {
		select {
		case <-s.o.StartAfter:
		case <-ctx.Done():
		}
	}
	s.h.sortedServers() // restores their state, in the order of their names
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
		// A pending wakeup asked for this attempt, and must not cut the next delay short.
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
			s.mu.Lock()
			s.listing, s.inspected, s.instructionWarnings = listing{}, nil, nil
			s.decisions, s.tools = nil, nil
			s.mu.Unlock()
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
// luck in [0,1), so that servers do not restart at the same time.
func retryDelay(n int, luck float64) time.Duration {
	d := maxDelay
	if n < 16 {
		d = min(firstDelay<<(n-1), maxDelay)
	}
	return d - time.Duration(luck*float64(d)/2)
}

// waitForWakeup waits for s.wakeup, until, or the end of ctx. It returns true for s.wakeup.
func (s *server) waitForWakeup(ctx context.Context, until <-chan time.Time) bool {
	select {
	case <-ctx.Done():
	case <-until:
	case <-s.wakeup:
		return true
	}
	return false
}

type outcome int

const (
	notConnected outcome = iota
	toolsListed
	callAnswered
)

func (s *server) runSession(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.mu.Lock()
	s.endSession = cancel
	if !s.wanted { // stop was called before endSession was set
		cancel(errStopped)
	}
	s.mu.Unlock()
	s.setState(Connecting, "")
	began := s.o.Now()
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

// preferCause returns the cause of ctx if ctx has ended, otherwise err.
func preferCause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// watch watches a connection until it is lost, dead, or not wanted. It returns the reason.
func (s *server) watch(ctx context.Context, conn *connection) error {
	health := time.NewTicker(s.o.HealthInterval)
	defer health.Stop()
	relist, suspect := conn.relistWanted, conn.checkWanted
	// A nil channel blocks: while relist or suspect is nil, its signals wait.
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
			// Calls may keep the server too busy to answer.
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

// refresh lists the tools, which shows that the server is alive.
func (s *server) refresh(ctx context.Context, conn *connection, timeout time.Duration) error {
	list, err := conn.list(ctx, timeout)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // the connection is ending: its list must not set a state
		return ctx.Err()
	}
	s.recordListing(conn, list)
	return nil
}

func (s *server) recordListing(conn *connection, list []toolSpec) {
	state := Connected
	if len(list) == 0 {
		state = NoToolsFound
	}
	now := listing{Tools: list, Instructions: conn.instructions, Offers: conn.features()}
	changed := s.setListing(now)
	// The connection is published last, after changed tools are in quarantine.
	s.mu.Lock()
	s.conn, s.info, s.checkedAt = conn, conn.info, s.o.Now()
	s.setStateLocked(state, "")
	s.mu.Unlock()
	// Without the lock, so that no call waits for the store.
	if changed {
		s.saveOrLog(kindTools, savedListing{s.fingerprint(), now})
	}
}

func (s *server) clearConnection() {
	s.mu.Lock()
	s.conn = nil
	s.mu.Unlock()
}

func (s *server) setState(to State, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setStateLocked(to, problem)
}

// setStateLocked sets the state and wakes waiters; s.mu is held.
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

func (s *server) wakeWaiters() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// describe returns an error as one short line without secrets, because servers and proxies answer with whole pages.
func (s *server) describe(err error) string {
	return text.ErrorLine(s.mask(text.OneLine(err.Error())), 500)
}

// recordFailure sets the state to Failed and the time of the next attempt.
func (s *server) recordFailure(err error, wait time.Duration, came outcome) {
	problem := s.describe(err)
	s.mu.Lock()
	if s.retryAt = (time.Time{}); came != notConnected {
		s.retryAt = s.o.Now().Add(wait)
	}
	s.setStateLocked(Failed, problem)
	s.mu.Unlock()
	s.endFirstAttempt() // after the state is set, for those who wait
	s.log.Warn("mcp server failed", "error", problem, "retry_in", wait.Round(time.Millisecond).String())
	s.logs.add("bot", []byte("failed: "+problem))
}

// offeredTools returns the tools that may be called now. A server keeps its tools after a lost connection until an
// attempt to reconnect fails, so that short faults do not change the list.
func (s *server) offeredTools() []tool.Tool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Stopped || s.state == Disabled {
		return nil
	}
	return s.tools
}

// begin requests a connection, or with a reason a new one. It does not wait.
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

// stop ends the connection and the process, and waits for the end. The deadline is for processes that the kernel cannot
// end.
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

// setWanted sets wanted and wakes the supervisor. A reason ends the current attempt or connection.
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

// awaitState waits until a condition holds, which is called with s.mu held. It returns false if ctx ends first.
func (s *server) awaitState(ctx context.Context, holds func() bool) bool {
	for {
		s.mu.Lock()
		// Both under one lock, so that no change is missed.
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
