package postgres

import (
	"fmt"
	"sync"
	"time"
)

// maxClockError is how far the clock of this machine may be from that of the server without counting as wrong: more than
// time servers leave, and less than anybody notices of a reminder.
const maxClockError = 10 * time.Second

// clock is that of the server as far as it is known. Replicas whose machines disagree about the time would begin digests
// early or twice, refuse one another's sign-ins and delete what is to be kept; so they all go by the clock that ends
// their memberships, too. It is safe for concurrent use.
type clock struct {
	mu     sync.Mutex
	behind time.Duration // of the clock of this machine at the last look; 0: they agree within maxClockError
	seen   instant       // of the last look
}

// instant is what the clock of this machine shows, and what its timers say.
type instant struct{ wall, timer time.Time }

func readInstant() instant {
	now := time.Now()
	return instant{wall: now.Round(0), timer: now}
}

// note notes what the server's clock showed between two instants.
func (c *clock) note(before instant, server time.Time, after instant) {
	doubt := max(0, after.timer.Sub(before.timer)/2)
	behind := server.Sub(before.wall.Add(doubt))
	if behind.Abs()-doubt <= maxClockError {
		behind = 0
	}
	was := c.behindAt(after)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Each look is off by another part of its doubt: the time must not go back and forth with them.
	if behind != 0 && was != 0 && (behind-was).Abs() <= doubt+time.Second {
		behind = was
	}
	c.behind, c.seen = behind, after
}

// behindAt returns by how much the clock of this machine is behind that of the server.
func (c *clock) behindAt(now instant) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen.wall.IsZero() {
		return 0
	}
	// The clock was set since the last look, or the machine was asleep. Until the next one, some seconds later, the timers
	// count: after a sleep that is late by as much, where a clock set ahead would have jobs begin.
	if set := now.wall.Sub(c.seen.wall) - now.timer.Sub(c.seen.timer); set.Abs() > maxClockError {
		return c.behind - set
	}
	return c.behind
}

// describeClock returns what is wrong with the clock of a machine that is behind that of the server; "" where nothing is.
func describeClock(behind time.Duration) string {
	switch by := behind.Abs().Round(time.Second); {
	case behind > 0:
		return fmt.Sprintf("this machine's clock is %.0f s behind the database's clock, which applies", by.Seconds())
	case behind < 0:
		return fmt.Sprintf("this machine's clock is %.0f s ahead of the database's clock, which applies", by.Seconds())
	}
	return ""
}

// Now returns the time by the clock of the server, where that of this machine is another one.
func (db *DB) Now() time.Time { return db.machine().Add(db.clock.behindAt(readInstant())) }

// Clock returns what is wrong with the clock of this machine, compared with that of the server; "" where nothing is.
func (db *DB) Clock() string { return describeClock(db.clock.behindAt(readInstant())) }

// logClock logs that the clock of this machine turned out to be wrong, or right again. logged is what was logged last,
// as a time by which the clock is behind; it returns what is to be passed next.
func (db *DB) logClock(logged time.Duration) time.Duration {
	behind := db.clock.behindAt(readInstant())
	switch {
	case behind == 0 && logged != 0:
		db.log.Info("this machine's clock agrees with the database's clock again")
	case (behind - logged).Abs() > maxClockError:
		db.log.Warn(describeClock(behind), "remedy", "have a time server set the clock of this machine, and that of the "+
			"database; certificates are checked by the one of this machine")
	default:
		return logged
	}
	return behind
}
