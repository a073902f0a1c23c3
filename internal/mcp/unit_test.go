package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/resident"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
)

func TestResultOf(t *testing.T) {
	const odd = "\n" + oddResult
	tests := []struct {
		name, raw string
		want      tool.Result
	}{
		{"text", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, tool.Result{Text: "a\nb"}},
		{"error", `{"content":[{"type":"text","text":"no"}],"isError":true}`, tool.Result{Text: "no", IsError: true}},
		{"other case is another key", `{"content":[{"type":"text","text":"yes","Text":"no"}],"ISERROR":true,"Content":[]}`, tool.Result{Text: "yes"}},
		{"data alone", `{"content":[],"structuredContent":{"a":1.50}}`, tool.Result{Text: `{"a":1.50}`, Structured: json.RawMessage(`{"a":1.50}`)}},
		{"data and text", `{"content":[{"type":"text","text":"a is 1"}],"structuredContent":{"a":1}}`, tool.Result{Text: "a is 1", Structured: json.RawMessage(`{"a":1}`)}},
		{"data and a sentence on it", `{"content":[{"type":"text","text":"Graph read."}],` +
			`"structuredContent":{"entities":[{"name":"Ada"}]}}`,
			tool.Result{Text: "Graph read.\n{\"entities\":[{\"name\":\"Ada\"}]}",
				Structured: json.RawMessage(`{"entities":[{"name":"Ada"}]}`)}},
		{"data and a number that only looks similar",
			`{"content":[{"type":"text","text":"10 found"}],"structuredContent":{"n":1}}`,
			tool.Result{Text: "10 found\n{\"n\":1}", Structured: json.RawMessage(`{"n":1}`)}},
		{"data as text in another form", `{"content":[{"type":"text","text":"{ \"ok\": true, \"who\": \"Ada\" }"}],` +
			`"structuredContent":{"who":"Ada","ok":true}}`,
			tool.Result{Text: `{ "ok": true, "who": "Ada" }`, Structured: json.RawMessage(`{"who":"Ada","ok":true}`)}},
		{"empty data", `{"content":[{"type":"text","text":"Done."}],"structuredContent":{"list":[]}}`,
			tool.Result{Text: "Done.\n{\"list\":[]}", Structured: json.RawMessage(`{"list":[]}`)}},
		{"data that is null", `{"content":[{"type":"text","text":"a"}],"structuredContent":null}`, tool.Result{Text: "a"}},
		{"image", `{"content":[{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, tool.Result{Text: "[image: image/png, 3 bytes]", Files: []chat.File{{Name: "image-1.png", Type: "image/png", Size: 3, Data: []byte{0, 0, 0}}}}},
		{"large audio", `{"content":[{"type":"audio","data":"` + strings.Repeat("AAAA", 1024) + `"}]}`, tool.Result{Text: "[audio: unknown type, 3.0 KiB]", Files: []chat.File{{Name: "audio-1.bin", Type: "application/octet-stream", Size: 3072, Data: make([]byte, 3072)}}}},
		{"missing data", `{"content":[{"type":"image","mimeType":"image/png\r\nx","data":"???"}]}`, tool.Result{Text: "[image: image/png x, 2 bytes] [its data is not base64 and is left out]"}},
		{"two of a kind", `{"content":[{"type":"image","mimeType":"image/jpeg","data":"AA=="},{"type":"image",` +
			`"mimeType":"image/jpeg; q=1","data":"AA=="}]}`,
			tool.Result{Text: "[image: image/jpeg, 1 bytes]\n[image: image/jpeg; q=1, 1 bytes]",
				Files: []chat.File{{Name: "image-1.jpg", Type: "image/jpeg", Size: 1, Data: []byte{0}},
					{Name: "image-2.jpg", Type: "image/jpeg", Size: 1, Data: []byte{0}}}}},
		{"link", `{"content":[{"type":"resource_link","uri":"file:///x","name":"x","mimeType":"text/plain","size":7}]}`, tool.Result{Text: "[resource x file:///x text/plain 7 bytes]"}},
		{"text inside", `{"content":[{"type":"resource","resource":{"uri":"file:///x","text":"inside"}}]}`, tool.Result{Text: "[resource file:///x]\ninside"}},
		{"data inside", `{"content":[{"type":"resource","resource":{"uri":"file:///x","blob":"AAAA"}}]}`, tool.Result{Text: "[resource file:///x: 3 bytes]", Files: []chat.File{{Name: "x", Type: "application/octet-stream", Size: 3, Data: []byte{0, 0, 0}}}}},
		{"nothing", `{"content":[]}`, tool.Result{}},
		{"an empty text", `{"content":[{"type":"text","text":""}]}`, tool.Result{}},
		{"data and no content", `{"structuredContent":{"a":1}}`,
			tool.Result{Text: `{"a":1}`, Structured: json.RawMessage(`{"a":1}`)}},
		// What follows has another form than the protocol demands.
		{"empty object", `{}`, tool.Result{Text: "{}" + odd}},
		{"text as result", `"done"`, tool.Result{Text: "done" + odd}},
		{"list as result", `[1]`, tool.Result{Text: "[1]" + odd}},
		{"null as result", `null`, tool.Result{Text: oddResult}},
		{"text as content", `{"content":"text","isError":true}`, tool.Result{Text: "text" + odd, IsError: true}},
		{"number as content", `{"content":42}`, tool.Result{Text: "42" + odd}},
		{"null as content", `{"content":null}`, tool.Result{Text: `{"content":null}` + odd}},
		{"empty text as content", `{"content":""}`, tool.Result{Text: `{"content":""}` + odd}},
		{"part in place of the list", `{"content":{"type":"text","text":"a"}}`, tool.Result{Text: "a" + odd}},
		{"object in place of the list", `{"content":{"rows":[1,2]}}`, tool.Result{Text: `{"rows":[1,2]}` + odd}},
		{"result of 2024-10-07", `{"toolResult":{"rows":[1,2]}}`, tool.Result{Text: `{"rows":[1,2]}` + odd}},
		{"text of 2024-10-07", `{"toolResult":"done"}`, tool.Result{Text: "done" + odd}},
		{"result under another name", `{"output":"done"}`, tool.Result{Text: `{"output":"done"}` + odd}},
		{"text without a type", `{"content":[{"text":"a"},{"type":"text","text":"b"}]}`, tool.Result{Text: "a\nb" + odd}},
		{"text that is a number", `{"content":[{"type":"text","text":42}]}`, tool.Result{Text: "42" + odd}},
		{"text that is missing", `{"content":[{"type":"text","value":"a"}]}`,
			tool.Result{Text: `{"type":"text","value":"a"}` + odd}},
		{"plain texts in the list", `{"content":["a",5,null]}`, tool.Result{Text: "a\n5" + odd}},
		{"nothing in the list", `{"content":[null]}`, tool.Result{Text: `{"content":[null]}` + odd}},
		{"type with text", `{"content":[{"type":"markdown","text":"# a"}]}`, tool.Result{Text: "# a" + odd}},
		{"type without text", `{"content":[{"type":"hologram","of":"a"}]}`, tool.Result{Text: `{"type":"hologram","of":"a"}` + odd}},
		{"image at an address", `{"content":[{"type":"image","url":"https://x/y"}]}`,
			tool.Result{Text: `{"type":"image","url":"https://x/y"}` + odd}},
		{"resource that is text", `{"content":[{"type":"resource","resource":"a"}]}`,
			tool.Result{Text: `{"type":"resource","resource":"a"}` + odd}},
		{"resource with a number", `{"content":[{"type":"resource","resource":{"uri":"x","text":7}}]}`,
			tool.Result{Text: "[resource x]\n7"}},
		{"image as data URL", `{"content":[{"type":"image","data":"data:image\/png;base64,AAAA"}]}`,
			tool.Result{Text: "[image: image/png, 3 bytes]", Files: []chat.File{{Name: "image-1.png", Type: "image/png", Size: 3, Data: []byte{0, 0, 0}}}}},
		{"resource that is broken", `{"content":[{"type":"resource","resource":{"uri":"x","blob":"?"}}]}`,
			tool.Result{Text: "[resource x: 0 bytes] [its data is not base64 and is left out]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, parseResult(json.RawMessage(tt.raw))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Data of one result is kept up to a limit; further data is only described.
func TestDataOfAResultIsBounded(t *testing.T) {
	part := func(n int) string {
		return fmt.Sprintf(`{"type":"image","mimeType":"image/png","data":%q}`, strings.Repeat("AAAA", n/3))
	}
	r := parseResult(json.RawMessage(`{"content":[` + part(6<<20) + "," + part(3<<20) + "," + part(1<<20) + `]}`))
	if len(r.Files) != 2 || r.Files[0].Size+r.Files[1].Size > maxFileBytes ||
		!strings.Contains(r.Text, "[image: image/png, 3072.0 KiB]") {
		t.Errorf("%d files, text %q", len(r.Files), r.Text)
	}
}

func TestMatch(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"*", "", true}, {"*", "abc", true}, {"a*", "abc", true}, {"a*", "ba", false},
		{"*c", "abc", true}, {"a*c", "abc", true}, {"a*a", "a", false}, {"a*b*c", "a-b-c", true}, {"a*b*c", "a-c", false},
		{"*b*b*", "ab", false}, {"*b*b*", "bb", true}, {"", "", true}, {"", "a", false},
	} {
		if got := matchesAny([]string{tt.pattern}, tt.name); got != tt.want {
			t.Errorf("match(%q, %q) = %v", tt.pattern, tt.name, got)
		}
	}
}

func TestDelay(t *testing.T) {
	for n, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second,
		9: 256 * time.Second, 10: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := retryDelay(n, 0); got != want {
			t.Errorf("delay(%d, 0) = %v, want %v", n, got, want)
		}
		if got := retryDelay(n, 1); got != want/2 {
			t.Errorf("delay(%d, 1) = %v, want %v", n, got, want/2)
		}
	}
}

func TestRing(t *testing.T) {
	r := logBuffer{now: func() time.Time { return time.Time{} }}
	for i := range maxLogLines + 7 {
		r.add("stderr", fmt.Appendf(nil, "line %d", i))
	}
	r.add("stdout", []byte("\x1b]0;title\x07bad \xff\u202e"+strings.Repeat("x", 2*maxLogLine)))
	got := r.lines(func(s string) string { return s })
	if len(got) != maxLogLines || got[0].Text != "line 8" ||
		got[maxLogLines-2].Text != fmt.Sprint("line ", maxLogLines+6) {
		t.Errorf("%d lines from %q", len(got), got[0].Text)
	}
	if last := got[maxLogLines-1].Text; !strings.HasPrefix(last, "]0;titlebad \uFFFDx") || len(last) > maxLogLine+8 {
		t.Errorf("the last line is %.60q of %d bytes", last, len(last))
	}
	if lines := r.linesSince(time.Time{}, "stderr", text.OneLine); lines[len(lines)-1] != fmt.Sprint("line ", maxLogLines+6) {
		t.Errorf("the last line of stderr is %q", lines[len(lines)-1])
	}
}

func TestMasker(t *testing.T) {
	mask := newMasker(Config{
		Headers: map[string]string{"Authorization": "Bearer sesame-open", "X": "ab"},
		Env:     map[string]string{"API_TOKEN": "open-sesame", "MODE": "production"},
	})
	got := mask("sent Bearer sesame-open, then sesame-open, open-sesame in production, ab")
	if want := "sent ***, then ***, *** in production, ab"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFrames(t *testing.T) {
	const limit = 100 << 10
	long := strings.Repeat("x", limit)
	for name, reader := range map[string]io.Reader{
		"at once":       strings.NewReader("a\r\n\n" + long + "\nlast"),
		"byte by byte":  iotest.OneByteReader(strings.NewReader("a\r\n\n" + long + "\nlast")),
		"with the data": iotest.DataErrReader(strings.NewReader("a\r\n\n" + long + "\nlast")),
	} {
		f := lineReader{r: bufio.NewReaderSize(reader, 64), max: limit}
		for _, want := range []string{"a", "", long, "last"} {
			if got, err := f.next(); err != nil || string(got) != want {
				t.Fatalf("%s: line %.20q of %d bytes, %v; want %.20q", name, got, len(got), err, want)
			}
		}
		if _, err := f.next(); err != io.EOF {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
	f := lineReader{r: bufio.NewReader(strings.NewReader(long + "xx\n")), max: limit}
	if got, err := f.next(); !errors.Is(err, errTooLong) || len(got) != limit {
		t.Errorf("a line that is too long: %d bytes, %v", len(got), err)
	}
}

func TestGuardKeepsHeadersFromOtherOrigins(t *testing.T) {
	var got atomic.Value
	other := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
	}))
	own, err := url.Parse("https://own.example/mcp")
	if err != nil {
		t.Fatal(err)
	}
	g := newOriginTransport(own, map[string]string{"Authorization": "Bearer sesame-open"})
	defer g.close()
	resp, err := g.client().Get(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got.Load() != "" {
		t.Errorf("another origin was sent %q", got.Load())
	}
}

// A stream of events may go on for ever; one event, or any other body, must not.
func TestAnswerBody_IsLimited(t *testing.T) {
	event := "data: " + strings.Repeat("x", 1<<20)
	read := func(events bool, end string, n int) error {
		var parts []io.Reader
		for range n {
			parts = append(parts, strings.NewReader(event+end))
		}
		l := &answerBody{ReadCloser: io.NopCloser(io.MultiReader(parts...)), isStream: events, cancel: func() {},
			memory: resident.NewPool(answerMemory * maxMessageBytes), ctx: t.Context()}
		_, err := io.Copy(io.Discard, struct{ io.Reader }{l})
		return err
	}
	if err := read(true, "\n\n", 40); err != nil {
		t.Errorf("40 events of 1 MiB: %v", err)
	}
	if err := read(true, "\n", 20); !errors.Is(err, errTooLong) {
		t.Errorf("an event of 20 MiB: %v", err)
	}
	if err := read(false, "\n\n", 20); !errors.Is(err, errTooLong) {
		t.Errorf("a body of 20 MiB: %v", err)
	}
	if err := read(false, "\n\n", 15); err != nil {
		t.Errorf("a body of 15 MiB: %v", err)
	}
}

// Large answers of all servers share memory: the second one waits for the end of the first, which must not take for
// ever, and which is known where an answer names its size. Small ones and short events never wait.
func TestAnswerBody_LargeAnswers_ShareMemory(t *testing.T) {
	const large, small = 2 << 20, 1 << 20
	for name, c := range map[string]struct {
		size    int64 // that the first answer names
		sent    int   // of the first answer before it stops
		events  bool
		end     bool // the first answer is closed after 10 s
		want    time.Duration
		wantErr error
	}{
		"until it is closed":       {size: -1, sent: large, end: true, want: 10 * time.Second},
		"until it is late":         {size: -1, sent: large, want: largeAnswerTime},
		"a known size":             {size: large, sent: large, want: 0},
		"a small answer":           {size: -1, sent: small, want: 0},
		"an event that has ended":  {size: -1, sent: large, events: true, want: 0},
		"longer than a call takes": {size: -1, sent: large, want: 20 * time.Second, wantErr: context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := resident.NewPool(answerMemory * (maxMessageBytes + large))
				body := func(size int64, sent int) *answerBody {
					ctx, cancel := context.WithCancel(t.Context())
					words := strings.Repeat("x", sent)
					if c.events {
						words += "\n\n"
					}
					hangs := readerFunc(func([]byte) (int, error) { <-ctx.Done(); return 0, ctx.Err() })
					r := io.MultiReader(strings.NewReader(words), hangs)
					return &answerBody{ReadCloser: io.NopCloser(r), isStream: c.events, length: size, memory: pool, ctx: ctx, cancel: cancel}
				}
				first := body(c.size, c.sent)
				defer first.Close()
				go func() { _, _ = io.Copy(io.Discard, struct{ io.Reader }{first}) }()
				if c.end {
					time.AfterFunc(10*time.Second, func() { first.Close() })
				}
				synctest.Wait()
				began := time.Now()
				second := body(-1, large)
				defer second.Close()
				if c.wantErr != nil {
					ctx, cancel := context.WithTimeout(second.ctx, c.want)
					defer cancel()
					second.ctx = ctx
				}
				_, err := io.CopyN(io.Discard, struct{ io.Reader }{second}, large)
				if took := time.Since(began); took != c.want || !errors.Is(err, c.wantErr) {
					t.Errorf("the second one was read after %v: %v", took, err)
				}
				first.Close()
				second.Close()
				synctest.Wait()
				if _, ok := pool.TryTake(pool.Size()); !ok {
					t.Error("memory is held at the end")
				}
			})
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Every end of line of the standard becomes a line feed, however the stream is cut, and nothing is waited for that has
// not come.
func TestAnswerBody_NormalizesLines(t *testing.T) {
	for stream, want := range map[string]string{
		"\uFEFFdata: x\r\rdata: y\r\r":     "data: x\n\ndata: y\n\n",
		"data: x\r\n\r\ndata: y\n\n":       "data: x\n\ndata: y\n\n",
		"data: x\n\r\n\r\uFEFFdata: y\n\r": "data: x\n\n\n\uFEFFdata: y\n\n",
		"\r\n":                             "\n", "\uFEFF": "", "": "", "x": "x",
	} {
		for name, from := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
		} {
			got, err := io.ReadAll(&answerBody{ReadCloser: io.NopCloser(from(strings.NewReader(stream))), isStream: true})
			if err != nil || string(got) != want {
				t.Errorf("%q %s: %q (%v), want %q", stream, name, got, err, want)
			}
		}
	}
	out, in := io.Pipe()
	defer in.Close()
	go func() { _, _ = io.WriteString(in, "data: x\r\r") }()
	buffer := make([]byte, 64)
	if n, err := (&answerBody{ReadCloser: out, isStream: true}).Read(buffer); err != nil || string(buffer[:n]) != "data: x\n\n" {
		t.Errorf("of a stream that goes on: %q, %v", buffer[:n], err)
	}
}

// FuzzMessages feeds a connection on which one request is pending. Only an
// answer to it may end it, and nothing may panic.
func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":"1","error":{"code":"x","message":5}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/tools/list_changed",` +
			`"params":{"a":[]}}]`,
		`{"jsonrpc":"2.0","ID":1,"result":{}}`, `{"jsonrpc":"2.0","id":1.0,"result":null}`,
		`{"jsonrpc":"2.0","id":{},"error":null}`, "null", "[[", `{"jsonrpc":"2.0","id":1e99,"method":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		d := newRPCConn(func([]byte) {})
		sent := make(chan struct{}, 1)
		d.send = func(context.Context, []byte) error {
			select {
			case sent <- struct{}{}:
			default:
			}
			return nil
		}
		d.SetNotificationHandler(func(sdk.JSONRPCNotification) {})
		ended := make(chan *transport.JSONRPCResponse, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			r, _ := d.SendRequest(ctx, transport.JSONRPCRequest{JSONRPC: "2.0", ID: sdk.NewRequestId(int64(1)), Method: "x"})
			ended <- r
		}()
		<-sent
		for _, line := range bytes.Split(message, []byte("\n")) {
			d.receive(line)
		}
		cancel()
		if r := <-ended; r != nil && !bytes.Contains(message, []byte("1")) {
			t.Errorf("%q was taken for an answer", message)
		}
	})
}

func FuzzResultOf(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"resource","resource":{"uri":"x","blob":5}},{"type":"image","data":""}],` +
		`"structuredContent":[1],"isError":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r := parseResult(raw); len(r.Text) > maxResultBytes+200 {
			t.Errorf("a result of %d bytes", len(r.Text))
		}
		parseTool(raw)
	})
}
