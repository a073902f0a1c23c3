package app_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ravenbot/internal/conversation"
	simmodel "ravenbot/internal/sim/model"
	simslack "ravenbot/internal/sim/slack"
)

// question is something asked while the daemon is killed again and again.
type question struct {
	n       int
	kind    string
	lane    string   // the conversation
	channel string   // where its answer is looked for
	slack   []string // event ids; Slack sends them again until they are acknowledged
	sent    time.Time
	up      bool // Discord: sent while the daemon was connected
	late    bool // Discord: and killed within lossTime
}

// lossTime is how long before a kill a message of Discord may have been on its
// way to the store. Discord does not send it again to a new session, and what was
// said meanwhile is not read again at start: such messages may be lost.
const lossTime = time.Second

// storm is a daemon under load, killed at random.
type storm struct {
	*world
	rng       *rand.Rand
	d         *daemon
	lanes     []func(text string) question
	questions []*question
	up        bool
}

// kinds of questions: answered at once, or after a call of a tool.
var asked = regexp.MustCompile(`question (\d+) (plain|look|effect)`)

// stormScript answers question n with "answer n;", for some after a call of a
// tool, with delays of all kinds between.
func stormScript(r simmodel.Request) simmodel.Reply {
	all := asked.FindAllStringSubmatch(r.Asked(), -1)
	if all == nil {
		return simmodel.Say("no question")
	}
	last := all[len(all)-1]
	n := must(strconv.Atoi(last[1]))
	delay := time.Duration(n*37%150) * time.Millisecond
	answer := func(text string) simmodel.Reply {
		return simmodel.Reply{Text: []string{"answer " + last[1], "; ", text}, Delay: delay}
	}
	if results := r.Last().Results; len(results) > 0 {
		return answer(results[0].Content)
	}
	name := "kit_" + last[2]
	if last[2] == "plain" || !r.Declares(name) {
		return answer("without a tool")
	}
	return simmodel.Reply{Delay: delay, Calls: []simmodel.Call{{Name: name, Args: must(json.Marshal(toolArgs{Question: last[1], MS: n * 53 % 300}))}}}
}

// TestKilledAtRandom kills the daemon under load, RAVENBOT_KILLS times, with the
// seed RAVENBOT_SEED.
func TestKilledAtRandom(t *testing.T) {
	kills, seed := 12, uint64(time.Now().UnixNano())
	if s := os.Getenv("RAVENBOT_KILLS"); s != "" {
		kills = must(strconv.Atoi(s))
	}
	if s := os.Getenv("RAVENBOT_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))
	}
	t.Logf("%d kills, RAVENBOT_SEED=%d", kills, seed)
	w := newWorldWith(t, simslack.Options{RetryDelays: slices.Repeat([]time.Duration{300 * time.Millisecond}, 100)})
	w.model.SetScript(stormScript)
	s := &storm{world: w, rng: rand.New(rand.NewPCG(seed, 0))}
	s.addLanes()
	s.d = w.daemon(w.base()).withTools().start()
	s.up = true
	for range kills {
		s.load(time.Duration(100+s.rng.IntN(1900)) * time.Millisecond)
		s.strike()
		s.load(time.Duration(s.rng.IntN(100)) * time.Millisecond) // nobody is there
		s.d.start()
		s.up = true
	}
	s.load(500 * time.Millisecond)
	s.settle()
	s.judge()
}

// addLanes makes the conversations: channels of Discord, direct messages, a
// thread and single mentions in Slack.
func (s *storm) addLanes() {
	for n := range 3 {
		c := s.discord.AddChannel(s.guild, fmt.Sprint("d", n))
		s.lanes = append(s.lanes, func(text string) question {
			s.discord.Say(c.ID, s.anna, s.discord.Mention()+" "+text)
			return question{lane: c.ID, channel: c.ID, up: s.up}
		})
	}
	for n := range 2 {
		u := s.slack.AddUser(fmt.Sprint("u", n))
		s.lanes = append(s.lanes, func(text string) question {
			e := s.slack.DM(u, text)
			return question{lane: e.Channel, channel: e.Channel, slack: e.IDs}
		})
	}
	thread := s.slack.AddChannel("thread")
	root := s.slack.Mention(thread.ID, s.berit, "let us talk here")
	s.lanes = append(s.lanes, func(text string) question {
		e := s.slack.ThreadReply(thread.ID, root.TS, s.berit, simslack.BotMention+" "+text)
		return question{lane: root.TS, channel: e.Channel, slack: e.IDs}
	}, func(text string) question {
		e := s.slack.Mention(s.channel.ID, s.berit, text)
		return question{lane: e.TS, channel: e.Channel, slack: e.IDs}
	})
}

// load asks questions for a while.
func (s *storm) load(d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		next := time.NewTimer(time.Duration(s.rng.IntN(60)) * time.Millisecond)
		select {
		case <-end.C:
			next.Stop()
			return
		case <-next.C:
		}
		n := len(s.questions) + 1
		kind := []string{"plain", "look", "effect"}[s.rng.IntN(3)]
		q := s.lanes[s.rng.IntN(len(s.lanes))](fmt.Sprintf("question %d %s", n, kind))
		q.n, q.kind, q.sent = n, kind, time.Now()
		s.questions = append(s.questions, &q)
	}
}

// strike kills the daemon.
func (s *storm) strike() {
	s.d.kill()
	now := time.Now()
	s.up = false
	for _, q := range s.questions {
		q.late = q.late || q.slack == nil && q.sent.After(now.Add(-lossTime))
	}
}

// settle waits until Slack has brought everything and the daemon has dealt with
// it.
func (s *storm) settle() {
	within(s.t, "Slack has brought everything", func() bool {
		for _, d := range s.slack.Deliveries() {
			if !d.Over {
				return false
			}
		}
		acked := s.acked()
		return !slices.ContainsFunc(s.questions, func(q *question) bool {
			return slices.ContainsFunc(q.slack, func(id string) bool { return acked[id] == nil })
		})
	})
	s.d.idle()
	s.d.end()
}

// acked gives the attempts at which events were acknowledged.
func (s *storm) acked() map[string]*simslack.Delivery {
	all := map[string]*simslack.Delivery{}
	for _, d := range s.slack.Deliveries() {
		if d.Acked {
			all[d.EventID] = &d
		}
	}
	return all
}

var answered = regexp.MustCompile(`answer (\d+); ([^·]*)`)

// answers gives the texts of the answers to each question, and their order in a
// channel.
func (s *storm) answers() (texts map[int][]string, order []int) {
	texts = map[int][]string{}
	seen := map[string]bool{}
	note := func(text string) {
		if m := answered.FindStringSubmatch(text); m != nil {
			n := must(strconv.Atoi(m[1]))
			texts[n] = append(texts[n], m[2])
			order = append(order, n)
		}
	}
	for _, q := range s.questions {
		if seen[q.channel] {
			continue
		}
		seen[q.channel] = true
		if q.slack == nil {
			for _, p := range s.discord.Posts(q.channel) {
				note(p.Content)
			}
			continue
		}
		for _, p := range s.slack.Posts(q.channel) {
			note(p.Shown())
		}
	}
	return texts, order
}

// tally counts what became of the questions.
type tally struct{ away, inFlight, doubled, unknown, bare int }

// judge checks what was promised and tells the figures.
func (s *storm) judge() {
	s.t.Helper()
	texts, order := s.answers()
	effects := ran(s.dir, "effect")
	var sum tally
	for _, q := range s.questions {
		s.count(&sum, q, texts[q.n])
		runs := effects[strconv.Itoa(q.n)]
		if runs > 1 {
			s.t.Errorf("the effect of question %d was run %d times", q.n, runs)
		}
		for _, text := range texts[q.n] {
			s.outcome(&sum, q, text, runs)
		}
	}
	s.inOrder(order)
	s.noneRejected()
	s.t.Logf("%d kills, %d questions, %d answered, %d doubled; lost on Discord: %d asked while the bot was down, %d within %v before a kill; "+
		"%d effects run, %d calls of unknown outcome; %d answered before their tool was there", s.d.runs-1, len(s.questions), len(texts), sum.doubled,
		sum.away, sum.inFlight, lossTime, len(effects), sum.unknown, sum.bare)
}

// count checks that a question was answered once, unless it may have been lost.
func (s *storm) count(sum *tally, q *question, got []string) {
	s.t.Helper()
	switch {
	case len(got) > 1:
		sum.doubled++
		s.t.Errorf("question %d in %s was answered %d times: %q", q.n, q.lane, len(got), got)
	case len(got) == 1:
	case q.slack == nil && !q.up:
		sum.away++
	case q.late:
		sum.inFlight++
	default:
		s.t.Errorf("question %d in %s was never answered", q.n, q.lane)
	}
}

// outcome checks that an answer tells what happened to the call of its tool.
func (s *storm) outcome(sum *tally, q *question, text string, effects int) {
	s.t.Helper()
	switch {
	case q.kind == "effect" && strings.Contains(text, conversation.Interrupted):
		sum.unknown++
	case strings.Contains(text, "without a tool"):
		if q.kind != "plain" {
			sum.bare++
		}
	case q.kind != "plain" && strings.Contains(text, fmt.Sprintf("%s done for %d", q.kind, q.n)):
		if q.kind == "effect" && effects != 1 {
			s.t.Errorf("question %d was told that its effect was done, which ran %d times", q.n, effects)
		}
	default:
		s.t.Errorf("%s question %d was answered %q", q.kind, q.n, text)
	}
}

// inOrder checks that each conversation was answered in the order of its
// questions. What Slack sent again came later than it was asked.
func (s *storm) inOrder(order []int) {
	s.t.Helper()
	acked := s.acked()
	last := map[string]int{}
	for _, n := range order {
		q := s.questions[n-1]
		if slices.ContainsFunc(q.slack, func(id string) bool { return acked[id].Attempt > 0 }) {
			continue
		}
		if n < last[q.lane] {
			s.t.Errorf("in %s question %d was answered after question %d", q.lane, n, last[q.lane])
		}
		last[q.lane] = n
	}
}
