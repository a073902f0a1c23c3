package digest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/core/text"
	"ravenbot/internal/news/schedule"
)

// OnNew is the schedule of a digest that posts items as they come.
const OnNew = "on-new"

// The styles in which a digest is written.
const (
	Brief   = "brief"   // a summary above cards
	Bullets = "bullets" // a sentence an item
	Topics  = "topics"  // the same, grouped
	Titles  = "titles"  // the titles alone
	Deep    = "deep"    // one story, explained
	Weekly  = "weekly"  // what was liked of the posts of other digests
)

// Where a digest comes from. Those of the configuration are changed there alone.
const (
	FromConfig = "config"
	FromChat   = "chat"
	FromAPI    = "api"
)

// Plan defines a digest. Plans that were made in chat or through the API are stored as JSON.
type Plan struct {
	Name      string   `json:"name"`
	Schedule  string   `json:"schedule"` // what schedule.Parse reads, or OnNew
	Timezone  string   `json:"timezone,omitempty"`
	Feeds     []Feed   `json:"feeds,omitempty"`
	Channels  []string `json:"channels,omitempty"` // addresses; without any source Prompt is an agent's task
	Hooks     []string `json:"-"`                  // webhooks whose events it posts; of the configuration alone
	Post      []string `json:"post"`               // addresses
	Email     []string `json:"email,omitempty"`    // mailboxes that get it, too
	MaxItems  int      `json:"maxItems,omitempty"`
	MaxAge    Duration `json:"maxAge,omitempty"`    // 0: items of any age, which wait defaultWait for a place
	CatchUp   string   `json:"catchUp,omitempty"`   // once (or empty), skip
	WhenEmpty string   `json:"whenEmpty,omitempty"` // skip (or empty), say
	Agent     string   `json:"agent,omitempty"`
	Prompt    string   `json:"prompt,omitempty"`
	Style     string   `json:"style,omitempty"`
	Language  string   `json:"language,omitempty"`
	MaxTokens int      `json:"maxTokens,omitempty"` // of one run; 0: no cap
	Tools     []string `json:"tools,omitempty"`     // that its task may use without an approval
	Teasers   bool     `json:"teasers,omitempty"`   // items are taken as feeds give them, without their pages
	Filters   []string `json:"filters,omitempty"`
	Ping      []string `json:"ping,omitempty"`    // who is notified of a post: role:ID or user:ID
	Tags      []string `json:"tags,omitempty"`    // of a post in a forum
	Adverts   bool     `json:"adverts,omitempty"` // advertisements are posted, too
	// Kinds are how kinds of items are treated that are seldom news: drop, low or normal. Those not named are low.
	Kinds map[string]string `json:"kinds,omitempty"`

	Source string    `json:"source"`
	By     chat.User `json:"by,omitzero"`      // who made it in chat
	On     string    `json:"on,omitempty"`     // the platform on which
	At     time.Time `json:"at,omitzero"`      // when it was made or changed last
	Paused bool      `json:"paused,omitempty"` // kept beside the plan for those of the configuration
	// Origin says whose words the turn had read in which a model planned it.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Feed is a feed of a plan. In JSON it is an address, or {"url","mergeDuplicates","weight","pin","mute"}. URL may hold
// a secret, such as a token in its query; logs and readers see displayURL.
type Feed struct {
	URL     string
	Shown   string  // the address without secrets; empty: as URL
	NoMerge bool    // its items are put together with no others
	Weight  float64 // how many feeds it counts as where places are shared out; 0: one
	Pin     bool    // its items come first
	Mute    bool    // its items are not posted
}

// feedJSON is a Feed in JSON where it is more than an address.
type feedJSON struct {
	URL    string  `json:"url"`
	Merge  *bool   `json:"mergeDuplicates,omitempty"`
	Weight float64 `json:"weight,omitempty"`
	Pin    bool    `json:"pin,omitempty"`
	Mute   bool    `json:"mute,omitempty"`
}

// MarshalJSON writes the address with its secrets, which fetching needs.
func (f Feed) MarshalJSON() ([]byte, error) {
	if f == (Feed{URL: f.URL, Shown: f.Shown}) {
		return json.Marshal(f.URL)
	}
	long := feedJSON{URL: f.URL, Weight: f.Weight, Pin: f.Pin, Mute: f.Mute}
	if f.NoMerge {
		long.Merge = new(bool)
	}
	return json.Marshal(long)
}

// UnmarshalJSON reads both forms.
func (f *Feed) UnmarshalJSON(data []byte) error {
	var long feedJSON
	err := json.Unmarshal(data, &long.URL)
	if err != nil {
		err = json.Unmarshal(data, &long)
	}
	*f = Feed{
		URL:     long.URL,
		NoMerge: long.Merge != nil && !*long.Merge,
		Weight:  long.Weight,
		Pin:     long.Pin,
		Mute:    long.Mute,
	}
	return err
}

// share returns how many feeds a feed counts as where places are shared out.
func (f Feed) share() float64 { return cmp.Or(f.Weight, 1) }

// displayURL returns the address as readers and logs may see it.
func (f Feed) displayURL() string {
	if f.Shown != "" {
		return f.Shown
	}
	return f.URL
}

// Duration is a time.Duration that JSON writes like "48h0m0s".
type Duration time.Duration

// MarshalText writes a duration as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads "48h".
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// spec is a plan that was checked and can be carried out.
type spec struct {
	Plan
	title    string // what readers see
	zone     *time.Location
	when     schedule.Schedule // of the zero value nothing is due
	post     []chat.Address
	channels []chat.Address // that it is made of
	mail     []chat.Address // places that stand for mailboxes
	filters  []filter
	quiet    bool // a run without anything to post leaves no trace
	asked    bool // somebody waits for this run

	raw json.RawMessage // as it is stored; nil: it is the configuration's
}

// isInstant reports whether a digest posts items as they come, and so is polled instead of due.
func (d spec) isInstant() bool { return d.Schedule == OnNew }

// has reports whether a record with a source is of this digest, not of one made in chat or by the configuration that had
// its name: whoever has the address of that one must not read the operator's posts.
func (d spec) has(source string) bool { return cmp.Or(source, d.Source) == d.Source }

// isTask reports whether a plan is a task for an agent.
func (p Plan) isTask() bool {
	return len(p.Feeds)+len(p.Channels)+len(p.Hooks) == 0 && p.Style != Weekly
}

// Limits of plans that do not come from the configuration.
const (
	maxFeeds          = 300
	maxInChat         = 50   // feeds of a digest that was made in chat
	maxPromptBytes    = 4000 // bytes of a prompt
	maxFieldBytes     = 200  // bytes of other texts
	maxPlaces         = 20
	minWeight         = 0.1 // of a feed
	maxWeight         = 10
	defaultItems      = 10
	defaultTaskTokens = 30_000  // of a run of a task that was made in chat, where nothing is said of it
	maxTaskTokens     = 200_000 // of the same, whatever is said of it
)

// pingPattern matches whom a post may notify. The ids are letters and digits, so that they end no mention.
var pingPattern = text.Pattern(`^(?:role|user):[A-Za-z0-9]{1,40}$`)

// namePattern matches the names of digests made in chat or through the API, which are parts of commands.
var namePattern = text.Pattern(`^[\pL\pN][\pL\pN_-]{0,39}$`)

// compile reads and checks a plan. Its errors are for the author of the plan.
func compile(p Plan) (spec, error) {
	d := spec{Plan: p, title: p.Name, quiet: p.Schedule == OnNew}
	if d.Timezone == "" {
		d.Timezone = "UTC"
	}
	if d.MaxItems == 0 {
		d.MaxItems = defaultItems
	}
	var err error
	if d.zone, err = schedule.LoadZone(d.Timezone); err != nil {
		return d, fmt.Errorf("timezone: %w", err)
	}
	if !d.isInstant() {
		if d.when, err = schedule.Parse(p.Schedule, d.zone); err != nil {
			return d, fmt.Errorf("schedule: %w", err)
		}
		// "9 Oslo time" names the zone itself.
		if named := d.when.Zone(); named.String() != d.zone.String() {
			d.zone, d.Timezone = named, named.String()
		}
	}
	for _, to := range p.Post {
		a, err := chat.ParseAddress(to)
		if err != nil {
			return d, fmt.Errorf("post: %w", err)
		}
		d.post = append(d.post, a)
	}
	if err := d.parseMailboxes(); err != nil {
		return d, fmt.Errorf("email: %w", err)
	}
	if err := d.parseChannels(); err != nil {
		return d, fmt.Errorf("channels: %w", err)
	}
	for _, text := range p.Filters {
		f, err := parseFilter(text, d.zone)
		if err != nil {
			return d, fmt.Errorf("filters: %w", err)
		}
		d.filters = append(d.filters, f)
	}
	return d, d.check()
}

// maxMailboxes bounds the mailboxes of a digest: it is no mailing list.
const maxMailboxes = 50

// parseMailboxes reads the mailboxes of a plan.
func (d *spec) parseMailboxes() error {
	if len(d.Email) > maxMailboxes {
		return fmt.Errorf("%d mailboxes are too many; %d are taken", len(d.Email), maxMailboxes)
	}
	if len(d.Email) > 0 && len(d.Channels) > 0 {
		return errors.New("messages of channels are not sent by mail, because the bot cannot check who reads the mail")
	}
	for _, mailbox := range d.Email {
		to, err := chat.Mailbox(mailbox)
		if err != nil {
			return err
		}
		d.mail = append(d.mail, to)
	}
	return nil
}

// check returns an error where fields of a plan contradict one another.
func (d spec) check() error {
	switch {
	case d.isTask() && strings.TrimSpace(d.Prompt) == "":
		return errors.New("it has neither feeds, channels nor a prompt")
	case len(d.Feeds) == 0 && d.isInstant():
		return errors.New("schedule: on-new needs feeds")
	case d.Style == Weekly && len(d.Feeds) > 0:
		return errors.New("style weekly takes no feeds: it is made of what other digests posted to the same place")
	case len(d.post) == 0:
		return errors.New("post: it is posted nowhere")
	case d.MaxItems < 1 || d.MaxTokens < 0 || d.MaxAge < 0:
		return errors.New("maxItems must be 1 or more, and maxTokens and maxAge must not be negative")
	}
	for _, ping := range d.Ping {
		if !pingPattern().MatchString(ping) {
			return fmt.Errorf("ping: %.60q is neither role:ID nor user:ID", ping)
		}
	}
	for _, f := range d.Feeds {
		if f.Weight != 0 && (f.Weight < minWeight || f.Weight > maxWeight) {
			return fmt.Errorf("feeds: the weight %v of %s is not between %v and %v", f.Weight, f.displayURL(),
				minWeight, maxWeight)
		}
	}
	if err := checkKinds(d.Kinds); err != nil {
		return err
	}
	for what, choice := range map[string][]string{
		"style " + d.Style:         {d.Style, "", Brief, Bullets, Topics, Titles, Deep, Weekly},
		"catchUp " + d.CatchUp:     {d.CatchUp, "", "once", "skip"},
		"whenEmpty " + d.WhenEmpty: {d.WhenEmpty, "", "skip", "say"}} {
		if !slices.Contains(choice[1:], choice[0]) {
			return fmt.Errorf("%s is not known; want one of %s", what, strings.Join(choice[2:], ", "))
		}
	}
	return nil
}

// checkLimits returns an error where a plan that is not the operator's own asks for too much.
func checkLimits(p Plan) error {
	feeds := maxFeeds
	if p.Source == FromChat {
		feeds = maxInChat
	}
	switch {
	case !namePattern().MatchString(p.Name):
		return fmt.Errorf("the name %.60q will not do: want a letter or digit, then up to 39 letters, digits, - and _",
			p.Name)
	case len(p.Feeds) > feeds || len(p.Post) > maxPlaces || len(p.Filters) > maxInChat:
		return fmt.Errorf("it is too much: %d feeds, %d places and %d filters are taken", feeds, maxPlaces, maxInChat)
	case len(p.Prompt) > maxPromptBytes:
		return fmt.Errorf("the prompt may have %d bytes", maxPromptBytes)
	case strings.ContainsFunc(p.Prompt, func(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }):
		return errors.New("the prompt has control characters; type it again")
	case p.Source == FromChat && p.isTask() && (p.MaxTokens < 1 || p.MaxTokens > maxTaskTokens):
		return fmt.Errorf("maxTokens of a task must be between 1 and %d", maxTaskTokens)
	case p.MaxItems > 100:
		return errors.New("maxItems may be 100 at most")
	}
	for _, text := range append([]string{p.Schedule, p.Language, p.Agent}, p.Filters...) {
		if len(text) > maxFieldBytes {
			return fmt.Errorf("%.40q… is too long: %d bytes are taken", text, maxFieldBytes)
		}
	}
	for _, f := range p.Feeds {
		if !isWebURL(f.URL) && !strings.HasPrefix(f.URL, "bundled:") {
			return fmt.Errorf("%.100q is not the address of a feed: want http://…, https://… or bundled:NAME", f.URL)
		}
	}
	return nil
}

// nextRun returns when a digest is due after an instant, or false where it is not.
func (d spec) nextRun(after time.Time) (time.Time, bool) {
	if d.isInstant() || d.Paused {
		return time.Time{}, false
	}
	return d.when.Next(after)
}
