// Package mcp is the host of MCP servers: it starts or reaches each one that is
// configured, or added while the bot runs, keeps it connected, and offers its tools.
//
// It promises that a server cannot hurt the bot or another server. Each has a
// supervisor of its own, which connects in the background, asks again and again
// whether the server lives, and starts it anew with growing delays when it does
// not; every request has a deadline, every message a size limit, every log an
// end. Processes get a short list of harmless environment variables, are ended
// with all that they started, and are always reaped. A call is sent once: it is
// repeated after a loss only if the tool says that this does no harm. A change of
// the servers touches only those that changed, and not who holds them (Hold).
//
// What a server says of its tools is pinned when it is first seen: a tool that
// changes is withheld until somebody approves it, what hides something is shown
// without it, and no tool takes the name of another's. Servers may ask people and
// models only on behalf of whoever called them, where that is plain.
//
// Tool schemas are kept as the server wrote them. Arguments are expected to have
// been checked; who may call what is policy's business. Results are strangers'
// text: bounded here, made safe to show by whoever shows them.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Transports by name, as in Config and Status.
const (
	Stdio = "stdio"
	HTTP  = "http" // Streamable HTTP
	SSE   = "sse"  // the older HTTP+SSE
)

// Config is one server: a command to start, or a URL to reach.
type Config struct {
	Name        string // unique; tools are named after it
	Description string // for people

	Command string            // the program; looked for in PATH, or relative to Dir
	Args    []string          // handed over as they are; no shell reads them
	Env     map[string]string // added to the few variables that every server gets
	Dir     string            // working folder; "": the bot's

	URL       string            // http or https
	Headers   map[string]string // sent to the origin of URL alone
	Transport string            // Stdio, HTTP or SSE; "": by Command or URL, HTTP before SSE
	PerUser   bool              // each user signs in for himself: see Authorize
	User      string            // set by the host: whose connection it is; "": everybody's, or the operator's
	Protocol  string            // the one version to speak, as "2025-06-18"; "": what the server prefers

	Timeout  time.Duration // of one call; 0: 30 s
	Include  []string      // names of tools to offer, * stands for anything; empty: all
	Exclude  []string      // names of tools to leave out
	Eager    bool          // connect with the host although the tools are known from Keep
	Disabled bool          // never connect

	SignIn SignIn // how the bot signs in where the server asks for it
	// AllowPrivateHosts are private hosts and networks that a sign-in may reach.
	AllowPrivateHosts []string
}

// SignIn is what is configured of the OAuth sign-in to a server. All may be empty.
type SignIn struct {
	ClientID     string
	ClientSecret string
	PrivateKey   string
	Issuer       string
	Scopes       []string
	Grant        string
}

// StateStore is what is known of servers over restarts: "tools", so that a server need
// not be started before its first call, "pins", what its tools were when they were
// first seen or approved, and "log". It must be safe for concurrent use.
type StateStore interface {
	// Load gives what was last saved of a server, or nil.
	Load(what, server string) ([]byte, error)
	// Save takes JSON; null stands for nothing.
	Save(what, server string, data []byte) error
}

// Schemas checks JSON against JSON Schema. It must be safe for concurrent use, with
// whatever strangers write as either.
type Schemas interface {
	// Check gives an object as it fits a schema, mended if need be, or says what is wrong.
	Check(schema, object json.RawMessage) (json.RawMessage, error)
	// Fits says what is wrong with any value, as it is.
	Fits(schema, value json.RawMessage) error
}

// Options are what a Host is made of.
type Options struct {
	Servers []Config

	// HealthInterval is how often a connected server is asked for its tools,
	// which also shows that it lives; 0: 60 s.
	HealthInterval time.Duration
	// StatusTTL is the age at which a status that is read is checked anew; 0: 300 s.
	StatusTTL time.Duration
	// StartTimeout is how long a server may take to start and list its tools; 0: 120 s.
	StartTimeout time.Duration

	Store StateStore // nil: nothing is kept, and every server is connected when the host starts
	// StartAfter keeps servers from starting until it is closed; what Keep knows of them
	// is listed at once. nil: they start with the host.
	StartAfter <-chan struct{}
	// Ask puts a server's question to the person on whose behalf it is called: ctx
	// carries the tool.Caller, and ends with the call. It may take 15 minutes; an error
	// tells the server that there is no answer. nil: servers are not told that anybody
	// could be asked.
	Ask func(ctx context.Context, q Question) (Answer, error)
	// Sample has a model go on for a server, with ctx as that of Ask; an error refuses.
	// nil: servers are not told that they could have that.
	Sample func(ctx context.Context, s SamplingRequest) (SamplingResult, error)
	Roots  []Root // nil: servers are not told that there are roots
	// Schemas checks what goes to servers, and comes from them. nil: nothing is checked
	// here.
	Schemas Schemas

	// IsReserved reports whether a tool of the bot itself goes by a name. It must not call
	// the Host. nil: none does.
	IsReserved func(name string) bool
	Version    string // what servers are told of our version
	Log        *slog.Logger
	Now        func() time.Time // nil: time.Now

	Authorize Authorize // nil: servers get the configured headers alone
	// Waiting gives the consent that a server waits for, as Authorize has told; nil if
	// none. It must not call the Host. nil: there never is one.
	Waiting func(c Config) *Consent

	// Watch is told of every group of processes that is started, and gives what is to be
	// called before its id can be given to another. It must not wait. nil: nobody is told.
	Watch func(group int) (done func())

	silence time.Duration // see tap; set by tests
}

func withDefaults(o Options) Options {
	if o.HealthInterval <= 0 {
		o.HealthInterval = 60 * time.Second
	}
	if o.StatusTTL <= 0 {
		o.StatusTTL = 300 * time.Second
	}
	if o.StartTimeout <= 0 {
		o.StartTimeout = 120 * time.Second
	}
	if o.silence <= 0 {
		o.silence = defaultSilence
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Watch == nil {
		o.Watch = func(int) func() { return func() {} }
	}
	return o
}

const maxServerName = 100 // bytes

func check(c Config) error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case len(c.Name) > maxServerName, strings.ContainsFunc(c.Name, unicode.IsControl):
		return fmt.Errorf("its name is longer than %d bytes, or holds control characters", maxServerName)
	case c.Disabled:
		return nil
	case (c.Command == "") == (c.URL == ""):
		return errors.New("give either a command to start or a url to reach")
	case !slices.Contains([]string{"", Stdio, HTTP, SSE}, c.Transport):
		return fmt.Errorf("unknown transport %q; known are stdio, http and sse", c.Transport)
	case c.Transport != "" && (c.Transport == Stdio) != (c.Command != ""):
		return fmt.Errorf("transport %q does not go with what is given: stdio needs a command, http and sse a url", c.Transport)
	}
	if c.PerUser && c.URL == "" {
		return errors.New("users cannot sign in to a process for themselves: perUser needs a url")
	}
	if err := checkProtocol(c.Protocol); c.URL == "" || err != nil {
		return err
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("its url is not an http or https address")
	}
	return nil
}
