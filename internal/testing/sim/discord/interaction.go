package simdiscord

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Interaction types and the callback types that answer them.
const (
	InteractionCommand   = 2
	InteractionComponent = 3
	InteractionTyping    = 4
	InteractionModal     = 5

	CallbackMessage        = 4
	CallbackDeferred       = 5
	CallbackDeferredUpdate = 6
	CallbackUpdate         = 7
	CallbackAutocomplete   = 8
	CallbackModal          = 9
)

// Interaction is what a user did with a command, component or form.
type Interaction struct {
	ID, Token, ChannelID string
	User                 User
	Kind                 int
	Sent                 time.Time
	Callback             *Callback // nil until the bot answered
}

// Callback is the bot's first answer. After is counted from the interaction.
type Callback struct {
	Type  int
	Data  json.RawMessage
	After time.Duration
}

type interaction struct {
	Interaction
	source   *Post // of a component
	original *Post // the message the first answer made or updates
}

// Slash lets a user run a registered command, with a subcommand unless sub is
// empty. It is an error if no such command is registered. Options may be
// strings, bools, numbers and Users.
func (s *Server) Slash(channel string, by User, name, sub string, options map[string]any) (Interaction, error) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	cmd, ok := s.findRegistered(c.GuildID, name)
	if !ok {
		return Interaction{}, fmt.Errorf("run /%s: no such command is registered", name)
	}
	list := optionsWire(options)
	if sub != "" {
		list = []any{map[string]any{"type": 1, "name": sub, "options": list}}
	}
	return s.interact(
		c,
		by,
		InteractionCommand,
		map[string]any{"id": cmd["id"], "name": name, "type": 1, "options": list},
		nil,
	), nil
}

// Use lets a user choose a command in the menu of a message. It is an error if no such command is registered.
func (s *Server) Use(message string, by User, name string) (Interaction, error) {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustPost(message)
	c := s.mustChannel(p.ChannelID)
	cmd, ok := s.findRegistered(c.GuildID, name)
	if !ok || cmd["type"] != float64(3) {
		return Interaction{}, fmt.Errorf("use %q on a message: no such command is registered", name)
	}
	// The message is shown whole, whatever the bot may read otherwise.
	data := map[string]any{"id": cmd["id"], "name": name, "type": 3, "target_id": p.ID,
		"resolved": map[string]any{"messages": map[string]any{p.ID: s.wire(p, true)}}}
	return s.interact(c, by, InteractionCommand, data, nil), nil
}

// Type lets a user type a part of an option of a registered command's subcommand.
func (s *Server) Type(channel string, by User, name, sub, option, text string) (Interaction, error) {
	s.state.Lock()
	defer s.state.Release()
	c := s.mustChannel(channel)
	cmd, ok := s.findRegistered(c.GuildID, name)
	if !ok {
		return Interaction{}, fmt.Errorf("type into /%s: no such command is registered", name)
	}
	typed := map[string]any{"type": 3, "name": option, "value": text, "focused": true}
	list := []any{map[string]any{"type": 1, "name": sub, "options": []any{typed}}}
	return s.interact(
		c,
		by,
		InteractionTyping,
		map[string]any{"id": cmd["id"], "name": name, "type": 1, "options": list},
		nil,
	), nil
}

// findRegistered returns a guild's command with a name, or else the global one.
func (s *Server) findRegistered(guild, name string) (command, bool) {
	for _, scope := range []string{guild, ""} {
		if i := s.findCommand(scope, func(c command) bool { return c["name"] == name }); i >= 0 {
			return s.commands[scope][i], true
		}
	}
	return nil, false
}

// WaitCommand returns when a global command, or one of any guild, is registered.
func (s *Server) WaitCommand(ctx context.Context, name string) error {
	err := s.state.Wait(ctx, func() bool {
		for scope := range s.commands {
			if _, ok := s.findRegistered(scope, name); ok {
				return true
			}
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("wait for command %s: %w", name, err)
	}
	return nil
}

// optionsWire returns options in the form of Discord's client, with the type number of each value.
func optionsWire(options map[string]any) []any {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		kind, value := 3, options[name]
		switch v := value.(type) {
		case int:
			kind = 4
		case bool:
			kind = 5
		case float64:
			kind = 10
		case User:
			kind, value = 6, v.ID
		}
		list = append(list, map[string]any{"type": kind, "name": name, "value": value})
	}
	return list
}

// Click lets a user press a button, or choose values of a menu, of a message.
func (s *Server) Click(message string, by User, customID string, values ...string) Interaction {
	s.state.Lock()
	defer s.state.Release()
	p := s.mustPost(message)
	kind := 0
	walkComponents(p.Components, func(c map[string]any) {
		if c["custom_id"] == customID {
			kind = componentType(c)
		}
	})
	if kind == 0 {
		panic(fmt.Sprintf("simdiscord: message %s has no component %q", message, customID))
	}
	data := map[string]any{"custom_id": customID, "component_type": kind}
	// A button has no values; a menu has those that were chosen.
	if kind != 2 {
		data["values"] = values
	}
	return s.interact(s.mustChannel(p.ChannelID), by, InteractionComponent, data, p)
}

// Submit lets a user send a form that was opened before the bot was there, in the
// old form of rows; Fill answers one that is open. fields are by custom id.
func (s *Server) Submit(channel string, by User, customID string, fields map[string]string) Interaction {
	s.state.Lock()
	defer s.state.Release()
	rows := []any{}
	for _, id := range slices.Sorted(maps.Keys(fields)) {
		rows = append(
			rows,
			map[string]any{"type": 1, "components": []any{map[string]any{"type": 4, "custom_id": id, "value": fields[id]}}},
		)
	}
	return s.interact(
		s.mustChannel(channel),
		by,
		InteractionModal,
		map[string]any{"custom_id": customID, "components": rows},
		nil,
	)
}

// interact creates an interaction and sends it to the bot. The lock is held.
func (s *Server) interact(c Channel, by User, kind int, data map[string]any, source *Post) Interaction {
	in := &interaction{
		Interaction: Interaction{
			ID:        s.newID(),
			Token:     rand.Text() + rand.Text(),
			ChannelID: c.ID,
			User:      by,
			Kind:      kind,
			Sent:      time.Now(),
		},
		source: source,
	}
	s.interactions[in.ID] = in
	wire := map[string]any{
		"id":                             in.ID,
		"application_id":                 s.bot.ID,
		"type":                           kind,
		"data":                           data,
		"channel_id":                     c.ID,
		"channel":                        s.channelWire(c),
		"token":                          in.Token,
		"version":                        1,
		"locale":                         "en-US",
		"app_permissions":                permissions(s.bot),
		"entitlements":                   []any{},
		"authorizing_integration_owners": map[string]any{"0": c.GuildID},
		"context":                        0,
		"attachment_size_limit":          10 << 20,
	}
	// In a direct message there is a user; in a guild a member with permissions.
	if c.GuildID == "" {
		wire["user"], wire["context"] = userWire(by), 1
	} else {
		member := memberWire(c.GuildID, by)
		member["user"], member["permissions"] = userWire(by), permissions(by)
		wire["member"], wire["guild_id"], wire["guild_locale"] = member, c.GuildID, "en-US"
	}
	if source != nil {
		wire["message"] = s.wire(source, true)
	}
	s.emit(event{name: "INTERACTION_CREATE", guild: c.GuildID, data: wire})
	return in.Interaction
}

// WaitCallback returns the bot's first answer to an interaction.
func (s *Server) WaitCallback(ctx context.Context, id string) (Callback, error) {
	var got Callback
	err := s.state.Wait(ctx, func() bool {
		in := s.interactions[id]
		if in == nil || in.Callback == nil {
			return false
		}
		got = *in.Callback
		return true
	})
	if err != nil {
		return got, fmt.Errorf("wait for callback to interaction %s: %w", id, err)
	}
	return got, nil
}

// WaitAnswer returns the first message that answers an interaction, be it the
// callback's, a later edit of it, or a follow-up, for which match is true.
// A deferred answer still loading is not offered to match.
func (s *Server) WaitAnswer(ctx context.Context, id string, match func(Post) bool) (Post, error) {
	in, ok := s.find(id)
	if !ok {
		return Post{}, fmt.Errorf("wait for answer: no interaction %s", id)
	}
	return s.WaitPost(ctx, in.ChannelID, func(p Post) bool { return p.Interaction == id && !p.Loading() && match(p) })
}

// find returns an interaction by its id.
func (s *Server) find(id string) (Interaction, bool) {
	s.state.Lock()
	defer s.state.Unlock()
	in, ok := s.interactions[id]
	if !ok {
		return Interaction{}, false
	}
	return in.Interaction, true
}

// routeInteractions registers the answers to interactions. All but the callback stand under webhooks, where the token
// alone is the authorization.
func (s *Server) routeInteractions(mux *http.ServeMux) {
	s.handle(mux, "POST /interactions/{interaction}/{token}/callback", s.withLock(s.callback))
	const hook = "/webhooks/{app}/{token}"
	s.handle(mux, "POST "+hook, s.withLock(s.followUp))
	for _, message := range []string{"/messages/@original", "/messages/{message}"} {
		s.handle(mux, "GET "+hook+message, s.withLock(s.withAnswer(s.getAnswer)))
		s.handle(mux, "PATCH "+hook+message, s.withLock(s.withAnswer(s.editAnswer)))
		s.handle(mux, "DELETE "+hook+message, s.withLock(s.withAnswer(s.deleteAnswer)))
	}
}

// callback accepts the first answer to an interaction, once (40060) and in time (10062). It returns 204, or with
// with_response=true the message that the answer made.
func (s *Server) callback(c *call) (int, any, *apiError) {
	in := s.interactions[c.PathValue("interaction")]
	switch {
	case in == nil || in.Token != c.PathValue("token"):
		return 0, nil, unknownError(10062, "interaction")
	case in.Callback != nil:
		return 0, nil, fail(400, 40060, "Interaction has already been acknowledged.")
	// Discord answers late callbacks as if the interaction did not exist.
	case time.Since(in.Sent) > s.opts.CallbackWithin:
		return 0, nil, unknownError(10062, "interaction")
	}
	var body struct {
		Type int             `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(c.body, &body) != nil {
		return 0, nil, fail(400, 50035, "Invalid Form Body")
	}
	if err := s.answer(in, body.Type, &call{Request: c.Request, body: body.Data, files: c.files}); err != nil {
		return 0, nil, err
	}
	// Recorded only when it was accepted: a refused callback may be repeated.
	in.Callback = &Callback{Type: body.Type, Data: body.Data, After: time.Since(in.Sent)}
	if c.URL.Query().Get("with_response") != "true" {
		return 204, nil, nil
	}
	result := map[string]any{"interaction": map[string]any{"id": in.ID, "type": in.Kind}}
	if in.original != nil {
		result["resource"] = map[string]any{"type": body.Type, "message": s.wire(in.original, true)}
	}
	return 200, result, nil
}

// answer performs what a callback of a type asks for.
func (s *Server) answer(in *interaction, kind int, c *call) *apiError {
	// A form may not answer a form.
	if kind == CallbackModal && in.Kind != InteractionModal && in.Kind != InteractionTyping {
		return checkModal(c.body)
	}
	d, err := c.draft()
	if err != nil {
		return err
	}
	fromMessage := in.source != nil
	switch {
	case kind == 1:
	case kind == CallbackMessage:
		if d.isEmpty(len(c.files)) {
			return fail(400, 50006, "Cannot send an empty message")
		}
		in.original = s.postAnswer(in, d, c.files, 0)
	case kind == CallbackDeferred:
		in.original = s.postAnswer(in, d, nil, FlagLoading)
	case kind == CallbackDeferredUpdate && fromMessage:
		in.original = in.source
	case kind == CallbackUpdate && fromMessage:
		in.original = in.source
		_, _, err = s.rewrite(in.source, d, c.files)
	case (kind == CallbackAutocomplete) != (in.Kind == InteractionTyping):
		return badForm("type", "BASE_TYPE_CHOICES", "This callback type does not fit the interaction")
	case kind == CallbackAutocomplete:
		return checkChoices(c.body)
	default:
		return badForm("type", "BASE_TYPE_CHOICES", "This callback type does not fit the interaction")
	}
	return err
}

// checkChoices refuses more than 25 suggestions, and names that are not of 1 to 100 characters.
func checkChoices(body []byte) *apiError {
	var d struct {
		Choices []struct{ Name, Value string }
	}
	if json.Unmarshal(body, &d) != nil || d.Choices == nil || len(d.Choices) > 25 {
		return badForm("data.choices", "BASE_TYPE_BAD_LENGTH", "Must be between 0 and 25 in length.")
	}
	for _, c := range d.Choices {
		if n := len([]rune(c.Name)); n < 1 || n > 100 {
			return badForm("data.choices.name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
		}
	}
	return nil
}

// postAnswer posts to the channel; unless told otherwise only users are pinged.
func (s *Server) postAnswer(in *interaction, d draft, files []File, flags int) *Post {
	p := &Post{ChannelID: in.ChannelID, Author: s.bot, Interaction: in.ID, kind: 20}
	d.apply(p, s.withIDs(files))
	p.Flags |= flags
	rule := allowed{Parse: []string{"users"}}
	if d.AllowedMentions != nil {
		rule = *d.AllowedMentions
	}
	s.setPings(p, rule)
	s.store(p)
	s.announce("MESSAGE_CREATE", p)
	return p
}

// interactionOf finds the interaction of a webhook path while its token lives.
func (s *Server) interactionOf(c *call) (*interaction, *apiError) {
	for _, in := range s.interactions {
		if in.Token != c.PathValue("token") || c.PathValue("app") != s.bot.ID {
			continue
		}
		if time.Since(in.Sent) > s.opts.TokenLife {
			return nil, fail(401, 50027, "Invalid Webhook Token")
		}
		if in.Callback == nil {
			break
		}
		return in, nil
	}
	return nil, unknownError(10015, "Webhook")
}

// followUp posts a further answer. The first one after a deferral takes the place of "is thinking…".
func (s *Server) followUp(c *call) (int, any, *apiError) {
	in, err := s.interactionOf(c)
	if err != nil {
		return 0, nil, err
	}
	d, err := c.draft()
	if err != nil {
		return 0, nil, err
	}
	if d.isEmpty(len(c.files)) {
		return 0, nil, fail(400, 50006, "Cannot send an empty message")
	}
	if in.original != nil && in.original.Loading() {
		return s.rewrite(in.original, d, c.files) // the first one after a deferral takes its place
	}
	return 200, s.wire(s.postAnswer(in, d, c.files, 0), true), nil
}

// withAnswer lets h answer for the message that a path names, which must be of the interaction whose token it has;
// "@original" is its first one. Code 10008 where there is none.
func (s *Server) withAnswer(h func(*Post, *call) (int, any, *apiError)) handler {
	return func(c *call) (int, any, *apiError) {
		in, err := s.interactionOf(c)
		if err != nil {
			return 0, nil, err
		}
		p := in.original
		if id := c.PathValue("message"); id != "" {
			if p = s.posts[id]; p != nil && p.Interaction != in.ID {
				p = nil
			}
		}
		if p == nil || p.Deleted {
			return 0, nil, unknownError(10008, "Message")
		}
		return h(p, c)
	}
}

func (s *Server) getAnswer(p *Post, _ *call) (int, any, *apiError) { return 200, s.wire(p, true), nil }

// editAnswer changes an answer to an interaction.
func (s *Server) editAnswer(p *Post, c *call) (int, any, *apiError) {
	d, err := c.draft()
	if err != nil {
		return 0, nil, err
	}
	return s.rewrite(p, d, c.files)
}

// deleteAnswer deletes an answer to an interaction.
func (s *Server) deleteAnswer(p *Post, _ *call) (int, any, *apiError) {
	s.deletePost(p)
	return 204, nil, nil
}
