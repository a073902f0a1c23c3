package app_test

import (
	"net/http"
	"testing"

	"ravenbot/internal/testing/browsertest"
)

// A conversation gets a title over the API, and is deleted on the page with all that is remembered of it; the next one in
// its room is shown to whoever has the page open.
func TestConversation_IsNamedAndDeleted(t *testing.T) {
	browser := browsertest.Start(t)
	b := newWorld(t)
	bot := b.run(b.base())
	const address = "/api/v1/conversations/web%3A%2Fbirds"
	bot.ask("birds", "hello")
	if status := bot.call(http.MethodPatch, address, map[string]any{"title": "About birds"}, nil); status != http.StatusNoContent {
		t.Fatalf("naming it: %d", status)
	}
	page := browser.Page()
	page.Go(bot.LoginLink())
	page.Wait(`document.querySelector("#room-birds")?.innerText.startsWith("About birds")`)
	page.Go("http://" + bot.Addr() + "/chat/birds")
	page.Wait(`document.querySelectorAll("#log article").length > 1`)
	open := browser.Page()
	open.Go(bot.LoginLink())
	open.Wait(`document.querySelector("#text")`)
	open.Go("http://" + bot.Addr() + "/chat/birds")
	page.Eval("window.confirm = () => true")
	page.Click(".manage .danger")
	page.Wait(`location.pathname === "/chat/general" && !document.querySelector("#room-birds")`)
	if status := bot.call(http.MethodGet, address, nil, nil); status != http.StatusNotFound {
		t.Errorf("after it was deleted: %d", status)
	}
	open.Wait(`document.querySelectorAll("#log article").length === 0`)
	bot.ask("birds", "hello again")
	open.Wait(`document.querySelector("#log .person .said")?.innerText === "hello again" && document.querySelector("#log .bot")`)
}
