package app_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	simmodel "ravenbot/internal/testing/sim/model"
	"ravenbot/internal/turn/roster"
)

const agentsPath = "/api/v1/agents"

// names takes the names out of a list of the API.
func names(list struct{ Items []roster.Agent }) []string {
	var all []string
	for _, v := range list.Items {
		all = append(all, v.Name+" "+v.Source)
	}
	return all
}

// An agent made over the API answers where it is bound to, with its own words and
// tools, is known after a restart, and leaves its channels to the default one.
func TestAnAgentIsMadeOverTheAPIAndAnswersInItsChannels(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.Contains(r.System, "You are a pirate.") {
			return simmodel.Say("arr " + strings.Join(declared(r, "feeds_fetch", "web_fetch"), " "))
		}
		return simmodel.Say("hello " + strings.Join(declared(r, "feeds_fetch", "web_fetch"), " "))
	})
	b := w.run(w.base())
	pirate := map[string]any{"name": "pirate", "systemPrompt": "You are a pirate.", "tools": []string{"feeds.*"},
		"channels":   []string{"web:/ship*"},
		"mcpServers": []any{}, "limits": map[string]int{"maxSteps": 2}}
	for _, c := range []struct {
		method, path string
		body         map[string]any
		want         int
		says         string
	}{
		{http.MethodPost, agentsPath, map[string]any{"name": "no name", "systemPrompt": "x"}, 400, "is not allowed"},
		{http.MethodPost, agentsPath, map[string]any{"name": 1}, 400, "whose name is a string"},
		{http.MethodPost, agentsPath, map[string]any{"name": "x", "model": "defualt"}, 400, "default"},
		{http.MethodPost, agentsPath, map[string]any{"name": "x", "mcpServers": []string{"gone"}}, 400, `there is no MCP server \"gone\"`},
		{http.MethodPost, agentsPath, map[string]any{"name": "x", "sytemPrompt": "x"}, 400, "systemPrompt"},
		{http.MethodPost, agentsPath, map[string]any{"name": "x", "channels": []string{"slack"}}, 400, "no platform"},
		{http.MethodPost, agentsPath, map[string]any{"name": "default"}, 409, "there is an agent"},
		{http.MethodPost, agentsPath, pirate, 201, `"source":"api"`},
		{http.MethodPost, agentsPath, pirate, 409, "there is an agent"},
		{http.MethodPut, agentsPath + "/default", map[string]any{"systemPrompt": "x"}, 409, "config.json"},
		{http.MethodDelete, agentsPath + "/default", nil, 409, "config.json"},
		{http.MethodPut, agentsPath + "/nobody", map[string]any{"systemPrompt": "x"}, 404, "there is no agent"},
		{http.MethodGet, agentsPath + "/nobody", nil, 404, "there is no agent"},
	} {
		var said string
		if status := b.call(c.method, c.path, c.body, &said); status != c.want || !strings.Contains(said, c.says) {
			t.Errorf("%s %s %v: %d %s, want %d with %q", c.method, c.path, c.body, status, said, c.want, c.says)
		}
	}
	if text := answerIn(t, b.ask("ship1", "hi")); text != "arr feeds_fetch" {
		t.Errorf("on the ship: %q", text)
	}
	if text := answerIn(t, b.ask("general", "hi")); text != "hello feeds_fetch web_fetch" {
		t.Errorf("ashore: %q", text)
	}
	b.stop()
	b = w.run(w.base())
	var list struct{ Items []roster.Agent }
	b.call(http.MethodGet, agentsPath, nil, &list)
	if diff := cmp.Diff([]string{"default config", "pirate api"}, names(list)); diff != "" {
		t.Error(diff)
	}
	if text := answerIn(t, b.ask("ship1", "hi")); text != "arr feeds_fetch" {
		t.Errorf("on the ship, after a restart: %q", text)
	}
	pirate["tools"] = []string{"web.*"}
	if status := b.call(http.MethodPut, agentsPath+"/pirate", pirate, nil); status != 200 {
		t.Errorf("changing it: %d", status)
	}
	if text := answerIn(t, b.ask("ship1", "hi")); text != "arr web_fetch" {
		t.Errorf("on the ship, after a change: %q", text)
	}
	if status := b.call(http.MethodDelete, agentsPath+"/pirate", nil, nil); status != 204 {
		t.Errorf("removing it: %d", status)
	}
	if text := answerIn(t, b.ask("ship1", "hi")); text != "hello feeds_fetch web_fetch" {
		t.Errorf("on the ship, without it: %q", text)
	}
}

// declared gives those of some tools that a request declares.
func declared(r simmodel.Request, tools ...string) []string {
	var list []string
	for _, name := range tools {
		if r.Declares(name) {
			list = append(list, name)
		}
	}
	return list
}
