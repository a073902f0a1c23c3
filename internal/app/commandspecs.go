package app

import "ravenbot/internal/chat"

// CommandSpecs returns the words behind /raven, in the order in which menus show them.
func CommandSpecs() []chat.CommandSpec { return commandSpecs() }

func commandSpecs() []chat.CommandSpec {
	return []chat.CommandSpec{
		{
			Name:    chat.CommandAsk,
			Summary: "Ask the bot something",
			Public:  true,
			Options: []chat.CommandOption{
				{Name: "text", Summary: "What you want to know", Required: true},
				{Name: "feed", Summary: "A feed that it is about", Complete: true, Label: "Feed"},
				{Name: "zone", Summary: "A time zone that it is about", Complete: true, Label: "Time zone"},
				{Name: "thread", Summary: "Answer in a new thread", Kind: chat.OptionThread},
			},
		},
		{
			Name:    "digest",
			Summary: "Make, list, preview, explain, run and change digests",
			Options: []chat.CommandOption{
				{
					Name:     "action",
					Summary:  "What to do",
					Required: true,
					Choices: []string{
						"list", "preview", "explain", "run", "create", "pause", "resume", "edit", "mute", "unmerge",
						"remove", "unsubscribe",
					},
				},
				{Name: "name", Summary: "The digest's name, but for list and create", Complete: true},
				{
					Name:    "more",
					Summary: "For edit, such as: style titles; for create: weekdays at 9 https://go.dev/blog/feed.atom",
				},
			},
		},
		{
			Name:    "settings",
			Summary: "See or change settings",
			Options: []chat.CommandOption{
				{
					Name:     "text",
					Summary:  "Nothing opens a form; or, for example: language Norwegian; channel",
					Complete: true,
				},
			},
		},
		{
			Name:    "tools",
			Summary: "Which tools the bot may use here",
			Options: []chat.CommandOption{{Name: "text", Summary: "The name of a server, for its tools alone"}},
		},
		{Name: "usage", Summary: "What was used by you and in this channel"},
		{
			Name:    "memory",
			Summary: "See or delete what the bot remembers of you",
			Options: []chat.CommandOption{{Name: "text", Summary: "For example: delete 3; channel list"}},
		},
		{Name: "forget", Summary: "Forget what was said here"},
		{Name: chat.CommandStop, Summary: "Stop what the bot is working on"},
		{Name: chat.CommandHelp, Summary: "What you can say to the bot"},
	}
}
