package discord

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// stub is an adapter whose REST API answers at once, without a socket and without
// keeping anything, so that what grows is the adapter.
type stub struct {
	*shard
	state *discordgo.State
	posts atomic.Int64 // made
	lastN int          // of the ids given to what happens
	got   chan chat.Message
}

func newStub(ctx context.Context, accept func(chat.Message) error) *stub {
	d := New(Options{Token: "token", APIBaseURL: "http://discord.test", Log: slog.New(slog.DiscardHandler),
		MessageContent: true})
	d.self = wireUser{ID: "1", Username: "raven"}
	s := &stub{state: discordgo.NewState(), got: make(chan chat.Message)}
	s.shard = newShard(ctx, d, 0, 1, func(_ context.Context, m chat.Message) error {
		err := accept(m)
		s.got <- m
		return err
	})
	d.budget = newBudget(gatewayPlan{Shards: 1}, time.Now())
	d.api.client.Transport = roundTripper(s.answerREST)
	d.startWork(func() { <-ctx.Done(); s.queues.Wait() })
	return s
}

// roundTripper lets a function be one.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (s *stub) answerREST(r *http.Request) (*http.Response, error) {
	body := `{"id":"` + strconv.FormatInt(1e6+s.posts.Add(1), 10) + `"}`
	if r.Method == "GET" {
		body = `{"type":11,"parent_id":"20"}`
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
		Request: r}, nil
}

func (s *stub) id() string {
	s.lastN++
	return strconv.Itoa(1e9 + s.lastN)
}

// command returns the bot an interaction and answers what it became.
func (s *stub) command(t *testing.T, data string) {
	t.Helper()
	id := s.id()
	s.onInteraction(t.Context(), s.state, []byte(`{"id":"`+id+`","application_id":"1","token":"t`+id+
		`","channel_id":"20","guild_id":"3","channel":{"type":0},
		"member":{"user":{"id":"4"},"permissions":"0"},`+data+`}`))
	s.reply(t, <-s.got)
}

func (s *stub) reply(t *testing.T, m chat.Message) {
	t.Helper()
	d := chat.Draft{Key: m.Key(), Text: "so far", Reply: m.Reply, Partial: true,
		Buttons: []chat.Button{{Label: "Stop", Value: "stop"}}}
	for _, text := range []string{"so far", "and further"} {
		d.Text = text
		ref, err := s.Post(t.Context(), m.Conversation, d)
		if err != nil {
			t.Fatal(err)
		}
		d.Replaces = ref
	}
	d.Partial, d.Buttons = false, nil
	if _, err := s.Post(t.Context(), m.Conversation, d); err != nil {
		t.Fatal(err)
	}
}

const (
	ask   = `"type":2,"data":{"name":"raven","options":[{"name":"ask","options":[{"name":"text","value":"x"}]}]}`
	apart = `"type":2,"data":{"name":"raven","options":[{"name":"ask","options":[{"name":"text","value":"x"},` +
		`{"name":"thread","value":true}]}]}`
	press = `"type":3,"data":{"custom_id":"good","component_type":2},"message":{"id":"77"}`
)

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one freed by finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// kept counts what is remembered for single requests, interactions and connections.
func (s *stub) kept() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d deferred, %d routes, %d queued", len(s.pendingCallbacks), s.api.pace.Len(), s.waiting)
}

// discordgo keeps a rate limit for every interaction's token, for ever.
func TestTwentyThousandInteractionsLeaveTheHeapAsItWas(t *testing.T) {
	const warm, many, grows = 6000, 20_000, 1 << 20
	s := newStub(t.Context(), func(chat.Message) error { return nil })
	for range warm { // what is bounded is full
		s.command(t, ask)
	}
	before := heap()
	for i := range many {
		s.command(t, []string{ask, press}[i%2])
	}
	after := heap()
	t.Logf("heap %d KiB before, %d KiB after %d interactions", before>>10, after>>10, many)
	if after-before > grows {
		t.Errorf("the heap grew by %d bytes", after-before)
	}
}

func TestWeekWithFlatMemory(t *testing.T) {
	const grows = 1 << 20
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		s := newStub(ctx, func(chat.Message) error {
			if n++; n%50 == 0 {
				return chat.ErrBusy
			}
			return nil
		})
		var first, last int64
		began, identifies := time.Now(), 0
		for day := range 7 {
			for minute := range 24 * 60 {
				s.minute(t, minute)
				if minute%30 == 0 && s.claims() {
					identifies++
				}
				kit.Sleep(ctx, time.Minute)
			}
			if last = heap(); day == 1 {
				first = last // what is bounded is full
			}
			t.Logf("day %d: heap %d KiB, %s", day+1, last>>10, s.kept())
		}
		if took := time.Since(began); last-first > grows || took < 7*24*time.Hour {
			t.Errorf("in %v the heap grew by %d bytes", took, last-first)
		}
		if identifies != 7*48 {
			t.Errorf("%d sessions were begun, want one every half hour", identifies)
		}
		cancel()
		s.wg.Wait()
		if got := s.kept(); !strings.HasPrefix(got, "0 deferred") || !strings.HasSuffix(got, ", 0 queued") {
			t.Error(got)
		}
	})
}

// minute is what a minute brings: a question in a thread that no event has shown,
// one by command, one that wants a thread, a press, and somebody who types.
func (s *stub) minute(t *testing.T, minute int) {
	t.Helper()
	id := s.id()
	s.onMessage(s.state, []byte(`{"id":"`+id+`","channel_id":"9`+id+
		`","guild_id":"3","type":0,"content":"<@1> hi","author":{"id":"4"}}`))
	s.reply(t, <-s.got)
	for _, data := range []string{ask, apart, press} {
		s.command(t, data)
	}
	if minute%10 == 0 {
		s.onInteraction(t.Context(), s.state, []byte(`{"id":"`+id+
			`","token":"t","type":4,"data":{"name":"raven","options":[{"name":"digest","options":[{"name":"name","value":"m",`+
			`"focused":true}]}]}}`))
	}
	synctest.Wait()
}

// claims begins a session.
func (s *stub) claims() bool {
	ok := s.budget.claim(time.Now(), 0) == 0
	s.budget.finishClaim(time.Now(), 0, ok)
	return ok
}
