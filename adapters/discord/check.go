package discord

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"
)

// Permission is a permission that the bot needs in a server, and what does not work without it.
type Permission struct {
	Name  string `json:"name"` // as Discord writes it
	Bit   int64  `json:"bit"`
	Loses string `json:"loses"`
}

// Permissions returns what the bot needs in a server.
func Permissions() []Permission {
	return []Permission{
		{"View Channels", discordgo.PermissionViewChannel, "the bot sees no channel and answers nobody"},
		{"Send Messages", discordgo.PermissionSendMessages, "mentions and digests stay without an answer"},
		{
			"Send Messages in Threads",
			discordgo.PermissionSendMessagesInThreads,
			"nothing is answered in threads and forum posts",
		},
		{
			"Create Public Threads",
			discordgo.PermissionCreatePublicThreads,
			"no thread is opened for an answer on request",
		},
		{"Embed Links", discordgo.PermissionEmbedLinks, "the stories of a digest are plain text"},
		{"Attach Files", discordgo.PermissionAttachFiles, "files and long answers cannot be sent"},
		{
			"Read Message History",
			discordgo.PermissionReadMessageHistory,
			"answers are no replies, and what was said while the bot was away stays unread",
		},
		{"Add Reactions", discordgo.PermissionAddReactions, "the bot cannot react to messages"},
	}
}

// Scopes returns the scopes with which the bot is installed.
func Scopes() []string { return []string{"bot", "applications.commands"} }

// Needed returns the sum of Permissions.
func Needed() int64 {
	var bits int64
	for _, p := range Permissions() {
		bits |= p.Bit
	}
	return bits
}

// Invite returns the address at which a server's manager adds the application.
func Invite(application string) string {
	q := url.Values{
		"client_id":   {application},
		"scope":       {strings.Join(Scopes(), " ")},
		"permissions": {strconv.FormatInt(Needed(), 10)},
	}
	return "https://discord.com/oauth2/authorize?" + q.Encode()
}

// checkTimeout is the time for all questions of one check.
const checkTimeout = time.Minute

// Application returns the id of the bot's application: from the token, whose first part it is, else from Discord. It
// needs no Run.
func (d *Discord) Application(ctx context.Context) (string, error) {
	first, _, _ := strings.Cut(d.o.Token, ".")
	if id, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(first, "=")); err == nil {
		if _, err := strconv.ParseUint(string(id), 10, 64); err == nil {
			return string(id), nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	a, err := d.application(ctx)
	return a.ID, err
}

// Prove asks Discord whether it takes the token, and returns the id of the application to which it belongs. A refusal
// is a *chat.SetupError with its remedy; other errors mean that Discord did not answer. It needs no Run.
func (d *Discord) Prove(ctx context.Context) (application string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	a, err := d.application(ctx)
	return a.ID, err
}

// application is what Discord tells of the bot's application.
type application struct {
	ID    string `json:"id"`
	Flags int64  `json:"flags"`
}

// application asks Discord for the bot's application. A refused token is a *chat.SetupError.
func (d *Discord) application(ctx context.Context) (application, error) {
	var a application
	if d.baseErr != nil {
		return a, fmt.Errorf("ask Discord for the application: platforms.discord.apiBaseURL: %w", d.baseErr)
	}
	err := d.api.do(ctx, request{method: "GET", path: "/applications/@me"}, &a)
	switch {
	case isUnauthorized(err):
		return a, tokenError(err)
	case err != nil:
		return a, fmt.Errorf("ask Discord for the application: %w", err)
	case a.ID == "":
		return a, errors.New("ask Discord for the application: the answer names none")
	}
	return a, nil
}

// Finding is a fault in the bot's permissions or intents.
type Finding struct {
	Where   string `json:"where"`   // a server's name and id, or "application"
	Missing string `json:"missing"` // a permission or an intent, or an answer of Discord
	Loses   string `json:"loses"`   // what does not work without it
	Remedy  string `json:"remedy"`
}

// Flags of an application: what it may read without being spoken to. The second is
// for bots in few servers.
const (
	flagContent        = 1 << 18
	flagContentLimited = 1 << 19
)

// Check returns a finding for each permission or intent that the bot lacks, in every server and for
// the application; none if all is well. Permissions that a single channel takes away are not seen.
// It may be called without Run.
func (d *Discord) Check(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found := d.checkIntents(ctx)
	guilds, err := d.guilds(ctx)
	if err != nil {
		return append(found, unknownFinding("servers", "whether the bot has its permissions", err))
	}
	for _, g := range guilds {
		found = append(found, g.missing()...)
	}
	return found
}

// unknownFinding says that something could not be found out, which counts as a fault, too.
func unknownFinding(where, what string, err error) Finding {
	return Finding{
		Where:   where,
		Missing: "the answer of Discord on " + what,
		Loses:   err.Error(),
		Remedy:  "look at the token and the network, and check again",
	}
}

// checkIntents returns a finding where the configuration needs the content of messages and the application may not have
// it.
func (d *Discord) checkIntents(ctx context.Context) []Finding {
	a, err := d.application(ctx)
	switch {
	case err != nil:
		return []Finding{unknownFinding("application", "which intents are switched on", err)}
	case !d.o.MessageContent || a.Flags&(flagContent|flagContentLimited) != 0:
		return nil
	}
	return []Finding{{Where: "application", Missing: contentIntent, Loses: "Discord refuses the connection",
		Remedy: intentRemedy}}
}

// guild is a server as the list of the bot's servers has it; Permissions are a number in decimal digits.
type guild struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Permissions string `json:"permissions"`
}

// guildsPage is the most servers that Discord lists at once; maxGuildPages more
// than any bot has that Discord does not want to talk with first.
const (
	guildsPage    = 200
	maxGuildPages = 50
)

// guilds returns the servers that the bot is in.
func (d *Discord) guilds(ctx context.Context) ([]guild, error) {
	var all []guild
	for range maxGuildPages {
		path := "/users/@me/guilds?limit=" + strconv.Itoa(guildsPage)
		if len(all) > 0 {
			path += "&after=" + all[len(all)-1].ID
		}
		var page []guild
		if err := d.api.do(ctx, request{method: "GET", path: path, route: "GET/users/@me/guilds"}, &page); err != nil {
			return nil, fmt.Errorf("list the servers of the bot: %w", err)
		}
		if all = append(all, page...); len(page) < guildsPage {
			break
		}
	}
	return all, nil
}

// missing returns a finding for each permission that the bot lacks in the server; an administrator lacks none.
func (g guild) missing() []Finding {
	where := fmt.Sprintf("server %s (%s)", g.Name, g.ID)
	granted, err := strconv.ParseInt(g.Permissions, 10, 64)
	if err != nil {
		return []Finding{unknownFinding(where, "which permissions the bot has", err)}
	}
	if granted&discordgo.PermissionAdministrator != 0 {
		return nil
	}
	var found []Finding
	for _, p := range Permissions() {
		if granted&p.Bit == 0 {
			found = append(found, Finding{
				Where:   where,
				Missing: p.Name,
				Loses:   p.Loses,
				Remedy: "Server Settings → Roles → the bot's role → " + p.Name +
					", or invite the bot again (ravenbot discord invite)",
			})
		}
	}
	return found
}
