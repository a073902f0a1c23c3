// Package settings holds the values that people can change in the chat instead of the configuration file: for the
// whole bot, for a channel, and for themselves. A user's layer has priority over the channel's layer, which has
// priority over the instance's layer. A value is checked before it is stored, and reading is fast enough for every
// message. With Command and Form everybody can change their own layer, and administrators the channel's layer. Callers
// of Set check permissions themselves.
//
// A Layer is a set of optional values. Effective combines the layers of the instance, a channel and a user. Users
// cannot set values that the operator has locked (lock.go). All layers are kept in memory, and each is stored as one
// record.
package settings

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Layer is the settings of one scope. A value that is not set is taken from the layer below.
type Layer struct {
	Tools    Tools  `json:"tools,omitzero"`
	Model    string `json:"model,omitempty"`    // name of a configured model
	Language string `json:"language,omitempty"` // of answers, in free text
	// Timezone is the IANA name of the zone for times that people write, if the platform does not send theirs.
	Timezone string `json:"timezone,omitempty"`
}

// Tools is the part of a Layer about tools.
type Tools struct {
	Enabled      *bool   `json:"enabled,omitempty"`
	MaxSteps     *int    `json:"maxSteps,omitempty"`     // rounds of tool calls in a turn
	SystemPrompt *string `json:"systemPrompt,omitempty"` // goes before the agent's prompt
}

// IsZero reports whether nothing is set.
func (l Layer) IsZero() bool { return l == Layer{} }

// withDefaults returns l with the values that it does not set taken from below.
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
	if l.Timezone == "" {
		l.Timezone = below.Timezone
	}
	return l
}

// Scope names what a layer applies to. It is the key under which the layer is stored.
type Scope string

// Instance is the scope of the whole bot.
const Instance Scope = "instance"

// Channel returns the scope of a channel with all its threads.
func Channel(a chat.Address) Scope { return Scope("channel/" + a.Base().String()) }

// User returns the scope of a user of a platform, wherever they write.
func User(platform, id string) Scope { return Scope("user/" + platform + "/" + id) }

// CheckStored returns an error if a layer in the store would be unreadable, or would apply to nothing.
func CheckStored(scope string, raw json.RawMessage) error {
	kind, of, _ := strings.Cut(scope, "/")
	switch platform, id, _ := strings.Cut(of, "/"); {
	case scope == string(Instance), kind == "user" && platform != "" && id != "":
	case kind == "channel":
		if a, err := chat.ParseAddress(of); err != nil || Channel(a) != Scope(scope) {
			return fmt.Errorf("the scope %.80q names no channel", scope)
		}
	default:
		return fmt.Errorf("the scope is %.80q, want instance, channel/ADDRESS or user/PLATFORM/ID", scope)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var l Layer
	if err := d.Decode(&l); err != nil {
		return err
	}
	return l.check()
}

// Store stores layers by scope.
type Store interface {
	// Settings returns all layers, as they were saved.
	Settings(ctx context.Context) (map[string][]byte, error)
	// SwapSetting replaces a layer, which is JSON. Nil means no layer. It returns false and changes nothing if the
	// present layer is not the expected one.
	SwapSetting(ctx context.Context, scope string, was, now []byte) (bool, error)
}

// Repository holds all layers. It is safe for concurrent use.
type Repository struct {
	store   Store
	models  func() []string // names that Model may have
	members func() MemberRules
	log     *slog.Logger
	// changes is held while a layer is changed, in the store and here, and while all are reloaded, so that two changes
	// of a scope have the same order in both places, and a reload never replaces newer data. It is locked before mu.
	changes sync.Mutex

	// mu guards the maps, for moments only.
	mu     sync.RWMutex
	layers map[Scope]Layer              // all that set anything, so that reading needs no store
	stored map[Scope][]byte             // the stored value of each scope at its last read or change
	sent   map[string]map[string]string // values of refused forms
}

// New returns an empty Repository; Load fills it. models returns the names of the available models. members are the
// rules for people's own settings; nil allows everything.
func New(s Store, models func() []string, members func() MemberRules, log *slog.Logger) *Repository {
	if members == nil {
		members = func() MemberRules { return MemberRules{} }
	}
	return &Repository{store: s, models: models, members: members, log: log, layers: map[Scope]Layer{},
		stored: map[Scope][]byte{}}
}

// Models returns the names that Layer.Model may have.
func (r *Repository) Models() []string { return r.models() }

// Load reads the stored layers. It fails when the store does; then nothing has changed. A layer that cannot be decoded
// is logged and left out: it must not keep the bot from starting.
func (r *Repository) Load(ctx context.Context) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	return r.loadLocked(ctx)
}

// loadLocked reads the stored layers; r.changes is held.
func (r *Repository) loadLocked(ctx context.Context) error {
	kept, err := r.store.Settings(ctx)
	if err != nil {
		return err
	}
	layers, stored := map[Scope]Layer{}, map[Scope][]byte{}
	for scope, raw := range kept {
		stored[Scope(scope)] = raw
		l, err := decodeLayer(raw)
		if err != nil {
			r.log.Error("failed to read settings; skipping them", "scope", scope, "error", err)
			continue
		}
		layers[Scope(scope)] = l
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.layers, r.stored = layers, stored
	return nil
}

// SharedKinds returns the kind whose changes Reload takes up.
func (*Repository) SharedKinds() []string { return []string{store.SettingChanges} }

// Reload takes up what other processes have changed.
func (r *Repository) Reload(ctx context.Context) error { return r.Load(ctx) }

// Effective returns the settings for a user in a channel. Zero values are not set in any layer. It is called for every
// message, and does not access the store. It ignores locked values of a user's layer.
func (r *Repository) Effective(a chat.Address, user string) Layer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.layers) == 0 {
		return Layer{}
	}
	own := r.members().limit(r.layers[User(a.Platform, user)])
	return own.withDefaults(r.layers[Channel(a)]).withDefaults(r.layers[Instance])
}

// Layer returns the settings of one scope. A user's layer has only the allowed settings.
func (r *Repository) Layer(s Scope) Layer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s.isUser() {
		return r.members().limit(r.layers[s])
	}
	return r.layers[s]
}

// All returns every layer that sets anything.
func (r *Repository) All() map[Scope]Layer {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return maps.Clone(r.layers)
}

// Limits of values.
const (
	maxSteps         = 100
	maxPromptBytes   = 8 << 10 // bytes
	maxLanguageChars = 60      // characters
)

// Check returns an error, in words for the author, if a layer has a value that is not allowed in its scope. The model
// must exist.
func (r *Repository) Check(s Scope, l Layer) error {
	if s.isUser() {
		if err := r.members().check(l); err != nil {
			return err
		}
	}
	if err := l.check(); err != nil {
		return err
	}
	if l.Model == "" {
		return nil
	}
	names := r.models()
	for _, name := range names {
		if name == l.Model {
			return nil
		}
	}
	return fmt.Errorf("there is no model %q; there are: %s", l.Model, strings.Join(names, ", "))
}

// check returns an error, in words for the author, if a value is not allowed in any scope. It does not check models.
func (l Layer) check() error {
	if n := l.Tools.MaxSteps; n != nil && (*n < 1 || *n > maxSteps) {
		return fmt.Errorf("tools.maxSteps is %d, want 1 to %d", *n, maxSteps)
	}
	if p := l.Tools.SystemPrompt; p != nil && (len(*p) > maxPromptBytes || !utf8.ValidString(*p)) {
		return fmt.Errorf("tools.systemPrompt is %d bytes, want at most %d of UTF-8", len(*p), maxPromptBytes)
	}
	if utf8.RuneCountInString(l.Language) > maxLanguageChars || strings.ContainsAny(l.Language, "\n\r") {
		return fmt.Errorf("language is not the name of a language: want one line of at most %d characters", maxLanguageChars)
	}
	// LoadLocation accepts "Local" for the zone of this machine, which is not the user's zone.
	if _, err := time.LoadLocation(l.Timezone); err != nil || l.Timezone == "Local" {
		return fmt.Errorf("timezone is %.80q, want an IANA name such as Europe/Oslo", l.Timezone)
	}
	return nil
}

// Set replaces the layer of a scope. A zero layer removes it. It fails if Check or the store fails, and has then
// changed nothing. Between a read and a Set of a layer another change can happen.
func (r *Repository) Set(ctx context.Context, s Scope, l Layer) error {
	return r.Change(ctx, s, func(was *Layer) error {
		*was = l
		return nil
	})
}

// Change changes the layer of a scope, as Layer returns it, in one step: no other change, of this process or another one,
// comes in between. change is called again where another process was first. Change fails when change does, Check, or
// the store; then nothing has changed.
func (r *Repository) Change(ctx context.Context, s Scope, change func(*Layer) error) error {
	r.changes.Lock()
	defer r.changes.Unlock()
	for {
		l := r.Layer(s)
		if err := change(&l); err != nil {
			return err
		}
		if err := r.Check(s, l); err != nil {
			return err
		}
		raw, err := encodeLayer(l)
		if err != nil {
			return err
		}
		// Only this function and loadLocked write r.stored, and both hold r.changes.
		swapped, err := r.store.SwapSetting(ctx, string(s), r.stored[s], raw)
		if err != nil {
			return err
		}
		if swapped {
			r.put(s, l, raw)
			return nil
		}
		if err := r.loadLocked(ctx); err != nil {
			return err
		}
	}
}

// put takes up a layer that was stored as raw.
func (r *Repository) put(s Scope, l Layer, raw []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.IsZero() {
		delete(r.layers, s)
		delete(r.stored, s)
		return
	}
	r.layers[s], r.stored[s] = l, raw
}
