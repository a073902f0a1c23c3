package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"ravenbot/internal/audit"
)

// shelf keeps items.
type shelf map[string]json.RawMessage

func (s shelf) SaveItem(_ context.Context, _, name string, item json.RawMessage, _ bool) error {
	if s["full"] != nil {
		return errors.New("the disk is full")
	}
	s[name] = item
	return nil
}
func (s shelf) Items(context.Context, string) (map[string]json.RawMessage, error) { return s, nil }
func (s shelf) DeleteItem(_ context.Context, _, name string) error {
	delete(s, name)
	return nil
}

func load(t *testing.T, s shelf) *audit.Log {
	t.Helper()
	b, err := audit.Load(t.Context(), s, func() time.Time { return time.Unix(1_700_000_000, 0) }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheNewestChangesAreKept(t *testing.T) {
	s := shelf{}
	b := load(t, s)
	for i := range audit.MaxEntries + 5 {
		b.Record(t.Context(), audit.Entry{Who: "admin", Action: "change", Target: strconv.Itoa(i)})
	}
	if len(s) != audit.MaxEntries {
		t.Errorf("%d entries are kept", len(s))
	}
	b = load(t, s) // as after a restart
	b.Record(t.Context(), audit.Entry{Action: "later"})
	page := b.Entries("", 2)
	if len(page) != 2 || page[0].Action != "later" || page[1].Target != strconv.Itoa(audit.MaxEntries+4) || page[0].Time.IsZero() {
		t.Fatalf("the newest are %+v", page)
	}
	if next := b.Entries(page[1].ID, 1); len(next) != 1 || next[0].Target != strconv.Itoa(audit.MaxEntries+3) {
		t.Errorf("behind them is %+v", next)
	}
	if all := b.Entries("", audit.MaxEntries*2); len(all) != audit.MaxEntries || all[len(all)-1].Target != "6" {
		t.Errorf("%d are listed, the last %+v", len(all), all[len(all)-1])
	}
}

func TestWhatIsNotKeptIsNotListed(t *testing.T) {
	b := load(t, shelf{})
	full := shelf{}
	b2 := load(t, full)
	full["full"] = json.RawMessage("1")
	b2.Record(t.Context(), audit.Entry{Action: "lost"})
	if len(b.Entries("", 9))+len(b2.Entries("", 9)) != 0 {
		t.Error("an entry is listed that is not kept")
	}
	if _, err := audit.Load(t.Context(), shelf{"x": json.RawMessage("{}")}, time.Now, slog.Default()); err == nil {
		t.Error("a name that is no number was taken")
	}
}
