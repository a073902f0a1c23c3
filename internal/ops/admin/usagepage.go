package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/turn/budget"
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
	columns := []string{"", "Answers", "Tokens in", "Tokens out", "Cost", "Cost today", "Budget a day"}
	for _, t := range []struct {
		title, column string
		budget        float64 // daily, of each row; 0 if there is no limit
		columns       int     // at most
		name          func(budget.Usage) string
	}{
		{"Whole bot", "Time", caps.Instance, 7, func(budget.Usage) string { return "30 days" }},
		{"Users", "User", caps.User, 7, func(u budget.Usage) string { return u.User }},
		{"Channels", "Channel", caps.Channel, 7, func(u budget.Usage) string { return channelOf(u, false) }},
		{"Digests", "Digest", caps.Digest, 7, func(u budget.Usage) string { return channelOf(u, true) }},
		{"Models", "Model", 0, 6, func(u budget.Usage) string { return u.Model }},
		{"Days", "Day", 0, 5, func(u budget.Usage) string { return u.Day }},
	} {
		sums := sumUsage(list, today, t.name)
		if t.title == "Days" {
			slices.SortFunc(sums, func(a, b spent) int { return strings.Compare(b.name, a.name) })
		}
		if t.budget == 0 {
			t.columns = min(t.columns, 6)
		}
		var rows [][]any
		for _, one := range sums {
			rows = append(rows, one.row(t.budget)[:t.columns])
		}
		names := slices.Concat([]string{t.column}, columns[1:t.columns])
		v.addTable("Nothing was used.", rows, names...).Title = t.title
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

// row returns the row of a table, with the budget of a day.
func (s spent) row(limit float64) []any {
	left := pill{"ok", fmt.Sprintf("$%.2f", limit)}
	if s.today >= limit {
		left = pill{"failed", left.Text + ", used up"}
	}
	count := func(n int) number { return number(budget.FormatCount(n)) }
	return []any{s.name, count(s.turns), count(s.in), count(s.out), number(fmt.Sprintf("$%.4f", s.usd)),
		number(fmt.Sprintf("$%.4f", s.today)), left}
}
