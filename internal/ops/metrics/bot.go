package metrics

import (
	"context"
	"slices"

	"ravenbot/internal/mcp"
	"ravenbot/internal/model/breaker"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/measure"
	"ravenbot/internal/ops/trouble"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/delivery"
	"ravenbot/internal/turn/invoke"
	"ravenbot/internal/turn/platform"
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
	Models    func() []*breaker.Model // those that may fail
	Calls     *invoke.Invoker         // of tools
	Spending  *budget.Spending
	Digests   *digest.Service
	Feeds     *feed.Fetcher
	IsLeader  func() bool // among the replicas of a store
	Troubles  func() []trouble.Trouble
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
		counter("ravenbot_losses_told_total", "Undelivered posts whose conversations were informed.", float64(c.Notified)),
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
			gauge("ravenbot_platform_shards", "Sessions (shards) of a platform that this "+
				"replica has.", float64(len(h.Shards)), "platform", h.Name),
			counter("ravenbot_platform_rate_limited_total",
				"Notices of a platform that it keeps events back, because there are too many.", float64(h.RateLimited),
				"platform", h.Name))
	}
	answers := b.Delivery.Answers()
	list = append(list, times("ravenbot_answer_seconds",
		"From when work on a question began until its answer was posted or given up.", answers))
	list = append(list, b.modelSamples()...)
	list = append(list, b.callSamples()...)
	list = append(list, b.digestSamples()...)
	for _, s := range b.Servers.Servers() {
		connected := slices.Contains([]mcp.State{mcp.Connected, mcp.NoToolsFound, mcp.Quarantined}, s.State)
		list = append(list, gauge("ravenbot_mcp_server_connected", "Whether an MCP server is connected.", oneIf(connected),
			"server", s.Name))
	}
	troubles := map[string]int{}
	for _, t := range b.Troubles() {
		troubles[t.Kind]++
	}
	for _, kind := range trouble.Kinds() {
		list = append(list, gauge("ravenbot_troubles", "Faults that last and that an operator has to look after.",
			float64(troubles[kind]), "kind", kind))
	}
	return append(list, b.storeSamples()...)
}

// times returns a histogram of how long something took.
func times(name, help string, sum measure.Sum, labels ...string) Sample {
	return Sample{Name: name, Help: help, Times: &sum, Labels: labels}
}

// modelSamples returns how the models do, and what they have used.
func (b Bot) modelSamples() (list []Sample) {
	for _, m := range b.Models() {
		s := m.Status()
		list = append(list, gauge("ravenbot_model_circuit_open",
			"1 while a model is not used because it failed repeatedly.", oneIf(s.State != breaker.Closed), "model", s.Name))
		var all measure.Sum
		for outcome, sum := range m.Ended() {
			all = all.Plus(sum)
			list = append(list, counter("ravenbot_model_requests_total", "Requests to a model, by their outcome.",
				float64(sum.Count), "model", s.Name, "outcome", outcome))
		}
		list = append(list, times("ravenbot_model_request_seconds",
			"How long requests to a model took, to the end of the answer.", all, "model", s.Name))
	}
	for model, s := range b.Spending.Spent() {
		for kind, n := range map[string]int{
			"input":  s.Tokens.Input - s.Tokens.Cached,
			"cached": s.Tokens.Cached,
			"output": s.Tokens.Output,
		} {
			list = append(list, counter("ravenbot_model_tokens_total",
				"Tokens that a model has used: input, input that the provider had cached, and output.", float64(n),
				"model", model, "kind", kind))
		}
		list = append(list, counter("ravenbot_cost_usd_total",
			"What a model has cost in US dollars, at the configured prices.", s.USD, "model", model))
	}
	return list
}

// callSamples returns how many tools were called, and how long that took.
func (b Bot) callSamples() (list []Sample) {
	byServer := map[string]measure.Sum{}
	for of, sum := range b.Calls.Ended() {
		byServer[of.Server] = byServer[of.Server].Plus(sum)
		list = append(list, counter("ravenbot_tool_calls_total",
			"Calls of tools, by the MCP server or the pack of the bot's own tools, and by their outcome.", float64(sum.Count),
			"server", of.Server, "outcome", of.Outcome))
	}
	for server, sum := range byServer {
		list = append(list, times("ravenbot_tool_call_seconds", "How long calls of tools took, with waiting for approval.",
			sum, "server", server))
	}
	return list
}

// digestSamples returns how many digests ran, and how the feeds do.
func (b Bot) digestSamples() []Sample {
	ended := b.Digests.Ended()
	read, failed := b.Feeds.Counts()
	return []Sample{
		counter("ravenbot_digest_runs_total", "Runs of digests, by their outcome.", float64(ended[true].Count),
			"outcome", "made"),
		counter("ravenbot_digest_runs_total", "Runs of digests, by their outcome.", float64(ended[false].Count),
			"outcome", "failed"),
		times("ravenbot_digest_run_seconds", "How long runs of digests took.", ended[true].Plus(ended[false])),
		counter("ravenbot_feed_reads_total", "Requests for feeds that were answered.", float64(read)),
		counter("ravenbot_feed_failures_total", "Requests for feeds that failed.", float64(failed)),
	}
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
		gauge("ravenbot_replica_leader", "1 on the replica that leads.",
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
