package digest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/chat"
	"ravenbot/internal/schedule"
	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

// usage is what the command can do.
const usage = "Say `digest list`, `preview NAME`, `explain NAME [last]`, `run NAME`, `pause NAME`, `resume NAME`, `unmerge NAME [N]`, " +
	"`edit NAME KEY VALUE`, `mute NAME WORD until 2026-12-24`, `remove NAME` or `unsubscribe FEED`. To make one, ask me for it in your own words, or say " + example

const example = "`digest create weekdays at 9 Europe/Oslo https://go.dev/blog/feed.atom`: when, the time zone, and the feeds."

// command answers /raven digest.
func (s *Service) command(ctx context.Context, m chat.Message) chat.Draft {
	verb, rest, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	rest = strings.TrimSpace(rest)
	switch verb = strings.ToLower(verb); verb {
	case "list", "":
		return s.said("", func() (string, error) { return s.describe(ctx, m) })
	case "create":
		return s.created(ctx, m, rest)
	case "unsubscribe":
		return s.said(rest, func() (string, error) { return s.unsubscribed(ctx, m, rest) })
	case "preview", "explain", "run", "pause", "resume", "unmerge", "edit", "mute", "remove":
	default:
		return chat.Draft{Text: usage, Ephemeral: true}
	}
	d, more, ok := s.named(rest)
	if !ok || !d.visible(m) {
		if verb == "remove" {
			return s.said(rest, func() (string, error) { return s.unsubscribed(ctx, m, rest) })
		}
		return s.excuse(rest, ErrUnknown)
	}
	switch verb {
	case "preview":
		return s.shown(ctx, d.Name)
	case "explain":
		return s.explained(ctx, d, more)
	case "run":
		if !d.here(m.Conversation) && !d.governs(m) {
			return s.denied(d)
		}
		return s.said(d.Name, func() (string, error) { return s.runNow(ctx, d) })
	}
	if !d.governs(m) && verb != "unmerge" {
		return s.denied(d)
	}
	switch verb {
	case "unmerge":
		return s.takenApart(ctx, d, more)
	case "edit":
		return s.said(d.Name, func() (string, error) { return s.edited(ctx, d, more) })
	case "mute":
		return s.said(d.Name, func() (string, error) { return s.muted(ctx, d, more) })
	case "remove":
		return s.said(d.Name, func() (string, error) {
			return "The digest **" + escape(d.Name) + "** is removed.", s.Remove(ctx, d.Name)
		})
	}
	return s.said(d.Name, func() (string, error) { return s.pausing(ctx, d, verb == "pause") })
}

// created shows the plan of a digest that somebody wrote down: when, in which time
// zone, and addresses of feeds; the other words say when.
func (s *Service) created(ctx context.Context, m chat.Message, words string) chat.Draft {
	var p Plan
	var when []string
	for _, w := range strings.Fields(strings.ReplaceAll(words, "`", "")) {
		bare := strings.Trim(w, ",;<>")
		_, err := schedule.LoadZone(bare)
		switch {
		case web(bare) || strings.HasPrefix(bare, "bundled:") || hostname.MatchString(bare):
			p.Feeds = append(p.Feeds, Feed{URL: bare})
		case p.Timezone == "" && err == nil && (strings.Contains(bare, "/") || bare == "UTC") && !strings.HasPrefix(bare, "*"):
			p.Timezone = bare
		case len(p.Feeds) == 0 || !slices.Contains([]string{"and", "from"}, bare):
			when = append(when, w)
		}
	}
	if p.Schedule = strings.Join(when, " "); p.Schedule == "" || len(p.Feeds) == 0 {
		return refuse("Say for example " + example)
	}
	if _, err := s.Propose(ctx, tool.Caller{Conversation: m.Conversation, User: m.Author}, p); err != nil {
		return s.excuse("", err)
	}
	return chat.Draft{Ephemeral: true, Text: "The plan is shown here; press a button below it, or write `yes`."}
}

// hostname matches the address of a page without its scheme.
var hostname = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}(/\S*)?$`)

// named finds the digest that words begin with, the one with the longest name.
func (s *Service) named(words string) (d spec, rest string, ok bool) {
	for _, one := range s.all() {
		if after, found := strings.CutPrefix(words, one.Name); found && (after == "" || after[0] == ' ') && len(one.Name) > len(d.Name) {
			d, rest, ok = one, strings.TrimSpace(after), true
		}
	}
	return d, rest, ok
}

func (s *Service) denied(d spec) chat.Draft {
	if d.Source == FromConfig {
		return refuse("Only an administrator can do that with **" + escape(d.Name) + "**.")
	}
	return refuse("Only an administrator, or whoever made **" + escape(d.Name) + "**, can do that.")
}

// said is what came of a command.
func (s *Service) said(name string, do func() (string, error)) chat.Draft {
	text, err := do()
	if err != nil {
		return s.excuse(name, err)
	}
	return chat.Draft{Text: text, Ephemeral: true}
}

func (s *Service) runNow(ctx context.Context, d spec) (string, error) {
	run, err := s.run(ctx, d.Name, s.o.Now(), true, leave)
	switch {
	case err != nil:
		return "", err
	case d.task():
		return fmt.Sprintf("The digest **%s** was run: it is on its way to %s.", escape(d.Name), d.targets()), nil
	case run.Posted > 0:
		return fmt.Sprintf("The digest **%s** was run: it is on its way to %s with %d items.", escape(d.Name), d.targets(), run.Posted), nil
	}
	return fmt.Sprintf("The digest **%s** was run: nothing new since the last one.", escape(d.Name)), nil
}

func (d spec) targets() string { return "`" + strings.Join(d.Post, "`, `") + "`" }

func (s *Service) pausing(ctx context.Context, d spec, on bool) (string, error) {
	if err := s.Pause(ctx, d.Name, on); err != nil {
		return "", err
	}
	if on {
		return "The digest **" + escape(d.Name) + "** pauses until `digest resume " + d.Name + "`. What is due meanwhile is not made good.", nil
	}
	d.Paused = false
	return strings.TrimSuffix("The digest **"+escape(d.Name)+"** goes on. Next: "+strings.Join(d.upcoming(s.o.Now(), 1), ""), " Next: "), nil
}

func (s *Service) shown(ctx context.Context, name string) chat.Draft {
	p, err := s.Preview(ctx, name)
	if err != nil {
		return s.excuse(name, err)
	}
	if p.Draft.Text == "" {
		p.Draft.Text = "The digest **" + escape(name) + "** has nothing new."
	}
	p.Draft.Ephemeral = true
	return p.Draft
}

// mostExplained is how many items are explained in the chat; the command line and the
// dashboard explain all.
const mostExplained = 60

// explained tells of every item why it would be posted now or not, or what became of
// it in the last run.
func (s *Service) explained(ctx context.Context, d spec, what string) chat.Draft {
	var heading string
	var list []Verdict
	if strings.EqualFold(what, "last") {
		last, known, err := s.LastVerdicts(ctx, d.Name)
		if err != nil {
			return s.excuse(d.Name, err)
		}
		if !known {
			return refuse("No run of **" + escape(d.Name) + "** is known yet.")
		}
		heading, list = "of "+last.Due.In(d.zone).Format("2 Jan 15:04"), last.Items
		if last.More > 0 {
			heading += fmt.Sprintf(" (and %d items that it had seen before)", last.More)
		}
	} else {
		p, err := s.Preview(ctx, d.Name)
		if err != nil {
			return s.excuse(d.Name, err)
		}
		heading, list = "as it would be now", p.Items
	}
	lines := []string{"**" + escape(d.Name) + "**, " + heading, ""}
	for n, v := range list {
		if n == mostExplained {
			lines = append(lines, fmt.Sprintf("- and %d more; `ravenbot digest preview %s --explain` shows all", len(list)-n, d.Name))
			break
		}
		lines = append(lines, "- "+v.line())
	}
	if len(list) == 0 {
		lines = append(lines, "Its feeds hold nothing.")
	}
	return chat.Draft{Ephemeral: true, Text: strings.Join(lines, "\n")}
}

// line is a verdict as Markdown.
func (v Verdict) line() string {
	text := escape(cmp.Or(v.Title, v.Link, v.Feed)) + ": *" + escape(v.Verdict) + "*"
	if v.Reason != "" {
		text += " (" + escape(v.Reason) + ")"
	}
	return text
}

// takenApart shows what was put together in the last post of a digest.
func (s *Service) takenApart(ctx context.Context, d spec, which string) chat.Draft {
	n := 0
	if which != "" {
		var err error
		if n, err = strconv.Atoi(which); err != nil || n < 1 {
			return refuse("Say `digest unmerge " + d.Name + " 3` for entry 3, or no number for all.")
		}
	}
	runs, err := s.pasts(ctx, d.Name)
	if err != nil {
		return s.excuse(d.Name, err)
	}
	if len(runs) == 0 {
		return refuse("**" + escape(d.Name) + "** has posted nothing yet.")
	}
	return s.apart(ctx, d, runs[0], n)
}

// edited changes one thing of a digest.
func (s *Service) edited(ctx context.Context, d spec, words string) (string, error) {
	key, value, _ := strings.Cut(words, " ")
	value = strings.TrimSpace(value)
	if strings.EqualFold(key, "feeds") && value != "" && value[0] != '-' {
		address, _, err := s.resolve(ctx, strings.TrimSpace(strings.TrimPrefix(value, "+")))
		if err != nil {
			return "", BadPlan{err}
		}
		value = "+" + address
	}
	info, err := s.Change(ctx, d.Name, func(p *Plan) error { return p.set(key, value) })
	if err != nil {
		return "", err
	}
	text := "The digest **" + escape(info.Name) + "** is changed."
	if info.Next != nil {
		text += " Next: " + info.Next.Format("Mon 2 Jan 15:04 MST") + "."
	}
	return text, nil
}

// muted leaves out what names a word until a day.
func (s *Service) muted(ctx context.Context, d spec, words string) (string, error) {
	_, err := s.Change(ctx, d.Name, func(p *Plan) error {
		p.Filters = append(slices.Clone(p.Filters), "mute:"+words)
		return nil
	})
	if err != nil {
		return "", err
	}
	return "The digest **" + escape(d.Name) + "** leaves out " + escape(words) + ".", nil
}

// set changes one thing of a plan, by its name.
func (p *Plan) set(key, value string) error {
	texts := map[string]*string{"schedule": &p.Schedule, "timezone": &p.Timezone, "style": &p.Style, "language": &p.Language,
		"prompt": &p.Prompt, "whenempty": &p.WhenEmpty, "catchup": &p.CatchUp}
	numbers := map[string]*int{"maxitems": &p.MaxItems, "maxtokens": &p.MaxTokens}
	key = strings.ToLower(key)
	switch {
	case texts[key] != nil:
		*texts[key] = value
		return nil
	case numbers[key] != nil:
		n, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("%q is no number", value)
		}
		*numbers[key] = n
		return nil
	case key == "filters":
		p.Filters = nil
		for _, f := range strings.Split(value, ",") {
			if f = strings.TrimSpace(f); f != "" {
				p.Filters = append(p.Filters, f)
			}
		}
		return nil
	case key == "feeds":
		return p.setFeed(value)
	}
	return errors.New("say what to change: schedule, timezone, style, language, prompt, maxItems, maxTokens, whenEmpty, catchUp, filters (with commas between them), or feeds with +ADDRESS or -ADDRESS")
}

func (p *Plan) setFeed(value string) error {
	address := strings.TrimSpace(strings.TrimLeft(value, "+-"))
	var feeds []Feed
	for _, f := range p.Feeds {
		if f.URL != address {
			feeds = append(feeds, f)
		}
	}
	switch {
	case address == "":
		return errors.New("say +ADDRESS to add a feed, -ADDRESS to take one out")
	case value[0] == '-' && len(feeds) == len(p.Feeds):
		return fmt.Errorf("it does not read %.100s", address)
	case value[0] != '-':
		feeds = append(feeds, Feed{URL: address})
	}
	p.Feeds = feeds
	return nil
}

func (s *Service) excuse(name string, err error) chat.Draft {
	var bad BadPlan
	switch {
	case errors.Is(err, ErrUnknown):
		return refuse(fmt.Sprintf("There is no digest %q; `digest list` names those there are.", name))
	case errors.Is(err, ErrConfigured):
		return refuse("**" + escape(name) + "** belongs to config.json, and is changed there.")
	case errors.As(err, &bad):
		return refuse("That does not work: " + escape(err.Error()) + ".")
	}
	s.o.Log.Error("digest not made or not posted", "digest", name, "error", err)
	return refuse(fmt.Sprintf("The digest **%s** could not be made or posted. The bot's log has the reasons.", escape(name)))
}

// describe lists the digests that whoever asks may see, and what the channel follows.
func (s *Service) describe(ctx context.Context, m chat.Message) (string, error) {
	var lines []string
	for _, d := range s.all() {
		if !d.visible(m) {
			continue
		}
		i, err := s.info(ctx, d)
		if err != nil {
			return "", err
		}
		lines = append(lines, "- "+i.line(d))
	}
	if len(lines) == 0 {
		lines = []string{"No digest is configured, and none was made here."}
	} else {
		lines = append([]string{"**Digests**", ""}, lines...)
	}
	subs, err := s.subscriptions(ctx, m.Conversation)
	if err != nil {
		return "", err
	}
	return strings.Join(append(lines, followed(subs)...), "\n"), nil
}

func (i Info) line(d spec) string {
	what, when := plural(len(i.Feeds), "feed"), fmt.Sprintf("`%s` (%s)", i.Schedule, d.Timezone)
	if d.task() {
		what = "a task"
	}
	if i.When != "" {
		when = i.When + ", " + when
	}
	line := fmt.Sprintf("**%s**: %s, %s to %s", escape(i.Name), when, what, d.targets())
	if i.By != "" {
		line += ", made by " + escape(i.By)
	}
	if i.Paused {
		line += ", **paused**"
	}
	if i.Next != nil {
		line += ", next " + i.Next.Format("Mon 2 Jan 15:04 MST")
	}
	if i.Last != nil {
		line += fmt.Sprintf(", last %s with %s", i.Last.Due.In(d.zone).Format("Mon 2 Jan 15:04 MST"), plural(i.Last.Posted, "item"))
	}
	return line
}

func followed(subs []store.Subscription) []string {
	if len(subs) == 0 {
		return nil
	}
	lines := []string{"", "**Followed here** (`digest unsubscribe FEED` ends it)", ""}
	for _, sub := range subs {
		lines = append(lines, "- "+link(sub.Title, sub.URL))
	}
	return lines
}
