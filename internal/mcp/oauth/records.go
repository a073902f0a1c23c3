package oauth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

const keySize = 32

// LoadKey reads the key that encrypts tokens, and creates it at the first call: 32 random bytes in a file that only
// its owner may read. It returns an error for a file that others may read.
func LoadKey(path string) ([]byte, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, keySize)
	rand.Read(key)
	// Written to a temporary file first, so that a crash leaves no half a key.
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path) // complete or not at all, and never over an existing key
	}
	if errors.Is(err, fs.ErrExist) {
		return readKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("make the key for tokens: %w", err)
	}
	return key, nil
}

func readKey(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the key for tokens: %w", err)
	}
	if open := info.Mode().Perm() & 0o077; open != 0 {
		return nil, fmt.Errorf(
			"the key for tokens %s can be read by others (mode %04o): run chmod 600 %[1]s",
			path,
			info.Mode().Perm(),
		)
	}
	key, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the key for tokens: %w", err)
	}
	if len(key) != keySize {
		return nil, fmt.Errorf(
			"the key for tokens %s has %d bytes and not %d: restore it, or delete it and consent again",
			path,
			len(key),
			keySize,
		)
	}
	return key, nil
}

// newCipher returns AES-GCM with random nonces.
func newCipher(key []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, fmt.Errorf("oauth: the key has %d bytes and not %d", len(key), keySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("oauth: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// record is what is stored for a server and user. Version 1.
type record struct {
	URL       string    `json:"url"` // of the entry that it was obtained for
	Issuer    string    `json:"issuer"`
	Endpoint  string    `json:"endpoint"` // where the token is renewed
	Resource  string    `json:"resource"`
	Access    string    `json:"access"`
	Refresh   string    `json:"refresh,omitempty"`
	Expires   time.Time `json:"expires,omitzero"`
	Requested []string  `json:"requested,omitempty"`
	Granted   []string  `json:"granted,omitempty"`
	Client    client    `json:"client"`
}

// client is the bot's client at an authorization server. Version 1.
type client struct {
	ID      string    `json:"id"`
	Secret  string    `json:"secret,omitempty"`
	Method  string    `json:"method"` // how it authenticates at the token endpoint
	Expires time.Time `json:"expires,omitzero"`
}

func tokenKey(e Entry) string {
	return "token/" + url.PathEscape(e.Name) + "/" + url.PathEscape(e.User)
}

func clientKey(server, issuer, redirect string) string {
	return "client/" + url.PathEscape(server) + "/" + url.PathEscape(issuer) + "/" + url.PathEscape(redirect)
}

// recordVersion is the first byte of a stored record.
const recordVersion = 1

// save encrypts a value and stores it; nil deletes the record. The key is authenticated with the record, so that no
// record can take the place of another.
func (b *Broker) save(key string, value any) error {
	if b.o.Store == nil {
		return nil
	}
	var sealed []byte
	if value != nil {
		plain, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("store the record of an authorization server: %w", err)
		}
		sealed = b.aead.Seal([]byte{recordVersion}, nil, plain, []byte(key))
	}
	if err := b.o.Store.Save(key, sealed); err != nil {
		return fmt.Errorf("store the record of an authorization server: %w", err)
	}
	return nil
}

// load decrypts the record of a key into a value, and reports whether there is one. A record that cannot be
// decrypted, because the key file is another one, counts as absent.
func (b *Broker) load(key string, into any) bool {
	if b.o.Store == nil {
		return false
	}
	sealed, err := b.o.Store.Load(key)
	if err == nil && len(sealed) == 0 {
		return false
	}
	if err == nil {
		err = b.unseal(key, sealed, into)
	}
	if err != nil {
		b.o.Log.Warn("mcp token not read", "key", key, "error", err)
	}
	return err == nil
}

func (b *Broker) unseal(key string, sealed []byte, into any) error {
	if sealed[0] != recordVersion {
		return fmt.Errorf("it has the unknown version %d", sealed[0])
	}
	plain, err := b.aead.Open(nil, nil, sealed[1:], []byte(key))
	if err != nil {
		return errors.New("it was encrypted with another key")
	}
	return json.Unmarshal(plain, into)
}
