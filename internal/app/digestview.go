package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/config"
	"ravenbot/internal/digest"
	"ravenbot/internal/store"
)

// digestView shows the digests to the HTTP side, and keeps those that it makes. It lets
// a run go on when whoever started it leaves.
type digestView struct {
	*digest.Service
	a *App
}

func (v digestView) Run(ctx context.Context, name string, due time.Time, manual bool) (store.Run, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), digestTimeout)
	defer cancel()
	return v.Service.Run(ctx, name, due, manual)
}

// Add makes a digest of an entry as config.json has it.
func (v digestView) Add(ctx context.Context, name string, entry json.RawMessage) (digest.Info, error) {
	p, err := v.plan(name, entry)
	if err != nil {
		return digest.Info{}, err
	}
	return v.Make(ctx, p)
}

// Replace gives a digest that is none of the configuration's another entry.
func (v digestView) Replace(ctx context.Context, name string, entry json.RawMessage) (digest.Info, error) {
	p, err := v.plan(name, entry)
	if err != nil {
		return digest.Info{}, err
	}
	return v.Service.Replace(ctx, name, p)
}

func (v digestView) plan(name string, entry json.RawMessage) (digest.Plan, error) {
	var d config.Digest
	if _, err := v.a.conf().ParseEntry(entry, &d); err != nil {
		return digest.Plan{}, badInput{err}
	}
	if _, ok := v.a.setup.Load().agents[d.Agent]; !ok {
		return digest.Plan{}, badInput{fmt.Errorf("there is no agent %.80q", d.Agent)}
	}
	for _, to := range d.Post {
		if a, err := chat.ParseAddress(to); err == nil && !v.a.reaches(a) {
			return digest.Plan{}, badInput{fmt.Errorf("nothing can be posted to %s: that platform is not switched on", to)}
		}
	}
	p := planOf(name, d)
	p.Source = digest.FromAPI
	return p, nil
}
