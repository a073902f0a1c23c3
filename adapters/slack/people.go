package slack

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
)

// Rules of asking who somebody is.
const (
	personLife    = 5 * time.Minute
	personTimeout = 5 * time.Second // of one look-up
	adminTimeout  = time.Second     // how long a command waits for it
	maxNameAsks   = 8               // users that are looked up at a time for one message
	maxNames      = 50              // users whose names are looked up for one message
	peopleScope   = "users:read"
)

// person is what Slack said of a user.
type person struct {
	name string
	// zone is a name of the IANA database such as "Europe/Berlin"; empty if Slack did not say.
	zone string
	// team is the workspace that the user belongs to, which may be one of another company (Slack Connect).
	team string
	// admin: of the bot's workspace, or its owner.
	admin bool
	bot   bool
}

// newPeople returns the memory of users in the workspace, which all that asks for users shares.
func (s *Slack) newPeople() *kit.Cache[person] {
	return kit.NewCache(kit.CacheOptions[person]{
		Look:    s.fetchPerson,
		Life:    personLife,
		Timeout: personTimeout,
		Now:     s.o.Now,
	})
}

// isAdmin reports whether a user administers or owns the workspace; false if Slack does not say.
func (s *Slack) isAdmin(ctx context.Context, user string) bool {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	who, err := s.people.Get(ctx, user)
	if err != nil {
		s.o.Log.Warn(
			"failed to look up a slack user; treating it as no administrator",
			"user",
			user,
			"error",
			redact(err),
		)
		return false
	}
	return who.admin
}

// fetchPerson asks Slack for a user. A refusal is no error: then nothing is known of the user.
func (s *Slack) fetchPerson(ctx context.Context, user string) (person, error) {
	var answer struct {
		User struct {
			Name string `json:"name"`
			Team string `json:"team_id"`
			Org  struct {
				Teams []string `json:"teams"`
			} `json:"enterprise_user"`
			Real    string `json:"real_name"`
			Zone    string `json:"tz"`
			Admin   bool   `json:"is_admin"`
			Owner   bool   `json:"is_owner"`
			Primary bool   `json:"is_primary_owner"`
			Bot     bool   `json:"is_bot"`
			Profile struct {
				Display string `json:"display_name"`
				Real    string `json:"real_name"`
			} `json:"profile"`
		} `json:"user"`
	}
	err := s.callAPI(ctx, "users.info", url.Values{"user": {user}}, &answer)
	if err != nil && !isFinal(err) {
		return person{}, err
	}
	s.reportRefusal(err, "slack refuses user look-ups, names are not known and nobody counts as an administrator",
		"users.info", peopleScope)
	u := answer.User
	// Who administers a workspace of another company has no say in this one.
	ours := u.Team == "" || u.Team == s.self.team || slices.Contains(u.Org.Teams, s.self.team)
	return person{
		name:  cmp.Or(u.Profile.Display, u.Profile.Real, u.Real, u.Name),
		zone:  u.Zone,
		team:  u.Team,
		admin: ours && (u.Admin || u.Owner || u.Primary),
		bot:   u.Bot,
	}, nil
}

// reportRefusal logs once that Slack refuses a method, such as for a scope that the app lacks. That a user or a channel
// does not exist is no such refusal.
func (s *Slack) reportRefusal(err error, message, method, scope string) {
	word := errorCode(err)
	if word == "" || word == "user_not_found" || word == "users_not_found" || word == "channel_not_found" {
		return
	}
	if known, _ := s.unsupported.Change(method+": "+word, func(bool, bool) bool { return true }); known {
		return
	}
	remedy := "add the scope " + scope + " to the app and reinstall it"
	if tokenCodes[word] {
		remedy = "check " + botTokenPlace
	}
	s.o.Log.Warn(message, "error", err, "remedy", remedy)
}

// knownName returns what a user is called, as far as it is known without asking.
func (s *Slack) knownName(user string) string {
	who, _ := s.people.Known(user)
	return who.name
}

// lookUpNames returns the names of users by their ids, as far as Slack tells them before ctx ends. Of more than
// maxNames users the first by id are looked up, each of them once, maxNameAsks at a time.
func (s *Slack) lookUpNames(ctx context.Context, users []string) map[string]string {
	users = slices.Clone(users)
	slices.Sort(users)
	users = slices.Compact(users)
	var mu sync.Mutex
	var asks sync.WaitGroup
	names := map[string]string{}
	turns := make(chan struct{}, maxNameAsks)
	add := func(user string, who person) {
		mu.Lock()
		defer mu.Unlock()
		if who.name != "" {
			names[user] = who.name
		}
	}
	for _, user := range users[:min(len(users), maxNames)] {
		if who, ok := s.people.Fresh(user); ok {
			add(user, who)
			continue
		}
		asks.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			// An old name is better than none where the look-up fails.
			who, _ := s.people.Get(ctx, user)
			add(user, who)
		})
	}
	asks.Wait()
	return names
}

// mentionedUser matches the mention of a user as it stands in the text of a chat.Message. What is shorter than an id of
// Slack's, and has no digit, is a word such as @UI.
var mentionedUser = text.Pattern(`@([UW](?:\d[A-Z0-9]*|[A-Z0-9]{2,}))\b`)

// mentionedIn returns the users whom the text of a message mentions by their ids, in order, one as often as it is
// there.
func mentionedIn(text string) []string {
	var users []string
	for mayMention(text) {
		at := mentionedUser().FindStringIndex(text)
		if at == nil {
			break
		}
		users = append(users, text[at[0]+1:at[1]])
		text = text[at[1]:]
	}
	return users
}

// mayMention reports whether it is worth looking for mentionedUser in a text.
func mayMention(text string) bool {
	return strings.Contains(text, "@U") || strings.Contains(text, "@W")
}

// setName gives a message the name of its author where that is known, and has the name looked up
// where it is not. It never waits, because the platform waits for the acknowledgement.
func (s *Slack) setName(m *chat.Message) {
	kind := m.Kind()
	if m.Author.ID == "" || kind == chat.EventReaction || kind == chat.EventDelete {
		return
	}
	m.Author.Roles = s.rolesOf(m.Author.ID) // they may decide whether the message is for the bot
	if m.Reach != chat.Addressed {
		return
	}
	s.people.Prefetch(m.Author.ID)
	m.Author.Name = cmp.Or(s.knownName(m.Author.ID), m.Author.Name)
}
