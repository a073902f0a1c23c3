package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/chat"
)

// metadataType marks our posts; their payload is a label.
const metadataType = "ravenbot_post"

// Post sends a draft, in as many messages as it needs, in order, or puts it in the
// place of those that it replaces. Pieces that an earlier call with the same key
// posted are not posted again: they are known within the process, and looked up on
// Slack where the call may be a repeat.
func (s *Slack) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if d.Partial {
		return s.show(ctx, to, d)
	}
	unlock, err := s.gates.enter(ctx, to.Channel)
	if err != nil {
		return chat.Ref{}, err
	}
	defer unlock()
	last := s.attempts.last(d.Key)
	p := &posting{Slack: s, to: to, d: d, pieces: render(d), ids: last.ids, again: d.Again || last.unknown, repeated: last.repeated}
	for _, id := range d.Replaces.IDs {
		if stamp(id) != "" {
			p.old = append(p.old, id)
		}
	}
	if err := p.run(ctx); err != nil {
		var failed *chat.PostError
		if errors.As(err, &failed) && failed.Permanent {
			s.attempts.drop(d.Key)
		} else {
			unknown := failed == nil || failed.Maybe
			s.attempts.keep(d.Key, attempt{ids: p.ids, unknown: p.again || unknown, repeated: p.repeated || p.marked && unknown})
		}
		return chat.Ref{}, err
	}
	s.attempts.drop(d.Key)
	return chat.Ref{IDs: p.ids, Repeated: p.marked}, nil
}

// posting is the work of one call of Post.
type posting struct {
	*Slack
	to     chat.Address
	d      chat.Draft
	pieces []piece
	old    []string // posts to be replaced
	ids    []string // posts made, or edited, so far

	again    bool           // an earlier attempt may have been posted
	looked   bool           // that was looked into
	found    map[int]string // by pieces: what the earlier attempt posted
	begun    map[int]string // by pieces: what is there of an answer that was cut off while it was written
	marked   bool           // the post says that it may be there twice
	repeated bool           // an earlier attempt said so already
	blind    bool           // a further attempt could not be found either
}

func (p *posting) run(ctx context.Context) error {
	for n := len(p.ids); n < len(p.pieces); n++ {
		id, err := p.piece(ctx, n)
		if err != nil {
			return err
		}
		p.ids = append(p.ids, id)
	}
	for _, id := range p.old {
		if slices.Contains(p.ids, id) {
			continue
		}
		if err := p.remove(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// piece puts the piece n where it belongs and gives its id. Once an old post is
// gone, what follows is posted anew as well, so that the order stays.
func (p *posting) piece(ctx context.Context, n int) (string, error) {
	if n < len(p.old) && slices.Equal(p.ids, p.old[:n]) {
		id, err := p.send(ctx, n, p.old[n])
		if err == nil || !gone[code(err)] {
			return id, err
		}
	}
	if p.again && !p.looked {
		if err := p.look(ctx); err != nil {
			return "", err
		}
		if id := p.begun[0]; id != "" && n == 0 && len(p.old) == 0 {
			p.old = []string{id}
			return p.piece(ctx, n)
		}
	}
	if id := p.found[n]; id != "" {
		return id, nil
	}
	if len(p.d.Reply.Handle) > 0 && (!p.again || p.blind || p.d.Ephemeral || p.d.Failed) {
		if id, err := p.respond(ctx, n); id != "" || err != nil {
			return id, err
		}
	}
	return p.send(ctx, n, "")
}

// gone are the words by which Slack says that a post can no longer be edited.
var gone = map[string]bool{"message_not_found": true, "cant_update_message": true, "edit_window_closed": true,
	"unknown_method": true, "missing_scope": true, "not_allowed_token_type": true}

// refusedForm are the words by which Slack refuses the blocks of a post.
var refusedForm = map[string]bool{"invalid_blocks": true, "msg_blocks_too_long": true, "invalid_blocks_format": true}

// send posts a piece, or edits the post ts, in plain text where Slack refuses its
// form.
func (p *posting) send(ctx context.Context, n int, ts string) (string, error) {
	one := p.pieces[n]
	id, err := p.call(ctx, p.options(one, n, ts))
	if refusedForm[code(err)] {
		p.o.Log.Warn("slack refuses the form of a post, sent as plain text", "post", p.d.Key, "error", err)
		one.blocks = nil
		id, err = p.call(ctx, p.options(one, n, ts))
	}
	if err != nil {
		return "", p.failure(err)
	}
	return id, nil
}

func (p *posting) options(one piece, n int, ts string) []slackgo.MsgOption {
	meta := map[string]any{"key": shortKey(p.d.Key), "piece": n}
	if answers := p.answers(); answers != "" {
		meta["answers"] = answers
	}
	if p.d.Partial {
		meta["live"] = true
	}
	options := []slackgo.MsgOption{slackgo.MsgOptionText(one.text, false), slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl(),
		slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: metadataType, EventPayload: meta})}
	if len(one.blocks) > 0 || ts != "" { // an edit without blocks has to drop those of before
		options = append(options, slackgo.MsgOptionBlocks(one.blocks...))
	}
	switch {
	case ts != "": // where edits, unlike posts, would have names and channels found
		options = append(options, slackgo.MsgOptionUpdate(ts), slackgo.MsgOptionParse(false))
	case p.to.Thread != "":
		options = append(options, slackgo.MsgOptionTS(p.to.Thread))
	}
	return options
}

// mostAnswers bounds how many messages a label names: Slack takes little metadata.
const mostAnswers = 100

// answers are the timestamps of the messages that the draft answers.
func (p *posting) answers() string {
	var all []string
	for _, id := range p.d.For() {
		if ts := stamp(id); ts != "" {
			all = append(all, ts)
		}
	}
	return strings.Join(all[:min(len(all), mostAnswers)], " ")
}

// call makes a call on messages, waiting as often and as long as Slack asks.
func (p *posting) call(ctx context.Context, options []slackgo.MsgOption) (ts string, err error) {
	for {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		_, ts, _, err = p.api.SendMessageContext(limited, p.to.Channel, options...)
		cancel()
		wait := retryAfter(err)
		if wait == 0 {
			return ts, err
		}
		if !pause(ctx, wait) {
			return "", &chat.PostError{After: wait, Err: err}
		}
	}
}

// remove deletes a post that was replaced by fewer or newer ones.
func (p *posting) remove(ctx context.Context, ts string) error {
	_, err := p.call(ctx, []slackgo.MsgOption{slackgo.MsgOptionDelete(ts)})
	switch word := code(err); {
	case err == nil, word == "message_not_found":
		return nil
	case word != "" && !passing[word]:
		p.o.Log.Warn("a replaced post cannot be deleted", "post", p.d.Key, "error", err)
		return nil
	}
	return p.failure(err)
}

// shortKey names a draft in metadata without telling its key.
func shortKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:12])
}

// respond answers a slash command at its response_url, while that is good. No id
// and no error say that the Web API has to be used.
func (p *posting) respond(ctx context.Context, n int) (string, error) {
	var h handle
	if json.Unmarshal(p.d.Reply.Handle, &h) != nil || !p.ours(h.ResponseURL) || p.o.Now().Sub(h.Received) > responseLife || !p.uses.take(h.ResponseURL) {
		return "", nil
	}
	no := false
	m := &slackgo.WebhookMessage{Text: p.pieces[n].text, ResponseType: slackgo.ResponseTypeInChannel, UnfurlLinks: &no, UnfurlMedia: &no}
	if p.d.Ephemeral || p.d.Failed {
		m.ResponseType = slackgo.ResponseTypeEphemeral
	}
	if blocks := p.pieces[n].blocks; len(blocks) > 0 {
		m.Blocks = &slackgo.Blocks{BlockSet: blocks}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := slackgo.PostWebhookCustomHTTPContext(ctx, h.ResponseURL, p.http, m)
	var status slackgo.StatusCodeError
	switch {
	case err == nil:
		return "response/" + shortKey(p.d.Key), nil
	case retryAfter(err) > 0, unsent(err), errors.As(err, &status) && status.Code < 500:
		p.o.Log.Warn("response_url not taken, using the Web API", "post", p.d.Key, "error", redacted(err))
		return "", nil
	}
	return "", &chat.PostError{Maybe: true, Err: fmt.Errorf("answer at the response_url: %w", redacted(err))}
}

// remedies are the refusals that no repeat changes, with what can be done.
var remedies = map[string]string{
	"channel_not_found": "the bot cannot see the channel; invite it there with /invite", "not_in_channel": "invite the bot to the channel with /invite",
	"is_archived": "the channel is archived", "msg_too_long": "the text is too long", "no_text": "the text is empty",
	"restricted_action": "a rule of the workspace forbids the bot to post there", "ekm_access_denied": "the workspace's key management forbids it",
	"invalid_blocks": "Slack does not accept its form", "msg_blocks_too_long": "it is too long", "invalid_arguments": "Slack does not accept its form",
	"missing_scope": "add the scope to the app and reinstall it", "invalid_auth": "check SLACK_BOT_TOKEN", "account_inactive": "check SLACK_BOT_TOKEN",
	"token_revoked": "check SLACK_BOT_TOKEN", "cannot_reply_to_message": "the thread takes no replies", "thread_not_found": "the thread is gone",
	"user_not_in_channel": "the user has left", "metadata_too_large": "its metadata is too large",
}

// failure classes a refused or failed post.
func (s *Slack) failure(err error) error {
	var already *chat.PostError
	if errors.As(err, &already) {
		return err
	}
	if word := code(err); word != "" {
		remedy, permanent := remedies[word]
		switch {
		case gone[word]:
			return &chat.PostError{Permanent: true, Err: fmt.Errorf("slack cannot edit the post: %w", err)}
		case !permanent:
			return &chat.PostError{Maybe: true, Err: fmt.Errorf("slack refuses the post for now: %w", err)}
		}
		return &chat.PostError{Permanent: true, Err: fmt.Errorf("slack refuses the post: %s (%w)", remedy, err)}
	}
	return &chat.PostError{Maybe: !unsent(err), Err: fmt.Errorf("post to slack: %w", redacted(err))}
}

// unsent reports that a call failed before Slack could hear of it.
func unsent(err error) bool {
	var broken *net.OpError
	return errors.As(err, &broken) && broken.Op == "dial"
}

// redacted hides addresses that are themselves a permission.
func redacted(err error) error {
	text := err.Error()
	if i := strings.Index(text, "http"); i >= 0 {
		text = text[:i] + "(address hidden)"
	}
	return errors.New(text)
}
