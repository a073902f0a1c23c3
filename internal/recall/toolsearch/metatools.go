package toolsearch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/meaning"
)

// The names of the five meta-tools.
const (
	discover = "discover_tools"
	schema   = "get_tool_schema"
	execute  = "execute_tool"
	domains  = "list_tool_domains"
	browse   = "browse_tool_domain"
)

// MetaToolNames returns the names of the tools that find and call others.
func MetaToolNames() []string { return []string{discover, schema, execute, domains, browse} }

const prompt = `You have many more tools than are listed. discover_tools finds them: search once for each sub-task, ` +
	`in a few words that name the action and its object. get_tool_schema shows the arguments of all that you need in ` +
	`one call; then execute_tool runs them. list_tool_domains and browse_tool_domain show what there is, when a search ` +
	`found nothing or the user asks what you can do. Never guess the name of a tool. If two searches in different ` +
	`words find nothing, say that there is no tool for it.`

// Limits of what the meta-tools show at once.
const (
	defaultHits    = 8
	maxHits        = 20
	maxFused       = 50
	maxSchemas     = 10
	pageSize       = 30
	maxDomains     = 200
	maxUseChars    = 140 // characters of the line about a tool
	maxDomainChars = 200 // characters of the line about a domain
)

// Finder makes the meta-tools over an index. It is safe for concurrent use.
type Finder struct {
	index   *Index
	about   func(server string) string
	meaning *meaning.Index               // nil if tools are found by their words only
	all     atomic.Pointer[[]tool.Named] // as Sync was called last
}

// NewFinder returns a Finder over an index, which Sync fills. about returns how a server or pack describes itself, or
// nothing.
func NewFinder(x *Index, about func(server string) string) *Finder {
	return &Finder{index: x, about: about}
}

// toolGroup is the group of all tools in the index by meaning.
const toolGroup = "tools/all"

// WithMeaning makes discover_tools also search by meaning, and returns the Finder.
func (f *Finder) WithMeaning(m *meaning.Index) *Finder {
	f.meaning = m
	m.Own("tools", f.texts)
	return f
}

// texts returns what all tools are compared by, which is known from the first turn on.
func (f *Finder) texts(context.Context, string) (list []string, err error) {
	all := f.all.Load()
	if all == nil {
		return nil, meaning.ErrUnknown
	}
	for _, n := range *all {
		list = append(list, f.textOf(n))
	}
	return list, nil
}

// textOf returns what a tool is compared by.
func (f *Finder) textOf(n tool.Named) string {
	spec := n.Tool.Spec()
	return fmt.Sprintf("%s: %s\n%s", n.Name, spec.Description, f.about(spec.Server))
}

// Sync makes the index hold these tools and no others. Servers that have not changed cost a comparison, so it may be
// called at every turn.
func (f *Finder) Sync(all []tool.Named) {
	var servers []Server
	at := map[string]int{}
	for _, n := range all {
		spec := n.Tool.Spec()
		i, ok := at[spec.Server]
		if !ok {
			i = len(servers)
			at[spec.Server] = i
			servers = append(servers, Server{Name: spec.Server, Text: f.about(spec.Server)})
		}
		servers[i].Tools = append(servers[i].Tools, Doc{Name: n.Name, Description: spec.Description, Parameters: spec.Schema})
	}
	f.index.Sync(servers)
	f.all.Store(&all)
	f.meaning.Add(context.Background(), toolGroup)
}

// Prompt returns the text that explains the meta-tools to a model, unless another one is configured.
func (f *Finder) Prompt() string { return prompt }

// Tools returns the five meta-tools for one turn, or for one client. They find and show only the tools that usable
// returns, which is called at each call and may be called concurrently. execute_tool runs nothing itself: whoever runs
// calls takes the inner call with Unwrap and treats it like any other, policy and approval included.
func (f *Finder) Tools(usable func() []tool.Named) []tool.Named {
	t := metaTools{f, usable}
	return []tool.Named{
		newMetaTool(browse, "List the tools of a domain, in pages.", `{"type":"object","properties":{`+
			`"domain":{"type":"string"},`+
			`"cursor":{"type":"string","description":"as the page before named it"}},"required":["domain"]}`, t.browse),
		newMetaTool(discover, "Find tools by what they do. Search once for each sub-task.", `{"type":"object","properties":{`+
			`"query":{"type":"string","description":"such as: create calendar event"},`+
			`"limit":{"type":"integer","minimum":1,"maximum":20}},"required":["query"]}`, t.discover),
		newMetaTool(execute, "Run a tool that was found, with arguments as get_tool_schema says.",
			`{"type":"object","properties":{`+
				`"name":{"type":"string"},`+
				`"arguments":{"type":"object"}},"required":["name"]}`, refuseExecution),
		newMetaTool(schema, "Show what tools do and which arguments they take.", `{"type":"object","properties":{`+
			`"names":{"type":"array","items":{"type":"string"},"maxItems":10}}}`, t.showSchemas),
		newMetaTool(domains, "List the domains of tools and what they are for.",
			`{"type":"object","properties":{}}`, t.listDomains),
	}
}

// newMetaTool returns a meta-tool. All but execute_tool only read.
func newMetaTool(name, does, schema string, do func(context.Context, json.RawMessage) (tool.Result, error)) tool.Named {
	looks := true
	spec := tool.Spec{Server: "discovery", Name: name, Description: does, Schema: json.RawMessage(schema), Native: true}
	if name != execute {
		spec.Hints = tool.Hints{ReadOnly: &looks}
	}
	return tool.Named{Name: name, Tool: tool.Func{Described: spec, Do: do}}
}

// refuseExecution answers a call of execute_tool from a caller that does not use Unwrap.
func refuseExecution(_ context.Context, args json.RawMessage) (tool.Result, error) {
	name, _, err := unwrap(args)
	if err != nil {
		return tool.Failure(err.Error()), nil
	}
	return tool.Failure(fmt.Sprintf("%s was not run: tools cannot be run in this way here.", name)), nil
}

// Unwrap returns the call that is meant: for execute_tool the inner tool and its arguments, {} where there are none;
// any other call as it is. The error, for a call of execute_tool with wrong arguments, is in words for the model.
func (f *Finder) Unwrap(name string, args json.RawMessage) (string, json.RawMessage, error) {
	if name != execute {
		return name, args, nil
	}
	return unwrap(args)
}

// unwrap returns the tool and the arguments that a call of execute_tool names. Its error is for the model, and says
// what to write instead.
func unwrap(args json.RawMessage) (string, json.RawMessage, error) {
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(args, &call); err != nil || call.Name == "" {
		return "", nil, errors.New(`execute_tool wants {"name": the tool's name, "arguments": {…}}. ` +
			"Nothing was run; correct it and call again")
	}
	if call.Name == execute {
		return "", nil, errors.New("execute_tool cannot run itself. Name the tool that is to be run")
	}
	// Some models send the arguments as a string that contains JSON.
	inner := call.Arguments
	var quoted string
	if json.Unmarshal(inner, &quoted) == nil {
		inner = json.RawMessage(strings.TrimSpace(quoted))
	}
	if len(inner) == 0 || string(inner) == "null" {
		inner = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(inner, &object); err != nil {
		return "", nil, fmt.Errorf("the arguments for %s are no JSON object. "+
			"Nothing was run; correct them and call again", call.Name)
	}
	return call.Name, inner, nil
}

// metaTools is the functions behind the five tools.
type metaTools struct {
	*Finder
	usable func() []tool.Named
}

// usableByName returns the usable tools by name.
func (t metaTools) usableByName() map[string]tool.Named {
	m := map[string]tool.Named{}
	for _, n := range t.usable() {
		m[n.Name] = n
	}
	return m
}

// discover answers discover_tools: the tools that fit a query, by its words and by its meaning.
func (t metaTools) discover(ctx context.Context, args json.RawMessage) (tool.Result, error) {
	q := struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}{Limit: defaultHits}
	if err := json.Unmarshal(args, &q); err != nil || strings.TrimSpace(q.Query) == "" {
		return tool.Failure(`discover_tools wants {"query": what a tool should do, in a few words}.`), nil
	}
	table, k := t.usableByName(), max(1, min(q.Limit, maxHits))
	// More hits than are shown are fused: a tool in the middle of both rankings may be the best of all.
	var names []string
	for _, h := range t.search(q.Query, maxFused, table) {
		names = append(names, h.Name)
	}
	var docs []meaning.Doc[string]
	for _, n := range t.usable() {
		docs = append(docs, meaning.Doc[string]{Key: n.Name, Group: toolGroup, Text: t.textOf(n)})
	}
	names = meaning.Fuse(t.meaning.Query(ctx, q.Query), names, docs, meaning.Near)
	if len(names) == 0 {
		return tool.Text("No tool fits these words. Try others, or look through list_tool_domains."), nil
	}
	var b strings.Builder
	for _, name := range names[:min(len(names), k)] {
		writeSummary(&b, table[name])
	}
	b.WriteString("\nThe best fit is first. get_tool_schema tells their arguments, execute_tool runs them.")
	return tool.Text(b.String()), nil
}

// search returns the k best hits among the tools in a table.
func (t metaTools) search(query string, k int, table map[string]tool.Named) []Hit {
	return t.index.Search(query, k, func(name string) bool { _, ok := table[name]; return ok })
}

// writeSummary writes the name of a tool, the first sentence of its description and its required arguments.
func writeSummary(b *strings.Builder, n tool.Named) {
	spec := n.Tool.Spec()
	fmt.Fprintf(b, "- %s: %s", n.Name, cmp.Or(firstSentence(spec.Description, maxUseChars), "(says nothing of itself)"))
	var schema struct {
		Required []string `json:"required"`
	}
	if json.Unmarshal(spec.Schema, &schema) == nil && len(schema.Required) > 0 {
		fmt.Fprintf(b, " [needs %s]", firstSentence(strings.Join(schema.Required, ", "), maxUseChars))
	}
	b.WriteByte('\n')
}

// firstSentence returns the first sentence or line of a description, shortened to maxChars characters.
func firstSentence(description string, maxChars int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(description), "\n")
	line = text.OneLine(line)
	if sentence, _, more := strings.Cut(line, ". "); more {
		line = sentence + "."
	}
	return text.Shorten(line, maxChars)
}

// showSchemas answers get_tool_schema. It is an error only where none of the tools is known: the model can go on with
// the others.
func (t metaTools) showSchemas(_ context.Context, args json.RawMessage) (tool.Result, error) {
	var q struct {
		Name  string   `json:"name"`
		Names []string `json:"names"`
	}
	err := json.Unmarshal(args, &q)
	names := q.Names
	if q.Name != "" {
		names = append([]string{q.Name}, names...)
	}
	switch {
	case err != nil || len(names) == 0:
		return tool.Failure(`get_tool_schema wants {"names": [names of tools]}.`), nil
	case len(names) > maxSchemas:
		return tool.Failure(fmt.Sprintf("get_tool_schema shows %d tools at once at most; %d were asked for.",
			maxSchemas, len(names))), nil
	}
	table := t.usableByName()
	var b strings.Builder
	missing := 0
	for _, name := range names {
		n, ok := table[name]
		if !ok {
			missing++
			b.WriteString(t.describeUnknown(name, table))
			continue
		}
		spec := n.Tool.Spec()
		fmt.Fprintf(&b, "## %s\n\n%s\n\nArguments:\n%s\n\n",
			name, strings.TrimSpace(spec.Description), cmp.Or(string(spec.Schema), "{}"))
	}
	return tool.Result{Text: strings.TrimSpace(b.String()), IsError: missing == len(names)}, nil
}

// describeUnknown says that there is no such tool, and names similar ones: models sometimes invent names.
func (t metaTools) describeUnknown(name string, table map[string]tool.Named) string {
	var like []string
	for _, h := range t.search(name, 3, table) {
		like = append(like, h.Name)
	}
	if len(like) == 0 {
		return fmt.Sprintf("There is no tool %q; discover_tools finds those there are.\n\n", name)
	}
	return fmt.Sprintf("There is no tool %q. Did you mean %s?\n\n", name, strings.Join(like, ", "))
}

// listDomains answers list_tool_domains: the servers of the tools that may be used, and how many tools each has.
func (t metaTools) listDomains(context.Context, json.RawMessage) (tool.Result, error) {
	count := map[string]int{}
	for _, n := range t.usable() {
		count[n.Tool.Spec().Server]++
	}
	list := slices.Sorted(maps.Keys(count))
	if len(list) == 0 {
		return tool.Text("There are no tools now."), nil
	}
	var b strings.Builder
	for _, server := range list[:min(len(list), maxDomains)] {
		fmt.Fprintf(&b, "- %s (%d tools)", server, count[server])
		if about := firstSentence(t.about(server), maxDomainChars); about != "" {
			b.WriteString(": " + about)
		}
		b.WriteByte('\n')
	}
	if more := len(list) - maxDomains; more > 0 {
		fmt.Fprintf(&b, "\n%d more domains are not shown; discover_tools searches them, too.", more)
	}
	return tool.Text(strings.TrimSpace(b.String())), nil
}

// browse answers browse_tool_domain with a page of tools by name. The cursor is the last name of the page before, so
// that a tool which comes or goes meanwhile shifts no page.
func (t metaTools) browse(_ context.Context, args json.RawMessage) (tool.Result, error) {
	var q struct{ Domain, Cursor string }
	if err := json.Unmarshal(args, &q); err != nil || q.Domain == "" {
		return tool.Failure(`browse_tool_domain wants {"domain": a name from list_tool_domains}.`), nil
	}
	var page []tool.Named
	there := false
	for _, n := range t.usable() {
		if n.Tool.Spec().Server == q.Domain {
			there = true
			if n.Name > q.Cursor {
				page = append(page, n)
			}
		}
	}
	if !there {
		return tool.Failure(fmt.Sprintf("There is no domain %q; list_tool_domains shows those there are.", q.Domain)), nil
	}
	if len(page) == 0 {
		return tool.Text("There are no more tools in this domain."), nil
	}
	slices.SortFunc(page, func(a, b tool.Named) int { return cmp.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, n := range page[:min(len(page), pageSize)] {
		writeSummary(&b, n)
	}
	if more := len(page) - pageSize; more > 0 {
		fmt.Fprintf(&b, "\n%d more follow; the cursor for them is %s", more, page[pageSize-1].Name)
	}
	return tool.Text(strings.TrimSpace(b.String())), nil
}
