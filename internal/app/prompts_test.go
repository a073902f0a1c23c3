package app_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// promptInstructions is the system prompt of the agent in every situation.
const promptInstructions = "You are ravenbot, a helpful member of this chat."

// situation is something that happens in a chat, and what the model must be sent then.
type situation struct {
	title string
	// says describes it in one sentence of docs/prompts.md.
	says string
	// readable: Discord shows the bot what others say.
	readable bool
	// varies: how much the summary covers depends on when it is ready, so the document leaves it out.
	varies bool
	late   bool // the bot reads messages 20 minutes after they were said
	// discovery: tools are found instead of declared.
	discovery bool
	setUp     func(w *world, settings map[string]any)
	play      func(s *stage)
	has       []string
	lacks     []string
}

// stage is a situation that is played.
type stage struct {
	*world
	bot      *bot
	answered int // answers so far
}

// promptRequest is a request to Gemini, as far as docs/prompts.md shows it.
type promptRequest struct {
	System struct{ Parts []promptPart } `json:"systemInstruction"`
	Tools  []struct {
		Functions []struct{ Name string } `json:"functionDeclarations"`
	} `json:"tools"`
	Contents []struct {
		Role  string
		Parts []promptPart
	} `json:"contents"`

	raw map[string]json.RawMessage
}

type promptPart struct {
	Text   string
	Inline *struct{ MimeType string } `json:"inlineData"`
	Call   *struct {
		Name string
		Args json.RawMessage
	} `json:"functionCall"`
	Response *struct{ Response struct{ Output string } } `json:"functionResponse"`
}

// next waits until the bot has answered once more, on Discord or Slack.
func (s *stage) next() {
	s.t.Helper()
	s.answered++
	answer := answerNumber(s.answered)
	ctx, stop := context.WithCancel(deadline(s.t))
	defer stop()
	found := make(chan error, 2)
	go func() {
		_, err := s.discord.WaitAnyPost(ctx, inDiscord(answer))
		found <- err
	}()
	go func() {
		_, err := s.slack.WaitAnyPost(ctx, func(p simslack.Post) bool { return inSlack(answer)(p) && !p.Streaming })
		found <- err
	}()
	if err := <-found; err != nil {
		s.t.Fatal(err)
	}
}

func answerNumber(n int) string { return fmt.Sprintf("Answer %d.", n) }

// mention lets somebody mention the bot in the channel of Discord, and waits for the answer.
func (s *stage) mention(by simdiscord.User, text string, opts ...simdiscord.SayOption) {
	s.discord.Say(s.news.ID, by, s.discord.Mention()+" "+text, opts...)
	s.next()
}

// request plays the situation and returns the last request that the model was sent in it.
func (c situation) request(t *testing.T) (promptRequest, *world) {
	t.Helper()
	var options simdiscord.Options
	if c.readable {
		options.Privileged = simdiscord.IntentMessageContent
	}
	w := newWorldWith(t, simslack.Options{}, options)
	w.now = func() time.Time { return time.Now().UTC() }
	if c.late {
		w.now = func() time.Time { return time.Now().UTC().Add(20 * time.Minute) }
	}
	w.anna = w.discord.AddPerson(simdiscord.User{Name: "anna.h", Global: "Anna"})
	w.slack.SetProfile(w.berit.ID, "Berit", "Europe/Oslo")
	n := 0
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if !strings.HasPrefix(r.System, promptInstructions) {
			return simmodel.Say("Anna asked about tea and sugar.")
		}
		n++
		return simmodel.Say(answerNumber(n))
	})
	settings := w.base()
	settings["agents"] = map[string]any{"default": map[string]any{"systemPrompt": promptInstructions}}
	if c.readable { // somewhere everything is answered, so that the bot asks for the intent
		settings["channels"] = []any{map[string]any{"match": "discord:1/2", "agent": "default", "respondTo": "all"}}
	}
	if c.setUp != nil {
		c.setUp(w, settings)
	}
	c.play(&stage{world: w, bot: w.run(settings)})
	asked := w.model.Asked()
	for i := len(asked) - 1; i >= 0; i-- {
		if !strings.HasPrefix(asked[i].System, promptInstructions) {
			continue
		}
		var r promptRequest
		if err := json.Unmarshal(asked[i].Raw, &r); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(asked[i].Raw, &r.raw); err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	t.Fatal("the model was asked nothing")
	return promptRequest{}, nil
}

func (r promptRequest) system() string { return joinParts(r.System.Parts) }

func (r promptRequest) messages() string {
	var b strings.Builder
	for _, m := range r.Contents {
		fmt.Fprintf(&b, "── %s ──\n%s\n", m.Role, strings.TrimRight(joinParts(m.Parts), "\n"))
	}
	return strings.TrimRight(b.String(), "\n")
}

func (r promptRequest) toolNames() string {
	var names []string
	for _, t := range r.Tools {
		for _, f := range t.Functions {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", ")
}

// tokens is the size of a part of the request as it was sent, in tokens of four bytes.
func (r promptRequest) tokens(sections ...string) int {
	n := 0
	for _, s := range sections {
		n += len(r.raw[s])
	}
	return n / 4
}

func joinParts(parts []promptPart) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
		switch {
		case p.Inline != nil:
			b.WriteString("[" + p.Inline.MimeType + "]\n")
		case p.Call != nil:
			fmt.Fprintf(&b, "calls %s %s\n", p.Call.Name, p.Call.Args)
		case p.Response != nil:
			b.WriteString("returned: " + p.Response.Response.Output + "\n")
		}
	}
	return b.String()
}

// volatileText is what differs from run to run, and what docs/prompts.md has instead.
var volatileText = []struct {
	is  *regexp.Regexp
	fix string
}{
	{regexp.MustCompile(`\w+day, \d{1,2} [A-Z]\w+ \d{4}, \d\d:\d\d`), "Sunday, 22 November 2026, 09:00"},
	{regexp.MustCompile(`\d{1,2} [A-Z]\w+ \d{4}, \d\d:\d\d`), "22 November 2026, 09:00"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "2026-11-22"},
	{regexp.MustCompile(`END-[0-9a-f]{8}`), "END-12345678"},
	{regexp.MustCompile(`/p\d{16}`), "/p1795330800000100"},
	{regexp.MustCompile(`\d{10}\.\d{6}`), "1795330800.000100"},
	{regexp.MustCompile(`\d{17,20}`), "1500000000000000001"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "feeds.example"},
}

func withFixedValues(s string) string {
	for _, v := range volatileText {
		s = v.is.ReplaceAllString(s, v.fix)
	}
	return s
}

// TestPrompts_Situations plays what happens in chats and looks at what the model is sent.
// docs/prompts.md is made of it.
func TestPrompts_Situations(t *testing.T) {
	requests := make([]promptRequest, len(situations))
	t.Run("each", func(t *testing.T) {
		for i, c := range situations {
			t.Run(c.title, func(t *testing.T) {
				t.Parallel()
				r, w := c.request(t)
				requests[i] = r
				all := withFixedValues(r.system() + "\n" + r.messages() + "\n" + r.toolNames())
				for _, want := range c.has {
					if !strings.Contains(all, want) {
						t.Errorf("%q is missing in:\n%s", want, all)
					}
				}
				for _, text := range c.lacks {
					if strings.Contains(all, text) {
						t.Errorf("%q stands in:\n%s", text, all)
					}
				}
				if rejected := w.model.Rejected(); len(rejected) > 0 {
					t.Errorf("the model rejected %+v", rejected)
				}
			})
		}
	})
	if t.Failed() || t.Skipped() {
		return
	}
	// A quarter of a small model's window is too much for a greeting.
	const maxFirstTokens = 1600
	if n := requests[0].tokens("systemInstruction", "tools", "contents"); n > maxFirstTokens {
		t.Errorf("%q takes %d tokens with the native tools, want at most %d", situations[0].title, n, maxFirstTokens)
	}
	// Where tools are found, the system prompt and the declared tools are at most 1.5 % of what the
	// listing of nine published servers takes (275 KiB; TestNinePublishedServersTakeLittleOfThePrompt).
	const maxDiscoveryBytes = (275 << 10) * 15 / 1000
	for i, c := range situations {
		sent := len(requests[i].raw["systemInstruction"]) + len(requests[i].raw["tools"]) - len(promptInstructions)
		if c.discovery && sent > maxDiscoveryBytes {
			t.Errorf("%q sends %d bytes of system prompt and tools, want at most %d", c.title, sent, maxDiscoveryBytes)
		}
	}
	compareDocument(t, filepath.Join("..", "..", "docs", "prompts.md"), promptDocument(requests))
}

// compareDocument compares a document with what it should be, or writes it with -update.
func compareDocument(t *testing.T, path, got string) {
	t.Helper()
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want := string(must(os.ReadFile(path)))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is out of date; go test ./internal/app -run Prompts -update writes it (-it has +it should have):\n%s",
			path, diff)
	}
}

const promptDocumentHead = "# What the model is sent\n\n" +
	"Each section shows one situation and the last request to the model in it: the system prompt, the names of the " +
	"tools, and the\n" +
	"messages. Times, ids and addresses are replaced by fixed ones. Token counts are bytes divided by four, rounded to " +
	"ten; those\n" +
	"of the tools include their descriptions and schemas. This page is written by a test, which plays the situations " +
	"against the\n" +
	"real program: `go test ./internal/app -run Prompts -update`.\n\n"

// promptDocument returns docs/prompts.md. A system prompt or list of tools that stands in an
// earlier section is named, not repeated.
func promptDocument(requests []promptRequest) string {
	var b strings.Builder
	b.WriteString(promptDocumentHead)
	shown := map[string]string{}
	section := func(title, name, text string, tokens int) {
		fmt.Fprintf(&b, "%s, %d tokens", name, (tokens+5)/10*10)
		if first, ok := shown[text]; ok {
			fmt.Fprintf(&b, ": as in “%s”.\n\n", first)
			return
		}
		shown[text] = title
		fmt.Fprintf(&b, ":\n\n~~~text\n%s\n~~~\n\n", text)
	}
	for i, c := range situations {
		if c.varies {
			continue
		}
		r := requests[i]
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", c.title, c.says)
		system, messages := withFixedValues(r.system()), withFixedValues(r.messages())
		section(c.title, "System prompt", system, len(system)/4)
		section(c.title, "Tools", r.toolNames(), r.tokens("tools"))
		section(c.title, "Messages", messages, len(messages)/4)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
