package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/ops/config"
)

const (
	// Limits of a list of tools. Further tools are left out without an error.
	maxPages     = 100
	maxTools     = 2000
	maxToolName  = 512     // bytes; the specification of 2025-11-25 allows 128
	maxListBytes = 4 << 20 // of all tools; nine well-known servers have 0.3 MB together (measured 2026-11)
)

type toolSpec struct {
	Name        string
	Title       string          `json:",omitempty"`
	Description string          `json:",omitempty"`
	Schema      json.RawMessage `json:",omitempty"`
	Output      json.RawMessage `json:",omitempty"` // schema of structured results
	Notes       json.RawMessage `json:",omitempty"` // annotations
}

func (t toolSpec) hints() tool.Hints {
	notes := jsonObject(t.Notes)
	return tool.Hints{
		ReadOnly:    jsonBool(notes["readOnlyHint"]),
		Destructive: jsonBool(notes["destructiveHint"]),
		Idempotent:  jsonBool(notes["idempotentHint"]),
		OpenWorld:   jsonBool(notes["openWorldHint"]),
	}
}

func (t toolSpec) describe() string {
	if t.Description == "" {
		return t.Title
	}
	return t.Description
}

type listing struct {
	Tools        []toolSpec     `json:"tools"`
	Instructions string         `json:"instructions,omitempty"`
	Offers       serverFeatures `json:"offers,omitzero"`
}

// list returns the tools of all pages, sorted by name. It reads raw JSON, because the library loses parts of schemas
// ($schema, allOf, if/then/else) and refuses a whole page for one invalid tool (mcp-go v1.2.1, 2026-11).
func (c *connection) list(ctx context.Context, timeout time.Duration) ([]toolSpec, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// A server of the newest protocol without tools must not be asked for them, see checkAlive. Some older servers
	// declare nothing.
	if sdk.IsModernProtocol(c.info.protocol) && c.client.GetServerCapabilities().Tools == nil {
		return nil, c.checkAlive(ctx)
	}
	var list []toolSpec
	seen, room := map[string]bool{}, maxListBytes
	request := sdk.ListToolsRequest{}
	for range maxPages {
		raw, offered, err := c.listPage(ctx, request)
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		page := jsonObject(raw)
		if !bytes.HasPrefix(page["tools"], []byte("[")) {
			return nil, errors.New("list tools: the answer contains no list of tools")
		}
		for _, item := range jsonList(page["tools"]) {
			t, ok := parseTool(item)
			if ok && !seen[t.Name] && (offered == nil || offered[t.Name]) && len(list) < maxTools && len(item) <= room {
				seen[t.Name], room = true, room-len(item)
				list = append(list, t)
			}
		}
		next := sdk.Cursor(jsonString(page["nextCursor"]))
		if next == "" || next == request.Params.Cursor { // a repeated cursor would never end
			break
		}
		request.Params.Cursor = next
	}
	slices.SortFunc(list, func(a, b toolSpec) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// checkAlive checks a server without tools by a request for its other offers. With the newest protocol a server answers
// an unknown method with 404, which the library takes for the end of the session (mcp-go v1.2.1, 2026-11).
func (c *connection) checkAlive(ctx context.Context) error {
	var err error
	for _, kind := range []string{"resources", "prompts"} {
		if c.features().has(kind) {
			err = listers[kind](ctx, c.client, sdk.PaginatedRequest{})
			break
		}
	}
	if err != nil {
		c.noteFailure(err)
		return fmt.Errorf("list its offers: %w", unwrapTransportError(err))
	}
	return nil
}

// listPage returns a raw page, and the names of its tools that may be offered; nil: all. The library drops tools with
// invalid x-mcp-header annotations, as the specification of 2026-07-28 demands.
func (c *connection) listPage(
	ctx context.Context,
	request sdk.ListToolsRequest,
) (page json.RawMessage, offered map[string]bool, err error) {
	ctx, raw := withCapture(ctx)
	result, err := c.client.ListToolsByPage(ctx, request)
	switch {
	case err == nil:
		offered = map[string]bool{}
		for _, t := range result.Tools {
			offered[t.Name] = true
		}
		return *raw, offered, nil
	case *raw != nil: // the library could not decode the page
		return *raw, nil, nil
	case errors.Is(err, sdk.ErrMethodNotFound):
		return json.RawMessage(`{"tools":[]}`), nil, nil
	}
	c.noteFailure(err)
	return nil, nil, unwrapTransportError(err)
}

// parseTool reads a tool. It returns false if the tool has no usable name, or runs only as a task, which is not
// supported.
func parseTool(raw json.RawMessage) (toolSpec, bool) {
	o := jsonObject(raw)
	t := toolSpec{Name: jsonString(o["name"]), Title: jsonString(o["title"]), Description: jsonString(o["description"])}
	fields := map[string]*json.RawMessage{
		"inputSchema":  &t.Schema,
		"outputSchema": &t.Output,
		"annotations":  &t.Notes,
	}
	for key, field := range fields {
		if len(jsonObject(o[key])) > 0 {
			*field = slices.Clone(o[key]) // a copy, to release the page
		}
	}
	isTask := jsonString(jsonObject(o["execution"])["taskSupport"]) == "required"
	return t, t.Name != "" && len(t.Name) <= maxToolName && !isTask
}

func (s *server) isIncluded(name string) bool {
	return (len(s.c.Include) == 0 || matchesAny(s.c.Include, name)) && !matchesAny(s.c.Exclude, name)
}

// matchesAny reports whether a name matches a pattern, in which * stands for any text.
func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return config.Glob(p, name) })
}
