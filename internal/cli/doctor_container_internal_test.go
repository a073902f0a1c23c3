package cli

import (
	"strings"
	"testing"

	"ravenbot/internal/ops/config"
)

func TestDiagnoseContainer_NamesAddressesOfTheContainer(t *testing.T) {
	f := diagnoseContainer(&config.Config{
		Store: config.Mask("postgres://u:secret@127.0.0.1/db"),
		Models: map[string]config.Model{
			"local": {BaseURL: config.Mask("http://localhost:11434/v1")},
			"other": {BaseURL: config.Mask("http://ollama:11434/v1")},
		},
		MCPServers: map[string]config.MCPServer{
			"off":  {URL: config.Mask("http://localhost/mcp"), Disabled: true},
			"six":  {URL: config.Mask("http://[::1]:3000/mcp")},
			"away": {URL: config.Mask("https://mcp.example.com/mcp")},
		},
	})
	var keys []string
	for _, n := range f.Notes {
		key, _, _ := strings.Cut(n, " ")
		keys = append(keys, key)
	}
	if got := strings.Join(keys, " "); got != "models.local.baseURL mcpServers.six.url store" || !f.OK {
		t.Errorf("named %q", got)
	}
	if strings.Contains(strings.Join(f.Notes, ""), "secret") {
		t.Error("a password is shown")
	}
}
