package slack

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/url"
	"strings"
	"unicode/utf8"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/core/chat"
)

// maxStreamText is how many bytes of a text are streamed before it is certain where a text that
// gets too long is cut.
const maxStreamText = maxText * 3 / 4

// streamState is a message that Slack shows while it is being written. A stream can only grow:
// where the text has to change the stream ends, and the message is edited as a whole from then on.
type streamState struct {
	open  bool
	text  string                             // Markdown that it shows
	tools map[string]slackgo.TaskUpdateChunk // by their calls: what it shows of them
}

// threadKey returns a key for a message or a thread of a channel.
func threadKey(channel, ts string) string { return channel + " " + ts }

// beginStream starts a stream for a piece and returns its timestamp. It returns no id and no error if there can be
// none, and errNothingYet if there is no text yet.
func (p *postJob) beginStream(ctx context.Context, n int) (string, error) {
	form, ok := p.streamRecipient()
	if !ok {
		return "", nil
	}
	if p.pacer.Rest("chat.startStream "+p.to.Channel) > 0 {
		return "", nil
	}
	st := &streamState{open: true, tools: map[string]slackgo.TaskUpdateChunk{}}
	// An empty stream would show an empty message.
	chunks, grown := p.streamChunks(st, n, p.streamText(n))
	if len(chunks) == 0 {
		return "", errNothingYet
	}
	form.Set("thread_ts", p.to.Thread)
	setJSON(form, "chunks", chunks)
	// As for posts: a preview has Slack open an address that a model may have put together. The method's reference does
	// not list these; Slack ignores arguments that a method does not know.
	form.Set("unfurl_links", "false")
	form.Set("unfurl_media", "false")
	var ts string
	err := p.tryPaced(ctx, "chat.startStream", func() (err error) {
		ts, err = p.callOnce(ctx, "chat.startStream", form)
		return err
	})
	switch {
	case err == nil:
		p.streams.Put(threadKey(p.to.Channel, ts), &grown)
		return ts, nil
	case retryAfter(err) > 0:
		return "", nil
	case errorCode(err) != "" && !transientCodes[errorCode(err)]:
		p.reportNoStreams(err)
		return "", nil
	}
	return "", p.postError(err)
}

// errNothingYet says that a text has not come far enough to be shown.
var errNothingYet = errors.New("nothing to show yet")

// streamRecipient returns a form that names the person whom a stream is for; false if there can
// be no stream. A stream answers a message in its thread, and needs the message's author outside of
// direct messages.
func (p *postJob) streamRecipient() (url.Values, bool) {
	if p.to.Thread == "" {
		return nil, false
	}
	for _, where := range []string{"", p.to.Channel} {
		if no, _ := p.unsupported.Get(where); no {
			return nil, false
		}
	}
	author, known := p.authors.Get(threadKey(p.to.Channel, p.draft.Reply.MessageID))
	if !known {
		return url.Values{}, isDirectChannel(p.to.Channel)
	}
	who, _ := p.people.Known(author)
	// A guest of a shared channel belongs to another workspace.
	return url.Values{"recipient_user_id": {author}, "recipient_team_id": {cmp.Or(who.team, p.to.Workspace)}}, true
}

// channelCodes are the words of refusals that say nothing about other channels.
var channelCodes = map[string]bool{
	"not_in_channel":             true,
	"channel_not_found":          true,
	"is_archived":                true,
	"thread_not_found":           true,
	"invalid_thread_ts":          true,
	"cannot_reply_to_message":    true,
	"user_not_in_channel":        true,
	"missing_recipient_user_id":  true,
	"missing_recipient_team_id":  true,
	"channel_type_not_supported": true,
	"restricted_action":          true,
}

// reportNoStreams remembers that streams are refused, and tells the operator once.
func (p *postJob) reportNoStreams(err error) {
	where := ""
	if channelCodes[errorCode(err)] {
		where = p.to.Channel
	}
	if known, _ := p.unsupported.Change(where, func(bool, bool) bool { return true }); known {
		return
	}
	remedy := remedies[errorCode(err)]
	if remedy == "" {
		remedy = "switch on the agent view of the app and reinstall it; its manifest is printed by ravenbot slack manifest"
	}
	p.o.Log.Warn(
		"slack refuses streams; editing answers instead",
		"channel",
		where,
		"error",
		err,
		"remedy",
		remedy,
	)
}

// streamText returns what a piece may show already. The end of a text may still change: its last
// letters may become a mention, which is made harmless, and a text that gets too long is cut
// further up.
func (p *postJob) streamText(n int) string {
	body := p.pieces[n].body
	if n < len(p.pieces)-1 || !p.draft.Partial {
		return body
	}
	end := min(len(body), maxStreamText)
	for end > 0 && body[end-1] < utf8.RuneSelf && body[end-1] != ' ' && body[end-1] != '\n' {
		end--
	}
	for end < len(body) && !utf8.RuneStart(body[end]) {
		end--
	}
	return strings.TrimRight(body[:end], " \n")
}

// streamChunks returns the chunks by which a stream comes to show a text, and the stream
// afterwards. The text has to begin with what the stream shows.
func (p *postJob) streamChunks(st *streamState, n int, text string) ([]slackgo.StreamChunk, streamState) {
	grown := streamState{open: true, text: st.text, tools: maps.Clone(st.tools)}
	var chunks []slackgo.StreamChunk
	if n == 0 {
		for _, t := range p.draft.Tools {
			now := taskChunk(t)
			if was := grown.tools[t.ID]; was.Status != now.Status || was.Details != now.Details {
				grown.tools[t.ID] = now
				chunks = append(chunks, now)
			}
		}
	}
	if len(text) > len(st.text) {
		chunks, grown.text = append(chunks, slackgo.NewMarkdownTextChunk(text[len(st.text):])), text
	}
	return chunks, grown
}

// taskChunk returns a tool call as a card that people can open.
func taskChunk(t chat.ToolRun) slackgo.TaskUpdateChunk {
	c := slackgo.NewTaskUpdateChunk(t.ID, t.Name)
	c.Details = t.Note
	switch t.State {
	case chat.Running:
		c.Status = slackgo.TaskCardStatusInProgress
	case chat.Failed:
		c.Status = slackgo.TaskCardStatusError
	default:
		c.Status = slackgo.TaskCardStatusComplete
	}
	return c
}

// extendStream updates an open stream, and ends it where another piece follows. It returns false if the message has to
// be edited instead; then the stream is closed.
func (p *postJob) extendStream(ctx context.Context, n int, ts string) (bool, error) {
	st, _ := p.streams.Get(threadKey(p.to.Channel, ts))
	if st == nil || !st.open {
		return false, nil
	}
	target := p.streamText(n)
	if n == len(p.pieces)-1 && strings.HasPrefix(st.text, target) {
		target = st.text // it shows more than is sure to stay already
	}
	if !strings.HasPrefix(target, st.text) {
		return false, p.closeStream(ctx, n, ts)
	}
	chunks, grown := p.streamChunks(st, n, target)
	method, form := "chat.appendStream", url.Values{"ts": {ts}}
	if n < len(p.pieces)-1 {
		method, form, grown.open = "chat.stopStream", p.labelForm(n, ts), false
	}
	if len(chunks) > 0 {
		setJSON(form, "chunks", chunks)
	} else if grown.open {
		return true, nil
	}
	_, err := p.call(ctx, method, form)
	switch {
	case err == nil:
		// Only the holder of the channel's gate changes a stream, so that no lock is needed.
		*st = grown
		return true, nil
	case errorCode(err) != "":
		return false, p.closeStream(ctx, n, ts)
	}
	p.streams.Drop(threadKey(p.to.Channel, ts)) // it may have grown
	return false, p.postError(err)
}

// finishStream ends a stream as the whole piece. It returns false if the message has to be edited
// instead.
func (p *postJob) finishStream(ctx context.Context, n int, ts string) (bool, error) {
	st, _ := p.streams.Get(threadKey(p.to.Channel, ts))
	switch {
	case st == nil || p.draft.Partial:
		return false, nil
	case !st.open && n < len(p.pieces)-1 && st.text == p.pieces[n].body && len(p.pieces[n].below) == 0:
		p.streams.Drop(threadKey(p.to.Channel, ts))
		return true, nil
	case !st.open:
		return false, nil
	}
	d := p.draft
	if len(st.tools) > 0 {
		d.Tools = nil // they are shown above
	}
	pieces := render(d)
	if n >= len(pieces) || !strings.HasPrefix(pieces[n].body, st.text) {
		return false, p.closeStream(ctx, n, ts)
	}
	chunks, _ := p.streamChunks(st, n, pieces[n].body)
	form := p.labelForm(n, ts)
	if len(chunks) > 0 {
		setJSON(form, "chunks", chunks)
	}
	if below := pieces[n].below; len(below) > 0 {
		setJSON(form, "blocks", below)
	}
	p.streams.Drop(threadKey(p.to.Channel, ts))
	// Forgotten above: where the outcome of this call is not known, the next attempt edits the message.
	_, err := p.call(ctx, "chat.stopStream", form)
	switch {
	case err == nil:
		return true, nil
	case errorCode(err) != "":
		return false, nil // the edit ends it where it has to
	}
	return false, p.postError(err)
}

// closeStream ends a stream as it is, so that it can be edited.
func (p *postJob) closeStream(ctx context.Context, n int, ts string) error {
	p.streams.Drop(threadKey(p.to.Channel, ts))
	if err := p.stopStream(ctx, n, ts); err != nil {
		return p.postError(err)
	}
	return nil
}

// stopStream ends the stream ts if it is one; that it is none any more is no error.
func (p *postJob) stopStream(ctx context.Context, n int, ts string) error {
	_, err := p.call(ctx, "chat.stopStream", p.labelForm(n, ts))
	if word := errorCode(err); word == "message_not_in_streaming_state" || uneditableCodes[word] {
		return nil
	}
	return err
}
