package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/store"
)

// Router says which of several processes with this bot a channel belongs to, and reaches the others.
type Router interface {
	// Owns reports whether a channel belongs to this process. One that belongs to none does so from now on.
	Owns(ctx context.Context, channel chat.Address) (bool, error)
	// HandOn has the process that a channel belongs to pass a request to its TakeRequest, and returns what that
	// returned. mine is true where the channel belongs to this process: then nothing was done.
	HandOn(ctx context.Context, channel chat.Address, request []byte) (answer []byte, mine bool, err error)
}

// Sharing is what a process needs that shares its bot with others. Shards and channels are divided among them: what
// comes by a shard of one process for the channel of another one is handed on.
type Sharing struct {
	Router
	Shards store.Shards
	// Store names what all that share the bot have in common, so that a bot beside them is noticed; "": it cannot be.
	Store string
	Leads <-chan struct{} // closed when this process does what one alone has to do
}

// handedOn is what the process that has the shard hands on to the one that has the channel: a message as it was read
// with the help of what the shard has shown, and what is known of it besides.
type handedOn struct {
	Message chat.Message `json:"message"`
	// WantsForm: it is only asked whether the message is answered with a form.
	WantsForm bool            `json:"wantsForm,omitempty"`
	Age       time.Duration   `json:"age,omitempty"` // since it was said, by one clock
	Nick      string          `json:"nick,omitempty"`
	Quoted    json.RawMessage `json:"quoted,omitempty"`
	Target    json.RawMessage `json:"target,omitempty"`
	Opened    string          `json:"opened,omitempty"` // the thread that was opened for the answer
	Hint      bool            `json:"hint,omitempty"`   // the answer has to say how to go on there
}

// handedBack is the answer to it.
type handedBack struct {
	Busy bool `json:"busy,omitempty"`
	Form bool `json:"form,omitempty"` // it was answered with a form, or with why there is none
}

// acceptHereOrThere has the process that the channel of a message belongs to accept it.
func (d *Discord) acceptHereOrThere(ctx context.Context, m chat.Message) error {
	isOwn, err := d.o.Sharing.Owns(ctx, m.Conversation)
	if err != nil {
		return fmt.Errorf("find out whose channel a message is for: %w", err)
	}
	if isOwn {
		return d.take(ctx, m)
	}
	r := handedOn{Message: m, Age: interactionAge(m)}
	r.Nick, _ = d.nicks.Get(m.Conversation.Workspace + "/" + m.Author.ID)
	r.Quoted, _ = d.quoted.Get(m.ID)
	if m.Target != nil {
		r.Target, _ = d.targets.Get(m.Target.ID)
	}
	r.Opened, _ = d.openedThreads.Get(m.ID)
	r.Hint, _ = d.threadHints.Get(m.Key())
	back, isOwn, err := d.handOn(ctx, r)
	switch {
	case err != nil:
		return err
	case isOwn:
		return d.take(ctx, m)
	case back.Busy:
		return chat.ErrBusy
	}
	return nil
}

// handOn has the process that the channel of a message belongs to take it. isOwn: it is this one, and nothing was done.
func (d *Discord) handOn(ctx context.Context, r handedOn) (back handedBack, isOwn bool, err error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return back, false, fmt.Errorf("write a message that is handed on: %w", err)
	}
	answer, isOwn, err := d.o.Sharing.HandOn(ctx, r.Message.Conversation, raw)
	if err == nil && !isOwn {
		err = json.Unmarshal(answer, &back)
	}
	if err != nil {
		return back, false, fmt.Errorf("hand a message on: %w", err)
	}
	return back, isOwn, nil
}

// handleOf returns the interaction that a message is; false: it is none, or was answered already.
func handleOf(m chat.Message) (h handle, ok bool) {
	err := json.Unmarshal(m.Reply.Handle, &h)
	return h, err == nil && h.Token != ""
}

// interactionAge returns how long ago an interaction arrived.
func interactionAge(m chat.Message) time.Duration {
	if h, ok := handleOf(m); ok {
		return max(time.Since(h.Received), 0)
	}
	return 0
}

// answerWithForm answers an interaction with the form that it asks for, in the process that its channel belongs to: a
// form may be about what that process alone has in memory. It returns false where there is no form in time.
func (d *Discord) answerWithForm(ctx context.Context, w wireInteraction, arrived time.Time, m chat.Message) bool {
	if d.o.Sharing == nil {
		return d.showForm(ctx, w, arrived, m)
	}
	limited, cancel := context.WithTimeout(ctx, formTimeout+formTransfer)
	defer cancel()
	if isOwn, err := d.o.Sharing.Owns(limited, m.Conversation); err != nil || isOwn {
		return d.showForm(ctx, w, arrived, m)
	}
	back, isOwn, err := d.handOn(limited, handedOn{Message: m, WantsForm: true, Age: time.Since(arrived)})
	switch {
	case err != nil:
		d.o.Log.Warn("discord form not asked for", "platform", "discord", "interaction", w.ID, "error", err)
		return false
	case isOwn:
		return d.showForm(ctx, w, arrived, m)
	}
	return back.Form
}

// formTransfer is how much longer a form may take that another process shows.
const formTransfer = 300 * time.Millisecond

// TakeRequest takes what another process has handed on, and returns its answer. It waits until Run has begun. After an
// error it must be handed on again.
func (d *Discord) TakeRequest(ctx context.Context, raw []byte) ([]byte, error) {
	var r handedOn
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, fmt.Errorf("read a message that was handed on: %w", err)
	}
	select {
	case <-d.taking:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var back handedBack
	var err error
	if h, ok := handleOf(r.Message); ok && r.WantsForm {
		back.Form = d.showForm(ctx, wireInteraction{ID: h.ID, Token: h.Token}, time.Now().Add(-r.Age), r.Message)
	} else {
		err = d.takeHandedOn(ctx, r)
	}
	if errors.Is(err, chat.ErrBusy) {
		back.Busy, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(back)
}

// takeHandedOn accepts a message that another process has handed on, and remembers what that process knows of it.
func (d *Discord) takeHandedOn(ctx context.Context, r handedOn) error {
	m := r.Message
	if r.Nick != "" {
		d.nicks.Put(m.Conversation.Workspace+"/"+m.Author.ID, r.Nick)
	}
	if len(r.Quoted) > 0 {
		d.quoted.Put(m.ID, r.Quoted)
	}
	if len(r.Target) > 0 && m.Target != nil {
		d.targets.Put(m.Target.ID, r.Target)
	}
	if r.Opened != "" {
		d.openedThreads.Put(m.ID, r.Opened)
	}
	if r.Hint {
		d.threadHints.Put(m.Key(), true)
	}
	h, isInteraction := handleOf(m)
	if !isInteraction {
		return d.take(ctx, m)
	}
	// The answer is posted from here, and waits for the first one to the interaction. Both processes send that: Discord
	// takes one, and says of the other that there is one.
	stored := make(chan struct{})
	w := wireInteraction{ID: h.ID, Token: h.Token}
	d.acknowledge(context.WithoutCancel(ctx), w, time.Now().Add(-r.Age), stored, inbound{message: m})
	err := d.take(ctx, m)
	if err == nil || errors.Is(err, chat.ErrBusy) {
		close(stored)
	}
	return err
}
