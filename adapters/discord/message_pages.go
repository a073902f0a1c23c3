package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
)

// wirePost is a message of a channel's history, or as an event brings it. Nonce is set where a bot posted it by this
// protocol: a string, in some clients a number.
type wirePost struct {
	wireMessage
	Nonce json.RawMessage `json:"nonce"`
}

const pageSize = 100 // messages, the most that Discord gives at once

// readHistory returns the messages that follow an id, oldest first, up to a page; next is where the
// following page begins, if there may be one. Without an id it reads the newest page.
func (d *Discord) readHistory(ctx context.Context, channel, after string) (list []wirePost, next string, err error) {
	path := "/channels/" + channel + "/messages"
	r := request{method: "GET", path: path + "?limit=" + strconv.Itoa(pageSize), route: "GET" + path}
	if after != "" {
		r.path += "&after=" + after
	}
	var raw []json.RawMessage
	if err := d.api.do(ctx, r, &raw); err != nil {
		return nil, "", err
	}
	for _, data := range raw {
		var w wirePost
		if err := json.Unmarshal(data, &w); err != nil {
			d.o.Log.Warn("failed to decode a discord message", "platform", "discord", "channel", channel, "error", err)
			continue
		}
		list = append(list, w)
	}
	if len(list) == 0 {
		return nil, "", d.checkReadable(ctx, channel, after)
	}
	slices.SortFunc(list, func(a, b wirePost) int { return compareIDs(a.ID, b.ID) })
	// A page that does not lead further on would be asked for without end.
	if last := list[len(list)-1].ID; len(raw) >= pageSize && after != "" && isNewer(last, after) {
		next = last
	}
	return list, next, nil
}

// checkReadable returns an error if an empty history may not be read at all: without the permission
// Discord shows an empty history, but refuses to show a single message.
func (d *Discord) checkReadable(ctx context.Context, channel, message string) error {
	if message == "" {
		message = channel
	}
	err := d.api.do(
		ctx,
		request{
			method: "GET",
			path:   "/channels/" + channel + "/messages/" + message,
			route:  "GET/channels/" + channel + "/messages/one",
		},
		nil,
	)
	if isCode(err, errUnknownMessage) {
		return nil
	}
	return err
}

// compareIDs orders ids, which count up with time.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// isNewer reports whether a message came after another one; every id is newer than "".
func isNewer(id, than string) bool { return compareIDs(id, than) > 0 }
