package slack

import (
	"cmp"
	"context"
	"net/url"
	"time"
)

// Rules of asking who administers the workspace.
const (
	personLife    = 5 * time.Minute
	personTimeout = time.Second
	peopleScope   = "users:read"
)

// person is what Slack said of a user, and when.
type person struct {
	name  string
	admin bool
	bot   bool
	at    time.Time
}

// isAdmin reports whether a user administers or owns the workspace; false if Slack does not say.
func (s *Slack) isAdmin(ctx context.Context, user string) bool {
	who, err := s.lookUpPerson(ctx, user)
	if err != nil {
		s.o.Log.Warn(
			"slack user not looked up, treated as no administrator",
			"user",
			user,
			"error",
			redact(err),
		)
	}
	return who.admin
}

// lookUpPerson returns what Slack says of a user, from memory if that is recent. A refusal is no
// error: then nothing is known of the user.
func (s *Slack) lookUpPerson(ctx context.Context, user string) (person, error) {
	now := s.o.Now()
	if known, ok := s.people.Get(user); ok && now.Sub(known.at) < personLife {
		return known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, personTimeout)
	defer cancel()
	var answer struct {
		User struct {
			Name    string `json:"name"`
			Real    string `json:"real_name"`
			Admin   bool   `json:"is_admin"`
			Owner   bool   `json:"is_owner"`
			Primary bool   `json:"is_primary_owner"`
			Bot     bool   `json:"is_bot"`
			Profile struct {
				Display string `json:"display_name"`
			} `json:"profile"`
		} `json:"user"`
	}
	err := s.callAPI(ctx, "users.info", url.Values{"user": {user}}, &answer)
	if err != nil && !isFinal(err) {
		return person{}, err
	}
	u := answer.User
	who := person{
		name:  cmp.Or(u.Profile.Display, u.Real, u.Name),
		admin: u.Admin || u.Owner || u.Primary,
		bot:   u.Bot,
		at:    now,
	}
	s.people.Put(user, who)
	s.reportNoPeople(err)
	return who, nil
}

// reportNoPeople logs once that Slack does not say who administers the workspace.
func (s *Slack) reportNoPeople(err error) {
	word := errorCode(err)
	if word == "" || word == "user_not_found" {
		return
	}
	if known, _ := s.unsupported.Change("users.info: "+word, func(bool, bool) bool { return true }); !known {
		s.o.Log.Warn(
			"slack refuses user look-ups, nobody counts as an administrator",
			"error",
			err,
			"remedy",
			"add the scope "+peopleScope+" to the app and reinstall it",
		)
	}
}
