package app_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/testing/pgtest"
	simdiscord "ravenbot/internal/testing/sim/discord"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// replicas are daemons on one database.
type replicas struct {
	*storm
	cluster *pgtest.Cluster
	url     string
	all     []*daemon
	hosts   []string // their addresses
	// accepted are the replicas that were seen to have accepted messages.
	accepted map[int]bool
}

// shards is how many sessions Discord asks for.
const shards = 4

// newReplicas starts n daemons in a world under load, with more in their configuration.
func newReplicas(t *testing.T, n int, seed uint64, more map[string]any) *replicas {
	t.Helper()
	cluster := pgtest.NewCluster(t, pgtest.Options{})
	w := newWorldWith(t, simslack.Options{RetryDelays: slices.Repeat([]time.Duration{300 * time.Millisecond}, 300)},
		simdiscord.Options{Shards: shards, MaxConcurrency: shards})
	w.model.SetScript(stormScript)
	r := &replicas{
		// What one person says in a row takes them some time; what comes faster, over different connections, has no
		// order of its own.
		storm: &storm{world: w, rng: rand.New(rand.NewPCG(seed, 0)), deaths: map[string]int{}, last: map[int]time.Time{},
			spacing: 400 * time.Millisecond},
		cluster: cluster,
		url:     cluster.Database(t),

		accepted: map[int]bool{},
	}
	t.Cleanup(func() {
		for i, d := range r.all {
			if t.Failed() {
				t.Logf("replica %d at %s:\n%s", i, r.hosts[i], d.out)
			}
		}
	})
	for n := range shards {
		r.guilds = append(r.guilds, w.discord.AddGuildOn(n, shards, fmt.Sprint("guild of shard ", n)))
	}
	r.addLanes()
	var named []any
	for _, q := range r.named {
		named = append(named, map[string]any{"match": q, "agent": "default"})
	}
	for range n {
		settings := w.base()
		settings["channels"], settings["log"] = named, map[string]any{"level": "debug"}
		maps.Copy(settings, more)
		settings["store"] = r.url
		settings["storeKey"] = base64.StdEncoding.EncodeToString(make([]byte, 32))
		host := ownAddress()
		settings["http"] = map[string]any{"listen": host, "adminToken": "admin-token"}
		d := w.daemon(settings).withTools()
		d.dir = t.TempDir()
		d.launch()
		r.all, r.hosts = append(r.all, d), append(r.hosts, host)
	}
	return r
}

// addresses is how many addresses of loopback were given to replicas.
var addresses atomic.Int32

// ownAddress returns an address of loopback that nobody else listens on, also while the replica it is for is down: it is
// not 127.0.0.1, from which connections take the ports that are free.
func ownAddress() string {
	n, pid := addresses.Add(1), os.Getpid()
	l := must(net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+n%250, pid>>8&255, pid&255)))
	defer l.Close()
	return l.Addr().String()
}

// gauge returns a metric of a replica; false where it does not answer.
func (r *replicas) gauge(n int, name string) (float64, bool) {
	client := http.Client{Timeout: 2 * time.Second}
	req := must(http.NewRequest(http.MethodGet, "http://"+r.hosts[n]+"/metrics", nil))
	req.Header.Set("Authorization", "Bearer admin-token")
	res, err := client.Do(req)
	if err != nil {
		return 0, false
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			v, err := strconv.ParseFloat(value, 64)
			return v, err == nil
		}
	}
	return 0, false
}

// isReady reports whether a replica is connected.
func (r *replicas) isReady(n int) bool {
	client := http.Client{Timeout: 2 * time.Second}
	res, err := client.Get("http://" + r.hosts[n] + "/readyz")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// leader waits until a replica leads and is connected, and returns which.
func (r *replicas) leader() int {
	r.t.Helper()
	found := -1
	within(r.t, "a replica leads", func() bool {
		for n, d := range r.all {
			if v, ok := r.gauge(n, "ravenbot_replica_leader"); ok && v == 1 && d.cmd != nil && r.isReady(n) {
				found = n
			}
		}
		return found >= 0
	})
	return found
}

// follower returns a replica that does not lead.
func (r *replicas) follower() int { return (r.leader() + 1 + r.rng.IntN(len(r.all)-1)) % len(r.all) }

// note remembers which replicas accept messages.
func (r *replicas) note() {
	for n := range r.all {
		if v, ok := r.gauge(n, `ravenbot_messages_total{outcome="accepted"}`); ok && v > 0 {
			r.accepted[n] = true
		}
	}
}

// trouble is something that happens to replicas while they work.
type trouble struct {
	name string
	make func(r *replicas)
}

// kill kills a replica and starts it again.
func (r *replicas) kill(n int) {
	r.all[n].kill()
	r.load(2 * time.Second)
	r.all[n].launch()
}

// pause stops a replica until others have taken over, and lets it go on.
func (r *replicas) pause(n int) {
	_ = r.all[n].cmd.Process.Signal(syscall.SIGSTOP)
	said := fmt.Sprintf("/%d messages=", r.all[n].cmd.Process.Pid)
	within(r.t, "others take over from a replica that is paused", func() bool {
		r.load(500 * time.Millisecond)
		return slices.ContainsFunc(r.all, func(d *daemon) bool { return strings.Contains(d.out.String(), said) })
	})
	_ = r.all[n].cmd.Process.Signal(syscall.SIGCONT)
	r.load(500 * time.Millisecond)
	within(r.t, "the paused replica begins anew", func() bool {
		return strings.Contains(r.all[n].out.String(), "taken over") && r.isReady(n)
	})
}

func troubles() []trouble {
	return []trouble{
		{"the leader is killed", func(r *replicas) { r.kill(r.leader()) }},
		{"another replica is killed", func(r *replicas) { r.kill(r.follower()) }},
		{"the database restarts", func(r *replicas) {
			if err := r.cluster.Stop(); err != nil {
				r.t.Fatal(err)
			}
			r.load(300 * time.Millisecond)
			if err := r.cluster.Start(); err != nil {
				r.t.Fatal(err)
			}
		}},
		{"another replica is paused past its time", func(r *replicas) { r.pause(r.follower()) }},
		{"the leader is stopped and started", func(r *replicas) {
			n := r.leader()
			r.all[n].terminate()
			r.load(time.Second)
			r.all[n].launch()
		}},
		{"the database is killed", func(r *replicas) {
			if err := r.cluster.Kill(); err != nil {
				r.t.Fatal(err)
			}
			r.load(300 * time.Millisecond)
			if err := r.cluster.Start(); err != nil {
				r.t.Fatal(err)
			}
		}},
		{"another replica is stopped and started", func(r *replicas) {
			n := r.follower()
			r.all[n].terminate()
			r.load(time.Second)
			r.all[n].launch()
		}},
		{"the leader is paused past its time", func(r *replicas) { r.pause(r.leader()) }},
	}
}

// TestChaosOfReplicas has three daemons on one database answer under load while they and the database are killed,
// paused and restarted, RAVENBOT_TROUBLES times, with the seed RAVENBOT_SEED.
func TestChaosOfReplicas(t *testing.T) {
	count, seed := len(troubles()), uint64(time.Now().UnixNano())
	if s := os.Getenv("RAVENBOT_TROUBLES"); s != "" {
		count = must(strconv.Atoi(s))
	}
	if s := os.Getenv("RAVENBOT_SEED"); s != "" {
		seed = must(strconv.ParseUint(s, 10, 64))
	}
	t.Logf("%d times trouble, RAVENBOT_SEED=%d", count, seed)
	r := newReplicas(t, 3, seed, nil)
	for n := range count {
		r.leader()
		r.load(time.Second)
		r.note()
		next := troubles()[n%len(troubles())]
		r.deaths[next.name]++
		next.make(r)
	}
	r.load(500 * time.Millisecond)
	r.note()
	r.finish()
}

// finish waits until everything is answered, ends the replicas, and checks what was promised.
func (r *replicas) finish() {
	r.t.Helper()
	r.waitDelivered()
	r.waitOutcomes()
	within(r.t, "the replicas have nothing to do", func() bool {
		for n := range r.all {
			working, ok := r.gauge(n, "ravenbot_conversations_active")
			waiting, _ := r.gauge(n, "ravenbot_work_waiting")
			if !ok || working+waiting > 0 {
				return false
			}
		}
		return true
	})
	if len(r.accepted) < len(r.all) {
		r.t.Errorf("%d of %d replicas took part in the work", len(r.accepted), len(r.all))
	}
	for _, d := range r.all {
		d.terminate()
	}
	r.d, r.daemons = r.all[0], r.all
	db := must(storage.OpenDatabase(r.t.Context(), r.url, postgres.Options{Log: slog.New(slog.DiscardHandler)}))
	defer db.Close()
	owesNothing(r.t, db)
	r.judge(db)
}

// at returns a channel of Slack that a replica owns.
func (r *replicas) at(n int) string {
	r.t.Helper()
	for range 20 {
		c := r.slack.AddChannel("one of several").ID
		before := make([]float64, len(r.all))
		for i := range r.all {
			before[i], _ = r.gauge(i, `ravenbot_messages_total{outcome="accepted"}`)
		}
		r.slack.Mention(c, r.berit, "hello")
		owner := -1
		within(r.t, "a replica accepts a message", func() bool {
			for i := range r.all {
				if now, ok := r.gauge(i, `ravenbot_messages_total{outcome="accepted"}`); ok && now > before[i] {
					owner = i
				}
			}
			return owner >= 0
		})
		// What the model says may be changed next: the answer must not come after that.
		if _, err := r.slack.WaitPost(deadline(r.t), c, func(simslack.Post) bool { return true }); err != nil {
			r.t.Fatal(err)
		}
		if owner == n {
			return c
		}
	}
	r.t.Fatalf("Slack gave no channel to replica %d", n)
	return ""
}

// api asks a replica.
func (r *replicas) api(n int, method, path, body string, out any) {
	r.t.Helper()
	req := must(http.NewRequest(method, "http://"+r.hosts[n]+path, strings.NewReader(body)))
	req.Header.Set("Authorization", "Bearer admin-token")
	req.Header.Set("Content-Type", "application/json")
	res := must(http.DefaultClient.Do(req))
	defer res.Body.Close()
	text := must(io.ReadAll(res.Body))
	if res.StatusCode >= 300 || out != nil && json.Unmarshal(text, out) != nil {
		r.t.Fatalf("%s %s: %s %s", method, path, res.Status, text)
	}
}

// TestReplicas_AreOneBot has a channel that one replica owns use what another one, the leader, does and knows.
func TestReplicas_AreOneBot(t *testing.T) {
	t.Parallel()
	const dailyFiles = 5
	r := newReplicas(t, 2, 1, map[string]any{"limits": map[string]any{"userDailyFiles": dailyFiles},
		"tools": map[string]any{
			"policy": []any{map[string]any{"tools": []string{"kit.*"}, "decision": "ask"}}}})
	leader := r.leader()
	follower := 1 - leader
	within(t, "both replicas are connected", func() bool { return r.isReady(leader) && r.isReady(follower) })
	r.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("hello") })
	channel := r.at(follower)

	t.Run("a call that waits here is approved on the page there", func(t *testing.T) {
		within(t, "the tools of the replica are there", func() bool {
			return strings.Contains(r.all[follower].out.String(), "mcp server connected")
		})
		useTool := useOnce("kit_effect")
		r.model.SetScript(func(q simmodel.Request) simmodel.Reply {
			// A greeting that looked for a channel of this replica may still wait for its answer.
			if last := q.Last(); len(last.Results) == 0 && !strings.Contains(last.Text, "use it") {
				return simmodel.Say("hello")
			}
			return useTool(q)
		})
		r.slack.Mention(channel, r.berit, "use it")
		if _, err := r.slack.WaitPost(deadline(t), channel, inSlack("May I run")); err != nil {
			t.Fatal(err)
		}
		var open struct{ Items []struct{ ID string } }
		within(t, "the leader knows of the call", func() bool {
			r.api(follower, http.MethodGet, "/api/v1/approvals", "", &open)
			return len(open.Items) == 1
		})
		r.api(follower, http.MethodPost, "/api/v1/approvals/"+url.PathEscape(open.Items[0].ID), `{"decision":"approve"}`, nil)
		if _, err := r.slack.WaitPost(deadline(t), channel, inSlack("effect done for q")); err != nil {
			t.Fatal(err)
		}
		if _, err := r.slack.WaitPost(deadline(t), channel, inSlack("*Approved* by")); err != nil {
			t.Error(err)
		}
	})
	t.Run("what is set on the page counts here", func(t *testing.T) {
		r.model.SetScript(func(q simmodel.Request) simmodel.Reply {
			return simmodel.Say(fmt.Sprint("rhymes: ", strings.Contains(q.System, "Answer in rhymes.")))
		})
		set := `{"channels":{"slack:` + simslack.TeamID + `/` + channel + `":{"tools":{"systemPrompt":"Answer in rhymes."}}}}`
		r.api(follower, http.MethodPut, "/api/v1/settings", set, nil)
		within(t, "what was set reaches the owner of the channel", func() bool {
			e := r.slack.Mention(channel, r.berit, "hello")
			answered := func(p simslack.Post) bool { return p.ThreadTS == e.TS && strings.Contains(p.Shown(), "rhymes:") }
			p, err := r.slack.WaitPost(deadline(t), channel, answered)
			return err == nil && strings.Contains(p.Shown(), "rhymes: true")
		})
	})
	t.Run("what is set in channels of both at once is all kept", func(t *testing.T) {
		there := r.at(leader)
		// set changes a setting of the user in a channel, and returns what that is answered.
		set := func(in, text string) string {
			call := r.slack.Slash(in, r.berit, "/raven", "settings "+text)
			answer, err := r.slack.WaitAnswer(deadline(t), call, func(simslack.Answer) bool { return true })
			if err != nil {
				t.Error(err)
			}
			return answer.Text
		}
		for n, language := range []string{"Norwegian", "Danish", "Icelandic", "Finnish"} {
			zone, prompt := fmt.Sprint("Etc/GMT+", n+1), fmt.Sprint("Prompt number ", n)
			var answers [2]string
			var all sync.WaitGroup
			all.Go(func() { answers[0] = set(channel, "language "+language) })
			all.Go(func() { answers[1] = set(there, "timezone "+zone) })
			all.Go(func() {
				r.api(follower, http.MethodPut, "/api/v1/settings", `{"instance":{"tools":{"systemPrompt":"`+prompt+`"}}}`, nil)
			})
			all.Wait()
			for _, replica := range []int{leader, follower} {
				within(t, "replicas know what was set in both", func() bool {
					var now struct {
						Instance struct{ Tools struct{ SystemPrompt string } }
						Users    map[string]struct{ Language, Timezone string }
					}
					r.api(replica, http.MethodGet, "/api/v1/settings", "", &now)
					me := now.Users["slack/"+r.berit.ID]
					return me.Language == language && me.Timezone == zone && now.Instance.Tools.SystemPrompt == prompt
				})
			}
			if t.Failed() {
				t.Fatalf("%q", answers)
			}
		}
	})
	t.Run("files sent to one replica count in the other one", func(t *testing.T) {
		r.model.SetScript(func(simmodel.Request) simmodel.Reply { return simmodel.Say("seen") })
		// send returns what a file in a channel is answered.
		send := func(to string) string {
			e := r.slack.Share(to, "", r.berit, simslack.BotMention+" look",
				simslack.File{Name: "a.txt", Type: "text/plain", Body: []byte("text")})
			p, err := r.slack.WaitPost(deadline(t), to, func(p simslack.Post) bool {
				return p.ThreadTS == e.TS && p.Shown() != ""
			})
			if err != nil {
				t.Fatal(err)
			}
			return p.Shown()
		}
		for range dailyFiles {
			send(channel)
		}
		there := r.at(leader)
		within(t, "the other replica knows of the files", func() bool {
			call := r.slack.Slash(there, r.berit, "/raven", "usage")
			answer, err := r.slack.WaitAnswer(deadline(t), call, func(simslack.Answer) bool { return true })
			return err == nil && strings.Contains(answer.Text,
				fmt.Sprint("your files of today: ", dailyFiles, " of ", dailyFiles))
		})
		if said := send(there); !strings.Contains(said, "You have sent me") {
			t.Errorf("one file more was answered %q", said)
		}
	})
	t.Run("a reminder asked for here is sent by the leader", func(t *testing.T) {
		r.slack.Slash(channel, r.berit, "/raven", "remind me in 1 second to water the plants")
		if _, err := r.slack.WaitPost(deadline(t), channel, inSlack("water the plants")); err != nil {
			t.Fatal(err)
		}
		r.slack.Slash(channel, r.berit, "/raven", "remind me in 1 second to feed the cat")
		if _, err := r.slack.WaitPost(deadline(t), channel, inSlack("feed the cat")); err != nil {
			t.Fatal(err)
		}
		if n := r.slackPostsIn(channel, "water the plants"); n != 1 {
			t.Errorf("reminded %d times", n)
		}
	})
}

// slackPostsIn counts the posts in a channel that hold a text.
func (r *replicas) slackPostsIn(channel, text string) (n int) {
	for _, p := range r.slack.Posts(channel) {
		if strings.Contains(p.Shown(), text) {
			n++
		}
	}
	return n
}
