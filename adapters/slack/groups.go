package slack

import (
	"context"
	"net/url"
	"time"
)

// Rules of reading the user groups of the workspace, which are the roles of its members.
const (
	// groupsInterval is how late a change of a group may count.
	groupsInterval = 5 * time.Minute
	groupsTimeout  = 10 * time.Second
	groupsTries    = 3 // before the bot starts without them
	userGroupScope = "usergroups:read"
)

// watchGroups keeps the user groups up to date until ctx ends, while rules name roles. It calls endFirst when it has
// read them for the first time, which comes before the first message: a rule that denies something to a role must hold
// from the start.
func (s *Slack) watchGroups(ctx context.Context, endFirst func()) {
	defer endFirst()
	for try := 1; s.o.UsesRoles() && !s.readGroups(ctx) && try < groupsTries && ctx.Err() == nil; try++ {
	}
	endFirst()
	tick := time.NewTicker(groupsInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.o.UsesRoles() {
			s.readGroups(ctx)
		}
	}
}

// readGroups reads the user groups, and reports whether it need not be tried again at once: they were read, or Slack
// refuses for good. What was read before stays where Slack does not answer.
func (s *Slack) readGroups(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, groupsTimeout)
	defer cancel()
	var answer struct {
		Groups []struct {
			ID     string   `json:"id"`
			Handle string   `json:"handle"`
			Users  []string `json:"users"`
		} `json:"usergroups"`
	}
	err := s.callAPI(ctx, "usergroups.list", url.Values{"include_users": {"true"}}, &answer)
	if err != nil {
		s.reportRefusal(err, "slack refuses to list user groups, rules that name roles match nobody",
			"usergroups.list", userGroupScope)
		if !isFinal(err) {
			s.o.Log.Warn("failed to read slack user groups; rules with roles use the last known ones", "error", redact(err))
		}
		return isFinal(err)
	}
	roles := map[string][]string{}
	for _, g := range answer.Groups {
		for _, user := range g.Users {
			roles[user] = append(roles[user], g.ID, g.Handle)
		}
	}
	s.roles.Store(&roles)
	return true
}

// rolesOf returns the user groups of a user, as ids and handles, as far as they are known; nil if there are none.
func (s *Slack) rolesOf(user string) []string {
	if known := s.roles.Load(); known != nil {
		return (*known)[user]
	}
	return nil
}
