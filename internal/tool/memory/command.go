package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/text"
)

const usage = "`/raven memory` shows what I remember of you, `/raven memory delete N` or `delete all` removes it; " +
	"with `channel` before that, what I remember for this channel " +
	"(administrators remove it). To have something remembered, tell me so."

// maxPageBytes is the size of a list after which the rest is left to the next page.
const maxPageBytes = 6000

// Command answers /raven memory [channel] [list [N] | delete N | delete all].
func (p *Pack) Command(ctx context.Context, m chat.Message) chat.Draft {
	of, words := userScope(m.Conversation.Platform, m.Author.ID), strings.Fields(strings.ToLower(m.Text))
	if len(words) > 0 && (words[0] == "channel" || words[0] == "me") {
		if words[0] == "channel" {
			of = channelScope(m.Conversation)
		}
		words = words[1:]
	}
	var answer string
	var err error
	switch verb, rest := cutVerb(words); {
	case verb == "" || verb == "list" && len(rest) < 2:
		answer, err = p.list(ctx, m, of, rest)
	case verb == "delete" && len(rest) == 1 && of.word != "" && !p.o.Manages(m):
		err = userError("Only administrators remove what is remembered for a channel.")
	case verb == "delete" && len(rest) == 1:
		answer, err = p.remove(ctx, of, rest[0])
	default:
		err = userError("That was not understood. " + usage)
	}
	var said userError
	switch {
	case errors.As(err, &said):
		return chat.Draft{Ephemeral: true, Failed: true, Text: string(said)}
	case err != nil:
		p.o.Log.Error("notes not read or deleted", "scope", of.key, "error", err)
		return chat.Draft{
			Ephemeral: true,
			Failed:    true,
			Text:      "That failed; whoever runs the bot finds the reason in its log.",
		}
	}
	return chat.Draft{Ephemeral: true, Text: answer}
}

// userError is an error that is shown to the user as it is.
type userError string

func (r userError) Error() string { return string(r) }

// cutVerb returns the first word and those after it.
func cutVerb(words []string) (verb string, rest []string) {
	if len(words) == 0 {
		return "", nil
	}
	return words[0], words[1:]
}

// parseNumber returns the number of a note; 0 is not one.
func parseNumber(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, userError(fmt.Sprintf("%.40q is no number of a memory. %s", s, usage))
	}
	return n, nil
}

// list returns a page of the notes of a scope, newest first, beginning with the number in rest if there is one.
func (p *Pack) list(ctx context.Context, m chat.Message, of scope, rest []string) (string, error) {
	var from uint64
	if len(rest) > 0 {
		var err error
		if from, err = parseNumber(rest[0]); err != nil {
			return "", err
		}
	}
	list, err := p.o.Store.Memories(ctx, of.key)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**What I remember of %s** (%d)\n", of.whom, len(list))
	for _, one := range slices.Backward(list) {
		if from > 0 && one.N > from {
			continue
		}
		if b.Len() > maxPageBytes {
			fmt.Fprintf(&b, "\n\nOlder ones: `/raven memory %slist %d`", of.word, one.N)
			break
		}
		fmt.Fprintf(&b, "\n- `%d` (%s", one.N, formatDay(one.At))
		if by := text.OneLine(one.By); of.word != "" && by != "" {
			b.WriteString(", from " + by)
		}
		b.WriteString("): " + one.Text)
	}
	if len(list) == 0 {
		b.WriteString("\nNothing.")
	}
	if of.word == "" {
		here, err := p.o.Store.Memories(ctx, channelScope(m.Conversation).key)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n\nFor this channel I remember %d: `/raven memory channel`", len(here))
	}
	return b.String() + "\n\n" + usage, nil
}

func (p *Pack) remove(ctx context.Context, of scope, which string) (string, error) {
	if which == "all" {
		list, err := p.o.Store.Memories(ctx, of.key)
		if err == nil {
			err = p.o.Store.DeleteMemories(ctx, of.key)
		}
		return fmt.Sprintf("Removed: all %d that I remembered of %s.", len(list), of.whom), err
	}
	n, err := parseNumber(which)
	if err != nil {
		return "", err
	}
	err = p.o.Store.DeleteMemory(ctx, of.key, n)
	if errors.Is(err, store.ErrNotFound) {
		return "", userError(fmt.Sprintf("Of %s I remember nothing with the number %d.", of.whom, n))
	}
	return fmt.Sprintf("Removed: number %d of what I remember of %s.", n, of.whom), err
}
