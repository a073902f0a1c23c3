package trouble

import (
	"context"
	"errors"
	"strings"
	"time"

	"ravenbot/internal/mcp"
	"ravenbot/internal/model/breaker"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/budget"
	"ravenbot/internal/turn/platform"
)

// How long a service may fail before that is a trouble.
const (
	connectPatience = 5 * time.Minute // of platforms, models and MCP servers, which reconnect by themselves
	storePatience   = time.Minute
	feedPatience    = 48 * time.Hour // a feed counts as dead then
	backupPatience  = time.Hour      // beyond the interval of backups
)

// Bot is where Find looks. All fields are required.
type Bot struct {
	Platforms   *platform.Set
	Servers     *mcp.Host
	Models      func() []*breaker.Model
	Spending    *budget.Spending
	Digests     *digest.Service
	Problem     func() string             // of the store; empty: none
	Backup      func() store.BackupStatus // the newest one
	BackupEvery time.Duration             // 0: none are made
	Started     time.Time                 // of this process
	Now         func() time.Time
}

// Find returns what is wrong now.
func (b Bot) Find(ctx context.Context) ([]Trouble, error) {
	list := append(b.services(), b.backup()...)
	feeds, err := b.Digests.KnownFeeds(ctx)
	for _, f := range feeds {
		if f.FailingSince != nil && b.Now().Sub(*f.FailingSince) >= feedPatience {
			list = append(list, Trouble{Kind: "feed", Name: f.Name, Page: "/feeds",
				Since: *f.FailingSince, Reason: "It cannot be read: " + f.Failure})
		}
	}
	digests, err2 := b.Digests.List(ctx)
	for _, d := range digests {
		if d.Last != nil && !d.Last.OK && !d.Paused {
			list = append(list, Trouble{Kind: "digest", Name: d.Name, Page: "/digests", Reason: "Its last run failed: " + d.Last.Note})
		}
	}
	return list, errors.Join(err, err2)
}

// services returns the troubles of what the bot is connected to, and of its store.
func (b Bot) services() (list []Trouble) {
	if problem := b.Problem(); problem != "" {
		list = append(list, Trouble{Kind: "store", Reason: strings.ToUpper(problem[:1]) + problem[1:], Patience: storePatience})
	}
	for _, p := range b.Platforms.Health() {
		if !p.Connected {
			list = append(list, Trouble{Kind: "platform", Name: p.Name, Patience: connectPatience,
				Reason: "It is not connected: " + p.Detail})
		}
	}
	for _, m := range b.Models() {
		if s := m.Status(); s.State != breaker.Closed {
			list = append(list, Trouble{Kind: "model", Name: s.Name, Reason: "Its last requests failed: " + s.Error,
				Patience: connectPatience})
		}
	}
	for _, s := range b.Servers.Servers() {
		if s.State == mcp.Failed {
			list = append(list, Trouble{Kind: "server", Name: s.Name, Page: "/servers", Reason: "It fails: " + s.Error,
				Patience: connectPatience})
		}
	}
	for _, whose := range b.Spending.UsedUp() {
		list = append(list, Trouble{Kind: "budget", Name: whose, Reason: "It is used up until midnight UTC"})
	}
	return list
}

// backup returns the trouble of a backup that failed or is too old.
func (b Bot) backup() []Trouble {
	if b.BackupEvery == 0 {
		return nil
	}
	s, now := b.Backup(), b.Now()
	last := s.Time
	if b.Started.After(last) {
		last = b.Started // a process that has just begun makes one first
	}
	switch {
	case s.Error != "":
		return []Trouble{{Kind: "backup", Reason: "The last try failed: " + s.Error, Page: "/backups"}}
	case now.Sub(last) > b.BackupEvery+backupPatience:
		reason := "There is no backup yet"
		if !s.Time.IsZero() {
			reason = "The newest one is of " + formatTime(s.Time)
		}
		return []Trouble{{Kind: "backup", Reason: reason, Page: "/backups"}}
	}
	return nil
}
