// Package chattest holds the common parts of the tests of chat platforms: commands to register, and the contract of
// chat.Platform as a test suite.
package chattest

import "ravenbot/internal/core/chat"

// MessageCommands returns an entry for the menu of a message.
func MessageCommands() []chat.MessageCommand {
	return []chat.MessageCommand{{Name: "look-at", Title: "Look at this", Summary: "Looks at a message"}}
}

// Commands returns commands with options of every kind.
func Commands() []chat.CommandSpec {
	return []chat.CommandSpec{
		{
			Name:    chat.CommandAsk,
			Summary: "Ask something",
			Public:  true,
			Options: []chat.CommandOption{
				{Name: "text", Summary: "What to ask", Required: true},
				{Name: "feed", Summary: "A feed that it is about", Complete: true, Label: "Feed"},
				{Name: "zone", Summary: "A time zone that it is about", Complete: true, Label: "Time zone"},
				{Name: "thread", Summary: "Answer in a thread", Kind: chat.OptionThread},
			},
		},
		{
			Name:    "digest",
			Summary: "Change digests",
			Options: []chat.CommandOption{
				{
					Name:     "action",
					Summary:  "What to do",
					Required: true,
					Choices:  []string{"list", "preview", "run", "create", "edit", "mute"},
				},
				{Name: "name", Summary: "The name of a digest", Complete: true},
				{Name: "more", Summary: "What to change"},
			},
		},
		{
			Name:    "settings",
			Summary: "See or change settings",
			Options: []chat.CommandOption{{Name: "text", Summary: "What to change", Complete: true}},
		},
		{
			Name:    "tools",
			Summary: "See tools",
			Options: []chat.CommandOption{{Name: "text", Summary: "The name of a server"}},
		},
		{
			Name:    "memory",
			Summary: "See what is remembered",
			Options: []chat.CommandOption{{Name: "text", Summary: "What to delete"}},
		},
		{Name: "usage", Summary: "See what was used"},
		{Name: "forget", Summary: "Forget a conversation"},
		{Name: chat.CommandStop, Summary: "Stop"},
		{Name: chat.CommandHelp, Summary: "See what can be said"},
	}
}
