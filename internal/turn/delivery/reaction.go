package delivery

import (
	"context"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// saveReaction stores a reaction as feedback on the turn that its post shows. Reactions to
// other posts are ignored. Nobody is answered, and no conversation begins.
func (s *Service) saveReaction(ctx context.Context, m chat.Message) error {
	r := m.Reaction
	shown, known, err := s.o.Store.ShownTurn(ctx, m.Conversation, r.Post)
	// The post may be so new that its outcome is not stored yet.
	if err == nil && !known && !r.Gone && s.Flush() {
		shown, _, err = s.o.Store.ShownTurn(ctx, m.Conversation, r.Post)
	}
	if err != nil || shown.Turn == "" {
		return err
	}
	m.Conversation = shown.To // with the thread, which the platform may omit
	if m.Author.ID != "" {
		if ok, _ := s.o.Admit(ctx, m, false); !ok {
			return nil
		}
	}
	return s.o.Store.SaveReaction(ctx, store.Reaction{
		Turn: shown.Turn,
		User: m.Author.ID,
		Post: shown.To.Channel + "/" + r.Post,
		Sign: r.Sign,
		Good: r.Good,
		Gone: r.Gone,
		At:   m.Time,
	})
}

// Flush waits until the outcomes of all posts so far are stored. It returns false where the service
// ends.
func (s *Service) Flush() bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.wg.Add(1) // Run ends the storing of outcomes only when all work is done
	s.mu.Unlock()
	defer s.wg.Done()
	s.flushOutcomes(s.workCtx)
	return true
}
