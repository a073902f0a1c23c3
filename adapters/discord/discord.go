// Package discord is the Discord platform. It answers mentions, direct messages, replies to the bot, /raven, buttons
// and forms, follows the threads that the bot opened, reads the context of a message, reports reactions to its posts,
// reads and sends files, and divides many servers among several gateway sessions. It is the only importer of
// discordgo. It uses that library's types, permissions and state of servers, channels and roles. It has its own
// gateway and HTTP client, because the library drops events, cannot resume at the right address and sends no nonces
// (v0.29.0, 2026-11).
//
// It promises:
//   - Messages of one channel or thread reach accept in the order of the gateway, and different places run in
//     parallel. Accept never blocks the gateway.
//   - A dead connection is noticed within a heartbeat interval and a few seconds, and resumed if Discord still has the
//     session.
//   - An interaction is answered within three seconds.
//   - No post notifies anyone.
//   - A post repeated under the same key appears once if Discord, this process or a read of the channel finds the
//     first. Otherwise it appears at most twice and says that it may be a repeat.
//   - The token is sent only to the configured address and to the gateway that it names.
//   - The bot quotes an earlier message only to people who can read it, and counts the messages that Discord hides.
//   - Several processes with this bot divide the sessions, within the limits that Discord sets for all of them
//     together. An orderly move of a session loses nothing.
//   - Messages sent while the bot is away are read when it returns, before later messages of the same place, as far
//     back as Options.CatchUp allows.
//
// It leaves to others: storing and deduplicating messages (accept), the order and the retries of posts (delivery).
//
// Run asks for a plan (shard.go). Each shard of it is one session that supervise keeps connected (session.go). A
// connection reads frames in one goroutine (gateway.go), which updates the state of servers and turns an event into an
// inbound message (event.go, interaction.go). push queues messages by place. deliver waits for catch-up, looks up the
// thread and repeats accept until the message is accepted (inbound.go). One postJob sends a draft piece by piece
// (post.go): it edits the pieces that replace a post, finds the pieces of an earlier attempt (repeat.go) and posts the
// others under a nonce. Every request passes api.do, which applies all rate limits.
//
// Discord.mu guards the state that shards, posts and Health share, and is never held during a request. session.mu and
// connection.mu guard the fields that heartbeats and readers share.
package discord

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/bwmarrin/discordgo"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/store"
)

// Options are what the adapter needs.
type Options struct {
	Token string // of the bot, without "Bot "
	// APIBaseURL is scheme and host; the paths /api/… follow it. Empty:
	// https://discord.com.
	APIBaseURL string
	// MessageContent asks for the privileged intent, without which messages that
	// do not concern the bot arrive empty and are ignored.
	MessageContent bool
	// CatchUp is how far back messages are read that were said while the bot was away, 30 days at most; 0: not at all.
	// LastSeen lists the conversations to read, the most important first, with the last message taken of each; nil:
	// none are read.
	CatchUp  time.Duration
	LastSeen func(context.Context) ([]chat.LastSeen, error)
	// Shards is the number of gateway sessions among which servers are divided; 0:
	// as many as Discord asks for.
	Shards int
	// Suggest returns values for the option of a command that somebody is typing; nil:
	// none. It has two seconds.
	Suggest func(ctx context.Context, at chat.Address, command, option, typed string) []string
	// Commands are the subcommands of /raven.
	Commands []chat.CommandSpec
	// MessageCommands are the entries in the menus of messages.
	MessageCommands []chat.MessageCommand
	// Former returns the forms that commands and buttons ask for; nil: none do.
	Former chat.Former
	// Sharing is set where other processes have this bot, too; nil: this one has all shards and channels.
	Sharing *Sharing
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now
}

// Discord is the platform. All methods may be called concurrently; Run once.
type Discord struct {
	o       Options
	base    *url.URL
	baseErr error
	api     *api
	sent    sentPosts
	others  otherProcess
	mark    string // of the store, in nonces
	// openWithin is the time from dialling to HELLO; openTimeout but in tests.
	openWithin time.Duration
	// maxWaiting is the constant of that name but in tests.
	maxWaiting int

	parents       kit.Memory[string]          // thread to channel, "" for what is no thread
	openedThreads kit.Memory[string]          // threads opened for answers, by interaction
	threadHints   kit.Memory[bool]            // questions for whose answers a thread was opened, by key
	partialShown  kit.Memory[string]          // what the latest unfinished answers show, by message
	begun         kit.Memory[begunAnswer]     // what is left of unfinished answers that could not be shown, by post
	nicks         kit.Memory[string]          // what people are called in servers, by server and user
	quoted        kit.Memory[json.RawMessage] // messages that the latest questions reply to, by question
	targets       kit.Memory[json.RawMessage] // messages that commands were used on, by id
	channels      *kit.Cache[channelInfo]
	members       *kit.Cache[string]           // names, by server and user
	askedGuilds   *kit.Cache[*discordgo.State] // servers whose shards other processes have
	busy          kit.BusyNotes                // of messages that were turned away, by place
	unreadable    kit.Memory[bool]             // places that the operator was told of

	mu sync.Mutex
	// What follows is guarded by mu.
	budget *identifyBudget
	shards []*shard         // none before it is known how many
	detail string           // why there are none
	waits  bool             // other processes have all of them
	shared store.ShardTable // as it was seen last; zero: shards are not shared
	botKey string           // the name of the bot among the processes that share it
	// balanceAfter is the constant of that name but in tests.
	balanceAfter time.Duration
	self         wireUser
	app          string
	registered   bool // being registered, or registered
	// pendingCallbacks are closed when the first answer to an interaction was sent or given up, by its token.
	pendingCallbacks map[string]chan struct{}
	// ending: Run is about to return, so that no more work may be started.
	ending bool
	wg     sync.WaitGroup // goroutines that Run waits for
}

var (
	_ chat.Platform = (*Discord)(nil)
	_ chat.Reporter = (*Discord)(nil)
	_ chat.Typist   = (*Discord)(nil)
	_ chat.Fetcher  = (*Discord)(nil)
)

// New returns an adapter that connects with Run. It may post before that. It reaches no network and starts nothing; an
// address that cannot be read is reported by Run.
func New(o Options) *Discord {
	if o.APIBaseURL == "" {
		o.APIBaseURL = "https://discord.com"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Discord{
		o:                o,
		detail:           "not connected yet",
		pendingCallbacks: map[string]chan struct{}{},
		busy:             kit.BusyNotes{Gather: busyGather, Every: busyEvery},
		openWithin:       openTimeout,
		maxWaiting:       maxWaiting,
		balanceAfter:     balanceAfter,
	}
	store := "" // of a process alone; the same after each start, since nonces have to be
	if o.Sharing != nil {
		store = o.Sharing.Store
	}
	d.mark = shortHash("store\x00"+store, markLen)
	d.channels, d.members, d.askedGuilds = d.newChannels(), d.newMembers(), d.newGuilds()
	d.nicks.Size, d.quoted.Size, d.targets.Size = maxNicks, maxQuotes, maxQuotes
	d.parents.Size, d.sent.ids.Size = maxParents, maxMade
	d.base, d.baseErr = url.Parse(o.APIBaseURL)
	if d.baseErr == nil && (d.base.Host == "" || d.base.Scheme != "https" && d.base.Scheme != "http") {
		d.baseErr = errors.New("want scheme and host, for example https://discord.com")
	}
	d.api = newAPI(d.base, o.Token, o.Log)
	return d
}

// Name returns "discord".
func (d *Discord) Name() string { return "discord" }

// Limits returns Discord's limits of one message.
func (d *Discord) Limits() chat.Limits {
	return chat.Limits{Text: maxText, Cards: maxEmbeds, Edits: editEvery}
}

// Run connects and stays connected until ctx ends, for which it returns nil. It returns a *chat.SetupError for what no
// new attempt would change: a refused token, or intents that are not switched on. It returns when all that it started
// has ended; messages that were not stored by then are read again after the next start.
func (d *Discord) Run(ctx context.Context, accept func(context.Context, chat.Message) error) error {
	if d.baseErr != nil {
		return &chat.SetupError{
			Reason: "platforms.discord.apiBaseURL is not an address",
			Remedy: "leave it at https://discord.com",
			Err:    d.baseErr,
		}
	}
	// Run ends when Discord refuses the token, and what waits for the lead has to end with it.
	running, stop := context.WithCancel(ctx)
	defer stop()
	if d.o.Sharing != nil {
		d.startWork(func() { d.awaitLead(running) })
	}
	err := d.runPlans(ctx, accept)
	stop()
	d.channels.Close()
	d.members.Close()
	d.askedGuilds.Close()
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	d.wg.Wait()
	d.api.client.CloseIdleConnections()
	for _, s := range d.shards {
		if n := s.waiting; n > 0 {
			d.o.Log.Warn(
				"discord messages were not stored before the bot stopped",
				"platform",
				"discord",
				"shard",
				s.id,
				"messages",
				n,
			)
		}
	}
	return err
}

// startWork starts work that Run waits for; false if Run is about to return, and then work is not done.
func (d *Discord) startWork(work func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.ending {
		d.wg.Go(work)
	}
	return !d.ending
}

// Typing shows for about ten seconds that the bot is writing. Its error says nothing about posts.
func (d *Discord) Typing(ctx context.Context, to chat.Address) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return d.api.do(ctx, request{method: "POST", path: "/channels/" + channelOf(to) + "/typing"}, nil)
}

// channelOf returns the id of the channel or thread that an address names.
func channelOf(a chat.Address) string {
	if a.Thread != "" {
		return a.Thread
	}
	return a.Channel
}
