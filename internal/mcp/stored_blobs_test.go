package mcp

import (
	"context"
	"errors"
	"testing"
)

// blobs keeps blobs in memory. It has an error for a blob that it does not have.
type blobs map[string]string

func (b blobs) LoadBlob(_ context.Context, key string) ([]byte, error) {
	kept, ok := b[key]
	if !ok {
		return nil, errors.New("no such blob")
	}
	return []byte(kept), nil
}

func (b blobs) SaveBlob(_ context.Context, key string, data []byte) error {
	b[key] = string(data)
	return nil
}

// Keys are a stored format: with others nothing would be known of servers after an update.
func TestStoredBlobs_KeepsByKindAndServer(t *testing.T) {
	kept := blobs{}
	s := StoredBlobs{kept}
	if err := s.Save(kindPins, "notes", []byte(`{"a":1}`)); err != nil || kept["pins/notes"] != `{"a":1}` {
		t.Errorf("kept %v, %v", kept, err)
	}
	if got, err := s.Load(kindPins, "notes"); err != nil || string(got) != `{"a":1}` {
		t.Errorf("loaded %s, %v", got, err)
	}
	if _, err := s.Load(kindTools, "notes"); err == nil {
		t.Error("an error of the store was dropped")
	}
}
