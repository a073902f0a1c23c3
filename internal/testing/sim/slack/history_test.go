package simslack_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	simslack "ravenbot/internal/testing/sim/slack"
)

// pages reads a conversation to its end and returns the texts of each page.
func pages(t *testing.T, s *simslack.Server, p slack.GetConversationHistoryParameters) [][]string {
	t.Helper()
	var all [][]string
	for {
		h, err := client(s).GetConversationHistory(&p)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, m := range h.Messages {
			texts = append(texts, m.Text)
		}
		all = append(all, texts)
		if p.Cursor = h.ResponseMetaData.NextCursor; p.Cursor == "" {
			return all
		}
	}
}

func TestHistoryIsPagedAsSlackDoes(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general").ID, s.AddUser("ann")
	var ts []string
	for n := range 6 {
		ts = append(ts, s.Say(general, ann, fmt.Sprint(n)).TS)
	}
	cases := map[string]struct {
		ask  slack.GetConversationHistoryParameters
		want [][]string
	}{
		"all":            {slack.GetConversationHistoryParameters{Limit: 4}, [][]string{{"5", "4", "3", "2"}, {"1", "0"}}},
		"after":          {slack.GetConversationHistoryParameters{Oldest: ts[0], Limit: 2}, [][]string{{"2", "1"}, {"4", "3"}, {"5"}}},
		"with the bound": {slack.GetConversationHistoryParameters{Oldest: ts[4], Inclusive: true}, [][]string{{"5", "4"}}},
		"before":         {slack.GetConversationHistoryParameters{Latest: ts[2]}, [][]string{{"1", "0"}}},
		"between":        {slack.GetConversationHistoryParameters{Oldest: ts[0], Latest: ts[5], Limit: 3}, [][]string{{"4", "3", "2"}, {"1"}}},
	}
	for name, c := range cases {
		c.ask.ChannelID = general
		if diff := cmp.Diff(c.want, pages(t, s, c.ask)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	for want, ask := range map[string]slack.GetConversationHistoryParameters{
		"invalid_limit": {Limit: 1001}, "invalid_cursor": {Cursor: "2"}, "invalid_ts_oldest": {Oldest: "yesterday"}, "invalid_ts_latest": {Latest: "now"}} {
		ask.ChannelID = general
		if _, err := client(s).GetConversationHistory(&ask); text(err) != want {
			t.Errorf("%+v: %v, want %s", ask, err, want)
		}
	}
}

func TestAThreadKeepsItsPlaceWhenItsRootIsDeleted(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{})
	general, ann := s.AddChannel("general").ID, s.AddUser("ann")
	root := s.Say(general, ann, "root")
	for n := range 3 {
		s.ThreadReply(general, root.TS, ann, fmt.Sprint("reply ", n))
	}
	s.Delete(general, root.TS)
	h, err := client(s).GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: general})
	if err != nil || len(h.Messages) != 1 || h.Messages[0].SubType != "tombstone" || h.Messages[0].ReplyCount != 3 ||
		!slices.Equal(h.Messages[0].ReplyUsers, []string{ann.ID}) {
		t.Fatalf("%+v, %v", h, err)
	}
	ask := slack.GetConversationRepliesParameters{ChannelID: general, Timestamp: root.TS, Limit: 2}
	var got []string
	for {
		page, _, next, err := client(s).GetConversationReplies(&ask)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page[1:] { // the root comes first
			got = append(got, m.Text)
		}
		if ask.Cursor = next; next == "" {
			break
		}
	}
	if diff := cmp.Diff([]string{"reply 0", "reply 1", "reply 2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAnOutageIsNotToldOfLater(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{RetryDelays: []time.Duration{0, 0, 0}})
	general, ann := s.AddChannel("general").ID, s.AddUser("ann")
	_, events := listen(t, s)
	end := s.Outage()
	s.Say(general, ann, "nobody hears this")
	end()
	if err := s.WaitConnections(within(t), 1); err != nil {
		t.Fatal(err)
	}
	s.Say(general, ann, "but this")
	if e := receive(t, events); !strings.Contains(string(e.Request.Payload), "but this") {
		t.Errorf("heard of %s", e.Request.Payload)
	}
}

func TestReadingNeedsTheScopeOfTheKindOfChannel(t *testing.T) {
	t.Parallel()
	s := open(t, simslack.Options{Scopes: []string{"channels:history"}})
	general, direct := s.AddChannel("general").ID, s.AddDM(s.AddUser("ann")).ID
	for channel, want := range map[string]string{general: "", direct: "missing_scope", "C999": "channel_not_found",
		s.AddOtherChannel("other").ID: "not_in_channel"} {
		if _, err := client(s).GetConversationHistory(&slack.GetConversationHistoryParameters{ChannelID: channel}); text(err) != want {
			t.Errorf("%s: %v, want %q", channel, err, want)
		}
	}
}
