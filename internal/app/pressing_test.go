package app_test

import (
	"strings"
	"testing"

	"ravenbot/internal/testing/browsertest"
	simmodel "ravenbot/internal/testing/sim/model"
)

// TestThePageHasButtonsAndForms presses what stands below answers, and fills in the
// settings, in a real browser.
func TestThePageHasButtonsAndForms(t *testing.T) {
	browser := browsertest.Start(t)
	w := newWorld(t)
	broken := make(chan bool, 1)
	broken <- true
	release := make(chan struct{})
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply {
		select {
		case <-broken:
			return simmodel.Reply{Status: 400, Message: "no"}
		default:
		}
		if r.Asked() == "take your time" {
			<-release
		}
		return simmodel.Say("It works.")
	})
	w.run(w.base()).browse(browser, func(page *browsertest.Page) {
		said := func(text string) string { return `document.querySelector("#log").textContent.includes("` + text + `")` }
		page.Type("#text", "does it work?")
		page.Enter(false)
		page.Eval(`window.stays = true`)
		page.Wait(bound("#log .failed .presses"))
		page.Click("#log .presses .action")
		page.Wait(said("It works."))
		page.Wait(`!document.querySelector("#log .failed, #working article")`)
		page.Wait(bound("#log .presses"))
		page.Click("#log .presses button")
		page.Wait(said("Thank you, noted."))
		page.Type("#text", "take your time")
		page.Enter(false)
		page.Wait(bound("#working .presses"))
		page.Click("#working .presses button")
		page.Wait(said("Stopped."))
		page.Wait(`!document.querySelector("#working article")`)
		page.Type("#text", "/settings")
		page.Enter(false)
		page.Wait(bound("#form form"))
		page.Type("#field-language", "German")
		page.Click("#form .action")
		page.Wait(said("German (set by you)"))
		page.Wait(`!document.querySelector("#form form")`)
		if page.Eval(`window.stays`) != true {
			t.Error("the page was loaded anew")
		}
	})
	close(release)
}

// bound tells that htmx takes care of a form, else the browser sends it and loads
// the page anew, which is as good but is not tested here.
func bound(form string) string {
	return `document.querySelector("` + form + `")?.["htmx-internal-data"]`
}

// browse opens the chat page, and ends with what the browser complains of.
func (b *bot) browse(browser *browsertest.Browser, visit func(*browsertest.Page)) {
	b.t.Helper()
	page := browser.Page()
	page.Go(b.LoginLink())
	page.Wait(`document.querySelector("#text")`)
	visit(page)
	if list := page.Problems(); len(list) > 0 {
		b.t.Errorf("the browser complains: %s", strings.Join(list, "; "))
	}
}
