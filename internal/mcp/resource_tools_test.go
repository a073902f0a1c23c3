package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/mark3labs/mcp-go/mcp"
	sdkserver "github.com/mark3labs/mcp-go/server"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
)

// resourceServer is a server with resources and prompts, and no tools.
func resourceServer() *sdkserver.MCPServer {
	s := sdkserver.NewMCPServer("shelves", "1", sdkserver.WithResourceCapabilities(false, true),
		sdkserver.WithPromptCapabilities(true))
	s.AddResource(sdk.NewResource("note://1", "first", sdk.WithMIMEType("text/plain"),
		sdk.WithResourceDescription("a\u202e note")),
		func(context.Context, sdk.ReadResourceRequest) ([]sdk.ResourceContents, error) {
			return []sdk.ResourceContents{sdk.TextResourceContents{URI: "note://1", MIMEType: "text/plain",
				Text: "ravens remember"},
				sdk.BlobResourceContents{URI: "note://1/raven.png", MIMEType: "image/png",
					Blob: base64.StdEncoding.EncodeToString([]byte("raven"))}}, nil
		})
	s.AddResourceTemplate(sdk.NewResourceTemplate("note://{n}", "any note"),
		func(_ context.Context, r sdk.ReadResourceRequest) ([]sdk.ResourceContents, error) {
			return []sdk.ResourceContents{sdk.TextResourceContents{URI: r.Params.URI, Text: "this is " + r.Params.URI}}, nil
		})
	s.AddPrompt(sdk.NewPrompt("greet", sdk.WithPromptDescription("greets"),
		sdk.WithArgument("who", sdk.RequiredArgument())),
		func(_ context.Context, r sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return sdk.NewGetPromptResult("", []sdk.PromptMessage{sdk.NewPromptMessage(sdk.RoleUser,
				sdk.NewTextContent("Greet "+r.Params.Arguments["who"]))}), nil
		})
	return s
}

func fromPack(t *testing.T, h *Host, name, args string) tool.Result {
	t.Helper()
	for _, tl := range h.ResourceTools() {
		if tl.Spec().Name == name {
			return call(t, tl, args)
		}
	}
	t.Fatalf("the pack has no %s", name)
	return tool.Result{}
}

func TestResourcesAndPrompts(t *testing.T) {
	modern := serve(t, sdkserver.NewStreamableHTTPServer(resourceServer())).URL
	older := serve(t, withoutDiscover(sdkserver.NewStreamableHTTPServer(resourceServer()))).URL
	h := running(t, Options{Servers: []Config{{Name: "new", URL: modern}, {Name: "old", URL: older},
		fakeServer("plain", "plain")}})
	if len(h.ResourceTools()) != 0 {
		t.Error("there are tools for what no server is known to offer")
	}
	for _, name := range []string{"new", "old", "plain"} {
		settled(t, h, name)
	}
	for _, tl := range h.ResourceTools() {
		if spec := tl.Spec(); !spec.Native || spec.Server != "mcp" || spec.Hints.Class() != "readOnly" ||
			!json.Valid(spec.Schema) {
			t.Errorf("%+v", spec)
		}
	}
	list := func(name string) string {
		return "Resources of " + name + ":\n- note://1 | first | text/plain | a note\nPatterns:\n- note://{n} | any note"
	}
	wantText(t, fromPack(t, h, "resources_list", `{}`), list("new")+"\n\n"+list("old"))
	wantText(t, fromPack(t, h, "resources_list", `{"server":"old"}`), list("old"))
	wantText(t, fromPack(t, h, "prompts_list", `{"server":"new"}`),
		"Prompts of new:\n- greet | greets | argument who, required")
	for _, name := range []string{"new", "old"} {
		want := tool.Result{Text: "[resource note://1 text/plain]\nravens remember\n[resource note://1/raven.png " +
			"image/png: 5 bytes]",
			Files: []chat.File{{Name: "raven.png", Type: "image/png", Size: 5, Data: []byte("raven")}}}
		if diff := cmp.Diff(want, fromPack(t, h, "resource_read",
			fmt.Sprintf(`{"server":%q,"uri":"note://1"}`, name))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		wantText(t, fromPack(t, h, "resource_read", fmt.Sprintf(`{"server":%q,"uri":"note://7"}`, name)),
			"[resource note://7]\nthis is note://7")
		wantText(t, fromPack(t, h, "prompt_get", fmt.Sprintf(`{"server":%q,"name":"greet","arguments":{"who":"Odin"}}`,
			name)), "user: Greet Odin")
		wantFailure(t, fromPack(t, h, "resource_read", fmt.Sprintf(`{"server":%q,"uri":"other://"}`, name)), "failed")
	}
	// Listed items may be read like the bot's own data; all other calls count as the server's.
	for name, c := range map[string]struct {
		tool, args, as string
		isOwn          bool
	}{
		"a listed resource":             {"resource_read", `{"server":"new","uri":"note://1"}`, "new_resource_read", true},
		"a URI of a pattern":            {"resource_read", `{"server":"new","uri":"note://7"}`, "new_resource_read", false},
		"a pattern itself":              {"resource_read", `{"server":"new","uri":"note://{n}"}`, "new_resource_read", false},
		"of a server that is not there": {"resource_read", `{"server":"none","uri":"note://1"}`, "none_resource_read", false},
		"a listed prompt":               {"prompt_get", `{"server":"new","name":"greet"}`, "new_prompt_get", true},
		"with words in its blanks": {"prompt_get", `{"server":"new","name":"greet","arguments":{"who":"secret"}}`,
			"new_prompt_get", false},
		"a list":       {"prompts_list", `{"server":"new"}`, "new_prompts_list", true},
		"all lists":    {"prompts_list", `{}`, "mcp_prompts_list", true},
		"no arguments": {"prompts_list", `5`, "mcp_prompts_list", true},
	} {
		for _, tl := range h.ResourceTools() {
			if tl.Spec().Name != c.tool {
				continue
			}
			in := tool.Intent{Tool: tool.Named{Name: "mcp_" + c.tool, Tool: tl}, Args: json.RawMessage(c.args)}.Decided()
			if spec := in.Tool.Tool.Spec(); in.Tool.Name != c.as || spec.Native != c.isOwn || spec.Hints.Class() != "readOnly" {
				t.Errorf("%s counts as %s, %+v", name, in.Tool.Name, spec)
			}
		}
	}
	wantFailure(t, fromPack(t, h, "resource_read", `{"server":"plain","uri":"note://1"}`),
		`There is no MCP server "plain" that offers this. Those that do: new, old.`)
	wantFailure(t, fromPack(t, h, "prompt_get", `{"server":5}`), "do not fit the schema")
	if err := h.Stop("old"); err != nil {
		t.Fatal(err)
	}
	wantText(t, fromPack(t, h, "resources_list", `{}`), list("new"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.ResourceTools()[0].Call(ctx, json.RawMessage(`{}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// What a server offers is known after a restart, and it is started when somebody
// asks for it.
func TestAKnownShelfStartsWhenItIsRead(t *testing.T) {
	keep := &memoryStore{}
	entry := Config{Name: "a", URL: serve(t, sdkserver.NewStreamableHTTPServer(resourceServer())).URL}
	first, end := hosted(t, Options{Servers: []Config{entry}, Store: keep})
	settled(t, first, "a")
	end()
	h := running(t, Options{Servers: []Config{entry}, Store: keep})
	if st := settled(t, h, "a"); st.State != Uninitialized {
		t.Errorf("%+v", st)
	}
	if len(h.ResourceTools()) != 4 {
		t.Errorf("the pack has %d tools", len(h.ResourceTools()))
	}
	wantText(t, fromPack(t, h, "resource_read", `{"server":"a","uri":"note://7"}`),
		"[resource note://7]\nthis is note://7")
}

func TestItemLine(t *testing.T) {
	for raw, want := range map[string]string{
		`{"uri":"a:b","name":"a:b","description":"two\nlines\u001b[0m"}`: "- a:b | two lines",
		`{"name":"x"}`: "",
		`[1]`:          "",
	} {
		if got := itemLine(jsonObject(json.RawMessage(raw)), "uri"); got != want {
			t.Errorf("itemLine(%s) = %q, want %q", raw, got, want)
		}
	}
	if got := itemLine(jsonObject(json.RawMessage(`{"uri":"`+strings.Repeat("ü", 1000)+
		`"}`)), "uri"); len(got) > maxListedLine {
		t.Errorf("a line of %d bytes", len(got))
	}
}

// Lists are read page by page up to a limit, and the text for a server without items is (none).
func TestListLines(t *testing.T) {
	var many []string
	for n := range 501 {
		many = append(many, fmt.Sprintf(`{"uri":"n:%d"}`, n))
	}
	for _, tt := range []struct {
		what, page string
		want       int // lines
		pages      int // that were asked for
	}{
		{"none", `{"resources":[]}`, 1, 1},
		{"one", `{"resources":[{"uri":"n:1"},{"name":"without an address"}]}`, 1, 1},
		{"the same page again", `{"resources":[{"uri":"n:1"}],"nextCursor":"c"}`, 2, 2},
		{"too many", `{"resources":[` + strings.Join(many, ",") + `],"nextCursor":"c"}`, 500, 1},
	} {
		m := &memoryServer{capabilities: `{"resources":{}}`, results: map[string]string{"resources/list": tt.page}}
		s, conn := connectTo(t, m, Options{})
		res, err := s.h.listResources(t.Context(), resourceArgs{})
		list, _, patterns := strings.Cut(res.Text, "\nPatterns:")
		if err != nil || patterns || strings.Count(list, "\n") != tt.want || m.count("resources/list") != tt.pages {
			t.Errorf("%s: %d lines of %d pages, %v: %.200s", tt.what, strings.Count(list, "\n"), m.count("resources/list"), err,
				res.Text)
		}
		if none := list == "Resources of a:\n(none)"; none != (tt.what == "none") {
			t.Errorf("%s: %.200s", tt.what, list)
		}
		m.fail(errors.New("closed"))
		if res, err := s.h.listResources(t.Context(), resourceArgs{}); err != nil || !strings.Contains(res.Text,
			"was lost") {
			t.Errorf("%s: from a server that is gone: %+v, %v", tt.what, res, err)
		}
		conn.close()
	}
}

// A server that is forbidden for the caller gets no request, and a cancelled caller does not wait.
func TestConnectionTo_OnlyForThoseWhoMayUseIt(t *testing.T) {
	m := &memoryServer{capabilities: `{"resources":{},"prompts":{}}`}
	s, conn := connectTo(t, m, Options{})
	defer conn.close()
	mayUse := func(servers ...string) context.Context {
		return tool.WithCaller(t.Context(), tool.Caller{Servers: func(name string) bool {
			return slices.Contains(servers, name)
		}})
	}
	for _, tt := range []struct {
		ctx  context.Context
		name string
		want bool
	}{
		{t.Context(), "a", true}, {mayUse("a"), "a", true}, {mayUse("b"), "a", false}, {t.Context(), "b", false},
	} {
		got, release, why := s.h.connectionTo(tt.ctx, tt.name, "prompts")
		if (got == conn) != tt.want || (why == "") != tt.want || (release != nil) != tt.want {
			t.Errorf("%s: %v, %q", tt.name, got != nil, why)
		}
		if wanted := map[bool]int{true: 1, false: 0}[tt.want]; s.leases != wanted {
			t.Errorf("%s: %d leases, want %d", tt.name, s.leases, wanted)
		}
		if release != nil {
			release()
		}
		if s.leases != 0 {
			t.Error("a lease was not released")
		}
	}
	if _, _, why := s.h.connectionTo(mayUse("b"), strings.Repeat("x", 200), "prompts"); why !=
		`There is no MCP server "`+strings.Repeat("x", 100)+`" that offers this. Those that do: .` {
		t.Errorf("somebody who may use none reads %q", why)
	}
	m.fallSilent(true)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(time.Millisecond, cancel)
	if _, err := s.h.readResource(ctx, resourceArgs{Server: "a", URI: "x"}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller: %v", err)
	}
	s.clearConnection()
	const down = `The MCP server "a" is not available (state: no_tools_found). Nothing was run; it is tried again in the background.`
	if res, err := s.h.listPrompts(t.Context(), resourceArgs{}); err != nil || res.Text != down || s.leases != 0 {
		t.Errorf("of a server that is down: %q, %v, with %d leases", res.Text, err, s.leases)
	}
}

// The server names the next page of a list.
func TestListLines_NextPage_IsTheOneThatIsNamed(t *testing.T) {
	m := &memoryServer{capabilities: `{"resources":{},"prompts":{}}`, results: map[string]string{
		"resources/list":           `{"resources":[{"uri":"n:1"}],"nextCursor":"r2"}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"n:{id}"}],"nextCursor":"t2"}`,
		"prompts/list":             `{"prompts":[{"name":"greet"}],"nextCursor":"p2"}`,
	}}
	s, conn := connectTo(t, m, Options{})
	defer conn.close()
	if _, err := s.h.listResources(t.Context(), resourceArgs{}); err != nil {
		t.Error(err)
	}
	if _, err := s.h.listPrompts(t.Context(), resourceArgs{}); err != nil {
		t.Error(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := []string{"resources/list r2", "resources/templates/list t2", "prompts/list p2"}; !slices.Equal(m.cursors, want) {
		t.Errorf("asked for the pages %q, want %q", m.cursors, want)
	}
}
