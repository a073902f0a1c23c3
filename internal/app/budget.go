package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/budget"
	"ravenbot/internal/chat"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
)

// expectedOutput is how many tokens a model is expected to answer with while it does,
// where it has no limit of its own.
const expectedOutput = 1000

// buildLedger makes the ledger, with what was spent today before the bot was started.
func (a *App) buildLedger() error {
	a.ledger = budget.New(a.o.Now)
	used, err := a.store.Usage(context.Background(), a.o.Now().UTC().Format(time.DateOnly))
	if err != nil {
		return err
	}
	for _, u := range used {
		a.ledger.Add(payer(u.Channel, u.User), a.cost(u))
	}
	return nil
}

// payer says for whom a request counts: one of a digest for nobody but the digest.
func payer(at chat.Address, user string) budget.Payer {
	if at.Platform == taskPlatform {
		return budget.Payer{Digest: at.Channel}
	}
	return budget.Payer{Channel: at.Base().String(), User: user}
}

func (a *App) caps() budget.Caps {
	b := a.conf().Budget
	return budget.Caps{Instance: b.InstanceDailyUSD, Channel: b.ChannelDailyUSD, User: b.UserDailyUSD, Digest: b.DigestDailyUSD}
}

// spend lets a request to a model be made where it is within the caps. A model that
// costs nothing always is.
func (a *App) spend(ctx context.Context, on store.Usage, q llm.Request) (settle func(llm.Usage), err error) {
	m := a.conf().Models[on.Model]
	if m.Price.InputPerM == 0 && m.Price.OutputPerM == 0 {
		return func(llm.Usage) {}, nil
	}
	on.Tokens = llm.Usage{Input: weight(q) / bytesPerToken, Output: expectedOutput}
	if m.MaxOutputTokens > 0 {
		on.Tokens.Output = m.MaxOutputTokens
	}
	done, err := a.ledger.Reserve(ctx, a.caps(), payer(on.Channel, on.User), a.cost(on))
	var reached *budget.CapReachedError
	if errors.As(err, &reached) {
		in := reached.ResetsAt.Sub(a.o.Now()).Round(time.Minute)
		words := fmt.Sprintf("%s; it begins anew at midnight UTC, in %s. Whoever runs the bot can raise it.", reached.Error(), hours(in))
		return nil, &llm.Error{Kind: llm.Capped, Provider: on.Model, Reason: strings.ToUpper(words[:1]) + words[1:], Err: err}
	}
	if err != nil {
		return nil, err
	}
	return func(used llm.Usage) {
		on.Tokens = used
		done(a.cost(on))
	}, nil
}

func hours(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%d min", max(1, int(d.Minutes())))
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// weight is the size of a request in bytes.
func weight(q llm.Request) int {
	n := len(q.System)
	for _, t := range q.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			n += len(p.Text)
			if p.Call != nil {
				n += len(p.Call.Args)
			}
			if p.Result != nil {
				n += len(p.Result.Content)
			}
		}
	}
	return n
}

// budgets tells what is left of the caps that count for a user in a channel.
func (a *App) budgets(at chat.Address, user string) []string {
	c, p := a.caps(), payer(at, user)
	var list []string
	for _, b := range []struct {
		whose string
		most  float64
		of    budget.Payer
	}{{"you", c.User, budget.Payer{User: p.User}}, {"this channel", c.Channel, budget.Payer{Channel: p.Channel}}, {"the bot", c.Instance, budget.Payer{}}} {
		if b.most > 0 {
			list = append(list, fmt.Sprintf("- budget of today for %s: $%.4f of $%.4f", b.whose, a.ledger.Spent(b.of), b.most))
		}
	}
	return list
}
