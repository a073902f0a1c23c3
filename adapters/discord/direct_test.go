package discord

import (
	"context"
	"fmt"
	"testing"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
)

// Whatever somebody does in a direct message with the bot is marked as direct, and nothing
// that is done in a server or in a group of several people.
func TestDirect_IsSetOnEveryKindOfEvent(t *testing.T) {
	const group = "20"
	state := discordgo.NewState()
	if err := state.ChannelAdd(&discordgo.Channel{ID: group, Type: discordgo.ChannelTypeGroupDM}); err != nil {
		t.Fatal(err)
	}
	places := map[string]struct {
		place string // fields of the event that say where it happened
		want  bool
	}{
		"direct message":            {`"channel_id":"2","channel":{"type":1},"context":1,"user":{"id":"4"}`, true},
		"server":                    {`"channel_id":"2","guild_id":"3","channel":{"type":0},"context":0,"member":{"user":{"id":"4"}}`, false},
		"group":                     {`"channel_id":"` + group + `","channel":{"type":3},"context":2,"user":{"id":"4"}`, false},
		"unknown group":             {`"channel_id":"21","channel":{"type":3},"user":{"id":"4"}`, false},
		"between two other people":  {`"channel_id":"22","channel":{"type":1},"context":2,"user":{"id":"4"}`, false},
		"direct, nothing more said": {`"channel_id":"2","user":{"id":"4"}`, true},
	}
	interaction := `{"id":"5","application_id":"1","token":"t",%s,`
	for place, p := range places {
		for what, event := range map[string]string{
			"command": interaction + `"type":2,"data":{"name":"raven","options":[{"name":"help"}]}}`,
			"press":   interaction + `"type":3,"data":{"custom_id":"stop","component_type":2},"message":{"id":"7"}}`,
			"form":    interaction + `"type":5,"data":{"custom_id":"f"}}`,
		} {
			d := idle(t)
			d.onInteraction(t.Context(), state, fmt.Appendf(nil, event, p.place))
			checkDirect(t, d, place+", "+what, p.want)
		}
	}
	for _, place := range []string{"direct message", "server", "group"} {
		p := places[place]
		for what, handle := range map[string]func(context.Context, idleShard, []byte){
			"message":  func(_ context.Context, d idleShard, data []byte) { d.onMessage(state, data) },
			"edit":     func(_ context.Context, d idleShard, data []byte) { d.onUpdate(state, data) },
			"deletion": func(_ context.Context, d idleShard, data []byte) { d.onDelete(state, data) },
			"reaction": func(_ context.Context, d idleShard, data []byte) { d.onReaction(state, "MESSAGE_REACTION_ADD", data) },
		} {
			d := idle(t)
			handle(t.Context(), d, fmt.Appendf(nil, `{"id":"5","message_id":"5","user_id":"4","emoji":{"name":"👍"},"author":{"id":"4"},
				"content":"<@1> hi","edited_timestamp":"2026-11-22T00:00:00Z",%s}`, p.place))
			checkDirect(t, d, place+", "+what, p.want)
		}
	}
}

func TestCanThread(t *testing.T) {
	d := New(Options{})
	for at, want := range map[chat.Address]bool{
		{Platform: "discord", Workspace: "3", Channel: "2"}:              true,
		{Platform: "discord", Workspace: "3", Channel: "2", Thread: "5"}: false,
		{Platform: "discord", Workspace: "@me", Channel: "2"}:            false,
	} {
		if d.CanThread(at) != want {
			t.Errorf("%v: can have a thread is %v, want %v", at, !want, want)
		}
	}
}

func checkDirect(t *testing.T, d idleShard, what string, want bool) {
	t.Helper()
	if m := d.one(t); m.Direct != want {
		t.Errorf("%s: direct is %v, want %v", what, m.Direct, want)
	}
}
