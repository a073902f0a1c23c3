package chat

import "context"

// AudienceChecker is a Platform that can tell who reads what. An error of its methods says that it could not be found
// out; what is decided by them is then refused.
type AudienceChecker interface {
	// ReadersCanRead reports whether everybody who can read one place can read another, too.
	ReadersCanRead(ctx context.Context, readers, source Address) (bool, error)
}
