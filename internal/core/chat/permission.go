package chat

import "context"

type permissionKey struct{}

// WithPermission returns a context whose requests may change something on a platform only while mayAct returns nil. Of
// several processes that share a store one alone may send a post, and this one may be paused, or wait for the pace of a
// platform, until another has taken over.
func WithPermission(ctx context.Context, mayAct func() error) context.Context {
	return context.WithValue(ctx, permissionKey{}, mayAct)
}

// MayAct returns why a request of ctx may change nothing on a platform now, or nil. Platforms ask right before they send
// the request.
func MayAct(ctx context.Context) error {
	mayAct, ok := ctx.Value(permissionKey{}).(func() error)
	if !ok {
		return nil
	}
	return mayAct()
}

// NeedsPermission reports whether MayAct can return anything but nil for ctx.
func NeedsPermission(ctx context.Context) bool { return ctx.Value(permissionKey{}) != nil }
