package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// eventsAt returns a transport for server-sent events at an address that is not asked.
func eventsAt(t *testing.T, address string) *sseTransport {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return newSSE(at, http.DefaultClient, &logBuffer{now: time.Now})
}

func TestReadEvents(t *testing.T) {
	const stream = ": a comment\nevent: first\ndata: one\ndata:two\nid: 7\n\ndata:  three\r\n\r\n\nevent: last\n\ndata: cut off"
	var got []string
	err := readEvents(strings.NewReader(stream), func(name string, data []byte) error {
		got = append(got, name+"|"+string(data))
		return nil
	})
	if !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if diff := cmp.Diff([]string{"first|one\ntwo", "| three", "|", "last|"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	full := errors.New("full")
	if err := readEvents(strings.NewReader("data: x\n\n"), func(string, []byte) error { return full }); err != full {
		t.Errorf("where nobody takes the event: %v", err)
	}
	// An event of many lines is limited like one line.
	line := "data: " + strings.Repeat("x", 4<<20) + "\n"
	if err := readEvents(strings.NewReader(strings.Repeat(line, 5)+"\n"), func(string, []byte) error {
		return nil
	}); !errors.Is(err, errTooLong) {
		t.Errorf("an event of 20 MiB: %v", err)
	}
}

// Messages go to the endpoint that was named first, which is one of the same server.
func TestHandleEvent_TakesTheFirstEndpoint(t *testing.T) {
	for at, want := range map[string]string{
		"/message?s=1":            "https://own.example/message?s=1",
		"sub":                     "https://own.example/mcp/sub",
		"https://own.example/x":   "https://own.example/x",
		"https://other.example/x": "",
		"http://own.example/x":    "",
		"://":                     "",
	} {
		s := eventsAt(t, "https://own.example/mcp/sse")
		err := s.handleEvent("endpoint", []byte(at))
		if want == "" {
			if err == nil || s.endpoint.Load() != nil {
				t.Errorf("%.50s was taken for the endpoint", at)
			}
			continue
		}
		if err != nil || s.endpoint.Load().String() != want || !isClosed(s.endpointKnown) {
			t.Errorf("%.50s: endpoint %v, %v", at, s.endpoint.Load(), err)
		}
		if err := s.handleEvent("endpoint", []byte("/later")); err != nil || s.endpoint.Load().String() != want {
			t.Errorf("another endpoint was named: %v, %v", s.endpoint.Load(), err)
		}
	}
	s := eventsAt(t, "https://own.example/sse")
	if err := s.handleEvent("endpoint", nil); err != nil || s.endpoint.Load() != nil {
		t.Errorf("an event without data: %v, %v", s.endpoint.Load(), err)
	}
	if err := s.post(t.Context(), []byte("{}")); err == nil || err.Error() != "the server has not named its endpoint" {
		t.Errorf("a message before the endpoint is known: %v", err)
	}
}

// Events of a kind that we do not know are no messages.
func TestHandleEvent_OtherEventsAreNoMessages(t *testing.T) {
	s := eventsAt(t, "https://own.example/sse")
	count := 0
	s.SetNotificationHandler(func(sdk.JSONRPCNotification) { count++ })
	for _, name := range []string{"message", "", "heartbeat"} {
		if err := s.handleEvent(name, []byte(`{"jsonrpc":"2.0","method":"x"}`)); err != nil {
			t.Error(err)
		}
	}
	if count != 2 {
		t.Errorf("%d messages, want 2", count)
	}
}

// A server that never names its endpoint is given up when the time is up.
func TestSSE_Start_EndsWithItsContext(t *testing.T) {
	opened := make(chan struct{})
	silent := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		close(opened)
		<-r.Context().Done()
	}))
	s := eventsAt(t, silent.URL)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-opened; cancel() }()
	if err := s.Start(ctx); err == nil {
		t.Error("it has started without an endpoint")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSSE_Start_NeedsAnEventStream(t *testing.T) {
	page := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "<html>welcome</html>")
	}))
	err := eventsAt(t, page.URL).Start(t.Context())
	if want := `open the event stream: the answer is "text/html; charset=utf-8" and no event stream`; err == nil ||
		err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestCheckStatus(t *testing.T) {
	for code, want := range map[int]string{
		200: "", 202: "", 299: "",
		199: "the server answered HTTP 199 ",
		300: "the server answered HTTP 300 Multiple Choices",
		401: "the server refused the credentials (HTTP 401): check headers",
		403: "the server refused the credentials (HTTP 403): check headers",
		404: "the server answered HTTP 404 Not Found",
	} {
		if err := checkStatus(code); errText(err) != want {
			t.Errorf("%d: %v, want %q", code, err, want)
		}
	}
}
