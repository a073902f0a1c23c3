package app_test

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// crowd is many people who speak at once in a few channels.
type crowd struct {
	*world
	bot     *bot
	slack   []simslack.Channel
	discord []simdiscord.Channel
	said    map[string]string // who said what: "platform user" by token
	stamps  map[string]string // tokens by the platform's name of the message
}

// modelTakes is how long the model takes to answer: less than any does.
const modelTakes = 250 * time.Millisecond

// TestACrowdAndQuietChannels says 600 things at once, or as many as RAVENBOT_CROWD
// tells, while questions are asked elsewhere now and then.
func TestACrowdAndQuietChannels(t *testing.T) {
	many := 600
	if n, err := strconv.Atoi(os.Getenv("RAVENBOT_CROWD")); err == nil {
		many = n
	}
	c := newCrowd(t, modelTakes)
	q := quietChannels(c.world)
	q.ask(t, 1) // warms up
	idle := q.ask(t, 3)
	peak, stop := watchHeap()
	began := time.Now()
	settled := make(chan struct{})
	var answered, busy int
	go func() {
		defer close(settled)
		c.talk(many, many/20)
		answered, busy = c.settle(t)
	}()
	var during []time.Duration
	for under := true; under; {
		during = append(during, q.ask(t, 1)...)
		select {
		case <-settled:
			under = false
		default:
		}
	}
	took := time.Since(began)
	stop()
	t.Logf("%d messages of %d users in %d channels: %d answered, %d told busy, in %v; quiet channels p95 %v idle, %v "+
		"meanwhile; heap at most %d MiB",
		many, many/20, len(c.slack)+len(c.discord), answered, busy, took.Round(time.Millisecond), p95(idle),
		p95(during), *peak>>20)
	limit := 2 * p95(idle)
	if os.Getenv("RAVENBOT_CROWD") == "" {
		limit += 20 * time.Second // figures are of use only where nothing else runs
	}
	if p95(during) > limit {
		t.Errorf("quiet channels were answered within %v (p95), idle %v", p95(during), p95(idle))
	}
	if *peak > 256<<20+uint64(many)*(32<<10) {
		t.Errorf("the heap grew to %d MiB", *peak>>20)
	}
}

// Of a crowd that is too large for a slow model the surplus is told that the bot is
// busy, and nothing is lost without a word. The model answers nobody before somebody was told, so
// that the test does not depend on the speed of the machine.
func TestACrowdTooLarge(t *testing.T) {
	c := newCrowd(t, 0)
	overloaded := make(chan struct{})
	c.model.SetScript(func(simmodel.Request) simmodel.Reply {
		<-overloaded
		return simmodel.Reply{Text: []string{"fine"}}
	})
	c.talk(1500, 10)
	within(t, "somebody is told that the bot is busy", func() bool {
		_, told := c.outcomes()
		return len(told) > 0
	})
	close(overloaded)
	answered, busy := c.settle(t)
	t.Logf("%d answered, %d told busy", answered, busy)
	if busy == 0 || answered == 0 {
		t.Errorf("%d are answered and %d told busy, want some of both", answered, busy)
	}
}

func newCrowd(t *testing.T, modelTakes time.Duration) *crowd {
	w := newWorld(t)
	w.model.SetScript(func(simmodel.Request) simmodel.Reply {
		return simmodel.Reply{Text: []string{"fine"}, Delay: modelTakes}
	})
	c := &crowd{world: w, bot: w.run(w.base()), said: map[string]string{}, stamps: map[string]string{}}
	for n := range 2 {
		c.slack = append(c.slack, w.slack.AddChannel(fmt.Sprint("crowd", n)))
		c.discord = append(c.discord, w.discord.AddChannel(w.guild, fmt.Sprint("crowd", n)))
	}
	return c
}

func p95(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)*95/100].Round(time.Millisecond)
}

// watchHeap tells the largest heap until stop is called.
func watchHeap() (peak *uint64, stop func()) {
	var most uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return &most, func() { close(done); <-ended }
}

// talk has so many users say so much, all at once.
func (c *crowd) talk(many, users int) {
	var inSlack []simslack.User
	var inDiscord []simdiscord.User
	for n := range users {
		inSlack = append(inSlack, c.world.slack.AddUser(fmt.Sprint("user", n)))
		inDiscord = append(inDiscord, c.world.discord.AddUser(fmt.Sprint("user", n)))
	}
	for n := range many {
		token, u := fmt.Sprint("m", n), n%users
		if n/users%2 == 0 {
			e := c.world.slack.Mention(c.slack[u%2].ID, inSlack[u], token)
			c.said[token], c.stamps[e.TS] = "slack "+inSlack[u].ID, token
		} else {
			p := c.world.discord.Say(c.discord[u%2].ID, inDiscord[u], c.world.discord.Mention()+" "+token)
			c.said[token], c.stamps[p.ID] = "discord "+inDiscord[u].Name, token
		}
	}
}

var tokens = regexp.MustCompile(`\bm[0-9]+\b`)

// outcomes counts the answers that each message has, and who was told that the bot
// is busy.
func (c *crowd) outcomes() (answers map[string]int, told map[string]bool) {
	answers, told = map[string]int{}, map[string]bool{}
	for _, channel := range c.slack {
		for _, p := range c.world.slack.Posts(channel.ID) {
			answers[c.stamps[p.ThreadTS]]++
		}
	}
	for _, p := range c.world.slack.Ephemerals() {
		if strings.Contains(p.Text, "busy right now") {
			told["slack "+p.EphemeralTo] = true
		}
	}
	for _, channel := range c.discord {
		for _, p := range c.world.discord.Posts(channel.ID) {
			if _, names, busy := strings.Cut(p.Content, "busy"); busy {
				for _, one := range regexp.MustCompile(`user[0-9]+`).FindAllString(names, -1) {
					told["discord "+one] = true
				}
				told[c.said[c.stamps[p.ReplyTo]]] = true
				continue
			}
			of := append(tokens.FindAllString(p.Content, -1), c.stamps[p.ReplyTo])
			slices.Sort(of)
			for _, token := range slices.Compact(of) {
				answers[token]++
			}
		}
	}
	return answers, told
}

// settle waits until nothing is left to do and every message has an outcome, and
// checks that it has but one.
func (c *crowd) settle(t *testing.T) (answered, busy int) {
	open, look := "", time.NewTicker(500*time.Millisecond)
	defer look.Stop()
	end := time.Now().Add(3 * time.Minute)
	is := func() bool {
		answers, told := c.outcomes()
		answered, busy, open = 0, 0, ""
		for token, who := range c.said {
			switch {
			case answers[token] > 0:
				answered++
			case told[who]:
				busy++
			default:
				open = token + " of " + who
			}
		}
		return open == "" && strings.Contains(c.bot.metrics(), "ravenbot_conversations_active 0")
	}
	for !is() {
		if <-look.C; time.Now().After(end) {
			t.Errorf("%d messages are answered and %d told busy, but not %s", answered, busy, open)
			return answered, busy
		}
	}
	answers, _ := c.outcomes()
	for token, n := range answers {
		if n != 1 || c.said[token] == "" {
			t.Errorf("message %q of %s has %d answers", token, c.said[token], n)
		}
	}
	return answered, busy
}

// quiet are channels in which somebody asks something now and then.
type quiet struct {
	*world
	slack   []simslack.Channel
	discord []simdiscord.Channel
	berits  []simslack.User
	annas   []simdiscord.User
}

func quietChannels(w *world) *quiet {
	q := &quiet{world: w}
	for n := range 10 {
		q.slack = append(q.slack, w.slack.AddChannel(fmt.Sprint("quiet", n)))
		q.discord = append(q.discord, w.discord.AddChannel(w.guild, fmt.Sprint("quiet", n)))
		q.berits = append(q.berits, w.slack.AddUser(fmt.Sprint("berit", n)))
		q.annas = append(q.annas, w.discord.AddUser(fmt.Sprint("anna", n)))
	}
	return q
}

// ask asks so often in each channel, in turn with a pause, and gives how long each
// answer took.
func (q *quiet) ask(t *testing.T, times int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for range times {
		for n := range q.slack {
			<-tick.C
			wg.Go(func() {
				began := time.Now()
				e := q.world.slack.Mention(q.slack[n].ID, q.berits[n], "quietly")
				if _, err := q.world.slack.WaitPost(deadline(t), q.slack[n].ID, func(p simslack.Post) bool {
					return p.ThreadTS == e.TS
				}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
			})
			<-tick.C
			wg.Go(func() {
				began := time.Now()
				said := q.world.discord.Say(q.discord[n].ID, q.annas[n], q.world.discord.Mention()+" quietly")
				if _, err := q.world.discord.WaitPost(deadline(t), q.discord[n].ID, func(p simdiscord.Post) bool {
					return p.ReplyTo == said.ID
				}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
			})
		}
		wg.Wait()
	}
	return took
}
