package web

import (
	"context"
	"strings"
	"testing"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/browsertest"
)

// What was said is edited, deleted and answered again with mouse and keyboard, on a wide and on a narrow page.
func TestAMessageIsChangedInTheBrowser(t *testing.T) {
	asked := make(chan chat.Message, 10)
	w, _, p, base := dashboard(t, func(_ *Web, m chat.Message) error { asked <- m; return nil })
	reply := func(text string, replaces ...string) {
		t.Helper()
		m := next(t, asked)
		d := chat.Draft{Key: m.Key(), Text: text, Reply: m.Reply, Replaces: chat.Ref{IDs: replaces},
			Buttons: []chat.Button{{Label: "👍", Value: chat.PressGood + "web/1"}}}
		if _, err := w.Post(context.Background(), general, d); err != nil {
			t.Error(err)
		}
	}
	p.Wait("document.querySelector('#text')")
	p.Type("#text", "how hihg is the tower?")
	p.Enter(false)
	reply("What is **hihg**?")
	p.Wait("document.querySelector('#line-2 .presses')")

	// By the keyboard: the link gets the focus, which shows it, and is followed.
	edit := "#line-1 .own a[href$='/edit']"
	p.Eval("document.querySelector(\"" + edit + "\").focus()")
	p.Wait("getComputedStyle(document.querySelector('#line-1 .own')).opacity === '1'")
	p.Enter(false)
	p.Wait("document.activeElement?.name === 'one:words' && document.activeElement.value === 'how hihg is the tower?'")
	shoot(p, "edit-1100")
	p.Eval("document.activeElement.dispatchEvent(new KeyboardEvent('keydown', " +
		"{key: 'Escape', bubbles: true, cancelable: true}))")
	p.Wait("!document.querySelector('#form form') && document.activeElement.id === 'text'")

	p.Click(edit)
	p.Wait("document.activeElement?.name === 'one:words'")
	p.Eval("document.activeElement.value = 'how high is the tower?'")
	p.Click("#form button")
	p.Wait("!document.querySelector('#form form') && document.querySelector('#line-1 .said').innerText === " +
		"'how high is the tower?' && document.querySelector('#line-1 .edited')")
	m := next(t, asked)
	if m.Kind() != chat.EventEdit || m.Text != "how high is the tower?" {
		t.Errorf("the edit became %+v", m)
	}
	w.Show(general, chat.Progress{Message: m.ID, Reset: true})
	p.Wait("document.querySelector('#working article')")
	asked <- m
	reply("It is 300 m high.", "2")
	p.Wait("document.querySelector('#line-2').innerText.includes('300 m') && " +
		"!document.querySelector('#working article')")

	p.Click("#line-2 .presses button:last-child")
	if m = next(t, asked); m.Text != chat.PressRetry+"web/1" || m.Reply.MessageID != "2" {
		t.Errorf("answering again became %+v", m)
	}
	asked <- m
	reply("300 metres.", "2")
	p.Wait("document.querySelector('#line-2').innerText.includes('300 metres')")
	p.Click("#line-2 .versions summary")
	p.Wait("document.querySelector('#line-2 .versions[open]').innerText.includes('It is 300 m high.')")
	if old := p.Text("#line-2 .versions"); strings.Contains(old, "hihg") {
		t.Errorf("an answer to other words is a version: %q", old)
	}

	p.Look(browsertest.View{Width: 390, Height: 780, Phone: true})
	p.Reload()
	p.Wait("getComputedStyle(document.querySelector('#line-1 .own')).opacity === '1'")
	shoot(p, "changed-390")
	p.Click("#line-1 .own a[href$='/delete']")
	p.Wait("document.querySelector('#form form')?.innerText.includes('how high is the tower?') && " +
		"document.activeElement.innerText === 'Delete'")
	shoot(p, "delete-390")
	p.Click("#form button")
	p.Wait("document.querySelector('#line-1').innerText === 'Message deleted' && " +
		"document.querySelector('#line-2').hidden && !document.querySelector('#form form')")
	if m = next(t, asked); m.Kind() != chat.EventDelete {
		t.Errorf("the deletion became %+v", m)
	}
	if wide := p.Eval("document.documentElement.scrollWidth"); wide.(float64) > 390 {
		t.Errorf("the page is %v px wide", wide)
	}
	clean(t, p, base)
}

// A search leads to the line in its room, and from there to the newest ones.
func TestASearchInTheBrowser(t *testing.T) {
	_, db, p, base := dashboard(t, ignore)
	var lines []string
	for range 120 {
		lines = append(lines, "birds anna: a raven, **again**", "birds bot: And what about it?")
	}
	lines[40] = "birds anna: the needle in the haystack"
	written(t, db, append(lines, "general anna: another Needle, <b>bold</b>")...)
	p.Go(base + "/chat/general")
	p.Wait("document.querySelector('input[name=q]')")
	p.Type("input[name=q]", "needle")
	p.Enter(false)
	p.Wait("location.pathname === '/chat' && document.querySelectorAll('.found mark').length === 2")
	shoot(p, "search-1100")
	p.Look(browsertest.View{Width: 390, Height: 780, Phone: true, Dark: true})
	shoot(p, "search-390")
	if wide := p.Eval("document.documentElement.scrollWidth"); wide.(float64) > 390 {
		t.Errorf("the page of a search is %v px wide", wide)
	}
	p.Look(browsertest.View{Width: 1100, Height: 800})
	p.Click(".found:last-of-type a")
	p.Wait("location.hash === '#line-41' && document.querySelector('#line-41')")
	seen := "(() => { const at = document.querySelector('#line-41').getBoundingClientRect(); return at.top >= 0 && " +
		"at.bottom <= innerHeight })()"
	p.Wait(seen)
	shoot(p, "found-1100")
	p.Click(".newest a")
	p.Wait("document.querySelector('#text') && document.querySelector('#line-240')")
	p.Go(base + "/chat/birds?line=200#line-200")
	p.Wait("document.querySelector('#text') && document.querySelector('#line-200')")
	clean(t, p, base)
}
