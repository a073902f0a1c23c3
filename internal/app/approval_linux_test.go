package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// asking is a configuration in which every tool of the kit needs an approval.
func (w *world) asking() map[string]any {
	settings := w.base()
	settings["tools"] = map[string]any{"policy": []any{map[string]any{"tools": []string{"kit.*"}, "decision": "ask"}}}
	return settings
}

// useOnce calls a tool of the kit for the word asked, and then quotes what it got.
func useOnce(tool string) simmodel.Script {
	return func(r simmodel.Request) simmodel.Reply {
		if results := r.Last().Results; len(results) > 0 {
			return simmodel.Say("the tool says: " + results[0].Content)
		}
		return simmodel.Reply{Calls: []simmodel.Call{{Name: tool, Args: must(json.Marshal(toolArgs{Question: "q"}))}}}
	}
}

// A question about a call outlives a kill, is decided by the asker alone, and the
// call is made once.
func TestAnApprovalOutlivesAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.model.SetScript(useOnce("kit_effect"))
	d := w.daemon(w.asking()).withTools().start().toolsReady()
	w.slack.Mention(w.channel.ID, w.berit, "use it")
	asked, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("May I run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kit_effect", `"question": "q"`, "Only the asker"} {
		if !strings.Contains(asked.Shown(), want) {
			t.Errorf("the question lacks %q: %s", want, asked.Shown())
		}
	}
	d.kill()
	d.start().toolsReady()
	if n := ran(w.tools, "effect")["q"]; n != 0 {
		t.Fatalf("the tool ran %d times before anybody approved", n)
	}
	anna := w.slack.AddUser("anna")
	press := w.slack.Click(w.channel.ID, asked.TS, anna, "ravenbot-0")
	within(t, "somebody else is refused", func() bool {
		answers := w.slack.Answers(press)
		return len(answers) > 0 && strings.Contains(answers[0].Text, "Only those whom the question names")
	})
	w.slack.Click(w.channel.ID, asked.TS, w.berit, "ravenbot-0")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("effect done for q")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("*Approved* by berit")); err != nil {
		t.Error(err)
	}
	d.idle()
	if n := w.slackPosts("May I run"); n != 0 {
		t.Errorf("%d questions stand there still", n)
	}
	var used struct {
		Items []struct{ Tool, Note, Result string }
	}
	if err := d.api(http.MethodGet, "/api/v1/tool-usage", &used); err != nil || len(used.Items) != 1 ||
		used.Items[0].Tool != "kit_effect" ||
		used.Items[0].Note != "approved by berit" || used.Items[0].Result != "effect done for q" {
		t.Errorf("tool usage is %+v (%v)", used, err)
	}
	d.end()
	if n := ran(w.tools, "effect")["q"]; n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

// A word does where there is no button to press, and what is denied is told.
func TestADenialIsAWord(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(useOnce("kit_effect"))
	d := w.daemon(w.asking()).withTools().start().toolsReady()
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" use it")
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("May I run")); err != nil {
		t.Fatal(err)
	}
	var open struct {
		Items []struct{ ID, Tool, Decision string }
	}
	if err := d.api(http.MethodGet, "/api/v1/approvals", &open); err != nil || len(open.Items) != 1 ||
		open.Items[0].Tool != "kit_effect" {
		t.Errorf("open approvals are %+v (%v)", open, err)
	}
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" deny")
	got, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("the tool says"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.Content, "kit_effect was not run: denied by anna") {
		t.Errorf("answered %q", got.Content)
	}
	d.idle()
	d.end()
	if n := ran(w.tools, "effect")["q"]; n != 0 {
		t.Errorf("the tool ran %d times", n)
	}
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, func(p simdiscord.Post) bool {
		return strings.HasPrefix(p.Content, "**Denied** by anna")
	}); err != nil {
		t.Error(err)
	}
}

// An approval for a conversation covers the next call there, until foreign text is read or it is revoked.
func TestAnApprovalForAConversationCoversTheNextCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	page := w.feeds.Serve("/page", html("<p>Nothing here.</p>"), "text/html")
	w.model.SetScript(obedient)
	settings := w.base()
	settings["tools"] = map[string]any{"mode": "safe"}
	settings["egress"] = map[string]any{"allowPrivateHosts": []string{"127.0.0.1"}}
	b := w.run(settings)
	first := w.slack.Mention(w.channel.ID, w.berit, "DO(memory_save text=one; about=channel)")
	asked, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("May I run"))
	if err != nil {
		t.Fatal(err)
	}
	w.slack.Click(w.channel.ID, asked.TS, w.berit, "ravenbot-1")
	saved := func(n int) {
		t.Helper()
		within(t, "the note is saved", func() bool {
			var notes struct{ Items []struct{ Text string } }
			b.call(http.MethodGet, "/api/v1/memories?scope="+url.QueryEscape("channel:slack:"+simslack.TeamID+"/"+w.channel.ID),
				nil, &notes)
			return len(notes.Items) == n
		})
	}
	saved(1)
	w.slack.ThreadReply(w.channel.ID, first.TS, w.berit, "DO(memory_save text=two; about=channel)")
	saved(2) // nobody was asked
	var grants struct {
		Items []struct{ ID, Tool, Scope, User string }
	}
	b.call(http.MethodGet, "/api/v1/grants", nil, &grants)
	if len(grants.Items) != 1 || grants.Items[0].Tool != "memory_save" || grants.Items[0].Scope != "conversation" ||
		grants.Items[0].User != "slack/"+w.berit.ID {
		t.Fatalf("the standing approvals are %+v", grants)
	}
	w.slack.ThreadReply(w.channel.ID, first.TS, w.berit,
		"DO(web_fetch url="+page+") DO(memory_save text=three; about=channel)")
	again, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("text of others was read before"))
	if err != nil || strings.Contains(again.Shown(), "Always here") {
		t.Errorf("after a page it asks %q, %v", again.Shown(), err)
	}
	if status := b.call(http.MethodDelete, "/api/v1/grants/"+
		grants.Items[0].ID, nil, nil); status != http.StatusNoContent {
		t.Errorf("revoking gave status %d", status)
	}
}

// A rule for a role holds for the members of a Slack user group, by its handle.
func TestARuleForARoleHoldsForAUserGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.slack.AddUserGroup("writers", w.berit)
	w.model.SetScript(obedient)
	settings := w.base()
	settings["tools"] = map[string]any{"mode": "safe", "policy": []any{
		map[string]any{"tools": []string{"memory_save"}, "roles": []string{"writers"}, "decision": "allow"}}}
	b := w.run(settings)
	w.slack.Mention(w.channel.ID, w.berit, "DO(memory_save text=one; about=channel)")
	within(t, "the note is saved", func() bool {
		var notes struct{ Items []struct{ Text string } }
		b.call(http.MethodGet, "/api/v1/memories?scope="+url.QueryEscape("channel:slack:"+simslack.TeamID+"/"+w.channel.ID),
			nil, &notes)
		return len(notes.Items) == 1
	})
	if w.slackPosts("May I run") != 0 {
		t.Error("a member of the group was asked")
	}
	w.slack.Mention(w.channel.ID, w.slack.AddUser("anna"), "DO(memory_save text=two; about=channel)")
	if _, err := w.slack.WaitPost(deadline(t), w.channel.ID, inSlack("May I run")); err != nil {
		t.Error(err)
	}
}

// Arguments that are too long for one message are shown whole, in several, and nothing of them is in a file that the
// platform could refuse.
func TestAQuestionWithLongArguments_ShowsThemWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var words []string
	for n := range 1000 {
		words = append(words, fmt.Sprintf("word-%d", n))
	}
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if results := r.Last().Results; len(results) > 0 {
			return simmodel.Say("it is done")
		}
		return simmodel.Reply{Calls: []simmodel.Call{toolCall("kit_effect", strings.Join(words, " "))}}
	})
	d := w.daemon(w.asking()).withTools().start().toolsReady()
	w.discord.Say(w.news.ID, w.anna, w.discord.Mention()+" use it")
	asked, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("can decide: press a button"))
	if err != nil {
		t.Fatal(err)
	}
	var shown string
	for _, p := range w.discord.Posts(w.news.ID) {
		shown += p.Content
		if len(p.Files) > 0 {
			t.Errorf("a message has files: %+v", p.Files)
		}
	}
	for _, word := range words {
		if !strings.Contains(shown, word) {
			t.Fatalf("%s is not shown", word)
		}
	}
	press := regexp.MustCompile(`approve [0-9a-f]+`).FindString(string(must(json.Marshal(asked.Components))))
	w.discord.Click(asked.ID, w.anna, press)
	if _, err := w.discord.WaitPost(deadline(t), w.news.ID, inDiscord("it is done")); err != nil {
		t.Fatal(err)
	}
	d.idle()
	for _, p := range w.discord.Posts(w.news.ID) {
		if !p.Deleted && strings.Contains(p.Content, "word-500") {
			t.Errorf("after the decision a message still shows the arguments: %.80q", p.Content)
		}
	}
	d.end()
}
