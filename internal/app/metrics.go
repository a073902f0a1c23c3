package app

import (
	"context"
	"os"
	"slices"

	"ravenbot/internal/mcp"
	"ravenbot/internal/metrics"
)

// samples are what /metrics shows.
func (a *App) samples() []metrics.Sample {
	c, load := a.delivery.Counts(), a.delivery.Load()
	list := []metrics.Sample{
		{Name: "ravenbot_build_info", Help: "The version that runs.", Value: 1, Labels: []string{"version", a.o.Version}},
		{Name: "ravenbot_conversations_active", Help: "Conversations with work queued or under way.", Value: float64(load.Conversations)},
		{Name: "ravenbot_work_waiting", Help: "Messages and posts queued.", Value: float64(load.Waiting)},
		{Name: "ravenbot_posts_repeated_total", Help: "Posts that may be there twice, because a crash left unknown whether they had been taken.", IsCounter: true, Value: float64(c.Repeated)},
		{Name: "ravenbot_losses_told_total", Help: "Posts given up of which the place where they were to be has been told.", IsCounter: true, Value: float64(c.Told)},
	}
	for outcome, n := range map[string]int64{"accepted": c.Accepted, "known_before": c.Repeats, "refused_busy": c.Busy,
		"merged": c.Merged, "revised": c.Revised, "stopped": c.Stopped} {
		list = append(list, metrics.Sample{Name: "ravenbot_messages_total", Help: "Messages, edits and deletions, by what became of them.",
			IsCounter: true, Value: float64(n), Labels: []string{"outcome", outcome}})
	}
	for outcome, n := range map[string]int64{"posted": c.Posted, "given_up": c.GivenUp} {
		list = append(list, metrics.Sample{Name: "ravenbot_posts_total", Help: "Posts, by their outcome.",
			IsCounter: true, Value: float64(n), Labels: []string{"outcome", outcome}})
	}
	for _, h := range a.platforms.Health() {
		list = append(list, metrics.Sample{Name: "ravenbot_platform_connected", Help: "Whether a platform is connected.",
			Value: oneIf(h.Connected), Labels: []string{"platform", h.Name}})
	}
	for _, s := range a.mcp.Servers() {
		list = append(list, metrics.Sample{Name: "ravenbot_mcp_server_connected", Help: "Whether an MCP server is connected.",
			Value: oneIf(slices.Contains([]mcp.State{mcp.Connected, mcp.NoToolsFound, mcp.Quarantined}, s.State)), Labels: []string{"server", s.Name}})
	}
	return append(list, a.storeSamples()...)
}

func (a *App) storeSamples() []metrics.Sample {
	var list []metrics.Sample
	if posts, err := a.store.GivenUp(context.Background()); err == nil {
		list = append(list, metrics.Sample{Name: "ravenbot_posts_undelivered", Help: "Posts given up in the last week.", Value: float64(len(posts))})
	}
	if words, err := a.store.Feedback(context.Background()); err == nil {
		good := 0
		for _, f := range words {
			if f.Good {
				good++
			}
		}
		for helpful, n := range map[string]int{"yes": good, "no": len(words) - good} {
			list = append(list, metrics.Sample{Name: "ravenbot_answers_rated", Help: "Answers that people rated in the last year.",
				Value: float64(n), Labels: []string{"helpful", helpful}})
		}
	}
	if info, err := os.Stat(a.conf().Store.Reveal()); err == nil {
		list = append(list, metrics.Sample{Name: "ravenbot_store_bytes", Help: "Size of the store's file.", Value: float64(info.Size())})
	}
	return append(list, metrics.Sample{Name: "ravenbot_store_commits_total", Help: "Write transactions of the store.", IsCounter: true, Value: float64(a.store.Commits())})
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
