package agent

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
)

// storePause is how long a waitingStore waits between two attempts.
const storePause = 500 * time.Millisecond

// waitingStore is a Store whose operations on turns wait, until ctx ends, for a database with a passing fault, such as
// a restart. Otherwise askers would get an error, and the answer and the results of tools would be lost. Waiting turns
// keep their worker slots, which limits their number.
type waitingStore struct {
	Store
	log *slog.Logger
}

// Turns, TurnOf, SaveTurn and Summary are those of Store.
func (s waitingStore) Turns(ctx context.Context, a chat.Address, r store.Range) (list []conversation.Turn, err error) {
	err = s.wait(ctx, func() error {
		list, err = s.Store.Turns(ctx, a, r)
		return err
	})
	return list, err
}

func (s waitingStore) TurnOf(ctx context.Context, subject string) (a chat.Address, t conversation.Turn, err error) {
	err = s.wait(ctx, func() error {
		a, t, err = s.Store.TurnOf(ctx, subject)
		return err
	})
	return a, t, err
}

func (s waitingStore) SaveTurn(ctx context.Context, a chat.Address, t *conversation.Turn, c ...store.ToolCall) error {
	return s.wait(ctx, func() error { return s.Store.SaveTurn(ctx, a, t, c...) })
}

func (s waitingStore) Summary(ctx context.Context, a chat.Address) (sum conversation.Summary, err error) {
	err = s.wait(ctx, func() error {
		sum, err = s.Store.Summary(ctx, a)
		return err
	})
	return sum, err
}

// wait runs an operation until it returns no passing error, or ctx ends.
func (s waitingStore) wait(ctx context.Context, operation func() error) error {
	for told := false; ; told = true {
		err := operation()
		trouble, ok := errors.AsType[*store.SystemError](err)
		if !ok || !trouble.Passing {
			return err
		}
		if !told {
			s.log.Warn("turn is waiting for the store", "error", err)
		}
		select {
		case <-time.After(storePause):
		case <-ctx.Done():
			return err
		}
	}
}
