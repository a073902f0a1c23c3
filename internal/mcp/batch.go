package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
)

// batchProtocol is the version of the protocol in which a server may send several messages as one JSON array
// (https://modelcontextprotocol.io/specification/2025-03-26/basic, "Batching").
const batchProtocol = "2025-03-26"

// batchTransport turns the arrays of messages in answers over Streamable HTTP into single ones, since the library reads
// no arrays (mcp-go v1.2.1, 2026-11).
type batchTransport struct {
	next http.RoundTripper
	isOn atomic.Bool // the server speaks batchProtocol
}

// RoundTrip makes a request. An answer that is an array becomes a stream of events.
func (t *batchTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || !t.isOn.Load() {
		return resp, err
	}
	switch kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind {
	case "text/event-stream":
		resp.Body = &batchSplitter{Closer: resp.Body, lines: bufio.NewReader(resp.Body)}
	case "application/json":
		whole, err := io.ReadAll(resp.Body)
		if err != nil {
			resp.Body.Close()
			return nil, err
		}
		if messages := jsonList(whole); len(messages) > 0 {
			whole = encodeEvents(messages)
			resp.Header.Set("Content-Type", "text/event-stream")
			resp.ContentLength = int64(len(whole))
		}
		resp.Body = readCloser{bytes.NewReader(whole), resp.Body}
	}
	return resp, nil
}

// readCloser reads from one and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}

// encodeEvents returns messages as events of a stream, each on one line.
func encodeEvents(messages []json.RawMessage) []byte {
	var out bytes.Buffer
	for _, m := range messages {
		out.WriteString("data: ")
		_ = json.Compact(&out, m) // into memory, and of valid JSON
		out.WriteString("\n\n")
	}
	return out.Bytes()
}

// batchSplitter is a stream of events in which each array of messages becomes events of one message each.
type batchSplitter struct {
	io.Closer
	lines *bufio.Reader
	rest  []byte // of what was read and is not returned yet
}

// Read returns what there is of the stream, at least one line at a time.
func (b *batchSplitter) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		line, err := b.lines.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		b.rest = line
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if messages := jsonList(bytes.TrimSpace(data)); len(messages) > 0 {
				b.rest = encodeEvents(messages)
			}
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}
