// Package settings holds what people may change without the operator's file: for
// the whole bot, for a channel, and for themselves. It promises that a user's
// layer beats the channel's and that the instance's, that what is set is checked
// before it is kept, and that reading is quick enough for every message. Who may
// change which layer is decided by whoever asks (Command and Form: everybody their
// own, administrators the channel's).
package settings

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"unicode/utf8"

	"ravenbot/internal/chat"
)

// Layer is what is set in one place. What is not set leaves the layer below.
type Layer struct {
	Tools    Tools  `json:"tools,omitzero"`
	Model    string `json:"model,omitempty"`    // name of a configured model
	Language string `json:"language,omitempty"` // of answers, in any words
}

// Tools is the part of a Layer about tools.
type Tools struct {
	Enabled      *bool   `json:"enabled,omitempty"`
	MaxSteps     *int    `json:"maxSteps,omitempty"`     // rounds of tool calls
	SystemPrompt *string `json:"systemPrompt,omitempty"` // goes before the agent's prompt
}

// IsZero reports that nothing is set.
func (l Layer) IsZero() bool { return l == Layer{} }

// withDefaults gives l with what it leaves open taken from below.
func (l Layer) withDefaults(below Layer) Layer {
	if l.Tools.Enabled == nil {
		l.Tools.Enabled = below.Tools.Enabled
	}
	if l.Tools.MaxSteps == nil {
		l.Tools.MaxSteps = below.Tools.MaxSteps
	}
	if l.Tools.SystemPrompt == nil {
		l.Tools.SystemPrompt = below.Tools.SystemPrompt
	}
	if l.Model == "" {
		l.Model = below.Model
	}
	if l.Language == "" {
		l.Language = below.Language
	}
	return l
}

// Scope names the place of a layer.
type Scope string

// Instance is the layer of the whole bot.
const Instance Scope = "instance"

// Channel is the layer of a channel with all its threads.
func Channel(a chat.Address) Scope { return Scope("channel/" + a.Base().String()) }

// User is the layer of a user of a platform, wherever they write.
func User(platform, id string) Scope { return Scope("user/" + platform + "/" + id) }

// Store keeps layers by scope.
type Store interface {
	Settings(ctx context.Context) (map[string][]byte, error)
	// SaveSetting keeps a layer, which is JSON; nil removes it.
	SaveSetting(ctx context.Context, scope string, layer []byte) error
}

// Repository is all layers. It is safe for concurrent use.
type Repository struct {
	store  Store
	models func() []string // names that Model may have

	mu     sync.RWMutex
	layers map[Scope]Layer
}

// New returns a Book that Load fills. models gives the names that may be chosen.
func New(s Store, models func() []string) *Repository {
	return &Repository{store: s, models: models, layers: map[Scope]Layer{}}
}

// Models are the names that Model may have.
func (b *Repository) Models() []string { return b.models() }

// Load reads what is kept.
func (b *Repository) Load(ctx context.Context) error {
	kept, err := b.store.Settings(ctx)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for scope, raw := range kept {
		l, err := decodeLayer(raw)
		if err != nil {
			return fmt.Errorf("read settings of %s: %w", scope, err)
		}
		b.layers[Scope(scope)] = l
	}
	return nil
}

// Effective gives what holds for a user in a channel; zero values are set nowhere.
func (b *Repository) Effective(a chat.Address, user string) Layer {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.layers) == 0 {
		return Layer{}
	}
	return b.layers[User(a.Platform, user)].withDefaults(b.layers[Channel(a)]).withDefaults(b.layers[Instance])
}

// Layer gives what is set in one place.
func (b *Repository) Layer(s Scope) Layer {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.layers[s]
}

// All gives every layer that sets anything.
func (b *Repository) All() map[Scope]Layer {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return maps.Clone(b.layers)
}

// Limits of what may be set.
const (
	maxSteps         = 100
	maxPromptBytes   = 8 << 10 // bytes
	maxLanguageChars = 60      // characters
)

// Check says what is wrong with a layer, in words for whoever set it.
func (b *Repository) Check(l Layer) error {
	if n := l.Tools.MaxSteps; n != nil && (*n < 1 || *n > maxSteps) {
		return fmt.Errorf("tools.maxSteps is %d, want 1 to %d", *n, maxSteps)
	}
	if p := l.Tools.SystemPrompt; p != nil && (len(*p) > maxPromptBytes || !utf8.ValidString(*p)) {
		return fmt.Errorf("tools.systemPrompt is %d bytes, want at most %d of UTF-8", len(*p), maxPromptBytes)
	}
	if utf8.RuneCountInString(l.Language) > maxLanguageChars || strings.ContainsAny(l.Language, "\n\r") {
		return fmt.Errorf("language is no name of a language: want one line of at most %d characters", maxLanguageChars)
	}
	if l.Model == "" {
		return nil
	}
	names := b.models()
	for _, name := range names {
		if name == l.Model {
			return nil
		}
	}
	return fmt.Errorf("there is no model %q; there are: %s", l.Model, strings.Join(names, ", "))
}

// Set puts a layer in place of what was set there before; a zero one clears it.
func (b *Repository) Set(ctx context.Context, s Scope, l Layer) error {
	if err := b.Check(l); err != nil {
		return err
	}
	raw, err := encodeLayer(l)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.store.SaveSetting(ctx, string(s), raw); err != nil {
		return err
	}
	if l.IsZero() {
		delete(b.layers, s)
	} else {
		b.layers[s] = l
	}
	return nil
}
