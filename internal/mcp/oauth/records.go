package oauth

import (
	"encoding/json"
	"fmt"
	"net/url"
	"time"
)

// record is the stored token of a server and user. Version 1.
type record struct {
	URL       string    `json:"url"` // of the entry
	Issuer    string    `json:"issuer"`
	Endpoint  string    `json:"endpoint"` // address for renewals
	Resource  string    `json:"resource"`
	Access    string    `json:"access"`
	Refresh   string    `json:"refresh,omitempty"`
	Expires   time.Time `json:"expires,omitzero"`
	Requested []string  `json:"requested,omitempty"` // scopes, including earlier sign-ins
	Granted   []string  `json:"granted,omitempty"`   // scopes; nil: unknown
	Client    client    `json:"client"`
}

// client is the bot's client at an authorization server. Version 1.
type client struct {
	ID      string    `json:"id"`
	Secret  string    `json:"secret,omitempty"`
	Method  string    `json:"method"` // of authentication at the token endpoint
	Expires time.Time `json:"expires,omitzero"`
}

// tokenKey returns the key of a record. Escaped names cannot contain the separator.
func tokenKey(e Entry) string {
	return "token/" + url.PathEscape(e.Name) + "/" + url.PathEscape(e.User)
}

func clientKey(server, issuer, redirect string) string {
	return "client/" + url.PathEscape(server) + "/" + url.PathEscape(trimRoot(issuer)) + "/" + url.PathEscape(redirect)
}

// save encrypts and stores a value; nil deletes the record. The key is authenticated with the record, so that records
// cannot be exchanged.
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
		sealed = b.o.Box.Seal(key, plain)
	}
	if err := b.o.Store.Save(key, sealed); err != nil {
		return fmt.Errorf("store the record of an authorization server: %w", err)
	}
	return nil
}

// load reads and decrypts a record. It returns false if there is none, or if it cannot be decrypted because the key
// file has changed.
func (b *Broker) load(key string, into any) bool {
	if b.o.Store == nil {
		return false
	}
	sealed, err := b.o.Store.Load(key)
	if err == nil && len(sealed) == 0 {
		return false
	}
	var plain []byte
	if err == nil {
		plain, err = b.o.Box.Open(key, sealed)
	}
	if err == nil {
		err = json.Unmarshal(plain, into)
	}
	if err != nil {
		b.o.Log.Warn("failed to read an mcp token", "key", key, "error", err)
	}
	return err == nil
}
