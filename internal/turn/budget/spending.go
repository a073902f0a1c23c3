package budget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/feature"
	"ravenbot/internal/store"
)

// expectedOutput is how many tokens a request is expected to be answered with while it is
// under way, where its model has no limit of its own.
const expectedOutput = 1000

// bytesPerToken is about what a token of English text has.
const bytesPerToken = 4

// usageDays is how far back usage is shown.
const usageDays = 30

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	InputPerM, OutputPerM float64
	CachedPerM            float64 // of input that the provider read from its cache; 0: as other input
	MaxOutput             int     // tokens of an answer at most; 0: not limited
}

// Store stores usage, as in store.Store.
type Store interface {
	Usage(ctx context.Context, from, cursor string, n int) ([]store.Usage, string, error)
}

// SharedStore is a Store that several processes count in.
type SharedStore interface {
	Store
	// UsageOfOthers returns the sums of a day without what this process has counted.
	UsageOfOthers(ctx context.Context, day string) ([]store.Usage, error)
}

// readEvery is how often what other processes have spent is read.
const readEvery = 1500 * time.Millisecond

// Rates are the configured prices and caps.
type Rates interface {
	Caps() Caps
	// Limits returns the limits of a user with some roles.
	Limits(roles []string) Limits
	// AreUsersLimited reports whether anybody's messages or tokens of a day are limited.
	AreUsersLimited() bool
	// Price returns the price of a model by its configured name.
	Price(model string) Price
}

// Usage is the usage of a model, and its cost in US dollars.
type Usage struct {
	store.Usage
	Channel string  `json:"channel"` // its address, as everywhere in the API
	USD     float64 `json:"usd"`
}

// Spending admits requests to models within the budgets, and shows usage. It is safe for concurrent use.
type Spending struct {
	tracker *Tracker // of US dollars
	tokens  *Tracker // of users
	quota   quota
	store   Store
	rates   Rates
	log     *slog.Logger
	now     func() time.Time

	mu   sync.Mutex
	read time.Time // when what other processes have spent was last read

	spentMu sync.Mutex
	spent   map[string]Spent // by model
}

// Spent is what the requests to a model have used since the process began.
type Spent struct {
	Tokens llm.Usage
	USD    float64 // at the prices at that time
}

// Spent returns the usage of each model, by its configured name.
func (s *Spending) Spent() map[string]Spent {
	s.spentMu.Lock()
	defer s.spentMu.Unlock()
	return maps.Clone(s.spent)
}

// countSpent adds what a request has used.
func (s *Spending) countSpent(on store.Usage, usd float64) {
	s.spentMu.Lock()
	defer s.spentMu.Unlock()
	sum := s.spent[on.Model]
	s.spent[on.Model] = Spent{Tokens: sum.Tokens.Add(on.Tokens), USD: sum.USD + usd}
}

// LoadSpending returns a Spending with the spend of today before the start of the bot.
func LoadSpending(ctx context.Context, s Store, r Rates, log *slog.Logger, now func() time.Time) (*Spending, error) {
	p := &Spending{tracker: New(now), tokens: newTracker(now, formatTokens), store: s, rates: r, log: log, now: now,
		spent: map[string]Spent{}}
	if shared, ok := s.(SharedStore); ok {
		return p, p.readOthers(ctx, shared)
	}
	today := now().UTC().Format(time.DateOnly)
	err := p.each(ctx, today, func(u store.Usage) bool {
		if u.Day != today {
			return false // of days when the clock was ahead
		}
		p.tracker.Add(payer(u.Channel, u.User), p.Cost(u))
		p.tokens.Add(Payer{User: u.User}, tokenCount(u.Tokens))
		p.quota.add(now(), u.User, u.Turns)
		return true
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

// SharedKinds returns nothing: spend is not counted as a change, since each answer would be one.
func (*Spending) SharedKinds() []string { return nil }

// Reload reads what other processes have spent today, where anything is limited and it was not read just now.
func (s *Spending) Reload(ctx context.Context) error {
	shared, ok := s.store.(SharedStore)
	if !ok || s.rates.Caps() == (Caps{}) && !s.rates.AreUsersLimited() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Sub(s.read).Abs() < readEvery {
		return nil
	}
	return s.readOthers(ctx, shared)
}

// readOthers reads what other processes have spent today.
func (s *Spending) readOthers(ctx context.Context, from SharedStore) error {
	began := s.now()
	day := began.UTC().Format(time.DateOnly)
	list, err := from.UsageOfOthers(ctx, day)
	if err != nil {
		return err
	}
	var usd, tokens []share
	messages := map[string]int{}
	for _, u := range list {
		usd = append(usd, share{payer(u.Channel, u.User), s.Cost(u)})
		tokens = append(tokens, share{Payer{User: u.User}, tokenCount(u.Tokens)})
		messages[u.User] += u.Turns
	}
	s.tracker.setOthers(day, usd)
	s.tokens.setOthers(day, tokens)
	s.quota.setOthers(s.now(), day, messages)
	s.read = began
	return nil
}

// usageBatch is how many sums are read at a time.
const usageBatch = 1000

// each calls fn with the sums from a day on, by day, until it returns false.
func (s *Spending) each(ctx context.Context, from string, fn func(store.Usage) bool) error {
	for cursor := ""; ; {
		used, next, err := s.store.Usage(ctx, from, cursor, usageBatch)
		if err != nil {
			return err
		}
		for _, u := range used {
			if !fn(u) {
				return nil
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// shownFrom returns the first day that is shown.
func (s *Spending) shownFrom() string {
	return s.now().UTC().AddDate(0, 0, 1-usageDays).Format(time.DateOnly)
}

// priced returns a sum with its cost at the current prices, which may differ from the prices of its day.
func (s *Spending) priced(u store.Usage) Usage {
	return Usage{Usage: u, Channel: u.Channel.String(), USD: s.Cost(u)}
}

// payer returns for whom a request counts: one of a digest for nobody but the digest.
func payer(at chat.Address, user string) Payer {
	if at.Platform == chat.TaskPlatform {
		return Payer{Digest: at.Channel}
	}
	return Payer{Channel: at.Base().String(), User: user}
}

// Cost returns what usage costs in US dollars, at the prices of now.
func (s *Spending) Cost(u store.Usage) float64 { return s.rates.Price(u.Model).Cost(u.Tokens) }

// Cost returns what tokens cost in US dollars.
func (p Price) Cost(tokens llm.Usage) float64 {
	if p.CachedPerM == 0 {
		p.CachedPerM = p.InputPerM
	}
	fresh := tokens.Input - tokens.Cached
	return (float64(fresh)*p.InputPerM + float64(tokens.Cached)*p.CachedPerM + float64(tokens.Output)*p.OutputPerM) / 1e6
}

// tokenCount returns the tokens that count for a user. Cached tokens are part of the input and count in full.
func tokenCount(u llm.Usage) float64 { return float64(u.Input + u.Output) }

// Reserve admits a request for a channel and a user, and returns a function that counts its usage at the end. It
// returns an *llm.Error of kind llm.Capped if a budget, or the user's tokens, are used up.
func (s *Spending) Reserve(ctx context.Context, on store.Usage, q llm.Request) (count func(llm.Usage), err error) {
	price := s.rates.Price(on.Model)
	on.Tokens = llm.Usage{Input: requestBytes(q) / bytesPerToken, Output: expectedOutput}
	if limit := q.OutputLimit(price.MaxOutput); limit > 0 {
		on.Tokens.Output = limit
	}
	tokenCaps := Caps{User: float64(s.rates.Limits(s.quota.rolesOf(s.now(), on.User)).Tokens)}
	finishTokens, err := s.tokens.Reserve(ctx, tokenCaps, Payer{User: on.User}, tokenCount(on.Tokens))
	if err != nil {
		return nil, s.refusal(on, err)
	}
	finish, err := s.tracker.Reserve(ctx, s.rates.Caps(), payer(on.Channel, on.User), s.Cost(on))
	if err != nil {
		// The request is not made: its reservation would else count until the process ends.
		finishTokens(0)
		return nil, s.refusal(on, err)
	}
	return func(used llm.Usage) {
		on.Tokens = used
		finishTokens(tokenCount(used))
		usd := s.Cost(on)
		finish(usd)
		s.countSpent(on, usd)
	}, nil
}

// UsedUp returns the budgets of today, in US dollars, that are used up, such as "of channel slack:T/C".
func (s *Spending) UsedUp() []string { return s.tracker.usedUp(s.rates.Caps()) }

// refusal returns the error of a request that no budget lets through.
func (s *Spending) refusal(on store.Usage, err error) error {
	var reached *CapReachedError
	if errors.As(err, &reached) {
		words := fmt.Sprintf("%s; it starts again at midnight UTC, in %s. The bot's operator can raise it.",
			reached.Error(), formatHours(reached.ResetsAt.Sub(s.now()).Round(time.Minute)))
		return &llm.Error{Kind: llm.Capped, Provider: on.Model, Reason: strings.ToUpper(words[:1]) + words[1:], Err: err}
	}
	return err
}

// formatHours returns a time for people, in minutes, of which it names at least one.
func formatHours(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%d min", max(1, int(d.Minutes())))
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// requestBytes returns the size of a request's texts.
func requestBytes(q llm.Request) int {
	n := len(q.System)
	for _, t := range q.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	for _, m := range q.Messages {
		for _, p := range m.Parts {
			n += len(p.Text)
			if p.Call != nil {
				n += len(p.Call.Args)
			}
			if p.Result != nil {
				n += len(p.Result.Content)
			}
		}
	}
	return n
}

// Usage returns the usage of the last 30 days, with its cost at the current prices.
func (s *Spending) Usage(ctx context.Context) ([]Usage, error) {
	list := []Usage{}
	err := s.each(ctx, s.shownFrom(), func(u store.Usage) bool {
		list = append(list, s.priced(u))
		return true
	})
	return list, err
}

// Caps returns the budgets.
func (s *Spending) Caps() Caps { return s.rates.Caps() }

// Day is the usage of a day.
type Day struct {
	Day   string // 2006-01-02, in UTC
	Turns int
	USD   float64 // at the prices of now
}

// Days returns the last 30 days, oldest first.
func (s *Spending) Days(ctx context.Context) ([]Day, error) {
	first := s.now().UTC().AddDate(0, 0, 1-usageDays)
	list := make([]Day, usageDays)
	byDay := map[string]*Day{}
	for i := range list {
		list[i].Day = first.AddDate(0, 0, i).Format(time.DateOnly)
		byDay[list[i].Day] = &list[i]
	}
	err := s.each(ctx, s.shownFrom(), func(u store.Usage) bool {
		d := byDay[u.Day]
		if d == nil {
			return false // of days when the clock was ahead
		}
		d.Turns += u.Turns
		d.USD += s.Cost(u)
		return true
	})
	return list, err
}

// Page returns up to n sums of the last 30 days after a cursor, with their cost, and the next cursor, or "" after the
// last page.
func (s *Spending) Page(ctx context.Context, cursor string, n int) ([]Usage, string, error) {
	used, next, err := s.store.Usage(ctx, s.shownFrom(), cursor, n)
	list := make([]Usage, len(used))
	for i, u := range used {
		list[i] = s.priced(u)
	}
	return list, next, err
}

// Module returns the feature that shows usage.
func (s *Spending) Module() feature.Module {
	return feature.Module{Features: []feature.Feature{s}, Shared: []store.Shared{s}}
}

// Commands returns the command that shows usage.
func (*Spending) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    "usage",
		Summary: "Your usage and this channel's",
		Help:    "your usage, this channel's, and the rest of the budgets",
	}}
}

// Handle shows the usage of the message's place and of its author.
func (s *Spending) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	list, err := s.Usage(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the usage: %w", err)
	}
	today := s.now().UTC().Format(time.DateOnly)
	user := m.Conversation.Platform + "/" + m.Author.ID
	line := func(what string, counts func(Usage) bool) string {
		var turns, in, out int
		var usd float64
		for _, u := range list {
			if counts(u) {
				turns, in, out, usd = turns+u.Turns, in+u.Tokens.Input, out+u.Tokens.Output, usd+u.USD
			}
		}
		return fmt.Sprintf("- %s: %d answers, %d tokens in, %d out, $%.4f", what, turns, in, out, usd)
	}
	here := func(u Usage) bool { return u.Usage.Channel == m.Conversation.Base() }
	mine := func(u Usage) bool { return u.User == user }
	lines := []string{
		"**Usage** (days end at midnight UTC)",
		"",
		line("you, today", func(u Usage) bool { return mine(u) && u.Day == today }),
		line(fmt.Sprintf("you, in %d days", usageDays), mine),
		line("this channel, today", func(u Usage) bool { return here(u) && u.Day == today }),
		line(fmt.Sprintf("this channel, in %d days", usageDays), here),
	}
	return &chat.Draft{Ephemeral: true, Text: strings.Join(append(lines, s.remaining(m.Conversation, user)...), "\n")}, nil
}

// remaining lists the budgets that count for a user in a channel.
func (s *Spending) remaining(at chat.Address, user string) []string {
	c, p := s.rates.Caps(), payer(at, user)
	var list []string
	for _, b := range []struct {
		whose string
		limit float64
		payer Payer
	}{
		{"you", c.User, Payer{User: p.User}},
		{"this channel", c.Channel, Payer{Channel: p.Channel}},
		{"the bot", c.Instance, Payer{}},
	} {
		if b.limit > 0 {
			list = append(list, fmt.Sprintf("- budget of today for %s: $%.4f of $%.4f", b.whose,
				s.tracker.Spent(b.payer), b.limit))
		}
	}
	return append(list, s.remainingLimits(user)...)
}
