package chat

import "context"

// AudienceChecker is a Platform that knows the readers of places. If a method fails, the caller must deny the access.
type AudienceChecker interface {
	// ReadersCanRead reports whether everybody who can read one place can read another, too.
	ReadersCanRead(ctx context.Context, readers, source Address) (bool, error)
}
