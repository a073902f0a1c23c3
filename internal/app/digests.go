package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/delivery"
	"ravenbot/internal/digest"
	"ravenbot/internal/egress"
	"ravenbot/internal/feed"
	"ravenbot/internal/schedule"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/tool/feeds"
)

// digestTimeout bounds one run: its feeds, and its summary or task.
const digestTimeout = 10 * time.Minute

func (a *App) buildDigests(reader *feed.Fetcher, pages *egress.Client) error {
	a.loop = &schedule.Loop{Do: a.runDigest, Now: a.o.Now}
	a.digests = digest.New(digest.Options{Feeds: reader, Store: whenReady{a.store, a.delivery}, Writer: a.writer, Task: a.task,
		Article: articles{pages}.text, Language: func(to chat.Address) string { return a.settings.Effective(to, "").Language },
		Deliver: a.delivery.Deliver, Post: a.interject, Reaches: a.reaches, Threads: a.threads, Changed: func() { a.loop.Set(a.digests.Jobs()) },
		Log: a.o.Log, Now: a.o.Now})
	a.loop.LastDue = a.digests.LastDue
	a.registry.Add(native{feeds.Subscribe(a.digests, a.reaches), feeds.Create(planner{a.digests})})
	return errors.Join(a.digests.Configure(plans(a.conf())), a.digests.Load(context.Background()))
}

// plans are the digests of a configuration.
func plans(c *config.Config) []digest.Plan {
	var list []digest.Plan
	for _, name := range slices.Sorted(maps.Keys(c.Digests)) {
		list = append(list, planOf(name, c.Digests[name]))
	}
	return list
}

func planOf(name string, d config.Digest) digest.Plan {
	p := digest.Plan{Name: name, Schedule: d.Schedule, Timezone: d.Timezone, Post: d.Post, MaxItems: d.MaxItems, MaxAge: digest.Duration(d.MaxAge.Std()),
		CatchUp: d.CatchUp, WhenEmpty: d.WhenEmpty, Agent: d.Agent, Prompt: d.Prompt, Style: d.Style, Language: d.Language, Template: d.Template,
		MaxTokens: d.MaxTokens, Teasers: !d.Articles, Filters: d.Filters}
	for _, f := range d.Feeds {
		p.Feeds = append(p.Feeds, digest.Feed{URL: f.URL.Reveal(), Shown: f.URL.String(), Apart: !f.MergeDuplicates})
	}
	return p
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

// poll looks at subscriptions, and at digests that post items as they come, until ctx
// ends.
func (a *App) poll(ctx context.Context) {
	tick := time.NewTicker(a.conf().Feeds.PollInterval.Std())
	defer tick.Stop()
	for ctx.Err() == nil {
		a.digests.Poll(ctx) // at once: what is there at the first look is not new
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
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
func writesTo(p digest.Plan) chat.Address {
	if len(p.Post) == 0 {
		return chat.Address{}
	}
	a, _ := chat.ParseAddress(p.Post[0]) // it was read before
	return a
}

// agentOf is the agent of a digest: the one that it names, else that of its channel.
func (a *App) agentOf(p digest.Plan) string {
	set := a.setup.Load()
	if _, ok := set.agents[p.Agent]; ok {
		return p.Agent
	}
	return set.agentAt(writesTo(p))
}

// writer has the digest's agent write its summary; nil where the agent has no
// language model.
func (a *App) writer(p digest.Plan) digest.Writer {
	c := a.conf()
	var models []string
	for _, name := range c.ModelChain(a.setup.Load().agents[a.agentOf(p)].Model) {
		if c.Models[name].Provider != "offline" {
			models = append(models, name)
		}
	}
	if len(models) == 0 {
		return nil
	}
	return func(ctx context.Context, system, prompt string) (string, string, error) {
		return a.agent.Complete(ctx, store.Usage{Channel: taskAddress(p)}, models, system, prompt)
	}
}

// planner shows the digests to the tool that makes them.
type planner struct{ digests *digest.Service }

func (p planner) Propose(ctx context.Context, w feeds.Wish) (string, error) {
	plan := digest.Plan{Name: w.Name, Schedule: w.Schedule, Timezone: w.Timezone, Style: w.Style, Language: w.Language, Prompt: w.Prompt, MaxItems: w.MaxItems, Filters: w.Filters}
	for _, f := range w.Feeds {
		plan.Feeds = append(plan.Feeds, digest.Feed{URL: f})
	}
	text, err := p.digests.Propose(ctx, w.Caller, plan)
	var bad digest.BadPlan
	if errors.As(err, &bad) || errors.Is(err, digest.ErrExists) {
		return "", feeds.Unfit{Reason: fmt.Sprintf("The digest cannot be made so: %v.", err)}
	}
	return text, err
}
