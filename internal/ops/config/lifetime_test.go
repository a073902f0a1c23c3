package config

import (
	"strings"
	"testing"
	"time"
)

func TestRetention(t *testing.T) {
	c := mustLoad(t, `{
		"retention": {"conversations": "90d", "calls": "36h"},
		"channels": [{"match": "slack:T1/C1", "retention": "7d"}, {"match": "slack:T1/C2", "retention": "0"},
			{"match": "slack:T1/C3"}]
	}`, nil, nil)
	for address, want := range map[string]time.Duration{
		"slack:T1/C1": 7 * day, "slack:T1/C1/17.1": 7 * day, "slack:T1/C2": 0, "slack:T1/C3": 90 * day,
		"web:/general": 90 * day,
	} {
		if got := c.RetentionFor(address); got != want {
			t.Errorf("what is said at %s is kept for %v, want %v", address, got, want)
		}
	}
	if got := c.Retention.Calls.String(); got != "36h" {
		t.Errorf("calls are kept for %s", got)
	}
	if c.Retention.Usage.Std() != 400*day || c.Retention.Feedback.Std() != 365*day {
		t.Errorf("the defaults are %+v", c.Retention)
	}
	if !c.LimitsConversations() {
		t.Error("conversations are not limited")
	}
}

func TestConversationsAreKeptWithoutEndByDefault(t *testing.T) {
	if c := mustLoad(t, `{}`, nil, nil); c.LimitsConversations() || c.RetentionFor("web:/general") != 0 {
		t.Errorf("the default retention is %+v", c.Retention)
	}
	if c := mustLoad(t, `{"channels": [{"match": "web:/*", "retention": "1d"}]}`, nil, nil); !c.LimitsConversations() {
		t.Error("the rule of a channel was not noticed")
	}
}

func TestRetentionFaults(t *testing.T) {
	for written, want := range map[string]string{
		`"a while"`:               "is not a time",
		`"-3d"`:                   "is not a time",
		`"99999999999999999999d"`: "is not a time",
		`"5m"`:                    "is too short",
		`90`:                      "expected a time",
		`true`:                    "expected a time",
	} {
		_, err := loadText(t, `{"retention": {"conversations": `+written+`}}`, nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "retention.conversations") {
			t.Errorf("%s: the error is %v, want one with %q", written, err, want)
		}
	}
}
