package app_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	simslack "ravenbot/internal/testing/sim/slack"
)

// TestJobs_DaemonKilled_EachOnce kills the program itself while it takes deliveries of a webhook and reminders fall
// due. Whoever gets no 202 sends again; each delivery and each reminder is posted once.
func TestJobs_DaemonKilled_EachOnce(t *testing.T) {
	t.Parallel()
	const deliveries, reminders, kills, together = 16, 8, 4, 4
	w := newWorld(t)
	to := "slack:" + simslack.TeamID + "/" + w.channel.ID
	settings := w.base()
	settings["webhooks"] = map[string]any{"ci": map[string]any{"secret": "hook-secret", "post": []string{to},
		"perMinute": 100000}}
	d := w.daemon(settings).start()
	chance := rand.New(rand.NewPCG(11, 12))
	for n := range reminders {
		job := map[string]any{"at": fmt.Sprintf("in %d seconds", 1+n/2), "post": []string{to},
			"text": fmt.Sprintf("reminder %d.", n)}
		if status := send(d.base()+"/api/v1/jobs", string(must(json.Marshal(job))), "Authorization",
			"Bearer admin-token"); status != http.StatusCreated {
			t.Fatalf("a reminder is answered %d", status)
		}
	}
	waiting := map[int]bool{}
	for n := range deliveries {
		waiting[n] = true
	}
	for killed := 0; len(waiting) > 0 || killed < kills; {
		type answer struct{ n, status int }
		answers := make(chan answer)
		base := d.base()
		for range together {
			n := chance.IntN(deliveries) // also ones that were taken before
			payload := fmt.Sprintf(`{"text":"delivery %d."}`, n)
			go func() {
				answers <- answer{n, send(base+"/hooks/ci", payload, "Authorization", "Bearer hook-secret",
					"Idempotency-Key", fmt.Sprint(n))}
			}()
		}
		// In the middle of them.
		if killed < kills {
			<-time.After(time.Duration(chance.IntN(4000)) * time.Microsecond)
			d.kill()
			killed++
			d.start()
		}
		for range together {
			if a := <-answers; a.status == http.StatusAccepted {
				delete(waiting, a.n)
			}
		}
	}
	numbered := regexp.MustCompile(`(delivery|reminder) (\d+)\.`)
	count := func() (map[string]int, bool) {
		posted := map[string]int{}
		for _, p := range w.slack.Posts(w.channel.ID) {
			if m := numbered.FindString(p.Shown()); m != "" {
				posted[m]++
			}
		}
		return posted, len(posted) == deliveries+reminders
	}
	within(t, "all deliveries and reminders are posted", func() bool { _, all := count(); return all })
	posted, _ := count()
	for what, times := range posted {
		if times != 1 {
			t.Errorf("%s was posted %d times", what, times)
		}
	}
	d.idle()
	d.end()
}

// base returns where the daemon serves HTTP.
func (d *daemon) base() string {
	_, rest, _ := strings.Cut(d.out.String(), "http=http://")
	address, _, _ := strings.Cut(rest, " ")
	return "http://" + address
}

// send posts a body with headers, and returns 0 where no answer came.
func send(url, body string, headers ...string) int {
	req := must(http.NewRequest(http.MethodPost, url, strings.NewReader(body)))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}
