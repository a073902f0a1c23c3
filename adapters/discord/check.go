package discord

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/internal/core/chat"
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
			"answers are not replies, and messages from while the bot was away stay unread",
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
	Where   string // a server's name and id, or "application"
	Problem string // what is missing, or why that is not known
	Loses   string // what does not work meanwhile
	Remedy  string
}

// Flags of an application: what it may read without being spoken to. The second is
// for bots in few servers.
const (
	flagContent        = 1 << 18
	flagContentLimited = 1 << 19
)

// Check returns a finding for each permission or intent that the bot lacks, in every server and for
// the application, or one that says why Discord was not asked; none if all is well. Permissions that a single channel
// takes away are not seen. It may be called without Run.
func (d *Discord) Check(ctx context.Context) []Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	a, err := d.application(ctx)
	if err != nil {
		return []Finding{unknownFinding("application", err)}
	}
	var found []Finding
	if d.o.MessageContent && a.Flags&(flagContent|flagContentLimited) == 0 {
		found = append(found, Finding{Where: "application", Problem: contentIntent + " is missing",
			Loses: "Discord refuses the connection", Remedy: intentRemedy})
	}
	guilds, err := d.guilds(ctx)
	if err != nil {
		return append(found, unknownFinding("servers", err))
	}
	for _, g := range guilds {
		found = append(found, g.missing()...)
	}
	return found
}

// unknownFinding returns why Discord could not be asked, which counts as a fault, too.
func unknownFinding(where string, err error) Finding {
	f := Finding{
		Where:   where,
		Problem: "Discord could not be asked: " + err.Error(),
		Loses:   "everything on Discord, if it stays so",
		Remedy:  "check again in a minute; see https://discordstatus.com",
	}
	setup, isSetup := errors.AsType[*chat.SetupError](err)
	host, isHost := errors.AsType[*net.DNSError](err)
	api, isAPI := errors.AsType[*apiError](err)
	switch {
	case isSetup:
		f.Problem, f.Remedy = setup.Reason, setup.Remedy
	case isHost:
		f.Problem = fmt.Sprintf("Discord could not be asked: no address was found for %s (%s)", host.Name, host.Err)
		f.Remedy = "look at the network of this machine and at its name server"
	case isAPI && api.status == 0:
		f.Remedy = "see that this machine reaches Discord, or that the proxy does which HTTPS_PROXY names"
	}
	return f
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
		return []Finding{unknownFinding(where, fmt.Errorf("read the permissions of the bot: %w", err))}
	}
	if granted&discordgo.PermissionAdministrator != 0 {
		return nil
	}
	var found []Finding
	for _, p := range Permissions() {
		if granted&p.Bit == 0 {
			found = append(found, Finding{
				Where:   where,
				Problem: p.Name + " is missing",
				Loses:   p.Loses,
				Remedy: "Server Settings → Roles → the bot's role → " + p.Name +
					", or invite the bot again (ravenbot discord invite)",
			})
		}
	}
	return found
}
