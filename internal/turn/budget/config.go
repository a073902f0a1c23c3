package budget

import (
	"slices"

	"ravenbot/internal/ops/config"
)

// ConfiguredRates returns the prices, budgets and limits of the configuration in effect, which conf returns.
func ConfiguredRates(conf func() *config.Config) Rates { return configuredRates{conf} }

// configuredRates are the prices of the configuration as it is now.
type configuredRates struct{ conf func() *config.Config }

// Caps returns the budgets of a day in US dollars; 0 is no budget.
func (r configuredRates) Caps() Caps {
	b := r.conf().Budget
	return Caps{Instance: b.InstanceDailyUSD, Channel: b.ChannelDailyUSD, User: b.UserDailyUSD, Digest: b.DigestDailyUSD}
}

// Limits returns what a user with some roles may use in a day; 0 is no limit.
func (r configuredRates) Limits(roles []string) Limits {
	c := r.conf().Limits
	l := Limits{MessageChars: c.MessageChars, Messages: c.UserDailyMessages, Files: c.UserDailyFiles,
		Tokens: c.UserDailyTokens}
	var messages, tokens []int
	for role, of := range c.Roles {
		if !slices.Contains(roles, role) {
			continue
		}
		if of.UserDailyMessages != nil {
			messages = append(messages, *of.UserDailyMessages)
		}
		if of.UserDailyTokens != nil {
			tokens = append(tokens, *of.UserDailyTokens)
		}
	}
	l.Messages, l.Tokens = highest(messages, l.Messages), highest(tokens, l.Tokens)
	return l
}

// highest returns the highest of some limits, of which 0 is no limit, or another one if there are none.
func highest(limits []int, otherwise int) int {
	switch {
	case len(limits) == 0:
		return otherwise
	case slices.Contains(limits, 0):
		return 0
	}
	return slices.Max(limits)
}

// AreUsersLimited reports whether anybody's messages or tokens of a day are limited.
func (r configuredRates) AreUsersLimited() bool {
	l := r.conf().Limits
	return l.UserDailyMessages > 0 || l.UserDailyTokens > 0 || len(l.Roles) > 0
}

// Price returns the price of a model by its configured name, or zero.
func (r configuredRates) Price(model string) Price {
	m := r.conf().Models[model]
	return Price{
		InputPerM:  m.Price.InputPerM,
		CachedPerM: m.Price.CachedPerM,
		OutputPerM: m.Price.OutputPerM,
		MaxOutput:  m.MaxOutputTokens,
	}
}
