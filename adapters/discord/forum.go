package discord

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// Rules of forums and media channels, in which a post is a thread with a title.
const (
	flagRequireTag = 1 << 4
	maxTags        = 5 // of a post
	untitled       = "Digest"
)

// forumChannel is what Discord says of a channel that may be a forum.
type forumChannel struct {
	ID    string                `json:"id"`
	Type  discordgo.ChannelType `json:"type"`
	Name  string                `json:"name"`
	Flags int                   `json:"flags"`
	Tags  []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"available_tags"`
}

// isForum reports whether posts in a channel of some kind are threads.
func isForum(kind discordgo.ChannelType) bool {
	return kind == discordgo.ChannelTypeGuildForum || kind == discordgo.ChannelTypeGuildMedia
}

// tagIDs returns the ids of the tags with some names, in capitals or not. The error is a *chat.SetupError.
func (f forumChannel) tagIDs(names []string) ([]string, error) {
	var known, ids []string
	for _, t := range f.Tags {
		known = append(known, t.Name)
	}
	fault := func(reason string) error {
		remedy := "make tags in the forum's settings"
		if len(known) > 0 {
			remedy = "name some of its tags: " + strings.Join(known, ", ")
		}
		return &chat.SetupError{Reason: reason, Remedy: remedy}
	}
	if !isForum(f.Type) {
		if len(names) > 0 {
			return nil, &chat.SetupError{
				Reason: "the channel " + f.Name + " is not a forum and has no tags",
				Remedy: "remove the tags",
			}
		}
		return nil, nil
	}
	for _, name := range names {
		i := slices.IndexFunc(known, func(tag string) bool { return strings.EqualFold(tag, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, fault(fmt.Sprintf("the forum %s has no tag %q", f.Name, name))
		}
		if !slices.Contains(ids, f.Tags[i].ID) {
			ids = append(ids, f.Tags[i].ID)
		}
	}
	switch {
	case len(ids) > maxTags:
		return nil, fault(fmt.Sprintf("a post in a forum has %d tags at most", maxTags))
	case len(ids) == 0 && f.Flags&flagRequireTag != 0:
		return nil, fault("each post in the forum " + f.Name + " needs a tag")
	}
	return ids, nil
}

// CheckPost returns a *chat.SetupError if a post with tags cannot be made in a place, because its tags do not fit or
// Discord does not show the place to the bot or lets it not write there, and another error if Discord cannot be asked.
func (d *Discord) CheckPost(ctx context.Context, to chat.Address, tags []string) error {
	f, err := d.fetchForum(ctx, channelOf(to))
	var e *apiError
	if isRefused(err) && errors.As(err, &e) {
		return &chat.SetupError{Reason: refusalReason(e)}
	}
	if err == nil {
		_, err = f.tagIDs(tags)
	}
	return err
}

// fetchForum asks Discord for a channel with its tags, each time: somebody may have changed them a moment ago.
func (d *Discord) fetchForum(ctx context.Context, channel string) (forumChannel, error) {
	ctx, cancel := context.WithTimeout(ctx, channelTimeout)
	defer cancel()
	var f forumChannel
	err := d.api.do(ctx, request{method: "GET", path: "/channels/" + channel}, &f)
	return f, err
}

// isForumAddress reports whether a post to an address begins a thread in a forum, as far as it is known.
func (d *Discord) isForumAddress(ctx context.Context, to chat.Address) bool {
	if to.Thread != "" || to.Workspace == directGuild {
		return false
	}
	state, _ := d.stateOf(ctx, to.Workspace)
	return isForum(d.channelInfo(ctx, state, to.Workspace, to.Channel).kind)
}

// enterForum begins the thread of a post where its channel is a forum, with the first piece as its first message, or
// finds the one that an earlier attempt began. What is left of the post goes into the thread.
func (p *postJob) enterForum(ctx context.Context, to chat.Address) error {
	if !p.d.isForumAddress(ctx, to) {
		return nil
	}
	p.home = to.Channel
	if len(p.ids) == 0 && p.draft.Again {
		if err := p.findForumThread(ctx, to); err != nil {
			return err
		}
	}
	if len(p.ids) == 0 {
		if err := p.beginForumThread(ctx); err != nil {
			return err
		}
		// Before anything else can fail: another attempt must not begin a second thread.
		p.d.sent.put(p.memoryKey(), outcome{ids: p.ids, repeated: p.repeated})
	}
	p.channel = p.ids[0] // the thread has the id of its first message
	p.d.parents.Put(p.channel, to.Channel)
	return nil
}

// forumTitle returns the title of the draft's thread, by which a repeat also finds it.
func (p *postJob) forumTitle() string {
	return cmp.Or(cutText(strings.Join(strings.Fields(p.draft.Title), " "), maxThreadName), untitled)
}

// beginForumThread posts the first piece as a thread of its own.
func (p *postJob) beginForumThread(ctx context.Context) error {
	forum, err := p.d.fetchForum(ctx, p.home)
	if err != nil {
		return p.d.postError(err)
	}
	tags, err := forum.tagIDs(p.draft.Tags)
	if err != nil {
		return &chat.PostError{Permanent: true, Err: err}
	}
	for {
		body := struct {
			Name    string   `json:"name"`
			Tags    []string `json:"applied_tags,omitempty"`
			Message payload  `json:"message"`
		}{p.forumTitle(), tags, p.nextPayload()}
		body.Message.Attachments = nil // files follow in the thread
		var thread struct {
			ID string `json:"id"`
		}
		err := p.d.api.do(ctx, request{method: "POST", path: "/channels/" + p.home + "/threads", body: body}, &thread)
		if err == nil {
			p.ids = []string{thread.ID}
			return nil
		}
		if !p.simplifyAfter(err) {
			return p.d.postError(err)
		}
	}
}

// findForumThread finds the thread that an earlier attempt began: of the bot, with the same title, and not older than
// that attempt. Threads have no nonce by which Discord itself would know a repeat (reference of 2026-11).
func (p *postJob) findForumThread(ctx context.Context, to chat.Address) error {
	var active struct {
		Threads []struct {
			ID     string `json:"id"`
			Parent string `json:"parent_id"`
			Owner  string `json:"owner_id"`
			Name   string `json:"name"`
		} `json:"threads"`
	}
	err := p.d.api.do(ctx, request{method: "GET", path: "/guilds/" + to.Workspace + "/threads/active"}, &active)
	switch {
	case isRefused(err):
		p.markRepeat()
		return nil
	case err != nil:
		return p.d.lookError(err)
	}
	since := ""
	if !p.draft.Since.IsZero() {
		since = snowflake(p.draft.Since.Add(-clockSkew))
	}
	self := p.d.botUser().ID
	for _, t := range active.Threads {
		if t.Parent == to.Channel && t.Name == p.forumTitle() && (self == "" || t.Owner == self) && isNewer(t.ID, since) {
			p.ids = []string{t.ID}
			return nil
		}
	}
	return nil
}
