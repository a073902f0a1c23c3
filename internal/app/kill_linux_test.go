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
	"sync"
	"testing"
	"time"

	"ravenbot/internal/core/conversation"
	"ravenbot/internal/store"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/failpoint"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// question is something asked while the daemon is killed again and again.
type question struct {
	n       int
	kind    string
	lane    string   // the conversation
	channel string   // where its answer is looked for
	slack   []string // event ids; Slack sends them again until they are acknowledged
	subject string   // of its message
	asked   time.Time
}

// storm is a daemon under load, killed again and again.
type storm struct {
	*world
	rng       *rand.Rand
	d         *daemon
	daemons   []*daemon // whose logs are searched
	lanes     []func(text string) question
	questions []*question
	guilds    []simdiscord.Guild // the servers of Discord in which questions are asked
	named     []string           // addresses of channels there
	deaths    map[string]int     // by fail point; "": at a random moment
	// spacing is how long after a question the next one may be asked in the same place; last says when one was.
	spacing time.Duration
	last    map[int]time.Time // by lane
}

// kinds of questions: answered at once, or after a call of a tool.
var asked = regexp.MustCompile(`question (\d+) (plain|look|effect)`)

// stormScript answers every question n of a turn with "answer n;", for some after
// a call of a tool, with delays of all kinds between.
func stormScript(r simmodel.Request) simmodel.Reply {
	all := asked.FindAllStringSubmatch(r.Asked(), -1)
	if all == nil {
		return simmodel.Say("no question")
	}
	results := map[string]string{}
	for _, m := range r.Messages {
		for _, res := range m.Results {
			results[res.ID] = res.Content
		}
	}
	last := must(strconv.Atoi(all[len(all)-1][1]))
	reply := simmodel.Reply{Delay: time.Duration(last*37%150) * time.Millisecond}
	for _, q := range all {
		n, name, id := must(strconv.Atoi(q[1])), "kit_"+q[2], "question-"+q[1]
		result, called := results[id]
		switch {
		case called:
			reply.Text = append(reply.Text, "answer "+q[1], "; ", result, " | ")
		case q[2] == "plain" || !r.Declares(name):
			reply.Text = append(reply.Text, "answer "+q[1], "; without a tool | ")
		default:
			reply.Calls = append(reply.Calls, simmodel.Call{ID: id, Name: name,
				Args: must(json.Marshal(toolArgs{Question: q[1], MS: n * 53 % 300}))})
		}
	}
	if len(reply.Calls) > 0 {
		reply.Text = nil
	}
	return reply
}

// TestChaos kills the daemon under load, RAVENBOT_KILLS times, with the seed
// RAVENBOT_SEED: at random moments and at every named place of its work.
func TestChaos(t *testing.T) {
	kills, seed := 16, uint64(time.Now().UnixNano())
	if s := os.Getenv("RAVENBOT_KILLS"); s != "" {
		kills = must(strconv.Atoi(s))
	}
	if s := os.Getenv("RAVENBOT_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))
	}
	t.Logf("%d kills, RAVENBOT_SEED=%d", kills, seed)
	w := newWorldWith(t, simslack.Options{RetryDelays: slices.Repeat([]time.Duration{300 * time.Millisecond}, 1000)},
		simdiscord.Options{})
	w.model.SetScript(stormScript)
	s := &storm{world: w, rng: rand.New(rand.NewPCG(seed, 0)), deaths: map[string]int{}, last: map[int]time.Time{},
		guilds: []simdiscord.Guild{w.guild}}
	s.addLanes()
	settings := w.base()
	var named []any // so that they are read again though nothing was ever taken from them
	for _, q := range s.named {
		named = append(named, map[string]any{"match": q, "agent": "default"})
	}
	settings["channels"], settings["log"] = named, map[string]any{"level": "debug"}
	s.d = w.daemon(settings).withTools()
	s.d.binary, s.daemons = fragileBinary(), []*daemon{s.d}
	for n := range kills {
		s.live(n)
		s.load(time.Duration(s.rng.IntN(100)) * time.Millisecond) // nobody is there
	}
	s.d.place = ""
	s.d.start()
	s.load(500 * time.Millisecond)
	s.settle()
	db := must(storage.OpenFile(w.path("data/ravenbot.db"), time.Now))
	defer db.Close()
	s.judge(db)
}

// fragileBinary is the daemon that kills itself where it is told to.
var fragileBinary = sync.OnceValue(func() string { return buildDaemon("-tags=failpoint") })

// live starts the daemon and lets it work until it is killed: every other time at
// a named place, which is passed a few times before.
func (s *storm) live(n int) {
	s.d.place = ""
	if places := failpoint.All(); n%2 == 1 {
		s.d.place = places[n/2%len(places)]
	}
	s.deaths[s.d.place]++
	if s.d.place == "" {
		s.d.start()
		s.load(time.Duration(100+s.rng.IntN(1900)) * time.Millisecond)
		s.d.kill()
		return
	}
	s.d.place += ":" + strconv.Itoa(1+s.rng.IntN(6))
	s.d.launch()
	for range 200 { // 10 s at most
		if s.load(50 * time.Millisecond); s.d.dead() {
			break
		}
	}
	if !poll(time.Minute, s.d.dead) { // what waits is answered meanwhile, and nothing more is asked
		s.t.Errorf("the daemon never came to %s", s.d.place)
	}
	s.d.kill()
}

// addLanes makes the conversations: channels of Discord, direct messages, a
// thread and single mentions in Slack.
func (s *storm) addLanes() {
	for n := range max(3, len(s.guilds)) {
		c := s.discord.AddChannel(s.guilds[n%len(s.guilds)], fmt.Sprint("d", n))
		s.named = append(s.named, "discord:"+c.GuildID+"/"+c.ID)
		s.lanes = append(s.lanes, func(text string) question {
			p := s.discord.Say(c.ID, s.anna, s.discord.Mention()+" "+text)
			return question{lane: c.ID, channel: c.ID, subject: "discord/" + p.ID}
		})
	}
	for n := range 2 {
		u := s.slack.AddUser(fmt.Sprint("u", n))
		s.lanes = append(s.lanes, func(text string) question {
			e := s.slack.DM(u, text)
			return slackQuestion(e.Channel, e)
		})
	}
	thread := s.slack.AddChannel("thread")
	root := s.slack.Mention(thread.ID, s.berit, "let us talk here")
	s.lanes = append(s.lanes, func(text string) question {
		e := s.slack.ThreadReply(thread.ID, root.TS, s.berit, simslack.BotMention+" "+text)
		return slackQuestion(root.TS, e)
	}, func(text string) question {
		e := s.slack.Mention(s.channel.ID, s.berit, text)
		return slackQuestion(e.TS, e)
	})
}

// slackQuestion returns the question that a message of Slack is.
func slackQuestion(lane string, e simslack.Event) question {
	return question{lane: lane, channel: e.Channel, slack: e.IDs,
		subject: "slack/" + simslack.TeamID + "/" + e.Channel + "/" + e.TS}
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
		lane := s.rng.IntN(len(s.lanes))
		if time.Since(s.last[lane]) < s.spacing {
			continue
		}
		asked := time.Now()
		s.last[lane] = asked
		n := len(s.questions) + 1
		kind := []string{"plain", "look", "effect"}[s.rng.IntN(3)]
		q := s.lanes[lane](fmt.Sprintf("question %d %s", n, kind))
		q.n, q.kind, q.asked = n, kind, asked
		s.questions = append(s.questions, &q)
	}
}

// settle waits until Slack has brought everything and the daemon has dealt with
// it.
func (s *storm) settle() {
	s.t.Helper()
	s.waitDelivered()
	s.waitOutcomes()
	s.d.idle()
	s.d.end()
}

// waitDelivered waits until Slack has brought everything.
func (s *storm) waitDelivered() {
	s.t.Helper()
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
}

// waitOutcomes waits until every question was answered or refused. It gives up when there was no progress for longer
// than the bot waits before it posts a note that it is busy; judge reports the questions that are left.
func (s *storm) waitOutcomes() {
	s.t.Helper()
	left := len(s.questions) + 1
	for left > 0 {
		before := left
		isLess := func() bool {
			texts, _ := s.answers()
			refused := s.refused()
			left = 0
			for _, q := range s.questions {
				if len(texts[q.n]) == 0 && !refused[q.n] {
					left++
				}
			}
			return left < before
		}
		if !poll(2*time.Minute, isLess) {
			return
		}
	}
}

// refusal matches a question in a note that the bot is too busy for it.
var refusal = regexp.MustCompile(`“question (\d+) \w+”`)

// refused returns the questions whose authors were told that the bot is too busy for them.
func (s *storm) refused() map[int]bool {
	found := map[int]bool{}
	note := func(text string) {
		if !strings.Contains(text, "I am busy right now") {
			return
		}
		for _, m := range refusal.FindAllStringSubmatch(text, -1) {
			found[must(strconv.Atoi(m[1]))] = true
		}
	}
	for _, p := range s.slack.Ephemerals() {
		note(p.Shown())
	}
	seen := map[string]bool{}
	for _, q := range s.questions {
		if q.slack == nil && !seen[q.channel] {
			seen[q.channel] = true
			for _, p := range s.discord.Posts(q.channel) {
				note(p.Content)
			}
		}
	}
	return found
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

var answered = regexp.MustCompile(`answer (\d+); ([^|]*) \|`)

// answers gives the texts of the answers to each question, and their order in a
// channel.
func (s *storm) answers() (texts map[int][]string, order []int) {
	texts = map[int][]string{}
	seen := map[string]bool{}
	note := func(text string) {
		for _, m := range answered.FindAllStringSubmatch(text, -1) {
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
type tally struct{ lost, refused, doubled, unknown, bare int }

// judge checks what was promised and tells the figures.
func (s *storm) judge(db store.Store) {
	s.t.Helper()
	texts, order := s.answers()
	refused := s.refused()
	effects := ran(s.tools, "effect")
	var sum tally
	for _, q := range s.questions {
		if len(texts[q.n]) == 0 && refused[q.n] {
			sum.refused++
			continue
		}
		if s.count(&sum, q, texts[q.n]); len(texts[q.n]) == 0 {
			s.explain(db, q)
		}
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
	s.t.Logf("%d kills (%v), %d questions: lost %d, refused %d, doubled %d; %d effects run, %d calls of unknown "+
		"outcome; %d answered before their tool was there; %d requests rejected by the "+
		"model", s.d.runs-1, s.deaths, len(s.questions), sum.lost, sum.refused, sum.doubled, len(effects),
		sum.unknown, sum.bare, len(s.model.Rejected()))
}

// count checks that a question was answered once.
func (s *storm) count(sum *tally, q *question, got []string) {
	s.t.Helper()
	switch {
	case len(got) > 1:
		sum.doubled++
		s.t.Errorf("question %d in %s was answered %d times: %q", q.n, q.lane, len(got), got)
	case len(got) == 0:
		sum.lost++
		s.t.Errorf("question %d in %s was never answered", q.n, q.lane)
	}
}

// explain prints what is known of a question that was never answered.
func (s *storm) explain(db store.Store, q *question) {
	s.t.Helper()
	at, isOpen, err := db.ConversationOf(s.t.Context(), q.subject)
	s.t.Logf("it was asked as %s at %s; stored as open or answered: %t (in %s), error %v", q.subject,
		q.asked.UTC().Format(time.RFC3339Nano), isOpen, at, err)
	_, turn, err := db.TurnOf(s.t.Context(), q.subject)
	s.t.Logf("its turn: %q %q, error %v", turn.ID, turn.State, err)
	for _, d := range s.slack.Deliveries() {
		if slices.Contains(q.slack, d.EventID) {
			s.t.Logf("delivered at %s, attempt %d, acknowledged %t after %v", d.Sent.UTC().Format(time.RFC3339Nano), d.Attempt,
				d.Acked, d.After)
		}
	}
	for _, line := range s.logged(q.subject) {
		s.t.Log(line)
	}
}

// logged returns the lines with a text that the daemons have logged.
func (s *storm) logged(text string) (lines []string) {
	for _, d := range s.daemons {
		lines = append(lines, d.logged(text)...)
	}
	return lines
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
// questions. What Slack sent again came later than it was asked, and so did, of several replicas, what waited until
// somebody had taken over from the one that its channel belonged to. The next start answers a refused question if the
// crash came before the note.
func (s *storm) inOrder(order []int) {
	s.t.Helper()
	acked := s.acked()
	last := map[string]int{}
	refusals := strings.Join(s.logged("message refused, too many wait"), "")
	for _, n := range order {
		q := s.questions[n-1]
		if strings.Contains(refusals, "message="+q.subject+"\n") {
			continue
		}
		if slices.ContainsFunc(q.slack, func(id string) bool {
			return acked[id].Attempt > 0 || s.spacing > 0 && acked[id].After > s.spacing
		}) {
			continue
		}
		if n < last[q.lane] {
			s.t.Errorf("in %s question %d was answered after question %d", q.lane, n, last[q.lane])
		}
		last[q.lane] = n
	}
}
