package slack

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"ravenbot/internal/chat"
)

const (
	// readLimit bounds one frame, in bytes.
	readLimit = 4 << 20
	// workers is how many messages are stored at a time; those of one channel go
	// to one worker, so that their order is kept.
	workers = 16
	// restart is the longest pause between attempts to connect. slack-go's own
	// grows to five minutes, in which the bot would be deaf.
	restart = 15 * time.Second
)

// socket keeps a Socket Mode connection until ctx ends.
func (s *Slack) socket(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	pool := newPool(ctx, workers)
	defer pool.wait()
	defer cancel()
	wait := 500 * time.Millisecond
	for {
		began := s.o.Now()
		err := s.connection(ctx, pool)
		if ctx.Err() != nil {
			return nil
		}
		if refusal := refused(err, "app-level token", "SLACK_APP_TOKEN (xapp-…, with the scope connections:write, under Basic Information of the app)"); refusal != nil {
			s.connected(false, refusal.Error())
			return refusal
		}
		s.connected(false, "not connected")
		s.o.Log.Warn("slack connection ended, connecting again", "wait", wait, "error", err)
		if !pause(ctx, wait) {
			return nil
		}
		if wait = min(2*wait, restart); s.o.Now().Sub(began) > time.Minute {
			wait = 500 * time.Millisecond
		}
	}
}

// connection runs slack-go's client, which reconnects by itself when Slack asks
// it to, until it fails to connect.
func (s *Slack) connection(ctx context.Context, pool *pool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := socketmode.New(s.api, socketmode.OptionReadLimit(readLimit))
	ended := make(chan error, 1)
	go func() { ended <- client.RunContext(ctx) }()
	for {
		select {
		case err := <-ended:
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return err
		case e := <-client.Events:
			if failed := s.event(ctx, client, pool, e); failed != nil {
				cancel(failed)
			}
		}
	}
}

// event deals with one event of the client at once; storing a message is left to
// the pool. The error says that connecting failed.
func (s *Slack) event(ctx context.Context, client *socketmode.Client, pool *pool, e socketmode.Event) error {
	switch e.Type {
	case socketmode.EventTypeHello:
		s.connected(true, "")
	case socketmode.EventTypeConnecting, socketmode.EventTypeDisconnect:
		s.connected(false, "connecting")
	case socketmode.EventTypeConnectionError:
		if failure, ok := e.Data.(*slackgo.ConnectionErrorEvent); ok && failure.ErrorObj != nil {
			return failure.ErrorObj
		}
		return errNotConnected
	case socketmode.EventTypeErrorBadMessage:
		if bad, ok := e.Data.(*socketmode.ErrorBadMessage); ok {
			s.envelope(ctx, client, pool, bad.Message)
		}
	case socketmode.EventTypeEventsAPI, socketmode.EventTypeSlashCommand, socketmode.EventTypeInteractive:
		s.request(ctx, client, pool, *e.Request)
	}
	return nil
}

var errNotConnected = errors.New("no connection to slack")

// envelope deals with a frame that slack-go could not read: what it holds may
// still be for us, and it has to be acknowledged or Slack sends it again.
func (s *Slack) envelope(ctx context.Context, client *socketmode.Client, pool *pool, frame json.RawMessage) {
	var r struct {
		Type       string          `json:"type"`
		EnvelopeID string          `json:"envelope_id"`
		Payload    json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(frame, &r) != nil || r.EnvelopeID == "" {
		s.o.Log.Warn("slack sent what cannot be read", "bytes", len(frame))
		return
	}
	s.o.Log.Debug("slack sent an event of an unknown form", "envelope", r.EnvelopeID, "type", r.Type)
	s.request(ctx, client, pool, socketmode.Request{Type: r.Type, EnvelopeID: r.EnvelopeID, Payload: r.Payload})
}

func (s *Slack) request(ctx context.Context, client *socketmode.Client, pool *pool, r socketmode.Request) {
	if r.EnvelopeID == "" {
		return
	}
	ack := func() {
		if err := client.AckCtx(ctx, r.EnvelopeID, nil); err != nil && ctx.Err() == nil {
			s.o.Log.Warn("envelope not acknowledged", "envelope", r.EnvelopeID, "error", err)
		}
	}
	m, ok := s.translate(r.Type, r.Payload)
	if !ok {
		pool.do(r.EnvelopeID, ack)
		return
	}
	pool.do(m.Conversation.Channel, func() {
		if s.take(ctx, m) {
			ack()
		}
	})
}

func (s *Slack) translate(kind string, payload json.RawMessage) (chat.Message, bool) {
	switch kind {
	case socketmode.RequestTypeEventsAPI:
		var o outer
		if json.Unmarshal(payload, &o) != nil {
			return chat.Message{}, false
		}
		return s.message(o)
	case socketmode.RequestTypeSlashCommands:
		var c slash
		if json.Unmarshal(payload, &c) != nil {
			return chat.Message{}, false
		}
		return s.command(c)
	}
	return chat.Message{}, false
}

// pool runs jobs on a few workers, those of one key in order. Its queues have no
// bound of their own: Slack stops sending when too much is not acknowledged.
type pool struct {
	queues []*queue
	wg     sync.WaitGroup
}

type queue struct {
	mu   sync.Mutex
	jobs []func()
	more chan struct{}
}

func newPool(ctx context.Context, n int) *pool {
	p := &pool{}
	for range n {
		q := &queue{more: make(chan struct{}, 1)}
		p.queues = append(p.queues, q)
		p.wg.Go(func() { q.work(ctx) })
	}
	return p
}

func (p *pool) do(key string, job func()) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	q := p.queues[int(h.Sum32()%uint32(len(p.queues)))]
	q.mu.Lock()
	q.jobs = append(q.jobs, job)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (p *pool) wait() { p.wg.Wait() }

func (q *queue) work(ctx context.Context) {
	for {
		q.mu.Lock()
		jobs := q.jobs
		q.jobs = nil
		q.mu.Unlock()
		for _, job := range jobs {
			if ctx.Err() == nil {
				job()
			}
		}
		if len(jobs) > 0 {
			continue
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			return
		}
	}
}
