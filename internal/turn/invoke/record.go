package invoke

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"ravenbot/internal/core/text"
	"ravenbot/internal/core/tool"
	"ravenbot/internal/store"
)

const (
	maxArgs     = 16 << 10  // bytes of arguments in a record
	maxResult   = 256 << 10 // bytes of a result that are kept
	maskedValue = "***"
	// idBytes makes an id short enough to be read out and long enough to be found in a log.
	idBytes = 4
)

// record returns the record of a call that has ended, with secrets masked.
func (i *Invoker) record(
	in tool.Intent,
	res tool.Result,
	note string,
	began time.Time,
	shown int,
) store.ToolCall {
	var spec tool.Spec
	if in.Tool.Tool != nil {
		spec = in.Tool.Tool.Spec()
	}
	c := store.ToolCall{
		ID:           in.Caller.Call,
		Turn:         in.Caller.Turn,
		Conversation: in.Caller.Conversation,
		User:         userID(in.Caller),
		Server:       spec.Server,
		Tool:         in.Tool.Name,
		Args:         i.maskArgs(in.Args),
		NotRun:       res.NotRun,
		Note:         note,
		Began:        began,
		Took:         i.o.Now().Sub(began) - in.Waited,
		Waited:       in.Waited,
		Origin:       in.Caller.Origin(),
	}
	// Masked before it is cut: half of a secret would not be found.
	beginning := text.Cut(i.o.Rules.Mask(res.Text), shown)
	if res.IsError {
		c.Error = beginning
	} else {
		c.Result = beginning
	}
	if len(res.Text) > shown {
		// Whole is not masked: the model reads on in it, and has seen the beginning unmasked.
		c.ResultID, c.Whole = resultID(began), text.Cut(res.Text, maxResult)
	}
	return c
}

// userID returns an ID of the caller that is unique over all platforms; empty: several
// people, or nobody.
func userID(c tool.Caller) string {
	if c.User.ID == "" {
		return ""
	}
	return c.Conversation.Platform + "/" + c.User.ID
}

// resultID returns a new id. Ids sort by time, so that the oldest can be deleted first, and
// cannot be guessed.
func resultID(at time.Time) string {
	return fmt.Sprintf("%011x%s", at.UnixMilli(), text.RandomID(idBytes))
}

// secretName matches names of arguments whose values are secret.
var secretName = text.Pattern(`(?i)passw|passphrase|secret|token|api_?-?key|authorization|credential|private_?-?key|cookie`)

// maskArgs returns arguments with secrets masked; of ones too long to keep it returns the
// size.
func (i *Invoker) maskArgs(args json.RawMessage) json.RawMessage {
	if len(args) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return describeArgs("arguments that are no JSON")
	}
	out, err := json.Marshal(maskValue(v))
	if err != nil || len(out) > maxArgs {
		return describeArgs(fmt.Sprintf("%d bytes of arguments", len(args)))
	}
	// A secret that contains a quote or a bracket may break the JSON when it is replaced.
	if out = []byte(i.o.Rules.Mask(string(out))); !json.Valid(out) {
		return describeArgs("arguments that hold a secret")
	}
	return out
}

// describeArgs returns a JSON string that replaces arguments.
func describeArgs(what string) json.RawMessage {
	b, _ := json.Marshal("(" + what + ")") // a string always can
	return b
}

// maskValue masks strings under secret names in a decoded value, and returns it.
func maskValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			if _, text := inner.(string); text && secretName().MatchString(k) {
				v[k] = maskedValue
			} else {
				v[k] = maskValue(inner)
			}
		}
	case []any:
		for n := range v {
			v[n] = maskValue(v[n])
		}
	}
	return v
}
