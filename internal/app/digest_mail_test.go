package app_test

import (
	"io"
	"net/http"
	"net/mail"
	"net/url"
	"os"
	"strings"
	"testing"

	"ravenbot/internal/testing/browsertest"
	simmail "ravenbot/internal/testing/sim/mail"
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
		!strings.Contains(fault.Error.Message, "not the address of a mailbox") {
		t.Errorf("a bad mailbox is answered %d: %s", status, fault.Error.Message)
	}
}

// A reader ends the mails of a digest by the link in them, others still get them, and the operator sees and undoes
// that.
func TestDigest_ByMail_CanBeUnsubscribed(t *testing.T) {
	w := newWorld(t)
	server := must(simmail.New(""))
	t.Cleanup(server.Close)
	settings := w.base()
	settings["http"].(map[string]any)["publicURL"] = "https://raven.example.org"
	settings["smtp"] = map[string]any{"host": "127.0.0.1", "port": server.Port(),
		"from": "raven@example.org", "tls": "none"}
	settings["digests"] = map[string]any{"morning": map[string]any{"schedule": "0 8 * * *", "whenEmpty": "say",
		"feeds": []string{"bundled:feeds-primer"},
		"post":  []string{"web:/general"}, "maxItems": 1, "email": []string{"anna@example.org", "berit@example.org"}}}
	b := w.run(settings)
	b.digestRun("morning")
	mails := map[string]*mail.Message{}
	for _, m := range must(server.Wait(deadline(t), 2)) {
		mails[m.To[0]] = must(mail.ReadMessage(strings.NewReader(m.Data)))
	}
	header := mails["anna@example.org"].Header
	if header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" ||
		header.Get("List-Id") != "<morning.digest.example.org>" {
		t.Fatalf("the headers are %v", header)
	}
	link := strings.Trim(header.Get("List-Unsubscribe"), "<> ")
	body := string(must(io.ReadAll(mails["anna@example.org"].Body)))
	if strings.Count(strings.ReplaceAll(body, "=\r\n", ""), link) != 2 { // as text and as a page
		t.Errorf("the mail does not show %s: %s", link, body)
	}
	here := strings.Replace(link, "https://raven.example.org", "http://"+b.Addr(), 1)
	if code, page := get(t, here); code != 200 || !strings.Contains(page, "Get no more of these mails?") ||
		!strings.Contains(page, "anna@example.org") {
		t.Errorf("the page is %d: %s", code, page)
	}
	unsubscribed := func() []string {
		var i struct{ Unsubscribed []string }
		b.call(http.MethodGet, "/api/v1/digests/morning", nil, &i)
		return i.Unsubscribed
	}
	if list := unsubscribed(); len(list) != 0 {
		t.Errorf("opening the page unsubscribes %q", list)
	}
	res := must(http.PostForm(here, url.Values{"List-Unsubscribe": {"One-Click"}}))
	res.Body.Close()
	if list := unsubscribed(); res.StatusCode != 200 || len(list) != 1 || list[0] != "anna@example.org" {
		t.Errorf("one click answers %d and unsubscribes %q", res.StatusCode, list)
	}
	b.stop()
	b = w.run(settings)
	b.digestRun("morning") // with nothing new, which it says
	if list := must(server.Wait(deadline(t), 3)); len(list) != 3 || list[2].To[0] != "berit@example.org" {
		t.Errorf("the next run sends %+v", list[2:])
	}
	if code := b.call(http.MethodDelete, "/api/v1/digests/morning/unsubscribed/anna@example.org", nil, nil); code != 204 {
		t.Errorf("taken back: %d", code)
	}
	if e := b.audited()[0]; e.Action != "unsubscription from digest deleted" || e.Target != "morning" || e.Who != operatorIdentity {
		t.Errorf("the audit has %+v", e)
	}
	b.digestRun("morning")
	if list := must(server.Wait(deadline(t), 5)); len(list) != 5 || len(unsubscribed()) != 0 {
		t.Errorf("after it is taken back there are %d mails, unsubscribed %q", len(list), unsubscribed())
	}
	if dir := os.Getenv("RAVENBOT_SCREENSHOTS"); dir != "" {
		page := browsertest.Start(t).Page()
		page.Look(browsertest.View{Width: 800, Height: 300})
		page.Go(strings.Replace(link, "https://raven.example.org", "http://"+b.Addr(), 1))
		page.Screenshot(dir + "/unsubscribe.png")
		page.Click("button")
		page.Wait(`document.body.innerText.includes("You are unsubscribed")`)
		page.Screenshot(dir + "/unsubscribed.png")
		if list := page.Problems(); len(list) > 0 {
			t.Errorf("the browser complains: %s", strings.Join(list, "; "))
		}
	}
}
