package agent_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ravenbot/internal/core/llm"
	"ravenbot/internal/testing/llmtest"
)

// plantedFacts are said in the middle of other talk, each by the user or in an answer; key is
// what has to be in a summary for the fact to be known.
var plantedFacts = []struct{ text, key string }{
	{"By the way, our office moved to Storgata 14 last week.", "Storgata 14"},
	{"The deploy key expires on 3 March 2027.", "3 March 2027"},
	{"My daughter is allergic to peanuts.", "peanuts"},
	{"We agreed that Berit takes over the billing project.", "Berit"},
	{"The budget for the conference is 42,000 kroner.", "42,000"},
	{"Our staging server is called heron.", "heron"},
	{"I prefer answers in metric units.", "metric"},
	{"The customer's contract number is KX-2291.", "KX-2291"},
	{"We decided against Kubernetes because of its cost.", "Kubernetes"},
	{"The retrospective is moved to Thursday at half past two.", "Thursday"},
	{"Carl's phone number is 555 0134.", "555 0134"},
	{"The password rotation is done by the security team in Lyon.", "Lyon"},
	{"Please remember that the printer on the third floor is broken.", "printer"},
	{"The new logo must be teal, not green.", "teal"},
	{"Our largest customer is Hansen Maritime.", "Hansen Maritime"},
	{"The database is backed up at 02:15 every night.", "02:15"},
	{"I have promised the report to Ingrid by Friday.", "Ingrid"},
	{"The licence costs 12 euros per seat.", "12 euros"},
	{"Version 4.7 broke the export to CSV.", "4.7"},
	{"The workshop takes place in room Fjord.", "Fjord"},
}

// Words of the talk around the facts. Every sentence is another one, so that being said once is
// no sign of a fact.
var (
	talkVerbs = strings.Fields("explain compare describe shorten improve translate outline rewrite check review list sort")
	talkNouns = strings.Fields("paragraph function meeting recipe letter poem sentence chapter table garden engine " +
		"bicycle novel melody sketch harbour forest lecture puzzle window bridge kitchen museum market river " +
		"planet blanket compass ladder mirror pencil basket candle saddle anchor lantern violin tunnel feather")
	talkWays = strings.Fields("slowly clearly briefly politely again differently carefully together quickly formally")
)

// smallTalk returns sentences that nobody will ask for later.
func smallTalk(rng *rand.Rand, sentences int) string {
	word := func(list []string) string { return list[rng.IntN(len(list))] }
	var out []string
	for range sentences {
		out = append(out, fmt.Sprintf([]string{
			"Please %[1]s the %[2]s with the %[3]s %[4]s.",
			"You could %[1]s a %[2]s before the %[3]s is looked at %[4]s.",
			"I would rather %[1]s this %[2]s than that %[3]s, if it can be done %[4]s.",
			"Can you %[1]s how the %[2]s and the %[3]s belong together %[4]s?",
			"It usually helps to %[1]s one %[2]s and then another %[3]s %[4]s.",
		}[rng.IntN(5)], word(talkVerbs), word(talkNouns), word(talkNouns), word(talkWays)))
	}
	return strings.Join(out, " ")
}

func TestSummaryWithoutAModel_KeepsWhatCannotBeGuessed(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := engine(nil, &llmtest.Model{Script: func(n int, r llm.Request) ([]llm.Chunk, error) {
		if strings.HasPrefix(r.System, "You keep the memory") {
			return nil, &llm.Error{Kind: llm.Denied, Reason: "no key"}
		}
		answer := smallTalk(rng, 4)
		// Every fourth fact is told by the bot, behind other sentences.
		if n%20 == 0 && n <= 100 {
			answer += " " + plantedFacts[n/5-1].text
		}
		return llmtest.Says(answer), nil
	}})
	for n := 1; n <= 100; n++ {
		text := smallTalk(rng, 2)
		if n%5 == 0 && n%20 != 0 {
			text += " " + plantedFacts[n/5-1].text
		}
		b.answer(t, t.Context(), one(asks(fmt.Sprint(n), text)))
		if n%25 == 0 { // several summaries follow each other, as over the life of a conversation
			if err := b.Compact(t.Context(), room); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.answer(t, t.Context(), one(asks("last", "so?")))
	model := b.options.Roster.(*roster).models["test/"].Model.(*llmtest.Model)
	request := wholeText(last(model.Requests()))
	kept := 0
	for _, f := range plantedFacts {
		if strings.Contains(request, f.key) {
			kept++
		} else {
			t.Logf("lost: %s", f.text)
		}
	}
	t.Logf("%d of %d facts are in the request after 100 turns; the summary has %d bytes",
		kept, len(plantedFacts), len(b.memory.sums[room].Text))
	if kept < 14 {
		t.Errorf("%d of %d facts are left, want 14", kept, len(plantedFacts))
	}
}
