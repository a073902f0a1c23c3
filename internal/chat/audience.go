package chat

import "context"

// AudienceChecker is a Platform that can tell who reads what. An error of its methods says that it could not be found
// out; what is decided by them is then refused.
type AudienceChecker interface {
	// ReadersCanRead reports whether everybody who can read one place can read another, too.
	ReadersCanRead(ctx context.Context, readers, source Address) (bool, error)
	// UserCanRead reports whether a user can read a place.
	UserCanRead(ctx context.Context, user string, at Address) (bool, error)
}

// DirectMessenger is a Platform on which the bot can write to a user who has not written to it.
type DirectMessenger interface {
	// DirectMessage returns the address of the direct messages with a user of a workspace. The error is a *PostError.
	DirectMessage(ctx context.Context, workspace, user string) (Address, error)
}
