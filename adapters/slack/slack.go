// Package slack is the Slack platform, over Socket Mode or signed HTTP, in channels, direct messages and the agent
// view. It also reads the context of a message. It is the only importer of slack-go.
//
// It promises:
//   - Slack gets an acknowledgement of a message only after the message is stored. A mention that arrives as two
//     events is one message.
//   - No post mentions people or loads link previews.
//   - A refresh of the connection leaves no gap. Messages sent during an outage are read afterwards, before later
//     ones.
//   - The bot looks up a user only if they speak to it, react to a post or wrote a message that it reads back. An
//     acknowledgement does not wait for the look-up.
//   - An answer that was interrupted is finished in the same post.
//   - Requests run at the rate that Slack allows.
//   - A refused token is reported with its remedy, and posts wait for a new token.
//
// It does not decide which messages are answered.
//
// A request arrives in an envelope of a socket (socket.go) or as an HTTP request (http.go). parseRequest turns it into
// a chat.Message (event.go, interaction.go, form.go). The message waits for catch-up (catchup.go) and goes to accept,
// in one queue per channel. One postJob sends a draft (post.go): render cuts it into pieces, and each piece is found
// (repeat.go), streamed (stream.go), edited or posted, under a hidden label by which a later attempt or process finds
// it again.
//
// kit.Memory and kit.Cache remember facts about Slack and have their own locks. The other fields of Slack are set
// before ready is closed and only read after that.
package slack

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	slackgo "github.com/slack-go/slack"

	"ravenbot/adapters/kit"
	"ravenbot/internal/core/chat"
)

// Options are the configuration of the platform.
type Options struct {
	// BotToken begins with xoxb-. It goes with each call of the Web API, and with downloads of files.
	BotToken      string
	AppToken      string // Socket Mode
	SigningSecret string // HTTP mode
	Mode          string // "socket" or "http"
	// APIBaseURL ends with a slash; methods of the Web API are appended to it. A simulation stands at another address.
	APIBaseURL string // "https://slack.com/api/"
	// CatchUp is how far back messages are read that were sent while the bot was not
	// connected; 0: they are not.
	CatchUp time.Duration
	// LastSeen returns the conversations to be read, newest first, each with the last message
	// that was taken there; nil: none are read.
	LastSeen func(ctx context.Context) ([]chat.LastSeen, error)
	// Commands are the words that may follow /raven.
	Commands []chat.CommandSpec
	// MessageCommands are the shortcuts in the menus of messages.
	MessageCommands []chat.MessageCommand
	// Former returns the forms that commands and buttons ask for; nil: none do.
	Former chat.Former
	// UsesRoles reports whether anything depends on the user groups of people; nil: nothing does.
	UsesRoles func() bool
	// CheckForm finds faults in a form that was sent, which are shown in the form; nil: none are.
	CheckForm chat.FormChecker
	// Title returns a better title for a thread of the agent view than its first question, within
	// a few seconds; "": there is none. It may be nil.
	Title func(ctx context.Context, question chat.Message) string
	// Replicas is set if other processes may hold connections of this app, so that not every event comes to this one.
	Replicas Replicas
	// Log and Now are both required. Now is the clock of everything but waits and deadlines.
	Log *slog.Logger
	Now func() time.Time
}

// Slack is one Slack app in one workspace. All methods may be called concurrently; Run is called once. Posts may be
// made before Run has connected; what needs to know who the bot is waits for that.
type Slack struct {
	o           Options
	api         *slackgo.Client
	client      *http.Client
	fileClient  *http.Client  // for files, which may be large
	channelGate kit.Pacer     // by channel: one post at a time
	pacer       kit.Pacer     // by method and channel
	ready       chan struct{} // closed when self and accept are set

	attempts     kit.Memory[sendAttempt] // drafts that are not wholly posted, by their keys
	responseUses kit.Memory[int]         // of response_urls
	// by channel and timestamp; only who is in the channel's gate changes one
	streams      kit.Memory[*streamState]
	unsupported  kit.Memory[bool]                    // channels where streams are refused, and "" where all are
	authors      kit.Memory[string]                  // who wrote the latest messages, by channel and timestamp
	busy         kit.BusyNotes                       // of messages that were turned away, by place and author
	greeted      kit.Memory[bool]                    // channels that the bot has joined since it started
	edited       kit.Memory[time.Time]               // when unfinished answers were last edited, by channel and timestamp
	partialShown kit.Memory[bool]                    // threads in which an unfinished answer stands, by channel and thread
	asked        kit.Memory[string]                  // the latest question, by channel and thread
	commands     kit.Memory[[]pendingCommand]        // commands without an answer, by channel and thread
	reacted      kit.Memory[string]                  // questions with a reaction of the bot, by channel and thread
	people       *kit.Cache[person]                  // users of the workspace
	guests       *kit.Cache[map[string]bool]         // ids of its guests, by workspace
	roles        atomic.Pointer[map[string][]string] // user groups by user; nil: not read
	channels     *kit.Cache[channelInfo]
	agentView    agentView
	unreadable   kit.Memory[bool] // channels of which the operator knows that they cannot be read
	replays      replays
	missed       *kit.CatchUp             // nil: nothing is read afterwards
	recent       kit.Recent[*wireMessage] // of channels and threads, by threadKey
	labels       kit.Memory[postLabel]    // those of the bot's latest posts, by channel and timestamp
	deleted      kit.Memory[bool]         // messages that were deleted, by channel and timestamp
	readAfter    kit.Memory[time.Time]    // when a method that reads messages may be called again, by its name
	lastPosts    kit.Memory[string]       // timestamp of the bot's latest post, by channel and thread

	socket  atomic.Pointer[socket] // nil in HTTP mode
	running context.Context        // of Run, in HTTP mode
	events  *kit.Queues            // by channel, in HTTP mode
	self    botIdentity
	accept  func(context.Context, chat.Message) error

	// mu guards the fields below.
	mu       sync.Mutex
	health   chat.Health
	unstored struct {
		logged time.Time
		more   int // times since then
	}
	agedAt time.Time // when noteAge has logged
}

// botIdentity is who the bot is on Slack.
type botIdentity struct {
	team, user, bot string
	name            string // of the bot
	teamName        string
	teamURL         string // of the workspace's pages, with a slash at the end
	agent           bool   // it is in Slack's agent view
}

const (
	// callTimeout bounds one call of the Web API.
	callTimeout = 30 * time.Second
	// fileTimeout bounds bringing or getting one file.
	fileTimeout = 2 * time.Minute
	// maxResponse is the most that is read of an answer of Slack, in bytes. What is longer is cut, and then fails to be
	// decoded.
	maxResponse = 16 << 20
)

// New returns the platform; it reaches no network and starts nothing. The tokens are checked by Run.
func New(o Options) *Slack {
	// Nearly all requests go to one host, of which the default keeps two connections.
	t := kit.NewTransport(64)
	client := &http.Client{Transport: limitedTransport{kit.PermittedTransport{Next: t}}, CheckRedirect: kit.NoRedirect}
	s := &Slack{
		o:          o,
		client:     client,
		fileClient: &http.Client{Transport: kit.PermittedTransport{Next: t}, Timeout: fileTimeout, CheckRedirect: kit.NoRedirect},
		pacer:      kit.Pacer{Learn: true},
		ready:      make(chan struct{}),
		busy:       kit.BusyNotes{Gather: busyGather, Every: busyEvery},
		recent:     newRecent(o.Now),
		agentView:  agentView{chores: make(chan func(context.Context) error, maxChores)},
		api: slackgo.New(o.BotToken, slackgo.OptionAPIURL(o.APIBaseURL), slackgo.OptionAppLevelToken(o.AppToken),
			slackgo.OptionHTTPClient(client)),
	}
	s.people, s.guests, s.channels = s.newPeople(), s.newGuests(), s.newChannels()
	s.missed = s.newCatchUp()
	s.health.Detail = "not connected yet"
	return s
}

// limitedTransport bounds how long a call takes, and how much of its answer is read. http.Client has a limit of time,
// too, for which it starts two goroutines a call.
type limitedTransport struct{ next http.RoundTripper }

// RoundTrip makes one call, whose answer has to be read within callTimeout.
func (l limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := kit.RequestContext(r.Context(), callTimeout)
	res, err := l.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	res.Body = limitedBody{io.LimitReader(res.Body, maxResponse), res.Body, cancel}
	return res, nil
}

// limitedBody is the answer to a call; Close ends its limit of time.
type limitedBody struct {
	io.Reader
	body   io.Closer
	cancel context.CancelFunc
}

// Close closes the body.
func (b limitedBody) Close() error {
	defer b.cancel()
	return b.body.Close()
}

// Name returns "slack".
func (s *Slack) Name() string { return "slack" }

// Limits returns the limits of one message, and how often an answer that is being written may be edited.
func (s *Slack) Limits() chat.Limits {
	return chat.Limits{Text: maxText, Cards: maxCards, Edits: growEvery}
}

// Health reports a connection while a socket has said hello or, in HTTP mode, since the token was
// accepted.
func (s *Slack) Health() chat.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health
}

// setHealth notes whether messages can reach the bot, and why not; Since moves only when that changes.
func (s *Slack) setHealth(is bool, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is != s.health.Connected {
		s.health.Since = s.o.Now()
	}
	s.health.Connected, s.health.Detail = is, detail
}

// Run connects and hands over messages until ctx ends, for which it returns nil, or the error of ctx while it is still
// asking who the bot is. It returns a *chat.SetupError for what no new attempt would change: a refused token, a missing
// scope, no signing secret in HTTP mode. accept may be called by many goroutines at once, in order within a channel;
// chat.ErrBusy from it means that the author is told so, and any other error that Slack has to send the message again.
func (s *Slack) Run(ctx context.Context, accept func(context.Context, chat.Message) error) error {
	if s.o.Mode == "http" && s.o.SigningSecret == "" {
		return &chat.SetupError{Reason: "Slack in HTTP mode needs the app's signing secret",
			Remedy: "set SLACK_SIGNING_SECRET to the value under Basic Information of the app"}
	}
	s.setHealth(false, "asking Slack who the bot is")
	defer func() {
		if ctx.Err() != nil { // else the reason of the refusal stays
			s.setHealth(false, "the bot has stopped")
		}
	}()
	if err := s.identify(ctx); err != nil {
		s.setHealth(false, err.Error())
		return err
	}
	defer s.people.Close()
	defer s.guests.Close()
	defer s.channels.Close()
	// Everything that reads accept or self waits for ready, which is closed below.
	s.accept = accept
	// What runs beside ends before Run returns, also where listen has failed and ctx goes on.
	beside, stop := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop()
	helpers.Go(func() { s.runChores(beside) })
	helpers.Go(func() { s.postBusyNotes(beside) })
	helpers.Go(func() { s.missed.Run(beside) })
	// No message may be judged before the groups are known, or a rule that denies something to a role would not hold
	// yet.
	if s.o.UsesRoles != nil {
		read := make(chan struct{})
		helpers.Go(func() { s.watchGroups(beside, sync.OnceFunc(func() { close(read) })) })
		<-read
	}
	if s.o.Mode == "http" {
		// Before requests are let in, which have to wait for what was missed.
		s.missed.Begin()
		s.running, s.events = ctx, kit.NewQueues(ctx)
		close(s.ready)
		s.setHealth(true, "HTTP mode: Slack calls us")
		<-ctx.Done()
		s.events.Wait()
		return nil
	}
	close(s.ready)
	return s.listen(ctx)
}

// identify asks Slack who the bot is until there is an answer, with pauses that double up to a minute. It returns a
// *chat.SetupError where Slack refuses the token, and the error of ctx where that ends first.
func (s *Slack) identify(ctx context.Context) error {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		who, err := s.api.AuthTestContext(ctx)
		if err == nil && (who.TeamID == "" || who.UserID == "") {
			err = errors.New("the answer to auth.test does not say who the bot is")
		}
		if err == nil {
			scopes, _ := scopesOf(who.Header.Get(scopesHeader))
			s.self = botIdentity{
				team:     who.TeamID,
				user:     who.UserID,
				bot:      who.BotID,
				name:     cmp.Or(who.User, "ravenbot"),
				teamName: who.Team,
				teamURL:  who.URL,
				agent:    slices.Contains(scopes, assistantScope),
			}
			return nil
		}
		if refusal := setupError(err, "bot token", botTokenPlace); refusal != nil {
			return refusal
		}
		pause := max(wait, retryAfter(err))
		s.o.Log.Warn("failed to read the slack identity; retrying", "wait", pause, "error", err)
		if !kit.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// setupError returns a *chat.SetupError for a refusal that no retry changes; nil for other errors. what names the token
// that was used, where says where the operator finds it.
func setupError(err error, what, where string) error {
	var told slackgo.SlackErrorResponse
	if !errors.As(err, &told) {
		return nil
	}
	switch word := told.Err; {
	case tokenCodes[word], word == "not_allowed_token_type", word == "no_permission", word == "app_missing_action_url":
		return &chat.SetupError{
			Reason: "Slack refuses the " + what + " (" + told.Err + ")",
			Remedy: "check " + where + " and reinstall the app to the workspace",
		}
	case word == "missing_scope":
		return &chat.SetupError{
			Reason: "the " + what + " lacks the scope " + told.Needed,
			Remedy: "add it to the app and reinstall the app to the workspace",
		}
	}
	return nil
}

// takeMessage hands a message over, and reports whether Slack may be told that it was taken: accept stored it, turned
// it away with a note to its author, or it is a reaction of a bot.
func (s *Slack) takeMessage(ctx context.Context, m chat.Message) bool {
	if m.Reply.MessageID != "" && !isInteraction(m) {
		// A stream of the answer has to name whom it is for (see streamRecipient).
		s.authors.Put(threadKey(m.Conversation.Channel, m.Reply.MessageID), m.Author.ID)
	}
	if s.isFromBot(ctx, m) {
		return true
	}
	s.setName(&m)
	s.describeFiles(ctx, &m)
	// Before it is accepted: its answer may be there at once.
	s.expectAnswer(m)
	err := s.accept(ctx, m)
	if errors.Is(err, chat.ErrBusy) {
		var done func(context.Context) error
		if done, err = kit.KeepRefused(ctx, err); err == nil {
			if done != nil {
				s.queueBusyNote(m, done)
			}
			return true
		}
	}
	switch {
	case err == nil:
		if m.Kind() == chat.EventMessage && m.Reply.MessageID != "" && !isInteraction(m) {
			s.asked.Put(threadKey(m.Conversation.Channel, m.Conversation.Thread), m.Reply.MessageID)
		}
		s.titleThread(m)
		return true
	case ctx.Err() == nil:
		s.logUnstored(m, err)
	}
	return false
}

// unstoredInterval is how often it is logged that messages are not stored: Slack sends each of them several times, and
// the disk that is full may be that of the log.
const unstoredInterval = time.Minute

// logUnstored logs that a message was not stored, or counts it for the next time.
func (s *Slack) logUnstored(m chat.Message, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unstored.logged.IsZero() && time.Since(s.unstored.logged) < unstoredInterval {
		s.unstored.more++
		return
	}
	s.o.Log.Error("failed to store a slack message; not acknowledged", "message", m.Key(), "more", s.unstored.more, "error", err)
	s.unstored.logged, s.unstored.more = time.Now(), 0
}
