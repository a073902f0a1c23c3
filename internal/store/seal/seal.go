// Package seal encrypts the secrets in the store with a key from a separate file, so that a backup of the store does
// not reveal them. No record can be read under another's name.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"ravenbot/internal/store"
)

const keySize = 32

// LoadKey reads the key that encrypts secrets, and creates it at the first call: 32 random bytes in a file that only
// its owner may read. It returns an error for a file that others may read.
func LoadKey(path string) ([]byte, error) {
	key, err := ReadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = NewKey()
	// Beside a database there may be nothing else that makes the folder.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the key for secrets: %w", err)
	}
	// Written to a temporary file first, so that a crash leaves no half a key.
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make the key for secrets: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	// Synced before the file gets its name: after a power failure a key of zero bytes could lie there otherwise.
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // complete or not at all, and never over an existing key
	}
	// Another process was faster. Its key counts, because it may have encrypted records with it already.
	if errors.Is(err, fs.ErrExist) {
		return ReadKey(path)
	}
	// The folder as well: after a power failure records could be there that were encrypted with a key which is not.
	if err == nil {
		err = store.SyncFolder(filepath.Dir(path))
	}
	if err != nil {
		return nil, fmt.Errorf("make the key for secrets: %w", err)
	}
	return key, nil
}

// ParseKey returns the key that is written in base64. It returns an error for one of another size.
func ParseKey(text string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("the key for secrets is not %d bytes in base64", keySize)
	}
	return key, nil
}

// NewKey returns a random key.
func NewKey() []byte {
	key := make([]byte, keySize)
	rand.Read(key)
	return key
}

// ReadKey returns the key in a file. Its error wraps fs.ErrNotExist where there is none. It refuses a file that others
// can read, and one of another length: sealing with a part of a key would lose what was sealed with the whole.
func ReadKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, readingError(err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf(
			"the key for secrets %s can be read by others (mode %04o): run chmod 600 %[1]s",
			path,
			info.Mode().Perm(),
		)
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, readingError(err)
	}
	if len(key) != keySize {
		return nil, fmt.Errorf(
			"the key for secrets %s has %d bytes and not %d: restore it, or delete it, sign in again and add the servers again",
			path,
			len(key),
			keySize,
		)
	}
	return key, nil
}

// readingError returns the error of a key file that cannot be read.
func readingError(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf(
			"read the key for secrets: %w; make the user that the bot runs as the owner of the file (chown)",
			err,
		)
	}
	return fmt.Errorf("read the key for secrets: %w", err)
}

// version is the first byte of a sealed record.
const version = 1

// Box encrypts and decrypts records by AES-256-GCM with random nonces. It is safe for concurrent use.
type Box struct{ aead cipher.AEAD }

// NewBox returns a Box for a key of LoadKey. It returns an error for a key of another size.
func NewBox(key []byte) (*Box, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("the key for secrets has %d bytes and not %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Box{aead}, nil
}

// Seal returns an encrypted record. The name is authenticated with it.
func (b *Box) Seal(name string, plain []byte) []byte {
	return b.aead.Seal([]byte{version}, nil, plain, []byte(name))
}

// Open returns what was sealed under a name. It returns an error for anything else, and where the key is another one.
func (b *Box) Open(name string, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != version {
		return nil, errors.New("it is not encrypted in a known way")
	}
	plain, err := b.aead.Open(nil, nil, sealed[1:], []byte(name))
	if err != nil {
		return nil, errors.New("it was encrypted with another key")
	}
	return plain, nil
}
