package mcp

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
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

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
