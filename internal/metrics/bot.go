package metrics

import (
	"context"
	"slices"

	"ravenbot/internal/delivery"
	"ravenbot/internal/llm/breaker"
	"ravenbot/internal/mcp"
	"ravenbot/internal/platform"
	"ravenbot/internal/store"
)

// Store is what a Bot counts in the store.
type Store interface {
	Undelivered(ctx context.Context) ([]store.Post, error)
	FeedbackCounts(ctx context.Context) (good, bad int, err error)
	Size() (bytes, free int64, err error)
	Commits() uint64
	Health() error
	Damage() []string
}

// Bot is what is counted of the bot.
type Bot struct {
	Version   string
	Delivery  *delivery.Service
	Platforms *platform.Set
	Servers   *mcp.Host
	Store     Store
	Circuits  func() []breaker.Status // of the models
	IsLeader  func() bool             // among the replicas of a store
}

// gauge returns a value that goes up and down. labels are names and values in turn.
func gauge(name, help string, value float64, labels ...string) Sample {
	return Sample{Name: name, Help: help, Value: value, Labels: labels}
}

// counter returns a value that only grows while the process runs.
func counter(name, help string, value float64, labels ...string) Sample {
	return Sample{Name: name, Help: help, IsCounter: true, Value: value, Labels: labels}
}

// Samples returns the bot's own metrics as they are now. What cannot be read is left out.
func (b Bot) Samples() []Sample {
	c, load := b.Delivery.Counts(), b.Delivery.Load()
	list := []Sample{
		gauge("ravenbot_build_info", "The version that runs.", 1, "version", b.Version),
		gauge("ravenbot_conversations_active", "Conversations with work queued or under way.", float64(load.Conversations)),
		gauge("ravenbot_work_waiting", "Messages and posts queued.", float64(load.Waiting)),
		counter("ravenbot_posts_repeated_total",
			"Posts that may be there twice, because a crash left unknown whether they had been accepted.", float64(c.Repeated)),
		counter("ravenbot_losses_told_total", "Undelivered posts whose places have been told so.", float64(c.Notified)),
	}
	for outcome, n := range map[string]int64{
		"accepted":     c.Accepted,
		"known_before": c.Repeats,
		"refused_busy": c.Busy,
		"merged":       c.Merged,
		"revised":      c.Revised,
		"stopped":      c.Stopped,
	} {
		list = append(list, counter("ravenbot_messages_total", "Messages, edits and deletions, by their outcome.", float64(n),
			"outcome", outcome))
	}
	for outcome, n := range map[string]int64{"posted": c.Posted, "given_up": c.GivenUp} {
		list = append(list, counter("ravenbot_posts_total", "Posts, by their outcome.", float64(n), "outcome", outcome))
	}
	for _, h := range b.Platforms.Health() {
		list = append(list, gauge("ravenbot_platform_connected", "Whether a platform is connected.", oneIf(h.Connected),
			"platform", h.Name),
			gauge("ravenbot_platform_shards", "Of the sessions by which the events of a platform come, those that this "+
				"replica has of those that are divided among replicas.", float64(len(h.Shards)), "platform", h.Name),
			counter("ravenbot_platform_rate_limited_total",
				"Notices of a platform that it keeps events back, because there are too many.", float64(h.RateLimited),
				"platform", h.Name))
	}
	for _, s := range b.Circuits() {
		list = append(list, gauge("ravenbot_model_circuit_open",
			"Whether a model is not asked, because it failed repeatedly.", oneIf(s.State != breaker.Closed), "model", s.Name))
	}
	for _, s := range b.Servers.Servers() {
		connected := slices.Contains([]mcp.State{mcp.Connected, mcp.NoToolsFound, mcp.Quarantined}, s.State)
		list = append(list, gauge("ravenbot_mcp_server_connected", "Whether an MCP server is connected.", oneIf(connected),
			"server", s.Name))
	}
	return append(list, b.storeSamples()...)
}

// storeSamples returns what the store holds and how it is. What cannot be read now is left out.
func (b Bot) storeSamples() []Sample {
	var list []Sample
	if posts, err := b.Store.Undelivered(context.Background()); err == nil {
		list = append(list, gauge("ravenbot_posts_undelivered", "Posts given up in the last week.", float64(len(posts))))
	}
	if good, bad, err := b.Store.FeedbackCounts(context.Background()); err == nil {
		for helpful, n := range map[string]int{"yes": good, "no": bad} {
			list = append(list, gauge("ravenbot_answers_rated", "Answers that people rated in the last year.", float64(n),
				"helpful", helpful))
		}
	}
	if bytes, _, err := b.Store.Size(); err == nil {
		list = append(list, gauge("ravenbot_store_bytes", "Size of the store's file.", float64(bytes)))
	}
	list = append(list,
		gauge("ravenbot_replica_active", "Whether this replica answers: all do that run.", 1),
		gauge("ravenbot_replica_leader", "Whether this replica leads, and does what has to be done once.",
			oneIf(b.IsLeader())),
		gauge("ravenbot_store_healthy", "Whether the store can be written and no damage is known.",
			oneIf(b.Store.Health() == nil)),
		gauge("ravenbot_store_faults", "What the checks of the running store have found.", float64(len(b.Store.Damage()))))
	return append(list, counter("ravenbot_store_commits_total", "Write transactions of the store.",
		float64(b.Store.Commits())))
}

// oneIf returns 1 for true, the form in which Prometheus has truth values.
func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
