// Package budget keeps the cost of language models within daily caps: of the whole bot, a channel, a user and a
// digest.
//
// A request is allowed while none of its caps is reached. Requests under way count with their expected cost, so that
// concurrent requests cannot together exceed a cap by more than one request. The last request, and unexpected costs of
// concurrent requests, can exceed a cap. If several processes share a store, each knows the costs of the others with a
// delay of at most two seconds, and costs within that delay can exceed a cap, too. Days end at midnight UTC, as in the
// stored usage.
//
// The caller provides prices and stores the sums.
package budget

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Caps are the limits of a day, in the unit of a Tracker. 0 means no cap.
type Caps struct {
	Instance, Channel, User, Digest float64
}

// Payer says for whom a request is made. An empty field counts for nobody.
type Payer struct {
	Channel string // address of the channel, for all of its threads
	User    string // platform/id
	Digest  string // its name
}

// CapReachedError is the error of a request that was refused because a cap is reached.
type CapReachedError struct {
	Whose    string    // such as "the budget of this channel"
	Cap      string    // with its unit
	ResetsAt time.Time // when the next day begins
}

// Error returns a text for the person who asked.
func (r *CapReachedError) Error() string {
	return fmt.Sprintf("%s for today, %s, is used up", r.Whose, r.Cap)
}

// formatUSD returns an amount with cents, or with more digits if it is below one cent.
func formatUSD(usd float64) string {
	if usd < 0.01 {
		return fmt.Sprintf("$%.4g", usd)
	}
	return fmt.Sprintf("$%.2f", usd)
}

// formatTokens returns a number of tokens in words.
func formatTokens(n float64) string { return FormatCount(int(n)) + " tokens" }

// FormatCount returns a number with a comma between thousands.
func FormatCount(n int) string {
	digits := strconv.Itoa(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// account is something with a cap of its own.
type account struct{ kind, id string }

const (
	// Kinds of accounts.
	instance = "instance"
	channel  = "channel"
	user     = "user"
	digest   = "digest"
)

// accounts returns the accounts that a payer's requests count for. The first one is the whole bot.
func (p Payer) accounts() []account {
	list := []account{{kind: instance}}
	for _, a := range []account{{channel, p.Channel}, {user, p.User}, {digest, p.Digest}} {
		if a.id != "" {
			list = append(list, a)
		}
	}
	return list
}

// limit returns the cap of an account; 0: none.
func (c Caps) limit(a account) float64 {
	switch a.kind {
	case instance:
		return c.Instance
	case channel:
		return c.Channel
	case user:
		return c.User
	case digest:
		return c.Digest
	}
	return 0
}

// describe names the budget of an account, for people.
func (a account) describe() string {
	return map[string]string{
		instance: "the budget of this bot",
		channel:  "the budget of this channel",
		user:     "your budget",
		digest:   "the budget of this digest",
	}[a.kind]
}

// Tracker holds today's spend, in one unit. It is safe for concurrent use.
type Tracker struct {
	now    func() time.Time
	format func(amount float64) string

	// mu guards the fields below; day is the UTC date that the sums are of.
	mu       sync.Mutex
	day      string
	spent    map[account]float64 // today
	others   map[account]float64 // spent today by other processes, as last read
	reserved map[account]float64 // expected cost of requests under way
	released chan struct{}       // closed and replaced when one of them ends
}

// New returns a Tracker of US dollars for which nothing was spent yet.
func New(now func() time.Time) *Tracker { return newTracker(now, formatUSD) }

// newTracker returns a Tracker that knows of nothing spent. format writes an amount for people.
func newTracker(now func() time.Time, format func(float64) string) *Tracker {
	return &Tracker{
		now:      now,
		format:   format,
		spent:    map[account]float64{},
		others:   map[account]float64{},
		reserved: map[account]float64{},
		released: make(chan struct{}),
	}
}

// Add adds unreserved spend of today, such as the spend before the process began.
func (t *Tracker) Add(p Payer, usd float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startDay()
	for _, a := range p.accounts() {
		t.spent[a] += usd
	}
}

// Spent returns today's spend of a payer's channel, user or digest: the one that is set. For the zero Payer it returns
// the total.
func (t *Tracker) Spent(p Payer) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startDay()
	list := p.accounts()
	return t.total(list[len(list)-1])
}

// total returns today's spend of an account in all processes. t.mu must be held.
func (t *Tracker) total(a account) float64 { return t.spent[a] + t.others[a] }

// share is what a payer has spent.
type share struct {
	payer  Payer
	amount float64
}

// setOthers replaces what other processes have spent on a day, unless that is over.
func (t *Tracker) setOthers(day string, list []share) {
	// Added up before the lock is taken, which every request to a model takes.
	others := map[account]float64{}
	for _, one := range list {
		for _, a := range one.payer.accounts() {
			others[a] += one.amount
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	// The list may have been read just before midnight.
	if t.startDay(); t.day == day {
		t.others = others
	}
}

// Reserve allows a request that is expected to cost usd. The caller calls finish once, with the actual cost. Where
// requests under way may reach a cap, Reserve waits for them to end. It returns a *CapReachedError when a cap is
// reached, or ctx's error.
func (t *Tracker) Reserve(ctx context.Context, c Caps, p Payer, usd float64) (finish func(usd float64), err error) {
	list := p.accounts()
	for {
		// The check and the reservation are one step under the lock, so that two requests cannot take the same room.
		t.mu.Lock()
		t.startDay()
		wait, err := t.check(c, list)
		if err == nil && wait == nil {
			for _, a := range list {
				t.reserved[a] += usd
			}
			t.mu.Unlock()
			return func(cost float64) { t.finish(list, usd, cost) }, nil
		}
		t.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// check returns (nil, nil) when one more request may be made now, a channel when it has to wait until that is closed,
// and an error when a cap is reached. The caller holds t.mu.
func (t *Tracker) check(c Caps, list []account) (wait <-chan struct{}, err error) {
	for _, a := range list {
		limit := c.limit(a)
		if limit == 0 {
			continue
		}
		if t.total(a) >= limit {
			return nil, &CapReachedError{
				Whose:    a.describe(),
				Cap:      t.format(limit),
				ResetsAt: t.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour),
			}
		}
		// Only together with requests under way: they may turn out cheaper, so wait instead of refusing.
		if t.total(a)+t.reserved[a] >= limit {
			wait = t.released
		}
	}
	return wait, nil
}

// usedUp returns the budgets whose caps are reached, such as "of this bot" or "of channel slack:T/C", in order.
func (t *Tracker) usedUp(c Caps) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startDay()
	var list []string
	for _, sums := range []map[account]float64{t.spent, t.others} {
		for a := range sums {
			if limit := c.limit(a); limit > 0 && t.total(a) >= limit {
				list = append(list, strings.TrimSpace("of "+a.kind+" "+a.id))
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// finish replaces the expected cost of a request by the actual one, and wakes waiting requests.
func (t *Tracker) finish(list []account, expected, cost float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.startDay()
	for _, a := range list {
		t.spent[a] += cost
		// What is left below this is a rounding error of the sums.
		if t.reserved[a] -= expected; t.reserved[a] < 1e-12 {
			delete(t.reserved, a)
		}
	}
	// A closed channel wakes all that wait; each of them checks again, since they may wait for different accounts.
	close(t.released)
	t.released = make(chan struct{})
}

// startDay resets the sums when a new day has begun. The caller holds mu.
func (t *Tracker) startDay() {
	if day := t.now().UTC().Format(time.DateOnly); day != t.day {
		t.day = day
		// Keep the reservations: requests under way count for the day in which they end.
		clear(t.spent)
		clear(t.others)
	}
}
