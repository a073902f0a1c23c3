package config

import (
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
	"time"
)

// at finds a value by names and indices. What the file leaves out stands, under its own key, where its parent does.
func at(root *node, path ...any) *node {
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
		if child == nil {
			child = &node{offset: n.offset, path: key}
		}
		n = child
	}
	return n
}

// checker looks at what fits together, once every value is known by itself.
type checker struct {
	*decoder
	c      *Config
	root   *node
	checks Checks
}

func (d *decoder) check(c *Config, root *node, checks Checks) {
	k := checker{d, c, root, checks}
	k.http()
	k.discord()
	k.slack()
	k.models()
	k.budget()
	k.agents()
	k.channels()
	k.digests()
	k.tools()
	k.private(c.Feeds.AllowPrivateHosts, "feeds", "allowPrivateHosts")
	k.private(c.Egress.AllowPrivateHosts, "egress", "allowPrivateHosts")
	for name, s := range c.MCPServers {
		k.private(s.Egress.AllowPrivateHosts, "mcpServers", name, "egress", "allowPrivateHosts")
	}
}

// bad reports a fault at a path, unless something is known to be wrong there already.
func (k checker) bad(reason, remedy string, path ...any) {
	if n := at(k.root, path...); !k.faulty(n.path) {
		k.fault(n, reason, remedy)
	}
}

// quote names a value in a reason, by its variable where it came out of one.
func (k checker) quote(value string, path ...any) string {
	n := at(k.root, path...)
	if n.kind == '{' {
		n = at(n, "name")
	}
	if strings.Contains(n.text, "${") {
		return quote(n.text)
	}
	return quote(value)
}

func (k checker) http() {
	listen := k.c.HTTP.Listen
	host, port, err := net.SplitHostPort(listen)
	if number, e := strconv.Atoi(port); err != nil || e != nil || number < 0 || number > 65535 {
		k.bad("not an address with a port", `write it like "127.0.0.1:8080"`, "http", "listen")
		return
	}
	if !loopback(host) && k.c.HTTP.AdminToken == "" && !k.faulty("http.adminToken") {
		k.bad("other machines can reach this address, and there is no adminToken",
			"set RAVENBOT_ADMIN_TOKEN in .env, or listen on 127.0.0.1", "http", "listen")
	}
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

func (k checker) discord() {
	if strings.HasPrefix(strings.ToLower(k.c.Platforms.Discord.Token.Reveal()), "bot ") {
		k.bad("starts with the word Bot, which is not part of it", "give the token alone", "platforms", "discord", "token")
	}
}

func (k checker) slack() {
	s := k.c.Platforms.Slack
	bad := func(name, reason, remedy string) { k.bad(reason, remedy, "platforms", "slack", name) }
	if strings.HasPrefix(s.BotToken.Reveal(), "xapp-") {
		bad("botToken", "holds an app-level token (xapp-…)", "give the bot token (xoxb-…) of the page OAuth & Permissions")
	}
	if strings.HasPrefix(s.AppToken.Reveal(), "xoxb-") {
		bad("appToken", "holds a bot token (xoxb-…)", "give the app-level token (xapp-…) of the page Basic Information")
	}
	switch {
	case s.BotToken == "" && s.AppToken != "":
		k.warn(at(k.root, "platforms", "slack", "botToken"), "empty, so Slack is off although appToken is set", "set SLACK_BOT_TOKEN in .env")
	case s.BotToken == "":
	case s.Mode == "socket" && s.AppToken == "":
		bad("appToken", `missing, and mode "socket" needs it`, "set SLACK_APP_TOKEN in .env (xapp-…, scope connections:write)")
	case s.Mode == "http" && s.SigningSecret == "":
		bad("signingSecret", `missing, and mode "http" needs it to know Slack's requests`, "set SLACK_SIGNING_SECRET in .env (page Basic Information)")
	}
}

func (k checker) models() {
	for _, name := range slices.Sorted(maps.Keys(k.c.Models)) {
		m := k.c.Models[name]
		if m.Model == "" && (m.Provider == "openai" || m.Provider == "gemini") {
			k.bad("missing or empty", "name one of the provider's models", "models", name, "model")
		}
		for i, next := range m.Fallback {
			named(k, "model", next, k.c.Models, "models", name, "fallback", i)
		}
		if cycle := k.cycle(name); cycle != "" {
			k.bad("leads back to itself: "+cycle, "end the chain with offline", "models", name, "fallback")
		}
		if m.KeyMissing && len(m.Fallback) == 0 {
			k.warn(at(k.root, "models", name), "has no apiKey and no fallback, so the offline model answers", `set the key in .env, or write "fallback": ["offline"]`)
		}
	}
	if models := k.root.get("models"); models != nil && len(models.members) > 0 && models.get("default") == nil {
		k.warn(models, "has no default, so the offline model answers where none is named", `name one of them "default"`)
	}
}

// budget warns where a cap cannot be kept, for want of a price.
func (k checker) budget() {
	b := k.c.Budget
	if b.InstanceDailyUSD+b.ChannelDailyUSD+b.UserDailyUSD+b.DigestDailyUSD == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(k.c.Models)) {
		if m := k.c.Models[name]; m.Provider != "offline" && m.Price == (Price{}) {
			k.warn(at(k.root, "models", name), "has no price, so what it costs counts for no budget", `write "price": {"inputPerM": …, "outputPerM": …}, in US dollars per million tokens`)
		}
	}
}

// cycle returns the way from a model back to itself along fallbacks, or "".
func (k checker) cycle(start string) string {
	seen := make(map[string]bool)
	var walk func(name, way string) string
	walk = func(name, way string) string {
		for _, next := range k.c.Models[name].Fallback {
			if next == start {
				return way + " → " + next
			}
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

// named reports a name that is no key of the map.
func named[T any](k checker, what, name string, names map[string]T, path ...any) {
	if _, ok := names[name]; !ok {
		k.bad("there is no "+what+" "+k.quote(name, path...), didYouMean(name, slices.Collect(maps.Keys(names))), path...)
	}
}

func (k checker) agents() {
	if _, ok := k.c.Agents["default"]; !ok {
		k.bad("missing", `name one of the agents "default"`, "agents", "default")
	}
	for name, a := range k.c.Agents {
		k.agent(a, k.c.MCPServers, "agents", name)
	}
}

// agent looks at one agent, which stands at a path.
func (k checker) agent(a Agent, servers map[string]MCPServer, path ...any) {
	within := func(steps ...any) []any { return slices.Concat(path, steps) }
	named(k, "model", a.Model, k.c.Models, within("model")...)
	if a.UtilityModel != "" {
		named(k, "model", a.UtilityModel, k.c.Models, within("utilityModel")...)
	}
	for i, link := range a.MCPServers {
		named(k, "MCP server", link.Name, servers, within("mcpServers", i)...)
	}
	for i, file := range a.Knowledge {
		if _, err := os.Stat(file); err != nil {
			k.warn(at(k.root, within("knowledge", i)...), "there is no such file or folder", "make it, or remove the name")
		}
	}
	for i, match := range a.Channels {
		k.match(match, within("channels", i)...)
	}
	if n := a.Limits.MaxResultBytes; n > 0 && n < leastResult {
		k.bad(fmt.Sprintf("is %d, less than the least, %d", n, leastResult), "write 0 for what tools.maxResultBytes says", within("limits", "maxResultBytes")...)
	}
}

// leastResult is the least that tools.maxResultBytes may be.
const leastResult = 256

// match looks at a pattern for channels.
func (k checker) match(pattern string, path ...any) {
	if _, err := splitAddress(pattern); err != nil {
		k.bad(k.quote(pattern, path...)+": "+err.Error(), `write it like "slack:TEAM/CHANNEL", with * for any: "*:*/*" is everywhere`, path...)
	}
}

func (k checker) channels() {
	for i, ch := range k.c.Channels {
		named(k, "agent", ch.Agent, k.c.Agents, "channels", i, "agent")
		k.match(ch.Match, "channels", i, "match")
	}
}

func (k checker) digests() {
	for name, g := range k.c.Digests {
		named(k, "agent", g.Agent, k.c.Agents, "digests", name, "agent")
		k.schedule(g, name)
		k.taskless(g, name)
		for i, feed := range g.Feeds {
			k.feed(feed.URL.Reveal(), "digests", name, "feeds", i)
		}
		for i, address := range g.Post {
			k.post(address, "digests", name, "post", i)
		}
		for i, f := range g.Filters {
			k.passes(k.checks.Filter, f, "write a word, -word, /expression/, -/expression/ or mute:WORD until 2026-12-24", "digests", name, "filters", i)
		}
		if g.Template != "" {
			k.passes(k.checks.Template, g.Template, "write a Go text/template over .Name, .Count, .Summary, .Items and .LeftOut", "digests", name, "template")
		}
	}
}

// passes has another package judge a value.
func (k checker) passes(judge func(string) error, value, remedy string, path ...any) {
	if judge == nil {
		return
	}
	if err := judge(value); err != nil {
		k.judged(err, value, remedy, path...)
	}
}

// onNew is the schedule of a digest that posts items as they come.
const onNew = "on-new"

// taskless reports a digest that has nothing to do.
func (k checker) taskless(g Digest, name string) {
	switch {
	case len(g.Feeds) > 0:
	case g.Prompt == "":
		k.bad("missing or empty, and there is no prompt either", "name feeds, or give a prompt as the agent's task", "digests", name, "feeds")
	case g.Schedule == onNew:
		k.bad("on-new needs feeds", "name feeds, or write when the task is due", "digests", name, "schedule")
	}
}

func (k checker) schedule(g Digest, name string) {
	if _, err := time.LoadLocation(g.Timezone); err != nil {
		k.bad(k.quote(g.Timezone, "digests", name, "timezone")+" is no time zone", "write an IANA name such as Europe/Oslo or UTC", "digests", name, "timezone")
		g.Timezone = "UTC" // the expression is wrong or right in any zone
	}
	if k.checks.Schedule == nil || g.Schedule == "" || g.Schedule == onNew {
		return
	}
	if err := k.checks.Schedule(g.Schedule, g.Timezone); err != nil {
		k.judged(err, g.Schedule, "write weekdays at 8:30, or minute hour day month weekday, such as 30 8 * * 1-5", "digests", name, "schedule")
	}
}

// judged reports another package's verdict; a value that came out of a variable is named as it was written.
func (k checker) judged(err error, value, remedy string, path ...any) {
	reason := err.Error()
	if n := at(k.root, path...); value != "" && strings.Contains(n.text, "${") {
		reason = strings.ReplaceAll(reason, value, n.text)
	}
	k.bad(reason, remedy, path...)
}

func (k checker) feed(feed string, path ...any) {
	name, bundled := strings.CutPrefix(feed, "bundled:")
	if !bundled {
		if _, ok := httpURL(feed); !ok {
			k.bad("not an http:// or https:// address", "write the feed's address, or bundled:NAME", path...)
		}
		return
	}
	if k.checks.Bundled != nil {
		if err := k.checks.Bundled(name); err != nil {
			k.judged(err, name, "write the name of a bundled feed, or a feed's address", path...)
		}
	}
}

func (k checker) post(address string, path ...any) {
	const remedy = "write it like discord:GUILD/CHANNEL, slack:TEAM/CHANNEL or web:/general"
	parts, err := splitAddress(address)
	if err == nil && k.checks.Address != nil {
		err = k.checks.Address(address)
	}
	if err != nil {
		k.judged(fmt.Errorf("%s: %w", k.quote(address, path...), err), address, remedy, path...)
		return
	}
	off := parts[0] == "discord" && !k.c.DiscordEnabled() || parts[0] == "slack" && !k.c.SlackEnabled() ||
		parts[0] == "web" && !k.c.Platforms.Web.Enabled
	if off {
		k.warn(at(k.root, path...), parts[0]+" is off, so nothing is posted there", "turn the platform on, or remove the address")
	}
}

func (k checker) tools() {
	if name := k.c.Tools.Discovery.Embeddings; name != "" {
		path := []any{"tools", "discovery", "embeddings"}
		named(k, "model", name, k.c.Models, path...)
		if m, ok := k.c.Models[name]; ok && m.Provider == "offline" {
			k.bad("the offline model gives no embeddings", "name a model of Gemini or of an OpenAI-compatible endpoint, or nothing", path...)
		}
	}
	for i, h := range k.c.Tools.Hooks {
		if len(h.Command) > 0 && h.Command[0].Reveal() == "" {
			k.bad("an empty program", "name the program to run", "tools", "hooks", i, "command")
		}
	}
	k.roots()
	if file := k.c.Tools.Billing.File; file != "" && k.checks.Tariff != nil {
		if err := k.checks.Tariff(file); err != nil {
			k.judged(err, file, "name a tariff file such as deploy/tariffs/tnb-domestic-a.json, or nothing to turn the tools off", "tools", "billing", "file")
		}
	}
}

func (k checker) roots() {
	names := map[string]bool{}
	for i, r := range k.c.Tools.Files.Roots {
		path := []any{"tools", "files", "roots", i}
		switch {
		case r.Path == "":
			continue // told already
		case r.Name == "." || r.Name == ".." || strings.ContainsAny(r.Name, `/\*?[`):
			k.bad(quote(r.Name)+" cannot begin a path", `give it a name: {"path": "…", "name": "docs"}`, path...)
		case names[r.Name]:
			k.bad("another root is called "+quote(r.Name)+" too", `give it a name of its own: {"path": "…", "name": "docs"}`, path...)
		}
		names[r.Name] = true
		if info, err := os.Stat(r.Path); err != nil || !info.IsDir() {
			k.warn(at(k.root, path...), "there is no such folder", "make it, or remove the root")
		}
		for _, held := range []struct{ what, in string }{{"the keys in .env", k.dir}, {"all conversations", filepath.Dir(k.c.Store.Reveal())}} {
			if below, err := filepath.Rel(r.Path, held.in); err == nil && filepath.IsLocal(below) {
				k.warn(at(k.root, path...), "whoever may use the files tools can reach "+held.what, "name a folder that holds neither configuration nor store")
			}
		}
	}
}

func (k checker) private(hosts []string, path ...any) {
	for i, host := range hosts {
		if at := append(slices.Clone(path), i); !privateHost(host) {
			k.bad(k.quote(host, at...)+" is neither a host nor a network", "write it like 10.0.0.5, 10.0.0.0/8, nas.local or nas.local:8080", at...)
		}
	}
}

// privateHost accepts a host, an IP address or a CIDR, each with an optional port. IPv6 with a port stands in brackets.
func privateHost(s string) bool {
	if _, err := netip.ParsePrefix(s); err == nil {
		return true
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	host, port, found := cutPort(s)
	if found {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return false
		}
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParsePrefix(host); err == nil {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && len(host) <= 253 && !strings.ContainsFunc(host, func(r rune) bool {
		return !(r == '.' || r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	})
}

func cutPort(s string) (host, port string, found bool) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 || strings.HasSuffix(s, "]") {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

func httpURL(s string) (*url.URL, bool) {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, false
	}
	return u, true
}

// splitAddress takes platform:workspace/channel[/thread] apart.
func splitAddress(address string) ([]string, error) {
	platform, rest, ok := strings.Cut(address, ":")
	parts := append([]string{platform}, strings.Split(rest, "/")...)
	switch {
	case !ok || platform == "":
		return nil, errors.New("no platform before a colon")
	case strings.ContainsAny(address, " \t\r\n"):
		return nil, errors.New("a blank in it")
	case len(parts) < 3:
		return nil, errors.New("no channel behind a slash")
	case len(parts) > 4:
		return nil, errors.New("more parts than platform:workspace/channel/thread")
	case slices.Contains(parts[2:], ""):
		return nil, errors.New("an empty channel or thread")
	}
	return parts, nil
}
