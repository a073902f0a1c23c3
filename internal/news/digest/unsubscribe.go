package digest

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Who gets a digest by mail stands in its plan. That somebody wants no more of it is kept apart, under the names of
// digest and mailbox, so that it outlasts changes of the plan.
const (
	unsubscribedKind    = "digest unsubscription" // items are named by mailingID
	unsubscribedVersion = 1

	mailKeyKind = "digest mail key" // one item: what the links of mails are signed with
	mailKeyName = "key"

	mailTokenBytes = 16 // of a signature
)

// unsubscription says that a mailbox gets no more mails of a digest.
type unsubscription struct {
	Version int       `json:"version"`
	Digest  string    `json:"digest"`
	Mailbox string    `json:"mailbox"`
	At      time.Time `json:"at"`
}

// Mailing is a digest as one mailbox gets it.
type Mailing struct {
	Digest  string
	Title   string
	Mailbox string
	Stopped bool // the mailbox gets no more mails
}

// mailingID names what is kept of a digest and a mailbox. Upper and lower case are the same mailbox.
func mailingID(digest, mailbox string) string {
	return shortHash(digest + "\x00" + strings.ToLower(mailbox))
}

// mailPosts returns the mails of a run. It fails where it is not known who wants none: they must
// not get one. Each mailbox has a post of its own, so that no reader sees the address of another.
func (s *Service) mailPosts(ctx context.Context, d spec, run store.Run, draft chat.Draft) ([]store.Post, error) {
	if len(d.mail) == 0 || draft.Text == "" {
		return nil, nil
	}
	stopped, err := s.unsubscribed(ctx)
	if err != nil {
		return nil, err
	}
	var key []byte
	if s.o.MailURL != "" {
		if key, err = s.mailKey(ctx); err != nil {
			return nil, err
		}
	}
	var posts []store.Post
	for _, to := range d.mail {
		if _, ok := stopped[mailingID(d.Name, to.Channel)]; ok {
			continue
		}
		one := draft
		one.Key, one.Title, one.List = postKey(d.Name, run.Due, to), d.postTitle(run.Due), d.Name
		if key != nil {
			one.Unsubscribe = strings.TrimRight(s.o.MailURL, "/") + UnsubscribePath(mailToken(key, d.Name, to.Channel))
		}
		posts = append(posts, store.Post{Key: one.Key, To: to, Draft: one, At: run.Ended})
	}
	return posts, nil
}

// unsubscribed returns all that was unsubscribed, by mailingID.
func (s *Service) unsubscribed(ctx context.Context) (map[string]unsubscription, error) {
	list, err := loadItems[unsubscription](ctx, s, unsubscribedKind)
	if err != nil {
		return nil, fmt.Errorf("read who wants no mails: %w", err)
	}
	return list, nil
}

// mailKey returns the key that signs the links of mails. It is made once for the store, which keeps it in clear:
// whoever has a copy of the store could unsubscribe the mailboxes that stand there, too, which a click takes back.
// Encrypted, it would be lost with the file of the other key, and with it the links of all mails that were sent.
func (s *Service) mailKey(ctx context.Context) ([]byte, error) {
	raw, err := s.o.Store.Item(ctx, mailKeyKind, mailKeyName)
	if errors.Is(err, store.ErrNotFound) {
		key := make([]byte, sha256.Size)
		_, _ = rand.Read(key) // never fails
		if raw, err = json.Marshal(key); err != nil {
			return nil, err
		}
		err = s.o.Store.SaveItem(ctx, mailKeyKind, mailKeyName, raw, false)
		if errors.Is(err, store.ErrExists) { // another replica was faster
			raw, err = s.o.Store.Item(ctx, mailKeyKind, mailKeyName)
		}
	}
	var key []byte
	if err == nil {
		err = json.Unmarshal(raw, &key)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key for links in mails: %w", err)
	}
	return key, nil
}

// mailToken returns what proves that somebody has a mail of a digest to a mailbox. It names the digest alone: addresses
// end up in logs, where a mailbox does not belong.
func mailToken(key []byte, digest, mailbox string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("unsubscribe\x00" + mailingID(digest, mailbox)))
	return base64.RawURLEncoding.EncodeToString([]byte(digest)) + "." + hex.EncodeToString(mac.Sum(nil)[:mailTokenBytes])
}

// Mailing returns what the token in a mail stands for, or false: it is not one, or the mailbox gets the digest no more.
func (s *Service) Mailing(ctx context.Context, token string) (Mailing, bool, error) {
	name, _, _ := strings.Cut(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(name)
	if err != nil {
		return Mailing{}, false, nil
	}
	d, ok := s.find(string(raw))
	if !ok {
		return Mailing{}, false, nil
	}
	key, err := s.mailKey(ctx)
	if err != nil {
		return Mailing{}, false, err
	}
	// The token names no mailbox, so each that gets the digest now is tried.
	for _, to := range d.mail {
		if !hmac.Equal([]byte(mailToken(key, d.Name, to.Channel)), []byte(token)) {
			continue
		}
		stopped, err := s.unsubscribed(ctx)
		_, ok := stopped[mailingID(d.Name, to.Channel)]
		return Mailing{Digest: d.Name, Title: d.title, Mailbox: to.Channel, Stopped: ok}, err == nil, err
	}
	return Mailing{}, false, nil
}

// StopMail has a mailbox get no more mails of a digest. It may be repeated. Whether the mailbox
// gets the digest is not looked at: the caller has the Mailing of a token.
func (s *Service) StopMail(ctx context.Context, digest, mailbox string) error {
	u := unsubscription{Version: unsubscribedVersion, Digest: digest, Mailbox: mailbox, At: s.o.Now().UTC()}
	if err := s.saveItem(ctx, unsubscribedKind, mailingID(digest, mailbox), u); err != nil {
		return err
	}
	s.o.Log.Info("mailbox unsubscribed", "digest", digest)
	return nil
}

// ResumeMail has a mailbox that was unsubscribed get a digest again. It returns ErrUnknown where it was not.
func (s *Service) ResumeMail(ctx context.Context, digest, mailbox string) error {
	err := s.o.Store.DeleteItem(ctx, unsubscribedKind, mailingID(digest, mailbox))
	if errors.Is(err, store.ErrNotFound) {
		return ErrUnknown
	}
	if err == nil {
		s.o.Log.Info("mailbox subscribed again", "digest", digest)
	}
	return err
}

// stoppedMail returns which mailboxes of a digest get no more mails.
func (s *Service) stoppedMail(ctx context.Context, d spec) ([]string, error) {
	if len(d.mail) == 0 {
		return nil, nil
	}
	stopped, err := s.unsubscribed(ctx)
	var list []string
	for _, to := range d.mail {
		if _, ok := stopped[mailingID(d.Name, to.Channel)]; ok {
			list = append(list, to.Channel)
		}
	}
	return list, err
}

// UnsubscribePath returns the path at which the reader of a mail ends it.
func UnsubscribePath(token string) string { return "/unsubscribe/" + token }
