package simdiscord

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ravenbot/internal/core/text"
)

// Message flags that matter here.
const (
	FlagSuppressEmbeds = 1 << 2
	FlagEphemeral      = 1 << 6
	FlagLoading        = 1 << 7
	FlagComponentsV2   = 1 << 15
)

// File is an attachment as uploaded.
type File struct {
	ID, Name, ContentType string // the ID is the server's to give
	Body                  []byte
	Seconds               float64 // of a voice message
}

// Pings is whom a message notified when it was posted.
type Pings struct {
	Everyone     bool // @everyone or @here
	Users, Roles []string
}

// Post is a message as it stands now.
type Post struct {
	ID, ChannelID string
	Author        User
	Content       string
	Embeds        []json.RawMessage
	Components    []json.RawMessage
	Poll          json.RawMessage
	Stickers      []string // names
	Files         []File
	ReplyTo       string // message id
	Nonce         string
	Flags         int
	Pings         Pings
	Sent          time.Time
	Edited        time.Time // zero: never
	Edits         int
	Deleted       bool
	Interaction   string // id of the interaction it answers
	kind          int
}

// Ephemeral reports whether only one user sees the message.
func (p Post) Ephemeral() bool { return p.Flags&FlagEphemeral != 0 }

// Loading reports whether it is a deferred answer that has not come yet.
func (p Post) Loading() bool { return p.Flags&FlagLoading != 0 }

var (
	userMention = text.Pattern(`<@!?([0-9]+)>`)
	roleMention = text.Pattern(`<@&([0-9]+)>`)
	allMention  = text.Pattern(`@(everyone|here)`)
)

// allowed is the allowed_mentions object.
type allowed struct {
	Parse       []string `json:"parse"`
	Users       []string `json:"users"`
	Roles       []string `json:"roles"`
	RepliedUser bool     `json:"replied_user"`
}

// pings tells whom a text notifies under the rules of allowed_mentions.
func pings(text, replied string, rule allowed) Pings {
	var p Pings
	p.Everyone = slices.Contains(rule.Parse, "everyone") && allMention().MatchString(text)
	p.Users = named(userMention(), text, slices.Contains(rule.Parse, "users"), rule.Users)
	p.Roles = named(roleMention(), text, slices.Contains(rule.Parse, "roles"), rule.Roles)
	if replied != "" && rule.RepliedUser && !slices.Contains(p.Users, replied) {
		p.Users = append(p.Users, replied)
	}
	return p
}

// named returns the ids that a text mentions in the way of re, each once: all of them, or those in only.
func named(re *regexp.Regexp, text string, all bool, only []string) []string {
	var ids []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		if (all || slices.Contains(only, m[1])) && !slices.Contains(ids, m[1]) {
			ids = append(ids, m[1])
		}
	}
	return ids
}

// pingText returns all text of a message in which mentions are looked for.
// Embeds never ping.
func pingText(content string, components []json.RawMessage) string {
	texts := []string{content}
	walkComponents(components, func(c map[string]any) {
		if text, ok := c["content"].(string); ok {
			texts = append(texts, text)
		}
	})
	return strings.Join(texts, "\n")
}

// walkComponents calls visit for each component at any depth: whatever has a type.
func walkComponents(list []json.RawMessage, visit func(map[string]any)) {
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if _, is := v["type"]; is {
				visit(v)
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	for _, raw := range list {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			walk(v)
		}
	}
}

// componentType returns the number of a component's type.
func componentType(c map[string]any) int {
	n, _ := c["type"].(float64)
	return int(n)
}

// store makes a post part of its channel.
func (s *Server) store(p *Post) {
	if p.ID == "" {
		p.ID = s.newID()
	}
	p.Sent = time.Now()
	delete(s.archived, p.ChannelID) // a message opens an archived thread
	s.posts[p.ID] = p
	s.order[p.ChannelID] = append(s.order[p.ChannelID], p)
}

// messageIntent returns the intent without which an app is not sent the messages of a channel.
func messageIntent(c Channel) int {
	if c.Kind == KindDM {
		return IntentDirectMessages
	}
	return IntentGuildMessages
}

// announce tells the gateway of a post.
func (s *Server) announce(name string, p *Post) {
	if p.Ephemeral() {
		return
	}
	c := s.mustChannel(p.ChannelID)
	e := event{name: name, intent: messageIntent(c), guild: c.GuildID, post: p}
	if name == "MESSAGE_DELETE" {
		e.post = nil
		e.data = map[string]any{"id": p.ID, "channel_id": p.ChannelID, "guild_id": c.GuildID}
		if c.GuildID == "" {
			e.data = map[string]any{"id": p.ID, "channel_id": p.ChannelID}
		}
	}
	s.emit(e)
}

// contentVisible applies the rule of the Message Content intent for an
// application without it.
func (s *Server) contentVisible(p *Post) bool {
	if p.Author.ID == s.bot.ID || s.mustChannel(p.ChannelID).Kind == KindDM {
		return true
	}
	if slices.Contains(named(userMention(), p.Content, true, nil), s.bot.ID) {
		return true
	}
	// A reply counts when it pings; replies to interaction answers do not.
	replied, ok := s.posts[p.ReplyTo]
	return ok && replied.Author.ID == s.bot.ID && replied.Interaction == "" && slices.Contains(p.Pings.Users, s.bot.ID)
}

// wire renders a message as the API does; content reports whether the reader
// holds the Message Content intent.
func (s *Server) wire(p *Post, content bool) map[string]any {
	c := s.mustChannel(p.ChannelID)
	mentioned := []any{}
	for _, id := range union(named(userMention(), p.Content, true, nil), p.Pings.Users) {
		if u, ok := s.user(id); ok {
			w := userWire(u)
			if c.GuildID != "" {
				w["member"] = memberWire(c.GuildID, u)
			}
			mentioned = append(mentioned, w)
		}
	}
	wire := map[string]any{"id": p.ID, "channel_id": p.ChannelID, "author": userWire(p.Author), "content": p.Content,
		"timestamp": stamp(
			p.Sent,
		), "edited_timestamp": nil, "tts": false, "mention_everyone": p.Pings.Everyone, "mentions": mentioned,
		"mention_roles": orEmpty(
			p.Pings.Roles,
		), "attachments": s.filesWire(p), "embeds": orEmpty(p.Embeds), "components": orEmpty(p.Components),
		"pinned": false, "type": p.kind, "flags": p.Flags}
	if !p.Edited.IsZero() {
		wire["edited_timestamp"] = stamp(p.Edited)
	}
	if p.Nonce != "" {
		wire["nonce"] = p.Nonce
	}
	if p.Poll != nil {
		wire["poll"] = p.Poll
	}
	var stickers []any
	for i, name := range p.Stickers {
		stickers = append(stickers, map[string]any{"id": strconv.Itoa(i + 1), "name": name, "format_type": 1})
	}
	if stickers != nil {
		wire["sticker_items"] = stickers
	}
	if p.Interaction != "" {
		wire["application_id"], wire["webhook_id"] = s.bot.ID, s.bot.ID
		wire["interaction_metadata"] = map[string]any{
			"id":                             p.Interaction,
			"type":                           2,
			"user":                           userWire(s.interactions[p.Interaction].User),
			"authorizing_integration_owners": map[string]any{},
		}
	}
	if !content && !s.contentVisible(p) {
		wire["content"], wire["embeds"], wire["attachments"], wire["components"] = "", []any{}, []any{}, []any{}
		delete(wire, "poll")
	}
	if p.ReplyTo != "" {
		s.addReference(wire, p, c, content)
	}
	return wire
}

// addReference adds what a message answers: the reference, and the answered message itself, null where it was deleted.
// The lock is held.
func (s *Server) addReference(wire map[string]any, p *Post, c Channel, content bool) {
	wire["message_reference"] = map[string]any{
		"type":       0,
		"message_id": p.ReplyTo,
		"channel_id": p.ChannelID,
		"guild_id":   c.GuildID,
	}
	wire["referenced_message"] = nil
	if r, ok := s.posts[p.ReplyTo]; ok && !r.Deleted {
		short := *r
		short.ReplyTo = "" // references are not followed twice
		wire["referenced_message"] = s.wire(&short, content || s.contentVisible(r))
	}
}

// serveFile serves attachments. Like Discord's CDN it requires no token.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/") // "", attachments, channel, file, name
	s.state.Lock()
	defer s.state.Unlock()
	if len(parts) != 5 || r.URL.Query().Get("ex") != strconv.Itoa(s.expired) {
		http.NotFound(w, r)
		return
	}
	for _, p := range s.order[parts[2]] {
		i := slices.IndexFunc(p.Files, func(f File) bool { return f.ID == parts[3] })
		if i >= 0 && !p.Deleted {
			w.Header().Set("Content-Type", p.Files[i].ContentType)
			_, _ = w.Write(p.Files[i].Body) // the caller may have hung up
			return
		}
	}
	http.NotFound(w, r)
}

// ExpireFiles ends the addresses of files given out so far; messages give new ones.
func (s *Server) ExpireFiles() {
	s.state.Lock()
	defer s.state.Release()
	s.expired++
}

// filesWire returns the files of a message with signed addresses; ExpireFiles makes those that were handed out before
// invalid. The lock is held.
func (s *Server) filesWire(p *Post) []any {
	list := []any{}
	for _, f := range p.Files {
		url := s.URL() + "/attachments/" + p.ChannelID + "/" + f.ID + "/" + f.Name + "?ex=" + strconv.Itoa(s.expired)
		wire := map[string]any{
			"id":           f.ID,
			"filename":     f.Name,
			"size":         len(f.Body),
			"url":          url,
			"proxy_url":    url,
			"content_type": f.ContentType,
		}
		if f.Seconds > 0 {
			wire["duration_secs"], wire["waveform"] = f.Seconds, "AA=="
		}
		list = append(list, wire)
	}
	return list
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000-07:00") }

// orEmpty returns a list that is encoded as [] where it would be null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// union returns what is in a or b, in that order, each once as long as a holds it once.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}
