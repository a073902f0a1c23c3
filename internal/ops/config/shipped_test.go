package config

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeEnv is a process environment made of one map.
func fakeEnv(vars map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := vars[name]
		return value, ok
	}
}

func loadShipped(t *testing.T, vars map[string]string) *Config {
	t.Helper()
	c, err := Load(filepath.Join("..", "..", "..", "config.json"), Options{Env: fakeEnv(vars)})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("the shipped configuration warns: %v", c.Warnings)
	}
	return c
}

func TestShippedConfigWithoutAnyKey(t *testing.T) {
	c := loadShipped(t, map[string]string{"DISCORD_TOKEN": "", "SLACK_BOT_TOKEN": "", "GEMINI_API_KEY": ""})
	if c.DiscordEnabled() || c.SlackEnabled() || !c.Platforms.Web.Enabled {
		t.Error("without tokens the web chat alone should be on")
	}
	if got := c.EnabledServers(); len(got) > 0 {
		t.Errorf("MCP servers %v are enabled", got)
	}
	if diff := cmp.Diff([]string{"offline"}, c.ModelChain("")); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	if c.HTTP.Listen != "127.0.0.1:8080" {
		t.Errorf("listens on %s", c.HTTP.Listen)
	}
}

func TestShippedConfigWithEveryKey(t *testing.T) {
	c := loadShipped(t, map[string]string{
		"DISCORD_TOKEN": "d.e.f", "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "SLACK_SIGNING_SECRET": "s",
		"GEMINI_API_KEY": "g", "RAVENBOT_ADMIN_TOKEN": "a-token-of-24-characters", "RAVENBOT_LISTEN": "0.0.0.0:8080",
		"RAVENBOT_PUBLIC_URL": "https://raven.example.org",
	})
	if !c.DiscordEnabled() || !c.SlackEnabled() {
		t.Error("with tokens Discord and Slack should be on")
	}
	if diff := cmp.Diff([]string{"default", "offline"}, c.ModelChain("default")); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

// TestEveryMisspelledKeyIsNamed drops the last letter of each key of the shipped file in turn.
func TestEveryMisspelledKeyIsNamed(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join("..", "..", "..", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(shipped)
	// Names that the operator chooses, and keys where those of other hosts pass, are no misspellings.
	free := regexp.MustCompile(`^(offline|filesystem|remote|morning)$`)
	servers := strings.Index(text, `"mcpServers"`)
	digests := strings.Index(text, `"digests"`)
	mutants := 0
	for _, at := range regexp.MustCompile(`(?m)^[^/\n]*?"([$A-Za-z]{4,})":`).FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		inServer := at[2] > servers+len(name) && at[2] < digests
		if free.MatchString(name) || inServer || name == "default" {
			continue
		}
		mutants++
		wrong := name[:len(name)-1]
		_, err := loadText(t, text[:at[3]-1]+text[at[3]:], nil, nil)
		line := 1 + strings.Count(text[:at[2]], "\n")
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("config.json:%d: ", line)) ||
			!strings.Contains(err.Error(), wrong+": unknown key") {
			t.Errorf("%s on line %d: %v", wrong, line, err)
		}
	}
	if mutants < 30 {
		t.Errorf("only %d keys tried", mutants)
	}
}
