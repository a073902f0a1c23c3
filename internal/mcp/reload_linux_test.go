package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestACallInFlightOutlivesItsEntry(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain", "FAKE_FILE="+pipe)}})
	settled(t, h, "a")
	held, old := find1(t, h, "a", "held"), must(h.server("a"))
	answered := make(chan string, 1)
	go func() {
		res, err := held.Call(t.Context(), nil)
		answered <- res.Text + errText(err)
	}()
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // opens when the server reads
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Apply(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("finished"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if got := <-answered; got != "finished" {
		t.Errorf("the call in flight ended with %q", got)
	}
	ended(t, old)
}

// A server that does one thing at a time, and did one during a call that had to wait
// too long, is not taken for dead: the calls behind that one are answered.
func TestAServerThatIsBusyIsNotEnded(t *testing.T) {
	waitBesideOthers(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that no opening waits
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	h := running(t, Options{Servers: []Config{fakeServer("a", "plain", "FAKE_FILE="+pipe)}})
	settled(t, h, "a")
	conn := connectionOf(h, "a")
	answers := make(chan string, 3)
	ask := func(timeout time.Duration) {
		go func() {
			raw, err := conn.call(t.Context(), "next", json.RawMessage(`{}`), timeout)
			answers <- parseResult(raw).Text + errText(err)
		}()
	}
	say := func(word string) {
		if _, err := w.WriteString(word); err != nil {
			t.Error(err)
		}
	}
	const late = 3 * time.Second
	ask(2 * soon)
	lines(t, h, "a", "stderr: waits for the next")
	ask(late)
	<-time.After(late / 2) // a message that comes at once might have been sent before the call was read
	say("1")               // while the other waits
	if got := <-answers; got != "1" {
		t.Fatalf("the first call gave %q", got)
	}
	ask(2 * soon)
	if got := <-answers; !strings.Contains(got, "no answer within") {
		t.Fatalf("the second call gave %q", got)
	}
	say("2")
	say("3")
	if got := <-answers; got != "3" {
		t.Errorf("the third call gave %q", got)
	}
}
