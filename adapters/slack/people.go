package slack

import (
	"context"
	"net/url"
	"time"
)

// Rules of asking who administers the workspace.
const (
	standingLife   = 5 * time.Minute
	standingWithin = time.Second
	peopleScope    = "users:read"
)

// standing is what somebody was in the workspace at a time.
type standing struct {
	admin bool
	at    time.Time
}

// isAdmin tells whether somebody administers or owns the workspace. Whoever Slack
// does not tell of does not.
func (s *Slack) isAdmin(ctx context.Context, user string) bool {
	now := s.o.Now()
	if known, ok := s.standings.get(user); ok && now.Sub(known.at) < standingLife {
		return known.admin
	}
	ctx, cancel := context.WithTimeout(ctx, standingWithin)
	defer cancel()
	var answer struct {
		User struct {
			Admin   bool `json:"is_admin"`
			Owner   bool `json:"is_owner"`
			Primary bool `json:"is_primary_owner"`
		} `json:"user"`
	}
	err := s.ask(ctx, "users.info", url.Values{"user": {user}}, &answer)
	if err == nil || forGood(err) {
		admin := answer.User.Admin || answer.User.Owner || answer.User.Primary
		s.standings.put(user, standing{admin: admin, at: now})
		s.doubt(err)
		return admin
	}
	s.o.Log.Warn("slack did not tell whether a user administers the workspace; taken as one who does not", "user", user, "error", redacted(err))
	return false
}

// doubt says, once, that Slack refuses to tell who administers the workspace.
func (s *Slack) doubt(err error) {
	word := code(err)
	if word == "" || word == "user_not_found" {
		return
	}
	if known, _ := s.unfit.change("users.info: "+word, func(bool, bool) bool { return true }); !known {
		s.o.Log.Warn("slack refuses to tell who administers the workspace, so nobody counts as an administrator", "error", err,
			"remedy", "add the scope "+peopleScope+" to the app and reinstall it")
	}
}
