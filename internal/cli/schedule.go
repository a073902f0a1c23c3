package cli

import (
	"context"
	"fmt"
	"time"

	"ravenbot/internal/news/schedule"
)

func scheduleFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("tz", "UTC", "the IANA `ZONE` that the schedule is read in")
	c.flags.String("from", "", "the `TIME` (RFC 3339) to begin after; without it: now")
	c.flags.Int("count", 1, "print the next `N` instants")
}

// printNextDue prints the next instants at which a schedule is due.
func printNextDue(_ context.Context, c *invocation) error {
	zone, err := schedule.LoadZone(c.flagText("tz"))
	if err != nil {
		return usageErrorf("%v", err)
	}
	at := time.Now()
	if from := c.flagText("from"); from != "" {
		if at, err = time.Parse(time.RFC3339, from); err != nil {
			return usageErrorf("--from: %q is not a time such as 2026-01-02T15:04:05Z", from)
		}
	}
	s, err := schedule.ParseNext(c.args[0], zone, at)
	if err != nil {
		return usageErrorf("%v", err)
	}
	count := c.flagInt("count")
	if count < 1 {
		return usageErrorf("--count must be 1 or more")
	}
	var list []namedItem
	for n := range count {
		next, ok := s.Next(at)
		// What is due once has no second instant.
		if !ok && n > 0 {
			break
		}
		if !ok {
			return fmt.Errorf("%q is not due within 30 years", c.args[0])
		}
		at = next
		if c.json {
			list = append(list, namedItem{next.Format(time.RFC3339)})
			continue
		}
		fmt.Fprintln(c.Out, next.Format(time.RFC3339))
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	return nil
}
