package app_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"ravenbot/internal/news/digest"
	"ravenbot/internal/testing/browsertest"
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
		{"#field-name", "morning"},
		{"#field-schedule", "every now and then"},
		{"#field-feeds", "bundled:feeds-primer\nbundled:mcp-primer"},
		{"#field-post", "web:/general"},
	} {
		p.Type(c.field, c.text)
	}
	p.Click("form.settings button")
	p.Wait(`document.querySelector("main > .outcome")?.innerText.includes("every now and then")`)
	p.Eval(`document.querySelector("#field-schedule").value = ""`)
	p.Type("#field-schedule", "every weekday at 8:30")
	p.Click("form.settings button")
	p.Wait(`document.querySelector("main").innerText.includes("Feeds (2)")`)
	if text := p.Text("main"); !strings.Contains(text, "morning") || !strings.Contains(text, "every weekday at 8:30") || !strings.Contains(text, "Feeds (2)") {
		t.Errorf("the digest is shown as\n%s", text)
	}
	p.Click("main details:not([open]) > summary")
	p.Click(`a[href="/digests/morning/edit"]`)
	p.Wait(`location.pathname === "/digests/morning/edit" && document.querySelector("#field-feeds")?.value.includes("mcp-primer")`)
	other := p.Eval(`fetch(location.href).then(r => r.text())`).(string) // the form in another tab
	p.Eval(`document.querySelector("#field-style").value = "titles"`)
	p.Click("form.settings .second")
	p.Wait(`document.querySelector("main > .outcome")?.innerText.includes("What becomes of each item")`)
	if style := b.digest("morning").Style; style != "brief" {
		t.Errorf("a preview has saved the style %s", style)
	}
	p.Click("form.settings button")
	p.Wait(`location.pathname === "/digests"`)
	if plan := b.digest("morning"); plan.Style != "titles" || plan.Schedule != "every weekday at 8:30" {
		t.Errorf("the digest is now %+v", plan)
	}
	p.Go("http://" + b.Addr() + "/digests/morning/edit")
	version := regexp.MustCompile(`name="version" value="[^"]+"`).FindString(other)
	p.Eval(`document.querySelector("[name=version]").outerHTML = ` + "`<input type=hidden " + version + ">`")
	p.Wait(bound("form.settings"))
	p.Click("form.settings button")
	p.Wait(`document.querySelector("main > .outcome")?.innerText.includes("changed after this page was loaded")`)
	if plan := b.digest("morning"); plan.Style != "titles" {
		t.Errorf("another tab has overwritten the digest: %+v", plan)
	}
}

// digest returns the plan of a digest that is not of the configuration.
func (b *bot) digest(name string) digest.Plan {
	b.t.Helper()
	var out struct{ Plan digest.Plan }
	b.call(http.MethodGet, "/api/v1/digests/"+name, nil, &out)
	return out.Plan
}
