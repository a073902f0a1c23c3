package browsertest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// Page is a tab with cookies of its own. Its methods end the test when they
// cannot do what they are for.
type Page struct {
	t       testing.TB
	b       *Browser
	session string

	mu       sync.Mutex
	problems []string
	requests []string
}

// Page opens an empty tab.
func (b *Browser) Page() *Page {
	b.t.Helper()
	var made struct {
		Context string `json:"browserContextId"`
		Target  string `json:"targetId"`
		Session string `json:"sessionId"`
	}
	for _, step := range []struct {
		method string
		params func() any
	}{
		{"Target.createBrowserContext", func() any { return nil }},
		{"Target.createTarget", func() any { return map[string]any{"url": "about:blank", "browserContextId": made.Context} }},
		{"Target.attachToTarget", func() any { return map[string]any{"targetId": made.Target, "flatten": true} }},
	} {
		raw, err := b.call("", step.method, step.params())
		if err == nil {
			err = json.Unmarshal(raw, &made)
		}
		if err != nil {
			b.t.Fatalf("open a page: %v", err)
		}
	}
	p := &Page{t: b.t, b: b, session: made.Session}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.call(domain+".enable", nil)
	}
	return p
}

func (p *Page) call(method string, params any) json.RawMessage {
	p.t.Helper()
	raw, err := p.b.call(p.session, method, params)
	if err != nil {
		p.t.Fatal(err)
	}
	return raw
}

// event notes what went wrong in the page and what it asked for.
func (p *Page) event(m message) {
	var e struct {
		Entry     struct{ Level, Text, URL string } // Log.entryAdded
		Exception struct {                          // Runtime.exceptionThrown
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
		Request struct{ URL string } // Network.requestWillBeSent
	}
	if err := json.Unmarshal(m.Params, &e); err != nil {
		return // an event of another form
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Log.entryAdded":
		if e.Entry.Level == "error" {
			p.problems = append(p.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case "Runtime.exceptionThrown":
		p.problems = append(p.problems, e.Exception.Text+" "+e.Exception.Exception.Description)
	case "Network.requestWillBeSent":
		p.requests = append(p.requests, e.Request.URL)
	}
}

// Problems gives what the browser complained about so far: failed requests,
// refused inline code, uncaught exceptions.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.problems...)
}

// Requests gives the addresses asked for so far.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// Go opens an address and waits until the page is loaded, as long as it is one
// that ends; streams behind it may go on.
func (p *Page) Go(url string) {
	p.t.Helper()
	var r struct {
		ErrorText string `json:"errorText"`
	}
	if err := json.Unmarshal(p.call("Page.navigate", map[string]any{"url": url}), &r); err != nil || r.ErrorText != "" {
		p.t.Fatalf("go to %s: %s %v", url, r.ErrorText, err)
	}
	p.Wait("document.readyState === 'complete' && location.href !== 'about:blank'")
}

// Reload loads the page anew.
func (p *Page) Reload() {
	p.t.Helper()
	p.Eval("window.beforeReload = true")
	p.call("Page.reload", nil)
	p.Wait("document.readyState === 'complete' && !window.beforeReload")
}

type evaluated struct {
	Result struct {
		Value any `json:"value"`
	} `json:"result"`
	Exception *struct {
		Text      string `json:"text"`
		Exception struct {
			Description string `json:"description"`
		} `json:"exception"`
	} `json:"exceptionDetails"`
}

func (p *Page) eval(expression string) (any, error) {
	raw, err := p.b.call(p.session, "Runtime.evaluate",
		map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true})
	if err != nil {
		return nil, err
	}
	var e evaluated
	if err := json.Unmarshal(raw, &e); err != nil {
		return nil, err
	}
	if e.Exception != nil {
		return nil, fmt.Errorf("%s %s", e.Exception.Text, e.Exception.Exception.Description)
	}
	return e.Result.Value, nil
}

// Eval gives the value of a JavaScript expression, a promise's too: nil, bool,
// float64, string, []any or map[string]any.
func (p *Page) Eval(expression string) any {
	p.t.Helper()
	v, err := p.eval(expression)
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return v
}

// Wait waits until an expression is true, over navigations too.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	script := fmt.Sprintf(`new Promise(resolve => {
		const end = Date.now() + 5000
		const look = () => {
			let is = false
			try { is = !!(%s) } catch {}
			if (is || Date.now() > end) resolve(is); else setTimeout(look, 20)
		}
		look()
	})`, expression)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		is, err := p.eval(script)
		if is == true {
			return
		}
		if err != nil && !strings.Contains(err.Error(), "navigated") && !strings.Contains(err.Error(), "context") {
			p.t.Fatalf("wait for %s: %v", expression, err)
		}
	}
	text, _ := p.eval("document.body.innerText")
	p.t.Fatalf("%s did not become true within %v; problems: %q; the page says:\n%v", expression, patience, p.Problems(), text)
}

// Text gives the visible text of the first element that a selector finds.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	s, _ := p.Eval(fmt.Sprintf("document.querySelector(%s)?.innerText ?? null", quote(selector))).(string)
	return s
}

// Click clicks the first element that a selector finds.
func (p *Page) Click(selector string) {
	p.t.Helper()
	if p.Eval(fmt.Sprintf("(e => { e?.click(); return !!e })(document.querySelector(%s))", quote(selector))) != true {
		p.t.Fatalf("click on %s: there is none", selector)
	}
}

// Type types text into the first element that a selector finds, as a keyboard
// would put it in.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	if p.Eval(fmt.Sprintf("(e => { e?.focus(); return !!e })(document.querySelector(%s))", quote(selector))) != true {
		p.t.Fatalf("type into %s: there is none", selector)
	}
	p.call("Input.insertText", map[string]any{"text": text})
}

// Enter presses the Enter key; shift holds the shift key meanwhile.
func (p *Page) Enter(shift bool) {
	p.t.Helper()
	key := map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
	if shift {
		key["modifiers"] = 8
	}
	p.call("Input.dispatchKeyEvent", key)
	delete(key, "text")
	key["type"] = "keyUp"
	p.call("Input.dispatchKeyEvent", key)
}

// View is what a page is looked at with.
type View struct {
	Width, Height int
	Phone         bool // a small touch screen
	Dark          bool
}

// Look sets the view.
func (p *Page) Look(v View) {
	p.t.Helper()
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height, "deviceScaleFactor": 1, "mobile": v.Phone})
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
}

// Offline cuts the page off from the network, or lets it back.
func (p *Page) Offline(off bool) {
	p.t.Helper()
	p.call("Network.emulateNetworkConditions", map[string]any{"offline": off, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
}

// Screenshot writes what is seen to a PNG file.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	var shot struct {
		Data string `json:"data"`
	}
	err := json.Unmarshal(p.call("Page.captureScreenshot", map[string]any{"format": "png"}), &shot)
	if err == nil {
		var png []byte
		if png, err = base64.StdEncoding.DecodeString(shot.Data); err == nil {
			err = os.WriteFile(path, png, 0o644)
		}
	}
	if err != nil {
		p.t.Fatalf("screenshot %s: %v", path, err)
	}
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return string(b)
}
