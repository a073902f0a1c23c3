package markdown_test

import (
	"flag"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ravenbot/internal/turn/markdown"
)

var update = flag.Bool("update", false, "write what the platforms show to testdata")

// Limits of the messages of Discord and Slack, as the adapters cut them.
const discordLimit, slackLimit = 2000, 11_000

var (
	repeat   = regexp.MustCompile(`(?s)\{(\d+)×(.*?)\}`)
	codeText = regexp.MustCompile("(?s)```.*?\n(.*?)\n *>? *```|`([^`\n]+)`")
	htmlTag  = regexp.MustCompile(`<[^>]*>`)
	srcTag   = regexp.MustCompile(`(?is)<!--.*?-->|</?[a-z]+[^<>]*>|&#?\w+;|\{\d+×|https?://\S+`)
	awake    = regexp.MustCompile(`<!(here|channel|everyone|subteam)|<@[UWB][A-Z0-9]|<#[CGD][A-Z0-9]|(^|\s)@(here|channel|everyone)\b`)
	words    = regexp.MustCompile(`\pL{3,}`)
)

// TestAnswers shows answers as models write them: the golden files have what each platform gets of them. A text
// "{3×a}" stands for "aaa".
func TestAnswers(t *testing.T) {
	files, err := filepath.Glob("testdata/answers/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, short := range strings.Split(strings.TrimSuffix("\n"+string(raw), "\n"), "\n=== answer\n")[1:] {
			total++
			src := repeat.ReplaceAllStringFunc(short, func(s string) string {
				m := repeat.FindStringSubmatch(s)
				n, _ := strconv.Atoi(m[1])
				return strings.Repeat(m[2], n)
			})
			discord := markdown.Split(markdown.Discord(src), discordLimit)
			slack := markdown.Split(markdown.Slack(src), slackLimit)
			page := markdown.HTML(src)
			checkAnswer(t, src, discord, slack, page)
			b.WriteString("=== answer\n" + short + "\n--- discord\n" + shorten(discord) + "\n--- slack\n" +
				shorten(slack) + "\n--- page\n" + shorten([]string{page}) + "\n")
		}
		golden := strings.TrimSuffix(file, ".txt") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s differs (-want +got); if it is better now, refresh it with -update:\n%s", golden, diff)
		}
	}
	if total < 150 {
		t.Errorf("%d answers, want at least 150", total)
	}
}

// shorten returns messages as a golden file has them: their beginnings and ends, with invisible spaces made visible.
func shorten(messages []string) string {
	var out []string
	for _, m := range messages {
		m = strings.NewReplacer("\u200b", "[ZWSP]", "\u202e", "[RLO]", "\u202c", "[PDF]").Replace(strings.TrimSpace(m))
		if c := []rune(m); len(c) > 1000 {
			m = string(c[:120]) + " […] " + string(c[len(c)-120:])
		}
		out = append(out, m)
	}
	return strings.Join(out, "\n--- next message\n")
}

// checkAnswer checks what holds for every answer.
func checkAnswer(t *testing.T, src string, discord, slack []string, page string) {
	t.Helper()
	all := strings.Join(slack, "\n")
	if m := awake.FindString(all); m != "" {
		t.Errorf("Slack is sent the mention %q of %q", m, src)
	}
	shown := map[string]string{"Discord": strings.Join(discord, "\n"), "Slack": all,
		"the page": html.UnescapeString(htmlTag.ReplaceAllString(page, " ") + page)}
	for where, text := range shown {
		for _, w := range words.FindAllString(srcTag.ReplaceAllString(src, " "), -1) {
			if !strings.Contains(strings.ReplaceAll(strings.ReplaceAll(text, "\u200b", ""), "\n", ""), w) &&
				len([]rune(w)) < 100 {
				t.Errorf("%s lacks the word %q of %.200q: %.300q", where, w, src, text)
			}
		}
		for _, m := range codeText.FindAllStringSubmatch(src, -1) {
			if code := m[1] + m[2]; len(code) < 200 && !strings.ContainsAny(code, "`") && !strings.Contains(src, "````") &&
				!strings.Contains(src, "``") && !awake.MatchString(code) && !strings.Contains(code, `\|`) &&
				!strings.Contains(text, code) {
				t.Errorf("%s changed the code %q: %q", where, code, text)
			}
		}
	}
	for _, message := range append(discord, slack...) {
		if n := markdown.Length(message); n > slackLimit || strings.Count(message, "```")%2 != 0 {
			t.Errorf("a message of %d characters, or with an open fence: %.200q", n, message)
		}
	}
	if len(discord) > 1 && !strings.Contains(src, "`") {
		for _, message := range discord {
			if strings.Count(message, "**")%2 != 0 || strings.Count(message, "~~")%2 != 0 {
				t.Errorf("marks are literal in %q", message)
			}
		}
	}
}

// FuzzConversions looks for texts that a conversion does not survive, or that wake somebody on Slack.
func FuzzConversions(f *testing.F) {
	for _, s := range []string{"<b>a</b> <!-- x -->", "| a<br>b | `c\\|d` |\n|:-:|--|\n| <sup>1</sup> | 字 |", "||a|| **注：**",
		"<details>\n<summary>a</summary>\n</details>", "> 見https://e.org/路。&lt;!here&gt; <!here> @here", "```x\n<@U1>\n```"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 4000 {
			t.Skip()
		}
		for _, p := range markdown.Split(markdown.Discord(src), 200) {
			if n := markdown.Length(p); n > 200 {
				t.Errorf("a piece of %d characters", n)
			}
		}
		markdown.HTML(src)
		markdown.Plain(src)
		for _, s := range []string{markdown.Slack(src), markdown.SlackText(src)} {
			if strings.Contains(s, "<!here>") || strings.Contains(s, "<@U1>") {
				t.Errorf("%q wakes somebody", s)
			}
		}
	})
}
