package mcp

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/ops/config"
)

// Everything that an operator wrote counts, and displayed texts contain no secret.
func TestFromEntry_TakesOverWhatTheEntrySays(t *testing.T) {
	process := config.MCPServer{
		Command:      "npx",
		Args:         config.Args{config.Mask("-y"), config.Mask("postgres://bot:sesame@db/notes")},
		Env:          config.Env{"API_TOKEN": "sesame-env"},
		Cwd:          "/srv/notes",
		Type:         Stdio,
		Description:  "notes of the team",
		Disabled:     true,
		Eager:        true,
		Timeout:      config.Duration(7 * time.Second),
		IncludeTools: []string{"read_*"},
		ExcludeTools: []string{"*_all"},
		AllowPaths:   []string{"/home/bot/.kube"},
		Network:      "none",
		MaxMemoryMB:  3,
		Protocol:     "2025-06-18",
	}
	want := Config{
		Name:        "notes",
		Description: "notes of the team",
		Runs:        "npx -y postgres://***@db/notes",
		Command:     "npx",
		Args:        []string{"-y", "postgres://bot:sesame@db/notes"},
		Env:         map[string]string{"API_TOKEN": "sesame-env"},
		Allow:       []string{"/home/bot/.kube"},
		NoNetwork:   true,
		MaxMemory:   3 << 20,
		Dir:         "/srv/notes",
		Headers:     map[string]string{},
		Transport:   Stdio,
		Protocol:    "2025-06-18",
		Timeout:     7 * time.Second,
		Include:     []string{"read_*"},
		Exclude:     []string{"*_all"},
		Eager:       true,
		Disabled:    true,
	}
	if diff := cmp.Diff(want, FromEntry("notes", process)); diff != "" {
		t.Errorf("a process (-want +got):\n%s", diff)
	}

	remote := config.MCPServer{
		URL:     config.Mask("https://mcp.example/v1?key=sesame-url"),
		Headers: config.Headers{"Authorization": "Bearer sesame"},
		Network: "all",
		OAuth: config.ServerOAuth{
			ClientID:     "bot",
			ClientSecret: "sesame-client",
			PrivateKey:   "sesame-key",
			Issuer:       "https://login.example",
			Scopes:       []string{"read"},
			Grant:        "client_credentials",
			PerUser:      true,
		},
		Egress: config.ServerEgress{Egress: config.Egress{AllowPrivateHosts: []string{"10.0.0.0/8"}}},
	}
	want = Config{
		Name:    "remote",
		Runs:    "https://mcp.example/v1?key=***",
		Args:    []string{},
		Env:     map[string]string{},
		URL:     "https://mcp.example/v1?key=sesame-url",
		Headers: map[string]string{"Authorization": "Bearer sesame"},
		PerUser: true,
		SignIn: config.ServerOAuth{
			ClientID:     "bot",
			ClientSecret: "sesame-client",
			PrivateKey:   "sesame-key",
			Issuer:       "https://login.example",
			Scopes:       []string{"read"},
			Grant:        "client_credentials",
			PerUser:      true,
		},
		AllowPrivateHosts: []string{"10.0.0.0/8"},
	}
	if diff := cmp.Diff(want, FromEntry("remote", remote)); diff != "" {
		t.Errorf("an address (-want +got):\n%s", diff)
	}
}

func TestConfiguredServers_AreSortedByName(t *testing.T) {
	var got []string
	for _, c := range ConfiguredServers(&config.Config{MCPServers: map[string]config.MCPServer{"c": {}, "a": {}, "d": {}, "b": {}}}) {
		got = append(got, c.Name)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfiguredServers_WaitForAnApproval_IfTheConfigurationSaysSo(t *testing.T) {
	for configured, want := range map[string]bool{"approved": false, "hold": true} {
		c := &config.Config{MCP: config.MCP{Configured: configured}, MCPServers: map[string]config.MCPServer{"a": {}}}
		if got := ConfiguredServers(c)[0].Hold; got != want {
			t.Errorf("%s: held %v", configured, got)
		}
	}
}

func TestFileRoots_AreTheFoldersOfTheToolsForFiles(t *testing.T) {
	c := &config.Config{}
	c.Tools.Files.Roots = []config.FileRoot{{Path: "/srv/team notes", Name: "notes"}, {Path: "/srv/in"}}
	want := []Root{{URI: "file:///srv/team%20notes", Name: "notes"}, {URI: "file:///srv/in"}}
	if diff := cmp.Diff(want, FileRoots(c)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
