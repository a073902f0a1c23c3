package audit

import (
	"cmp"
	"context"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// Operator is the identity of the person who has the admin token: over the API, on the pages, on the command line and as
// an MCP host.
const Operator = "web:/admin (operator)"

// maxName is how many characters of a name are shown.
const maxName = 60

// Identity returns the name of a person in the audit, which is the same wherever they act: platform:workspace/ID, with
// the name that they have chosen beside it. The workspace is empty if the ID is the same in all of them.
func Identity(at chat.Address, u chat.User) string {
	switch {
	case u.Operator, at.Platform == chat.HostPlatform:
		return Operator
	case at.Platform == chat.TaskPlatform:
		return "unattended task"
	case u.ID == "":
		return "nobody"
	case u.Global:
		at.Workspace = ""
	}
	id := at.Platform + ":" + at.Workspace + "/" + u.ID
	if name := []rune(text.OneLine(cmp.Or(u.Name, u.Handle))); len(name) > 0 {
		id += " (" + string(name[:min(len(name), maxName)]) + ")"
	}
	return id
}

type actorKey struct{}

// actor is who makes changes, and from where.
type actor struct{ who, from string }

// WithActor returns a context in which changes are recorded under an identity and the address that they come from.
func WithActor(ctx context.Context, who, from string) context.Context {
	return context.WithValue(ctx, actorKey{}, actor{who, from})
}

// findActor returns the actor that WithActor or chat.WithAuthor has set in a context.
func findActor(ctx context.Context) (actor, bool) {
	if a, ok := ctx.Value(actorKey{}).(actor); ok {
		return a, true
	}
	m, ok := chat.AuthorOf(ctx)
	if !ok {
		return actor{}, false
	}
	return actor{Identity(m.Conversation, m.Author), m.Conversation.String()}, true
}

// hasActor reports whether changes in a context are somebody's.
func hasActor(ctx context.Context) bool {
	_, ok := findActor(ctx)
	return ok
}
