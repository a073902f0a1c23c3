package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	simmodel "ravenbot/internal/testing/sim/model"
)

// startCommand runs a command in this process and gives its status when it has ended.
func startCommand(ctx context.Context, in io.Reader, out io.Writer, args ...string) <-chan int {
	status := make(chan int, 1)
	go func() {
		status <- Run(ctx, World{Args: args, In: in, Out: out, Err: out, Env: func(string) (string, bool) {
			return "", false
		}})
	}()
	return status
}

func waitStatus(t *testing.T, status <-chan int) int {
	t.Helper()
	select {
	case got := <-status:
		return got
	case <-time.After(time.Minute):
		t.Fatal("the command does not end")
	}
	return -1
}

// screen is what a command writes; it tells when a text has been written.
type screen struct {
	mu   sync.Mutex
	text string
	want string
	seen chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := strings.Contains(s.text, s.want)
	s.text += string(p)
	if !before && strings.Contains(s.text, s.want) {
		close(s.seen)
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// TestInterruptEndsAConversation interrupts a conversation that waits for a line
// which never comes.
func TestInterruptEndsAConversation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, `{ "http": { "listen": "127.0.0.1:1" } }`)
	in, out := io.Pipe()
	defer out.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	shown := &screen{want: "\n> ", seen: make(chan struct{})}
	status := startCommand(ctx, in, shown, "chat", "--config", path)
	select {
	case <-shown.seen:
	case got := <-status:
		t.Fatalf("status %d before the prompt: %s", got, shown)
	}
	interrupt()
	if got := waitStatus(t, status); got != exitDone {
		t.Errorf("status %d: %s", got, shown)
	}
}

// TestInterruptFailsAQuestion interrupts a question that a model does not answer.
func TestInterruptFailsAQuestion(t *testing.T) {
	t.Parallel()
	model, err := simmodel.New(simmodel.Options{Script: func(simmodel.Request) simmodel.Reply {
		return simmodel.Reply{Hang: true}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, fmt.Sprintf(`{ "http": { "listen": "127.0.0.1:1" },
		"models": { "default": { "provider": "openai", "baseURL": %q, "model": "gpt-sim", "apiKey": "key" } } }`, model.OpenAIURL()))
	ctx, interrupt := context.WithCancel(t.Context())
	shown := &screen{want: "interrupted", seen: make(chan struct{})}
	status := startCommand(ctx, strings.NewReader(""), shown, "chat", "--config", path, "hello")
	if _, err := model.WaitAsked(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	interrupt()
	if got := waitStatus(t, status); got != exitFailed || shown.String() != "ravenbot chat: interrupted\n" {
		t.Errorf("status %d: %s", got, shown)
	}
}
