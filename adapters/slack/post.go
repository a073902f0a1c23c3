package slack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	slackgo "github.com/slack-go/slack"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/turn/markdown"
)

// metadataType marks our posts; their payload is a label.
const metadataType = "ravenbot_post"

// Post posts a draft as post does. If its place takes no posts, its owner receives it by direct message.
func (s *Slack) Post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	return kit.Mailer{Post: s.post, Direct: s.openDirect, Name: s.nameOfPlace, Log: s.o.Log}.PostOrTellOwner(ctx, to, d)
}

// nameOfPlace returns the name of a channel; empty: it is not known.
func (s *Slack) nameOfPlace(ctx context.Context, at chat.Address) string {
	c, _ := s.channels.Get(ctx, at.Channel)
	return text.EscapeMarkdown(c.name)
}

// openDirect returns the direct message with a user. Errors are *chat.PostError.
func (s *Slack) openDirect(ctx context.Context, workspace, user string) (chat.Address, error) {
	var answer struct {
		Channel struct {
			ID string `json:"id"`
		} `json:"channel"`
	}
	err := s.callAPI(ctx, "conversations.open", url.Values{"users": {user}}, &answer)
	if word := errorCode(err); word != "" && !transientCodes[word] && !tokenCodes[word] {
		return chat.Address{}, &chat.PostError{Permanent: true, Err: fmt.Errorf("open a direct message: %w", err)}
	}
	if err != nil {
		return chat.Address{}, &chat.PostError{Err: fmt.Errorf("open a direct message: %w", redact(err))}
	}
	return chat.Address{Platform: "slack", Workspace: workspace, Channel: answer.Channel.ID}, nil
}

// post sends a draft in as many messages as it needs, in order, or edits the posts that it replaces. Pieces that an
// earlier call with the same key posted are not posted again: they are remembered within the process, and looked up on
// Slack if the call may be a repeat.
//
// One post is made at a time in a channel; others wait until ctx ends. Errors are *chat.PostError: After says when to
// try again, Permanent that it is of no use, Maybe that the post may be there nevertheless. Ref.Repeated says that the
// post tells its readers that it may stand there twice.
func (s *Slack) post(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	if d.Partial {
		return s.postPartial(ctx, to, d)
	}
	unlock, err := s.enterChannel(ctx, to.Channel)
	if err != nil {
		return chat.Ref{}, err
	}
	defer unlock()
	defer s.partialShown.Drop(threadKey(to.Channel, to.Thread))
	defer s.clearReaction(to)
	// What an earlier call within this process posted need not be looked up on Slack.
	last, _ := s.attempts.Get(d.Key)
	var h handle
	if len(d.Reply.Handle) > 0 && json.Unmarshal(d.Reply.Handle, &h) != nil {
		s.o.Log.Warn("failed to decode the handle of a slack command; answering in public", "post", d.Key)
	}
	s.endCommand(to, h)
	// The answer to a press would stand between other people's messages.
	d.Ephemeral = d.Ephemeral || h.Press
	p := &postJob{
		Slack:     s,
		handle:    h,
		to:        to,
		draft:     d,
		original:  d,
		ids:       last.ids,
		mayRepeat: d.Again || last.unknown,
		repeated:  last.repeated,
	}
	p.draft, p.files = planFiles(d, p.isPrivate())
	p.pieces = render(p.draft)
	for _, id := range d.Replaces.IDs {
		if timestampOf(id) != "" {
			p.replaced = append(p.replaced, id)
		}
	}
	if err := p.postAll(ctx); err != nil {
		var failed *chat.PostError
		if errors.As(err, &failed) && failed.Permanent {
			s.attempts.Drop(d.Key)
		} else {
			// That this attempt was refused tells nothing of an earlier one, so that mayRepeat is kept.
			unknown := failed == nil || failed.Maybe
			s.attempts.Put(d.Key, sendAttempt{ids: p.ids, unknown: p.mayRepeat || unknown, repeated: p.repeated ||
				p.marked && unknown})
		}
		return chat.Ref{}, err
	}
	s.attempts.Drop(d.Key)
	return chat.Ref{IDs: p.ids, Repeated: p.marked}, nil
}

// postJob is the work of one call of Post.
type postJob struct {
	*Slack
	handle   handle // of the command or press that is answered, if it is one
	to       chat.Address
	draft    chat.Draft
	original chat.Draft  // what d was before a part of it became a file
	files    []chat.File // to be posted
	pieces   []piece
	replaced []string // posts to be replaced
	ids      []string // posts made, or edited, so far

	mayRepeat bool           // an earlier attempt may have been posted
	searched  bool           // that was looked into
	uploaded  bool           // the earlier attempt posted the files
	posted    map[int]string // by pieces: what the earlier attempt posted
	partial   map[int]string // by pieces: what is there of an answer that was cut off while it was written
	marked    bool           // the post says that it may be there twice
	repeated  bool           // an earlier attempt said so already
	blind     bool           // a further attempt could not be found either
}

// postAll brings every piece into its place, deletes what is left of former posts, and posts the files.
func (p *postJob) postAll(ctx context.Context) error {
	// Pieces are posted one after the other: Slack shows messages in the order of arrival.
	for n := len(p.ids); n < len(p.pieces); n++ {
		id, err := p.placePiece(ctx, n)
		if tooLongCodes[errorCode(err)] && p.dividePiece(n) {
			n--
			continue
		}
		if err != nil {
			return err
		}
		p.ids = append(p.ids, id)
	}
	for _, id := range slices.AppendSeq(p.replaced, maps.Values(p.partial)) {
		if slices.Contains(p.ids, id) {
			continue
		}
		if err := p.deletePost(ctx, id); err != nil {
			return err
		}
	}
	return p.uploadFiles(ctx)
}

// minDivided is the length of a text that is not divided any further.
const minDivided = 1000

// dividePiece replaces a piece by several of half its length at most. It returns false if the piece is short.
func (p *postJob) dividePiece(n int) bool {
	whole := p.pieces[n]
	if len(whole.body) <= minDivided {
		return false
	}
	p.o.Log.Warn("slack refuses the length of a post; dividing it", "post", p.draft.Key, "bytes", len(whole.body))
	var parts []piece
	for _, body := range markdown.Split(whole.body, max(minDivided, utf8.RuneCountInString(whole.body)/2)) {
		parts = append(parts, piece{body: body})
	}
	last := &parts[len(parts)-1]
	last.notes, last.below = whole.notes, whole.below
	p.pieces = slices.Replace(p.pieces, n, n+1, parts...)
	return true
}

// placePiece puts a piece where it belongs and returns the id of its post: in the post that it replaces, where an
// earlier attempt has it, in the unfinished answer, or in a new post. Once a replaced post is gone, all that follow are
// posted again, so that the order is kept.
func (p *postJob) placePiece(ctx context.Context, n int) (string, error) {
	if n < len(p.replaced) && slices.Equal(p.ids, p.replaced[:n]) {
		id, err := p.sendPiece(ctx, n, p.replaced[n])
		if err == nil || !uneditableCodes[errorCode(err)] {
			return id, err
		}
	}
	if p.mayRepeat && !p.searched {
		if err := p.findEarlier(ctx); err != nil {
			return "", err
		}
	}
	if id := p.posted[n]; id != "" {
		return id, nil
	}
	if ts := p.partial[n]; ts != "" {
		id, err := p.sendPiece(ctx, n, ts)
		if err == nil || !uneditableCodes[errorCode(err)] {
			return id, err
		}
	}
	// A post at a response_url cannot be edited. It is the only way to answer where the bot is no member.
	if p.handle.User != "" && p.draft.Editable && !p.isPrivate() {
		id, err := p.sendPiece(ctx, n, "")
		if code := errorCode(err); code != "not_in_channel" && code != "channel_not_found" {
			return id, err
		}
	}
	// A post at a response_url cannot be found again, so a repeat goes there only where nothing can
	// be found anyway.
	if p.handle.User != "" && (!p.mayRepeat || p.blind || p.isPrivate()) {
		if id, err := p.sendResponse(ctx, n); id != "" || err != nil {
			return id, err
		}
	}
	return p.sendPiece(ctx, n, "")
}

// CanThread reports whether a post can have a thread below it: anywhere but in a thread.
func (s *Slack) CanThread(to chat.Address) bool { return to.Thread == "" }

// Thread returns the thread below a post, which needs no opening on Slack.
func (s *Slack) Thread(_ context.Context, to chat.Address, post chat.Ref, _ string) (chat.Address, error) {
	if len(post.IDs) > 0 && s.CanThread(to) {
		to.Thread = timestampOf(post.IDs[0])
	}
	return to, nil
}

// isPrivate reports whether the post is for the asker alone. Slack lets the bot speak to one person
// only in answer to a command or a press.
func (p *postJob) isPrivate() bool {
	return p.handle.User != "" && (p.draft.Ephemeral || p.draft.Failed)
}

// uneditableCodes are the words by which Slack says that a post can no longer be edited.
var uneditableCodes = map[string]bool{
	"message_not_found":      true,
	"cant_update_message":    true,
	"edit_window_closed":     true,
	"unknown_method":         true,
	"missing_scope":          true,
	"not_allowed_token_type": true,
}

// refusedFormCodes are the words by which Slack refuses the blocks of a post.
var refusedFormCodes = map[string]bool{
	"invalid_blocks":        true,
	"msg_blocks_too_long":   true,
	"invalid_blocks_format": true,
}

// tooLongCodes are the words by which Slack refuses the length of a post.
var tooLongCodes = map[string]bool{"msg_too_long": true, "msg_blocks_too_long": true}

// sendPiece posts a piece, or edits the post ts, and returns the id of the post. Where Slack refuses its form it is
// sent without pictures, and then as plain text. Errors are *chat.PostError.
func (p *postJob) sendPiece(ctx context.Context, n int, ts string) (string, error) {
	if done, err := p.finishStream(ctx, n, ts); done || err != nil {
		return ts, err
	}
	method := "chat.postMessage"
	switch {
	case ts != "":
		method = "chat.update"
	case p.isPrivate():
		method = "chat.postEphemeral"
	}
	one := p.pieces[n]
	id, err := p.call(ctx, method, p.messageForm(one, n, ts))
	// An earlier process began a stream here and did not end it; Slack edits no open stream.
	if errorCode(err) == "streaming_state_conflict" {
		if err = p.stopStream(ctx, n, ts); err == nil {
			id, err = p.call(ctx, method, p.messageForm(one, n, ts))
		}
	}
	// Slack refuses the blocks if it cannot fetch one of their pictures.
	if bare, had := one.withoutImages(); had && refusedFormCodes[errorCode(err)] {
		one = bare
		id, err = p.call(ctx, method, p.messageForm(one, n, ts))
	}
	if word := errorCode(err); refusedFormCodes[word] && !(tooLongCodes[word] && len(one.body) > minDivided) {
		p.o.Log.Warn("slack refuses the blocks of a post; sending plain text", "post", p.draft.Key, "error", err)
		one.simple, one.below = true, nil
		id, err = p.call(ctx, method, p.messageForm(one, n, ts))
	}
	if err != nil {
		return "", p.postError(err)
	}
	if method == "chat.postEphemeral" {
		return ephemeralPrefix + id, nil // nothing can be done with it any more
	}
	p.rememberLabel(n, id)
	return id, nil
}

// messageForm returns what is sent for a piece: as an edit of the post ts, or as a new one if ts is empty.
func (p *postJob) messageForm(one piece, n int, ts string) url.Values {
	form := p.labelForm(n, ts)
	form.Set("text", one.text(maxPlainText))
	form.Set("unfurl_links", "false")
	form.Set("unfurl_media", "false")
	blocks := one.blocks()
	if len(blocks) == 0 { // the text is all that people see
		form.Set("text", one.text(maxText))
	}
	if len(blocks) > 0 || ts != "" { // an edit without blocks has to drop those of before
		setJSON(form, "blocks", append([]slackgo.Block{}, blocks...)) // none are [], not null
	}
	switch {
	case ts != "": // where edits, unlike posts, would have names and channels found
		form.Set("parse", "none")
	case p.to.Thread != "":
		form.Set("thread_ts", p.to.Thread)
	}
	if ts == "" && p.isPrivate() {
		form.Set("user", p.handle.User)
	}
	return form
}

// labelForm returns a form with the hidden label of a piece; it changes the post ts, unless that is empty.
func (p *postJob) labelForm(n int, ts string) url.Values {
	form := url.Values{}
	setJSON(form, "metadata", postMetadata{metadataType, p.label(n)})
	if ts != "" {
		form.Set("ts", ts)
	}
	return form
}

// setJSON sets a field of a form to a value of Slack's own types, which can be written as JSON.
func setJSON(form url.Values, field string, value any) {
	raw, _ := json.Marshal(value)
	form.Set(field, string(raw))
}

// label returns the hidden label of a piece.
func (p *postJob) label(n int) postLabel {
	return postLabel{Key: shortKey(p.draft.Key), Piece: n, Answers: p.answeredTimestamps(), Live: p.draft.Partial}
}

// maxAnswers is how many messages a label names: Slack takes little metadata.
const maxAnswers = 100

// answeredTimestamps returns the timestamps of the messages that the draft answers, separated by
// spaces.
func (p *postJob) answeredTimestamps() string {
	var all []string
	for _, id := range p.draft.For() {
		if ts := timestampOf(id); ts != "" {
			all = append(all, ts)
		}
	}
	return strings.Join(all[:min(len(all), maxAnswers)], " ")
}

// call calls a method on messages at the pace that Slack takes, as often as it was too soon.
func (p *postJob) call(ctx context.Context, method string, form url.Values) (ts string, err error) {
	err = p.repeatPaced(ctx, method, func() (err error) {
		ts, err = p.callOnce(ctx, method, form)
		return err
	})
	return ts, err
}

// callOnce calls a method on messages, and returns the timestamp of the message.
func (p *postJob) callOnce(ctx context.Context, method string, form url.Values) (ts string, err error) {
	form.Set("channel", p.to.Channel)
	var answer struct {
		Timestamp string `json:"ts"`
		Ephemeral string `json:"message_ts"` // of one that only one person sees
	}
	err = p.callAPI(ctx, method, form, &answer)
	return cmp.Or(answer.Timestamp, answer.Ephemeral), err
}

// repeatPaced makes a call when its turn has come, as often as Slack says that it was too soon.
func (p *postJob) repeatPaced(ctx context.Context, method string, call func() error) error {
	for {
		if err := p.tryPaced(ctx, method, call); retryAfter(err) == 0 {
			return err
		}
	}
}

var errPaced = errors.New("slack asked for fewer messages there")

// tryPaced makes a call when its turn has come and takes note of Slack's pace.
func (p *postJob) tryPaced(ctx context.Context, method string, call func() error) error {
	turn, err := p.pacer.Enter(ctx, method+" "+p.to.Channel, true)
	if err != nil {
		failed := &chat.PostError{Err: errPaced}
		var wait *kit.WaitError
		if errors.As(err, &wait) {
			failed.After = wait.After
		}
		return failed
	}
	err = call()
	turn.Leave(retryAfter(err), false)
	return err
}

// enterChannel waits for the right to post in a channel, which one post has at a time, so that the
// order is kept while one waits. leave must be called.
func (s *Slack) enterChannel(ctx context.Context, channel string) (leave func(), err error) {
	turn, err := s.channelGate.Enter(ctx, channel, true)
	if err != nil {
		return nil, &chat.PostError{Err: err}
	}
	return func() { turn.Leave(0, false) }, nil
}

// sendAttempt is how far sending a draft came that is not completely posted.
type sendAttempt struct {
	ids      []string // pieces that were posted
	unknown  bool     // Slack may have taken more
	repeated bool     // of which one was a repeat already
}

// deletePost deletes a post that is no longer needed.
func (p *postJob) deletePost(ctx context.Context, ts string) error {
	_, err := p.call(ctx, "chat.delete", url.Values{"ts": {ts}})
	switch word := errorCode(err); {
	case err == nil, word == "message_not_found":
		return nil
	case word != "" && !transientCodes[word]:
		p.o.Log.Warn("failed to delete a replaced slack post", "post", p.draft.Key, "error", err)
		return nil
	}
	return p.postError(err)
}

// shortKey returns a short name for a draft's key that does not reveal it: what goes into the metadata of a post is
// seen by every app that may read the channel.
func shortKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:12])
}

// A response_url is good for five uses within 30 minutes; one use is left to
// spare.
const (
	maxResponseUses = 4
	responseLife    = 29 * time.Minute
)

// countResponseUse counts a use of a response_url, and reports whether Slack still takes it. The count is that of this
// process; after a restart Slack refuses one too many, and the Web API is used.
func (s *Slack) countResponseUse(url string) bool {
	used, _ := s.responseUses.Change(shortKey(url), func(n int, _ bool) int { return n + 1 })
	return used < maxResponseUses
}

// sendResponse answers a command or a press at its response_url while that is valid. It returns no
// id and no error if the Web API has to be used.
func (p *postJob) sendResponse(ctx context.Context, n int) (string, error) {
	h := p.handle
	// Counted before it is used: an attempt whose outcome is not known may be one of the five.
	if !p.isSlackAddress(h.ResponseURL) || p.o.Now().Sub(h.Received) > responseLife ||
		!p.countResponseUse(h.ResponseURL) {
		return "", nil
	}
	no := false
	m := &slackgo.WebhookMessage{
		Text:            p.pieces[n].text(maxPlainText),
		ResponseType:    slackgo.ResponseTypeInChannel,
		ThreadTimestamp: p.to.Thread,
		UnfurlLinks:     &no,
		UnfurlMedia:     &no,
	}
	if p.isPrivate() {
		m.ResponseType = slackgo.ResponseTypeEphemeral
	}
	if blocks := p.pieces[n].blocks(); len(blocks) > 0 {
		m.Blocks = &slackgo.Blocks{BlockSet: blocks}
	}
	err := slackgo.PostWebhookCustomHTTPContext(ctx, h.ResponseURL, p.client, m)
	var status slackgo.StatusCodeError
	switch {
	case err == nil:
		return "response/" + shortKey(p.draft.Key), nil
	// Slack did not take the answer, so that the Web API cannot double it.
	case retryAfter(err) > 0, kit.IsUnsent(err), errors.As(err, &status) && status.Code < 500:
		p.o.Log.Warn("slack refuses a response_url; using the Web API", "post", p.draft.Key, "error", redact(err))
		return "", nil
	}
	return "", &chat.PostError{Maybe: true, Err: fmt.Errorf("answer at the response_url: %w", redact(err))}
}

// remedies are the refusals that no retry changes, with what can be done.
var remedies = map[string]string{
	"channel_not_found":       "the bot cannot see the channel; invite it there with /invite",
	"not_in_channel":          "invite the bot to the channel with /invite",
	"is_archived":             "the channel is archived",
	"msg_too_long":            "the text is too long",
	"no_text":                 "the text is empty",
	"restricted_action":       "a rule of the workspace forbids the bot to post there",
	"ekm_access_denied":       "the workspace's key management forbids it",
	"invalid_blocks":          "Slack does not accept its form",
	"msg_blocks_too_long":     "it is too long",
	"invalid_arguments":       "Slack does not accept its form",
	"missing_scope":           "add the scope to the app and reinstall it",
	"not_allowed_token_type":  "use the bot token, which begins with xoxb-",
	"cannot_reply_to_message": "the thread takes no replies",
	"thread_not_found":        "the thread is gone",
	"user_not_in_channel":     "the user has left",
	"metadata_too_large":      "its metadata is too large",
	"no_permission":           "the app is not allowed to post there; reinstall it with the scopes of its manifest",
	"access_denied":           "a rule of the workspace forbids it",
	"messages_tab_disabled":   "switch the Messages Tab on under App Home of the app",

	"restricted_action_read_only_channel":      "nobody may post in the channel",
	"restricted_action_thread_only_channel":    "the channel takes posts in threads only",
	"restricted_action_non_threadable_channel": "the channel takes no replies in threads",
	"restricted_action_thread_locked":          "the thread was locked",
}

// unreachableCodes are the remedies that are about the place and not about the post.
var unreachableCodes = map[string]bool{
	"channel_not_found": true, "not_in_channel": true, "is_archived": true, "restricted_action": true,
	"access_denied": true, "no_permission": true, "cannot_reply_to_message": true, "thread_not_found": true,
	"restricted_action_read_only_channel": true, "restricted_action_thread_only_channel": true,
	"restricted_action_non_threadable_channel": true, "restricted_action_thread_locked": true,
}

// CheckPost returns a *chat.SetupError if Slack says that the bot cannot post to a channel, and another error if Slack
// cannot be asked. It asks each time: somebody may have invited the bot a moment ago. Tags are left out on Slack.
func (s *Slack) CheckPost(ctx context.Context, to chat.Address, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, channelTimeout)
	defer cancel()
	c, err := s.fetchChannel(ctx, to.Channel)
	if err == nil && c.closed != "" {
		return &chat.SetupError{Reason: remedies[c.closed]}
	}
	return err
}

// tokenCodes are the words by which Slack refuses a token. Posts are kept and tried again after
// tokenPause: a token may be refused by mistake, or be replaced.
var tokenCodes = map[string]bool{
	"invalid_auth": true, "not_authed": true, "account_inactive": true, "token_revoked": true, "token_expired": true,
	"org_login_required": true, "team_access_not_granted": true,
}

// tokenPause is how long posts wait after a token was refused.
const tokenPause = 30 * time.Second

// postError returns a *chat.PostError for a post that failed; one that is a *chat.PostError already as it is. A word of
// Slack's that is not among remedies is not taken for final: the post may have been made.
func (s *Slack) postError(err error) error {
	var already *chat.PostError
	if errors.As(err, &already) {
		return err
	}
	if word := errorCode(err); word != "" {
		remedy, permanent := remedies[word]
		switch {
		case tokenCodes[word]:
			return &chat.PostError{After: tokenPause, Err: fmt.Errorf("slack refuses the bot token; check %s: %w",
				botTokenPlace, err)}
		// First what has a remedy: missing_scope is told of new posts, too.
		case permanent:
			return &chat.PostError{Permanent: true, Unreachable: unreachableCodes[word], Reason: remedy,
				Err: fmt.Errorf("slack refuses the post: %s (%w)", remedy, err)}
		case uneditableCodes[word]:
			return &chat.PostError{Permanent: true, Err: fmt.Errorf("slack cannot edit the post: %w", err)}
		}
		return &chat.PostError{Maybe: true, Err: fmt.Errorf("slack refuses the post for now: %w", err)}
	}
	return &chat.PostError{Maybe: !kit.IsUnsent(err), Err: fmt.Errorf("post to slack: %w", redact(err))}
}

// redact removes addresses, which can themselves be a permission, from an error. What it returns wraps nothing, because
// the chain holds the address, too: codes and waits are read from the error before.
func redact(err error) error {
	return errors.New(addressPattern().ReplaceAllString(err.Error(), "(address hidden)"))
}

// addressPattern matches a web address in the text of an error, in quotation marks or not.
var addressPattern = text.Pattern(`"?(?:https?|wss?)://[^\s"]+"?`)
