package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Times of an interaction. Discord wants a first answer within three seconds and
// takes further ones for fifteen minutes.
const (
	storeTimeout = 2 * time.Second // how long the first answer waits for accept
	// deferTimeout is when the first answer is given up, counted from the arrival; deferAgain is the pause before
	// another attempt.
	deferTimeout = 2900 * time.Millisecond
	deferAgain   = 200 * time.Millisecond
	// tokenLife is Discord's 15 minutes, less the time that a request may take.
	tokenLife = 14*time.Minute + 30*time.Second
)

// Callback types: what the first answer is.
const (
	answerMessage      = 4
	answerDeferred     = 5
	answerUnchanged    = 6 // of a post with a button: it stays as it is for now
	answerAutocomplete = 8
	answerModal        = 9
)

// contextPrivate is the context of an interaction in a direct message that is not one
// with the bot: a group's, or one between two people.
const contextPrivate = 2

// handle is what an answer to an interaction needs, kept with the message.
type handle struct {
	ID          string    `json:"id"`
	Application string    `json:"application"`
	Token       string    `json:"token"`
	Received    time.Time `json:"received"`
	Press       bool      `json:"press,omitempty"`
	Form        bool      `json:"form,omitempty"` // that was sent: its answer is for the sender alone
}

// path returns where answers to the interaction are sent.
func (h handle) path() string { return "/webhooks/" + h.Application + "/" + h.Token }

// wireOption is an option of a command, or a subcommand, which has options and no value.
type wireOption struct {
	Name    string       `json:"name"`
	Value   any          `json:"value"`
	Focused bool         `json:"focused"` // it is being typed
	Options []wireOption `json:"options"`
}

// wireInteraction is what Discord tells of a command, a press or a form that was sent. Member is set in servers, User
// in direct messages.
type wireInteraction struct {
	ID          string                    `json:"id"`
	Application string                    `json:"application_id"`
	Type        discordgo.InteractionType `json:"type"`
	Token       string                    `json:"token"`
	GuildID     string                    `json:"guild_id"`
	ChannelID   string                    `json:"channel_id"`
	Channel     struct {
		Type   discordgo.ChannelType `json:"type"`
		Parent string                `json:"parent_id"`
	} `json:"channel"`
	Context int         `json:"context"` // where it happened; 0 also where Discord does not say
	Member  *wireMember `json:"member"`
	User    *wireUser   `json:"user"`
	Data    struct {
		Type     int          `json:"type"` // of a command
		Name     string       `json:"name"`
		Options  []wireOption `json:"options"`
		Target   string       `json:"target_id"` // of a command on a message
		Resolved struct {
			Messages map[string]json.RawMessage `json:"messages"`
		} `json:"resolved"`
		Value     string      `json:"custom_id"`
		Component int         `json:"component_type"`
		Filled    []wireField `json:"components"`
	} `json:"data"`
	Message struct {
		ID string `json:"id"`
	} `json:"message"` // with the button that was pressed
}

// onInteraction queues a command, a press or a form, and makes sure that Discord has an answer in
// time whatever accept does.
func (d *shard) onInteraction(ctx context.Context, state *discordgo.State, data []byte) {
	arrived := time.Now()
	var w wireInteraction
	if err := json.Unmarshal(data, &w); err != nil {
		d.o.Log.Warn("failed to decode a discord interaction", "platform", "discord", "error", err)
		return
	}
	switch {
	case w.Type == discordgo.InteractionApplicationCommandAutocomplete:
		at, _ := d.addressOf(state, w.GuildID, w.ChannelID)
		d.onTyping(ctx, at, w, arrived)
		return
	case w.Type == discordgo.InteractionApplicationCommand && w.Data.Name == commandName, d.messageCommandOf(w) != "":
	case w.Type == discordgo.InteractionApplicationCommand:
		d.startCallback(ctx, w, arrived, noteCallback("I no longer know this command."))
		return
	case w.isPress(), d.isForm(w):
	default:
		d.startCallback(ctx, w, arrived, noteCallback("This button or form no longer works."))
		return
	}
	m, err := d.interactionMessage(state, w)
	if err != nil {
		d.o.Log.Error("dropped a discord interaction", "platform", "discord", "error", err)
		return
	}
	// The queue closes it when accept has taken the message; acknowledge waits for that.
	stored := make(chan struct{})
	in := inbound{
		message:     m,
		stored:      func() { close(stored) },
		wantsThread: wantsThread(d.o.Commands, w.Data.Options),
		form:        d.newVerdict(m),
	}
	// A look-up of the thread may take longer than the three seconds that Discord waits for the first answer.
	if parent := w.Channel.Parent; w.GuildID != "" && parent != "" && isThread(w.Channel.Type) {
		in.message.Conversation = chat.Address{
			Platform:  "discord",
			Workspace: w.GuildID,
			Channel:   parent,
			Thread:    w.ChannelID,
		}
	} else {
		d.setAddress(state, &in, w.GuildID, w.ChannelID)
		if w.Channel.Type == discordgo.ChannelTypeGroupDM || w.Context == contextPrivate {
			in.message.Direct = false
		}
	}
	// Before push: an answer that is quick has to find the callback that it waits for.
	d.acknowledge(ctx, w, arrived, stored, in)
	d.push(in)
}

// isForm reports whether somebody sent a form such as this bot shows.
func (d *Discord) isForm(w wireInteraction) bool {
	return w.Type == discordgo.InteractionModalSubmit && w.Data.Value != "" && d.o.Former != nil
}

// isPress reports whether somebody pressed a button such as this bot makes.
func (w wireInteraction) isPress() bool {
	return w.Type == discordgo.InteractionMessageComponent && w.Data.Component == componentButton &&
		w.Data.Value != "" && w.Message.ID != ""
}

// interactionMessage returns the message of an interaction, without the conversation. It fails for one that names no
// user.
func (d *Discord) interactionMessage(state *discordgo.State, w wireInteraction) (chat.Message, error) {
	user, admin := w.User, false
	var roles []string
	if w.Member != nil {
		user, admin = w.Member.User, canManageText(w.Member.Permissions)
		roles = roleNames(state, w.GuildID, w.Member.Roles)
	}
	if user == nil {
		return chat.Message{}, fmt.Errorf("read interaction %s: it names no user", w.ID)
	}
	if w.Member != nil {
		d.nicks.Put(w.GuildID+"/"+user.ID, w.Member.Nick)
	}
	kept, err := json.Marshal(
		handle{
			ID:          w.ID,
			Application: w.Application,
			Token:       w.Token,
			Received:    d.o.Now().UTC(),
			Press:       w.isPress(),
			Form:        d.isForm(w),
		},
	)
	if err != nil {
		return chat.Message{}, fmt.Errorf("keep the token of interaction %s: %w", w.ID, err)
	}
	m := chat.Message{
		ID:     w.ID,
		Author: d.userOf(w.GuildID, *user),
		Reach:  chat.Addressed,
		Reply:  chat.Reply{Handle: kept},
		Time:   timeOfID(w.ID, d.o.Now()),
	}
	m.Author.Admin, m.Author.Roles = admin, roles
	if w.isPress() {
		m.Command, m.Text, m.Reply.MessageID = chat.Pressed, w.Data.Value, w.Message.ID
		return m, nil
	}
	if d.isForm(w) {
		m.Command, m.Text, m.Values = chat.Submitted, w.Data.Value, map[string]string{}
		for _, part := range w.Data.Filled {
			part.read(m.Values)
		}
		return m, nil
	}
	if m.Command = d.messageCommandOf(w); m.Command != "" {
		m.Target = d.targetOf(state, w)
		return m, nil
	}
	m.Command, m.Text = commandText(d.o.Commands, w.Data.Options)
	// Other commands may want a channel by its id.
	if m.IsQuestion() {
		m.Text = d.newReader(state, wireMessage{GuildID: w.GuildID}).namedText(m.Text)
	}
	return m, nil
}

// messageCommandOf returns the name of the command that somebody used on a message; empty: none of ours.
func (d *Discord) messageCommandOf(w wireInteraction) string {
	if w.Type != discordgo.InteractionApplicationCommand || w.Data.Type != messageCommand || w.Data.Target == "" {
		return ""
	}
	for _, c := range d.o.MessageCommands {
		if c.Title == w.Data.Name {
			return c.Name
		}
	}
	return ""
}

// targetOf returns the message that a command was used on. Discord shows it whole with the command, also where the bot
// may not read what is said, so it is remembered for the question that may follow.
func (d *Discord) targetOf(state *discordgo.State, w wireInteraction) *chat.Said {
	said := chat.Said{ID: w.Data.Target, At: timeOfID(w.Data.Target, d.o.Now())}
	raw := w.Data.Resolved.Messages[w.Data.Target]
	var target wireMessage
	if json.Unmarshal(raw, &target) == nil && target.ID == w.Data.Target {
		d.targets.Put(target.ID, raw)
		said.Text = d.newReader(state, target).saidText()
		said.By, said.ByID, said.Bot = d.nameOf(w.GuildID, target.Author), target.Author.ID, target.Author.Bot
		at := chat.Address{Workspace: cmp.Or(w.GuildID, directGuild), Channel: w.ChannelID}
		said.Link = d.Link(at, target.ID)
	}
	return &said
}

// firstMilli is the time at which Discord's ids begin to count, in milliseconds.
const firstMilli = 1420070400000

// timeOfID returns the time within an id, or another one where it is no id.
func timeOfID(id string, otherwise time.Time) time.Time {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return otherwise
	}
	return time.UnixMilli(n>>22 + firstMilli).UTC()
}

// firstAnswer returns the first answer to an interaction. For a command it says whether only the
// asker will see the answer, which Discord wants to know beforehand; for a press it changes
// nothing.
func (d *Discord) firstAnswer(m chat.Message) callback {
	if m.Kind() == chat.EventPress {
		return callback{Type: answerUnchanged}
	}
	spec, _ := chat.FindCommand(d.o.Commands, m.Command)
	return deferredAnswer(!spec.IsPublic(m.Text))
}

// deferredAnswer returns the first answer that announces another one.
func deferredAnswer(isEphemeral bool) callback {
	if isEphemeral {
		return callback{Type: answerDeferred, Data: &callbackData{Flags: flagEphemeral}}
	}
	return callback{Type: answerDeferred}
}

// callback is the first answer to an interaction.
type callback struct {
	Type int `json:"type"`
	Data any `json:"data,omitempty"` // *callbackData, or a modal
}

// callbackData is what a first answer shows. Choices is nil but for completions, which may have none.
type callbackData struct {
	Content string    `json:"content,omitempty"`
	Flags   int       `json:"flags,omitempty"`
	Allowed *mentions `json:"allowed_mentions,omitempty"`
	Choices *[]choice `json:"choices,omitempty"`
}

// noteCallback returns a first answer that is all there is to say.
func noteCallback(text string) callback {
	return callback{
		Type: answerMessage,
		Data: &callbackData{Content: text, Flags: flagEphemeral, Allowed: noMentions()},
	}
}

// startCallback sends a first answer without keeping the events of the gateway waiting.
func (d *Discord) startCallback(ctx context.Context, w wireInteraction, arrived time.Time, c callback) {
	d.startWork(func() { d.sendCallback(ctx, w, arrived, c) })
}

// acknowledge answers with a form if one is asked for. Otherwise it tells Discord that an answer will come: when the
// message is stored, or shortly before Discord's three seconds are over. It returns at once; in.form gets its result in
// any case, and posts to the interaction wait until this is done (see awaitCallback).
func (d *Discord) acknowledge(
	ctx context.Context,
	w wireInteraction,
	arrived time.Time,
	stored <-chan struct{},
	in inbound,
) {
	done := make(chan struct{})
	d.mu.Lock()
	d.pendingCallbacks[w.Token] = done
	d.mu.Unlock()
	forget := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		// A second delivery of the interaction may have taken its place.
		if d.pendingCallbacks[w.Token] == done {
			delete(d.pendingCallbacks, w.Token)
		}
	}
	finish := func() {
		close(done)
		if d.o.Sharing == nil {
			forget()
		} else { // otherwise it would count as an interaction of another process
			time.AfterFunc(deferTimeout, forget)
		}
	}
	begun := d.startWork(func() {
		defer finish()
		if in.form != nil {
			is := d.showForm(ctx, w, arrived, in.message)
			if in.form <- is; is {
				return
			}
		}
		// The message may be stored late; Discord's three seconds are counted from its arrival.
		timer := time.NewTimer(storeTimeout - time.Since(arrived))
		defer timer.Stop()
		select {
		case <-stored:
		case <-timer.C:
		case <-ctx.Done():
			return // what is not stored gets no answer to wait for
		}
		d.sendCallback(ctx, w, arrived, d.firstAnswer(in.message))
	})
	if !begun {
		finish()
		if in.form != nil {
			in.form <- false
		}
	}
}

// sendCallback sends the first answer, again while there is time, and reports whether Discord has
// one. discordgo would keep a rate limit for each interaction's token for ever.
func (d *Discord) sendCallback(ctx context.Context, w wireInteraction, arrived time.Time, c callback) bool {
	// Also while the bot ends: a message that is stored is answered after the restart, in the place that this opens.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), arrived.Add(deferTimeout))
	defer cancel()
	r := request{
		method: "POST",
		path:   "/interactions/" + w.ID + "/" + w.Token + "/callback",
		route:  "callback/" + w.ID,
		free:   true,
		body:   c,
	}
	for {
		err := d.api.do(ctx, r, nil)
		if err == nil || isCode(err, errAcknowledged) {
			return true
		}
		if !isRetryable(err) || !kit.Sleep(ctx, deferAgain) {
			d.o.Log.Warn(
				"failed to acknowledge a discord interaction in time",
				"platform",
				"discord",
				"interaction",
				w.ID,
				"error",
				err,
			)
			return false
		}
	}
}

// awaitCallback waits until the first answer to an interaction has been sent: before that Discord has no message to
// edit. If another process received the interaction, both send the first answer. Discord takes one of them.
func (d *Discord) awaitCallback(ctx context.Context, h handle, isEphemeral bool) error {
	d.mu.Lock()
	done := d.pendingCallbacks[h.Token]
	d.mu.Unlock()
	if done == nil {
		if age := d.o.Now().Sub(h.Received); d.o.Sharing != nil && age < deferTimeout {
			first := callback{Type: answerUnchanged}
			if !h.Press {
				first = deferredAnswer(isEphemeral)
			}
			d.sendCallback(ctx, wireInteraction{ID: h.ID, Token: h.Token}, time.Now().Add(-age), first)
		}
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
