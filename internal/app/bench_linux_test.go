package app_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ravenbot/internal/testing/pgtest"
	simmodel "ravenbot/internal/testing/sim/model"
	simslack "ravenbot/internal/testing/sim/slack"
)

// The benchmarks measure the daemon as a child process against the simulated
// Slack and model, and beside it, in the same run, the least that could do the
// job: slack-go, one request to the model, one synced commit, one post.

// child is a bot in a process of its own.
type child struct {
	cmd   *exec.Cmd
	ready time.Duration // from start to its line "ready"
	// others are the other replicas of one database.
	others []*child
}

func startChild(b testing.TB, cmd *exec.Cmd) *child { return startUntil(b, cmd, "msg=ready") }

// startUntil starts a process and waits for a line that has a text.
func startUntil(b testing.TB, cmd *exec.Cmd, text string) *child {
	b.Helper()
	out := must(cmd.StderrPipe())
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c := &child{cmd: cmd}
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			c.ready = time.Since(began)
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return c
		}
	}
	b.Fatal("the bot ended before it was ready")
	return nil
}

// cpu is the processor time that the process and the other replicas have used.
func (c *child) cpu() (used time.Duration) {
	for _, other := range c.others {
		used += other.cpu()
	}
	stat := must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid)))
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := must(strconv.Atoi(fields[11])) + must(strconv.Atoi(fields[12]))
	return used + time.Duration(ticks)*10*time.Millisecond // USER_HZ is 100 on Linux
}

// resident is the memory that the process holds, in MiB.
func (c *child) resident() float64 { return c.memory("VmRSS:") }

// peak is the most memory that the process ever held, in MiB.
func (c *child) peak() float64 { return c.memory("VmHWM:") }

func (c *child) memory(field string) float64 {
	status := string(must(os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))))
	_, rest, _ := strings.Cut(status, field)
	return float64(must(strconv.Atoi(strings.Fields(rest)[0]))) / 1024
}

var daemonBinary = sync.OnceValue(func() string { return buildDaemon() })

func buildDaemon(flags ...string) string {
	path := filepath.Join(binaries(), "ravenbot"+strings.Join(flags, ""))
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, "../../cmd/ravenbot")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(string(out))
	}
	return path
}

// benchWorld is the simulated outside of a benchmark.
type benchWorld struct {
	slack *simslack.Server
	model *simmodel.Server
	berit simslack.User
	store string // of daemons; empty: a file of their own
}

func newBenchWorld(b testing.TB) *benchWorld {
	b.Helper()
	w := &benchWorld{slack: must(simslack.New(simslack.Options{})), model: must(simmodel.New(simmodel.Options{}))}
	w.model.SetScript(func(r simmodel.Request) simmodel.Reply { return simmodel.Say("answer") })
	w.berit = w.slack.AddUser("berit")
	b.Cleanup(func() {
		w.slack.Close()
		w.model.Close()
	})
	return w
}

func (w *benchWorld) daemon(b testing.TB, servers map[string]any) *child {
	b.Helper()
	return startChild(b, w.command(b, servers))
}

// command returns what starts a daemon with a folder of its own.
func (w *benchWorld) command(b testing.TB, servers map[string]any) *exec.Cmd {
	b.Helper()
	dir := b.TempDir()
	settings := map[string]any{
		"http": map[string]any{"listen": "127.0.0.1:0", "adminToken": "admin-token"},
		"platforms": map[string]any{"slack": map[string]any{"botToken": "xoxb-token", "appToken": "xapp-token",
			"apiBaseURL": w.slack.APIURL()}},
		"models": map[string]any{"default": map[string]any{"provider": "gemini", "model": "gemini-3.8-flash", "apiKey": "key",
			"baseURL": w.model.GeminiURL()}},
		"mcpServers": servers,
		"limits":     map[string]any{"userDailyMessages": 0, "userDailyTokens": 0}, // one user asks everything
		"log":        map[string]any{"level": "info"},
	}
	if w.store != "" {
		settings["store"], settings["storeKey"] = w.store, base64.StdEncoding.EncodeToString(make([]byte, 32))
	}
	path := filepath.Join(dir, "config.json")
	if err := os.WriteFile(path, must(json.Marshal(settings)), 0o600); err != nil {
		b.Fatal(err)
	}
	return exec.Command(daemonBinary(), "run", "--config", path)
}

func (w *benchWorld) bare(b testing.TB) *child {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RAVENBOT_BARE=1", "BARE_SLACK="+w.slack.APIURL(), "BARE_MODEL="+w.model.GeminiURL(),
		"BARE_STORE="+filepath.Join(b.TempDir(), "bare.db"))
	return startChild(b, cmd)
}

// kinds are what is measured: the floor, and the daemon.
func kinds() []string { return []string{"bare", "ravenbot"} }

func (w *benchWorld) start(b testing.TB, kind string) *child {
	b.Helper()
	switch replicas, _ := strconv.Atoi(strings.TrimPrefix(kind, "postgres ")); {
	case kind == "bare":
		return w.bare(b)
	case replicas > 0:
		w.store = pgtest.NewCluster(b, pgtest.Options{Durable: true}).Database(b)
		leader := w.daemon(b, nil)
		for range replicas - 1 {
			leader.others = append(leader.others, startUntil(b, w.command(b, nil), "msg=ready"))
		}
		return leader
	}
	return w.daemon(b, nil)
}

// exchange asks in a channel and waits for the answer.
func (w *benchWorld) exchange(b testing.TB, channel string, n int) time.Duration {
	b.Helper()
	began := time.Now()
	e := w.slack.Mention(channel, w.berit, fmt.Sprint("question ", n))
	_, err := w.slack.WaitPost(b.Context(), channel, func(p simslack.Post) bool {
		return p.ThreadTS == e.TS && strings.Contains(p.Shown(), "answer")
	})
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// BenchmarkStart measures from the start of the process to its line "ready",
// with no and with four MCP servers, and the memory it holds then.
func BenchmarkStart(b *testing.B) {
	four := map[string]any{}
	for n := range 4 {
		four[fmt.Sprint("slow", n)] = map[string]any{"command": "sleep", "args": []string{"60"}, "eager": true}
	}
	for name, servers := range map[string]map[string]any{"servers=0": nil, "servers=4": four} {
		b.Run(name, func(b *testing.B) {
			w := newBenchWorld(b)
			daemonBinary()
			var took []time.Duration
			var memory []float64
			for b.Loop() {
				c := w.daemon(b, servers)
				took = append(took, c.ready)
				<-time.After(time.Second) // idle memory is that of a bot that has settled
				memory = append(memory, c.resident())
			}
			slices.Sort(took)
			slices.Sort(memory)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-to-ready")
			b.ReportMetric(memory[len(memory)/2], "MiB")
		})
	}
}

// BenchmarkMessage measures one message after the other in one channel, and with
// a history of 1,000 turns before.
func BenchmarkMessage(b *testing.B) {
	for _, kind := range kinds() {
		b.Run(kind, func(b *testing.B) {
			w := newBenchWorld(b)
			c := w.start(b, kind)
			channel := w.slack.AddChannel("warm up").ID
			for n := range 50 {
				w.exchange(b, channel, n)
			}
			cpu := c.cpu()
			var took []time.Duration
			for b.Loop() {
				if len(took)%20 == 0 { // looking through a long channel would be measured too
					channel = w.slack.AddChannel(fmt.Sprint("bench", len(took))).ID
				}
				took = append(took, w.exchange(b, channel, len(took)))
			}
			b.ReportMetric(float64((c.cpu()-cpu).Microseconds())/float64(len(took)), "cpu-µs/msg")
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*9/10].Microseconds()), "p90-µs")
			b.ReportMetric(c.resident(), "MiB")
		})
	}
}

// BenchmarkCrowd keeps a message in flight in each of 64 channels.
func BenchmarkCrowd(b *testing.B) {
	for _, kind := range kinds() {
		b.Run(kind, func(b *testing.B) {
			w := newBenchWorld(b)
			var channels []string
			for n := range 64 {
				channels = append(channels, w.slack.AddChannel(fmt.Sprint("c", n)).ID)
			}
			c := w.start(b, kind)
			for _, channel := range channels {
				w.exchange(b, channel, 0)
			}
			cpu, began := c.cpu(), time.Now()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var wg sync.WaitGroup
			for _, channel := range channels {
				wg.Go(func() {
					for n := 1; left.Add(-1) >= 0; n++ {
						if n%20 == 0 {
							channel = w.slack.AddChannel(fmt.Sprint(channel, n)).ID
						}
						w.exchange(b, channel, n)
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "msg/s")
			b.ReportMetric(float64((c.cpu()-cpu).Microseconds())/float64(b.N), "cpu-µs/msg")
			b.ReportMetric(c.resident(), "MiB")
		})
	}
}

// BenchmarkHistory measures a message in a direct conversation that has few and
// many turns behind it.
func BenchmarkHistory(b *testing.B) {
	for _, turns := range []int{10, 1000} {
		b.Run(fmt.Sprint("turns=", turns), func(b *testing.B) {
			w := newBenchWorld(b)
			c := w.daemon(b, nil)
			channel := w.slack.AddDM(w.berit).ID
			say := func(n int) time.Duration {
				began := time.Now()
				e := w.slack.DM(w.berit, fmt.Sprint("question ", n))
				_, err := w.slack.WaitPost(b.Context(), channel, func(p simslack.Post) bool { return p.TS > e.TS })
				if err != nil {
					b.Fatal(err)
				}
				return time.Since(began)
			}
			for n := range turns {
				say(n)
			}
			cpu := c.cpu()
			var took []time.Duration
			for b.Loop() {
				took = append(took, say(len(took)))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64((c.cpu()-cpu).Microseconds())/float64(len(took)), "cpu-µs/msg")
		})
	}
}
