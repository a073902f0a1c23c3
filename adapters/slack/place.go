package slack

import (
	"context"
	"net/url"
	"time"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Rules of asking what a channel is.
const (
	channelLife    = 10 * time.Minute
	channelTimeout = 5 * time.Second
	channelsScope  = "channels:read"
	groupsScope    = "groups:read"
	// groupChatsScope is for group chats. The bot does without: their names say nothing, and few have a topic.
	groupChatsScope = "mpim:read"
)

// channelInfo is what Slack said of a channel.
type channelInfo struct {
	name    string
	topic   string // or its purpose
	topicBy string // user id
	members int
	// closed is the word with which Slack would refuse a post; empty: none is known.
	closed string
}

// newChannels returns the memory of channels, which all that asks for channels shares.
func (s *Slack) newChannels() *kit.Cache[channelInfo] {
	return kit.NewCache(kit.CacheOptions[channelInfo]{
		Look:    s.fetchChannel,
		Life:    channelLife,
		Timeout: channelTimeout,
		Now:     s.o.Now,
	})
}

// fetchChannel asks Slack for a channel. A refusal is no error: then nothing is known of it.
func (s *Slack) fetchChannel(ctx context.Context, channel string) (channelInfo, error) {
	type said struct {
		Value   string `json:"value"`
		Creator string `json:"creator"`
	}
	var answer struct {
		Channel struct {
			Name    string `json:"name"`
			Group   bool   `json:"is_mpim"`
			Topic   said   `json:"topic"`
			Purpose said   `json:"purpose"`
			Members int    `json:"num_members"`
			// IsMember is missing for direct messages.
			IsMember   *bool `json:"is_member"`
			IsArchived bool  `json:"is_archived"`
		} `json:"channel"`
	}
	form := url.Values{"channel": {channel}, "include_num_members": {"true"}}
	err := s.callAPI(ctx, "conversations.info", form, &answer)
	if err != nil && !isFinal(err) {
		return channelInfo{}, err
	}
	if neededScope(err) == groupChatsScope {
		return channelInfo{}, nil
	}
	if errorCode(err) == "channel_not_found" {
		return channelInfo{closed: "channel_not_found"}, nil
	}
	s.reportRefusal(err, "slack refuses channel look-ups, names and topics of channels are not known",
		"conversations.info", channelsScope+" (of private channels: "+groupsScope+")")
	c := answer.Channel
	if c.Group {
		c.Name = "" // made of the members' account names, which say nothing
	}
	topic := c.Topic
	if topic.Value == "" {
		topic = c.Purpose
	}
	closed := ""
	switch {
	case c.IsArchived:
		closed = "is_archived"
	case c.IsMember != nil && !*c.IsMember:
		closed = "not_in_channel"
	}
	return channelInfo{
		closed:  closed,
		name:    c.Name,
		topic:   s.saidText(&wireMessage{Text: topic.Value}, nil),
		topicBy: topic.Creator,
		members: c.Members,
	}, nil
}

// placeOf returns where a message was said, as far as Slack tells it before ctx ends. Of a direct message only the
// workspace is told.
func (s *Slack) placeOf(ctx context.Context, m chat.Message) chat.Place {
	place := chat.Place{InThread: threadOf(m) != ""}
	if m.Conversation.Workspace == s.self.team {
		place.Server = s.self.teamName
	}
	if m.Direct {
		return place
	}
	c, err := s.channels.Get(ctx, m.Conversation.Channel)
	if err != nil && ctx.Err() == nil {
		s.o.Log.Debug("slack channel not looked up", "channel", m.Conversation.Channel, "error", redact(err))
	}
	place.Channel, place.Topic, place.TopicBy, place.Members = c.name, c.topic, c.topicBy, c.members
	return place
}

// threadOf returns the thread in which a message was said; empty where the thread is only that
// which its answer begins.
func threadOf(m chat.Message) string {
	if m.Conversation.Thread == timestampOf(m.ID) {
		return ""
	}
	return m.Conversation.Thread
}
