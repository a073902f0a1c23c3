package app_test

import (
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	simdiscord "ravenbot/internal/sim/discord"
	simslack "ravenbot/internal/sim/slack"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/postgres/pgtest"
)

// replicas are daemons on one database.
type replicas struct {
	*storm
	cluster *pgtest.Cluster
	url     string
	all     []*daemon
	hosts   []string // their addresses
}

// newReplicas starts n daemons in a world under load.
func newReplicas(t *testing.T, n int, seed uint64) *replicas {
	t.Helper()
	cluster := pgtest.NewCluster(t, pgtest.Options{})
	w := newWorldWith(t, simslack.Options{RetryDelays: slices.Repeat([]time.Duration{300 * time.Millisecond}, 300)},
		simdiscord.Options{})
	w.model.SetScript(stormScript)
	r := &replicas{
		storm:   &storm{world: w, rng: rand.New(rand.NewPCG(seed, 0)), deaths: map[string]int{}},
		cluster: cluster,
		url:     cluster.Database(t),
	}
	r.addLanes()
	var named []any
	for _, q := range r.named {
		named = append(named, map[string]any{"match": "discord:" + w.guild.ID + "/" + q, "agent": "default"})
	}
	for range n {
		settings := w.base()
		settings["channels"] = named
		settings["store"] = r.url
		settings["storeKey"] = base64.StdEncoding.EncodeToString(make([]byte, 32))
		host := freeAddress()
		settings["http"] = map[string]any{"listen": host, "adminToken": "admin-token"}
		d := w.daemon(settings).withTools()
		d.dir = t.TempDir()
		d.launch()
		r.all, r.hosts = append(r.all, d), append(r.hosts, host)
	}
	return r
}

// freeAddress returns an address of loopback that nobody listens on.
func freeAddress() string {
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}

// status returns what /readyz of a replica says: ready, standby, not ready, or "" where it does not answer.
func (r *replicas) status(n int) string {
	client := http.Client{Timeout: 2 * time.Second}
	res, err := client.Get("http://" + r.hosts[n] + "/readyz")
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	var answer struct{ Status string }
	_ = json.NewDecoder(res.Body).Decode(&answer)
	return answer.Status
}

// active waits until a replica other than some acts, and returns which.
func (r *replicas) active(but ...int) int {
	r.t.Helper()
	found := -1
	within(r.t, "a replica acts", func() bool {
		for n, d := range r.all {
			if !slices.Contains(but, n) && d.cmd != nil && r.status(n) == "ready" {
				found = n
			}
		}
		return found >= 0
	})
	return found
}

// trouble is something that happens to replicas while they work.
type trouble struct {
	name string
	make func(r *replicas)
}

func troubles() []trouble {
	return []trouble{
		{"the active replica is killed", func(r *replicas) {
			n := r.active()
			r.all[n].kill()
			r.load(2 * time.Second)
			r.all[n].launch()
		}},
		{"the database restarts", func(r *replicas) {
			if err := r.cluster.Stop(); err != nil {
				r.t.Fatal(err)
			}
			r.load(300 * time.Millisecond)
			if err := r.cluster.Start(); err != nil {
				r.t.Fatal(err)
			}
		}},
		{"the active replica is paused past its lease", func(r *replicas) {
			n := r.active()
			_ = r.all[n].cmd.Process.Signal(syscall.SIGSTOP)
			r.load(2 * time.Second)
			r.active(n)
			r.load(500 * time.Millisecond)
			_ = r.all[n].cmd.Process.Signal(syscall.SIGCONT)
			r.load(500 * time.Millisecond)
			within(r.t, "the paused replica stands by", func() bool { return r.status(n) == "standby" })
			if !strings.Contains(r.all[n].out.String(), "lease lost") {
				r.t.Errorf("the paused replica does not say that it lost the lease:\n%s", r.all[n].out)
			}
		}},
		{"the active replica is stopped and started", func(r *replicas) {
			n := r.active()
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
		{"a replica on standby is killed", func(r *replicas) {
			n := (r.active() + 1) % len(r.all)
			r.all[n].kill()
			r.load(200 * time.Millisecond)
			r.all[n].launch()
		}},
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
	r := newReplicas(t, 3, seed)
	for n := range count {
		r.active()
		r.load(time.Second)
		next := troubles()[n%len(troubles())]
		r.deaths[next.name]++
		next.make(r)
	}
	r.load(500 * time.Millisecond)
	r.finish()
}

// finish waits until everything is answered, ends the replicas, and checks what was promised.
func (r *replicas) finish() {
	r.t.Helper()
	r.waitDelivered()
	n := r.active()
	within(r.t, "the active replica has nothing to do", func() bool {
		var status struct {
			Load struct{ Conversations, Waiting int }
		}
		req := must(http.NewRequest(http.MethodGet, "http://"+r.hosts[n]+"/api/v1/status", nil))
		req.Header.Set("Authorization", "Bearer admin-token")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return json.NewDecoder(res.Body).Decode(&status) == nil && status.Load.Conversations+status.Load.Waiting == 0
	})
	r.d = r.all[n]
	for i, d := range r.all {
		if i != n {
			d.terminate()
		}
	}
	r.d.terminate()
	db := must(postgres.Open(r.t.Context(), r.url, postgres.Options{Log: slog.New(slog.DiscardHandler)}))
	defer db.Close()
	owesNothing(r.t, db)
	r.judge()
	if r.t.Failed() {
		for i, d := range r.all {
			r.t.Logf("replica %d at %s:\n%s", i, r.hosts[i], d.out)
		}
	}
}
