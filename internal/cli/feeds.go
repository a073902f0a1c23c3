package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ravenbot/internal/news/bundled"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/ops/egress"
)

// headers collects the values of repeated --header flags.
type headers http.Header

// String returns "", which pflag takes as the default and does not print in the help.
func (h headers) String() string { return "" }

// Type names the kind of value.
func (h headers) Type() string { return "header" }

// Set reads "K: V".
func (h headers) Set(s string) error {
	k, v, ok := strings.Cut(s, ":")
	if !ok {
		return errors.New("want 'Name: value'")
	}
	http.Header(h).Add(strings.TrimSpace(k), strings.TrimSpace(v))
	return nil
}

func parseFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("url", "", "the address, `U`, that a file was served from")
	c.flags.Var(headers{}, "header", "a header `'K: V'` that a server would have sent with a file; may be given again")
}

func importFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("digest", "", "the digest, by its `NAME`, that the running daemon is to read the feeds for")
	c.flags.String("post", "", "with --digest: create the digest, posted to this `ADDRESS`")
	c.flags.String("schedule", "every day at 8:00", "with --post: when it is `DUE`")
	c.flags.String("tz", "UTC", "with --post: the IANA `ZONE` of the schedule")
}

// parseOutput is what feeds parse prints of one document.
type parseOutput struct {
	File  string       `json:"file,omitempty"`
	Error string       `json:"error,omitempty"`
	Feed  *feed.Feed   `json:"feed,omitempty"`
	Items *[]feed.Item `json:"items,omitempty"`
}

// parseFeeds prints what files and addresses hold as feeds. One that cannot be read does not keep it from the others;
// they are counted in the error at the end.
func parseFeeds(ctx context.Context, c *invocation) error {
	names := c.args
	var fetcher *feed.Fetcher
	// Files alone need no configuration, and no network.
	if slices.ContainsFunc(names, isAddress) {
		var err error
		if fetcher, err = c.newFetcher(); err != nil {
			return err
		}
	}
	var failures int
	for _, name := range names {
		doc, err := c.parseFeed(ctx, fetcher, name)
		out := parseOutput{Feed: &doc.Feed, Items: &doc.Items}
		if err != nil {
			failures++
			out = parseOutput{Error: err.Error()}
			// With several files the JSON line has the error.
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

// isAddress reports whether an argument is an address, or a feed that came with the bot. Everything else is a file.
func isAddress(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "bundled:")
}

// newFetcher returns a fetcher that reads feeds as the bot does, with the same guard against private
// addresses.
func (c *invocation) newFetcher() (*feed.Fetcher, error) {
	cfg, err := c.configForAddresses()
	if err != nil {
		return nil, err
	}
	private := slices.Concat(cfg.Egress.AllowPrivateHosts, cfg.Feeds.AllowPrivateHosts)
	out, err := egress.New(egress.Options{AllowPrivateHosts: private, UserAgent: egress.UserAgent})
	if err != nil {
		return nil, err
	}
	return feed.NewFetcher(out, nil, feed.Options{Bundled: bundled.Feeds()}), nil
}

// parseFeed reads a feed from an address, or else from a file or with - from standard input, with the headers of the
// command line. fetcher may be nil when name is a file.
func (c *invocation) parseFeed(ctx context.Context, fetcher *feed.Fetcher, name string) (feed.Document, error) {
	if isAddress(name) {
		res, err := fetcher.Fetch(ctx, name)
		return res.Document, err
	}
	data, err := readFile(c, name, maxText)
	if err != nil {
		return feed.Document{}, err
	}
	h := http.Header(c.flags.Lookup("header").Value.(headers))
	return feed.Parse(data, feed.Hint{URL: c.flagText("url"), ContentType: h.Get("Content-Type"),
		ContentLocation: h.Get("Content-Location")})
}

// configForAddresses returns the configuration that says which private hosts may be reached. A default config.json that
// is missing or wrong is ignored, because it may belong to another program; the empty configuration is returned then.
func (c *invocation) configForAddresses() (*config.Config, error) {
	cfg, err := c.loadConfig()
	switch asked := c.config != c.flags.Lookup("config").DefValue; {
	case err == nil:
		return cfg, nil
	case asked:
		return nil, err
	case !errors.Is(err, errNoConfig):
		fmt.Fprintf(c.Err, "warning: %s is ignored because it is not valid; ravenbot config check shows why\n", c.config)
	}
	return &config.Config{}, nil
}

// printFeed prints a feed for people.
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

// discoveredFeed is a feed of a page, as a list item.
type discoveredFeed struct {
	Name string `json:"name"` // the address
	feed.Link
}

// discoverFeeds prints the feeds of a page.
func discoverFeeds(ctx context.Context, c *invocation) error {
	fetcher, err := c.newFetcher()
	if err != nil {
		return err
	}
	found, err := fetcher.Find(ctx, c.args[0])
	if err != nil {
		return err
	}
	list := []discoveredFeed{}
	for _, l := range found {
		list = append(list, discoveredFeed{l.URL, l})
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	for _, l := range list {
		fmt.Fprintf(c.Out, "%s\n  %s\n", l.URL, strings.TrimSpace(l.Title+" ("+l.Type+")"))
	}
	return nil
}

// outlineItem is a feed of an OPML file, as a list item.
type outlineItem struct {
	Name   string   `json:"name"`
	URL    string   `json:"url"`
	Page   string   `json:"page,omitempty"`
	Folder []string `json:"folder"`
}

// importFeeds adds the feeds of an OPML file to a digest, or prints them as an entry of the configuration. A
// feed in several folders is taken once.
func importFeeds(ctx context.Context, c *invocation) error {
	name := c.args[0]
	data, err := readFile(c, name, maxText)
	if err != nil {
		return err
	}
	outlines, err := feed.ReadOPML(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	list, known := []outlineItem{}, map[string]bool{}
	for _, o := range outlines {
		// Readers export the same feed with and without a trailing slash or tracking parameters.
		if key := feed.CanonicalURL(o.URL); !known[key] {
			known[key] = true
			list = append(list, outlineItem{o.Title, o.URL, o.Page, append([]string{}, o.Folder...)})
		}
	}
	if c.flagText("digest") != "" {
		return importIntoDigest(ctx, c, list)
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	return printImport(c, list)
}

// importIntoDigest has the running daemon add feeds to a digest, or create a digest of them.
func importIntoDigest(ctx context.Context, c *invocation, list []outlineItem) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	d, err := findDaemon(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w; it keeps the digests that are not in config.json: start it with ravenbot run", err)
	}
	addresses := []string{}
	for _, o := range list {
		addresses = append(addresses, o.URL)
	}
	name, to := c.flagText("digest"), c.flagText("post")
	var out struct {
		digest.Info
		Added int `json:"added"`
	}
	if to == "" {
		err = d.requestJSON(ctx, http.MethodPost, "/api/v1/digests/"+url.PathEscape(name)+"/feeds",
			map[string]any{"feeds": addresses}, &out)
	} else {
		err = d.requestJSON(ctx, http.MethodPost, "/api/v1/digests", map[string]any{
			"name":     name,
			"feeds":    addresses,
			"post":     []string{to},
			"schedule": c.flagText("schedule"),
			"timezone": c.flagText("tz"),
		}, &out)
		out.Added = len(out.Feeds)
	}
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, out)
	}
	_, err = fmt.Fprintf(c.Out, "%s: %d feeds added, %d in all.\n", name, out.Added, len(out.Feeds))
	return err
}

// printImport prints the feeds as the key of a digest in config.json.
func printImport(c *invocation, list []outlineItem) error {
	fmt.Fprintf(c.Err, "%d feeds; write them in a digest of config.json like this:\n", len(list))
	fmt.Fprintln(c.Out, `"feeds": [`)
	for i, o := range list {
		address, err := json.Marshal(o.URL)
		if err != nil {
			return err
		}
		comma := ","
		if i == len(list)-1 {
			comma = ""
		}
		fmt.Fprintf(c.Out, "  %s%s // %s\n", address, comma, strings.Join(append(o.Folder, o.Name), " / "))
	}
	_, err := fmt.Fprintln(c.Out, "]")
	return err
}

// storedDigestFeeds returns the feeds of the digests that the bot keeps beside config.json. Where they cannot be read,
// it prints a warning and returns none.
func (c *invocation) storedDigestFeeds(ctx context.Context, cfg *config.Config) (list []feed.Outline) {
	digests, err := c.loadDigests(ctx, cfg)
	if err != nil {
		fmt.Fprintf(c.Err, "warning: digests that are not in config.json are skipped: %v\n", err)
	}
	for _, i := range digests {
		for _, address := range i.Feeds {
			// Those of the configuration are in the list already.
			if i.Source != digest.FromConfig && isAddress(address) && !strings.HasPrefix(address, "bundled:") {
				list = append(list, feed.Outline{URL: address, Folder: []string{i.Name}})
			}
		}
	}
	return list
}

// exportFeeds writes the feeds of all digests as OPML, one folder a digest. It leaves out those whose address holds a
// secret and those that come with the bot.
func exportFeeds(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	list := []feed.Outline{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Digests)) {
		for _, f := range cfg.Digests[name].Feeds {
			switch address := f.URL.Reveal(); {
			// String masks secrets: where it differs, the address holds one, and an export is often published.
			case address != f.URL.String():
				fmt.Fprintf(c.Err, "skipped, because it contains a secret: %s of digest %s\n", f.URL, name)
			case strings.HasPrefix(address, "bundled:"):
				fmt.Fprintf(c.Err, "skipped, because it comes with the bot: %s of digest %s\n", address, name)
			default:
				list = append(list, feed.Outline{URL: address, Folder: []string{name}})
			}
		}
	}
	list = append(list, c.storedDigestFeeds(ctx, cfg)...)
	if !c.json {
		return feed.WriteOPML(c.Out, "ravenbot", list)
	}
	items := []outlineItem{}
	for _, o := range list {
		items = append(items, outlineItem{Name: o.URL, URL: o.URL, Folder: o.Folder})
	}
	return writeItems(c.Out, items)
}
