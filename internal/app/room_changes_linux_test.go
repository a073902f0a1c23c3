package app_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
	simmodel "ravenbot/internal/testing/sim/model"
)

// roomPage is the page of a web room, as somebody without JavaScript uses it.
type roomPage struct {
	t       *testing.T
	address func() string // host and port
	room    string
}

// request returns the status and the body of an answer; 0 where the daemon was killed meanwhile.
func (p roomPage) request(method, path string, form url.Values) (int, string) {
	p.t.Helper()
	address := "http://" + p.address() + "/chat/" + p.room + path
	req := must(http.NewRequestWithContext(deadline(p.t), method, address, strings.NewReader(form.Encode())))
	req.Header.Set("Authorization", "Bearer admin-token")
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// send sends a form, which has to be taken.
func (p roomPage) send(path string, form url.Values) {
	p.t.Helper()
	if status, body := p.request(http.MethodPost, path, form); status != http.StatusSeeOther {
		p.t.Fatalf("%s was answered with %d: %s", path, status, body)
	}
}

// shows waits until the page shows some texts, and not others.
func (p roomPage) shows(texts []string, not ...string) string {
	p.t.Helper()
	var page string
	within(p.t, "the page shows "+strings.Join(texts, ", ")+" and not "+strings.Join(not, ", "), func() bool {
		_, page = p.request(http.MethodGet, "", nil)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				return false
			}
		}
		for _, text := range not {
			if strings.Contains(page, text) {
				return false
			}
		}
		return true
	})
	return page
}

// lastAsked returns the newest request to the model, as it was sent.
func (w *world) lastAsked() string {
	asked := w.model.Asked()
	return string(asked[len(asked)-1].Raw)
}

var againButton = regexp.MustCompile(`name="post" value="(\d+)">(?s:.*?)value="(retry [^"]+)">Answer again`)

// What is edited or deleted on the chat page is in no request to a model, in no search and in no record any more, and its
// answer takes the place of the former one, or goes.
func TestChatPage_EditAndDelete_NothingOldIsLeft(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	b := w.run(w.base())
	p := roomPage{t, b.Addr, "general"}
	p.send("/messages", url.Values{"text": {"the word is apricot"}})
	p.shows([]string{"you said: the word is apricot"})
	search := func() (found string) {
		path := "/api/v1/conversations/" + url.PathEscape("web:/general") + "/search?q=word+banana+apricot"
		b.call(http.MethodGet, path, nil, &found)
		return found
	}
	if found := search(); !strings.Contains(found, "apricot") {
		t.Errorf("before the edit there is found: %s", found)
	}
	p.send("/lines/1/edit", url.Values{"one:words": {"the word is banana"}})
	p.shows([]string{"you said: the word is banana", "edited"}, "apricot")
	if found := search(); strings.Contains(found, "apricot") || !strings.Contains(found, "banana") {
		t.Errorf("after the edit there is found: %s", found)
	}
	p.send("/messages", url.Values{"text": {"what is it?"}})
	p.shows([]string{"you said: what is it?"})
	if asked := w.lastAsked(); strings.Contains(asked, "apricot") || !strings.Contains(asked, "banana") {
		t.Errorf("after the edit the model was asked with %s", asked)
	}
	again := againButton.FindStringSubmatch(p.shows(nil))
	if again == nil || again[1] != "2" {
		t.Fatalf("no answer can be had again: %q", again)
	}
	w.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("it is banana indeed") })
	p.send("/press", url.Values{"post": {again[1]}, "value": {again[2]}})
	p.shows([]string{"it is banana indeed", "you said: what is it?", "Earlier answers (1)"}, "apricot", "id=\"line-5\"")
	p.send("/lines/1/delete", nil)
	p.shows([]string{"Message deleted", "you said: what is it?"}, "banana")
	w.model.SetScript(echo)
	p.send("/messages", url.Values{"text": {"and now?"}})
	p.shows([]string{"you said: and now?"})
	if asked := w.lastAsked(); strings.Contains(asked, "banana") || strings.Contains(asked, "apricot") {
		t.Errorf("after the deletion the model was asked with %s", asked)
	}
	var page string
	b.call(http.MethodGet, "/chat?q=is", nil, &page)
	if found := search() + page; strings.Contains(found, "banana") || !strings.Contains(page, `class="found"`) {
		t.Errorf("after the deletion there is found: %s", found)
	}
	b.stop()
	db := must(storage.OpenFile(w.path("data/ravenbot.db"), time.Now))
	defer db.Close()
	owesNothing(t, db)
	if err := db.Records(t.Context(), func(r store.Record) error {
		for _, word := range []string{"banana", "apricot"} {
			if bytes.Contains(r.Body, []byte(word)) {
				t.Errorf("a %s of %s has %q: %s", r.Kind, r.Group, word, r.Body)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A question that is edited while it is answered is answered once, as it reads then.
func TestChatPage_EditWhileAnswered_AnswersTheNewWords(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		if strings.Contains(r.Asked(), "apricot") {
			return simmodel.Reply{Hang: true}
		}
		return echo(r)
	})
	b := w.run(w.base())
	p := roomPage{t, b.Addr, "general"}
	p.send("/messages", url.Values{"text": {"the word is apricot"}})
	must(w.model.WaitAsked(deadline(t), 1))
	p.send("/lines/1/edit", url.Values{"one:words": {"the word is banana"}})
	p.shows([]string{"you said: the word is banana"}, "apricot", `id="work-`)
	p.send("/messages", url.Values{"text": {"another apricot"}})
	must(w.model.WaitAsked(deadline(t), 3))
	p.send("/lines/3/delete", nil)
	p.shows([]string{"Message deleted"}, "apricot", `id="work-`)
}

// The daemon is killed when a change is stored and its line is not: the next one shows it, and does what follows from it.
func TestKilledBeforeALineIsChanged(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(echo)
	d := w.daemon(w.base())
	d.binary = fragileBinary()
	p := roomPage{t, func() string {
		_, rest, _ := strings.Cut(d.out.String(), "http=http://")
		address, _, _ := strings.Cut(rest, " ")
		return address
	}, "general"}
	killed := func(path string, form url.Values) {
		t.Helper()
		if status, body := p.request(http.MethodPost, path, form); status != 0 {
			t.Errorf("%s was answered with %d although the daemon was to be killed: %s", path, status, body)
		}
		<-d.gone
		d.kill()
		d.place = ""
	}
	d.place = "stored:2"
	d.start()
	p.send("/messages", url.Values{"text": {"the word is apricot"}})
	p.shows([]string{"you said: the word is apricot"})
	killed("/lines/1/edit", url.Values{"one:words": {"the word is banana"}})
	d.start()
	p.shows([]string{`data-text="the word is banana"`, "you said: the word is banana"}, "apricot", `id="line-3"`)
	d.idle()
	d.kill()
	d.place = "stored:1"
	d.start()
	killed("/lines/1/delete", nil)
	d.start()
	p.shows([]string{"Message deleted"}, "banana", `id="line-3"`)
	d.idle()
	d.end()
	db := must(storage.OpenFile(w.path("data/ravenbot.db"), time.Now))
	defer db.Close()
	if turns := must(db.Turns(t.Context(), chat.Address{Platform: "web", Channel: "general"}, store.Range{Newest: 9})); len(turns) > 0 {
		t.Errorf("remembered: %+v", turns)
	}
}
