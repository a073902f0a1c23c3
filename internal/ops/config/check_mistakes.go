package config

import (
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"ravenbot/internal/core/text"
)

// checkMistakes warns of values that are well formed and cannot be meant, which otherwise show when something fails.
func (k checker) checkMistakes() {
	k.checkServers()
	k.checkVariables(k.root)
	for _, name := range slices.Sorted(maps.Keys(k.c.Models)) {
		address := k.c.Models[name].BaseURL.value
		if strings.HasSuffix(strings.TrimRight(address, "/"), "/chat/completions") {
			k.addWarning(nodeAt(k.root, "models", name, "baseURL"), "ends in /chat/completions, which the bot adds itself",
				"leave it out")
		}
	}
	if _, port, err := net.SplitHostPort(k.c.SMTP.Host); err == nil && port != "" {
		k.report(k.quote(k.c.SMTP.Host, "smtp", "host")+" has a port",
			"write the host alone, and the number as port", "smtp", "host")
	}
}

// checkServers checks the names and programs of MCP servers.
func (k checker) checkServers() {
	packs := map[string]bool{}
	if k.checks.Tools != nil {
		for _, name := range k.checks.Tools() {
			if pack, _, ok := strings.Cut(name, "."); ok {
				packs[pack] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.c.MCPServers)) {
		s := k.c.MCPServers[name]
		if s.Disabled {
			continue
		}
		if packs[name] {
			k.addWarning(nodeAt(k.root, "mcpServers", name), "is the name of tools of the bot's own, which rules cannot tell "+
				"from those of the server", "give it another name")
		}
		words := strings.Fields(s.Command)
		if _, err := os.Stat(s.Command); len(words) < 2 || err == nil {
			continue
		}
		k.addWarning(nodeAt(k.root, "mcpServers", name, "command"), "is a whole command line, and no file has that name",
			"write the program alone, and what follows it as args")
	}
}

// variableAlone matches a text that is nothing but a variable as a shell writes it.
var variableAlone = text.Pattern(`^\$[A-Z][A-Z0-9_]*$`)

// checkVariables warns of variables that are not replaced. Those of MCP servers are, in each form.
func (k checker) checkVariables(n *node) {
	if n == nil || n.path == "mcpServers" {
		return
	}
	if n.kind == '"' && variableAlone().MatchString(n.text) {
		k.addWarning(n, "is not a variable but literal text", "write ${"+n.text[1:]+"}")
	}
	for _, m := range n.members {
		k.checkVariables(m.value)
	}
	for _, e := range n.elems {
		k.checkVariables(e)
	}
}
