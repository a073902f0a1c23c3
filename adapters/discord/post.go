package discord

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ravenbot/internal/chat"
)

// mentions says whom a message notifies. Left out, everyone that it names.
type mentions struct {
	Parse       []string `json:"parse"`
	RepliedUser bool     `json:"replied_user"`
}

func nobody() *mentions { return &mentions{Parse: []string{}} }

type reference struct {
	MessageID       string `json:"message_id"`
	FailIfNotExists bool   `json:"fail_if_not_exists"`
}

// payload is a message as it is sent.
type payload struct {
	Content      string     `json:"content,omitempty"`
	Embeds       []embed    `json:"embeds,omitempty"`
	Allowed      *mentions  `json:"allowed_mentions"`
	Flags        int        `json:"flags,omitempty"`
	Nonce        string     `json:"nonce,omitempty"`
	EnforceNonce bool       `json:"enforce_nonce,omitempty"`
	Reference    *reference `json:"message_reference,omitempty"`
}

// wirePost is a message as it is read back.
type wirePost struct {
	ID        string          `json:"id"`
	Author    wireUser        `json:"author"`
	Content   string          `json:"content"`
	Nonce     json.RawMessage `json:"nonce"`
	Reference *struct {
		MessageID string `json:"message_id"`
	} `json:"message_reference"`
	Interaction *struct {
		ID string `json:"id"`
	} `json:"interaction_metadata"`
	Embeds []struct {
		URL   string `json:"url"`
		Title string `json:"title"`
	} `json:"embeds"`
}

// nonce names a piece of a post, so that Discord gives back the message that is
// there instead of another one, for a few minutes. At most 25 characters.
func nonce(channel, key string, index int) string {
	sum := sha256.Sum256([]byte(channel + "\x00" + key + "\x00" + strconv.Itoa(index)))
	return base64.RawURLEncoding.EncodeToString(sum[:18])
}

// Post sends a draft as one message or more. After an error, repeating it goes on
// where it stopped.
func (d *Discord) Post(ctx context.Context, to chat.Address, draft chat.Draft) (chat.Ref, error) {
	if to.Platform != d.Name() || to.Channel == "" {
		return chat.Ref{}, &chat.PostError{Permanent: true, Err: fmt.Errorf("post to %s: not a Discord address", to)}
	}
	p := &post{d: d, channel: place(to), draft: draft, pieces: render(draft)}
	p.ids = d.sent.get(p.memoryKey())
	if err := p.choose(ctx); err != nil {
		return chat.Ref{}, &chat.PostError{Err: fmt.Errorf("wait for the first answer to an interaction: %w", err)}
	}
	if draft.Again && len(p.ids) < len(p.pieces) && !(p.hook != nil && draft.Ephemeral) {
		p.look(ctx)
	}
	for len(p.ids) < len(p.pieces) {
		id, err := p.send(ctx)
		if err != nil {
			return chat.Ref{}, d.postError(err)
		}
		p.ids = append(p.ids, id)
		d.sent.put(p.memoryKey(), p.ids)
	}
	return chat.Ref{IDs: slices.Clone(p.ids)}, nil
}

// post is a draft on its way.
type post struct {
	d       *Discord
	channel string
	draft   chat.Draft
	pieces  []piece
	ids     []string // of the pieces that are posted
	hook    *handle  // the interaction that it answers, while that can be done
	asked   string   // id of what it answers, empty if nothing
}

func (p *post) memoryKey() string { return p.channel + " " + p.draft.Key }

// choose finds out whether the post can answer an interaction.
func (p *post) choose(ctx context.Context) error {
	p.asked = p.draft.Reply.MessageID
	if len(p.draft.Reply.Handle) == 0 {
		return nil
	}
	var h handle
	if err := json.Unmarshal(p.draft.Reply.Handle, &h); err != nil || h.Token == "" {
		p.d.o.Log.Warn("discord interaction's token lost, answering in the channel", "platform", "discord", "post", p.draft.Key)
		return nil
	}
	p.asked = h.ID
	if p.d.o.Now().Sub(h.Received) >= tokenLife {
		return nil
	}
	p.hook = &h
	return p.d.deferred(ctx, h.Token)
}

// send posts the next piece.
func (p *post) send(ctx context.Context) (string, error) {
	if p.hook != nil {
		id, err := p.answer(ctx)
		if !isCode(err, errUnknownWebhook, errWebhookToken, errUnknownMessage) {
			return id, err
		}
		p.hook = nil // too late for an answer to the interaction: the channel has to do
	}
	body := p.payload()
	body.Nonce, body.EnforceNonce = nonce(p.channel, p.draft.Key, len(p.ids)), true
	if len(p.ids) == 0 && p.draft.Reply.MessageID != "" {
		body.Reference = &reference{MessageID: p.draft.Reply.MessageID}
	}
	var made wirePost
	to := request{method: "POST", path: "/channels/" + p.channel + "/messages", body: body}
	err := p.d.api.do(ctx, to, &made)
	if body.Reference != nil && isCode(err, errReplyRefused, errBadForm) {
		// What is answered is gone, or the bot may not read the channel's history.
		body.Reference = nil
		to.body = body
		err = p.d.api.do(ctx, to, &made)
	}
	return made.ID, err
}

// answer posts the next piece as an answer to the interaction. The first takes
// the place of "thinking", and may be repeated at will.
func (p *post) answer(ctx context.Context) (string, error) {
	path := "/webhooks/" + p.hook.Application + "/" + p.hook.Token
	r := request{method: "PATCH", path: path + "/messages/@original", route: path, free: true, body: p.payload()}
	if len(p.ids) > 0 {
		body := p.payload()
		if p.draft.Ephemeral {
			body.Flags |= flagEphemeral
		}
		r.method, r.path, r.body = "POST", path, body
	}
	var made wirePost
	err := p.d.api.do(ctx, r, &made)
	return made.ID, err
}

func (p *post) payload() payload {
	piece := p.pieces[len(p.ids)]
	body := payload{Content: piece.text, Embeds: piece.embeds, Allowed: nobody()}
	if len(piece.embeds) == 0 {
		body.Flags = flagNoPreviews // with it our own embeds would be hidden too
	}
	return body
}

// look finds the pieces that an earlier attempt has posted, as far as the newest
// messages of the channel show them. Where it cannot, the nonce has to do.
func (p *post) look(ctx context.Context) {
	var recent []wirePost
	err := p.d.api.do(ctx, request{method: "GET", path: "/channels/" + p.channel + "/messages?limit=100"}, &recent)
	if err != nil {
		p.d.o.Log.Warn("discord channel not searched for an earlier attempt", "platform", "discord", "post", p.draft.Key, "error", err)
		return
	}
	slices.Reverse(recent) // oldest first: pieces may be alike
	for len(p.ids) < len(p.pieces) {
		i := slices.IndexFunc(recent, p.is)
		if i < 0 {
			return
		}
		p.ids = append(p.ids, recent[i].ID)
	}
}

// is tells whether a message is the next piece.
func (p *post) is(w wirePost) bool {
	after := p.asked
	if len(p.ids) > 0 {
		after = p.ids[len(p.ids)-1]
	}
	if !newer(w.ID, after) {
		return false
	}
	self := p.d.bot().ID
	if self != "" && w.Author.ID != self {
		return false
	}
	var own string
	if json.Unmarshal(w.Nonce, &own) == nil && own != "" {
		return own == nonce(p.channel, p.draft.Key, len(p.ids))
	}
	next := p.pieces[len(p.ids)]
	if strings.TrimSpace(w.Content) != strings.TrimSpace(next.text) || len(w.Embeds) != len(next.embeds) {
		return false
	}
	for i, e := range next.embeds {
		if w.Embeds[i].URL != e.URL || w.Embeds[i].Title != e.Title {
			return false
		}
	}
	wanted := p.draft.Reply.MessageID
	switch {
	case p.hook != nil:
		return w.Interaction != nil && w.Interaction.ID == p.hook.ID
	case wanted != "" && len(p.ids) == 0:
		return w.Reference != nil && w.Reference.MessageID == wanted
	}
	return true
}

// newer compares ids, which count up with time.
func newer(id, than string) bool {
	return len(id) > len(than) || len(id) == len(than) && id > than
}

// memory knows which pieces of the latest posts are out.
type memory struct {
	mu    sync.Mutex
	ids   map[string][]string
	made  map[string]bool // the ids of all, by themselves
	order []string
}

const maxRemembered = 4096

func newMemory() *memory { return &memory{ids: map[string][]string{}, made: map[string]bool{}} }

func (m *memory) get(key string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.ids[key])
}

func (m *memory) put(key string, ids []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.ids[key]; !known {
		if m.order = append(m.order, key); len(m.order) > maxRemembered {
			for _, id := range m.ids[m.order[0]] {
				delete(m.made, id)
			}
			delete(m.ids, m.order[0])
			m.order = m.order[1:]
		}
	}
	m.ids[key] = slices.Clone(ids)
	for _, id := range ids {
		m.made[id] = true
	}
}

// holds tells whether a message is one that was posted not long ago.
func (m *memory) holds(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[id]
}
