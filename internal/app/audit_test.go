package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// What people change in the chat, who logs in and what tools do stands in the audit, in one chain.
func TestTheAuditHoldsWhatIsChangedInTheChat(t *testing.T) {
	w := newWorld(t)
	w.model.SetScript(useOnce("memory_save"))
	b := w.run(w.base())
	w.slack.Slash(w.channel.ID, w.berit, "/raven", "settings language Norwegian")
	var list struct {
		Items []struct{ Who, From, Action, Target, Hash string }
	}
	find := func(action string) bool {
		if status := b.call(http.MethodGet, "/api/v1/audit", nil, &list); status != http.StatusOK {
			t.Fatalf("the audit has status %d", status)
		}
		for _, e := range list.Items {
			if e.Action == action && e.Hash != "" {
				return strings.HasPrefix(e.Who, "slack/") && strings.HasPrefix(e.From, "slack:")
			}
		}
		return false
	}
	within(t, "the setting is in the audit", func() bool { return find("settings changed") })
	w.slack.Slash(w.channel.ID, w.berit, "/raven", "remind in 2 hours stretch")
	within(t, "the reminder is in the audit", func() bool { return find("job saved") })
	w.slack.Mention(w.channel.ID, w.berit, "use it")
	within(t, "the call is in the audit", func() bool { return find("tool call failed") || find("tool call") })
	var report struct {
		Entries int
		Problem string
	}
	if status := b.call(http.MethodGet, "/api/v1/audit/verify", nil, &report); status != http.StatusOK ||
		report.Entries < 2 || report.Problem != "" {
		t.Errorf("verified with status %d: %+v", status, report)
	}
}
