package discord

import (
	"context"
	"net/http"
	"slices"
	"strconv"
)

// rewriting is a message as it replaces another: what is left out would stay.
type rewriting struct {
	Content    string  `json:"content"`
	Embeds     []embed `json:"embeds"`
	Components []row   `json:"components"`
	// Attachments are the files that are there afterwards.
	Attachments []attached `json:"attachments"`
	Allowed     *mentions  `json:"allowed_mentions"`
	Flags       int        `json:"flags"`
}

// rewriting is the next piece as it takes a place.
func (p *post) rewriting() rewriting {
	next := p.payload()
	body := rewriting{Content: next.Content, Embeds: next.Embeds, Components: next.Components, Attachments: next.Attachments, Allowed: next.Allowed, Flags: next.Flags}
	if body.Embeds == nil {
		body.Embeds = []embed{} // null need not clear them
	}
	if body.Components == nil {
		body.Components = []row{}
	}
	return body
}

// inPlace is the post whose place the next piece takes, if any. From the first one
// that is gone on all are posted anew, so that they stay in order.
func (p *post) inPlace() string {
	old, n := p.draft.Replaces.IDs, len(p.ids)
	if n >= len(old) || old[n] == p.gone || !slices.Equal(p.ids, old[:n]) {
		return ""
	}
	return old[n]
}

// edit puts the next piece in the place of a post. The answer to an interaction
// can be edited as one for as long as its token lives; for ever as a message of
// the channel, unless it is for the asker alone.
func (p *post) edit(ctx context.Context, id string) error {
	return p.onPost(ctx, request{method: "PATCH", body: p.rewriting(), files: p.files()}, id)
}

// removeSurplus deletes the posts that were to be replaced and are not.
func (p *post) removeSurplus(ctx context.Context) error {
	for _, id := range p.draft.Replaces.IDs {
		if id == p.gone || slices.Contains(p.ids, id) {
			continue
		}
		if err := p.onPost(ctx, request{method: "DELETE"}, id); err != nil && !refused(err) {
			return err
		}
	}
	return nil
}

// onPost does something to a post of the bot, whichever way it can be reached.
func (p *post) onPost(ctx context.Context, r request, id string) error {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return &apiError{what: r.method + " a post", status: http.StatusNotFound, code: errUnknownMessage, message: "this id is none of Discord's"}
	}
	if p.hook != nil {
		r.path, r.route, r.free = p.hook.path()+"/messages/"+id, p.hook.path(), true
		err := p.d.api.do(ctx, r, nil)
		if !isCode(err, errUnknownWebhook, errWebhookToken, errUnknownMessage) {
			return err
		}
	}
	path := "/channels/" + p.channel + "/messages"
	r.path, r.route, r.free = path+"/"+id, r.method+path, false
	return p.d.api.do(ctx, r, nil)
}
