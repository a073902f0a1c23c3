package slack

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Rules of telling people that the bot is busy: each by one note a minute at most, which names all
// that was refused.
const (
	// busyEvery is how often one person is told in one place, busyGather how long a note waits for further refused
	// messages.
	busyEvery  = time.Minute
	busyGather = time.Second
	// busyLook is how often it is looked which notes are due.
	busyLook = 250 * time.Millisecond
	// busyWorkers bounds the notes that are posted at a time, busyTimeout each of them with its waits for Slack's pace.
	busyWorkers  = 4
	busyTimeout  = time.Minute
	maxBusyChars = 2000
)

// queueBusyNote has the author of a refused message told that the bot is busy, in the place of the
// message. Commands are told each time, because their author sees nothing else. done is called after the note.
func (s *Slack) queueBusyNote(m chat.Message, done func(context.Context) error) {
	key := m.Conversation.Channel + " " + m.Author.ID
	// A message at the top of a channel and one that begins a thread share a note, those in a thread have their own.
	if isInteraction(m) {
		key += " " + m.ID
	} else if m.Conversation.Thread != m.Reply.MessageID {
		key += " " + m.Conversation.Thread
	}
	if _, _, dropped := s.busy.Add(key, m, done, s.o.Now()); dropped {
		s.o.Log.Warn("too many busy notes are waiting; dropped one", "channel", m.Conversation.Channel)
	}
}

// postBusyNotes posts notes until ctx ends.
func (s *Slack) postBusyNotes(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	workers := make(chan struct{}, busyWorkers)
	look := time.NewTicker(busyLook)
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		for _, n := range s.busy.Due(s.o.Now()) {
			select {
			case workers <- struct{}{}:
			case <-ctx.Done():
				return
			}
			wg.Go(func() {
				s.postBusyNote(ctx, n)
				<-workers
			})
		}
	}
}

// postBusyNote tells the author of refused messages, and nobody else, that the bot is busy.
func (s *Slack) postBusyNote(ctx context.Context, n kit.BusyNote) {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	m := n.Messages[0]
	to, d := m.Conversation, chat.Draft{Key: m.Key() + "/busy", Reply: m.Reply, Ephemeral: true,
		Text: n.Text(maxBusyChars)}
	if len(m.Reply.Handle) == 0 {
		raw, err := json.Marshal(handle{User: m.Author.ID, Received: s.o.Now()})
		if err != nil {
			s.o.Log.Error("failed to encode a busy note", "error", err)
			return
		}
		d.Reply.Handle = raw
	}
	// A thread that has not begun cannot be seen.
	if to.Thread == m.Reply.MessageID {
		to.Thread = ""
	}
	_, err := s.Post(ctx, to, d)
	if err == nil {
		err = n.MarkDone(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Warn("failed to post a busy note", "channel", to.Channel, "error", err)
	}
}
