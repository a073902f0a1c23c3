package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ravenbot"
	"ravenbot/adapters/discord"
	"ravenbot/adapters/slack"
	"ravenbot/internal/core/chat"
	"ravenbot/internal/model/provider"
	"ravenbot/internal/ops/config"
)

func initFlags(c *invocation) {
	c.flags.Bool("yes", false,
		"ask nothing: take the keys of the environment and of .env, and change files that are there")
}

// The variables of .env that are asked for.
const (
	varGemini    = "GEMINI_API_KEY"
	varOpenAI    = "OPENAI_API_KEY"
	varAnthropic = "ANTHROPIC_API_KEY"
	varDiscord   = "DISCORD_TOKEN"
	varSlackBot  = "SLACK_BOT_TOKEN"
	varSlackApp  = "SLACK_APP_TOKEN"
)

// setup is one run of init. The files start as they are on disk, or as shipped, and change with each answer, in memory
// alone until writeFiles.
type setup struct {
	asker
	c              *invocation
	config, dotEnv setupFile
	cfg            *config.Config    // what config holds, with the answers
	answers        map[string]string // by variable
	application    string            // of Discord; "": Discord is left out
}

// setupFile is a file that init writes.
type setupFile struct {
	path string
	// before is what the file held at the start, or what is shipped; text is what it is to hold.
	before, text []byte
	exists       bool
}

// runInit asks, verifies and writes, in this order. When it is interrupted before the end, nothing was
// written.
func runInit(ctx context.Context, c *invocation) error {
	b := &setup{c: c, answers: map[string]string{}}
	b.asker = newAsker(ctx, c, c.flagOn("yes"))
	if err := b.readFiles(); err != nil {
		return err
	}
	fmt.Fprintf(c.Out,
		"This writes %s and %s. Press Enter to accept the value in [brackets]. Nothing is written before the last "+
			"question.\n\n",
		b.config.path, b.dotEnv.path)
	for _, ask := range []func(context.Context) error{b.askModel, b.askDiscord, b.askSlack} {
		if err := ask(ctx); err != nil {
			return b.explainEarlyEnd(err)
		}
	}
	if err := b.writeFiles(); err != nil {
		return b.explainEarlyEnd(err)
	}
	// Load what was written, as the next command will.
	if _, err := c.loadConfig(); err != nil {
		return err
	}
	b.printNextSteps()
	return nil
}

// explainEarlyEnd names the files that were not written when the input ended too early. It returns other
// errors as they are.
func (b *setup) explainEarlyEnd(err error) error {
	if errors.Is(err, errInputEnded) {
		return usageErrorf("the answers ended before the last question: nothing was written, "+
			"neither %s nor %s; --yes asks nothing",
			b.config.path, b.dotEnv.path)
	}
	return err
}

// readFiles reads the files that exist.
func (b *setup) readFiles() (err error) {
	path := b.c.config
	if b.config, err = readFileOr(path, ravenbot.Config); err != nil {
		return err
	}
	if b.dotEnv, err = readFileOr(filepath.Join(filepath.Dir(path), ".env"), ravenbot.Variables); err != nil {
		return err
	}
	if _, err := config.ParseEnvFile(b.dotEnv.text); err != nil {
		return usageErrorf("%s: %v: correct it, or move it away", b.dotEnv.path, err)
	}
	schema := filepath.Join(filepath.Dir(path), "deploy", "config.schema.json")
	if _, err := os.Stat(schema); err != nil && !b.config.exists {
		return b.applyChanges(config.Change{Path: []string{"$schema"}}) // it names that file
	}
	return b.applyChanges()
}

// readFileOr reads a file, or returns the shipped text when there is none.
func readFileOr(path string, shipped []byte) (setupFile, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return setupFile{}, usageErrorf("there is no folder %s", filepath.Dir(path))
		}
		return setupFile{path: path, text: shipped}, nil
	}
	return setupFile{path, text, text, true}, err
}

// applyChanges changes the configuration and parses it as the bot would, with the answers so far.
func (b *setup) applyChanges(changes ...config.Change) error {
	text, err := config.Edit(b.config.text, changes...)
	if err != nil {
		return usageErrorf("%s: %v: correct it, or move it away", b.config.path, err)
	}
	b.config.text = text
	b.cfg, err = config.Parse(text, b.config.path, config.Options{Env: b.lookupVariable, Checks: configChecks()})
	return err
}

// lookupVariable returns the value that a variable will have. The variables that init asks for always count
// as set, so that a configuration that requires them can be parsed before the answers.
func (b *setup) lookupVariable(name string) (string, bool) {
	if value, ok := b.answers[name]; ok {
		return value, true
	}
	if value := b.currentValue(name); value != "" {
		return value, true
	}
	return "", slices.Contains([]string{varGemini, varAnthropic, varOpenAI, varDiscord, varSlackBot, varSlackApp}, name)
}

// currentValue returns the value of a variable before init: from the environment, or else from .env.
func (b *setup) currentValue(name string) string {
	if value, ok := b.c.Env(name); ok {
		return value
	}
	vars, err := config.ParseEnvFile(b.dotEnv.before)
	if err != nil {
		return "" // readFiles reported it
	}
	return vars[name]
}

// addReferences makes values of the configuration refer to variables, where they do not yet.
func (b *setup) addReferences(all ...reference) error {
	var changes []config.Change
	for _, r := range all {
		written := config.RawString(b.config.text, r.path...)
		if written != "${"+r.variable+"}" && written != "${env:"+r.variable+"}" &&
			!strings.HasPrefix(written, "${"+r.variable+":-") {
			changes = append(changes, config.Change{Path: r.path, Value: "${" + r.variable + ":-}"})
		}
	}
	return b.applyChanges(changes...)
}

// reference is a variable and the path of the value that refers to it.
type reference struct {
	variable string
	path     []string
}

// askKey asks for the value of a variable. An empty answer stands for the value that is set, and "-" removes it.
func (b *setup) askKey(question, variable string) (string, error) {
	set := b.currentValue(variable)
	key, err := b.askSecret(question, set)
	if err == nil && key == "" && set != "" {
		b.answers[variable] = ""
	}
	return key, err
}

// keepModel is the answer that keeps the model that is configured.
const keepModel = "keep"

// askModel asks which language model to use.
func (b *setup) askModel(ctx context.Context) error {
	kinds, preset := []string{"gemini", "anthropic", "openai", "offline"}, "gemini"
	question := "Language model: gemini, anthropic, openai (any address that speaks OpenAI's chat API) or offline (none)"
	// The shipped configuration uses Gemini, so only another provider was chosen by a person.
	if p := b.cfg.Models["default"].Provider; b.config.exists && (p == "openai" || p == "anthropic") {
		kinds, question, preset = append(kinds, keepModel), question+", or keep what is configured", keepModel
	}
	return b.askThrice("the language model", func() error {
		kind, err := b.ask(question, preset)
		switch {
		case err != nil:
			return err
		case !slices.Contains(kinds, kind):
			return unusablef("choose one of "+strings.Join(kinds, ", "), "there is no %q", kind)
		}
		switch kind {
		case "gemini":
			return b.askGemini(ctx)
		case "anthropic":
			return b.askAnthropic(ctx)
		case "openai":
			return b.askOpenAI(ctx)
		case "offline":
			if m := b.cfg.Models["default"]; m.Provider != "offline" && !m.KeyMissing {
				return b.applyChanges(config.Change{Path: []string{"models", "default"}, Value: modelEntry{Provider: "offline"}})
			}
		}
		return nil
	})
}

// modelEntry is an entry of models in config.json.
type modelEntry struct {
	Provider string   `json:"provider"`
	BaseURL  string   `json:"baseURL,omitempty"`
	Model    string   `json:"model,omitempty"`
	APIKey   string   `json:"apiKey,omitempty"`
	Fallback []string `json:"fallback,omitempty"`
}

// askGemini asks for a key and makes the default model one of Gemini's. Where no key is named, the configured model
// stays.
func (b *setup) askGemini(ctx context.Context) error {
	return b.askThrice("the key for Gemini", func() error {
		key, err := b.askKey("Gemini API key, from https://aistudio.google.com/apikey", varGemini)
		if err != nil || key == "" {
			return err
		}
		b.answers[varGemini] = key
		if b.cfg.Models["default"].Provider != "gemini" {
			err = b.applyChanges(config.Change{Path: []string{"models", "default"},
				Value: modelEntry{
					Provider: "gemini",
					Model:    "gemini-3.8-flash",
					APIKey:   "${" + varGemini + ":-}",
					Fallback: []string{"offline"},
				}})
		} else {
			err = b.addReferences(reference{varGemini, []string{"models", "default", "apiKey"}})
		}
		if err != nil {
			return err
		}
		if err = b.verifyModel(ctx); err != nil {
			delete(b.answers, varGemini)
		}
		return err
	})
}

// askAnthropic asks for a key and a model's name, and makes that the default model. Where no key is named, the
// configured model stays.
func (b *setup) askAnthropic(ctx context.Context) error {
	return b.askThrice("the key for Anthropic", func() error {
		key, err := b.askKey("Anthropic API key, from https://console.anthropic.com/settings/keys", varAnthropic)
		if err != nil || key == "" {
			return err
		}
		name, err := b.ask("Name of the model", "claude-sonnet-5-5")
		if err != nil {
			return err
		}
		b.answers[varAnthropic] = key
		m := modelEntry{
			Provider: "anthropic",
			Model:    name,
			APIKey:   "${" + varAnthropic + ":-}",
			Fallback: []string{"offline"},
		}
		if err := b.applyChanges(config.Change{Path: []string{"models", "default"}, Value: m}); err != nil {
			return err
		}
		if err = b.verifyModel(ctx); err != nil {
			delete(b.answers, varAnthropic)
		}
		return err
	})
}

// askOpenAI asks for address, model and key, and makes that the default model. A key is optional, since servers on the
// same machine often need none. Address and name that were tried are the defaults of the next attempt.
func (b *setup) askOpenAI(ctx context.Context) error {
	base, name := "https://api.openai.com/v1", ""
	return b.askThrice("the model", func() (err error) {
		base, err = b.ask("Base URL, such as https://openrouter.ai/api/v1 or http://127.0.0.1:11434/v1", base)
		if err != nil {
			return err
		}
		if name, err = b.ask("Name of the model", name); err != nil {
			return err
		}
		if name == "" {
			return unusablef("write it as its provider does", "the name of the model is missing")
		}
		key, err := b.askKey("API key", varOpenAI)
		if err != nil {
			return err
		}
		m := modelEntry{Provider: "openai", BaseURL: base, Model: name, Fallback: []string{"offline"}}
		if key != "" {
			b.answers[varOpenAI], m.APIKey = key, "${"+varOpenAI+":-}"
		}
		err = b.applyChanges(config.Change{Path: []string{"models", "default"}, Value: m})
		if faults := (*config.Faults)(nil); errors.As(err, &faults) {
			return unusablef("correct the base URL", "%s", faults.List[0].Reason)
		} else if err != nil {
			return err
		}
		if err = b.verifyModel(ctx); err != nil {
			// Else the key of the provider that refused it would be kept for whatever is named next.
			delete(b.answers, varOpenAI)
		}
		return err
	})
}

// verifyModel calls the model once. It returns an unusableError when the model does not answer.
func (b *setup) verifyModel(ctx context.Context) error {
	b.sayTrying("the model")
	// A live call: only that shows whether key, name and address fit together.
	check := provider.CheckOne(ctx, b.cfg, "default")
	if err := check.Err; err != nil {
		return unusablef("look at the key, the model's name and its address, and whether this machine reaches it",
			"the model does not answer: %v", err)
	}
	b.say("model %s answers", check.Model)
	return nil
}

// askDiscord asks for a token and tries it. Where none is named, Discord is left out, which is no error.
func (b *setup) askDiscord(ctx context.Context) error {
	b.say("")
	return b.askThrice("the token for Discord", func() error {
		token, err := b.askKey("Discord bot token, from https://discord.com/developers/applications "+
			"→ your application → Bot → Reset Token",
			varDiscord)
		if err != nil || token == "" {
			return err
		}
		b.sayTrying("Discord")
		d := discord.New(discord.Options{
			Token:      token,
			APIBaseURL: b.cfg.Platforms.Discord.APIBaseURL.Reveal(),
			Log:        slog.New(slog.DiscardHandler),
		})
		id, err := d.Prove(ctx)
		if err != nil {
			return explainRefusal(err)
		}
		b.say("Discord accepts the token")
		// Missing permissions do not prevent a start, so they are notes.
		for _, f := range d.Check(ctx) {
			b.say("note: %s: %s, so that %s: %s", f.Where, f.Problem, f.Loses, f.Remedy)
		}
		b.answers[varDiscord], b.application = token, id
		return b.addReferences(reference{varDiscord, []string{"platforms", "discord", "token"}})
	})
}

// askSlack asks for the bot token and then for the app-level token, and tries each. Slack is left out unless both are
// there.
func (b *setup) askSlack(ctx context.Context) error {
	b.say("")
	options := slack.Options{
		Mode:       "socket",
		APIBaseURL: b.cfg.Platforms.Slack.APIBaseURL.Reveal(),
		Log:        slog.New(slog.DiscardHandler),
		Now:        time.Now,
	}
	ask := func(what, question, variable, prefix string, into *string) error {
		return b.askThrice("the "+what+" for Slack", func() error {
			token, err := b.askKey(question, variable)
			if err != nil || token == "" {
				return err
			}
			// The two tokens of Slack are easily mixed up, and their prefixes tell them apart.
			if !strings.HasPrefix(token, prefix) {
				return unusablef("copy the token that begins like this", "this is no %s, which begins with %s", what, prefix)
			}
			*into = token
			b.sayTrying("Slack")
			if err := slack.New(options).Prove(ctx); err != nil {
				*into = ""
				return explainRefusal(err)
			}
			b.say("Slack accepts the %s", what)
			return nil
		})
	}
	err := ask("bot token",
		"Slack bot token (xoxb-…), from https://api.slack.com/apps → your app → OAuth & Permissions",
		varSlackBot, "xoxb-", &options.BotToken)
	if err != nil || options.BotToken == "" {
		return err
	}
	err = ask("app-level token",
		"Slack app-level token (xapp-…), from Basic Information → App-Level Tokens, scope connections:write",
		varSlackApp, "xapp-", &options.AppToken)
	if err != nil {
		return err
	}
	if options.AppToken == "" {
		b.say("without an app-level token Slack is skipped")
		return nil
	}
	for _, f := range slack.New(options).Check(ctx) {
		b.say("note: %s, so that this is lost: %s: %s", f.Problem, f.Lost, f.Remedy)
	}
	b.answers[varSlackBot], b.answers[varSlackApp] = options.BotToken, options.AppToken
	return b.addReferences(reference{varSlackBot, []string{"platforms", "slack", "botToken"}},
		reference{varSlackApp, []string{"platforms", "slack", "appToken"}})
}

// explainRefusal turns the error of a platform into an unusableError with its remedy.
func explainRefusal(err error) error {
	var setup *chat.SetupError
	if errors.As(err, &setup) {
		return unusablef(setup.Remedy, "%s", setup.Reason)
	}
	return unusablef("look at the token, and whether this machine reaches it", "%v", err)
}

// writeFiles asks before it changes existing files, and writes both.
func (b *setup) writeFiles() error {
	for _, name := range slices.Sorted(maps.Keys(b.answers)) {
		text, err := config.SetVariable(b.dotEnv.text, name, b.answers[name])
		if err != nil {
			return fmt.Errorf("%s: %w", b.dotEnv.path, err)
		}
		b.dotEnv.text = text
	}
	b.say("")
	// write replaces the file as a whole or not at all. A new file is readable by its owner alone, because .env
	// holds secrets and config.json may.
	var write []setupFile
	for _, f := range []setupFile{b.dotEnv, b.config} { // the configuration last: it needs the other
		if f.exists && string(f.before) == string(f.text) {
			b.say("%s is unchanged", f.path)
			continue
		}
		if f.exists {
			yes, err := b.confirm(fmt.Sprintf("%s exists already. Change it? Everything that was not asked about stays as it is",
				f.path))
			if err != nil {
				return err
			}
			if !yes {
				b.say("%s is unchanged: your answers are not in it", f.path)
				continue
			}
		}
		write = append(write, f)
	}
	for _, f := range write {
		if err := f.write(); err != nil {
			return fmt.Errorf("write %s: %w", f.path, err)
		}
		b.say("%s is written", f.path)
	}
	return nil
}

// write puts the file there as a whole or not at all, readable to its owner alone: .env
// holds secrets, and config.json may come to.
func (f setupFile) write() error {
	path := f.path
	// A rename would replace the link, not the file that it leads to.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	t, err := os.CreateTemp(filepath.Dir(path), ".ravenbot-init-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(t.Name())
	_, err = t.Write(f.text)
	// config.json keeps its mode, such as group access; .env never gets more than 0600.
	if info, statErr := os.Stat(path); f.exists && statErr == nil && filepath.Base(path) != ".env" {
		err = errors.Join(err, t.Chmod(info.Mode().Perm()))
	}
	if err := errors.Join(err, t.Sync(), t.Close()); err != nil {
		return err
	}
	if f.exists {
		return os.Rename(t.Name(), path)
	}
	// A link fails where the file exists meanwhile; a rename would overwrite it.
	if err := os.Link(t.Name(), path); errors.Is(err, fs.ErrExist) {
		return errors.New("another program has just created it")
	} else if err != nil {
		return os.Rename(t.Name(), path) // a file system without hard links
	}
	return nil
}

// printNextSteps prints what to do after init.
func (b *setup) printNextSteps() {
	for _, name := range slices.Sorted(maps.Keys(b.answers)) {
		// The environment wins over .env, so the new value would have no effect.
		if value, ok := b.c.Env(name); ok && value != b.answers[name] {
			b.say("note: %s is set to something else in the environment, which wins over .env: unset it", name)
		}
	}
	b.say("\nWhat to do next:")
	if b.application != "" {
		b.say("- add the bot to your Discord server: %s", discord.Invite(b.application))
	}
	b.say("- start the bot: ravenbot run%s", b.c.configFlag())
	b.say("- check the setup: ravenbot doctor%s", b.c.configFlag())
	if b.answers[varSlackBot] != "" {
		b.say("- on Slack, say /invite @ravenbot in a channel")
		return
	}
	// The link has some 3,500 characters, too many to be found again among the rest.
	b.say("- to use it on Slack, too, create the app with the link of ravenbot slack manifest --url, and run init again")
}
