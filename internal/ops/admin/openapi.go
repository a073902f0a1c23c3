package admin

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
)

// operation describes a method of a path. Answers are described as far as clients may rely on them; they may have
// more fields.
type operation struct {
	summary string
	body    string // JSON Schema of the request's body; empty: there is none
	kind    string // of the body; empty: JSON
	status  int    // when it worked; 0: 200
	answer  string // JSON Schema, or a name of answers; empty: an object
}

// Schemas that several operations share.
const (
	serverBody = `{"type":"object","description":"as an entry of mcpServers in config.json",` +
		`"properties":{"name":{"type":"string"},"command":{"type":"string"},` +
		`"args":{"type":"array","items":{"type":"string"}},"env":{"type":"object"},"url":{"type":"string"},` +
		`"headers":{"type":"object"},"disabled":{"type":"boolean"},` +
		`"eager":{"type":"boolean"},"timeout":{"type":"string"},"includeTools":{"type":"array","items":{"type":"string"}},` +
		`"excludeTools":{"type":"array","items":{"type":"string"}}}}`
	agentBody = `{"type":"object","description":"as an entry of agents in config.json",` +
		`"properties":{"name":{"type":"string"},"model":{"type":"string"},"systemPrompt":{"type":"string"},` +
		`"mcpServers":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},` +
		`"enabled":{"type":"boolean"}}}},"fallbackServers":{"type":"array","items":{"type":"string"}},` +
		`"tools":{"type":"array","items":{"type":"string"}}}}`
	serverAnswer = `{"type":"object","required":["name","state","error","tools","source"],` +
		`"properties":{"name":{"type":"string"},"state":{"type":"string","enum":["uninitialized","connecting",` +
		`"connected","no_tools_found","quarantined","error","stopped","disabled"]},"error":{"type":"string"},` +
		`"tools":{"type":"array","items":{"type":"object"}},"source":{"type":"string","enum":["config","api"]}}}`
	layerBody = `{"type":"object","properties":{"model":{"type":"string"},"language":{"type":"string"},` +
		`"timezone":{"type":"string"},"tools":{"type":"object","properties":{"enabled":{"type":"boolean"},` +
		`"maxSteps":{"type":"integer"},"systemPrompt":{"type":"string"}}}}}`
	settingsBody = `{"type":"object","properties":{"instance":` + layerBody +
		`,"channels":{"type":"object","additionalProperties":` + layerBody +
		`},"users":{"type":"object","additionalProperties":` + layerBody + `}}}`
	jobBody = `{"type":"object","required":["post"],"properties":{"at":{"type":"string","description":"RFC 3339, or ` +
		`words such as tomorrow at noon"},"schedule":{"type":"string"},"timezone":{"type":"string"},` +
		`"post":{"type":"array","items":{"type":"string"}},"text":{"type":"string"},"prompt":{"type":"string"},` +
		`"agent":{"type":"string"},"tools":{"type":"array","items":{"type":"string"}},` +
		`"watch":{"type":"object","description":"what to look at instead","properties":{"url":{"type":"string"},` +
		`"feed":{"type":"string"},"tool":{"type":"string"},"arguments":{"type":"object"},"for":{"type":"string"}}}}}`
	fileBody   = `{"type":"object","properties":{"file":{"type":"string","format":"binary"}},"required":["file"]}`
	listAnswer = `{"type":"object","required":["items","next"],"properties":{"items":{"type":"array",` +
		`"items":{"type":"object"}},"next":{"type":"string"}}}`
	totalsAnswer = `{"type":"object","required":["items","next"],"properties":{"items":{"type":"array","items":` +
		`{"type":"object","required":["day","kind","name","count","failed","seconds","results"],"properties":{` +
		`"day":{"type":"string","format":"date","description":"in UTC"},"kind":{"type":"string"},` +
		`"name":{"type":"string","description":"an agent, an MCP server or pack of native tools, a digest, or the address ` +
		`of a feed"},"count":{"type":"integer"},"failed":{"type":"integer","description":"of count"},` +
		`"seconds":{"type":"number","description":"of all together; 0 for feeds"},"results":{"type":"integer",` +
		`"description":"tokens of answers; stories posted by a digest"}}}},"next":{"type":"string"}}}`
	errorAnswer = `{"type":"object","required":["error"],"properties":{"error":{"type":"object","required":["code",` +
		`"message","hint"],"properties":{"code":{"type":"string"},"message":{"type":"string"},"hint":{"type":"string"},` +
		`"commandHint":{"type":"string","description":"the hint for people who typed a command"}}}}}`
)

// operations describes the paths under /api/v1. One that is missing here appears with its path alone.
var operations = map[string]operation{
	"GET /status":                            {summary: "How the bot is: platforms, load, store"},
	"POST /backup":                           {summary: "A copy of the store, as a file", answer: "file"},
	"GET /export":                            {summary: "All records as JSON lines; ?conversation: one channel or thread. The header Ravenbot-Missing lists records that cannot be decrypted and are left out", answer: "lines"},
	"POST /import":                           {summary: "Add records that are not there; ?line is the number of the first line", body: `{"type":"string"}`, kind: "application/x-ndjson"},
	"GET /mcp/servers":                       {summary: "The MCP servers", answer: listAnswer},
	"POST /mcp/servers":                      {summary: "Add an MCP server", body: serverBody, status: 201, answer: serverAnswer},
	"GET /mcp/servers/{name}":                {summary: "One MCP server", answer: serverAnswer},
	"PUT /mcp/servers/{name}":                {summary: "Change an MCP server that was added here", body: serverBody, answer: serverAnswer},
	"DELETE /mcp/servers/{name}":             {summary: "Remove an MCP server that was added here", status: 204},
	"POST /mcp/servers/{name}/start":         {summary: "Start it", answer: serverAnswer},
	"POST /mcp/servers/{name}/stop":          {summary: "Stop it", answer: serverAnswer},
	"POST /mcp/servers/{name}/restart":       {summary: "Restart it", answer: serverAnswer},
	"POST /mcp/servers/{name}/approve":       {summary: "Approve its present tools; with If-Match only those with the ETag of /pending", answer: serverAnswer},
	"POST /mcp/servers/{name}/call":          {summary: "Call one of its tools", body: `{"type":"object","properties":{"tool":{"type":"string"},"arguments":{"type":"object"}},"required":["tool"]}`},
	"GET /mcp/servers/{name}/pending":        {summary: "What waits for an approval, with the differences", answer: listAnswer},
	"GET /mcp/servers/{name}/tools":          {summary: "All its tools", answer: listAnswer},
	"GET /mcp/servers/{name}/logs":           {summary: "Its output, and its starts and ends", answer: listAnswer},
	"GET /tools":                             {summary: "The tools there are", answer: listAnswer},
	"GET /tools/{name}/why":                  {summary: "What decides whether somebody may use a tool somewhere"},
	"GET /agents":                            {summary: "The agents", answer: listAnswer},
	"POST /agents":                           {summary: "Add an agent", body: agentBody, status: 201},
	"GET /agents/{name}":                     {summary: "One agent"},
	"PUT /agents/{name}":                     {summary: "Replace an agent that was added here, with all its links", body: agentBody},
	"DELETE /agents/{name}":                  {summary: "Remove an agent that was added here", status: 204},
	"GET /agents/{name}/files":               {summary: "The files that it knows", answer: listAnswer},
	"POST /agents/{name}/files":              {summary: "Give it a file", body: fileBody, kind: "multipart/form-data", status: 201},
	"GET /agents/{name}/files/{file}":        {summary: "The file itself", answer: "file"},
	"DELETE /agents/{name}/files/{file}":     {summary: "Remove the file", status: 204},
	"GET /agents/{name}/knowledge":           {summary: "The passages of its files that fit ?q, best first; ?limit", answer: listAnswer},
	"GET /conversations":                     {summary: "The conversations, by address", answer: listAnswer},
	"GET /conversations/{address}":           {summary: "The newest turns, lines and imported messages of a conversation, ?limit (200) of each; ?cursor, what next was: the imported messages before, alone. The address is percent-encoded"},
	"PATCH /conversations/{address}":         {summary: "Give a web room a title, or archive it", body: `{"type":"object","properties":{"title":{"type":"string"},"archived":{"type":"boolean"}}}`, status: 204},
	"DELETE /conversations/{address}":        {summary: "Forget a conversation", status: 204},
	"POST /conversations/{address}/messages": {summary: "Say something in a web room; the answer streams", body: `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`, answer: "events"},
	"GET /conversations/{address}/search":    {summary: "The messages there that match ?q, best first; a channel includes its threads", answer: listAnswer},
	"GET /memories":                          {summary: "The notes of ?scope (user:PLATFORM/ID or channel:ADDRESS), newest first; with ?q the matching ones, best first", answer: listAnswer},
	"POST /memories":                         {summary: "Add a note", body: `{"type":"object","properties":{"scope":{"type":"string"},"text":{"type":"string"}},"required":["scope","text"]}`, status: 201},
	"DELETE /memories/{scope}/{n}":           {summary: "Remove a note", status: 204},
	"GET /settings":                          {summary: "The layers of settings", answer: settingsBody},
	"PUT /settings":                          {summary: "Replace the layers that are sent", body: settingsBody, answer: settingsBody},
	"GET /usage":                             {summary: "Use of models by day, channel and user", answer: listAnswer},
	"GET /totals":                            {summary: "Counts of each of the last 90 days, by kind and name; ?kind: toolCalls, digestRuns or feedReads", answer: totalsAnswer},
	"GET /tool-usage":                        {summary: "The calls of tools, newest first; ?server, ?tool, ?channel, ?user, ?turn", answer: listAnswer},
	"GET /tool-usage/results/{id}":           {summary: "The whole of a large result"},
	"GET /auth/mcp-tokens":                   {summary: "The tokens of other MCP hosts", answer: listAnswer},
	"POST /auth/mcp-tokens":                  {summary: "Make a token, which is shown once", body: `{"type":"object","properties":{"name":{"type":"string"},"overwrite":{"type":"boolean"},"tools":{"type":"array","items":{"type":"string"}}},"required":["name"]}`, status: 201},
	"GET /auth/mcp-tokens/{name}":            {summary: "One token, without itself"},
	"DELETE /auth/mcp-tokens/{name}":         {summary: "Revoke a token", status: 204},
	"POST /auth/login-links":                 {summary: "Create the path of a link that logs a browser in once, within 15 minutes", status: 201},
	"POST /auth/logout-all":                  {summary: "End the caller's sessions and tokens"},
	"GET /grants":                            {summary: "The tools that were approved for more than one call", answer: listAnswer},
	"DELETE /grants/{id}":                    {summary: "Have a tool ask again", status: 204},
	"GET /approvals":                         {summary: "The calls that wait for an approval; ?all=true: also those decided", answer: listAnswer},
	"GET /approvals/{id}":                    {summary: "One of them"},
	"POST /approvals/{id}":                   {summary: "Decide", body: `{"type":"object","properties":{"decision":{"type":"string","enum":["approve","deny"]},"scope":{"type":"string","enum":["once","conversation","always"]}},"required":["decision"]}`},
	"GET /digests":                           {summary: "The digests", answer: listAnswer},
	"POST /digests/{name}/preview":           {summary: "The post that a run would make now, with reasons; posts nothing"},
	"POST /digests/{name}/run":               {summary: "Run it now"},
	"GET /jobs":                              {summary: "Reminders and other jobs, the next one first", answer: listAnswer},
	"POST /jobs":                             {summary: "Add a job: a text, or a task for an agent, once or on a schedule", body: jobBody, status: 201},
	"DELETE /jobs/{id}":                      {summary: "Remove a job", status: 204},
	"GET /audit":                             {summary: "The changes and who made them, newest first", answer: listAnswer},
	"POST /audit/export":                     {summary: "All of them as JSON lines, oldest first; the export is the last one"},
	"GET /audit/verify":                      {summary: "Check the chain of hashes; ?head=SEQ:HASH has to be in it"},
	"POST /digests/{name}/share":             {summary: "Make it readable at a private address, and return that", status: 201},
	"DELETE /digests/{name}/share":           {summary: "Revoke the private address", status: 204},
	"GET /openapi.json":                      {summary: "This description"},

	"DELETE /digests/{name}/unsubscribed/{mailbox}": {summary: "Send it again to a mailbox that has unsubscribed", status: 204},
}

var pathParameter = text.Pattern(`\{(\w+)\}`)

// describeAPI returns the OpenAPI description of routes.
func describeAPI(routes map[string]methods) []byte {
	paths := map[string]map[string]any{}
	for path, m := range routes {
		here := map[string]any{}
		for method := range m {
			here[strings.ToLower(method)] = describeOperation(method, path)
		}
		paths["/api/v1"+path] = here
	}
	raw, err := json.Marshal(map[string]any{
		"openapi":  "3.1.0",
		"info":     map[string]any{"title": "ravenbot", "version": "v1"},
		"security": []any{map[string]any{"token": []string{}}},
		"paths":    paths,
		"components": map[string]any{
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer",
				"description": "http.adminToken, or the token in the file next to the store"}},
			"schemas": map[string]any{"Error": json.RawMessage(errorAnswer)},
		},
	})
	if err != nil {
		panic("describe the API: " + err.Error()) // only when a schema above is not valid JSON
	}
	return raw
}

// describeOperation returns the description of a method of a path.
func describeOperation(method, path string) map[string]any {
	known := operations[method+" "+path]
	status := known.status
	if status == 0 {
		status = http.StatusOK
	}
	done := map[string]any{"description": "It worked."}
	switch known.answer {
	case "file":
		done["content"] = mediaType("application/octet-stream", `{"type":"string","format":"binary"}`)
	case "lines":
		done["content"] = mediaType("application/x-ndjson", `{"type":"string"}`)
	case "events":
		done["content"] = mediaType("text/event-stream", `{"type":"string"}`)
	default:
		if status != http.StatusNoContent {
			done["content"] = mediaType("application/json", orObject(known.answer))
		}
	}
	o := map[string]any{
		"operationId": strings.ToLower(method) +
			strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_", ".", "_").Replace(path),
		"summary": known.summary,
		"responses": map[string]any{strconv.Itoa(status): done,
			"default": map[string]any{"description": "The fault and its remedy.",
				"content": mediaType("application/json", `{"$ref":"#/components/schemas/Error"}`)}},
	}
	if known.body != "" {
		kind := known.kind
		if kind == "" {
			kind = "application/json"
		}
		o["requestBody"] = map[string]any{"required": true, "content": mediaType(kind, known.body)}
	}
	var parameters []any
	for _, p := range pathParameter().FindAllStringSubmatch(path, -1) {
		parameters = append(parameters, map[string]any{"name": p[1], "in": "path", "required": true,
			"schema": map[string]string{"type": "string"}})
	}
	if known.answer == listAnswer && method == http.MethodGet {
		parameters = append(parameters, listParameters()...)
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	return o
}

// listParameters describes how a page of a list is asked for. A search of tools or files returns the best and no further
// pages.
func listParameters() []any {
	return []any{
		map[string]any{
			"name":        "limit",
			"in":          "query",
			"description": "How many items; searches of tools and files return 10 without it.",
			"schema":      map[string]any{"type": "integer", "minimum": 1, "maximum": maxPageSize, "default": pageSize},
		},
		map[string]any{
			"name":        "cursor",
			"in":          "query",
			"description": "What the page before gave as next, which is empty on the last page.",
			"schema":      map[string]any{"type": "string"},
		},
	}
}

// orObject returns schema, or that of any object when it is empty.
func orObject(schema string) string {
	if schema == "" {
		return `{"type":"object"}`
	}
	return schema
}

// mediaType returns the description of a body.
func mediaType(kind, schema string) map[string]any {
	return map[string]any{kind: map[string]any{"schema": json.RawMessage(schema)}}
}
