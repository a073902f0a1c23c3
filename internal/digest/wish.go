package digest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"ravenbot/internal/chat"
	"ravenbot/internal/feed"
	"ravenbot/internal/store"
	"ravenbot/internal/tool"
)

// A wish is open for so long, and so many are at a time.
const (
	wishFor    = time.Hour
	mostWishes = 200
)

// What buttons and words say: followed by a space and the id of a wish.
const (
	pressYes = "digest-yes"
	pressNo  = "digest-no"
)

// wish is a digest that somebody wants and has not confirmed yet.
type wish struct {
	ID   string       `json:"id"`
	Plan Plan         `json:"plan"`
	At   time.Time    `json:"at"`
	From chat.Address `json:"from"` // where it was asked for
	Says string       `json:"says"` // the plan in words
}

func (w wish) key() string { return "digest-wish/" + w.ID }

// Propose shows a plan in the conversation of the caller, who confirms or drops it
// there, or an administrator does. Feeds may be named by words. What comes back is for
// the model that called; a BadPlan says what it has to mend.
func (s *Service) Propose(ctx context.Context, caller tool.Caller, p Plan) (string, error) {
	if caller.User.ID == "" || !s.o.Platforms.CanPost(caller.Conversation) {
		return "", BadPlan{errors.New("there is nobody here to confirm a digest and no channel that it could be posted to, so none was planned: ask the bot in the chat of the channel, or use POST /api/v1/digests")}
	}
	titles := make([]string, len(p.Feeds))
	for n, f := range p.Feeds {
		found, title, err := s.resolve(ctx, strings.TrimSpace(f.URL))
		if err != nil {
			return "", BadPlan{err}
		}
		p.Feeds[n].URL, titles[n] = found, title
	}
	here := caller.Conversation.Base()
	p.Post, p.Source, p.By, p.On = []string{here.String()}, FromChat, caller.User, here.Platform
	p.By.Admin = false // that is judged anew each time
	if p.Name = slug(cmp.Or(p.Name, strings.Join(titles, " "), p.Prompt)); p.Timezone == "" {
		p.Timezone = "UTC"
	}
	p.Name = s.free(p.Name)
	if len(p.Feeds) == 0 && p.MaxTokens == 0 {
		p.MaxTokens = taskTokens
	}
	d, err := s.accept(p)
	if err != nil {
		return "", err
	}
	w := wish{ID: newID(), Plan: p, At: s.o.Now().UTC(), From: caller.Conversation, Says: s.inWords(d, titles)}
	if err := s.hold(ctx, w); err != nil {
		return "", err
	}
	if err := s.o.Delivery.Interject(ctx, caller.Conversation, w.question(), ""); err != nil {
		return "", err
	}
	return "The plan is shown in the conversation, with buttons. It is not made yet: " + cmp.Or(caller.User.Name, "the asker") + " or an administrator has to confirm it. Do not repeat the plan.", nil
}

// free makes a name that no digest has.
func (s *Service) free(name string) string {
	for n := 2; ; n++ {
		if _, taken := s.find(name); !taken {
			return name
		}
		name = strings.TrimRight(strings.TrimSuffix(name, fmt.Sprintf("-%d", n-1)), "-") + fmt.Sprintf("-%d", n)
	}
}

// hold keeps a wish, and drops those that nobody confirmed.
func (s *Service) hold(ctx context.Context, w wish) error {
	s.mu.Lock()
	var old []string
	for id, other := range s.wishes {
		if w.At.Sub(other.At) > wishFor {
			old = append(old, id)
			delete(s.wishes, id)
		}
	}
	full := len(s.wishes) >= mostWishes
	if !full {
		s.wishes[w.ID] = w
	}
	s.mu.Unlock()
	for _, id := range old {
		s.drop(ctx, id)
	}
	if full {
		return BadPlan{errors.New("too many digests wait to be confirmed")}
	}
	return s.save(ctx, wishKind, w.ID, w)
}

func (s *Service) drop(ctx context.Context, id string) {
	if err := s.o.Store.DeleteItem(ctx, wishKind, id); err != nil && !errors.Is(err, store.ErrNotFound) {
		s.o.Log.Error("digest that was not confirmed not forgotten", "wish", id, "error", err)
	}
}

func newID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// resolve finds the feed that an address or words name. Its errors offer candidates.
func (s *Service) resolve(ctx context.Context, words string) (address, title string, err error) {
	address = words
	if !web(words) && !strings.HasPrefix(words, "bundled:") {
		if strings.ContainsRune(words, '.') && !strings.ContainsAny(words, " \t") {
			address = "https://" + words
		} else if address, err = s.known(ctx, words); err != nil {
			return "", "", err
		}
	}
	res, err := s.o.Feeds.Fetch(ctx, address)
	if errors.Is(err, feed.ErrNotFeed) {
		offers, findErr := s.o.Feeds.Find(ctx, address)
		if len(offers) > 1 {
			return "", "", fmt.Errorf("%s is a page with several feeds; ask which is meant: %s", address, offered(offers))
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

func offered(list []feed.Link) string {
	var all []string
	for _, l := range list[:min(len(list), 10)] {
		all = append(all, strings.TrimSpace(l.URL+" "+l.Title))
	}
	return strings.Join(all, ", ")
}

// known finds, among the feeds that the bot reads already, the one whose title or
// address holds all the words.
func (s *Service) known(ctx context.Context, words string) (string, error) {
	feeds, err := s.KnownFeeds(ctx)
	if err != nil {
		return "", err
	}
	var found []string
	for _, f := range feeds {
		text := strings.ToLower(f.Title + " " + f.Name)
		if web(f.Name) && !strings.Contains(f.Name, "***") && !slices.ContainsFunc(strings.Fields(strings.ToLower(words)), func(w string) bool { return !strings.Contains(text, w) }) {
			found = append(found, f.Name)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no feed called %.80q is read yet; give the address of the feed, or of a page that names it", words)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("%.80q may be several feeds; ask which is meant: %s", words, strings.Join(found[:min(len(found), 10)], ", "))
}

// upcoming are the next runs of a digest, in words.
func (d spec) upcoming(now time.Time, n int) []string {
	var list []string
	for range n {
		next, ok := d.next(now)
		if !ok {
			break
		}
		list = append(list, next.Format("Mon 2 Jan 15:04 MST"))
		now = next
	}
	return list
}

// inWords says what a plan is.
func (s *Service) inWords(d spec, titles []string) string {
	var lines []string
	for n, f := range d.Feeds {
		lines = append(lines, "- reads "+link(titles[n], f.URL))
	}
	if d.Prompt != "" {
		lines = append(lines, "- is told: "+escape(shorten(d.Prompt, 500)))
	}
	lines = append(lines, "- posts to `"+strings.Join(d.Post, "`, `")+"`")
	if d.instant() {
		lines = append(lines, fmt.Sprintf("- posts items as they come, at most %d at a time and %d an hour", mostALook, mostAnHour))
	} else {
		lines = append(lines, "- runs "+d.when.Describe()+" ("+d.Timezone+"), next: "+strings.Join(d.upcoming(s.o.Now(), 3), ", "))
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

// question shows a plan and asks.
func (w wish) question() chat.Draft {
	text := "**May I make the digest `" + w.Plan.Name + "`?**\n\n" + w.Says +
		"\n\nOnly " + escape(cmp.Or(w.Plan.By.Name, "whoever asked")) + " or an administrator can decide: press a button, or write `yes` or `no`."
	return chat.Draft{Key: w.key(), Text: text,
		Buttons: []chat.Button{{Label: "Make it", Value: pressYes + " " + w.ID, Style: chat.Primary}, {Label: "No", Value: pressNo + " " + w.ID}},
		Footer:  "forgotten if nobody decides by " + w.At.Add(wishFor).Format("15:04") + " UTC"}
}

// Urgent reports that a message is for the digests alone, and must not wait behind
// other work: the press of a button of theirs, a word on a plan that waits, and "more
// on 3" where a digest is posted.
func (s *Service) Urgent(m chat.Message) bool {
	if !m.IsQuestion() && m.Kind() != chat.EventPress {
		return false
	}
	if m.Kind() == chat.EventPress {
		what, _ := m.Press()
		return slices.Contains([]string{pressYes + " ", pressNo + " ", pressApart}, what)
	}
	if _, ok := s.decided(m); ok {
		return true
	}
	return s.asksMore(m)
}

// decided gives the wish that a written word is about.
func (s *Service) decided(m chat.Message) (wish, bool) {
	if word(m) == "" {
		return wish{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var open []wish
	for _, w := range s.wishes {
		if w.From == m.Conversation && s.o.Now().Sub(w.At) <= wishFor && (spec{Plan: w.Plan}).governs(m) {
			open = append(open, w)
		}
	}
	if len(open) == 0 {
		return wish{}, false
	}
	return slices.MaxFunc(open, func(a, b wish) int { return a.At.Compare(b.At) }), true
}

// word reads yes and no.
func word(m chat.Message) string {
	switch strings.ToLower(strings.Trim(m.Text, " \t\n.!`")) {
	case "yes", "make it":
		return pressYes
	case "no", "cancel":
		return pressNo
	}
	return ""
}

// Handle carries out what a message wants of the digests. The draft is nil where it is not
// for them.
func (s *Service) Handle(ctx context.Context, m chat.Message) (*chat.Draft, error) {
	d, ok := s.handle(ctx, m)
	if !ok {
		return nil, nil
	}
	return &d, nil
}

func (s *Service) handle(ctx context.Context, m chat.Message) (d chat.Draft, ok bool) {
	if m.Kind() == chat.EventCommand && m.Command == commandName {
		return s.command(ctx, m), true
	}
	if !s.Urgent(m) {
		return chat.Draft{}, false
	}
	if m.Kind() != chat.EventPress {
		if w, ok := s.decided(m); ok {
			return s.decide(ctx, w, word(m) == pressYes, m), true
		}
		return s.more(ctx, m), true
	}
	what, id := m.Press()
	if what == pressApart {
		return s.unmerged(ctx, m, id), true
	}
	s.mu.Lock()
	w, ok := s.wishes[id]
	s.mu.Unlock()
	switch {
	case !ok || s.o.Now().Sub(w.At) > wishFor:
		return refuse("This plan was decided or forgotten; please ask for it again."), true
	case !(spec{Plan: w.Plan}).governs(m):
		return refuse("Only whoever asked for the digest, or an administrator, can decide."), true
	}
	return s.decide(ctx, w, what == pressYes+" ", m), true
}

func refuse(text string) chat.Draft { return chat.Draft{Ephemeral: true, Failed: true, Text: text} }

// decide makes a digest that was wished for, or drops the wish.
func (s *Service) decide(ctx context.Context, w wish, yes bool, m chat.Message) chat.Draft {
	s.mu.Lock()
	_, open := s.wishes[w.ID]
	delete(s.wishes, w.ID)
	s.mu.Unlock()
	if !open {
		return refuse("This was decided just now.")
	}
	text, shown := "The digest `"+w.Plan.Name+"` is not made.", "**The digest `"+w.Plan.Name+"`** was not wanted."
	if yes {
		info, err := s.Create(ctx, w.Plan)
		if err != nil {
			var bad BadPlan
			if errors.As(err, &bad) || errors.Is(err, ErrExists) {
				return refuse("The digest was not made: " + err.Error() + ".")
			}
			s.mu.Lock()
			s.wishes[w.ID] = w // it may be confirmed once more
			s.mu.Unlock()
			s.o.Log.Error("digest not made", "digest", w.Plan.Name, "error", err)
			return refuse("The digest could not be kept; please try again. The bot's log has the reason.")
		}
		text = "The digest `" + info.Name + "` is made."
		if info.Next != nil {
			text += " Its first run is on " + info.Next.Format("Mon 2 Jan 15:04 MST") + "."
		}
		text += " `/raven digest list` shows it; `pause`, `edit` and `remove` change it."
		shown = "**The digest `" + w.Plan.Name + "`**, as " + escape(cmp.Or(m.Author.Name, "somebody")) + " wants it\n\n" + w.Says
	}
	s.drop(ctx, w.ID)
	if err := s.o.Delivery.Interject(ctx, w.From, chat.Draft{Key: w.key() + "/decided", Text: shown}, w.key()); err != nil {
		s.o.Log.Error("decision on a digest not shown", "digest", w.Plan.Name, "error", err)
	}
	return chat.Draft{Ephemeral: true, Text: text}
}

// moreOn reads "more on 3".
var moreOn = regexp.MustCompile(`(?i)^\W*more\s+(?:on|about)\s+(?:item\s+|no\.?\s*|#)?(\d{1,3})\W*$`)

// asksMore reports that a message asks for an entry of a digest that is posted where
// it was said.
func (s *Service) asksMore(m chat.Message) bool {
	return moreOn.MatchString(m.Text) && slices.ContainsFunc(s.all(), func(d spec) bool { return d.here(m.Conversation) })
}
