package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// shard is one session with the gateway and what comes by it: some of the servers
// and, on the first shard, direct messages. What is said in one place comes by one
// shard, in order.
type shard struct {
	*Discord
	id, count int
	ctx       context.Context // until which messages are handed over
	accept    func(context.Context, chat.Message) error
	queues    *kit.Queues // of messages on their way to accept, by place
	missed    *catchUp    // nil: nothing is read afterwards

	former *formerSession // what the former owner has left; nil: nothing
	// collect takes what is pushed in place of the queues; nil: they do.
	collect func(inbound)

	// Guarded by Discord's lock.
	last           *session                  // which another process may go on with; nil: none
	conn           *connection               // the present one, nil if none
	state          *discordgo.State          // servers, channels and roles as the present session has them; nil: none yet
	recent         *kit.Recent[*wireMessage] // what was said, as the present session has shown it; nil: nothing
	connectedSince time.Time                 // when READY or RESUMED came on it; zero: not yet
	detail         string                    // why there is no connection
	lastEvent      time.Time                 // the last event
	// waiting counts the messages that were read and not accepted yet; alarm is the number
	// at which that is logged next.
	waiting, alarm int
}

// newShard returns a shard that is not connected. ctx ends the handing over of messages, not the connection, which has
// a context of its own (see supervise).
func newShard(
	ctx context.Context,
	d *Discord,
	id, count int,
	accept func(context.Context, chat.Message) error,
) *shard {
	s := &shard{
		Discord: d,
		id:      id,
		count:   count,
		ctx:     ctx,
		accept:  accept,
		queues:  kit.NewQueues(ctx),
		detail:  "not connected yet",
		alarm:   firstAlarm,
	}
	s.missed = s.newMissed()
	return s
}

// isCovering reports whether a server, or direct messages, come by this shard. The rule is Discord's: bits 22 and up of
// a server's id, modulo the number of shards; direct messages come by shard 0.
func (d *shard) isCovering(guild string) bool {
	id, err := strconv.ParseUint(guild, 10, 64)
	if guild == directGuild || err != nil {
		return d.id == 0
	}
	return (id>>22)%uint64(d.count) == uint64(d.id)
}

// gatewayPlan is how Discord wants to be connected to.
type gatewayPlan struct {
	Shards int `json:"shards"`
	Limit  struct {
		Total       int   `json:"total"`       // sessions that may be begun in a day
		Remaining   int   `json:"remaining"`   // … from now
		ResetAfter  int64 `json:"reset_after"` // until there are Total again; milliseconds
		Concurrency int   `json:"max_concurrency"`
	} `json:"session_start_limit"`
}

// maxShards is more than any bot needs whose process could hold the servers.
const maxShards = 1024

// askPlan asks Discord how to connect, as often as it takes; false if ctx ended first, or with an error where the token
// is refused. What stands in for Discord and does not know the question is connected to by one session.
func (d *Discord) askPlan(ctx context.Context) (gatewayPlan, bool, error) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var p gatewayPlan
		err := d.api.do(ctx, request{method: "GET", path: "/gateway/bot"}, &p)
		switch {
		case ctx.Err() != nil:
			return p, false, nil
		case isUnauthorized(err):
			return p, false, tokenError(err)
		case err != nil && !isRefused(err):
			d.o.Log.Warn(
				"failed to read the discord gateway plan; retrying",
				"platform",
				"discord",
				"wait",
				pause,
				"error",
				err,
			)
			d.mu.Lock()
			d.detail = "Discord named no gateway"
			d.mu.Unlock()
			if !kit.Sleep(ctx, pause) {
				return p, false, nil
			}
			continue
		case err != nil:
			d.o.Log.Warn(
				"discord refused the gateway plan; using one session",
				"platform",
				"discord",
				"error",
				err,
			)
			p = gatewayPlan{}
		}
		p.Shards = min(max(cmp.Or(d.o.Shards, p.Shards), 1), maxShards)
		return p, true, nil
	}
}

// errReplan ends the sessions of a bot that has joined more servers than they may hold.
var errReplan = errors.New("discord wants more sessions")

// runPlans keeps all shards connected until ctx ends, for which it returns nil, or one of them can never connect. If
// Discord wants more shards it is asked again, unless the operator set their number.
func (d *Discord) runPlans(ctx context.Context, accept func(context.Context, chat.Message) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	least := 1
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		p, ok, err := d.askPlan(ctx)
		if !ok {
			return err
		}
		p.Shards = min(max(p.Shards, least), maxShards)
		if d.o.Sharing != nil {
			err = d.runSharedShards(ctx, &p, least, accept)
		} else {
			err = d.runShards(ctx, p, accept)
		}
		switch {
		case errors.Is(err, errDivided):
			// Without a pause: joining again returns the number of shards that the others use.
			d.o.Log.Info("another replica changed the number of discord shards", "platform", "discord")
			continue
		case !errors.Is(err, errReplan):
			return err
		case d.o.Shards != 0:
			return &chat.SetupError{
				Reason: fmt.Sprintf("Discord refused to divide the servers among %d sessions", d.o.Shards),
				Remedy: "leave platforms.discord.shards at 0, so that Discord is asked for their number",
			}
		}
		// The plan may not have changed yet, and the same number would be refused again.
		least = p.Shards + 1
		d.o.Log.Warn(
			"discord wants more shards; reading the plan again",
			"platform",
			"discord",
			"shards",
			p.Shards,
			"wait",
			pause,
		)
		if !kit.Sleep(ctx, pause) {
			return nil
		}
	}
}

// runShards keeps the shards of a plan connected, and returns when all have ended: the first error, or nil with ctx.
// One that fails ends the others. Messages that they brought are handed over even after that.
func (d *Discord) runShards(
	ctx context.Context,
	p gatewayPlan,
	accept func(context.Context, chat.Message) error,
) error {
	sessions, stop := context.WithCancel(ctx)
	defer stop()
	var shards []*shard
	for id := range p.Shards {
		shards = append(shards, newShard(ctx, d, id, p.Shards, accept))
	}
	d.mu.Lock()
	before := d.budget
	d.budget, d.shards = newBudget(p, d.o.Now()), shards
	// The limit of a day counts the sessions of former plans, too.
	if before != nil {
		d.budget.begun = before.begun
	}
	d.mu.Unlock()
	ends := make(chan error, len(shards))
	for _, s := range shards {
		d.startWork(func() { <-ctx.Done(); s.queues.Wait() })
		if s.missed != nil {
			d.startWork(func() { s.missed.Run(ctx) })
		}
		d.startWork(func() { ends <- s.supervise(sessions) })
	}
	var err error
	for range shards {
		if end := <-ends; end != nil && err == nil {
			err = end
			stop()
		}
	}
	return err
}

// Health returns the health of the worst shard: a shard is connected if Discord greeted its session and has answered
// the last heartbeat that was due. A process whose shards all belong to others is healthy. Since is when the last of
// the shards was connected.
func (d *Discord) Health() chat.Health {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.shards) == 0 {
		return chat.Health{Connected: d.waits, Detail: d.detail, ShardCount: d.shared.Count}
	}
	all := chat.Health{Connected: true, ShardCount: d.shared.Count}
	if d.o.Sharing != nil {
		for _, s := range d.shards {
			all.Shards = append(all.Shards, s.id)
		}
	}
	heard := d.shards[0].lastEvent
	waiting, behind := 0, 0
	for _, s := range d.shards {
		if fault := s.connectionFault(); fault != "" {
			if s.count > 1 {
				fault = fmt.Sprintf("shard %d of %d: %s", s.id, s.count, fault)
			}
			all.Connected, all.Since, all.Detail = false, time.Time{}, fault
			return all
		}
		if s.connectedSince.After(all.Since) {
			all.Since = s.connectedSince
		}
		if s.lastEvent.Before(heard) {
			heard = s.lastEvent
		}
		waiting += s.waiting
		if s.missed != nil {
			behind += s.missed.Len()
		}
	}
	all.Detail = "last event " + heard.UTC().Format(time.RFC3339)
	if n := len(d.shards); d.o.Sharing != nil && d.shards[0].count > 1 {
		all.Detail += ", " + d.shardsDetail()
	} else if n > 1 {
		all.Detail += " or later on each of " + strconv.Itoa(n) + " shards"
	}
	if waiting > 0 {
		all.Detail += ", " + strconv.Itoa(waiting) + " messages waiting to be stored"
	}
	if behind > 0 {
		all.Detail += ", " + strconv.Itoa(behind) + " conversations not caught up yet"
	}
	return all
}

// connectionFault returns why events cannot reach the bot by this shard; empty if they can. The
// lock is held.
func (d *shard) connectionFault() string {
	if d.connectedSince.IsZero() || d.conn == nil {
		return cmp.Or(d.detail, "not connected yet")
	}
	if st := d.conn.currentStatus(); st.silence() > st.maxSilence() {
		return "Discord does not answer heartbeats"
	}
	return ""
}
