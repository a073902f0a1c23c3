// Package allocations compares the allocations of message handling with the figures of the last commit. Times depend
// on the machine. The number and the size of allocations hardly do, and they reveal most causes of a slow program.
package allocations

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/mcp"
	"ravenbot/internal/recall/toolsearch"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/policy"
	"ravenbot/internal/turn/prompt"
	"ravenbot/internal/turn/schema"
)

var update = flag.Bool("update", false, "write the figures to testdata/allocations.json")

// tolerance is how much more than the recorded figure is taken, and slack how many allocations and bytes more. From run
// to run the figures differ by less than 0.2 %; the rest is for other versions of Go and of the libraries.
const (
	tolerance  = 1.10
	slackCount = 3
	slackBytes = 512
)

// cost is what one operation allocates.
type cost struct {
	Count float64 `json:"allocations"`
	Bytes float64 `json:"bytes"`
}

const figures = "testdata/allocations.json"

// operations are what is measured. Each returns the operation, which must not change what the next one costs.
var operations = map[string]func(t *testing.T) func() error{
	"check arguments":          checkArguments,
	"decide about a call":      decide,
	"store a turn":             func(t *testing.T) func() error { return storeTurn(t, 0) },
	"store a turn behind 2000": func(t *testing.T) func() error { return storeTurn(t, 2000) },
	"call an MCP tool":         callTool,
	"search 200 tools":         func(t *testing.T) func() error { return searchTools(t, 200) },
	"search 4000 tools":        func(t *testing.T) func() error { return searchTools(t, 4000) },
	"build a request":          buildRequest,
	"quote recent messages":    quoteRecent,
}

// smaller names the small case of a large one. The large one may cost maxGrowth times as much: a tree of pages that is
// a level deeper, but nothing that grows with what is stored.
var smaller = map[string]string{"store a turn behind 2000": "store a turn", "search 4000 tools": "search 200 tools"}

const maxGrowth = 1.5

func TestMain(m *testing.M) {
	if os.Getenv("ALLOCATIONS_SERVER") != "" {
		serveMCP()
		return
	}
	os.Exit(m.Run())
}

// TestAllocations fails where an operation allocates more than was recorded. RAVENBOT_ALLOCATIONS switches it on: under
// the race detector, and beside other tests, the figures are others.
func TestAllocations(t *testing.T) {
	if os.Getenv("RAVENBOT_ALLOCATIONS") == "" && !*update {
		t.Skip("make allocations runs this")
	}
	measured := map[string]cost{}
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		t.Run(name, func(t *testing.T) {
			measured[name] = measure(t, operations[name](t))
			t.Logf("%.0f allocations, %.0f bytes", measured[name].Count, measured[name].Bytes)
		})
	}
	if *update {
		data, err := json.MarshalIndent(measured, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(figures, append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]cost{}
	if err := json.Unmarshal(data, &recorded); err != nil {
		t.Fatal(err)
	}
	for name, now := range measured {
		was, ok := recorded[name]
		if !ok {
			t.Errorf("%s: no figure is recorded; run make allocations-update", name)
			continue
		}
		if now.exceeds(was, tolerance) {
			t.Errorf("%s: %.0f allocations of %.0f bytes, %.0f of %.0f before. If that is worth it, run "+
				"make allocations-update and say why in the commit", name, now.Count, now.Bytes, was.Count, was.Bytes)
		}
	}
	for large, small := range smaller {
		if l, s := measured[large], measured[small]; l.exceeds(s, maxGrowth) {
			t.Errorf("%s: %.0f allocations of %.0f bytes, %s: %.0f of %.0f", large, l.Count, l.Bytes, small, s.Count, s.Bytes)
		}
	}
}

// exceeds reports whether a cost is more than some times another one.
func (c cost) exceeds(other cost, times float64) bool {
	return c.Count > other.Count*times+slackCount || c.Bytes > other.Bytes*times+slackBytes
}

// measure returns what an operation allocates, other goroutines of this process included.
func measure(t *testing.T, do func() error) cost {
	t.Helper()
	const rounds = 200
	run := func() {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 { // caches fill
		run()
	}
	// A collection empties the pools that libraries keep, at a moment that depends on the machine.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC()
	run()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		run()
	}
	runtime.ReadMemStats(&after)
	return cost{
		Count: float64((after.Mallocs - before.Mallocs) / rounds),
		Bytes: float64((after.TotalAlloc - before.TotalAlloc) / rounds),
	}
}

var here = chat.Address{Platform: "slack", Workspace: "T1", Channel: "C9"}

func checkArguments(*testing.T) func() error {
	c := schema.New()
	given := json.RawMessage(`{"path":"notes/today.md","lines":[1,2,3],"mode":"read","options":{"deep":true,"limit":20}}`)
	wanted := json.RawMessage(`{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string","minLength":1},"lines":{"type":"array","items":{"type":"integer"}},
		"mode":{"enum":["read","write"]},"options":{"type":"object","properties":{"deep":{"type":"boolean"},
		"limit":{"type":"integer","maximum":100}}}}}`)
	return func() error {
		_, err := c.Check(wanted, given)
		return err
	}
}

func decide(t *testing.T) func() error {
	yes := true
	var rules []policy.Rule
	for n := range 30 {
		rules = append(rules, policy.Rule{
			Tools: []string{fmt.Sprintf("other%d_*", n)}, Hosts: []string{"*.example.org"}, Decision: tool.Deny,
		})
	}
	p := policy.New(policy.Options{
		Rules:  rules,
		Server: func(string) policy.Server { return policy.Server{} },
	})
	spec := tool.Spec{Server: "web", Name: "fetch", Native: true, Hints: tool.Hints{ReadOnly: &yes, OpenWorld: &yes}}
	in := tool.Intent{
		Tool: tool.Named{Name: "web_fetch", Tool: tool.Func{Described: spec}},
		Args: json.RawMessage(`{"url":"https://named.example/a?b=c"}`),
		Caller: tool.Caller{
			Conversation: here,
			Taint:        []string{"a page"},
			IsNamed:      func(string) bool { return false },
		},
	}
	return func() error {
		if v := p.Decide(in); v.Decision != tool.Ask {
			return fmt.Errorf("decided %v, want ask", v)
		}
		return nil
	}
}

// storeTurn stores what one message brings: the message, then its answer, then that it was posted. The store has some
// turns of other conversations before.
func storeTurn(t *testing.T, before int) func() error {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	answer := strings.Repeat("some words of an answer ", 20)
	n := 0
	do := func() error {
		n++
		to := chat.Address{Platform: "slack", Workspace: "T1", Channel: "C9", Thread: fmt.Sprintf("%08d", n)}
		m := chat.Message{ID: fmt.Sprintf("%08d", n), Conversation: to, Text: answer[:100], Time: now}
		if _, err := db.Accept(t.Context(), store.Received{Message: m, At: now}); err != nil {
			return err
		}
		turn := &conversation.Turn{ID: m.Key(), State: conversation.Answered, Began: now, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: m.Text}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Text: answer}}},
		}}
		p := store.Post{Key: "answer/" + m.Key(), To: to, Draft: chat.Draft{Text: answer}, Message: m.Key(), At: now}
		if err := db.SaveAnswer(t.Context(), to, []string{m.Key()}, turn, []store.Post{p}); err != nil {
			return err
		}
		return db.SaveOutcomes(t.Context(), []store.Outcome{{Key: p.Key, Ref: chat.Ref{IDs: []string{m.ID}}, At: now}}, 0)
	}
	for range before {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	return do
}

// callTool calls a tool of a server in a process of its own through the host.
func callTool(t *testing.T) func() error {
	h, err := mcp.NewHost(mcp.Options{Servers: []mcp.Config{{
		Name:    "a",
		Command: os.Args[0],
		Env:     map[string]string{"ALLOCATIONS_SERVER": "1"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	if err := h.Wait(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	tools := h.Tools()
	i := slices.IndexFunc(tools, func(c tool.Tool) bool { return c.Spec().Name == "echo" })
	if i < 0 {
		t.Fatalf("the server has no tool echo among %d", len(tools))
	}
	return func() error {
		res, err := tools[i].Call(ctx, json.RawMessage(`{"text":"hello"}`))
		if err == nil && res.IsError {
			err = fmt.Errorf("the tool failed: %+v", res)
		}
		return err
	}
}

// serveMCP is an MCP server on standard streams with one tool, and nothing that costs.
func serveMCP() {
	replies := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"echo","description":"Echoes.","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"hello"}]}`,
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(lines.Bytes(), &request) != nil || request.ID == nil {
			continue
		}
		if result, ok := replies[request.Method]; ok {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", request.ID, result)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`+"\n", request.ID)
	}
}

func searchTools(_ *testing.T, n int) func() error {
	x := toolsearch.New()
	nouns := strings.Fields("invoice ticket calendar message picture branch sensor parcel flight recipe")
	verbs := strings.Fields("list create delete update search export import share archive compare")
	for s := range n / 100 {
		server := toolsearch.Server{Name: fmt.Sprint("server", s), Text: "Works with many things."}
		for i, noun := range nouns {
			for j, verb := range verbs {
				server.Tools = append(server.Tools, toolsearch.Doc{
					Name:        fmt.Sprintf("server%d_%s_%s", s, verb, noun),
					Description: fmt.Sprintf("Lets you %s a %s of kind %d.", verb, noun, (s+i+j)%17),
					Parameters:  json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"}}}`),
				})
			}
		}
		x.Replace(server)
	}
	return func() error {
		if hits := x.Search("create a ticket and share the calendar", 5, nil); len(hits) != 5 {
			return fmt.Errorf("%d tools were found, want 5", len(hits))
		}
		return nil
	}
}

// buildRequest builds the messages of a conversation with a full window, and its system prompt.
func buildRequest(*testing.T) func() error {
	var turns []conversation.Turn
	for n := range 40 {
		id := fmt.Sprint("call-", n)
		turns = append(turns, conversation.Turn{State: conversation.Answered, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "Anna says:\n", Source: llm.SourceSpeaker}, {Text: "what is new?"}}},
			{Role: llm.Assistant, Origin: "gemini/a", Parts: []llm.Part{{
				Call: &llm.Call{ID: id, Name: "feeds_fetch", Args: json.RawMessage(`{"url":"https://example.org/feed"}`)},
				Raw:  json.RawMessage(`{"functionCall":{"name":"feeds_fetch"},"thoughtSignature":"AQ=="}`),
			}}},
			{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: id, Name: "feeds_fetch", Content: "three items"}}}},
			{Role: llm.Assistant, Origin: "gemini/a", Parts: []llm.Part{{Text: "Three items are new."}}},
		}})
	}
	system := prompt.System{
		Instructions: "You help a team.",
		Platform:     "slack",
		Tools:        map[string]bool{"feeds_fetch": true, "web_fetch": true, "memory_save": true},
		Place:        chat.Place{Channel: "general"},
	}
	return func() error {
		messages := conversation.Build(conversation.Summary{Upto: 3, Text: "They spoke of feeds."}, turns, "gemini/a")
		if len(messages) < 100 || system.Text() == "" {
			return fmt.Errorf("the request has %d messages", len(messages))
		}
		return nil
	}
}

// quoteRecent tells what was said before a question.
func quoteRecent(*testing.T) func() error {
	c := chat.Context{Zone: "Europe/Oslo"}
	for n := range 20 {
		c.Recent = append(c.Recent, chat.Said{ID: fmt.Sprint(n), By: "Anna", At: time.Unix(int64(1_700_000_000+n), 0),
			Text: "Some words that somebody said a moment ago.", Link: "https://example.org/archives/C1/p1"})
	}
	unknown := func(string) bool { return false }
	return func() error {
		if parts := prompt.Context(c, unknown, time.UTC); len(parts) < len(c.Recent) {
			return fmt.Errorf("%d parts", len(parts))
		}
		return nil
	}
}
