package budget_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"ravenbot/internal/budget"
	"ravenbot/internal/chat"
	"ravenbot/internal/llm"
	"ravenbot/internal/store"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// days holds one sum a day, from yesterday on.
type days struct{ read int }

func (d *days) Usage(_ context.Context, from, cursor string, _ int) ([]store.Usage, string, error) {
	d.read++
	day := noon
	if cursor != "" {
		day, _ = time.Parse(time.DateOnly, cursor)
	}
	next := day.AddDate(0, 0, 1).Format(time.DateOnly)
	u := store.Usage{Day: day.Format(time.DateOnly), Model: "m",
		Channel: chat.Address{Platform: "web", Channel: "general"},
		Turns:   1, Tokens: llm.Usage{Input: 1_000_000}}
	return []store.Usage{u}, next, nil
}

type dollar struct{}

func (dollar) Caps() budget.Caps { return budget.Caps{Instance: 2} }

func (dollar) Limits() budget.Limits     { return budget.Limits{} }
func (dollar) Price(string) budget.Price { return budget.Price{InputPerM: 1} }

// What was counted while the clock was ahead is not spent today, and is not read at the start.
func TestLoadSpending_CountsTodayAlone(t *testing.T) {
	d := &days{}
	if _, err := budget.LoadSpending(t.Context(), d, dollar{}, slog.New(slog.DiscardHandler), func() time.Time {
		return noon
	}); err != nil {
		t.Fatal(err)
	}
	if d.read != 2 {
		t.Errorf("%d pages were read, want today and the first of tomorrow", d.read)
	}
}
