package app_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"ravenbot/internal/ops/config"
	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// auditEntry is an entry as the API shows it.
type auditEntry struct {
	Who, From, Action, Target, Hash string
	Changes                         []struct{ Field, Old, New string }
}

// describe returns the changes in one line.
func (e auditEntry) describe() string {
	var list []string
	for _, c := range e.Changes {
		list = append(list, c.Field+": "+c.Old+" → "+c.New)
	}
	return strings.Join(list, "; ")
}

// audited returns the entries of the audit, newest first.
func (b *bot) audited() []auditEntry {
	b.t.Helper()
	var list struct{ Items []auditEntry }
	if status := b.call(http.MethodGet, "/api/v1/audit", nil, &list); status != http.StatusOK {
		b.t.Fatalf("the audit has status %d", status)
	}
	return list.Items
}

// post sends a form of a page.
func (b *bot) post(client *http.Client, path string, form ...string) {
	b.t.Helper()
	v := url.Values{}
	for i := 0; i < len(form); i += 2 {
		v.Add(form[i], form[i+1])
	}
	req := must(http.NewRequest(http.MethodPost, "http://"+b.Addr()+path, strings.NewReader(v.Encode())))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "http://"+b.Addr())
	res := must(client.Do(req))
	res.Body.Close()
	if res.StatusCode >= http.StatusBadRequest {
		b.t.Errorf("POST %s: status %d", path, res.StatusCode)
	}
}

const operatorIdentity = "web:/admin (operator)"

// Whatever the operator changes, over the API, on the pages, in a web room or on the command line, the audit says what, and
// names the same person.
func TestAudit_EachWayOfChanging_SaysWhoWhatAndFields(t *testing.T) {
	w := newWorld(t)
	own := w.own()
	settings := w.base()
	settings["tools"] = map[string]any{"mode": "safe"}
	settings["mcpServers"] = map[string]any{"kit": map[string]any{"command": os.Args[0],
		"env": map[string]string{"RAVENBOT_TOOL_SERVER": w.tools, "GORACE": "atexit_sleep_ms=0"}}}
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.Contains(r.Asked(), "use it") {
			return simmodel.CallTool("kit_effect", `{"question":"q"}`)(r)
		}
		return simmodel.Say("hello")
	})
	b := w.run(settings)
	browser := b.signIn()
	routes := []string{"POST /import", "POST /agents/helper/files", "POST /mcp/servers/kit/call"} // of the API that are asked
	api := func(method, path string, body any) func() {
		return func() {
			t.Helper()
			routes = append(routes, method+" "+path)
			var answer string
			if status := b.call(method, "/api/v1"+path, body, &answer); status >= http.StatusBadRequest {
				t.Errorf("%s %s: status %d: %s", method, path, status, answer)
			}
		}
	}
	first := func(path string) string { // the ID of the first item of a list
		var list struct{ Items []struct{ ID string } }
		within(t, "there is an item in "+path, func() bool {
			b.call(http.MethodGet, "/api/v1"+path, nil, &list)
			return len(list.Items) > 0
		})
		return path + "/" + list.Items[0].ID
	}
	approved := func(do func(), scope string) func() { // do makes a call, which waits for an approval
		return func() {
			var done sync.WaitGroup
			done.Go(do)
			api("POST", first("/approvals"), map[string]string{"decision": "approve", "scope": scope})()
			done.Wait()
		}
	}
	page := func(path string, form ...string) func() {
		return func() { t.Helper(); b.post(browser, path, form...) }
	}
	room := func(text string) func() { return func() { b.ask("general", text) } }
	object := func(pairs ...any) map[string]any {
		o := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			o[pairs[i].(string)] = pairs[i+1]
		}
		return o
	}
	server := object("name", "one", "command", "none", "args", []string{"--token", "s3cret"}, "env", object("A", "s3cret"), "disabled", true)
	digest := object("name", "ours", "schedule", "0 9 * * *", "feeds", []string{own}, "post", []string{"web:/general"})
	for _, c := range []struct {
		do                   func()
		action, target, want string // what changes has to contain
	}{
		{api("POST", "/mcp/servers", server), "MCP server added", "one", `args:  → ["--token","***"]; command:  → none; disabled:  → true; env.A:  → ***`},
		{api("PUT", "/mcp/servers/one", object("command", "other", "disabled", true)), "MCP server changed", "one", "command: none → other"},
		{page("/servers", "name", "two", "entry", `{"command":"npx -y foo","disabled":true}`), "MCP server added", "two", "command:  → npx -y foo"},
		{page("/servers/two/remove"), "MCP server deleted", "two", "command: npx -y foo → "},
		{api("DELETE", "/mcp/servers/one", nil), "MCP server deleted", "one", "command: other → "},
		{api("POST", "/mcp/servers/kit/stop", nil), "MCP server stopped", "kit", ""},
		{api("POST", "/mcp/servers/kit/start", nil), "MCP server started", "kit", ""},
		{api("POST", "/mcp/servers/kit/restart", nil), "MCP server restarted", "kit", ""},
		{api("POST", "/mcp/servers/kit/approve", nil), "tools of MCP server approved", "kit", ""},
		{approved(func() {
			within(t, "the server is connected again", func() bool {
				var v struct{ State string }
				b.call("GET", "/api/v1/mcp/servers/kit", nil, &v)
				return v.State == "connected"
			})
			b.call("POST", "/api/v1/mcp/servers/kit/call", object("tool", "effect", "arguments", object("question", "q")), nil)
		}, "once"), "tool called", "kit_effect", "question:  → q"},
		{approved(func() { b.ask("general", "use it") }, "always"), "call approved", "kit_effect", "decision: pending → approved"},
		{func() { api("DELETE", first("/grants"), nil)() }, "standing approval deleted", "kit_effect", "tool: kit_effect → "},
		{api("POST", "/agents", object("name", "helper", "model", "default", "systemPrompt", "Help.")), "agent added", "helper", "systemPrompt:  → Help."},
		{page("/agents/helper", "model", "default", "prompt", "Help more.", "tools", "*", "every", "on"), "agent changed", "helper", "systemPrompt: Help. → Help more."},
		{api("PUT", "/agents/helper", object("model", "default", "systemPrompt", "Help.")), "agent changed", "helper", "systemPrompt: Help more. → Help."},
		{func() { b.upload("helper", map[string]string{"a.md": "# A\n\nText."}) }, "file of agent saved", "helper", "a.md:  → 10 bytes"},
		{page("/agents/helper/files/a.md/remove"), "file of agent deleted", "helper", "a.md: a file → "},
		{func() { b.upload("helper", map[string]string{"b.md": "# B\n\nText."}) }, "file of agent saved", "helper", "b.md:  → 10 bytes"},
		{api("DELETE", "/agents/helper/files/b.md", nil), "file of agent deleted", "helper", "b.md: a file → "},
		{page("/agent-rooms", "room", "general", "agent", "helper"), "agent of web room added", "general", ":  → helper"},
		{page("/agent-rooms", "room", "general", "agent", ""), "agent of web room deleted", "general", ": helper → "},
		{api("DELETE", "/agents/helper", nil), "agent deleted", "helper", "systemPrompt: Help. → "},
		{api("PUT", "/settings", object("instance", object("language", "Norwegian"))), "settings added", "instance", "language:  → Norwegian"},
		{page("/settings", "language", "Danish", "tools", "on"), "settings changed", "instance", "language: Norwegian → Danish"},
		{room("/settings language Finnish"), "settings added", "user/web/admin", "language:  → Finnish"},
		{api("POST", "/digests", digest), "digest added", "ours", "schedule:  → 0 9 * * *"},
		{api("POST", "/digests/ours/pause", nil), "pause of digest added", "ours", "paused:  → true"},
		{page("/digests/ours/resume"), "pause of digest changed", "ours", "paused: true → false"},
		{api("POST", "/digests/ours/pause", nil), "pause of digest changed", "ours", "paused: false → true"},
		{api("POST", "/digests/ours/resume", nil), "pause of digest changed", "ours", "paused: true → false"},
		{api("PUT", "/digests/ours", object("schedule", "0 9 * * *", "feeds", []string{own}, "post", []string{"web:/general"}, "language", "Norwegian")), "digest changed", "ours", "language:  → Norwegian"},
		{api("POST", "/digests/ours/feeds", object("feeds", []string{w.feeds.AddFeed("/more.xml", "More", simfeeds.RSS)})), "digest changed", "ours", "/more.xml"},
		{api("POST", "/digests/ours/run", nil), "digest run", "ours", ""},
		{api("POST", "/digests/ours/share", nil), "public page of digest added", "ours", "token:  → ***"},
		{room("/digest unshare ours"), "public page of digest deleted", "ours", "token: *** → "},
		{api("POST", "/digests/ours/share", nil), "public page of digest added", "ours", "token:  → ***"},
		{api("DELETE", "/digests/ours/share", nil), "public page of digest deleted", "ours", "token: *** → "},
		{room("/digest remove ours"), "digest deleted", "ours", "schedule: 0 9 * * * → "},
		{api("POST", "/jobs", object("at", "tomorrow at noon", "post", []string{"web:/general"}, "text", "call my doctor")), "job added", "", "text:  → (14 characters)"},
		{func() { api("DELETE", first("/jobs"), nil)() }, "job deleted", "", "text: (14 characters) → "},
		{api("POST", "/digests", digest), "digest added", "ours", ""},
		{api("DELETE", "/digests/ours", nil), "digest deleted", "ours", ""},
		{api("POST", "/memories", object("scope", "channel:web:/general", "text", "the door code is 4711")), "note added", "channel/web:/general", "note 1:  → (21 characters)"},
		{api("DELETE", "/memories/"+url.PathEscape("channel:web:/general")+"/1", nil), "note deleted", "channel/web:/general", "note 1: (21 characters) → "},
		{api("POST", "/auth/mcp-tokens", object("name", "laptop", "tools", []string{"feeds.*"})), "MCP token added", "laptop", `tools:  → ["feeds.*"]`},
		{api("DELETE", "/auth/mcp-tokens/laptop", nil), "MCP token deleted", "laptop", `tools: ["feeds.*"] → `},
		{func() { b.importLines(`{"kind":"setting","scope":"channel/web:/x","value":{"language":"Dutch"}}`) }, "settings added", "channel/web:/x", "language:  → Dutch"},
		{func() { b.importLines(`{"kind":"memory","scope":"channel:web:/x","text":"a note"}`) }, "records imported", "store", "memory:  → 1 added"},
		{api("PATCH", "/conversations/"+url.PathEscape("web:/general"), object("title", "Our talk")), "web room added", "general", "title:  → (8 characters)"},
		{room("/forget"), "conversation deleted", "web:/general", ""},
		{func() { b.ask("general", "hello"); b.ask("other", "hello") }, "", "", ""},
		{api("DELETE", "/conversations/"+url.PathEscape("web:/general"), nil), "conversation deleted", "web:/general", ""},
		{page("/chat/other/delete"), "conversation deleted", "web:/other", ""},
		{api("POST", "/audit/export", nil), "audit export", "", ""},
		{api("POST", "/backup", nil), "store copied", "", ""},
		{api("POST", "/auth/login-links", nil), "login link created", "web pages", ""},
		{func() { b.local("PUT", "/api/v1/settings", `{"instance":{"language":"Latin"}}`) }, "settings changed", "instance", "language: Danish → Latin"},
		{func() { b.reloadWith(w, settings, "limits", object("userDailyMessages", 77)) }, "configuration reloaded", "limits", "limits.userDailyMessages: 5000 → 77"},
		{page("/logout"), "logout", "web pages", ""},
		{api("POST", "/auth/logout-all", nil), "sessions ended", "web pages", ""},
	} {
		before := len(b.audited())
		if c.do(); c.action == "" {
			continue
		}
		list := b.audited()
		i := slices.IndexFunc(list[:len(list)-before], func(e auditEntry) bool { return e.Action == c.action })
		if i < 0 {
			t.Errorf("no entry %q: %+v", c.action, list[:len(list)-before])
			continue
		}
		e := list[i]
		if c.target != "" && e.Target != c.target || !strings.Contains(e.describe(), c.want) {
			t.Errorf("%s: target %q, changes %q, want %q and %q", c.action, e.Target, e.describe(), c.target, c.want)
		}
		if e.Who != operatorIdentity || e.From == "" || e.Target == "" {
			t.Errorf("%s: by %q from %q on %q", c.action, e.Who, e.From, e.Target)
		}
	}
	for route, isRecorded := range b.changingRoutes(routes) {
		if why := notRecorded[route]; isRecorded == (why != "") {
			t.Errorf("%s: recorded here: %t, should not be, because: %q", route, isRecorded, why)
		}
	}
	whole := string(must(json.Marshal(b.audited())))
	for _, secret := range []string{"s3cret", "code is", "doctor", "a note"} {
		if strings.Contains(whole, secret) {
			t.Errorf("the audit holds %q", secret)
		}
	}
}

// notRecorded are the routes of the API that change something of which the audit holds nothing in the test above, and why.
var notRecorded = map[string]string{
	"POST /conversations/{address}/messages":        "the conversation has it",
	"POST /digests/{name}/preview":                  "it changes nothing",
	"DELETE /digests/{name}/unsubscribed/{mailbox}": "TestDigest_ByMail_CanBeUnsubscribed checks it",
}

// changingRoutes returns the routes of the API that may change something, each with whether it is among those asked.
func (b *bot) changingRoutes(asked []string) map[string]bool {
	b.t.Helper()
	var description struct {
		Paths map[string]map[string]struct{}
	}
	b.call(http.MethodGet, "/api/v1/openapi.json", nil, &description)
	routes := map[string]bool{}
	for path, methods := range description.Paths {
		for method := range methods {
			if method == "get" {
				continue
			}
			route := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/api/v1")
			matches := regexp.MustCompile("^" + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(route, "[^/]+") + "$").MatchString
			routes[route] = slices.ContainsFunc(asked, matches)
		}
	}
	return routes
}

// signIn returns a client with a session of the pages.
func (b *bot) signIn() *http.Client {
	b.t.Helper()
	client := &http.Client{Jar: must(cookiejar.New(nil))}
	res := must(client.Get(b.LoginLink()))
	res.Body.Close()
	return client
}

// importLines imports JSON lines.
func (b *bot) importLines(lines string) {
	b.t.Helper()
	req := must(http.NewRequest(http.MethodPost, "http://"+b.Addr()+"/api/v1/import", strings.NewReader(lines+"\n")))
	req.Header.Set("Authorization", "Bearer admin-token")
	res := must(http.DefaultClient.Do(req))
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		b.t.Errorf("importing has status %d", res.StatusCode)
	}
}

// local makes a request as a command does that has opened the store itself.
func (b *bot) local(method, path, body string) {
	b.t.Helper()
	rec := httptest.NewRecorder()
	b.API().ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
	if rec.Code != http.StatusOK {
		b.t.Errorf("%s %s: status %d: %s", method, path, rec.Code, rec.Body)
	}
}

// reloadWith reloads the configuration with another value of a key.
func (b *bot) reloadWith(w *world, settings map[string]any, key string, value any) {
	b.t.Helper()
	settings = withOpenTools(maps.Clone(settings))
	settings[key] = value
	if err := os.WriteFile(w.path("config.json"), must(json.Marshal(settings)), 0o600); err != nil {
		b.t.Fatal(err)
	}
	noEnv := func(string) (string, bool) { return "", false }
	if err := b.Reload(must(config.Load(w.path("config.json"), config.Options{Env: noEnv}))); err != nil {
		b.t.Fatal(err)
	}
}

// What members change in the chat, and what tools do, stands in the audit under one identity of each, in one chain.
func TestAudit_MembersInTheChat_AreNamedAlike(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(simmodel.CallTool("memory_save", `{"text":"the code is 4711","about":"channel"}`))
	settings := w.base()
	settings["tools"] = map[string]any{
		"policy": []map[string]any{{"tools": []string{"memory_save"}, "decision": "ask"}}}
	b := w.run(settings)
	find := func(action string) (auditEntry, bool) {
		list := b.audited()
		i := slices.IndexFunc(list, func(e auditEntry) bool { return e.Action == action })
		if i < 0 {
			return auditEntry{}, false
		}
		return list[i], true
	}
	w.slack.Slash(w.channel.ID, w.berit, "/raven", "settings language Norwegian")
	within(t, "the setting is in the audit", func() bool { _, ok := find("settings added"); return ok })
	w.slack.Slash(w.channel.ID, w.berit, "/raven", "remind in 2 hours stretch well")
	within(t, "the reminder is in the audit", func() bool { _, ok := find("job added"); return ok })
	w.slack.Mention(w.channel.ID, w.berit, "use it")
	var approvals struct{ Items []struct{ ID string } }
	within(t, "the call waits", func() bool {
		b.call(http.MethodGet, "/api/v1/approvals", nil, &approvals)
		return len(approvals.Items) == 1
	})
	b.call(http.MethodPost, "/api/v1/approvals/"+approvals.Items[0].ID, map[string]string{"decision": "approve"}, nil)
	within(t, "the call is in the audit", func() bool { _, ok := find("tool called"); return ok })
	if e, _ := find("tool called"); e.Target != "memory_save" || e.describe() != "about:  → channel; text:  → (16 characters)" {
		t.Errorf("the call: %+v", e)
	}
	berit := "slack:" + simslack.TeamID + "/" + w.berit.ID + " (berit)"
	for _, e := range b.audited() {
		want := berit
		if e.Action == "call approved" {
			want = operatorIdentity
		}
		if e.Who != want || !strings.HasPrefix(e.From, "slack:") || e.Hash == "" {
			t.Errorf("%s: by %q, want %q, from %q", e.Action, e.Who, want, e.From)
		}
	}
	if e, _ := find("call approved"); e.Target != "memory_save" || e.describe() != "decision: pending → approved" {
		t.Errorf("the decision: %+v", e)
	}
	var report struct {
		Entries int
		Problem string
	}
	if status := b.call(http.MethodGet, "/api/v1/audit/verify", nil, &report); status != http.StatusOK ||
		report.Entries < 4 || report.Problem != "" {
		t.Errorf("verified with status %d: %+v", status, report)
	}
}
