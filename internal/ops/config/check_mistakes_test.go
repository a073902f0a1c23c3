package config

import (
	"os"
	"strings"
	"testing"
)

func TestCheckMistakes_WarnsOfWhatCannotBeMeant(t *testing.T) {
	checks := testChecks
	checks.Tools = func() []string { return []string{"feeds_fetch", "feeds", "feeds.fetch"} }
	for text, want := range map[string]string{
		`{"mcpServers": {"fs": {"command": "npx -y foo"}}}`:                                                                "mcpServers.fs.command: is a whole command line",
		`{"mcpServers": {"feeds": {"command": "npx"}}}`:                                                                    "mcpServers.feeds: is the name of tools",
		`{"mcpServers": {"fs": {"command": "npx", "env": {"A": "$HOME"}}}}`:                                                "",
		`{"models": {"default": {"provider": "gemini", "model": "m", "apiKey": "$GEMINI_API_KEY"}}}`:                       "write ${GEMINI_API_KEY}",
		`{"models": {"default": {"provider": "openai", "model": "m", "baseURL": "http://a.example/v1/chat/completions"}}}`: "ends in /chat/completions",
	} {
		path := t.TempDir() + "/config.json"
		writeText(t, path, text)
		c, err := Load(path, Options{Env: fakeEnv(map[string]string{"HOME": "/home"}), Checks: checks})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var said []string
		for _, w := range c.Warnings {
			said = append(said, w.String())
		}
		if got := strings.Join(said, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: warned %q, want %q", text, got, want)
		}
	}
}

func TestLoad_UTF16_NamesTheRemedy(t *testing.T) {
	_, err := loadText(t, "\xff\xfe{\x00}\x00", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "the file is in UTF-16 — save it as UTF-8") {
		t.Errorf("got %v", err)
	}
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
