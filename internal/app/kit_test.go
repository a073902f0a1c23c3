package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// toolServer is this test binary as an MCP server on standard streams. Its tool
// look says that it only reads; effect says nothing of itself. Each run of either
// is a line in a file of its own in dir. A call with hold never ends at its first
// run. RAVENBOT_TOOL_COUNT adds so many more tools, RAVENBOT_TOOL_LIST declares others instead, which do the same.
func toolServer(dir string) {
	if err := exec.Command("sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1000; done").Start(); err != nil {
		panic(err) // it does not end by itself, nor when it is asked to
	}
	var mu sync.Mutex
	say := func(v any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(string(must(json.Marshal(v))))
	}
	answers := make(chan string, 1)
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var r struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Params struct {
				ProtocolVersion, Name string
				Arguments             toolArgs
			}
		}
		if json.Unmarshal(in.Bytes(), &r) != nil || r.ID == nil {
			continue
		}
		if r.Method == "" { // what somebody answered
			answers <- string(r.Result)
			continue
		}
		reply := func(result any) { say(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": result}) }
		switch r.Method {
		case "initialize":
			reply(map[string]any{"protocolVersion": r.Params.ProtocolVersion,
				"capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo":   map[string]string{"name": "kit", "version": "1"}})
		case "tools/list":
			reply(map[string]any{"tools": toolList()})
		case "tools/call":
			go func() {
				if r.Params.Name == "wonder" {
					say(map[string]any{"jsonrpc": "2.0", "id": "wonder", "method": "elicitation/create", "params": wondering()})
					reply(map[string]any{"content": []any{map[string]string{"type": "text", "text": "heard " + <-answers}}})
					return
				}
				text := r.Params.Arguments.run(dir, r.Params.Name)
				reply(map[string]any{"content": []any{map[string]string{"type": "text", "text": text}}})
			}()
		default:
			say(map[string]any{"jsonrpc": "2.0", "id": r.ID, "error": map[string]any{"code": -32601,
				"message": "no such method"}})
		}
	}
}

// wondering is what the tool wonder asks of whoever has it called.
func wondering() map[string]any {
	return map[string]any{"message": "Which one?", "requestedSchema": map[string]any{"type": "object",
		"required": []string{"colour"}, "properties": map[string]any{
			"count":  map[string]any{"type": "integer", "minimum": 1, "default": 2},
			"colour": map[string]any{"type": "string", "enum": []string{"red", "blue"}}}}}
}

func toolList() []any {
	schema := map[string]any{"type": "object", "properties": map[string]any{"question": map[string]string{"type": "string"},
		"ms": map[string]string{"type": "integer"}, "hold": map[string]string{"type": "boolean"}},
		"required": []string{"question"}}
	if list := os.Getenv("RAVENBOT_TOOL_LIST"); list != "" {
		var tools []any
		if err := json.Unmarshal([]byte("["+list+"]"), &tools); err != nil {
			panic(err)
		}
		for _, t := range tools {
			t.(map[string]any)["inputSchema"] = schema
		}
		return tools
	}
	tools := []any{
		map[string]any{"name": "effect", "description": "does something", "inputSchema": schema},
		map[string]any{"name": "wonder", "description": "asks something back", "inputSchema": schema},
		map[string]any{"name": "look", "description": "looks at something", "inputSchema": schema,
			"annotations": map[string]bool{"readOnlyHint": true}},
	}
	text, _ := os.ReadFile(os.Getenv("RAVENBOT_TOOL_DESCRIPTION_FILE")) // often not set
	if len(text) > 0 {
		tools = append(tools, map[string]any{"name": "described", "description": string(text), "inputSchema": schema})
	}
	more, _ := strconv.Atoi(os.Getenv("RAVENBOT_TOOL_COUNT")) // often not set
	for n := range more {
		tools = append(tools, map[string]any{"name": fmt.Sprintf("machine_%d", n), "description": "runs a machine",
			"inputSchema": schema})
	}
	return tools
}

type toolArgs struct {
	Question string `json:"question"`
	MS       int    `json:"ms,omitempty"` // how long a run takes
	Hold     bool   `json:"hold,omitempty"`
}

func (a toolArgs) run(dir, name string) string {
	f := must(os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))
	must(f.WriteString(a.Question + "\n"))
	_ = f.Close()
	if a.Hold && ran(dir, name)[a.Question] == 1 {
		select {}
	}
	<-time.After(time.Duration(a.MS) * time.Millisecond)
	payload, _ := os.ReadFile(filepath.Join(dir, "payload")) // what a test wants it to say besides; often nothing
	return name + " done for " + a.Question + string(payload)
}

// ran counts the runs of a tool by question.
func ran(dir, name string) map[string]int {
	count := map[string]int{}
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return count
	}
	for _, q := range strings.Fields(string(data)) {
		count[q]++
	}
	return count
}
