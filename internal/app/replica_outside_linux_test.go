package app_test

import (
	"strings"
	"testing"

	simmodel "ravenbot/internal/testing/sim/model"
)

// TestReplicas_BotOutsideOfTheDatabase_IsReported runs a bot with a file beside replicas, by a mistake: both answer, and
// both say so.
func TestReplicas_BotOutsideOfTheDatabase_IsReported(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 2, 1, nil)
	r.leader()
	r.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("hello") })
	channel := r.discord.AddChannel(r.guilds[0], "both")
	const report = "posts of another process with this token"
	posts := 0
	ask := func(answers int) {
		r.discord.Say(channel.ID, r.anna, r.discord.Mention()+" hello")
		posts += answers
		within(t, "the question is answered", func() bool { return len(r.discord.Posts(channel.ID)) >= posts })
	}
	for range 5 {
		ask(1)
	}
	for i, d := range r.all {
		if strings.Contains(d.out.String(), report) {
			t.Errorf("replica %d takes answers of the other one for those of another bot", i)
		}
	}
	settings := r.base()
	host := ownAddress()
	settings["http"] = map[string]any{"listen": host, "adminToken": "admin-token"}
	outside := r.daemon(settings)
	outside.dir = t.TempDir()
	outside.launch()
	r.all, r.hosts = append(r.all, outside), append(r.hosts, host)
	within(t, "the bot with a file is connected", func() bool { return r.isReady(2) })
	for range 5 {
		ask(2)
	}
	within(t, "both report the other", func() bool {
		isReported := strings.Contains(r.all[0].out.String(), report) || strings.Contains(r.all[1].out.String(), report)
		return isReported && strings.Contains(outside.out.String(), report)
	})
}
