package discord

import (
	"context"
	"time"

	"ravenbot/internal/core/chat"
)

// SetOpenWithin spares tests the wait for a gateway that says nothing.
func SetOpenWithin(d *Discord, t time.Duration) { d.openWithin = t }

// SetMaxWaiting sets how many messages may wait to be stored.
func SetMaxWaiting(d *Discord, n int) { d.maxWaiting = n }

// SetBalanceAfter spares tests the wait for shards that are released for balance.
func SetBalanceAfter(d *Discord, t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.balanceAfter = t
}

// Kept counts what is remembered for each request and interaction.
func Kept(d *Discord) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.api.pace.Len() + len(d.pendingCallbacks)
	for _, s := range d.shards {
		n += s.waiting
	}
	return n
}

// Locate is how a channel that no event has shown gets its address.
func Locate(ctx context.Context, d *Discord, guild, channel string) chat.Address {
	return d.lookUpAddress(ctx, guild, channel)
}

// Register makes the application's commands the bot's.
func Register(ctx context.Context, d *Discord, app string) error { return d.register(ctx, app) }

// ForgetRecent forgets what was said.
func ForgetRecent(d *Discord, guild string) {
	d.recentOf(guild).Drop(func(string) bool { return true })
}
