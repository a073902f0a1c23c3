package app

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"ravenbot/internal/agent"
	"ravenbot/internal/approval"
	"ravenbot/internal/audit"
	"ravenbot/internal/config"
	"ravenbot/internal/elicit"
	"ravenbot/internal/hook"
	"ravenbot/internal/invoke"
	"ravenbot/internal/policy"
	"ravenbot/internal/schema"
	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

// buildCalls makes what every tool call goes through.
func (a *App) buildCalls() error {
	var err error
	if a.audit, err = audit.Load(context.Background(), a.store, a.o.Now, a.o.Log); err != nil {
		return err
	}
	a.approvals = approval.New(approval.Options{Store: a.store, Log: a.o.Log, Now: a.o.Now,
		Post: a.interject, Decided: a.noteDecision})
	a.questions = elicit.New(elicit.Options{Post: a.interject, Reaches: a.reaches, Log: a.o.Log, Now: a.o.Now})
	if err := a.approvals.Load(context.Background()); err != nil {
		return err
	}
	a.calls = invoke.New(invoke.Options{Check: schema.New().Check, Free: agent.FreeOfPolicy, Approvals: a.approvals,
		Decide: func(c tool.Caller, n tool.Named) (tool.Decision, string) {
			a.noteCaller(c, n)
			decision, why := a.setup.Load().rules.Decide(n)
			if decision == tool.Ask && c.Conversation.Platform == taskPlatform {
				return tool.Deny, why + ", and a digest's task has nobody to ask"
			}
			return decision, why
		},
		Hooks: func() []tool.Hook { return a.setup.Load().hooks },
		Mask:  func(s string) string { return a.setup.Load().mask(s) }, Log: a.o.Log, Now: a.o.Now})
	return nil
}

// noteDecision keeps who let a call be made, or not.
func (a *App) noteDecision(ctx context.Context, d store.Approval) {
	e := audit.Entry{Who: cmp.Or(d.By, "nobody, in time"), Action: "approval " + string(d.Decision), Target: d.Tool}
	if !d.Conversation.IsZero() {
		e.From = d.Conversation.String()
	}
	a.audit.Record(ctx, e)
}

// policies translates tools.policy, and what servers are exempt from asking.
func policies(c *config.Config) *policy.Policy {
	var rules []policy.Rule
	for _, r := range c.Tools.Policy {
		rules = append(rules, policy.Rule{Tools: r.Tools, Hint: r.Hint, Decision: tool.Decision(r.Decision)})
	}
	return policy.New(rules, func(s tool.Spec) bool {
		e, ok := c.MCPServers[s.Server]
		return ok && !s.Native && (e.Trust || slices.Contains(e.AlwaysAllow, s.Name))
	})
}

// hooks translates tools.hooks.
func hooks(c *config.Config, lg *slog.Logger) []tool.Hook {
	var list []tool.Hook
	for _, h := range c.Tools.Hooks {
		list = append(list, hook.Command{When: h.When, Command: h.Command.Reveal(), Timeout: h.Timeout.Std(), AllowOnError: h.OnError == "allow", Log: lg,
			Dir: c.Dir, Matches: func(n tool.Named) bool { return policy.MatchesAny(h.Tools, n) }})
	}
	return list
}

// shownResult gives the bytes of a tool result that are shown at once.
func (a *App) shownResult() int { return a.conf().Tools.MaxResultBytes }
