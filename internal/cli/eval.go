package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"ravenbot/internal/model/provider"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/testing/eval"
	"ravenbot/internal/turn/budget"
)

func caseFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("model", "", "the `NAME` of a model of the configuration, whose answers are measured")
	c.flags.String("judge", "", "the `NAME` of the model that judges answers; without it, that of --model")
}

// errBelowThreshold ends eval with status 1.
var errBelowThreshold = errors.New("below a threshold")

// evaluate runs files of cases and prints what came of them. It returns an error that wraps errBelowThreshold after
// printing where a kind of cases in a file scores below its threshold.
func evaluate(ctx context.Context, c *invocation) error {
	o, err := c.evalOptions()
	if err != nil {
		return err
	}
	// All files are read first: a fault in the last one must not cost the requests of the others.
	var suites []eval.Suite
	for _, name := range c.args {
		s, err := readSuite(name)
		if err != nil {
			return err
		}
		suites = append(suites, s)
	}
	runner := eval.New(o)
	var results []eval.Result
	var sums []eval.Sum
	for _, s := range suites {
		some, byKind, err := runner.Run(ctx, s)
		if err != nil {
			return err
		}
		results, sums = append(results, some...), append(sums, byKind...)
	}
	if c.json {
		err = writeJSON(c.Out, struct {
			Items   []eval.Result `json:"items"`
			Summary []eval.Sum    `json:"summary"`
		}{results, sums})
	} else {
		err = c.writeEvaluation(results, sums)
	}
	if err != nil {
		return err
	}
	for _, s := range sums {
		if !s.Passed() {
			return fmt.Errorf("%s: %s scores %.2f, %w of %.2f", s.File, s.Kind, s.Score, errBelowThreshold, s.Threshold)
		}
	}
	return nil
}

// evalOptions returns what cases are run with. The configuration is read only where a model is named.
func (c *invocation) evalOptions() (eval.Options, error) {
	o := eval.Options{Model: c.flagText("model"), Judge: c.flagText("judge"), Now: time.Now}
	if o.Model == "" {
		if o.Judge != "" {
			return o, usageErrorf("--judge needs --model, whose answers are judged")
		}
		return o, nil
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return o, err
	}
	for flag, name := range map[string]string{"--model": o.Model, "--judge": o.Judge} {
		if err := checkModel(cfg, flag, name); err != nil {
			return o, err
		}
	}
	if o.Models, err = provider.Models(cfg, nil, nil, slog.New(slog.NewTextHandler(c.Err, nil))); err != nil {
		return o, err
	}
	o.System = cfg.Agents["default"].SystemPrompt
	o.Price = func(model string) budget.Price { return priceOf(cfg.Models[model]) }
	return o, nil
}

// priceOf returns what the tokens of a model cost, as configured; zero prices for a model without any.
func priceOf(m config.Model) budget.Price {
	return budget.Price{
		InputPerM:  m.Price.InputPerM,
		CachedPerM: m.Price.CachedPerM,
		OutputPerM: m.Price.OutputPerM,
		MaxOutput:  m.MaxOutputTokens,
	}
}

// readSuite reads a file of cases. What is wrong in it is a usage error.
func readSuite(name string) (eval.Suite, error) {
	f, err := os.Open(name)
	if err != nil {
		return eval.Suite{}, usageErrorf("%v; name a file of cases, as docs/eval.md describes it", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	s, err := eval.Parse(f, name, filepath.Dir(name))
	if bad := (*eval.FileError)(nil); errors.As(err, &bad) {
		return s, usageErrorf("%v", bad)
	}
	return s, err
}

// writeEvaluation prints the checks that did not hold, and a table of all.
func (c *invocation) writeEvaluation(results []eval.Result, sums []eval.Sum) error {
	for _, r := range results {
		for _, k := range r.Checks {
			if !k.OK {
				fmt.Fprintf(c.Out, "%s: %s %q: expected that %s, but: %s\n", r.File, r.Kind, r.Name, k.What, k.Why)
			}
		}
		if r.Skipped != "" {
			fmt.Fprintf(c.Out, "%s: %s %q: skipped: %s\n", r.File, r.Kind, r.Name, r.Skipped)
		}
		if r.Baseline != "" {
			fmt.Fprintf(c.Out, "%s: %s %q: %s against the recorded answer\n", r.File, r.Kind, r.Name, r.Baseline)
		}
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tKIND\tCASES\tSKIPPED\tSCORE\tTHRESHOLD\tTOKENS\tUSD\tPASSED")
	for _, s := range sums {
		score := "-"
		if s.Cases > 0 {
			score = fmt.Sprintf("%.2f", s.Score)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%.2f\t%d\t%.4f\t%v\n",
			s.File, s.Kind, s.Cases, s.Skipped, score, s.Threshold, s.Tokens, s.CostUSD, s.Passed())
	}
	return t.Flush()
}
