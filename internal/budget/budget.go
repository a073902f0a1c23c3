// Package budget keeps what is spent on language models within caps of a day: of the
// whole bot, a channel, a user, a digest. A request is let through while nothing that it
// counts for has reached its cap; requests under way count with what they are expected
// to cost, so that many at once cannot pass together what each of them alone may use. A cap
// is therefore passed by what the last request cost, and by what requests beside it cost
// more than expected. Days end at midnight UTC, as those of the usage that is kept.
// The prices, and the sums that outlive the process, are the caller's.
package budget

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Caps are what may be spent in a day, in US dollars. 0: any amount.
type Caps struct {
	Instance, Channel, User, Digest float64
}

// Payer says for whom a request is made. An empty field counts for nobody.
type Payer struct {
	Channel string // all of its threads
	User    string // platform/id
	Digest  string // its name
}

// CapReachedError is the error of a request that was not let through.
type CapReachedError struct {
	Whose    string // "the budget of this channel"
	USD      float64
	ResetsAt time.Time // when the next day begins
}

// Error is meant for whoever asked.
func (r *CapReachedError) Error() string {
	return fmt.Sprintf("%s for today, $%s, is used up", r.Whose, formatUSD(r.USD))
}

func formatUSD(usd float64) string {
	if usd < 0.01 {
		return fmt.Sprintf("%.4g", usd)
	}
	return fmt.Sprintf("%.2f", usd)
}

// account is what has a cap of its own.
type account struct{ kind, id string }

const (
	instance = "instance"
	channel  = "channel"
	user     = "user"
	digest   = "digest"
)

// accounts are those that a payer's requests count for.
func (p Payer) accounts() []account {
	list := []account{{kind: instance}}
	for _, a := range []account{{channel, p.Channel}, {user, p.User}, {digest, p.Digest}} {
		if a.id != "" {
			list = append(list, a)
		}
	}
	return list
}

func (c Caps) limit(a account) float64 {
	return map[string]float64{instance: c.Instance, channel: c.Channel, user: c.User, digest: c.Digest}[a.kind]
}

func (a account) describe() string {
	return map[string]string{instance: "the budget of this bot", channel: "the budget of this channel", user: "your budget", digest: "the budget of this digest"}[a.kind]
}

// Tracker knows what was spent today. It is safe for concurrent use.
type Tracker struct {
	now func() time.Time

	mu       sync.Mutex
	day      string
	spent    map[account]float64 // today
	reserved map[account]float64 // what requests under way are expected to cost
	released chan struct{}       // closed and made anew when one of them ends
}

// New returns a ledger on which nothing was spent.
func New(now func() time.Time) *Tracker {
	return &Tracker{now: now, spent: map[account]float64{}, reserved: map[account]float64{}, released: make(chan struct{})}
}

// Add tells of something that was spent today without having been reserved.
func (l *Tracker) Add(p Payer, usd float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.startDay()
	for _, a := range p.accounts() {
		l.spent[a] += usd
	}
}

// Spent is what was spent today for a payer's channel, user or digest: whichever one
// of them is set. For the zero Payer it is what was spent on everything.
func (l *Tracker) Spent(p Payer) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.startDay()
	list := p.accounts()
	return l.spent[list[len(list)-1]]
}

// Reserve lets a request through that is expected to cost usd, and gives what is to be
// called once, with what it did cost. Where a cap may be reached by requests that are
// under way, it waits for them. The error is a *Reached, or that of ctx.
func (l *Tracker) Reserve(ctx context.Context, c Caps, p Payer, usd float64) (settle func(usd float64), err error) {
	list := p.accounts()
	for {
		l.mu.Lock()
		l.startDay()
		wait, err := l.check(c, list)
		if err == nil && wait == nil {
			for _, a := range list {
				l.reserved[a] += usd
			}
			l.mu.Unlock()
			return func(cost float64) { l.finish(list, usd, cost) }, nil
		}
		l.mu.Unlock()
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

// check says whether one more request may be made now (nil, nil), only when others have
// ended (what tells of it), or not at all. l.mu is held.
func (l *Tracker) check(c Caps, list []account) (wait <-chan struct{}, err error) {
	for _, a := range list {
		most := c.limit(a)
		if most == 0 {
			continue
		}
		if l.spent[a] >= most {
			return nil, &CapReachedError{Whose: a.describe(), USD: most, ResetsAt: l.now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)}
		}
		if l.spent[a]+l.reserved[a] >= most {
			wait = l.released
		}
	}
	return wait, nil
}

func (l *Tracker) finish(list []account, expected, cost float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.startDay()
	for _, a := range list {
		l.spent[a] += cost
		if l.reserved[a] -= expected; l.reserved[a] < 1e-12 { // nothing but what rounding leaves
			delete(l.reserved, a)
		}
	}
	close(l.released)
	l.released = make(chan struct{})
}

// startDay begins a new day where one has begun. l.mu is held.
func (l *Tracker) startDay() {
	if day := l.now().UTC().Format(time.DateOnly); day != l.day {
		l.day = day
		clear(l.spent)
	}
}
