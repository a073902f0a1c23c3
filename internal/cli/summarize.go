package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"ravenbot/internal/news/summary"
)

func summaryFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("title", "", "the text's title, `T`: it says what matters in the text")
	c.flags.Int("sentences", 3, "print the `N` main sentences")
}

// maxText is the largest text that is read, in bytes.
const maxText = 8 << 20

// summarize prints the main sentences of a text.
func summarize(_ context.Context, c *invocation) error {
	text, err := readFile(c, c.args[0], maxText)
	if err != nil {
		return err
	}
	n := c.flagInt("sentences")
	if n < 1 {
		return usageErrorf("--sentences must be 1 or more")
	}
	list := []namedItem{}
	for _, s := range summary.Summarize(c.flagText("title"), string(text), n) {
		list = append(list, namedItem{strings.TrimSpace(s)})
	}
	if c.json {
		return writeItems(c.Out, list)
	}
	for _, s := range list {
		fmt.Fprintln(c.Out, s.Name)
	}
	return nil
}

// readFile reads a file, or standard input for "-". It fails when there are more than limit bytes, and returns none of
// them then.
func readFile(c *invocation, name string, limit int64) ([]byte, error) {
	in := io.NopCloser(c.In)
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		in = f
	}
	// One byte more than allowed shows that the file is too large.
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: it is larger than %d bytes", name, limit)
	}
	return data, nil
}
