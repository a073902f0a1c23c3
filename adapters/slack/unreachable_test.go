package slack_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/testing/sim"
	simslack "ravenbot/internal/testing/sim/slack"
)

func TestPost_PlaceUnreachable_ReachesItsOwner(t *testing.T) {
	b := start(t, simslack.Options{}, slack.Options{})
	anna := b.sim.AddUser("anna")
	archived, foreign := b.sim.AddChannel("old").ID, b.sim.AddOtherChannel("foreign").ID
	up(t, b)
	b.sim.Archive(archived)
	for channel, why := range map[string]string{archived: "#old: the channel is archived", foreign: "invite the bot"} {
		to := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: channel}
		var fault *chat.SetupError
		if err := b.CheckPost(deadline(t), to, nil); !errors.As(err, &fault) {
			t.Errorf("%s: checked with %v, want a fault", channel, err)
		}
		d := chat.Draft{Key: "job/" + channel, Text: "⏰ call Bob", Notify: []string{"user:" + anna.ID}, Owner: anna.ID}
		if ref, err := b.Post(deadline(t), to, d); err != nil || len(ref.IDs) != 0 {
			t.Errorf("%s: %+v, %v", channel, ref, err)
		}
		shown := standing(b, b.sim.AddDM(anna).ID)
		if last := shown[len(shown)-1]; !strings.Contains(last, "call Bob") ||
			!strings.Contains(last, strings.TrimPrefix(why, "#")) {
			t.Errorf("%s: the owner is told %q", channel, last)
		}
		d.Owner = ""
		var refused *chat.PostError
		if _, err := b.Post(deadline(t), to, d); !errors.As(err, &refused) || !refused.Unreachable {
			t.Errorf("%s: without an owner %v", channel, err)
		}
	}
	fine := b.sim.AddChannel("general").ID
	if err := b.CheckPost(deadline(t), chat.Address{Platform: "slack", Channel: fine}, nil); err != nil {
		t.Error(err)
	}
	if err := b.CheckPost(deadline(t), chat.Address{Platform: "slack", Channel: b.sim.AddDM(anna).ID}, nil); err != nil {
		t.Error(err)
	}
}

func TestPost_RefusedForItsLength_ComesInSmallerPieces(t *testing.T) {
	for _, word := range []string{"msg_too_long", "msg_blocks_too_long"} {
		b := start(t, simslack.Options{}, slack.Options{})
		channel := b.sim.AddChannel("general").ID
		up(t, b)
		b.sim.Fail(sim.Fault{Match: func(r sim.Request) bool {
			return strings.HasSuffix(r.Path, "/chat.postMessage") && len(r.Body) > 8000
		}, Status: http.StatusOK, Body: `{"ok":false,"error":"` + word + `"}`})
		words := strings.Repeat("A **sentence** of some length. ", 300)
		ref, err := b.Post(deadline(t), chat.Address{Channel: channel}, chat.Draft{Key: "k", Text: words, Footer: "the end"})
		if err != nil {
			t.Fatal(err)
		}
		posts := standing(b, channel)
		all := strings.Join(posts, " ")
		if len(posts) < 2 || len(posts) != len(ref.IDs) || strings.Count(all, "A *sentence*") != 300 ||
			strings.Count(all, "the end") == 0 {
			t.Errorf("%s: %d posts with %d sentences", word, len(posts), strings.Count(all, "A *sentence*"))
		}
	}
}
