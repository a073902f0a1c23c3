package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustLoad(t *testing.T, text string, env, files map[string]string) *Config {
	t.Helper()
	c, err := loadText(t, text, env, files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEmptyObjectIsAllDefaults(t *testing.T) {
	c := mustLoad(t, `{}`, nil, nil)
	got := map[string]any{
		"store":      strings.TrimPrefix(c.Store.Reveal(), c.Dir),
		"listen":     c.HTTP.Listen,
		"web":        c.Platforms.Web.Enabled,
		"slack mode": c.Platforms.Slack.Mode,
		"discord":    c.Platforms.Discord.APIBaseURL.Reveal(),
		"slack":      c.Platforms.Slack.APIBaseURL.Reveal(),
		"catch-up":   c.Platforms.Slack.CatchUp.Std(),
		"steps":      c.Tools.MaxSteps,
		"bytes":      c.Tools.MaxResultBytes,
		"discovery":  c.Tools.Discovery,
		"health":     c.MCP.HealthInterval.Std(),
		"status":     c.MCP.StatusTTL.Std(),
		"poll":       c.Feeds.PollInterval.Std(),
		"log":        c.Log,
		"agent":      c.Agents["default"].Model,
		"tools":      c.Agents["default"].Tools,
		"servers":    c.Agents["default"].MCPServers == nil,
		"timeout":    c.Models["offline"].Timeout.Std(),
	}
	want := map[string]any{
		"store": "/data/ravenbot.db", "listen": "127.0.0.1:8080", "web": true, "slack mode": "socket",
		"discord": "https://discord.com", "slack": "https://slack.com/api/", "catch-up": 15 * time.Minute,
		"steps": 10, "bytes": 5120, "discovery": Discovery{Mode: "auto", Threshold: 40}, "health": time.Minute,
		"status": 5 * time.Minute, "poll": 30 * time.Minute, "log": Log{"info", "text"}, "agent": "default",
		"tools": []string{"*"}, "servers": true, "timeout": 2 * time.Minute,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestNullAndEmptyMeanDefault(t *testing.T) {
	c := mustLoad(t, `{"store": null, "log": {"level": ""}, "platforms": {"slack": {"apiBaseURL": ""}, "discord": null}}`,
		nil, nil)
	if c.Log.Level != "info" || c.Platforms.Slack.APIBaseURL.Reveal() != "https://slack.com/api/" ||
		!strings.HasSuffix(c.Store.Reveal(), "ravenbot.db") {
		t.Errorf("got %q, %q, %q", c.Log.Level, c.Platforms.Slack.APIBaseURL.Reveal(), c.Store.Reveal())
	}
}

func TestExpansion(t *testing.T) {
	env := map[string]string{"NAME": "raven", "EMPTY": "", "HARD": "a\"b\\c${NAME}\n$x}", "DIR": "sub", "HOME": "/home/me"}
	files := map[string]string{"secret.txt": "from a file\n",
		".env": "FROM_DOTENV=dot\nNAME=not this one\nDOLLAR=a$NAME\nQUOTED='x # y'\n"}
	tests := []struct{ text, want string }{
		{"plain", "plain"},
		{"${NAME}", "raven"},
		{"${env:NAME}!", "raven!"},
		{"${NAME:-other}", "raven"},
		{"${NONE:-other}", "other"},
		{"${EMPTY}", ""},
		{"${EMPTY:-other}", "other"},
		{"${NONE:-}", ""},
		{"${NONE:-${NAME}}", "raven"},
		{"${HARD}", env["HARD"]},
		{"${file:secret.txt}", "from a file"},
		{"${file:${NONE:-secret.txt}}", "from a file"},
		{"${FROM_DOTENV}", "dot"},
		{"${DOLLAR}", "a$NAME"},
		{"${QUOTED}", "x # y"},
		{"$${NAME} $NAME", "${NAME} $NAME"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			c := mustLoad(t, `{"tools": {"systemPrompt": "`+tt.text+`"}}`, env, files)
			if c.Tools.SystemPrompt != tt.want {
				t.Errorf("got %q, want %q", c.Tools.SystemPrompt, tt.want)
			}
		})
	}
}

func TestMalformedDotEnvNamesItsLineAndNothingElse(t *testing.T) {
	tests := []struct {
		name, text, where string
	}{
		{"no equals sign", "A=1\n\n# comment\nCANARY\nB=2\n", ".env:4: "},
		{"at the end", "A=1\nCANARY", ".env:2: "},
		{"open quote", "A='one\ntwo'\nB=\"CANARY\nC=3\n", ".env:3: "},
		{"zero byte", "A=1\nB=CANARY\x00\n", ".env:2: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := loadText(t, `{"log": {"level": "CANARIES"}}`, nil, map[string]string{".env": tt.text})
			if err == nil || !strings.Contains(err.Error(), tt.where) || !strings.Contains(err.Error(), "log.level") {
				t.Errorf("got %v, want both %s and the fault of config.json", err, tt.where)
			}
			if err != nil && strings.Contains(err.Error(), "CANARY") {
				t.Errorf("%v quotes the file", err)
			}
		})
	}
}

func TestDotEnvThatMayNotBeReadAsksForTheRight(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	path := filepath.Join(t.TempDir(), "config.json")
	for name, text := range map[string]string{path: "{}", filepath.Join(filepath.Dir(path), ".env"): "A=1"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(filepath.Dir(path), ".env"), 0); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path, Options{})
	if err == nil || !strings.Contains(err.Error(), ".env: permission denied — give the user") {
		t.Errorf("got %v, want the right that is missing", err)
	}
}

func TestATokenThatMayNotBeReadNamesWhoMay(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	c := mustLoad(t, `{"store": "x.db"}`, nil, nil)
	if err := os.WriteFile(c.TokenPath(), []byte("token"), 0); err != nil {
		t.Fatal(err)
	}
	_, err := c.FindAdminToken()
	if err == nil || !strings.Contains(err.Error(), "permission denied; run this as the user that the bot runs as (sudo -u USER)") {
		t.Errorf("got %v, want who may read it", err)
	}
}

func TestPathsCountFromTheFolderOfTheFile(t *testing.T) {
	c := mustLoad(t, `{"store": "x.db", "tools": {"files": {"roots": ["a", {"path": "/b/", "name": "bees", "write": true}]}, "billing": {"file": "t.json"}},
		"agents": {"default": {"knowledge": ["docs/k.md"]}},
		"mcpServers": {"a": {"command": "x"}, "b": {"command": "x", "cwd": "sub"}}}`, nil, nil)
	got := []string{c.Store.Reveal(), c.Tools.Files.Roots[0].Path, c.Tools.Files.Roots[1].Path, c.Tools.Billing.File,
		c.Agents["default"].Knowledge[0], c.MCPServers["a"].Cwd, c.MCPServers["b"].Cwd}
	want := []string{c.Dir + "/x.db", c.Dir + "/a", "/b", c.Dir + "/t.json", c.Dir + "/docs/k.md", c.Dir, c.Dir + "/sub"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	roots := []FileRoot{{Path: c.Dir + "/a", Name: "a"}, {Path: "/b", Name: "bees", Write: true}}
	if diff := cmp.Diff(roots, c.Tools.Files.Roots); diff != "" {
		t.Errorf("roots (-want +got):\n%s", diff)
	}
}

// A leading ~ is the home folder, as in shells, and any other one a name.
func TestPaths_Home(t *testing.T) {
	c := mustLoad(t, `{"store": "~/data/x.db", "mcpServers": {"a": {"command": "~/bin/x", "args": ["~/y"], "cwd": "~"},
		"b": {"command": "~x", "cwd": "~x"}, "c": {"command": "x", "cwd": "~/", "allowPaths": ["~/.ssh"]}}}`,
		map[string]string{"HOME": "/home/me"}, nil)
	a, b := c.MCPServers["a"], c.MCPServers["b"]
	got := []string{c.Store.Reveal(), a.Command, a.Args.Reveal()[0], a.Cwd, b.Command, b.Cwd, c.MCPServers["c"].Cwd,
		c.MCPServers["c"].AllowPaths[0]}
	want := []string{"/home/me/data/x.db", "/home/me/bin/x", "~/y", "/home/me", "~x", c.Dir + "/~x", "/home/me",
		"/home/me/.ssh"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestARootThatHoldsSecretsIsWarnedOf(t *testing.T) {
	for root, want := range map[string]string{
		".":     "the configuration and .env; the store",
		"data":  "the store",
		"other": "",
		"..":    "the configuration and .env; the store",
		"data2": "",
	} {
		c := mustLoad(t, `{"store": "data/x.db", "tools": {"files": {"roots": [{"path": "`+root+
			`", "name": "a"}]}}}`, nil, nil)
		var got []string
		for _, w := range c.Warnings {
			if what, _, ok := strings.Cut(w.Reason, ": the files tools"); ok {
				got = append(got, strings.TrimPrefix(what, "holds "))
			}
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: warned of %q, want %q", root, got, want)
		}
	}
}

// With PostgreSQL the store is no file; its keys and token are kept in data/.
func TestARootBesideAPostgreSQLStoreIsNotTakenForItsFolder(t *testing.T) {
	for root, warned := range map[string]bool{"data": true, "other": false, "postgres:/x@h": false} {
		c := mustLoad(t, `{"store": "postgres://x@h/db", "tools": {"files": {"roots": [{"path": "`+root+
			`", "name": "a"}]}}}`, nil, nil)
		got := slices.ContainsFunc(c.Warnings, func(w Fault) bool {
			return strings.HasPrefix(w.Reason, "holds the store")
		})
		if got != warned {
			t.Errorf("%s: warned that it holds the store: %v, want %v", root, got, warned)
		}
	}
}

func TestUnreadableFileKeepsItsCause(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none.json"), Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want it to wrap fs.ErrNotExist", err)
	}
	large := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(large, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large, Options{}); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v for a file that is too large", err)
	}
}

func TestByteOrderMarkAndNestingAreMet(t *testing.T) {
	mustLoad(t, "\xef\xbb\xbf{\n}", nil, nil)
	_, err := loadText(t, `{"channels": `+strings.Repeat("[", 1<<20), nil, nil)
	if err == nil || !strings.Contains(err.Error(), "levels deep") {
		t.Errorf("got %v for a million brackets", err)
	}
	mustLoad(t, `{"log": {"level": "info"}} // `+strings.Repeat("[", 1000), nil, nil)
}

func TestWarnings(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"a token that can be guessed", `{"http": {"adminToken": "secret"}}`,
			"config.json:1: http.adminToken: has 6 characters, which can be guessed"},
		{"a token of the metrics that can be guessed", `{"http": {"metricsToken": "secret"}}`,
			"config.json:1: http.metricsToken: has 6 characters, which can be guessed: the token opens /metrics"},
		{"Slack without bot token", `{"platforms": {"slack": {"appToken": "xapp-1"}}}`, "config.json:1: platforms.slack.botToken: empty, so Slack is off"},
		{"post to a platform that is off", `{"digests": {"d": {"schedule": "0 8 * * *", "feeds": ["bundled:x"],
			"post": ["slack:T1/C1"]}}}`, "config.json:2: digests.d.post[0]: slack is off"},
		{"a Discord token in another form", `{"platforms": {"discord": {"token": "abc"}}}`,
			"config.json:1: platforms.discord.token: does not look like a bot token"},
		{"model without key", `{"models": {"default": {"provider": "gemini", "model": "m"}}}`, "models.default: has no apiKey and no fallback"},
		{"budget without a price", `{"budget": {"userDailyUSD": 1}, "models": {"default": {"provider": "openai", "model": "m", "apiKey": "k"}}}`, "models.default: has no price"},
		{"mails without a link to unsubscribe", `{"smtp": {"host": "127.0.0.1", "from": "r@example.org"}, "digests": {"d":
			{"schedule": "0 8 * * *", "feeds": ["bundled:x"], "post": ["web:/general"], "email": ["a@example.org"]}}}`,
			"digests.d.email: mails have no link to unsubscribe, because http.publicURL is empty"},
		{"no default model", `{"models": {"a": {"provider": "offline"}}}`, "models: has no default"},
		{"timeout in milliseconds", `{"mcpServers": {"a": {"command": "x", "timeout": 60}}}`, "this is 60ms"},
		{"bare variable", `{"mcpServers": {"a": {"command": "x", "env": {"A": "b$NOTHING"}}}}`, "mcpServers.a.env.A: looks like a variable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := mustLoad(t, tt.text, nil, nil)
			if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0].String(), tt.want) {
				t.Errorf("got %v, want one warning with %q", c.Warnings, tt.want)
			}
		})
	}
}

func TestLoad_TrustedProxies_MustBeNetworks(t *testing.T) {
	c := mustLoad(t, `{"http": {"trustedProxies": ["10.0.0.0/8", "::ffff:192.0.2.1", "2001:db8::/32"]}}`, nil, nil)
	var got []string
	for _, p := range c.HTTP.Proxies() {
		got = append(got, p.String())
	}
	if want := "10.0.0.0/8 192.0.2.1/32 2001:db8::/32"; strings.Join(got, " ") != want {
		t.Errorf("networks %q, want %q", got, want)
	}
	_, err := Parse([]byte(`{"http": {"trustedProxies": ["proxy.local"]}}`),
		filepath.Join(t.TempDir(), "config.json"), Options{})
	if err == nil || !strings.Contains(err.Error(), "neither an address nor a network") {
		t.Errorf("a name: %v", err)
	}
}

func TestLoad_Settings_NamesMustExist(t *testing.T) {
	c := mustLoad(t, `{"settings": {"locked": ["tools.maxSteps"], "models": ["default"]}}`, nil, nil)
	if len(c.Settings.Locked) != 1 || len(c.Settings.Models) != 1 {
		t.Errorf("got %+v", c.Settings)
	}
	text := `{"settings": {"locked": ["steps"], "models": ["nonesuch"]}}`
	_, err := Parse([]byte(text), filepath.Join(t.TempDir(), "config.json"), Options{})
	if err == nil || !strings.Contains(err.Error(), `no setting "steps"`) ||
		!strings.Contains(err.Error(), `no model "nonesuch"`) {
		t.Errorf("got %v", err)
	}
}

// A configuration with a key of an earlier version loads, with a warning that names the key.
func TestRetiredKeys_AreWarnedOf(t *testing.T) {
	c := mustLoad(t, `{"digests": {"news": {"schedule": "daily at 9", "feeds": ["https://a.example/f"], "post": ["web:/general"],
		"template": "{{.Name}}"}}}`, nil, nil)
	if len(c.Warnings) != 1 || c.Warnings[0].Key != "digests.news.template" {
		t.Errorf("warnings %v", c.Warnings)
	}
}
