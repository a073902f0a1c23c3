package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"ravenbot/internal/schedule"
	"ravenbot/internal/summary"
)

func scheduleFlags(c *call) {
	jsonFlag(c)
	c.flags.String("tz", "UTC", "the IANA `ZONE` that the schedule is read in")
	c.flags.String("from", "", "the `TIME` (RFC 3339) to begin after; without it: now")
	c.flags.Int("count", 1, "print the next `N` instants")
}

func nextDue(_ context.Context, c *call) error {
	zone, err := schedule.LoadZone(c.text("tz"))
	if err != nil {
		return misuse("%v", err)
	}
	s, err := schedule.Parse(c.args[0], zone)
	if err != nil {
		return misuse("%v", err)
	}
	at := time.Now()
	if from := c.text("from"); from != "" {
		if at, err = time.Parse(time.RFC3339, from); err != nil {
			return misuse("--from: %q is no time such as 2026-01-02T15:04:05Z", from)
		}
	}
	count := c.number("count")
	if count < 1 {
		return misuse("--count must be 1 or more")
	}
	var list []named
	for range count {
		next, ok := s.Next(at)
		if !ok {
			return fmt.Errorf("%q is not due within 30 years", c.args[0])
		}
		at = next
		if c.json {
			list = append(list, named{next.Format(time.RFC3339)})
			continue
		}
		fmt.Fprintln(c.Out, next.Format(time.RFC3339))
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	return nil
}

// named is an item of a list that has nothing but a name.
type named struct {
	Name string `json:"name"`
}

func summaryFlags(c *call) {
	jsonFlag(c)
	c.flags.String("title", "", "the text's title, `T`: it says what matters in the text")
	c.flags.Int("sentences", 3, "print the `N` main sentences")
}

// maxText is the most that is read of a text to summarize, in bytes.
const maxText = 8 << 20

func summarize(_ context.Context, c *call) error {
	text, err := readFile(c, c.args[0], maxText)
	if err != nil {
		return err
	}
	n := c.number("sentences")
	if n < 1 {
		return misuse("--sentences must be 1 or more")
	}
	list := []named{}
	for _, s := range summary.Summarize(c.text("title"), string(text), n) {
		list = append(list, named{strings.TrimSpace(s)})
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	for _, s := range list {
		fmt.Fprintln(c.Out, s.Name)
	}
	return nil
}

func readFile(c *call, name string, most int64) ([]byte, error) {
	in := io.NopCloser(c.In)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", name, most)
	}
	return data, nil
}
