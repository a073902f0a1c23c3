package approval

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// commandName lists and revokes standing approvals.
const commandName = "approvals"

// Commands returns the command that lists and revokes standing approvals.
func (*Queue) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{{
		Name:    commandName,
		Summary: "Tools that need not ask here, and how to change that",
		Help: "lists the tools that need not ask here, because somebody approved them for more than one call; " +
			"`revoke ID` ends that",
		Options: []chat.CommandOption{{Name: "what", Summary: "revoke and the ID from the list; nothing lists them"}},
	}}
}

// handleCommand lists the standing approvals of a place, or revokes one.
func (q *Queue) handleCommand(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	verb, id, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	switch {
	case verb == "":
		return &chat.Draft{Ephemeral: true, Text: q.describeGrants(m)}, nil
	case verb != "revoke" || strings.TrimSpace(id) == "":
		return refusalDraft("Say `approvals`, or `approvals revoke ID`."), nil
	}
	id = strings.Trim(strings.TrimSpace(id), "`")
	for _, g := range q.o.Grants.List() {
		if g.ID != id || g.Where.Base() != m.Conversation.Base() {
			continue
		}
		if !m.AuthorManages() && g.Giver != userKey(m.Conversation, m.Author) {
			return refusalDraft("Only an administrator, or the person who gave it, can revoke this approval."), nil
		}
		err := q.o.Grants.Revoke(ctx, id)
		// It has expired just now, or another process has revoked it.
		if errors.Is(err, store.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		return &chat.Draft{Ephemeral: true, Text: fmt.Sprintf("`%s` asks again from now on.", g.Tool)}, nil
	}
	return refusalDraft("There is no such approval here. `approvals` lists them."), nil
}

// describeGrants returns the standing approvals that count in a place.
func (q *Queue) describeGrants(m chat.Message) string {
	var lines []string
	for _, g := range q.o.Grants.List() {
		if g.Where.Base() != m.Conversation.Base() {
			continue
		}
		line := fmt.Sprintf("- `%s`: in this channel, by %s (`%s`)", g.Tool, plainName(g.By), g.ID)
		switch g.Scope {
		case Reading:
			line = fmt.Sprintf("- reading tools of `%s`, also after text of others: in this channel, by %s (`%s`)",
				plainName(g.Server), plainName(g.By), g.ID)
		case InConversation:
			line = fmt.Sprintf("- `%s`: in one conversation until %s UTC, by %s (`%s`)",
				g.Tool, g.Expires.UTC().Format("15:04"), plainName(g.By), g.ID)
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return "No tool was approved here for more than one call."
	}
	return "These tools need not ask, as long as nothing that others wrote was read, unless it says otherwise:\n\n" +
		strings.Join(lines, "\n") + "\n\n`approvals revoke ID` ends one."
}
