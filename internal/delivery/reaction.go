package delivery

import (
	"context"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// saveReaction counts a reaction as a word on the turn that its post shows. Nobody is
// answered, and no conversation is begun; what is below other posts is let go.
func (s *Service) saveReaction(ctx context.Context, m chat.Message) error {
	r := m.Reaction
	shown, known, err := s.o.Store.ShownTurn(ctx, m.Conversation, r.Post)
	if err == nil && !known && !r.Gone && s.flushUnlessClosed() { // it may have been posted just now
		shown, known, err = s.o.Store.ShownTurn(ctx, m.Conversation, r.Post)
	}
	if err != nil || !known {
		return err
	}
	m.Conversation = shown.To // with the thread, where the platform told of a channel alone
	if m.Author.ID != "" {
		if ok, _ := s.o.Admit(ctx, m, false); !ok {
			return nil
		}
	}
	return s.o.Store.SaveReaction(ctx, store.Reaction{Turn: shown.Turn, User: m.Author.ID, Post: shown.To.Channel + "/" + r.Post,
		Sign: r.Sign, Good: r.Good, Gone: r.Gone, At: m.Time})
}

// flushUnlessClosed returns when the outcomes of all posts so far are stored; false: the service
// ends.
func (s *Service) flushUnlessClosed() bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	s.flushOutcomes()
	return true
}
