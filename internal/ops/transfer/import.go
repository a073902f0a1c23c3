package transfer

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/recall/history"
	"ravenbot/internal/store"
)

// Result says what an import did.
type Result struct {
	Added   map[string]int `json:"added"`   // by kind
	Skipped int            `json:"skipped"` // records that were there
	Expired int            `json:"expired"` // messages that are over their retention
	Errors  []LineError    `json:"errors"`
}

// LineError is a line that was not imported, and why.
type LineError struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// maxErrors is how many lines with errors are named; the others are counted in the last one.
const maxErrors = 200

// saveBatch is how many messages are stored in one transaction.
const saveBatch = 500

// importer is one import under way.
type importer struct {
	*Service
	result   Result
	messages []store.Message
	more     int // errors beyond maxErrors
	reload   bool
	// What is there, read with the first record of its kind: to read it for each one takes a time that is the square of
	// their number.
	scopes        map[string]bool
	subscriptions map[subscriptionKey]bool
}

// subscriptionKey is what tells subscriptions apart.
type subscriptionKey struct {
	to  chat.Address
	url string
}

// maxEnd bounds how long what was read is stored and put into effect.
const maxEnd = time.Minute

// Import reads JSON lines, whose first is number first, and adds the records that are not there. What was added is put
// into effect even where an error ends the import. The error is one of reading or of the store; what is wrong with
// lines is in the result.
func (s *Service) Import(ctx context.Context, r io.Reader, first int) (Result, error) {
	i := importer{Service: s, result: Result{Added: map[string]int{}, Errors: []LineError{}}}
	last, err := i.takeLines(ctx, r, first)
	// A sender that goes away ends ctx. What is stored by then has to take effect now: another import finds it there
	// already, and reloads nothing.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxEnd)
	defer cancel()
	err = errors.Join(err, i.saveMessages(ctx))
	if i.more > 0 {
		i.result.Errors = append(i.result.Errors, LineError{last, fmt.Sprintf("%d more lines have errors", i.more)})
	}
	if i.reload {
		err = errors.Join(err, s.o.Reload(ctx))
	}
	return i.result, err
}

// takeLines imports lines and returns the number of the last one. It fails where they cannot be read, or the store
// fails.
func (i *importer) takeLines(ctx context.Context, r io.Reader, line int) (int, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, MaxLine)
	for ; lines.Scan(); line++ {
		raw := bytes.TrimSpace(lines.Bytes())
		if len(raw) == 0 {
			continue
		}
		if err := i.take(ctx, raw); err != nil {
			// A fault of the line is for whoever sent it; the store's ends the import.
			if fault := (faultError{}); !errors.As(err, &fault) {
				return line, err
			}
			i.addError(line, err)
		}
	}
	// A scanner cannot go on behind a line that does not fit.
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		i.addError(line, fmt.Errorf("the line is longer than %d bytes; it and those after it were not read", MaxLine))
		return line - 1, nil
	}
	return line - 1, lines.Err()
}

// addError notes what is wrong with a line; behind maxErrors the rest is only counted.
func (i *importer) addError(line int, err error) {
	if len(i.result.Errors) == maxErrors {
		i.more++
		return
	}
	i.result.Errors = append(i.result.Errors, LineError{line, err.Error()})
}

// faultError is a fault of a line.
type faultError struct{ error }

func (e faultError) Unwrap() error { return e.error }

func faultf(format string, args ...any) error { return faultError{fmt.Errorf(format, args...)} }

// take imports one line.
func (i *importer) take(ctx context.Context, line []byte) error {
	var head struct{ Kind string }
	if err := json.Unmarshal(line, &head); err != nil {
		return faultf("it is no JSON object: %w", err)
	}
	switch head.Kind {
	case kindMessage:
		return i.takeMessage(ctx, line)
	case kindMemory:
		return i.takeMemory(ctx, line)
	case kindSetting:
		return i.takeSetting(ctx, line)
	case kindSubscription:
		return i.takeSubscription(ctx, line)
	case kindServer, kindAgent, kindDigest, kindJob, kindFilter, kindUnsubscribed, kindPause:
		return i.takeItem(ctx, line)
	}
	return faultf("its kind %.40q is not known: want message, memory, setting, subscription, digest, pause, filter, "+
		"unsubscription, job, agent or server",
		head.Kind)
}

// count notes that a record of a kind was added, or was there.
func (i *importer) count(kind string, isNew bool) {
	if isNew {
		i.result.Added[kind]++
	} else {
		i.result.Skipped++
	}
}

// takeMessage collects a message; a batch of them is stored at a time.
func (i *importer) takeMessage(ctx context.Context, line []byte) error {
	var m message
	if err := decode(line, &m); err != nil {
		return faultError{err}
	}
	a, err := m.check()
	if err != nil {
		return faultError{err}
	}
	if i.isOver(a, m.At) {
		i.result.Expired++
		return nil
	}
	// Searches find it in its turn already, and would show a second copy of it.
	has, err := i.hasTurn(ctx, a, m.ID)
	if err != nil {
		return err
	}
	if has {
		i.count(kindMessage, false)
		return nil
	}
	i.messages = append(i.messages, store.Message{
		Conversation: a,
		ID:           m.ID,
		Author:       chat.User{ID: m.Author.ID, Name: m.Author.Name},
		Bot:          m.Bot,
		At:           m.At.UTC(),
		Text:         m.Text,
	})
	if len(i.messages) == saveBatch {
		return i.saveMessages(ctx)
	}
	return nil
}

// hasTurn reports whether a turn of a conversation holds a message: what was said to the bot, or its answer.
func (i *importer) hasTurn(ctx context.Context, a chat.Address, id string) (bool, error) {
	// The ID of an answer is made of that of the question, and the store knows the turn by the question alone.
	at, _, err := i.o.Store.TurnOf(ctx, a.Platform+"/"+strings.TrimSuffix(id, history.AnswerSuffix))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	// The ID of a message is unique in its conversation only: a turn of another one is no copy.
	return err == nil && at == a, err
}

// saveMessages stores the collected messages. Those that are there already are counted as left out.
func (i *importer) saveMessages(ctx context.Context) error {
	if len(i.messages) == 0 {
		return nil
	}
	batch := i.messages
	i.messages = nil // where the store refuses them, they are not tried again at the end
	added, err := i.o.Store.SaveMessages(ctx, batch)
	if err != nil {
		return err
	}
	i.result.Skipped += len(batch) - added
	if added > 0 {
		i.result.Added[kindMessage] += added
	}
	return nil
}

// takeMemory stores a note, unless its scope has one of the same text.
func (i *importer) takeMemory(ctx context.Context, line []byte) error {
	var m memory
	if err := decode(line, &m); err != nil {
		return faultError{err}
	}
	scope, err := readScope(m.Scope)
	if err != nil {
		return faultError{err}
	}
	if n := len([]rune(m.Text)); n == 0 || n > maxMemoryChars {
		return faultf(`"text" has %d characters, want 1 to %d`, n, maxMemoryChars)
	}
	platform, id, _ := strings.Cut(m.User, "/")
	if m.User != "" && (platform == "" || id == "" || len(m.User) > maxIDBytes) {
		return faultf(`"user" is %.80q, want PLATFORM/ID of at most %d bytes`, m.User, maxIDBytes)
	}
	note := store.Memory{Scope: scope, Text: m.Text, By: m.By, User: m.User, At: m.At.UTC(), Origin: m.Origin}
	_, isNew, err := i.o.Store.SaveMemory(ctx, note, maxMemories)
	if errors.Is(err, store.ErrFull) {
		return faultf("%s has %d notes, which is the most", m.Scope, maxMemories)
	}
	if err != nil {
		return err
	}
	i.count(kindMemory, isNew)
	return nil
}

func (i *importer) takeSetting(ctx context.Context, line []byte) error {
	var v setting
	if err := decode(line, &v); err != nil {
		return faultError{err}
	}
	if err := checkObject(v.Value); err != nil || v.Scope == "" || len(v.Scope) > maxIDBytes {
		return faultf(`"scope" or "value" cannot be used: %w`, cmp.Or(err, errors.New("the scope is missing or too long")))
	}
	if err := i.o.Check(kindSetting, v.Scope, v.Value); err != nil {
		return faultError{err}
	}
	if i.scopes == nil {
		layers, err := i.o.Store.Settings(ctx)
		if err != nil {
			return err
		}
		i.scopes = map[string]bool{}
		for scope := range layers {
			i.scopes[scope] = true
		}
	}
	there := i.scopes[v.Scope]
	if !there {
		i.reload = true
		// Somebody may have set a layer since the layers were read; it stays then, like the others.
		isNew, err := i.o.Store.SwapSetting(ctx, v.Scope, nil, v.Value)
		if err != nil {
			return err
		}
		i.scopes[v.Scope], there = true, !isNew
	}
	i.count(kindSetting, !there)
	return nil
}

func (i *importer) takeSubscription(ctx context.Context, line []byte) error {
	var v subscription
	if err := decode(line, &v); err != nil {
		return faultError{err}
	}
	to, err := chat.ParseAddress(v.To)
	if err != nil {
		return faultf(`"to": %w`, err)
	}
	if v.URL == "" || len(v.URL) > maxIDBytes*4 {
		return faultf(`"url" has %d bytes, want 1 to %d`, len(v.URL), maxIDBytes*4)
	}
	if !strings.HasPrefix(v.URL, "http://") && !strings.HasPrefix(v.URL, "https://") && !strings.HasPrefix(v.URL, "bundled:") {
		return faultf(`"url" is %.80q, want the address of a feed that begins with http:// or https://`, v.URL)
	}
	if i.subscriptions == nil {
		list, err := i.o.Store.Subscriptions(ctx)
		if err != nil {
			return err
		}
		i.subscriptions = map[subscriptionKey]bool{}
		for _, s := range list {
			i.subscriptions[subscriptionKey{s.To, s.URL}] = true
		}
	}
	k := subscriptionKey{to, v.URL}
	there := i.subscriptions[k]
	if !there {
		err := i.o.Store.SaveSubscription(ctx, store.Subscription{To: to, URL: v.URL, Title: v.Title, At: v.At.UTC()})
		if err != nil {
			return err
		}
		i.subscriptions[k] = true
	}
	i.count(kindSubscription, !there)
	return nil
}

func (i *importer) takeItem(ctx context.Context, line []byte) error {
	var v item
	if err := decode(line, &v); err != nil {
		return faultError{err}
	}
	if err := checkObject(v.Value); err != nil {
		return faultError{err}
	}
	if v.Name == "" || len(v.Name) > maxNameBytes {
		return faultf(`"name" has %d bytes, want 1 to %d`, len(v.Name), maxNameBytes)
	}
	if v.Kind == kindDigest && i.o.IsConfigured(v.Name) {
		return i.leaveOutDigest(ctx, v.Name)
	}
	if err := i.o.Check(v.Kind, v.Name, v.Value); err != nil {
		return faultError{err}
	}
	err := i.o.Store.SaveItem(ctx, itemKinds()[v.Kind], v.Name, v.Value, false)
	if errors.Is(err, store.ErrExists) {
		i.count(v.Kind, false)
		return nil
	}
	// Also with an error: whether the record was stored is not always known then.
	i.reload = true
	if err != nil {
		return err
	}
	i.count(v.Kind, true)
	return nil
}

// leaveOutDigest returns why a digest whose name the configuration has is not imported, or nil where it is stored
// already: the configuration took its name after it was made.
func (i *importer) leaveOutDigest(ctx context.Context, name string) error {
	stored, err := i.o.Store.Items(ctx, itemKinds()[kindDigest])
	if err != nil {
		return err
	}
	if _, ok := stored[name]; !ok {
		return faultf("config.json has a digest called %q, so this one was left out: import it under another name, or "+
			"remove that one from config.json first", name)
	}
	i.count(kindDigest, false)
	return nil
}
