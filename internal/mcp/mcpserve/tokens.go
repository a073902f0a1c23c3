package mcpserve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
)

// tokenKind is the kind of the store's items that hold tokens.
const tokenKind = "mcp token"

// tokenPrefix lets programs that look for leaked secrets recognize a token.
const tokenPrefix = "rvnmcp_"

// usedPrecision is the precision of the time of last use: more would be a write at every
// request.
const usedPrecision = time.Hour

// Token describes a token without its secret.
type Token struct {
	Name    string    `json:"name"` // unique for its owner
	Owner   string    `json:"owner"`
	Tools   []string  `json:"tools"` // names or patterns of the tools that it may use
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Used    time.Time `json:"lastUsed,omitzero"`
}

// storedToken is the stored form of a token.
type storedToken struct {
	Token
	Hash string `json:"hash"` // SHA-256 in hex; a slower hash adds nothing to 256 random bits

	raw json.RawMessage // as it is stored
}

// key returns the key of a token in the store: a name is unique for its owner alone.
func (t storedToken) key() string { return t.Owner + "\x00" + t.Name }

// Tokens manages the tokens of all owners. It is safe for concurrent use.
type Tokens struct {
	store store.Items
	now   func() time.Time

	mu     sync.Mutex
	byHash map[string]storedToken
	// changeMu is held while a token is changed, in the store and here, and while all are read again: what is read is no
	// older than what is here.
	changeMu sync.Mutex
}

// Reasons why a request about a token is refused.
var (
	ErrNoToken     = errors.New("there is no such token")
	ErrTokenExists = errors.New("there is a token of that name")
	ErrTokenName   = errors.New("the name must be 1 to 64 letters, digits, spaces, dots, hyphens and underscores, " +
		"and begin with a letter, a digit or an underscore")
	ErrTokenTools = errors.New("tools has to name at least one tool or pattern")
)

// tokenName is a name that can be shown in a line and written in a path, 1 to 64 characters without blanks at its ends.
// A path loses "." and "..".
var tokenName = text.Pattern(`^[\pL\pN_](?:[\pL\pN_. -]{0,62}[\pL\pN_.-])?$`)

// LoadTokens returns the stored tokens.
func LoadTokens(ctx context.Context, s store.Items, now func() time.Time) (*Tokens, error) {
	t := &Tokens{store: s, now: now, byHash: map[string]storedToken{}}
	return t, t.Reload(ctx)
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Tokens) SharedKinds() []string { return []string{tokenKind} }

// Reload reads the stored tokens again. With an error nothing has changed.
func (t *Tokens) Reload(ctx context.Context) error {
	t.changeMu.Lock()
	defer t.changeMu.Unlock()
	items, err := t.store.Items(ctx, tokenKind)
	if err != nil {
		return err
	}
	byHash := map[string]storedToken{}
	for name, raw := range items {
		k := storedToken{raw: raw}
		if err := json.Unmarshal(raw, &k); err != nil {
			return fmt.Errorf("read MCP token %q: %w", name, err)
		}
		byHash[k.Hash] = k
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byHash = byHash
	return nil
}

// hashToken returns what is stored of a secret.
func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// Create makes a token and returns it with its secret, which cannot be read again. With
// overwrite it replaces the owner's live token of that name in one step; without, it
// returns ErrTokenExists. life is how long the token is valid; 0: until it is revoked.
func (t *Tokens) Create(
	ctx context.Context,
	owner, name string,
	tools []string,
	life time.Duration,
	overwrite bool,
) (_ Token, secret string, err error) {
	switch {
	case !tokenName().MatchString(name):
		return Token{}, "", ErrTokenName
	case tools == nil:
		tools = []string{"*"}
	case len(tools) == 0 || slices.Contains(tools, ""):
		return Token{}, "", ErrTokenTools
	}
	t.changeMu.Lock()
	defer t.changeMu.Unlock()
	secret = tokenPrefix + rand.Text() + rand.Text()
	k := storedToken{Token: Token{Name: name, Owner: owner, Tools: tools, Created: t.now()}, Hash: hashToken(secret)}
	if life > 0 {
		k.Expires = k.Created.Add(life)
	}
	old, live := t.find(owner, name)
	live = live && !t.isExpired(old)
	if live && !overwrite {
		return Token{}, "", ErrTokenExists
	}
	if k.raw, err = json.Marshal(k); err != nil {
		return Token{}, "", err
	}
	// The key in the store is the same, so that the old token goes with this write.
	if err := t.store.SaveItem(ctx, tokenKind, k.key(), k.raw, true); err != nil {
		return Token{}, "", err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byHash, old.Hash)
	t.byHash[k.Hash] = k
	return k.Token, secret, nil
}

// isExpired reports whether a token has ended. One without an end never does.
func (t *Tokens) isExpired(k storedToken) bool {
	return !k.Expires.IsZero() && !t.now().Before(k.Expires)
}

// find returns the token of an owner by its name.
func (t *Tokens) find(owner, name string) (storedToken, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.byHash {
		if k.Owner == owner && k.Name == name {
			return k, true
		}
	}
	return storedToken{}, false
}

// List returns the live tokens of an owner, sorted by name.
func (t *Tokens) List(owner string) []Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := []Token{}
	for _, k := range t.byHash {
		if k.Owner == owner && !t.isExpired(k) {
			list = append(list, k.Token)
		}
	}
	slices.SortFunc(list, func(a, b Token) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Get returns a live token of an owner, or ErrNoToken.
func (t *Tokens) Get(owner, name string) (Token, error) {
	k, ok := t.find(owner, name)
	if !ok || t.isExpired(k) {
		return Token{}, ErrNoToken
	}
	return k.Token, nil
}

// Revoke ends a token at once. It returns ErrNoToken if there is no live one of that name.
func (t *Tokens) Revoke(ctx context.Context, owner, name string) error {
	t.changeMu.Lock()
	defer t.changeMu.Unlock()
	k, ok := t.find(owner, name)
	if !ok {
		return ErrNoToken
	}
	// In the store first: a token that was only forgotten here would be valid again after a restart.
	if err := t.store.DeleteItem(ctx, tokenKind, k.key()); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byHash, k.Hash)
	if t.isExpired(k) {
		return ErrNoToken
	}
	return nil
}

// RevokeAll ends all tokens of an owner, and returns how many were live.
func (t *Tokens) RevokeAll(ctx context.Context, owner string) (int, error) {
	n := 0
	for _, k := range t.List(owner) {
		if err := t.Revoke(ctx, owner, k.Name); err != nil && !errors.Is(err, ErrNoToken) {
			return n, err
		}
		n++
	}
	return n, nil
}

// Check returns the live token with a secret, and records its use; false: there is none. It
// compares hashes, so that its duration discloses nothing about the secret.
func (t *Tokens) Check(ctx context.Context, secret string) (Token, bool) {
	h := hashToken(secret)
	t.mu.Lock()
	k, ok := t.byHash[h]
	if !ok || t.isExpired(k) {
		t.mu.Unlock()
		return Token{}, false
	}
	// The time is set before it is stored, so that concurrent requests write it once.
	now := t.now()
	note := now.Sub(k.Used) > usedPrecision
	if note {
		k.Used = now
		t.byHash[h] = k
	}
	t.mu.Unlock()
	if note {
		t.noteUse(ctx, k)
	}
	return k.Token, true
}

// noteUse stores when a token was last used, unless it was revoked meanwhile, here or by another process. An error is
// ignored: it must not keep the host from using the token.
func (t *Tokens) noteUse(ctx context.Context, k storedToken) {
	t.changeMu.Lock()
	defer t.changeMu.Unlock()
	now, ok := t.find(k.Owner, k.Name)
	if !ok || now.Hash != k.Hash {
		return
	}
	raw, err := json.Marshal(k)
	if err != nil {
		return
	}
	if swapped, err := t.store.SwapItem(ctx, tokenKind, k.key(), now.raw, raw, nil); err != nil || !swapped {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	k.raw = raw
	t.byHash[k.Hash] = k
}
