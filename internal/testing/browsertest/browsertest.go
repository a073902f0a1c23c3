// Package browsertest drives a headless Chromium in tests through chromedp. It promises that the browser and its
// processes end with the test, that pages share no cookies, and that a machine without Chromium skips the test with a
// message.
package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// maxWait is how long anything may take before the test fails.
const maxWait = 30 * time.Second

// Browser is a running Chromium.
type Browser struct {
	t   testing.TB
	ctx context.Context
}

// Start starts a browser that ends with the test. Without Chromium the test is skipped.
func Start(t testing.TB) *Browser {
	t.Helper()
	program := findProgram()
	if program == "" {
		t.Skip("no Chromium is installed: install chromium to run the tests of the pages")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program),
		chromedp.NoSandbox, // Chromium refuses to run as root with its sandbox
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
	)
	// Not the context of the test, which ends before the cleanup can close the browser.
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until the browser has ended and its folder is removed
		closeBrowser()
		stopAllocator()
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return &Browser{t: t, ctx: ctx}
}

// findProgram returns the path of a browser; empty: none is installed.
func findProgram() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Page is a tab with cookies of its own. Its methods end the test when they fail.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	requests []string
}

// Page opens an empty tab.
func (b *Browser) Page() *Page {
	b.t.Helper()
	p := &Page{t: b.t}
	ctx, closePage := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.record))
	b.t.Cleanup(closePage)
	p.ctx = ctx
	// The first action opens the tab, which ends with the context: that must not be one with a deadline.
	if err := chromedp.Do(ctx, command(log.Enable, cdp.Empty{}),
		command(network.Enable, network.EnableParams{})); err != nil {
		b.t.Fatalf("open a page: %v", err)
	}
	return p
}

// record keeps what went wrong in the page and what it requested.
func (p *Page) record(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.problems = append(p.problems, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		p.problems = append(p.problems, describe(e.ExceptionDetails))
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, e.Request.URL)
	}
}

// describe returns an exception of a page's script in words.
func describe(e *runtime.ExceptionDetails) string {
	if e.Exception == nil {
		return e.Text
	}
	return e.Text + " " + e.Exception.Description
}

// Problems returns what the browser reported so far: failed requests, refused inline code, uncaught exceptions.
func (p *Page) Problems() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// Requests returns the addresses requested so far.
func (p *Page) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// command makes an action of a command of the DevTools protocol whose result does not matter.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// run carries out steps in the browser within maxWait, and fails the test where one fails.
func (p *Page) run(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, maxWait)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.t.Fatalf("%s: %v", what, err)
	}
}

// Go opens an address and waits until the page is loaded; streams may go on behind it.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.run("go to "+url, chromedp.Navigate(url))
}

// Reload loads the page again.
func (p *Page) Reload() {
	p.t.Helper()
	p.run("reload", chromedp.Reload())
}

// Eval returns the value of a JavaScript expression, a promise's too: nil, bool, float64, string, []any or
// map[string]any.
func (p *Page) Eval(expression string) any {
	p.t.Helper()
	value, err := p.eval(expression)
	if err != nil {
		p.t.Fatalf("evaluate %s: %v", expression, err)
	}
	return value
}

// eval returns the value of an expression in the page; of a promise, that with which it is
// fulfilled.
func (p *Page) eval(expression string) (any, error) {
	ctx, cancel := context.WithTimeout(p.ctx, maxWait)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[any](expression, chromedp.EvalAwaitPromise))
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
	for end := time.Now().Add(maxWait); time.Now().Before(end); {
		is, err := p.eval(script)
		if is == true {
			return
		}
		// A navigation ends the script; it is started again in the page that follows.
		if err != nil && !strings.Contains(err.Error(), "navigated") && !strings.Contains(err.Error(), "context") {
			p.t.Fatalf("wait for %s: %v", expression, err)
		}
	}
	text, _ := p.eval("document.body.innerText")
	p.t.Fatalf("%s did not become true within %v; problems: %q; the page says:\n%v",
		expression, maxWait, p.Problems(), text)
}

// Text returns the visible text of the first element that a selector finds.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	s, _ := p.Eval(fmt.Sprintf("document.querySelector(%q)?.innerText ?? null", selector)).(string)
	return s
}

// Click clicks the first element that a selector finds, wherever it is on the page.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.mustDo(selector, "click")
}

// Type types text into the first element that a selector finds.
func (p *Page) Type(selector, text string) {
	p.t.Helper()
	p.mustDo(selector, "focus")
	p.run("type into "+selector, command(input.InsertText, input.InsertTextParams{Text: text}))
}

// mustDo calls a method of the first element that a selector names, and fails the test where there
// is none.
func (p *Page) mustDo(selector, method string) {
	p.t.Helper()
	if p.Eval(fmt.Sprintf("(e => { e?.%s(); return !!e })(document.querySelector(%q))", method, selector)) != true {
		p.t.Fatalf("%s %s: there is no such element", method, selector)
	}
}

// Enter presses the Enter key; shift holds the shift key meanwhile.
func (p *Page) Enter(shift bool) {
	p.t.Helper()
	// chromedp.KeyEvent sends the character apart from the key, so that a page could not prevent it.
	down := input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyDown,
		Key:  "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13,
	}
	if shift {
		down.Modifiers = int64(chromedp.ModifierShift)
	}
	up := down
	up.Type, up.Text = input.DispatchKeyEventTypeKeyUp, ""
	p.run("press Enter", command(input.DispatchKeyEvent, down), command(input.DispatchKeyEvent, up))
}

// View is the window in which a page is shown.
type View struct {
	Width, Height int
	Phone         bool // a small touch screen
	Dark          bool
}

// Look sets the view.
func (p *Page) Look(v View) {
	p.t.Helper()
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	p.run("set the view",
		command(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: int64(v.Width), Height: int64(v.Height), DeviceScaleFactor: 1, Mobile: v.Phone,
		}),
		command(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		}))
}

// Offline cuts the page off from the network, or lets it back.
func (p *Page) Offline(off bool) {
	p.t.Helper()
	p.run("change the network", command(network.EmulateNetworkConditionsByRule,
		network.EmulateNetworkConditionsByRuleParams{
			MatchedNetworkConditions: []*network.Conditions{{Offline: off, DownloadThroughput: -1, UploadThroughput: -1}},
		}))
}

// Screenshot writes what is seen to a PNG file.
func (p *Page) Screenshot(path string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, maxWait)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatalf("take a screenshot: %v", err)
	}
	if err := os.WriteFile(path, png, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
