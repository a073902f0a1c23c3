package eval_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/testing/eval"
	"ravenbot/internal/testing/llmtest"
	"ravenbot/internal/turn/agent"
	"ravenbot/internal/turn/budget"
)

func parse(t *testing.T, text string) eval.Suite {
	t.Helper()
	s, err := eval.Parse(strings.NewReader(text), "cases.jsonl", ".")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, o eval.Options, s eval.Suite) ([]eval.Result, []eval.Sum) {
	t.Helper()
	o.Now = time.Now
	results, sums, err := eval.New(o).Run(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return results, sums
}

func failed(r eval.Result) []string {
	var list []string
	for _, c := range r.Checks {
		if !c.OK {
			list = append(list, c.What+": "+c.Why)
		}
	}
	return list
}

// TestStarterSet_WithoutAModel_ReachesItsThresholds runs the cases that come with the project.
func TestStarterSet_WithoutAModel_ReachesItsThresholds(t *testing.T) {
	files, err := filepath.Glob("../../../eval/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no files of cases: ", err)
	}
	measured := map[string]bool{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := eval.Parse(f, filepath.Base(name), filepath.Dir(name))
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		results, sums := run(t, eval.Options{}, s)
		for _, sum := range sums {
			measured[sum.Kind] = measured[sum.Kind] || sum.Cases > 0
			if !sum.Passed() {
				t.Errorf("%s: %s scores %.2f, below %.2f", name, sum.Kind, sum.Score, sum.Threshold)
			}
		}
		for _, r := range results {
			for _, what := range failed(r) {
				t.Logf("%s: %s", r.Name, what)
			}
		}
	}
	for _, kind := range []string{"answer", "knowledge", "memory", "history", "tools", "page", "compaction", "prompt",
		"digest"} {
		if !measured[kind] {
			t.Errorf("no case of kind %s was measured", kind)
		}
	}
}

// TestRun_WhatIsNotThere_FailsItsCheck expects of each kind one thing that holds and one that does not.
func TestRun_WhatIsNotThere_FailsItsCheck(t *testing.T) {
	for kind, c := range map[string]string{
		"knowledge": `"files":[{"name":"a.md","text":"The tower is red."}],"queries":[{"query":"tower","expect":["red",` +
			`"blue"]}]`,
		"memory": `"notes":["the tower is red"],"queries":[{"query":"tower","expect":["red","blue"]}]`,
		"history": `"messages":[{"author":"Anna","text":"the tower is red"}],"queries":[{"query":"tower",` +
			`"expect":["red","blue"]}]`,
		"tools": `"tools":[{"name":"paint","description":"Paint the tower"}],"queries":[{"query":"tower",` +
			`"expect":["paint","wash"]}]`,
		"page": `"html":"<article><p>The tower is red.</p></article>","expect":["red"],"forbid":["tower"]`,
		"compaction": `"turns":[{"user":"The tower is red.","answer":"Yes."}],"facts":[{"text":"red"},{"text":"blue",` +
			`"query":"tower"}]`,
		"prompt": `"questions":["Hello"],"system":"You are terse.","maxTokens":1}, {"kind":"prompt","questions":["Hello"],` +
			`"maxTokens":900`,
		// That the post links to nothing else is a check of its own, which holds.
		"digest": `"entries":[{"feed":"F","title":"The tower is red","url":"https://example.com/a","text":"The tower is ` +
			`red."}],` +
			`"expect":["red","blue","green"]`,
		"answer": `"question":"Which tower?","system":"Be terse.","request":["Be terse","Be verbose"]`,
	} {
		t.Run(kind, func(t *testing.T) {
			line := `{"kind":"` + kind + `",` + c + `}`
			// Where one case has one check, two of them make the pair.
			s := parse(t, strings.ReplaceAll(line, "}, {\"kind\"", "}\n{\"kind\""))
			_, sums := run(t, eval.Options{}, s)
			if sums[0].Score != 0.5 || sums[0].Passed() {
				t.Errorf("the score is %v, want 0.5 and below the threshold of 1", sums[0].Score)
			}
		})
	}
}

func TestRun_NoModel_SaysWhatWasSkipped(t *testing.T) {
	results, sums := run(t, eval.Options{}, parse(t, `{"kind":"answer","question":"Who?","expect":["Anna"]}`))
	if !strings.Contains(results[0].Skipped, "--model") || sums[0].Skipped != 1 || sums[0].Cases != 0 ||
		!sums[0].Passed() {
		t.Errorf("the result is %+v, in sum %+v", results[0], sums[0])
	}
}

func TestRun_ToolOfACase_IsAnsweredByItsRecord(t *testing.T) {
	results, _ := run(t, eval.Options{}, parse(t, `{"kind":"answer","question":"Go","tools":[{"name":"look"}],`+
		`"results":[{"tool":"look","args":{"at":"a","n":1},"text":"record-A"},`+
		`{"tool":"look","args":{"at":"b"},"text":"record-B"}],`+
		`"script":[{"calls":[{"tool":"look","args":{"n":1,"at":"a"}},{"tool":"look","args":{"at":"c"}}]}],`+
		`"request":["record-A","no record of a call of look","record-B"]}`))
	if bad := failed(results[0]); len(bad) != 1 || !strings.Contains(bad[0], "record-B") {
		t.Errorf("failed: %q, want only the result of a call that was not made", bad)
	}
}

// judged returns a model that answers questions and judges by a function, and the options to use it.
func judged(verdict func(prompt string) string) (*llmtest.Model, eval.Options) {
	m := &llmtest.Model{Name: "m", Script: func(_ int, q llm.Request) ([]llm.Chunk, error) {
		text := q.Messages[0].Parts[len(q.Messages[0].Parts)-1].Text
		if strings.HasPrefix(q.System, "You check") || strings.HasPrefix(q.System, "You compare") {
			return llmtest.Says(verdict(text)), nil
		}
		return llmtest.Says("Anna painted it [paint.md]."), nil
	}}
	return m, eval.Options{
		Models: map[string]agent.Model{"m": {Model: m, Timeout: time.Minute}},
		Model:  "m",
		Price:  func(string) budget.Price { return budget.Price{InputPerM: 1e6, OutputPerM: 1e6} },
	}
}

func TestRun_Model_FactsAreJudgedAndCostIsCounted(t *testing.T) {
	_, o := judged(func(string) string { return "```json\n{\"stated\":[true,false]}\n```" })
	results, _ := run(t, o, parse(t,
		`{"kind":"answer","question":"Who?","expect":["Anna painted it"],"forbid":["Berit painted it"],`+
			`"cite":["paint.md"],"use":["look"]}`))
	r := results[0]
	if bad := failed(r); len(bad) != 1 || !strings.Contains(bad[0], "look") || len(r.Checks) != 4 {
		t.Errorf("of %d checks failed %q", len(r.Checks), bad)
	}
	// An answer and a judgement, each with 10 and 5 tokens.
	if r.Tokens != 30 || r.CostUSD != 30 {
		t.Errorf("%d tokens cost %v, want 30 for 30", r.Tokens, r.CostUSD)
	}
}

func TestRun_Baseline_WinsOnlyWhereBothOrdersAgree(t *testing.T) {
	for want, verdict := range map[string]func(string) string{
		"win": func(text string) string {
			if strings.Contains(text, "Answer A:\nAnna") {
				return `{"better":"A"}`
			}
			return `{"better":"B"}`
		},
		"loss": func(text string) string {
			if strings.Contains(text, "Answer A:\nAnna") {
				return `{"better":"B"}`
			}
			return `{"better":"A"}`
		},
		"tie": func(string) string { return `{"better":"A"}` }, // whichever stands first
	} {
		_, o := judged(verdict)
		results, sums := run(t, o, parse(t, `{"kind":"answer","question":"Who?","baseline":"Somebody did."}`))
		if results[0].Baseline != want || sums[0].Passed() != (want != "loss") {
			t.Errorf("the outcome is %q, want %q; passed: %v", results[0].Baseline, want, sums[0].Passed())
		}
	}
}

func TestRun_VerdictThatCannotBeRead_IsAnError(t *testing.T) {
	m, o := judged(func(string) string { return "I like it." })
	o.Now = time.Now
	_, _, err := eval.New(o).Run(t.Context(), parse(t, `{"kind":"answer","question":"Who?","expect":["Anna"]}`))
	if err == nil || !strings.Contains(err.Error(), "--judge") || len(m.Requests()) != 3 {
		t.Errorf("after %d requests the error is %v", len(m.Requests()), err)
	}
}

func TestParse_BadFile_NamesLineAndRemedy(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "no case",
		"// nothing\n\n{":                    "3: this is not a case",
		`{"kind":"page","html":"x","say":1}`: `unknown field "say"`,
		`{"kind":"riddle"}`:                  "the kinds are answer, compaction",
		`{"kind":"tools","queries":[{"query":"a","expect":["b"]}]}`:           `"tools" is missing`,
		`{"kind":"memory","notes":["a"],"queries":[{"query":"a"}]}`:           `lacks "query" or "expect"`,
		`{"kind":"page","html":"x","expect":["x"]} {"kind":"page"}`:           "one a line",
		`{"kind":"answer","question":"Who?"}`:                                 "nothing is expected",
		`{"thresholds":{"page":2}}`:                                           "from 0 to 1",
		`{"kind":"page","html":"x","page":"y.html","expect":["x"]}`:           "either",
		fmt.Sprintf(`{"kind":"page","html":"x","expect":["x"],"k":%d}`, 1000): `"k" is 1000`,
	} {
		_, err := eval.Parse(strings.NewReader(text), "cases.jsonl", ".")
		var bad *eval.FileError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
	if s := parse(t, "{\"thresholds\":{\"page\":0.5}}\n{\"kind\":\"page\",\"html\":\"x\",\"expect\":[\"x\"]}"); s.Thresholds["page"] != 0.5 ||
		!slices.ContainsFunc(s.Cases, func(c eval.Case) bool { return c.Name == "page 1" }) {
		t.Errorf("parsed %+v", s)
	}
}

// A story that two feeds tell is posted once, and what a scripted model makes up has no link of its own.
func TestRun_Digest(t *testing.T) {
	entries := `"entries":[{"feed":"A","title":"The tower of Nordby is painted red","url":"https://example.com/a",` +
		`"text":"The tower of Nordby is painted red in May."},{"feed":"B","title":"Tower of Nordby is painted red in May",` +
		`"url":"https://example.com/b","text":"In May the tower of Nordby is painted red."},` +
		`{"feed":"B","title":"A bridge for bicycles","url":"https://example.com/c","text":"It opens in June."}]`
	for name, c := range map[string]struct {
		more string
		want float64
	}{
		"one story":        {`"stories":[["https://example.com/a","https://example.com/b"]]`, 1},
		"two stories":      {`"stories":[["https://example.com/a","https://example.com/c"]]`, 0.5},
		"a link":           {`"cite":["https://example.com/c"]`, 1},
		"no such link":     {`"cite":["https://example.com/d"]`, 0.5},
		"a filter":         {`"digest":{"filters":["-bridge"]},"forbid":["bicycles"]`, 1},
		"a scripted model": {`"script":[{"text":"See [this](https://evil.example/x)."}],"cite":["https://example.com/c"]`, 1},
	} {
		_, sums := run(t, eval.Options{}, parse(t, `{"kind":"digest",`+entries+`,`+c.more+`}`))
		if sums[0].Score != c.want {
			t.Errorf("%s: the score is %v, want %v", name, sums[0].Score, c.want)
		}
	}
}
