package budget

import "ravenbot/internal/config"

// ConfiguredRates returns the prices, budgets and limits of the configuration in effect, which conf returns.
func ConfiguredRates(conf func() *config.Config) Rates { return configuredRates{conf} }

// configuredRates are the prices of the configuration as it is now.
type configuredRates struct{ conf func() *config.Config }

// Caps returns the budgets of a day in US dollars; 0 is no budget.
func (r configuredRates) Caps() Caps {
	b := r.conf().Budget
	return Caps{Instance: b.InstanceDailyUSD, Channel: b.ChannelDailyUSD, User: b.UserDailyUSD, Digest: b.DigestDailyUSD}
}

// Limits returns what a user may use in a day; 0 is no limit.
func (r configuredRates) Limits() Limits {
	l := r.conf().Limits
	return Limits{MessageChars: l.MessageChars, Messages: l.UserDailyMessages, Files: l.UserDailyFiles,
		Tokens: l.UserDailyTokens}
}

// Price returns the price of a model by its configured name; it is zero where there is none.
func (r configuredRates) Price(model string) Price {
	m := r.conf().Models[model]
	return Price{
		InputPerM:  m.Price.InputPerM,
		CachedPerM: m.Price.CachedPerM,
		OutputPerM: m.Price.OutputPerM,
		MaxOutput:  m.MaxOutputTokens,
	}
}
