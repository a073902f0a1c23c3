package hook

import (
	"log/slog"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/turn/policy"
)

// FromConfig returns the hooks of tools.hooks, in order.
func FromConfig(c *config.Config, log *slog.Logger) []tool.Hook {
	var list []tool.Hook
	for _, h := range c.Tools.Hooks {
		list = append(list, Command{
			When:         h.When,
			Command:      h.Command.Reveal(),
			Timeout:      h.Timeout.Std(),
			AllowOnError: h.OnError == "allow",
			Log:          log,
			Dir:          c.Dir,
			Matches:      func(n tool.Named) bool { return policy.MatchesAny(h.Tools, n) },
		})
	}
	return list
}
