package toolsearch

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"ravenbot/internal/core/tool"
)

// readServers returns the invented servers of testdata, and their tools' names by server/tool.
func readServers(t *testing.T) ([]Server, map[string]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/servers.txt")
	if err != nil {
		t.Fatal(err)
	}
	var servers []Server
	names := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if head, found := strings.CutPrefix(line, "= "); found {
			name, text, _ := strings.Cut(head, ": ")
			servers = append(servers, Server{Name: name, Text: text})
			continue
		}
		parts := strings.Split(line, " |")
		if len(parts) != 3 {
			continue
		}
		s := &servers[len(servers)-1]
		properties := map[string]any{}
		for _, p := range strings.Split(parts[2], ",") {
			if p = strings.TrimSpace(p); p != "" {
				properties[p] = map[string]string{"type": "string"}
			}
		}
		schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
		if err != nil {
			t.Fatal(err)
		}
		d := Doc{Name: tool.SafeName(s.Name, parts[0]), Description: strings.TrimSpace(parts[1]), Parameters: schema}
		s.Tools = append(s.Tools, d)
		names[s.Name+"/"+parts[0]] = d.Name
	}
	return servers, names
}

// repeated is what every tool of some servers says of itself beside what it does.
const repeated = ". Part of the %s tools. It returns a JSON object with the result and a status; do not call it " +
	"with empty arguments. If a search finds nothing, list the items first and try again with another name. Example: " +
	"read the message, write a summary, send it to the team and create an event for the next meeting. When a file, " +
	"page or user cannot be found, it says so and suggests what to look at. Prices, dates and times are in the time " +
	"zone of the account. Large results are cut into pages; pass the cursor to get the next page."

// readTasks returns the tasks of testdata.
func readTasks(t *testing.T, names map[string]string) []Question {
	t.Helper()
	data, err := os.ReadFile("testdata/tasks.txt")
	if err != nil {
		t.Fatal(err)
	}
	var tasks []Question
	for line := range strings.Lines(string(data)) {
		query, gold, found := strings.Cut(strings.TrimSpace(line), "\t")
		if !found {
			continue
		}
		q := Question{Query: query}
		for _, g := range strings.Split(gold, ",") {
			if names[g] == "" {
				t.Fatalf("there is no tool %s", g)
			}
			q.Gold = append(q.Gold, names[g])
		}
		tasks = append(tasks, q)
	}
	return tasks
}

// TestSearch_LongRequestsOfSeveralSteps searches with tasks of several sentences that need two to five tools of some
// fifty servers: as the servers describe their tools, and with a third of the servers repeating a long text in each.
// The bounds are what was reached, and always more than plain BM25.
func TestSearch_LongRequestsOfSeveralSteps(t *testing.T) {
	servers, names := readServers(t)
	tasks := readTasks(t, names)
	wordy := make([]Server, len(servers))
	for i, s := range servers {
		wordy[i] = s
		if i%3 == 0 {
			wordy[i].Tools = nil
			for _, d := range s.Tools {
				d.Description += fmt.Sprintf(repeated, s.Name)
				wordy[i].Tools = append(wordy[i].Tools, d)
			}
		}
	}
	for _, c := range []struct {
		name              string
		servers           []Server
		recall5, recall10 float64
	}{
		{"short descriptions", servers, 0.53, 0.67},
		{"some descriptions are long", wordy, 0.45, 0.60},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, floor := New(), newPlain(c.servers)
			x.Sync(c.servers)
			var plain Score
			s := x.Measure(tasks, 10, func(q Question, _ []string) { plain.add(q.Gold, floor.search(q.Query, 10)) })
			n := float64(len(tasks))
			t.Logf("%d tools of %d servers, %v tasks: recall@5 %.3f, @10 %.3f; plain BM25 %.3f, %.3f", x.Len(), len(servers), n,
				s.Recall5, s.Recall10, plain.Recall5/n, plain.Recall10/n)
			if x.Len() < 300 || len(servers) < 30 || n < 40 {
				t.Error("the set is too small")
			}
			if s.Recall5 < max(c.recall5, plain.Recall5/n) || s.Recall10 < max(c.recall10, plain.Recall10/n) {
				t.Errorf("recall@5 %.3f and @10 %.3f, want %.2f and %.2f", s.Recall5, s.Recall10, c.recall5, c.recall10)
			}
		})
	}
}
