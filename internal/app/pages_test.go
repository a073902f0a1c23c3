package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"ravenbot/internal/testing/browsertest"
)

// Tokens, backups, jobs, notes, usage, webhooks and the audit are looked after on their pages.
func TestListPages_LookAfterTheBot(t *testing.T) {
	browser := browsertest.Start(t)
	w := newWorld(t)
	settings := w.base()
	settings["webhooks"] = map[string]any{"ci": map[string]any{"secret": "a-long-secret", "post": []string{"web:/general"}}}
	b := w.run(settings)
	b.ask("general", "hello")
	b.call(http.MethodPost, "/api/v1/jobs", map[string]any{"schedule": "every day at 7", "post": []string{"web:/general"}, "text": "stretch"}, nil)
	b.call(http.MethodPost, "/api/v1/memories", map[string]any{"scope": "user:web/admin", "text": "likes tea"}, nil)
	page := browser.Page()
	page.Look(browsertest.View{Width: 1280, Height: 900})
	page.Go(b.LoginLink())
	page.Wait(`document.querySelector("#text")`)
	page.Eval("window.confirm = () => true")
	open := func(name string) {
		t.Helper()
		page.Click("[popovertarget=more]")
		page.Wait(`document.querySelector("#more a").checkVisibility()`)
		page.Click(`#more a[href="/` + name + `"]`)
		page.Wait(`location.pathname === "/` + name + `" && document.querySelector("main [hx-get]")?.["htmx-internal-data"]`)
		page.Eval("window.confirm = () => true")
	}
	says := func(text string) {
		t.Helper()
		page.Wait(`document.querySelector("main").innerText.includes(` + quote(text) + `)`)
	}
	press := func(button string) {
		t.Helper()
		page.Wait(bound(button))
		page.Click(button)
	}
	open("tokens")
	page.Type("#field-name", "laptop")
	page.Click("form.settings button")
	says("Copy the token now")
	page.Wait(`document.querySelector("table.list")?.innerText.includes("laptop")`)
	press("button[aria-label='Revoke laptop']")
	says("No tokens yet.")
	open("backups")
	says("No backups yet.")
	press("main .actions button")
	says("The backup is made.")
	page.Wait(`document.querySelector("table.list")?.innerText.includes("ravenbot-")`)
	if size := page.Eval(`fetch("/api/v1/backup", {method: "POST"}).then(r => r.ok ? r.blob() : null).then(b => b?.size)`); size == nil || size.(float64) < 4096 {
		t.Errorf("the copy that the browser downloads has %v bytes", size)
	}
	open("jobs")
	says("stretch")
	press("table.list .danger")
	says("No jobs.")
	open("notes")
	says("likes tea")
	press("table.list .danger")
	says("No notes.")
	open("usage")
	says("web/admin")
	open("webhooks")
	says("/hooks/ci")
	open("audit")
	says("is intact.")
	page.Type(".filter [name=q]", "laptop")
	page.Click(".filter button")
	page.Wait(`location.search.includes("laptop") && document.querySelectorAll("table.list tbody tr").length === 2`)
	for _, problem := range page.Problems() {
		t.Errorf("the browser complains: %s", problem)
	}
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// unusable finds what keeps people with a keyboard, a screen reader or a phone from using a page.
const unusable = `(width => {
	const bad = []
	const name = e => (e.getAttribute("aria-label") || e.innerText || e.title || e.querySelector("img")?.alt || "").trim()
	for (const e of document.querySelectorAll("button, a[href], summary")) if (e.checkVisibility() && !name(e)) bad.push("no name: " + e.outerHTML)
	for (const e of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
		if (!e.getAttribute("aria-label") && !e.labels.length) bad.push("no label: " + e.outerHTML)
	let level = 0
	for (const h of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
		if (+h.tagName[1] > level + 1) bad.push("a level of headings is missing before: " + h.outerHTML)
		level = +h.tagName[1]
	}
	for (const part of ["h1", "main", "nav", "html[lang]"]) if (!document.querySelector(part)) bad.push("no " + part)
	if (document.querySelectorAll("main").length !== 1) bad.push("several main parts")
	const ids = [...document.querySelectorAll("[id]")].map(e => e.id)
	for (const id of ids.filter((id, n) => ids.indexOf(id) !== n)) bad.push("the id is there twice: " + id)
	for (const e of document.querySelectorAll("img:not([alt]), svg:not([aria-hidden]):not([aria-label])")) bad.push("no text: " + e.outerHTML)
	const bar = document.querySelector(".bar")
	if (bar.offsetHeight > 60) bad.push("the bar has " + bar.offsetHeight + " pixels")
	if (document.documentElement.scrollWidth > width) bad.push("it has " + document.documentElement.scrollWidth + " pixels")
	if (width > 700) for (const e of document.querySelectorAll(".list code"))
		if (e.innerText.length <= 12 && e.getClientRects().length > 1) bad.push("a short name is broken: " + e.outerHTML)
	return bad
})`

// Every page has names, labels, headings in order and landmarks, and fits on phones, tablets and wide screens.
func TestPages_AreUsableByEverybody(t *testing.T) {
	browser := browsertest.Start(t)
	w := newWorld(t)
	settings := w.base()
	settings["webhooks"] = map[string]any{"ci": map[string]any{"secret": "a-long-secret", "post": []string{"web:/general"}}}
	settings["digests"] = map[string]any{"news": map[string]any{"schedule": "every day at 9", "feeds": []string{"bundled:feeds-primer"},
		"post": []string{"web:/general"}}}
	b := w.run(settings)
	b.ask("general", "hello")
	b.call(http.MethodPost, "/api/v1/digests/news/run", nil, nil)
	b.call(http.MethodPost, "/api/v1/jobs", map[string]any{"schedule": "every day at 7", "post": []string{"web:/general"}, "text": "stretch"}, nil)
	b.call(http.MethodPost, "/api/v1/auth/mcp-tokens", map[string]any{"name": "laptop", "tools": []string{"*"}}, nil)
	b.call(http.MethodPost, "/api/v1/memories", map[string]any{"scope": "user:web/admin", "text": "likes tea"}, nil)
	word := strings.Repeat("m", 250)
	b.call(http.MethodPost, "/api/v1/jobs", map[string]any{"schedule": "every day at 8", "post": []string{"web:/general"}, "text": word}, nil)
	b.call(http.MethodPost, "/api/v1/memories", map[string]any{"scope": "user:web/admin", "text": word + word[:150]}, nil)
	b.browse(browser, func(p *browsertest.Page) {
		for _, view := range []browsertest.View{{Width: 390, Height: 844, Phone: true}, {Width: 820, Height: 1000}, {Width: 1280, Height: 900}} {
			p.Look(view)
			for _, path := range strings.Fields("/chat/general /chat?q=hello /overview /servers /agents /agents/default /calls /digests " +
				"/feeds /settings /jobs /notes /posts /usage /tokens /webhooks /backups /audit") {
				p.Go("http://" + b.Addr() + path)
				p.Eval(`document.querySelectorAll("details").forEach(d => d.open = true)`)
				if bad, _ := p.Eval(fmt.Sprintf("%s(%d)", unusable, view.Width)).([]any); len(bad) > 0 {
					t.Errorf("%s at %d pixels: %v", path, view.Width, bad)
				}
			}
		}
	})
}
