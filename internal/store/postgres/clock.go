package postgres

import (
	"fmt"
	"sync/atomic"
	"time"
)

// maxClockError is how far the clock of this machine may be from that of the server without counting as wrong: more than
// time servers leave, and less than anybody notices of a reminder.
const maxClockError = 10 * time.Second

// clock is that of the server as far as it is known. Replicas whose machines disagree about the time would begin digests
// early or twice, refuse one another's sign-ins and delete what is to be kept; so they all go by the clock that ends
// their memberships, too. It is safe for concurrent use.
type clock struct {
	// behind is how far the clock of this machine is behind that of the server; 0: they agree within maxClockError.
	behind atomic.Int64
}

// note notes what the server's clock showed between two instants of this machine's.
func (c *clock) note(before, server, after time.Time) {
	// By what the clocks show: a reading of the timers in the instants would be compared instead.
	before, after = before.Round(0), after.Round(0)
	doubt := max(0, after.Sub(before)/2)
	behind := server.Sub(before.Add(doubt))
	if behind.Abs()-doubt <= maxClockError {
		behind = 0
	}
	// Each look is off by another part of its doubt: the time must not go back and forth with them.
	if was := c.is(); behind == 0 || was == 0 || (behind-was).Abs() > doubt+time.Second {
		c.behind.Store(int64(behind))
	}
}

func (c *clock) is() time.Duration { return time.Duration(c.behind.Load()) }

// describeClock returns what is wrong with the clock of a machine that is behind that of the server; "" where nothing is.
func describeClock(behind time.Duration) string {
	switch by := behind.Abs().Round(time.Second); {
	case behind > 0:
		return fmt.Sprintf("the clock of this machine is %.0f s behind that of the database, which counts", by.Seconds())
	case behind < 0:
		return fmt.Sprintf("the clock of this machine is %.0f s ahead of that of the database, which counts", by.Seconds())
	}
	return ""
}

// Now returns the time by the clock of the server, where that of this machine is another one. Between the looks at it,
// every 10 seconds, the clock of this machine is followed.
func (db *DB) Now() time.Time { return db.machine().Add(db.clock.is()) }

// Clock returns what is wrong with the clock of this machine, compared with that of the server; "" where nothing is.
func (db *DB) Clock() string { return describeClock(db.clock.is()) }

// logClock logs that the clock of this machine turned out to be wrong, or right again. logged is what was logged last,
// as a time by which the clock is behind; it returns what is to be passed next.
func (db *DB) logClock(logged time.Duration) time.Duration {
	behind := db.clock.is()
	switch {
	case behind == 0 && logged != 0:
		db.log.Info("the clock of this machine agrees with that of the database again")
	case (behind - logged).Abs() > maxClockError:
		db.log.Warn(describeClock(behind), "remedy", "have a time server set the clock of this machine, and that of the "+
			"database; certificates are checked by the one of this machine")
	default:
		return logged
	}
	return behind
}
