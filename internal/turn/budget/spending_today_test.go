package budget_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/budget"
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

func (dollar) Limits([]string) budget.Limits { return budget.Limits{} }
func (dollar) AreUsersLimited() bool         { return false }
func (dollar) Price(string) budget.Price     { return budget.Price{InputPerM: 1} }

func TestDays_EndToday(t *testing.T) {
	s, err := budget.LoadSpending(t.Context(), &days{}, dollar{}, slog.New(slog.DiscardHandler), func() time.Time {
		return noon
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Days(t.Context())
	if err != nil || len(list) != 30 {
		t.Fatalf("there are %d days, want 30; the error is %v", len(list), err)
	}
	if want := (budget.Day{Day: "2026-03-04", Turns: 1, USD: 1}); list[29] != want {
		t.Errorf("today is %+v, want %+v", list[29], want)
	}
	if want := (budget.Day{Day: "2026-02-03"}); list[0] != want {
		t.Errorf("the first day is %+v, want %+v", list[0], want)
	}
}

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
