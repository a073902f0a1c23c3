// Package eval measures the quality of the bot with cases from files: answers, searches in knowledge, memory, history
// and tools, pages, summaries and prompts.
//
// It promises that a case runs the same code as the bot, in its own store that is removed afterwards, that tools are
// never really called, and that without a model nothing leaves the machine and the cases that need one are reported as
// skipped. The command line reads files and prints results.
package eval

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ravenbot/internal/store/records"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/budget"
)

// Options configure a Runner.
type Options struct {
	Models map[string]agent.Model // by configured name
	Model  string                 // whose answers are measured; empty: none is asked
	Judge  string                 // the model that judges answers; empty: Model
	System string                 // instructions of the agent where a case has none
	Price  func(model string) budget.Price
	Now    func() time.Time
}

// Runner runs cases.
type Runner struct{ o Options }

// New returns a Runner.
func New(o Options) *Runner {
	if o.Judge == "" {
		o.Judge = o.Model
	}
	return &Runner{o}
}

// Check is one thing that was expected.
type Check struct {
	What string `json:"what"`
	OK   bool   `json:"ok"`
	Why  string `json:"why,omitempty"`
}

// Result is what came of a case. Score is the share of its checks that hold.
type Result struct {
	File     string  `json:"file"`
	Kind     string  `json:"kind"`
	Name     string  `json:"name"`
	Score    float64 `json:"score"`
	Checks   []Check `json:"checks,omitempty"`
	Skipped  string  `json:"skipped,omitempty"`  // why some or, without checks, all of it was not measured
	Baseline string  `json:"baseline,omitempty"` // win, tie or loss against the recorded answer
	Answer   string  `json:"answer,omitempty"`
	Tokens   int     `json:"tokens,omitempty"` // of all models; of kind prompt: of the largest request, about
	CostUSD  float64 `json:"costUSD,omitempty"`
}

// check notes what was checked, and why it failed if it did.
func (r *Result) check(what string, ok bool, why string) {
	if ok {
		why = ""
	}
	r.Checks = append(r.Checks, Check{what, ok, why})
}

// Sum is the result of all cases of a kind in a file.
type Sum struct {
	File      string  `json:"file"`
	Kind      string  `json:"kind"`
	Cases     int     `json:"cases"` // that were measured
	Skipped   int     `json:"skipped"`
	Score     float64 `json:"score"` // the mean
	Threshold float64 `json:"threshold"`
	Tokens    int     `json:"tokens"`
	CostUSD   float64 `json:"costUSD"`
}

// Passed reports whether the score reaches the threshold. Where nothing was measured it does.
func (s Sum) Passed() bool { return s.Cases == 0 || s.Score >= s.Threshold-1e-9 }

// Run runs the cases of a suite and returns the result of each and the sums by kind, in the order of the file. It
// fails when a case cannot be run.
func (r *Runner) Run(ctx context.Context, s Suite) ([]Result, []Sum, error) {
	var results []Result
	for _, c := range s.Cases {
		res, err := r.runCase(ctx, c)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: run case %q: %w", s.File, c.Name, err)
		}
		res.File, res.Kind, res.Name = s.File, c.Kind, c.Name
		held := 0
		for _, k := range res.Checks {
			if k.OK {
				held++
			}
		}
		if len(res.Checks) > 0 {
			res.Score = float64(held) / float64(len(res.Checks))
		}
		results = append(results, res)
	}
	return results, sumByKind(s, results), nil
}

// sumByKind returns how the cases of each kind did, in the order in which the kinds appear. Where a suite names no
// threshold, every case has to pass.
func sumByKind(s Suite, results []Result) []Sum {
	var sums []Sum
	at := map[string]int{}
	for _, res := range results {
		i, known := at[res.Kind]
		if !known {
			i = len(sums)
			at[res.Kind] = i
			threshold, named := s.Thresholds[res.Kind]
			if !named {
				threshold = 1
			}
			sums = append(sums, Sum{File: s.File, Kind: res.Kind, Threshold: threshold})
		}
		if len(res.Checks) == 0 {
			sums[i].Skipped++
			continue
		}
		sums[i].Cases++
		sums[i].Score += res.Score
		if res.Kind != kindPrompt {
			sums[i].Tokens += res.Tokens
		}
		sums[i].CostUSD += res.CostUSD
	}
	for i := range sums {
		sums[i].Score /= float64(max(sums[i].Cases, 1))
	}
	return sums
}

// workspace is what a case needs beside its own data: a store and a folder, both removed by close.
type workspace struct {
	folder string
	db     *records.Store
	log    *slog.Logger
	now    func() time.Time
}

// open returns a workspace with an empty store in a folder of its own.
func (r *Runner) open() (*workspace, error) {
	folder, err := os.MkdirTemp("", "ravenbot-eval-")
	if err != nil {
		return nil, err
	}
	db, err := storage.OpenFile(filepath.Join(folder, "store.db"), r.o.Now)
	if err != nil {
		return nil, fmt.Errorf("%w (removing its folder: %v)", err, os.RemoveAll(folder))
	}
	return &workspace{folder, db, slog.New(slog.DiscardHandler), r.o.Now}, nil
}

// close closes the store and removes the folder.
func (w *workspace) close() error {
	err := w.db.Close()
	if err2 := os.RemoveAll(w.folder); err == nil {
		err = err2
	}
	return err
}

// runCase runs a case in a workspace of its own, so that no case knows of another.
func (r *Runner) runCase(ctx context.Context, c Case) (res Result, err error) {
	w, err := r.open()
	if err != nil {
		return res, err
	}
	defer func() {
		if err2 := w.close(); err == nil {
			err = err2
		}
	}()
	switch c.Kind {
	case kindAnswer:
		return r.runAnswer(ctx, w, c)
	case kindPrompt:
		return r.runPrompt(ctx, w, c)
	case kindCompaction:
		return r.runCompaction(ctx, w, c)
	case kindDigest:
		return r.runDigest(ctx, w, c)
	case kindPage:
		return runPage(c)
	}
	find, err := w.searcher(ctx, c)
	if err != nil {
		return res, err
	}
	for _, q := range c.Queries {
		found, err := find(q.Query)
		if err != nil {
			return res, err
		}
		for _, want := range q.Expect {
			res.check(fmt.Sprintf("%q finds %q", q.Query, want), c.found(want, found),
				fmt.Sprintf("not among the first %d: %s", c.K, shorten(strings.Join(found, " | "))))
		}
	}
	return res, nil
}
