package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"ravenbot/adapters/terminal"
	"ravenbot/internal/core/chat"
)

// errAnswerFailed ends chat with status 1 when the only answer asked for was an error.
var errAnswerFailed = errors.New("the answer was an error")

// runChat answers once or holds a conversation, through the daemon where one runs. Without one it runs the bot itself
// until the conversation ends, without listener, platforms and scheduled digests, so that nobody else sees it.
func runChat(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	d, err := findDaemon(ctx, cfg)
	if err == nil {
		return converse(ctx, c, d.sendMessage)
	}
	if !errors.Is(err, errNoDaemon) {
		return err
	}
	a, err := openLocal(c, cfg)
	if err != nil {
		return err
	}
	// The bot runs beside the conversation. Each ends the other: its end cancels work, and stop ends it.
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		defer stop() // without the bot nobody would answer
		ended <- a.Run(work)
	}()
	err = converse(work, c, func(ctx context.Context, text string, seen func(chat.ToolRun)) (chat.Draft, error) {
		for e, err := range a.Ask(ctx, terminal.Room, chat.Operator(), text) {
			switch {
			case err != nil:
				return chat.Draft{}, err
			case e.Progress != nil && e.Progress.Tool != nil:
				seen(*e.Progress.Tool)
			case e.Entry != nil && e.Entry.Draft != nil:
				return *e.Entry.Draft, nil
			}
		}
		return chat.Draft{}, errors.New("the bot ended without an answer")
	})
	stop()
	// The store may be closed only after Run has returned.
	if broke := <-ended; broke != nil {
		err = broke
	} else if err != nil && ctx.Err() != nil {
		err = ctx.Err() // not what the bot says of ending
	}
	return errors.Join(err, a.Close())
}

// converse asks once when there are arguments, and otherwise reads questions until the input ends.
func converse(ctx context.Context, c *invocation, ask terminal.Ask) error {
	t := terminal.Terminal{In: interruptibleReader{ctx, c.In}, Out: c.Out, Notes: c.Err}
	if len(c.args) == 0 {
		if c.json {
			return usageErrorf("--json prints one answer: add TEXT")
		}
		return t.Talk(ctx, ask)
	}
	if c.json {
		// JSON is the only output; the answer must not be printed twice.
		t.Out = io.Discard
	}
	d, err := t.Once(ctx, ask, strings.Join(c.args, " "))
	if err != nil {
		return err
	}
	if c.json {
		if err := writeJSON(c.Out, chatOutput{d.Text, d.Cards, d.Tools, d.Footer, d.Failed}); err != nil {
			return err
		}
	}
	if d.Failed {
		return errAnswerFailed
	}
	return nil
}

// chatOutput is what chat --json prints.
type chatOutput struct {
	Text   string         `json:"text"` // Markdown
	Cards  []chat.Card    `json:"cards,omitempty"`
	Tools  []chat.ToolRun `json:"tools,omitempty"`
	Footer string         `json:"footer,omitempty"`
	Failed bool           `json:"failed,omitempty"`
}

// interruptibleReader reads until ctx ends. A read of a terminal cannot be interrupted: the pending one is
// abandoned, because the process is about to end.
type interruptibleReader struct {
	ctx context.Context
	in  io.Reader
}

// Read returns io.EOF once the context has ended, also while a read is pending. What that read returns later is lost.
func (r interruptibleReader) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	own := make([]byte, len(p)) // p is the caller's again once this returns
	got := make(chan result, 1)
	go func() {
		n, err := r.in.Read(own)
		got <- result{n, err}
	}()
	select {
	case g := <-got:
		return copy(p, own[:g.n]), g.err
	case <-r.ctx.Done():
		return 0, io.EOF
	}
}

// sendMessage sends text to the terminal's web room of the daemon and returns the answer, which comes as an event
// stream. It calls seen for each state of a tool call. Where the stream ends without an answer, it returns an error;
// the daemon may still be answering then.
func (c *client) sendMessage(ctx context.Context, text string, seen func(chat.ToolRun)) (chat.Draft, error) {
	var d chat.Draft
	path := "/api/v1/conversations/" + url.PathEscape("web:/"+terminal.Room) + "/messages"
	res, err := c.do(ctx, http.MethodPost, path, map[string]string{"text": text})
	if err != nil {
		return d, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	// An answer is one line. The default limit of 64 KiB is too small for one with large tool results.
	lines.Buffer(make([]byte, 0, 64<<10), 16<<20)
	event := ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event:"); ok {
			event = strings.TrimSpace(name)
			continue
		}
		data, ok := strings.CutPrefix(lines.Text(), "data:")
		if !ok {
			continue
		}
		switch event {
		// Unknown events are skipped, so that a newer daemon may send more.
		case "tool":
			var r chat.ToolRun
			if err := json.Unmarshal([]byte(data), &r); err == nil {
				seen(r)
			}
		case "answer":
			return d, json.Unmarshal([]byte(data), &d)
		case "error":
			if err := parseAPIError([]byte(data)); err != nil {
				return d, err
			}
			return d, fmt.Errorf("the daemon reported: %.200s", strings.TrimSpace(data))
		}
	}
	return d, errors.Join(errors.New("the daemon's answer was cut off"), lines.Err())
}
