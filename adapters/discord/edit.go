package discord

import (
	"context"
	"net/http"
	"slices"
	"strconv"
)

// editPayload is a message that replaces another one. Unlike in a new message, what is left out
// would stay as it was, so every field is sent.
type editPayload struct {
	Content    string      `json:"content"`
	Embeds     []embed     `json:"embeds"`
	Components []buttonRow `json:"components"`
	// Attachments are the files that are there afterwards.
	Attachments []attachmentRef `json:"attachments"`
	Allowed     *mentions       `json:"allowed_mentions"`
	Flags       int             `json:"flags"`
}

// nextEdit returns the next piece as an edit.
func (p *postJob) nextEdit() editPayload {
	next := p.nextPayload()
	body := editPayload{
		Content:     next.Content,
		Embeds:      next.Embeds,
		Components:  next.Components,
		Attachments: next.Attachments,
		Allowed:     next.Allowed,
		Flags:       next.Flags,
	}
	if body.Embeds == nil {
		body.Embeds = []embed{} // null need not clear them
	}
	if body.Components == nil {
		body.Components = []buttonRow{}
	}
	return body
}

// nextReplaced returns the post that the next piece replaces; empty if there is none. From the
// first post on that is gone all are posted again, so that the order is kept.
func (p *postJob) nextReplaced() string {
	old, n := p.draft.Replaces.IDs, len(p.ids)
	if n >= len(old) || old[n] == p.uneditable || !slices.Equal(p.ids, old[:n]) {
		return ""
	}
	return old[n]
}

// editPost replaces a post by the next piece.
func (p *postJob) editPost(ctx context.Context, id string) error {
	return p.callOnPost(ctx, request{method: "PATCH", body: p.nextEdit(), files: p.nextFiles()}, id)
}

// removeSurplus deletes the posts that were to be replaced and are not. One that Discord does not let it delete stays.
func (p *postJob) removeSurplus(ctx context.Context) error {
	for _, id := range p.draft.Replaces.IDs {
		if slices.Contains(p.ids, id) {
			continue
		}
		if err := p.callOnPost(ctx, request{method: "DELETE"}, id); err != nil && !isRefused(err) {
			return err
		}
	}
	return nil
}

// callOnPost edits or deletes a post of the bot by whichever way it can be reached. The answer to
// an interaction is reached by its token for as long as that is valid, and later as a message of
// the channel unless it is for the asker alone.
func (p *postJob) callOnPost(ctx context.Context, r request, id string) error {
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return &apiError{
			what:    r.method + " a post",
			status:  http.StatusNotFound,
			code:    errUnknownMessage,
			message: "this is not an id of Discord",
		}
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
