package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ravenbot/adapters/discord"
	"ravenbot/adapters/email"
	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/text"
	"ravenbot/internal/mcp"
	"ravenbot/internal/model/breaker"
	"ravenbot/internal/model/provider"
	"ravenbot/internal/model/toolschema"
	"ravenbot/internal/ops/admin"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
	"ravenbot/internal/store/bolt"
	"ravenbot/internal/store/postgres"
	"ravenbot/internal/store/storage"
	"ravenbot/internal/turn/schema"
)

// finding is the result of one check. Where OK is false, Cause says why, and Lost and Fix what follows from it.
type finding struct {
	Name  string `json:"name"`
	OK    bool   `json:"ok"`
	Cause string `json:"cause,omitempty"`
	Lost  string `json:"lost,omitempty"` // what does not work meanwhile
	Fix   string `json:"fix,omitempty"`
	// Notes are remarks on something that is in order.
	Notes []string `json:"notes,omitempty"`
}

// doctorTimeout bounds all checks together.
const doctorTimeout = 2 * time.Minute

// runDoctor checks everything that can be checked from outside. It fails when something is wrong.
func runDoctor(ctx context.Context, c *invocation) error {
	// Without a configuration nothing else can be checked.
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	list := []finding{{Name: "configuration " + c.config, OK: true}}
	list = append(list, diagnoseStore(ctx, cfg), diagnoseListen(ctx, cfg), diagnoseDaemon(ctx, cfg), c.diagnoseTimeZone(),
		diagnoseProcess(), diagnoseIsolation(cfg), diagnoseExposure(cfg))
	if isContainer() {
		list = append(list, diagnoseContainer(cfg))
	}
	for _, f := range provider.CheckAll(ctx, cfg) {
		list = append(list, finding{
			Name:  "model " + f.Model,
			OK:    f.Err == nil,
			Cause: errorText(f.Err),
			Lost:  "answers of that model",
			Fix:   "look at its key, its name and its address under models in the configuration",
		})
	}
	list = append(list, diagnoseKeys(cfg)...)
	list = append(list, diagnosePlatforms(ctx, cfg)...)
	list = append(list, diagnoseMail(ctx, cfg)...)
	list = append(list, diagnoseServers(ctx, cfg)...)
	list = append(list, diagnoseSchemas(ctx, cfg)...)
	list = append(list, diagnoseFeeds(ctx, cfg)...)
	return c.printFindings(list)
}

// errorText returns the text of err, or "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// diagnoseKeys names the models that have no key, which are not asked.
func diagnoseKeys(cfg *config.Config) []finding {
	var list []finding
	for _, name := range slices.Sorted(maps.Keys(cfg.Models)) {
		if !cfg.Models[name].KeyMissing {
			continue
		}
		list = append(list, finding{Name: "model " + name, OK: true, Notes: []string{"it has no key, so the model " +
			cfg.ModelChain(name)[0] + " answers in its place; set the variable of its apiKey in .env"}})
	}
	return list
}

// diagnoseStore reads the whole store, unless a daemon has it open.
func diagnoseStore(ctx context.Context, cfg *config.Config) finding {
	if cfg.UsesPostgres() {
		return diagnoseDatabase(ctx, cfg)
	}
	path := cfg.Store.Reveal()
	_, err := bolt.Check(ctx, path)
	var inUse *store.InUseError
	switch {
	case errors.As(err, &inUse):
		if _, err := findOwnDaemon(ctx, cfg); errors.Is(err, errNoDaemon) {
			return finding{
				Name:  "store " + path,
				Cause: inUse.Error(),
				Lost:  "everything: the bot does not start",
				Fix:   "stop the other process; if it is a ravenbot, it has another http.listen than this configuration",
			}
		}
		// A running daemon watches over its store.
		return finding{Name: "store " + path + " (in use by a running daemon)", OK: true}
	// The first run creates the store.
	case errors.Is(err, fs.ErrNotExist):
		f := finding{Name: "store " + path + " (not created yet)", OK: true}
		if err := diagnoseFolder(path); err != nil {
			f.OK, f.Cause, f.Lost = false, "it cannot be made: "+err.Error(), "everything: the bot does not start"
			f.Fix = "name another path as store, give this user the right to write there, or free space on the disk"
		}
		return f
	case err != nil:
		err = bolt.SuggestBackup(ctx, cfg.BackupFolder(), err)
		f := finding{Name: "store " + path, Cause: err.Error(), Lost: "everything: the bot does not start",
			Fix: "what the error says"}
		if _, ok := errors.AsType[*store.DamagedError](err); ok {
			f.Fix += "; ravenbot restore FILE puts a backup in its place, and ravenbot store salvage FROM TO copies what can " +
				"be read of it"
		}
		return f
	}
	if err := diagnoseFolder(path); err != nil {
		return finding{
			Name:  "store " + path,
			Cause: "it cannot be written: " + err.Error(),
			Lost:  "everything: the bot does not start",
			Fix: "give this user the right to write the file and its folder, and see that the file system is not read-only " +
				"and has room",
		}
	}
	if err := diagnoseBeside(cfg); err != nil {
		return finding{
			Name:  "store " + path,
			Cause: "a file next to it cannot be used: " + err.Error(),
			Lost:  "everything: the bot does not start",
			Fix:   "what the error says; the user that the bot runs as has to own the store and the files next to it",
		}
	}
	return finding{Name: "store " + path, OK: true}
}

// diagnoseDatabase looks at the database, and changes nothing: a newer format of its tables would stop the replicas of
// an older version.
func diagnoseDatabase(ctx context.Context, cfg *config.Config) finding {
	f := finding{Name: "store " + postgres.DisplayName(cfg.Store.Reveal())}
	remark, err := storage.CheckShared(ctx, cfg)
	if err != nil {
		f.Cause, f.Lost = err.Error(), "everything: the bot does not start"
		f.Fix = "look at the address of the store, the rights of its user, the key for secrets, and whether the server runs"
		_, isNewer := errors.AsType[*store.NewerError](err)
		if _, isDamaged := errors.AsType[*store.DamagedError](err); isNewer || isDamaged {
			f.Fix = "what the error says"
		}
		return f
	}
	if f.OK = true; remark != "" {
		f.Notes = []string{remark}
	}
	return f
}

// diagnoseDaemon asks the running daemon whether its platforms are connected, and which models it does not ask.
func diagnoseDaemon(ctx context.Context, cfg *config.Config) finding {
	d, err := findOwnDaemon(ctx, cfg)
	if errors.Is(err, errNoDaemon) {
		return finding{Name: "daemon (none is running here)", OK: true}
	}
	if err != nil {
		return finding{Name: "daemon", Cause: err.Error(), Lost: "what needs the running bot", Fix: "what the error says"}
	}
	err = d.checkReady(ctx, "")
	f := finding{
		Name:  "daemon",
		OK:    err == nil,
		Cause: errorText(err),
		Lost:  "messages in that channel until then",
		Fix:   "its log has the reason",
	}
	var status struct {
		ModelCircuits        []breaker.Status    `json:"modelCircuits"`
		RefusedTools         []admin.RefusedTool `json:"refusedTools"`
		ConfigurationDiffers []string            `json:"configurationDiffers"`
	}
	if err == nil && d.requestJSON(ctx, http.MethodGet, "/api/v1/status", nil, &status) == nil {
		for _, c := range status.ModelCircuits {
			if c.State != breaker.Closed {
				f.Notes = append(f.Notes, fmt.Sprintf("model %s failed repeatedly and is tried again at %s: %s",
					c.Name, c.Until.Local().Format(time.TimeOnly), c.Error))
			}
		}
		for _, t := range status.RefusedTools {
			of := ""
			if t.Server != "" {
				of = " of MCP server " + t.Server
			}
			f.Notes = append(f.Notes, fmt.Sprintf("the endpoint of model %s refuses the tool %s%s, so it is left out: %s",
				t.Model, t.Tool, of, t.Reason))
		}
		if keys := status.ConfigurationDiffers; len(keys) > 0 {
			f.Notes = append(f.Notes, "config.json differs between the replicas, which then do different things: give all the "+
				"same values of "+strings.Join(keys, ", "))
		}
	}
	return f
}

// diagnoseIsolation says what keeps the processes of MCP servers from the bot on this machine.
func diagnoseIsolation(cfg *config.Config) finding {
	f := finding{Name: "isolation of MCP servers (mcp.isolation: " + cfg.MCP.Isolation + ")", OK: true}
	for _, note := range mcp.TryIsolation(cfg) {
		f.Notes = append(f.Notes, "a server "+note)
	}
	return f
}

// diagnoseMail connects to the mail server and signs in, where one is named. No mail is sent.
func diagnoseMail(ctx context.Context, cfg *config.Config) []finding {
	c := cfg.SMTP
	if c.Host == "" {
		return nil
	}
	err := email.New(email.Options{Host: c.Host, Port: c.Port, User: c.User, Password: c.Password.Reveal(),
		TLS: c.TLS}).Check(ctx)
	return []finding{{
		Name:  fmt.Sprintf("mail server %s:%d", c.Host, c.Port),
		OK:    err == nil,
		Cause: errorText(err),
		Lost:  "digests by mail",
		Fix:   "look at host, port, tls, user and password under smtp in the configuration",
	}}
}

// diagnosePlatforms checks tokens and permissions with live calls to the platforms.
func diagnosePlatforms(ctx context.Context, cfg *config.Config) []finding {
	// The findings say what failed; the log of the adapters would say it twice.
	quiet := slog.New(slog.DiscardHandler)
	var list []finding
	if d := cfg.Platforms.Discord; cfg.DiscordEnabled() {
		platform := discord.New(discord.Options{
			Token:      d.Token.Reveal(),
			APIBaseURL: d.APIBaseURL.Reveal(),
			Log:        quiet,
			// What a channel needs in which the bot answers all.
			MessageContent: cfg.AnswersAll("discord"),
		})
		found := platform.Check(ctx)
		list = append(list, diagnoseTags(ctx, cfg, platform)...)
		for _, f := range found {
			list = append(list,
				finding{Name: "Discord, " + f.Where, Cause: f.Problem, Lost: f.Loses, Fix: f.Remedy})
		}
		if len(found) == 0 {
			list = append(list, finding{Name: "Discord", OK: true})
		}
	}
	if s := cfg.Platforms.Slack; cfg.SlackEnabled() {
		found := slack.New(slack.Options{
			BotToken:      s.BotToken.Reveal(),
			AppToken:      s.AppToken.Reveal(),
			SigningSecret: s.SigningSecret.Reveal(),
			Mode:          s.Mode,
			APIBaseURL:    s.APIBaseURL.Reveal(),
			Log:           quiet,
			Now:           time.Now,
		}).Check(ctx)
		for _, f := range found {
			list = append(list, finding{Name: "Slack", Cause: f.Problem, Lost: f.Lost, Fix: f.Remedy})
		}
		if len(found) == 0 {
			list = append(list, finding{Name: "Slack", OK: true})
		}
	}
	return list
}

// diagnoseTags checks whether the posts of digests can be made in their channels: forums may want tags, and have
// others.
func diagnoseTags(ctx context.Context, cfg *config.Config, platform chat.PlaceChecker) []finding {
	var list []finding
	for _, name := range slices.Sorted(maps.Keys(cfg.Digests)) {
		for _, post := range cfg.Digests[name].Post {
			to, err := chat.ParseAddress(post)
			if err != nil || to.Platform != "discord" {
				continue
			}
			var fault *chat.SetupError
			if err := platform.CheckPost(ctx, to, cfg.Digests[name].Tags); errors.As(err, &fault) {
				list = append(list, finding{Name: "Digest " + name, Cause: fault.Reason, Lost: "its posts to " + post,
					Fix: fault.Remedy})
			}
		}
	}
	return list
}

// diagnoseServers checks the MCP servers: their state in the running daemon, or else whether they start and answer.
func diagnoseServers(ctx context.Context, cfg *config.Config) []finding {
	list := []finding{}
	if served, ok := loadServers(ctx, cfg); ok {
		for _, s := range served {
			f := diagnoseServer(s)
			f.Notes = append(f.Notes, noteAlwaysAllowed(cfg.MCPServers[s.Name].AlwaysAllow, s.Tools)...)
			list = append(list, f)
		}
	} else {
		list = probe(cfg.EnabledServers(), func(name string) finding {
			return diagnoseConfiguredServer(ctx, name, cfg.MCPServers[name])
		})
	}
	// The configuration is a map, and its order changes from run to run.
	slices.SortFunc(list, func(a, b finding) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// loadServers returns the MCP servers of the running daemon, and false when none answers.
func loadServers(ctx context.Context, cfg *config.Config) ([]mcp.Status, bool) {
	d, err := findOwnDaemon(ctx, cfg)
	if err != nil {
		return nil, false
	}
	servers, err := requestList[mcp.Status](ctx, d, serversPath)
	return servers, err == nil
}

// diagnoseServer returns the finding for a server of the running daemon.
func diagnoseServer(s mcp.Status) finding {
	f := finding{Name: "MCP server " + s.Name + " (" + string(s.State) + ")", OK: true, Lost: "its tools"}
	switch {
	// Its OAuth sign-in is open, whether it answers or not: nothing is wrong with its entry.
	case s.ConsentURL != "":
		f.OK, f.Cause, f.Fix = false, "somebody has to allow the bot to use it", "the page Servers has the link"
	case s.State == "error":
		f.OK, f.Cause, f.Fix = false, s.Error, "ravenbot mcp logs "+s.Name+" shows its output; correct its entry"
	case s.Pending > 0:
		f.OK, f.Lost = false, "these tools"
		f.Cause = fmt.Sprintf("%d of its tools have changed or were added, and wait for an approval", s.Pending)
		f.Fix = "the page Servers shows the difference; ravenbot mcp approve " + s.Name + " approves it"
	}
	return f
}

// declaredTool is what the API says of a tool, as far as its schema is looked at.
type declaredTool struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"inputSchema"`
}

// diagnoseSchemas lists the parts of tool schemas that Gemini cannot be given, for the MCP servers that the
// running daemon knows.
func diagnoseSchemas(ctx context.Context, cfg *config.Config) []finding {
	usesGemini := func(m config.Model) bool { return m.Provider == "gemini" && !m.KeyMissing }
	if !slices.ContainsFunc(slices.Collect(maps.Values(cfg.Models)), usesGemini) {
		return nil
	}
	d, err := findOwnDaemon(ctx, cfg)
	if err != nil {
		return nil // diagnoseDaemon reports it
	}
	servers, _ := loadServers(ctx, cfg)
	var list []finding
	for _, s := range servers {
		if len(s.Tools) == 0 {
			continue
		}
		tools, err := requestList[declaredTool](ctx, d, serversPath+"/"+url.PathEscape(s.Name)+"/tools")
		if err != nil {
			continue
		}
		f := finding{Name: fmt.Sprintf("schemas of MCP server %s, %d tools", s.Name, len(tools)), OK: true}
		for _, t := range tools {
			told := toolschema.Fit(toolschema.Gemini, t.Schema)
			if lost := schema.Losses(t.Schema, told); len(lost) > 0 {
				f.Notes = append(f.Notes,
					fmt.Sprintf("Gemini is not given %s, which is still checked: %s", t.Name, strings.Join(lost, "; ")))
			}
		}
		list = append(list, f)
	}
	return list
}

// printFindings prints what was found. It returns an error when any check failed.
func (c *invocation) printFindings(list []finding) error {
	wrong := 0
	for i, k := range list {
		if !k.OK {
			wrong++
		}
		// Whatever was looked at, what is wrong with it would be looked for in vain: these are the words of crypto/x509
		// and of egress.CertificateError.
		if strings.Contains(k.Cause, "certificate has expired or is not yet valid") ||
			strings.Contains(k.Cause, "the clock of this machine says") {
			list[i].Fix = "set the clock of this machine, which says " + time.Now().UTC().Format(time.RFC3339) +
				"; if it is right, the server needs a new certificate"
		}
	}
	var err error
	if wrong > 0 {
		err = fmt.Errorf("%d of %d checks failed", wrong, len(list))
	}
	if c.json {
		return errors.Join(writeJSON(c.Out, map[string]any{"items": list}), err)
	}
	for _, k := range list {
		if k.OK {
			fmt.Fprintf(c.Out, "ok    %s\n", k.Name)
			for _, note := range k.Notes {
				fmt.Fprintf(c.Out, "      note: %s\n", note)
			}
			continue
		}
		fmt.Fprintf(c.Out, "FAIL  %s: %s\n      lost: %s\n      fix: %s\n", k.Name, text.OneLine(k.Cause), k.Lost, k.Fix)
	}
	return err
}
