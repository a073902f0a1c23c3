package app_test

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"ravenbot/internal/news/feed"
	"ravenbot/internal/testing/browsertest"
)

// get fetches an address without any token.
func get(t *testing.T, address string) (int, string) {
	t.Helper()
	res, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// A digest that is shared can be read at its address, as a page and as a feed, until that is revoked.
func TestDigestPage_IsReadableUntilItIsRevoked(t *testing.T) {
	w := newWorld(t)
	settings := w.base()
	settings["digests"] = map[string]any{"morning": map[string]any{"schedule": "0 8 * * *",
		"feeds": []string{"bundled:feeds-primer"},
		"post":  []string{"web:/general"}, "maxItems": 3}}
	b := w.run(settings)
	var shared struct{ Page, Feed string }
	if code := b.call("POST", "/api/v1/digests/nonesuch/share", nil, nil); code != 404 {
		t.Errorf("a digest that does not exist was shared: %d", code)
	}
	if code := b.call("POST", "/api/v1/digests/morning/run", nil, nil); code != 200 {
		t.Fatalf("run: %d", code)
	}
	if code := b.call("POST", "/api/v1/digests/morning/share", nil, &shared); code != 201 {
		t.Fatalf("share: %d", code)
	}
	code, page := get(t, shared.Page)
	if code != 200 || strings.Count(page, `class="card"`) != 3 || strings.Contains(page, "<script") {
		t.Errorf("the page: %d, %s", code, page)
	}
	code, atom := get(t, shared.Feed)
	doc, err := feed.Parse([]byte(atom), feed.Hint{})
	if code != 200 || err != nil || doc.Feed.Heading() != "morning" || len(doc.Items) != 1 ||
		!strings.Contains(doc.Items[0].Content, "JSON Feed: no XML at all") {
		t.Errorf("the feed: %d, %v, %+v", code, err, doc)
	}
	if again := b.ask("general", "/digest share morning"); !strings.Contains(again,
		strings.TrimPrefix(shared.Page, "http://")) &&
		!strings.Contains(again, shared.Page[strings.LastIndex(shared.Page, "/d/"):]) {
		t.Errorf("asked in chat it is shared as %q, over the API as %q", again, shared.Page)
	}
	if dir := os.Getenv("RAVENBOT_SCREENSHOTS"); dir != "" {
		browser := browsertest.Start(t)
		b.browse(browser, func(p *browsertest.Page) {
			for _, dark := range []bool{false, true} {
				p.Look(browsertest.View{Width: 800, Height: 900, Dark: dark})
				p.Go(shared.Page)
				p.Screenshot(dir + "/digest-page" + map[bool]string{true: "-dark"}[dark] + ".png")
			}
		})
	}
	if code, _ := get(t, shared.Page[:len(shared.Page)-1]+"0"); code != 404 { // tokens have no 0
		t.Errorf("an address with a wrong token answers %d", code)
	}
	if code := b.call("DELETE", "/api/v1/digests/morning/share", nil, nil); code != 204 {
		t.Fatalf("unshare: %d", code)
	}
	for _, address := range []string{shared.Page, shared.Feed} {
		if code, _ := get(t, address); code != 404 {
			t.Errorf("%s answers %d after it was revoked", address, code)
		}
	}
}
