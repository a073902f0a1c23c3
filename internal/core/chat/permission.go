package chat

import "context"

type permissionKey struct{}

// WithPermission returns a context whose requests may change a platform only while mayAct returns nil. Of several
// processes that share a store only one may send a post. This process may be suspended, or wait for the platform's
// rate limit, until another has taken over.
func WithPermission(ctx context.Context, mayAct func() error) context.Context {
	return context.WithValue(ctx, permissionKey{}, mayAct)
}

// MayAct returns an error if a request of ctx must not change a platform now. Platforms call it right before they send
// the request.
func MayAct(ctx context.Context) error {
	mayAct, ok := ctx.Value(permissionKey{}).(func() error)
	if !ok {
		return nil
	}
	return mayAct()
}

// NeedsPermission reports whether MayAct can return an error for ctx.
func NeedsPermission(ctx context.Context) bool { return ctx.Value(permissionKey{}) != nil }
