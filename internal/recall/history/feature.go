package history

import (
	"context"
	"fmt"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
)

// Module returns the ability to search what was said.
func (s *Service) Module() feature.Module {
	return feature.Module{
		Features: []feature.Feature{s},
		Tools:    func() []tool.Tool { return []tool.Tool{s.Tool()} },
		Purge:    s.Purge,
	}
}

// Commands returns the command that searches.
func (*Service) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    "search",
		Summary: "Search the messages here",
		Help:    "finds messages of this channel: `search what did Anna say about the budget last week`",
		Options: []chat.CommandOption{{Name: "text", Summary: "What to look for, as a question or in words", Required: true}},
	}}
}

// Handle carries out the command.
func (s *Service) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	words := strings.TrimSpace(m.Text)
	if words == "" {
		return &chat.Draft{Ephemeral: true, Failed: true, Text: "Say what to look for: `/raven search WORDS`"}, nil
	}
	at, ok := s.o.Place(tool.Caller{Conversation: m.Conversation, User: m.Author})
	if !ok {
		return &chat.Draft{Ephemeral: true, Failed: true, Text: "I cannot search here."}, nil
	}
	found, err := s.Search(ctx, s.inPlace(at, words, defaultHits))
	if err != nil {
		return nil, err
	}
	return &chat.Draft{Ephemeral: true, Text: list(words, found)}, nil
}

// list returns messages as Markdown for people: who said what and when, with a link.
func list(words string, found []Message) string {
	if len(found) == 0 {
		return "I found nothing like that here. Try other words."
	}
	lines := []string{"**Found for** " + text.EscapeMarkdown(text.Shorten(text.OneLine(words), maxListedChars))}
	for _, m := range found {
		when := m.At.UTC().Format("2 January 2006, 15:04") + " UTC"
		if m.Link != "" {
			when = "[" + when + "](" + m.Link + ")"
		}
		lines = append(lines, fmt.Sprintf("- **%s** (%s): %s", text.EscapeMarkdown(authorOf(m)), when,
			m.Shown(maxListedChars)))
	}
	return strings.Join(lines, "\n")
}
