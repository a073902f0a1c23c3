package slack

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/markdown"
)

// letters are the letters and digits of a text.
func letters(s string) []rune {
	var all []rune
	for _, c := range s {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			all = append(all, c)
		}
	}
	return all
}

// Whatever CommonMark allows keeps its text in Slack's messages, which keep Slack's
// limits. That cuts end no fence is tested where they are made.
func TestCommonMarkKeepsItsTextOnSlack(t *testing.T) {
	dir := os.Getenv("RAVENBOT_CORPORA")
	if dir == "" {
		t.Skip("RAVENBOT_CORPORA is not set: no CommonMark examples")
	}
	spec, err := os.ReadFile(filepath.Join(dir, "text/commonmark/spec.txt"))
	if err != nil {
		t.Fatal(err)
	}
	sources := []string{string(spec)}
	for _, m := range regexp.MustCompile("(?s)`{32} example[^\n]*\n(.*?)\n?\\.\n.*?`{32}").FindAllStringSubmatch(string(spec), -1) {
		sources = append(sources, strings.ReplaceAll(m[1], "→", "\t"))
	}
	if len(sources) < 600 {
		t.Fatalf("%d examples were found, want some 650", len(sources))
	}
	for _, src := range sources {
		shown := ""
		for _, p := range render(chat.Draft{Text: src}) {
			if len([]rune(p.body)) > 12_000 || len([]rune(p.text(maxPlainText))) > 40_000 || p.text(maxPlainText) == "" {
				t.Errorf("%.60q has a message with %d and %d characters", src, len([]rune(p.body)), len([]rune(p.text(maxPlainText))))
			}
			shown += p.body + "\n"
		}
		rest := letters(shown)
		for _, c := range letters(markdown.Slack(src)) {
			for len(rest) > 0 && rest[0] != c {
				rest = rest[1:]
			}
			if len(rest) == 0 {
				t.Errorf("%.200q lost text in %.200q", src, shown)
				break
			}
			rest = rest[1:]
		}
	}
}

// What stands in a small line below the message is in its text, too.
func TestNotesAreInTheText(t *testing.T) {
	d := chat.Draft{Text: strings.Repeat("words of the answer, ", 200),
		Footer: "asked 5 minutes ago; I could not answer sooner", Tools: []chat.ToolRun{{Name: "feeds_fetch",
			State: chat.Done, Note: "approved by anna"}}}
	pieces := render(d)
	last := pieces[len(pieces)-1]
	if !strings.HasSuffix(last.text(maxPlainText), "✓ `feeds_fetch` (approved by anna) · asked 5 minutes ago; I could not "+
		"answer sooner") || len([]rune(last.text(maxPlainText))) > maxPlainText {
		t.Errorf("text %q", last.text(maxPlainText))
	}
}

func TestMentionsOf_IDsThatAreNone_AreLeftOut(t *testing.T) {
	d := chat.Draft{Text: "call <@U2> and <!channel>", Notify: []string{"user:U1", "user:!channel",
		"role:U2> <!here", "U3"}}
	if names := mentionsOf(d); names != "<@U1>" {
		t.Errorf("it notifies %q", names)
	}
	for _, p := range render(d) {
		for _, text := range []string{p.text(maxPlainText), p.body} {
			if strings.Contains(text, "<!") || strings.Contains(text, "<@") {
				t.Errorf("Slack is sent %q", text)
			}
		}
	}
}

func TestPiece_Text_IsReadableMrkdwn(t *testing.T) {
	src := "| a | b |\n|---|---|\n| 1 | 2 |\n\n1986\\. A year & a [link](https://e.org)\n\n" +
		"1986. List<String> 9~10, 14~15 `a\\*b`"
	want := "| a | b |\n|---|---|\n| 1 | 2 |\n\n1986. A year &amp; a link (https://e.org)\n\n" +
		"1986. List&lt;String&gt; 9~10, 14~15 `a\\*b`"
	if got := render(chat.Draft{Text: src})[0].text(maxPlainText); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := render(chat.Draft{Text: "&lt;!here&gt; &#60;@U12345>"})[0].text(maxPlainText); strings.Contains(got, "<") {
		t.Errorf("text %q", got)
	}
}
