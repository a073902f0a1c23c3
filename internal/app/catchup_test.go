package app_test

import (
	"strings"
	"testing"

	simmodel "ravenbot/internal/sim/model"
	simslack "ravenbot/internal/sim/slack"
)

// Somebody is told what they missed in their channel, alone, with links to the messages and nothing of other channels.
func TestCatchup_OnSlack_CitesTheChannelAlone(t *testing.T) {
	w := newWorld(t)
	carl := w.slack.AddUser("carl")
	secret := w.slack.AddChannel("secret")
	w.slack.Say(w.channel.ID, carl, "We decided to paint the shed green")
	w.slack.Say(secret.ID, carl, "We decided to buy a boat")
	w.model.SetScript(simmodel.Sequence(simmodel.Reply{Text: []string{"DECISION: the shed will be green [1]\nDECISION: no such message [7]"}}))
	b := w.run(w.base())
	call := w.slack.Slash(w.channel.ID, w.berit, "/raven", "catchup 3 hours")
	answer, err := w.slack.WaitAnswer(deadline(t), call, func(a simslack.Answer) bool { return strings.Contains(a.Text, "shed will be green") })
	if err != nil {
		t.Fatal(err)
	}
	all := answer.Text + string(answer.Blocks)
	if answer.InChannel || !strings.Contains(all, "https://") || strings.Contains(all, "no such message") ||
		strings.Contains(all, "boat") {
		t.Errorf("it says, to all %t: %s", answer.InChannel, all)
	}
	asked := w.model.Asked()
	if got := asked[len(asked)-1].LastUserText(); !strings.Contains(got, "paint the shed") ||
		strings.Contains(got, "boat") {
		t.Errorf("the model is given %q", got)
	}
	b.stop()
}
