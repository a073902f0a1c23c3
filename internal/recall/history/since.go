package history

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/tool"
)

// Since returns what was said after an instant where a caller is, oldest first: in the channel, in its threads as far
// as they are open to all who read it, and in the conversation. It returns false where the caller may read nothing.
// What a platform cannot tell is left out.
func (s *Service) Since(ctx context.Context, c tool.Caller, after time.Time) ([]Message, bool, error) {
	at, ok := s.o.Place(c)
	if !ok {
		return nil, false, nil
	}
	list, _, err := s.read(ctx, s.inPlace(at, "", 0), after)
	return list, true, err
}

// ReadChannel returns what was said in a channel after an instant, oldest first, with its threads as far as they are
// open to all who read it. Who may be told of it is up to the caller. Where the platform refuses to show the channel,
// it returns what is stored together with a *chat.SetupError.
func (s *Service) ReadChannel(ctx context.Context, channel chat.Address, after time.Time) ([]Message, error) {
	list, refused, err := s.read(ctx, s.inPlace(channel, "", 0), after)
	if err == nil {
		err = refused
	}
	return list, err
}

// read returns messages, and why the platform shows none of its own.
func (s *Service) read(ctx context.Context, q Query, after time.Time) (list []Message, refused, err error) {
	p := s.place(q.In.Base())
	p.Lock()
	defer p.Unlock()
	if err := s.refresh(ctx, p.place, q.In.Base()); err != nil {
		// As in Search: half of a change may have been noted.
		p.place = newPlace()
		return nil, nil, fmt.Errorf("read %s: %w", q.In, err)
	}
	refused = s.readPlatform(ctx, p.place, q.In)
	q.Open = s.readThreads(ctx, p.place, q.In, after)
	p.commit()
	p.used = s.o.Now()
	there := map[string]bool{}
	for _, m := range p.messages {
		// The message that begins a thread is read in its channel and in the thread.
		if m.At.After(after) && q.covers(m) && !there[m.ID] {
			there[m.ID] = true
			m.Link = cmp.Or(m.Link, s.link(m))
			list = append(list, m)
		}
	}
	slices.SortStableFunc(list, func(a, b Message) int { return a.At.Compare(b.At) })
	return list, refused, nil
}
