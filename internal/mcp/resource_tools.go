package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

const (
	resourceToolsServer = "mcp"
	// maxListed bounds the resources or prompts in a list, maxListedLine the bytes of each.
	maxListed     = 500
	maxListedLine = 500
)

// ResourceTools returns the native tools with which models list and read resources and prompts of servers. There are
// none while no server offers any. Their results are untrusted text.
func (h *Host) ResourceTools() []tool.Tool {
	// Tools for nothing would only cost tokens.
	resources, prompts := false, false
	for _, s := range h.sortedServers() {
		offers := s.features()
		resources, prompts = resources || offers.Resources, prompts || offers.Prompts
	}
	const of = `"server":{"type":"string","description":"name of the MCP server"}`
	var list []tool.Tool
	add := func(name, description, schema string, do func(context.Context, resourceArgs) (tool.Result, error)) {
		list = append(list, resourceTool{h, tool.Func{
			Described: tool.Spec{
				Server:      resourceToolsServer,
				Name:        name,
				Native:      true,
				Description: description,
				Schema:      json.RawMessage(schema),
				Hints:       reads,
			},
			Do: func(ctx context.Context, args json.RawMessage) (tool.Result, error) {
				var w resourceArgs
				if err := json.Unmarshal(args, &w); err != nil {
					return tool.Failure("The arguments do not fit the schema. Nothing was read."), nil
				}
				return do(ctx, w)
			}}})
	}
	if resources {
		add("resources_list", "Lists the resources (documents, records, files) that MCP servers offer to read, "+
			"and the patterns by which more can be named.",
			`{"type":"object","properties":{`+of+`}}`, h.listResources)
		add("resource_read", "Reads a resource of an MCP server, "+
			"by its URI as mcp_resources_list gives it or a pattern there allows.",
			`{"type":"object","properties":{`+of+`,"uri":{"type":"string"}},"required":["server","uri"]}`, h.readResource)
	}
	if prompts {
		add("prompts_list", "Lists the prompts (prepared texts with blanks to fill in) that MCP servers offer.",
			`{"type":"object","properties":{`+of+`}}`, h.listPrompts)
		add("prompt_get", "Gives a prompt of an MCP server with its blanks filled in.",
			`{"type":"object","properties":{`+of+`,"name":{"type":"string"},"arguments":{"type":"object",`+
				`"additionalProperties":{"type":"string"}}},"required":["server","name"]}`, h.getPrompt)
	}
	return list
}

var reads = tool.Hints{ReadOnly: new(true)}

type resourceTool struct {
	h *Host
	tool.Func
}

// DecidedAs returns a tool of the server in the arguments, because a URI or the arguments of a prompt carry data out of
// the bot. A URI or name that the server has listed tells it nothing, and counts as the bot's own.
func (t resourceTool) DecidedAs(args json.RawMessage) tool.Named {
	spec := t.Spec()
	var w resourceArgs
	if json.Unmarshal(args, &w) == nil && w.Server != "" {
		spec.Server = w.Server
		key := w.URI + w.Name
		_, isListed := t.h.listed.Load([2]string{w.Server, key})
		spec.Native = len(w.Arguments) == 0 && (key == "" || isListed)
	}
	return tool.Named{Name: tool.SafeName(spec.Server, spec.Name), Tool: tool.Func{Described: spec, Do: t.Do}}
}

type resourceArgs struct {
	Server    string            `json:"server"`
	URI       string            `json:"uri"`
	Name      string            `json:"name"`
	Arguments map[string]string `json:"arguments"`
}

// serverFeatures are the offers of a server other than tools, as last declared. They are stored in a listing.
type serverFeatures struct {
	Resources bool `json:"resources,omitempty"`
	Prompts   bool `json:"prompts,omitempty"`
}

func (o serverFeatures) has(kind string) bool {
	return kind == "resources" && o.Resources || kind == "prompts" && o.Prompts
}

// features returns the current offers of the server: none while it is stopped.
func (s *server) features() serverFeatures {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Stopped || s.state == Disabled {
		return serverFeatures{}
	}
	return s.listing.Offers
}

func (c *connection) features() serverFeatures {
	o := c.client.GetServerCapabilities()
	return serverFeatures{Resources: o.Resources != nil, Prompts: o.Prompts != nil}
}

// connectionTo returns a server's connection, which stays until release is called. Otherwise conn and release are nil,
// and why is for the model. It may wait for the start of the server until ctx ends.
func (h *Host) connectionTo(
	ctx context.Context,
	name string,
	kind string,
) (conn *connection, release func(), why string) {
	s, err := h.server(name)
	// A server that the caller may not use looks like a missing one.
	if err != nil || !s.features().has(kind) || !tool.CallerFrom(ctx).Reaches(name) {
		return nil, nil, fmt.Sprintf("There is no MCP server %q that offers this. Those that do: %s.",
			text.Cut(name, maxServerName), strings.Join(h.serversWith(ctx, kind), ", "))
	}
	release = h.leaseServer(s)
	_, conn, why = s.connectionFor(ctx)
	if conn == nil {
		release()
		return nil, nil, why
	}
	return conn, release, ""
}

// serversWith returns the names of the servers with a feature that the caller may use.
func (h *Host) serversWith(ctx context.Context, kind string) []string {
	caller := tool.CallerFrom(ctx)
	var names []string
	for _, s := range h.sortedServers() {
		if s.features().has(kind) && caller.Reaches(s.c.Name) {
			names = append(names, s.c.Name)
		}
	}
	return names
}

// askServers asks servers concurrently, and joins their texts in order. A server that is down leaves a note. It returns
// an error only if ctx ends.
func (h *Host) askServers(
	ctx context.Context,
	names []string,
	kind string,
	ask func(context.Context, *connection) tool.Result,
) (tool.Result, error) {
	results := make([]tool.Result, len(names)) // each goroutine writes its own element
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			conn, release, why := h.connectionTo(ctx, name, kind)
			if conn == nil {
				results[i] = tool.Failure(why)
				return
			}
			defer release()
			results[i] = ask(ctx, conn)
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return tool.Result{}, fmt.Errorf("ask MCP servers: %w", context.Cause(ctx))
	}
	if len(results) == 1 {
		return results[0], nil
	}
	var parts []string
	for _, r := range results {
		parts = append(parts, r.Text)
	}
	return tool.Text(truncateResult(strings.Join(parts, "\n\n"))), nil
}

// list lists the items of one server or, without a name, of all servers that the caller may use.
func (h *Host) list(
	ctx context.Context,
	name, kind string,
	lines func(context.Context, *connection) string,
) (tool.Result, error) {
	names := []string{name}
	if name == "" {
		names = h.serversWith(ctx, kind)
	}
	return h.askServers(ctx, names, kind, func(ctx context.Context, c *connection) tool.Result {
		return tool.Text(truncateResult(lines(ctx, c)))
	})
}

func (h *Host) listResources(ctx context.Context, w resourceArgs) (tool.Result, error) {
	return h.list(ctx, w.Server, "resources", func(ctx context.Context, c *connection) string {
		list := "Resources of " + c.s.c.Name + ":\n" + c.listLines(ctx, "resources", "uri")
		if patterns := c.listLines(ctx, "resourceTemplates", "uriTemplate"); patterns != "(none)" {
			list += "\nPatterns:\n" + patterns
		}
		return list
	})
}

func (h *Host) listPrompts(ctx context.Context, w resourceArgs) (tool.Result, error) {
	return h.list(ctx, w.Server, "prompts", func(ctx context.Context, c *connection) string {
		return "Prompts of " + c.s.c.Name + ":\n" + c.listLines(ctx, "prompts", "name")
	})
}

var listers = map[string]func(context.Context, *client.Client, sdk.PaginatedRequest) error{
	"resources": func(ctx context.Context, c *client.Client, page sdk.PaginatedRequest) error {
		_, err := c.ListResourcesByPage(ctx, sdk.ListResourcesRequest{PaginatedRequest: page})
		return err
	},
	"resourceTemplates": func(ctx context.Context, c *client.Client, page sdk.PaginatedRequest) error {
		_, err := c.ListResourceTemplatesByPage(ctx, sdk.ListResourceTemplatesRequest{PaginatedRequest: page})
		return err
	},
	"prompts": func(ctx context.Context, c *client.Client, page sdk.PaginatedRequest) error {
		_, err := c.ListPromptsByPage(ctx, sdk.ListPromptsRequest{PaginatedRequest: page})
		return err
	},
}

// listLines returns the items of a kind, one line each. It reads raw JSON, because the library refuses a whole page for
// one unknown item.
func (c *connection) listLines(ctx context.Context, kind, key string) string {
	var lines []string
	var page sdk.PaginatedRequest
	for range maxPages {
		raw, err := c.request(ctx, kind, c.s.callTimeout(), func(ctx context.Context, _ *sdk.Meta) error {
			return listers[kind](ctx, c.client, page)
		})
		if err != nil {
			if errors.Is(err, sdk.ErrMethodNotFound) { // servers may lack resource templates
				break
			}
			return c.s.failureText(err)
		}
		for _, item := range jsonList(jsonObject(raw)[kind]) {
			if line := itemLine(jsonObject(item), key); line != "" && len(lines) < maxListed {
				lines = append(lines, line)
				// The model fills in patterns, and longer keys are not shown whole.
				if id := jsonString(jsonObject(item)[key]); key != "uriTemplate" && len(id) <= maxListedLine {
					c.s.h.listed.Store([2]string{c.s.c.Name, id}, true)
				}
			}
		}
		next := sdk.Cursor(jsonString(jsonObject(raw)["nextCursor"]))
		if next == "" || next == page.Params.Cursor || len(lines) == maxListed {
			break
		}
		page.Params.Cursor = next
	}
	if len(lines) == 0 {
		return "(none)"
	}
	return strings.Join(lines, "\n")
}

// itemLine describes a resource, a resource template or a prompt in a line. It returns "" without a key.
func itemLine(o map[string]json.RawMessage, key string) string {
	id := text.OneLine(jsonString(o[key]))
	if id == "" {
		return ""
	}
	line := "- " + id
	for _, more := range []string{"name", "title", "mimeType", "description"} {
		if said := text.OneLine(removeHidden(jsonString(o[more]))); said != "" && said != id {
			line += " | " + said
		}
	}
	for _, b := range jsonList(o["arguments"]) {
		blank := jsonObject(b)
		must := ""
		if decodeAs[bool](blank["required"]) {
			must = ", required"
		}
		line += fmt.Sprintf(" | argument %s%s", text.OneLine(jsonString(blank["name"])), must)
	}
	return text.Cut(line, maxListedLine)
}

func (h *Host) readResource(ctx context.Context, w resourceArgs) (tool.Result, error) {
	send := func(ctx context.Context, c *connection, m *sdk.Meta) error {
		request := sdk.ReadResourceRequest{}
		request.Params.URI, request.Params.Meta = w.URI, m
		_, err := c.client.ReadResource(ctx, request)
		return err
	}
	parse := func(o map[string]json.RawMessage, room *int) (parts []string, files []chat.File) {
		for _, item := range jsonList(o["contents"]) {
			parts = append(parts, resourceText(jsonObject(item)))
			// parseFile expects a part of a tool result.
			part := map[string]json.RawMessage{"type": json.RawMessage(`"resource"`), "resource": item}
			if f, ok, _ := parseFile(part, len(files)+1, room); ok {
				files = append(files, f)
			}
		}
		return parts, files
	}
	return h.read(ctx, w.Server, "resources", send, parse)
}

func (h *Host) getPrompt(ctx context.Context, w resourceArgs) (tool.Result, error) {
	send := func(ctx context.Context, c *connection, m *sdk.Meta) error {
		request := sdk.GetPromptRequest{}
		request.Params.Name, request.Params.Arguments, request.Params.Meta = w.Name, w.Arguments, m
		_, err := c.client.GetPrompt(ctx, request)
		return err
	}
	parse := func(o map[string]json.RawMessage, room *int) (parts []string, files []chat.File) {
		for _, raw := range jsonList(o["messages"]) {
			m := jsonObject(raw)
			said, more, _ := parseContents(m["content"], room)
			parts = append(parts, text.OneLine(jsonString(m["role"]))+": "+said)
			files = append(files, more...)
		}
		return parts, files
	}
	return h.read(ctx, w.Server, "prompts", send, parse)
}

func (h *Host) read(
	ctx context.Context,
	name, kind string,
	send func(context.Context, *connection, *sdk.Meta) error,
	parse func(o map[string]json.RawMessage, room *int) ([]string, []chat.File),
) (tool.Result, error) {
	return h.askServers(ctx, []string{name}, kind, func(ctx context.Context, c *connection) tool.Result {
		raw, err := c.request(ctx, kind, c.s.callTimeout(), func(ctx context.Context, m *sdk.Meta) error {
			return send(ctx, c, m)
		})
		if err != nil {
			return tool.Failure(c.s.failureText(err))
		}
		room := maxFileBytes
		parts, files := parse(jsonObject(raw), &room)
		return tool.Result{Text: truncateResult(strings.Join(parts, "\n")), Files: files}
	})
}
