package catchup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/recall/history"
)

// Query is a digest's request for channel messages.
type Query struct {
	Name     string // of the digest, for the log
	Channels []chat.Address
	After    time.Time
	// Seen returns the messages that were reported before, by the IDs of a Report.
	Seen func(ctx context.Context, ids []string) (map[string]bool, error)
	Zone *time.Location
	// Write asks a language model. It is nil if there is none.
	Write func(ctx context.Context, system, prompt string) (string, error)
	// Extra is an additional instruction for the model.
	Extra string
}

// Report is a summary of people's messages in channels.
type Report struct {
	Text    string   // Markdown in which every entry cites messages; empty without messages
	Entries int      // of Text
	Said    int      // messages that it is made of
	Left    int      // messages before them, which were too many
	Unread  int      // channels of which the platform shows nothing
	IDs     []string // of all of them
}

// Report returns people's messages in channels that were not reported before. It leaves out posts of bots, so that no
// digest becomes the source of another. It fails if no channel could be read.
func (s *Service) Report(ctx context.Context, q Query) (Report, error) {
	var report Report
	said, unread, err := s.readChannels(ctx, q)
	if report.Unread = unread; err != nil {
		return report, err
	}
	ids := make([]string, len(said))
	for i, one := range said {
		ids[i] = reportID(one)
	}
	seen, err := q.Seen(ctx, ids)
	if err != nil {
		return report, err
	}
	said = slices.DeleteFunc(said, func(one history.Message) bool { return seen[reportID(one)] })
	for _, one := range said {
		report.IDs = append(report.IDs, reportID(one))
	}
	report.Left = max(0, len(said)-maxMessages)
	said = said[report.Left:]
	if report.Said = len(said); len(said) == 0 {
		return report, nil
	}
	write := writer(q.Write)
	if write != nil {
		write = func(ctx context.Context, system, prompt string) (string, error) {
			limited, cancel := context.WithTimeout(ctx, writeTimeout)
			defer cancel()
			return q.Write(limited, system, prompt)
		}
	}
	report.Text = s.summarize(ctx, "digest "+q.Name, reader{group: true}, said, write, q.Extra)
	report.Entries = strings.Count("\n"+report.Text, "\n- ")
	return report, nil
}

// readChannels returns people's messages in channels, oldest first, with times in the zone of the query, and the
// number of channels that the platform hides.
func (s *Service) readChannels(ctx context.Context, q Query) (said []history.Message, unread int, err error) {
	var faults []error
	known := map[string]bool{}
	for _, channel := range q.Channels {
		list, err := s.o.Reader.ReadChannel(ctx, channel, q.After)
		var refused *chat.SetupError
		if err != nil {
			s.o.Log.Warn("failed to read a channel for a digest", "digest", q.Name, "channel", channel.String(), "error", err)
		}
		switch {
		case errors.As(err, &refused):
			// If the platform refuses, list still has the stored messages, so there is no continue.
			unread++
		case err != nil:
			faults = append(faults, err)
			continue
		}
		for _, one := range list {
			// A question that begins a thread is known under both the thread and its channel.
			if id := reportID(one); !one.Bot && strings.TrimSpace(one.Text) != "" && !known[id] {
				known[id] = true
				one.At = one.At.In(q.Zone)
				said = append(said, one)
			}
		}
	}
	if len(faults) > 0 && len(faults) == len(q.Channels) {
		return nil, unread, fmt.Errorf("read the channels of digest %s: %w", q.Name, errors.Join(faults...))
	}
	slices.SortStableFunc(said, func(a, b history.Message) int { return a.At.Compare(b.At) })
	return said, unread, nil
}

// reportID returns the identity of a message over all channels.
func reportID(one history.Message) string { return one.Conversation.Base().String() + "/" + one.ID }
