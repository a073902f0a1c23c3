package app_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	simfeeds "ravenbot/internal/testing/sim/feeds"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

func TestMetrics_TellOfAnswersModelsToolsDigestsAndFeeds(t *testing.T) {
	w := newWorld(t)
	good := w.feeds.AddFeed("/good", "Good", simfeeds.Atom)
	w.feeds.AddItem("/good", simfeeds.Item{Title: "Something happened"})
	bad := w.feeds.Serve("/bad", []byte("<html>no feed</html>"), "text/html")
	settings := w.base()
	model := settings["models"].(map[string]any)["default"].(map[string]any)
	model["price"] = map[string]any{"inputPerM": 1e6, "outputPerM": 1e6} // a dollar a token
	to := []string{"slack:" + simslack.TeamID + "/" + w.channel.ID}
	settings["digests"] = map[string]any{
		"news":  map[string]any{"schedule": "every day at 9", "feeds": []string{good}, "post": to},
		"wrong": map[string]any{"schedule": "every day at 9", "feeds": []string{bad}, "post": to},
	}
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		switch {
		case strings.Contains(r.Asked(), "refused"):
			return simmodel.Reply{Status: http.StatusForbidden, Message: "no"}
		case strings.Contains(r.Asked(), "feed") && len(r.Last().Results) == 0:
			return simmodel.Reply{Calls: []simmodel.Call{{Name: "feeds_fetch", Args: json.RawMessage(`{"url":"` + good + `"}`)}}}
		}
		return simmodel.Say("done")
	})
	b := w.run(settings)
	b.ask("room", "read the feed")
	b.ask("room", "this is refused")
	b.wantMetrics(
		`ravenbot_answer_seconds_count 2`,
		`ravenbot_model_requests_total{model="default",outcome="answered"} 2`,
		`ravenbot_model_requests_total{model="default",outcome="denied"} 1`,
		`ravenbot_model_request_seconds_bucket{model="default",le="+Inf"} 3`,
		`ravenbot_tool_calls_total{outcome="done",server="feeds"} 1`,
		`ravenbot_tool_call_seconds_count{server="feeds"} 1`,
	)
	b.digestRun("news")
	b.call(http.MethodPost, "/api/v1/digests/wrong/run", nil, nil)
	all := b.wantMetrics(
		`ravenbot_digest_runs_total{outcome="made"} 1`,
		`ravenbot_digest_runs_total{outcome="failed"} 1`,
		`ravenbot_digest_run_seconds_count 2`,
		`ravenbot_feed_failures_total 1`,
	)
	described := must(os.ReadFile("../../docs/metrics.md"))
	wantAlerts(t, string(must(os.ReadFile("../../deploy/prometheus/alerts.yml"))), string(described), all)
	wantDashboard(t, string(described), all)
	var tokens, usd float64
	for line := range strings.Lines(all) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var n float64
		if _, family, ok := strings.Cut(strings.TrimSpace(line), "# TYPE ravenbot_"); ok {
			family, _, _ = strings.Cut(family, " ")
			if !bytes.Contains(described, []byte("`ravenbot_"+family+"`")) {
				t.Errorf("docs/metrics.md lacks ravenbot_%s", family)
			}
		}
		if json.Unmarshal([]byte(value), &n) != nil {
			continue
		}
		switch {
		case strings.HasPrefix(name, "ravenbot_model_tokens_total{"):
			tokens += n
		case name == `ravenbot_cost_usd_total{model="default"}`:
			usd = n
		}
	}
	if tokens == 0 || usd != tokens {
		t.Errorf("%g tokens cost %g dollars, want a dollar a token", tokens, usd)
	}
}

// wantAlerts compares the alert rules with the table of the document, and with the metrics that a bot has.
func wantAlerts(t *testing.T, rules, described, scraped string) {
	t.Helper()
	_, table, _ := strings.Cut(described, "Worth an alert")
	table, _, _ = strings.Cut(table, "\n## ")
	named := find(`(?m)^\s+expr: (.+)$`, rules)
	if diff := cmp.Diff(find("(?m)^\\| `(.+?)` \\|", table), named); diff != "" {
		t.Errorf("expressions (-docs/metrics.md +alerts.yml):\n%s", diff)
	}
	metrics := find(`\b(ravenbot_[a-z_]+)`, strings.Join(named, "\n"))
	for _, metric := range metrics {
		if name := strings.TrimSuffix(metric, "_bucket"); !strings.Contains(scraped, "# TYPE "+name+" ") {
			t.Errorf("the rules name %s, which the bot does not have", metric)
		}
	}
	if len(metrics) < 8 {
		t.Errorf("the rules name only %q", metrics)
	}
}

// TestAlerts_FireWhenTheyShould has Prometheus' own tool run the tests of the alert rules.
func TestAlerts_FireWhenTheyShould(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = "../../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// find returns what the first group of an expression matches.
func find(expression, text string) []string {
	var list []string
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

// wantMetrics reads the metrics, and fails the test unless they have some lines.
func (b *bot) wantMetrics(lines ...string) (all string) {
	b.t.Helper()
	all = b.metrics()
	for _, want := range lines {
		if !strings.Contains(all, want+"\n") {
			b.t.Errorf("the metrics lack %s", want)
		}
	}
	return all
}
