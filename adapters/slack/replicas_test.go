package slack_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	simslack "ravenbot/internal/testing/sim/slack"
)

// alone is the Replicas of a process to which every channel belongs.
type alone struct{}

func (alone) Owns(context.Context, chat.Address) (bool, error) { return true, nil }

func (alone) Processes() int { return 1 }

// as is the Replicas of one of two bots: each channel belongs to one of them.
type as struct {
	owner map[string]int // by channel
	n     int
}

func (a as) Owns(_ context.Context, channel chat.Address) (bool, error) {
	return a.owner[channel.Channel] == a.n, nil
}

func (as) Processes() int { return 2 }

// After an outage a process reads what was missed in its own channels alone.
func TestReplicas_CatchUpInItsOwnChannels(t *testing.T) {
	sim := must(simslack.New(simslack.Options{}))
	t.Cleanup(sim.Close)
	anna := sim.AddUser("anna")
	owner := map[string]int{}
	o := slack.Options{CatchUp: time.Hour}
	var channels []string
	for n := range 2 {
		channel := sim.AddChannel(fmt.Sprint("channel", n)).ID
		channels, owner[channel] = append(channels, channel), n
		sim.Say(channel, anna, "while nobody was there")
	}
	o.LastSeen = func(context.Context) ([]chat.LastSeen, error) {
		var list []chat.LastSeen
		for _, c := range channels {
			at := chat.Address{Platform: "slack", Workspace: simslack.TeamID, Channel: c}
			list = append(list, chat.LastSeen{Conversation: at, At: time.Now()})
		}
		return list, nil
	}
	var bots []*bot
	for n := range 2 {
		o.Replicas = as{owner, n}
		bots = append(bots, join(t, sim, o))
	}
	for n, b := range bots {
		for _, m := range b.wait(t, 1) { // Slack may send it again, too
			if m.Conversation.Channel != channels[n] {
				t.Errorf("process %d read %+v", n, m)
			}
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
