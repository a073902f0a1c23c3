package slack

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/chat"
)

// outer is the body of an Events API request. It and what follows are decoded by
// hand: slack-go's types refuse events with a field of an unexpected kind, which
// would then never be acknowledged (v0.34.0, 2026-11).
type outer struct {
	Type      string          `json:"type"`
	TeamID    string          `json:"team_id"`
	Challenge string          `json:"challenge"`
	Event     json.RawMessage `json:"event"`
}

type inner struct {
	Type        string `json:"type"`
	Subtype     string `json:"subtype"`
	User        string `json:"user"`
	BotID       string `json:"bot_id"`
	Text        string `json:"text"`
	TS          string `json:"ts"`
	ThreadTS    string `json:"thread_ts"`
	ParentUser  string `json:"parent_user_id"` // who began the thread
	Channel     string `json:"channel"`
	ChannelType string `json:"channel_type"`
	Files       []struct {
		Name string `json:"name"`
	} `json:"files"`
}

// said are the subtypes of messages that people wrote.
var said = map[string]bool{"": true, "file_share": true, "thread_broadcast": true, "me_message": true}

// message translates an event; false says that it is no message of a person. The
// two events of one mention give the same message.
func (s *Slack) message(o outer) (chat.Message, bool) {
	var e inner
	if json.Unmarshal(o.Event, &e) != nil {
		return chat.Message{}, false
	}
	if e.Type != "app_mention" && e.Type != "message" || !said[e.Subtype] || e.BotID != "" ||
		e.User == "" || e.User == s.self.user || e.User == "USLACKBOT" || e.Channel == "" || e.TS == "" {
		return chat.Message{}, false
	}
	team := o.TeamID
	if team == "" {
		team = s.self.team
	}
	direct := e.ChannelType == "im" || strings.HasPrefix(e.Channel, "D")
	mentioned := e.Type == "app_mention" || strings.Contains(e.Text, "<@"+s.self.user+">") || strings.Contains(e.Text, "<@"+s.self.user+"|")
	threaded := e.ThreadTS != "" && e.ThreadTS != e.TS
	m := chat.Message{ID: team + "/" + e.Channel + "/" + e.TS, Author: chat.User{ID: e.User}, Time: instant(e.TS),
		Text: s.readable(e), Reach: chat.Overheard, Conversation: chat.Address{Platform: "slack", Workspace: team, Channel: e.Channel}}
	switch {
	case direct || mentioned, threaded && e.ParentUser == s.self.user && !strings.HasPrefix(strings.TrimSpace(e.Text), "<@"):
		m.Reach = chat.Addressed
	case threaded:
		m.Reach = chat.Followed
		m.ForOther = strings.HasPrefix(strings.TrimSpace(e.Text), "<@")
	}
	switch {
	case threaded:
		m.Conversation.Thread = e.ThreadTS
	case mentioned && !direct:
		m.Conversation.Thread = e.TS
	}
	m.Reply.MessageID = e.TS
	return m, true
}

// instant reads a timestamp such as 1712345678.000200.
func instant(ts string) time.Time {
	seconds, micros, _ := strings.Cut(ts, ".")
	sec, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	usec, _ := strconv.ParseInt(micros, 10, 64)
	return time.Unix(sec, usec*1000).UTC()
}

var (
	angled   = regexp.MustCompile(`<([^<>]*)>`)
	entities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
)

// readable turns Slack's text into Markdown as a person would have written it,
// without the mention of the bot.
func (s *Slack) readable(e inner) string {
	text := angled.ReplaceAllStringFunc(e.Text, func(form string) string {
		what, label, _ := strings.Cut(form[1:len(form)-1], "|")
		switch {
		case what == "@"+s.self.user:
			return ""
		case strings.HasPrefix(what, "@"), strings.HasPrefix(what, "#"):
			if label != "" {
				return what[:1] + label
			}
			return what
		case strings.HasPrefix(what, "!"):
			if label != "" {
				return label
			}
			word, _, _ := strings.Cut(what[1:], "^")
			return "@" + word
		case label != "" && label != what && !strings.HasPrefix(what, "mailto:") && !strings.HasSuffix(what, "//"+label):
			return "[" + label + "](" + what + ")"
		}
		return strings.TrimPrefix(what, "mailto:")
	})
	text = strings.TrimSpace(entities.Replace(text))
	for _, f := range e.Files {
		text += "\n[attached file: " + f.Name + "]"
	}
	return strings.TrimSpace(text)
}

// slash is a slash command, as JSON over the socket or as a form over HTTP.
type slash struct {
	TeamID      string `json:"team_id"`
	ChannelID   string `json:"channel_id"`
	UserID      string `json:"user_id"`
	UserName    string `json:"user_name"`
	Text        string `json:"text"`
	ResponseURL string `json:"response_url"`
	TriggerID   string `json:"trigger_id"`
}

// handle is what is kept with a slash command to answer it later.
type handle struct {
	ResponseURL string    `json:"responseURL"`
	Received    time.Time `json:"received"`
	User        string    `json:"user"`
}

func (s *Slack) command(c slash) (chat.Message, bool) {
	if c.ChannelID == "" || c.UserID == "" {
		return chat.Message{}, false
	}
	if c.TriggerID == "" { // Slack always sends one; its response_url is as unique
		c.TriggerID = shortKey(c.ChannelID + c.UserID + c.Text + c.ResponseURL)
	}
	if c.TeamID == "" {
		c.TeamID = s.self.team
	}
	raw, err := json.Marshal(handle{c.ResponseURL, s.o.Now(), c.UserID})
	if err != nil {
		return chat.Message{}, false
	}
	word, rest := chat.SplitCommand(s.readable(inner{Text: c.Text}), chat.Words())
	return chat.Message{ID: "cmd/" + c.TriggerID, Author: chat.User{ID: c.UserID, Name: c.UserName}, Time: s.o.Now(),
		Reach: chat.Addressed, Command: word, Text: rest, Reply: chat.Reply{Handle: raw},
		Conversation: chat.Address{Platform: "slack", Workspace: c.TeamID, Channel: c.ChannelID}}, true
}
