// Package billing is the native tool pack that computes electricity bills from a tariff file: from ringgit to kWh,
// from kWh to ringgit, and the effect of a solar system. It promises exact decimal sums, rounded once (half up to the
// sen, on the total), an inverse that is exact to the sen, and that every answer names the tariff with its dates. It
// computes only the contents of the file: no taxes, rebates or fuel adjustments.
package billing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"ravenbot/internal/core/tool"
)

// Tools returns the pack over a tariff. now tells whether that is still in force.
func Tools(t *Tariff, now func() time.Time) []tool.Tool {
	p := pack{t, now}
	return []tool.Tool{
		p.tool("tnb_bill_rm_to_kwh", "Says how many kWh a month's electricity bill stands for: the smallest consumption, "+
			"in steps of 0.01 kWh, that is billed exactly so.",
			`{"type":"object","properties":{"rm":{"type":"number","minimum":0,"maximum":1000000,"description":"the bill in `+
				`ringgit, with at most two decimals"}},"required":["rm"]}`, p.kwhOf),
		p.tool("tnb_bill_kwh_to_rm", "Says what a month's electricity consumption costs, block by block.",
			`{"type":"object","properties":{"kwh":{"type":"number","minimum":0,"maximum":1000000,"description":"the month's `+
				`consumption in kWh"}},"required":["kwh"]}`, p.billOf),
		p.tool("calculate_solar_impact", "Says what a solar system changes about a month's electricity bill: the bill "+
			"before and after, the saving, and the kWh exported.",
			`{"type":"object","properties":{"monthlyKWh":{"type":"number","minimum":0,"maximum":1000000,"description":"the `+
				`month's consumption in kWh"},`+
				`"systemKWp":{"type":"number","minimum":0,"maximum":10000,"description":"size of the system in kWp"},`+
				`"sunHoursPerDay":{"type":"number","minimum":0,"maximum":24,"description":"peak sun hours a day"},`+
				`"directShare":{"type":"number","minimum":0,"maximum":1,"description":"share of what the system makes that is `+
				`used directly, 0 to 1"}},`+
				`"required":["monthlyKWh","systemKWp","sunHoursPerDay","directShare"]}`,
			p.solar,
		),
	}
}

type pack struct {
	tariff *Tariff
	now    func() time.Time
}

// answer is what a calculation says: in words, and as data.
type answer struct {
	text string
	data map[string]any
}

// tool returns a tool that computes an answer and says by which tariff. An error of calculate is
// for the model.
func (p pack) tool(name, does, schema string, calculate func(args json.RawMessage) (answer, error)) tool.Tool {
	yes, no := true, false
	return tool.Func{
		Described: tool.Spec{Server: "billing", Name: name, As: name, Native: true, Schema: json.RawMessage(schema),
			Description: does + " Computed with " + p.tariff.title() + ".",
			Hints:       tool.Hints{ReadOnly: &yes, OpenWorld: &no}},
		Do: func(_ context.Context, args json.RawMessage) (tool.Result, error) {
			a, err := calculate(args)
			if err != nil {
				return tool.Failure("Nothing was computed: " + err.Error() + "."), nil
			}
			a.data["tariff"] = p.tariff.name
			data, err := json.Marshal(a.data)
			return tool.Result{Text: a.text + "\n\n" + p.tariff.about(p.now()), Structured: data}, err
		},
	}
}

// title names the tariff with its dates.
func (t *Tariff) title() string {
	if t.to == "" {
		return fmt.Sprintf("%s, valid from %s", t.name, t.from)
	}
	return fmt.Sprintf("%s, valid %s to %s", t.name, t.from, t.to)
}

// about says what a sum rests on.
func (t *Tariff) about(now time.Time) string {
	s := fmt.Sprintf("Tariff: %s. The total is rounded half up to the sen. The minimum charge is %s. Source: %s",
		t.title(), t.money(t.minimum), t.source)
	if today := now.UTC().Format(time.DateOnly); t.to != "" && today > t.to {
		s += "\n\nThis tariff is history: bills for what was used after " + t.to + " are made otherwise."
	}
	return s
}

// money writes a sum of sen.
func (t *Tariff) money(sen int64) string { return t.currency + " " + ringgit(sen) }

// ringgit returns a sum in ringgit with two decimals.
func ringgit(sen int64) string { return fmt.Sprintf("%d.%02d", sen/100, sen%100) }

// sum and amount are numbers in data, as exact as they are written.
func sum(sen int64) json.Number { return json.Number(ringgit(sen)) }

// amount returns an energy as a number of JSON with two decimals.
func amount(kwh *big.Rat) json.Number { return json.Number(plain(kwh, 2)) }

var errMissing = errors.New("a number is missing")

// billOf returns what a consumption costs, with what each block adds.
func (p pack) billOf(args json.RawMessage) (answer, error) {
	var in struct{ KWh decimal }
	if err := json.Unmarshal(args, &in); err != nil {
		return answer{}, err
	}
	if in.KWh.Rat == nil {
		return answer{}, errMissing
	}
	t := p.tariff
	var text strings.Builder
	bill := t.bill(in.KWh.Rat)
	fmt.Fprintf(&text, "%s kWh are billed %s.\n", plain(in.KWh.Rat, 2), t.money(bill))
	for _, l := range t.lines(in.KWh.Rat) {
		fmt.Fprintf(&text, "\n- %s kWh at %s sen: %s %s", plain(l.kwh, 2), plain(l.rate, 2), t.currency,
			plain(inRinggit(l.cost), 2))
	}
	if bill == t.minimum && t.minimum > 0 {
		text.WriteString("\n\nThat is the minimum charge.")
	}
	return answer{text.String(), map[string]any{"kwh": amount(in.KWh.Rat), "rm": sum(bill)}}, nil
}

// inRinggit returns an exact sum in ringgit.
func inRinggit(sen *big.Rat) *big.Rat { return new(big.Rat).Quo(sen, big.NewRat(100, 1)) }

// kwhOf returns which consumptions have a bill: one, a range, or none.
func (p pack) kwhOf(args json.RawMessage) (answer, error) {
	var in struct{ RM decimal }
	if err := json.Unmarshal(args, &in); err != nil {
		return answer{}, err
	}
	if in.RM.Rat == nil {
		return answer{}, errMissing
	}
	if !whole(in.RM.Rat, 2) {
		return answer{}, fmt.Errorf("no bill has a part of a sen, as %s has", plain(in.RM.Rat, 2))
	}
	t, sen := p.tariff, round(new(big.Rat).Mul(in.RM.Rat, big.NewRat(100, 1)))
	if sen < t.minimum {
		return answer{fmt.Sprintf("No consumption is billed %s: the minimum charge is %s.", t.money(sen), t.money(t.minimum)),
			map[string]any{"rm": sum(sen), "exact": false, "minimumRm": sum(t.minimum)}}, nil
	}
	low := t.first(sen)
	if got := t.bill(step(low)); got != sen {
		return p.between(sen, low), nil
	}
	// A bill never falls with the consumption, so that all steps of one sum are neighbours.
	high := t.first(sen+1) - 1
	data := map[string]any{"rm": sum(sen), "exact": true, "kwh": amount(step(low)), "upToKWh": amount(step(high))}
	switch from, to := plain(step(low), 2), plain(step(high), 2); {
	case sen == t.minimum && t.minimum > 0:
		return answer{fmt.Sprintf("%s is the minimum charge: every consumption from %s to %s kWh is billed so.", t.money(sen),
			from, to), data}, nil
	case low < high:
		return answer{fmt.Sprintf("%s is the bill for %s kWh, and for everything up to %s kWh.", t.money(sen),
			from, to), data}, nil
	default:
		return answer{fmt.Sprintf("%s is the bill for %s kWh.", t.money(sen), from), data}, nil
	}
}

// between tells the neighbours of a sum that nothing is billed; the consumption
// above is the first that costs more.
func (p pack) between(sen, above int64) answer {
	t := p.tariff
	below := above - 1 // there is one: nothing at all costs the minimum, and that is less
	less, more := t.bill(step(below)), t.bill(step(above))
	return answer{
		fmt.Sprintf("No consumption, in steps of 0.01 kWh, is billed exactly %s: %s kWh are billed %s and %s kWh %s.",
			t.money(sen), plain(step(below), 2), t.money(less), plain(step(above), 2), t.money(more)),
		map[string]any{"rm": sum(sen), "exact": false, "below": map[string]any{"kwh": amount(step(below)), "rm": sum(less)},
			"above": map[string]any{"kwh": amount(step(above)), "rm": sum(more)}}}
}

// days is how long a month of sun is.
const days = 30

// solar returns the monthly bill without and with a solar system. What it exports earns nothing.
func (p pack) solar(args json.RawMessage) (answer, error) {
	var in struct{ MonthlyKWh, SystemKWp, SunHoursPerDay, DirectShare decimal }
	if err := json.Unmarshal(args, &in); err != nil {
		return answer{}, err
	}
	if in.MonthlyKWh.Rat == nil || in.SystemKWp.Rat == nil || in.SunHoursPerDay.Rat == nil || in.DirectShare.Rat == nil {
		return answer{}, errMissing
	}
	if in.SunHoursPerDay.Cmp(big.NewRat(24, 1)) > 0 || in.DirectShare.Cmp(big.NewRat(1, 1)) > 0 {
		return answer{}, errors.New("a day has at most 24 hours, and a share is at most 1")
	}
	t := p.tariff
	daily := new(big.Rat).Mul(in.SystemKWp.Rat, in.SunHoursPerDay.Rat)
	made := metered(daily.Mul(daily, big.NewRat(days, 1)))
	direct := metered(new(big.Rat).Mul(made, in.DirectShare.Rat))
	if direct.Cmp(in.MonthlyKWh.Rat) > 0 {
		direct = in.MonthlyKWh.Rat
	}
	exported, bought := new(big.Rat).Sub(made, direct), new(big.Rat).Sub(in.MonthlyKWh.Rat, direct)
	before, after := t.bill(in.MonthlyKWh.Rat), t.bill(bought)
	text := strings.Join([]string{
		fmt.Sprintf("The bill is %s before and %s after, a saving of %s a month.", t.money(before), t.money(after),
			t.money(before-after)),
		"",
		fmt.Sprintf("- made: %s kWh a month of %d days", plain(made, 2), days),
		fmt.Sprintf("- used directly: %s kWh", plain(direct, 2)),
		fmt.Sprintf("- exported: %s kWh, for which the tariff credits nothing", plain(exported, 2)),
		fmt.Sprintf("- bought: %s kWh instead of %s kWh", plain(bought, 2), plain(in.MonthlyKWh.Rat, 2)),
	}, "\n")
	return answer{
		text,
		map[string]any{
			"beforeRm": sum(before),
			"afterRm":  sum(after),
			"savingRm": sum(before - after),
			"generatedKWh": amount(
				made,
			),
			"directKWh":   amount(direct),
			"exportedKWh": amount(exported),
			"boughtKWh":   amount(bought),
		},
	}, nil
}

// metered rounds energy half up to 0.01 kWh, as everything after it is computed.
func metered(kwh *big.Rat) *big.Rat { return step(round(new(big.Rat).Mul(kwh, big.NewRat(100, 1)))) }
