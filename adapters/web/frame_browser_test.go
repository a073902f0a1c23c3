package web

import (
	"context"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
	"ravenbot/internal/testing/browsertest"
)

// phone is the window of a phone.
var phone = browsertest.View{Width: 390, Height: 844, Phone: true}

func TestPhone_WideTableScrollsWithoutBreakingWords(t *testing.T) {
	w, _, p, base := dashboard(t, ignore)
	p.Look(phone)
	if _, err := w.Post(t.Context(), general, chat.Draft{Key: "x", Text: "| name | country | inhabitants | founded | river " +
		"| mayor | altitude |\n|---|---|---|---|---|---|---|\n| Copenhagen | Denmark | 660,842 | 1167 | none | Andersen | 14 |"}); err != nil {
		t.Fatal(err)
	}
	p.Go(base + "/chat/general")
	p.Wait("document.querySelector('#log td')")
	if p.Eval("(t => t.scrollWidth > t.clientWidth && t.clientHeight < 120)(document.querySelector('#log table'))") != true {
		t.Errorf("the table is %v px high and does not scroll", p.Eval("document.querySelector('#log table').clientHeight"))
	}
	if p.Eval("document.documentElement.scrollWidth") != 390.0 {
		t.Error("the page scrolls sideways")
	}
	clean(t, p, base)
}

func TestPhone_BarIsOneRowWithMenus(t *testing.T) {
	_, _, p, base := dashboard(t, ignore)
	p.Look(phone)
	p.Go(base + "/chat/general")
	if height := p.Eval("document.querySelector('.bar').offsetHeight").(float64); height > 60 {
		t.Errorf("the bar is %v px high", height)
	}
	if top := p.Eval("document.getElementById('scroll').getBoundingClientRect().top").(float64); top > 60 {
		t.Errorf("the messages begin at %v px", top)
	}
	for button, shown := range map[string]string{"rooms": "#rooms a[href='/chat/general']", "menu": "#menu a[href='/feeds']"} {
		visible := "document.querySelector(\"" + shown + "\").checkVisibility()"
		if p.Eval(visible) == true {
			t.Errorf("%s is open at the start", button)
		}
		p.Click("[popovertarget='" + button + "']")
		p.Wait(visible)
	}
	p.Click("#menu a[href='/feeds']")
	p.Wait("location.pathname === '/feeds' && document.querySelector('#menu [aria-current]').textContent === 'Feeds'")
	p.Look(browsertest.View{Width: 1280, Height: 800})
	p.Wait("document.querySelector('#menu a').checkVisibility() && !document.querySelector('.narrow').checkVisibility()")
	clean(t, p, base)
}

func TestChat_DividesDaysAndShowsShortTimes(t *testing.T) {
	_, db, p, base := dashboard(t, ignore)
	person := chat.Operator()
	for i, id := range []string{"room/a", "room/b", "room/c"} {
		at := time.Date(2026, 3, 4+i/2, 10, i, 0, 0, time.UTC)
		e := store.Entry{ID: id, Room: "general", At: at, User: &person, Text: "/help"}
		if _, err := db.SaveEntry(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	p.Go(base + "/chat/general")
	p.Wait("document.querySelectorAll('#log .line').length === 3 && document.querySelector('#log time[title]')")
	days := p.Eval("[...document.querySelectorAll('#log .line')].map(l => l.dataset.day ?? '').join('|')")
	if days != "Wednesday, March 4, 2026||Thursday, March 5, 2026" {
		t.Errorf("the days are %q", days)
	}
	if at := p.Text("#log time"); len(at) > len("10:00 AM") {
		t.Errorf("a message has the time %q", at)
	}
}

func TestStop_IsShownOnce(t *testing.T) {
	presses := make(chan chat.Message, 1)
	w, _, p, _ := dashboard(t, func(_ *Web, m chat.Message) error {
		if m.Command == chat.Pressed {
			presses <- m
		}
		return nil
	})
	p.Type("#text", "tell me a story")
	p.Enter(false)
	p.Wait("document.querySelector('#working button[value=stop]')")
	p.Click("#working button[value=stop]")
	m := <-presses
	asked, err := w.o.Log.Entries(context.Background(), "general", 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []chat.Draft{
		{Key: m.Key(), Reply: m.Reply, Text: "Stopped.", Ephemeral: true},
		{Key: "answer", Reply: chat.Reply{MessageID: asked[0].ID}, Text: "Once upon a time\n\n*(stopped)*"},
	} {
		if _, err := w.Post(t.Context(), general, d); err != nil {
			t.Fatal(err)
		}
	}
	p.Wait("document.querySelector('#log .bot:not([hidden])')?.innerText.includes('(stopped)')")
	for range 2 {
		p.Wait("document.querySelectorAll('#log .bot:not([hidden])').length === 1 && !document.querySelector('#working article')")
		p.Reload()
	}
}

func TestUnknownAddress_ShowsPageOfTheSite(t *testing.T) {
	_, _, p, base := dashboard(t, ignore)
	p.Go(base + "/nope")
	p.Wait("document.querySelector('h1')?.innerText === 'Not found' && document.querySelector('.bar') && " +
		"document.documentElement.lang === 'en' && document.title === 'Not found · ravenbot'")
}

func TestChat_CanBeUsedWithKeyboardAndScreenReader(t *testing.T) {
	_, _, p, base := dashboard(t, ignore)
	p.Go(base + "/chat/general")
	p.Wait("document.querySelectorAll('h1').length === 1 && document.querySelector('h1').textContent === 'general'")
	p.Click(".skip")
	p.Wait("document.activeElement.id === 'content'")
	p.Wait("document.getElementById('connection').getAttribute('role') === 'status' && connection.textContent === ''")
	p.Eval("htmx.trigger(document.body, 'htmx:sseError')")
	p.Wait("connection.textContent.startsWith('Not connected') && !document.querySelector('.hint').checkVisibility()")
	p.Eval("htmx.trigger(document.body, 'htmx:sseOpen')")
	p.Wait("connection.textContent === ''")
}

func TestChat_ShowsCodeAndItsLanguageInColors(t *testing.T) {
	w, _, p, base := dashboard(t, ignore)
	code := "```go\n// greet says hello\nfunc greet() string {\n\treturn \"hello\" // 42\n}\n```\n\nand $e^{-x}\\,dx$"
	if _, err := w.Post(t.Context(), general, chat.Draft{Key: "x", Text: code}); err != nil {
		t.Fatal(err)
	}
	for _, dark := range []bool{false, true} {
		p.Look(browsertest.View{Width: 1280, Height: 700, Dark: dark})
		p.Go(base + "/chat/general")
		p.Wait("document.querySelector('#log pre .keyword')")
		shoot(p, map[bool]string{false: "code-light", true: "code-dark"}[dark])
		colors := p.Eval("new Set(['.keyword', '.string', '.comment', 'code'].map(s => " +
			"getComputedStyle(document.querySelector('#log pre ' + s)).color)).size")
		if colors != 4.0 {
			t.Errorf("the code has %v colors", colors)
		}
	}
	if name := p.Eval("getComputedStyle(document.querySelector('#log pre'), '::before').content"); name != `"go"` {
		t.Errorf("the language is shown as %v", name)
	}
	if size := p.Eval("getComputedStyle(document.querySelector('#log pre code')).tabSize"); size != "4" {
		t.Errorf("a tab is %v wide", size)
	}
	if formula := p.Text("#log code.math"); formula != `$e^{-x}\,dx$` {
		t.Errorf("the formula is %q", formula)
	}
	clean(t, p, base)
}
