// Package browsertest drives a headless Chromium in tests through its DevTools
// protocol: go somewhere, wait for something, type, look. It promises that a
// browser and all it started end with the test, that pages share no cookies, and
// that a machine without Chromium skips the test and says so. It knows nothing of
// the pages that it shows.
package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// patience is how long anything may take before the test fails.
const patience = 30 * time.Second

// Browser is a running Chromium.
type Browser struct {
	t    testing.TB
	conn *websocket.Conn
	wg   sync.WaitGroup

	mu     sync.Mutex
	last   int
	calls  map[int]chan reply
	pages  map[string]*Page // by session
	closed bool
}

// message is what goes over the DevTools socket, either way.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
}

type fault struct {
	Message string `json:"message"`
}

type reply struct {
	result json.RawMessage
	err    error
}

// Start starts a browser that ends with the test. Without one the test is skipped.
func Start(t testing.TB) *Browser {
	t.Helper()
	program := find()
	if program == "" {
		t.Skip("no Chromium is installed: the page is not looked at with a browser")
	}
	home, err := os.MkdirTemp("", "browser") // t.TempDir would fail where Chromium still writes
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio",
		"--remote-debugging-port=0", "--user-data-dir="+home, "about:blank")
	cmd.WaitDelay = 5 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	b := &Browser{t: t, calls: map[int]chan reply{}, pages: map[string]*Page{}}
	t.Cleanup(func() {
		b.stop(cmd)
		_ = os.RemoveAll(home)
	})
	address := make(chan string, 1)
	b.wg.Go(func() { listen(stderr, address) })
	select {
	case url, ok := <-address:
		if !ok {
			t.Fatalf("%s ended before it could be driven", program)
		}
		b.connect(url)
	case <-time.After(patience):
		t.Fatalf("%s told no DevTools address", program)
	}
	return b
}

func find() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// listen reads what Chromium says until it ends, and passes on its address.
func listen(stderr io.Reader, address chan<- string) {
	defer close(address)
	told := false
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "DevTools listening on "); ok && !told {
			told = true
			address <- url
		}
	}
	_, _ = io.Copy(io.Discard, stderr) // a line too long for the scanner
}

func (b *Browser) connect(url string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	conn, response, err := websocket.DefaultDialer.DialContext(ctx, url, nil)
	if err != nil {
		b.t.Fatalf("connect to Chromium: %v", err)
	}
	_ = response.Body.Close()
	b.conn = conn
	b.wg.Go(b.read)
}

// read gives replies to whoever waits for them and events to their pages.
func (b *Browser) read() {
	for {
		var m message
		if err := b.conn.ReadJSON(&m); err != nil {
			b.end(err)
			return
		}
		b.mu.Lock()
		waiting, page := b.calls[m.ID], b.pages[m.Session]
		delete(b.calls, m.ID)
		b.mu.Unlock()
		switch {
		case waiting != nil && m.Error != nil:
			waiting <- reply{err: fmt.Errorf("%s", m.Error.Message)}
		case waiting != nil:
			waiting <- reply{result: m.Result}
		case page != nil:
			page.event(m)
		}
	}
}

// end fails the calls that wait and those to come.
func (b *Browser) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for id, waiting := range b.calls {
		delete(b.calls, id)
		waiting <- reply{err: err}
	}
}

func (b *Browser) stop(cmd *exec.Cmd) {
	if b.conn != nil {
		_, _ = b.call("", "Browser.close", nil)
	}
	kill := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if b.conn == nil {
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait() // it was told to end
	if b.conn != nil {
		_ = b.conn.Close()
	}
	b.wg.Wait()
}

// call sends a command and waits for its result.
func (b *Browser) call(session, method string, params any) (json.RawMessage, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if params == nil {
		raw = nil
	}
	waiting := make(chan reply, 1)
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil, fmt.Errorf("%s: the browser has ended", method)
	}
	b.last++
	b.calls[b.last] = waiting
	err = b.conn.WriteJSON(message{ID: b.last, Session: session, Method: method, Params: raw})
	b.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	select {
	case r := <-waiting:
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", method, r.err)
		}
		return r.result, nil
	case <-time.After(patience):
		return nil, fmt.Errorf("%s: no answer within %v", method, patience)
	}
}
