package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/bundled"
	"ravenbot/internal/egress"
	"ravenbot/internal/feed"
	"ravenbot/internal/schedule"
	"ravenbot/internal/summary"
)

func scheduleFlags(c *call) {
	jsonFlag(c)
	c.flags.String("tz", "UTC", "the IANA `ZONE` that the schedule is read in")
	c.flags.String("from", "", "the `TIME` (RFC 3339) to begin after; without it: now")
	c.flags.Int("count", 1, "print the next `N` instants")
}

func when(_ context.Context, c *call) error {
	if len(c.args) != 2 || c.args[0] != "next" {
		return misuse("say next EXPR, the expression in quotes")
	}
	zone, err := schedule.LoadZone(c.flags.Lookup("tz").Value.String())
	if err != nil {
		return misuse("%v", err)
	}
	s, err := schedule.Parse(c.args[1], zone)
	if err != nil {
		return misuse("%v", err)
	}
	at := time.Now()
	if from := c.flags.Lookup("from").Value.String(); from != "" {
		if at, err = time.Parse(time.RFC3339, from); err != nil {
			return misuse("--from: %q is no time such as 2026-01-02T15:04:05Z", from)
		}
	}
	count := c.flags.Lookup("count").Value.(flag.Getter).Get().(int)
	if count < 1 {
		return misuse("--count must be 1 or more")
	}
	var list []named
	for range count {
		next, ok := s.Next(at)
		if !ok {
			return fmt.Errorf("%q is not due within 30 years", c.args[1])
		}
		at = next
		if c.json {
			list = append(list, named{next.Format(time.RFC3339)})
			continue
		}
		fmt.Fprintln(c.Out, next.Format(time.RFC3339))
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	return nil
}

// named is an item of a list that has nothing but a name.
type named struct {
	Name string `json:"name"`
}

func summaryFlags(c *call) {
	jsonFlag(c)
	c.flags.String("title", "", "the text's title, `T`: it says what matters in the text")
	c.flags.Int("sentences", 3, "print the `N` main sentences")
}

// maxText is the most that is read of a text to summarize, in bytes.
const maxText = 8 << 20

func summarize(_ context.Context, c *call) error {
	if len(c.args) != 1 {
		return misuse("name one file, or - for standard input")
	}
	text, err := readFile(c, c.args[0], maxText)
	if err != nil {
		return err
	}
	n := c.flags.Lookup("sentences").Value.(flag.Getter).Get().(int)
	if n < 1 {
		return misuse("--sentences must be 1 or more")
	}
	list := []named{}
	for _, s := range summary.Summarize(c.flags.Lookup("title").Value.String(), string(text), n) {
		list = append(list, named{strings.TrimSpace(s)})
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	for _, s := range list {
		fmt.Fprintln(c.Out, s.Name)
	}
	return nil
}

func readFile(c *call, name string, most int64) ([]byte, error) {
	in := io.NopCloser(c.In)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", name, most)
	}
	return data, nil
}

// headers collects repeated --header flags.
type headers http.Header

func (h headers) String() string { return "" }

// Set reads "K: V".
func (h headers) Set(s string) error {
	k, v, ok := strings.Cut(s, ":")
	if !ok {
		return errors.New("want 'Name: value'")
	}
	http.Header(h).Add(strings.TrimSpace(k), strings.TrimSpace(v))
	return nil
}

func feedFlags(c *call) {
	jsonFlag(c)
	c.flags.String("url", "", "the address, `U`, that a file was served from")
	c.flags.Var(headers{}, "header", "a header `'K: V'` that a server would have sent with a file; may be given again")
}

// parsed is what feeds parse prints of one document.
type parsed struct {
	File  string       `json:"file,omitempty"`
	Error string       `json:"error,omitempty"`
	Feed  *feed.Feed   `json:"feed,omitempty"`
	Items *[]feed.Item `json:"items,omitempty"`
}

func feeds(ctx context.Context, c *call) error {
	if len(c.args) < 2 || c.args[0] != "parse" {
		return misuse("say parse and at least one file or address")
	}
	names := c.args[1:]
	fetcher, err := c.fetcher(names)
	if err != nil {
		return err
	}
	var failures int
	for _, name := range names {
		doc, err := c.parseFeed(ctx, fetcher, name)
		out := parsed{Feed: &doc.Feed, Items: &doc.Items}
		if err != nil {
			failures++
			out = parsed{Error: err.Error()}
			if len(names) == 1 || !c.json {
				fmt.Fprintf(c.Err, "%s: %v\n", name, err)
			}
		}
		if len(names) > 1 {
			out.File = name
		}
		if c.json {
			if len(names) == 1 && err != nil {
				continue
			}
			if err := writeJSON(c.Out, out); err != nil {
				return err
			}
			continue
		}
		if err == nil {
			printFeed(c.Out, doc)
		}
	}
	if failures > 0 {
		return fmt.Errorf("%d of %d could not be read as a feed", failures, len(names))
	}
	return nil
}

func isAddress(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "bundled:")
}

// fetcher reads those names that are addresses; nil where none is.
func (c *call) fetcher(names []string) (*feed.Fetcher, error) {
	if !slices.ContainsFunc(names, isAddress) {
		return nil, nil
	}
	private, err := c.allowed()
	if err != nil {
		return nil, err
	}
	out, err := egress.New(egress.Options{AllowPrivateHosts: private, UserAgent: "ravenbot"})
	if err != nil {
		return nil, err
	}
	return feed.NewFetcher(out, nil, feed.Options{Bundled: bundled.Feeds()}), nil
}

func (c *call) parseFeed(ctx context.Context, fetcher *feed.Fetcher, name string) (feed.Document, error) {
	if isAddress(name) {
		res, err := fetcher.Fetch(ctx, name)
		return res.Document, err
	}
	data, err := readFile(c, name, maxText)
	if err != nil {
		return feed.Document{}, err
	}
	h := http.Header(c.flags.Lookup("header").Value.(headers))
	return feed.Parse(data, feed.Hint{URL: c.flags.Lookup("url").Value.String(), ContentType: h.Get("Content-Type"),
		ContentLocation: h.Get("Content-Location")})
}

// allowed are the private hosts that the configuration lets feeds be on. One
// that was not asked for, and may be another program's, need not be in order.
func (c *call) allowed() ([]string, error) {
	cfg, err := c.load()
	switch asked := c.config != c.flags.Lookup("config").DefValue; {
	case err == nil:
		return slices.Concat(cfg.Egress.AllowPrivateHosts, cfg.Feeds.AllowPrivateHosts), nil
	case asked:
		return nil, err
	case !errors.Is(err, errNoConfig):
		fmt.Fprintf(c.Err, "warning: %s is not used, for it is not in order; ravenbot config check tells more\n", c.config)
	}
	return nil, nil
}

func printFeed(w io.Writer, doc feed.Document) {
	fmt.Fprintf(w, "%s\n%s\n", doc.Feed.Heading(), doc.Feed.Link)
	for _, i := range doc.Items {
		date := ""
		if !i.Time().IsZero() {
			date = i.Time().Format("2006-01-02 ")
		}
		fmt.Fprintf(w, "- %s%s\n  %s\n", date, i.Heading(), i.Link)
	}
}
