package mcp

import (
	"context"

	"ravenbot/internal/store"
)

// StoredBlobs keeps what is known of servers as blobs, so that their tools can be called from the first message after
// a restart.
type StoredBlobs struct{ Blobs store.Blobs }

// Load returns what was last saved of a server, or nil.
func (s StoredBlobs) Load(what, server string) ([]byte, error) {
	return s.Blobs.LoadBlob(context.Background(), what+"/"+server)
}

// Save keeps something of a server; the JSON null deletes it, as it reads like nothing.
func (s StoredBlobs) Save(what, server string, data []byte) error {
	return s.Blobs.SaveBlob(context.Background(), what+"/"+server, data)
}
