package app_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// shardsOf returns how many shards of Discord a replica has; 0 where it does not answer.
func (r *replicas) shardsOf(n int) int {
	v, _ := r.gauge(n, `ravenbot_platform_shards{platform="discord"}`)
	return int(v)
}

// waitShards waits until all replicas that run are connected, and have all shards together.
func (r *replicas) waitShards() {
	r.t.Helper()
	within(r.t, "all shards are connected", func() bool {
		sum := 0
		for n, d := range r.all {
			select {
			case <-d.gone:
				continue
			default:
			}
			if !r.isReady(n) {
				return false
			}
			sum += r.shardsOf(n)
		}
		return sum == shards
	})
}

// askInNewChannels asks on each shard in a channel in which nobody has ever spoken to the bot: no history tells of it.
// It leaves out shards of which a replica that has ended could not leave the session: on a busy machine that may
// happen.
func (r *replicas) askInNewChannels(ended *daemon) {
	for n, g := range r.guilds {
		if strings.Contains(ended.out.String(), fmt.Sprintf("shard=%d session_left=false", n)) {
			continue
		}
		c := r.discord.AddChannel(g, "new")
		q := &question{n: len(r.questions) + 1, kind: "plain", lane: c.ID, channel: c.ID}
		r.discord.Say(c.ID, r.anna, fmt.Sprintf("%s question %d plain", r.discord.Mention(), q.n))
		r.questions = append(r.questions, q)
	}
}

// TestReplicas_ShareDiscord has three replicas with four shards of Discord updated one after the other, killed and
// paused, under load: no question is lost or answered twice, and few sessions of those of the day are used up.
func TestReplicas_ShareDiscord(t *testing.T) {
	t.Parallel()
	r := newReplicas(t, 3, uint64(time.Now().UnixNano()), nil)
	r.leader()
	r.waitShards()
	for n := range r.all {
		if have := r.shardsOf(n); have > 2 {
			t.Logf("replica %d began alone, with %d shards", n, have)
		}
	}
	r.load(time.Second)
	before := len(r.discord.Identifies())
	for n := range r.all {
		moved := r.shardsOf(n)
		r.note()
		r.all[n].terminate()
		r.askInNewChannels(r.all[n])
		r.load(time.Second)
		r.waitShards()
		r.all[n].launch()
		r.load(time.Second)
		r.waitShards()
		t.Logf("replica %d had %d shards; %d sessions were begun", n, moved, len(r.discord.Identifies()))
	}
	// Two of three replicas have the shards of the third one after each step; a shard or two may move for balance besides.
	rolling := len(r.discord.Identifies()) - before
	if t.Logf("a rolling restart began %d sessions for %d shards", rolling, shards); rolling > 3*shards {
		t.Errorf("a rolling restart began %d sessions, want %d at most", rolling, 3*shards)
	}
	resumed := 0
	for _, one := range r.discord.Resumes() {
		if one.OK {
			resumed++
		}
	}
	if resumed == 0 {
		t.Error("no session of a replica that was stopped was read on")
	}
	for n := range r.all {
		if r.shardsOf(n) > 0 {
			r.kill(n)
			break
		}
	}
	r.waitShards()
	for n := range r.all {
		if r.shardsOf(n) > 0 {
			r.pause(n)
			break
		}
	}
	r.waitShards()
	r.load(500 * time.Millisecond)
	r.note()
	r.finish()
}
