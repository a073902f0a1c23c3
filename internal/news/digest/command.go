package digest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/news/schedule"
	"ravenbot/internal/store"
)

// usageText lists what the command can do.
const usageText = "Say `digest list`, `preview NAME`, `explain NAME [last]`, `run NAME`, `pause NAME`, " +
	"`resume NAME`, `edit NAME KEY VALUE`, `mute NAME WORD until 2026-12-24`, `share NAME`, " +
	"`unshare NAME`, `remove NAME` or `unsubscribe FEED`. To make one, ask me for it in your own words, or say " + createExample

// createWord begins the command that makes a digest.
const createWord = "create"

const createExample = "`digest create weekdays at 9 Europe/Oslo https://go.dev/blog/feed.atom`: " +
	"when, the time zone, and the feeds; `here` tells what was said in this channel."

// runCommand answers /raven digest.
func (s *Service) runCommand(ctx context.Context, m chat.Message) chat.Draft {
	verb, rest, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	rest = strings.TrimSpace(rest)
	switch verb = strings.ToLower(verb); {
	case verb == "list" || verb == "":
		return s.reply("", func() (string, error) { return s.listDigests(ctx, m) })
	case verb == createWord:
		return s.proposeFromWords(ctx, m, rest)
	case verb == "unsubscribe":
		return s.reply(rest, func() (string, error) { return s.unsubscribeChannel(ctx, m, rest) })
	case !slices.Contains(digestVerbs, verb):
		return chat.Draft{Text: usageText, Ephemeral: true}
	}
	d, more, ok := s.findNamed(rest)
	canManage := ok && d.canBeManaged(m)
	switch {
	case (!ok || !d.isVisible(m)) && verb == "remove":
		return s.reply(rest, func() (string, error) { return s.unsubscribeChannel(ctx, m, rest) })
	case !ok || !d.isVisible(m): // a digest of another channel must not be told from one that does not exist
		return s.errorDraft(rest, ErrUnknown)
	case verb == "preview":
		return s.previewDraft(ctx, d.Name)
	case verb == "explain":
		return s.explain(ctx, d, more)
	case !canManage && (verb != "run" || !d.postsTo(m.Conversation)):
		return s.denialDraft(d)
	}
	return s.reply(d.Name, func() (string, error) { return s.changeByCommand(ctx, d, m, verb, more) })
}

// digestVerbs are the commands that name a digest.
var digestVerbs = []string{"preview", "explain", "run", "pause", "resume", "edit", "mute", "remove", "share", "unshare"}

// changeByCommand runs or changes a digest for somebody who may do so, and returns what they are told.
func (s *Service) changeByCommand(ctx context.Context, d spec, m chat.Message, verb, more string) (string, error) {
	switch verb {
	case "run":
		return s.runNow(ctx, d, m)
	case "share", "unshare":
		return s.shareCommand(ctx, d, verb == "share")
	case "edit":
		return s.edit(ctx, d, more)
	case "mute":
		return s.mute(ctx, d, more)
	case "remove":
		return "The digest **" + escape(d.Name) + "** is removed.", s.Remove(ctx, d.Name)
	}
	return s.pauseOrResume(ctx, d, verb == "pause")
}

// proposeFromWords proposes a digest from the words of a create command: addresses of feeds
// and channels, and a time zone; all other words are the schedule. The answer is the plan.
func (s *Service) proposeFromWords(ctx context.Context, m chat.Message, words string) chat.Draft {
	var p Plan
	var when []string
	for _, w := range strings.Fields(strings.ReplaceAll(words, "`", "")) {
		bare := strings.Trim(w, ",;<>")
		_, err := schedule.LoadZone(bare)
		switch {
		case isWebURL(bare) || strings.HasPrefix(bare, "bundled:") || hostname().MatchString(bare):
			p.Feeds = append(p.Feeds, Feed{URL: bare})
		case bare == hereWord || isAddress(bare):
			p.Channels = append(p.Channels, bare)
		// "*/5" is a part of a cron schedule, and words such as "Cuba" name zones, too.
		case p.Timezone == "" && err == nil &&
			(strings.Contains(bare, "/") || bare == "UTC") && !strings.HasPrefix(bare, "*"):
			p.Timezone = bare
		case len(p.Feeds)+len(p.Channels) == 0 || !slices.Contains([]string{"and", "from"}, bare):
			when = append(when, w)
			continue
		default:
			continue
		}
		// "weekdays at 9 in Europe/Oslo from bundled:feeds-primer": the word before is no part of the schedule.
		if n := len(when); n > 0 && slices.Contains([]string{"in", "from", "of"}, when[n-1]) {
			when = when[:n-1]
		}
	}
	if p.Schedule = strings.Join(when, " "); p.Schedule == "" || len(p.Feeds)+len(p.Channels) == 0 {
		return refusalDraft("Say for example " + createExample)
	}
	w, err := s.planProposal(ctx, tool.Caller{Conversation: m.Conversation, User: m.Author}, p, m.Key())
	if err != nil {
		return s.errorDraft("", err)
	}
	d := w.confirmationDraft()
	d.Editable = true
	return d
}

// isAddress reports whether a word is the address of a channel, and not a feed that comes with the program.
func isAddress(word string) bool {
	_, err := chat.ParseAddress(word)
	return err == nil
}

// hostname matches the address of a page without its scheme.
var hostname = text.Pattern(`^[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}(/\S*)?$`)

// findNamed returns the digest whose name the words begin with (the longest such name), and the rest of the words.
func (s *Service) findNamed(words string) (d spec, rest string, ok bool) {
	for _, one := range s.specs() {
		after, found := strings.CutPrefix(words, one.Name)
		if found && (after == "" || after[0] == ' ') && len(one.Name) > len(d.Name) {
			d, rest, ok = one, strings.TrimSpace(after), true
		}
	}
	return d, rest, ok
}

// denialDraft answers somebody who may not change a digest.
func (s *Service) denialDraft(d spec) chat.Draft {
	if d.Source == FromConfig {
		return refusalDraft("Only an administrator can do that with **" + escape(d.Name) + "**.")
	}
	return refusalDraft("Only an administrator, or the author of **" + escape(d.Name) + "**, can do that.")
}

// reply returns the text of do as a draft, or its error in words for people.
func (s *Service) reply(name string, do func() (string, error)) chat.Draft {
	text, err := do()
	if err != nil {
		return s.errorDraft(name, err)
	}
	return chat.Draft{Text: text, Ephemeral: true}
}

// runNow runs a digest for somebody who asks in chat, and returns what they are told.
func (s *Service) runNow(ctx context.Context, d spec, m chat.Message) (string, error) {
	run, err := s.lockAndRun(ctx, d.Name, s.o.Now(), true, false)
	switch {
	case err != nil:
		return "", err
	case d.isTask():
		return fmt.Sprintf("The digest **%s** was run: it is on its way to %s.", escape(d.Name), d.places(m)), nil
	case run.Posted > 0:
		return fmt.Sprintf("The digest **%s** was run: it is on its way to %s with %s.",
			escape(d.Name), d.places(m), pluralize(run.Posted, "item")), nil
	}
	return fmt.Sprintf("The digest **%s** was run: nothing new since the last one.", escape(d.Name)), nil
}

// places returns where a digest is posted. Who may not manage it is not told of other channels.
func (d spec) places(m chat.Message) string {
	var list []string
	for i, to := range d.post {
		if d.canBeManaged(m) || to.Base() == m.Conversation.Base() {
			list = append(list, "`"+d.Post[i]+"`")
		}
	}
	if len(list) < len(d.post) {
		list = append(list, "elsewhere")
	}
	return strings.Join(list, ", ")
}

// pauseOrResume pauses a digest with on, else resumes it, and returns what whoever asked is told.
func (s *Service) pauseOrResume(ctx context.Context, d spec, on bool) (string, error) {
	if err := s.Pause(ctx, d.Name, on); err != nil {
		return "", err
	}
	if on {
		return "The digest **" + escape(d.Name) + "** is paused. Runs that fall due while it is paused are skipped. " +
			"`digest resume " + d.Name + "` resumes it.", nil
	}
	d.Paused = false
	return strings.TrimSuffix(
		"The digest **"+escape(d.Name)+"** is resumed. Next: "+strings.Join(d.nextRuns(s.o.Now(), 1), ""),
		" Next: ",
	), nil
}

// previewDraft returns what a run would post now, for the asker alone.
func (s *Service) previewDraft(ctx context.Context, name string) chat.Draft {
	p, err := s.Preview(ctx, name)
	if err != nil {
		return s.errorDraft(name, err)
	}
	if p.Draft.Text == "" {
		p.Draft.Text = "The digest **" + escape(name) + "** has nothing new."
	}
	p.Draft.Ephemeral = true
	return p.Draft
}

// maxExplained bounds the verdicts shown in chat; the command line and the dashboard show all.
const maxExplained = 60

// explain lists the verdict on every item, as a run now would decide or, with "last", as the last run did.
func (s *Service) explain(ctx context.Context, d spec, what string) chat.Draft {
	var heading string
	var list []Verdict
	if strings.EqualFold(what, "last") {
		last, known, err := s.LastVerdicts(ctx, d.Name)
		if err != nil {
			return s.errorDraft(d.Name, err)
		}
		if !known {
			return refusalDraft("**" + escape(d.Name) + "** has not run yet.")
		}
		heading, list = "of "+last.Due.In(d.zone).Format("2 Jan 15:04"), last.Items
		if last.More > 0 {
			heading += fmt.Sprintf(" (and %d items that it had seen before)", last.More)
		}
	} else {
		p, err := s.Preview(ctx, d.Name)
		if err != nil {
			return s.errorDraft(d.Name, err)
		}
		heading, list = "as it would be now", p.Items
	}
	lines := []string{"**" + escape(d.Name) + "**, " + heading, ""}
	for n, v := range list {
		if n == maxExplained {
			lines = append(lines,
				fmt.Sprintf("- and %d more; `ravenbot digest preview %s --explain` shows all", len(list)-n, d.Name))
			break
		}
		lines = append(lines, "- "+v.markdown())
	}
	if len(list) == 0 {
		lines = append(lines, "Its feeds have no items.")
	}
	return chat.Draft{Ephemeral: true, Text: strings.Join(lines, "\n")}
}

// markdown returns a verdict as Markdown.
func (v Verdict) markdown() string {
	text := escape(cmp.Or(v.Title, v.Link, v.Feed)) + ": *" + escape(v.Verdict) + "*"
	if why := v.Why(); why != "" {
		text += " (" + escape(why) + ")"
	}
	return text
}

// mute adds a filter that excludes a word until a day.
func (s *Service) mute(ctx context.Context, d spec, words string) (string, error) {
	_, err := s.Change(ctx, d.Name, func(p *Plan) error {
		p.Filters = append(slices.Clone(p.Filters), "mute:"+words)
		return nil
	})
	if err != nil {
		return "", err
	}
	return "The digest **" + escape(d.Name) + "** leaves out " + escape(words) + ".", nil
}

// errorDraft returns an error in words for people, and logs it where it is not theirs to correct.
func (s *Service) errorDraft(name string, err error) chat.Draft {
	var bad BadPlan
	switch {
	case errors.Is(err, ErrUnknown):
		return refusalDraft(fmt.Sprintf("There is no digest %q. `digest list` shows the digests of this channel.", name))
	case errors.Is(err, ErrConfigured):
		return refusalDraft("**" + escape(name) + "** comes from config.json. Change it there.")
	case errors.As(err, &bad):
		return refusalDraft("That does not work: " + escape(err.Error()) + ".")
	}
	s.o.Log.Error("digest command failed", "digest", name, "error", err)
	return refusalDraft(fmt.Sprintf("I could not make the digest **%s**: %s.", escape(name), failureReason(spec{}, err)))
}

// listDigests lists the digests that the author of a message may see, and the subscriptions of the channel.
func (s *Service) listDigests(ctx context.Context, m chat.Message) (string, error) {
	var lines []string
	for _, d := range s.specs() {
		if !d.isVisible(m) {
			continue
		}
		i, err := s.info(ctx, d)
		if err != nil {
			return "", err
		}
		lines = append(lines, "- "+i.markdown(d, m))
	}
	if len(lines) == 0 {
		lines = []string{"No digest is posted here."}
	} else {
		lines = append([]string{"**Digests**", ""}, lines...)
	}
	subs, err := s.channelSubscriptions(ctx, m.Conversation)
	if err != nil {
		return "", err
	}
	return strings.Join(append(lines, subscriptionLines(subs)...), "\n"), nil
}

// sources returns what a digest is made of, in words.
func (i Info) sources() []string {
	var list []string
	if len(i.Feeds) > 0 {
		list = append(list, pluralize(len(i.Feeds), "feed"))
	}
	if len(i.Channels) > 0 {
		list = append(list, pluralize(len(i.Channels), "channel"))
	}
	if len(i.Webhooks) > 0 {
		list = append(list, pluralize(len(i.Webhooks), "webhook"))
	}
	return list
}

// markdown returns a digest as a line of the list that the author of a message sees.
func (i Info) markdown(d spec, m chat.Message) string {
	what, when := strings.Join(i.sources(), " and "), fmt.Sprintf("`%s` (%s)", i.Schedule, d.Timezone)
	if d.isTask() {
		what = "a task"
	}
	if i.When != "" {
		when = i.When + ", " + when
	}
	line := fmt.Sprintf("**%s**: %s, %s to %s", escape(i.Name), when, what, d.places(m))
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
		line += fmt.Sprintf(", last %s with %s",
			i.Last.Due.In(d.zone).Format("Mon 2 Jan 15:04 MST"), pluralize(i.Last.Posted, "item"))
		// What went wrong may name mailboxes and other channels.
		if i.Last.Note != "" && d.canBeManaged(m) {
			line += " (" + escape(shorten(i.Last.Note, maxNote)) + ")"
		}
	}
	return line
}

// maxNote bounds what a list says of what went wrong in a run, in characters.
const maxNote = 300

// subscriptionLines returns the feeds that a conversation follows, as lines of a list.
func subscriptionLines(subs []store.Subscription) []string {
	if len(subs) == 0 {
		return nil
	}
	lines := []string{"", "**Followed here** (`digest unsubscribe FEED` ends it)", ""}
	for _, sub := range subs {
		lines = append(lines, "- "+markdownLink(sub.Title, sub.URL))
	}
	return lines
}
