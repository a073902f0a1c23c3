package delivery

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ravenbot/internal/core/chat"
)

// What is answered in a channel makes room for one message, and not for all that wait there.
func TestLimiter_OneOfSeveralIsAnswered_TheOthersCount(t *testing.T) {
	c := newLimiter(Limits{MaxPerChannel: 2}, 256, 10_000)
	waiting := func(n int) pendingMessage {
		return newPendingMessage(chat.Message{ID: fmt.Sprint(n), Conversation: chat.Address{Platform: "slack", Channel: "C"}})
	}
	c.add(waiting(1))
	c.add(waiting(2))
	c.remove(waiting(1))
	c.add(waiting(3))
	m := chat.Message{ID: "4", Conversation: chat.Address{Platform: "slack", Channel: "C"}}
	if c.allow(m, 2, time.Unix(0, 0)) {
		t.Error("a third message may wait where two do")
	}
	c.remove(waiting(2))
	if !c.allow(m, 1, time.Unix(0, 0)) {
		t.Error("a second message may not wait where one does")
	}
}

// As many messages may wait as the backlog holds, and twice as many where a channel has none yet.
func TestLimiter_Backlog_EndsWhereItSays(t *testing.T) {
	const backlog = 10
	busy, idle := chat.Address{Platform: "slack", Channel: "C1"}, chat.Address{Platform: "slack", Channel: "C2"}
	for _, tt := range []struct {
		in   chat.Address
		open int
		want bool
	}{{busy, backlog - 1, true}, {busy, backlog, false}, {idle, 2*backlog - 1, true}, {idle, 2 * backlog, false}} {
		c := newLimiter(Limits{}, 256, backlog)
		c.add(newPendingMessage(chat.Message{ID: "1", Conversation: busy}))
		if got := c.allow(chat.Message{ID: "2", Conversation: tt.in}, tt.open, time.Unix(0, 0)); got != tt.want {
			t.Errorf("with %d open messages one in %s may wait: %v, want %v", tt.open, tt.in, got, tt.want)
		}
	}
}

// A channel in which nothing runs any more takes no memory.
func TestWorkerSlots_ChannelsThatAreDone_AreForgotten(t *testing.T) {
	s := newWorkerSlots(4, 2)
	for n := range 1000 {
		a := chat.Address{Platform: "slack", Channel: fmt.Sprint(n)}
		if !s.acquire(t.Context(), a) {
			t.Fatal("no slot is free")
		}
		s.release(a)
	}
	if len(s.running) > 0 || len(s.waiting) > 0 || s.free != 4 {
		t.Errorf("%d channels run and %d wait, with %d free slots", len(s.running), len(s.waiting), s.free)
	}
}

// What is known of users who have gone is forgotten.
func TestIdleBucketsAreDropped(t *testing.T) {
	c, now, most := newLimiter(Limits{}, 256, 10_000), time.Unix(0, 0), 0
	for n := range 100_000 {
		m := chat.Message{ID: fmt.Sprint(n), Author: chat.User{ID: fmt.Sprint(n)},
			Conversation: chat.Address{Platform: "slack", Channel: "C"}}
		if !c.allow(m, 9_000, now) {
			t.Fatalf("user %d may say nothing", n)
		}
		c.add(newPendingMessage(m))
		c.remove(newPendingMessage(m))
		now = now.Add(100 * time.Millisecond)
		most = max(most, len(c.buckets))
	}
	if most > 1000 || len(c.users) > 0 || len(c.channels) > 0 {
		t.Errorf("%d buckets at a time, and %d users and %d channels in the end", most, len(c.users), len(c.channels))
	}
}

// A free slot goes to the channel that has the fewest, and none to a channel that has all it may have.
func TestWorkerSlots_FreeSlot_GoesToTheChannelWithTheFewest(t *testing.T) {
	channel := func(name string) chat.Address { return chat.Address{Platform: "slack", Channel: name} }
	for range 20 { // which channel of a map is looked at first is by chance
		s := newWorkerSlots(4, 3)
		for _, name := range []string{"A", "A", "A", "B"} {
			if !s.acquire(t.Context(), channel(name)) {
				t.Fatal("a free slot is not granted")
			}
		}
		waits := func(name string) chan struct{} {
			turn := make(chan struct{})
			s.waiting[channel(name)] = append(s.waiting[channel(name)], turn)
			return turn
		}
		turns := map[string]chan struct{}{"A": waits("A"), "B": waits("B"), "C": waits("C")}
		for _, step := range []struct{ release, want string }{{"A", "C"}, {"C", "B"}, {"B", "A"}} {
			s.release(channel(step.release))
			for name, turn := range turns {
				select {
				case <-turn:
					if name != step.want {
						t.Fatalf("%s got the slot, want %s", name, step.want)
					}
					delete(turns, name)
				default:
					if name == step.want {
						t.Fatalf("%s did not get the slot", name)
					}
				}
			}
		}
	}
	s := newWorkerSlots(3, 1)
	s.acquire(t.Context(), channel("A"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s.acquire(ctx, channel("A")) {
		t.Error("a channel got more slots than it may have")
	}
}

// The defaults are those that the fields name.
func TestLimits_WithoutValues_HaveDefaults(t *testing.T) {
	want := Limits{UserInterval: 3 * time.Second, UserBurst: 10, RelaxedBelow: 500, MaxPerUser: 100, MaxPerChannel: 2500,
		MaxTurnsPerChannel: 32}
	if got := (Limits{}).withDefaults(256, 10_000); got != want {
		t.Errorf("the defaults are %+v, want %+v", got, want)
	}
	small := Limits{UserInterval: 3 * time.Second, UserBurst: 10, RelaxedBelow: 1, MaxPerUser: 100, MaxPerChannel: 1,
		MaxTurnsPerChannel: 1}
	if got := (Limits{}).withDefaults(1, 1); got != small {
		t.Errorf("the defaults of a small bot are %+v, want %+v", got, small)
	}
	set := Limits{UserInterval: time.Second, UserBurst: 2, RelaxedBelow: 3, MaxPerUser: 4, MaxPerChannel: 5,
		MaxTurnsPerChannel: 6}
	if got := set.withDefaults(256, 10_000); got != set {
		t.Errorf("values that are set became %+v, want %+v", got, set)
	}
}

// The cost of looking for full buckets is spread: it is done again when there are twice as many.
func TestLimiter_BucketsThatStay_AreLookedAtLessOften(t *testing.T) {
	c, now := newLimiter(Limits{}, 256, 10_000), time.Unix(1000, 0)
	for n := range minSweep + 1 {
		c.takeToken(fmt.Sprint(n), now)
	}
	if c.sweepAt != 2*minSweep || len(c.buckets) != minSweep+1 {
		t.Errorf("%d buckets are looked at when there are %d, want %d", len(c.buckets), c.sweepAt, 2*minSweep)
	}
	c.dropFullBuckets(now.Add(time.Hour))
	if c.sweepAt != minSweep || len(c.buckets) != 0 {
		t.Errorf("%d full buckets stay, looked at when there are %d", len(c.buckets), c.sweepAt)
	}
}

// Of very many users a process tells those who send most, and whose messages wait.
func TestLimiter_ManyUsers_TellsOfThoseWhoSendMost(t *testing.T) {
	c, now := newLimiter(Limits{}, 256, 10_000), time.Unix(0, 0)
	for n := range maxTold + 2 {
		c.takeToken(fmt.Sprint("user ", n), now)
	}
	for range 3 {
		c.takeToken("sends", now)
		c.users["waits"]++
	}
	told := c.told(now)
	if len(told) != maxTold || told["sends"] != (sender{Sent: 3}) || told["waits"] != (sender{Open: 3}) {
		t.Errorf("it tells of %d users: %+v, %+v", len(told), told["sends"], told["waits"])
	}
}

// What is answered of a user makes room for one message, and not for all that wait.
func TestLimiter_OneOfSeveralOfAUserIsAnswered_TheOthersCount(t *testing.T) {
	c := newLimiter(Limits{MaxPerUser: 2}, 256, 10_000)
	m := func(n int) chat.Message {
		return chat.Message{ID: fmt.Sprint(n), Author: chat.User{ID: "U"},
			Conversation: chat.Address{Platform: "slack", Channel: fmt.Sprint(n)}}
	}
	c.add(newPendingMessage(m(1)))
	c.add(newPendingMessage(m(2)))
	c.remove(newPendingMessage(m(1)))
	c.add(newPendingMessage(m(3)))
	if c.allow(m(4), 2, time.Unix(0, 0)) {
		t.Error("a third message may wait where two do")
	}
}

// Whoever has used up a rate is heard while the bot is not busy, and where nothing else of theirs waits.
func TestLimiter_RateIsUsedUp_CountsWhereTheBotIsBusy(t *testing.T) {
	m := chat.Message{ID: "1", Author: chat.User{ID: "U"}, Conversation: chat.Address{Platform: "slack", Channel: "C"}}
	for _, tt := range []struct {
		open, waiting int
		want          bool
	}{{4, 1, true}, {5, 1, false}, {5, 0, true}} {
		c := newLimiter(Limits{UserBurst: 1, RelaxedBelow: 5}, 256, 10_000)
		c.takeToken(userKey(m), time.Unix(0, 0))
		for range tt.waiting {
			c.add(newPendingMessage(m))
		}
		if got := c.allow(m, tt.open, time.Unix(0, 0)); got != tt.want {
			t.Errorf("with %d open messages and %d of their own: %v, want %v", tt.open, tt.waiting, got, tt.want)
		}
	}
}

// An empty bucket gets a token in every interval, and one that was full in between is counted from there.
func TestLimiter_Tokens_ComeBack(t *testing.T) {
	c, now := newLimiter(Limits{UserInterval: 3 * time.Second, UserBurst: 2}, 256, 10_000), time.Unix(1000, 0)
	for _, step := range []struct {
		after time.Duration
		want  bool
	}{{0, true}, {0, true}, {0, false}, {2 * time.Second, false}, {time.Second, true}, {0, false}, {time.Hour, true}} {
		now = now.Add(step.after)
		if got := c.takeToken("U", now); got != step.want {
			t.Errorf("at %v a token is there: %v, want %v", now.Sub(time.Unix(1000, 0)), got, step.want)
		}
	}
	if told := c.told(now); told["U"].Sent != 1 {
		t.Errorf("others are told that %d were sent since the bucket was full, want 1", told["U"].Sent)
	}
}

// What another process has told before is not taken again.
func TestLimiter_ToldAgain_TakesWhatIsNew(t *testing.T) {
	c, now := newLimiter(Limits{UserBurst: 10}, 256, 10_000), time.Unix(1000, 0)
	for _, step := range []struct {
		sent int
		left float64
	}{{3, 7}, {3, 7}, {5, 5}, {2, 3}} { // the last after the bucket there was full
		c.hear(map[int64]map[string]sender{1: {"U": {Sent: step.sent}}}, now)
		if got := c.tokensAt(c.buckets["U"], now); got != step.left {
			t.Errorf("%d sent elsewhere leave %v, want %v", step.sent, got, step.left)
		}
	}
}
