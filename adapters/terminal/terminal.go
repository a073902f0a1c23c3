// Package terminal is a conversation on standard input and output. It shows a web room, so that people can continue a
// terminal conversation in the browser. The caller passes the room as a function. Only answers go to standard output.
package terminal

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// Room is the name of the web room that the terminal shows.
const Room = "terminal"

// Ask says something in the room and returns the answer; seen is called with the
// states of tool calls meanwhile.
type Ask func(ctx context.Context, text string, seen func(chat.ToolRun)) (chat.Draft, error)

// Terminal is the streams of a conversation. What is no answer, such as running tools, is
// written to Notes.
type Terminal struct {
	In    io.Reader
	Out   io.Writer
	Notes io.Writer
}

// Once asks one thing and writes the answer.
func (t Terminal) Once(ctx context.Context, ask Ask, text string) (chat.Draft, error) {
	d, err := ask(ctx, text, func(r chat.ToolRun) {
		if r.State != chat.Running {
			fmt.Fprintf(t.Notes, "  %s %s\n", runMark(r.State), r.Name)
		}
	})
	if err != nil {
		return d, err
	}
	fmt.Fprintln(t.Out, Text(d))
	return d, nil
}

// runMark returns the sign before a call that has ended.
func runMark(s chat.RunState) string {
	if s == chat.Failed {
		return "✗"
	}
	return "✓"
}

// Talk asks line by line until the input ends, or a line says exit.
func (t Terminal) Talk(ctx context.Context, ask Ask) error {
	fmt.Fprintln(t.Notes, "Say something; /help tells what there is, exit ends.")
	lines := bufio.NewScanner(t.In)
	lines.Buffer(make([]byte, 0, 4096), 1<<20)
	for {
		fmt.Fprint(t.Notes, "> ")
		if !lines.Scan() {
			fmt.Fprintln(t.Notes)
			return lines.Err()
		}
		text := strings.TrimSpace(lines.Text())
		switch text {
		case "":
			continue
		case "exit", "quit":
			return nil
		}
		if _, err := t.Once(ctx, ask, text); err != nil {
			return err
		}
	}
}

// escapes matches code, in which a backslash is one, and escaped characters of Markdown.
var escapes = text.Pattern("(?s)```.*?```|`[^`\n]*`|\\\\[\\\\*_`\\[\\]<~|#]")

// unescape returns Markdown without the backslashes that only a reader of Markdown needs.
func unescape(markdown string) string {
	return escapes().ReplaceAllStringFunc(markdown, func(s string) string { return strings.TrimPrefix(s, `\`) })
}

// Text returns a draft as a terminal shows it.
func Text(d chat.Draft) string {
	var b strings.Builder
	b.WriteString(unescape(strings.TrimSpace(d.Text)))
	for _, c := range d.Cards {
		notes := append([]string{c.Source}, c.Notes()...)
		fmt.Fprintf(&b, "\n\n- %s%s (%s)\n  %s", c.Label(), c.Title, strings.Join(notes, ", "), c.URL)
		if c.Text != "" {
			b.WriteString("\n  " + c.Text)
		}
		for _, a := range c.Also {
			b.WriteString("\n  also: " + a.Title + " " + a.URL)
		}
	}
	if d.Footer != "" {
		b.WriteString("\n\n(" + d.Footer + ")")
	}
	return b.String()
}
