package email_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ravenbot/adapters/email"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	simmail "ravenbot/internal/testing/sim/mail"
)

// post is a mailbox with a server before it.
type post struct {
	*email.Email
	server *simmail.Server
	db     *records.Store
	o      email.Options
}

func start(t *testing.T, change ...func(*email.Options)) *post {
	t.Helper()
	server, err := simmail.New("secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	db, err := storage.OpenFile(filepath.Join(t.TempDir(), "raven.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	p := &post{server: server, db: db, o: email.Options{
		Host: "127.0.0.1", Port: server.Port(), User: "raven", Password: "secret", From: "raven@example.org",
		TLS:       "starttls",
		TLSConfig: server.TLSConfig(), Store: db, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		HTML: func(d chat.Draft) ([]byte, error) {
			return []byte("<!DOCTYPE html><title>" + d.Title + "</title><p>" + d.Text + "</p>"), nil
		},
	}}
	for _, c := range change {
		c(&p.o)
	}
	p.Email = email.New(p.o)
	return p
}

var anna = must(chat.Mailbox("anna@example.org"))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

var morning = chat.Draft{Key: "digest/morning/1", Title: "Morgen, 22 November",
	Text: "**Morning**: 2 new stories — größer",
	Cards: []chat.Card{{N: 1, Title: "Crane", URL: "https://own.example/1", Source: "Our own",
		Text: "The harbour gets a crane.", Also: []chat.Link{{Title: "Other", URL: "https://other.example/1"}}}},
	Footer: "summary by nobody"}

// bodies returns the parts of a mail by their media types.
func bodies(t *testing.T, m *mail.Message) map[string]string {
	t.Helper()
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/alternative" {
		t.Fatalf("the mail is %q, %v", kind, err)
	}
	parts := map[string]string{}
	r := multipart.NewReader(m.Body, params["boundary"])
	for {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		var in io.Reader = part
		if part.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
			in = quotedprintable.NewReader(part)
		}
		parts[name] = string(must(io.ReadAll(in)))
	}
}

func TestPost_IsAMailWithTextAndPage(t *testing.T) {
	p := start(t)
	ref, err := p.Post(t.Context(), anna, morning)
	if err != nil {
		t.Fatal(err)
	}
	got := p.server.Mails()[0]
	if !got.TLS || got.User != "raven" || got.From != "raven@example.org" || len(got.To) != 1 ||
		got.To[0] != "anna@example.org" {
		t.Errorf("it was sent as %+v", got)
	}
	m := must(mail.ReadMessage(strings.NewReader(got.Data)))
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != morning.Title || m.Header.Get("Message-Id") != "<"+ref.IDs[0]+">" ||
		m.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("the headers are %v", m.Header)
	}
	parts := bodies(t, m)
	const want = "Morning: 2 new stories — größer\r\n\r\n1. Crane\r\nOur own\r\nThe harbour gets a " +
		"crane.\r\nhttps://own.example/1\r\n" +
		"also: Other https://other.example/1\r\n\r\nsummary by nobody\r\n"
	if strings.TrimSpace(parts["text/plain"]) != strings.TrimSpace(want) ||
		!strings.HasPrefix(parts["text/html"], "<!DOCTYPE html><title>Morgen") {
		t.Errorf("it says %q", parts)
	}
}

// A mail of a list says which, and how to leave it: by one click where that is safe, and in its text.
func TestPost_OfAList_SaysHowToLeaveIt(t *testing.T) {
	const link = "raven.example.org/unsubscribe/bW9ybmluZw.0123456789abcdef0123456789abcdef"
	for _, c := range []struct{ list, unsubscribe, id, left, click string }{
		{"morning", "https://" + link, `^<morning\.digest\.example\.org>$`, "<https://" + link + ">", "List-Unsubscribe=One-Click"},
		{"morning", "http://" + link, `^<morning\.digest\.example\.org>$`, "<http://" + link + ">", ""},
		{"morning", "", `^<morning\.digest\.example\.org>$`, "", ""},
		{"größer\r\nBcc: eve@example.org", "", `^<[0-9a-f]{32}\.digest\.example\.org>$`, "", ""},
		{"", "", "^$", "", ""},
	} {
		p := start(t)
		d := morning
		d.List, d.Unsubscribe = c.list, c.unsubscribe
		if _, err := p.Post(t.Context(), anna, d); err != nil {
			t.Fatal(err)
		}
		m := must(mail.ReadMessage(strings.NewReader(p.server.Mails()[0].Data)))
		h := m.Header
		if !regexp.MustCompile(c.id).MatchString(h.Get("List-Id")) ||
			strings.TrimSpace(h.Get("List-Unsubscribe")) != c.left || h.Get("List-Unsubscribe-Post") != c.click ||
			h.Get("Bcc") != "" {
			t.Errorf("list %q, link %q: the headers are %v", c.list, c.unsubscribe, h)
		}
		if text := bodies(t, m)["text/plain"]; strings.Contains(text,
			"Unsubscribe: "+c.unsubscribe) != (c.unsubscribe != "") {
			t.Errorf("list %q, link %q: the text is %q", c.list, c.unsubscribe, text)
		}
	}
}

func TestPost_HeaderInjection_IsRefusedOrHarmless(t *testing.T) {
	p := start(t)
	for _, mailbox := range []string{"anna@example.org\r\nBcc: eve@example.org", "anna@example.org, eve@example.org",
		"Eve <eve@example.org>", "anna", ""} {
		if a, err := chat.Mailbox(mailbox); err == nil {
			t.Errorf("%q is %v", mailbox, a)
		}
		to := anna
		to.Channel = mailbox
		var refused *chat.PostError
		if _, err := p.Post(t.Context(), to, morning); !errors.As(err, &refused) || !refused.Permanent {
			t.Errorf("a mail to %q: %v", mailbox, err)
		}
	}
	d := morning
	d.Title, d.Text = "News\r\nBcc: eve@example.org\r\n\r\nowned", ".\r\nMAIL FROM:<eve@example.org>"
	if _, err := p.Post(t.Context(), anna, d); err != nil {
		t.Fatal(err)
	}
	mails := p.server.Mails()
	if len(mails) != 1 || len(mails[0].To) != 1 {
		t.Fatalf("there are %+v", mails)
	}
	if m := must(mail.ReadMessage(strings.NewReader(mails[0].Data))); m.Header.Get("Bcc") != "" ||
		!strings.Contains(m.Header.Get("Subject"), "Bcc: eve") {
		t.Errorf("the headers are %v", m.Header)
	}
}

// What the server refuses for now may be tried again; what it refuses for good, and what may have arrived, may not.
func TestPost_Faults(t *testing.T) {
	for name, c := range map[string]struct {
		fault           simmail.Fault
		permanent       bool
		text            string
		mails, mailsEnd int // after the first attempt, and after another one
	}{
		"busy":                   {simmail.Fault{At: "MAIL", Answer: "451 try later"}, false, "takes no mail now", 0, 1},
		"cut before the mail":    {simmail.Fault{At: "DATA"}, false, "send a mail", 0, 1},
		"no such mailbox":        {simmail.Fault{At: "RCPT", Answer: "550 no such user"}, true, "refuses the mail", 0, 1},
		"refused at the end":     {simmail.Fault{At: ".", Answer: "554 spam"}, true, "refuses the mail", 0, 1},
		"busy at the end":        {simmail.Fault{At: ".", Answer: "452 full"}, false, "takes no mail now", 0, 1},
		"cut at the end, taken":  {simmail.Fault{At: ".", Take: true}, true, "it is unknown whether", 1, 1},
		"cut at the end, lost":   {simmail.Fault{At: "."}, true, "it is unknown whether", 0, 0},
		"wrong password":         {simmail.Fault{At: "AUTH", Answer: "535 wrong"}, true, "look at smtp", 0, 1},
		"cut behind the mail":    {simmail.Fault{At: "RSET"}, false, "", 1, 1},
		"signing in takes pause": {simmail.Fault{At: "AUTH", Answer: "454 later"}, false, "takes no mail now", 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t)
			p.server.Fail(c.fault)
			_, err := p.Post(t.Context(), anna, morning)
			var refused *chat.PostError
			switch {
			case c.text == "" && err != nil:
				t.Fatalf("the mail that was taken failed: %v", err)
			case c.text != "" && (!errors.As(err, &refused) || refused.Permanent != c.permanent ||
				!strings.Contains(err.Error(), c.text)):
				t.Fatalf("permanent %t: %v", c.permanent, err)
			}
			if n := len(p.server.Mails()); n != c.mails {
				t.Errorf("%d mails were taken, want %d", n, c.mails)
			}
			// Another process, as after a restart, which does not know what became of it.
			again := morning
			again.Again = true
			_, _ = email.New(p.o).Post(t.Context(), anna, again)
			if n := len(p.server.Mails()); n != c.mailsEnd {
				t.Errorf("after another attempt %d mails were taken, want %d", n, c.mailsEnd)
			}
			for _, m := range p.server.Mails() {
				if !strings.Contains(m.Data, "Message-ID: <") {
					t.Errorf("the mail has no id: %s", m.Data)
				}
			}
		})
	}
}

func TestPost_WithoutProtection_IsNotSent(t *testing.T) {
	p := start(t, func(o *email.Options) { o.TLSConfig = nil }) // which does not trust the server
	if _, err := p.Post(t.Context(), anna, morning); err == nil || len(p.server.Mails()) != 0 {
		t.Errorf("%v, %d mails", err, len(p.server.Mails()))
	}
	p = start(t, func(o *email.Options) { o.TLS = "none" })
	if _, err := p.Post(t.Context(), anna, morning); err != nil || p.server.Mails()[0].TLS {
		t.Errorf("on this machine: %v", err)
	}
}

func TestRun_ForgetsOldAttempts(t *testing.T) {
	now := time.Now()
	p := start(t, func(o *email.Options) { o.Now = func() time.Time { return now } })
	if _, err := p.Post(t.Context(), anna, morning); err != nil {
		t.Fatal(err)
	}
	now = now.Add(8 * 24 * time.Hour)
	later := morning
	later.Key = "digest/morning/2"
	if _, err := p.Post(t.Context(), anna, later); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, nil) }()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for len(must(p.db.Items(ctx, "email attempt"))) != 1 { // the newer one stays
		select {
		case <-look.C:
		case <-ctx.Done():
			t.Fatal("the old attempt is kept")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A check signs in as a mail would, says what is wrong, and sends nothing.
func TestCheck_SignsInAndSendsNothing(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		change     func(*email.Options)
	}{
		{"all is well", "", func(*email.Options) {}},
		{"a wrong password", "sign in", func(o *email.Options) { o.Password = "wrong" }},
		{"a certificate that nobody knows", "certificate", func(o *email.Options) { o.TLSConfig = nil }},
		{"nobody listens", "refused", func(o *email.Options) { o.Port = 1 }},
	} {
		p := start(t, tc.change)
		err := p.Check(t.Context())
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
		if n := len(p.server.Mails()); n != 0 {
			t.Errorf("%s: %d mails were sent", tc.name, n)
		}
	}
}
