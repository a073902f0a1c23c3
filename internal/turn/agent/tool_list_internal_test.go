package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ravenbot/internal/core/tool"
)

type listed tool.Spec

func (l listed) Spec() tool.Spec { return tool.Spec(l) }

func (listed) Call(context.Context, json.RawMessage) (tool.Result, error) { return tool.Result{}, nil }

// Hundreds of tools of many servers are told of in one message of any platform.
func TestManyToolsAreFolded(t *testing.T) {
	servers := map[string][]tool.Named{}
	for s := range 60 {
		server := fmt.Sprintf("server%02d", s)
		for n := range s + 1 {
			name := fmt.Sprintf("%s_tool%03d", server, n)
			servers[server] = append(servers[server], tool.Named{Name: name,
				Tool: listed{Server: server, Description: strings.Repeat("*words* ", 40) + "\nmore"}})
		}
	}
	text := listServers(servers)
	if len(text) > 8000 || !strings.Contains(text, "- **server07** (8): `server07_tool000`, ") ||
		!strings.Contains(text, "`server07_tool005` and 2 more\n") || !strings.HasSuffix(text, "- and 20 more") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	list := servers["server59"]
	list = append(list, list...)
	if text := listTools(list, maxToolsOfServer); len(strings.Split(text, "\n")) != maxToolsOfServer+1 ||
		!strings.HasSuffix(text, "- and 60 more") || !strings.Contains(text, "\\*words\\*") ||
		strings.Contains(text, "more\n-  ") {
		t.Errorf("%s", text)
	}
}
