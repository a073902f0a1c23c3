package discord

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// mentions says whom a message notifies. If it is left out everyone is notified whom the message
// names.
type mentions struct {
	Parse       []string `json:"parse"`
	Roles       []string `json:"roles,omitempty"`
	Users       []string `json:"users,omitempty"`
	RepliedUser bool     `json:"replied_user"`
}

// noMentions returns the rule by which nobody is notified, whatever the text says.
func noMentions() *mentions { return &mentions{Parse: []string{}} }

// idPattern matches an id of Discord.
var idPattern = text.Pattern(`^\d{1,20}$`)

// mentionsOf returns the mentions that a draft asks for as text, and the rule that lets them notify.
func mentionsOf(d chat.Draft) (text string, rule *mentions) {
	rule = noMentions()
	var names []string
	for _, who := range d.Notify {
		kind, id, _ := strings.Cut(who, ":")
		switch {
		case !idPattern().MatchString(id):
		case kind == "role":
			rule.Roles, names = append(rule.Roles, id), append(names, "<@&"+id+">")
		case kind == "user":
			rule.Users, names = append(rule.Users, id), append(names, "<@"+id+">")
		}
	}
	return strings.Join(names, " "), rule
}

// reference names the message that a post replies to. FailIfNotExists stays false: an answer is posted also where its
// question is gone.
type reference struct {
	MessageID       string `json:"message_id"`
	FailIfNotExists bool   `json:"fail_if_not_exists"`
}

// payload is a message as it is sent.
type payload struct {
	Content      string          `json:"content,omitempty"`
	Embeds       []embed         `json:"embeds,omitempty"`
	Components   []buttonRow     `json:"components,omitempty"`
	Attachments  []attachmentRef `json:"attachments,omitempty"`
	Allowed      *mentions       `json:"allowed_mentions"`
	Flags        int             `json:"flags,omitempty"`
	Nonce        string          `json:"nonce,omitempty"`
	EnforceNonce bool            `json:"enforce_nonce,omitempty"`
	Reference    *reference      `json:"message_reference,omitempty"`
}

// postedMessage is what is read of a message that was posted.
type postedMessage struct {
	ID string `json:"id"`
	// Embeds is empty where Discord left them out because the bot may not post any;
	// nil: it did not say.
	Embeds *[]json.RawMessage `json:"embeds"`
}

// name returns a name for the next piece of a post, the first part of its nonce.
func (p *postJob) name() string {
	return shortHash(p.channel+"\x00"+p.draft.Key+"\x00"+strconv.Itoa(len(p.ids)), nameLen)
}

// nonce returns what the next piece is sent under, as long as Discord allows. For a few minutes Discord returns the
// message that has it instead of posting another one.
func (p *postJob) nonce() string { return p.name() + p.d.mark }

// shortHash returns the first n characters of the hash of a text in base64.
func shortHash(text string, n int) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:n]
}

// Post posts a draft as post does. If its place takes no posts, its owner receives it by direct message.
func (d *Discord) Post(ctx context.Context, to chat.Address, draft chat.Draft) (chat.Ref, error) {
	return kit.Mailer{Post: d.post, Direct: d.openDirect, Name: d.nameOfPlace, Log: d.o.Log}.PostOrTellOwner(ctx, to, draft)
}

// nameOfPlace returns the name of a channel or thread; empty: it is not known.
func (d *Discord) nameOfPlace(ctx context.Context, at chat.Address) string {
	state, _ := d.stateOf(ctx, at.Workspace)
	return text.EscapeMarkdown(d.channelInfo(ctx, state, at.Workspace, channelOf(at)).name)
}

// openDirect returns the direct message with a user. Errors are *chat.PostError.
func (d *Discord) openDirect(ctx context.Context, _, user string) (chat.Address, error) {
	var c struct {
		ID string `json:"id"`
	}
	body := map[string]string{"recipient_id": user}
	if err := d.api.do(ctx, request{method: "POST", path: "/users/@me/channels", body: body}, &c); err != nil {
		return chat.Address{}, d.postError(err)
	}
	return chat.Address{Platform: d.Name(), Workspace: directGuild, Channel: c.ID}, nil
}

// post sends a draft as one message or more, or edits the posts that it replaces. After an error the same call
// continues where it stopped.
//
// Errors are *chat.PostError: After says when to try again, Permanent that it is of no use, Maybe that the post may be
// there nevertheless. Ref.Repeated says that the post tells its readers that it may stand there twice. Posts to one
// channel keep the order of their calls only where the caller waits for each.
func (d *Discord) post(ctx context.Context, to chat.Address, draft chat.Draft) (chat.Ref, error) {
	if to.Platform != d.Name() || to.Channel == "" {
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: fmt.Errorf("post to %s: not a Discord address", to)}
	}
	draft = d.withThreadHint(draft)
	p := &postJob{d: d, channel: channelOf(to), draft: draft, pieces: render(draft)}
	if draft.Partial {
		return p.postPartial(ctx)
	}
	p.replaceBegun()
	// What an earlier call within this process posted is not posted again.
	done := d.sent.get(p.memoryKey())
	p.ids = done.ids
	if done.repeated {
		p.markRepeat()
	}
	if err := p.chooseRoute(ctx); err != nil {
		return chat.Ref{}, &chat.PostError{Err: fmt.Errorf("wait for the first answer to an interaction: %w", err)}
	}
	if draft.Title != "" {
		if err := p.enterForum(ctx, to); err != nil {
			return chat.Ref{}, err
		}
	}
	for len(p.ids) < len(p.pieces) {
		err := p.placeNext(ctx)
		if err != nil && p.simplifyAfter(err) {
			continue
		}
		if err != nil {
			return chat.Ref{}, err
		}
		d.sent.put(p.memoryKey(), outcome{ids: p.ids, repeated: p.repeated})
	}
	if err := p.removeSurplus(ctx); err != nil {
		return chat.Ref{}, d.postError(err)
	}
	d.begun.Drop(p.memoryKey())
	return chat.Ref{IDs: slices.Clone(p.ids), Repeated: p.repeated}, nil
}

// sentPosts remembers which pieces of the latest posts are out.
type sentPosts struct {
	done   kit.Memory[outcome]   // by channel and key
	ids    kit.Memory[bool]      // the ids of all, by themselves
	resent kit.Memory[time.Time] // pieces sent a second time, of which nobody knows
}

// maxMade is how many of the bot's own messages are remembered at least: a post has several.
const maxMade = 4096

// outcome is how far a post has come.
type outcome struct {
	ids      []string
	repeated bool
}

// get returns how far a post has come; the zero outcome where nothing is known of it.
func (s *sentPosts) get(key string) outcome {
	o, _ := s.done.Get(key)
	o.ids = slices.Clone(o.ids)
	return o
}

// put notes how far a post has come, and that its messages are the bot's own.
func (s *sentPosts) put(key string, o outcome) {
	o.ids = slices.Clone(o.ids)
	s.done.Put(key, o)
	for _, id := range o.ids {
		s.ids.Put(id, true)
	}
}

// has reports whether a message was posted by the bot not long ago.
func (s *sentPosts) has(id string) bool {
	_, known := s.ids.Get(id)
	return known
}

// postJob is a draft on its way.
type postJob struct {
	d            *Discord
	channel      string
	home         string // the forum in which channel is the post's thread; empty: it is none
	draft        chat.Draft
	mode         renderMode
	pieces       []piece
	ids          []string // of the pieces that are posted
	hook         *handle  // the interaction that it answers, while that can be done
	press        bool     // that is the press of a button
	answersID    string   // id of what it answers, empty if nothing
	uneditable   string   // the post that was to be replaced and cannot be
	partial      string   // an unfinished answer to the same message
	command      bool     // it answers an interaction, or did
	searched     bool     // for an earlier attempt
	unsearchable bool     // an earlier attempt may be there although none was seen
	begunAlone   bool     // the earlier attempt was to show the beginning of the answer
	// repeated: a piece was sent, or is about to be, that may be there already; repeatingNow: the present one.
	repeated, repeatingNow bool
}

// memoryKey names the post among all of the process; pieceKey its next piece.
func (p *postJob) memoryKey() string { return cmp.Or(p.home, p.channel) + " " + p.draft.Key }

func (p *postJob) pieceKey() string { return p.memoryKey() + " " + strconv.Itoa(len(p.ids)) }

// placeNext edits, finds or posts the next piece, or several, and appends their ids. It may also leave the pieces as
// they are and only change what is to be done, so that it is called until all have ids. Errors are *chat.PostError.
func (p *postJob) placeNext(ctx context.Context) error {
	if id := p.nextReplaced(); id != "" {
		err := p.editPost(ctx, id)
		if err == nil {
			p.d.partialShown.Drop(id)
			p.ids = append(p.ids, id)
			return nil
		}
		// Without a permission it may still be edited without its files or cards: see simplifyAfter.
		if !isRefused(err) || isCode(err, errNoPermission) {
			return p.d.postError(err)
		}
		p.uneditable = id
	}
	if p.draft.Again && !p.searched {
		before := len(p.ids)
		if err := p.findEarlier(ctx); err != nil || len(p.ids) > before {
			return err
		}
		// The whole answer replaces the one that was cut off, which would else stay beside it unfinished.
		if p.partial != "" && before == 0 {
			p.draft.Replaces = chat.Ref{IDs: []string{p.partial}}
			return nil
		}
		if p.unsearchable && before == 0 && p.repeatBegun(ctx) {
			return nil
		}
	}
	return p.sendNext(ctx)
}

// simplifyAfter continues without files, or without cards, where the next piece was refused for
// them as far as Discord says; false if it was not.
func (p *postJob) simplifyAfter(err error) bool {
	next := p.pieces[len(p.ids)]
	switch {
	case !isCode(err, errNoPermission):
		return false
	// One code stands for every permission that is lacking, so files are left out first, and cards only then.
	case len(next.files) > 0:
		p.mode.bare = true
	case len(next.embeds) > 0:
		p.mode.plain = true
	default:
		return false
	}
	p.renderAgain()
	return true
}

// renderAgain renders the draft again in its present mode.
func (p *postJob) renderAgain() {
	p.pieces = renderAs(p.draft, p.mode)
	if p.repeated {
		p.repeated = false
		p.markRepeat()
	}
}

// chooseRoute decides whether the post answers an interaction or goes to the channel. It fails only where ctx ends
// while the first answer to the interaction is under way.
func (p *postJob) chooseRoute(ctx context.Context) error {
	p.answersID = p.draft.Reply.MessageID
	if len(p.draft.Reply.Handle) == 0 {
		return nil
	}
	var h handle
	if err := json.Unmarshal(p.draft.Reply.Handle, &h); err != nil || h.Token == "" {
		p.d.o.Log.Warn(
			"failed to decode a discord interaction token; answering in the channel",
			"platform",
			"discord",
			"post",
			p.draft.Key,
		)
		return nil
	}
	p.answersID, p.command, p.press = h.ID, true, h.Press
	p.draft.Ephemeral = p.draft.Ephemeral || h.Press || h.Form
	// command stays set without a hook: an earlier attempt may have answered while the token was valid.
	if p.d.o.Now().Sub(h.Received) >= tokenLife {
		return nil
	}
	p.hook = &h
	return p.d.awaitCallback(ctx, h, p.draft.Ephemeral)
}

// sendNext posts the next piece.
func (p *postJob) sendNext(ctx context.Context) error {
	if p.hook != nil {
		err := p.answerInteraction(ctx)
		if !isCode(err, errUnknownWebhook, errWebhookToken, errUnknownMessage) {
			return err
		}
		p.hook = nil // too late for an answer to the interaction: the channel has to do
	}
	// Discord itself refuses a second message with the same nonce for a few minutes.
	shield := nonceLife
	if p.command {
		shield = 0 // an earlier attempt may have gone the other way
	}
	if err := p.allowRepeat(shield); err != nil {
		return err
	}
	body := p.nextPayload()
	// With both fields Discord returns the message of an earlier attempt instead of posting another
	// one.
	body.Nonce, body.EnforceNonce = p.nonce(), true
	if len(p.ids) == 0 && p.draft.Reply.MessageID != "" {
		body.Reference = &reference{MessageID: p.draft.Reply.MessageID}
	}
	var m postedMessage
	to := request{method: "POST", path: "/channels/" + p.channel + "/messages", body: body, files: p.nextFiles()}
	err := p.d.api.do(ctx, to, &m)
	// One refusal is for the reference alone, the other also comes when history may not be read.
	if body.Reference != nil && isCode(err, errReplyRefused, errBadForm) {
		// What is answered is gone, or the bot may not read the channel's history.
		body.Reference = nil
		to.body = body
		err = p.d.api.do(ctx, to, &m)
	}
	return p.noteSent(m, err)
}

// answerInteraction posts the next piece as an answer to the interaction. The first one replaces
// "thinking" and may be repeated freely. After a press that place is the post with the button,
// which stays as it is.
func (p *postJob) answerInteraction(ctx context.Context) error {
	first := len(p.ids) == 0 && !p.press
	if !first {
		if err := p.allowRepeat(0); err != nil {
			return err
		}
	}
	r := request{
		method: "PATCH",
		path:   p.hook.path() + "/messages/@original",
		route:  p.hook.path(),
		free:   true,
		body:   p.nextEdit(),
		files:  p.nextFiles(),
	}
	if !first {
		body := p.nextPayload()
		if p.draft.Ephemeral {
			body.Flags |= flagEphemeral
		}
		r.method, r.path, r.body = "POST", p.hook.path(), body
	}
	var m postedMessage
	return p.noteSent(m, p.d.api.do(ctx, r, &m))
}

// noteSent notes the outcome of sending a piece: its id, or that it has to be sent in another form. Errors are
// *chat.PostError.
func (p *postJob) noteSent(m postedMessage, err error) error {
	if err != nil {
		err = p.d.postError(err)
		var e *chat.PostError
		if p.repeatingNow && errors.As(err, &e) && e.Maybe {
			p.d.sent.resent.Change(p.pieceKey(), func(at time.Time, known bool) time.Time {
				// The first such attempt counts: were the time moved on, the post could be sent again without end.
				if known {
					return at
				}
				return p.d.o.Now()
			})
		}
		return err
	}
	// Without the permission Embed Links Discord drops the cards in silence, so the words take
	// their place.
	if m.Embeds != nil && len(*m.Embeds) == 0 && len(p.pieces[len(p.ids)].embeds) > 0 && !p.mode.plain {
		p.mode.plain = true
		p.renderAgain()
		p.draft.Replaces = chat.Ref{IDs: append(slices.Clone(p.ids), m.ID)} // the words take its place
		return nil
	}
	p.ids = append(p.ids, m.ID)
	return nil
}

// nextFiles returns the files of the next piece.
func (p *postJob) nextFiles() []chat.File { return p.pieces[len(p.ids)].files }

// nextPayload returns the next piece as a new message.
func (p *postJob) nextPayload() payload {
	piece, allowed := p.pieces[len(p.ids)], noMentions()
	if len(p.ids) == 0 { // the names stand in the first message
		_, allowed = mentionsOf(p.draft)
	}
	body := payload{
		Content:     piece.text,
		Embeds:      piece.embeds,
		Components:  piece.buttons,
		Attachments: attachmentRefs(piece.files),
		Allowed:     allowed,
	}
	// The flag that stops link previews hides embeds of our own, too.
	if len(piece.embeds) == 0 {
		body.Flags = flagNoPreviews
	}
	return body
}
