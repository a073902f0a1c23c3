package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ravenbot/internal/chat"
)

// Router says which of several processes with this app a channel belongs to, and reaches the others.
type Router interface {
	// Owns reports whether a channel belongs to this process. One that belongs to none does so from now on.
	Owns(ctx context.Context, channel chat.Address) (bool, error)
	// HandOn has the process that a channel belongs to pass a request to its TakeRequest, and returns what that
	// returned. mine is true where the channel belongs to this process: then nothing was done.
	HandOn(ctx context.Context, channel chat.Address, request []byte) (answer []byte, mine bool, err error)
	// Processes returns how many processes share the app now, with this one.
	Processes() int
}

// request is what Slack sent in one envelope, or one HTTP request.
type request struct {
	Kind    string          `json:"kind"` // of the envelope: events_api, slash_commands or interactive
	Payload json.RawMessage `json:"payload"`

	event *eventEnvelope // the payload, where it is an event that has been read; nil: it has not
}

// channel returns the channel that a request is about; "" where it is about none. Each kind of request has it in
// another field, and a form has it in the state that was given to it.
func (r request) channel() string {
	if r.event != nil {
		e := &r.event.Event
		return cmp.Or(e.Channel, e.Item.Channel, e.Thread.Channel)
	}
	var p struct {
		Event struct {
			Channel json.RawMessage `json:"channel"` // an object in some events
			Item    struct {
				Channel string `json:"channel"`
			} `json:"item"`
			Thread struct {
				Channel string `json:"channel_id"`
			} `json:"assistant_thread"`
		} `json:"event"`
		Command string `json:"channel_id"`
		Channel struct {
			ID string `json:"id"`
		} `json:"channel"`
		View struct {
			Kept string `json:"private_metadata"`
		} `json:"view"`
	}
	var name string
	var form formState
	if json.Unmarshal(r.Payload, &p) != nil {
		return ""
	}
	switch {
	case json.Unmarshal(p.Event.Channel, &name) == nil && name != "":
		return name
	case json.Unmarshal([]byte(p.View.Kept), &form) == nil:
		return form.At.Channel
	}
	for _, name = range []string{p.Event.Item.Channel, p.Event.Thread.Channel, p.Command, p.Channel.ID} {
		if name != "" {
			return name
		}
	}
	return ""
}

// route has the process that a request's channel belongs to take it, and returns what Slack is to be answered. routed
// is false where that is this process, where the request is about no channel, and where there is one process alone.
// After an error nobody has taken it, so that Slack has to send it again.
func (s *Slack) route(ctx context.Context, r request) (answer json.RawMessage, routed bool, err error) {
	channel := r.channel()
	if s.o.Router == nil || channel == "" {
		return nil, false, nil
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, false, fmt.Errorf("write a request: %w", err)
	}
	answer, mine, err := s.o.Router.HandOn(ctx, s.channelAddress(channel), raw)
	return answer, !mine, err
}

// channelAddress returns the address of a channel. The workspace is the bot's: a person of another one has a part in
// the same channel.
func (s *Slack) channelAddress(channel string) chat.Address {
	return chat.Address{Platform: s.Name(), Workspace: s.self.team, Channel: channel}
}

// owns reports whether a channel belongs to this process.
func (s *Slack) owns(ctx context.Context, channel string) (bool, error) {
	if s.o.Router == nil {
		return true, nil
	}
	return s.o.Router.Owns(ctx, s.channelAddress(channel))
}

// TakeRequest takes a request that another process has handed on, and returns what Slack is to be answered. An error
// means that Slack must not be told that it was taken.
func (s *Slack) TakeRequest(ctx context.Context, raw []byte) ([]byte, error) {
	var r request
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read a request that was handed on: %w", err)
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k := s.socket.Load()
	if k == nil {
		m, ok := s.parseRequest(r)
		return s.take(ctx, m, ok, time.Now())
	}
	// In line with what comes to this process for the same channel.
	result := make(chan []byte, 1)
	k.handleRequest(r.channel(), r, func(answer json.RawMessage, taken bool) {
		if taken {
			result <- answer
		}
		close(result)
	})
	select {
	case answer, ok := <-result:
		if !ok {
			return nil, errNotStored
		}
		return answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
