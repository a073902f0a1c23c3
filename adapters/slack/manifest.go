package slack

import (
	"bytes"
	"encoding/json"
)

// Scopes are the bot scopes of what this package calls and hears.
func Scopes() []string {
	return []string{"app_mentions:read", "channels:history", "chat:write", "commands", "files:read", "files:write", "groups:history", "im:history", "mpim:history"}
}

// Events are the events that the bot subscribes to.
func Events() []string {
	return []string{"app_mention", "message.channels", "message.groups", "message.im", "message.mpim"}
}

// Manifest is the description from which Slack makes the app. Without a url it is
// for Socket Mode; with the public address of this bot it is for HTTP.
func Manifest(url string) ([]byte, error) {
	type object = map[string]any
	socket := url == ""
	events, interactivity := object{"bot_events": Events()}, object{"is_enabled": true}
	command := object{"command": "/raven", "description": "Ask ravenbot, or run a digest", "usage_hint": "ask …, digest list, tools, help", "should_escape": true}
	if !socket {
		events["request_url"] = url + "/slack/events"
		interactivity["request_url"] = url + "/slack/interactive"
		command["url"] = url + "/slack/commands"
	}
	m := object{
		"display_information": object{"name": "ravenbot", "description": "Answers, reads feeds and posts digests"},
		"features": object{
			"app_home":       object{"messages_tab_enabled": true, "messages_tab_read_only_enabled": false},
			"bot_user":       object{"display_name": "ravenbot", "always_online": true},
			"slash_commands": []any{command},
		},
		"oauth_config": object{"scopes": object{"bot": Scopes()}},
		"settings": object{"event_subscriptions": events, "interactivity": interactivity,
			"org_deploy_enabled": false, "socket_mode_enabled": socket, "token_rotation_enabled": false},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(m)
	return b.Bytes(), err
}
