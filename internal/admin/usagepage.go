package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/budget"
	"ravenbot/internal/chat"
)

// spent is what something has used.
type spent struct {
	name           string
	turns, in, out int
	usd, today     float64
}

// sumUsage adds usage up by names, of which "" counts as nothing; the most expensive comes first.
func sumUsage(list []budget.Usage, today string, name func(budget.Usage) string) []spent {
	sums := map[string]*spent{}
	for _, u := range list {
		n := name(u)
		if n == "" {
			continue
		}
		if sums[n] == nil {
			sums[n] = &spent{name: n}
		}
		sum := sums[n]
		sum.turns, sum.usd = sum.turns+u.Turns, sum.usd+u.USD
		sum.in, sum.out = sum.in+u.Tokens.Input, sum.out+u.Tokens.Output
		if u.Day == today {
			sum.today += u.USD
		}
	}
	var sorted []spent
	for _, sum := range sums {
		sorted = append(sorted, *sum)
	}
	slices.SortFunc(sorted, func(a, b spent) int {
		return cmp.Or(cmp.Compare(b.usd, a.usd), cmp.Compare(b.in+b.out, a.in+a.out), cmp.Compare(a.name, b.name))
	})
	return sorted
}

func (s *Server) loadUsage(r *http.Request, v *listView) error {
	list, err := s.o.Spending.Usage(r.Context())
	today, caps := s.o.Now().UTC().Format(time.DateOnly), s.o.Spending.Caps()
	f := v.addFilter(r)
	list = slices.DeleteFunc(list, func(u budget.Usage) bool { return !f.has(u.Day, u.Channel, u.User, u.Model) })
	for _, t := range []struct {
		title, column string
		budget        float64 // of each row a day; 0: none
		name          func(budget.Usage) string
	}{
		{"Whole bot", "Time", caps.Instance, func(budget.Usage) string { return "30 days" }},
		{"Users", "User", caps.User, func(u budget.Usage) string { return u.User }},
		{"Channels", "Channel", caps.Channel, func(u budget.Usage) string { return channelOf(u, false) }},
		{"Digests", "Digest", caps.Digest, func(u budget.Usage) string { return channelOf(u, true) }},
		{"Models", "Model", 0, func(u budget.Usage) string { return u.Model }},
		{"Days", "Day", 0, func(u budget.Usage) string { return u.Day }},
	} {
		sums := sumUsage(list, today, t.name)
		if t.title == "Days" {
			slices.SortFunc(sums, func(a, b spent) int { return strings.Compare(b.name, a.name) })
		}
		var rows [][]any
		for _, one := range sums {
			rows = append(rows, one.row(t.budget))
		}
		v.addTable("Nothing was used.", rows, t.column, "Answers", "Tokens in", "Tokens out", "Cost", "Cost today",
			"Budget a day").Title = t.title
	}
	return err
}

// channelOf returns the channel, or the digest, for which something was used; "": it was the other of the two.
func channelOf(u budget.Usage, wantsDigest bool) string {
	switch isDigest := u.Usage.Channel.Platform == chat.TaskPlatform; {
	case isDigest != wantsDigest:
		return ""
	case isDigest:
		return u.Usage.Channel.Channel
	}
	return u.Usage.Channel.Base().String()
}

// row returns the row of a table, with the budget of a day; 0: there is none.
func (s spent) row(limit float64) []any {
	left := pill{"", "none"}
	switch {
	case limit > 0 && s.today >= limit:
		left = pill{"failed", fmt.Sprintf("$%.2f, used up", limit)}
	case limit > 0:
		left = pill{"ok", fmt.Sprintf("$%.2f", limit)}
	}
	return []any{s.name, number(budget.FormatCount(s.turns)), number(budget.FormatCount(s.in)), number(budget.FormatCount(s.out)),
		number(fmt.Sprintf("$%.4f", s.usd)), number(fmt.Sprintf("$%.4f", s.today)), left}
}
