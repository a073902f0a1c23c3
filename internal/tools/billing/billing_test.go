package billing

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ravenbot/internal/core/tool"
)

const shipped = "../../../deploy/tariffs/tnb-domestic-a.json"

// calls gives the tools of a tariff as functions, by name.
func calls(t *testing.T, tariff *Tariff) map[string]func(args string) tool.Result {
	t.Helper()
	all := map[string]func(string) tool.Result{}
	for _, one := range Tools(tariff, func() time.Time { return time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC) }) {
		all[one.Spec().Name] = func(args string) tool.Result {
			res, err := one.Call(t.Context(), json.RawMessage(args))
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
	}
	return all
}

func load(t *testing.T) *Tariff {
	t.Helper()
	tariff, err := Load(shipped)
	if err != nil {
		t.Fatal(err)
	}
	return tariff
}

func TestTheNamesAreThoseOfTheContract(t *testing.T) {
	var names []string
	for _, n := range tool.NewRegistry(source(Tools(load(t), time.Now))).List() {
		names = append(names, n.Name)
	}
	if diff := cmp.Diff([]string{"calculate_solar_impact", "tnb_bill_kwh_to_rm",
		"tnb_bill_rm_to_kwh"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

type source []tool.Tool

func (s source) Tools() []tool.Tool { return s }

// The sums were worked out by hand from the published rates.
func TestBillsOfTheShippedTariff(t *testing.T) {
	c := calls(t, load(t))
	for kwh, want := range map[string]string{
		"0": "RM 3.00", "13.76": "RM 3.00", "13.78": "RM 3.00", "13.79": "RM 3.01", "100": "RM 21.80", "200": "RM 43.60",
		"200.01": "RM 43.60", "200.02": "RM 43.61", "300": "RM 77.00", "350": "RM 102.80", "600": "RM 231.80",
		"900":  "RM 395.60",
		"1000": "RM 452.70", "1e3": "RM 452.70", `"1000.0"`: "RM 452.70", "1.25": "RM 3.00", "50.000001": "RM 10.90",
	} {
		res := c["tnb_bill_kwh_to_rm"](`{"kwh":` + kwh + `}`)
		if line, _, _ := strings.Cut(res.Text, "\n"); res.IsError || !strings.HasSuffix(line, "are billed "+want+".") {
			t.Errorf("%s kWh: %q, want %s", kwh, line, want)
		}
	}
	res := c["tnb_bill_kwh_to_rm"](`{"kwh":350.5}`)
	want := "350.50 kWh are billed RM 103.06.\n\n- 200.00 kWh at 21.80 sen: RM 43.60\n- 100.00 kWh at 33.40 sen: RM " +
		"33.40\n- 50.50 kWh at 51.60 sen: RM 26.058\n\n" +
		"Tariff: TNB domestic Tariff A, Peninsular Malaysia, valid 2014-01-01 to 2025-06-30."
	if !strings.HasPrefix(res.Text, want) || !strings.Contains(res.Text, "history") {
		t.Errorf("said\n%s\nwant\n%s", res.Text, want)
	}
	if diff := cmp.Diff(`{"kwh":350.50,"rm":103.06,"tariff":"TNB domestic Tariff A, Peninsular Malaysia"}`,
		string(res.Structured)); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestConsumptionOfABill(t *testing.T) {
	c := calls(t, load(t))
	for rm, want := range map[string]string{
		"3":      "RM 3.00 is the minimum charge: every consumption from 0.00 to 13.78 kWh is billed so.",
		"43.60":  "RM 43.60 is the bill for 199.98 kWh, and for everything up to 200.01 kWh.",
		"102.80": "RM 102.80 is the bill for 350.00 kWh.",
		"452.70": "RM 452.70 is the bill for 1000.00 kWh.",
		"2.99":   "No consumption is billed RM 2.99: the minimum charge is RM 3.00.",
		"0":      "No consumption is billed RM 0.00: the minimum charge is RM 3.00.",
	} {
		if got, _, _ := strings.Cut(c["tnb_bill_rm_to_kwh"](`{"rm":`+rm+`}`).Text, "\n"); got != want {
			t.Errorf("RM %s: %q, want %q", rm, got, want)
		}
	}
}

func TestASumThatNothingIsBilled(t *testing.T) {
	dear, err := parse([]byte(`{"name":"Dear","source":"made up","validFrom":"2020-01-01","currency":"RM",` +
		`"blocks":[{"upToKWh":1,"senPerKWh":250},{"upToKWh":null,"senPerKWh":150.5}]}`))
	if err != nil {
		t.Fatal(err)
	}
	res := calls(t, dear)["tnb_bill_rm_to_kwh"](`{"rm":0.04}`)
	want := "No consumption, in steps of 0.01 kWh, is billed exactly RM 0.04: 0.01 kWh are billed RM 0.03 and 0.02 kWh " +
		"RM 0.05."
	if !strings.HasPrefix(res.Text, want) || strings.Contains(res.Text, "history") {
		t.Errorf("said %q, want %q", res.Text, want)
	}
	if diff := cmp.Diff(`{"above":{"kwh":0.02,"rm":0.05},"below":{"kwh":0.01,"rm":0.03},"exact":false,"rm":0.04,`+
		`"tariff":"Dear"}`, string(res.Structured)); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

func TestSolarImpact(t *testing.T) {
	c := calls(t, load(t))
	cases := []struct{ args, want string }{
		// 4 × 3.5 × 30 = 420 made, 126 used, 474 bought: 77.00 + 174 × 0.516.
		{`{"monthlyKWh":600,"systemKWp":4,"sunHoursPerDay":3.5,"directShare":0.3}`,
			`{"afterRm":166.78,"beforeRm":231.80,"boughtKWh":474.00,"directKWh":126.00,"exportedKWh":294.00,` +
				`"generatedKWh":420.00,"savingRm":65.02,"tariff":"TNB domestic Tariff A, Peninsular Malaysia"}`},
		{`{"monthlyKWh":100,"systemKWp":10,"sunHoursPerDay":4,"directShare":1}`, // no more is used than is needed
			`{"afterRm":3.00,"beforeRm":21.80,"boughtKWh":0.00,"directKWh":100.00,"exportedKWh":1100.00,` +
				`"generatedKWh":1200.00,"savingRm":18.80,"tariff":"TNB domestic Tariff A, Peninsular Malaysia"}`},
		{`{"monthlyKWh":100,"systemKWp":0,"sunHoursPerDay":4,"directShare":0.5}`,
			`{"afterRm":21.80,"beforeRm":21.80,"boughtKWh":100.00,"directKWh":0.00,"exportedKWh":0.00,"generatedKWh":0.00,` +
				`"savingRm":0.00,"tariff":"TNB domestic Tariff A, Peninsular Malaysia"}`},
	}
	for _, one := range cases {
		if diff := cmp.Diff(one.want, string(c["calculate_solar_impact"](one.args).Structured)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", one.args, diff)
		}
	}
}

func TestWhatCannotBeComputedIsSaid(t *testing.T) {
	c := calls(t, load(t))
	for _, one := range []struct{ tool, args, want string }{
		{"tnb_bill_kwh_to_rm", `{"kwh":-1}`, "not between 0"},
		{"tnb_bill_kwh_to_rm", `{"kwh":1e99}`, "not between 0"},
		{"tnb_bill_kwh_to_rm", `{"kwh":1e999999999}`, "not a decimal number"},
		{"tnb_bill_kwh_to_rm", `{"kwh":"many"}`, "not a decimal number"},
		{"tnb_bill_kwh_to_rm", `{"kwh":0.0000001}`, "more than 6 decimals"},
		{"tnb_bill_kwh_to_rm", `{}`, "missing"},
		{"tnb_bill_rm_to_kwh", `{"rm":null}`, "missing"},
		{"tnb_bill_rm_to_kwh", `{"rm":10.005}`, "part of a sen, as 10.005 has"},
		{"calculate_solar_impact", `{"monthlyKWh":1,"systemKWp":1,"sunHoursPerDay":1}`, "missing"},
		{"calculate_solar_impact", `{"monthlyKWh":1,"systemKWp":1,"sunHoursPerDay":1,"directShare":30}`, "a share is at most 1"},
	} {
		if res := c[one.tool](one.args); !res.IsError || !strings.Contains(res.Text, one.want) {
			t.Errorf("%s %s: %q, want %q", one.tool, one.args, res.Text, one.want)
		}
	}
}

func TestAFaultyTariffIsRefused(t *testing.T) {
	good := `{"name":"a","source":"b","validFrom":"2020-01-01","validTo":"","currency":"RM","minimumCharge":3,` +
		`"blocks":[{"upToKWh":10,"senPerKWh":1},{"upToKWh":null,"senPerKWh":2}]}`
	if _, err := parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ old, new, want string }{
		{`"name":"a"`, `"name":""`, "name, source and currency"},
		{`"name"`, `"title"`, "unknown field"},
		{`2020-01-01`, `last year`, "validFrom"},
		{`"validTo":""`, `"validTo":"2019-12-31"`, "validTo"},
		{`"minimumCharge":3`, `"minimumCharge":3.001`, "part of a sen"},
		{`"minimumCharge":3`, `"minimumCharge":-3`, "not between"},
		{`"upToKWh":10`, `"upToKWh":0`, "block 1 does not end above"},
		{`"upToKWh":10`, `"upToKWh":null`, "block 1 does not end above"},
		{`"upToKWh":null`, `"upToKWh":20`, "write null"},
		{`"senPerKWh":2`, `"senPerKWh":0`, "costs nothing"},
		{`,"senPerKWh":1`, ``, "block 1 has no senPerKWh"},
		{`[{"upToKWh":10,"senPerKWh":1},{"upToKWh":null,"senPerKWh":2}]`, `[]`, "0 blocks"},
		{`2}]}`, `2}]} {}`, "after the closing brace"},
	} {
		text := strings.Replace(good, one.old, one.new, 1)
		if _, err := parse([]byte(text)); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v, want %q", text, err, one.want)
		}
	}
	path := filepath.Join(t.TempDir(), "large.json")
	if err := os.WriteFile(path, []byte(good+strings.Repeat(" ", largest)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a large file: %v", err)
	}
	if _, err := Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// made is a tariff as whole numbers, for arithmetic that shares nothing with ours.
type made struct {
	tariff  *Tariff
	minimum int64   // sen
	upTo    []int64 // hundredths of a kWh, ascending
	rates   []int64 // hundredths of a sen a kWh; one more than upTo
}

func draw(t *rapid.T) made {
	m := made{minimum: rapid.Int64Range(0, 500).Draw(t, "minimum")}
	text := fmt.Sprintf(`{"name":"a","source":"b","currency":"RM","validFrom":"2020-01-01","minimumCharge":%d.%02d,`+
		`"blocks":[`, m.minimum/100, m.minimum%100)
	before := int64(0)
	for range rapid.IntRange(0, 3).Draw(t, "blocks") {
		before += rapid.Int64Range(1, 800).Draw(t, "width")
		m.upTo, m.rates = append(m.upTo, before), append(m.rates, rapid.Int64Range(0, 30000).Draw(t, "rate"))
		text += fmt.Sprintf(`{"upToKWh":%d.%02d,"senPerKWh":%d.%02d},`, before/100, before%100, m.rates[len(m.rates)-1]/100,
			m.rates[len(m.rates)-1]%100)
	}
	last := rapid.Int64Range(100, 30000).Draw(t, "last rate")
	m.rates = append(m.rates, last)
	text += fmt.Sprintf(`{"upToKWh":null,"senPerKWh":%d.%02d}]}`, last/100, last%100)
	var err error
	if m.tariff, err = parse([]byte(text)); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// slow adds up bills, one hundredth of a kWh after the other, until stop says so; it
// gives the consumption and bill at which that was.
func (m made) slow(stop func(n, bill int64) bool) (n, bill int64) {
	total, block := int64(0), 0 // in ten-thousandths of a sen
	for ; ; n++ {
		bill = max((total+5000)/10000, m.minimum)
		if stop(n, bill) {
			return n, bill
		}
		for block < len(m.upTo) && n >= m.upTo[block] {
			block++
		}
		total += m.rates[block]
	}
}

func TestBillsAreWhatAddingUpGives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := draw(t)
		last := rapid.Int64Range(0, 4000).Draw(t, "hundredths")
		before := int64(0)
		_, want := m.slow(func(n, bill int64) bool {
			if bill < before {
				t.Fatalf("%d hundredths are billed %d sen, and one less %d", n, bill, before)
			}
			before = bill
			return n == last
		})
		if got := m.tariff.bill(step(last)); got != want {
			t.Fatalf("%d hundredths are billed %d sen, want %d", last, got, want)
		}
	})
}

func TestTheWayBackIsTheSmallestConsumption(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := draw(t)
		sum := rapid.Int64Range(0, 5000).Draw(t, "sen")
		want, _ := m.slow(func(_, bill int64) bool { return bill >= sum })
		if got := m.tariff.first(sum); got != want {
			t.Fatalf("%d sen lead to %d hundredths, want %d", sum, got, want)
		}
	})
}

func TestThereAndBackOnTheShippedTariff(t *testing.T) {
	tariff := load(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 500_000).Draw(t, "hundredths")
		bill := tariff.bill(step(n))
		back := tariff.first(bill)
		if back > n || tariff.bill(step(back)) != bill || back > 0 && tariff.bill(step(back-1)) >= bill {
			t.Fatalf("%d hundredths are billed %d sen, which lead back to %d", n, bill, back)
		}
	})
}

func FuzzTariff(f *testing.F) {
	text, err := os.ReadFile(shipped)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, "200.01")
	f.Add([]byte(`{"blocks":[{"upToKWh":1e5,"senPerKWh":"0.000001"}]}`), "1e6")
	f.Fuzz(func(t *testing.T, text []byte, number string) {
		var d decimal
		if json.Unmarshal([]byte(number), &d) != nil || d.Rat == nil {
			return
		}
		if back, ok := new(big.Rat).SetString(plain(d.Rat, 2)); !ok || back.Cmp(d.Rat) != 0 {
			t.Errorf("%s is written %s", number, plain(d.Rat, 2))
		}
		tariff, err := parse(text)
		if err != nil {
			return
		}
		bill := tariff.bill(d.Rat)
		if n := tariff.first(bill); tariff.bill(step(n)) < bill || n > 0 && tariff.bill(step(n-1)) >= bill {
			t.Errorf("%d sen lead back to %d hundredths", bill, n)
		}
	})
}
