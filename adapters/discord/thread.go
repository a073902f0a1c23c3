package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// Rules of opening a thread for an answer.
const (
	maxThreadName = 100
	maxQuoted     = 300 // characters of the question where it was asked
	publicThread  = 11
)

// isThread reports whether a channel is a thread; a post in a forum is one.
func isThread(kind discordgo.ChannelType) bool { return (&discordgo.Channel{Type: kind}).IsThread() }

// openThread moves a command's conversation to a new thread in its channel, once, also if the
// command comes again. Where there can be no thread the answer comes where the command was given.
func (d *shard) openThread(ctx context.Context, m *chat.Message) {
	at := &m.Conversation
	if !d.CanThread(*at) {
		return
	}
	id, _ := d.openedThreads.Get(m.ID)
	if id == "" {
		var err error
		if id, err = d.newThread(ctx, at.Channel, m.Text); err != nil {
			d.o.Log.Warn(
				"failed to open a discord thread; answering in the channel",
				"platform",
				"discord",
				"channel",
				at.Channel,
				"remedy",
				"give the bot's role Create Public Threads and Send Messages in Threads",
				"error",
				err,
			)
			return
		}
		d.openedThreads.Put(m.ID, id)
		// The event of the new thread may come late, and each message there would be looked up until then.
		d.parents.Put(id, at.Channel)
	}
	// What is said there without a mention does not reach the bot, so its first answer says how to
	// go on. The key of that is the key of the question.
	if !d.o.MessageContent {
		d.threadHints.Put(m.Key(), true)
	}
	at.Thread = id
	var h handle
	if err := json.Unmarshal(m.Reply.Handle, &h); err == nil {
		d.startWork(func() { d.linkToThread(ctx, h, m.Text, id) })
	}
	// The answer is a message of the thread: the link above answers the command.
	m.Reply = chat.Reply{}
}

// threadHint says how to go on in a thread in which the bot does not hear everything.
const threadHint = "To go on here, reply to me or mention me."

// withThreadHint adds threadHint to the first answer in a thread that was opened for it.
func (d *Discord) withThreadHint(draft chat.Draft) chat.Draft {
	if first, _ := d.threadHints.Get(draft.Key); first && !draft.Partial {
		draft.Footer = joinLines(draft.Footer, threadHint)
	}
	return draft
}

// newThread opens a public thread below no message, named after a question, and returns its id.
func (d *Discord) newThread(ctx context.Context, channel, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	name := cutText(strings.Join(strings.Fields(question), " "), maxThreadName)
	if name == "" {
		name = "Answer"
	}
	body := struct {
		Name string `json:"name"`
		Type int    `json:"type"`
	}{name, publicThread}
	var thread postedMessage
	err := d.api.do(ctx, request{method: "POST", path: "/channels/" + channel + "/threads", body: body}, &thread)
	return thread.ID, err
}

// CanThread reports whether a post can have a thread below it: in the channel of a server.
func (d *Discord) CanThread(to chat.Address) bool {
	return to.Thread == "" && to.Workspace != directGuild
}

// Thread opens a thread below a post, once, and returns its address. Where there can be no thread, or the bot lacks the
// permission, it returns the address of the channel. Other errors are *chat.PostError.
func (d *Discord) Thread(ctx context.Context, to chat.Address, post chat.Ref, title string) (chat.Address, error) {
	if !d.CanThread(to) || len(post.IDs) == 0 {
		return to, nil
	}
	id := post.IDs[0] // a thread has the id of the message that it is below
	if d.isForumAddress(ctx, to) {
		to.Thread = id // the post is a thread already
		return to, nil
	}
	name := cmp.Or(cutText(strings.Join(strings.Fields(title), " "), maxThreadName), "More")
	body := struct {
		Name string `json:"name"`
	}{name}
	err := d.api.do(
		ctx,
		request{
			method: "POST",
			path:   "/channels/" + to.Channel + "/messages/" + id + "/threads",
			route:  "POST/channels/" + to.Channel + "/messages/threads",
			body:   body,
		},
		nil,
	)
	switch {
	// A message has one thread at most: one that is there already is that of an earlier attempt.
	case err == nil, isCode(err, errHasThread):
		to.Thread = id
		d.parents.Put(id, to.Channel)
	case isRefused(err):
		d.o.Log.Warn(
			"failed to open a discord thread; posting in the channel",
			"platform",
			"discord",
			"channel",
			to.Channel,
			"remedy",
			"give the bot's role Create Public Threads and Send Messages in Threads",
			"error",
			err,
		)
	default:
		return to, d.postError(err)
	}
	return to, nil
}

// linkToThread says, where a command was given, what was asked and where the answer is.
func (d *Discord) linkToThread(ctx context.Context, h handle, question, thread string) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	text := cutText(escapeText(question), maxQuoted) + "\n→ <#" + thread + ">"
	body := payload{Content: text, Allowed: noMentions(), Flags: flagNoPreviews}
	err := d.awaitCallback(ctx, h, false)
	if err == nil {
		err = d.api.do(
			ctx,
			request{method: "PATCH", path: h.path() + "/messages/@original", route: h.path(), free: true, body: body},
			nil,
		)
	}
	if err != nil {
		d.o.Log.Warn(
			"failed to post the link to the thread of a discord answer",
			"platform",
			"discord",
			"interaction",
			h.ID,
			"error",
			err,
		)
	}
}
