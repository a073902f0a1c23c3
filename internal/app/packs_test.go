package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/recall/toolsearch"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
)

// obey calls the tool that a message names, with the arguments behind it.
func obey(r simmodel.Request) simmodel.Reply {
	asked := r.Asked()
	if n := strings.LastIndexByte(asked, '\n'); n >= 0 {
		asked = asked[n+1:]
	}
	name, args, _ := strings.Cut(asked, " ")
	if len(r.Last().Results) > 0 || !json.Valid([]byte(args)) {
		return simmodel.Echo(r)
	}
	if !r.Declares(name) {
		return simmodel.Say("there is no " + name)
	}
	return simmodel.CallTool(name, args)(r)
}

func TestFilesAndBillsAreThereWhenConfigured(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(obey)
	tariff := must(filepath.Abs("../../deploy/tariffs/tnb-domestic-a.json"))
	for _, name := range []string{"docs", "notes"} {
		if err := os.Mkdir(filepath.Join(w.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.dir, name, "a.txt"), []byte("Ravens cache food.\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings := w.base()
	b := w.run(settings)
	for _, name := range []string{"files_read", "tnb_bill_kwh_to_rm"} {
		if text := answerIn(t, b.ask("general", name+" {}")); text != "there is no "+name {
			t.Errorf("unconfigured: %s", text)
		}
	}
	b.stop()
	settings["tools"] = map[string]any{"files": map[string]any{"roots": []any{"docs",
		map[string]any{"path": "notes", "write": true},
		map[string]any{"path": ".", "name": "all", "write": true}}}, "billing": map[string]any{"file": tariff}}
	settings["agents"] = map[string]any{"default": map[string]any{"systemPrompt": "You are a test.",
		"tools": []string{"files.*", "billing.*"}}}
	b = w.run(settings)
	for _, c := range []struct{ call, want string }{
		{`files_search {"pattern":"cache"}`, "docs/a.txt:1: Ravens cache food."},
		{`files_edit {"path":"notes/a.txt","old":"food","new":"acorns"}`, "Edited: notes/a.txt at line 1."},
		{`files_read {"path":"notes/a.txt"}`, "Ravens cache acorns."},
		{`files_write {"path":"docs/a.txt","text":"x"}`, "docs may only be read"},
		{`files_read {"path":"all/config.json"}`, "own files"},
		{`files_write {"path":"all/.env","text":"x"}`, "own files"},
		{`tnb_bill_kwh_to_rm {"kwh":350}`, "350.00 kWh are billed RM 102.80."},
		{`tnb_bill_rm_to_kwh {"rm":102.8}`, "RM 102.80 is the bill for 350.00 kWh."},
		{`calculate_solar_impact {"monthlyKWh":600,"systemKWp":4,"sunHoursPerDay":3.5,"directShare":0.3}`, "The bill is RM 231.80 before and RM 166.78 after, a saving of RM 65.02 a month."},
	} {
		if text := answerIn(t, b.ask("general", c.call)); !strings.Contains(text, c.want) {
			t.Errorf("%s gave\n%s\nwant %q", c.call, text, c.want)
		}
	}
}

// A model that says nothing of what it has stored is spoken for, also where it found
// the tool by search, and where the answer fails.
func TestNothingIsStoredSilently(t *testing.T) {
	for _, discovery := range []string{"never", "always"} {
		t.Run(discovery, func(t *testing.T) {
			w := newWorld(t)
			w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
				args := `{"text":"the door code is ` + r.Asked() + `","about":"channel"}`
				switch {
				case len(r.Last().Results) > 0 && strings.HasSuffix(r.Asked(), "4"):
					return simmodel.Reply{Status: 400, Message: "no"}
				case len(r.Last().Results) > 0:
					return simmodel.Say("What lovely weather.")
				case r.Declares("execute_tool"):
					return simmodel.Reply{Calls: []simmodel.Call{{Name: "execute_tool",
						Args: []byte(`{"name":"memory_save","arguments":` + args + `}`)}}}
				}
				return simmodel.Reply{Calls: []simmodel.Call{{Name: "memory_save", Args: []byte(args)}}}
			})
			settings := w.base()
			settings["tools"] = map[string]any{"discovery": map[string]any{"mode": discovery}}
			b := w.run(settings)
			for code, want := range map[string]string{"3": "What lovely weather.", "4": "reference"} {
				_, answer, _ := strings.Cut(b.ask("room-"+code, code), "event: answer\ndata: ")
				var said struct{ Text, Footer string }
				if err := json.NewDecoder(strings.NewReader(answer)).Decode(&said); err != nil ||
					!strings.Contains(said.Text, want) || !strings.Contains(said.Footer,
					"about this channel: “the door code is "+code+"”") {
					t.Errorf("%s: %v, the answer is %+v", code, err, said)
				}
			}
		})
	}
}

func TestAMemoryOutlivesItsConversationAndStaysWithItsUser(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(obey)
	settings := w.base()
	b := w.run(settings)
	bjarne := w.discord.AddUser("bjarne")
	say := func(who simdiscord.User, text, want string) string {
		t.Helper()
		asked := w.discord.Say(w.news.ID, who, w.discord.Mention()+" "+text)
		got, err := w.discord.WaitPost(deadline(t), w.news.ID, func(p simdiscord.Post) bool {
			return p.ReplyTo == asked.ID && strings.Contains(p.Content, want)
		})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return got.Content
	}
	say(w.anna, `memory_save {"text":"the cat is called Mons","about":"me"}`, "Stored as number 1 about you")
	say(w.anna, `memory_save {"text":"the office has a dog","about":"channel"}`, "about this channel")
	b.stop()
	w.run(settings)
	say(w.anna, `memory_search {"query":"cat"}`, "Mons")
	if text := say(bjarne, `memory_search {"query":"dog cat"}`, "office has a dog"); strings.Contains(text, "Mons") {
		t.Errorf("another user is told %q", text)
	}
	command := func(who simdiscord.User, text, want string) {
		t.Helper()
		if err := w.discord.WaitCommand(deadline(t), "raven"); err != nil {
			t.Fatal(err)
		}
		call, err := w.discord.Slash(w.news.ID, who, "raven", "memory", map[string]any{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := w.discord.WaitAnswer(deadline(t), call.ID, inDiscord(want)); err != nil {
			t.Errorf("/raven memory %s: %+v, %v", text, got, err)
		}
	}
	command(bjarne, "list", "Nothing.")
	command(bjarne, "channel delete all", "Only administrators")
	command(w.anna, "list", "the cat is called Mons")
	command(w.anna, "delete all", "Removed: all 1")
	say(w.anna, `memory_search {"query":"Mons"}`, "Nothing that fits") // "cat" would find the dog, a related word
}

// The names by which rules are checked are those of the tools that there are when every pack is switched on.
func TestNativeNames_AreThoseOfAllPacks(t *testing.T) {
	w := newWorld(t)
	settings := w.base()
	for name, text := range map[string]string{"docs/a.txt": "ravens", "skills/x/SKILL.md": "---\nname: x\ndescription: does x\n---\nDo it.\n"} {
		path := w.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	settings["tools"] = map[string]any{
		"files":   map[string]any{"roots": []any{map[string]any{"path": "docs", "write": true}}},
		"billing": map[string]any{"file": must(filepath.Abs("../../deploy/tariffs/tnb-domestic-a.json"))},
		"search":  map[string]any{"provider": "searxng", "baseURL": w.feeds.URL()},
	}
	settings["agents"] = map[string]any{"default": map[string]any{"knowledge": []string{"docs"}, "skills": []string{"skills/*"}}}
	b := w.run(settings)
	var list struct {
		Items []struct{ Name, Server string }
	}
	b.call(http.MethodGet, "/api/v1/tools", nil, &list)
	want := toolsearch.MetaToolNames() // what finds tools, and what reads of servers, is declared where it is needed
	want = append(want, "mcp_prompt_get", "mcp_prompts_list", "mcp_resource_read", "mcp_resources_list", "mcp", "discovery")
	for _, v := range list.Items {
		want = append(want, v.Name, v.Server, v.Server+"."+strings.TrimPrefix(v.Name, v.Server+"_"))
	}
	known := tool.NativeNames()
	for _, name := range want {
		if !slices.Contains(known, name) {
			t.Errorf("%s is not known", name)
		}
	}
	for _, name := range known {
		if !strings.HasPrefix(name, "mcp.") && !strings.HasPrefix(name, "discovery.") && !slices.Contains(want, name) {
			t.Errorf("there is no %s", name)
		}
	}
}
