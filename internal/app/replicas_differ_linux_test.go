package app_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// TestReplicas_LeaderLacksAPlatform_NothingIsLost has a leader whose configuration lacks Slack, as where a token is missing
// on its machine: its posts there are sent by the replica that has Slack, which also answers what waits there.
func TestReplicas_LeaderLacksAPlatform_NothingIsLost(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 2, 1, nil)
	follower := r.leader()
	leader := 1 - follower
	r.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("hello") })
	r.all[leader].terminate()
	platforms := maps.Clone(r.all[leader].settings["platforms"].(map[string]any))
	delete(platforms, "slack")
	r.all[leader].settings["platforms"] = platforms
	r.all[leader].launch()
	within(t, "the replica without Slack is connected", func() bool { return r.isReady(leader) })
	r.all[follower].terminate()
	within(t, "the replica without Slack leads", func() bool { return r.leader() == leader })
	r.all[follower].launch()
	within(t, "the replica with Slack is connected", func() bool { return r.isReady(follower) })

	within(t, "the operator is told", func() bool {
		var status struct{ ConfigurationDiffers []string }
		r.api(leader, http.MethodGet, "/api/v1/status", "", &status)
		return slices.Contains(status.ConfigurationDiffers, "platforms") &&
			strings.Contains(r.all[leader].out.String(), "configuration differs") &&
			strings.Contains(r.all[follower].out.String(), "configuration differs")
	})
	channel := r.at(follower)
	r.slack.Slash(channel, r.berit, "/raven", "remind me in 1 second to water the plants")
	if _, err := r.slack.WaitPost(deadline(t), channel, inSlack("water the plants")); err != nil {
		t.Fatal(err)
	}
	// The replica that has Slack is killed while it answers.
	asked, release := make(chan struct{}, 16), make(chan struct{})
	r.model.SetScript(func(simmodel.Request) simmodel.Reply {
		asked <- struct{}{}
		<-release
		return simmodel.Say("a late answer")
	})
	first := r.slack.Mention(channel, r.berit, "hello")
	<-asked
	r.all[follower].kill()
	r.all[follower].launch()
	within(t, "the replica with Slack is connected again", func() bool { return r.isReady(follower) })
	<-asked // by it: the leader leaves it the message
	close(release)
	second := r.slack.Mention(channel, r.berit, "hello again")
	for _, e := range []simslack.Event{first, second} {
		_, err := r.slack.WaitPost(deadline(t), channel, func(p simslack.Post) bool {
			return p.ThreadTS == e.TS && strings.Contains(p.Shown(), "a late answer")
		})
		if err != nil {
			t.Error(err)
		}
	}
	if n := r.slackPostsIn(channel, "a late answer"); n != 2 {
		t.Errorf("%d answers to 2 messages", n)
	}
	if n := r.slackPostsIn(channel, "water the plants"); n != 1 {
		t.Errorf("reminded %d times", n)
	}
}
