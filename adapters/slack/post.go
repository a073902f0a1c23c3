package slack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/internal/chat"
)

// metadataType marks our posts; their payload holds the draft's key and the
// number of the piece.
const metadataType = "ravenbot_post"

// Post sends a draft, in as many messages as it needs, in order. Pieces that an
// earlier call with the same key posted are not posted again: they are known
// within the process, and looked up on Slack where the call may be a repeat.
func (s *Slack) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	unlock, err := s.gates.enter(ctx, to.Channel)
	if err != nil {
		return chat.Ref{}, err
	}
	defer unlock()
	pieces := render(d)
	done := s.sent.of(d.Key)
	for n := len(done); n < len(pieces); n++ {
		id, err := s.piece(ctx, to, d, pieces[n], n)
		if err != nil {
			s.sent.keep(d.Key, done)
			return chat.Ref{}, err
		}
		done = append(done, id)
	}
	s.sent.drop(d.Key)
	return chat.Ref{IDs: done}, nil
}

func (s *Slack) piece(ctx context.Context, to chat.Address, d chat.Draft, p piece, n int) (string, error) {
	if len(d.Reply.Handle) > 0 {
		if id, ok := s.respond(ctx, d, p); ok {
			return id, nil
		}
	}
	if d.Again {
		if ts := s.posted(ctx, to, d, n); ts != "" {
			return ts, nil
		}
	}
	ts, err := s.attempt(ctx, to, d, p, n)
	if code(err) == "invalid_blocks" || code(err) == "msg_blocks_too_long" || code(err) == "invalid_blocks_format" {
		s.o.Log.Warn("slack refuses the form of a post, sent as plain text", "post", d.Key, "error", err)
		p.blocks = nil
		ts, err = s.attempt(ctx, to, d, p, n)
	}
	if err != nil {
		return "", s.failure(err)
	}
	return ts, nil
}

// attempt posts one message, waiting as often and as long as Slack asks.
func (s *Slack) attempt(ctx context.Context, to chat.Address, d chat.Draft, p piece, n int) (string, error) {
	options := []slackgo.MsgOption{slackgo.MsgOptionText(p.text, false), slackgo.MsgOptionDisableLinkUnfurl(), slackgo.MsgOptionDisableMediaUnfurl(),
		slackgo.MsgOptionMetadata(slackgo.SlackMetadata{EventType: metadataType, EventPayload: map[string]any{"key": shortKey(d.Key), "piece": n}})}
	if len(p.blocks) > 0 {
		options = append(options, slackgo.MsgOptionBlocks(p.blocks...))
	}
	if to.Thread != "" {
		options = append(options, slackgo.MsgOptionTS(to.Thread))
	}
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		_, ts, err := s.api.PostMessageContext(call, to.Channel, options...)
		cancel()
		var limited *slackgo.RateLimitedError
		if !errors.As(err, &limited) {
			return ts, err
		}
		if !pause(ctx, limited.RetryAfter) {
			return "", &chat.PostError{After: limited.RetryAfter, Err: err}
		}
	}
}

// shortKey names a draft in metadata without telling its key.
func shortKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:12])
}

// lookBack is how many messages are searched for a post that may have been made.
// Slack gives the newest of a channel and the oldest of a thread, so they are
// asked for from the message on that the post answers.
const lookBack = 100

// posted finds a piece that an earlier attempt posted; empty: none was found.
func (s *Slack) posted(ctx context.Context, to chat.Address, d chat.Draft, n int) string {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var messages []slackgo.Message
	var err error
	if to.Thread != "" {
		messages, _, _, err = s.api.GetConversationRepliesContext(ctx, &slackgo.GetConversationRepliesParameters{
			ChannelID: to.Channel, Timestamp: to.Thread, Oldest: d.Reply.MessageID, Limit: lookBack, IncludeAllMetadata: true})
	} else {
		var h *slackgo.GetConversationHistoryResponse
		h, err = s.api.GetConversationHistoryContext(ctx, &slackgo.GetConversationHistoryParameters{
			ChannelID: to.Channel, Oldest: d.Reply.MessageID, Limit: lookBack, IncludeAllMetadata: true})
		if h != nil {
			messages = h.Messages
		}
	}
	if err != nil {
		s.o.Log.Warn("cannot look whether a post was made; it may come twice", "post", d.Key, "error", err)
		return ""
	}
	for _, m := range messages {
		p := m.Metadata.EventPayload
		if m.Metadata.EventType == metadataType && p["key"] == shortKey(d.Key) && fmt.Sprint(p["piece"]) == fmt.Sprint(n) {
			return m.Timestamp
		}
	}
	return ""
}

// respond answers a slash command at its response_url, while that is good; false
// says that the Web API has to be used.
func (s *Slack) respond(ctx context.Context, d chat.Draft, p piece) (string, bool) {
	var h handle
	if json.Unmarshal(d.Reply.Handle, &h) != nil || !s.ours(h.ResponseURL) || s.o.Now().Sub(h.Received) > responseLife || !s.uses.take(h.ResponseURL) {
		return "", false
	}
	no := false
	m := &slackgo.WebhookMessage{Text: p.text, ResponseType: slackgo.ResponseTypeInChannel, UnfurlLinks: &no, UnfurlMedia: &no}
	if d.Ephemeral || d.Failed {
		m.ResponseType = slackgo.ResponseTypeEphemeral
	}
	if len(p.blocks) > 0 {
		m.Blocks = &slackgo.Blocks{BlockSet: p.blocks}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := slackgo.PostWebhookCustomHTTPContext(ctx, h.ResponseURL, s.http, m); err != nil {
		s.o.Log.Warn("response_url not taken, using the Web API", "post", d.Key, "error", redacted(err))
		return "", false
	}
	return "response/" + shortKey(d.Key), true
}

// code is the word by which Slack refuses a call.
func code(err error) string {
	var told slackgo.SlackErrorResponse
	if errors.As(err, &told) {
		return told.Err
	}
	return ""
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
		if !permanent {
			return &chat.PostError{Maybe: true, Err: fmt.Errorf("slack refuses the post for now: %w", err)}
		}
		return &chat.PostError{Permanent: true, Err: fmt.Errorf("slack refuses the post: %s (%w)", remedy, err)}
	}
	return &chat.PostError{Maybe: true, Err: fmt.Errorf("post to slack: %w", redacted(err))}
}

// redacted hides addresses that are themselves a permission.
func redacted(err error) error {
	text := err.Error()
	if i := strings.Index(text, "http"); i >= 0 {
		text = text[:i] + "(address hidden)"
	}
	return errors.New(text)
}

// gates lets one post at a time into a channel, so that order is kept while one
// waits.
type gates struct {
	mu   sync.Mutex
	open map[string]*gate
}

type gate struct {
	turn  chan struct{}
	users int
}

func (g *gates) enter(ctx context.Context, channel string) (leave func(), err error) {
	g.mu.Lock()
	if g.open == nil {
		g.open = map[string]*gate{}
	}
	one := g.open[channel]
	if one == nil {
		one = &gate{turn: make(chan struct{}, 1)}
		g.open[channel] = one
	}
	one.users++
	g.mu.Unlock()
	forget := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(g.open, channel)
		}
	}
	select {
	case one.turn <- struct{}{}:
		return func() { <-one.turn; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, &chat.PostError{Err: ctx.Err()}
	}
}

// partial remembers the pieces of drafts that were posted in part.
type partial struct {
	mu   sync.Mutex
	done map[string][]string
}

func (p *partial) of(key string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.done[key]...)
}

func (p *partial) keep(key string, ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = map[string][]string{}
	}
	p.done[key] = ids
}

func (p *partial) drop(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.done, key)
}

// A response_url is good for five uses within 30 minutes; one use is left to
// spare.
const (
	responseUses = 4
	responseLife = 29 * time.Minute
)

// responses counts the uses of response_urls.
type responses struct {
	mu   sync.Mutex
	used map[string]int
}

func (r *responses) take(url string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil || len(r.used) > 10_000 {
		r.used = map[string]int{}
	}
	r.used[url]++
	return r.used[url] <= responseUses
}
