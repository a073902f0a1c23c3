package digest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/news/digest"
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

const mailURL = "https://raven.example.org/"

// mailed runs the digest of a new item, and returns its mails by mailbox.
func (b *bench) mailed(t *testing.T) map[string]chat.Draft {
	t.Helper()
	b.feeds[a] = append(b.feeds[a], story(len(b.feeds[a])))
	b.now, b.sent = b.now.Add(24*time.Hour), nil
	b.run(t, b.now)
	mails := map[string]chat.Draft{}
	for _, p := range b.sent {
		if p.To.Platform == chat.MailPlatform {
			mails[p.To.Channel] = p.Draft
		}
	}
	return mails
}

func tokenOf(t *testing.T, d chat.Draft) string {
	t.Helper()
	token, ok := strings.CutPrefix(d.Unsubscribe, "https://raven.example.org/unsubscribe/")
	if !ok {
		t.Fatalf("the mail links to %q", d.Unsubscribe)
	}
	return token
}

// Whoever has unsubscribed gets no more mails, also after a restart and under a changed plan, until that is taken back;
// others still do.
func TestUnsubscribe_EndsTheMailsOfOneReader(t *testing.T) {
	plan := digest.Plan{Name: "morning", Schedule: "30 8 * * *", Post: []string{general.String()},
		Feeds: from(a), Email: []string{"anna@example.org", "berit@example.org"}}
	b := service(t, plan, func(o *digest.Options) { o.MailURL = mailURL })
	mails := b.mailed(t)
	if len(mails) != 2 || mails["anna@example.org"].List != "morning" {
		t.Fatalf("the first run sends %+v", mails)
	}
	token := tokenOf(t, mails["anna@example.org"])
	m, ok, err := b.Mailing(t.Context(), token)
	if err != nil || !ok || m.Stopped || m.Digest != "morning" || m.Mailbox != "anna@example.org" {
		t.Fatalf("the token stands for %+v, %t, %v", m, ok, err)
	}
	if err := b.StopMail(t.Context(), m.Digest, m.Mailbox); err != nil {
		t.Fatal(err)
	}
	plan.Email[0] = "Anna@example.org" // the same mailbox
	b.restart(t, plan)
	if mails = b.mailed(t); len(mails) != 1 || tokenOf(t, mails["berit@example.org"]) == token {
		t.Errorf("after anna has unsubscribed it goes to %+v", mails)
	}
	if m, ok, err := b.Mailing(t.Context(), token); err != nil || !ok || !m.Stopped {
		t.Errorf("the old link stands for %+v, %t, %v", m, ok, err)
	}
	info, err := b.Get(t.Context(), "morning")
	if err != nil || len(info.Unsubscribed) != 1 || info.Unsubscribed[0] != "Anna@example.org" {
		t.Errorf("the digest tells of %q, %v", info.Unsubscribed, err)
	}
	if err := b.ResumeMail(t.Context(), "morning", "anna@example.org"); err != nil {
		t.Fatal(err)
	}
	if err := b.ResumeMail(t.Context(), "morning", "anna@example.org"); !errors.Is(err, digest.ErrUnknown) {
		t.Errorf("taken back twice: %v", err)
	}
	if mails = b.mailed(t); len(mails) != 2 || tokenOf(t, mails["Anna@example.org"]) != token {
		t.Errorf("after it was taken back it goes to %+v", mails)
	}
}

// A token is good for one digest and one mailbox, and cannot be made up.
func TestMailing_KnowsForgedTokens(t *testing.T) {
	mail := digest.Plan{Name: "morning", Schedule: "30 8 * * *", Post: []string{general.String()},
		Feeds: from(a), Email: []string{"anna@example.org"}}
	other := mail
	other.Name = "evening"
	b := service(t, mail, func(o *digest.Options) { o.MailURL = mailURL })
	if err := b.Configure([]digest.Plan{mail, other}); err != nil {
		t.Fatal(err)
	}
	token := tokenOf(t, b.mailed(t)["anna@example.org"])
	name, signature, _ := strings.Cut(token, ".")
	for what, forged := range map[string]string{
		"empty":                "",
		"without a signature":  name,
		"with half of it":      token[:len(token)-1],
		"with another letter":  token[:len(token)-1] + string('0'+(token[len(token)-1]-'0'+1)%2),
		"of another digest":    "ZXZlbmluZw." + signature,
		"of no digest":         "bm9uZQ." + signature,
		"that is no name":      "%%%." + signature,
		"with more behind it":  token + "0",
		"with letters changed": name + "." + strings.ToUpper(signature) + "x",
	} {
		if m, ok, err := b.Mailing(t.Context(), forged); ok || err != nil {
			t.Errorf("a token %s stands for %+v, %v", what, m, err)
		}
	}
	// Who was taken off the list has no use for the link any more.
	mail.Email = []string{"berit@example.org"}
	if err := b.Configure([]digest.Plan{mail}); err != nil {
		t.Fatal(err)
	}
	if m, ok, err := b.Mailing(t.Context(), token); ok || err != nil {
		t.Errorf("a mailbox that was removed: %+v, %v", m, err)
	}
	// Another bot has another key.
	b2 := service(t, mail, func(o *digest.Options) { o.MailURL = mailURL })
	if theirs := tokenOf(t, b2.mailed(t)["berit@example.org"]); theirs == tokenOf(t, b.mailed(t)["berit@example.org"]) {
		t.Error("two bots sign alike")
	}
}

func TestUnsubscribe_WithoutAnAddressOfItsOwn_NoLink(t *testing.T) {
	b := service(t, digest.Plan{Feeds: from(a), Email: []string{"anna@example.org"}})
	if d := b.mailed(t)["anna@example.org"]; d.Text == "" || d.Unsubscribe != "" || d.List != "morning" {
		t.Errorf("the mail is %+v", d)
	}
}

// forgetful is a store that cannot read one kind of items.
type forgetful struct {
	digest.Store
	kind string
}

func (f *forgetful) Items(ctx context.Context, kind string) (map[string]json.RawMessage, error) {
	if kind == f.kind {
		return nil, errors.New("damaged")
	}
	return f.Store.Items(ctx, kind)
}

func (f *forgetful) Item(ctx context.Context, kind, name string) (json.RawMessage, error) {
	if kind == f.kind {
		return nil, errors.New("damaged")
	}
	return f.Store.Item(ctx, kind, name)
}

// Where it is not known who has unsubscribed nobody gets a mail, and the run is made again.
func TestUnsubscribe_UnknownWhoWantsNone_SendsNothing(t *testing.T) {
	for _, kind := range []string{"digest unsubscription", "digest mail key"} {
		f := &forgetful{}
		b := service(t, digest.Plan{Feeds: from(a), Email: []string{"anna@example.org"}}, func(o *digest.Options) {
			f.Store, o.Store, o.MailURL = o.Store, f, mailURL
		})
		b.feeds[a] = []feed.Item{story(1)}
		f.kind = kind
		if run, err := b.Run(t.Context(), "morning", b.now, false); err == nil || len(b.sent) != 0 {
			t.Errorf("%s: the run is %+v, %v, and sends %d posts", kind, run, err, len(b.sent))
		}
		f.kind = ""
		if b.run(t, b.now); len(b.sent) != 2 {
			t.Errorf("%s: the next try sends %+v", kind, b.sent)
		}
	}
}

// racingStore has another replica make the key just before this one does.
type racingStore struct {
	digest.Store
	other json.RawMessage
}

func (r *racingStore) SaveItem(ctx context.Context, kind, name string, item json.RawMessage, overwrite bool) error {
	if kind == "digest mail key" {
		if overwrite {
			return errors.New("the key would be replaced")
		}
		if err := r.Store.SaveItem(ctx, kind, name, r.other, false); err != nil && !errors.Is(err, store.ErrExists) {
			return err
		}
	}
	return r.Store.SaveItem(ctx, kind, name, item, overwrite)
}

func TestUnsubscribe_ReplicasShareAKey(t *testing.T) {
	mails := func(other string) chat.Draft {
		b := service(t, digest.Plan{Feeds: from(a), Email: []string{"anna@example.org"}}, func(o *digest.Options) {
			o.Store, o.MailURL = &racingStore{o.Store, json.RawMessage(`"` + other + `"`)}, mailURL
		})
		return b.mailed(t)["anna@example.org"]
	}
	if one, two := mails("AAAA"), mails("AAAA"); tokenOf(t, one) != tokenOf(t, two) {
		t.Error("the key of the other replica is not used")
	}
	if one, two := mails("AAAA"), mails("BBBB"); tokenOf(t, one) == tokenOf(t, two) {
		t.Error("the key makes no difference")
	}
}
