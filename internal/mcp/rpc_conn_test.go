package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// pipeTo returns a connection whose messages go to a channel, with invalid messages in another one.
func pipeTo() (d *rpcConn, sent, invalid chan string) {
	sent, invalid = make(chan string, 100), make(chan string, 100)
	d = newRPCConn(func(m []byte) { invalid <- string(m) })
	d.send = func(_ context.Context, m []byte) error { sent <- string(m); return nil }
	return d, sent, invalid
}

// request returns a request with a number as its id.
func request(id int64) transport.JSONRPCRequest {
	return transport.JSONRPCRequest{JSONRPC: "2.0", ID: sdk.NewRequestId(id), Method: "x"}
}

// Requests that nobody waits for any longer are forgotten: a connection lasts for months.
func TestSendRequest_ForgetsWhatHasEnded(t *testing.T) {
	d, sent, _ := pipeTo()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := d.SendRequest(ctx, request(1))
		ended <- err
	}()
	<-sent
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	d.send = func(context.Context, []byte) error { return errors.New("full") }
	if _, err := d.SendRequest(t.Context(), request(2)); err == nil || err.Error() != "full" {
		t.Errorf("a request that cannot be sent: %v", err)
	}
	if len(d.pending) > 0 {
		t.Errorf("%d requests still wait", len(d.pending))
	}
}

// Waiting callers get the reason for the loss, not its consequences.
func TestSendRequest_ReturnsTheReasonOfALoss(t *testing.T) {
	reason := errors.New("it fell asleep")
	d, sent, _ := pipeTo()
	ended := make(chan error)
	go func() {
		_, err := d.SendRequest(t.Context(), request(1))
		ended <- err
	}()
	<-sent
	d.fail(reason)
	d.fail(errors.New("a later one"))
	late := func() error { _, err := d.SendRequest(t.Context(), request(2)); return err }
	note := func() error { return d.SendNotification(t.Context(), sdk.JSONRPCNotification{}) }
	for what, err := range map[string]error{"a request that waits": <-ended, "a later request": late(),
		"a notification": note()} {
		if !errors.As(err, new(connectionLostError)) || !errors.Is(err, reason) {
			t.Errorf("%s: %v, want %v", what, err, reason)
		}
	}
	if len(sent) > 0 {
		t.Errorf("%s was sent over a lost connection", <-sent)
	}
	d, _, _ = pipeTo()
	d.send = func(context.Context, []byte) error { d.fail(reason); return errors.New("broken pipe") }
	if _, err := d.SendRequest(t.Context(), request(3)); !errors.Is(err, reason) {
		t.Errorf("lost while it was sent: %v", err)
	}
}

// An answer that came just before the end counts.
func TestSendRequest_AnswerBeforeTheEnd(t *testing.T) {
	for range 50 { // which of two channels that are ready is read is left to chance
		d, _, _ := pipeTo()
		d.send = func(context.Context, []byte) error {
			d.receive([]byte(`{"jsonrpc":"2.0","id":1,"result":{"a":1}}`))
			d.fail(errors.New("ended"))
			return nil
		}
		if a, err := d.SendRequest(t.Context(), request(1)); err != nil || string(a.Result) != `{"a":1}` {
			t.Fatalf("%+v, %v", a, err)
		}
	}
}

func TestReceive_TellsMessagesApart(t *testing.T) {
	d, sent, invalid := pipeTo()
	var notes []string
	d.SetNotificationHandler(func(n sdk.JSONRPCNotification) { notes = append(notes, n.Method) })
	d.onRequest = func(r transport.JSONRPCRequest, reply func(context.Context, []byte) error) {
		_ = reply(t.Context(), encodeJSON(transport.NewJSONRPCResultResponse(r.ID, json.RawMessage(`"answer to `+r.Method+`"`))))
	}
	for _, line := range []string{
		" \t",
		"\uFEFF" + `{"jsonrpc":"2.0","method":"one"}`,
		` [{"jsonrpc":"2.0","method":"two"},{"jsonrpc":"2.0","method":"three"}]`,
		`{"jsonrpc":"2.0","id":"q","method":"ask"}`,
		`{"jsonrpc":"2.0","id":9,"result":{}}`, // to nobody
		`{"jsonrpc":"2.0","id":9}`,
		`{"jsonrpc":"1.0","method":"old"}`,
		`{"jsonrpc":"2.0","id":[],"method":"odd"}`,
		`[broken`,
		`hello`,
	} {
		d.receive([]byte(line))
	}
	close(invalid)
	var wrong []string
	for m := range invalid {
		wrong = append(wrong, m)
	}
	if diff := cmp.Diff([]string{"one", "two", "three"}, notes); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`{"jsonrpc":"2.0","id":9}`, `{"jsonrpc":"1.0","method":"old"}`,
		`{"jsonrpc":"2.0","id":[],"method":"odd"}`, `[broken`, `hello`}, wrong); diff != "" {
		t.Errorf("no messages are (-want +got):\n%s", diff)
	}
	if got := <-sent; got != `{"jsonrpc":"2.0","id":"q","result":"answer to ask"}` {
		t.Errorf("answered %s", got)
	}
}

// A server that asks without end starts no more answers than there are places, and gets them later.
func TestAnswerFor_FloodIsBounded(t *testing.T) {
	var running sync.WaitGroup
	running.Add(maxConcurrentAnswers)
	proceed, sent := make(chan struct{}), make(chan string, 100)
	c := unconnected(t, Options{})
	ask := func() {
		c.answerFor(nil, transport.JSONRPCRequest{ID: sdk.NewRequestId(int64(1)), Method: "ping"},
			func(_ context.Context, answer []byte) error {
				running.Done()
				<-proceed
				sent <- string(answer)
				return nil
			})
	}
	for range 40 {
		ask()
	}
	running.Wait()
	close(proceed)
	c.work.Wait()
	if len(sent) != maxConcurrentAnswers {
		t.Errorf("%d requests were answered, want %d", len(sent), maxConcurrentAnswers)
	}
	running.Add(1)
	ask()
	c.work.Wait()
	if len(sent) != maxConcurrentAnswers+1 {
		t.Error("after the flood nothing is answered")
	}
}

// Errors reach the caller in any form that servers send.
func TestDeliverResponse_ReadsErrors(t *testing.T) {
	for raw, want := range map[string]sdk.JSONRPCErrorDetails{
		`"error":{"code":-5,"message":"no","data":[1]}`: {Code: -5, Message: "no", Data: json.RawMessage(`[1]`)},
		`"error":{"code":"x","message":"no"}`:           {Code: sdk.INTERNAL_ERROR, Message: "no"},
		`"error":{}`:                                    {Code: sdk.INTERNAL_ERROR},
		`"error":"just words"`:                          {Code: sdk.INTERNAL_ERROR, Message: "just words"},
	} {
		for _, id := range []string{"1", `"1"`} { // some servers send the number back as a text
			d, _, _ := pipeTo()
			d.send = func(context.Context, []byte) error {
				d.receive([]byte(`{"jsonrpc":"2.0","id":` + id + `,` + raw + `}`))
				return nil
			}
			a, err := d.SendRequest(t.Context(), request(1))
			if err != nil || a.Error == nil {
				t.Fatalf("%s: %+v, %v", raw, a, err)
			}
			if diff := cmp.Diff(want, *a.Error); diff != "" {
				t.Errorf("%s (-want +got):\n%s", raw, diff)
			}
		}
	}
	d, _, _ := pipeTo()
	d.send = func(context.Context, []byte) error {
		d.receive([]byte(`{"jsonrpc":"2.0","id":1,"result":{},"error":"words"}`))
		return nil
	}
	if a, err := d.SendRequest(t.Context(), request(1)); err != nil || a.Error != nil {
		t.Errorf("a result counts more than an invalid error: %+v, %v", a, err)
	}
}

// A server that answers twice at once does not hold up its connection: the first response counts.
func TestDeliverResponse_SecondOne_IsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, _ := pipeTo()
		d.send = func(context.Context, []byte) error {
			d.receive([]byte(`{"jsonrpc":"2.0","id":1,"result":"first"}`))
			d.receive([]byte(`{"jsonrpc":"2.0","id":1,"result":"second"}`))
			return nil
		}
		if a, err := d.SendRequest(t.Context(), request(1)); err != nil || string(a.Result) != `"first"` {
			t.Errorf("%+v, %v", a, err)
		}
	})
}
