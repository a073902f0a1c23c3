package feed

import "context"

// State is what is known about a feed.
func (f *Fetcher) State(ctx context.Context, address string) (State, error) {
	return f.loadState(ctx, webAddress(address))
}
