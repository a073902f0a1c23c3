package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// panel is what the tests read of a panel of deploy/grafana/ravenbot.json.
type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr, LegendFormat string
		Datasource                struct{ Type, UID string }
	}
}

// readPanels returns the panels of the dashboard, and the names of its variables.
func readPanels(t *testing.T) (panels []panel, variables []string) {
	t.Helper()
	var board struct {
		UID, Title string
		Panels     []panel
		Templating struct{ List []struct{ Name string } }
	}
	if err := json.Unmarshal(must(os.ReadFile("../../deploy/grafana/ravenbot.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || board.Title == "" || len(board.Panels) < 10 || len(board.Panels) > 14 {
		t.Errorf("the dashboard %q %q has %d panels", board.UID, board.Title, len(board.Panels))
	}
	for _, v := range board.Templating.List {
		variables = append(variables, v.Name)
	}
	return board.Panels, variables
}

// Each panel says what it shows and in which unit, and covers no other; it asks the data source that was chosen, with
// variables that there are.
func TestDashboard_PanelsAreWhole(t *testing.T) {
	panels, variables := readPanels(t)
	variables = append(variables, "__rate_interval") // Grafana's own
	taken := map[string]int{}
	ids := map[int]bool{}
	for _, p := range panels {
		if p.Type == "" || p.Title == "" || !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" ||
			len(p.Targets) == 0 || ids[p.ID] {
			t.Errorf("panel %d %q lacks something: %+v", p.ID, p.Title, p)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.X < 0 || at.Y < 0 || at.W < 1 || at.H < 3 || at.X+at.W > 24 { // Grafana divides a row into 24 parts
			t.Errorf("panel %q is at %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[fmt.Sprint(x, y)]; other != 0 {
					t.Fatalf("panel %q covers panel %d", p.Title, other)
				}
				taken[fmt.Sprint(x, y)] = p.ID
			}
		}
		refs := map[string]bool{}
		for _, q := range p.Targets {
			if q.Expr == "" || q.LegendFormat == "" || q.RefID == "" || refs[q.RefID] ||
				q.Datasource.Type != "prometheus" || q.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q has the query %+v", p.Title, q)
			}
			refs[q.RefID] = true
			for _, name := range find(`\$\{?(\w+)`, q.Expr) {
				if !slices.Contains(variables, name) {
					t.Errorf("panel %q uses the variable %s, which there is not", p.Title, name)
				}
			}
		}
	}
}

// ofScrape are the labels that Prometheus gives by itself, and that of buckets.
var ofScrape = []string{"instance", "job", "le"}

// wantDashboard compares the queries of the dashboard with the metrics that a bot has, and with their labels and
// outcomes as the document has them.
func wantDashboard(t *testing.T, described, scraped string) {
	t.Helper()
	panels, _ := readPanels(t)
	for _, p := range panels {
		for _, q := range p.Targets {
			metrics := find(`\b((?:ravenbot|process|go)_[a-z_]+)`, q.Expr)
			if len(metrics) == 0 {
				t.Errorf("panel %q names no metric: %s", p.Title, q.Expr)
			}
			labels, row := slices.Clone(ofScrape), ""
			for _, metric := range metrics {
				name := strings.TrimSuffix(metric, "_bucket")
				if !strings.Contains(scraped, "# TYPE "+name+" ") {
					t.Errorf("panel %q names %s, which the bot does not have", p.Title, metric)
				}
				if !strings.HasPrefix(name, "ravenbot_") {
					continue
				}
				row = regexp.MustCompile("(?m)^\\|[^|\n]*`" + name + "`.*$").FindString(described)
				if row == "" {
					t.Errorf("docs/metrics.md lacks %s", name)
					continue
				}
				labels = append(labels, strings.Fields(strings.ReplaceAll(strings.Split(row, "|")[2], ",", " "))...)
			}
			used := find(`(\w+)(?:=~?|!=)"`, q.Expr)
			used = append(used, find(`\{\{(\w+)\}\}`, q.LegendFormat)...)
			for _, list := range find(`by \(([^)]*)\)`, q.Expr) {
				used = append(used, strings.Split(list, ", ")...)
			}
			for _, label := range used {
				if !slices.Contains(labels, label) {
					t.Errorf("panel %q uses the label %s; %q have %q", p.Title, label, metrics, labels)
				}
			}
			for _, outcome := range find(`outcome="(\w+)"`, q.Expr) {
				if !strings.Contains(row, outcome) {
					t.Errorf("panel %q asks for the outcome %s, which the document does not have: %s", p.Title, outcome, row)
				}
			}
		}
	}
}

// Prometheus' own tool can parse what the panels ask, with the variables as Grafana fills them in.
func TestDashboard_PrometheusParsesTheQueries(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed")
	}
	var rules []map[string]string
	panels, _ := readPanels(t)
	for _, p := range panels {
		for _, q := range p.Targets {
			filled := strings.NewReplacer("$__rate_interval", "1m", "$instance", "a:8080|b:8080").Replace(q.Expr)
			rules = append(rules, map[string]string{"record": fmt.Sprintf("panel:%d:%s", p.ID, q.RefID), "expr": filled})
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yml") // JSON is YAML, too
	groups := map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}}
	if err := os.WriteFile(file, must(json.Marshal(groups)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
