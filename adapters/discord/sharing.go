package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Rules of sharing shards with other processes.
const (
	// tableEvery is how often it is looked which shards are free.
	tableEvery = 500 * time.Millisecond
	// balanceAfter is how long a process must have had more than its part before it releases a shard, one each time: a
	// move costs a session of those of the day, and a process that was restarted may be gone again.
	balanceAfter = time.Minute
	// balancePart: shards move for balance alone while less than one in so many of the day's sessions were begun.
	balancePart = 4
	// drainTimeout is how long what a shard has brought may take to be stored before it is released: as long as answers
	// may take that are under way when the bot ends.
	drainTimeout = 5 * time.Second
	drainPause   = 20 * time.Millisecond
	// releaseTimeout bounds telling the others what this process no longer has.
	releaseTimeout = 5 * time.Second
)

// errDivided ends the sessions of a bot whose servers another process has divided among another number of shards.
var errDivided = errors.New("another replica has divided the servers among another number of shards")

// Sharing is what a process needs that shares its bot with others. Shards are divided among them, and what comes by a
// shard is stored: a process that has not the shard may answer it.
type Sharing struct {
	Shards store.Shards
	// Store names what all that share the bot have in common, so that a bot beside them is noticed; "": it cannot be.
	Store string
	Leads <-chan struct{} // closed when this process does what one alone has to do
}

// sharedShards are the shards of a process that shares them with others. One goroutine uses them.
type sharedShards struct {
	*Discord
	bot    string
	plan   gatewayPlan
	accept func(context.Context, chat.Message) error
	// held are the shards of this process by their numbers. It may differ from the table for a moment: a shard is ended
	// before it is released, and started behind its claim.
	held   map[int]*heldShard
	failed chan error // why a shard can never connect
	excess time.Time  // since when this process has more than its part; zero: it has not
}

// heldShard is a shard that this process owns.
type heldShard struct {
	*shard
	disconnect context.CancelFunc
	drop       context.CancelFunc // ends all that it does
	ended      chan struct{}      // closed when it has no connection and will have none
}

// runSharedShards keeps this process's part of the shards connected until ctx ends or one of them can never connect. It
// sets the number of shards of the plan to that which all processes use.
func (d *Discord) runSharedShards(
	ctx context.Context,
	p *gatewayPlan,
	least int,
	accept func(context.Context, chat.Message) error,
) error {
	bot, ok, err := d.identifySelf(ctx)
	if !ok {
		return err
	}
	if p.Shards, ok = d.joinShards(ctx, bot, p.Shards, least); !ok {
		return nil
	}
	d.mu.Lock()
	before := d.budget
	d.budget, d.botKey = newBudget(*p, d.o.Now()), bot
	// The limit of a day counts the sessions of former plans, too.
	if before != nil {
		d.budget.begun = before.begun
	}
	d.mu.Unlock()
	s := &sharedShards{
		Discord: d,
		bot:     bot,
		plan:    *p,
		accept:  accept,
		held:    map[int]*heldShard{},
		failed:  make(chan error, p.Shards), // each shard fails once
	}
	defer s.releaseAll(context.WithoutCancel(ctx))
	look := time.NewTicker(tableEvery)
	defer look.Stop()
	for {
		table, err := d.o.Sharing.Shards.ShardTable(ctx, bot)
		switch {
		case err == nil && table.Count != p.Shards:
			return errDivided
		case err == nil:
			s.follow(ctx, table)
		case ctx.Err() == nil:
			// The shards stay: nobody else can claim them now.
			d.o.Log.Debug("discord shards not looked up", "platform", "discord", "error", err)
		}
		select {
		case <-look.C:
		case err := <-s.failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// identifySelf asks Discord who the bot is, which a process without a shard is not told, and returns the name of the
// bot among the processes; false if ctx ended first, or with an error where the token is refused.
func (d *Discord) identifySelf(ctx context.Context) (bot string, ok bool, err error) {
	for pause := firstPause; d.botUser().ID == ""; pause = min(2*pause, maxPause) {
		var self wireUser
		err := d.api.do(ctx, request{method: "GET", path: "/users/@me"}, &self)
		switch {
		case ctx.Err() != nil:
			return "", false, nil
		case isUnauthorized(err):
			return "", false, tokenError(err)
		case isRefused(err): // what stands in for Discord does not know the question
			return d.Name(), true, nil
		case err == nil:
			d.mu.Lock()
			d.self = self
			d.mu.Unlock()
			continue
		}
		d.o.Log.Warn("failed to read the discord identity; retrying", "platform", "discord", "wait", pause, "error", err)
		if !kit.Sleep(ctx, pause) {
			return "", false, nil
		}
	}
	return d.Name() + "/" + d.botUser().ID, true, nil
}

// joinShards takes part in the shards and returns how many there are, which the first process decides; false if ctx
// ended first. least is the number below which Discord has refused.
func (d *Discord) joinShards(ctx context.Context, bot string, want, least int) (count int, ok bool) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		count, err := d.o.Sharing.Shards.JoinShards(ctx, bot, want, least)
		if err == nil {
			if count != want {
				d.o.Log.Info("using as many discord shards as other replicas", "platform", "discord", "shards", count,
					"wanted", want, "remedy", "stop all replicas to change their number")
			}
			return count, true
		}
		if ctx.Err() == nil {
			d.o.Log.Warn("failed to join the discord shards; retrying", "platform", "discord", "wait", pause, "error", err)
		}
		if !kit.Sleep(ctx, pause) {
			return 0, false
		}
	}
}

// follow does what the table of shards asks for: it ends what is no longer this process's, claims what is free, and
// releases what is too much.
func (s *sharedShards) follow(ctx context.Context, table store.ShardTable) {
	for id, h := range s.held {
		if !slices.Contains(table.Own, id) {
			s.o.Log.Warn("discord shard belongs to another replica", "platform", "discord", "shard", id)
			s.end(h)
		}
	}
	for _, id := range table.Own { // of a former attempt to run
		if s.held[id] == nil {
			s.start(ctx, id, nil)
		}
	}
	for _, id := range table.Free {
		if len(s.held) >= table.Part() {
			break
		}
		if !s.isBeginning(id) {
			s.claim(ctx, id)
		}
	}
	s.setShared(table)
	s.balance(ctx, table)
}

// isBeginning reports whether a shard of this process in the bucket of another one has no connection yet. So the shards
// that have to wait for their turn are left to processes that start a moment later.
func (s *sharedShards) isBeginning(id int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if s.budget.bucketOf(h.id) == s.budget.bucketOf(id) && h.connectedSince.IsZero() {
			return true
		}
	}
	return false
}

// claim takes a free shard and connects it; another process may have been quicker, and then nothing happens.
func (s *sharedShards) claim(ctx context.Context, id int) {
	left, isOwn, err := s.o.Sharing.Shards.ClaimShard(ctx, s.bot, id, s.plan.Shards)
	switch {
	case err != nil && ctx.Err() == nil:
		s.o.Log.Warn("failed to claim a discord shard", "platform", "discord", "shard", id, "error", err)
	case isOwn:
		s.start(ctx, id, left)
	}
}

// start connects a shard that belongs to this process. left is what its former owner has left of its session.
func (s *sharedShards) start(ctx context.Context, id int, left []byte) {
	// What it brings is stored also when ctx has ended: see end.
	work, drop := context.WithCancel(context.WithoutCancel(ctx))
	session, disconnect := context.WithCancel(ctx)
	h := &heldShard{
		shard:      newShard(work, s.Discord, id, s.plan.Shards, s.accept),
		disconnect: disconnect,
		drop:       drop,
		ended:      make(chan struct{}),
	}
	var former formerSession
	if json.Unmarshal(left, &former) == nil && former.ID != "" {
		h.former = &former
	}
	s.held[id] = h
	s.setHeld()
	s.o.Log.Info("discord shard claimed", "platform", "discord", "shard", id, "shards", s.plan.Shards,
		"former_session", h.former != nil)
	s.startWork(func() { <-work.Done(); h.queues.Wait() })
	s.startWork(func() { h.missed.Run(work) })
	s.startWork(func() {
		defer close(h.ended)
		if err := h.supervise(session); err != nil {
			s.failed <- err
		}
	})
}

// end disconnects a shard, waits up to drainTimeout until what it has brought is stored, and returns what its next
// owner may read of its session; nil where that is not certain to be complete.
func (s *sharedShards) end(h *heldShard) (left []byte) {
	h.disconnect()
	<-h.ended
	// A session can be left only when all that it brought is stored. Without one the next owner reads the history.
	for end := time.Now().Add(drainTimeout); time.Now().Before(end); kit.Sleep(h.ctx, drainPause) {
		if left = h.leftSession(); left != nil || !h.isDraining() {
			break
		}
	}
	h.drop()
	h.queues.Wait()
	delete(s.held, h.id)
	s.setHeld()
	return left
}

// isDraining reports whether something that a shard has brought is on its way to be stored.
func (d *shard) isDraining() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting > 0
}

// release lets another process have a shard.
func (s *sharedShards) release(ctx context.Context, h *heldShard) {
	left := s.end(h)
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	err := s.o.Sharing.Shards.ReleaseShard(ctx, s.bot, h.id, left)
	if err != nil {
		s.o.Log.Warn("failed to release a discord shard", "platform", "discord", "shard", h.id, "error", err)
		return
	}
	s.o.Log.Info("discord shard released", "platform", "discord", "shard", h.id, "session_left", left != nil)
}

// releaseAll lets other processes have all shards, in the end of a process. What cannot be told them they find out when
// the membership of this one has run out.
func (s *sharedShards) releaseAll(ctx context.Context) {
	for _, h := range s.held {
		h.disconnect() // all at once
	}
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		s.release(ctx, s.held[id])
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	if err := s.o.Sharing.Shards.LeaveShards(ctx, s.bot); err != nil {
		s.o.Log.Warn("failed to leave the discord shards", "platform", "discord", "error", err)
	}
}

// balance releases a shard where this process has had more than its part for some time and all its shards are
// connected. There is no release while many sessions of the day are used up, because each move costs one.
func (s *sharedShards) balance(ctx context.Context, table store.ShardTable) {
	isWhole := true
	s.mu.Lock()
	after := s.balanceAfter
	for _, h := range s.held {
		isWhole = isWhole && !h.connectedSince.IsZero()
	}
	s.mu.Unlock()
	switch {
	case len(s.held) <= table.Part() || !isWhole:
		s.excess = time.Time{}
	case s.excess.IsZero():
		s.excess = time.Now()
	case time.Since(s.excess) >= after && table.Identifies < s.budget.maxPerDay/balancePart:
		s.excess = time.Time{}
		s.release(ctx, s.held[slices.Max(slices.Collect(maps.Keys(s.held)))])
	}
}

// setHeld has the rest of the adapter see which shards this process has.
func (s *sharedShards) setHeld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shards = nil
	for _, id := range slices.Sorted(maps.Keys(s.held)) {
		s.shards = append(s.shards, s.held[id].shard)
	}
}

// setShared notes what Health says of a process without a shard.
func (s *sharedShards) setShared(table store.ShardTable) {
	s.api.pace.Share(table.Replicas)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = table
	s.detail = "shards are free, and this process has claimed none yet"
	if s.waits = len(table.Free) == 0; s.waits {
		s.detail = "other replicas have the " + countShards(table.Count)
	}
}

// countShards returns a number of shards in words; one is just a connection.
func countShards(n int) string {
	if n == 1 {
		return "connection"
	}
	return strconv.Itoa(n) + " shards"
}

// shardsDetail returns which shards this process has, for Health. The lock is held.
func (d *Discord) shardsDetail() string {
	var ids []string
	for _, s := range d.shards {
		ids = append(ids, strconv.Itoa(s.id))
	}
	return fmt.Sprintf("shards %s of %d", strings.Join(ids, ", "), d.shards[0].count)
}

// awaitLead registers the commands when this process leads: one is enough.
func (d *Discord) awaitLead(ctx context.Context) {
	select {
	case <-d.o.Sharing.Leads:
	case <-ctx.Done():
		return
	}
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		app, err := d.Application(ctx)
		if err == nil {
			d.registerOnce(ctx, app)
			return
		}
		if ctx.Err() == nil {
			d.o.Log.Warn("failed to read the discord application; retrying", "platform", "discord", "wait", pause, "error", err)
		}
		kit.Sleep(ctx, pause)
	}
}
