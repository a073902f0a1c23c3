package chat

import "context"

type authorKey struct{}

// WithAuthor returns a context that carries the message that somebody's command, button or form came with, to
// whatever records who changed something.
func WithAuthor(ctx context.Context, m Message) context.Context {
	return context.WithValue(ctx, authorKey{}, m)
}

// AuthorOf returns the message that WithAuthor put into a context, and false where there is none.
func AuthorOf(ctx context.Context) (Message, bool) {
	m, ok := ctx.Value(authorKey{}).(Message)
	return m, ok
}
