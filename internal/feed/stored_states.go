package feed

import (
	"context"
	"encoding/json"
	"fmt"

	"ravenbot/internal/store"
)

// Records keeps what is known of feeds, without knowing its form.
type Records interface {
	LoadFeed(ctx context.Context, url string) (store.Feed, bool, error)
	SaveFeed(ctx context.Context, f store.Feed) error
}

// StoredStates keeps the states of feeds as records.
type StoredStates struct{ Records Records }

// LoadFeed returns what is known of a feed, and false where nothing is.
func (s StoredStates) LoadFeed(ctx context.Context, url string) (State, bool, error) {
	record, found, err := s.Records.LoadFeed(ctx, url)
	var state State
	if err != nil || !found {
		return state, false, err
	}
	if err := json.Unmarshal(record.Data, &state); err != nil {
		return state, false, fmt.Errorf("read what is kept of feed %s: %w", url, err)
	}
	return state, true, nil
}

// SaveFeed keeps what is known of a feed.
func (s StoredStates) SaveFeed(ctx context.Context, state State) error {
	data, err := json.Marshal(state)
	if err != nil {
		return err
	}
	return s.Records.SaveFeed(ctx, store.Feed{URL: state.URL, Data: data})
}
