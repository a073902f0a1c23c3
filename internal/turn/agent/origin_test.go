package agent_test

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/prompt"
)

// texts are all texts of which requests are made.
type texts struct {
	Question     chat.Message
	About        chat.Context
	Known        agent.Knowledge
	Skills       []prompt.Skill
	Instructions string
	Notes        string // that Berit, U2, had stored after a page was read
	Summary      string // of a conversation in which a file was read
	Turn         string // by Berit, in which a page was read
	Described    string // of a tool
	Added        string // of a tool that nobody has approved
	Result       string // of a tool of a server
	Found        string // by a tool of the bot, of the words of Berit
}

// origins says whose words each text is, by its path or the beginning of it: of nobody but the asker and those whom the
// asker need not distrust (""), of Berit, or foreign text with its source. A text that is in a request and not in this
// table has no origin: give it one.
var origins = map[string]string{
	"Question.Text":        "",
	"Question.Author.Name": "",
	"Question.Files":       "an attached file",
	"About.Place.Server":   "", // administrators chose it, and the names of channels
	"About.Place.Channel":  "",
	"About.Place.Topic":    "U2",
	"About.Place.Thread":   "U2",
	"About.Names":          "U2",
	"About.Reply":          "U2",
	"About.Linked":         "U2",
	"About.Root":           "U2",
	"About.Recent":         "U2",
	"About.Reply.Files":    "an attached file",
	"About.Linked.Files":   "the name of a file",
	"About.Root.Files":     "the name of a file",
	"About.Recent.Files":   "the name of a file",
	"About.Notes":          "", // the adapter wrote them
	"Known":                "files that the agent knows",
	"Skills":               "",
	"Instructions":         "",
	"Notes":                "a page",
	"Summary":              "a file",
	"Turn":                 "a page",
	"Described":            "",
	"Added":                "the description of added, which nobody has approved",
	"Result":               "the result of sheet",
	"Found":                "U2",
}

// fixed are the fields that are no texts, with the values that they need.
var fixed = map[string]string{"ID": "", "ByID": "U2", "TopicBy": "U2", "ThreadBy": "U2", "Subject": "", "Zone": "", "Type": "", "Revision": "", "Handle": "",
	"Reach": "", "Command": "", "ReplyTo": "", "Change": "", "Reason": "", "Platform": "", "Workspace": "", "Thread": "*"}

// visit calls leaf with the path of each text in a value of a type, and how to set it alone.
func visit(typ reflect.Type, path string, set func(root reflect.Value) reflect.Value, leaf func(path string, set func(root reflect.Value) reflect.Value)) {
	switch typ.Kind() {
	case reflect.String:
		leaf(path, set)
	case reflect.Pointer:
		visit(typ.Elem(), path, func(root reflect.Value) reflect.Value {
			v := set(root)
			v.Set(reflect.New(typ.Elem()))
			return v.Elem()
		}, leaf)
	case reflect.Slice:
		if typ.Elem().Kind() != reflect.Uint8 {
			visit(typ.Elem(), path, func(root reflect.Value) reflect.Value {
				v := set(root)
				v.Set(reflect.MakeSlice(typ, 1, 1))
				return v.Index(0)
			}, leaf)
		}
	case reflect.Map:
		leaf(path, set)
	case reflect.Struct:
		if typ == reflect.TypeFor[origin.Origin]() || typ == reflect.TypeFor[chat.Address]() {
			return
		}
		for n := range typ.NumField() {
			f := typ.Field(n)
			if value, is := fixed[f.Name]; !f.IsExported() || is && value != "*" {
				continue
			}
			visit(f.Type, strings.TrimPrefix(path+"."+f.Name, "."), func(root reflect.Value) reflect.Value {
				v := set(root)
				for name, value := range fixed {
					if is := v.FieldByName(name); is.IsValid() && is.Kind() == reflect.String && value != "*" && value != "" {
						is.SetString(value)
					}
				}
				return v.Field(n)
			}, leaf)
		}
	}
}

// Each way in which a text enters a request has an origin, by which calls are judged.
func TestOrigin_EveryTextOfARequestHasOne(t *testing.T) {
	reached := 0
	visit(reflect.TypeFor[texts](), "", func(root reflect.Value) reflect.Value { return root },
		func(path string, set func(reflect.Value) reflect.Value) {
			var all texts
			const mark = "MARK"
			if v := set(reflect.ValueOf(&all).Elem()); v.Kind() == reflect.Map {
				v.Set(reflect.ValueOf(map[string]string{"U2": mark}))
			} else {
				v.SetString(mark)
			}
			isRead, caller := all.ask(t, mark)
			if !isRead {
				return
			}
			reached++
			at, known := path, false
			var want string
			for ; !known && at != ""; at = at[:max(0, strings.LastIndex(at, "."))] {
				want, known = origins[at]
			}
			var ok bool
			switch {
			case want == "":
				ok = len(caller.Taint)+len(caller.Authors) == 0
			case want == "U2":
				ok = len(caller.Taint) == 0 && slices.Equal(caller.Authors, []string{"web/U2"})
			default:
				ok = slices.Contains(caller.Taint, want)
			}
			if !known || !ok {
				t.Errorf("%s is read by the model: calls are judged by %q and %q, want %q (known: %v)",
					path, caller.Taint, caller.Authors, want, known)
			}
		})
	if reached < len(origins) {
		t.Errorf("%d texts reached the model: the table has %d", reached, len(origins))
	}
}

// ask asks with the texts. It returns whether the mark reached the model, and by whose words a call is judged then.
func (all texts) ask(t *testing.T, mark string) (isRead bool, caller tool.Caller) {
	t.Helper()
	describe := func(server string, native bool, words, result string) tool.Func {
		f := reads(server, native, result)
		f.Described.Description = words
		return f
	}
	box := tools{"probe": describe("memory", true, "", ""), "sheet": describe("office", false, all.Described, all.Result)}
	found := describe("memory", true, "", all.Found)
	found.Do = func(context.Context, json.RawMessage) (tool.Result, error) {
		return tool.Result{Text: all.Found, Origin: origin.User("web", "U2")}, nil
	}
	box["found"] = found
	if all.Added != "" {
		added := describe("office", false, all.Added, "")
		added.Described.Unapproved = true
		box["added"] = added
	}
	b := engine(box, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		whole := wholeText(r)
		for _, res := range lastResults(r) {
			whole += res.Content
		}
		isRead = isRead || strings.Contains(whole, mark)
		switch {
		case n == 1 && all.Result != "":
			return llmtest.Calls("sheet", `{}`), nil
		case n == 1 && all.Found != "":
			return llmtest.Calls("found", `{}`), nil
		case caller.Call == "":
			return llmtest.Calls("probe", `{}`), nil
		}
		return llmtest.Says("done"), nil
	}})
	b.options.Calls = b.calls(func(c tool.Caller, n tool.Named) (tool.Decision, string) {
		if n.Name == "probe" {
			caller = c
		}
		return tool.Allow, ""
	})
	b.options.Places = &places{about: func(context.Context, chat.Message) chat.Context { return all.About }}
	if all.Notes != "" {
		b.options.Notes = noted(all.Notes)
	}
	inProfile(b, func(p *agent.Profile) {
		p.System, p.Skills, p.ContextMessages = all.Instructions, all.Skills, 20
		p.Recall = func(context.Context, string, []string) agent.Knowledge { return all.Known }
	})
	if all.Summary != "" {
		b.memory.sums[room] = conversation.Summary{Text: all.Summary, Origin: origin.Foreign("a file")}
	}
	if all.Turn != "" {
		b.memory.turns[room] = []conversation.Turn{{ID: "web/0", Seq: 1, State: conversation.Answered, User: "web/U2",
			Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{{Text: all.Turn}}},
				{Role: llm.Assistant, Parts: []llm.Part{{Text: "yes"}}}}, Origin: origin.Foreign("a page")}}
	}
	m := asks("1", all.Question.Text+" @U2")
	m.Author.Name, m.Files = all.Question.Author.Name, all.Question.Files
	b.answer(t, t.Context(), one(m))
	return isRead, caller
}

// noted are notes that Berit had stored after a page was read.
type noted string

func (n noted) Recall(context.Context, chat.Message, string) (string, origin.Origin) {
	return string(n), origin.User("web", "U2").With(origin.Foreign("a page"))
}

// Parts of each source have an origin, also those that were stored before parts had one.
func TestOrigin_EverySourceOfPartsIsKnown(t *testing.T) {
	want := map[llm.Source]string{
		llm.SourceWords: "", llm.SourceSpeaker: "", llm.SourceContext: "", llm.SourceNote: "",
		llm.SourceForeign:   "a message of a bot, or of somebody who may not use me",
		llm.SourceFile:      "an attached file",
		llm.SourceKnowledge: "files that the agent knows",
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../core/llm/llm.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Type != nil {
			if typ, ok := spec.Type.(*ast.Ident); ok && typ.Name == "Source" {
				value := llm.Source(strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`))
				if _, known := want[value]; !known {
					t.Errorf("%s is no source of this test: say what its parts hold", spec.Names[0].Name)
				}
			}
		}
		return true
	})
	for source, taint := range want {
		var caller tool.Caller
		b := engine(tools{"probe": reads("memory", true, "")}, callThen("done", "probe", `{}`))
		b.options.Calls = b.calls(func(c tool.Caller, _ tool.Named) (tool.Decision, string) {
			caller = c
			return tool.Allow, ""
		})
		b.Engine = b.over()
		b.memory.turns[room] = []conversation.Turn{{ID: "web/1", Seq: 1, State: conversation.Open, Messages: []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Text: "hello"}, {Text: "more", Source: source}}}}}}
		b.answer(t, t.Context(), one(asks("1", "hello")))
		if got := strings.Join(caller.Taint, ", "); got != taint {
			t.Errorf("a stored part of source %q: calls are judged by %q, want %q", source, got, taint)
		}
	}
}
