package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxMessage is the largest message of the MCP host, in bytes.
	maxMessage = 8 << 20
	// maxConcurrent is how many of its requests are handled at a time.
	maxConcurrent = 16
	// maxPending is how many of its messages are handled or wait for that. Others are refused, since the next one may
	// cancel what all wait for, and reading must go on.
	maxPending = 1000
)

// serveMCP serves the bot as an MCP server on standard streams: through the daemon where one runs, or else
// with the store opened here.
func serveMCP(ctx context.Context, c *invocation) error {
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	d, err := findDaemon(ctx, cfg)
	if err == nil {
		return relayMCP(ctx, c, d)
	}
	if !errors.Is(err, errNoDaemon) {
		return err
	}
	a, err := openLocal(c, cfg)
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		// Where the bot ends by itself, this ends the reading of the input, too.
		defer stop()
		ended <- a.Run(work)
	}()
	// The end of the input ends the command, with no error.
	err = a.ServeMCP(work, interruptibleReader{work, c.In}, c.Out)
	if errors.Is(err, io.EOF) || work.Err() != nil {
		err = nil
	}
	stop()
	return errors.Join(err, <-ended, a.Close())
}

// relay passes messages between standard streams and the daemon's MCP endpoint. A request that it cannot pass on is
// answered with an error of its own, unless it was cancelled.
type relay struct {
	// d has the admin token and makes the relay's own token, with which http sends the messages. http has no timeout,
	// because a call may wait for the approval of a person.
	d    *client
	http *http.Client
	name string // of the token
	// slots are taken by the messages that are handled, pending also by those that wait. renewing is held while a token
	// is asked for.
	slots, pending, renewing chan struct{}

	// mu guards what follows.
	mu      sync.Mutex
	token   string
	out     io.Writer
	version string                        // of the protocol, as agreed
	cancels map[string]context.CancelFunc // of requests under way, by id
}

// relayMCP passes on the messages of the host until its output ends. It creates a token for itself and
// revokes it at the end.
func relayMCP(ctx context.Context, c *invocation, d *client) error {
	r := &relay{
		d:       d,
		http:    &http.Client{},
		name:    "stdio-" + strconv.Itoa(os.Getpid()),
		out:     c.Out,
		cancels: map[string]context.CancelFunc{},

		slots:    make(chan struct{}, maxConcurrent),
		pending:  make(chan struct{}, maxPending),
		renewing: make(chan struct{}, 1),
	}
	if err := r.renewToken(ctx, ""); err != nil {
		return err
	}
	// Deferred first, so that it runs after all messages have been answered.
	defer r.revokeToken()
	var work sync.WaitGroup
	defer work.Wait()
	lines := bufio.NewScanner(interruptibleReader{ctx, c.In})
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		// The scanner reuses its buffer, and the line outlives this round.
		line := bytes.Clone(bytes.TrimSpace(lines.Bytes()))
		if len(line) == 0 {
			continue
		}
		m, err := readMessage(line)
		if err != nil {
			r.write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"this is not a JSON-RPC message"}}`))
			continue
		}
		if m.Method == "notifications/cancelled" {
			r.cancel(string(m.Params.RequestID))
		}
		select {
		case r.pending <- struct{}{}:
		default:
			r.writeError(m, "too many requests are waiting for an answer, send it again later")
			continue
		}
		sent, done := context.WithCancel(ctx)
		// Before the request is sent by a goroutine, so that a cancellation in the next line finds it.
		if m.ID != nil {
			r.mu.Lock()
			r.cancels[string(m.ID)] = done
			r.mu.Unlock()
		}
		handle := func() {
			r.handle(sent, m, line)
			done()
			<-r.pending
		}
		if m.Method == "initialize" {
			// Alone and in order: later messages carry the protocol version that it agrees on.
			handle()
			continue
		}
		work.Go(handle)
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read the messages of the host: %w", err)
	}
	return nil
}

// rpcMessage holds the parts of a JSON-RPC message that the relay needs.
type rpcMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// readMessage returns the parts of a message that the relay needs. It returns an error for a batch, too, which MCP has
// not had since 2025-06-18.
func readMessage(line []byte) (rpcMessage, error) {
	var m rpcMessage
	err := json.Unmarshal(line, &m)
	return m, err
}

// cancel cancels the request with an id, if it is still running.
func (r *relay) cancel(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if stop := r.cancels[id]; stop != nil {
		stop()
	}
}

// handle sends one message once there is a slot for it, and writes the answer. A request that fails is answered with a
// JSON-RPC error, one that was cancelled is not answered.
func (r *relay) handle(ctx context.Context, m rpcMessage, line []byte) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.cancels, string(m.ID))
	}()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return
	}
	token := r.currentToken()
	err := r.post(ctx, m, line, token)
	if errors.Is(err, errTokenRefused) { // revoked, or older than its 24 hours
		if err = r.renewToken(ctx, token); err == nil {
			err = r.post(ctx, m, line, r.currentToken())
		}
	}
	if err != nil && ctx.Err() == nil {
		r.writeError(m, "could not reach the daemon: "+err.Error())
	}
}

// writeError answers a request with a JSON-RPC error. Notifications have no answer.
func (r *relay) writeError(m rpcMessage, message string) {
	if m.ID == nil {
		return
	}
	answer, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID,
		"error": map[string]any{"code": -32603, "message": message}}) // these types always marshal
	r.write(answer)
}

// errTokenRefused is returned when the daemon refuses the token of the relay.
var errTokenRefused = errors.New("the daemon refuses the token")

// post sends one message to the daemon's endpoint with a token and writes what is answered. It returns errTokenRefused
// where nothing was done with the message, so that it can be sent again.
func (r *relay) post(ctx context.Context, m rpcMessage, line []byte, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.d.base+"/mcp", bytes.NewReader(line))
	if err != nil {
		return err
	}
	r.mu.Lock()
	version := r.version
	r.mu.Unlock()
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if m.Params.Meta.Version != "" { // from protocol version 2026-07-28 on, headers repeat parts of the message
		version = m.Params.Meta.Version
		req.Header.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI; name != "" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	if version != "" {
		req.Header.Set("MCP-Protocol-Version", version)
	}
	res, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusUnauthorized {
		return errTokenRefused
	}
	return r.writeAnswer(m, res)
}

// writeAnswer writes the messages of an answer, which is JSON or a stream of events.
func (r *relay) writeAnswer(m rpcMessage, res *http.Response) error {
	body := io.LimitReader(res.Body, maxAnswer)
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		raw, err := io.ReadAll(body)
		if err != nil || len(bytes.TrimSpace(raw)) == 0 {
			return err
		}
		var reply struct {
			JSONRPC string `json:"jsonrpc"`
			Result  struct {
				Version string `json:"protocolVersion"`
			} `json:"result"`
		}
		if json.Unmarshal(raw, &reply) != nil || reply.JSONRPC == "" {
			return fmt.Errorf("it answered with status %d", res.StatusCode)
		}
		if m.Method == "initialize" {
			r.mu.Lock()
			r.version = reply.Result.Version
			r.mu.Unlock()
		}
		r.write(raw)
		return nil
	}
	events := bufio.NewScanner(body)
	events.Buffer(nil, maxMessage)
	var data []byte
	for events.Scan() {
		line := events.Bytes()
		if more, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(more, []byte(" "))...), '\n')
		} else if len(line) == 0 && len(data) > 0 {
			r.write(data)
			data = data[:0]
		}
	}
	return events.Err()
}

// write writes a message as one line.
func (r *relay) write(raw []byte) {
	var line bytes.Buffer
	// On standard streams a message ends with the line and must not hold a line break (MCP 2025-11-25, Transports).
	if json.Compact(&line, raw) != nil {
		return
	}
	line.WriteByte('\n')
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.out.Write(line.Bytes()) // when the host is gone, our input ends, too
}

// currentToken returns the token that was made last.
func (r *relay) currentToken() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.token
}

// renewToken creates a token in place of one that was refused, unless another request has done so meanwhile: each new
// token ends the one before.
func (r *relay) renewToken(ctx context.Context, refused string) error {
	select {
	case r.renewing <- struct{}{}:
		defer func() { <-r.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.currentToken() != refused {
		return nil
	}
	var made struct {
		Token string `json:"token"`
	}
	body := map[string]any{"name": r.name, "overwrite": true, "tools": []string{"*"}, "expiresIn": "24h"}
	if err := r.d.requestJSON(ctx, http.MethodPost, "/api/v1/auth/mcp-tokens", body, &made); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token = made.Token
	return nil
}

// revokeToken revokes the relay's token, within two seconds. Where that fails, the token ends by itself after 24 hours.
func (r *relay) revokeToken() {
	// Not of the command's context, which has ended where somebody interrupted the command.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if res, err := r.d.do(ctx, http.MethodDelete, "/api/v1/auth/mcp-tokens/"+r.name, nil); err == nil {
		_ = res.Body.Close()
	}
}
