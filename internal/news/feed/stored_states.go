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
	SaveFeeds(ctx context.Context, feeds ...store.Feed) error
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
		return state, false, fmt.Errorf("read the record of feed %s: %w", url, err)
	}
	return state, true, nil
}

// SaveFeeds keeps what is known of feeds: of all of them or, with an error, of none.
func (s StoredStates) SaveFeeds(ctx context.Context, states ...State) error {
	records := make([]store.Feed, len(states))
	for n, state := range states {
		data, err := json.Marshal(state)
		if err != nil {
			return err
		}
		records[n] = store.Feed{URL: state.URL, Data: data}
	}
	return s.Records.SaveFeeds(ctx, records...)
}
