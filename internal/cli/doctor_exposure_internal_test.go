package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/mcp"
	"ravenbot/internal/ops/config"
)

func TestDiagnoseExposure_NamesWhatLetsOthersAct(t *testing.T) {
	folder := t.TempDir()
	guard := filepath.Join(folder, "guard.py")
	if err := os.WriteFile(guard, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hook := config.Tools{Hooks: []config.Hook{{Command: config.Args{config.Mask("python3"), config.Mask("guard.py")}}}}
	allow := func(p config.Policy) config.Tools {
		p.Tools, p.Decision = []string{"github_*"}, "allow"
		return config.Tools{Policy: []config.Policy{p}}
	}
	hooks := map[string]config.Webhook{"ci": {Post: []string{"slack:T1/C1"}}}
	for name, c := range map[string]struct {
		config config.Config
		want   string // in the notes; empty: there are none
	}{
		"nothing":                   {config.Config{Webhooks: hooks}, ""},
		"writable hook":             {config.Config{Dir: folder, Tools: hook, MCP: config.MCP{Isolation: "off"}}, guard},
		"rule by person":            {config.Config{Tools: allow(config.Policy{Users: []string{"U1"}})}, "tools.policy[0] allows github_* to certain people"},
		"rule by role":              {config.Config{Tools: allow(config.Policy{Roles: []string{"R"}})}, "to certain people"},
		"webhook where allowed":     {config.Config{Webhooks: hooks, Tools: allow(config.Policy{Channels: []string{"slack:T1/*"}})}, "webhook ci posts to slack:T1/C1, where tools.policy[0]"},
		"webhook where all allowed": {config.Config{Webhooks: hooks, Tools: config.Tools{Mode: "open"}}, "where tools.mode"},
		"webhook elsewhere":         {config.Config{Webhooks: hooks, Tools: allow(config.Policy{Channels: []string{"slack:T1/C2"}})}, ""},
		"webhook where reading is":  {config.Config{Webhooks: hooks, Tools: allow(config.Policy{Hint: "readOnly"})}, ""},
	} {
		f := diagnoseExposure(&c.config)
		if notes := strings.Join(f.Notes, "; "); !f.OK || (notes == "") != (c.want == "") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q, want %q", name, notes, c.want)
		}
	}
}

func TestNoteAlwaysAllowed_NamesDestructiveTools(t *testing.T) {
	tools := []mcp.ToolInfo{{Name: "drop", Hint: "destructive"}, {Name: "read", Hint: "readOnly"}, {Name: "wipe", Hint: "destructive"}}
	got := noteAlwaysAllowed([]string{"drop", "read"}, tools)
	if len(got) != 1 || !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "names drop") }) {
		t.Errorf("%q", got)
	}
}
