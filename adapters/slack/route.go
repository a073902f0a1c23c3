package slack

import (
	"cmp"
	"context"
	"encoding/json"

	"ravenbot/internal/core/chat"
)

// Replicas are the processes that have this app.
type Replicas interface {
	// Owns reports whether a channel belongs to this process. One that belongs to none does so from now on.
	Owns(ctx context.Context, channel chat.Address) (bool, error)
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

// channelAddress returns the address of a channel. The workspace is the bot's: a person of another one has a part in
// the same channel.
func (s *Slack) channelAddress(channel string) chat.Address {
	return chat.Address{Platform: s.Name(), Workspace: s.self.team, Channel: channel}
}

// owns reports whether a channel belongs to this process.
func (s *Slack) owns(ctx context.Context, channel string) (bool, error) {
	if s.o.Replicas == nil {
		return true, nil
	}
	return s.o.Replicas.Owns(ctx, s.channelAddress(channel))
}
