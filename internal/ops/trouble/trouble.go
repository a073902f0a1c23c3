// Package trouble finds problems that need the operator: a disconnected platform, a failing model or MCP server, a
// dead feed, a failed digest, an old backup, a used-up budget, a store that cannot be written. It reports the
// beginning and the end of each problem once, to the channel that ops.channel names, and provides the present problems
// for metrics. The services themselves report their state.
package trouble

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
)

// Kinds are the values of Trouble.Kind.
func Kinds() []string {
	return []string{"backup", "budget", "digest", "feed", "model", "platform", "server", "store"}
}

// Trouble is one fault that lasts.
type Trouble struct {
	Kind   string // one of Kinds
	Name   string // which of them; empty if there is only one
	Reason string // a sentence without a full stop at its end
	Page   string // the page of the dashboard with more about it, such as "/servers"; empty: none
	// Since is when the trouble began. It is zero if the service does not know: the time of the first look counts then.
	Since time.Time
	// Patience is how long the trouble must last before it is reported.
	Patience time.Duration
}

// Title names the trouble in Markdown, such as "MCP server tickets".
func (t Trouble) Title() string {
	names := map[string]string{"server": "MCP server", "store": "the store", "backup": "the backup"}
	words := names[t.Kind]
	if words == "" {
		words = t.Kind
	}
	if t.Name != "" {
		words += " " + text.EscapeMarkdown(t.Name)
	}
	return words
}

const (
	checkInterval = 15 * time.Second
	checkTimeout  = 10 * time.Second
	// calm is how long a trouble must be away before it counts as ended: a server that crashes again and again is
	// connected for seconds each time.
	calm = 5 * time.Minute
	// itemKind is the kind of stored items that hold reported troubles, so that neither a restart nor another leader
	// reports them again.
	itemKind = "trouble"
)

// Options are what a Watch needs.
type Options struct {
	// Find returns all troubles there are now. With an error it returns those that it could find.
	Find func(ctx context.Context) ([]Trouble, error)
	// Channel returns where troubles are reported; the zero address: nowhere.
	Channel func() chat.Address
	// Post stores a post and sends it. A post whose key was stored before is skipped.
	Post func(ctx context.Context, to chat.Address, d chat.Draft, replaces string) error
	// Leads reports whether this process is the one that reports, among those that share the store.
	Leads     func() bool
	PublicURL string // of the dashboard, without a slash at its end
	Store     store.Items
	Log       *slog.Logger
	Now       func() time.Time
}

// Watch looks for troubles and reports them. It is safe for concurrent use.
type Watch struct {
	o         Options
	hasLoaded bool // the stored troubles, since this process leads; only Run uses it

	mu    sync.Mutex
	known map[string]*state // by kind and name
}

// state is a trouble as it was last seen. It is stored once it is reported.
type state struct {
	Trouble Trouble   `json:"trouble"`
	Since   time.Time `json:"since"`
	Seen    time.Time `json:"-"`
	To      string    `json:"to"` // the channel that knows of it; empty: none does
}

// isDue reports whether the trouble has lasted for its patience.
func (s state) isDue(now time.Time) bool { return now.Sub(s.Since) >= s.Trouble.Patience }

// New returns a Watch.
func New(o Options) *Watch { return &Watch{o: o, known: map[string]*state{}} }

// Module returns the ability to tell operators about troubles.
func (w *Watch) Module() feature.Module {
	return feature.Module{Tasks: []feature.Task{{Name: "trouble", Run: w.Run, Daemon: true}}}
}

// Current returns the troubles that have lasted for their patience, by kind and name.
func (w *Watch) Current() []Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Trouble
	for _, key := range slices.Sorted(maps.Keys(w.known)) {
		if s := w.known[key]; s.isDue(w.o.Now()) {
			list = append(list, s.Trouble)
		}
	}
	return list
}

// Run looks for troubles until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	look := time.NewTicker(checkInterval)
	defer look.Stop()
	for {
		w.check(ctx)
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// check compares the troubles there are with the known ones, and reports which of them have begun and ended.
func (w *Watch) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	leads := w.o.Leads()
	w.load(ctx, leads)
	found, err := w.o.Find(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		w.o.Log.Warn("could not look for all troubles", "error", err)
	}
	to := w.o.Channel()
	begun, ended := w.compare(found, err == nil, to.String())
	if !leads {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(begun)) {
		if !to.IsZero() {
			w.reportBegin(ctx, to, key, begun[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(ended)) {
		w.reportEnd(ctx, to, key, ended[key])
	}
}

// load reads the troubles that were reported before this process began to lead.
func (w *Watch) load(ctx context.Context, leads bool) {
	if !leads || w.hasLoaded {
		w.hasLoaded = leads
		return
	}
	items, err := w.o.Store.Items(ctx, itemKind)
	if err != nil {
		w.o.Log.Warn("could not read the reported troubles; retrying", "error", err)
		return
	}
	w.hasLoaded = true
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, raw := range items {
		s := &state{Seen: w.o.Now()} // it may have ended while no process looked: it has calm to show itself
		if json.Unmarshal(raw, s) == nil {
			w.known[key] = s
		}
	}
}

// compare notes the troubles that were found, which are all of them if isComplete, and returns those that the channel
// does not know yet, and those that have ended.
func (w *Watch) compare(found []Trouble, isComplete bool, channel string) (begun, ended map[string]state) {
	now := w.o.Now()
	begun, ended = map[string]state{}, map[string]state{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range found {
		key := t.Kind + "/" + t.Name
		s := w.known[key]
		if s == nil {
			s = &state{Since: now}
			if !t.Since.IsZero() {
				s.Since = t.Since
			}
			w.known[key] = s
		}
		s.Trouble, s.Seen = t, now
		if s.isDue(now) && s.To != channel {
			begun[key] = *s
		}
	}
	for key, s := range w.known {
		if isComplete && now.Sub(s.Seen) >= calm {
			ended[key] = *s
			delete(w.known, key)
		}
	}
	return begun, ended
}

// reportBegin posts that a trouble has begun.
func (w *Watch) reportBegin(ctx context.Context, to chat.Address, key string, s state) {
	words := fmt.Sprintf("**Trouble: %s**, since %s. %s.", s.Trouble.Title(), formatTime(s.Since),
		text.EscapeMarkdown(strings.TrimSuffix(s.Trouble.Reason, ".")))
	if s.Trouble.Page != "" && w.o.PublicURL != "" {
		words += " [More](" + w.o.PublicURL + s.Trouble.Page + ")"
	}
	s.To = to.String()
	err := w.post(ctx, to, postKey(key, s)+"/begin", words)
	if err == nil {
		err = w.save(ctx, key, s)
	}
	if err != nil {
		w.o.Log.Error("could not report a trouble; retrying", "trouble", key, "error", err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if k := w.known[key]; k != nil {
		k.To = s.To
	}
}

// reportEnd posts that a trouble has ended, in the channel that knows of it if that is still the configured one.
func (w *Watch) reportEnd(ctx context.Context, to chat.Address, key string, s state) {
	if s.To == "" {
		return
	}
	var err error
	if s.To == to.String() {
		err = w.post(ctx, to, postKey(key, s)+"/end",
			fmt.Sprintf("**Ended: %s.** It began at %s.", s.Trouble.Title(), formatTime(s.Since)))
	}
	if err == nil {
		err = w.o.Store.DeleteItem(ctx, itemKind, key)
	}
	if err == nil || errors.Is(err, store.ErrNotFound) {
		return
	}
	w.o.Log.Error("could not report the end of a trouble; retrying", "trouble", key, "error", err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[key] == nil { // the next check finds it ended again
		w.known[key] = &s
	}
}

// save stores a reported trouble.
func (w *Watch) save(ctx context.Context, key string, s state) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return w.o.Store.SaveItem(ctx, itemKind, key, raw, true)
}

func (w *Watch) post(ctx context.Context, to chat.Address, key, words string) error {
	return w.o.Post(ctx, to, chat.Draft{Key: key, Text: words}, "")
}

// postKey returns the beginning of the keys of a trouble's posts in a channel. A later trouble of the same name has
// another one.
func postKey(key string, s state) string {
	return "trouble/" + key + "/" + s.Since.UTC().Format(time.RFC3339) + "/" + s.To
}

// formatTime returns a time for people, such as "18:05 UTC on 28 Nov".
func formatTime(t time.Time) string { return t.UTC().Format("15:04 UTC on 2 Jan") }
