package slack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
)

// scopesHeader is where Slack says which scopes a token has.
const scopesHeader = "X-Oauth-Scopes"

// scopeNeed is a scope that the bot asks for.
type scopeNeed struct {
	scope   string
	methods []string // of the Web API that want it
	events  []string // that come with it alone
	lost    string   // without it
}

// scopeNeeds returns all scopes, in order, with what comes of each. Manifest, doctor and the documentation are made
// from it: what is not listed here is not asked for.
func scopeNeeds() []scopeNeed {
	return []scopeNeed{
		{"app_mentions:read", nil, []string{"app_mention"}, "the bot does not hear that it is mentioned"},
		{assistantScope, []string{"assistant.threads.setSuggestedPrompts", "assistant.threads.setTitle"}, nil,
			"the agent view: no suggested questions, titles and status, and direct messages begin no threads"},
		{"channels:history", []string{"conversations.history", "conversations.replies"}, []string{"message.channels"},
			"replies in threads of public channels are not heard, messages from while the bot was away are not read, and a " +
				"post may come twice after a crash"},
		{
			channelsScope,
			[]string{"conversations.info", "conversations.members"},
			[]string{"member_joined_channel"},
			"the model is not told the names and topics of public channels, and the bot greets nobody when it joins one",
		},
		{
			"chat:write",
			[]string{
				"chat.postMessage",
				"chat.postEphemeral",
				"chat.update",
				"chat.delete",
				"chat.startStream",
				"chat.appendStream",
				"chat.stopStream",
				"assistant.threads.setStatus",
			},
			nil,
			"the bot cannot answer at all",
		},
		{"commands", nil, nil, "/raven does not work"},
		{"files:read", []string{"files.info"}, nil, "the bot cannot read files that people send"},
		{
			"files:write",
			[]string{"files.getUploadURLExternal", "files.completeUploadExternal"},
			nil,
			"the bot cannot post files; long answers become many messages",
		},
		{"groups:history", []string{"conversations.history", "conversations.replies"}, []string{"message.groups"},
			"in private channels the bot hears only mentions and cannot look back"},
		{
			groupsScope,
			[]string{"conversations.info", "conversations.members"},
			nil,
			"the model is not told the names and topics of private channels, and no digest is made of them",
		},
		{
			"im:history",
			[]string{"conversations.history", "conversations.replies"},
			[]string{"message.im"},
			"the bot does not hear direct messages",
		},
		{"im:write", []string{"conversations.open"}, nil, "a reminder whose channel was archived reaches nobody"},
		{
			"mpim:history",
			[]string{"conversations.history", "conversations.replies"},
			[]string{"message.mpim"},
			"the bot does not hear group direct messages",
		},
		{
			"reactions:read",
			nil,
			[]string{"reaction_added", "reaction_removed"},
			"reactions to posts do not count as feedback; the buttons below posts do",
		},
		{
			"reactions:write",
			[]string{"reactions.add", "reactions.remove"},
			nil,
			"outside of threads nothing shows that an answer is being made",
		},
		{
			userGroupScope,
			[]string{"usergroups.list"},
			nil,
			"rules for tools that name roles match nobody in Slack",
		},
		{
			peopleScope,
			[]string{"users.info", "users.list"},
			nil,
			"the model is not told who speaks, and nobody counts as an administrator, " +
				"so that a channel's settings and memory cannot be changed in Slack",
		},
	}
}

// freeEvents need no scope; freeMethods neither.
var (
	freeEvents  = []string{"app_home_opened"}
	freeMethods = []string{"auth.test", "views.open"}
)

// Scopes returns the bot scopes that this package needs, in order.
func Scopes() []string {
	var list []string
	for _, n := range scopeNeeds() {
		list = append(list, n.scope)
	}
	return list
}

// Events returns the events that the bot subscribes to, in order.
func Events() []string {
	list := slices.Clone(freeEvents)
	for _, n := range scopeNeeds() {
		list = append(list, n.events...)
	}
	slices.Sort(list)
	return list
}

// Methods returns the methods of the Web API that the bot calls with its bot token, in order.
func Methods() []string {
	list := slices.Clone(freeMethods)
	for _, n := range scopeNeeds() {
		list = append(list, n.methods...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Manifest returns the description from which Slack makes the app: for Socket Mode, or for HTTP if
// the public address of this bot is given. The commands become the hint that Slack shows behind
// /raven, those on messages shortcuts.
func Manifest(url string, commands []chat.CommandSpec, onMessages []chat.MessageCommand) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(manifest(url, commands, onMessages))
	return b.Bytes(), err
}

// ManifestLink returns the address of the page on which Slack makes the app of Manifest, which takes the same
// arguments.
func ManifestLink(
	address string,
	commands []chat.CommandSpec,
	onMessages []chat.MessageCommand,
) (string, error) {
	raw, err := json.Marshal(manifest(address, commands, onMessages))
	if err != nil {
		return "", err
	}
	return "https://api.slack.com/apps?new_app=1&manifest_json=" + url.QueryEscape(string(raw)), nil
}

// maxUsageHint is the most that Slack takes as the hint of a command, in characters
// (manifest reference, 2026-08).
const maxUsageHint = 1000

// usageHint returns the names of the commands; those that take something end in "…".
// What does not fit is left out.
func usageHint(commands []chat.CommandSpec) string {
	hint := ""
	for _, c := range commands {
		next := c.Name
		if len(c.Options) > 0 {
			next += " …"
		}
		if hint != "" {
			next = hint + ", " + next
		}
		if utf8.RuneCountInString(next) > maxUsageHint {
			break
		}
		hint = next
	}
	return hint
}

// manifest returns the manifest as a tree, in the form of 2026-08 (https://docs.slack.dev/reference/app-manifest).
func manifest(url string, commands []chat.CommandSpec, onMessages []chat.MessageCommand) map[string]any {
	type object = map[string]any
	shortcuts := []any{}
	for _, c := range onMessages {
		shortcuts = append(shortcuts, object{
			"name":        c.Title,
			"type":        "message",
			"callback_id": c.Name,
			"description": c.Summary,
		})
	}
	socket := url == ""
	const does = "Answers, reads feeds and posts digests"
	events, interactivity := object{"bot_events": Events()}, object{"is_enabled": true}
	command := object{
		"command":       "/raven",
		"description":   "Ask ravenbot, or run a digest",
		"usage_hint":    usageHint(commands),
		"should_escape": true,
	}
	if !socket {
		events["request_url"] = url + "/slack/events"
		interactivity["request_url"] = url + "/slack/interactive"
		command["url"] = url + "/slack/commands"
	}
	return object{
		"display_information": object{"name": "ravenbot", "description": does},
		"features": object{
			// Slack takes the agent view alone of apps that are new (2026). Where a workspace
			// does not know it yet, the same goes under assistant_view, with the description as
			// assistant_description, and the event assistant_thread_started is added.
			"agent_view":     object{"agent_description": does, "suggested_prompts": suggestedPrompts()},
			"app_home":       object{"messages_tab_enabled": true, "messages_tab_read_only_enabled": false},
			"bot_user":       object{"display_name": "ravenbot", "always_online": true},
			"shortcuts":      shortcuts,
			"slash_commands": []any{command},
		},
		"oauth_config": object{"scopes": object{"bot": Scopes()}},
		"settings": object{"event_subscriptions": events, "interactivity": interactivity,
			"org_deploy_enabled": false, "socket_mode_enabled": socket, "token_rotation_enabled": false},
	}
}

// Finding is a fault of the app's setup.
type Finding struct {
	Problem string // a sentence
	Lost    string // what does not work for it
	Remedy  string
}

// Where the tokens stand on Slack's pages.
const (
	botTokenPlace = "SLACK_BOT_TOKEN (xoxb-…, under OAuth & Permissions of the app)"
	appTokenPlace = "SLACK_APP_TOKEN (xapp-…, with the scope connections:write, under Basic Information of the app)"
)

// Prove asks Slack whether it takes the tokens that there are, the bot token and the app-level one. A refusal is a
// *chat.SetupError with its remedy; any other error means that Slack was not reached. It needs no Run, and opens no
// connection.
func (s *Slack) Prove(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := s.api.AuthTestContext(ctx); err != nil {
		return cmp.Or(
			setupError(err, "bot token", botTokenPlace),
			fmt.Errorf("ask Slack about the bot token: %w", redact(err)),
		)
	}
	if s.o.AppToken == "" {
		return nil
	}
	if _, _, err := s.api.StartSocketModeContext(ctx); err != nil {
		return cmp.Or(
			setupError(err, "app-level token", appTokenPlace),
			fmt.Errorf("ask Slack about the app-level token: %w", redact(err)),
		)
	}
	return nil
}

// refusalFinding returns that Slack refused a token, or could not be asked.
func refusalFinding(err error) Finding {
	if setup, ok := errors.AsType[*chat.SetupError](err); ok {
		return Finding{Problem: setup.Reason, Lost: "everything on Slack", Remedy: setup.Remedy}
	}
	return Finding{
		Problem: "Slack could not be asked: " + redact(err).Error(),
		Lost:    "everything on Slack, if it stays so",
		Remedy:  "see that this machine reaches Slack, or that the proxy does which HTTPS_PROXY names, and check again",
	}
}

// Check asks Slack which scopes the bot token has, and returns a finding for each one that is missing; none if all is
// well. That Slack refuses a token, or could not be asked, is a finding, too. It needs no Run.
func (s *Slack) Check(ctx context.Context) []Finding {
	const reinstall = "reinstall the app to the workspace (OAuth & Permissions of the app)"
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := s.Prove(ctx); err != nil {
		return []Finding{refusalFinding(err)}
	}
	who, err := s.api.AuthTestContext(ctx)
	if err != nil {
		return []Finding{refusalFinding(err)}
	}
	granted, told := scopesOf(who.Header.Get(scopesHeader))
	if !told {
		return []Finding{
			{
				Problem: "Slack does not tell which scopes the bot token has",
				Lost:    "nothing is known to be",
				Remedy:  "compare the scopes of the app with those of ravenbot slack manifest",
			},
		}
	}
	var list []Finding
	for _, n := range scopeNeeds() {
		if !slices.Contains(granted, n.scope) {
			list = append(
				list,
				Finding{
					Problem: fmt.Sprintf("the bot token lacks the scope %s", n.scope),
					Lost:    n.lost,
					Remedy:  "add " + n.scope + " to the bot scopes and " + reinstall,
				},
			)
		}
	}
	return list
}
