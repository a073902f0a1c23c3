package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

// Watch is the source that a job watches: a page, a feed or a tool. The job posts the changes since the last check.
type Watch struct {
	URL       string          `json:"url,omitempty"`
	Feed      string          `json:"feed,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// For are words, or a /regular expression/, that a line must have to count; empty: all lines count.
	For string `json:"for,omitempty"`
}

// sight is what a job saw when it last looked.
type sight struct {
	Lines    []uint32 `json:"lines"` // hashes of the lines that count, sorted
	Failures int      `json:"failures,omitempty"`
}

// Limits of watching.
const (
	maxWatchedLines = 2000
	maxShownLines   = 5
	maxLineChars    = 300
	// failuresTold is the number of consecutive failed checks after which the place gets one notice.
	failuresTold = 5
	lookTimeout  = time.Minute
)

// Calls makes the calls by which jobs look, as invoke.UnattendedCalls does.
type Calls interface {
	Call(ctx context.Context, caller tool.Caller, name string, args json.RawMessage) (tool.Result, error)
}

// check returns an error where the job cannot look.
func (w Watch) check() error {
	named := slices.DeleteFunc([]string{w.URL, w.Feed, w.Tool}, func(s string) bool { return s == "" })
	if len(named) != 1 {
		return errors.New("watch names a url, a feed or a tool")
	}
	if address := cmp.Or(w.URL, w.Feed); address != "" {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("%.100q is not an address: want https://…", address)
		}
	}
	if len(w.Arguments) > 0 && (w.Tool == "" || !json.Valid(w.Arguments)) || len(w.Arguments) > maxTextBytes ||
		len(w.URL)+len(w.Feed)+len(w.Tool)+len(w.For) > maxTextBytes {
		return errors.New("the arguments go with a tool, and have to be a JSON object of reasonable length")
	}
	_, err := w.matcher()
	return err
}

// matcher returns what tells whether a line counts.
func (w Watch) matcher() (func(line string) bool, error) {
	if words, ok := strings.CutPrefix(w.For, "/"); ok && len(words) > 1 && strings.HasSuffix(words, "/") {
		re, err := regexp.Compile("(?i)" + strings.TrimSuffix(words, "/"))
		if err != nil {
			return nil, fmt.Errorf("%q is not a regular expression: %w", w.For, err)
		}
		return re.MatchString, nil
	}
	words := strings.ToLower(w.For)
	return func(line string) bool { return strings.Contains(strings.ToLower(line), words) }, nil
}

// call returns the tool that looks, and its arguments.
func (w Watch) call() (name string, args json.RawMessage) {
	address := cmp.Or(w.URL, w.Feed)
	if address == "" {
		if len(w.Arguments) == 0 {
			return w.Tool, json.RawMessage("{}")
		}
		return w.Tool, w.Arguments
	}
	args, err := json.Marshal(map[string]string{"url": address})
	if err != nil {
		panic(fmt.Errorf("write an address as JSON: %w", err)) // a string always is
	}
	if w.Feed != "" {
		return "feeds_fetch", args
	}
	return "web_fetch", args
}

// title returns the name of the source, for readers.
func (w Watch) title() string {
	title := "the tool " + text.EscapeMarkdown(w.Tool)
	if address := cmp.Or(w.URL, w.Feed); address != "" {
		title = "<" + address + ">"
	}
	if w.For != "" {
		title += " for “" + text.EscapeMarkdown(text.OneLine(w.For)) + "”"
	}
	return title
}

// look checks the source once. It returns the post, without text if there is no change, and the contents.
func (s *Service) look(ctx context.Context, j Job) (chat.Draft, *sight) {
	was := j.Seen
	if was == nil {
		was = &sight{}
	}
	lines, err := s.readWatched(ctx, j)
	if err != nil {
		s.o.Log.Warn("failed to read a watched place", "job", j.ID, "failures", was.Failures+1, "error", err)
		d := chat.Draft{}
		if was.Failures+1 == failuresTold {
			d = chat.Draft{Failed: true, Text: fmt.Sprintf("I could not look at %s the last %d times. "+
				"I will go on trying. The last reason: %s", j.Watch.title(), failuresTold,
				text.EscapeMarkdown(text.Shorten(text.OneLine(err.Error()), maxShownChars)))}
		}
		// Keep the previous contents, or the next successful check would count as the first one.
		return d, &sight{Lines: was.Lines, Failures: was.Failures + 1}
	}
	// Not nil: a place that was empty at the first look has been seen, and what comes there later is new.
	now := &sight{Lines: []uint32{}}
	var fresh []string
	for _, line := range lines {
		// Hashes keep the record small; of 2,000 lines two have the same once in two thousand places.
		h := fnv.New32a()
		_, _ = h.Write([]byte(line)) // a hash takes everything
		if _, known := slices.BinarySearch(was.Lines, h.Sum32()); !known {
			fresh = append(fresh, line)
		}
		now.Lines = append(now.Lines, h.Sum32())
	}
	slices.Sort(now.Lines)
	now.Lines = slices.Compact(now.Lines)
	// At the first check, contents are not new, but search results are.
	if was.Lines == nil && j.Watch.For == "" || len(fresh) == 0 {
		return chat.Draft{}, now
	}
	from := origin.Foreign("a watch of " + cmp.Or(j.Watch.URL, j.Watch.Feed, j.Watch.Tool))
	return chat.Draft{Text: describeFresh(j, fresh), Origin: &from, News: true}, now
}

// readWatched returns at most maxWatchedLines relevant lines of the source. It calls the tool in the name of the job's
// author, unattended, and fails if the call fails, is refused or takes longer than lookTimeout.
func (s *Service) readWatched(ctx context.Context, j Job) ([]string, error) {
	counts, err := j.Watch.matcher()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	address := cmp.Or(j.Watch.URL, j.Watch.Feed)
	caller := tool.Caller{
		Conversation: j.taskAddress(),
		User:         j.By,
		Granted:      j.Tools,
		// The author of the job named the address literally.
		IsNamed: func(u string) bool { return u == address },
	}
	name, args := j.Watch.call()
	result, err := s.o.Calls.Call(ctx, caller, name, args)
	if err != nil {
		return nil, err
	}
	if result.IsError {
		return nil, errors.New(text.Shorten(text.OneLine(result.Text), maxShownChars))
	}
	var lines []string
	for line := range strings.Lines(payloadText([]byte(result.Text))) {
		if line = text.OneLine(line); line != "" && counts(line) && len(lines) < maxWatchedLines {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// describeFresh returns the post about lines that are new. They are text of others and shown as it is.
func describeFresh(j Job, fresh []string) string {
	head := "New at " + j.Watch.title()
	if j.Text != "" {
		head = text.EscapeMarkdown(j.Text) + " (" + j.Watch.title() + ")"
	}
	shown := []string{head, ""}
	for n, line := range fresh {
		if n == maxShownLines {
			shown = append(shown, fmt.Sprintf("> … and %d more lines", len(fresh)-n))
			break
		}
		shown = append(shown, "> "+text.EscapeMarkdown(text.Shorten(line, maxLineChars)))
	}
	return strings.Join(shown, "\n")
}
