package budget_test

import (
	"testing"

	"ravenbot/internal/ops/config"
	"ravenbot/internal/turn/budget"
)

// The limits of a role are in place of the general ones; of several roles the highest counts.
func TestConfiguredRates_LimitsOfRoles(t *testing.T) {
	number := func(n int) *int { return &n }
	c := &config.Config{Limits: config.Limits{UserDailyMessages: 10, UserDailyTokens: 100, Roles: map[string]config.RoleLimits{
		"Guests":  {UserDailyMessages: number(2)},
		"Members": {UserDailyMessages: number(20), UserDailyTokens: number(50)},
		"Staff":   {UserDailyMessages: number(0)},
	}}}
	rates := budget.ConfiguredRates(func() *config.Config { return c })
	for _, tt := range []struct {
		roles            []string
		messages, tokens int
	}{
		{nil, 10, 100},
		{[]string{"R9"}, 10, 100},
		{[]string{"Guests"}, 2, 100},
		{[]string{"Guests", "Members"}, 20, 50},
		{[]string{"Members", "Staff"}, 0, 50},
	} {
		if l := rates.Limits(tt.roles); l.Messages != tt.messages || l.Tokens != tt.tokens {
			t.Errorf("%v: %d messages and %d tokens, want %d and %d", tt.roles, l.Messages, l.Tokens, tt.messages, tt.tokens)
		}
	}
	if !rates.AreUsersLimited() {
		t.Error("nobody is limited")
	}
}
