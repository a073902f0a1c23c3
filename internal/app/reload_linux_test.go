package app_test

import (
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// A configuration that changes is taken up while the bot runs; what did not change
// goes on, and one that is broken changes nothing.
func TestTheConfigurationIsTakenUpWhileTheBotRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		said := r.System
		for _, t := range r.Tools {
			said += " " + t.Name
		}
		return simmodel.Say(said)
	})
	d := w.daemon(w.base()).withTools().start().toolsReady()
	asked := func(want string) {
		t.Helper()
		before := w.slackPosts(want)
		w.slack.Mention(w.channel.ID, w.berit, "who are you?")
		within(t, "the answer says "+want, func() bool { return w.slackPosts(want) > before })
	}
	asked("You are a test.")
	kit := func() (pid string) {
		found := marked(d.mark(d.runs))
		for _, p := range found {
			if p != d.cmd.Process.Pid {
				return string(rune(p))
			}
		}
		return ""
	}
	before := kit()
	if err := os.WriteFile(w.path("config.json"),
		[]byte(`{"agents": {"default": {"systemPrompt": 7}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_ = d.cmd.Process.Signal(syscall.SIGHUP)
	within(t, "the bad file is refused", func() bool {
		return strings.Contains(d.out.String(), "configuration not reloaded")
	})
	asked("You are a test.")
	d.settings["agents"] = map[string]any{"default": map[string]any{"systemPrompt": "You have changed."}}
	d.settings["mcpServers"].(map[string]any)["more"] = map[string]any{"command": os.Args[0],
		"env": map[string]string{"RAVENBOT_TOOL_SERVER": w.tools, "GORACE": "atexit_sleep_ms=0"}}
	d.write() // and no signal: the file is looked at
	within(t, "the change is taken up", func() bool { return strings.Contains(d.out.String(), "configuration reloaded") })
	within(t, "the new server is there", func() bool {
		var v struct{ State string }
		return d.api(http.MethodGet, "/api/v1/mcp/servers/more", &v) == nil && v.State == "connected"
	})
	asked("You have changed.")
	asked("more_look")
	if after := kit(); before == "" || after != before {
		t.Errorf("the server that did not change was started anew")
	}
	connected := func(want string) func() bool {
		return func() bool {
			var status struct {
				Platforms []struct {
					Name      string
					Connected bool
				}
			}
			if d.api(http.MethodGet, "/api/v1/status", &status) != nil {
				return false
			}
			var names []string
			for _, p := range status.Platforms {
				if p.Connected {
					names = append(names, p.Name)
				}
			}
			return strings.Join(names, " ") == want
		}
	}
	within(t, "both are connected", connected("discord slack web"))
	slack := d.settings["platforms"].(map[string]any)["slack"]
	delete(d.settings["platforms"].(map[string]any), "slack")
	d.write()
	within(t, "Slack is off", connected("discord web"))
	d.settings["platforms"].(map[string]any)["slack"] = slack
	d.write()
	within(t, "Slack is on again", connected("discord slack web"))
	d.idle()
	asked("You have changed.")
	d.idle()
	d.end()
}
