// Package email sends posts as e-mail through an SMTP server. It promises:
//   - A post is sent at most once. The attempt is stored before it is made, and repeated only after a known refusal.
//   - A temporary failure is returned for the caller to retry. A refusal is an error with its reason.
//   - No text of a post can become a header or another recipient.
//
// It receives nothing. The outbox and the contents of digests belong to other packages.
package email

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/textproto"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/markdown"
)

// Rules of sending.
const (
	sendTimeout  = 45 * time.Second // delivery gives an attempt a minute
	checkTimeout = 20 * time.Second
	maxSubject   = 200
	maxTextSize  = 256 << 10
	maxHTMLSize  = 1 << 20

	attemptKind    = "email attempt" // stored items are named after posts
	attemptVersion = 1
	keepAttempts   = 7 * 24 * time.Hour
	pruneInterval  = time.Hour
)

// The ways to protect the connection to the server.
const (
	modeStartTLS = "starttls"
	modeTLS      = "tls"
	modePlain    = "none"
)

// Store keeps what is being sent, as store.Store does.
type Store interface {
	SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error
	Item(ctx context.Context, kind, name string) (json.RawMessage, error)
	Items(ctx context.Context, kind string) (map[string]json.RawMessage, error)
	DeleteItem(ctx context.Context, kind, name string) error
}

// Options are what the platform needs.
type Options struct {
	Host, User, Password, From string
	Port                       int
	TLS                        string      // "starttls", "tls" or "none"
	TLSConfig                  *tls.Config // nil: the usual one
	Store                      Store
	// HTML returns a post as a whole page.
	HTML func(d chat.Draft) ([]byte, error)
	Log  *slog.Logger
	Now  func() time.Time
}

// Email is the platform. It is safe for concurrent use.
type Email struct{ o Options }

// New returns the platform. It connects when something is sent.
func New(o Options) *Email { return &Email{o} }

// Name returns "email".
func (*Email) Name() string { return chat.MailPlatform }

// Limits returns those of one mail.
func (*Email) Limits() chat.Limits { return chat.Limits{Text: maxTextSize, Cards: 100} }

// OneWay marks that nothing is told to a mailbox about what did not reach it.
func (*Email) OneWay() {}

// Run forgets old attempts until ctx ends: nothing is received.
func (e *Email) Run(ctx context.Context, _ func(context.Context, chat.Message) error) error {
	tick := time.NewTicker(pruneInterval)
	defer tick.Stop()
	for {
		e.prune(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// attempt says that a post is being sent, or was.
type attempt struct {
	Version int       `json:"version"`
	Sent    bool      `json:"sent"`
	At      time.Time `json:"at"`
}

// Post sends a draft. Whether a server took a mail is not known where the connection ends behind the last byte: then,
// and after a crash in between, the error is permanent.
func (e *Email) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if _, err := chat.Mailbox(to.Channel); err != nil {
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: err}
	}
	ref := chat.Ref{IDs: []string{e.messageID(d.Key)}}
	last, known, err := e.load(ctx, d.Key)
	switch {
	case err != nil:
		return chat.Ref{}, &chat.PostError{Err: err}
	case known && last.Sent:
		return ref, nil
	case known:
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: errUnknown}
	}
	m, err := e.message(to.Channel, d)
	if err != nil {
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: err}
	}
	// Before the first byte: what is not known afterwards must not be sent again.
	if err := e.save(ctx, d.Key, attempt{Version: attemptVersion, At: e.o.Now().UTC()}); err != nil {
		return chat.Ref{}, &chat.PostError{Err: err}
	}
	sent, err := e.send(ctx, m)
	// The outcome is stored also when the deadline has passed: a mail whose attempt has none is never sent again.
	keep := context.WithoutCancel(ctx)
	if sent {
		if err := e.save(keep, d.Key, attempt{Version: attemptVersion, Sent: true, At: e.o.Now().UTC()}); err != nil {
			e.o.Log.Error("failed to record that a mail was sent", "post", d.Key, "error", err)
		}
		return ref, nil
	}
	if !errors.Is(err, errUnknown) {
		if err := e.o.Store.DeleteItem(keep, attemptKind, itemName(d.Key)); err != nil {
			e.o.Log.Error("failed to record that a mail was refused; it counts as possibly sent", "post", d.Key, "error", err)
		}
	}
	return chat.Ref{}, err
}

// errUnknown is the error of a mail that may have arrived.
var errUnknown = errors.New("it is unknown whether the mail arrived, so it is not sent again")

// send sends a mail, and reports whether the server took it. The error is a *chat.PostError.
func (e *Email) send(ctx context.Context, m *gomail.Msg) (bool, error) {
	client, err := e.client()
	if err != nil {
		return false, &chat.PostError{Permanent: true, Err: fmt.Errorf("connect to the mail server: %w", err)}
	}
	err = client.DialAndSendWithContext(ctx, m)
	// The server took it, whatever became of the connection after that.
	if m.IsDelivered() {
		return true, nil
	}
	var refused *gomail.SendError
	var answer *textproto.Error
	code := 0
	if errors.As(err, &refused) {
		code = refused.ErrorCode()
	} else if errors.As(err, &answer) {
		code = answer.Code
	}
	switch {
	// Not an error of sending: the connection or the sign-in was refused, and so would all mails be.
	case code >= 500 && refused == nil:
		return false, &chat.PostError{Permanent: true, Err: fmt.Errorf("the mail server refuses the bot, look at smtp in "+
			"config.json: %w", err)}
	case code >= 500:
		return false, &chat.PostError{Permanent: true, Err: fmt.Errorf("the mail server refuses the mail: %w", err)}
	case code >= 400:
		return false, &chat.PostError{Err: fmt.Errorf("the mail server takes no mail now: %w", err)}
	// Without an answer to the end of the mail nobody knows.
	case refused != nil && refused.Reason == gomail.ErrSMTPDataClose:
		return false, &chat.PostError{Permanent: true, Err: fmt.Errorf("%w: %w", errUnknown, err)}
	}
	return false, &chat.PostError{Err: fmt.Errorf("send a mail: %w", err)}
}

// Check connects to the server as for a mail, signs in, and sends nothing. The error says which of it failed.
func (e *Email) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	client, err := e.client()
	if err != nil {
		return fmt.Errorf("connect to the mail server: %w", err)
	}
	if err := client.DialWithContext(ctx); err != nil {
		return fmt.Errorf("connect and sign in to the mail server: %w", err)
	}
	return client.Close()
}

// client returns a client for the mail server, which is not connected yet.
func (e *Email) client() (*gomail.Client, error) {
	options := []gomail.Option{gomail.WithPort(e.o.Port), gomail.WithTimeout(sendTimeout)}
	switch e.o.TLS {
	case modeTLS:
		options = append(options, gomail.WithSSL())
	case modePlain:
		options = append(options, gomail.WithTLSPolicy(gomail.NoTLS))
	default:
		options = append(options, gomail.WithTLSPolicy(gomail.TLSMandatory))
	}
	if e.o.TLSConfig != nil {
		options = append(options, gomail.WithTLSConfig(e.o.TLSConfig))
	}
	if e.o.User != "" {
		auth := gomail.SMTPAuthAutoDiscover
		if e.o.TLS == modePlain { // which config.json allows on this machine alone
			auth = gomail.SMTPAuthPlainNoEnc
		}
		options = append(options, gomail.WithSMTPAuth(auth), gomail.WithUsername(e.o.User), gomail.WithPassword(e.o.Password))
	}
	return gomail.NewClient(e.o.Host, options...)
}

// message returns a draft as a mail: as plain text, and as the page that the HTML function makes of it.
func (e *Email) message(mailbox string, d chat.Draft) (*gomail.Msg, error) {
	m := gomail.NewMsg()
	if err := m.From(e.o.From); err != nil {
		return nil, fmt.Errorf("smtp.from: %w", err)
	}
	if err := m.To(mailbox); err != nil {
		return nil, fmt.Errorf("the recipient %q: %w", mailbox, err)
	}
	d.Title = text.Shorten(text.OneLine(d.Title), maxSubject)
	m.Subject(d.Title)
	m.SetDateWithValue(e.o.Now())
	m.SetMessageIDWithValue(e.messageID(d.Key))
	// Out-of-office replies would answer every digest (RFC 3834).
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	e.setListHeaders(m, d)
	m.SetBodyString(gomail.TypeTextPlain, text.Cut(plainText(d), maxTextSize))
	page, err := e.o.HTML(d)
	if err != nil {
		return nil, fmt.Errorf("write the mail as HTML: %w", err)
	}
	if len(page) <= maxHTMLSize {
		m.AddAlternativeString(gomail.TypeTextHTML, string(page))
	}
	return m, nil
}

// setListHeaders says which list a mail belongs to, and how its reader leaves that.
func (e *Email) setListHeaders(m *gomail.Msg, d chat.Draft) {
	if d.List != "" {
		m.SetGenHeader(gomail.Header("List-Id"), "<"+listLabel(d.List)+".digest."+e.domain()+">") // RFC 2919
	}
	if d.Unsubscribe == "" {
		return
	}
	m.SetGenHeader(gomail.HeaderListUnsubscribe, "<"+d.Unsubscribe+">")
	// RFC 8058 wants https for unsubscribing by one click, because mail programs send it without a look.
	if strings.HasPrefix(d.Unsubscribe, "https://") {
		m.SetGenHeader(gomail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
	}
}

// plainLabel matches names that a List-Id can have as they are.
var plainLabel = text.Pattern(`^[A-Za-z0-9_-]{1,63}$`)

// listLabel returns the name of a list as a part of its id. A name in other letters is known by its hash.
func listLabel(name string) string {
	if plainLabel().MatchString(name) {
		return name
	}
	return itemName(name)
}

// messageID returns the id of the mail of a post: that of a repeat is the same.
func (e *Email) messageID(key string) string { return itemName(key) + "@" + e.domain() }

// domain returns that of the sender.
func (e *Email) domain() string {
	_, domain, _ := strings.Cut(strings.Trim(e.o.From, "<> "), "@")
	return domain
}

// itemName returns the name under which the attempt of a post is stored.
func itemName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// plainText returns a draft for readers that show no HTML.
func plainText(d chat.Draft) string {
	parts := []string{markdown.Plain(d.Text)}
	for _, c := range d.Cards {
		lines := []string{c.Label() + c.Title}
		notes := c.Notes()
		if c.Source != "" {
			notes = append([]string{c.Source}, notes...)
		}
		if len(notes) > 0 {
			lines = append(lines, strings.Join(notes, " · "))
		}
		lines = append(lines, c.Text, c.URL)
		for _, also := range c.Also {
			lines = append(lines, "also: "+also.Title+" "+also.URL)
		}
		parts = append(parts, strings.Join(withoutEmpty(lines), "\n"))
	}
	parts = append(parts, d.Footer)
	if d.Unsubscribe != "" {
		parts = append(parts, "You get this by mail. Unsubscribe: "+d.Unsubscribe)
	}
	return strings.Join(withoutEmpty(parts), "\n\n") + "\n"
}

// withoutEmpty returns the texts without control characters, and none that is blank.
func withoutEmpty(list []string) []string {
	var kept []string
	for _, s := range list {
		if s = text.Clean(s); strings.TrimSpace(s) != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

// load returns what is known of an attempt to send a mail, or false.
func (e *Email) load(ctx context.Context, key string) (attempt, bool, error) {
	var a attempt
	raw, err := e.o.Store.Item(ctx, attemptKind, itemName(key))
	if errors.Is(err, store.ErrNotFound) {
		return a, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		return a, false, fmt.Errorf("read whether a mail was sent: %w", err)
	}
	return a, true, nil
}

// save stores that a mail is about to be sent, or what came of it.
func (e *Email) save(ctx context.Context, key string, a attempt) error {
	raw, err := json.Marshal(a)
	if err == nil {
		err = e.o.Store.SaveItem(ctx, attemptKind, itemName(key), raw, true)
	}
	if err != nil {
		return fmt.Errorf("store that a mail is being sent: %w", err)
	}
	return nil
}

// prune forgets attempts whose posts are long settled.
func (e *Email) prune(ctx context.Context) {
	all, err := e.o.Store.Items(ctx, attemptKind)
	if err != nil {
		e.o.Log.Error("failed to read the records of sent mails", "error", err)
		return
	}
	for name, raw := range all {
		var a attempt
		if json.Unmarshal(raw, &a) != nil || e.o.Now().Sub(a.At) < keepAttempts {
			continue
		}
		if err := e.o.Store.DeleteItem(ctx, attemptKind, name); err != nil && !errors.Is(err, store.ErrNotFound) {
			e.o.Log.Error("failed to delete the record of a sent mail", "error", err)
			return
		}
	}
}
