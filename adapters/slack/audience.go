package slack

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Rules of asking who reads what.
const (
	// audienceTimeout bounds all calls of one question together.
	audienceTimeout = 20 * time.Second
	// membersPage is how many people are asked for at once; with maxMemberPages of them who reads a channel of up to
	// 20,000 people is known, and nobody counts as a reader of a larger one.
	membersPage    = 1000
	maxMemberPages = 20
	guestsLife     = 5 * time.Minute // how long a list of guests counts as fresh
)

// audience says who reads a channel.
type audience struct {
	Private bool `json:"is_private"`
	Direct  bool `json:"is_im"`
	Group   bool `json:"is_mpim"`
	Shared  bool `json:"is_ext_shared"` // with other workspaces, whose people read no other channel of this one
}

// isOpen reports whether every member of the workspace may read the channel.
func (a audience) isOpen() bool { return !a.Private && !a.Direct && !a.Group }

// ReadersCanRead reports whether everybody who can read one place can read another, too. Threads have the readers of
// their channel. Guests of the workspace read the channels alone that they are in, also of the public ones. It returns
// false where that is not certain: other workspaces, channels shared with them, other direct messages; and an error
// where Slack does not answer, or a channel or workspace is too large to be compared.
func (s *Slack) ReadersCanRead(ctx context.Context, readers, source chat.Address) (bool, error) {
	switch {
	case readers.Base() == source.Base():
		return true, nil
	case readers.Workspace != source.Workspace:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, audienceTimeout)
	defer cancel()
	from, err := s.audienceOf(ctx, source.Channel)
	if err != nil || from.Direct || from.Group {
		return false, err
	}
	to, err := s.audienceOf(ctx, readers.Channel)
	if err != nil || to.Shared {
		return false, err
	}
	// Everybody may read the second one, whoever its members are now.
	if !from.isOpen() && to.isOpen() {
		return false, nil
	}
	var guests map[string]bool
	if from.isOpen() { // to all but guests
		guests, err = s.guests.Get(ctx, readers.Workspace)
		if err != nil || len(guests) == 0 {
			return err == nil && guests != nil, err // nil: it is closed, and nothing is known
		}
	}
	others, err := s.membersOf(ctx, readers.Channel)
	if err != nil {
		return false, err
	}
	maps.DeleteFunc(others, func(user string, _ bool) bool { return from.isOpen() && !guests[user] })
	if len(others) == 0 {
		return true, nil
	}
	members, err := s.membersOf(ctx, source.Channel)
	if err != nil {
		return false, err
	}
	for user := range others {
		if !members[user] {
			return false, nil
		}
	}
	return true, nil
}

// newGuests returns the memory of who the guests of a workspace are.
func (s *Slack) newGuests() *kit.Cache[map[string]bool] {
	return kit.NewCache(kit.CacheOptions[map[string]bool]{
		Look:    func(ctx context.Context, _ string) (map[string]bool, error) { return s.fetchGuests(ctx) },
		Life:    guestsLife,
		Timeout: audienceTimeout,
		Now:     s.o.Now,
	})
}

// fetchGuests returns the ids of the guests of the workspace. It fails where there are too many users to look through.
func (s *Slack) fetchGuests(ctx context.Context) (map[string]bool, error) {
	guests := map[string]bool{}
	form := url.Values{"limit": {strconv.Itoa(membersPage)}}
	for range maxMemberPages {
		var answer struct {
			Members []struct {
				ID    string `json:"id"`
				Guest bool   `json:"is_restricted"`
				// Single-channel guests, who should be restricted, too.
				Single bool `json:"is_ultra_restricted"`
			} `json:"members"`
			Metadata struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if err := s.callAPI(ctx, "users.list", form, &answer); err != nil {
			return nil, err
		}
		for _, u := range answer.Members {
			if u.Guest || u.Single {
				guests[u.ID] = true
			}
		}
		if answer.Metadata.Cursor == "" {
			return guests, nil
		}
		form.Set("cursor", answer.Metadata.Cursor)
	}
	return nil, fmt.Errorf("the workspace has more than %d users, so that its guests are not known",
		maxMemberPages*membersPage)
}

// audienceOf asks Slack what kind of channel it is, each time: a channel may be made private at any moment.
func (s *Slack) audienceOf(ctx context.Context, channel string) (audience, error) {
	var answer struct {
		Channel audience `json:"channel"`
	}
	err := s.callAPI(ctx, "conversations.info", url.Values{"channel": {channel}}, &answer)
	return answer.Channel, err
}

// membersOf returns the ids of the members of a channel. It fails where they are too many to be compared.
func (s *Slack) membersOf(ctx context.Context, channel string) (map[string]bool, error) {
	members := map[string]bool{}
	form := url.Values{"channel": {channel}, "limit": {strconv.Itoa(membersPage)}}
	for range maxMemberPages {
		var answer struct {
			Members  []string `json:"members"`
			Metadata struct {
				Cursor string `json:"next_cursor"`
			} `json:"response_metadata"`
		}
		if err := s.callAPI(ctx, "conversations.members", form, &answer); err != nil {
			return nil, err
		}
		for _, user := range answer.Members {
			members[user] = true
		}
		if answer.Metadata.Cursor == "" {
			return members, nil
		}
		form.Set("cursor", answer.Metadata.Cursor)
	}
	return nil, fmt.Errorf("a channel has more than %d members", maxMemberPages*membersPage)
}
