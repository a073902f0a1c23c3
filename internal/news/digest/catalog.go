package digest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
)

// RunTimeout bounds one run: its feeds, and its summary or task. It begins when the run has its slot.
const RunTimeout = 10 * time.Minute

// Plans returns the digests of a configuration, sorted by name.
func Plans(c *config.Config) []Plan {
	var list []Plan
	for _, name := range slices.Sorted(maps.Keys(c.Digests)) {
		p := FromEntry(name, c.Digests[name])
		for _, hook := range slices.Sorted(maps.Keys(c.Webhooks)) {
			if c.Webhooks[hook].Digest == name {
				p.Hooks = append(p.Hooks, hook)
			}
		}
		list = append(list, p)
	}
	return list
}

// FromEntry returns one digest of a configuration, with its secrets in clear.
func FromEntry(name string, d config.Digest) Plan {
	p := Plan{
		Name:      name,
		Schedule:  d.Schedule,
		Timezone:  d.Timezone,
		Channels:  d.Channels,
		Email:     d.Email,
		Post:      d.Post,
		MaxItems:  d.MaxItems,
		MaxAge:    Duration(d.MaxAge.Std()),
		CatchUp:   d.CatchUp,
		WhenEmpty: d.WhenEmpty,
		Agent:     d.Agent,
		Prompt:    d.Prompt,
		Style:     d.Style,
		Language:  d.Language,
		MaxTokens: d.MaxTokens,
		Tools:     d.Tools,
		Teasers:   !d.Articles,
		Filters:   d.Filters,
		Ping:      d.Ping,
		Tags:      d.Tags,
		Adverts:   d.Adverts,
		Kinds:     kindsOf(d.Kinds),
	}
	for _, f := range d.Feeds {
		one := Feed{URL: f.URL.Reveal(), Shown: f.URL.String(), NoMerge: !f.MergeDuplicates, Pin: f.Pin, Mute: f.Mute}
		if f.Weight != 1 { // stored plans leave out what is usual
			one.Weight = f.Weight
		}
		p.Feeds = append(p.Feeds, one)
	}
	return p
}

// kindsOf returns how each kind of items counts whose treatment is not the usual one.
func kindsOf(k config.DigestKinds) map[string]string {
	all := map[string]string{
		kindOffer: k.Offers, kindTrial: k.Prereleases, kindGreeting: k.Greetings, kindTalk: k.Discussion,
		kindLive: k.Live, kindLinks: k.Links, kindShort: k.Shorts, kindFix: k.Corrections, kindRoutine: k.Routine,
	}
	maps.DeleteFunc(all, func(_, how string) bool { return how == lowKind || how == "" })
	return all
}

// Agents tells which agents there are. Exists reports whether there is one of a name.
type Agents interface {
	Exists(name string) bool
}

// Catalog is the digests as the API keeps them: entries as config.json has them. A run goes on
// when whoever started it leaves.
type Catalog struct {
	*Service
	Config func() *config.Config // in effect now
	Agents Agents
}

// Run runs a digest, and goes on when ctx ends.
func (c Catalog) Run(ctx context.Context, name string, due time.Time, manual bool) (store.Run, error) {
	return c.Service.Run(context.WithoutCancel(ctx), name, due, manual)
}

// Add makes a digest of an entry. The error is a BadPlan or ErrExists.
func (c Catalog) Add(ctx context.Context, name string, entry json.RawMessage) (Info, error) {
	p, err := c.parse(name, entry)
	if err != nil {
		return Info{}, err
	}
	return c.Create(ctx, p)
}

// Replace returns a digest that is not the configuration's another entry. The error is a
// BadPlan, ErrUnknown or ErrConfigured.
func (c Catalog) Replace(ctx context.Context, name string, entry json.RawMessage) (Info, error) {
	p, err := c.parse(name, entry)
	if err != nil {
		return Info{}, err
	}
	return c.Service.Replace(ctx, name, p)
}

// parse returns the plan of an entry. Its error is a BadPlan: the entry is wrong, or names what there is not.
func (c Catalog) parse(name string, entry json.RawMessage) (Plan, error) {
	var d config.Digest
	if _, err := c.Config().ParseEntry(entry, &d); err != nil {
		return Plan{}, BadPlan{err}
	}
	if !c.Agents.Exists(d.Agent) {
		return Plan{}, BadPlan{fmt.Errorf("there is no agent %.80q", d.Agent)}
	}
	for _, to := range d.Post {
		if a, err := chat.ParseAddress(to); err == nil && !c.o.Platforms.CanPost(a) {
			return Plan{}, BadPlan{fmt.Errorf("nothing can be posted to %s: that platform is not switched on", to)}
		}
	}
	if len(d.Email) > 0 && c.Config().SMTP.Host == "" {
		return Plan{}, BadPlan{errors.New("email: there is no mail server; smtp in config.json names it")}
	}
	p := FromEntry(name, d)
	p.Source = FromAPI
	return p, nil
}
