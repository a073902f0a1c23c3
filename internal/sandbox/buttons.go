package sandbox

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// button is one below a post, and where that is.
type button struct {
	label, id     string
	channel, post string
}

// findButtons finds what can be pressed in the components of Discord or the blocks of Slack.
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
		for _, inner := range []string{"components", "elements", "accessory", "actions"} {
			all = appendButtons(all, v[inner])
		}
	}
	return all
}

// withLabels shows buttons below a text.
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

// press presses the newest button of a label on a platform, if it is still there.
func (w *World) press(ctx context.Context, wg *sync.WaitGroup, win *window, at, label string) {
	current := w.discordButtons
	if at == "slack" {
		current = w.slackButtons
	}
	all := current()
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

// discordButtons are those that can be pressed in #general now, oldest first.
func (w *World) discordButtons() []button {
	var all []button
	for _, p := range w.discord.Posts(w.discordChannel.ID) {
		if !p.Deleted {
			all = append(all, findButtons(p.ChannelID, p.ID, p.Components...)...)
		}
	}
	return all
}

func (w *World) slackButtons() []button {
	var all []button
	for _, p := range w.slack.Posts(w.slackChannel.ID) {
		if !p.Deleted {
			all = append(all, findButtons(p.Channel, p.TS, p.Blocks)...)
		}
	}
	return all
}
