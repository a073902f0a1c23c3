package kit

import (
	"context"
	"errors"
	"log/slog"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// Mailer posts drafts, and sends those whose places have become unreachable to their owners.
type Mailer struct {
	// Post posts a draft. Its errors are *chat.PostError.
	Post func(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error)
	// Direct returns the direct message with a user. Its errors are *chat.PostError.
	Direct func(ctx context.Context, workspace, user string) (chat.Address, error)
	// Name returns what people call a place; empty: it is not known.
	Name func(ctx context.Context, at chat.Address) string
	Log  *slog.Logger
}

// PostOrTellOwner posts a draft. If its place takes no posts, the owner of the draft receives it by direct message; if
// that is refused, too, the channel of an unreachable thread is told so, without the words of the draft: a private
// thread has fewer readers. A post that went elsewhere has an empty Ref.
func (m Mailer) PostOrTellOwner(ctx context.Context, to chat.Address, d chat.Draft) (chat.Ref, error) {
	ref, err := m.Post(ctx, to, d)
	var refused *chat.PostError
	if d.Owner == "" || !errors.As(err, &refused) || !refused.Unreachable {
		return ref, err
	}
	place := " in " + m.Name(ctx, to)
	if place == " in " {
		place = ""
	}
	why := "I could not post this" + place + ": " + text.EscapeMarkdown(refused.Reason) + "."
	m.Log.Warn("place of a post is unreachable; sending it to its owner", "post", d.Key, "to", to.String(), "error", err)
	letter := d
	letter.Key, letter.Text, letter.Owner, letter.Reply = d.Key+"/owner", why+"\n\n"+d.Text, "", chat.Reply{}
	letter.Replaces, letter.Notify, letter.Tags, letter.Title = chat.Ref{}, nil, nil, ""
	at, directErr := m.Direct(ctx, to.Workspace, d.Owner)
	if directErr == nil {
		_, directErr = m.Post(ctx, at, letter)
	}
	if isPermanent(directErr) && to.Thread != "" {
		notice := chat.Draft{Key: letter.Key, Failed: true, Notify: []string{"user:" + d.Owner}, Again: d.Again, Since: d.Since,
			Text: "I could not post something in a thread here: " + refused.Reason + ". I could not send it by direct message either."}
		_, directErr = m.Post(ctx, to.Base(), notice)
	}
	if isPermanent(directErr) {
		return chat.Ref{}, err
	}
	return chat.Ref{}, directErr
}

// isPermanent reports whether a post was refused for good.
func isPermanent(err error) bool {
	var refused *chat.PostError
	return errors.As(err, &refused) && refused.Permanent
}
