package app_test

import (
	"strings"
	"testing"

	"ravenbot/internal/browsertest"
)

// A digest is made on the page Digests; what is wrong with it is said there, and nothing that was written is lost.
func TestDigestsPage_MakesADigest(t *testing.T) {
	w := newWorld(t)
	b := w.run(w.base())
	p := browsertest.Start(t).Page()
	p.Go(b.LoginLink())
	p.Go("http://" + b.Addr() + "/digests")
	p.Wait(bound("form.settings"))
	for _, c := range []struct{ field, text string }{
		{"#digest-name", "morning"},
		{"#digest-schedule", "every now and then"},
		{"#digest-feeds", "bundled:feeds-primer\nbundled:mcp-primer"},
		{"#digest-post", "web:/general"},
	} {
		p.Type(c.field, c.text)
	}
	p.Click("form.settings button")
	p.Wait(`document.querySelector("main > .outcome")?.innerText.includes("every now and then")`)
	p.Eval(`document.querySelector("#digest-schedule").value = ""`)
	p.Type("#digest-schedule", "every weekday at 8:30")
	p.Click("form.settings button")
	p.Wait(`document.querySelector("main").innerText.includes("Feeds (2)")`)
	if text := p.Text("main"); !strings.Contains(text, "morning") || !strings.Contains(text, "every weekday at 8:30") || !strings.Contains(text, "Feeds (2)") {
		t.Errorf("the digest is shown as\n%s", text)
	}
}
