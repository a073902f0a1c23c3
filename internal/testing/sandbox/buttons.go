package sandbox

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// button is a button below a post, with the place of the post.
type button struct {
	label, id     string
	channel, post string
}

// findButtons returns the buttons in the components of Discord or the blocks of Slack.
func findButtons(channel, post string, raw ...json.RawMessage) []button {
	var all []button
	for _, r := range raw {
		var v any
		if json.Unmarshal(r, &v) == nil {
			all = appendButtons(all, v)
		}
	}
	for i := range all {
		all[i].channel, all[i].post = channel, post
	}
	return all
}

// appendButtons appends the buttons inside a JSON value.
func appendButtons(all []button, v any) []button {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = appendButtons(all, e)
		}
	case map[string]any:
		b := button{}
		switch v["type"] {
		case float64(2): // Discord's
			b.label, _ = v["label"].(string)
			b.id, _ = v["custom_id"].(string)
		case "button": // Slack's
			text, _ := v["text"].(map[string]any)
			b.label, _ = text["text"].(string)
			b.id, _ = v["action_id"].(string)
			if v["url"] != nil {
				b.id = "" // a link
			}
		}
		if b.label != "" && b.id != "" {
			return append(all, b)
		}
		// These are the members that hold further components on either platform.
		for _, inner := range []string{"components", "elements", "accessory", "actions"} {
			all = appendButtons(all, v[inner])
		}
	}
	return all
}

// withLabels returns a text with the labels of its buttons below.
func withLabels(text string, all []button) string {
	if len(all) == 0 {
		return text
	}
	text += "\n"
	for _, b := range all {
		text += "[" + b.label + "] "
	}
	return text
}

// press presses the newest button with a label on a platform, if there is one.
func (w *World) press(ctx context.Context, wg *sync.WaitGroup, win *window, at, label string) {
	current := w.discordButtons
	if at == "slack" {
		current = w.slackButtons
	}
	// Posts may have lost their buttons since they were shown, so the buttons are read again.
	all := current()
	// The newest post comes last.
	slices.Reverse(all)
	i := slices.IndexFunc(all, func(b button) bool { return strings.EqualFold(b.label, label) })
	switch {
	case i < 0:
		win.show(at, "sandbox", "there is no button "+label+" there")
	case at == "slack":
		w.awaitSlack(ctx, wg, win, w.slack.Click(all[i].channel, all[i].post, w.slackUser, all[i].id))
	default:
		w.awaitDiscord(ctx, wg, win, w.discord.Click(all[i].post, w.discordUser, all[i].id))
	}
}

// discordButtons returns the buttons in #general, oldest first.
func (w *World) discordButtons() []button {
	var all []button
	for _, p := range w.discord.Posts(w.discordChannel.ID) {
		if !p.Deleted {
			all = append(all, findButtons(p.ChannelID, p.ID, p.Components...)...)
		}
	}
	return all
}

// slackButtons returns the buttons in #general, oldest first.
func (w *World) slackButtons() []button {
	var all []button
	for _, p := range w.slack.Posts(w.slackChannel.ID) {
		if !p.Deleted {
			all = append(all, findButtons(p.Channel, p.TS, p.Blocks)...)
		}
	}
	return all
}
