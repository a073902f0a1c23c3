package digest

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
	"ravenbot/internal/news/feed"
	"ravenbot/internal/store"
)

// How long a proposal can be confirmed, and how many are open at a time.
const (
	proposalLifetime = time.Hour
	maxProposals     = 200
	// shownRuns is how many next runs a proposal shows: enough to see a wrong cycle of weeks.
	shownRuns = 5
)

// The values of buttons: followed by a space and the id of a proposal.
const (
	pressYes = "digest-yes"
	pressNo  = "digest-no"
)

// hereWord stands for the channel in which a digest is asked for.
const hereWord = "here"

// proposal is the plan of a digest that waits for confirmation.
type proposal struct {
	ID      string       `json:"id"`
	Plan    Plan         `json:"plan"`
	At      time.Time    `json:"at"`
	From    chat.Address `json:"from"` // where it was asked for
	Summary string       `json:"says"` // the plan for readers
	// Post is the key of the post that shows the plan, which the decision replaces; empty: it has that of a post of its
	// own.
	Post string `json:"post,omitempty"`
}

// key names the post that shows a proposal where it is no answer.
func (w proposal) key() string { return "digest-wish/" + w.ID }

// Propose shows a plan in the conversation of the caller, where the caller or an administrator confirms or rejects it.
// Feeds may be named by words. The text that it returns is for the model that called; a BadPlan says what the model has
// to correct. It returns when the plan is stored and on its way: nobody waits for the person.
func (s *Service) Propose(ctx context.Context, caller tool.Caller, p Plan) (string, error) {
	w, err := s.planProposal(ctx, caller, p, "")
	if err != nil {
		return "", err
	}
	if err := s.o.Delivery.Interject(ctx, caller.Conversation, w.confirmationDraft(), ""); err != nil {
		return "", err
	}
	return "The plan is shown in the conversation, with buttons. It is not created yet: " +
		cmp.Or(caller.User.Name, "the asker") + " or an administrator has to confirm it. Do not repeat the plan.", nil
}

// planProposal stores a proposal. The caller shows it, in the post with a key; empty: in one of its own. The error is
// that of Propose.
func (s *Service) planProposal(ctx context.Context, caller tool.Caller, p Plan, post string) (proposal, error) {
	if caller.User.ID == "" || !s.o.Platforms.CanPost(caller.Conversation) {
		return proposal{}, BadPlan{errors.New("nobody here can confirm a digest, or nothing can be posted here, " +
			"so no digest was planned: ask the bot in the chat of the channel, or use POST /api/v1/digests")}
	}
	titles := make([]string, len(p.Feeds))
	for n, f := range p.Feeds {
		found, title, err := s.resolveFeed(ctx, strings.TrimSpace(f.URL))
		if err != nil {
			return proposal{}, BadPlan{err}
		}
		p.Feeds[n].URL, titles[n] = found, title
	}
	here := caller.Conversation.Base()
	for n, channel := range p.Channels {
		if strings.EqualFold(strings.TrimSpace(channel), hereWord) {
			p.Channels[n] = here.String()
		}
	}
	p.Post, p.Source, p.By, p.On = []string{here.String()}, FromChat, caller.User, here.Platform
	p.Origin = caller.Origin()
	p.By.Admin = false // rights are checked each time, not stored
	if p.Name = slug(cmp.Or(p.Name, strings.Join(titles, " "), p.Prompt, "channels")); p.Timezone == "" {
		p.Timezone = "UTC"
	}
	p.Name = s.freeName(p.Name) // a model cannot know which names are taken
	if p.isTask() && p.MaxTokens == 0 {
		p.MaxTokens = defaultTaskTokens
	}
	d, err := s.validateNew(p)
	if err != nil {
		return proposal{}, err
	}
	if err := s.checkPlaces(ctx, d); err != nil {
		return proposal{}, err
	}
	w := proposal{ID: text.RandomID(6), Plan: p, At: s.o.Now().UTC(), From: caller.Conversation,
		Summary: s.describePlan(d, titles), Post: post}
	// Stored before it is shown: after a crash in between, a button would name a proposal that nobody knows.
	return w, s.saveProposal(ctx, w)
}

// freeName returns name, with a number where a digest has that name. Another process may take it
// before it is stored; Create returns ErrExists then.
func (s *Service) freeName(name string) string {
	for n := 2; ; n++ {
		if _, taken := s.find(name); !taken {
			return name
		}
		name = strings.TrimRight(strings.TrimSuffix(name, fmt.Sprintf("-%d", n-1)), "-") + fmt.Sprintf("-%d", n)
	}
}

// saveProposal stores a proposal, and deletes the expired ones.
func (s *Service) saveProposal(ctx context.Context, w proposal) error {
	open, err := loadItems[proposal](ctx, s, proposalKind)
	if err != nil {
		return err
	}
	for id, other := range open {
		if w.At.Sub(other.At) <= proposalLifetime {
			continue
		}
		delete(open, id)
		if err := s.deleteItem(ctx, proposalKind, id); err != nil {
			s.o.Log.Error("failed to delete an expired proposal", "proposal", id, "error", err)
		}
	}
	if len(open) >= maxProposals {
		return BadPlan{errors.New("too many digests wait for confirmation")}
	}
	return s.saveItem(ctx, proposalKind, w.ID, w)
}

// resolveFeed returns the address and the title of the feed that an address or words name. Its errors are for the
// model, and list candidates. It reads the feed, so that none is proposed that cannot be read.
func (s *Service) resolveFeed(ctx context.Context, words string) (address, title string, err error) {
	address = words
	if !isWebURL(words) && !strings.HasPrefix(words, "bundled:") {
		if strings.ContainsRune(words, '.') && !strings.ContainsAny(words, " \t") {
			address = "https://" + words
		} else if address, err = s.findKnownFeed(ctx, words); err != nil {
			return "", "", err
		}
	}
	res, err := s.o.Feeds.Fetch(ctx, address)
	// People name the page of a blog; its feed is found from there. Of several the model asks.
	if errors.Is(err, feed.ErrNotFeed) {
		offers, findErr := s.o.Feeds.Find(ctx, address)
		if len(offers) > 1 {
			return "", "", fmt.Errorf("%s is a page with several feeds; ask which is meant: %s", address, joinLinks(offers))
		}
		if findErr == nil && len(offers) == 1 {
			address = offers[0].URL
			res, err = s.o.Feeds.Fetch(ctx, address)
		}
	}
	if err != nil {
		return "", "", errors.New(strings.TrimSuffix(feed.Explain(address, err), "."))
	}
	return address, cmp.Or(res.Feed.Heading(), host(address)), nil
}

// joinLinks returns up to ten addresses with their titles, for the question which one is meant.
func joinLinks(list []feed.Link) string {
	var all []string
	for _, l := range list[:min(len(list), 10)] {
		all = append(all, strings.TrimSpace(l.URL+" "+l.Title))
	}
	return strings.Join(all, ", ")
}

// findKnownFeed returns the feed among those that the bot reads whose title or address
// contains all words. Addresses with masked secrets are left out.
func (s *Service) findKnownFeed(ctx context.Context, words string) (string, error) {
	feeds, err := s.KnownFeeds(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, f := range feeds {
		title := strings.ToLower(f.Title + " " + f.Name)
		missing := slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(w string) bool {
			return !strings.Contains(title, w)
		})
		if isWebURL(f.Name) && !strings.Contains(f.Name, "***") && !missing {
			found = append(found, f.Name)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no feed called %.80q is read yet; give the address of the feed, or of a page that names it",
			words)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%.80q may be several feeds; ask which is meant: %s",
		words, strings.Join(found[:min(len(found), 10)], ", "))
}

// nextRuns returns the times of the next n runs of a digest, for readers.
func (d spec) nextRuns(now time.Time, n int) []string {
	var list []string
	for range n {
		next, ok := d.nextRun(now)
		if !ok {
			break
		}
		list = append(list, next.Format("Mon 2 Jan 15:04 MST"))
		now = next
	}
	return list
}

// describePlan returns a plan for readers, as a list.
func (s *Service) describePlan(d spec, titles []string) string {
	var lines []string
	for n, f := range d.Feeds {
		lines = append(lines, "- reads "+markdownLink(titles[n], f.URL))
	}
	if len(d.Channels) > 0 {
		lines = append(lines, "- tells decisions, questions and links of `"+strings.Join(d.Channels, "`, `")+"`")
	}
	if d.Prompt != "" {
		lines = append(lines, "- instructions: "+escape(shorten(d.Prompt, 500)))
	}
	lines = append(lines, "- posts to `"+strings.Join(d.Post, "`, `")+"`")
	if d.isInstant() {
		lines = append(lines, fmt.Sprintf("- posts items as they come, at most %d at a time", maxPerPoll))
	} else {
		lines = append(lines,
			"- runs "+d.when.Describe()+" ("+d.Timezone+"), next: "+strings.Join(d.nextRuns(s.o.Now(), shownRuns), ", "))
	}
	if d.MaxTokens > 0 {
		lines = append(lines, fmt.Sprintf("- uses at most %d tokens of a language model in a run", d.MaxTokens))
	}
	for _, one := range [][2]string{{"style", d.Style}, {"language", d.Language}, {"filters", strings.Join(d.Filters, ", ")}} {
		if one[1] != "" {
			lines = append(lines, "- "+one[0]+": "+escape(one[1]))
		}
	}
	return strings.Join(lines, "\n")
}

// confirmationDraft returns the post that shows a plan and asks for confirmation.
func (w proposal) confirmationDraft() chat.Draft {
	text := "**May I make the digest `" + w.Plan.Name + "`?**\n\n" + w.Summary +
		"\n\nOnly " + escape(cmp.Or(w.Plan.By.Name, "whoever asked")) +
		" or an administrator can decide: press a button, or write `yes` or `no`."
	return chat.Draft{Key: w.key(), Text: text,
		Buttons: []chat.Button{{Label: "Make it", Value: pressYes + " " + w.ID, Style: chat.Primary},
			{Label: "No", Value: pressNo + " " + w.ID}},
		Footer: "expires at " + w.At.Add(proposalLifetime).Format("15:04") + " UTC"}
}

// Urgent reports whether a message is only for the digests, and must not wait behind other work: the press of one of
// their buttons, and a yes or no to a proposal.
func (s *Service) Urgent(m chat.Message) bool {
	if m.Kind() == chat.EventPress {
		what, _ := m.Press()
		return what == pressYes+" " || what == pressNo+" "
	}
	_, ok := s.proposalFor(m)
	return ok && m.IsQuestion()
}

// proposalFor returns the newest open proposal that a written yes or no can be about: of the
// same conversation, and the author's to decide. It returns false where there is none.
func (s *Service) proposalFor(m chat.Message) (proposal, bool) {
	if parseYesNo(m) == "" {
		return proposal{}, false
	}
	all, err := loadItems[proposal](context.Background(), s, proposalKind) // the store has deadlines of its own
	if err != nil {
		s.o.Log.Error("failed to read open proposals of digests", "error", err)
	}
	var open []proposal
	for _, w := range all {
		if w.From == m.Conversation && s.o.Now().Sub(w.At) <= proposalLifetime && (spec{Plan: w.Plan}).canBeManaged(m) {
			open = append(open, w)
		}
	}
	if len(open) == 0 {
		return proposal{}, false
	}
	return slices.MaxFunc(open, func(a, b proposal) int { return a.At.Compare(b.At) }), true
}

// parseYesNo returns pressYes or pressNo for a written answer, else "".
func parseYesNo(m chat.Message) string {
	switch strings.ToLower(strings.Trim(m.Text, " \t\n.!`")) {
	case "yes", "make it":
		return pressYes
	case "no", "cancel":
		return pressNo
	}
	return ""
}

// Handle answers a message that is for the digests. It returns nil where a message is not.
func (s *Service) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	d, ok := s.handle(ctx, m)
	if !ok {
		return nil, nil
	}
	return &d, nil
}

// handle answers a message that is for the digests. ok is false where it is not.
func (s *Service) handle(ctx context.Context, m chat.Message) (d chat.Draft, ok bool) {
	if m.Kind() == chat.EventCommand && m.Command == commandName {
		return s.runCommand(ctx, m), true
	}
	if !s.Urgent(m) {
		return chat.Draft{}, false
	}
	if m.Kind() != chat.EventPress {
		w, ok := s.proposalFor(m)
		if !ok { // it was decided just now
			return chat.Draft{}, false
		}
		return s.decideProposal(ctx, w, parseYesNo(m) == pressYes, m), true
	}
	what, id := m.Press()
	w, ok, err := loadItem[proposal](ctx, s, proposalKind, id, "the proposal")
	// The buttons stay in the channel, where everybody can press them, also after the proposal has expired.
	switch {
	case err != nil:
		s.o.Log.Error("failed to read a proposal of a digest", "proposal", id, "error", err)
		return refusalDraft("I could not read that plan. Please try again. The reason is in the bot's log."), true
	case !ok || s.o.Now().Sub(w.At) > proposalLifetime:
		return refusalDraft("This plan was decided or has expired. Please ask for it again."), true
	case !(spec{Plan: w.Plan}).canBeManaged(m):
		return refusalDraft("Only the person who asked for the digest, or an administrator, can decide."), true
	}
	return s.decideProposal(ctx, w, what == pressYes+" ", m), true
}

// refusalDraft returns an answer for the asker alone that says why nothing was done.
func refusalDraft(text string) chat.Draft {
	return chat.Draft{Ephemeral: true, Failed: true, Text: text}
}

// decideProposal makes the proposed digest, or drops the proposal. Where that fails the proposal stays open.
func (s *Service) decideProposal(ctx context.Context, w proposal, yes bool, m chat.Message) chat.Draft {
	text, shown, err := s.applyDecision(ctx, w, yes, m)
	var bad BadPlan
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refusalDraft("Somebody has just decided this.")
	case errors.As(err, &bad) || errors.Is(err, ErrExists):
		return refusalDraft("I could not create the digest: " + err.Error() + ".")
	case err != nil:
		s.o.Log.Error("failed to store the decision on a proposal", "digest", w.Plan.Name, "error", err)
		return refusalDraft("I could not save that. Please try again. The reason is in the bot's log.")
	}
	// The decision is stored and stands, also where the post that shows the proposal cannot be replaced.
	decided := chat.Draft{Key: w.key() + "/decided", Text: shown}
	if err := s.o.Delivery.Interject(ctx, w.From, decided, cmp.Or(w.Post, w.key())); err != nil {
		s.o.Log.Error("failed to show the decision on a proposal", "digest", w.Plan.Name, "error", err)
	}
	return chat.Draft{Ephemeral: true, Text: text}
}

// applyDecision stores a decision. It returns what whoever decided is told, and what is shown in place of the proposal.
func (s *Service) applyDecision(ctx context.Context, w proposal, yes bool,
	m chat.Message) (text, shown string, err error) {
	if !yes {
		return "The digest `" + w.Plan.Name + "` is not created.", "**The digest `" + w.Plan.Name + "`** was rejected.",
			s.o.Store.DeleteItem(ctx, proposalKind, w.ID)
	}
	info, err := s.Create(ctx, w.Plan)
	if err != nil {
		return "", "", err
	}
	// After the digest was created: a crash in between leaves the proposal open, and a second yes is refused because
	// the name is taken, as is one at the same time. The other way round the digest would be lost.
	if err := s.deleteItem(ctx, proposalKind, w.ID); err != nil {
		s.o.Log.Error("failed to delete the proposal of a digest that was created", "proposal", w.ID, "error", err)
	}
	text = "The digest `" + info.Name + "` is created."
	if info.Next != nil {
		text += " Its first run is on " + info.Next.Format("Mon 2 Jan 15:04 MST") + "."
	}
	text += " `/raven digest list` shows it; `pause`, `edit` and `remove` change it."
	return text, "**The digest `" + w.Plan.Name + "`**, confirmed by " + escape(cmp.Or(m.Author.Name, "somebody")) +
		"\n\n" + w.Summary, nil
}
