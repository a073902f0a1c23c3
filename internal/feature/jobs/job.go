package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/origin"
	"ravenbot/internal/news/schedule"
)

// Where a job comes from.
const (
	FromChat = "chat"
	FromAPI  = "api"
	FromHook = "hook"
)

// Job is something to do once or on a schedule: post a text, or have an agent carry out a prompt. It is stored as JSON,
// so that names in it stay. A value is not changed once it is stored; a change stores another one.
type Job struct {
	ID       string    `json:"id"`
	At       time.Time `json:"at,omitzero"`        // once; zero: Schedule says when
	Schedule string    `json:"schedule,omitempty"` // what schedule.Parse reads
	Timezone string    `json:"timezone,omitempty"` // IANA name; empty: UTC
	Post     []string  `json:"post"`               // addresses
	Text     string    `json:"text,omitempty"`     // posted as it is
	Link     string    `json:"link,omitempty"`     // leads to the message that it is about
	Prompt   string    `json:"prompt,omitempty"`   // or a task for an agent
	Agent    string    `json:"agent,omitempty"`    // name of the agent; empty for the default of the first place
	Tools    []string  `json:"tools,omitempty"`    // tools that it may use unattended, as names or patterns

	// Watch is the source to check instead of posting the text each time, and Seen its last contents.
	Watch *Watch `json:"watch,omitempty"`
	Seen  *sight `json:"seen,omitempty"`

	Source  string    `json:"source"`
	By      chat.User `json:"by,omitzero"`  // who made it in chat
	On      string    `json:"on,omitempty"` // the platform on which
	Created time.Time `json:"created"`
	Since   time.Time `json:"since"` // time of creation or the last change; earlier due times do not count
	// Done are the latest due times that were carried out, oldest first.
	Done []time.Time `json:"done,omitempty"`
	// Hook is the webhook that created it, and Foreign its payload: foreign text, which a task reads as such.
	Hook    string `json:"hook,omitempty"`
	Foreign string `json:"foreign,omitempty"`
	// Origin holds the sources of Text other than By.
	Origin origin.Origin `json:"origin,omitzero"`
}

// Limits of jobs.
const (
	maxJobs        = 20_000 // of the bot
	maxTextBytes   = 4000   // of a text or prompt
	maxPlaces      = 20
	maxFieldBytes  = 200
	maxGrants      = 50
	maxRemembered  = 32               // due times in Done
	minChatGap     = 15 * time.Minute // between two runs of a repeating job that was made in chat
	checkedRepeats = 10
)

// BadJob is the error of an invalid job. Its text is for the job's author.
type BadJob struct{ Err error }

func (e BadJob) Error() string { return e.Err.Error() }
func (e BadJob) Unwrap() error { return e.Err }

// BadInput marks the error as the sender's to correct.
func (BadJob) BadInput() bool { return true }

// badJobf returns a BadJob with a formatted text.
func badJobf(format string, args ...any) error { return BadJob{fmt.Errorf(format, args...)} }

// IsOnce reports whether the job is due at one time.
func (j Job) IsOnce() bool { return j.Schedule == "" }

// when returns when the job is due. The error is one of its zone or schedule, which were checked when it was made.
func (j Job) when() (schedule.Schedule, error) {
	zone, err := schedule.LoadZone(j.Timezone)
	if err != nil {
		return schedule.Schedule{}, err
	}
	if j.IsOnce() {
		return schedule.At(j.At.In(zone)), nil
	}
	return schedule.Parse(j.Schedule, zone)
}

// isDone reports whether a due time was carried out.
func (j Job) isDone(due time.Time) bool { return slices.ContainsFunc(j.Done, due.Equal) }

// lastDue returns the time after which missed runs are caught up: the last one, or when the job was made or changed.
func (j Job) lastDue() time.Time {
	since := j.Since
	// One that is due at once, such as of a webhook, must not be due at the very instant that does not count.
	if j.IsOnce() && !j.At.After(since) {
		since = j.At.Add(-time.Second)
	}
	if n := len(j.Done); n > 0 && j.Done[n-1].After(since) {
		return j.Done[n-1]
	}
	return since
}

// withDone returns the job with a due time added to the completed ones.
func (j Job) withDone(due time.Time) Job {
	done := append(slices.Clone(j.Done), due.UTC())
	j.Done = done[max(0, len(done)-maxRemembered):]
	return j
}

// check returns a BadJob where the job cannot be carried out.
func (j Job) check(now time.Time) error {
	switch {
	case j.At.IsZero() == (j.Schedule == ""):
		return BadJob{errors.New("say either at, for once, or schedule")}
	case j.Watch != nil && (j.IsOnce() || j.Prompt != ""):
		return BadJob{errors.New("a watch goes with a schedule, and with no prompt")}
	case j.Watch == nil && (j.Text == "") == (j.Prompt == ""):
		return BadJob{errors.New("say either text, which is posted, or prompt, which an agent carries out")}
	case !utf8.ValidString(j.Text + j.Prompt):
		return BadJob{errors.New("the text is not UTF-8")}
	case len(j.Text) > maxTextBytes || len(j.Prompt) > maxTextBytes:
		return badJobf("the text has %d bytes, and %d are taken", len(j.Text)+len(j.Prompt), maxTextBytes)
	case len(j.Post) == 0 || len(j.Post) > maxPlaces:
		return badJobf("post names %d places, want 1 to %d", len(j.Post), maxPlaces)
	case len(j.Tools) > 0 && j.Prompt == "" && j.Watch == nil:
		return BadJob{errors.New("tools go with a prompt or a watch")}
	case len(j.Tools) > maxGrants || len(j.Schedule) > maxFieldBytes || len(j.Agent) > maxFieldBytes:
		return BadJob{errors.New("it is too long")}
	}
	if j.Watch != nil {
		if err := j.Watch.check(); err != nil {
			return BadJob{err}
		}
	}
	for _, to := range j.Post {
		if _, err := chat.ParseAddress(to); err != nil {
			return BadJob{fmt.Errorf("post: %w", err)}
		}
	}
	when, err := j.when()
	if err != nil {
		return BadJob{err}
	}
	next, ok := when.Next(now)
	if !ok && j.IsOnce() {
		return badJobf("%s is past", j.At.Format("Mon 2 Jan 2006 15:04 MST"))
	}
	if !ok {
		return badJobf("%q is never due", j.Schedule)
	}
	return j.checkGap(when, next)
}

// checkGap returns a BadJob where a job that was made in chat is due too often.
func (j Job) checkGap(when schedule.Schedule, last time.Time) error {
	if j.Source != FromChat || j.IsOnce() {
		return nil
	}
	for range checkedRepeats {
		next, ok := when.Next(last)
		if !ok {
			return nil
		}
		if next.Sub(last) < minChatGap {
			return badJobf("%q is due more often than every %d minutes", j.Schedule, int(minChatGap.Minutes()))
		}
		last = next
	}
	return nil
}

// places returns where the job posts. Its addresses were checked when it was made.
func (j Job) places() []chat.Address {
	var list []chat.Address
	for _, to := range j.Post {
		if a, err := chat.ParseAddress(to); err == nil {
			list = append(list, a)
		}
	}
	return list
}

// isOwn reports whether the author of a message made the job.
func (j Job) isOwn(m chat.Message) bool {
	return j.By.ID != "" && j.By.ID == m.Author.ID && j.On == m.Conversation.Platform
}

// canBeManaged reports whether the author of a message may change the job: who made it, and administrators of a place
// that it posts to.
func (j Job) canBeManaged(m chat.Message) bool {
	return j.isOwn(m) || m.Author.Admin && j.postsTo(m.Conversation)
}

// postsTo reports whether a job posts to the channel of a conversation.
func (j Job) postsTo(at chat.Address) bool {
	return slices.ContainsFunc(j.places(), func(to chat.Address) bool { return to.Base() == at.Base() })
}

// what returns what the job posts or does, on one line.
func (j Job) what() string { return strings.Join(strings.Fields(cmp.Or(j.Text, j.Prompt)), " ") }

// Info describes a job for people and programs.
type Info struct {
	ID       string     `json:"id"`
	At       *time.Time `json:"at,omitempty"`
	Schedule string     `json:"schedule,omitempty"`
	When     string     `json:"when,omitempty"` // the schedule in words, if it is written otherwise
	Timezone string     `json:"timezone"`
	Next     *time.Time `json:"next,omitempty"`
	Error    string     `json:"error,omitempty"` // why it is never due: its schedule cannot be read any more
	Last     *time.Time `json:"last,omitempty"`  // due time of the last run
	Post     []string   `json:"post"`
	Text     string     `json:"text,omitempty"`
	Prompt   string     `json:"prompt,omitempty"`
	Agent    string     `json:"agent,omitempty"`
	Tools    []string   `json:"tools,omitempty"`
	Source   string     `json:"source"`
	By       string     `json:"by,omitempty"`
	Created  time.Time  `json:"created"`
	Hook     string     `json:"hook,omitempty"`
	Watch    *Watch     `json:"watch,omitempty"`
}

// describe returns the description of a job.
func (j stored) describe(now time.Time) Info {
	i := Info{
		ID:       j.ID,
		Schedule: j.Schedule,
		Timezone: cmp.Or(j.Timezone, "UTC"),
		Post:     j.Post,
		Text:     j.Text,
		Prompt:   j.Prompt,
		Agent:    j.Agent,
		Tools:    j.Tools,
		Source:   j.Source,
		By:       cmp.Or(j.By.Name, j.By.ID),
		Created:  j.Created,
		Hook:     j.Hook,
		Watch:    j.Watch,
	}
	if j.fault != nil {
		i.Error = j.fault.Error()
	} else if j.IsOnce() {
		at := j.At.In(j.plan.Zone())
		i.At, i.Next = &at, &at
	} else if words := j.plan.Describe(); words != j.Schedule {
		i.When = words
	}
	if next, ok := j.plan.Next(now); ok {
		i.Next = &next
	}
	if n := len(j.Done); n > 0 {
		i.Last = &j.Done[n-1]
	}
	return i
}

// Request is a job as the API takes it.
type Request struct {
	At       string   `json:"at"` // RFC 3339, or words that schedule.ParseTime reads
	Schedule string   `json:"schedule"`
	Timezone string   `json:"timezone"`
	Post     []string `json:"post"`
	Text     string   `json:"text"`
	Prompt   string   `json:"prompt"`
	Agent    string   `json:"agent"`
	Tools    []string `json:"tools"`
	Watch    *Watch   `json:"watch"`
}

// AddRequest stores a job of the operator, and describes it. It returns a BadJob where it cannot be carried out; other
// errors are the store's.
func (s *Service) AddRequest(ctx context.Context, r Request) (Info, error) {
	j := Job{
		Schedule: r.Schedule,
		Timezone: r.Timezone,
		Post:     r.Post,
		Text:     r.Text,
		Prompt:   r.Prompt,
		Agent:    r.Agent,
		Tools:    r.Tools,
		Watch:    r.Watch,
		Source:   FromAPI,
	}
	if r.At != "" {
		zone, err := schedule.LoadZone(r.Timezone)
		if err != nil {
			return Info{}, BadJob{err}
		}
		at, err := schedule.ParseTime(r.At, zone, s.o.Now())
		if err != nil {
			return Info{}, BadJob{err}
		}
		j.At = at.UTC()
	}
	return s.Add(ctx, j)
}
