package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/feature"
	"ravenbot/internal/news/schedule"
	"ravenbot/internal/store"
)

// Words behind /raven, and the label of the option that stands on a line of its own.
const (
	commandRemind = "remind"
	commandJobs   = "jobs"
	labelText     = "Text"
)

const (
	maxShownChars = 200 // of a text in lists and answers
	shownRuns     = 5   // due times of a new repeating job
	maxListed     = 50
)

// jobsUsage is shown below lists, and where an action is not known.
const jobsUsage = "Say `/raven jobs`, `/raven jobs remove ID`, `/raven jobs edit ID when TIME` or " +
	"`/raven jobs edit ID text TEXT`; " +
	"`/raven jobs watch ADDRESS WORDS` says when a page has a new line with these words; " +
	"administrators see all of a channel with `/raven jobs all`."

// Module returns the ability to do something at a time, or when a webhook is called.
func (s *Service) Module() feature.Module {
	return feature.Module{
		Features: []feature.Feature{s},
		Tools:    func() []tool.Tool { return []tool.Tool{s.Tool()} },
		Shared:   []store.Shared{s},
		Checks:   map[string]feature.Check{"job": s.CheckStored},
		Tasks:    []feature.Task{{Name: "jobs", Run: s.Run, Leads: true, Daemon: true}},
	}
}

// Commands returns the commands that make, list and remove jobs.
func (*Service) Commands() []chat.CommandSpec {
	return []chat.CommandSpec{
		{
			Name:    commandRemind,
			Summary: "Be reminded once, or again and again",
			Spoken:  true,
			Help: "says something here at a time: `/raven remind tomorrow at 9 call Anna`, " +
				"`/raven remind every friday at 16 write the report`",
			Options: []chat.CommandOption{
				{Name: "when", Summary: "In 20 minutes, tomorrow at noon, 24 December 18:00, every monday at 9", Required: true},
				{Name: "text", Summary: "What to say then", Required: true, Label: labelText},
			},
		},
		{
			Name:    commandJobs,
			Summary: "Your reminders and jobs: list, change, remove",
			Help: "your reminders and jobs with their ids; `jobs remove ID` takes one back, " +
				"`jobs edit ID when TIME` moves it",
			Options: []chat.CommandOption{
				{
					Name:    "action",
					Summary: "What to do; nothing: list yours",
					Choices: []string{"list", "all", "remove", "edit", "watch"},
				},
				{Name: "id", Summary: "The id of the job, for remove and edit; the address for watch", Complete: true},
				{Name: "more", Summary: "For edit: when friday at 9, or: text Call Anna; for watch: the words to look for"},
			},
		},
	}
}

// Forms returns the form in which somebody says when to be reminded of a message.
func (*Service) Forms() []string { return []string{formRemind} }

// Complete returns the ids of jobs with the typed prefix. Everybody can type, so it offers only the channel's jobs,
// without their texts.
func (s *Service) Complete(_ context.Context, at chat.Address, command, option, typed string) []string {
	if command != commandJobs || option != "id" {
		return nil
	}
	typed = strings.TrimSpace(typed)
	ids := []string{}
	for _, i := range s.list(func(j Job) bool { return j.postsTo(at) && strings.HasPrefix(j.ID, typed) }) {
		ids = append(ids, i.ID)
	}
	return ids
}

// Handle carries out a command.
func (s *Service) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	var words string
	var err error
	switch {
	case m.Command == commandRemind:
		words, err = s.remind(ctx, m, m.Text)
	case m.Kind() == chat.EventForm:
		words, err = s.remindAbout(ctx, m)
	case m.Command == formRemind: // if the form could not be shown
		err = BadJob{errors.New("the form could not be opened; say for example `/raven remind tomorrow at 9 answer Anna`")}
	default:
		words, err = s.handleJobs(ctx, m)
	}
	var bad BadJob
	switch {
	case errors.As(err, &bad) && m.Command == commandRemind && m.Reply.MessageID != "":
		return nil, nil // said in words, which the agent may understand
	case errors.As(err, &bad):
		words = "That does not work: " + text.EscapeMarkdown(err.Error()) + "."
		return &chat.Draft{Ephemeral: true, Failed: true, Text: words}, nil
	case errors.Is(err, ErrUnknown):
		return &chat.Draft{Ephemeral: true, Failed: true, Text: "You have no such job. `/raven jobs` lists yours."}, nil
	case err != nil:
		return nil, err
	}
	return &chat.Draft{Ephemeral: true, Text: words}, nil
}

// remind makes a reminder of "tomorrow at 9 call Anna", and returns the answer to its author.
func (s *Service) remind(ctx context.Context, m chat.Message, words string) (string, error) {
	zone := s.Zone(ctx, m)
	w, what, err := splitRequest(words, zone, s.o.Now())
	if err != nil {
		return "", BadJob{err}
	}
	return s.addReminder(ctx, m, w, Job{Text: what})
}

// zoneTimeout is how long a platform may take to tell the time zone of a user.
const zoneTimeout = 2500 * time.Millisecond

// Zone returns the time zone in which the author of a message writes: as the platform tells it, else as it is set.
func (s *Service) Zone(ctx context.Context, m chat.Message) *time.Location {
	ctx, cancel := context.WithTimeout(ctx, zoneTimeout)
	defer cancel()
	name := cmp.Or(s.o.Places.Context(ctx, m, chat.ContextQuery{}).Zone, s.o.Timezone(m.Conversation, m.Author.ID))
	zone, err := schedule.LoadZone(name)
	if err != nil {
		s.o.Log.Warn("unknown time zone; using UTC", "user", m.Author.ID, "error", err)
		return time.UTC
	}
	return zone
}

// addReminder makes a reminder for the author of a message. The job has its Text and Origin, and a Link if it is about
// a message. It returns the answer to the author.
func (s *Service) addReminder(ctx context.Context, m chat.Message, w when, j Job) (string, error) {
	if j.Text == "" {
		return "", BadJob{errors.New("it names nothing to remind you of")}
	}
	if m.Author.ID == "" {
		return "", BadJob{errors.New("nobody here can be reminded")}
	}
	j.At, j.Schedule, j.Timezone, j.Source = w.at.UTC(), w.schedule, w.zone, FromChat
	j.Post, j.By, j.On = []string{m.Conversation.String()}, chat.User{ID: m.Author.ID, Name: m.Author.Name}, m.Conversation.Platform
	info, err := s.Add(ctx, j)
	if err != nil {
		return "", err
	}
	return "I will remind you here " + info.whenWords() + " of: " + info.shownText() +
		"\n\n" + s.nextLine(info) + "`/raven jobs remove " + info.ID + "` takes it back.", nil
}

// nextLine returns the next due times of a repeating job, so that a wrong schedule is seen.
func (s *Service) nextLine(i Info) string {
	j, ok := s.find(i.ID)
	if !ok || j.IsOnce() {
		return ""
	}
	var list []string
	for at, n := s.o.Now(), 0; n < shownRuns; n++ {
		next, ok := j.plan.Next(at)
		if !ok {
			break
		}
		list, at = append(list, next.Format("Mon 2 Jan 15:04")), next
	}
	return "Next: " + strings.Join(list, ", ") + ". "
}

// whenWords returns when a job is due, for readers.
func (i Info) whenWords() string {
	switch {
	case i.At != nil:
		return "on " + i.At.Format("Mon 2 Jan 2006 15:04 MST")
	case i.When != "":
		return i.When + " (" + i.Timezone + ")"
	}
	return i.Schedule + " (" + i.Timezone + ")"
}

// shownText returns the text or prompt of a job on one line.
func (i Info) shownText() string {
	what := i.Text
	switch {
	case i.Prompt != "":
		what = "task: " + i.Prompt
	case i.Watch != nil:
		what = strings.TrimSpace("watch " + cmp.Or(i.Watch.URL, i.Watch.Feed, i.Watch.Tool) + " " + i.Watch.For)
	}
	return text.EscapeMarkdown(text.Shorten(text.OneLine(what), maxShownChars))
}

// handleJobs lists, changes or removes jobs.
func (s *Service) handleJobs(ctx context.Context, m chat.Message) (string, error) {
	verb, rest, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	id, more, _ := strings.Cut(strings.TrimSpace(rest), " ")
	switch strings.ToLower(verb) {
	case "", "list":
		return s.listFor(m, func(j Job) bool { return j.isOwn(m) }), nil
	case "all":
		if !m.Author.Admin {
			return "", BadJob{errors.New("only administrators see the jobs of others")}
		}
		return s.listFor(m, func(j Job) bool { return j.canBeManaged(m) }), nil
	case "remove":
		if err := s.manage(ctx, m, id, func(Job) (*Job, error) { return nil, nil }); err != nil {
			return "", err
		}
		s.o.Log.Info("job removed", "job", id, "by", m.Author.ID)
		return "The job `" + id + "` is removed.", nil
	case "edit":
		return s.edit(ctx, m, id, more)
	case "watch":
		return s.addWatch(ctx, m, strings.Trim(id, "<>"), strings.TrimSpace(more))
	}
	return jobsUsage, nil
}

// watchSchedule is how often a page is looked at that somebody in chat names.
const watchSchedule = "every 30 minutes"

// addWatch adds a watch of a page, and returns the answer to its author.
func (s *Service) addWatch(ctx context.Context, m chat.Message, address, words string) (string, error) {
	info, err := s.Add(ctx, Job{
		Schedule: watchSchedule,
		Post:     []string{m.Conversation.String()},
		Watch:    &Watch{URL: address, For: strings.Trim(words, `"“”`)},
		Source:   FromChat,
		By:       chat.User{ID: m.Author.ID, Name: m.Author.Name},
		On:       m.Conversation.Platform,
	})
	if err != nil {
		return "", err
	}
	return "I will look at " + info.Watch.title() + " " + watchSchedule + " and post news here. " +
		"`/raven jobs remove " + info.ID + "` ends it.", nil
}

// manage changes a job that the author of a message may change. A job of others is not told from none.
func (s *Service) manage(ctx context.Context, m chat.Message, id string, edit func(Job) (*Job, error)) error {
	return s.change(ctx, id, func(j Job) (*Job, error) {
		if !j.canBeManaged(m) {
			return nil, ErrUnknown
		}
		return edit(j)
	})
}

// edit moves a job to another time, or gives it another text.
func (s *Service) edit(ctx context.Context, m chat.Message, id, words string) (string, error) {
	key, value, _ := strings.Cut(strings.TrimSpace(words), " ")
	value = strings.TrimSpace(value)
	if value == "" || !slices.Contains([]string{"when", "text"}, key) {
		return "", BadJob{errors.New("say `when` and a time, or `text` and what to say")}
	}
	// The zone may be asked of the platform, so it is known before the job is locked.
	zone := s.Zone(ctx, m)
	var info Info
	err := s.manage(ctx, m, id, func(j Job) (*Job, error) {
		switch {
		case key == "when":
			w, err := parseWhen(value, zone, s.o.Now())
			if err != nil {
				return nil, BadJob{err}
			}
			j.At, j.Schedule, j.Timezone, j.Since = w.at.UTC(), w.schedule, w.zone, s.o.Now().UTC()
		case j.Prompt != "":
			j.Prompt = value
		default:
			j.Text = value
		}
		if err := j.check(s.o.Now()); err != nil {
			return nil, err
		}
		kept, err := newStored(j, nil)
		info = kept.describe(s.o.Now())
		return &j, err
	})
	if err != nil {
		return "", err
	}
	return "The job `" + id + "` is changed: " + info.whenWords() + ", " + info.shownText() + ". " + s.nextLine(info), nil
}

// listFor lists jobs for the author of a message.
func (s *Service) listFor(m chat.Message, wanted func(Job) bool) string {
	list := s.list(wanted)
	if len(list) == 0 {
		return "You have no reminders or jobs. Say for example " + whenExample + "."
	}
	lines := []string{"**Reminders and jobs**", ""}
	for n, i := range list {
		if n == maxListed {
			lines = append(lines, fmt.Sprintf("- and %d more", len(list)-n))
			break
		}
		line := "- `" + i.ID + "` " + i.whenWords() + ": " + i.shownText()
		if i.Next != nil && i.At == nil {
			line += ", next " + i.Next.Format("Mon 2 Jan 15:04 MST")
		}
		if i.Error != "" {
			line += ", **never due**: " + text.EscapeMarkdown(i.Error)
		}
		if !slices.Contains(i.Post, m.Conversation.String()) {
			line += ", elsewhere"
		}
		if i.By != "" && i.By != m.Author.Name {
			line += ", made by " + text.EscapeMarkdown(i.By)
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, "", jobsUsage), "\n")
}
