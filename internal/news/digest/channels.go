package digest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/feature/catchup"
)

// Rules of digests whose source is channels.
const (
	maxChannels = 20 // of a digest
	// channelOverlap is how far before the last run messages are looked for: what a platform told late, or could not
	// tell, is found by the next run. Those that were told are known by their IDs.
	channelOverlap = 24 * time.Hour
	firstLookBack  = 24 * time.Hour // of the first run
)

// Channels tells what people said in channels, as catchup.Service does.
type Channels interface {
	Report(ctx context.Context, q catchup.Query) (catchup.Report, error)
}

// CheckChannel returns an error where a digest that is posted to a place may not be made of a channel: both have to be
// of the same server or workspace.
func CheckChannel(channel, post string) error {
	from, err := chat.ParseAddress(channel)
	if err != nil {
		return err
	}
	to, err := chat.ParseAddress(post)
	if err != nil {
		return nil // which is reported as a fault of the place
	}
	if from.Platform != to.Platform || from.Workspace != to.Workspace {
		return fmt.Errorf("what is said in %s may be posted only in the same server or workspace, and %s is in another",
			channel, post)
	}
	return nil
}

// parseChannels reads the channels of a plan, each of which has to go with every place.
func (d *spec) parseChannels() error {
	for _, text := range d.Channels {
		for _, to := range d.Post {
			if err := CheckChannel(text, to); err != nil {
				return err
			}
		}
		a, err := chat.ParseAddress(text)
		if err != nil {
			return err
		}
		d.channels = append(d.channels, a)
	}
	switch {
	case len(d.channels) > maxChannels:
		return fmt.Errorf("%d channels are too many; %d are taken", len(d.channels), maxChannels)
	case len(d.channels)+len(d.Hooks) > 0 && d.isInstant():
		return errors.New("on-new works with feeds only; name the times instead")
	case len(d.channels)+len(d.Hooks) > 0 && d.Style == Weekly:
		return errors.New(
			"style weekly takes no channels and webhooks: it is made of what other digests posted to the same place",
		)
	}
	return nil
}

// readableChannels returns the channels that everybody may read where a digest is posted, and sentences about the
// others. What cannot be found out counts as no.
func (s *Service) readableChannels(ctx context.Context, d spec) (list []chat.Address, left []string) {
	for _, channel := range d.channels {
		open := true
		for _, to := range d.post {
			may, err := s.o.Platforms.ReadersCanRead(ctx, to, channel)
			if err != nil {
				s.o.Log.Warn("failed to find out who can read a channel; leaving it out", "digest", d.Name,
					"channel", channel.String(), "error", err)
			}
			open = open && may && err == nil
		}
		if open {
			list = append(list, channel)
			continue
		}
		left = append(left, "a channel is left out, because it is not certain that everybody here may read it")
	}
	return list, slices.Compact(left)
}

// checkPlaces returns a BadPlan where a post with the digest's tags cannot be made in one of its places, or somebody
// who reads it there may not read one of its channels.
func (s *Service) checkPlaces(ctx context.Context, d spec) error {
	for _, to := range d.post {
		// What cannot be found out now is told by the run.
		var fault *chat.SetupError
		if err := s.o.Platforms.CheckPost(ctx, to, d.Tags); errors.As(err, &fault) {
			return BadPlan{fmt.Errorf("%s: %w", to, fault)}
		}
	}
	if list, _ := s.readableChannels(ctx, d); len(list) < len(d.channels) {
		return BadPlan{errors.New("not everybody who can read the place it is posted to can read each of its channels, " +
			"or the platform does not say so")}
	}
	return nil
}

// addChannels adds to an edition what was said in the digest's channels since its last run.
func (s *Service) addChannels(ctx context.Context, d spec, e *edition) error {
	if len(d.channels) == 0 || s.o.Channels == nil {
		return nil
	}
	// Asked at every run, because who may read a channel changes after the digest was made.
	channels, left := s.readableChannels(ctx, d)
	e.faults = append(e.faults, left...)
	if len(channels) == 0 {
		return nil
	}
	after, err := s.lastRead(ctx, d)
	if err != nil {
		return err
	}
	q := catchup.Query{
		Name:     d.Name,
		Channels: channels,
		After:    after,
		Zone:     d.zone,
		Seen: func(ctx context.Context, ids []string) (map[string]bool, error) {
			return s.seenMessages(ctx, d.Name, ids)
		},
		Write: s.channelWriter(d, e),
	}
	if language := s.languageOf(d); language != "" {
		q.Extra = "Write in this language: " + language + ". "
	}
	if d.Prompt != "" {
		q.Extra += "Whoever made the digest adds, as far as the rules above allow it: " + d.Prompt
	}
	report, err := s.o.Channels.Report(ctx, q)
	if err != nil {
		return err
	}
	e.report = report
	if report.Unread > 0 {
		e.faults = append(e.faults, "I cannot read "+pluralize(report.Unread,
			"channel")+": invite me there, or allow me to read its history")
	}
	if report.Left > 0 {
		e.notes = append(e.notes, fmt.Sprintf("%s older than the newest %d left out",
			pluralize(report.Left, "message"), report.Said))
	}
	return nil
}

// lastRead returns the instant after which messages may be new to a digest: channelOverlap before
// its last successful run, or firstLookBack ago.
func (s *Service) lastRead(ctx context.Context, d spec) (time.Time, error) {
	runs, err := s.lastRuns(ctx, d.Name, lookBack)
	if err != nil {
		return time.Time{}, err
	}
	for _, r := range runs {
		if r.OK {
			return r.Began.Add(-channelOverlap), nil
		}
	}
	return s.o.Now().Add(-firstLookBack), nil
}

// seenMessages returns which messages a digest has told. Messages and items are kept under hashes of their names.
func (s *Service) seenMessages(ctx context.Context, name string, ids []string) (map[string]bool, error) {
	hashes := make([]string, len(ids))
	for i, id := range ids {
		hashes[i] = messageHash(id)
	}
	known, _, err := s.o.Store.SeenItems(ctx, name, hashes)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for i, id := range ids {
		seen[id] = known[hashes[i]]
	}
	return seen, nil
}

// messageHash returns the name under which a message counts as seen; no item of a feed has it.
func messageHash(id string) string { return shortHash("message\x00" + id) }

// channelWriter returns what writes about channels; nil: there is no language model.
func (s *Service) channelWriter(d spec, e *edition) func(ctx context.Context, system, prompt string) (string, error) {
	write := s.writer(d)
	if write == nil {
		return nil
	}
	return func(ctx context.Context, system, prompt string) (string, error) {
		if !fitsTokens(d.MaxTokens, system, prompt, 2*answerTokens) {
			e.notes = append(e.notes, fmt.Sprintf("no language model: the messages do not fit into %d tokens", d.MaxTokens))
			return "", errors.New("the messages do not fit into maxTokens")
		}
		text, _, err := write(ctx, system, prompt, nil)
		return text, err
	}
}

// composeChannels adds what was said in channels to the draft, and to its first part where it is long.
func (e *edition) composeChannels(d spec) {
	if e.report.Text == "" {
		return
	}
	heading := "**Said in this channel**"
	if len(d.channels) > 1 || !d.postsTo(d.channels[0]) {
		heading = "**Said in " + pluralize(len(d.channels), "channel") + "**"
	}
	heading += fmt.Sprintf(" (%s)", pluralize(e.report.Said, "message"))
	if e.draft.Text == "" {
		e.draft.Text = "**" + escape(d.title) + "**"
	}
	for _, draft := range []*chat.Draft{&e.draft, &e.head} {
		if draft.Text != "" {
			draft.Text = strings.TrimSpace(draft.Text + "\n\n" + heading + "\n\n" + e.report.Text)
		}
	}
}
