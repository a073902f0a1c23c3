package slack

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
)

// Whatever somebody does in a direct message with the bot is marked as direct, and nothing
// that is done in a channel or in a direct message of several people.
func TestDirect_IsSetOnEveryKindOfEvent(t *testing.T) {
	s := New(Options{Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.self = botIdentity{team: "T1", user: "U1", bot: "B1"}
	for _, place := range []struct {
		channel, kind string
		want          bool
	}{{"D1", "im", true}, {"C1", "channel", false}, {"G1", "group", false}, {"G2", "mpim", false}, {"C2", "mpim", false}} {
		at := fmt.Sprintf(`"channel":%q,"channel_type":%q`, place.channel, place.kind)
		event := func(fields string) func() (chat.Message, bool) {
			return func() (chat.Message, bool) {
				payload := `{"team_id":"T1","event":{` + at + "," + fields + "}}"
				return s.parseRequest(request{Kind: eventsKind, Payload: json.RawMessage(payload)})
			}
		}
		const old, edited = `{"user":"U2","text":"a","ts":"1700000000.000001"}`, `{"user":"U2","text":"b",` +
			`"ts":"1700000000.000001","edited":{"ts":"1700000001.000000"}}`
		for what, read := range map[string]func() (chat.Message, bool){
			"message": event(`"type":"message","user":"U2","text":"<@U1> hi","ts":"1700000000.000001"`),
			"reply in a thread": event(`"type":"message","user":"U2","text":"hi","ts":"1700000001.000001",` +
				`"thread_ts":"1700000000.000001"`),
			"edit": event(`"type":"message","subtype":"message_changed","message":` + edited + `,"previous_message":` +
				old),
			"deletion": event(`"type":"message","subtype":"message_deleted","deleted_ts":"1700000002.000001",` +
				`"previous_message":` + old),
			"bare deletion": event(`"type":"message","subtype":"message_deleted","deleted_ts":"1700000002.000001"`),
			"reaction": event(`"type":"reaction_added","user":"U2","reaction":"+1","item_user":"U1",
				"item":{"type":"message","channel":"` + place.channel + `","ts":"1700000000.000001"}`),
			"command": func() (chat.Message, bool) {
				return s.parseCommand(wireCommand{ChannelID: place.channel, UserID: "U2", Text: "help", TriggerID: "1"})
			},
			"press": func() (chat.Message, bool) {
				return s.parseInteraction([]byte(`{"type":"block_actions","trigger_id":"1","user":{"id":"U2"},"channel":{"id":"` +
					place.channel + `"},
					"container":{"message_ts":"1.1"},"actions":[{"action_id":"ravenbot-0","value":"stop"}]}`))
			},
			"form": func() (chat.Message, bool) {
				state, err := json.Marshal(formState{Form: "f", At: chat.Address{Platform: "slack", Workspace: "T1",
					Channel: place.channel}})
				if err != nil {
					t.Fatal(err)
				}
				return s.parseInteraction(fmt.Appendf(nil,
					`{"type":"view_submission","user":{"id":"U2"},"view":{"id":"V1","callback_id":%q,"private_metadata":%q}}`,
					formID, state))
			},
		} {
			if m, ok := read(); !ok || m.Direct != place.want {
				t.Errorf("%s in %s (%s): direct is %v, want %v; read: %v", what, place.channel, place.kind,
					m.Direct, place.want, ok)
			}
		}
	}
}
