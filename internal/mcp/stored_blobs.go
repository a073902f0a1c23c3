package mcp

import "context"

// Blobs keeps JSON under keys.
type Blobs interface {
	// LoadBlob returns what was last saved under a key, or nil.
	LoadBlob(ctx context.Context, key string) ([]byte, error)
	SaveBlob(ctx context.Context, key string, data []byte) error
}

// StoredBlobs keeps what is known of servers as blobs, so that their tools can be called from the first message after
// a restart.
type StoredBlobs struct{ Blobs Blobs }

// Load returns what was last saved of a server, or nil.
func (s StoredBlobs) Load(what, server string) ([]byte, error) {
	return s.Blobs.LoadBlob(context.Background(), what+"/"+server)
}

// Save keeps something of a server.
func (s StoredBlobs) Save(what, server string, data []byte) error {
	return s.Blobs.SaveBlob(context.Background(), what+"/"+server, data)
}
