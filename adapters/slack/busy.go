package slack

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"ravenbot/internal/chat"
)

// Rules of telling people that the bot is busy: each once, until none of their
// messages was turned away for busyEvery; so many wait to be told, and are told at a
// time.
const (
	busyEvery       = time.Minute
	maxWaitingNotes = 4096
	busyWorkers     = 4
	busyTimeout     = time.Minute
	busyText        = "I am busy right now. Please try again in a moment."
)

// queueBusyNote has the author of a refused message told that the bot is busy: once, until none of
// their messages was refused for busyEvery. Commands are told each time, because only their author
// sees the note.
func (s *Slack) queueBusyNote(m chat.Message) {
	now := s.o.Now()
	who := m.Conversation.Channel + " " + m.Author.ID
	last, _ := s.busyTold.Change(who, func(time.Time, bool) time.Time { return now })
	if now.Sub(last) < busyEvery && !isInteraction(m) {
		return
	}
	select {
	case s.busyWaiting <- m:
	default:
		s.busyTold.Drop(who) // the next one will be told of
		s.o.Log.Warn("busy note queue full, note dropped", "channel", m.Conversation.Channel)
	}
}

// postBusyNotes posts queued notes until ctx ends.
func (s *Slack) postBusyNotes(ctx context.Context) {
	var wg sync.WaitGroup
	for range busyWorkers {
		wg.Go(func() {
			for {
				select {
				case m := <-s.busyWaiting:
					s.postBusyNote(ctx, m)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	wg.Wait()
}

// postBusyNote tells the author of a message, and nobody else, that the bot is busy.
func (s *Slack) postBusyNote(ctx context.Context, m chat.Message) {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	to, d := m.Conversation, chat.Draft{Key: m.Key() + "/busy", Reply: m.Reply, Ephemeral: true, Text: busyText}
	if len(m.Reply.Handle) == 0 {
		raw, err := json.Marshal(handle{User: m.Author.ID, Received: s.o.Now()})
		if err != nil {
			s.o.Log.Error("busy note not encoded", "error", err)
			return
		}
		d.Reply.Handle = raw
	}
	if to.Thread == m.Reply.MessageID {
		to.Thread = ""
	}
	if _, err := s.Post(ctx, to, d); err != nil && ctx.Err() == nil {
		s.o.Log.Warn("busy note not posted", "channel", to.Channel, "error", err)
	}
}
