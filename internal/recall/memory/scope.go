package memory

import (
	"fmt"
	"strings"

	"ravenbot/internal/core/chat"
)

// scope is a user or a channel that has notes.
type scope struct {
	key  string
	whom string // "you" or "this channel"
	word string // what comes before the verb of the command
}

// userScope is the scope of a user, in whatever channel they write.
func userScope(platform, id string) scope {
	return scope{"user/" + platform + "/" + id, "you", ""}
}

// channelScope is the scope of a channel, with its threads.
func channelScope(a chat.Address) scope {
	return scope{"channel/" + a.Base().String(), "this channel", "channel "}
}

// isChannel reports whether a scope is a channel's.
func (of scope) isChannel() bool { return of.word != "" }

// parseScope reads the written form of a scope, as operators use it: user:PLATFORM/ID or channel:ADDRESS. Its error
// is for whoever wrote it.
func parseScope(written string) (scope, error) {
	kind, rest, _ := strings.Cut(written, ":")
	switch kind {
	case "user":
		platform, id, found := strings.Cut(rest, "/")
		if found && platform != "" && id != "" {
			return scope{userScope(platform, id).key, written, ""}, nil
		}
	case "channel":
		if a, err := chat.ParseAddress(rest); err == nil {
			of := channelScope(a)
			of.whom = written
			return of, nil
		}
	}
	return scope{}, userError(fmt.Sprintf("%.80q is not a scope: want user:PLATFORM/ID, such as user:slack/U123, "+
		"or channel:ADDRESS, such as channel:slack:T123/C456", written))
}
