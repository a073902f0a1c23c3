package memory

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

const usage = "`/raven memory` shows what I remember of you, `/raven memory search WORDS` finds some of it, " +
	"`edit N NEW TEXT` changes and `delete N` or `delete all` removes it, `export` sends it as a file; " +
	"with `channel` before that, what I remember for this channel " +
	"(administrators remove it). To have something remembered, tell me so."

// maxPageBytes is the size of a list after which the rest is left to the next page.
const maxPageBytes = 6000

// Command answers /raven memory [channel] [list [N] | search WORDS | edit N TEXT | delete N | delete all | export].
func (p *Pack) Command(ctx context.Context, m chat.Message) chat.Draft {
	of, words := userScope(m.Conversation.Platform, m.Author.ID), strings.Fields(m.Text)
	if len(words) > 0 && (strings.EqualFold(words[0], "channel") || strings.EqualFold(words[0], "me")) {
		if strings.EqualFold(words[0], "channel") {
			of = channelScope(m.Conversation)
		}
		words = words[1:]
	}
	answer, err := p.carryOut(ctx, m, of, words)
	var said userError
	switch {
	case errors.As(err, &said):
		return chat.Draft{Ephemeral: true, Failed: true, Text: string(said)}
	case err != nil:
		p.o.Log.Error("failed to read or delete notes", "scope", of.key, "error", err)
		return chat.Draft{
			Ephemeral: true,
			Failed:    true,
			Text:      "That failed; the bot's log has the reason.",
		}
	}
	answer.Ephemeral = true
	return answer
}

// carryOut returns the answer to the words of a command, without those that name the scope.
func (p *Pack) carryOut(ctx context.Context, m chat.Message, of scope, words []string) (d chat.Draft, err error) {
	verb, rest := cutVerb(words)
	switch {
	case verb == "" || verb == "list" && len(rest) < 2:
		d.Text, err = p.list(ctx, m, of, rest)
	case verb == "search" && len(rest) > 0:
		d.Text, err = p.listFound(ctx, of, strings.Join(rest, " "))
	case verb == "edit" && len(rest) > 1:
		d.Text, err = p.edit(ctx, m, of, rest[0], strings.Join(rest[1:], " "))
	case verb == "export" && len(rest) == 0:
		return p.export(ctx, of)
	case verb == "delete" && len(rest) == 1 && of.isChannel() && !p.o.Manages(m):
		err = userError("Only administrators remove notes of a channel.")
	case verb == "delete" && len(rest) == 1:
		d.Text, err = p.remove(ctx, of, rest[0])
	default:
		err = userError("That was not understood. " + usage)
	}
	return d, err
}

// userError is an error that is shown to the user as it is.
type userError string

func (r userError) Error() string { return string(r) }

// BadInput marks the error as a mistake of the caller.
func (userError) BadInput() bool { return true }

// cutVerb returns the first word in lower case, and those after it.
func cutVerb(words []string) (verb string, rest []string) {
	if len(words) == 0 {
		return "", nil
	}
	return strings.ToLower(words[0]), words[1:]
}

// parseNumber returns the number of a note; 0 is not one.
func parseNumber(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, userError(fmt.Sprintf("%.40q is not the number of a note. %s", s, usage))
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
	notes, err := p.notes(ctx, of)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "**What I remember of %s** (%d)\n", of.whom, len(notes))
	for _, n := range notes {
		if from > 0 && n.N > from {
			continue
		}
		if b.Len() > maxPageBytes {
			fmt.Fprintf(&b, "\n\nOlder ones: `/raven memory %slist %d`", of.word, n.N)
			break
		}
		b.WriteString(listLine(n))
	}
	if len(notes) == 0 {
		b.WriteString("\nNothing.")
	}
	if !of.isChannel() {
		here, err := p.o.Store.Memories(ctx, channelScope(m.Conversation).key)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n\nFor this channel I remember %d: `/raven memory channel`", len(here))
	}
	return b.String() + "\n\n" + usage, nil
}

// listLine returns a note as a line of a list.
func listLine(n hit) string {
	from := ""
	if by := text.OneLine(n.By); n.of.isChannel() && by != "" {
		from = ", from " + by
	}
	if n.Origin.IsForeign() {
		from += ", after reading " + text.OneLine(strings.Join(n.Origin.Taint, ", "))
	}
	return fmt.Sprintf("\n- `%d` (%s%s): %s", n.N, formatDay(n.At), from, n.Text)
}

// listFound returns a list of the notes of a scope that fit a query, the best first.
func (p *Pack) listFound(ctx context.Context, of scope, query string) (string, error) {
	notes, err := p.notes(ctx, of)
	if err != nil {
		return "", err
	}
	found := p.find(ctx, notes, query)
	if len(found) == 0 {
		return fmt.Sprintf("Of %s I remember nothing that fits these words.", of.whom), nil
	}
	answer := fmt.Sprintf("**What I remember of %s and fits** (%d)\n", of.whom, len(found))
	for _, n := range found[:min(len(found), maxHits)] {
		answer += listLine(n)
	}
	return answer, nil
}

// edit changes the text of a note.
func (p *Pack) edit(ctx context.Context, m chat.Message, of scope, which, words string) (string, error) {
	n, err := parseNumber(which)
	if err != nil {
		return "", err
	}
	note := text.OneLine(words)
	if n := utf8.RuneCountInString(note); n == 0 || n > maxNoteChars {
		return "", userError(fmt.Sprintf("A note has 1 to %d characters; this one has %d.", maxNoteChars, n))
	}
	before, kept, err := p.replace(ctx, of, n, note, m, origin.User(m.Conversation.Platform, m.Author.ID))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return "", noSuchNote(of, n)
	case err != nil:
		return "", err
	case kept.N != n:
		return fmt.Sprintf("Removed: number %d, because number %d says the same.", n, kept.N), nil
	}
	return fmt.Sprintf("Changed: number %d of what I remember of %s now says “%s” instead of “%s”.",
		n, of.whom, kept.Text, before.Text), nil
}

// export returns the notes of a scope as a file.
func (p *Pack) export(ctx context.Context, of scope) (chat.Draft, error) {
	notes, err := p.notes(ctx, of)
	if err != nil || len(notes) == 0 {
		return chat.Draft{Text: fmt.Sprintf("Of %s I remember nothing.", of.whom)}, err
	}
	var b strings.Builder
	for _, n := range notes {
		fmt.Fprintf(&b, "%d\t%s\t%s\t%s\n", n.N, n.At.UTC().Format("2006-01-02T15:04:05Z"), text.OneLine(n.By), n.Text)
	}
	return chat.Draft{
		Text: fmt.Sprintf("All %d that I remember of %s: number, time, from whom, text.", len(notes), of.whom),
		Files: []chat.File{{
			Name: "memory.tsv",
			Type: "text/tab-separated-values",
			Size: int64(b.Len()),
			Data: []byte(b.String()),
		}},
	}, nil
}

// remove deletes one note of a scope by its number, or "all", and returns what whoever asked is
// told.
func (p *Pack) remove(ctx context.Context, of scope, which string) (string, error) {
	if strings.EqualFold(which, "all") {
		list, err := p.o.Store.Memories(ctx, of.key)
		if err == nil {
			err = p.forget(ctx, of, p.o.Store.DeleteMemories(ctx, of.key))
		}
		return fmt.Sprintf("Removed: all %d that I remembered of %s.", len(list), of.whom), err
	}
	n, err := parseNumber(which)
	if err != nil {
		return "", err
	}
	err = p.forget(ctx, of, p.o.Store.DeleteMemory(ctx, of.key, n))
	if errors.Is(err, store.ErrNotFound) {
		return "", noSuchNote(of, n)
	}
	return fmt.Sprintf("Removed: number %d of what I remember of %s.", n, of.whom), err
}

// noSuchNote returns the error of a number that no note of a scope has.
func noSuchNote(of scope, n uint64) error {
	return userError(fmt.Sprintf("Of %s I remember nothing with the number %d.", of.whom, n))
}
