package app_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/testing/browsertest"
	"ravenbot/internal/turn/roster"
)

// An agent is made, changed and removed on the page, and its servers switched.
func TestAgentsAreMadeOnThePage(t *testing.T) {
	browser := browsertest.Start(t)
	w := newWorld(t)
	settings := w.base()
	settings["mcpServers"] = map[string]any{"one": map[string]any{"url": "http://127.0.0.1:1/mcp"},
		"two": map[string]any{"url": "http://127.0.0.1:1/mcp"}}
	b := w.run(settings)
	page := browser.Page()
	page.Go(b.LoginLink())
	page.Wait(`document.querySelector("#agent")`)
	page.Go("http://" + b.Addr() + "/agents")
	page.Type("#agent-name", "helper")
	page.Type("#agent-prompt", "You help.")
	page.Click(`input[name="every"]`)
	page.Click(`input[name="server"][value="two"]`)
	page.Click(`form[hx-post="/agents"] button`)
	page.Wait(`document.querySelector("#outcome").innerText.includes("helper is saved")`)
	get := func() (v roster.Agent) {
		b.call(http.MethodGet, agentsPath+"/helper", nil, &v)
		return v
	}
	want := roster.Agent{Name: "helper", Source: "api", Model: "default", SystemPrompt: "You help.", Tools: []string{"*"},
		MCPServers: []roster.Link{{Name: "one"}, {Name: "two", Enabled: true}},
		Context:    roster.Context{Messages: 20, Turns: 40, Tokens: 16000}}
	if diff := cmp.Diff(want, get()); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	page.Go("http://" + b.Addr() + "/agents/helper")
	page.Click(`input[name="server"][value="one"]`)
	page.Eval(`document.querySelector("#agent-tools").value = "web.*, feeds.*"; ` +
		`document.querySelector("#agent-steps").value = "3"`)
	page.Click(`form[hx-post="/agents/helper"] button`)
	page.Wait(`document.querySelector("#outcome").innerText.includes("helper is saved")`)
	want.Tools, want.Limits.MaxSteps, want.MCPServers[0].Enabled = []string{"web.*", "feeds.*"}, 3, true
	if diff := cmp.Diff(want, get()); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	page.Eval("window.confirm = () => true")
	page.Click(`button[hx-post="/agents/helper/remove"]`)
	page.Wait(`document.querySelector("#outcome").innerText.includes("helper is removed")`)
	if status := b.call(http.MethodGet, agentsPath+"/helper", nil, nil); status != http.StatusNotFound {
		t.Errorf("after removing it: %d", status)
	}
	for _, p := range page.Problems() {
		t.Errorf("the browser complains: %s", p)
	}
	page.Go("http://" + b.Addr() + "/agents/default")
	for name, want := range map[string]string{"cat.txt": "cat.txt is saved in 1 passage.",
		"hurt.pdf": "Not done: hurt.pdf is not kept: it is damaged, or no PDF."} {
		page.Eval(`{const files = new DataTransfer(); files.items.add(new File(["The cat is Mons."], "` + name +
			`")); file.files = files.files}`)
		page.Click(`form[hx-post="/agents/default/files"] button`)
		page.Wait(`document.querySelector("#outcome").innerText.includes("` + want + `")`)
	}
	page.Reload()
	page.Eval("window.confirm = () => true")
	page.Click(`button[hx-post="/agents/default/files/cat.txt/remove"]`)
	page.Wait(`document.querySelector("#outcome").innerText.includes("cat.txt is removed")`)
}
