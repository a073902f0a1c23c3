package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"

	"ravenbot/internal/core/tool"
)

// A call that may have run is repeated only if that is harmless, and never after a timeout.
func TestMayRepeat(t *testing.T) {
	yes, no := true, false
	lost, late := connectionLostError{errors.New("x")}, callTimeoutError{time.Second}
	for _, tt := range []struct {
		what  string
		err   error
		hints tool.Hints
		want  bool
	}{
		{"it was not run", transport.ErrSessionTerminated, tool.Hints{}, true},
		{"lost, and it only reads", lost, tool.Hints{ReadOnly: &yes}, true},
		{"lost, and once is like twice", lost, tool.Hints{Idempotent: &yes}, true},
		{"lost, and it writes", lost, tool.Hints{ReadOnly: &no}, false},
		{"lost, and nothing is known", lost, tool.Hints{}, false},
		{"late", late, tool.Hints{ReadOnly: &yes}, false},
		{"another error", errors.New("x"), tool.Hints{ReadOnly: &yes}, false},
	} {
		if got := mayRepeat(tt.err, tt.hints); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}

// A call waits only for a server that is about to reconnect.
func TestIsReconnecting(t *testing.T) {
	now := time.Now()
	works := []tool.Tool{serverTool{}}
	for _, tt := range []struct {
		what    string
		state   State
		tools   []tool.Tool
		retryAt time.Time
		want    bool
	}{
		{"its connection has just ended", Connected, works, time.Time{}, true},
		{"without tools", NoToolsFound, nil, time.Time{}, false},
		{"it is connected again", Connecting, works, time.Time{}, true},
		{"for the first time", Connecting, nil, time.Time{}, false},
		{"tried again soon", Failed, works, now.Add(5*time.Second - 1), true},
		{"tried again later", Failed, works, now.Add(5 * time.Second), false},
		{"it could not be connected", Failed, nil, time.Time{}, false},
		{"stopped", Stopped, works, now, false},
		{"not started", Uninitialized, works, now, false},
	} {
		h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Now: func() time.Time { return now }}))
		s := must(h.server("a"))
		s.state, s.tools, s.retryAt = tt.state, tt.tools, tt.retryAt
		if got := s.isReconnecting(); got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}

// runsIn marks a host as running, without connecting any server.
func runsIn(h *Host, ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ctx = ctx
}

// A call waits for the next connection for five seconds, and not for a server that was stopped.
func TestAwaitConnection_WaitsForALostServer(t *testing.T) {
	for _, tt := range []struct {
		what  string
		state State
		do    func(s *server, after *connection)
		want  time.Duration
		back  bool
	}{
		{"it comes back", Connecting, func(s *server, after *connection) {
			time.Sleep(3 * time.Second)
			s.mu.Lock()
			s.conn = after
			s.setStateLocked(Connected, "")
			s.mu.Unlock()
		}, 3 * time.Second, true},
		{"it does not", Connecting, func(*server, *connection) {}, 5 * time.Second, false},
		{"it is stopped", Connecting, func(s *server, _ *connection) {
			time.Sleep(2 * time.Second)
			s.setState(Stopped, "")
		}, 2 * time.Second, false},
		{"it was stopped before", Stopped, func(*server, *connection) {}, 0, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}}))
				runsIn(h, t.Context())
				s := must(h.server("a"))
				s.tools, s.state = []tool.Tool{serverTool{}}, tt.state
				after := s.newConnection(nil)
				go tt.do(s, after)
				began := time.Now()
				conn, _ := s.awaitConnection(t.Context())
				if took := time.Since(began); took != tt.want || (conn == after) != tt.back {
					t.Errorf("awaitConnection: %v after %v, want %v", conn == after, took, tt.want)
				}
				time.Sleep(10 * time.Second)
				s.conn = nil
				s.setState(tt.state, "")
				go tt.do(s, after)
				began = time.Now()
				conn = s.nextConnection(t.Context(), nil)
				if took := time.Since(began); took != tt.want || (conn == after) != tt.back {
					t.Errorf("nextConnection: %v after %v, want %v", conn == after, took, tt.want)
				}
				time.Sleep(10 * time.Second)
				after.cancel()
			})
		})
	}
}

// A first start is waited for as long as it takes, and a later one of a server that never worked is not.
func TestAwaitConnection_WaitsForTheFirstStart(t *testing.T) {
	for _, hasTried := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}, Store: &memoryStore{}}))
			runsIn(h, t.Context())
			s := must(h.server("a"))
			s.setState(Connecting, "")
			if hasTried {
				s.endFirstAttempt()
			}
			after := s.newConnection(nil)
			defer after.cancel()
			time.AfterFunc(44*time.Second, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.conn = after
				s.setStateLocked(Connected, "")
			})
			began := time.Now()
			conn, _ := s.awaitConnection(t.Context())
			if took := time.Since(began); (conn == after) == hasTried || hasTried && took > 0 {
				t.Errorf("it has been tried %v: connected %v after %v", hasTried, conn == after, took)
			}
			time.Sleep(time.Minute)
		})
	}
}

// The model reads the reason for a missing result, and whether the call may have had an effect; it reads no secret.
func TestFailureText(t *testing.T) {
	h := must(NewHost(Options{Servers: []Config{{Name: "a", URL: "https://x.example",
		Headers: map[string]string{"X": "sesame-open"}}}}))
	s := must(h.server("a"))
	for want, err := range map[string]error{
		`The MCP server "a" did not answer within 7s. Whether the call had an effect is not known.`: callTimeoutError{
			7 * time.Second},
		`The connection to the MCP server "a" was lost during the call. Whether it had an effect is not known; ` +
			`it is not tried again.`: connectionLostError{errors.New("x")},
		`The call to the MCP server "a" failed: it says *** and more`:              errors.New("it says sesame-open\n and more"),
		`The call to the MCP server "a" failed: ` + strings.Repeat("x", 499) + "…": errors.New(strings.Repeat("x", 501)),
	} {
		if got := s.failureText(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Arguments that are no object reach no server, and none are an empty object.
func TestServerTool_Call_ChecksArguments(t *testing.T) {
	h := must(NewHost(Options{Servers: []Config{{Name: "a", Command: "x"}}}))
	x := remoteTool(h, "a", "x")
	for args, isObject := range map[string]bool{"": true, " \n": true, "null": true, " null ": true, "{}": true,
		`{"a":1}`: true, "[]": false, "5": false, `"x"`: false, "{": false} {
		res, err := x.Call(t.Context(), json.RawMessage(args))
		if err != nil || !res.IsError || strings.Contains(res.Text, "must be a JSON object") == isObject {
			t.Errorf("%q: %+v, %v", args, res, err)
		}
	}
}
