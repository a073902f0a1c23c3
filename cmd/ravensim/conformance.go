package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"sync"
	"time"

	"ravenbot/internal/core/tool"
	"ravenbot/internal/mcp"
	"ravenbot/internal/mcp/oauth"
	"ravenbot/internal/ops/egress"
	"ravenbot/internal/store/seal"
)

const (
	serverName = "peer" // the name of the suite's server here
	// conformanceTimeout is less than the 30 s that the suite waits.
	conformanceTimeout = 25 * time.Second
	// documentURL is where the suite expects our client metadata document.
	documentURL = "https://conformance-test.local/client-metadata.json"
)

// scenario is what the suite tells a client about a scenario.
type scenario struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	PrivateKey   string `json:"private_key_pem"`
	Issuer       string `json:"issuer"`
	ToolCalls    []struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"toolCalls"`
}

// conformance connects the suite's server through the host that the bot uses, and calls each of its tools, with a
// simulated person who consents to everything.
func conformance(ctx context.Context, w world) int {
	ctx, cancel := context.WithTimeout(ctx, conformanceTimeout)
	defer cancel()
	if len(w.args) != 1 {
		fmt.Fprintln(w.err, "usage: ravensim conformance URL")
		return 2
	}
	var g scenario
	// Only scenarios with credentials or given calls set it.
	if text := w.env("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			fmt.Fprintln(w.err, "MCP_CONFORMANCE_CONTEXT:", err)
			return 2
		}
	}
	c, err := newConformanceRun(w, g)
	if err != nil {
		fmt.Fprintln(w.err, err)
		return 1
	}
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(w.err, err)
		return 1
	}
	return 0
}

// conformanceRun is one run of a scenario.
type conformanceRun struct {
	w              world
	log            *slog.Logger
	scenario       scenario
	host           *mcp.Host
	callbackServer *http.Server // where the browser returns to
	listener       net.Listener

	links   chan string
	mu      sync.Mutex
	open    int           // links that the person has not answered yet
	changed chan struct{} // closed and replaced when open changes
}

// newConformanceRun returns the client for one scenario of the suite: an MCP host with one server,
// a sign-in, and the server to which the browser returns.
func newConformanceRun(w world, g scenario) (*conformanceRun, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the browser: %w", err)
	}
	log := slog.New(slog.NewTextHandler(w.err, &slog.HandlerOptions{Level: slog.LevelDebug}))
	c := &conformanceRun{
		w:        w,
		log:      log,
		scenario: g,
		listener: listener,
		links:    make(chan string, 16),
		changed:  make(chan struct{}),
	}
	out, err := egress.New(egress.Options{UserAgent: "ravensim"})
	if err != nil {
		return nil, err
	}
	// Nothing outlives the process, so a random key is enough.
	key := make([]byte, 32)
	rand.Read(key)
	box, err := seal.NewBox(key)
	if err != nil {
		return nil, err
	}
	broker, err := oauth.New(oauth.Options{
		Egress:        out,
		Box:           box,
		Log:           log,
		RedirectURL:   "http://" + listener.Addr().String() + "/oauth/callback",
		MetadataURL:   documentURL,
		NotifyConsent: c.queueLink,
		OnGranted:     func(string, string) { _ = c.host.Start(serverName) },
	})
	if err != nil {
		return nil, err
	}
	entry := oauth.Entry{
		Name:         serverName,
		ClientID:     g.ClientID,
		ClientSecret: g.ClientSecret,
		PrivateKey:   g.PrivateKey,
		Issuer:       g.Issuer,
	}
	// In these scenarios nobody may be asked for consent.
	switch w.env("MCP_CONFORMANCE_SCENARIO") {
	case "auth/client-credentials-jwt", "auth/client-credentials-basic":
		entry.Grant = oauth.ClientCredentials
	}
	c.host, err = mcp.NewHost(mcp.Options{Log: log, Version: "conformance", Ask: answerForm,
		Servers: []mcp.Config{
			{Name: serverName, URL: w.args[0], Protocol: w.env("MCP_CONFORMANCE_PROTOCOL_VERSION"), Eager: true},
		},
		SignIns: conformanceSignIn{broker, entry}})
	c.callbackServer = &http.Server{Handler: broker.Callback(), ReadHeaderTimeout: 10 * time.Second}
	return c, err
}

// conformanceSignIn signs in to the server of the scenario.
type conformanceSignIn struct {
	broker *oauth.Broker
	entry  oauth.Entry
}

// Authorize signs in to whichever server the suite names.
func (s conformanceSignIn) Authorize(c mcp.Config, next http.RoundTripper) http.RoundTripper {
	s.entry.URL = c.URL
	return s.broker.Transport(s.entry, next)
}

// Waiting returns nil: the links go to the scenario's own browser.
func (conformanceSignIn) Waiting(mcp.Config) *mcp.Consent { return nil }

// run plays the scenario and stops everything that it has started.
func (c *conformanceRun) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer c.callbackServer.Close()
	defer cancel()
	wg.Go(func() { _ = c.callbackServer.Serve(c.listener) }) // ends when closed
	wg.Go(func() { _ = c.host.Run(ctx) })                    // its one error is a second run
	wg.Go(func() { c.browse(ctx) })
	if err := c.waitConnected(ctx); err != nil {
		return err
	}
	var faults []error
	for _, t := range c.host.Tools() {
		for _, args := range c.arguments(t.Spec()) {
			faults = append(faults, c.call(ctx, t, args))
		}
	}
	return errors.Join(faults...)
}

// queueLink takes the link that a person is to open.
func (c *conformanceRun) queueLink(_ context.Context, consent oauth.Consent) error {
	c.addOpen(1)
	c.links <- consent.URL
	return nil
}

// browse is that person: whatever page comes, the answer is yes.
func (c *conformanceRun) browse(ctx context.Context) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return
	}
	browser := &http.Client{Jar: jar}
	for {
		select {
		case <-ctx.Done():
			return
		case link := <-c.links:
			c.log.Info("person has answered", "page", clickContinue(ctx, browser, link))
			c.addOpen(-1)
		}
	}
}

// clickContinue opens a link, presses Continue and returns how that ended.
func clickContinue(ctx context.Context, browser *http.Client, link string) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, link, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := browser.Do(r)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	return resp.Status
}

// answerForm fills in only the required fields of a form that have no default. The host adds the defaults.
func answerForm(_ context.Context, q mcp.Question) (mcp.Answer, error) {
	var form struct {
		Required   []string                              `json:"required"`
		Properties map[string]map[string]json.RawMessage `json:"properties"`
	}
	if len(q.Schema) > 0 {
		if err := json.Unmarshal(q.Schema, &form); err != nil {
			return mcp.Answer{}, err
		}
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(exampleArguments(q.Schema)[0], &all); err != nil {
		return mcp.Answer{}, err
	}
	content := map[string]json.RawMessage{}
	for _, name := range form.Required {
		if form.Properties[name]["default"] == nil {
			content[name] = all[name]
		}
	}
	data, err := json.Marshal(content)
	return mcp.Answer{Action: mcp.Accept, Content: data}, err
}

// addOpen changes the number of open links and wakes those that wait.
func (c *conformanceRun) addOpen(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += n
	// Everybody who waits has to look again, so the channel is closed rather than sent to.
	close(c.changed)
	c.changed = make(chan struct{})
}

// waitConsents waits until no link is open, and reports whether one was.
func (c *conformanceRun) waitConsents(ctx context.Context) bool {
	was := false
	for {
		c.mu.Lock()
		open, news := c.open, c.changed
		c.mu.Unlock()
		if open == 0 {
			return was
		}
		was = true
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// waitConnected waits until the server is connected, however many consents that takes.
func (c *conformanceRun) waitConnected(ctx context.Context) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for failures := 0; ; {
		switch st, _ := c.host.Get(serverName); st.State {
		case mcp.Connected, mcp.NoToolsFound:
			return nil
		case mcp.Failed:
			// A failure during a consent is part of the scenario; only others count.
			if !c.waitConsents(ctx) {
				failures++
			}
			if failures > 10 { // 100 ms after the last consent
				return fmt.Errorf("not connected: %s", st.Error)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("not connected in time")
		}
	}
}

// call calls a tool, and again after each consent that it asked for.
func (c *conformanceRun) call(ctx context.Context, t tool.Tool, args json.RawMessage) error {
	name := t.Spec().Name
	for {
		result, err := t.Call(ctx, args)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.w.out, "%s %s: %s\n", name, args, result.Text)
		if !result.IsError {
			return nil
		}
		// Only a failure that no consent explains is final.
		if !c.waitConsents(ctx) {
			return fmt.Errorf("%s failed: %s", name, result.Text)
		}
	}
}

// arguments returns the arguments that the suite gives, or one set that fits the schema.
func (c *conformanceRun) arguments(s tool.Spec) []json.RawMessage {
	var list []json.RawMessage
	for _, call := range c.scenario.ToolCalls {
		if call.Name == s.Name {
			list = append(list, call.Arguments)
		}
	}
	if len(list) > 0 {
		return list
	}
	if s.Name == "json_schema_echo" { // wants the schema of the other tool, as we had it
		for _, t := range c.host.Tools() {
			if other := t.Spec(); other.Name != s.Name {
				list = append(list, slices.Concat([]byte(`{"schema":`), other.Schema, []byte(`}`)))
			}
		}
		return list
	}
	return exampleArguments(s.Schema)
}

// exampleArguments returns arguments that fit a simple schema.
func exampleArguments(raw json.RawMessage) []json.RawMessage {
	var schema struct {
		Properties map[string]struct {
			Type    any   `json:"type"`
			Default any   `json:"default"`
			Enum    []any `json:"enum"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(raw, &schema) // for any other schema no arguments are known
	values := map[string]any{
		"string":  "text",
		"number":  1,
		"integer": 1,
		"boolean": true,
		"array":   []any{},
		"object":  map[string]any{},
	}
	args := map[string]any{}
	for name, p := range schema.Properties {
		kind, _ := p.Type.(string)
		value, known := values[kind]
		switch {
		case p.Default != nil:
			args[name] = p.Default
		case len(p.Enum) > 0:
			args[name] = p.Enum[0]
		case known:
			args[name] = value
		}
	}
	data, err := json.Marshal(args)
	if err != nil {
		return nil
	}
	return []json.RawMessage{data}
}
