package app

import (
	"context"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/delivery"
	"ravenbot/internal/digest"
	"ravenbot/internal/feed"
	"ravenbot/internal/schedule"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/tool/feeds"
)

// digestTimeout bounds one run: its feeds, and its summary.
const digestTimeout = 10 * time.Minute

func (a *App) buildDigests(reader *feed.Fetcher) error {
	var specs []digest.Spec
	var jobs []schedule.Job
	for name, d := range a.conf().Digests {
		zone, err := schedule.LoadZone(d.Timezone)
		if err != nil {
			return fmt.Errorf("digests.%s.timezone: %w", name, err)
		}
		when, err := schedule.Parse(d.Schedule, zone)
		if err != nil {
			return fmt.Errorf("digests.%s.schedule: %w", name, err)
		}
		spec := digest.Spec{Name: name, Schedule: d.Schedule, Timezone: d.Timezone, Next: when.Next, MaxItems: d.MaxItems,
			SayEmpty: d.WhenEmpty == "say", Filters: d.Filters, Writer: a.writer(d)}
		for _, f := range d.Feeds {
			spec.Feeds = append(spec.Feeds, f.Reveal())
		}
		for _, to := range d.Post {
			address, err := chat.ParseAddress(to)
			if err != nil {
				return fmt.Errorf("digests.%s.post: %w", name, err)
			}
			spec.Post = append(spec.Post, address)
		}
		specs = append(specs, spec)
		jobs = append(jobs, schedule.Job{Name: name, Schedule: when, CatchUp: d.CatchUp == "once"})
	}
	a.digests = digest.New(digest.Options{Specs: specs, Feeds: reader, Store: whenReady{a.store, a.delivery}, Deliver: a.delivery.Deliver, Log: a.o.Log, Now: a.o.Now})
	a.registry.Add(native{feeds.Subscribe(a.digests)})
	a.loop = &schedule.Loop{Jobs: jobs, LastDue: a.lastDue, Do: a.runDigest, Now: a.o.Now}
	return nil
}

// whenReady is the store of digests: a run is recorded, with its posts, only when
// delivery has taken up what was left, which would else hold them too.
type whenReady struct {
	*bolt.DB
	delivery *delivery.Service
}

func (w whenReady) FinishRun(ctx context.Context, r store.Run, saw []string, posts []store.Post) (bool, error) {
	select {
	case <-w.delivery.Ready():
		return w.DB.FinishRun(ctx, r, saw, posts)
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// poll looks at the subscriptions until ctx ends.
func (a *App) poll(ctx context.Context) {
	tick := time.NewTicker(a.conf().Feeds.PollInterval.Std())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			a.digests.Poll(ctx)
		case <-ctx.Done():
			return
		}
	}
}

func (a *App) lastDue(name string) (time.Time, bool) {
	runs, err := a.store.LastRuns(context.Background(), name, 1)
	if err != nil || len(runs) == 0 {
		return time.Time{}, false
	}
	return runs[0].Due, true
}

func (a *App) runDigest(ctx context.Context, name string, due time.Time) {
	ctx, cancel := context.WithTimeout(ctx, digestTimeout)
	defer cancel()
	if _, err := a.digests.Run(ctx, name, due, false); err != nil && ctx.Err() == nil {
		a.o.Log.Error("digest failed", "digest", name, "due", due, "error", err)
	}
}

// writesTo is the channel for which a digest's use of models counts: the first that
// it is posted to.
func writesTo(d config.Digest) chat.Address {
	if len(d.Post) == 0 {
		return chat.Address{}
	}
	a, _ := chat.ParseAddress(d.Post[0]) // it was read before
	return a
}

// writer has the digest's agent write its summary; nil where the agent has no
// language model.
func (a *App) writer(d config.Digest) digest.Writer {
	var models []string
	for _, name := range a.conf().ModelChain(a.conf().Agents[d.Agent].Model) {
		if a.conf().Models[name].Provider != "offline" {
			models = append(models, name)
		}
	}
	if len(models) == 0 {
		return nil
	}
	return func(ctx context.Context, system, prompt string) (string, string, error) {
		if d.Prompt != "" {
			system += "\n\nThe operator adds: " + d.Prompt
		}
		return a.agent.Complete(ctx, store.Usage{Channel: writesTo(d)}, models, system, prompt)
	}
}
