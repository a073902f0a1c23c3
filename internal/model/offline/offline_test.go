package offline_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/model/offline"
)

var tools = []llm.ToolSpec{{Name: "web_fetch"}, {Name: "feeds_fetch"}, {Name: "files_read"}}

func ask(t *testing.T, messages ...llm.Message) []llm.Part {
	t.Helper()
	var parts []llm.Part
	for c, err := range (offline.Model{}).Generate(t.Context(), llm.Request{Messages: messages, Tools: tools}) {
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, c.Parts...)
	}
	return parts
}

func user(text string) llm.Message {
	return llm.Message{Role: llm.User, Parts: []llm.Part{{Text: "Anna says:"}, {Text: text}}}
}

func TestCalls(t *testing.T) {
	cases := []struct {
		words string
		want  []string
	}{
		{`files_read {"path": "a {b} \"c\""}`, []string{`files_read {"path": "a {b} \"c\""}`}},
		{"files_read {\"path\":\"a\"}\nweb_fetch\n {\"url\":\"https://e.org\"}", []string{`files_read {"path":"a"}`, `web_fetch {"url":"https://e.org"}`}},
		{"please read https://example.org/page?a=1.", []string{`web_fetch {"url":"https://example.org/page?a=1"}`}},
		{"(https://example.org/feed.xml)", []string{`feeds_fetch {"url":"https://example.org/feed.xml"}`}},
		{"the feed at https://example.org/x", []string{`feeds_fetch {"url":"https://example.org/x"}`}},
		{"bundled:feeds-primer", []string{`feeds_fetch {"url":"bundled:feeds-primer"}`}},
		{"nonesuch {}", nil},
		{`files_read {"path": `, nil},
		{"what is the capital of Norway?", nil},
	}
	for _, c := range cases {
		var got []string
		for _, p := range ask(t, user(c.words)) {
			if p.Call != nil {
				got = append(got, p.Call.Name+" "+string(p.Call.Args))
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.words, diff)
		}
	}
}

func TestAPlainQuestionIsAnsweredWithWhatItIs(t *testing.T) {
	text := ask(t, user("what is the capital of Norway?"))[0].Text
	for _, want := range []string{"no language model", "web_fetch", "/digest"} {
		if !strings.Contains(text, want) {
			t.Errorf("the answer lacks %q:\n%s", want, text)
		}
	}
	if (offline.Model{}).CanAnswer(llm.Request{Messages: []llm.Message{user("what is the capital of Norway?")}}) {
		t.Error("it claims to understand a question")
	}
}

func TestAPageIsToldInItsOwnSentences(t *testing.T) {
	page := "# Ravens\n\n" + strings.Repeat("Ravens are large black birds that live in many parts of the northern world. "+
		"A storm passed over the coast last night and nobody was hurt by it at all. "+
		"The raven is known to solve problems that other birds of its size do not solve. ", 5)
	parts := ask(t, user("https://example.org/ravens"),
		llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "1", Name: "web_fetch"}}}},
		llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "1", Name: "web_fetch", Content: page}}}})
	lines := strings.Split(parts[0].Text, "\n\n")
	if len(lines) != 3 || lines[0] != "# Ravens" {
		t.Fatalf("the answer is %q, want title, sentences, note", parts[0].Text)
	}
	for _, s := range strings.SplitAfter(lines[1], ". ") {
		if !strings.Contains(page, strings.TrimSpace(s)) {
			t.Errorf("%q is not in the page", s)
		}
	}
}

func TestAFailureIsToldPlainly(t *testing.T) {
	parts := ask(t, user("files_read {}"),
		llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "1", Name: "files_read"}}}},
		llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "1", Name: "files_read",
			Content: "no such file", IsError: true}}}})
	if parts[0].Text != "`files_read` failed: no such file" {
		t.Errorf("told %q", parts[0].Text)
	}
}

func TestAFeedThatIsAskedForAgainAndAgain_NamesTheCommand(t *testing.T) {
	for words, want := range map[string]bool{
		"every weekday at 9 post what is new on bundled:mcp-primer here": true,
		"bundled:mcp-primer": false, "what is new on https://example.org/every/daily.xml": false,
	} {
		parts := ask(t, user(words),
			llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Call: &llm.Call{ID: "1", Name: "feeds_fetch"}}}},
			llm.Message{Role: llm.ToolRole, Parts: []llm.Part{{Result: &llm.Result{ID: "1", Name: "feeds_fetch", Content: "News"}}}})
		if got := strings.HasSuffix(parts[0].Text, "write `/digest create weekdays at 9 bundled:mcp-primer`."); got != want {
			t.Errorf("%s: %q", words, parts[0].Text)
		}
	}
}
