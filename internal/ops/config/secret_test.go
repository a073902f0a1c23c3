package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// canary stands in every place of this file that can hold a secret, once written out and once from a variable.
const canary = "CANARY7f3a"

const secretFile = `{
	"store": "postgres://user:CANARY7f3a@db/raven?sslpassword=CANARY7f3a",
	"http": {"adminToken": "CANARY7f3a", "publicURL": "https://u:${SECRET}@x/"},
	"platforms": {
		"discord": {"token": "CANARY7f3a", "apiBaseURL": "https://u:CANARY7f3a@x"},
		"slack": {"botToken": "${SECRET}", "appToken": "CANARY7f3a", "signingSecret": "${SECRET}", "apiBaseURL": "https://x/${SECRET}/"},
	},
	"models": {"default": {"provider": "openai", "model": "m", "apiKey": "${SECRET}", "baseURL": "https://x/v1?key=CANARY7f3a"}},
	"tools": {"hooks": [{"command": ["x", "--token", "CANARY7f3a"]}]},
	"mcpServers": {
		"a": {
			"command": "x",
			"args": ["--api-key", "CANARY7f3a", "--password=CANARY7f3a", "${SECRET}", "https://u:CANARY7f3a@x/", "--header", "Authorization: Bearer CANARY7f3a"],
			"env": {"K": "${SECRET}", "L": "CANARY7f3a", "M": "$SECRET"},
			"envFile": "x.env",
		},
		"b": {"url": "https://x/s/${SECRET}/mcp?api_key=CANARY7f3a", "headers": {"Authorization": "Bearer CANARY7f3a", "X": "${SECRET}"}},
		"c": {"url": "https://x/", "headers": ["X: CANARY7f3a"]},
		"d": {"disabled": true, "command": "x", "args": ["--key=CANARY7f3a"], "env": {"K": "${SECRET}"}},
	},
	"digests": {"d": {"schedule": "0 8 * * *", "post": ["web:/a"],
		"feeds": ["https://u:CANARY7f3a@x/feed", "https://x/feed?token=CANARY7f3a&n=1", "https://x/${SECRET}"]}},
}`

func loadSecrets(t *testing.T) *Config {
	return mustLoad(t, secretFile, map[string]string{"SECRET": canary}, map[string]string{"x.env": "N=" + canary + "\n"})
}

func TestSecretsAreNeverShown(t *testing.T) {
	c := loadSecrets(t)
	shown := make(map[string]string)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown["fmt "+verb] = fmt.Sprintf(verb, *c)
		shown["fmt of the pointer "+verb] = fmt.Sprintf(verb, c)
		shown["fmt of a server "+verb] = fmt.Sprintf(verb, c.MCPServers["a"])
		shown["fmt of a secret "+verb] = fmt.Sprintf(verb, c.HTTP.AdminToken)
	}
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("loaded", "config", *c, "pointer", c, "server", c.MCPServers["b"], "store", c.Store, "token",
			c.HTTP.AdminToken)
	}
	shown["slog"] = log.String()
	marshalled, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown["json"] = string(marshalled)
	var printed bytes.Buffer
	if err := Print(&printed, c); err != nil {
		t.Fatal(err)
	}
	shown["Print"] = printed.String()
	for way, text := range shown {
		if i := strings.Index(text, canary); i >= 0 {
			t.Errorf("%s shows a secret: …%s", way, text[max(0, i-60):i+len(canary)])
		}
		if strings.Contains(text, fmt.Sprintf("%x", canary)) {
			t.Errorf("%s shows a secret in hexadecimal", way)
		}
	}
}

func TestSecretsAreThereForThoseWhoAsk(t *testing.T) {
	c := loadSecrets(t)
	a := c.MCPServers["a"]
	got := []string{c.HTTP.AdminToken.Reveal(), a.Args[1].Reveal(), a.Env["N"].Reveal(), c.MCPServers["b"].URL.Reveal()}
	want := []string{canary, canary, canary, "https://x/s/" + canary + "/mcp?api_key=" + canary}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("revealed (-want +got):\n%s", diff)
	}
}

func TestPrintShowsWhatIsInEffect(t *testing.T) {
	var out strings.Builder
	if err := Print(&out, loadSecrets(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"store": "postgres://***@db/raven?sslpassword=***"`, `"catchUp": "15m"`, `"timeout": "2m"`, `"K": "***"`,
		`"--api-key",`, `"--password=***"`, `"${SECRET}"`, `"https://x/s/${SECRET}/mcp?api_key=***"`,
		`"https://x/feed?token=***&n=1"`,
		`"Authorization": "***"`, `"token": "***"`, `"maxSteps": 10`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// TestFaultsKeepSecrets puts a secret from a variable where something else belongs, field by field.
func TestFaultsKeepSecrets(t *testing.T) {
	texts := []string{
		`{"http": {"listen": "${SECRET}"}}`, `{"log": {"level": "${SECRET}"}}`, `{"feeds": {"pollInterval": "${SECRET}"}}`,
		`{"http": {"publicURL": "${SECRET}"}}`, `{"agents": {"default": {"systemPrompt": "${file:${SECRET}}"}}}`,
		`{"digests": {"d": {"schedule": "bad ${SECRET}", "feeds": ["bundled:unknown"], "post": ["x:${SECRET}/y"]}}}`,
		`{"digests": {"d": {"schedule": "0 8 * * *", "feeds": ["bundled:x"], "post": ["${SECRET}:x/y"]}}}`,
		`{"mcpServers": {"a": {"url": "${SECRET}", "timeout": "${SECRET}"}}}`,
		`{"egress": {"allowPrivateHosts": ["${SECRET}!"]}}`,
		`{"agents": {"default": {"model": "${SECRET}", "mcpServers": ["${SECRET}"]}}}`,
		`{"channels": [{"match": "${SECRET}", "agent": "${SECRET}"}]}`,
		`{"digests": {"d": {"schedule": "1", "feeds": ["${SECRET}"], "post": ["${SECRET}"], "timezone": "${SECRET}"}}}`,
		`{"models": {"default": {"provider": "${SECRET}", "model": "m", "fallback": ["${SECRET}"]}}}`,
	}
	for _, text := range texts {
		_, err := loadText(t, text, map[string]string{"SECRET": canary}, nil)
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAdminToken(t *testing.T) {
	c := mustLoad(t, `{}`, nil, nil)
	if _, err := c.FindAdminToken(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first start: %v", err)
	}
	var wait sync.WaitGroup
	tokens := make([]Secret, 8)
	for i := range tokens {
		wait.Go(func() {
			token, _, err := c.AdminToken()
			if err != nil {
				t.Error(err)
			}
			tokens[i] = token
		})
	}
	wait.Wait()
	found, err := c.FindAdminToken()
	if err != nil || len(found.Reveal()) < 40 {
		t.Fatalf("found a token of %d bytes, %v", len(found.Reveal()), err)
	}
	for _, token := range tokens {
		if token != found {
			t.Error("first starts disagree on the token")
		}
	}
	info, err := os.Stat(c.TokenPath())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(c.TokenPath()), ".token-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Chmod(c.TokenPath(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.AdminToken(); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Errorf("a token others can read: %v", err)
	}
}

// Where a file system has no hard links, another process's token is not replaced either.
func TestWriteExclusively_FileExists_LeavesItAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	if err := writeExclusively(path, "first"); err != nil {
		t.Fatal(err)
	}
	if err := writeExclusively(path, "second"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second token: %v, want it to wrap fs.ErrExist", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(path); string(text) != "first" || err != nil {
		t.Errorf("the token is %q, %v", text, err)
	}
}

func TestConfiguredAdminTokenWins(t *testing.T) {
	c := mustLoad(t, `{}`, map[string]string{"RAVENBOT_ADMIN_TOKEN": "mine"}, nil)
	token, created, err := c.AdminToken()
	if token.Reveal() != "mine" || created || err != nil {
		t.Errorf("got %q, %v, %v", token.Reveal(), created, err)
	}
	if _, err := os.Stat(c.TokenPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made: %v", err)
	}
}

func TestSecretsAreTakenOutOfTexts(t *testing.T) {
	c := loadSecrets(t)
	got := c.Masker()("a " + canary + " b https://u:" + canary + "@x/feed and nothing else")
	if strings.Contains(got, canary) || !strings.HasPrefix(got, "a *** b ") ||
		!strings.HasSuffix(got, " and nothing else") {
		t.Errorf("masked as %q", got)
	}
}
