package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// office is a way in which people use the bot every day: what its model calls for each of their messages, step by step.
type office struct {
	servers map[string]map[string]any // entries of mcpServers, with the tools in "tools"
	config  func(w *world, settings map[string]any)
	reading []chore
	// risky are messages whose calls write, send, or go to an address that nobody named.
	risky []chore
	// presses are how often an administrator presses a button for the reading, the widest that there is.
	presses int
}

// chore is a message and the calls that the model makes for it.
type chore struct {
	calls [][]simmodel.Call
	other bool // it is said in another channel
}

// does is a chore of some calls that are made one after the other.
func does(calls ...simmodel.Call) chore {
	c := chore{}
	for _, one := range calls {
		c.calls = append(c.calls, []simmodel.Call{one})
	}
	return c
}

// call is a call of a tool; the tools of the test's servers have the one argument question.
func toolCall(name, question string) simmodel.Call {
	return simmodel.Call{Name: name, Args: must(json.Marshal(map[string]string{"question": question}))}
}

func argsCall(name, args string) simmodel.Call {
	return simmodel.Call{Name: name, Args: json.RawMessage(args)}
}

// Declarations of tools, as servers make them.
const (
	silent = `{"name":"%s"}`
	reader = `{"name":"%s","annotations":{"readOnlyHint":true}}`
	writer = `{"name":"%s","annotations":{"readOnlyHint":false,"destructiveHint":false}}`
)

func toolNamed(form string, names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(form, name))
	}
	return strings.Join(list, ",")
}

// offices are everyday set-ups. Behind the presses of each is how many it took as long as every result of a server made the
// next call ask: 5, 5, 4, 5, 3, 3, 2, 2, 0 and 3, in the order in which they stand here.
func offices() map[string]office {
	const page = "/story"
	read := func(name string) []chore {
		return []chore{
			does(toolCall(name, "one")),
			{calls: [][]simmodel.Call{{toolCall(name, "two"), toolCall(name, "three")}}},
			does(toolCall(name, "four"), toolCall(name, "five")),
		}
	}
	trusted := map[string]any{"tools": toolNamed(reader, "look") + "," + toolNamed(writer, "put"), "trust": true}
	pasted := map[string]any{"tools": toolNamed(silent, "greet")}
	put := []chore{does(toolCall("kit_put", "all of it")), does(toolCall("kit_look", "what of secret.evil.test?"))}
	return map[string]office{
		"one pasted server": {
			servers: map[string]map[string]any{"kit": pasted}, reading: read("kit_greet"), presses: 1,
			risky: []chore{does(toolCall("kit_greet", "ask eve@evil.test"))},
		},
		"a pasted server that says what it does": {
			servers: map[string]map[string]any{"kit": {"tools": trusted["tools"]}}, reading: read("kit_look"), presses: 1,
			risky: put,
		},
		"a trusted server": {
			servers: map[string]map[string]any{"kit": trusted}, reading: read("kit_look"), risky: put,
		},
		"both": {
			servers: map[string]map[string]any{"kit": trusted, "more": pasted}, reading: read("kit_look"),
			risky: append(put, does(toolCall("more_greet", "you"))),
		},
		"an issue tracker": {
			servers: map[string]map[string]any{"kit": {"trust": true,
				"tools": toolNamed(reader, "list", "get") + "," + toolNamed(writer, "put")}},
			reading: []chore{
				does(toolCall("kit_list", "repo:golang/go is:open")),
				{calls: [][]simmodel.Call{{toolCall("kit_get", "1"), toolCall("kit_get", "2"), toolCall("kit_get", "3")}}},
			},
			risky: []chore{does(toolCall("kit_put", "a comment"))},
		},
		"a calendar": {
			servers: map[string]map[string]any{"kit": {"trust": true, "reads": []string{"list*"},
				"tools": toolNamed(silent, "list_events", "put")}},
			reading: []chore{
				does(toolCall("kit_list_events", "2026-11-30T09:00:00Z")),
				{calls: [][]simmodel.Call{{toolCall("kit_list_events", "primary"), toolCall("kit_list_events", "team")}}},
			},
			risky: []chore{does(toolCall("kit_put", "a meeting"))},
		},
		"a database that is read": {
			servers: map[string]map[string]any{"kit": {"trust": true, "reads": []string{"query"}, "egress": "none",
				"tools": toolNamed(silent, "query", "put")}},
			reading: []chore{
				does(toolCall("kit_query", "SELECT u.id FROM users u")),
				does(toolCall("kit_query", "SELECT o.id, u.name FROM orders o JOIN users u ON u.id = o.of")),
			},
			risky: []chore{does(toolCall("kit_put", "DROP TABLE users"))},
		},
		"a search of the web": {
			config: func(w *world, settings map[string]any) {
				found := w.feeds.Serve(page, html("<p>Ravens build nests.</p>"), "text/html")
				w.feeds.Serve("/search", must(json.Marshal(map[string]any{"results": []any{
					map[string]string{"title": "Nests", "url": found, "content": "of ravens"}}})), "application/json")
				settings["tools"].(map[string]any)["search"] = map[string]any{"provider": "searxng", "baseURL": w.feeds.URL()}
			},
			reading: []chore{
				does(argsCall("web_search", `{"query":"ravens"}`), argsCall("web_fetch", `{"url":"FEEDS/story"}`)),
				does(argsCall("web_search", `{"query":"where do ravens build?"}`)),
				does(argsCall("web_search", `{"query":"how do ravens build?"}`)),
			},
			risky: []chore{
				does(argsCall("web_fetch", `{"url":"FEEDS/story?q=secret"}`)),
				does(argsCall("web_search", `{"query":"secret.evil.test"}`)),
				does(argsCall("memory_save", `{"text":"obey","about":"channel"}`)),
			},
			presses: 1,
		},
		"files": {
			config: func(w *world, settings map[string]any) {
				dir := w.path("docs")
				if err := os.MkdirAll(dir, 0o700); err != nil {
					w.t.Fatal(err)
				}
				for _, name := range []string{"a.md", "b.md"} {
					if err := os.WriteFile(filepath.Join(dir, name), []byte("ravens"), 0o600); err != nil {
						w.t.Fatal(err)
					}
				}
				settings["tools"].(map[string]any)["files"] = map[string]any{"roots": []any{
					map[string]any{"path": "docs", "write": true}}}
			},
			reading: []chore{
				does(argsCall("files_list", `{"path":"docs"}`)),
				{calls: [][]simmodel.Call{{argsCall("files_read", `{"path":"docs/a.md"}`), argsCall("files_read", `{"path":"docs/b.md"}`)}}},
			},
			risky: []chore{does(argsCall("files_write", `{"path":"docs/c.md","text":"crows"}`))},
		},
		"two agents": {
			servers: map[string]map[string]any{"kit": trusted, "more": trusted},
			config: func(w *world, settings map[string]any) {
				settings["agents"] = map[string]any{
					"default": map[string]any{"systemPrompt": "One.", "mcpServers": []string{"kit"}},
					"other":   map[string]any{"systemPrompt": "Two.", "mcpServers": []string{"more"}},
				}
				settings["channels"] = []any{map[string]any{"match": "slack:*/" + w.slack.AddChannel("other").ID, "agent": "other"}}
			},
			reading: []chore{
				does(toolCall("kit_look", "one"), toolCall("kit_look", "two")),
				{other: true, calls: [][]simmodel.Call{{toolCall("more_look", "one")}, {toolCall("more_look", "two"), toolCall("more_look", "three")}}},
			},
			risky: put,
		},
	}
}

// desk is a running office.
type desk struct {
	*world
	bot     *bot
	t       *testing.T
	boss    simslack.User
	other   string // channel
	threads map[string]string
	pressed map[string]bool // questions, which may still be shown when the next chore begins
	chores  []chore
}

// play makes the calls of the chore that was asked for, and then says that it is done.
func (d *desk) play(r simmodel.Request) simmodel.Reply {
	var at, done int
	for _, m := range r.Messages {
		if found := choreName.FindStringSubmatch(m.Text); m.Role == simmodel.RoleUser && found != nil {
			at, done = must(strconv.Atoi(found[1])), 0
		}
		if len(m.Results) > 0 {
			done++
		}
	}
	if calls := d.chores[at].calls; done < len(calls) {
		var list []simmodel.Call
		for n, c := range calls[done] {
			c.ID = fmt.Sprintf("call-%d-%d-%d", at, done, n)
			c.Args = json.RawMessage(strings.ReplaceAll(string(c.Args), "FEEDS", d.feeds.URL()))
			list = append(list, c)
		}
		return simmodel.Reply{Calls: list}
	}
	return simmodel.Say(fmt.Sprintf("done with chore %d.", at))
}

var choreName = regexp.MustCompile(`chore (\d+)`)

// open starts an office.
func (o office) open(t *testing.T) *desk {
	w := newWorld(t)
	d := &desk{world: w, t: t, boss: w.slack.AddAdmin("boss"), threads: map[string]string{}, pressed: map[string]bool{}}
	settings := w.base()
	settings["tools"] = map[string]any{"mode": "safe"}
	settings["egress"] = map[string]any{"allowPrivateHosts": []string{"127.0.0.1"}}
	entries := map[string]any{}
	for name, keys := range o.servers {
		entry := map[string]any{"command": os.Args[0], "eager": true, "env": map[string]string{
			"RAVENBOT_TOOL_SERVER": w.tools, "RAVENBOT_TOOL_LIST": keys["tools"].(string), "GORACE": "atexit_sleep_ms=0"}}
		for key, value := range keys {
			if key != "tools" {
				entry[key] = value
			}
		}
		entries[name] = entry
	}
	settings["mcpServers"] = entries
	if o.config != nil {
		o.config(w, settings)
	}
	if rules, ok := settings["channels"].([]any); ok {
		_, d.other, _ = strings.Cut(rules[0].(map[string]any)["match"].(string), "/")
	}
	d.chores = append(append(d.chores, o.reading...), o.risky...)
	w.model.SetScript(d.play)
	b := w.run(settings)
	d.bot = b
	for name := range o.servers {
		within(t, "the tool server is connected", func() bool {
			var v struct{ State string }
			b.call(http.MethodGet, "/api/v1/mcp/servers/"+name, nil, &v)
			return v.State == "connected"
		})
	}
	return d
}

// do has a chore done in the thread of its channel, and returns how often a button was pressed.
func (d *desk) do(n int) (presses int) {
	d.t.Helper()
	channel := d.channel.ID
	if d.chores[n].other {
		channel = d.other
	}
	text := fmt.Sprintf("chore %d, please", n)
	if thread := d.threads[channel]; thread == "" {
		d.threads[channel] = d.slack.Mention(channel, d.boss, text).TS
	} else {
		d.slack.ThreadReply(channel, thread, d.boss, text)
	}
	within(d.t, fmt.Sprintf("chore %d is done", n), func() bool {
		isDone := false
		for _, p := range d.slack.Posts(channel) {
			isDone = isDone || strings.Contains(p.Shown(), fmt.Sprintf("done with chore %d.", n))
			if id := widest(p); id != "" && !d.pressed[p.TS] {
				d.pressed[p.TS] = true
				d.slack.Click(channel, p.TS, d.boss, id)
				presses++
			}
		}
		return isDone
	})
	return presses
}

// widest returns the action of the button of a question that reaches farthest; empty: the post asks nothing.
func widest(p simslack.Post) string {
	if !strings.Contains(p.Shown(), "May I run") {
		return ""
	}
	labels := map[string]string{}
	for _, m := range button.FindAllStringSubmatch(string(p.Blocks), -1) {
		labels[m[1]] = m[2]
	}
	for _, label := range []string{"Reading tools here", "Always here", "In this conversation", "Approve"} {
		if id := labels[label]; id != "" {
			return id
		}
	}
	return ""
}

var button = regexp.MustCompile(`"text":"([^"]+)","emoji":true\},"action_id":"([^"]+)"`)

// In everyday set-ups reading asks once at most, and what writes, sends, or goes to an address that nobody named is
// never done unasked.
func TestPresses_InEverydaySetUps(t *testing.T) {
	for name, o := range offices() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := o.open(t)
			presses := 0
			for n := range o.reading {
				presses += d.do(n)
			}
			if presses != o.presses || presses > 1 {
				t.Errorf("reading took %d presses, want %d", presses, o.presses)
			}
			for n := range o.risky {
				if d.do(len(o.reading)+n) == 0 {
					t.Errorf("%+v was done unasked", o.risky[n].calls)
				}
			}
		})
	}
}

// A job may use the reading tool that it was given, asks nobody, and writes nothing.
func TestPresses_InAJob(t *testing.T) {
	t.Parallel()
	o := offices()["a trusted server"]
	o.reading = []chore{does(toolCall("kit_look", "one"), toolCall("kit_look", "two"), toolCall("kit_put", "three"))}
	d := o.open(t)
	digest := map[string]any{"name": "morning", "schedule": "0 3 1 1 *", "prompt": "chore 0", "tools": []string{"kit_look"},
		"post": []string{"slack:" + simslack.TeamID + "/" + d.channel.ID}}
	if status := d.bot.call(http.MethodPost, "/api/v1/digests", digest, nil); status != http.StatusCreated {
		t.Fatalf("adding the job gave status %d", status)
	}
	if status := d.bot.call(http.MethodPost, "/api/v1/digests/morning/run", nil, nil); status != http.StatusOK {
		t.Fatalf("the job ended with status %d", status)
	}
	if looks, puts := ran(d.tools, "look"), ran(d.tools, "put"); len(looks) != 2 || len(puts) != 0 {
		t.Errorf("looked %v, put %v", looks, puts)
	}
	if n := d.slackPosts("May I run"); n != 0 {
		t.Errorf("somebody was asked %d times", n)
	}
}
