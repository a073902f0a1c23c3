package mcp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/tool"
)

const (
	maxPages = 100
	maxTools = 2000
	maxName  = 512 // bytes; MCP allows 128
)

// spec is a tool as a server listed it.
type spec struct {
	ToolInfo
	Hints tool.Hints
}

func equal(a, b []spec) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// list asks for all pages of tools. The pages are read here as they came,
// because the library's own form of them loses parts of the schemas, and loses
// everything when one tool is odd.
func (c *connection) list(ctx context.Context, timeout time.Duration) ([]spec, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var list []spec
	seen := map[string]bool{}
	request := sdk.ListToolsRequest{}
	for range maxPages {
		raw, offered, err := c.page(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		page := object(raw)
		var items []json.RawMessage
		if err := json.Unmarshal(page["tools"], &items); err != nil {
			return nil, fmt.Errorf("list tools: the answer holds no list of tools")
		}
		for _, item := range items {
			t, ok := specOf(item)
			if ok && !seen[t.Name] && offered(t.Name) && len(list) < maxTools {
				seen[t.Name] = true
				list = append(list, t)
			}
		}
		next := sdk.Cursor(text(page["nextCursor"]))
		if next == "" || next == request.Params.Cursor {
			break
		}
		request.Params.Cursor = next
	}
	slices.SortFunc(list, func(a, b spec) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// page gives one page as it came, and which of its tools the library would offer:
// it drops those whose header annotations are invalid.
func (c *connection) page(ctx context.Context, request sdk.ListToolsRequest) (json.RawMessage, func(string) bool, error) {
	ctx, got := capturing(ctx)
	result, err := c.client.ListToolsByPage(ctx, request)
	raw := got.result()
	switch {
	case err == nil:
		names := map[string]bool{}
		for _, t := range result.Tools {
			names[t.Name] = true
		}
		return raw, func(name string) bool { return names[name] }, nil
	case raw != nil:
		return raw, func(string) bool { return true }, nil
	case hasNoTools(err):
		return json.RawMessage(`{"tools":[]}`), func(string) bool { return true }, nil
	}
	c.failed(err)
	return nil, nil, readable(err)
}

func specOf(raw json.RawMessage) (spec, bool) {
	o := object(raw)
	t := spec{ToolInfo: ToolInfo{Name: text(o["name"]), Description: text(o["description"])}}
	if t.Description == "" {
		t.Description = text(o["title"])
	}
	if len(object(o["inputSchema"])) > 0 {
		t.Schema = slices.Clone(o["inputSchema"])
	}
	notes := object(o["annotations"])
	t.Hints = tool.Hints{ReadOnly: flag(notes["readOnlyHint"]), Destructive: flag(notes["destructiveHint"]),
		Idempotent: flag(notes["idempotentHint"]), OpenWorld: flag(notes["openWorldHint"])}
	return t, t.Name != "" && len(t.Name) <= maxName
}

// object, text and flag read JSON by its exact keys, where the standard decoder
// would take any case, and give nothing for what is of another type.
func object(raw json.RawMessage) map[string]json.RawMessage {
	var o map[string]json.RawMessage
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	return o
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func flag(raw json.RawMessage) *bool {
	var b *bool
	if json.Unmarshal(raw, &b) != nil {
		return nil
	}
	return b
}

// chosen leaves the tools that the entry wants offered.
func (s *server) chosen(list []spec) []spec {
	var kept []spec
	for _, t := range list {
		in := len(s.c.Include) == 0 || matches(s.c.Include, t.Name)
		if in && !matches(s.c.Exclude, t.Name) {
			kept = append(kept, t)
		}
	}
	return kept
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return match(p, name) })
}

// match compares with a pattern in which * stands for anything.
func match(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(name) < len(first)+len(last) || !strings.HasPrefix(name, first) || !strings.HasSuffix(name, last) {
		return false
	}
	name = name[len(first) : len(name)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return true
}

func (s *server) toolsOf(list []spec) []tool.Tool {
	tools := make([]tool.Tool, 0, len(list))
	for _, t := range list {
		tools = append(tools, remote{s, t})
	}
	return tools
}

// remembered is a tool list in the cache. Entry tells whether it is of the entry
// as it is configured now.
type remembered struct {
	Entry string `json:"entry"`
	Tools []spec `json:"tools"`
}

// restore takes the tools from the cache and reports whether they were there.
func (s *server) restore() bool {
	if s.o.Cache == nil {
		return false
	}
	data, err := s.o.Cache.Load(s.c.Name)
	if err != nil {
		s.log.Warn("mcp tool list not read from the cache", "error", err)
		return false
	}
	var r remembered
	if data == nil || json.Unmarshal(data, &r) != nil || r.Entry != s.fingerprint() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.specs, s.tools = r.Tools, s.toolsOf(r.Tools)
	return len(r.Tools) > 0
}

func (s *server) save(list []spec) {
	if s.o.Cache == nil {
		return
	}
	data, err := json.Marshal(remembered{s.fingerprint(), list})
	if err == nil {
		err = s.o.Cache.Save(s.c.Name, data)
	}
	if err != nil {
		s.log.Warn("mcp tool list not saved to the cache", "error", err)
	}
}

// fingerprint of what decides which tools the server has. Secrets go in, but
// cannot be read from it.
func (s *server) fingerprint() string {
	c := s.c
	data, err := json.Marshal([]any{c.Command, c.Args, c.Env, c.Dir, c.URL, c.Headers, c.Transport, c.Include, c.Exclude})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
