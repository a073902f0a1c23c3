package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ravenbot/internal/core/chat"
	"ravenbot/internal/core/conversation"
	"ravenbot/internal/core/llm"
	"ravenbot/internal/ops/config"
	"ravenbot/internal/store"
	"ravenbot/internal/turn/agent"
)

func replayFlags(c *invocation) {
	jsonFlag(c)
	c.flags.String("model", "", "the `NAME` of a model of the configuration, instead of the agent's")
	c.flags.Bool("request", false, "ask no model, show the request that would be sent")
}

// offlineModel is the provider that asks no model.
const offlineModel = "offline"

// replayTurn plays a turn again over a copy of the store, so that nothing it does can last.
func replayTurn(ctx context.Context, c *invocation) error {
	at, err := chat.ParseAddress(c.args[0])
	if err != nil {
		return usageErrorf("%v", err)
	}
	cfg, err := c.loadConfig()
	if err != nil {
		return err
	}
	model := c.flagText("model")
	if err := checkModel(cfg, "--model", model); err != nil {
		return err
	}
	replay, err := c.replayOverCopy(ctx, cfg, at, model)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s has no turn %q: name its number, its id as in the log, or %q", at, c.args[1], agent.LastTurn)
	}
	if err != nil {
		return err
	}
	if c.json {
		return writeJSON(c.Out, newReplayOutput(replay))
	}
	c.writeReplay(replay)
	return nil
}

// replayOutput is what replay --json prints.
type replayOutput struct {
	agent.Replay
	RequestTokens int           `json:"requestTokens"` // about
	System        string        `json:"system"`
	Tools         []replayTool  `json:"tools"`
	Messages      []llm.Message `json:"messages"`
}

// replayTool is a tool as it was declared.
type replayTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

// newReplayOutput returns a replay as replay --json prints it, with the request that Replay itself leaves out.
func newReplayOutput(r agent.Replay) replayOutput {
	out := replayOutput{
		Replay:        r,
		RequestTokens: countTokens(r.Request).sum(),
		System:        r.Request.System,
		Tools:         []replayTool{},
		Messages:      r.Request.Messages,
	}
	for _, t := range r.Request.Tools {
		out.Tools = append(out.Tools, replayTool{t.Name, t.Description, t.Schema})
	}
	return out
}

// checkModel returns a usage error where a flag names a model that is not configured or has no key. It returns nil for
// "".
func checkModel(cfg *config.Config, flag, name string) error {
	m, ok := cfg.Models[name]
	switch {
	case name == "":
		return nil
	case !ok:
		return usageErrorf("%s %q is not a model of %s", flag, name, cfg.Path)
	case m.KeyMissing:
		return usageErrorf("the model %q of %s has no key", name, flag)
	}
	return nil
}

// replayOverCopy copies the store to a folder of its own, plays the turn over the copy, and removes the folder. It
// returns an error that wraps store.ErrNotFound where the conversation has no such turn. model may be "": the agent's
// is asked then.
func (c *invocation) replayOverCopy(
	ctx context.Context,
	cfg *config.Config,
	at chat.Address,
	model string,
) (replay agent.Replay, err error) {
	folder, err := os.MkdirTemp("", "ravenbot-replay-")
	if err != nil {
		return replay, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, "store.db")
	if err := copyStore(ctx, c, cfg, file); err != nil {
		return replay, err
	}
	// What agents know from uploaded files stands beside the store.
	if err := linkUploads(cfg.StorePath(), file); err != nil {
		return replay, err
	}
	copied := *cfg
	copied.Store = config.Mask(file)
	a, err := openLocal(c, &copied)
	if err != nil {
		return replay, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	o := agent.ReplayOptions{Model: model, Ask: !c.flagOn("request") && (model != "" || hasModel(cfg))}
	return a.Replay(ctx, at, c.args[1], o)
}

// uploadsSuffix is added to the path of a store for the folder of uploaded files.
const uploadsSuffix = ".files"

// linkUploads makes the uploaded files of one store those of another.
func linkUploads(from, to string) error {
	folder, err := filepath.Abs(from + uploadsSuffix)
	if err != nil {
		return err
	}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.Symlink(folder, to+uploadsSuffix)
}

// hasModel reports whether a model of the configuration has all that it needs to be asked.
func hasModel(cfg *config.Config) bool {
	for _, m := range cfg.Models {
		if m.Provider != offlineModel && !m.KeyMissing {
			return true
		}
	}
	return false
}

// requestTokens is about how many tokens the parts of a request have.
type requestTokens struct{ system, tools, messages int }

func (t requestTokens) sum() int { return t.system + t.tools + t.messages }

// countTokens estimates the tokens of a request from its bytes.
func countTokens(q llm.Request) requestTokens {
	t := requestTokens{system: len(q.System), messages: conversation.Turn{Messages: q.Messages}.Size()}
	for _, spec := range q.Tools {
		t.tools += len(spec.Name) + len(spec.Description) + len(spec.Schema)
	}
	const n = conversation.BytesPerToken
	return requestTokens{t.system / n, t.tools / n, t.messages / n}
}

// writeReplay prints the request where no model was asked, and else the new answer beside the old one.
func (c *invocation) writeReplay(r agent.Replay) {
	t := countTokens(r.Request)
	fmt.Fprintf(c.Out, "Question to agent %s:\n%s\n\n", r.Agent, indent(r.Question))
	fmt.Fprintf(c.Out, "Request: about %d tokens (system %d, tools %d, messages %d)\n",
		t.sum(), t.system, t.tools, t.messages)
	if r.NewModel == "" {
		fmt.Fprintf(c.Out, "\nSystem:\n%s\n\n", indent(r.Request.System))
		for _, spec := range r.Request.Tools {
			fmt.Fprintf(c.Out, "Tool %s\n", spec.Name)
		}
		for _, m := range r.Request.Messages {
			fmt.Fprintf(c.Out, "\n%s:\n%s\n", m.Role, indent(messageText(m)))
		}
	}
	fmt.Fprintf(c.Out, "\nOld answer (%s):\n%s\n", orUnknown(r.OldModel), indent(r.Old))
	if r.NewModel == "" {
		fmt.Fprintln(c.Out, "\nNo model was asked.")
	} else {
		fmt.Fprintf(c.Out, "\nNew answer (%s, %d tokens in, %d out):\n%s\n",
			r.NewModel, r.Usage.Input, r.Usage.Output, indent(r.New))
	}
	for _, call := range r.Missing {
		fmt.Fprintf(c.Out, "\nNo record of this call, the model was told so: %s\n", call)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(c.Out, "\n%s\n", note)
	}
}

// orUnknown returns the name of a model, or words for a turn that was recorded without one.
func orUnknown(model string) string {
	if model == "" {
		return "model not recorded"
	}
	return model
}

// indent returns s with two blanks before each line, and none around it.
func indent(s string) string { return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

// messageText returns a message of a request as text, with its calls and results.
func messageText(m llm.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text)
		if p.Call != nil {
			fmt.Fprintf(&b, "[call %s %s]\n", p.Call.Name, p.Call.Args)
		}
		if p.Result != nil {
			fmt.Fprintf(&b, "[result of %s]\n%s\n", p.Result.Name, p.Result.Content)
		}
	}
	return b.String()
}
