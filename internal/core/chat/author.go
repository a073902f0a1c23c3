package chat

import "context"

type authorKey struct{}

// WithAuthor returns a context with the message of a command, button or form, for the records of changes and their
// authors.
func WithAuthor(ctx context.Context, m Message) context.Context {
	return context.WithValue(ctx, authorKey{}, m)
}

// AuthorOf returns the message that WithAuthor put into a context, or false.
func AuthorOf(ctx context.Context) (Message, bool) {
	m, ok := ctx.Value(authorKey{}).(Message)
	return m, ok
}
