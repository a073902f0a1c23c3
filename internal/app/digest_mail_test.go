package app_test

import (
	"net/http"
	"strings"
	"testing"

	simmail "ravenbot/internal/sim/mail"
)

// A digest goes to mailboxes, too: once each, also across a restart; what the server refuses for good is told with the
// run, and what it cannot take now is tried again.
func TestDigest_ByMail(t *testing.T) {
	w := newWorld(t)
	server := must(simmail.New(""))
	t.Cleanup(server.Close)
	settings := w.base()
	settings["smtp"] = map[string]any{"host": "127.0.0.1", "port": server.Port(),
		"from": "raven@example.org", "tls": "none"}
	settings["digests"] = map[string]any{"morning": map[string]any{"schedule": "0 8 * * *",
		"feeds": []string{"bundled:feeds-primer"},
		"post":  []string{"web:/general"}, "maxItems": 3, "email": []string{"anna@example.org", "berit@example.org"}}}
	server.Fail(simmail.Fault{At: "RCPT", Answer: "550 no such user"}, simmail.Fault{At: "MAIL", Answer: "451 try later"})
	b := w.run(settings)
	posted, note := b.digestRun("morning")
	if posted != 3 || !strings.Contains(note, "no such user") || !strings.Contains(note, "not posted to email:smtp/") {
		t.Errorf("the run posted %d: %s", posted, note)
	}
	mails := must(server.Wait(deadline(t), 1))
	if !strings.Contains(mails[0].Data, "Subject: morning, ") ||
		!strings.Contains(mails[0].Data, "multipart/alternative") ||
		!strings.Contains(mails[0].Data, "<!DOCTYPE html>") || strings.Contains(mails[0].Data, "<script") ||
		strings.Contains(mails[0].Data, "Atom feed") {
		t.Errorf("the mail is %s", mails[0].Data)
	}
	if list := answerIn(t, b.ask("general", "/digest list")); !strings.Contains(list, "no such user") {
		t.Errorf("the list says %s", list)
	}
	b.stop()
	b = w.run(settings)
	b.ask("general", "/digest list")
	if mails := server.Mails(); len(mails) != 1 {
		t.Errorf("there are %d mails after a restart", len(mails))
	}
	var fault struct{ Error struct{ Message string } }
	bad := map[string]any{"name": "bad", "schedule": "0 8 * * *", "feeds": []string{"bundled:feeds-primer"},
		"post": []string{"web:/general"}, "email": []string{"a@b\nBcc: c@d"}}
	if status := b.call(http.MethodPost, "/api/v1/digests", bad, &fault); status != http.StatusBadRequest ||
		!strings.Contains(fault.Error.Message, "no address of a mailbox") {
		t.Errorf("a bad mailbox is answered %d: %s", status, fault.Error.Message)
	}
}
