package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ravenbot/internal/core/text"
	"ravenbot/internal/ops/egress"
)

// nodeAt returns a value by names and indices. For what the file leaves out it returns a node with the missing key's
// path and its parent's place.
func nodeAt(root *node, path ...any) *node {
	n := root
	for _, step := range path {
		var child *node
		key := ""
		switch step := step.(type) {
		case string:
			child, key = n.get(step), joinKey(n.path, step)
		case int:
			key = fmt.Sprintf("%s[%d]", n.path, step)
			if step < len(n.elems) {
				child = n.elems[step]
			}
		}
		// A fault about a missing key points to the object that lacks it.
		if child == nil {
			child = &node{offset: n.offset, path: key}
		}
		n = child
	}
	return n
}

// checker checks how values fit together, after each has been checked by itself. Its methods report faults and warnings
// to the decoder and change nothing of the configuration.
type checker struct {
	*decoder
	c      *Config
	root   *node
	checks Checks
}

// check reports what is wrong with c, which was decoded from root. Of one value one fault is reported.
func (d *decoder) check(c *Config, root *node, checks Checks) {
	k := checker{d, c, root, checks}
	k.checkHTTP()
	k.checkStoreKey()
	k.checkDiscord()
	k.checkSlack()
	k.checkModels()
	k.checkBudget()
	k.checkAgents()
	k.checkChannels()
	k.checkDigests()
	if c.Ops.Channel != "" {
		k.checkPostAddress(c.Ops.Channel, "ops", "channel")
	}
	k.checkJobs()
	k.checkTools()
	k.checkRules()
	k.checkRoles()
	k.checkTrustedProxies()
	k.checkSettings()
	k.checkMistakes()
	k.checkPrivateHosts(c.Feeds.AllowPrivateHosts, "feeds", "allowPrivateHosts")
	k.checkPrivateHosts(c.Egress.AllowPrivateHosts, "egress", "allowPrivateHosts")
	for name, s := range c.MCPServers {
		k.checkPrivateHosts(s.Egress.AllowPrivateHosts, "mcpServers", name, "egress", "allowPrivateHosts")
	}
}

// report adds a fault at a path, unless a fault is known there already.
func (k checker) report(reason, remedy string, path ...any) {
	if n := nodeAt(k.root, path...); !k.hasFault(n.path) {
		k.addFault(n, reason, remedy)
	}
}

// quote returns a value for use in a reason: as its variable where it came from one, because the value may be a
// secret.
func (k checker) quote(value string, path ...any) string {
	n := nodeAt(k.root, path...)
	// A link may be written as an object; the variable is then in its name.
	if n.kind == '{' {
		n = nodeAt(n, "name")
	}
	if strings.Contains(n.text, "${") {
		return quote(n.text)
	}
	return quote(value)
}

// checkHTTP checks the listen address. Listening to other machines without a token is refused.
func (k checker) checkHTTP() {
	listen := k.c.HTTP.Listen
	host, port, err := net.SplitHostPort(listen)
	if number, e := strconv.Atoi(port); err != nil || e != nil || number < 0 || number > 65535 {
		k.report("not an address with a port", `write it like "127.0.0.1:8080"`, "http", "listen")
		return
	}
	// The API can run tools, so a port that others reach must never be open without a token.
	if !isLoopback(host) && k.c.HTTP.AdminToken == "" && !k.hasFault("http.adminToken") {
		k.report("other machines can reach this address, and there is no adminToken",
			"set RAVENBOT_ADMIN_TOKEN in .env, or listen on 127.0.0.1", "http", "listen")
	}
	for _, token := range []struct {
		key   string
		value Secret
		opens string
	}{{"adminToken", k.c.HTTP.AdminToken, "everything"}, {"metricsToken", k.c.HTTP.MetricsToken, "/metrics"}} {
		// Wrong tokens are slowed down for each address, and an attacker may have many.
		if size := len(token.value.Reveal()); size > 0 && size < minTokenBytes {
			k.addWarning(nodeAt(k.root, "http", token.key),
				fmt.Sprintf("has %d characters, which can be guessed: the token opens %s", size, token.opens),
				"make one with `openssl rand -hex 32`")
		}
	}
}

// minTokenBytes is the length below which a token is warned of: 96 random bits in base64 have it.
const minTokenBytes = 16

// checkStoreKey checks the key that secrets are encrypted with. Its length is that of a key for AES-256.
func (k checker) checkStoreKey() {
	const size = 32
	if key, err := base64.StdEncoding.DecodeString(k.c.StoreKey.Reveal()); err != nil ||
		len(key) != size && len(key) != 0 {
		k.report("not a key of 32 bytes in base64", "make one with `openssl rand -base64 32`", "storeKey")
	}
}

// checkSettings checks what members may set.
func (k checker) checkSettings() {
	known := []string{"model", "language", "timezone", "tools.enabled", "tools.maxSteps", "tools.systemPrompt"}
	for i, name := range k.c.Settings.Locked {
		if !slices.Contains(known, name) {
			k.report("there is no setting "+k.quote(name, "settings", "locked", i),
				"write one of "+strings.Join(known, ", "), "settings", "locked", i)
		}
	}
	for i, name := range k.c.Settings.Models {
		checkNameExists(k, "model", name, k.c.Models, "settings", "models", i)
	}
}

// checkTrustedProxies checks the proxies of http.
func (k checker) checkTrustedProxies() {
	for i, text := range k.c.HTTP.TrustedProxies {
		if _, err := parseProxy(text); err != nil {
			k.report(k.quote(text, "http", "trustedProxies", i)+" is neither an address nor a network",
				"write it like 10.0.0.5 or 10.0.0.0/8", "http", "trustedProxies", i)
		}
	}
}

// parseProxy returns the network of an entry of http.trustedProxies. It fails for what is neither an address nor a
// network.
func parseProxy(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return addr.Unmap().Prefix(addr.Unmap().BitLen())
	}
	return netip.ParsePrefix(text)
}

// isLoopback reports whether a host is this machine by its name alone. Another name may lead here, too, but nothing is
// looked up.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// checkDiscord checks the token's form. Whether Discord takes it is found out when the bot connects.
func (k checker) checkDiscord() {
	d, path := k.c.Platforms.Discord, []any{"platforms", "discord", "token"}
	token := d.Token.Reveal()
	switch {
	case strings.HasPrefix(strings.ToLower(token), "bot "):
		k.report("starts with the word Bot, which is not part of it", "give the token alone", path...)
	// A simulated Discord takes any token.
	case token != "" && d.APIBaseURL.Reveal() == "https://discord.com" && strings.Count(token, ".") != 2:
		k.addWarning(nodeAt(k.root, path...), "does not look like a bot token, which has three parts with dots between",
			"copy it from the developer portal: your application, Bot, Reset Token")
	}
}

// checkSlack checks that each token is in its place, and that those are there which the mode needs.
func (k checker) checkSlack() {
	s := k.c.Platforms.Slack
	bad := func(name, reason, remedy string) { k.report(reason, remedy, "platforms", "slack", name) }
	if strings.HasPrefix(s.BotToken.Reveal(), "xapp-") {
		bad("botToken", "holds an app-level token (xapp-…)", "give the bot token (xoxb-…) of the page OAuth & Permissions")
	}
	if strings.HasPrefix(s.AppToken.Reveal(), "xoxb-") {
		bad("appToken", "holds a bot token (xoxb-…)", "give the app-level token (xapp-…) of the page Basic Information")
	}
	// An empty bot token turns Slack off, so nothing else is required then.
	switch {
	case s.BotToken == "" && s.AppToken != "":
		k.addWarning(
			nodeAt(k.root, "platforms", "slack", "botToken"),
			"empty, so Slack is off although appToken is set",
			"set SLACK_BOT_TOKEN in .env",
		)
	case s.BotToken == "":
	case s.Mode == "socket" && s.AppToken == "":
		bad(
			"appToken",
			`missing, and mode "socket" needs it`,
			"set SLACK_APP_TOKEN in .env (xapp-…, scope connections:write)",
		)
	case s.Mode == "http" && s.SigningSecret == "":
		bad(
			"signingSecret",
			`missing, and mode "http" needs it to know Slack's requests`,
			"set SLACK_SIGNING_SECRET in .env (page Basic Information)",
		)
	}
}

// checkModels checks that fallbacks exist and end, and warns of models that cannot answer.
func (k checker) checkModels() {
	for _, name := range slices.Sorted(maps.Keys(k.c.Models)) {
		m := k.c.Models[name]
		if m.Model == "" && m.Provider != "offline" {
			k.report("missing or empty", "name one of the provider's models", "models", name, "model")
		}
		if m.Vertex != (Vertex{}) && m.Provider != "gemini" {
			k.report("is for the provider gemini alone", "remove it, or change the provider", "models", name, "vertex")
		}
		for i, next := range m.Fallback {
			checkNameExists(k, "model", next, k.c.Models, "models", name, "fallback", i)
		}
		if cycle := k.fallbackCycle(name); cycle != "" {
			k.report("leads back to itself: "+cycle, "end the chain with offline", "models", name, "fallback")
		}
		if m.KeyMissing && len(m.Fallback) == 0 {
			k.addWarning(
				nodeAt(k.root, "models", name),
				"has no apiKey and no fallback, so the offline model answers",
				`set the key in .env, or write "fallback": ["offline"]`,
			)
		}
	}
	// Only where the file names models at all: without any, offline is what the operator expects.
	if models := k.root.get("models"); models != nil && len(models.members) > 0 && models.get("default") == nil {
		k.addWarning(models, "has no default, so the offline model answers if none is named", `name one of them "default"`)
	}
}

// checkBudget warns where a cap cannot be enforced because a model has no price.
func (k checker) checkBudget() {
	b := k.c.Budget
	if b.InstanceDailyUSD+b.ChannelDailyUSD+b.UserDailyUSD+b.DigestDailyUSD == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(k.c.Models)) {
		if m := k.c.Models[name]; m.Provider != "offline" && m.Price == (Price{}) {
			k.addWarning(
				nodeAt(k.root, "models", name),
				"has no price, so its cost counts toward no budget",
				`write "price": {"inputPerM": …, "outputPerM": …}, in US dollars per million tokens`,
			)
		}
	}
}

// fallbackCycle returns the way from a model back to itself along fallbacks, or "".
func (k checker) fallbackCycle(start string) string {
	seen := make(map[string]bool)
	var walk func(name, way string) string
	walk = func(name, way string) string {
		for _, next := range k.c.Models[name].Fallback {
			if next == start {
				return way + " → " + next
			}
			// A cycle that does not lead back to start is reported for its own members.
			if seen[next] {
				continue
			}
			seen[next] = true
			if found := walk(next, way+" → "+next); found != "" {
				return found
			}
		}
		return ""
	}
	return walk(start, start)
}

// checkNameExists adds a fault for a name that is not a key of names.
func checkNameExists[T any](k checker, what, name string, names map[string]T, path ...any) {
	if _, ok := names[name]; !ok {
		k.report("there is no "+what+" "+k.quote(name, path...), suggest(name, slices.Collect(maps.Keys(names))), path...)
	}
}

// checkAgents checks every agent, and that there is one called default.
func (k checker) checkAgents() {
	if _, ok := k.c.Agents["default"]; !ok {
		k.report("missing", `name one of the agents "default"`, "agents", "default")
	}
	for name, a := range k.c.Agents {
		k.checkAgent(a, k.c.MCPServers, "agents", name)
	}
}

// checkAgent checks the agent at a path.
func (k checker) checkAgent(a Agent, servers map[string]MCPServer, path ...any) {
	within := func(steps ...any) []any { return slices.Concat(path, steps) }
	checkNameExists(k, "model", a.Model, k.c.Models, within("model")...)
	if a.UtilityModel != "" {
		checkNameExists(k, "model", a.UtilityModel, k.c.Models, within("utilityModel")...)
	}
	for i, link := range a.MCPServers {
		checkNameExists(k, "MCP server", link.Name, servers, within("mcpServers", i)...)
	}
	for i, file := range a.Knowledge {
		// Only a warning: the file may be on a disk that is mounted later.
		if _, err := os.Stat(file); err != nil {
			k.addWarning(
				nodeAt(k.root, within("knowledge", i)...),
				"there is no such file or folder",
				"create it, or remove the name",
			)
		}
	}
	for i, pattern := range a.Skills {
		if k.checks.Skills == nil {
			break
		}
		for _, fault := range k.checks.Skills(pattern) {
			k.report(fault.Problem, fault.Remedy, within("skills", i)...)
		}
	}
	for i, match := range a.Channels {
		k.checkMatch(match, within("channels", i)...)
	}
	if n := a.Limits.MaxResultBytes; n > 0 && n < minResultBytes {
		k.report(
			fmt.Sprintf("is %d, below the minimum of %d", n, minResultBytes),
			"write 0 for what tools.maxResultBytes says",
			within("limits", "maxResultBytes")...)
	}
}

// minResultBytes is the minimum of tools.maxResultBytes, which an agent's own limit must respect too.
const minResultBytes = 256

// checkMatch checks a pattern for channels.
func (k checker) checkMatch(pattern string, path ...any) {
	if _, err := splitAddress(pattern); err != nil {
		k.report(
			k.quote(pattern, path...)+": "+err.Error(),
			`write it like "slack:TEAM/CHANNEL", with * for any: "*:*/*" is everywhere`,
			path...)
	}
}

// checkChannels checks the rules for channels.
func (k checker) checkChannels() {
	for i, ch := range k.c.Channels {
		if ch.Agent != "" {
			checkNameExists(k, "agent", ch.Agent, k.c.Agents, "channels", i, "agent")
		}
		k.checkMatch(ch.Match, "channels", i, "match")
	}
}

// webhookName matches what can stand in the path of a webhook as it is.
var webhookName = text.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// checkJobs checks the quiet hours and the webhooks.
func (k checker) checkJobs() {
	k.checkWith(k.checks.QuietHours, k.c.Jobs.QuietHours, "write it like 22:00-07:00", "jobs", "quietHours")
	for name, h := range k.c.Webhooks {
		if !webhookName().MatchString(name) {
			k.report("not a name for a webhook", "use letters, digits, dots, - and _", "webhooks", name)
		}
		checkNameExists(k, "agent", h.Agent, k.c.Agents, "webhooks", name, "agent")
		for i, address := range h.Post {
			k.checkPostAddress(address, "webhooks", name, "post", i)
		}
		k.checkHookTarget(name, h)
		if h.Template != "" {
			k.checkWith(k.checks.HookTemplate, h.Template, "write a Go text/template", "webhooks", name, "template")
		}
		if len(h.Tools) > 0 && h.Prompt == "" {
			k.report("tools go with a prompt", "give a prompt as the agent's task, or remove the tools",
				"webhooks", name, "tools")
		}
	}
}

// checkWith validates a value with another package's check; a nil check accepts it.
func (k checker) checkWith(judge func(string) error, value, remedy string, path ...any) {
	if judge == nil {
		return
	}
	if err := judge(value); err != nil {
		k.reportError(err, value, remedy, path...)
	}
}

// reportError reports another package's error. A value that came from a variable is named as it was written, because
// it may be a secret.
func (k checker) reportError(err error, value, remedy string, path ...any) {
	reason := err.Error()
	if n := nodeAt(k.root, path...); value != "" && strings.Contains(n.text, "${") {
		reason = strings.ReplaceAll(reason, value, n.text)
	}
	k.report(reason, remedy, path...)
}

// checkFeed checks the address of a feed, or the name of a bundled one.
func (k checker) checkFeed(feed string, path ...any) {
	name, bundled := strings.CutPrefix(feed, "bundled:")
	if !bundled {
		if _, ok := parseHTTPURL(feed); !ok {
			k.report("not an http:// or https:// address", "write the feed's address, or bundled:NAME", path...)
		}
		return
	}
	k.checkWith(k.checks.Bundled, name, "write the name of a bundled feed, or a feed's address", path...)
}

// checkPostAddress checks where a digest is posted, and warns about platforms that are off.
func (k checker) checkPostAddress(address string, path ...any) {
	const remedy = "write it like discord:GUILD/CHANNEL, slack:TEAM/CHANNEL or web:/general"
	parts, err := splitAddress(address)
	if known := []string{"discord", "slack", "web"}; err == nil && !slices.Contains(known, parts[0]) {
		k.report(k.quote(address, path...)+": there is no such platform", suggest(parts[0], known), path...)
		return
	}
	// The platform's own check sees only addresses of the right shape.
	if err == nil && k.checks.Address != nil {
		err = k.checks.Address(address)
	}
	if err != nil {
		k.reportError(fmt.Errorf("%s: %w", k.quote(address, path...), err), address, remedy, path...)
		return
	}
	off := parts[0] == "discord" && !k.c.DiscordEnabled() || parts[0] == "slack" && !k.c.SlackEnabled() ||
		parts[0] == "web" && !k.c.Platforms.Web.Enabled
	if off {
		k.addWarning(
			nodeAt(k.root, path...),
			parts[0]+" is off, so nothing is posted there",
			"turn the platform on, or remove the address",
		)
	}
}

// checkTools checks what holds for all tools.
func (k checker) checkTools() {
	path := []any{"tools", "discovery", "embeddings"}
	if k.c.Embeddings != "" {
		path = []any{"embeddings"}
	}
	if name := k.c.EmbeddingsModel(); name != "" {
		checkNameExists(k, "model", name, k.c.Models, path...)
		if m, ok := k.c.Models[name]; ok && m.Provider == "offline" {
			k.report(
				"the offline model has no embeddings",
				"name a model of Gemini or of an OpenAI-compatible endpoint, or nothing",
				path...)
		}
	}
	for i, h := range k.c.Tools.Hooks {
		if len(h.Command) > 0 && h.Command[0].Reveal() == "" {
			k.report("an empty program", "name the program to run", "tools", "hooks", i, "command")
		}
	}
	k.checkFileRoots()
	switch s := k.c.Tools.Search; {
	case s.Provider == "searxng" && s.BaseURL.Reveal() == "":
		k.report("is missing: SearXNG has no address of its own", "write the address of an instance, such as "+
			`"http://127.0.0.1:8888"`, "tools", "search", "baseURL")
	case s.Provider != "" && s.Provider != "searxng" && s.APIKey.Reveal() == "":
		k.addWarning(
			nodeAt(k.root, "tools", "search"),
			"has no apiKey, so there is no tool web_search",
			"set the key, or remove the entry",
		)
	}
	if file := k.c.Tools.Billing.File; file != "" {
		k.checkWith(
			k.checks.Tariff,
			file,
			"name a tariff file such as deploy/tariffs/tnb-domestic-a.json, or nothing to turn the tools off",
			"tools", "billing", "file",
		)
	}
}

// checkFileRoots checks that each folder has a name of its own, and warns of those that do not exist or hold what
// nobody should read.
func (k checker) checkFileRoots() {
	names := map[string]bool{}
	for i, r := range k.c.Tools.Files.Roots {
		path := []any{"tools", "files", "roots", i}
		switch {
		case r.Path == "":
			continue // reported already
		case r.Name == "." || r.Name == ".." || strings.ContainsAny(r.Name, `/\*?[`):
			k.report(quote(r.Name)+" cannot begin a path", `give it a name: {"path": "…", "name": "docs"}`, path...)
		case names[r.Name]:
			k.report(
				"another root is called "+quote(r.Name)+" too",
				`give it a name of its own: {"path": "…", "name": "docs"}`,
				path...)
		}
		names[r.Name] = true
		if info, err := os.Stat(r.Path); err != nil || !info.IsDir() {
			k.addWarning(nodeAt(k.root, path...), "there is no such folder", "create it, or remove the root")
		}
		// The files tools leave the bot's own files out; MCP servers that are told of the root do not.
		for _, held := range []struct{ what, in string }{
			{"the configuration and .env", k.dir},
			{"the store", filepath.Dir(k.c.StorePath())},
		} {
			if below, err := filepath.Rel(r.Path, held.in); err == nil && filepath.IsLocal(below) {
				k.addWarning(
					nodeAt(k.root, path...),
					"holds "+held.what+": the files tools leave them out, MCP servers that work in this folder may not",
					"name a folder that holds neither configuration nor store",
				)
			}
		}
	}
}

// checkPrivateHosts checks a list of private hosts at a path.
func (k checker) checkPrivateHosts(hosts []string, path ...any) {
	for i, host := range hosts {
		// egress decides what it accepts, so the check is its own.
		if at := append(slices.Clone(path), i); egress.CheckAllowedHost(host) != nil {
			k.report(
				k.quote(host, at...)+" is neither a host nor a network",
				"write it like 10.0.0.5, 10.0.0.0/8, nas.local or nas.local:8080",
				at...)
		}
	}
}

// parseHTTPURL returns false for anything but an http or https address with a host.
func parseHTTPURL(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false
	}
	return u, true
}

// splitAddress splits platform:workspace/channel[/thread] into its parts, three or four of them; the workspace may be
// empty. The error says what is wrong with it, and does not quote it.
func splitAddress(address string) ([]string, error) {
	platform, rest, ok := strings.Cut(address, ":")
	parts := append([]string{platform}, strings.Split(rest, "/")...)
	switch {
	case !ok || platform == "":
		return nil, errors.New("no platform before a colon")
	case strings.ContainsAny(address, " \t\r\n"):
		return nil, errors.New("it contains a space")
	case len(parts) < 3:
		return nil, errors.New("no channel after a slash")
	case len(parts) > 4:
		return nil, errors.New("more parts than platform:workspace/channel/thread")
	case (platform == "slack" || platform == "discord") && strings.HasPrefix(parts[2], "#"):
		return nil, errors.New("a channel is named by its id, which the platform shows in the channel's details")
	case slices.Contains(parts[2:], ""):
		return nil, errors.New("an empty channel or thread")
	}
	return parts, nil
}
