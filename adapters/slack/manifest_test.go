package slack_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	slackgo "github.com/slack-go/slack"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/chattest"
	simslack "ravenbot/internal/testing/sim/slack"
)

// library are the functions of slack-go that call a method with the bot token.
var library = map[string]string{"AuthTestContext": "auth.test",
	"SetAssistantThreadsSuggestedPromptsContext": "assistant.threads.setSuggestedPrompts",
	"SetAssistantThreadsTitleContext":            "assistant.threads.setTitle",
	"SetAssistantThreadsStatusContext":           "assistant.threads.setStatus",
	"AddReactionContext":                         "reactions.add", "RemoveReactionContext": "reactions.remove"}

// others take no bot token.
var others = []string{"StartSocketModeContext"}

// TestTheMethodsAreThoseThatTheCodeCalls reads the code: the table of scopes can
// neither lack a method nor name one too many.
func TestTheMethodsAreThoseThatTheCodeCalls(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	calls, names := regexp.MustCompile(`\.api\.(\w+)\(`), regexp.MustCompile(`"((?:chat|conversations|files|users|usergroups|team|views|reactions)\.[a-zA-Z.]+)["]`)
	var found []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") || path == "manifest.go" {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range calls.FindAllStringSubmatch(string(raw), -1) {
			if method := library[m[1]]; method != "" {
				found = append(found, method)
			} else if !slices.Contains(others, m[1]) {
				t.Errorf("%s calls %s, whose scope is not known here", path, m[1])
			}
		}
		for _, m := range names.FindAllStringSubmatch(string(raw), -1) {
			if !strings.HasSuffix(m[1], ".com") {
				found = append(found, m[1])
			}
		}
	}
	slices.Sort(found)
	if diff := cmp.Diff(slack.Methods(), slices.Compact(found)); diff != "" {
		t.Errorf("the table (-) and the code (+) differ: %s", diff)
	}
}

// TestTheScopesAreThoseThatSlackWants asks the simulated Slack, which knows by itself
// what each method wants.
func TestTheScopesAreThoseThatSlackWants(t *testing.T) {
	server := world(t, granted("none"))
	channel, direct := server.AddChannel("general").ID, server.AddDM(server.AddUser("anna")).ID
	var wanted []string
	for _, method := range slack.Methods() {
		for _, at := range []string{channel, direct} {
			res, err := http.PostForm(server.APIURL()+method, url.Values{"token": {"xoxb-token"}, "channel": {at}})
			if err != nil {
				t.Fatal(err)
			}
			var answer struct{ Error, Needed string }
			err = json.NewDecoder(res.Body).Decode(&answer)
			if _ = res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if answer.Error == "unknown_method" {
				t.Errorf("%s is no method", method)
			}
			if answer.Needed != "" {
				wanted = append(wanted, answer.Needed)
			}
		}
	}
	// What comes as an event or a command has no method to tell its scope, and
	// the simulated Slack has no private channels.
	wanted = append(wanted, "app_mentions:read", "commands", "groups:history", "groups:read", "mpim:history",
		"reactions:read")
	slices.Sort(wanted)
	if diff := cmp.Diff(slack.Scopes(), slices.Compact(wanted)); diff != "" {
		t.Errorf("the table (-) and Slack (+) differ: %s", diff)
	}
}

func TestTheManifestIsOneThatSlackKnows(t *testing.T) {
	for _, address := range []string{"", "https://raven.example.org"} {
		raw, err := slack.Manifest(address, chattest.Commands(), chattest.MessageCommands())
		if err != nil {
			t.Fatal(err)
		}
		var known slackgo.Manifest
		if err := json.Unmarshal(raw, &known); err != nil {
			t.Fatalf("slack-go does not read it: %v", err)
		}
		view, settings := known.Features.AgentView, known.Settings
		if !slices.Equal(known.OAuthConfig.Scopes.Bot, slack.Scopes()) || view == nil || view.AgentDescription == "" ||
			len(view.SuggestedPrompts) != 3 ||
			settings.SocketModeEnabled != (address == "") || !slices.Equal(settings.EventSubscriptions.BotEvents,
			slack.Events()) {
			t.Errorf("%q: %s", address, raw)
		}
		if s := known.Features.Shortcuts; len(s) != 1 || s[0].Name != "Look at this" || s[0].CallbackID != "look-at" ||
			s[0].Type != slackgo.MessageShortcut || s[0].Description == "" {
			t.Errorf("the shortcuts are %+v", s)
		}
		if address != "" && (settings.EventSubscriptions.RequestUrl != address+simslack.PathEvents ||
			settings.Interactivity.RequestUrl != address+simslack.PathInteractive ||
			known.Features.SlashCommands[0].Url != address+simslack.PathCommands) {
			t.Errorf("addresses in %s", raw)
		}
		link, err := slack.ManifestLink(address, chattest.Commands(), chattest.MessageCommands())
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(link)
		if err != nil {
			t.Fatal(err)
		}
		var linked, printed any
		if json.Unmarshal([]byte(u.Query().Get("manifest_json")), &linked) != nil || json.Unmarshal(raw, &printed) != nil ||
			!cmp.Equal(linked, printed) || u.Host != "api.slack.com" || u.Query().Get("new_app") != "1" {
			t.Errorf("link %s", link)
		}
	}
}

func TestManifest_NamesTheCommandsInItsHint(t *testing.T) {
	raw, err := slack.Manifest("", chattest.Commands(), chattest.MessageCommands())
	if err != nil {
		t.Fatal(err)
	}
	const want = `"usage_hint": "ask …, digest …, settings …, tools …, memory …, usage, forget, stop, help"`
	if !strings.Contains(string(raw), want) {
		t.Errorf("want %s in %s", want, raw)
	}
	var many []chat.CommandSpec
	for range 500 {
		many = append(many, chat.CommandSpec{Name: "weather"})
	}
	if raw, err = slack.Manifest("", many, nil); err != nil {
		t.Fatal(err)
	}
	var known slackgo.Manifest
	if err := json.Unmarshal(raw, &known); err != nil {
		t.Fatal(err)
	}
	if hint := known.Features.SlashCommands[0].UsageHint; len(hint) > 1000 || !strings.HasSuffix(hint, ", weather") {
		t.Errorf("a hint of %d characters ends in %q", len(hint), hint[max(len(hint)-20, 0):])
	}
}
